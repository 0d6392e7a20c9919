/* The definition of the product: one chain over K for each output. Tiles of one row. */
#include <math.h>

#include "kernels/gemm/layout_bf16_12.h"
#include "kernels/gemm/layout_int.h"
#include "kernels/gemm/round_int8_ref.h"
#include "kernels/implementations.h"

/* Packed input: [m, k] f32; for the bf16 class rounded to bf16, and k rounded up to whole pairs. */

void pf_gemm_pack_f32_ref(void *input, const float *a, size_t lda, int32_t m, int32_t k, int32_t tile_begin,
                          int32_t tile_end)
{
    (void)m;
    for (int32_t row = tile_begin; row < tile_end; row++)
        memcpy((float *)input + (size_t)row * (size_t)k, a + (size_t)row * lda, (size_t)k * sizeof *a);
}

void pf_gemm_pack_bf16_ref(void *input, const float *a, size_t lda, int32_t m, int32_t k, int32_t tile_begin,
                           int32_t tile_end)
{
    (void)m;
    const size_t k_even = pf_round_up((size_t)k, 2);
    for (int32_t row = tile_begin; row < tile_end; row++) {
        float *out = (float *)input + (size_t)row * k_even;
        for (size_t i = 0; i < k_even; i++)
            out[i] = i < (size_t)k ? pf_bf16_to_f32(pf_bf16_from_f32(a[(size_t)row * lda + i])) : 0.0f;
    }
}

/* Write one row of one panel's results where they belong: columns past n are padding. */
static void put(float *c, const float *sum, int32_t n_columns, pf_gemm_mode mode)
{
    for (int32_t j = 0; j < n_columns; j++) c[j] = mode == PF_GEMM_ADD ? c[j] + sum[j] : sum[j];
}

static int32_t columns_of(const pf_gemm_weights *w, int32_t panel)
{
    const int32_t left = w->n - panel * PF_GEMM_PANEL;
    return left < PF_GEMM_PANEL ? left : PF_GEMM_PANEL;
}

void pf_gemm_f32_ref(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin, int32_t panel_end,
                     float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    (void)scratch;
    const size_t k = (size_t)w->k;
    for (int32_t p = panel_begin; p < panel_end; p++) {
        const float *panel = (const float *)w->panels + (size_t)p * (w->panel_bytes / sizeof(float));
        for (int32_t row = 0; row < m; row++) {
            const float *a = (const float *)input + (size_t)row * k;
            float sum[PF_GEMM_PANEL] = { 0 };
            for (size_t i = 0; i < k; i++)
                for (int32_t j = 0; j < PF_GEMM_PANEL; j++)
                    sum[j] = fmaf(a[i], panel[i * PF_GEMM_PANEL + (size_t)j], sum[j]);
            put(c + (size_t)row * ldc + (size_t)p * PF_GEMM_PANEL, sum, columns_of(w, p), mode);
        }
    }
}

void pf_gemm_bf16_ref(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin, int32_t panel_end,
                      float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    (void)scratch;
    const size_t k_even = pf_round_up((size_t)w->k, 2);
    for (int32_t p = panel_begin; p < panel_end; p++) {
        const uint16_t *panel = (const uint16_t *)w->panels + (size_t)p * (w->panel_bytes / sizeof(uint16_t));
        for (int32_t row = 0; row < m; row++) {
            const float *a = (const float *)input + (size_t)row * k_even;
            float sum[PF_GEMM_PANEL] = { 0 };
            for (size_t i = 0; i < k_even; i += 2)
                for (int32_t j = 0; j < PF_GEMM_PANEL; j++) {
                    const uint16_t *pair = panel + i * PF_GEMM_PANEL + 2 * (size_t)j;
                    sum[j] = fmaf(a[i + 1], pf_bf16_to_f32(pair[1]), sum[j]);
                    sum[j] = fmaf(a[i], pf_bf16_to_f32(pair[0]), sum[j]);
                }
            put(c + (size_t)row * ldc + (size_t)p * PF_GEMM_PANEL, sum, columns_of(w, p), mode);
        }
    }
}

static void unpack_bf16_12(const pf_gemm_weights *w, int32_t panel, size_t block, uint16_t out[PF_B12_BLOCK_VALUES])
{
    const uint8_t *codes = pf_b12_panel(w, panel), *blocks = codes + pf_b12_head_bytes(w->k);
    const uint8_t *reserved = pf_b12_reserve(w, panel) + pf_b12_reserved_before(codes, block);
    pf_b12_unpack_block(codes[block], blocks + block * PF_B12_BLOCK_BYTES, reserved, out);
}

