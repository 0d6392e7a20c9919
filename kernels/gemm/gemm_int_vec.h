/*
 * Tiles of integer weights with VPMADDUBSW and VPMADDWD, for YMM and ZMM registers; a file includes vec_avx2.h or
 * vec_avx512.h first. Internal.
 *
 * int8: the stored bytes (0 .. 255) are taken apart into int16, k and k+2, k+1 and k+3, and multiplied with int16 by
 * VPMADDWD: two products of at most 255 * 127 fit its 32 bits. VPMADDUBSW would saturate, and take no fewer instructions
 * with magnitudes and signs parted.
 *
 * int4: VPMADDUBSW adds two products of a nibble and a byte, at most 2 * 15 * 127, to int16. Eight steps add up to at most
 * 8 * 3810 = 30480 less than 32768, so a block is summed in 16 bits, two sums a column; VPMADDWD with ones joins them.
 * In groups the sums begin at -z times the activations' own sums, and so end within 8 * 2 * 15 * 127 again, whatever
 * they wrapped around on the way.
 */
#ifndef PF_KERNELS_GEMM_INT_VEC_H
#define PF_KERNELS_GEMM_INT_VEC_H

#include "kernels/gemm/gemm_int_blocks.h"

/* Where, in rows of 32 sums, the two vectors of a row are. */
#define PF_INT_AT(m) ((m)*PF_GEMM_PANEL)

#define PF_INT_ADD(to, m, i0, i1)                                                        \
    pf_vec_store((to) + PF_INT_AT(m), pf_vec_add(pf_vec_load((to) + PF_INT_AT(m)), i0)); \
    pf_vec_store((to) + PF_INT_AT(m) + 16, pf_vec_add(pf_vec_load((to) + PF_INT_AT(m) + 16), i1));

