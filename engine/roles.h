/* The roles of an engine, with the secrets that a served one needs. Internal to engine/. */
#ifndef PF_ENGINE_ROLES_H
#define PF_ENGINE_ROLES_H

#include "engine/pilotfish.h"

/* secret_seed: what the role draws from where a request brings no seed of its own, as on the wire; from the system's
 * entropy when strangers are served, 0 in this process, where requests bring theirs. Otherwise as the public ones. */
PF_MUST_USE pf_status pf_engine_make_verifier(pf_engine *engine, uint64_t simulate_ns, uint64_t secret_seed,
                                              pf_peer **out, pf_error *error);
PF_MUST_USE pf_status pf_engine_make_drafter(pf_engine *engine, uint64_t simulate_ns, uint64_t secret_seed,
                                             pf_peer **out, pf_error *error);

#endif
