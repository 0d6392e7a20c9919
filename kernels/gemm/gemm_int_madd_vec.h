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

/* What tiles of so few rows multiply at once is a whole panel: half by half, what comes from memory is waited for while the
 * other half has its turn. */
enum { PF_INT_WIDE_ROWS = 2 };

/* Some steps of a column for `halves` of a panel; `sums` of its first column. Returns where to prefetch. */
PF_INLINE uintptr_t pf_int8_columns(const int height, const int halves, const uint8_t *w, const uint32_t *a,
                                    size_t steps, uint32_t *sums, uintptr_t prefetch, size_t stride)
{
    const pf_vec low_bytes = pf_vec_set(0x00FF00FF);
    pf_vec sums_of[2][PF_VEC_TILE_ROWS][2];
#define START(m) \
    if (m < height) sum[m][0] = sum[m][1] = pf_vec_zero();
#pragma GCC unroll 2
    for (int half = 0; half < halves; half++) {
        pf_vec(*sum)[2] = sums_of[half];
        PF_VEC_EACH_ROW(START)
    }
#undef START

    for (; steps; steps--, w += 4 * PF_GEMM_PANEL, a += 2 * height) {
#define ROW(m)                                                   \
    if (m < height) {                                            \
        const pf_vec b = pf_vec_spread(words + m);               \
        sum[m][0] = pf_vec_add(sum[m][0], pf_vec_madd16(w0, b)); \
        sum[m][1] = pf_vec_add(sum[m][1], pf_vec_madd16(w1, b)); \
    }
#pragma GCC unroll 2
        for (int half = 0; half < halves; half++) {
            const uint8_t *bytes = w + half * 4 * PF_VEC_LANES;
            pf_vec(*sum)[2] = sums_of[half];
            PF_PREFETCH(prefetch);
            if (PF_VEC_HALVES == 1) PF_PREFETCH(prefetch + 64);
            prefetch += stride;
            {
                const pf_vec w0 = pf_vec_and(pf_vec_load(bytes), low_bytes);
                const pf_vec w1 = pf_vec_and(pf_vec_load(bytes + 64), low_bytes);
                const uint32_t *words = a;
                PF_VEC_EACH_ROW(ROW)
            }
            __asm__("" : "+r"(bytes)); /* the weights are loaded again: 16 registers hold no more */
            {
                const pf_vec w0 = pf_vec_right16(pf_vec_load(bytes), 8),
                             w1 = pf_vec_right16(pf_vec_load(bytes + 64), 8);
                const uint32_t *words = a + height;
                PF_VEC_EACH_ROW(ROW)
            }
        }
#undef ROW
    }

#define ADD(m) \
    if (m < height) pf_int_add(sums + half * PF_VEC_LANES + m * PF_GEMM_PANEL, sum[m][0], sum[m][1]);
#pragma GCC unroll 2
    for (int half = 0; half < halves; half++) {
        pf_vec(*sum)[2] = sums_of[half];
        PF_VEC_EACH_ROW(ADD)
    }
#undef ADD
    return prefetch;
}

PF_INLINE void int8_tile(const int height, const pf_int_tile *t)
{
    const int halves = height <= PF_INT_WIDE_ROWS ? PF_VEC_HALVES : 1;
    const uint8_t *w = t->w;
    const uint32_t *a = t->a;
    uintptr_t prefetch = t->prefetch;
    for (size_t left = t->steps; left;) {
        const size_t steps = left < PF_INT_STRETCH_STEPS ? left : PF_INT_STRETCH_STEPS;
        for (int half = 0; half < PF_VEC_HALVES; half += halves)
            prefetch = pf_int8_columns(height, halves, w + half * 4 * PF_VEC_LANES, a, steps,
                                       t->sums + half * PF_VEC_LANES, prefetch, t->prefetch_stride);
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

/* One block for half a panel, or a whole one, or (`pair`; of a group whose z is 8) two: straight-line code where `steps` is
 * a constant, which saves up to a sixth. `zeros`: z of its columns, twice in each lane; NULL: 8, or of a column nothing is
 * taken from the products. */
PF_INLINE uintptr_t pf_int4_block(const int height, const pf_int_end end, const bool column, const bool pair,
                                  const bool unpacked, const uint8_t *w, const uint32_t *a, size_t steps,
                                  const pf_vec zeros[2], const pf_vecf scales[2], uint32_t *sums,
                                  const uint32_t *partial, uintptr_t prefetch, size_t stride)
{
    const pf_vec ones = pf_vec_set(0x00010001);
    const bool tall = height > 4;
    pf_vec sum[PF_VEC_TILE_ROWS][2];
    __asm__("" : "+r"(a)); /* one register: the compiler would keep every word's address */
    if (column) {
#define START(m) \
    if (m < height) sum[m][0] = sum[m][1] = pf_vec_zero();
        PF_VEC_EACH_ROW(START)
#undef START
    } else if (pair) {
        const uint32_t *second = a + PF_INT_BYTE_WORDS * height;
#define START(m)    \
    if (m < height) \
        sum[m][0] = sum[m][1] = pf_vec_left16(pf_vec_add16(pf_vec_spread(a + m), pf_vec_spread(second + m)), 3);
        PF_VEC_EACH_ROW(START)
#undef START
    } else if (!zeros) {
#define START(m) \
    if (m < height) sum[m][0] = sum[m][1] = pf_vec_left16(pf_vec_spread(a + m), 3);
        PF_VEC_EACH_ROW(START)
#undef START
    } else {
#define START(m)                               \
    if (m < height) {                          \
        const pf_vec b = pf_vec_spread(a + m); \
        sum[m][0] = pf_vec_mul16(zeros[0], b); \
        sum[m][1] = pf_vec_mul16(zeros[1], b); \
    }
        PF_VEC_EACH_ROW(START)
#undef START
    }

    for (int block = 0; block < (pair ? 2 : 1); block++, a += height) {
#pragma GCC unroll 8
        for (size_t step = 0; step < steps; step++, w += (unpacked ? 4 : 2) * PF_GEMM_PANEL) {
            a += height;
            PF_PREFETCH(prefetch);
            if (PF_VEC_HALVES == 1) PF_PREFETCH(prefetch + 64);
            prefetch += stride;
            const pf_vec first = pf_vec_load(w), w0 = unpacked ? first : pf_vec_low_nibbles(first, tall);
            const pf_vec w1 = unpacked ? pf_vec_load(w + 64) : pf_vec_low_nibbles(pf_vec_right16(first, 4), tall);
#define ROW(m)                                                    \
    if (m < height) {                                             \
        const pf_vec b = pf_vec_spread(a + m);                    \
        sum[m][0] = pf_vec_add16(sum[m][0], pf_vec_madd8(w0, b)); \
        sum[m][1] = pf_vec_add16(sum[m][1], pf_vec_madd8(w1, b)); \
    }
            PF_VEC_EACH_ROW(ROW)
#undef ROW
        }
    }

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
            pf_int_add_scaled(sums + at, i0, i1, scales);                                \
        }                                                                                \
    }
    PF_VEC_EACH_ROW(END)
#undef END
    return prefetch;
}

