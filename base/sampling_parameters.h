/* Checks the sampling parameters of a request, pf_sampling and pf_logit_rules of include/pilotfish_peer.h. */
#ifndef PF_BASE_SAMPLING_PARAMETERS_H
#define PF_BASE_SAMPLING_PARAMETERS_H

#include "base/status.h"

/* PF_INVALID names the parameter that is out of range: temperature >= 0 and finite, top_k >= 0, 0 <= top_p <= 1,
 * 0 <= min_p <= 1, 0 <= typical_p <= 1. */
PF_MUST_USE pf_status pf_sampling_check(const pf_sampling *sampling, pf_error *error);

/* PF_INVALID likewise: penalties that are not finite or out of range, counts that are negative or too large, biases that are NaN or
 * plus infinity, their ids outside of 0 .. n_ids - 1. */
PF_MUST_USE pf_status pf_logit_rules_check(const pf_logit_rules *rules, int32_t n_ids, pf_error *error);

/* PF_INVALID likewise: 0 <= epsilon <= 1, 0 <= delta <= 1. */
PF_MUST_USE pf_status pf_typical_check(const pf_typical *typical, pf_error *error);

/* With what zero stands for: the values of the authors' code. */
pf_typical pf_typical_resolve(pf_typical typical);

/* Whether they change any logit. */
bool pf_logit_rules_are_active(const pf_logit_rules *rules);

#endif
