#include "rpc/service.h"

const pf_service_names pf_services[PF_N_SERVICES] = {
    [PF_SERVICE_DRAFTER] = { "pilotfish.v1.Drafter", "/pilotfish.v1.Drafter/Draft",
                             "/pilotfish.v1.Drafter/GetModelInfo" },
    [PF_SERVICE_VERIFIER] = { "pilotfish.v1.Verifier", "/pilotfish.v1.Verifier/Verify",
                              "/pilotfish.v1.Verifier/GetModelInfo" },
};
