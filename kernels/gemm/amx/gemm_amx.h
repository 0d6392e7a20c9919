/*
 * AMX products: those of few rows by gemm_amx_few.h, and of more than 32 by a nest of loops that keeps the multiplier fed.
 * Internal.
 *
 * A multiply takes 16 cycles and two tiles, 2 KiB; L1 gives those in 16, L2 in 22 and more. So of the two operands one must
 * come from L1:
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
 */
#ifndef PF_KERNELS_GEMM_AMX_H
#define PF_KERNELS_GEMM_AMX_H

#include "kernels/gemm/amx/gemm_amx_few.h"

enum {
    PF_TILE_BLOCK_ROWS = 2 * PF_TILE_ROWS, /* of A that are multiplied together */
    PF_TILE_BLOCK_STEPS = 13,              /* of K, at most, that all rows of a group pass over: 26 KiB of B */
    PF_TILE_SHORT_STEPS = 4, /* where they are so few, less than PF_TILE_MANY_BLOCKS, that all waits for B */
    PF_TILE_MANY_BLOCKS = 8,
    PF_TILE_GROUP_BLOCKS = 16, /* of rows that pass together, a slice of 416 KiB */
    PF_TILE_SUMS_BYTES = PF_TILE_BLOCK_ROWS * PF_GEMM_PANEL * (int)sizeof(float), /* of a block of rows and a panel */
};

/* Into L2, which L1 has no room for. */
PF_INLINE void pf_prefetch_lines_far(uintptr_t address, size_t n_lines)
{
    for (size_t i = 0; i < n_lines; i++) _mm_prefetch((const char *)(address + 64 * i), _MM_HINT_T1);
}

/* n steps of up to 32 rows times the two halves of a panel, added to tmm0 to tmm3. b: [n] steps.
 *
 * The order suits a core whose sibling hyperthread is busy: few tile instructions are in flight there, and alternating loads
 * and multiplies wait for each other. Adjacent loads, and prefetches between the multiplies, are faster there and as fast on
 * an idle core (docs/amx.md). */
PF_INLINE void pf_tile_multiply_tall(const pf_tile_dot dot, const pf_tile_rows *x, const uint8_t *b, size_t n)
{
    const size_t a_lower = (size_t)x->upper * PF_TILE_ROW_BYTES;
    const uint8_t *a = x->a, *next = x->next;
    uintptr_t prefetch = x->prefetch;
    PF_TILE_LOAD_ONCE(4, a, PF_TILE_ROW_BYTES);
    PF_TILE_LOAD(6, b, PF_TILE_B_STRIDE);
    PF_TILE_LOAD(7, b + PF_TILE_ROW_BYTES, PF_TILE_B_STRIDE);
    PF_TILE_LOAD_ONCE(5, a + a_lower, PF_TILE_ROW_BYTES);
    for (; n > 1; n--) {
        a += x->a_step;
        b += PF_TILE_STEP_BYTES;
        PF_TILE_DOT(dot, 0, 4, 6);
        PF_TILE_DOT(dot, 1, 4, 7);
        PF_TILE_LOAD_ONCE(4, a, PF_TILE_ROW_BYTES);
        pf_prefetch_lines_far(prefetch, x->prefetch_lines);
        prefetch += 64 * x->prefetch_lines;
        PF_TILE_DOT(dot, 2, 5, 6);
        PF_TILE_LOAD(6, b, PF_TILE_B_STRIDE);
        for (size_t i = 0; i < x->next_lines; i++, next += 64) pf_tile_prefetch((uintptr_t)next);
        PF_TILE_DOT(dot, 3, 5, 7);
        PF_TILE_LOAD(7, b + PF_TILE_ROW_BYTES, PF_TILE_B_STRIDE);
        PF_TILE_LOAD_ONCE(5, a + a_lower, PF_TILE_ROW_BYTES);
    }
    PF_TILE_DOT(dot, 0, 4, 6);
    PF_TILE_DOT(dot, 1, 4, 7);
    PF_TILE_DOT(dot, 2, 5, 6);
    PF_TILE_DOT(dot, 3, 5, 7);
    pf_prefetch_lines_far(prefetch, x->prefetch_lines);
}

/* n steps of a panel in a row: where they lie, or in `room`. */
PF_INLINE const uint8_t *pf_tile_block(const pf_tile_family family, const pf_tile_product *x, const uint8_t *panel,
                                       size_t step, size_t n, uint8_t *room)
{
    const size_t wanted = n * PF_TILE_ROWS;
    if (family.in_place && pf_tile_rows_there(family, x, step, wanted) == wanted)
        return panel + pf_tile_step_at(family, x, step);
    for (size_t i = 0; i < n; i++) {
        pf_tile_filling f = pf_tile_filling_of(family, x, (pf_tile_panels){ .first = panel }, 1, step + i, false,
                                               room + i * PF_TILE_STEP_BYTES);
        pf_tile_fill(family, x, &f, 1, false);
    }
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
     * input; its sums are not read, and one configuration serves them all. */
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
            pf_tile_zero();
        rows.next = at + PF_TILE_SUMS_BYTES; /* the last: of the next panel, as a rule */
        if (last && alone) pf_gemm_prefetch_write(c, x->ldc, (size_t)height);
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

/* Gate and up of few rows (gemm.h) or of more than 32, panels [panel_begin, panel_end) of each. */
PF_INLINE void pf_tile_nest_gated(const pf_tile_family family, const pf_tile_product *x, int32_t panel_begin,
                                  int32_t panel_end, void *scratch)
{
    const size_t sums_bytes = pf_gemm_scratch_bytes(x->m) - PF_GEMM_UNPACKED_BYTES;
    uint8_t *sums = scratch, *room = sums + sums_bytes;
    if (x->m <= PF_GEMM_GATED_FEW)
        pf_tile_nest_few(family, x, 2 * panel_begin, 2 * panel_end, sums, room);
    else
        pf_tile_nest_tall(family, x, 2 * panel_begin, 2 * panel_end, sums, sums_bytes, room);
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
