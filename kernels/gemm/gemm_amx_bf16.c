/*
 * bf16 product with TDPBF16PS, by the nest of gemm_amx.h: per step of 32 values of K, a tile of A times the two halves of a
 * panel, which are B as they lie.
 *
 * K that is no multiple of 32: the activations are packed with zeros behind them, and the last step of a panel is copied
 * to where zeros follow it. A row's sum is one chain of TDPBF16PS in either form, at any height of tile.
 *
 * Denormals: the instruction reads them as zero and flushes its results, whatever MXCSR says.
 */
#include "kernels/gemm/gemm_amx.h"
#include "kernels/gemm/gemm_pairs_avx512.h"

enum { STEP_VALUES = 32 };

static size_t steps_of(int32_t k)
{
    return ((size_t)k + STEP_VALUES - 1) / STEP_VALUES;
}

PF_INLINE void put(const pf_tile_product *x, int32_t panel, int32_t row, int32_t n_rows, const void *sums)
{
    const int32_t left = x->w->n - panel * PF_GEMM_PANEL;
    const __mmask32 exist = left >= PF_GEMM_PANEL ? ~(__mmask32)0 : ((__mmask32)1 << left) - 1;
    const __mmask16 low = (__mmask16)exist, high = (__mmask16)(exist >> 16);
    const float *from = sums;
    float *c = x->c + (size_t)row * x->ldc + (size_t)panel * PF_GEMM_PANEL;
    for (int32_t r = 0; r < n_rows; r++, from += PF_GEMM_PANEL, c += x->ldc) {
        __m512 s0 = _mm512_load_ps(from), s1 = _mm512_load_ps(from + 16);
        if (x->mode == PF_GEMM_ADD) {
            s0 = _mm512_add_ps(_mm512_maskz_loadu_ps(low, c), s0);
            s1 = _mm512_add_ps(_mm512_maskz_loadu_ps(high, c + 16), s1);
        }
        _mm512_mask_storeu_ps(c, low, s0);
        _mm512_mask_storeu_ps(c + 16, high, s1);
    }
}

/* Where row `first` of a block of `height` begins, and its columns of a step follow. */
PF_INLINE uint8_t *packed_rows(void *input, int32_t first, size_t height, size_t steps, size_t step)
{
    return (uint8_t *)input + ((size_t)first * steps + step * height) * PF_TILE_ROW_BYTES;
}

/* A panel of the result is a step of K to the product after it. */
PF_INLINE void put_gated(const pf_tile_product *x, int32_t panel, int32_t row, int32_t n_rows, const void *gate,
                         const void *up)
{
    _Alignas(64) float activated[PF_TILE_BLOCK_ROWS * PF_GEMM_PANEL];
    const int32_t left = x->w->n - panel * PF_GEMM_PANEL, n = left < PF_GEMM_PANEL ? left : PF_GEMM_PANEL;
    const size_t height = (size_t)n_rows;
    uint8_t *out = packed_rows(x->gated->packed, row, height, steps_of(x->w->n), (size_t)panel);
    x->gated->activate(activated, PF_GEMM_PANEL, gate, up, PF_GEMM_PANEL, n_rows, n);
    for (size_t r = 0; r < height; r++)
        _mm512_store_si512(out + r * PF_TILE_ROW_BYTES, pf_gemm_load_pairs(activated + r * PF_GEMM_PANEL, (size_t)n));
}

static const pf_tile_family family = {
    .dot = PF_DOT_BF16,
    .in_place = true,
    .as_they_are = true,
    .row_bytes = PF_TILE_B_STRIDE,
    .row = pf_tile_row_plain,
    .put = put,
    .put_gated = put_gated,
};

void pf_gemm_gated_bf16_amx(const pf_gemm_weights *gate, const pf_gemm_weights *up, const void *input, int32_t m,
                            int32_t panel_begin, int32_t panel_end, const pf_gemm_gated *out, void *scratch)
{
    const pf_tile_product x = { .w = gate, .up = up, .input = input, .m = m, .gated = out, .steps = steps_of(gate->k) };
    pf_tile_nest_gated(family, &x, panel_begin, panel_end, scratch);
}

void pf_gemm_bf16_amx(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin, int32_t panel_end,
                      float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    pf_tile_product x = { .w = w, .input = input, .m = m, .ldc = ldc, .mode = mode, .steps = steps_of(w->k) };
    x.c = c;
    pf_tile_nest(family, &x, panel_begin, panel_end, scratch);
}

/* [block][step][row][32 values]: the rows of a block are the rows of its one or two tiles, in order. */
static void pack_part(void *input, const float *a, size_t lda, int32_t m, int32_t k, int32_t tile_begin,
                      int32_t tile_end, int32_t k_begin, int32_t k_end)
{
    const size_t steps = steps_of(k), values_end = (size_t)k_end;
    const int32_t n_blocks = pf_gemm_tiles(PF_TILE_BLOCK_ROWS, m);
    for (int32_t t = tile_begin; t < tile_end; t++) {
        const int32_t first = pf_gemm_tile_row(n_blocks, m, t);
        const size_t height = (size_t)(pf_gemm_tile_row(n_blocks, m, t + 1) - first);
        for (size_t r = 0; r < height; r++) {
            const float *row = a + ((size_t)first + r) * lda;
            for (size_t value = (size_t)k_begin; value < values_end; value += STEP_VALUES)
                _mm512_store_si512(packed_rows(input, first, height, steps, value / STEP_VALUES) +
                                       r * PF_TILE_ROW_BYTES,
                                   pf_gemm_load_pairs(row + value, values_end - value));
        }
    }
}

void pf_gemm_pack_bf16_amx(void *input, const float *a, size_t lda, int32_t m, int32_t k, int32_t tile_begin,
                           int32_t tile_end)
{
    pack_part(input, a, lda, m, k, tile_begin, tile_end, 0, k);
}

void pf_gemm_pack_columns_bf16_amx(void *input, const float *a, size_t lda, int32_t m, int32_t k, int32_t k_begin,
                                   int32_t k_end)
{
    pack_part(input, a, lda, m, k, 0, pf_gemm_tiles(PF_TILE_BLOCK_ROWS, m), k_begin, k_end);
}
