/*
 * The loop nest around the register tiles; compiled into each fast file with that file's instruction set. Internal.
 *
 *   for each panel of 32 columns
 *     for each block of K
 *       for each row tile
 *         for each step of K: two to four weight vectors, and for each row one broadcast and its products
 *
 * One row tile: no K block; a panel is read once, straight through, prefetched W_AHEAD before its use, over the
 * panel's end into the next. A low tile takes two panels side by side: with few rows there are too few chains to hide
 * the latency of their products, and that, not memory, would be the limit. Where memory is the limit all the same, four
 * rows and more take one panel after the other: one stream is then faster than two.
 *
 * More tiles: the block stays in L1 and L2 while they pass over it, and each fetches its share of the next block, evenly,
 * so that memory works all the time. Partial sums wait in the scratch and are loaded, not added: an output stays one chain.
 *
 * Tiles that take a panel half by half (half_rows) pass over a block twice, and touch every other line each time. Few such
 * tiles take short blocks where weights come from memory; from the L3 short blocks gain nothing.
 *
 * Integer weights are widened to bf16 a block at a time, in the scratch, and the tiles pass over that: the whole cost of
 * the integers is in the widening, once a panel, whatever the rows. Groups of others are widened to f32 likewise. With few rows the blocks are short, so that the
 * widening of one overlaps the chains of the one before (but see gemm_few_vec.h). bf16 in twelve bits is put together
 * likewise (bf16_12_vec.h), where there is no VDPBF16PS.
 *
 * The prefetch distances and the order of loops are the fastest measured. In general (PF_FETCH_FAR) lines are prefetched into
 * the L1 from 8 KiB ahead, each of two panels side by side on its own, and panels are the outermost loop.
 *
 * Intel's cores have 48 misses of the L2 at a time, in which what is asked for meets what their own prefetcher asks for: up to
 * 20 lines ahead of each stream, within its page. Two streams, prefetched less than a page ahead, are fastest there
 * (PF_FETCH_NEAR). So few rows take two panels side by side, a page less ten lines ahead, or 1 KiB where a line is soon
 * consumed: what runs ahead out of order comes on top. Prefetches are not issued in bursts, since the L1 has 16 misses.
 *
 * The prefetcher of Zen 3 and Zen 4, left alone, reads memory and the L3 as fast as any loop does (PF_FETCH_SHORT). So few rows
 * prefetch the next line only. Where multiplies take as long as memory the prefetcher falls behind, and lines are prefetched
 * from far ahead into the L2: the L1 has 32 KiB and few misses.
 */
#ifndef PF_KERNELS_GEMM_NEST_H
#define PF_KERNELS_GEMM_NEST_H

#include <immintrin.h>
#include <stdbool.h>

#include "kernels/gemm/layout_exact.h"
#include "kernels/implementations.h"
#include "kernels/vec/prefetch.h"
#include "kernels/vec/rows.h"

enum {
    PF_GEMM_STEP_BYTES = 128,                                         /* of a panel: 32 f32 values or 32 bf16 pairs */
    PF_GEMM_BLOCK_STEPS = 1024,                                       /* of K that several row tiles pass over */
    PF_GEMM_HALF_STEPS = 64,                                          /* of one half by half, from memory ... */
    PF_GEMM_HALF_TILES = 2,                                           /* ... by up to so many tiles */
    PF_GEMM_WIDE_STEPS = PF_GEMM_UNPACKED_BYTES / PF_GEMM_STEP_BYTES, /* of a block of widened weights */
    PF_GEMM_WIDE_STEPS_ONE_TILE = 32,
    PF_GEMM_GROUP_STEPS_ONE_TILE = 128, /* likewise of groups of others, as f32 */
    PF_GEMM_W_AHEAD = 8192,             /* bytes */
    PF_GEMM_W_NEAR = 3456,              /* likewise, where memory is fetched near */
    PF_GEMM_W_NEXT = 1024,              /* and of two panels side by side, where a line of them is soon done with */
    PF_GEMM_W_SHORT = 64,               /* where few lines are asked for; of two panels twice that */
    PF_GEMM_A_AHEAD = 4096,             /* bytes: activations that come from L3 */
    PF_GEMM_A_AHEAD_ROWS = 64,          /* rows from which they do */
};

