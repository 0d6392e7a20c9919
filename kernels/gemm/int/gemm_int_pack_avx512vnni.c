/*
 * Activations for the VPDPBUSD products (gemm_int_avx512vnni.c): a row's values become bytes, and each group begins with
 * what its sums start at.
 *
 *   input   [tile] { [height] scales of the rows   [height] starts   [k / 4] [height] words }
 *   groups  [tile] { [height] scales of the rows   [groups] { [height] starts   [height] starts of whole bytes
 *           [height] sums   [group / 4] [height] words } }
 *
 * A start is the sum of all bytes, or of a group's, times what the stored weights have too much, -128 or -8; where that is z, a
 * column's own, times -1. The sum of whole bytes, two nibbles, starts at 17 times that. A group's sum stands in the upper half
 * of its word. The last group is filled with zeros. Groups are for few rows: more multiply as int8, and are packed so.
 */
#include "kernels/gemm/int/gemm_int_words_avx512.h"
#include "kernels/gemm/pack/pack_words_avx512.h"
#include "kernels/implementations.h"
#include "kernels/vec/unroll.h"

enum { MOST_ROWS = 8 }; /* packed together */

/* Rows of a tile that are packed together: `n_real` of them; those behind are copies of the last, and go nowhere. */
typedef struct {
    const float *row[MOST_ROWS];
    size_t n_real, k, height;
    __m512 factor[MOST_ROWS];
    int32_t offset; /* what a group's sum is multiplied with */
    bool in_groups;
} pack_job;

/* The largest magnitudes of n rows, as bits: what is not finite is larger than what is. */
PF_INLINE void largest_bits(uint32_t bits[MOST_ROWS], const size_t n_rows, const pack_job *job)
{
    const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF);
    __m512i largest[MOST_ROWS];
    PF_UNROLL_16
    for (size_t r = 0; r < n_rows; r++) largest[r] = _mm512_setzero_si512();
    const size_t whole = job->k & ~(size_t)15;
    for (size_t i = 0; i < whole; i += 16) {
        PF_UNROLL_16
        for (size_t r = 0; r < n_rows; r++) {
            const __m512i v = _mm512_loadu_si512(job->row[r] + i);
            largest[r] = _mm512_max_epi32(largest[r], _mm512_and_si512(magnitude, v));
        }
    }
    const __mmask16 exist = (__mmask16)((1u << (job->k - whole)) - 1);
    PF_UNROLL_16
    for (size_t r = 0; r < n_rows; r++) {
        if (!exist) break;
        const __m512i v = _mm512_maskz_loadu_epi32(exist, job->row[r] + whole);
        largest[r] = _mm512_max_epi32(largest[r], _mm512_and_si512(magnitude, v));
    }
    PF_UNROLL_16
    for (size_t r = 0; r < n_rows; r++) bits[r] = (uint32_t)_mm512_reduce_max_epi32(largest[r]);
}

/* n_words, at most 16, of n_rows rows from value k on to where they belong, `gap` words left out before the ninth; and
 * their sums to `sum`. */
PF_INLINE void pack_words(const size_t n_rows, const pack_job *job, size_t k, size_t n_words, size_t gap, uint32_t *out,
                          __m512i sum[MOST_ROWS])
{
    const __m512i ones = _mm512_set1_epi8(1);
    const size_t n = k < job->k ? job->k - k : 0;
    __m512i words[MOST_ROWS];
    PF_UNROLL_16
    for (size_t r = 0; r < MOST_ROWS; r++) {
        if (r >= n_rows) {
            words[r] = words[n_rows - 1]; /* goes nowhere */
            continue;
        }
        words[r] = pf_int_words_at(job->row[r], k, n, job->factor[r]);
        sum[r] = _mm512_dpbusd_epi32(sum[r], ones, words[r]);
    }
    if (job->height == 1) {
        const __mmask16 first = (__mmask16)((1u << (gap ? 8 : n_words)) - 1);
        const __mmask16 exist = (__mmask16)((1u << n_words) - 1);
        const __m512i ordered = pf_int_words_in_order(words[0]);
        _mm512_mask_storeu_epi32(out, first & exist, ordered);
        if (gap && n_words > 8) _mm512_mask_storeu_epi32(out + gap, exist & (__mmask16)~first, ordered);
    } else if (n_rows == MOST_ROWS) {
        pf_pack_eight_rows(out, job->height, words, job->n_real, n_words, gap);
    } else if (n_words == 16) {
        pf_pack_rows_of(PF_PACK_BY_LANES, out, job->height, words, n_rows, 16, gap);
    } else {
        pf_pack_rows_of(PF_PACK_BY_LANES, out, job->height, words, n_rows, n_words, gap);
    }
}

