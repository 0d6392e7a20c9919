/* Sizes, and what packed rows stand for: what all implementations of the product share. */
#include "base/checked.h"
#include "kernels/gemm/layout.h"

pf_status pf_gemm_plan_weights(pf_format format, int32_t n, int32_t k, pf_gemm_weights *out, size_t *bytes)
{
    if (n <= 0 || k <= 0 || (unsigned)format >= PF_N_FORMATS) return PF_INVALID;
    const int32_t bits = pf_format_get(format)->bits;
    const size_t n_panels = ((size_t)n + PF_GEMM_PANEL - 1) / PF_GEMM_PANEL;
    size_t panel_bytes, total;
    if (bits < 16) {
        if (k > PF_GEMM_MAX_INT_K) return PF_LIMIT;
        const pf_gemm_layout l = pf_gemm_layout_of(format, k);
        panel_bytes = pf_round_up((size_t)l.n_groups * l.group_bytes, 64);
    } else {
        const size_t steps = bits == 32 ? (size_t)k : ((size_t)k + 1) / 2;
        if (!pf_size_mul(steps, 4 * PF_GEMM_PANEL, &panel_bytes)) return PF_LIMIT;
    }
    if (!pf_size_mul(panel_bytes, n_panels, &total)) return PF_LIMIT;
    *out = (pf_gemm_weights){
        .format = format, .n = n, .k = k, .n_panels = (int32_t)n_panels, .panel_bytes = panel_bytes
    };
    *bytes = total;
    return PF_OK;
}

size_t pf_gemm_input_bytes(int32_t m, int32_t k)
{
    const size_t rows = pf_round_up((size_t)m, 16), values = pf_round_up((size_t)k, 128);
    return rows * (values * 4 + values / 32 * 4 + 64);
}

size_t pf_gemm_scratch_bytes(int32_t m)
{
    return pf_round_up((size_t)m, 16) * PF_GEMM_PANEL * (sizeof(float) + sizeof(int32_t)) + PF_GEMM_UNPACKED_BYTES;
}

int32_t pf_gemm_groups(pf_format format, int32_t k)
{
    return pf_gemm_layout_of(format, k).n_groups;
}

static void unpack_integers(const pf_gemm_weights *w, const uint8_t *panel, int32_t j, float *out)
{
    const pf_gemm_layout l = pf_gemm_layout_of(w->format, w->k);
    for (int32_t k = 0; k < w->k; k++) {
        const uint8_t *group = panel + (size_t)(k / l.group) * l.group_bytes;
        const int32_t q = pf_gemm_stored(&l, group, j, (size_t)(k % l.group)) - pf_gemm_zero(&l, group, j);
        out[k] = (float)q * pf_gemm_scale(&l, group, j);
    }
}

void pf_gemm_unpack_row(const pf_gemm_weights *w, int32_t n, float *out)
{
    const uint8_t *panel = (const uint8_t *)w->panels + (size_t)(n / PF_GEMM_PANEL) * w->panel_bytes;
    const size_t j = (size_t)(n % PF_GEMM_PANEL), n_values = (size_t)w->k;
    if (w->format == PF_FORMAT_F32) {
        const float *values = (const float *)(const void *)panel;
        for (size_t k = 0; k < n_values; k++) out[k] = values[k * PF_GEMM_PANEL + j];
    } else if (w->format == PF_FORMAT_BF16) {
        const uint16_t *values = (const uint16_t *)(const void *)panel;
        for (size_t k = 0; k < n_values; k++) out[k] = pf_bf16_to_f32(values[(k / 2 * PF_GEMM_PANEL + j) * 2 + k % 2]);
    } else {
        unpack_integers(w, panel, (int32_t)j, out);
    }
}