/* What one register tile is to do. Its height is the function's. */
typedef struct {
    const uint8_t *w;    /* steps * 128 bytes */
    const float *a;      /* words [steps, height], or [steps, 2, height] */
    const float *before; /* [height, 32] sums so far, 64-byte aligned; NULL: zeros */
    float *c;            /* [height, 32], rows ldc elements apart */
    size_t ldc;
    size_t steps;
    size_t n_times;     /* panels to pass over, one after the other; one where there are more tiles */
    size_t panel_bytes; /* of each */
    uintptr_t prefetch; /* where, and how much further with each step */
    size_t prefetch_stride;
    size_t a_ahead; /* bytes */
    bool add;       /* to what is in c */
} pf_gemm_tile;

typedef void pf_gemm_tile_fn(const pf_gemm_tile *tile);

/* A function that does DO with `tile`, a TYPE. */
#define PF_GEMM_DEFINE(NAME, TYPE, DO) \
    static void NAME(const TYPE *tile) \
    {                                  \
        DO;                            \
    }

/* A function that does DO with `tile`, a TYPE, and goes on by itself to what lies behind it, n_times in all: where K is short,
 * to be called again would take as long as the products. */
#define PF_GEMM_DEFINE_GOING_ON(NAME, TYPE, NEXT, DO)                               \
    static void NAME(const TYPE *first)                                             \
    {                                                                               \
        TYPE tile = *first;                                                         \
        for (size_t n_left = tile.n_times; n_left; n_left--, tile = NEXT(tile)) DO; \
    }

PF_INLINE pf_gemm_tile pf_gemm_next_tile(pf_gemm_tile t)
{
    t.w += t.panel_bytes;
    t.prefetch += t.panel_bytes;
    t.c += PF_GEMM_PANEL;
    return t;
}
#define PF_GEMM_DEFINE_TILE(NAME, DO) PF_GEMM_DEFINE_GOING_ON(NAME, pf_gemm_tile, pf_gemm_next_tile, DO)

/* Two panels side by side, whole, from the first step of K to the last; and so on, pair after pair. */
typedef struct {
    const uint8_t *w;   /* the left one; the right one follows */
    size_t panel_bytes; /* of each: steps * 128 */
    size_t ahead;       /* bytes, how far each is fetched */
    size_t n_times;
    const float *a; /* as above */
    float *c;       /* [height, 64], rows ldc elements apart */
    size_t ldc;
    bool add; /* to what is in c */
} pf_gemm_pair;

typedef void pf_gemm_pair_fn(const pf_gemm_pair *pair);

PF_INLINE pf_gemm_pair pf_gemm_next_pair(pf_gemm_pair t)
{
    t.w += 2 * t.panel_bytes;
    t.c += 2 * PF_GEMM_PANEL;
    return t;
}
#define PF_GEMM_DEFINE_PAIR(NAME, DO) PF_GEMM_DEFINE_GOING_ON(NAME, pf_gemm_pair, pf_gemm_next_pair, DO)

