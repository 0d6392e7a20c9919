/*
 * Packing of weights. Columns are packed a stretch of K at a time, so that the lines of the panel that they share stay
 * in L1.
 */
#include <assert.h>

#include "base/checked.h"
#include "kernels/gemm/quantise.h"

enum { STRETCH = 128, STEP_BYTES = 128 }; /* of f32 and bf16: 32 values, or 32 pairs */

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

/* A row of the stacked sources; all NULL past their end. */
typedef struct {
    const unsigned char *data;
    pf_type type;
    const unsigned char *scales; /* of integers, as the zeros */
    pf_type scale_type;
    const uint8_t *zeros;
} row_view;

static row_view source_row(const pf_gemm_weights *w, const pf_gemm_source *sources, int32_t n_sources, int32_t n)
{
    for (int32_t s = 0; s < n_sources; s++) {
        const pf_gemm_source *source = &sources[s];
        if (n >= source->n_rows) {
            n -= source->n_rows;
            continue;
        }
        const size_t row = (size_t)n,
                     bits = source->scales ? (size_t)pf_format_get(w->format)->bits : 8 * pf_type_bytes(source->type);
        row_view view = { .data = (const unsigned char *)source->data + row * source->stride * bits / 8,
                          .type = source->type,
                          .scale_type = source->scale_type };
        if (source->scales) {
            const size_t group = row * (size_t)pf_gemm_groups(w->format, w->k);
            view.scales = (const unsigned char *)source->scales + group * pf_type_bytes(source->scale_type);
            view.zeros = source->zeros ? source->zeros + group : NULL;
        }
        return view;
    }
    return (row_view){ 0 };
}

static void pack_panel_floats(const pf_gemm_weights *w, unsigned char *panel, const row_view rows[PF_GEMM_PANEL])
{
    const size_t k_all = (size_t)w->k, k_step = w->format == PF_FORMAT_F32 ? 1 : 2;
    for (size_t k0 = 0; k0 < k_all; k0 += STRETCH) {
        const size_t n_values = k_all - k0 < STRETCH ? k_all - k0 : STRETCH;
        unsigned char *stretch = panel + k0 / k_step * STEP_BYTES;
        for (size_t j = 0; j < PF_GEMM_PANEL; j++) {
            const unsigned char *row = rows[j].data ? rows[j].data + k0 * pf_type_bytes(rows[j].type) : NULL;
            if (w->format == PF_FORMAT_F32)
                pack_column_f32((float *)(void *)stretch + j, row, rows[j].type, n_values);
            else
                pack_column_bf16((uint16_t *)(void *)stretch + 2 * j, row, rows[j].type, n_values);
        }
    }
}

/* Values [k, k + n) of a row of numbers, n at most a stretch, into `range`. */
static void add_to_range(pf_gemm_range *range, const row_view *row, size_t k, size_t n)
{
    float values[STRETCH];
    pf_gemm_load_finite(values, row->data, row->type, k, n);
    pf_gemm_range_add(range, values, n);
}

/* How group g of a row, values [begin, end), is rounded, or was. */
static pf_gemm_rounding group_rounding(const pf_gemm_layout *l, const row_view *row, int32_t g, size_t begin,
                                       size_t end)
{
    if (!row->data) return (pf_gemm_rounding){ .zero = l->bits == 8 ? 128 : l->has_zeros ? 0 : 8 };
    if (row->scales) {
        pf_gemm_rounding r = { .zero = l->bits == 8 ? 128 : l->has_zeros ? row->zeros[g] & 15 : 8 };
        r.scale = load_element(row->scales, row->scale_type, (size_t)g);
        return r;
    }
    pf_gemm_range range = { 0 };
    for (size_t k = begin; k < end; k += STRETCH) add_to_range(&range, row, k, end - k < STRETCH ? end - k : STRETCH);
    return pf_gemm_rounding_of(l, &range);
}

