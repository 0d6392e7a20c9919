/*
 * What the AMX products of integers by int8 activations share, whether a column has a scale or each of its groups: how a
 * format goes through tiles, weights unpacked to bytes, the end of a row. Internal.
 *
 *   input   [block] [steps] [rows of the block] 64 bytes, or 32 | [m] { scale f32, sum of the row int32 }
 */
#ifndef PF_KERNELS_GEMM_AMX_INT_H
#define PF_KERNELS_GEMM_AMX_INT_H

#include "kernels/gemm/gemm_amx.h"
#include "kernels/gemm/layout.h"

/* Behind the tiles of the packed input. */
typedef struct {
    float scale;
    int32_t sum;
} row_head;

/* How a format goes through tiles. */
typedef struct {
    pf_gemm_layout l;
    bool groups;        /* have scales of their own; else columns */
    int32_t block_rows; /* of the highest block */
    size_t step_values; /* of K: bytes of a row of A */
    size_t step_bytes;  /* of B, both halves of a panel */
    size_t group_steps;
    size_t steps; /* of a row: whole groups */
} tiling;

PF_INLINE tiling tiling_of(pf_format format, int32_t k)
{
    tiling t = { .l = pf_gemm_layout_of(format, k),
                 .block_rows = PF_TILE_BLOCK_ROWS,
                 .step_values = PF_TILE_ROW_BYTES };
    const size_t n_values = (size_t)k, group = (size_t)t.l.group;
    t.groups = t.l.scale_size == 2;
    if (t.groups) t.block_rows = PF_TILE_ROWS;
    if (t.groups && group < t.step_values) t.step_values = group;
    t.step_bytes = t.step_values / 4 * PF_TILE_B_STRIDE;
    t.group_steps = group / t.step_values;
    t.steps = t.groups ? (size_t)t.l.n_groups * t.group_steps : (n_values + t.step_values - 1) / t.step_values;
    return t;
}

/* Where the head of the group that a step begins lies in a panel. */
PF_INLINE size_t step_at(const tiling *t, size_t step)
{
    return step / t->group_steps * t->l.group_bytes;
}

/* --- weights --- */

/* z of 16 columns, or 8, in each of a column's four bytes. */
PF_INLINE __m512i zeros_of(const pf_gemm_layout *l, const uint8_t *group, size_t column)
{
    if (!l->has_zeros) return _mm512_set1_epi8(8);
    const __m128i z = _mm_loadu_si128((const __m128i *)(const void *)(group + l->zeros_at + column));
    return _mm512_mullo_epi32(_mm512_cvtepu8_epi32(z), _mm512_set1_epi32(0x01010101));
}

/* A row of B of the 64 bytes that have its nibbles. */
PF_INLINE void row_of_nibbles(const __m512i zeros[2], const uint8_t *from, uint8_t *b)
{
    const __m512i low = _mm512_set1_epi8(15), both = _mm512_loadu_si512(from);
    const __m512i q0 = _mm512_and_si512(both, low), q1 = _mm512_and_si512(_mm512_srli_epi16(both, 4), low);
    _mm512_store_si512(b, _mm512_sub_epi8(q0, zeros[0]));
    _mm512_store_si512(b + 64, _mm512_sub_epi8(q1, zeros[1]));
}

/* --- results --- */

/* What 16 columns of one row come to, but for the row's scale. */
PF_INLINE __m512 result_of(const tiling *t, const uint8_t *panel, const void *sums, int32_t row_sum, size_t column)
{
    if (t->groups) return _mm512_load_ps((const float *)sums + column);
    __m512i i = _mm512_load_si512((const int32_t *)sums + column);
    if (t->l.bits == 8) i = _mm512_sub_epi32(i, _mm512_slli_epi32(_mm512_set1_epi32(row_sum), 7));
    const __m512 scale = _mm512_loadu_ps((const float *)(const void *)panel + column);
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(i), scale, _mm512_setzero_ps());
}

/* One row of one panel to c. */
PF_INLINE void finish_row(const tiling *t, const uint8_t *panel, const void *sums, row_head head, float *c,
                          int32_t n_columns, pf_gemm_mode mode)
{
    for (int32_t column = 0; column < n_columns; column += 16) {
        const int32_t left = n_columns - column;
        const __mmask16 exist = (__mmask16)(left >= 16 ? 0xFFFFu : (1u << left) - 1);
        __m512 r = result_of(t, panel, sums, head.sum, (size_t)column);
        r = _mm512_mul_ps(r, _mm512_set1_ps(head.scale));
        if (mode == PF_GEMM_ADD) r = _mm512_add_ps(_mm512_maskz_loadu_ps(exist, c + column), r);
        _mm512_mask_storeu_ps(c + column, exist, r);
    }
}

PF_INLINE const row_head *heads_of(const tiling *t, const pf_tile_product *x)
{
    return (const row_head *)(const void *)(x->input + (size_t)x->m * t->steps * t->step_values);
}

/* Rows [row, row + n_rows) of one panel to c; sums [n_rows, 32]. */
PF_INLINE void put_rows(const tiling *t, const pf_tile_product *x, int32_t panel, int32_t row, int32_t n_rows,
                        const void *sums)
{
    const row_head *heads = heads_of(t, x) + row;
    const int32_t n_columns = pf_tile_columns(x, panel);
    float *c = x->c + (size_t)row * x->ldc + (size_t)panel * PF_GEMM_PANEL;
    for (size_t r = 0; r < (size_t)n_rows; r++, c += x->ldc)
        finish_row(t, pf_tile_panel(x, panel), (const int32_t *)sums + r * PF_GEMM_PANEL, heads[r], c, n_columns,
                   x->mode);
}

/* Those of a panel of gate and of up, activated, to c of the two. */
PF_INLINE void put_gated_rows(const tiling *t, const pf_tile_product *x, int32_t panel, int32_t row, int32_t n_rows,
                              const void *gate, const void *up)
{
    enum { ROWS = PF_TILE_BLOCK_ROWS };
    const pf_gemm_gated *out = x->gated;
    const int32_t n = pf_tile_columns(x, panel);
    for (int32_t first = 0; first < n_rows; first += ROWS) {
        _Alignas(64) float results[2][ROWS * PF_GEMM_PANEL];
        const int32_t height = n_rows - first < ROWS ? n_rows - first : ROWS;
        const row_head *heads = heads_of(t, x) + row + first;
        for (int32_t i = 0; i < 2; i++) {
            const int32_t *sums = (const int32_t *)(i ? up : gate) + (size_t)first * PF_GEMM_PANEL;
            for (size_t r = 0; r < (size_t)height; r++)
                finish_row(t, pf_tile_panel(x, 2 * panel + i), sums + r * PF_GEMM_PANEL, heads[r],
                           results[i] + r * PF_GEMM_PANEL, n, PF_GEMM_STORE);
        }
        out->activate(out->c + (size_t)(row + first) * out->ldc + (size_t)panel * PF_GEMM_PANEL, out->ldc, results[0],
                      results[1], PF_GEMM_PANEL, height, n);
    }
}

/* The nest of formats with a scale a group (gemm_amx_groups.c): any number of rows, scratch as gemm.h has it. */
void pf_tile_nest_groups(const tiling *t, const pf_tile_product *x, int32_t panel_begin, int32_t panel_end,
                         void *scratch);

#endif
