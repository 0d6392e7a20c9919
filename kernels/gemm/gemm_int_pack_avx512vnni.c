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

/* The largest magnitudes of n rows, as bits: what is not finite is larger than what is. */
PF_INLINE void largest_bits(uint32_t bits[4], const size_t n_rows, const float *a, size_t lda, size_t k)
{
    const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF);
    __m512i largest[4] = { _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(),
                           _mm512_setzero_si512() };
    for (size_t i = 0; i < k; i += 16) {
        const __mmask16 exist = (__mmask16)(k - i >= 16 ? 0xFFFFu : (1u << (k - i)) - 1);
        for (size_t r = 0; r < n_rows; r++) {
            const float *at = a + r * lda + i;
            largest[r] = _mm512_max_epi32(largest[r], _mm512_and_si512(magnitude, _mm512_maskz_loadu_epi32(exist, at)));
        }
    }
    for (size_t r = 0; r < n_rows; r++) bits[r] = (uint32_t)_mm512_reduce_max_epi32(largest[r]);
}

/* 16 words of a row: n values that exist, the others zero. */
PF_INLINE __m512i quantised_words(const float *a, __m512 factor, size_t n)
{
    const __mmask64 exist = n >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << n) - 1;
    __m512i q[4];
#define QUARTER(i) \
    q[i] = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_maskz_loadu_ps((__mmask16)(exist >> (16 * i)), a + 16 * i), factor));
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

/* Rows of a tile that are packed together. */
typedef struct {
    const float *a;
    size_t lda, k, height;
    __m512 factor[4];
    int32_t offset; /* what a group's sum is multiplied with */
} pack_job;

/* n_words, at most 16, of n_rows rows from value k on to where they belong, `gap` words left out before the ninth; and
 * their sums to `sum`. */
PF_INLINE void pack_words(const size_t n_rows, const pack_job *job, size_t k, size_t n_words, size_t gap, uint32_t *out,
                          __m512i sum[4])
{
    const __m512i ones = _mm512_set1_epi8(1);
    const size_t n = k < job->k ? job->k - k : 0;
    __m512i words[4];
    for (size_t r = 0; r < 4; r++) {
        if (r >= n_rows) {
            words[r] = words[n_rows - 1]; /* goes nowhere */
            continue;
        }
        words[r] = n >= 64 ? quantised_words(job->a + r * job->lda + k, job->factor[r], 64)
                           : quantised_words(job->a + r * job->lda + (n ? k : 0), job->factor[r], n);
        sum[r] = _mm512_dpbusd_epi32(sum[r], ones, words[r]);
    }
    if (job->height == 1) {
        const __mmask16 first = (__mmask16)((1u << (gap ? 8 : n_words)) - 1);
        const __mmask16 exist = (__mmask16)((1u << n_words) - 1);
        _mm512_mask_storeu_epi32(out, first & exist, words[0]);
        if (gap && n_words > 8) _mm512_mask_storeu_epi32(out + gap, exist & (__mmask16)~first, words[0]);
    } else if (n_words == 16) {
        pf_pack_four_rows(out, job->height, words, n_rows, 16, gap);
    } else {
        pf_pack_four_rows(out, job->height, words, n_rows, n_words, gap);
    }
}

PF_INLINE void clear(__m512i sum[4])
{
    for (size_t r = 0; r < 4; r++) sum[r] = _mm512_setzero_si512();
}

/* Sums of eight words each, in all of their lanes. */
PF_INLINE __m512i sums_of_eight(__m512i v)
{
    v = _mm512_add_epi32(v, _mm512_shuffle_epi32(v, _MM_PERM_CDAB));
    v = _mm512_add_epi32(v, _mm512_shuffle_epi32(v, _MM_PERM_BADC));
    return _mm512_add_epi32(v, _mm512_shuffle_i32x4(v, v, 0xB1));
}

