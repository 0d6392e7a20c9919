/*
 * Tiles of integer weights with VPMADDUBSW and VPMADDWD, for YMM and ZMM registers; a file includes vec_avx2.h or
 * vec_avx512.h first. Internal.
 *
 * int8: the stored bytes (0 .. 255) are taken apart into int16, k and k+2, k+1 and k+3, and multiplied with int16 by
 * VPMADDWD: two products of at most 255 * 127 fit its 32 bits. VPMADDUBSW would saturate, and with magnitudes and signs
 * parted take no fewer instructions.
 *
 * int4: VPMADDUBSW adds two products of a nibble and a byte, at most 2 * 15 * 127, to int16. Eight steps add up to at
 * most 8 * 3810 = 30480, so a block is summed in 16 bits, two sums a column; VPMADDWD with ones joins them. In groups
 * the sums begin at -z times the activations' own sums, and end with each of their 16 activations counted q - z times, at
 * most 15, so the bound is the same. Where z is 8, a count is at most 8, and two blocks fit: 32 * 8 * 127 = 32512. On the
 * way there sums may wrap around.
 */
#ifndef PF_KERNELS_GEMM_INT_MADD_VEC_H
#define PF_KERNELS_GEMM_INT_MADD_VEC_H

#include "kernels/gemm/gemm_int_vec.h"

/* Taking nibbles apart is a tenth of the work of 6 rows, and done once for several tiles; for 12 it is not worth it. */
enum { PF_INT4_UNPACKS = PF_VEC_TILE_ROWS <= 6 };

/* Sums of half a panel, or of a whole one in ZMM registers. */
typedef pf_vec pf_int_sums[PF_VEC_TILE_ROWS][2];

/* How many halves of a panel a tile takes side by side. Few rows take both: half by half, what comes from memory is waited
 * for while the other half has its turn. */
PF_INLINE int pf_int_halves(const int height)
{
    return height <= 2 ? PF_VEC_HALVES : 1;
}

/* Three and four rows go half by half as well, and wait for memory all the same: there turns are short, and the first half's
 * asks for all that is fetched in both. Five rows and more had better ask evenly. */
PF_INLINE bool pf_int_is_hasty(const int height, const pf_int_tile *t)
{
    return PF_VEC_HALVES > 1 && (height == 3 || height == 4) && t->from_memory;
}

/* A half step's share of what is fetched; a whole one's in ZMM registers. Returns where the next is. */
PF_INLINE uintptr_t pf_int_fetch(uintptr_t prefetch, size_t stride)
{
    PF_PREFETCH(prefetch);
    if (PF_VEC_HALVES == 1) PF_PREFETCH(prefetch + 64);
    return prefetch + stride;
}

PF_INLINE void pf_int_clear(const int height, pf_int_sums sum)
{
#define CLEAR(m) \
    if (m < height) sum[m][0] = sum[m][1] = pf_vec_zero();
    PF_VEC_EACH_ROW(CLEAR)
#undef CLEAR
}

PF_INLINE void pf_int8_step(const int height, pf_int_sums sum, const uint8_t *w, const uint32_t *a)
{
    const pf_vec low_bytes = pf_vec_set(0x00FF00FF);
#define ROW(m)                                                   \
    if (m < height) {                                            \
        const pf_vec b = pf_vec_spread(words + m);               \
        sum[m][0] = pf_vec_add(sum[m][0], pf_vec_madd16(w0, b)); \
        sum[m][1] = pf_vec_add(sum[m][1], pf_vec_madd16(w1, b)); \
    }
    {
        const pf_vec w0 = pf_vec_and(pf_vec_load(w), low_bytes), w1 = pf_vec_and(pf_vec_load(w + 64), low_bytes);
        const uint32_t *words = a;
        PF_VEC_EACH_ROW(ROW)
    }
    __asm__("" : "+r"(w)); /* the weights are loaded again: 16 registers hold no more */
    {
        const pf_vec w0 = pf_vec_right16(pf_vec_load(w), 8), w1 = pf_vec_right16(pf_vec_load(w + 64), 8);
        const uint32_t *words = a + height;
        PF_VEC_EACH_ROW(ROW)
    }
#undef ROW
}

