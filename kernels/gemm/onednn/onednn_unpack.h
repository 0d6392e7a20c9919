/*
 * Columns of a packed matrix, taken out of their panels into plain arrays [n][k], one behind the other, for gemm_onednn.c
 * alone: numbers as they are; integers of any format as int8, (q - z) * m, and a scale for each column [n].
 */
#ifndef PF_KERNELS_GEMM_ONEDNN_UNPACK_H
#define PF_KERNELS_GEMM_ONEDNN_UNPACK_H

#include "kernels/gemm/layout_int.h"

/* f32 or bf16. `row`: [k], room to work in. */
static inline void pf_onednn_unpack_numbers(const pf_gemm_weights *w, int32_t panel_begin, int32_t n, void *out,
                                            float *row)
{
    const size_t k = (size_t)w->k;
    for (size_t j = 0; j < (size_t)n; j++) {
        pf_gemm_unpack_row(w, panel_begin * PF_GEMM_PANEL + (int32_t)j, row);
        if (w->format == PF_FORMAT_F32)
            memcpy((float *)out + j * k, row, k * sizeof *row);
        else
            for (size_t i = 0; i < k; i++) ((uint16_t *)out)[j * k + i] = pf_bf16_from_f32(row[i]);
    }
}

static inline void pf_onednn_unpack_integers(const pf_gemm_weights *w, int32_t panel_begin, int32_t n, int8_t *out,
                                             float *scales)
{
    const pf_gemm_layout l = pf_gemm_layout_of(w->format, w->k);
    const size_t k = (size_t)w->k;
    for (int32_t j = 0; j < n; j++) {
        const uint8_t *panel = (const uint8_t *)w->panels + (size_t)(panel_begin + j / PF_GEMM_PANEL) * w->panel_bytes;
        scales[j] = pf_gemm_scale(panel, j % PF_GEMM_PANEL);
        for (size_t i = 0; i < k; i++)
            out[(size_t)j * k + i] = (int8_t)pf_gemm_integer(&l, panel, j % PF_GEMM_PANEL, i);
    }
}

#endif
