#include "base/sampling_parameters.h"

#include <math.h>

pf_status pf_sampling_check(const pf_sampling *sampling, pf_error *error)
{
    if (!(sampling->temperature >= 0.0f) || !isfinite(sampling->temperature))
        return pf_fail(error, PF_INVALID, "temperature is %g, expected a finite number, 0 or more",
                       (double)sampling->temperature);
    if (sampling->top_k < 0)
        return pf_fail(error, PF_INVALID, "top_k is %d, expected 0 (off) or more", sampling->top_k);
    if (!(sampling->top_p >= 0.0f && sampling->top_p <= 1.0f))
        return pf_fail(error, PF_INVALID, "top_p is %g, expected 0 (off) to 1 (off)", (double)sampling->top_p);
    if (!(sampling->min_p >= 0.0f && sampling->min_p <= 1.0f))
        return pf_fail(error, PF_INVALID, "min_p is %g, expected 0 (off) to 1", (double)sampling->min_p);
    return PF_OK;
}
