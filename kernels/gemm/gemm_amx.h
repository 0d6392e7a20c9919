/*
 * The AMX instructions, and the shape of their tiles: what the AMX products share. Internal.
 *
 * A tile is 16 rows of 64 bytes. Of the eight, one multiply uses three: a sum (16 rows by 16 columns of 32 bits), an A
 * (16 rows of 64 bytes along K) and a B (16 steps of 4 bytes along K, by 16 columns), which is half the width of a panel.
 *
 *   tmm0 tmm1   sums of the upper rows       tmm4   A, upper rows        tmm6 tmm7   B
 *   tmm2 tmm3   sums of the lower rows       tmm5   A, lower rows
 *
 * With up to 16 rows there is one A: tmm5 takes the next step's, and tmm2 and tmm3 are the sums of a second panel.
 *
 * The configuration is loaded as a call begins to multiply and released as it ends, not once a thread: a call may come
 * from any thread, the two take less time than a single tile, and a thread without live tiles is switched cheaply (8 KiB
 * less to save) and lets its core sleep. Between two calls nothing is kept, so nothing can be stale.
 *
 * The instructions are written out because the intrinsics of GCC 12 are faulty: _tile_loadconfig declares 8 bytes of
 * its 64, _tile_loadd no memory at all, and stores to what they read are dropped.
 */
#ifndef PF_KERNELS_GEMM_AMX_H
#define PF_KERNELS_GEMM_AMX_H

#include "kernels/gemm/gemm_nest.h"

enum {
    PF_TILE_ROWS = 16,
    PF_TILE_ROW_BYTES = 64,
    PF_TILE_B_STRIDE = 128,                               /* two B tiles of a panel lie side by side */
    PF_TILE_STEP_BYTES = PF_TILE_ROWS * PF_TILE_B_STRIDE, /* of a panel: one step of K of a tile */
    PF_TILE_BLOCK_ROWS = 2 * PF_TILE_ROWS,                /* of A that are multiplied together */
};

/* Tiles are numbered by literals: they are part of the instruction. */
#define PF_TILE_ZERO(tile) __asm__ volatile("tilezero %%tmm" #tile : : :)
#define PF_TILE_LOAD(tile, address, stride) \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile : : "r"(address), "r"((size_t)(stride)) : "memory")
#define PF_TILE_STORE(tile, address, stride) \
    __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" : : "r"(address), "r"((size_t)(stride)) : "memory")
#define PF_TILE_TDP(name, sum, a, b) __asm__ volatile(name " %%tmm" #b ", %%tmm" #a ", %%tmm" #sum : : :)
#define PF_TILE_DOT(dot, sum, a, b)                                        \
    do {                                                                   \
        if ((dot) == PF_DOT_BF16) PF_TILE_TDP("tdpbf16ps", sum, a, b);     \
        if ((dot) == PF_DOT_INT8_UINT8) PF_TILE_TDP("tdpbsud", sum, a, b); \
        if ((dot) == PF_DOT_INT8_INT8) PF_TILE_TDP("tdpbssd", sum, a, b);  \
    } while (0)

/* What A and B hold. */
typedef enum { PF_DOT_BF16, PF_DOT_INT8_UINT8, PF_DOT_INT8_INT8 } pf_tile_dot;

/* Rows of the tiles in the table above, at least 1; all are 64 bytes wide. */
PF_INLINE void pf_tile_configure(int32_t upper, int32_t lower)
{
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = { .palette = 1 };
    _Static_assert(sizeof config == 64, "LDTILECFG reads 64 bytes");
    const uint8_t rows[8] = { [0] = (uint8_t)upper, [1] = (uint8_t)upper, [2] = (uint8_t)lower, [3] = (uint8_t)lower,
                              [4] = (uint8_t)upper, [5] = (uint8_t)lower, [6] = PF_TILE_ROWS,   [7] = PF_TILE_ROWS };
    for (int tile = 0; tile < 8; tile++) {
        config.rows[tile] = rows[tile];
        config.row_bytes[tile] = PF_TILE_ROW_BYTES;
    }
    __asm__ volatile("ldtilecfg %0" : : "m"(config));
}

PF_INLINE void pf_tile_release(void)
{
    __asm__ volatile("tilerelease" : : : "memory");
}