/* What the nest must know of a family of tiles. */
typedef struct {
    pf_gemm_widen_fn *widen;       /* what makes plain bf16 or f32 of the weights; NULL: they are what the tiles take */
    const pf_exact_layout *groups; /* of groups of others, which become f32; else NULL */
    int32_t tile_rows;
    int32_t step_words;            /* words of a row a step */
    int32_t half_rows;             /* from which height on tiles take a panel half by half; 0: none does */
    pf_gemm_tile_fn *const *tiles; /* [tile_rows + 1], by height */
    pf_gemm_tile_fn *const *far;   /* likewise, which fetch into the L2: those of many rows; NULL: none */
    int32_t many_rows;             /* from which on multiplies take as long as weights from memory; 0: always */
    int32_t pair_rows;             /* up to which height there are pairs; 0: none */
    int32_t far_pair_rows;         /* likewise, for weights from a memory that is not fetched near */
    pf_gemm_pair_fn *const *pairs; /* [pair_rows + 1], by height */
} pf_gemm_family;

/* Waits nine cycles, by a dependency chain whose result is not used. Prefetches that come no faster than memory serves them
 * leave the L1's misses free, and the hardware prefetcher does the rest. For few rows where memory is fetched near. */
PF_INLINE void pf_gemm_pace(void)
{
    __asm__ volatile("imul %%r11, %%r11\n\timul %%r11, %%r11\n\timul %%r11, %%r11" : : : "r11", "cc");
}

/* A line of weights, into the L2 or on into the L1. */
PF_INLINE void pf_gemm_fetch(uintptr_t address, const bool into_l2)
{
    if (into_l2) _mm_prefetch((const char *)address, _MM_HINT_T1);
    if (!into_l2) PF_PREFETCH(address);
}

/* How far ahead one panel is fetched. Where the L3 holds them near costs 8 rows of bf16 a 25th. */
PF_INLINE bool pf_gemm_is_near(const pf_gemm_weights *w)
{
    return pf_fetch_is_near(w->fetch) && w->from_memory;
}
PF_INLINE size_t pf_gemm_ahead(const pf_gemm_weights *w, bool many_rows)
{
    if (w->fetch == PF_FETCH_SHORT && !many_rows) return PF_GEMM_W_SHORT;
    return pf_gemm_is_near(w) ? PF_GEMM_W_NEAR : PF_GEMM_W_AHEAD;
}
PF_INLINE bool pf_gemm_is_into_l2(const pf_gemm_weights *w, bool many_rows)
{
    return w->fetch == PF_FETCH_SHORT && w->from_memory && many_rows;
}

/* And each of two side by side. */
PF_INLINE size_t pf_gemm_pair_ahead(const pf_gemm_weights *w, int32_t m)
{
    if (pf_fetch_is_near(w->fetch)) return PF_GEMM_W_NEXT;
    return w->fetch == PF_FETCH_SHORT && (w->from_memory || m <= 2) ? 2 * PF_GEMM_W_SHORT : PF_GEMM_W_AHEAD;
}

/* A pair's steps, those after which what is fetched lies in the next pair and those from there on: each panel is fetched on
 * its own. */
PF_INLINE void pf_gemm_pair_parts(const pf_gemm_pair *t, size_t part[2])
{
    const size_t steps = t->panel_bytes / PF_GEMM_STEP_BYTES, ahead = t->ahead / PF_GEMM_STEP_BYTES;
    part[1] = ahead < steps ? ahead : steps;
    part[0] = steps - part[1];
}

/* Of a step, the left panel's at an address. Returns where the next one is; behind part[0] a panel further on. */
PF_INLINE uintptr_t pf_gemm_prefetch_pair(uintptr_t address, size_t panel_bytes)
{
    PF_PREFETCH(address);
    PF_PREFETCH(address + 64);
    PF_PREFETCH(address + panel_bytes);
    PF_PREFETCH(address + panel_bytes + 64);
    return address + PF_GEMM_STEP_BYTES;
}

/* Ask for a tile's lines of c to be written: others have read them, or written them, and they come while it multiplies. */
PF_INLINE void pf_gemm_prefetch_write(const float *c, size_t ldc, size_t height)
{
    for (size_t row = 0; row < height; row++, c += ldc) {
        __builtin_prefetch(c, 1);
        __builtin_prefetch(c + 16, 1);
    }
}

