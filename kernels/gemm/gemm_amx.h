/*
 * What the AMX products share: a panel of 32 columns is two B tiles side by side, and a nest of loops that keeps the
 * multiplier fed. Internal.
 *
 * The tiles are those of kernels/tiles_amx.h. A step of K is 64 bytes of a row of A (32 values of bf16, 64 of int8) and 128 bytes
 * of each of 16 rows of B.
 *
 * A multiply takes 16 cycles and two tiles, 2 KiB; L1 gives those in 16, L2 in 22 and more. So of the two operands one must
 * come from L1. More than 32 rows:
 *
 *   for each group of rows, 512 of them
 *     for each group of panels whose sums L2 holds
 *       for each PF_TILE_BLOCK_STEPS of K                              A's slice stays in L2
 *         for each panel of the group                                  26 KiB of B stay in L1
 *           for each 32 rows: sums into tiles, A A B B four multiplies a step, sums back
 *
 * B stays in L1 because A is loaded as what is wanted once, and the sums of the next block are fetched while this one
 * multiplies. A chain of sums that waits in memory is the same chain: tiles are loaded with what they held. Sums that stay in
 * tiles over all of K need no loads, but both operands came from L2 (docs/amx.md has the cycles of either).
 *
 * Gate and up are gone through as one product whose panels take turns: what waits in L2 is activated there, and no sum of
 * theirs is ever written to memory.
 *
 * Up to 32 rows there is one block of rows, its sums stay in tiles over all of K, and the weights come from far. Up to 16
 * rows two panels are gone through side by side, one A to four B. From memory tiles are fetched badly: 16 lines in a burst,
 * one of two, are 0.8 of what a plain loop gets. So that loop copies each step to a ring in L1, a step before it is
 * multiplied; a ring of four steps leaves A too little of L1.
 */
#ifndef PF_KERNELS_GEMM_AMX_H
#define PF_KERNELS_GEMM_AMX_H

#include "kernels/gemm/group_bytes_avx512.h"
#include "kernels/tiles_amx.h"

enum {
    PF_TILE_B_STRIDE = 128,                               /* two B tiles of a panel lie side by side */
    PF_TILE_STEP_BYTES = PF_TILE_ROWS * PF_TILE_B_STRIDE, /* of a panel: one step of K of a whole tile */
    PF_TILE_BLOCK_ROWS = 2 * PF_TILE_ROWS,                /* of A that are multiplied together */
    PF_TILE_BLOCK_STEPS = 13, /* of K, at most, that all rows of a group pass over: 26 KiB of B */
    PF_TILE_SHORT_STEPS = 4,  /* where they are so few, less than PF_TILE_MANY_BLOCKS, that all waits for B */
    PF_TILE_MANY_BLOCKS = 8,
    PF_TILE_GROUP_BLOCKS = 16, /* of rows that pass together, a slice of 416 KiB */
    PF_TILE_SUMS_BYTES = PF_TILE_BLOCK_ROWS * PF_GEMM_PANEL * (int)sizeof(float), /* of a block of rows and a panel */
    PF_TILE_W_AHEAD = 1536, /* bytes, how far each of two panels side by side is fetched */
    PF_TILE_RING_STEPS = 2,
    PF_TILE_RING_AHEAD = 1, /* steps: what was stored must have reached L1 before a tile is loaded from there */
};

/* To stay where it is written: compilers gather prefetches, and L1 waits for 16 lines at a time. */
PF_INLINE void pf_tile_prefetch(uintptr_t address)
{
    __asm__ volatile("prefetcht0 %0" : : "m"(*(const char *)address) : "memory");
}

/* Into L2, which L1 has no room for. */
PF_INLINE void pf_prefetch_lines_far(uintptr_t address, size_t n_lines)
{
    for (size_t i = 0; i < n_lines; i++) _mm_prefetch((const char *)(address + 64 * i), _MM_HINT_T1);
}

/* Rows of A, in one tile or two. */
typedef struct {
    const uint8_t *a;      /* [steps, rows, PF_TILE_ROW_BYTES] */
    size_t a_step;         /* bytes of a step: of the rows, or of all but the last where that is nobody's */
    int32_t upper, lower;  /* lower: 0 where one tile holds all */
    uintptr_t prefetch;    /* what is fetched meanwhile */
    size_t prefetch_lines; /* each step */
    const uint8_t *next;   /* the sums of the next block, which wait in L2 */
    size_t next_lines;     /* each step but the last; 0: there are none */
} pf_tile_rows;

