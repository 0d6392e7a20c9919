#include "kernels/vec/v16_avx2.h"

#include "kernels/sample/bounds_v16.h"

float pf_bounds_split_avx2(const float *x, int32_t n, bool to_bf16, float *whole, float *rest)
{
    return to_bf16 ? bounds_split(x, n, true, whole, rest) : bounds_split(x, n, false, whole, rest);
}

float pf_bounds_floor_avx2(float *coarse, const float *rest, const float *error, float norm, int32_t n)
{
    return bounds_floor(coarse, rest, error, norm, n);
}

void pf_bounds_mark_avx2(uint8_t *marks, const float *coarse, const float *error, float norm, float floor, int32_t n)
{
    bounds_mark(marks, coarse, error, norm, floor, n);
}
