/* Spreading words of activations over a row tile, [word][row of the tile], with AVX-512. Internal. */
#ifndef PF_KERNELS_GEMM_PACK_WORDS_AVX512_H
#define PF_KERNELS_GEMM_PACK_WORDS_AVX512_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/vec/rows.h"
#include "kernels/vec/unroll.h"

/* Where the words of a row lie in its vector: word 4 * i + j ... */
typedef enum {
    PF_PACK_IN_ORDER, /* ... is the j-th of lane i */
    PF_PACK_BY_LANES, /* ... is the i-th of lane j, as packing to fewer bits leaves it */
} pf_pack_order;

/* Lane i of column[j]: the j-th word of the lanes i of all four. */
PF_INLINE void pf_pack_columns(__m512i column[4], const __m512i row[4])
{
    const __m512i low01 = _mm512_unpacklo_epi32(row[0], row[1]), high01 = _mm512_unpackhi_epi32(row[0], row[1]);
    const __m512i low23 = _mm512_unpacklo_epi32(row[2], row[3]), high23 = _mm512_unpackhi_epi32(row[2], row[3]);
    column[0] = _mm512_unpacklo_epi64(low01, low23);
    column[1] = _mm512_unpackhi_epi64(low01, low23);
    column[2] = _mm512_unpacklo_epi64(high01, high23);
    column[3] = _mm512_unpackhi_epi64(high01, high23);
}

/* 16 words, or n_words, of up to four rows into a tile of `height` rows; `gap` words are left out before the ninth. */
PF_INLINE void pf_pack_rows_of(const pf_pack_order order, uint32_t *out, size_t height, const __m512i row[4],
                               size_t n_rows, size_t n_words, size_t gap)
{
    __m512i column[4];
    pf_pack_columns(column, row);
    if (order == PF_PACK_BY_LANES && height == 4 && n_rows == 4 && n_words == 16) { /* they lie as they are wanted */
        PF_UNROLL_16
        for (size_t i = 0; i < 4; i++) _mm512_storeu_si512(out + 16 * i + (i >= 2 ? 4 * gap : 0), column[i]);
        return;
    }
    const __mmask8 rows = (__mmask8)((1u << n_rows) - 1);
#define WORD(i, j)                                                                                \
    if (4 * i + j < n_words) {                                                                    \
        const __m128i four = order == PF_PACK_IN_ORDER ? _mm512_extracti32x4_epi32(column[j], i)  \
                                                       : _mm512_extracti32x4_epi32(column[i], j); \
        _mm_mask_storeu_epi32(out + (4 * i + j + (i >= 2 ? gap : 0)) * height, rows, four);       \
    }
#define FOUR_WORDS(i) WORD(i, 0) WORD(i, 1) WORD(i, 2) WORD(i, 3)
    FOUR_WORDS(0)
    FOUR_WORDS(1)
    FOUR_WORDS(2)
    FOUR_WORDS(3)
#undef FOUR_WORDS
#undef WORD
}

/* Of words in order. */
PF_INLINE void pf_pack_four_rows(uint32_t *out, size_t height, const __m512i row[4], size_t n_rows, size_t n_words,
                                 size_t gap)
{
    pf_pack_rows_of(PF_PACK_IN_ORDER, out, height, row, n_rows, n_words, gap);
}

/* The same of up to eight rows, by lanes: a word of all of them in one store, or two where they are the tile. */
PF_INLINE void pf_pack_eight_rows(uint32_t *out, size_t height, const __m512i row[8], size_t n_rows, size_t n_words,
                                  size_t gap)
{
    const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    const __mmask8 rows = (__mmask8)((1u << n_rows) - 1);
    __m512i upper[4], lower[4];
    pf_pack_columns(upper, row);
    pf_pack_columns(lower, row + 4);
    PF_UNROLL_16
    for (size_t i = 0; i < 8; i++) { /* words 2i, 2i + 1 */
        const __m512i two = _mm512_permutex2var_epi64(upper[i / 2], i % 2 ? second : first, lower[i / 2]);
        uint32_t *to = out + (2 * i + (i >= 4 ? gap : 0)) * height;
        if (height == 8 && n_rows == 8 && 2 * i + 1 < n_words) {
            _mm512_storeu_si512(to, two);
            continue;
        }
        if (2 * i < n_words) _mm256_mask_storeu_epi32(to, rows, _mm512_castsi512_si256(two));
        if (2 * i + 1 < n_words) _mm256_mask_storeu_epi32(to + height, rows, _mm512_extracti64x4_epi64(two, 1));
    }
}

#endif