/* A block of `height` rows, two tiles high where it is `tall`. */
PF_INLINE pf_tile_rows pf_tile_rows_of(int32_t height, bool tall)
{
    return (pf_tile_rows){ .a_step = (size_t)height * PF_TILE_ROW_BYTES,
                           .upper = tall ? (height + 1) / 2 : height,
                           .lower = tall ? height / 2 : 0 };
}

PF_INLINE void pf_tile_zero(const pf_tile_rows *x)
{
    PF_TILE_ZERO(0);
    PF_TILE_ZERO(1);
    if (x->lower == 0) return;
    PF_TILE_ZERO(2);
    PF_TILE_ZERO(3);
}

PF_INLINE void pf_tile_zero_all(void)
{
    PF_TILE_ZERO(0);
    PF_TILE_ZERO(1);
    PF_TILE_ZERO(2);
    PF_TILE_ZERO(3);
}

/* Sums of 32 columns, rows `stride` bytes apart. */
PF_INLINE void pf_tile_load(const pf_tile_rows *x, const uint8_t *sums, size_t stride)
{
    PF_TILE_LOAD(0, sums, stride);
    PF_TILE_LOAD(1, sums + PF_TILE_ROW_BYTES, stride);
    if (x->lower == 0) return;
    sums += (size_t)x->upper * stride;
    PF_TILE_LOAD(2, sums, stride);
    PF_TILE_LOAD(3, sums + PF_TILE_ROW_BYTES, stride);
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the instruction writes it */
PF_INLINE void pf_tile_store(const pf_tile_rows *x, uint8_t *sums, size_t stride)
{
    PF_TILE_STORE(0, sums, stride);
    PF_TILE_STORE(1, sums + PF_TILE_ROW_BYTES, stride);
    if (x->lower == 0) return;
    sums += (size_t)x->upper * stride;
    PF_TILE_STORE(2, sums, stride);
    PF_TILE_STORE(3, sums + PF_TILE_ROW_BYTES, stride);
}

/* Those of the right one of two panels side by side. */
/* NOLINTNEXTLINE(readability-non-const-parameter): the instruction writes it */
PF_INLINE void pf_tile_store_right(uint8_t *sums, size_t stride)
{
    PF_TILE_STORE(2, sums, stride);
    PF_TILE_STORE(3, sums + PF_TILE_ROW_BYTES, stride);
}

/* n steps of up to 32 rows times the two halves of a panel, added to tmm0 to tmm3. b: [n] steps. Every load
 * stands a multiply ahead of its use. */
PF_INLINE void pf_tile_multiply_tall(const pf_tile_dot dot, const pf_tile_rows *x, const uint8_t *b, size_t n)
{
    const size_t a_lower = (size_t)x->upper * PF_TILE_ROW_BYTES;
    const uint8_t *a = x->a, *next = x->next;
    uintptr_t prefetch = x->prefetch;
    PF_TILE_LOAD_ONCE(4, a, PF_TILE_ROW_BYTES);
    PF_TILE_LOAD(6, b, PF_TILE_B_STRIDE);
    for (; n > 1; n--) {
        PF_TILE_LOAD(7, b + PF_TILE_ROW_BYTES, PF_TILE_B_STRIDE);
        PF_TILE_DOT(dot, 0, 4, 6);
        PF_TILE_LOAD_ONCE(5, a + a_lower, PF_TILE_ROW_BYTES);
        PF_TILE_DOT(dot, 1, 4, 7);
        a += x->a_step;
        PF_TILE_LOAD_ONCE(4, a, PF_TILE_ROW_BYTES);
        PF_TILE_DOT(dot, 2, 5, 6);
        b += PF_TILE_STEP_BYTES;
        PF_TILE_LOAD(6, b, PF_TILE_B_STRIDE);
        PF_TILE_DOT(dot, 3, 5, 7);
        pf_prefetch_lines_far(prefetch, x->prefetch_lines);
        prefetch += 64 * x->prefetch_lines;
        for (size_t i = 0; i < x->next_lines; i++, next += 64) pf_tile_prefetch((uintptr_t)next);
    }
    PF_TILE_LOAD(7, b + PF_TILE_ROW_BYTES, PF_TILE_B_STRIDE);
    PF_TILE_DOT(dot, 0, 4, 6);
    PF_TILE_LOAD_ONCE(5, a + a_lower, PF_TILE_ROW_BYTES);
    PF_TILE_DOT(dot, 1, 4, 7);
    PF_TILE_DOT(dot, 2, 5, 6);
    PF_TILE_DOT(dot, 3, 5, 7);
    pf_prefetch_lines_far(prefetch, x->prefetch_lines);
}

/* n steps of up to 16 rows, added to tmm0 and tmm1. */
PF_INLINE void pf_tile_multiply_low(const pf_tile_dot dot, const pf_tile_rows *x, const uint8_t *b, size_t n)
{
    const uint8_t *a = x->a;
    uintptr_t prefetch = x->prefetch;
    for (; n; n--, a += x->a_step, b += PF_TILE_STEP_BYTES) {
        PF_TILE_LOAD(4, a, PF_TILE_ROW_BYTES);
        PF_TILE_LOAD(6, b, PF_TILE_B_STRIDE);
        PF_TILE_LOAD(7, b + PF_TILE_ROW_BYTES, PF_TILE_B_STRIDE);
        PF_TILE_DOT(dot, 0, 4, 6);
        PF_TILE_DOT(dot, 1, 4, 7);
        pf_prefetch_lines_far(prefetch, x->prefetch_lines);
        prefetch += 64 * x->prefetch_lines;
    }
}

/* --- the nest, of formats whose sums stay what they are over all of K --- */

/* A product, as its kernel was asked for it. */
typedef struct {
    const pf_gemm_weights *w;
    const uint8_t *input; /* [block] [steps] [rows of the block] 64 bytes, behind it what `put` wants of each row */
    int32_t m;
    float *c;
    size_t ldc;
    pf_gemm_mode mode;
    size_t weights_at;         /* in a panel: its first step */
    size_t steps;              /* of K */
    const void *how;           /* what `put` and `head` of the format want to know */
    const pf_gemm_weights *up; /* of two products: its panels follow those of w, one by one; else NULL */
    const pf_gemm_gated *gated;
} pf_tile_product;

/* A row of B, 128 bytes, of what a panel has for it and of what `head` gave: that of rows [row, row + head_rows) of a step. */
typedef void pf_tile_row_fn(const pf_group_head *head, const uint8_t *from, uint8_t *b);
typedef pf_group_head pf_tile_head_fn(const pf_tile_product *x, const uint8_t *panel, size_t step, size_t row);

/* Sums of rows [row, row + n_rows) of a panel, [n_rows, 32] 64-byte aligned, to c. */
typedef void pf_tile_put_fn(const pf_tile_product *x, int32_t panel, int32_t row, int32_t n_rows, const void *sums);
/* Those of a panel of gate and of up, activated. */
typedef void pf_tile_put_gated_fn(const pf_tile_product *x, int32_t panel, int32_t row, int32_t n_rows,
                                  const void *gate, const void *up);

typedef struct {
    pf_tile_dot dot;
    bool in_place;    /* whole steps of a panel are B as they lie */
    bool as_they_are; /* sums are what c wants */
    size_t row_bytes; /* of a panel, for a row of B */
    pf_tile_row_fn *row;
    pf_tile_head_fn *head; /* NULL: rows want none */
    size_t head_rows;      /* of B, that share one */
    size_t pair_steps;     /* behind so many steps of a panel stand 64 bytes of heads; 0: there are none */
    pf_tile_put_fn *put;
    pf_tile_put_gated_fn *put_gated;
} pf_tile_family;

PF_INLINE const uint8_t *pf_tile_panel(const pf_tile_product *x, int32_t panel)
{
    const pf_gemm_weights *w = x->w;
    if (x->up != NULL) {
        if (panel & 1) w = x->up;
        panel >>= 1;
    }
    return (const uint8_t *)w->panels + (size_t)panel * w->panel_bytes;
}

/* Columns of a panel of w that there are. */
PF_INLINE int32_t pf_tile_columns(const pf_tile_product *x, int32_t panel)
{
    const int32_t left = x->w->n - panel * PF_GEMM_PANEL;
    return left < PF_GEMM_PANEL ? left : PF_GEMM_PANEL;
}

/* Where a step begins in a panel, and how many of n rows of B from there on a panel has. */
PF_INLINE size_t pf_tile_step_at(const pf_tile_family family, const pf_tile_product *x, size_t step)
{
    const size_t heads = family.pair_steps ? step / family.pair_steps * 64 : 0;
    return x->weights_at + step * PF_TILE_ROWS * family.row_bytes + heads;
}
PF_INLINE size_t pf_tile_rows_there(const pf_tile_family family, const pf_tile_product *x, size_t step, size_t n)
{
    const size_t left = (x->w->panel_bytes - pf_tile_step_at(family, x, step)) / family.row_bytes;
    return left < n ? left : n;
}

/* A row as it lies. */
PF_INLINE void pf_tile_row_plain(const pf_group_head *head, const uint8_t *from, uint8_t *b)
{
    (void)head;
    _mm512_store_si512(b, _mm512_loadu_si512(from));
    _mm512_store_si512(b + 64, _mm512_loadu_si512(from + 64));
}

/* A step of a panel, or of two side by side, to `b`, one behind the other: a row of each in turn, and where it `fetches` what comes
 * PF_TILE_W_AHEAD bytes further on beside it. Two streams get more from memory than one. Zeros where K has ended. */
PF_INLINE void pf_tile_fill(const pf_tile_family family, const pf_tile_product *x, const uint8_t *panels,
                            const int32_t n_panels, size_t step, const bool fetches, uint8_t *b)
{
    const size_t there = pf_tile_rows_there(family, x, step, PF_TILE_ROWS), panel_bytes = x->w->panel_bytes;
    const size_t at = pf_tile_step_at(family, x, step);
    const bool past = at + PF_TILE_ROWS * family.row_bytes + PF_TILE_W_AHEAD > panel_bytes; /* into the next pair */
    const uint8_t *from = panels + at;
    uintptr_t ahead = (uintptr_t)from + PF_TILE_W_AHEAD + (past ? (size_t)(n_panels - 1) * panel_bytes : 0);
    const size_t head_rows = family.head ? family.head_rows : PF_TILE_ROWS;
    pf_group_head head[2];
    if (fetches && family.pair_steps && step % family.pair_steps == 0)
        for (size_t j = 0; j < (size_t)n_panels; j++) pf_tile_prefetch(ahead - 64 + j * panel_bytes);
    for (size_t row = 0; row < there; row += head_rows) {
        if (family.head)
            for (size_t j = 0; j < (size_t)n_panels; j++) head[j] = family.head(x, panels + j * panel_bytes, step, row);
        for (size_t i = row; i < row + head_rows && i < there; i++) {
            for (size_t j = 0; j < (size_t)n_panels; j++) {
                if (fetches) pf_tile_prefetch(ahead + j * panel_bytes);
                if (fetches && family.row_bytes > 64) pf_tile_prefetch(ahead + j * panel_bytes + 64);
                family.row(&head[j], from + j * panel_bytes, b + j * PF_TILE_STEP_BYTES + i * PF_TILE_B_STRIDE);
            }
            from += family.row_bytes;
            ahead += family.row_bytes;
        }
    }
    for (size_t j = 0; j < (size_t)n_panels; j++)
        memset(b + j * PF_TILE_STEP_BYTES + there * PF_TILE_B_STRIDE, 0, (PF_TILE_ROWS - there) * PF_TILE_B_STRIDE);
}

/* n steps of a panel in a row: where they lie, or in `room`. */
PF_INLINE const uint8_t *pf_tile_block(const pf_tile_family family, const pf_tile_product *x, const uint8_t *panel,
                                       size_t step, size_t n, uint8_t *room)
{
    const size_t wanted = n * PF_TILE_ROWS;
    if (family.in_place && pf_tile_rows_there(family, x, step, wanted) == wanted)
        return panel + pf_tile_step_at(family, x, step);
    for (size_t i = 0; i < n; i++) pf_tile_fill(family, x, panel, 1, step + i, false, room + i * PF_TILE_STEP_BYTES);
    return room;
}

/* How more than 32 rows are cut. */
typedef struct {
    int32_t n_blocks;   /* of rows, 17 to 32 each, as equal as can be */
    int32_t group;      /* of them that are gone through together */
    int32_t panels;     /* likewise: L2 holds their sums for a group */
    size_t steps;       /* of K, likewise, the last ones fewer */
    size_t panel_bytes; /* of a panel's sums for a group of rows */
    /* Of the highest block: all are multiplied as if they were as high. The last row of the others is what follows in the
     * input, its sums are nobody's, and one configuration serves them all. */
    pf_tile_rows rows;
} pf_tile_cut;

PF_INLINE pf_tile_cut pf_tile_cut_of(const pf_tile_product *x, size_t sums_bytes)
{
    const int32_t n_blocks = pf_gemm_tiles(PF_TILE_BLOCK_ROWS, x->m),
                  n_groups = pf_gemm_tiles(PF_TILE_GROUP_BLOCKS, n_blocks);
    pf_tile_cut cut = { .n_blocks = n_blocks,
                        .group = (n_blocks + n_groups - 1) / n_groups,
                        .rows = pf_tile_rows_of((x->m + n_blocks - 1) / n_blocks, true) };
    const size_t most = n_blocks < PF_TILE_MANY_BLOCKS ? PF_TILE_SHORT_STEPS : PF_TILE_BLOCK_STEPS;
    const size_t n_slices = (x->steps + most - 1) / most;
    cut.steps = (x->steps + n_slices - 1) / n_slices;
    cut.panel_bytes = (size_t)cut.group * PF_TILE_SUMS_BYTES;
    cut.panels = (int32_t)(sums_bytes / cut.panel_bytes);
    if (x->up != NULL) cut.panels &= ~1;
    return cut;
}

/* The sums of a block are complete: to where they are wanted. */
PF_INLINE void pf_tile_finish(const pf_tile_family family, const pf_tile_product *x, const pf_tile_cut *cut,
                              int32_t panel, int32_t row, int32_t height, const uint8_t *sums)
{
    if (x->up == NULL)
        family.put(x, panel, row, height, sums);
    else if (panel & 1)
        family.put_gated(x, panel >> 1, row, height, sums - cut->panel_bytes, sums);
}

/* Steps [step, step + n) of a panel for row blocks [begin, end). `b`: the steps; `next`: what is fetched meanwhile; `sums`: of
 * the blocks, in order. */
PF_INLINE void pf_tile_multiply_panel(const pf_tile_family family, const pf_tile_product *x, const pf_tile_cut *cut,
                                      int32_t panel, size_t step, size_t n, int32_t begin, int32_t end,
                                      const uint8_t *b, uintptr_t next, uint8_t *sums)
{
    const bool last = step + n == x->steps, alone = x->up == NULL;
    const bool direct =
        family.as_they_are && alone && last && x->mode == PF_GEMM_STORE && pf_tile_columns(x, panel) == PF_GEMM_PANEL;
    pf_tile_rows rows = cut->rows;
    const size_t n_blocks = (size_t)(end - begin);
    rows.prefetch = next;
    rows.next_lines = n > 1 ? (PF_TILE_SUMS_BYTES / 64 + n - 2) / (n - 1) : 0;
    rows.prefetch_lines = (PF_TILE_ROWS * family.row_bytes / 64 + n_blocks - 1) / n_blocks;
    for (int32_t t = begin; t < end; t++) {
        const int32_t row = pf_gemm_tile_row(cut->n_blocks, x->m, t);
        const int32_t height = pf_gemm_tile_row(cut->n_blocks, x->m, t + 1) - row;
        uint8_t *at = sums + (size_t)(t - begin) * PF_TILE_SUMS_BYTES;
        float *c = x->c + (size_t)row * x->ldc + (size_t)panel * PF_GEMM_PANEL;
        rows.a_step = (size_t)height * PF_TILE_ROW_BYTES;
        rows.a = x->input + (size_t)row * x->steps * PF_TILE_ROW_BYTES + step * rows.a_step;
        if (step)
            pf_tile_load(&rows, at, PF_GEMM_PANEL * sizeof(float));
        else
            pf_tile_zero(&rows);
        rows.next = at + PF_TILE_SUMS_BYTES; /* the last: of the next panel, as a rule */
        if (last && alone) pf_gemm_claim(c, x->ldc, (size_t)height);
        pf_tile_multiply_tall(family.dot, &rows, b, n);
        rows.prefetch += 64 * n * rows.prefetch_lines;
        if (direct && height == cut->rows.upper + cut->rows.lower) {
            pf_tile_store(&rows, (uint8_t *)c, x->ldc * sizeof(float));
            continue;
        }
        pf_tile_store(&rows, at, PF_GEMM_PANEL * sizeof(float));
        if (last) pf_tile_finish(family, x, cut, panel, row, height, at);
    }
}

/* More than 32 rows. `sums`: of one panel and group at least; `room`: PF_TILE_BLOCK_STEPS steps. */
PF_INLINE void pf_tile_nest_tall(const pf_tile_family family, const pf_tile_product *x, int32_t panel_begin,
                                 int32_t panel_end, uint8_t *sums, size_t sums_bytes, uint8_t *room)
{
    const pf_tile_cut cut = pf_tile_cut_of(x, sums_bytes);
    pf_tile_configure(cut.rows.upper, cut.rows.lower);
    for (int32_t t = 0; t < cut.n_blocks; t += cut.group) {
        const int32_t t_end = cut.n_blocks - t < cut.group ? cut.n_blocks : t + cut.group;
        for (int32_t first = panel_begin; first < panel_end; first += cut.panels) {
            const int32_t end = panel_end - first < cut.panels ? panel_end : first + cut.panels;
            for (size_t step = 0; step < x->steps; step += cut.steps) {
                const size_t left = x->steps - step, n = left < cut.steps ? left : cut.steps;
                const bool last = step + n == x->steps;
                for (int32_t p = first; p < end; p++) {
                    const int32_t next = p + 1 < end || last ? p + 1 : first;
                    const size_t next_step = p + 1 < end ? step : last ? 0 : step + n;
                    pf_tile_multiply_panel(family, x, &cut, p, step, n, t, t_end,
                                           pf_tile_block(family, x, pf_tile_panel(x, p), step, n, room),
                                           (uintptr_t)pf_tile_panel(x, next) + pf_tile_step_at(family, x, next_step),
                                           sums + (size_t)(p - first) * cut.panel_bytes);
                }
            }
        }
    }
}

/* A processor of 2024 (Granite Rapids) puts its way from tiles to memory to sleep when no tile has been stored for some 2,200
 * cycles, and takes 1,000 to wake it. So one is stored now and then, to nobody, all its rows to one line. */
PF_INLINE void pf_tile_stay_awake(void)
{
    _Alignas(64) uint8_t nobody[64];
    PF_TILE_STORE(4, nobody, 0);
}

/* One step of up to 16 rows and two panels: their sums in tmm0 and tmm1, tmm2 and tmm3. */
PF_INLINE void pf_tile_step_pair(const pf_tile_dot dot, const pf_tile_rows *x, const uint8_t *left,
                                 const uint8_t *right)
{
    PF_TILE_LOAD_ONCE(4, x->a, PF_TILE_ROW_BYTES);
    PF_TILE_LOAD(6, left, PF_TILE_B_STRIDE);
    PF_TILE_LOAD(7, left + PF_TILE_ROW_BYTES, PF_TILE_B_STRIDE);
    PF_TILE_DOT(dot, 0, 4, 6);
    PF_TILE_DOT(dot, 1, 4, 7);
    PF_TILE_LOAD(6, right, PF_TILE_B_STRIDE);
    PF_TILE_LOAD(7, right + PF_TILE_ROW_BYTES, PF_TILE_B_STRIDE);
    PF_TILE_DOT(dot, 2, 4, 6);
    PF_TILE_DOT(dot, 3, 4, 7);
}

PF_INLINE uint8_t *pf_tile_slot(uint8_t *ring, size_t step)
{
    return ring + step % PF_TILE_RING_STEPS * (2 * PF_TILE_STEP_BYTES);
}

/* Up to 32 rows times one panel, or up to 16 times two: sums to the tiles. */
PF_INLINE void pf_tile_multiply_few(const pf_tile_family family, const pf_tile_product *x, pf_tile_rows rows,
                                    int32_t panel, const int32_t n_panels, const bool copied, uint8_t *ring)
{
    const uint8_t *panels = pf_tile_panel(x, panel);
    pf_tile_zero_all();
    for (size_t step = 0; copied && step < PF_TILE_RING_AHEAD && step < x->steps; step++)
        pf_tile_fill(family, x, panels, n_panels, step, true, pf_tile_slot(ring, step));
    const size_t awake_steps = copied ? 2 : 8; /* less than 2,000 cycles of reading from memory, from L3 */
    for (size_t step = 0; step < x->steps; step++, rows.a += rows.a_step) {
        const uint8_t *left = panels + pf_tile_step_at(family, x, step), *right = left + x->w->panel_bytes;
        const bool whole = pf_tile_rows_there(family, x, step, PF_TILE_ROWS) == PF_TILE_ROWS;
        const size_t filled = copied ? step + PF_TILE_RING_AHEAD : step;
        if (copied ? filled < x->steps : !whole)
            pf_tile_fill(family, x, panels, n_panels, filled, true, pf_tile_slot(ring, filled));
        if (copied || !whole) {
            left = pf_tile_slot(ring, step);
            right = left + PF_TILE_STEP_BYTES;
        }
        if (n_panels == 2)
            pf_tile_step_pair(family.dot, &rows, left, right);
        else if (rows.lower)
            pf_tile_multiply_tall(family.dot, &rows, left, 1);
        else
            pf_tile_multiply_low(family.dot, &rows, left, 1);
        if (step % awake_steps == awake_steps - 1) pf_tile_stay_awake();
    }
}

/* `sums`: of 32 rows; `ring`: PF_TILE_RING_STEPS of two panels. */
PF_INLINE void pf_tile_nest_few(const pf_tile_family family, const pf_tile_product *x, int32_t panel_begin,
                                int32_t panel_end, uint8_t *sums, uint8_t *ring)
{
    const bool tall = x->m > PF_TILE_ROWS, copied = x->w->from_memory || !family.in_place;
    pf_tile_rows rows = pf_tile_rows_of(x->m, tall);
    rows.a = x->input;
    pf_tile_configure(rows.upper, tall ? rows.lower : rows.upper);
    for (int32_t p = panel_begin; p < panel_end;) {
        const bool pair = !tall && p + 1 < panel_end;
        if (pair && copied)
            pf_tile_multiply_few(family, x, rows, p, 2, true, ring);
        else if (pair)
            pf_tile_multiply_few(family, x, rows, p, 2, false, ring);
        else
            pf_tile_multiply_few(family, x, rows, p, 1, copied, ring);
        pf_tile_store(&rows, sums, PF_GEMM_PANEL * sizeof(float));
        family.put(x, p++, 0, x->m, sums);
        if (!pair) continue;
        pf_tile_store_right(sums, PF_GEMM_PANEL * sizeof(float));
        family.put(x, p++, 0, x->m, sums);
    }
}

/* Gate and up of more than 32 rows, panels [panel_begin, panel_end) of each. */
PF_INLINE void pf_tile_nest_gated(const pf_tile_family family, const pf_tile_product *x, int32_t panel_begin,
                                  int32_t panel_end, void *scratch)
{
    const size_t sums_bytes = pf_gemm_scratch_bytes(x->m) - PF_GEMM_UNPACKED_BYTES;
    uint8_t *sums = scratch;
    pf_tile_nest_tall(family, x, 2 * panel_begin, 2 * panel_end, sums, sums_bytes, sums + sums_bytes);
    pf_tile_release();
}

/* Any number of rows. `scratch` as gemm.h has it. */
PF_INLINE void pf_tile_nest(const pf_tile_family family, const pf_tile_product *x, int32_t panel_begin,
                            int32_t panel_end, void *scratch)
{
    const size_t sums_bytes = pf_gemm_scratch_bytes(x->m) - PF_GEMM_UNPACKED_BYTES;
    uint8_t *sums = scratch, *room = sums + sums_bytes;
    if (panel_begin == panel_end) return;
    if (x->m <= PF_TILE_BLOCK_ROWS)
        pf_tile_nest_few(family, x, panel_begin, panel_end, sums, room);
    else
        pf_tile_nest_tall(family, x, panel_begin, panel_end, sums, sums_bytes, room);
    pf_tile_release();
}

#endif
