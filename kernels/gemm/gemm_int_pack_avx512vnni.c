/*
 * Activations for the VPDPBUSD products (gemm_int_avx512vnni.c): a row's values become bytes, and each group begins with
 * what its sums start at.
 *
 *   input   [tile] { [height] scales of the rows   [groups] { [height] starts   [group / 4] [height] words } }
 *
 * A start is the sum of the group's bytes times what the stored weights have too much: -128, -8 or -15. A format with a
 * scale a column has one group, of all K; the last of several is filled with zeros.
 */
#include "kernels/gemm/gemm_int_rounding.h"
#include "kernels/gemm/pack_words_avx512.h"

/* The largest magnitude of a row, as bits: what is not finite is larger than what is. */
PF_INLINE uint32_t largest_bits(const float *a, size_t k)
{
    const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF);
    __m512i largest[2] = { _mm512_setzero_si512(), _mm512_setzero_si512() };
    size_t i = 0;
    for (; i + 32 <= k; i += 32)
        for (size_t j = 0; j < 2; j++)
            largest[j] = _mm512_max_epi32(largest[j], _mm512_and_si512(magnitude, _mm512_loadu_si512(a + i + 16 * j)));
    for (; i < k; i += 16) {
        const __mmask16 exist = (__mmask16)(k - i >= 16 ? 0xFFFFu : (1u << (k - i)) - 1);
        largest[0] = _mm512_max_epi32(largest[0], _mm512_and_si512(magnitude, _mm512_maskz_loadu_epi32(exist, a + i)));
    }
    return (uint32_t)_mm512_reduce_max_epi32(_mm512_max_epi32(largest[0], largest[1]));
}

/* 16 words of a row: n values that exist, the others zero. */
PF_INLINE __m512i quantised_words(const float *a, float factor, size_t n)
{
    const __m512 by = _mm512_set1_ps(factor);
    const __mmask64 exist = n >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << n) - 1;
    __m512i q[4];
#define QUARTER(i) \
    q[i] = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_maskz_loadu_ps((__mmask16)(exist >> (16 * i)), a + 16 * i), by));
    QUARTER(0)
    QUARTER(1)
    QUARTER(2)
    QUARTER(3)
#undef QUARTER
    /* word 4 * i + j of the result lies in word i of lane j */
    const __m512i lanes = _mm512_packs_epi16(_mm512_packs_epi32(q[0], q[1]), _mm512_packs_epi32(q[2], q[3]));
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_permutexvar_epi32(order, lanes);
}

/* 16 words of up to four rows, quantised: those that lack repeat the last. */
PF_INLINE void quantise_four(__m512i words[4], const float *a, size_t lda, size_t n_rows,
                             const pf_int_rounding *rounding, size_t n)
{
    for (size_t r = 0; r < 4; r++) {
        const size_t row = r < n_rows ? r : n_rows - 1;
        words[r] = quantised_words(a + row * lda, rounding[row].factor, n);
    }
}

/* Words [word, word + n_words) of up to four rows where they belong: 16, or what a row ends with. */
PF_INLINE void spread(uint32_t *out, size_t height, const __m512i words[4], size_t n_rows, size_t n_words, size_t gap)
{
    if (height == 1) {
        const __mmask16 first = (__mmask16)((1u << (gap ? 8 : n_words)) - 1);
        const __mmask16 exist = (__mmask16)((1u << n_words) - 1);
        _mm512_mask_storeu_epi32(out, first & exist, words[0]);
        if (gap && n_words > 8) _mm512_mask_storeu_epi32(out + gap, exist & (__mmask16)~first, words[0]);
    } else if (n_words == 16) {
        pf_pack_four_rows(out, height, words, n_rows, 16, gap);
    } else {
        pf_pack_four_rows(out, height, words, n_rows, n_words, gap);
    }
}

/* Sums of eight words each, in all of their lanes. */
PF_INLINE __m512i sums_of_eight(__m512i v)
{
    v = _mm512_add_epi32(v, _mm512_shuffle_epi32(v, _MM_PERM_CDAB));
    v = _mm512_add_epi32(v, _mm512_shuffle_epi32(v, _MM_PERM_BADC));
    return _mm512_add_epi32(v, _mm512_shuffle_i32x4(v, v, 0xB1));
}