PF_INLINE void pf_prefetch_lines(uintptr_t address, size_t n_lines)
{
    for (size_t i = 0; i < n_lines; i++) PF_PREFETCH(address + 64 * i);
}

/* Steps of a panel, or of a piece of it. The last may lie elsewhere, filled up to its 2 KiB. */
typedef struct {
    const uint8_t *whole;
    size_t n_whole;
    const uint8_t *last;
} pf_tile_steps;

PF_INLINE const uint8_t *pf_tile_step(const pf_tile_steps *s, size_t step)
{
    return step < s->n_whole ? s->whole + step * PF_TILE_STEP_BYTES : s->last;
}

/* The `bytes` of a panel as steps; `last`: 2 KiB for one that is not whole. */
PF_INLINE pf_tile_steps pf_tile_steps_of(const uint8_t *weights, size_t bytes, uint8_t *last)
{
    const pf_tile_steps s = { .whole = weights, .n_whole = bytes / PF_TILE_STEP_BYTES, .last = last };
    const size_t left = bytes % PF_TILE_STEP_BYTES;
    if (left == 0) return s;
    memcpy(last, weights + s.n_whole * PF_TILE_STEP_BYTES, left);
    memset(last + left, 0, PF_TILE_STEP_BYTES - left);
    return s;
}

/* Rows of A, in one tile or two. */
typedef struct {
    const uint8_t *a;      /* [steps, rows, 64 bytes] */
    size_t a_step;         /* bytes of a step: of the rows, or of all but the last where that is nobody's */
    int32_t upper, lower;  /* lower: 0 where one tile holds all */
    uintptr_t prefetch;    /* what is fetched meanwhile */
    size_t prefetch_lines; /* each step */
} pf_tile_rows;

/* Up to 32 rows times the two halves of a panel: sums in tmm0 to tmm3. Every load stands a multiply ahead of its use. */
PF_INLINE void pf_tile_multiply_tall(const pf_tile_dot dot, const pf_tile_rows *x, const pf_tile_steps *panel,
                                     size_t steps)
{
    const size_t a_lower = (size_t)x->upper * PF_TILE_ROW_BYTES;
    const uint8_t *a = x->a, *b = pf_tile_step(panel, 0);
    uintptr_t prefetch = x->prefetch;
    PF_TILE_ZERO(0);
    PF_TILE_ZERO(1);
    PF_TILE_ZERO(2);
    PF_TILE_ZERO(3);
    PF_TILE_LOAD(4, a, PF_TILE_ROW_BYTES);
    PF_TILE_LOAD(6, b, PF_TILE_B_STRIDE);
    for (size_t step = 1; step < steps; step++) {
        const uint8_t *next = pf_tile_step(panel, step);
        PF_TILE_LOAD(7, b + PF_TILE_ROW_BYTES, PF_TILE_B_STRIDE);
        PF_TILE_DOT(dot, 0, 4, 6);
        PF_TILE_LOAD(5, a + a_lower, PF_TILE_ROW_BYTES);
        PF_TILE_DOT(dot, 1, 4, 7);
        a += x->a_step;
        PF_TILE_LOAD(4, a, PF_TILE_ROW_BYTES);
        PF_TILE_DOT(dot, 2, 5, 6);
        PF_TILE_LOAD(6, next, PF_TILE_B_STRIDE);
        PF_TILE_DOT(dot, 3, 5, 7);
        b = next;
        pf_prefetch_lines(prefetch, x->prefetch_lines);
        prefetch += 64 * x->prefetch_lines;
    }
    PF_TILE_LOAD(7, b + PF_TILE_ROW_BYTES, PF_TILE_B_STRIDE);
    PF_TILE_DOT(dot, 0, 4, 6);
    PF_TILE_LOAD(5, a + a_lower, PF_TILE_ROW_BYTES);
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
        PF_TILE_LOAD(4, a, PF_TILE_ROW_BYTES);
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

/* A block of `height` of a product's m rows: one tile high up to 16 rows in all, else two. */
PF_INLINE pf_tile_rows pf_tile_rows_of(int32_t height, int32_t m)
{
    const size_t a_step = (size_t)height * PF_TILE_ROW_BYTES;
    if (m <= PF_TILE_ROWS) return (pf_tile_rows){ .a_step = a_step, .upper = height };
    return (pf_tile_rows){ .a_step = a_step, .upper = (height + 1) / 2, .lower = height / 2 };
}

#endif
