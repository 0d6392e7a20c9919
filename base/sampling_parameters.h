/* How a request wants its tokens chosen: what the model applies (model/sampling/sampling.h) and the wire carries (proto/). */
#ifndef PF_BASE_SAMPLING_PARAMETERS_H
#define PF_BASE_SAMPLING_PARAMETERS_H

#include <stdint.h>

#include "base/status.h"

/* From logits to a distribution, in transformers' order: temperature, top-k, top-p, min-p. All zero is greedy. */
typedef struct {
    float temperature; /* 0: greedy; what is below is checked and plays no part */
    int32_t top_k;     /* 0: off */
    float top_p;       /* 0 or 1: off */
    float min_p;       /* 0: off */
    uint64_t seed;
} pf_sampling;

/* PF_INVALID names the parameter that is out of range: temperature >= 0 and finite, top_k >= 0, 0 <= top_p <= 1,
 * 0 <= min_p <= 1. */
PF_MUST_USE pf_status pf_sampling_check(const pf_sampling *sampling, pf_error *error);

#endif