/* Values [k, k + n) of a row, stored; k is even. */
static void stored_values(const pf_gemm_layout *l, const row_view *row, const pf_gemm_rounding *rounding, size_t k,
                          size_t n, uint8_t *stored)
{
    float values[STRETCH];
    if (!row->data) {
        memset(stored, rounding->zero, n);
    } else if (!row->scales) {
        pf_gemm_load_finite(values, row->data, row->type, k, n);
        pf_gemm_round(l, rounding, values, stored, n);
    } else if (l->bits == 8) {
        for (size_t i = 0; i < n; i++) stored[i] = row->data[k + i] ^ 0x80;
    } else {
        for (size_t i = 0; i < n; i++) stored[i] = row->data[(k + i) / 2] >> (i % 2 * 4) & 15;
    }
}

/* Rows of stored values to steps of a panel. */
static void spread(uint8_t *to, int32_t bits, uint8_t stored[PF_GEMM_PANEL][STRETCH], size_t n_steps)
{
    for (size_t step = 0; step < n_steps; step++)
        for (size_t j = 0; j < (bits == 8 ? 32 : 16); j++)
            for (size_t i = 0; i < 4; i++)
                *to++ = bits == 8 ? stored[j][4 * step + i]
                                  : (uint8_t)(stored[j][4 * step + i] | stored[j + 16][4 * step + i] << 4);
}

static void pack_group(const pf_gemm_layout *l, uint8_t *group, const row_view rows[PF_GEMM_PANEL], int32_t g,
                       size_t k_all)
{
    const size_t begin = (size_t)g * (size_t)l->group, whole = begin + (size_t)l->group;
    const size_t end = whole < k_all ? whole : k_all;
    pf_gemm_rounding rounding[PF_GEMM_PANEL];
    for (size_t j = 0; j < PF_GEMM_PANEL; j++) {
        rounding[j] = group_rounding(l, &rows[j], g, begin, end);
        pf_gemm_store_scale(l, group, j, rounding[j].scale);
        if (l->has_zeros) group[l->zeros_at + j] = (uint8_t)rounding[j].zero;
    }
    if (l->has_zeros) memset(group + l->zeros_at + PF_GEMM_PANEL, 0, l->head_bytes - l->zeros_at - PF_GEMM_PANEL);

    uint8_t stored[PF_GEMM_PANEL][STRETCH];
    for (size_t k = begin; k < whole; k += STRETCH) {
        const size_t n = end - k < STRETCH ? end - k : STRETCH, filled = whole - k < STRETCH ? whole - k : STRETCH;
        for (size_t j = 0; j < PF_GEMM_PANEL; j++) {
            stored_values(l, &rows[j], &rounding[j], k, n, stored[j]);
            memset(stored[j] + n, rounding[j].zero, filled - n);
        }
        spread(group + l->head_bytes + (k - begin) / 4 * l->step_bytes, l->bits, stored, filled / 4);
    }
}

static void pack_panel_integers(const pf_gemm_weights *w, uint8_t *panel, const row_view rows[PF_GEMM_PANEL])
{
    const pf_gemm_layout l = pf_gemm_layout_of(w->format, w->k);
    for (int32_t g = 0; g < l.n_groups; g++) pack_group(&l, panel + (size_t)g * l.group_bytes, rows, g, (size_t)w->k);
    const size_t used = (size_t)l.n_groups * l.group_bytes;
    memset(panel + used, 0, w->panel_bytes - used);
}

void pf_gemm_pack_weights(const pf_gemm_weights *w, const pf_gemm_source *sources, int32_t n_sources,
                          int32_t panel_begin, int32_t panel_end)
{
    int64_t n_rows = 0;
    for (int32_t s = 0; s < n_sources; s++) n_rows += sources[s].n_rows;
    assert(n_rows == w->n && "stacked sources must have the matrix's rows");
    (void)n_rows;

    for (int32_t p = panel_begin; p < panel_end; p++) {
        unsigned char *panel = (unsigned char *)w->panels + (size_t)p * w->panel_bytes;
        row_view rows[PF_GEMM_PANEL];
        for (int32_t j = 0; j < PF_GEMM_PANEL; j++) rows[j] = source_row(w, sources, n_sources, p * PF_GEMM_PANEL + j);
        if (pf_format_get(w->format)->bits < 16)
            pack_panel_integers(w, panel, rows);
        else
            pack_panel_floats(w, panel, rows);
    }
}
