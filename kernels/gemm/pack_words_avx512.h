/* Spreading words of activations over a row tile, [word][row of the tile], with AVX-512. Internal. */
#ifndef PF_KERNELS_GEMM_PACK_WORDS_AVX512_H
#define PF_KERNELS_GEMM_PACK_WORDS_AVX512_H

#include "kernels/gemm/gemm_nest.h"

/* 16 words, or n_words, of up to four rows into a tile of `height` rows; `gap` words are left out before the ninth. */
PF_INLINE void pf_pack_four_rows(uint32_t *out, size_t height, const __m512i row[4], size_t n_rows, size_t n_words,
                                 size_t gap)
{
    const __mmask8 rows = (__mmask8)((1u << n_rows) - 1);
    const __m512i low01 = _mm512_unpacklo_epi32(row[0], row[1]), high01 = _mm512_unpackhi_epi32(row[0], row[1]);
    const __m512i low23 = _mm512_unpacklo_epi32(row[2], row[3]), high23 = _mm512_unpackhi_epi32(row[2], row[3]);
    /* quarter i of column[j]: word 4 * i + j of the four */
    const __m512i column[4] = { _mm512_unpacklo_epi64(low01, low23), _mm512_unpackhi_epi64(low01, low23),
                                _mm512_unpacklo_epi64(high01, high23), _mm512_unpackhi_epi64(high01, high23) };
#define WORD(i, j)                                                                   \
    if (4 * i + j < n_words)                                                         \
        _mm_mask_storeu_epi32(out + (4 * i + j + (i >= 2 ? gap : 0)) * height, rows, \
                              _mm512_extracti32x4_epi32(column[j], i));
#define FOUR_WORDS(i) WORD(i, 0) WORD(i, 1) WORD(i, 2) WORD(i, 3)
    FOUR_WORDS(0)
    FOUR_WORDS(1)
    FOUR_WORDS(2)
    FOUR_WORDS(3)
#undef FOUR_WORDS
#undef WORD
}

#endif