/* The last panel when n is no multiple of 32: from the scratch into the columns that exist. */
PF_INLINE void pf_gemm_copy_columns(float *c, size_t ldc, const float *sums, int32_t n_rows, int32_t n_columns,
                                    pf_gemm_mode mode)
{
    for (int32_t row = 0; row < n_rows; row++, c += ldc, sums += PF_GEMM_PANEL)
        for (int32_t j = 0; j < n_columns; j++) c[j] = mode == PF_GEMM_ADD ? c[j] + sums[j] : sums[j];
}

/* The first panel up to panel_end that n does not fill, or panel_end. */
PF_INLINE int32_t pf_gemm_whole_end(const pf_gemm_weights *w, int32_t panel_end)
{
    const int32_t n_whole = w->n / PF_GEMM_PANEL;
    return n_whole < panel_end ? n_whole : panel_end;
}

/* Whether tiles take a panel half by half. */
PF_INLINE bool pf_gemm_is_by_halves(const pf_gemm_family *family, int32_t m)
{
    return family->half_rows && m >= family->half_rows;
}

/* Of K, before the next ones begin, steps that all tiles pass over. */
PF_INLINE size_t pf_gemm_block_steps(const pf_gemm_family *family, const pf_gemm_weights *w, int32_t m, size_t steps)
{
    const int32_t n_tiles = pf_gemm_tiles(family->tile_rows, m);
    size_t longest = PF_GEMM_BLOCK_STEPS;
    if (family->groups)
        longest = n_tiles == 1 ? PF_GEMM_GROUP_STEPS_ONE_TILE : PF_GEMM_WIDE_STEPS;
    else if (family->widen)
        longest = n_tiles == 1 ? PF_GEMM_WIDE_STEPS_ONE_TILE : PF_GEMM_WIDE_STEPS;
    else if (pf_gemm_is_by_halves(family, m))
        longest = w->from_memory && n_tiles <= PF_GEMM_HALF_TILES ? PF_GEMM_HALF_STEPS : PF_GEMM_BLOCK_STEPS;
    else if (n_tiles == 1)
        longest = steps;
    return steps < longest ? steps : longest;
}

/* Whole panels from p on, two at a time where rows are few: how many that were. */
PF_INLINE int32_t pf_gemm_nest_pairs(const pf_gemm_family *family, const pf_gemm_weights *w, const void *input,
                                     int32_t m, int32_t p, int32_t whole_end, float *c, size_t ldc, bool add)
{
    const bool far = w->from_memory && w->fetch == PF_FETCH_FAR;
    if (m > (far ? family->far_pair_rows : family->pair_rows) || p + 2 > whole_end) return 0;
    const int32_t n_pairs = (whole_end - p) / 2;
    family->pairs[m](&(pf_gemm_pair){ .w = (const uint8_t *)w->panels + (size_t)p * w->panel_bytes,
                                      .panel_bytes = w->panel_bytes,
                                      .ahead = pf_gemm_pair_ahead(w, m),
                                      .n_times = (size_t)n_pairs,
                                      .a = input,
                                      .c = c + (size_t)p * PF_GEMM_PANEL,
                                      .ldc = ldc,
                                      .add = add });
    return 2 * n_pairs;
}

