/*
 * Quickselect by compression: a pass over the values packs those above the pivot into one place and those below into
 * another, sixteen at a time; a last pass over all packs the indices.
 */
#include "kernels/v16_avx512.h"

enum { FEW = 32, SAMPLES = 16 };

static void sort_descending(float *values, int32_t n)
{
    for (int32_t i = 1; i < n; i++) {
        const float moving = values[i];
        int32_t at = i;
        for (; at > 0 && values[at - 1] < moving; at--) values[at] = values[at - 1];
        values[at] = moving;
    }
}

/* Of values [n], all above FEW, one that ranks about where `rank` is. */
static float choose_pivot(const float *values, int32_t n, int32_t rank)
{
    float samples[SAMPLES];
    for (int32_t i = 0; i < SAMPLES; i++) samples[i] = values[(int64_t)i * n / SAMPLES];
    sort_descending(samples, SAMPLES);
    return samples[(int64_t)rank * SAMPLES / (n + 1)];
}

/* A compressed vector through a register and a whole store, since compressing to memory is slow where it is microcode:
 * fifteen values past the end are overwritten. */
PF_V16 int32_t pack(float *out, __mmask16 mask, __m512 values)
{
    _mm512_storeu_ps(out, _mm512_maskz_compress_ps(mask, values));
    return __builtin_popcount(mask);
}

/* How a pass split its values. */
typedef struct {
    int32_t n_above, n_below;
} split;

/* Those above the pivot to `above`, which may be `values` itself, those below to `below`. */
static split split_at(const float *values, int32_t n, float pivot, float *above, float *below)
{
    const __m512 vpivot = _mm512_set1_ps(pivot);
    split s = { 0, 0 };
    for (int32_t i = 0; i < n; i += 16) {
        const __mmask16 valid = pf_v16_first(n - i);
        const __m512 v = _mm512_maskz_loadu_ps(valid, values + i);
        const __mmask16 is_above = _mm512_mask_cmp_ps_mask(valid, v, vpivot, _CMP_GT_OQ);
        const __mmask16 is_below = _mm512_mask_cmp_ps_mask(valid, v, vpivot, _CMP_LT_OQ);
        s.n_above += pack(above + s.n_above, is_above, v);
        s.n_below += pack(below + s.n_below, is_below, v);
    }
    return s;
}

/* The rank-th largest of `from` [n], 1 <= rank <= n. Spoils both buffers, of which `from` is one. */
static float select_rank(float *from, float *other, int32_t n, int32_t rank)
{
    while (n > FEW) {
        const float pivot = choose_pivot(from, n, rank);
        const split s = split_at(from, n, pivot, from, other);
        const int32_t n_equal = n - s.n_above - s.n_below;
        if (rank <= s.n_above) {
            n = s.n_above;
        } else if (rank <= s.n_above + n_equal) {
            return pivot;
        } else {
            rank -= s.n_above + n_equal;
            n = s.n_below;
            float *swap = from;
            from = other;
            other = swap;
        }
    }
    sort_descending(from, n);
    return from[rank - 1];
}

int32_t pf_top_f32_avx512(const float *values, int32_t n, int32_t wanted, int32_t *ids, float *top, void *scratch)
{
    float *first = scratch, *second = first + n + 16;
    const int32_t n_positive = split_at(values, n, 0.0f, first, second).n_above;
    const int32_t n_taken = wanted < n_positive ? wanted : n_positive;
    if (n_taken == 0) return 0;
    const float boundary = select_rank(first, second, n_positive, n_taken);

    const __m512 vboundary = _mm512_set1_ps(boundary);
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    int32_t n_above = 0;
    for (int32_t i = 0; i < n; i += 16) {
        const __m512 v = pf_v16_load_first(values + i, n - i);
        n_above += __builtin_popcount(_mm512_cmp_ps_mask(v, vboundary, _CMP_GT_OQ));
    }
    int32_t n_equal = n_taken - n_above, n_out = 0; /* how many of those at the boundary are wanted */
    for (int32_t i = 0; n_out < n_taken; i += 16) {
        const __m512 v = pf_v16_load_first(values + i, n - i);
        __mmask16 mask = _mm512_cmp_ps_mask(v, vboundary, _CMP_GT_OQ);
        uint32_t equal = _mm512_cmp_ps_mask(v, vboundary, _CMP_EQ_OQ);
        for (; equal != 0 && n_equal > 0; equal &= equal - 1, n_equal--) mask |= (__mmask16)(equal & -equal);
        if (mask == 0) continue;
        const int32_t n_here = __builtin_popcount(mask);
        const __mmask16 here = pf_v16_first(n_here);
        const __m512i index = _mm512_add_epi32(_mm512_set1_epi32(i), lanes);
        _mm512_mask_storeu_epi32(ids + n_out, here, _mm512_maskz_compress_epi32(mask, index));
        _mm512_mask_storeu_ps(top + n_out, here, _mm512_maskz_compress_ps(mask, v));
        n_out += n_here;
    }
    return n_out;
}
