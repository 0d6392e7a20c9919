/* Sizes, and packing of weights: what all implementations of the product share. */
#include "kernels/gemm/gemm.h"

#include <assert.h>

#include "base/checked.h"

enum { STEP_BYTES = 128 }; /* 32 f32 values, or 32 pairs of bf16 */

static size_t steps(pf_format format, int32_t k)
{
    return format == PF_FORMAT_F32 ? (size_t)k : ((size_t)k + 1) / 2;
}

pf_status pf_gemm_plan_weights(pf_format format, int32_t n, int32_t k, pf_gemm_weights *out, size_t *bytes)
{
    if (n <= 0 || k <= 0 || (format != PF_FORMAT_F32 && format != PF_FORMAT_BF16)) return PF_INVALID;
    const size_t n_panels = ((size_t)n + PF_GEMM_PANEL - 1) / PF_GEMM_PANEL;
    size_t panel_bytes, total;
    if (!pf_size_mul(steps(format, k), STEP_BYTES, &panel_bytes)) return PF_LIMIT;
    if (!pf_size_mul(panel_bytes, n_panels, &total)) return PF_LIMIT;
    *out = (pf_gemm_weights){ .format = format, .n = n, .k = k, .n_panels = (int32_t)n_panels, .panel_bytes = panel_bytes };
    *bytes = total;
    return PF_OK;
}

size_t pf_gemm_input_bytes(int32_t m, int32_t k)
{
    return (size_t)m * pf_round_up((size_t)k, 2) * sizeof(float); /* where bf16 pairs are kept as two f32 */
}

size_t pf_gemm_scratch_bytes(int32_t m)
{
    return (size_t)m * PF_GEMM_PANEL * sizeof(float);
}

static float load_element(const unsigned char *row, pf_type type, size_t k)
{
    float f;
    uint16_t h;
    if (type == PF_TYPE_F32) {
        memcpy(&f, row + k * sizeof f, sizeof f);
        return f;
    }
    memcpy(&h, row + k * sizeof h, sizeof h);
    return type == PF_TYPE_BF16 ? pf_bf16_to_f32(h) : pf_f16_to_f32(h);
}

/* One column of an f32 panel from one row of the source; NULL: zeros. */
static void pack_column_f32(float *panel, const unsigned char *row, pf_type type, size_t n_values)
{
    for (size_t k = 0; k < n_values; k++) panel[k * PF_GEMM_PANEL] = row ? load_element(row, type, k) : 0.0f;
}

static void pack_column_bf16(uint16_t *panel, const unsigned char *row, pf_type type, size_t n_values)
{
    for (size_t k = 0; k < pf_round_up(n_values, 2); k++) {
        uint16_t h = 0;
        if (row && k < n_values) {
            if (type == PF_TYPE_BF16)
                memcpy(&h, row + k * sizeof h, sizeof h);
            else
                h = pf_bf16_from_f32(load_element(row, type, k));
        }
        panel[(k / 2) * 2 * PF_GEMM_PANEL + k % 2] = h;
    }
}

/* Row n of the stacked sources, or NULL past their end. */
static const unsigned char *source_row(const pf_gemm_source *sources, int32_t n_sources, int32_t n, pf_type *type)
{
    for (int32_t s = 0; s < n_sources; s++) {
        if (n < sources[s].n_rows) {
            *type = sources[s].type;
            return (const unsigned char *)sources[s].data +
                   (size_t)n * sources[s].stride * pf_type_bytes(sources[s].type);
        }
        n -= sources[s].n_rows;
    }
    *type = PF_TYPE_F32;
    return NULL;
}

void pf_gemm_pack_weights(const pf_gemm_weights *w, const pf_gemm_source *sources, int32_t n_sources,
                          int32_t panel_begin, int32_t panel_end)
{
    /* Columns are packed a stretch of K at a time, so that the lines of the panel that they share stay in L1. */
    enum { STRETCH = 128 };
    int64_t n_rows = 0;
    for (int32_t s = 0; s < n_sources; s++) n_rows += sources[s].n_rows;
    assert(n_rows == w->n && "stacked sources must have the matrix's rows");
    (void)n_rows;

    const size_t k_all = (size_t)w->k;
    for (int32_t p = panel_begin; p < panel_end; p++) {
        unsigned char *panel = (unsigned char *)w->panels + (size_t)p * w->panel_bytes;
        for (size_t k0 = 0; k0 < k_all; k0 += STRETCH) {
            const size_t n_values = k_all - k0 < STRETCH ? k_all - k0 : STRETCH;
            unsigned char *stretch = panel + steps(w->format, (int32_t)k0) * STEP_BYTES;
            for (int32_t j = 0; j < PF_GEMM_PANEL; j++) {
                pf_type type;
                const unsigned char *row = source_row(sources, n_sources, p * PF_GEMM_PANEL + j, &type);
                if (row) row += k0 * pf_type_bytes(type);
                if (w->format == PF_FORMAT_F32)
                    pack_column_f32((float *)(void *)stretch + j, row, type, n_values);
                else
                    pack_column_bf16((uint16_t *)(void *)stretch + 2 * (size_t)j, row, type, n_values);
            }
        }
    }
}
