/* Checks the sampling parameters of a request, pf_sampling of include/pilotfish_peer.h. */
#ifndef PF_BASE_SAMPLING_PARAMETERS_H
#define PF_BASE_SAMPLING_PARAMETERS_H

#include "base/status.h"

/* PF_INVALID names the parameter that is out of range: temperature >= 0 and finite, top_k >= 0, 0 <= top_p <= 1,
 * 0 <= min_p <= 1. */
PF_MUST_USE pf_status pf_sampling_check(const pf_sampling *sampling, pf_error *error);

#endif
