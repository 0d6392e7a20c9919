/* The definition of the product: one chain over K for each output. Tiles of one row. */
#include <math.h>

#include "base/checked.h"
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
