/* Bounds in vectors of sixteen. */
#include <math.h>

#include "kernels/vec/v16.h"

/* 1.5 * 2^23: a number below 2^22 that it is added to is rounded to an integer, ties to even. */
#define BOUNDS_SHIFT 0x1.8p23f

PF_V16 pf_v16 bounds_rest(pf_v16 whole, pf_v16 step, pf_v16 factor)
{
    const pf_v16 shift = pf_v16_set(BOUNDS_SHIFT);
    const pf_v16 steps = pf_v16_sub(pf_v16_add(pf_v16_mul(whole, factor), shift), shift);
    return pf_v16_fma(pf_v16_negate(step), steps, whole);
}

PF_V16 float bounds_split(const float *x, int32_t n, bool to_bf16, float *whole, float *rest)
{
    pf_v16 sum = pf_v16_set(0.0f), largest = pf_v16_set(0.0f);
    for (int32_t i = 0; i < n; i += 16) {
        const pf_v16 v = pf_v16_load_first(x + i, n - i), as_it_counts = to_bf16 ? pf_v16_to_bf16(v) : v;
        pf_v16_store_first(whole + i, as_it_counts, n - i);
        sum = pf_v16_fma(as_it_counts, as_it_counts, sum);
        largest = pf_v16_max(pf_v16_max(as_it_counts, pf_v16_negate(as_it_counts)), largest);
    }
    const float m = pf_v16_largest(largest);
    const pf_v16 step = pf_v16_set(m / 127.0f), factor = pf_v16_set(127.0f / m);
    for (int32_t i = 0; i < n; i += 16)
        pf_v16_store_first(rest + i, bounds_rest(pf_v16_load_first(whole + i, n - i), step, factor), n - i);
    return pf_bounds_norm(pf_v16_tree_sum(sum));
}

PF_V16 float bounds_floor(float *coarse, const float *rest, const float *error, float norm, int32_t n)
{
    const pf_v16 minus_norm = pf_v16_set(-norm), none = pf_v16_set(-INFINITY);
    pf_v16 best = none;
    for (int32_t i = 0; i < n; i += 16) {
        const pf_v16 sum =
            pf_v16_add(pf_v16_load_first_or(coarse + i, n - i, none), pf_v16_load_first(rest + i, n - i));
        pf_v16_store_first(coarse + i, sum, n - i);
        best = pf_v16_max(pf_v16_fma(minus_norm, pf_v16_load_first(error + i, n - i), sum), best);
    }
    return pf_v16_largest(best) + 0.0f;
}

/* Of sixteen logits, bit by bit: those below the floor, and those behind the n-th, which are not there. */
PF_V16 uint32_t bounds_below(const float *coarse, const float *error, pf_v16 norm, pf_v16 floor, int32_t n)
{
    const pf_v16 high = pf_v16_fma(norm, pf_v16_load_first(error, n), pf_v16_load_first(coarse, n));
    const uint32_t absent = n >= 16 ? 0 : 0xFFFFu << n;
    return (pf_v16_bits(pf_v16_above(floor, high)) | absent) & 0xFFFFu;
}

PF_V16 void bounds_mark(uint8_t *marks, const float *coarse, const float *error, float norm, float floor, int32_t n)
{
    const pf_v16 vnorm = pf_v16_set(norm), vfloor = pf_v16_set(floor);
    for (int32_t i = 0; i < n; i += PF_BOUNDS_BLOCK) {
        uint32_t below = bounds_below(coarse + i, error + i, vnorm, vfloor, n - i);
        if (n - i > 16) below &= bounds_below(coarse + i + 16, error + i + 16, vnorm, vfloor, n - i - 16);
        if (below != 0xFFFF) marks[i / PF_BOUNDS_BLOCK] = 1;
    }
}

float PF_FOR_ISA(pf_bounds_split)(const float *x, int32_t n, bool to_bf16, float *whole, float *rest)
{
    return to_bf16 ? bounds_split(x, n, true, whole, rest) : bounds_split(x, n, false, whole, rest);
}

float PF_FOR_ISA(pf_bounds_floor)(float *coarse, const float *rest, const float *error, float norm, int32_t n)
{
    return bounds_floor(coarse, rest, error, norm, n);
}

void PF_FOR_ISA(pf_bounds_mark)(uint8_t *marks, const float *coarse, const float *error, float norm, float floor,
                                int32_t n)
{
    bounds_mark(marks, coarse, error, norm, floor, n);
}
