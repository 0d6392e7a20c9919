/*
 * AMX products of up to 32 rows: the sums of a panel, or of up to 16 rows and two panels, stay in tiles over all of K, and the
 * weights come from far. Internal.
 *
 * Tiles read memory slower than a plain loop: 16 lines in a burst, every second one. So a loop of vectors copies each step to
 * a ring in L1 while the step before it is multiplied:
 *
 *   A  B0 | rows 0 .. 3 | B1, A B0 | rows 4 .. 7 | B2, A B1 | rows 8 .. 11 | B3, A B2 | rows 12 .. 15 | A B3
 *
 * A quarter of that copy stands between the load of a tile and its multiply, so that the core, whose reorder window holds some
 * forty rows, keeps memory requests in flight while it waits for either (docs/amx.md). A, a line of each row, comes from L2: B
 * passes through L1 between two uses of it. The first step of the next panels is copied beside the last step of these.
 */
#ifndef PF_KERNELS_GEMM_AMX_FEW_H
#define PF_KERNELS_GEMM_AMX_FEW_H

#include "kernels/gemm/amx/gemm_amx_product.h"

enum {
    PF_TILE_RING_STEPS = 2, /* four leave too little of L1 */
    PF_TILE_QUARTER = PF_TILE_ROWS / 4,
};

/* Granite Rapids powers down its path from tiles to memory when no tile is stored for 2,200 cycles; the next store then takes
 * 1,000. So a tile is stored now and then to a line that is not read. */
PF_INLINE void pf_tile_stay_awake(void)
{
    _Alignas(64) uint8_t unused[64];
    PF_TILE_STORE(4, unused, 0);
}

PF_INLINE uint8_t *pf_tile_slot(uint8_t *ring, size_t turn)
{
    return ring + turn % PF_TILE_RING_STEPS * (2 * PF_TILE_STEP_BYTES);
}

/* Quarter q of what is filled meanwhile; NULL: nothing is. */
PF_INLINE void pf_tile_fill_quarter(const pf_tile_family family, const pf_tile_product *x, pf_tile_filling *f,
                                    const int32_t n_panels, size_t q)
{
    if (f == NULL) return;
    pf_tile_fill_rows(family, x, f, n_panels, true, q * PF_TILE_QUARTER, (q + 1) * PF_TILE_QUARTER);
}

/* A step of up to 16 rows and two panels: their sums in tmm0 and tmm1, tmm2 and tmm3. */
PF_INLINE void pf_tile_step_pair(const pf_tile_family family, const pf_tile_product *x, const pf_tile_rows *rows,
                                 const uint8_t *left, const uint8_t *right, pf_tile_filling *f)
{
    PF_TILE_LOAD_ONCE(4, rows->a, PF_TILE_ROW_BYTES);
    PF_TILE_LOAD(6, left, PF_TILE_B_STRIDE);
    pf_tile_fill_quarter(family, x, f, 2, 0);
    PF_TILE_LOAD(7, left + PF_TILE_ROW_BYTES, PF_TILE_B_STRIDE);
    PF_TILE_DOT(family.dot, 0, 4, 6);
    pf_tile_fill_quarter(family, x, f, 2, 1);
    PF_TILE_LOAD(6, right, PF_TILE_B_STRIDE);
    PF_TILE_DOT(family.dot, 1, 4, 7);
    pf_tile_fill_quarter(family, x, f, 2, 2);
    PF_TILE_LOAD(7, right + PF_TILE_ROW_BYTES, PF_TILE_B_STRIDE);
    PF_TILE_DOT(family.dot, 2, 4, 6);
    pf_tile_fill_quarter(family, x, f, 2, 3);
    PF_TILE_DOT(family.dot, 3, 4, 7);
}