/* Up to four rows of a tile: scales, and groups with what they start at, `factor` times the sum of their values. */
PF_INLINE void pack_rows(uint32_t *out, size_t height, const float *a, size_t lda, size_t n_rows, size_t k,
                         size_t group_words, int32_t factor)
{
    const __m512i ones = _mm512_set1_epi8(1), none = _mm512_setzero_si512();
    const size_t n_words = ((k + 3) / 4 + group_words - 1) / group_words * group_words;
    pf_int_rounding rounding[4];
    __m512i words[4], sum[4] = { none, none, none, none };
    for (size_t r = 0; r < n_rows; r++) {
        rounding[r] = pf_int_rounding_of(largest_bits(a + r * lda, k));
        memcpy(out + r, &rounding[r].scale, sizeof(float));
    }
    for (size_t word = 0; word < n_words; word += 16) {
        const size_t left = n_words - word < 16 ? n_words - word : 16, group = word / group_words;
        uint32_t *starts = out + (1 + group * (1 + group_words)) * height;
        quantise_four(words, a + 4 * word, lda, n_rows, rounding, 4 * word < k ? k - 4 * word : 0);
        spread(starts + (1 + word % group_words) * height, height, words, n_rows, left, group_words == 8 ? 1 : 0);
        for (size_t r = 0; r < 4; r++) sum[r] = _mm512_dpbusd_epi32(sum[r], ones, words[r]);
        if (group_words == 8) {
            for (size_t r = 0; r < n_rows; r++) {
                const __m512i both = sums_of_eight(sum[r]);
                starts[r] = (uint32_t)(factor * _mm_cvtsi128_si32(_mm512_castsi512_si128(both)));
                if (left > 8)
                    starts[9 * height + r] = (uint32_t)(factor * _mm_cvtsi128_si32(_mm512_extracti32x4_epi32(both, 2)));
            }
        } else if (word % group_words + left == group_words) {
            for (size_t r = 0; r < n_rows; r++) starts[r] = (uint32_t)(factor * _mm512_reduce_add_epi32(sum[r]));
        } else {
            continue;
        }
        for (size_t r = 0; r < 4; r++) sum[r] = none;
    }
}

/* Row tiles [tile_begin, tile_end). `group_words`: 8, 32, or 0 where all of K is one group. */
PF_INLINE void pack_tiles(void *input, const float *a, size_t lda, int32_t m, int32_t k, int32_t tile_begin,
                          int32_t tile_end, int32_t tile_rows, size_t group_words, int32_t factor)
{
    const size_t n_values = (size_t)k, one_group = (n_values + 3) / 4, in_group = group_words ? group_words : one_group;
    const size_t words = 1 + (one_group + in_group - 1) / in_group * (1 + in_group);
    const int32_t n_tiles = pf_gemm_tiles(tile_rows, m);
    for (int32_t t = tile_begin; t < tile_end; t++) {
        const size_t first = (size_t)pf_gemm_tile_row(n_tiles, m, t);
        const size_t height = (size_t)pf_gemm_tile_row(n_tiles, m, t + 1) - first;
        uint32_t *tile = (uint32_t *)input + first * words;
        for (size_t r = 0; r < height; r += 4)
            pack_rows(tile + r, height, a + (first + r) * lda, lda, height - r < 4 ? height - r : 4, n_values, in_group,
                      factor);
    }
}

#define FORMAT(NAME, ROWS, GROUP_WORDS, FACTOR)                                                               \
    void pf_gemm_pack_##NAME##_int8_avx512vnni(void *input, const float *a, size_t lda, int32_t m, int32_t k, \
                                               int32_t tile_begin, int32_t tile_end)                          \
    {                                                                                                         \
        pack_tiles(input, a, lda, m, k, tile_begin, tile_end, ROWS, GROUP_WORDS, FACTOR);                     \
    }

FORMAT(int8, PF_GEMM_VNNI_INT8_ROWS, 0, -128)
FORMAT(int4_channel, PF_GEMM_VNNI_CHANNEL_ROWS, 0, -8)
FORMAT(int4_g32, PF_GEMM_VNNI_GROUP_ROWS, 8, -8)
FORMAT(int4_g128, PF_GEMM_VNNI_GROUP_ROWS, 32, -8)
FORMAT(int4_asym_channel, PF_GEMM_VNNI_CHANNEL_ROWS, 0, -15)
FORMAT(int4_asym_g32, PF_GEMM_VNNI_GROUP_ROWS, 8, -15)
FORMAT(int4_asym_g128, PF_GEMM_VNNI_GROUP_ROWS, 32, -15)