/* Some steps of a column for `halves` of a panel; `sums` of its first column. `shares`: of a half step, that each fetches.
 * Returns where to prefetch. */
PF_INLINE uintptr_t pf_int8_columns(const int height, const int halves, const uint8_t *w, const uint32_t *a,
                                    size_t steps, uint32_t *sums, const int shares, uintptr_t prefetch, size_t stride)
{
    pf_int_sums sum[PF_VEC_HALVES];
#pragma GCC unroll 2
    for (int half = 0; half < halves; half++) pf_int_clear(height, sum[half]);
    for (; steps; steps--, w += 4 * PF_GEMM_PANEL, a += 2 * height) {
#pragma GCC unroll 2
        for (int half = 0; half < halves; half++) {
            for (int share = 0; share < shares; share++) prefetch = pf_int_fetch(prefetch, stride);
            pf_int8_step(height, sum[half], w + half * 4 * PF_VEC_LANES, a);
        }
    }
#define ADD(m) \
    if (m < height) pf_int_add(sums + half * PF_VEC_LANES + m * PF_GEMM_PANEL, sum[half][m][0], sum[half][m][1]);
#pragma GCC unroll 2
    for (int half = 0; half < halves; half++) {
        PF_VEC_EACH_ROW(ADD)
    }
#undef ADD
    return prefetch;
}

PF_INLINE void int8_tile(const int height, const pf_int_tile *t)
{
    const int halves = pf_int_halves(height);
    const bool hasty = pf_int_is_hasty(height, t);
    const size_t stretch = hasty ? PF_INT_STEPS : PF_INT_STRETCH_STEPS;
    const uint8_t *w = t->w;
    const uint32_t *a = t->a;
    uintptr_t prefetch = t->prefetch;
    for (size_t left = t->steps; left;) {
        const size_t steps = left < stretch ? left : stretch;
        for (int half = 0; half < PF_VEC_HALVES; half += halves)
            prefetch =
                pf_int8_columns(height, halves, w + half * 4 * PF_VEC_LANES, a, steps, t->sums + half * PF_VEC_LANES,
                                !hasty      ? 1
                                : half == 0 ? PF_VEC_HALVES
                                            : 0,
                                prefetch, t->prefetch_stride);
        w += steps * 4 * PF_GEMM_PANEL;
        a += steps * 2 * (size_t)height;
        left -= steps;
    }
}

/* What becomes of a block's integer sums. */
typedef enum {
    PF_INT_BEGIN, /* they are the first of a group: left in `sums` */
    PF_INT_KEEP,  /* they are added to `sums` */
    PF_INT_SCALE, /* they are a group: scaled, and added to the f32 `sums` */
    PF_INT_JOIN,  /* they are the last of a group, the others of which are in `partial`: the same for all together */
} pf_int_end;

/* How a block is multiplied; constants. */
typedef struct {
    int height;
    int halves;    /* of a panel, side by side */
    bool column;   /* its columns share a scale */
    bool pair;     /* two blocks, of a group whose z is 8 */
    bool unpacked; /* a weight is a byte */
} pf_int4_form;

/* What the sums of columns from `j` on begin with. */
PF_INLINE void pf_int4_start(const pf_int4_form form, pf_int_sums sum, const uint32_t *a, const pf_gemm_layout *l,
                             const uint8_t *group, size_t j)
{
    const int height = form.height;
    if (form.column) {
        pf_int_clear(height, sum);
    } else if (form.pair) {
        const uint32_t *second = a + PF_INT_BYTE_WORDS * height;
#define START(m)    \
    if (m < height) \
        sum[m][0] = sum[m][1] = pf_vec_left16(pf_vec_add16(pf_vec_spread(a + m), pf_vec_spread(second + m)), 3);
        PF_VEC_EACH_ROW(START)
#undef START
    } else if (!l->has_zeros) {
#define START(m) \
    if (m < height) sum[m][0] = sum[m][1] = pf_vec_left16(pf_vec_spread(a + m), 3);
        PF_VEC_EACH_ROW(START)
#undef START
    } else {
        const pf_vec z0 = pf_int_zeros(l, group, j), z1 = pf_int_zeros(l, group, j + 16);
#define START(m)                               \
    if (m < height) {                          \
        const pf_vec b = pf_vec_spread(a + m); \
        sum[m][0] = pf_vec_mul16(z0, b);       \
        sum[m][1] = pf_vec_mul16(z1, b);       \
    }
        PF_VEC_EACH_ROW(START)
#undef START
    }
}