/* A step of up to 32 rows and one panel. */
PF_INLINE void pf_tile_step_tall(const pf_tile_family family, const pf_tile_product *x, const pf_tile_rows *rows,
                                 const uint8_t *b, pf_tile_filling *f)
{
    PF_TILE_LOAD_ONCE(4, rows->a, PF_TILE_ROW_BYTES);
    PF_TILE_LOAD(6, b, PF_TILE_B_STRIDE);
    pf_tile_fill_quarter(family, x, f, 1, 0);
    PF_TILE_LOAD(7, b + PF_TILE_ROW_BYTES, PF_TILE_B_STRIDE);
    PF_TILE_DOT(family.dot, 0, 4, 6);
    pf_tile_fill_quarter(family, x, f, 1, 1);
    if (rows->lower) PF_TILE_LOAD_ONCE(5, rows->a + (size_t)rows->upper * PF_TILE_ROW_BYTES, PF_TILE_ROW_BYTES);
    PF_TILE_DOT(family.dot, 1, 4, 7);
    pf_tile_fill_quarter(family, x, f, 1, 2);
    if (rows->lower) PF_TILE_DOT(family.dot, 2, 5, 6);
    pf_tile_fill_quarter(family, x, f, 1, 3);
    if (rows->lower) PF_TILE_DOT(family.dot, 3, 5, 7);
}

/* `f`: what is filled meanwhile, a whole step, or NULL. */
PF_INLINE void pf_tile_step(const pf_tile_family family, const pf_tile_product *x, const pf_tile_rows *rows,
                            const int32_t n_panels, const uint8_t *left, const uint8_t *right, pf_tile_filling *f)
{
    if (n_panels == 2)
        pf_tile_step_pair(family, x, rows, left, right, f);
    else
        pf_tile_step_tall(family, x, rows, left, f);
}

/* Sums to the tiles, weights from a cache and B as they lie. `room`: a step. */
PF_INLINE void pf_tile_multiply_in_place(const pf_tile_family family, const pf_tile_product *x, pf_tile_rows rows,
                                         pf_tile_panels panels, const int32_t n_panels, uint8_t *room)
{
    enum { AWAKE_STEPS = 8 }; /* less than 2,000 cycles of reading from L3 */
    pf_tile_zero();
    for (size_t step = 0; step < x->steps; step++, rows.a += rows.a_step) {
        const uint8_t *left = panels.first + pf_tile_step_at(family, x, step), *right = left + panels.apart;
        if (pf_tile_rows_there(family, x, step, PF_TILE_ROWS) < PF_TILE_ROWS) {
            pf_tile_filling f = pf_tile_filling_of(family, x, panels, n_panels, step, false, room);
            pf_tile_fill(family, x, &f, n_panels, false);
            left = room;
            right = room + PF_TILE_STEP_BYTES;
        }
        pf_tile_step(family, x, &rows, n_panels, left, right, NULL);
        if (step % AWAKE_STEPS == AWAKE_STEPS - 1) pf_tile_stay_awake();
    }
}

/* One step through the ring, whose slot of `turn` has it; step `next` of `panels` goes to the slot after that. */
PF_INLINE void pf_tile_step_copied(const pf_tile_family family, const pf_tile_product *x, const pf_tile_rows *rows,
                                   pf_tile_panels panels, const int32_t n_panels, size_t next, uint8_t *ring,
                                   size_t turn)
{
    const uint8_t *left = pf_tile_slot(ring, turn), *right = left + PF_TILE_STEP_BYTES;
    pf_tile_filling f = pf_tile_filling_of(family, x, panels, n_panels, next, true, pf_tile_slot(ring, turn + 1));
    if (f.there == PF_TILE_ROWS) {
        pf_tile_step(family, x, rows, n_panels, left, right, &f);
    } else {
        pf_tile_fill(family, x, &f, n_panels, true);
        pf_tile_step(family, x, rows, n_panels, left, right, NULL);
    }
    if (turn & 1) pf_tile_stay_awake(); /* two steps from memory take less than 2,000 cycles */
}

/* Sums to the tiles through the ring, whose slot of *turn has the first step. Beside the last the first of the panels `after`
 * is filled, if only the same ones once more. */
PF_INLINE void pf_tile_multiply_copied(const pf_tile_family family, const pf_tile_product *x, pf_tile_rows rows,
                                       pf_tile_panels panels, pf_tile_panels after, const int32_t n_panels,
                                       uint8_t *ring, size_t *turn)
{
    pf_tile_zero();
    for (size_t step = 1; step < x->steps; step++, rows.a += rows.a_step)
        pf_tile_step_copied(family, x, &rows, panels, n_panels, step, ring, (*turn)++);
    pf_tile_step_copied(family, x, &rows, after, n_panels, 0, ring, (*turn)++);
}