/* A block of columns that share a scale. */
PF_INLINE uintptr_t int4_column_block(const int height, const bool unpacked, const pf_int_tile *t, const uint8_t *w,
                                      const uint32_t *a, size_t steps, uintptr_t prefetch)
{
    for (size_t j = 0; j < 16; j += PF_VEC_LANES)
        prefetch = pf_int4_block(height, PF_INT_KEEP, true, false, unpacked, w + 4 * j, a, steps, NULL, NULL,
                                 t->sums + j, NULL, prefetch, t->prefetch_stride);
    return prefetch;
}

/* One block after the other; the last may lack steps. */
PF_INLINE void pf_int4_columns(const int height, const bool unpacked, const pf_int_tile *t)
{
    const uint8_t *w = unpacked ? t->unpacked : t->w;
    const uint32_t *a = t->a;
    const size_t last = t->steps % PF_INT_STEPS;
    uintptr_t prefetch = t->prefetch;
    for (size_t block = t->steps / PF_INT_STEPS; block; block--) {
        prefetch = int4_column_block(height, unpacked, t, w, a, PF_INT_STEPS, prefetch);
        w += PF_INT_STEPS * (unpacked ? 4 : 2) * PF_GEMM_PANEL;
        a += PF_INT_BYTE_WORDS * (size_t)height;
    }
    if (last) int4_column_block(height, unpacked, t, w, a, last, prefetch);
}

PF_INLINE void int4_column_tile(const int height, const pf_int_tile *t)
{
    if (PF_INT4_UNPACKS && t->unpacked)
        pf_int4_columns(height, true, t);
    else
        pf_int4_columns(height, false, t);
}

/* Groups, one after the other; the last may lack blocks. */
PF_INLINE void pf_int4_groups(const int height, const size_t group_blocks, const bool unpacked, const pf_int_tile *t)
{
    enum { BLOCK_NIBBLES = PF_INT_STEPS * 2 * PF_GEMM_PANEL };
    const size_t block_bytes = unpacked ? 2 * BLOCK_NIBBLES : BLOCK_NIBBLES;
    const uint8_t *bytes = t->unpacked;
    const pf_gemm_layout *l = t->layout;
    const uint8_t *group = t->w;
    const uint32_t *a = t->a;
    const size_t block_words = PF_INT_BYTE_WORDS * (size_t)height, stride = t->prefetch_stride;
    uintptr_t prefetch = t->prefetch;
    for (size_t left = t->steps / PF_INT_STEPS; left;) {
        const size_t blocks = left < group_blocks ? left : group_blocks;
        for (size_t j = 0; j < 16; j += PF_VEC_LANES) {
            const pf_vec z[2] = { pf_int_zeros(l, group, j), pf_int_zeros(l, group, j + 16) };
            const pf_vec *zeros = l->has_zeros ? z : NULL;
            const pf_vecf scales[2] = { pf_int_scales(group, j), pf_int_scales(group, j + 16) };
            const uint8_t *w = (unpacked ? bytes : group + l->head_bytes) + 4 * j;
            const uint32_t *words = a;
            uint32_t *partial = t->partial + j;
#define BLOCK(PAIR, END, SUMS)                                                                                         \
    prefetch = pf_int4_block(height, END, false, PAIR, unpacked, w, words, PF_INT_STEPS, zeros, scales, SUMS, partial, \
                             prefetch, stride);
            if (group_blocks == 1 || blocks == 1) {
                BLOCK(false, PF_INT_SCALE, t->sums + j)
                continue;
            }
            if (blocks == 4 && !zeros) {
                BLOCK(true, PF_INT_BEGIN, partial)
                w += 2 * block_bytes;
                words += 2 * block_words;
                BLOCK(true, PF_INT_JOIN, t->sums + j)
                continue;
            }
            for (size_t b = 1; b < blocks; b++, w += block_bytes, words += block_words)
                if (b == 1)
                    BLOCK(false, PF_INT_BEGIN, partial)
                else
                    BLOCK(false, PF_INT_KEEP, partial)
            BLOCK(false, PF_INT_JOIN, t->sums + j)
#undef BLOCK
        }
        group += l->group_bytes;
        if (unpacked) bytes += blocks * block_bytes;
        a += blocks * block_words;
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
