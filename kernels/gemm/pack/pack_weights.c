/*
 * Packing of weights: the definition, and the same text compiled for each instruction set, which gives the same panels. Columns are packed a
 * stretch of K at a time, so that the lines of the panel that they share stay in L1.
 */
#include <assert.h>

#include "base/checked.h"
#include "kernels/gemm/pack/bf16_12_encode.h"
#include "kernels/gemm/pack/pack_exact.h"
#include "kernels/gemm/pack/quantise.h"
#include "kernels/implementations.h"
#include "kernels/vec/isa.h"

/* A row of the stacked sources; all NULL past their end. */
typedef struct {
    const unsigned char *data;
    pf_type type;
    const unsigned char *scale; /* of integers, as the heads */
    const uint8_t *heads;
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
                          .type = source->type };
        if (source->scales) view.scale = (const unsigned char *)source->scales + row * sizeof(float);
        if (source->heads) view.heads = source->heads + row * (size_t)pf_gemm_groups(w->format, w->k);
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

/* How a column is rounded, or was; of groups the scale. */
static inline rounding_rule rounding_of_column(const pf_gemm_layout *l, const row_view *row, size_t k_all)
{
    range_of_values range = { 0 };
    if (row->data && !row->scale) range = range_of_row(row->data, row->type, k_all);
    rounding_rule r = column_rounding(l, &range);
    if (!row->scale) return r;
    memcpy(&r.scale, row->scale, sizeof r.scale);
    if (l->has_zeros && !l->in_groups) r.head = pf_gemm_head_of_byte(l, row->heads[0]);
    return r;
}

/* A part of a stretch: of a group all that there is, or of a column. */
typedef struct {
    size_t k;
    size_t n_values; /* at least one; zeros follow them */
    size_t n_filled; /* what the panel has of it */
} part;

/* How it is rounded, or was; `values` where the row is one of numbers. */
static inline rounding_rule rounding_of_part(const pf_gemm_layout *l, const row_view *row, const rounding_rule *column,
                                             const part *x, const float *values)
{
    if (!l->in_groups) return *column;
    if (row->scale) return (rounding_rule){ .head = pf_gemm_head_of_byte(l, row->heads[x->k / (size_t)l->group]) };
    return group_rounding(l, column->scale, values, row->data ? x->n_values : 0);
}

/* Its values, stored; k is even. */
static inline void store_part(const pf_gemm_layout *l, const row_view *row, const rounding_rule *rounding,
                              const part *x, const float *values, uint8_t *stored)
{
    const size_t n = row->data ? x->n_values : 0;
    if (!row->scale) {
        round_values(l, rounding, values, stored, n);
    } else if (l->bits == 8) {
        for (size_t i = 0; i < n; i++) stored[i] = row->data[x->k + i] ^ 0x80;
    } else {
        for (size_t i = 0; i < n; i++) stored[i] = row->data[(x->k + i) / 2] >> (i % 2 * 4) & 15;
    }
    memset(stored + n, rounding->head.zero, x->n_filled - n);
}

/* Rows of stored values from value `at` on to steps of a panel, four values at a time. */
static inline void spread(uint8_t *to, int32_t bits, uint8_t stored[PF_GEMM_PANEL][STRETCH], size_t at, size_t n_steps)
{
    const size_t n_words = bits == 8 ? 32 : 16;
    for (size_t j = 0; j < n_words; j++)
        for (size_t step = 0; step < n_steps; step++) {
            uint32_t word, high;
            memcpy(&word, stored[j] + at + 4 * step, sizeof word);
            if (bits == 4) {
                memcpy(&high, stored[j + 16] + at + 4 * step, sizeof high);
                word |= high << 4;
            }
            memcpy(to + (step * n_words + j) * sizeof word, &word, sizeof word);
        }
}

/* Values [k, k + n) of all columns, and what fills the panel behind them, n_filled in all: at most a stretch. */
static inline void pack_integers(const pf_gemm_layout *l, uint8_t *panel, const row_view rows[PF_GEMM_PANEL],
                                 const rounding_rule columns[PF_GEMM_PANEL], size_t k, size_t n, size_t n_filled)
{
    const size_t size = l->in_groups ? (size_t)l->group : STRETCH;
    uint8_t stored[PF_GEMM_PANEL][STRETCH];
    for (size_t j = 0; j < PF_GEMM_PANEL; j++) {
        float values[STRETCH];
        if (rows[j].data && !rows[j].scale) load_finite(values, rows[j].data, rows[j].type, k, n);
        for (size_t at = 0; at < n_filled; at += size) {
            const part x = { .k = k + at,
                             .n_values = n - at < size ? n - at : size,
                             .n_filled = n_filled - at < size ? n_filled - at : size };
            const rounding_rule rounding = rounding_of_part(l, &rows[j], &columns[j], &x, values + at);
            if (l->in_groups) panel[pf_gemm_heads_at(l, x.k / size) + j] = pf_gemm_head_byte(l, rounding.head);
            store_part(l, &rows[j], &rounding, &x, values + at, stored[j] + at);
        }
    }
    for (size_t at = 0; at < n_filled; at += size)
        spread(panel + pf_gemm_step_at(l, k + at), l->bits, stored, at,
               (n_filled - at < size ? n_filled - at : size) / 4);
}

static inline void pack_panel_integers(const pf_gemm_weights *w, uint8_t *panel, const row_view rows[PF_GEMM_PANEL])
{
    const pf_gemm_layout l = pf_gemm_layout_of(w->format, w->k);
    const size_t k_all = (size_t)w->k, filled = (size_t)l.n_groups * (size_t)l.group;
    rounding_rule columns[PF_GEMM_PANEL];
    for (size_t j = 0; j < PF_GEMM_PANEL; j++) {
        columns[j] = rounding_of_column(&l, &rows[j], k_all);
        memcpy(panel + j * sizeof columns[j].scale, &columns[j].scale, sizeof columns[j].scale);
        if (l.has_heads && !l.in_groups) panel[PF_GEMM_HEADS_AT + j] = pf_gemm_head_byte(&l, columns[j].head);
    }
    if (l.has_heads && l.n_groups % 2) /* the second half of the last line of group parameters is unused */
        memset(panel + pf_gemm_heads_at(&l, (size_t)l.n_groups), 0, PF_GEMM_PANEL);
    for (size_t k = 0; k < filled; k += STRETCH)
        pack_integers(&l, panel, rows, columns, k, k_all - k < STRETCH ? k_all - k : STRETCH,
                      filled - k < STRETCH ? filled - k : STRETCH);
}

bool PF_FOR_ISA(pf_gemm_pack_weights)(const pf_gemm_weights *w, const pf_gemm_source *sources, int32_t n_sources,
                                      int32_t panel_begin, int32_t panel_end)
{
    int64_t n_rows = 0;
    for (int32_t s = 0; s < n_sources; s++) n_rows += sources[s].n_rows;
    assert(n_rows == w->n && "stacked sources must have the matrix's rows");
    (void)n_rows;

    if (w->format == PF_FORMAT_EXACT) {
        pf_gemm_pack_exact(w, sources, n_sources, panel_begin, panel_end);
        return true;
    }
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
