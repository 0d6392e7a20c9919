/*
 * Packing of weights: one text, compiled for each instruction set, which gives the same panels. Columns are packed a
 * stretch of K at a time, so that the lines of the panel that they share stay in L1. Internal.
 */
#ifndef PF_KERNELS_GEMM_PACK_NEST_H
#define PF_KERNELS_GEMM_PACK_NEST_H

#include <assert.h>

#include "base/checked.h"
#include "kernels/gemm/bf16_12_encode.h"
#include "kernels/gemm/quantise.h"
#include "kernels/implementations.h"

/* A row of the stacked sources; all NULL past their end. */
typedef struct {
    const unsigned char *data;
    pf_type type;
    const unsigned char *scales; /* of integers, as the zeros */
    pf_type scale_type;
    const uint8_t *zeros;
} row_view;

static inline row_view source_row(const pf_gemm_weights *w, const pf_gemm_source *sources, int32_t n_sources, int32_t n)
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

/* n values of a row from value k on as they are held: words of one f32, or of two bf16, the last perhaps half. */
static inline void load_words(uint32_t *words, pf_format format, const row_view *row, size_t k, size_t n)
{
    float values[STRETCH + 1];
    if (format != PF_FORMAT_F32 && row->type == PF_TYPE_BF16) {
        if (n % 2) words[n / 2] = 0;
        memcpy(words, row->data + 2 * k, 2 * n);
        return;
    }
    load_floats(values, row->data, row->type, k, n);
    values[n] = 0.0f;
    if (format == PF_FORMAT_F32)
        memcpy(words, values, n * sizeof *words);
    else
        for (size_t i = 0; i < (n + 1) / 2; i++)
            words[i] = pf_bf16_from_f32(values[2 * i]) | (uint32_t)pf_bf16_from_f32(values[2 * i + 1]) << 16;
}

/* Values [k, k + n) of all columns, n at most a stretch, as panels of f32 and bf16 have them. */
static inline void pack_stretch(uint32_t *out, pf_format format, const row_view rows[PF_GEMM_PANEL], size_t k, size_t n)
{
    const size_t n_words = format == PF_FORMAT_F32 ? n : (n + 1) / 2;
    uint32_t words[STRETCH];
    for (size_t j = 0; j < PF_GEMM_PANEL; j++) {
        if (rows[j].data)
            load_words(words, format, &rows[j], k, n);
        else
            memset(words, 0, n_words * sizeof *words);
        for (size_t i = 0; i < n_words; i++) out[i * PF_GEMM_PANEL + j] = words[i];
    }
}

static inline void pack_panel_floats(const pf_gemm_weights *w, uint32_t *panel, const row_view rows[PF_GEMM_PANEL])
{
    const size_t k_all = (size_t)w->k, per_word = w->format == PF_FORMAT_F32 ? 1 : 2;
    for (size_t k = 0; k < k_all; k += STRETCH)
        pack_stretch(panel + k / per_word * PF_GEMM_PANEL, w->format, rows, k,
                     k_all - k < STRETCH ? k_all - k : STRETCH);
}

/* False: it takes more than a panel has in reserve. */
static inline bool pack_panel_bf16_12(const pf_gemm_weights *w, int32_t p, const row_view rows[PF_GEMM_PANEL])
{
    const size_t k_all = (size_t)w->k;
    uint8_t *code = pf_b12_panel(w, p), *block = code + pf_b12_head_bytes(w->k);
    uint8_t *reserve = pf_b12_reserve(w, p), *end = reserve + pf_b12_reserve_bytes(w->k);
    uint32_t words[STRETCH / 2 * PF_GEMM_PANEL];
    memset(code, 0, pf_b12_head_bytes(w->k));
    for (size_t k = 0; k < k_all; k += STRETCH) {
        const size_t n = k_all - k < STRETCH ? k_all - k : STRETCH;
        if (n < STRETCH) memset(words, 0, sizeof words);
        pack_stretch(words, w->format, rows, k, n);
        for (size_t i = 0; i < n; i += PF_B12_BLOCK_K, block += PF_B12_BLOCK_BYTES, code++) {
            uint16_t values[PF_B12_BLOCK_VALUES];
            uint8_t reserved[PF_B12_RAW_BYTES];
            memcpy(values, words + i / 2 * PF_GEMM_PANEL, sizeof values);
            *code = encode_block(values, block, reserved);
            const size_t bytes = pf_b12_reserved(*code);
            if (bytes > (size_t)(end - reserve)) return false;
            memcpy(reserve, reserved, bytes);
            reserve += bytes;
        }
    }
    return true;
}