PF_INLINE void pf_int4_step(const pf_int4_form form, pf_int_sums sum, const uint8_t *w, const uint32_t *a)
{
    const int height = form.height;
    const bool tall = height > 4;
    const pf_vec first = pf_vec_load(w), w0 = form.unpacked ? first : pf_vec_low_nibbles(first, tall);
    const pf_vec w1 = form.unpacked ? pf_vec_load(w + 64) : pf_vec_low_nibbles(pf_vec_right16(first, 4), tall);
#define ROW(m)                                                    \
    if (m < height) {                                             \
        const pf_vec b = pf_vec_spread(a + m);                    \
        sum[m][0] = pf_vec_add16(sum[m][0], pf_vec_madd8(w0, b)); \
        sum[m][1] = pf_vec_add16(sum[m][1], pf_vec_madd8(w1, b)); \
    }
    PF_VEC_EACH_ROW(ROW)
#undef ROW
}

/* The steps of a block. Returns where to prefetch. */
PF_INLINE uintptr_t pf_int4_steps(const pf_int4_form form, pf_int_sums sum[PF_VEC_HALVES], const uint8_t *w,
                                  const uint32_t *a, size_t steps, uintptr_t prefetch, size_t stride)
{
#pragma GCC unroll 8
    for (size_t step = 0; step < steps; step++, w += (form.unpacked ? 4 : 2) * PF_GEMM_PANEL) {
        a += form.height;
#pragma GCC unroll 2
        for (int half = 0; half < form.halves; half++) {
            prefetch = pf_int_fetch(prefetch, stride);
            pf_int4_step(form, sum[half], w + half * 4 * PF_VEC_LANES, a);
        }
    }
    return prefetch;
}

PF_INLINE void pf_int4_end(const pf_int4_form form, const pf_int_end end, pf_int_sums sum, const uint8_t *group,
                           size_t j, uint32_t *sums, const uint32_t *partial)
{
    const int height = form.height;
    const pf_vec ones = pf_vec_set(0x00010001);
    const bool scaled = end == PF_INT_SCALE || end == PF_INT_JOIN;
    const pf_vecf s0 = scaled ? pf_int_scales(group, j) : pf_vec_setf(0.0f);
    const pf_vecf s1 = scaled ? pf_int_scales(group, j + 16) : pf_vec_setf(0.0f);
#define END(m)                                                                           \
    if (m < height) {                                                                    \
        const size_t at = m * PF_GEMM_PANEL;                                             \
        pf_vec i0 = pf_vec_madd16(sum[m][0], ones), i1 = pf_vec_madd16(sum[m][1], ones); \
        if (end == PF_INT_JOIN) {                                                        \
            i0 = pf_vec_add(i0, pf_vec_load(partial + at));                              \
            i1 = pf_vec_add(i1, pf_vec_load(partial + at + 16));                         \
        }                                                                                \
        if (end == PF_INT_BEGIN) {                                                       \
            pf_vec_store(sums + at, i0);                                                 \
            pf_vec_store(sums + at + 16, i1);                                            \
        } else if (end == PF_INT_KEEP) {                                                 \
            pf_int_add(sums + at, i0, i1);                                               \
        } else {                                                                         \
            pf_int_add_scaled(sums + at, i0, i1, s0, s1);                                \
        }                                                                                \
    }
    PF_VEC_EACH_ROW(END)
#undef END
}

