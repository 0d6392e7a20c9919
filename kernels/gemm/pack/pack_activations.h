/* Packs rows of f32 activations into row tiles (gemm.h), a 32-bit word a value. Internal. */
#ifndef PF_KERNELS_GEMM_PACK_ACTIVATIONS_H
#define PF_KERNELS_GEMM_PACK_ACTIVATIONS_H

#include <string.h>

#include "kernels/implementations.h"
#include "kernels/vec/rows.h"

/* Words of K values k0 .. k0 + n_words - 1 of one row. Two of the forms that activations take: */
typedef void pf_gemm_words_fn(uint32_t *words, const float *row, size_t n_values, size_t n_words);

/* f32 as it is. */
PF_INLINE void pf_gemm_words_f32(uint32_t *words, const float *row, size_t n_values, size_t n_words)
{
    (void)n_values;
    memcpy(words, row, n_words * sizeof *words);
}

/* bf16, held as f32; one zero where the last pair lacks its half. */
PF_INLINE void pf_gemm_words_bf16(uint32_t *words, const float *row, size_t n_values, size_t n_words)
{
    for (size_t i = 0; i < n_values; i++) words[i] = (uint32_t)pf_bf16_from_f32(row[i]) << 16;
    if (n_values < n_words) words[n_values] = 0;
}

/* Words [k_begin, k_end) of row tiles [tile_begin, tile_end), a word a value, in the layout [tile][word][row of the tile].
 * With k_end = k the rest of the row is zeros. */
PF_INLINE void pf_gemm_pack_part(pf_gemm_words_fn *convert, size_t row_words, int32_t tile_rows, void *input,
                                 const float *a, size_t lda, int32_t m, int32_t k, int32_t tile_begin, int32_t tile_end,
                                 int32_t k_begin, int32_t k_end)
{
    enum { STRETCH = 256 }; /* words converted before they are spread */
    uint32_t words[STRETCH];
    const int32_t n_tiles = pf_gemm_tiles(tile_rows, m);
    const size_t end = k_end == k ? row_words : (size_t)k_end;
    for (int32_t t = tile_begin; t < tile_end; t++) {
        const int32_t first = pf_gemm_tile_row(n_tiles, m, t);
        const size_t height = (size_t)(pf_gemm_tile_row(n_tiles, m, t + 1) - first);
        for (size_t r = 0; r < height; r++) {
            const float *row = a + ((size_t)first + r) * lda;
            uint32_t *out = (uint32_t *)input + (size_t)first * row_words + (size_t)k_begin * height + r;
            for (size_t word = (size_t)k_begin; word < end; word += STRETCH) {
                const size_t n_words = end - word < STRETCH ? end - word : STRETCH;
                const size_t left = (size_t)k_end - word, n_values = left < n_words ? left : n_words;
                convert(words, row + word, n_values, n_words);
                for (size_t i = 0; i < n_words; i++, out += height) *out = words[i];
            }
        }
    }
}

/* The two functions of a way to pack. */
#define PF_GEMM_DEFINE_PACK(NAME, CONVERT, ROW_WORDS, TILE_ROWS)                                                       \
    void pf_gemm_pack_##NAME(void *input, const float *a, size_t lda, int32_t m, int32_t k, int32_t tile_begin,        \
                             int32_t tile_end)                                                                         \
    {                                                                                                                  \
        pf_gemm_pack_part(CONVERT, ROW_WORDS, TILE_ROWS, input, a, lda, m, k, tile_begin, tile_end, 0, k);             \
    }                                                                                                                  \
    void pf_gemm_pack_columns_##NAME(void *input, const float *a, size_t lda, int32_t m, int32_t k, int32_t k_begin,   \
                                     int32_t k_end)                                                                    \
    {                                                                                                                  \
        pf_gemm_pack_part(CONVERT, ROW_WORDS, TILE_ROWS, input, a, lda, m, k, 0, pf_gemm_tiles(TILE_ROWS, m), k_begin, \
                          k_end);                                                                                      \
    }

#endif