/* Sums in the tiles to where they are wanted. `sums`: of 32 rows and a panel, or of 16 and two. */
PF_INLINE void pf_tile_put_few(const pf_tile_family family, const pf_tile_product *x, const pf_tile_rows *rows,
                               int32_t panel, const int32_t n_panels, uint8_t *sums)
{
    enum { ROW_BYTES = PF_GEMM_PANEL * sizeof(float) };
    uint8_t *right = sums + PF_TILE_ROWS * ROW_BYTES;
    pf_tile_store(rows, sums, ROW_BYTES);
    if (n_panels == 2) pf_tile_store_second(right, ROW_BYTES);
    if (n_panels == 2 && x->up != NULL) {
        family.put_gated(x, panel / 2, 0, x->m, sums, right);
        return;
    }
    family.put(x, panel, 0, x->m, sums);
    if (n_panels == 2) family.put(x, panel + 1, 0, x->m, right);
}

/* Panels, n_panels at a time. */
PF_INLINE void pf_tile_nest_copied(const pf_tile_family family, const pf_tile_product *x, const pf_tile_rows *rows,
                                   int32_t panel_begin, int32_t panel_end, const int32_t n_panels, uint8_t *sums,
                                   uint8_t *ring)
{
    if (panel_begin == panel_end) return;
    pf_tile_panels panels = pf_tile_panels_at(x, panel_begin, n_panels);
    pf_tile_filling f = pf_tile_filling_of(family, x, panels, n_panels, 0, true, ring);
    pf_tile_fill(family, x, &f, n_panels, true);
    size_t turn = 0;
    for (int32_t p = panel_begin; p < panel_end; p += n_panels) {
        const bool last = p + n_panels == panel_end;
        const pf_tile_panels after = last ? panels : pf_tile_panels_at(x, p + n_panels, n_panels);
        pf_tile_multiply_copied(family, x, *rows, panels, after, n_panels, ring, &turn);
        pf_tile_put_few(family, x, rows, p, n_panels, sums);
        panels = after;
    }
}

PF_INLINE void pf_tile_nest_in_place(const pf_tile_family family, const pf_tile_product *x, const pf_tile_rows *rows,
                                     int32_t panel_begin, int32_t panel_end, const int32_t n_panels, uint8_t *sums,
                                     uint8_t *room)
{
    for (int32_t p = panel_begin; p < panel_end; p += n_panels) {
        pf_tile_multiply_in_place(family, x, *rows, pf_tile_panels_at(x, p, n_panels), n_panels, room);
        pf_tile_put_few(family, x, rows, p, n_panels, sums);
    }
}

PF_INLINE void pf_tile_nest_at_once(const pf_tile_family family, const pf_tile_product *x, const pf_tile_rows *rows,
                                    int32_t panel_begin, int32_t panel_end, const int32_t n_panels, uint8_t *sums,
                                    uint8_t *ring)
{
    if (x->w->from_memory || !family.in_place)
        pf_tile_nest_copied(family, x, rows, panel_begin, panel_end, n_panels, sums, ring);
    else
        pf_tile_nest_in_place(family, x, rows, panel_begin, panel_end, n_panels, sums, ring);
}

/* `sums`: of 32 rows; `ring`: PF_TILE_RING_STEPS of two panels. */
PF_INLINE void pf_tile_nest_few(const pf_tile_family family, const pf_tile_product *x, int32_t panel_begin,
                                int32_t panel_end, uint8_t *sums, uint8_t *ring)
{
    const bool tall = x->m > PF_TILE_ROWS;
    const int32_t pairs_end = tall ? panel_begin : panel_begin + (panel_end - panel_begin) / 2 * 2;
    pf_tile_rows rows = pf_tile_rows_of(x->m, tall);
    rows.a = x->input;
    pf_tile_configure(rows.upper, tall ? rows.lower : rows.upper);
    pf_tile_nest_at_once(family, x, &rows, panel_begin, pairs_end, 2, sums, ring);
    pf_tile_nest_at_once(family, x, &rows, pairs_end, panel_end, 1, sums, ring);
}

#endif
