/*
 * What the AMX products share: a panel of 32 columns is two B tiles side by side. Internal.
 *
 * The tiles are those of kernels/tiles_amx.h. With up to 16 rows there is one A: tmm5 takes the next step's, and tmm2 and
 * tmm3 are the sums of a second panel.
 */
#ifndef PF_KERNELS_GEMM_AMX_H
#define PF_KERNELS_GEMM_AMX_H

#include "kernels/gemm/gemm_nest.h"
#include "kernels/tiles_amx.h"

enum {
    PF_TILE_B_STRIDE = 128,                               /* two B tiles of a panel lie side by side */
    PF_TILE_STEP_BYTES = PF_TILE_ROWS * PF_TILE_B_STRIDE, /* of a panel: one step of K of a whole tile */
    PF_TILE_BLOCK_ROWS = 2 * PF_TILE_ROWS,                /* of A that are multiplied together */
};

PF_INLINE void pf_prefetch_lines(uintptr_t address, size_t n_lines)
{
    for (size_t i = 0; i < n_lines; i++) PF_PREFETCH(address + 64 * i);
}

/* Steps of a panel, or of a piece of it. The last may lie elsewhere, filled up. */
typedef struct {
    const uint8_t *whole;
    size_t n_whole;
    const uint8_t *last;
    size_t step_bytes;
} pf_tile_steps;

PF_INLINE const uint8_t *pf_tile_step(const pf_tile_steps *s, size_t step)
{
    return step < s->n_whole ? s->whole + step * s->step_bytes : s->last;
}

/* The `bytes` of a panel as steps of whole tiles; `last`: 2 KiB for one that is not whole. */
PF_INLINE pf_tile_steps pf_tile_steps_of(const uint8_t *weights, size_t bytes, uint8_t *last)
{
    const pf_tile_steps s = {
        .whole = weights, .n_whole = bytes / PF_TILE_STEP_BYTES, .last = last, .step_bytes = PF_TILE_STEP_BYTES
    };
    const size_t left = bytes % PF_TILE_STEP_BYTES;
    if (left == 0) return s;
    memcpy(last, weights + s.n_whole * PF_TILE_STEP_BYTES, left);
    memset(last + left, 0, PF_TILE_STEP_BYTES - left);
    return s;
}

/* Rows of A, in one tile or two. */
typedef struct {
    const uint8_t *a;      /* [steps, rows, row_bytes] */
    size_t row_bytes;      /* of a step of K: 64, or less where tiles are less wide */
    size_t a_step;         /* bytes of a step: of the rows, or of all but the last where that is nobody's */
    int32_t upper, lower;  /* lower: 0 where one tile holds all */
    uintptr_t prefetch;    /* what is fetched meanwhile */
    size_t prefetch_lines; /* each step */
} pf_tile_rows;

/* Up to 32 rows times the two halves of a panel: sums in tmm0 to tmm3. Every load stands a multiply ahead of its use. */
PF_INLINE void pf_tile_multiply_tall(const pf_tile_dot dot, const pf_tile_rows *x, const pf_tile_steps *panel,
                                     size_t steps)
{
    const size_t a_lower = (size_t)x->upper * x->row_bytes;
    const uint8_t *a = x->a, *b = pf_tile_step(panel, 0);
    uintptr_t prefetch = x->prefetch;
    PF_TILE_ZERO(0);
    PF_TILE_ZERO(1);
    PF_TILE_ZERO(2);
    PF_TILE_ZERO(3);
    PF_TILE_LOAD(4, a, x->row_bytes);
    PF_TILE_LOAD(6, b, PF_TILE_B_STRIDE);
    for (size_t step = 1; step < steps; step++) {
        const uint8_t *next = pf_tile_step(panel, step);
        PF_TILE_LOAD(7, b + PF_TILE_ROW_BYTES, PF_TILE_B_STRIDE);
        PF_TILE_DOT(dot, 0, 4, 6);
        PF_TILE_LOAD(5, a + a_lower, x->row_bytes);
        PF_TILE_DOT(dot, 1, 4, 7);
        a += x->a_step;
        PF_TILE_LOAD(4, a, x->row_bytes);
        PF_TILE_DOT(dot, 2, 5, 6);
        PF_TILE_LOAD(6, next, PF_TILE_B_STRIDE);
        PF_TILE_DOT(dot, 3, 5, 7);
        b = next;
        pf_prefetch_lines(prefetch, x->prefetch_lines);
        prefetch += 64 * x->prefetch_lines;
    }
    PF_TILE_LOAD(7, b + PF_TILE_ROW_BYTES, PF_TILE_B_STRIDE);
    PF_TILE_DOT(dot, 0, 4, 6);
    PF_TILE_LOAD(5, a + a_lower, x->row_bytes);
    PF_TILE_DOT(dot, 1, 4, 7);
    PF_TILE_DOT(dot, 2, 5, 6);
    PF_TILE_DOT(dot, 3, 5, 7);
    pf_prefetch_lines(prefetch, x->prefetch_lines);
}

/* Up to 16 rows times the two halves of a panel: sums in tmm0 and tmm1. */
PF_INLINE void pf_tile_multiply_low(const pf_tile_dot dot, const pf_tile_rows *x, const pf_tile_steps *panel,
                                    size_t steps)
{
    const uint8_t *a = x->a;
    uintptr_t prefetch = x->prefetch;
    PF_TILE_ZERO(0);
    PF_TILE_ZERO(1);
    for (size_t step = 0; step < steps; step++, a += x->a_step) {
        const uint8_t *b = pf_tile_step(panel, step);
        PF_TILE_LOAD(4, a, x->row_bytes);
        PF_TILE_LOAD(6, b, PF_TILE_B_STRIDE);
        PF_TILE_LOAD(7, b + PF_TILE_ROW_BYTES, PF_TILE_B_STRIDE);
        PF_TILE_DOT(dot, 0, 4, 6);
        PF_TILE_DOT(dot, 1, 4, 7);
        pf_prefetch_lines(prefetch, x->prefetch_lines);
        prefetch += 64 * x->prefetch_lines;
    }
}

/* Sums of either, rows `stride` bytes apart. */
/* NOLINTNEXTLINE(readability-non-const-parameter): the instruction writes it */
PF_INLINE void pf_tile_store(const pf_tile_rows *x, uint8_t *out, size_t stride)
{
    PF_TILE_STORE(0, out, stride);
    PF_TILE_STORE(1, out + PF_TILE_ROW_BYTES, stride);
    if (x->lower == 0) return;
    out += (size_t)x->upper * stride;
    PF_TILE_STORE(2, out, stride);
    PF_TILE_STORE(3, out + PF_TILE_ROW_BYTES, stride);
}

/* A block of `height` rows, two tiles high where it is `tall`. */
PF_INLINE pf_tile_rows pf_tile_rows_of(int32_t height, bool tall, size_t row_bytes)
{
    return (pf_tile_rows){ .row_bytes = row_bytes,
                           .a_step = (size_t)height * row_bytes,
                           .upper = tall ? (height + 1) / 2 : height,
                           .lower = tall ? height / 2 : 0 };
}

#endif
