/*
 * Columns of a packed matrix, taken out of their panels into plain arrays, for gemm_onednn.c alone.
 *
 *   numbers   [n][k]                        one column behind the other
 *   int8      [n][k], scales [n]            the same
 *   int4      [n][values] or [values][n]    two nibbles a byte, the earlier in the low one; n whole panels, values whole
 *             scales [groups][n]            groups: what fills them counts nothing, as in a panel
 *             zeros  [groups][n]            bytes, or nibbles in the same way
 */
#ifndef PF_KERNELS_GEMM_ONEDNN_UNPACK_H
#define PF_KERNELS_GEMM_ONEDNN_UNPACK_H

#include "kernels/gemm/layout.h"

static inline const uint8_t *pf_onednn_panel(const pf_gemm_weights *w, int32_t panel)
{
    return (const uint8_t *)w->panels + (size_t)panel * w->panel_bytes;
}

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

static inline void pf_onednn_unpack_int8(const pf_gemm_weights *w, int32_t panel_begin, int32_t n, int8_t *out,
                                         float *scales)
{
    const pf_gemm_layout l = pf_gemm_layout_of(w->format, w->k);
    const size_t k = (size_t)w->k;
    for (int32_t j = 0; j < n; j++) {
        const uint8_t *panel = pf_onednn_panel(w, panel_begin + j / PF_GEMM_PANEL);
        scales[j] = pf_gemm_scale(&l, panel, j % PF_GEMM_PANEL);
        for (size_t i = 0; i < k; i++)
            out[(size_t)j * k + i] = (int8_t)(pf_gemm_stored(&l, panel, j % PF_GEMM_PANEL, i) - 128);
    }
}

typedef struct {
    bool transposed;   /* [n][values] */
    bool centred;      /* q - 8, in two's complement, and no zero points; else q */
    bool nibble_zeros; /* two zero points a byte */
    uint8_t *q;        /* zeroed */
    float *scales;
    uint8_t *zeros; /* zeroed; NULL where centred */
} pf_onednn_int4;

static inline void pf_onednn_put_nibble(uint8_t *to, size_t at, int32_t value)
{
    to[at / 2] |= (uint8_t)((value & 15) << (at % 2 * 4));
}

/* Group g of a panel, whose first column is `column` of n. */
static inline void pf_onednn_unpack_group(const pf_gemm_layout *l, const uint8_t *group, size_t g, size_t column,
                                          size_t n, const pf_onednn_int4 *out)
{
    const size_t n_values = (size_t)l->n_groups * (size_t)l->group, first = g * (size_t)l->group;
    for (int32_t j = 0; j < PF_GEMM_PANEL; j++) {
        const size_t at = g * n + column + (size_t)j;
        out->scales[at] = pf_gemm_scale(l, group, j);
        if (out->centred) continue;
        if (out->nibble_zeros)
            pf_onednn_put_nibble(out->zeros, at, pf_gemm_zero(l, group, j));
        else
            out->zeros[at] = (uint8_t)pf_gemm_zero(l, group, j);
    }
    for (size_t i = 0; i < (size_t)l->group; i++)
        for (int32_t j = 0; j < PF_GEMM_PANEL; j++) {
            const size_t to = column + (size_t)j;
            const size_t at = out->transposed ? to * n_values + first + i : (first + i) * n + to;
            pf_onednn_put_nibble(out->q, at, pf_gemm_stored(l, group, j, i) - (out->centred ? 8 : 0));
        }
}

/* Panels [panel_begin, panel_end). */
static inline void pf_onednn_unpack_int4(const pf_gemm_weights *w, int32_t panel_begin, int32_t panel_end,
                                         const pf_onednn_int4 *out)
{
    const pf_gemm_layout l = pf_gemm_layout_of(w->format, w->k);
    const size_t n = (size_t)(panel_end - panel_begin) * PF_GEMM_PANEL;
    for (int32_t p = panel_begin; p < panel_end; p++)
        for (size_t g = 0; g < (size_t)l.n_groups; g++)
            pf_onednn_unpack_group(&l, pf_onednn_panel(w, p) + g * l.group_bytes, g,
                                   (size_t)(p - panel_begin) * PF_GEMM_PANEL, n, out);
}

#endif
