/*
 * Three walks over the values. The first takes the maxima of blocks: if `wanted` blocks have one of at least b, as many
 * values are at least b. The second packs those that are, a few more than are wanted, and quickselect by compression finds the
 * boundary among them. The third collects what reaches it, with the indices.
 */
#include <math.h>

#include "kernels/vec/v16_avx512.h"

enum {
    FEW = 48,            /* values among which a rank is found by counting */
    SAMPLES = 16,        /* of which a pivot is one */
    BLOCKS_FOR_EACH = 4, /* of the values wanted: more blocks, a bound nearer to the boundary */
    LEAST_BLOCK = 4,     /* values in a block; below, all are packed */
};

/* A value of some rank, and how many are larger. */
typedef struct {
    float value;
    int32_t n_above;
} ranked;

/* Of values [n], 1 <= rank <= n <= 16 * n_vectors, the rank-th largest. */
PF_V16 ranked select_by_counting(const float *values, int32_t n, int32_t rank, int32_t n_vectors)
{
    __m512 v[FEW / 16];
    for (int32_t j = 0; j < n_vectors; j++)
        v[j] = pf_v16_load_first_or(values + j * 16, n - j * 16, _mm512_set1_ps(-INFINITY));
    ranked best = { -INFINITY, 0 };
    for (int32_t i = 0; i < n; i++) {
        const __m512 candidate = _mm512_set1_ps(values[i]);
        int32_t n_above = 0, n_equal = 0;
        for (int32_t j = 0; j < n_vectors; j++) {
            n_above += __builtin_popcount(_mm512_cmp_ps_mask(v[j], candidate, _CMP_GT_OQ));
            n_equal += __builtin_popcount(_mm512_cmp_ps_mask(v[j], candidate, _CMP_EQ_OQ));
        }
        if (n_above < rank && rank <= n_above + n_equal) best = (ranked){ values[i], n_above };
    }
    return best;
}

/* Of values [n], all above FEW, one that ranks about where `rank` is. */
static float choose_pivot(const float *values, int32_t n, int32_t rank)
{
    float samples[SAMPLES];
    for (int32_t i = 0; i < SAMPLES; i++) samples[i] = values[(int64_t)i * n / SAMPLES];
    const int32_t sample_rank = 1 + (int32_t)((int64_t)rank * SAMPLES / (n + 1));
    return select_by_counting(samples, SAMPLES, sample_rank, 1).value;
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

/* The rank-th largest of `from` [n], 1 <= rank <= n, no NaN among them. Spoils both buffers, of which `from` is one. */
static ranked select_rank(float *from, float *other, int32_t n, int32_t rank)
{
    int32_t n_passed = 0; /* larger than all that are left */
    while (n > FEW) {
        const float pivot = choose_pivot(from, n, rank);
        const split s = split_at(from, n, pivot, from, other);
        const int32_t n_equal = n - s.n_above - s.n_below;
        if (rank <= s.n_above) {
            n = s.n_above;
        } else if (rank <= s.n_above + n_equal) {
            return (ranked){ pivot, n_passed + s.n_above };
        } else {
            rank -= s.n_above + n_equal;
            n_passed += s.n_above + n_equal;
            n = s.n_below;
            float *swap = from;
            from = other;
            other = swap;
        }
    }
    const ranked last = select_by_counting(from, n, rank, FEW / 16);
    return (ranked){ last.value, n_passed + last.n_above };
}

/* A value above the floor that at least `wanted` of values [n] reach; the floor where none comes to light. */
static float find_bound(const float *values, int32_t n, int32_t wanted, float floor, float *first, float *second)
{
    const int64_t n_chunks = ((int64_t)wanted * BLOCKS_FOR_EACH + 15) / 16, vectors = n / 16 / n_chunks;
    if (vectors < LEAST_BLOCK) return floor;
    const __m512 vfloor = _mm512_set1_ps(floor);
    int32_t n_maxima = 0;
    for (int64_t c = 0; c < n_chunks; c++) {
        const float *at = values + c * vectors * 16;
        __m512 top = vfloor;
        for (int64_t i = 0; i < vectors; i++) top = _mm512_max_ps(_mm512_loadu_ps(at + i * 16), top); /* a NaN loses */
        n_maxima += pack(first + n_maxima, _mm512_cmp_ps_mask(top, vfloor, _CMP_GT_OQ), top);
    }
    return n_maxima < wanted ? floor : select_rank(first, second, n_maxima, wanted).value;
}

/* Those of values [n] that reach the bound; where it is the floor itself, that are above. */
static int32_t pack_candidates(const float *values, int32_t n, float bound, float floor, float *out)
{
    const __m512 vbound = _mm512_set1_ps(bound), vfloor = _mm512_set1_ps(floor);
    int32_t n_out = 0;
    for (int32_t i = 0; i < n; i += 16) {
        const __m512 v = pf_v16_load_first_or(values + i, n - i, vfloor);
        const __mmask16 mask = _mm512_cmp_ps_mask(v, vbound, _CMP_GE_OQ) & _mm512_cmp_ps_mask(v, vfloor, _CMP_GT_OQ);
        if (mask) n_out += pack(out + n_out, mask, v);
    }
    return n_out;
}

/* The first n_taken in order of index of what is above the boundary, and of n_equal that lie at it. */
static void collect(const float *values, int32_t n, float boundary, int32_t n_equal, int32_t n_taken, int32_t *ids,
                    float *top)
{
    const __m512 vboundary = _mm512_set1_ps(boundary);
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (int32_t i = 0, n_out = 0; n_out < n_taken; i += 16) {
        const __m512 v = pf_v16_load_first_or(values + i, n - i, _mm512_set1_ps(-INFINITY));
        if (_mm512_cmp_ps_mask(v, vboundary, _CMP_GE_OQ) == 0) continue;
        __mmask16 mask = _mm512_cmp_ps_mask(v, vboundary, _CMP_GT_OQ);
        uint32_t equal = _mm512_cmp_ps_mask(v, vboundary, _CMP_EQ_OQ);
        for (; equal != 0 && n_equal > 0; equal &= equal - 1, n_equal--) mask |= (__mmask16)(equal & -equal);
        const int32_t n_here = __builtin_popcount(mask);
        const __mmask16 here = pf_v16_first(n_here);
        const __m512i index = _mm512_add_epi32(_mm512_set1_epi32(i), lanes);
        _mm512_mask_storeu_epi32(ids + n_out, here, _mm512_maskz_compress_epi32(mask, index));
        _mm512_mask_storeu_ps(top + n_out, here, _mm512_maskz_compress_ps(mask, v));
        n_out += n_here;
    }
}

int32_t pf_top_f32_avx512(const float *values, int32_t n, int32_t wanted, float floor, int32_t *ids, float *top,
                          void *scratch)
{
    float *first = scratch, *second = first + n + 16;
    const float bound = find_bound(values, n, wanted, floor, first, second);
    const int32_t n_candidates = pack_candidates(values, n, bound, floor, first);
    const int32_t n_taken = wanted < n_candidates ? wanted : n_candidates;
    if (n_taken == 0) return 0;
    const ranked boundary = select_rank(first, second, n_candidates, n_taken);
    collect(values, n, boundary.value, n_taken - boundary.n_above, n_taken, ids, top);
    return n_taken;
}