/* A block, or two, of columns from `j` on: straight-line code where `steps` is a constant, which saves up to a sixth. The
 * head of their group, sums and what is left of those before are the whole panel's. Returns where to prefetch. */
PF_INLINE uintptr_t pf_int4_block(const pf_int4_form form, const pf_int_end end, const pf_int_tile *t,
                                  const uint8_t *group, size_t j, const uint8_t *w, const uint32_t *a, size_t steps,
                                  uint32_t *sums, const uint32_t *partial, uintptr_t prefetch)
{
    const size_t stride = t->prefetch_stride;
    pf_int_sums sum[PF_VEC_HALVES];
    w += 4 * j;
    __asm__("" : "+r"(a), "+r"(prefetch)); /* one register each: the compiler would keep every word's address */
#pragma GCC unroll 2
    for (int half = 0; half < form.halves; half++)
        pf_int4_start(form, sum[half], a, t->layout, group, j + (size_t)half * PF_VEC_LANES);
    prefetch = pf_int4_steps(form, sum, w, a, steps, prefetch, stride);
    if (form.pair)
        prefetch = pf_int4_steps(form, sum, w + steps * (form.unpacked ? 4 : 2) * PF_GEMM_PANEL,
                                 a + PF_INT_BYTE_WORDS * form.height, steps, prefetch, stride);
#pragma GCC unroll 2
    for (int half = 0; half < form.halves; half++) {
        const size_t column = j + (size_t)half * PF_VEC_LANES;
        pf_int4_end(form, end, sum[half], group, column, sums + column, partial + column);
    }
    return prefetch;
}

/* A block of columns that share a scale. */
PF_INLINE uintptr_t int4_column_block(const pf_int4_form form, const pf_int_tile *t, const uint8_t *w,
                                      const uint32_t *a, size_t steps, uintptr_t prefetch)
{
    for (int half = 0; half < PF_VEC_HALVES; half += form.halves)
        prefetch = pf_int4_block(form, PF_INT_KEEP, t, NULL, (size_t)half * PF_VEC_LANES, w, a, steps, t->sums,
                                 t->partial, prefetch);
    return prefetch;
}

/* One block after the other; the last may lack steps. */
PF_INLINE void pf_int4_columns(const int height, const bool unpacked, const pf_int_tile *t)
{
    const pf_int4_form form = {
        .height = height, .halves = pf_int_halves(height), .column = true, .unpacked = unpacked
    };
    const uint8_t *w = unpacked ? t->unpacked : t->w;
    const uint32_t *a = t->a;
    const size_t last = t->steps % PF_INT_STEPS;
    uintptr_t prefetch = t->prefetch;
    for (size_t block = t->steps / PF_INT_STEPS; block; block--) {
        prefetch = int4_column_block(form, t, w, a, PF_INT_STEPS, prefetch);
        w += PF_INT_STEPS * (unpacked ? 4 : 2) * PF_GEMM_PANEL;
        a += PF_INT_BYTE_WORDS * (size_t)height;
    }
    if (last) int4_column_block(form, t, w, a, last, prefetch);
}

PF_INLINE void int4_column_tile(const int height, const pf_int_tile *t)
{
    if (PF_INT4_UNPACKS && t->unpacked)
        pf_int4_columns(height, true, t);
    else
        pf_int4_columns(height, false, t);
}

