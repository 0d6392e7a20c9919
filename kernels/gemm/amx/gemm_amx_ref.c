/* The definition of the amx class: what a chain of TDPBF16PS gives, but for denormals, which are kept here. */
#include <math.h>

#include "base/checked.h"
#include "kernels/implementations.h"

/* One output: pairs of a [k_even], and of column j of a panel. Beyond k there are zeros, which change no sum. */
static float chain(const float *a, const uint16_t *panel, int32_t j, size_t k_even)
{
    float c = 0.0f;
    for (size_t begin = 0; begin < k_even; begin += 32) {
        float even = 0.0f, odd = 0.0f;
        for (size_t i = begin; i < begin + 32 && i < k_even; i += 2) {
            const uint16_t *pair = panel + i * PF_GEMM_PANEL + 2 * (size_t)j;
            even = fmaf(a[i], pf_bf16_to_f32(pair[0]), even);
            odd = fmaf(a[i + 1], pf_bf16_to_f32(pair[1]), odd);
        }
        c = c + (even + odd);
    }
    return c;
}

/* Input: as packed by pf_gemm_pack_bf16_ref. */
void pf_gemm_bf16_amx_ref(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin,
                          int32_t panel_end, float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    (void)scratch;
    const size_t k_even = pf_round_up((size_t)w->k, 2), end = (size_t)panel_end * PF_GEMM_PANEL;
    for (int32_t row = 0; row < m; row++)
        for (size_t n = (size_t)panel_begin * PF_GEMM_PANEL; n < end && n < (size_t)w->n; n++) {
            const uint16_t *panel =
                (const uint16_t *)w->panels + n / PF_GEMM_PANEL * (w->panel_bytes / sizeof(uint16_t));
            float *out = c + (size_t)row * ldc + n;
            const float r =
                chain((const float *)input + (size_t)row * k_even, panel, (int32_t)(n % PF_GEMM_PANEL), k_even);
            *out = mode == PF_GEMM_ADD ? *out + r : r;
        }
}