PF_INLINE void clear(__m512i sum[MOST_ROWS])
{
    PF_UNROLL_16
    for (size_t r = 0; r < MOST_ROWS; r++) sum[r] = _mm512_setzero_si512();
}

/* What groups of four rows start at: sums of the words 0 .. 7 of vectors by lanes, and of 8 .. 15. */
typedef struct {
    __m128i low, high;
} starts;

PF_INLINE __m128i over_lanes(__m512i v)
{
    const __m256i two = _mm256_add_epi32(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
    return _mm_add_epi32(_mm256_castsi256_si128(two), _mm256_extracti128_si256(two, 1));
}

PF_INLINE starts sum_starts(const size_t n_rows, const __m512i sum[4])
{
    if (n_rows == 1) {
        const __m128i words = over_lanes(sum[0]), pairs = _mm_add_epi32(words, _mm_shuffle_epi32(words, 0xB1));
        return (starts){ pairs, _mm_shuffle_epi32(pairs, 0x02) };
    }
    __m512i column[4];
    pf_pack_columns(column, sum);
    return (starts){ over_lanes(_mm512_add_epi32(column[0], column[1])),
                     over_lanes(_mm512_add_epi32(column[2], column[3])) };
}

/* A group's, of four rows. */
PF_INLINE void put_start(const pack_job *job, uint32_t *out, __mmask8 rows, __m128i sum)
{
    const __m128i start = _mm_mullo_epi32(sum, _mm_set1_epi32(job->offset));
    _mm_mask_storeu_epi32(out, rows, start);
    if (!job->in_groups) return;
    _mm_mask_storeu_epi32(out + job->height, rows, _mm_add_epi32(start, _mm_slli_epi32(start, 4)));
    _mm_mask_storeu_epi32(out + 2 * job->height, rows, _mm_slli_epi32(sum, 16));
}

/* Those of a group of all words to `low`, or of two groups each to its own. */
PF_INLINE void put_starts(const size_t n_rows, const pack_job *job, const __m512i sum[MOST_ROWS], uint32_t *low,
                          uint32_t *high)
{
    PF_UNROLL_16
    for (size_t r = 0; r < n_rows; r += 4) {
        const size_t n = job->n_real - r;
        const __mmask8 rows = (__mmask8)(n >= 4 ? 15 : (1u << n) - 1);
        starts both = sum_starts(n_rows, sum + r);
        if (!high) both.low = _mm_add_epi32(both.low, both.high);
        put_start(job, low + r, rows, both.low);
        if (high) put_start(job, high + r, rows, both.high);
    }
}

/* Groups of eight words, two at a time. */
PF_INLINE void pack_short_groups(const size_t n_rows, const pack_job *job, uint32_t *out)
{
    const size_t height = job->height, n_words = (job->k + 31) / 32 * 8;
    __m512i sum[MOST_ROWS];
    for (size_t word = 0; word < n_words; word += 16, out += 22 * height) {
        clear(sum);
        const size_t left = n_words - word < 16 ? 8 : 16;
        pack_words(n_rows, job, 4 * word, left, 3, out + 3 * height, sum);
        put_starts(n_rows, job, sum, out, left > 8 ? out + 11 * height : NULL);
    }
}

/* Groups of group_words: 32, or all of K. */
PF_INLINE void pack_long_groups(const size_t n_rows, const pack_job *job, size_t group_words, uint32_t *out)
{
    const size_t height = job->height;
    __m512i sum[MOST_ROWS];
    for (size_t begin = 0; 4 * begin < job->k; begin += group_words) {
        uint32_t *first = out;
        out += job->in_groups ? 3 * height : height;
        clear(sum);
        for (size_t word = 0; word < group_words; word += 16) {
            const size_t left = group_words - word < 16 ? group_words - word : 16;
            pack_words(n_rows, job, 4 * (begin + word), left, 0, out, sum);
            out += left * height;
        }
        put_starts(n_rows, job, sum, first, NULL);
    }
}

/* Some rows of a tile: scales, and groups with what they start at. */
PF_INLINE void pack_rows(const size_t n_rows, pack_job *job, size_t group_words, uint32_t *out)
{
    uint32_t bits[MOST_ROWS];
    largest_bits(bits, n_rows, job);
    PF_UNROLL_16
    for (size_t r = 0; r < n_rows; r++) {
        const pf_int_rounding rounding = pf_int_rounding_of(bits[r]);
        job->factor[r] = _mm512_set1_ps(rounding.factor);
        if (r < job->n_real) memcpy(out + r, &rounding.scale, sizeof rounding.scale);
    }
    if (job->in_groups && group_words == 8)
        pack_short_groups(n_rows, job, out + job->height);
    else
        pack_long_groups(n_rows, job, group_words, out + job->height);
}

/* Row tiles [tile_begin, tile_end). `group_words`: 8, 32, or 0 where all of K is one group. */
static void pack_tiles(void *input, const float *a, size_t lda, int32_t m, int32_t k, int32_t tile_begin,
                       int32_t tile_end, int32_t tile_rows, size_t group_words, int32_t offset)
{
    const size_t n_values = (size_t)k, one_group = (n_values + 3) / 4, in_group = group_words ? group_words : one_group;
    const size_t before = group_words ? 3 : 1, words = 1 + (one_group + in_group - 1) / in_group * (before + in_group);
    const int32_t n_tiles = pf_gemm_tiles(tile_rows, m);
    for (int32_t t = tile_begin; t < tile_end; t++) {
        const size_t first = (size_t)pf_gemm_tile_row(n_tiles, m, t);
        const size_t height = (size_t)pf_gemm_tile_row(n_tiles, m, t + 1) - first;
        uint32_t *tile = (uint32_t *)input + first * words;
        for (size_t r = 0; r < height; r += MOST_ROWS) {
            const size_t n_real = height - r < MOST_ROWS ? height - r : MOST_ROWS;
            pack_job job = {
                .n_real = n_real, .k = n_values, .height = height, .offset = offset, .in_groups = group_words > 0
            };
            for (size_t i = 0; i < MOST_ROWS; i++) job.row[i] = a + (first + r + (i < n_real ? i : n_real - 1)) * lda;
            if (n_real > 4)
                pack_rows(MOST_ROWS, &job, in_group, tile + r);
            else if (n_real == 4)
                pack_rows(4, &job, in_group, tile + r);
            else if (n_real == 3)
                pack_rows(3, &job, in_group, tile + r);
            else if (n_real == 2)
                pack_rows(2, &job, in_group, tile + r);
            else
                pack_rows(1, &job, in_group, tile + r);
        }
    }
}

#define COLUMNS(NAME, ROWS, OFFSET)                                                                           \
    void pf_gemm_pack_##NAME##_int8_avx512vnni(void *input, const float *a, size_t lda, int32_t m, int32_t k, \
                                               int32_t tile_begin, int32_t tile_end)                          \
    {                                                                                                         \
        pack_tiles(input, a, lda, m, k, tile_begin, tile_end, ROWS, 0, OFFSET);                               \
    }
/* All tiles of few rows, which are less high, are one to the caller. */
#define GROUPS(NAME, GROUP)                                                                                   \
    void pf_gemm_pack_##NAME##_int8_avx512vnni(void *input, const float *a, size_t lda, int32_t m, int32_t k, \
                                               int32_t tile_begin, int32_t tile_end)                          \
    {                                                                                                         \
        enum { ROWS = PF_GEMM_VNNI_GROUP_ROWS };                                                              \
        if (m > pf_gemm_vnni_group_rows(GROUP))                                                               \
            pf_gemm_pack_int8_int8_avx512vnni(input, a, lda, m, k, tile_begin, tile_end);                     \
        else if (tile_begin < tile_end)                                                                       \
            pack_tiles(input, a, lda, m, k, 0, pf_gemm_tiles(ROWS, m), ROWS, GROUP / 4, -8);                  \
    }

COLUMNS(int8, PF_GEMM_VNNI_INT8_ROWS, -128)
COLUMNS(int4_channel, PF_GEMM_VNNI_CHANNEL_ROWS, -8)
COLUMNS(int4_asym_channel, PF_GEMM_VNNI_CHANNEL_ROWS, -1)
GROUPS(int4_g32, 32)
GROUPS(int4_g128, 128)