/* The weights of a group, half by half. */
PF_INLINE uintptr_t pf_int4_group(const pf_int4_form form, const size_t group_blocks, const pf_int_tile *t,
                                  const uint8_t *group, const uint8_t *w, const uint32_t *a, size_t blocks,
                                  uintptr_t prefetch)
{
    const size_t block_bytes = PF_INT_STEPS * (form.unpacked ? 4 : 2) * PF_GEMM_PANEL;
    const size_t block_words = PF_INT_BYTE_WORDS * (size_t)form.height;
    pf_int4_form pair = form;
    pair.pair = true;
    for (int half = 0; half < PF_VEC_HALVES; half += form.halves) {
        const size_t j = (size_t)half * PF_VEC_LANES;
        const uint8_t *bytes = w;
        const uint32_t *words = a;
#define BLOCK(FORM, END, SUMS) \
    prefetch = pf_int4_block(FORM, END, t, group, j, bytes, words, PF_INT_STEPS, SUMS, t->partial, prefetch);
        if (group_blocks == 1 || blocks == 1) {
            BLOCK(form, PF_INT_SCALE, t->sums)
            continue;
        }
        if (blocks == 4 && !t->layout->has_zeros) {
            BLOCK(pair, PF_INT_BEGIN, t->partial)
            bytes += 2 * block_bytes;
            words += 2 * block_words;
            BLOCK(pair, PF_INT_JOIN, t->sums)
            continue;
        }
        for (size_t b = 1; b < blocks; b++, bytes += block_bytes, words += block_words)
            if (b == 1)
                BLOCK(form, PF_INT_BEGIN, t->partial)
            else
                BLOCK(form, PF_INT_KEEP, t->partial)
        BLOCK(form, PF_INT_JOIN, t->sums)
#undef BLOCK
    }
    return prefetch;
}

/* Groups, one after the other; the last may lack blocks. */
PF_INLINE void pf_int4_groups(const int height, const size_t group_blocks, const bool unpacked, const pf_int_tile *t)
{
    enum { BLOCK_BYTES = PF_INT_STEPS * 4 * PF_GEMM_PANEL };
    const pf_int4_form form = { .height = height, .halves = pf_int_halves(height), .unpacked = unpacked };
    const pf_gemm_layout *l = t->layout;
    const uint8_t *group = t->w, *bytes = t->unpacked;
    const uint32_t *a = t->a;
    uintptr_t prefetch = t->prefetch;
    for (size_t left = t->steps / PF_INT_STEPS; left;) {
        const size_t blocks = left < group_blocks ? left : group_blocks;
        prefetch =
            pf_int4_group(form, group_blocks, t, group, unpacked ? bytes : group + l->head_bytes, a, blocks, prefetch);
        group += l->group_bytes;
        if (unpacked) bytes += blocks * BLOCK_BYTES;
        a += blocks * PF_INT_BYTE_WORDS * (size_t)height;
        left -= blocks;
    }
}

PF_INLINE void int4_group_tile(const int height, const size_t group_blocks, const pf_int_tile *t)
{
    if (PF_INT4_UNPACKS && t->unpacked)
        pf_int4_groups(height, group_blocks, true, t);
    else
        pf_int4_groups(height, group_blocks, false, t);
}

PF_INT_DEFINE_TILES

/* See pf_int_unpack_fn. */
static void pf_int4_unpack(uint8_t *bytes, const uint8_t *nibbles, size_t steps)
{
    for (; steps; steps--, nibbles += 2 * PF_GEMM_PANEL, bytes += 4 * PF_GEMM_PANEL)
        for (size_t half = 0; half < 64; half += 4 * PF_VEC_LANES) {
            const pf_vec both = pf_vec_load(nibbles + half);
            pf_vec_store(bytes + half, pf_vec_low_nibbles(both, false));
            pf_vec_store(bytes + 64 + half, pf_vec_low_nibbles(pf_vec_right16(both, 4), false));
        }
}

PF_INLINE void pf_int_multiply(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin,
                               int32_t panel_end, float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    const pf_int_family family = { .tile_rows = PF_VEC_TILE_ROWS,
                                   .block_words =
                                       pf_format_get(w->format)->bits == 8 ? PF_INT_PAIR_WORDS : PF_INT_BYTE_WORDS,
                                   .halves = PF_VEC_HALVES,
                                   .tiles = pf_int_tiles[pf_int_tiles_of(w->format)],
                                   .unpack = PF_INT4_UNPACKS ? pf_int4_unpack : NULL };
    pf_int_nest(family, w, input, m, panel_begin, panel_end, c, ldc, mode, scratch);
}

#endif
