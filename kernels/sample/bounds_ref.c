/* The definition of bounds. */
#include <math.h>

#include "kernels/vec/exp.h"
#include "kernels/implementations.h"

float pf_bounds_split_ref(const float *x, int32_t n, bool to_bf16, float *whole, float *rest)
{
    float lane[PF_LANES] = { 0 }, largest = 0.0f;
    for (int32_t i = 0; i < n; i++) {
        whole[i] = to_bf16 ? pf_bf16_to_f32(pf_bf16_from_f32(x[i])) : x[i];
        lane[i % PF_LANES] = fmaf(whole[i], whole[i], lane[i % PF_LANES]);
        if (fabsf(whole[i]) > largest) largest = fabsf(whole[i]);
    }
    const float step = largest / 127.0f, factor = 127.0f / largest;
    for (int32_t i = 0; i < n; i++) /* no steps are 0, never -0, so that -0 leaves -0 */
        rest[i] = fmaf(-step, rintf(whole[i] * factor) + 0.0f, whole[i]);
    return pf_bounds_norm(pf_tree_sum(lane));
}

float pf_bounds_floor_ref(float *coarse, const float *rest, const float *error, float norm, int32_t n)
{
    float best = -INFINITY;
    for (int32_t i = 0; i < n; i++) {
        coarse[i] += rest[i];
        const float low = fmaf(-norm, error[i], coarse[i]);
        if (low > best) best = low;
    }
    return best + 0.0f;
}

void pf_bounds_mark_ref(uint8_t *marks, const float *coarse, const float *error, float norm, float floor, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (!(fmaf(norm, error[i], coarse[i]) < floor)) marks[i / PF_BOUNDS_BLOCK] = 1;
}