/* Values [k, k + n) of a row of numbers, n at most a stretch, into `range`. */
static inline void add_to_range(range_of_values *range, const row_view *row, size_t k, size_t n)
{
    float values[STRETCH];
    load_finite(values, row->data, row->type, k, n);
    range_add(range, values, n);
}

/* How group g of a row, values [begin, end), is rounded, or was. */
static inline rounding_rule group_rounding(const pf_gemm_layout *l, const row_view *row, int32_t g, size_t begin,
                                           size_t end)
{
    if (!row->data) return (rounding_rule){ .zero = l->bits == 8 ? 128 : l->has_zeros ? 0 : 8 };
    if (row->scales) {
        rounding_rule r = { .zero = l->bits == 8 ? 128 : l->has_zeros ? row->zeros[g] & 15 : 8 };
        load_floats(&r.scale, row->scales, row->scale_type, (size_t)g, 1);
        return r;
    }
    range_of_values range = { 0 };
    for (size_t k = begin; k < end; k += STRETCH) add_to_range(&range, row, k, end - k < STRETCH ? end - k : STRETCH);
    return rounding_of(l, &range);
}

/* Values [k, k + n) of a row, stored; k is even. */
static inline void stored_values(const pf_gemm_layout *l, const row_view *row, const rounding_rule *rounding, size_t k,
                                 size_t n, uint8_t *stored)
{
    float values[STRETCH];
    if (!row->data) {
        memset(stored, rounding->zero, n);
    } else if (!row->scales) {
        load_finite(values, row->data, row->type, k, n);
        round_values(l, rounding, values, stored, n);
    } else if (l->bits == 8) {
        for (size_t i = 0; i < n; i++) stored[i] = row->data[k + i] ^ 0x80;
    } else {
        for (size_t i = 0; i < n; i++) stored[i] = row->data[(k + i) / 2] >> (i % 2 * 4) & 15;
    }
}

/* Rows of stored values to steps of a panel, four values at a time. */
static inline void spread(uint8_t *to, int32_t bits, uint8_t stored[PF_GEMM_PANEL][STRETCH], size_t n_steps)
{
    const size_t n_words = bits == 8 ? 32 : 16;
    for (size_t j = 0; j < n_words; j++)
        for (size_t step = 0; step < n_steps; step++) {
            uint32_t word, high;
            memcpy(&word, stored[j] + 4 * step, sizeof word);
            if (bits == 4) {
                memcpy(&high, stored[j + 16] + 4 * step, sizeof high);
                word |= high << 4;
            }
            memcpy(to + (step * n_words + j) * sizeof word, &word, sizeof word);
        }
}

static inline void pack_group(const pf_gemm_layout *l, uint8_t *group, const row_view rows[PF_GEMM_PANEL], int32_t g,
                              size_t k_all)
{
    const size_t begin = (size_t)g * (size_t)l->group, whole = begin + (size_t)l->group;
    const size_t end = whole < k_all ? whole : k_all;
    rounding_rule rounding[PF_GEMM_PANEL];
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

static inline void pack_panel_integers(const pf_gemm_weights *w, uint8_t *panel, const row_view rows[PF_GEMM_PANEL])
{
    const pf_gemm_layout l = pf_gemm_layout_of(w->format, w->k);
    for (int32_t g = 0; g < l.n_groups; g++) pack_group(&l, panel + (size_t)g * l.group_bytes, rows, g, (size_t)w->k);
    const size_t used = (size_t)l.n_groups * l.group_bytes;
    memset(panel + used, 0, w->panel_bytes - used);
}

static inline bool pack_panels(const pf_gemm_weights *w, const pf_gemm_source *sources, int32_t n_sources,
                               int32_t panel_begin, int32_t panel_end)
{
    int64_t n_rows = 0;
    for (int32_t s = 0; s < n_sources; s++) n_rows += sources[s].n_rows;
    assert(n_rows == w->n && "stacked sources must have the matrix's rows");
    (void)n_rows;

    bool held = true;
    for (int32_t p = panel_begin; p < panel_end; p++) {
        uint8_t *panel = (uint8_t *)w->panels + (size_t)p * w->panel_bytes;
        row_view rows[PF_GEMM_PANEL];
        for (int32_t j = 0; j < PF_GEMM_PANEL; j++) rows[j] = source_row(w, sources, n_sources, p * PF_GEMM_PANEL + j);
        if (w->format == PF_FORMAT_BF16_12)
            held &= pack_panel_bf16_12(w, p, rows);
        else if (pf_format_get(w->format)->bits < 16)
            pack_panel_integers(w, panel, rows);
        else
            pack_panel_floats(w, (uint32_t *)(void *)panel, rows);
    }
    return held;
}

#endif