PF_INLINE void pf_gemm_nest(const pf_gemm_family family, const pf_gemm_weights *w, const void *input, int32_t m,
                            int32_t panel_begin, int32_t panel_end, float *c, size_t ldc, pf_gemm_mode mode,
                            float *scratch)
{
    const int32_t n_tiles = pf_gemm_tiles(family.tile_rows, m);
    const size_t wide_steps = family.groups ? (size_t)w->k : ((size_t)w->k + 1) / 2;
    const size_t steps = family.widen ? wide_steps : w->panel_bytes / PF_GEMM_STEP_BYTES;
    const size_t words = (size_t)family.step_words;
    const size_t block = pf_gemm_block_steps(&family, w, m, steps);
    const bool in_passes = n_tiles > 1 || pf_gemm_is_by_halves(&family, m); /* over a block; each fetches its share */
    const bool has_integers = family.widen && !family.groups;
    const pf_gemm_layout integers = has_integers ? pf_gemm_layout_of(w->format, w->k) : (pf_gemm_layout){ 0 };
    const void *layout = family.groups ? (const void *)family.groups : &integers;
    uint8_t *widened = (uint8_t *)scratch + pf_gemm_scratch_bytes(m) - PF_GEMM_UNPACKED_BYTES;

    const int32_t whole_end = pf_gemm_whole_end(w, panel_end);
    const bool goes_on = !in_passes && !family.widen;
    const bool many = m >= family.many_rows;
    pf_gemm_tile_fn *const *const tiles = family.far && pf_gemm_is_into_l2(w, many) ? family.far : family.tiles;

    int32_t p = panel_begin;
    p += pf_gemm_nest_pairs(&family, w, input, m, p, whole_end, c, ldc, mode == PF_GEMM_ADD);
    for (int32_t n_panels; p < panel_end; p += n_panels) {
        n_panels = goes_on && p < whole_end ? whole_end - p : 1;
        const uint8_t *panel = (const uint8_t *)w->panels + (size_t)p * w->panel_bytes;
        const int32_t n_columns = w->n - p * PF_GEMM_PANEL;
        const bool whole = n_columns >= PF_GEMM_PANEL;
        for (size_t step = 0; step < steps; step += block) {
            const size_t n_steps = steps - step < block ? steps - step : block;
            const bool last = step + n_steps == steps;
            const uint8_t *begin = family.widen ? widened : panel + step * PF_GEMM_STEP_BYTES;
            if (family.widen) family.widen(w, layout, p, step, n_steps, widened);
            const size_t bytes = n_steps * PF_GEMM_STEP_BYTES;
            for (int32_t t = 0; t < n_tiles; t++) {
                const int32_t row = pf_gemm_tile_row(n_tiles, m, t);
                const int32_t height = pf_gemm_tile_row(n_tiles, m, t + 1) - row;
                float *sums = scratch + (size_t)row * PF_GEMM_PANEL;
                pf_gemm_tile tile = {
                    .w = begin,
                    .a = (const float *)input + ((size_t)row * steps + step * (size_t)height) * words,
                    .before = step ? sums : NULL,
                    .c = sums,
                    .ldc = PF_GEMM_PANEL,
                    .steps = n_steps,
                    .n_times = (size_t)n_panels,
                    .panel_bytes = w->panel_bytes,
                    .prefetch = (uintptr_t)begin + pf_gemm_ahead(w, many),
                    .prefetch_stride = PF_GEMM_STEP_BYTES,
                    .a_ahead = m > PF_GEMM_A_AHEAD_ROWS ? PF_GEMM_A_AHEAD : 0,
                };
                if (last && whole) {
                    tile.c = c + (size_t)row * ldc + (size_t)p * PF_GEMM_PANEL;
                    tile.ldc = ldc;
                    tile.add = mode == PF_GEMM_ADD;
                    if (n_tiles > 1) pf_gemm_prefetch_write(tile.c, ldc, (size_t)height);
                }
                if (family.widen) {
                    tile.prefetch = (uintptr_t)begin; /* the widening has seen to it */
                } else if (in_passes) {
                    tile.prefetch = (uintptr_t)begin + bytes + bytes * (size_t)t / (size_t)n_tiles;
                    tile.prefetch_stride = (PF_GEMM_STEP_BYTES + (size_t)n_tiles - 1) / (size_t)n_tiles;
                }
                tiles[height](&tile);
            }
        }
        if (!whole) pf_gemm_copy_columns(c + (size_t)p * PF_GEMM_PANEL, ldc, scratch, m, n_columns, mode);
    }
}

#endif
