/*
 * Activations as oneDNN takes them, for gemm_onednn.c alone: rows one behind the other, each of pf_onednn_row_stride(k)
 * values, of which those beyond k are zero. Behind rows of int8 stands a scale for each: [m] f32.
 *
 * The pack functions are pf_gemm_pack_fn with PF_ONEDNN_TILE_ROWS rows a tile.
 */
#ifndef PF_KERNELS_GEMM_ONEDNN_PACK_H
#define PF_KERNELS_GEMM_ONEDNN_PACK_H

#include <math.h>

#include "base/checked.h"
#include "kernels/gemm/pack/quantise.h"

enum { PF_ONEDNN_TILE_ROWS = 16 };

static inline size_t pf_onednn_row_stride(int32_t k)
{
    return pf_round_up((size_t)k, 128);
}

static inline float *pf_onednn_row_scales(const void *input, int32_t m, int32_t k)
{
    return (float *)((char *)(uintptr_t)input + (size_t)m * pf_onednn_row_stride(k));
}

/* Where a packed row begins; what is beyond its k values is zeroed. */
static inline void *pf_onednn_open_row(void *input, int32_t row, int32_t k, size_t element)
{
    unsigned char *to = (unsigned char *)input + (size_t)row * pf_onednn_row_stride(k) * element;
    memset(to + (size_t)k * element, 0, (pf_onednn_row_stride(k) - (size_t)k) * element);
    return to;
}

static inline void pf_onednn_pack_f32(void *input, const float *a, size_t lda, int32_t m, int32_t k, int32_t tile_begin,
                                      int32_t tile_end)
{
    const int32_t n_tiles = pf_gemm_tiles(PF_ONEDNN_TILE_ROWS, m), end = pf_gemm_tile_row(n_tiles, m, tile_end);
    for (int32_t row = pf_gemm_tile_row(n_tiles, m, tile_begin); row < end; row++)
        memcpy(pf_onednn_open_row(input, row, k, sizeof *a), a + (size_t)row * lda, (size_t)k * sizeof *a);
}

static inline void pf_onednn_pack_bf16(void *input, const float *a, size_t lda, int32_t m, int32_t k,
                                       int32_t tile_begin, int32_t tile_end)
{
    const int32_t n_tiles = pf_gemm_tiles(PF_ONEDNN_TILE_ROWS, m), end = pf_gemm_tile_row(n_tiles, m, tile_end);
    for (int32_t row = pf_gemm_tile_row(n_tiles, m, tile_begin); row < end; row++) {
        const float *from = a + (size_t)row * lda;
        uint16_t *to = pf_onednn_open_row(input, row, k, sizeof *to);
        for (int32_t i = 0; i < k; i++) to[i] = pf_bf16_from_f32(from[i]);
    }
}

static inline void pf_onednn_pack_int8(void *input, const float *a, size_t lda, int32_t m, int32_t k,
                                       int32_t tile_begin, int32_t tile_end)
{
    const int32_t n_tiles = pf_gemm_tiles(PF_ONEDNN_TILE_ROWS, m), end = pf_gemm_tile_row(n_tiles, m, tile_end);
    float *scales = pf_onednn_row_scales(input, m, k);
    for (int32_t row = pf_gemm_tile_row(n_tiles, m, tile_begin); row < end; row++) {
        const float *from = a + (size_t)row * lda;
        int8_t *to = pf_onednn_open_row(input, row, k, sizeof *to);
        int32_t largest = 0; /* magnitude, as bits: of what is no finite number they are the largest of all */
        for (int32_t i = 0; i < k; i++) {
            const int32_t magnitude = float_bits(from[i]) & 0x7FFFFFFF;
            largest = magnitude > largest ? magnitude : largest;
        }
        const bool finite = largest < 0x7F800000, counts = finite && float_of(largest) >= 0x1p-100f;
        const float by = counts ? 127.0f / float_of(largest) : 0.0f;
        scales[row] = finite ? (counts ? float_of(largest) / 127.0f : 0.0f) : NAN;
        if (counts)
            for (int32_t i = 0; i < k; i++) to[i] = (int8_t)nearest(from[i] * by);
        else
            memset(to, 0, (size_t)k);
    }
}

#endif