void pf_gemm_bf16_12_ref(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin, int32_t panel_end,
                         float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    const size_t k_even = pf_round_up((size_t)w->k, 2);
    float *sums = scratch; /* [m, 32]: each block is unpacked once for all rows */
    for (int32_t p = panel_begin; p < panel_end; p++) {
        memset(sums, 0, (size_t)m * PF_GEMM_PANEL * sizeof *sums);
        uint16_t plain[PF_B12_BLOCK_VALUES];
        for (size_t i = 0; i < k_even; i += 2) {
            const size_t in_block = i % PF_B12_BLOCK_K;
            if (in_block == 0) unpack_bf16_12(w, p, i / PF_B12_BLOCK_K, plain);
            for (size_t j = 0; j < PF_GEMM_PANEL; j++) {
                const uint16_t *pair = plain + in_block * PF_GEMM_PANEL + 2 * j;
                for (int32_t row = 0; row < m; row++) {
                    const float *a = (const float *)input + (size_t)row * k_even;
                    float *sum = &sums[(size_t)row * PF_GEMM_PANEL + j];
                    *sum = fmaf(a[i + 1], pf_bf16_to_f32(pair[1]), *sum);
                    *sum = fmaf(a[i], pf_bf16_to_f32(pair[0]), *sum);
                }
            }
        }
        for (int32_t row = 0; row < m; row++)
            put(c + (size_t)row * ldc + (size_t)p * PF_GEMM_PANEL, sums + (size_t)row * PF_GEMM_PANEL, columns_of(w, p),
                mode);
    }
}

/* Quantised input: for each row its scale, then k values, k rounded up to 4. */
static size_t int8_row_bytes(int32_t k)
{
    return sizeof(float) + pf_round_up((size_t)k, 4);
}

void pf_gemm_pack_int8_ref(void *input, const float *a, size_t lda, int32_t m, int32_t k, int32_t tile_begin,
                           int32_t tile_end)
{
    (void)m;
    const size_t row_bytes = int8_row_bytes(k);
    for (int32_t row = tile_begin; row < tile_end; row++) {
        const float *from = a + (size_t)row * lda;
        uint8_t *out = (uint8_t *)input + (size_t)row * row_bytes;
        memset(out, 0, row_bytes);
        const float scale = pf_round_int8_ref(from, (size_t)k, (int8_t *)out + sizeof scale);
        memcpy(out, &scale, sizeof scale);
    }
}

/* A row times column j of a panel: exact. */
static int32_t column_sum(const pf_gemm_layout *l, const uint8_t *panel, int32_t j, const int8_t *a, int32_t k)
{
    int32_t sum = 0;
    for (int32_t i = 0; i < k; i++) sum += a[i] * pf_gemm_integer(l, panel, j, (size_t)i);
    return sum;
}

void pf_gemm_integers_int8_ref(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin,
                               int32_t panel_end, float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    (void)scratch;
    const pf_gemm_layout l = pf_gemm_layout_of(w->format, w->k);
    const size_t row_bytes = int8_row_bytes(w->k);
    for (int32_t p = panel_begin; p < panel_end; p++) {
        const uint8_t *panel = (const uint8_t *)w->panels + (size_t)p * w->panel_bytes;
        for (int32_t row = 0; row < m; row++) {
            const uint8_t *a = (const uint8_t *)input + (size_t)row * row_bytes;
            float row_scale, result[PF_GEMM_PANEL];
            memcpy(&row_scale, a, sizeof row_scale);
            for (int32_t j = 0; j < PF_GEMM_PANEL; j++) {
                const int32_t sum = column_sum(&l, panel, j, (const int8_t *)a + sizeof row_scale, w->k);
                result[j] = fmaf((float)sum, pf_gemm_scale(panel, j), 0.0f) * row_scale;
            }
            put(c + (size_t)row * ldc + (size_t)p * PF_GEMM_PANEL, result, columns_of(w, p), mode);
        }
    }
}

/* Integer weight i of column j as bf16. */
static float weight_as_bf16(const pf_gemm_layout *l, const uint8_t *panel, int32_t j, int32_t i)
{
    return pf_bf16_to_f32(pf_bf16_from_f32((float)pf_gemm_integer(l, panel, j, (size_t)i) * pf_gemm_scale(panel, j)));
}

void pf_gemm_integers_bf16_ref(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin,
                               int32_t panel_end, float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    const pf_gemm_layout l = pf_gemm_layout_of(w->format, w->k);
    const int32_t k_even = (w->k + 1) / 2 * 2;
    float *sums = scratch; /* [m, 32]: each pair of weights is rounded once for all rows */
    for (int32_t p = panel_begin; p < panel_end; p++) {
        const uint8_t *panel = (const uint8_t *)w->panels + (size_t)p * w->panel_bytes;
        memset(sums, 0, (size_t)m * PF_GEMM_PANEL * sizeof *sums);
        for (int32_t i = 0; i < k_even; i += 2)
            for (int32_t j = 0; j < PF_GEMM_PANEL; j++) {
                const float even = weight_as_bf16(&l, panel, j, i), odd = weight_as_bf16(&l, panel, j, i + 1);
                for (int32_t row = 0; row < m; row++) {
                    const float *a = (const float *)input + (size_t)row * (size_t)k_even;
                    float *sum = &sums[row * PF_GEMM_PANEL + j];
                    *sum = fmaf(a[i + 1], odd, *sum);
                    *sum = fmaf(a[i], even, *sum);
                }
            }
        for (int32_t row = 0; row < m; row++)
            put(c + (size_t)row * ldc + (size_t)p * PF_GEMM_PANEL, sums + row * PF_GEMM_PANEL, columns_of(w, p), mode);
    }
}