/* Some steps of a column for half a panel, or a whole one; `sums` of its first column. Returns where to prefetch next. */
PF_INLINE uintptr_t pf_int8_columns(const int height, const uint8_t *w, const uint32_t *a, size_t steps, uint32_t *sums,
                                    uintptr_t prefetch, size_t stride)
{
    const pf_vec low_bytes = pf_vec_set(0x00FF00FF);
    pf_vec sum[PF_VEC_TILE_ROWS][2];
#define START(m) \
    if (m < height) sum[m][0] = sum[m][1] = pf_vec_zero();
    PF_VEC_EACH_ROW(START)
#undef START

    for (; steps; steps--, w += 4 * PF_GEMM_PANEL, a += 2 * height) {
        PF_PREFETCH(prefetch);
        if (PF_VEC_HALVES == 1) PF_PREFETCH(prefetch + 64);
        prefetch += stride;
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

#define ADD(m)                                    \
    if (m < height) {                             \
        PF_INT_ADD(sums, m, sum[m][0], sum[m][1]) \
    }
    PF_VEC_EACH_ROW(ADD)
#undef ADD
    return prefetch;
}

PF_INLINE void pf_int8_tile(const int height, const pf_int_tile *t)
{
    const uint8_t *w = t->w;
    const uint32_t *a = t->a;
    uintptr_t prefetch = t->prefetch;
    for (size_t left = t->steps; left;) {
        const size_t steps = left < PF_INT_STRETCH_STEPS ? left : PF_INT_STRETCH_STEPS;
        for (size_t half = 0; half < PF_VEC_HALVES; half++)
            prefetch = pf_int8_columns(height, w + half * 4 * PF_VEC_LANES, a, steps, t->sums + half * PF_VEC_LANES,
                                       prefetch, t->prefetch_stride);
        w += steps * 4 * PF_GEMM_PANEL;
        a += steps * 2 * (size_t)height;
        left -= steps;
    }
}

/* What becomes of a block's integer sums. */
typedef enum {
    PF_INT_KEEP,  /* they are added to others */
    PF_INT_SCALE, /* they are a group: scaled, and added to the f32 sums */
    PF_INT_JOIN,  /* they are the last of a group, the others of which are in `partial`: the same for all together */
} pf_int_end;

/* One block for half a panel, or a whole one. `zeros`: z of its columns, twice in each lane; of a column: 0, and nothing
 * is taken from the products. */
PF_INLINE uintptr_t pf_int4_block(const int height, const pf_int_end end, const bool column, const uint8_t *w,
                                  const uint32_t *a, size_t steps, const pf_vec zeros[2], const pf_vecf scales[2],
                                  uint32_t *sums, uint32_t *partial, uintptr_t prefetch, size_t stride)
{
    const pf_vec nibble = pf_vec_set(0x0F0F0F0F), ones = pf_vec_set(0x00010001);
    pf_vec sum[PF_VEC_TILE_ROWS][2];
#define START(m)                                                        \
    if (m < height) {                                                   \
        const pf_vec b = pf_vec_spread(a + m);                          \
        sum[m][0] = column ? pf_vec_zero() : pf_vec_mul16(zeros[0], b); \
        sum[m][1] = column ? pf_vec_zero() : pf_vec_mul16(zeros[1], b); \
    }
    PF_VEC_EACH_ROW(START)
#undef START

    for (; steps; steps--, w += 2 * PF_GEMM_PANEL) {
        a += height;
        PF_PREFETCH(prefetch);
        if (PF_VEC_HALVES == 1) PF_PREFETCH(prefetch + 64);
        prefetch += stride;
        const pf_vec both = pf_vec_load(w);
        const pf_vec w0 = pf_vec_and(both, nibble), w1 = pf_vec_and(pf_vec_right16(both, 4), nibble);
#define ROW(m)                                                    \
    if (m < height) {                                             \
        const pf_vec b = pf_vec_spread(a + m);                    \
        sum[m][0] = pf_vec_add16(sum[m][0], pf_vec_madd8(w0, b)); \
        sum[m][1] = pf_vec_add16(sum[m][1], pf_vec_madd8(w1, b)); \
    }
        PF_VEC_EACH_ROW(ROW)
#undef ROW
    }

#define KEEP(m)                                                                             \
    if (m < height) {                                                                       \
        PF_INT_ADD(sums, m, pf_vec_madd16(sum[m][0], ones), pf_vec_madd16(sum[m][1], ones)) \
    }
#define SCALE(m, v)                                                                                           \
    if (m < height) {                                                                                         \
        pf_vec i = pf_vec_madd16(sum[m][v], ones);                                                            \
        if (end == PF_INT_JOIN) {                                                                             \
            i = pf_vec_add(i, pf_vec_load(partial + PF_INT_AT(m) + 16 * v));                                  \
            pf_vec_store(partial + PF_INT_AT(m) + 16 * v, pf_vec_zero());                                     \
        }                                                                                                     \
        pf_vec_storef(sums + PF_INT_AT(m) + 16 * v,                                                           \
                      pf_vec_fma(pf_vec_to_float(i), scales[v], pf_vec_loadf(sums + PF_INT_AT(m) + 16 * v))); \
    }
#define SCALE_BOTH(m) SCALE(m, 0) SCALE(m, 1)
    if (end == PF_INT_KEEP) {
        PF_VEC_EACH_ROW(KEEP)
    } else {
        PF_VEC_EACH_ROW(SCALE_BOTH)
    }
#undef SCALE_BOTH
#undef SCALE
#undef KEEP
    return prefetch;
}

/* A column's steps, a block at a time. */
PF_INLINE void pf_int4_column_tile(const int height, const pf_int_tile *t)
{
    const uint8_t *w = t->w;
    const uint32_t *a = t->a;
    uintptr_t prefetch = t->prefetch;
    for (size_t left = t->steps; left;) {
        const size_t steps = left < PF_INT_STEPS ? left : PF_INT_STEPS;
        for (size_t half = 0; half < PF_VEC_HALVES; half++)
            prefetch = pf_int4_block(height, PF_INT_KEEP, true, w + half * 4 * PF_VEC_LANES, a, steps, NULL, NULL,
                                     t->sums + half * PF_VEC_LANES, NULL, prefetch, t->prefetch_stride);
        w += steps * 2 * PF_GEMM_PANEL;
        a += PF_INT_BYTE_WORDS * (size_t)height;
        left -= steps;
    }
}

/* z of 16 columns' half, twice in each lane. */
PF_INLINE pf_vec pf_int_zeros(const pf_gemm_layout *l, const uint8_t *group, size_t column)
{
    if (!l->has_zeros) return pf_vec_set(0x00080008);
    const pf_vec z = pf_vec_load_u8(group + l->zeros_at + column);
    return pf_vec_or(z, pf_vec_left(z, 16));
}

/* Groups, one after the other; the last may lack blocks. */
PF_INLINE void pf_int4_group_tile(const int height, const size_t group_blocks, const pf_int_tile *t)
{
    const pf_gemm_layout *l = t->layout;
    const uint8_t *group = t->w;
    const uint32_t *a = t->a;
    const size_t block_words = PF_INT_BYTE_WORDS * (size_t)height, stride = t->prefetch_stride;
    uintptr_t prefetch = t->prefetch;
    for (size_t left = t->steps / PF_INT_STEPS; left;) {
        const size_t blocks = left < group_blocks ? left : group_blocks;
        for (size_t half = 0; half < PF_VEC_HALVES; half++) {
            const size_t j = half * PF_VEC_LANES;
            const pf_vec zeros[2] = { pf_int_zeros(l, group, j), pf_int_zeros(l, group, j + 16) };
            const pf_vecf scales[2] = { pf_vec_load_f16(group + 2 * j), pf_vec_load_f16(group + 2 * (j + 16)) };
            const uint8_t *w = group + l->head_bytes + 4 * j;
            const uint32_t *words = a;
            uint32_t *sums = t->sums + j, *partial = t->partial + j;
            for (size_t b = 1; b < blocks; b++, w += PF_INT_STEPS * 2 * PF_GEMM_PANEL, words += block_words)
                prefetch = pf_int4_block(height, PF_INT_KEEP, false, w, words, PF_INT_STEPS, zeros, scales, partial,
                                         NULL, prefetch, stride);
            prefetch = pf_int4_block(height, group_blocks > 1 ? PF_INT_JOIN : PF_INT_SCALE, false, w, words,
                                     PF_INT_STEPS, zeros, scales, sums, partial, prefetch, stride);
        }
        group += l->group_bytes;
        a += blocks * block_words;
        left -= blocks;
    }
}

#define PF_INT_DEFINE(m)                                 \
    static void pf_int8_##m(const pf_int_tile *t)        \
    {                                                    \
        pf_int8_tile(m + 1, t);                          \
    }                                                    \
    static void pf_int4_column_##m(const pf_int_tile *t) \
    {                                                    \
        pf_int4_column_tile(m + 1, t);                   \
    }                                                    \
    static void pf_int4_g32_##m(const pf_int_tile *t)    \
    {                                                    \
        pf_int4_group_tile(m + 1, 1, t);                 \
    }                                                    \
    static void pf_int4_g128_##m(const pf_int_tile *t)   \
    {                                                    \
        pf_int4_group_tile(m + 1, 4, t);                 \
    }
PF_VEC_EACH_ROW(PF_INT_DEFINE)

#define PF_INT_NAME_8(m)      pf_int8_##m,
#define PF_INT_NAME_COLUMN(m) pf_int4_column_##m,
#define PF_INT_NAME_G32(m)    pf_int4_g32_##m,
#define PF_INT_NAME_G128(m)   pf_int4_g128_##m,
static pf_int_tile_fn *const pf_int8_tiles[] = { NULL, PF_VEC_EACH_ROW(PF_INT_NAME_8) };
static pf_int_tile_fn *const pf_int4_column_tiles[] = { NULL, PF_VEC_EACH_ROW(PF_INT_NAME_COLUMN) };
static pf_int_tile_fn *const pf_int4_g32_tiles[] = { NULL, PF_VEC_EACH_ROW(PF_INT_NAME_G32) };
static pf_int_tile_fn *const pf_int4_g128_tiles[] = { NULL, PF_VEC_EACH_ROW(PF_INT_NAME_G128) };

/* The family for weights of a format. */
PF_INLINE pf_int_family pf_int_family_of(pf_format format)
{
    const pf_format_info *info = pf_format_get(format);
    pf_int_family family = { .tile_rows = PF_VEC_TILE_ROWS, .halves = PF_VEC_HALVES };
    family.block_words = info->bits == 8 ? PF_INT_PAIR_WORDS : PF_INT_BYTE_WORDS;
    family.tiles = info->bits == 8     ? pf_int8_tiles
                   : info->group == 0  ? pf_int4_column_tiles
                   : info->group == 32 ? pf_int4_g32_tiles
                                       : pf_int4_g128_tiles;
    return family;
}

#endif