/* Groups of eight words, two at a time. */
PF_INLINE void pack_short_groups(const size_t n_rows, const pack_job *job, uint32_t *out)
{
    const size_t height = job->height, n_words = (job->k + 31) / 32 * 8;
    __m512i sum[4];
    for (size_t word = 0; word < n_words; word += 16, out += 18 * height) {
        clear(sum);
        const size_t left = n_words - word < 16 ? 8 : 16;
        pack_words(n_rows, job, 4 * word, left, 1, out + height, sum);
        for (size_t r = 0; r < n_rows; r++) {
            const __m512i both = sums_of_eight(sum[r]);
            out[r] = (uint32_t)(job->offset * _mm_cvtsi128_si32(_mm512_castsi512_si128(both)));
            if (left > 8)
                out[9 * height + r] = (uint32_t)(job->offset * _mm_cvtsi128_si32(_mm512_extracti32x4_epi32(both, 2)));
        }
    }
}

/* Groups of group_words: 32, or all of K. */
PF_INLINE void pack_long_groups(const size_t n_rows, const pack_job *job, size_t group_words, uint32_t *out)
{
    const size_t height = job->height;
    __m512i sum[4];
    for (size_t begin = 0; 4 * begin < job->k; begin += group_words) {
        uint32_t *starts = out;
        out += height;
        clear(sum);
        for (size_t word = 0; word < group_words; word += 16) {
            const size_t left = group_words - word < 16 ? group_words - word : 16;
            pack_words(n_rows, job, 4 * (begin + word), left, 0, out, sum);
            out += left * height;
        }
        for (size_t r = 0; r < n_rows; r++) starts[r] = (uint32_t)(job->offset * _mm512_reduce_add_epi32(sum[r]));
    }
}

/* Some rows of a tile: scales, and groups with what they start at. */
PF_INLINE void pack_rows(const size_t n_rows, pack_job *job, size_t group_words, uint32_t *out)
{
    uint32_t bits[4];
    largest_bits(bits, n_rows, job->a, job->lda, job->k);
    for (size_t r = 0; r < n_rows; r++) {
        const pf_int_rounding rounding = pf_int_rounding_of(bits[r]);
        job->factor[r] = _mm512_set1_ps(rounding.factor);
        memcpy(out + r, &rounding.scale, sizeof rounding.scale);
    }
    if (group_words == 8)
        pack_short_groups(n_rows, job, out + job->height);
    else
        pack_long_groups(n_rows, job, group_words, out + job->height);
}

/* Row tiles [tile_begin, tile_end). `group_words`: 8, 32, or 0 where all of K is one group. */
static void pack_tiles(void *input, const float *a, size_t lda, int32_t m, int32_t k, int32_t tile_begin,
                       int32_t tile_end, int32_t tile_rows, size_t group_words, int32_t offset)
{
    const size_t n_values = (size_t)k, one_group = (n_values + 3) / 4, in_group = group_words ? group_words : one_group;
    const size_t words = 1 + (one_group + in_group - 1) / in_group * (1 + in_group);
    const int32_t n_tiles = pf_gemm_tiles(tile_rows, m);
    for (int32_t t = tile_begin; t < tile_end; t++) {
        const size_t first = (size_t)pf_gemm_tile_row(n_tiles, m, t);
        const size_t height = (size_t)pf_gemm_tile_row(n_tiles, m, t + 1) - first;
        uint32_t *tile = (uint32_t *)input + first * words;
        for (size_t r = 0; r < height; r += 4) {
            pack_job job = {
                .a = a + (first + r) * lda, .lda = lda, .k = n_values, .height = height, .offset = offset
            };
            if (height - r >= 4)
                pack_rows(4, &job, in_group, tile + r);
            else if (height - r == 3)
                pack_rows(3, &job, in_group, tile + r);
            else if (height - r == 2)
                pack_rows(2, &job, in_group, tile + r);
            else
                pack_rows(1, &job, in_group, tile + r);
        }
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
