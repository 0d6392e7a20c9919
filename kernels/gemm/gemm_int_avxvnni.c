/*
 * Integer weights times int8 activations with VPDPBUSD on YMM registers, for processors that have AVX-VNNI and no
 * AVX-512: tiles of 1 to 6 rows by 16 columns, the halves of a panel one after the other. Packed activations are
 * those of the int4 kernels with AVX2.
 *
 * The instruction adds four products of uint8 and int8 to 32 bits and cannot saturate; sums wrap around on the way to
 * an end that fits.
 */
#include "kernels/gemm/vec_avx2.h"

#include "kernels/gemm/gemm_int_vec.h"

PF_INLINE pf_vec dot(pf_vec sum, pf_vec w, pf_vec a)
{
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(w), "x"(a));
    return sum;
}

typedef struct {
    pf_vec of[PF_VEC_TILE_ROWS][2];
} tile_sums;

/* Where a tile is in its operands. */
typedef struct {
    const uint8_t *w;
    const uint32_t *a;
    uintptr_t prefetch;
    size_t stride;
} cursor;

/* One step of 16 columns. */
PF_INLINE void one_step(const int height, const int bits, tile_sums *sum, cursor *at)
{
    const pf_vec nibble = pf_vec_set(0x0F0F0F0F);
    PF_PREFETCH(at->prefetch);
    at->prefetch += at->stride;
    pf_vec w0 = pf_vec_load(at->w), w1;
    if (bits == 8) {
        w1 = pf_vec_load(at->w + 64);
    } else {
        __asm__("" : "+x"(w0)); /* load it once */
        w1 = pf_vec_right16(w0, 4);
        w0 = pf_vec_and(w0, nibble);
        w1 = pf_vec_and(w1, nibble);
    }
#define ROW(m)                                     \
    if (m < height) {                              \
        const pf_vec b = pf_vec_spread(at->a + m); \
        sum->of[m][0] = dot(sum->of[m][0], w0, b); \
        sum->of[m][1] = dot(sum->of[m][1], w1, b); \
    }
    PF_VEC_EACH_ROW(ROW)
#undef ROW
    at->w += bits == 8 ? 4 * PF_GEMM_PANEL : 2 * PF_GEMM_PANEL;
    at->a += height;
}

/* Some steps of 16 columns, a block's sums before its words of activations. `one_block`: eight, as straight-line code.
 * Returns where to prefetch next. */
PF_INLINE uintptr_t add_steps(const int height, const int bits, const bool one_block, tile_sums *sum, const uint8_t *w,
                              const uint32_t *a, size_t steps, uintptr_t prefetch, size_t stride)
{
    cursor at = { .w = w, .a = a, .prefetch = prefetch, .stride = stride };
    if (one_block) {
        at.a += height;
        __asm__("" : "+r"(at.a)); /* one register: the compiler would keep every word's address */
#pragma GCC unroll 8
        for (int step = 0; step < PF_INT_STEPS; step++) one_step(height, bits, sum, &at);
        return at.prefetch;
    }
    while (steps) {
        const size_t n_steps = steps < PF_INT_STEPS ? steps : PF_INT_STEPS;
        at.a += height;
        for (size_t step = n_steps; step; step--) one_step(height, bits, sum, &at);
        steps -= n_steps;
    }
    return at.prefetch;
}

/* A column's steps, in stretches: from zero, and to the integers in the scratch. */
PF_INLINE void column_tile(const int height, const int bits, const pf_int_tile *t)
{
    const uint8_t *w = t->w;
    const uint32_t *a = t->a;
    uintptr_t prefetch = t->prefetch;
    for (size_t left = t->steps; left;) {
        const size_t steps = left < PF_INT_STRETCH_STEPS ? left : PF_INT_STRETCH_STEPS;
        for (size_t j = 0; j < 16; j += PF_VEC_LANES) {
            uint32_t *to = t->sums + j;
            tile_sums sum;
#define START(m) sum.of[m][0] = sum.of[m][1] = pf_vec_zero();
            PF_VEC_EACH_ROW(START)
#undef START
            prefetch = add_steps(height, bits, false, &sum, w + 4 * j, a, steps, prefetch, t->prefetch_stride);
#define ADD(m) \
    if (m < height) pf_int_add(to + PF_GEMM_PANEL * (m), sum.of[m][0], sum.of[m][1]);
            PF_VEC_EACH_ROW(ADD)
#undef ADD
        }
        w += steps * 4 * PF_GEMM_PANEL * (size_t)bits / 8;
        a += PF_INT_STRETCH_STEPS / PF_INT_STEPS * PF_INT_BYTE_WORDS * (size_t)height;
        left -= steps;
    }
}

/* Groups: from -z times the sums of the activations, and scaled to the f32 sums. The last may lack blocks. */
PF_INLINE void int4_group_tile(const int height, const size_t group_blocks, const pf_int_tile *t)
{
    const pf_gemm_layout *l = t->layout;
    const uint8_t *group = t->w;
    const uint32_t *a = t->a;
    const size_t block_words = PF_INT_BYTE_WORDS * (size_t)height;
    uintptr_t prefetch = t->prefetch;
    for (size_t left = t->steps / PF_INT_STEPS; left;) {
        const size_t blocks = left < group_blocks ? left : group_blocks;
        for (size_t j = 0; j < 16; j += PF_VEC_LANES) {
            const pf_vec zeros[2] = { pf_int_zeros(l, group, j), pf_int_zeros(l, group, j + 16) };
            uint32_t *to = t->sums + j;
            tile_sums sum;
#define START(m)                                                                                         \
    if (m < height) {                                                                                    \
        pf_vec b = pf_vec_spread(a + m);                                                                 \
        for (size_t i = 1; i < blocks; i++) b = pf_vec_add16(b, pf_vec_spread(a + i * block_words + m)); \
        sum.of[m][0] = pf_vec_madd16(zeros[0], b);                                                       \
        sum.of[m][1] = pf_vec_madd16(zeros[1], b);                                                       \
    }
            PF_VEC_EACH_ROW(START)
#undef START
            prefetch = add_steps(height, 4, group_blocks == 1, &sum, group + l->head_bytes + 4 * j, a,
                                 blocks * PF_INT_STEPS, prefetch, t->prefetch_stride);
            const pf_vecf scales[2] = { pf_int_scales(group, j), pf_int_scales(group, j + 16) };
#define SCALE(m) \
    if (m < height) pf_int_add_scaled(to + PF_GEMM_PANEL * (m), sum.of[m][0], sum.of[m][1], scales[0], scales[1]);
            PF_VEC_EACH_ROW(SCALE)
#undef SCALE
        }
        group += l->group_bytes;
        a += blocks * block_words;
        left -= blocks;
    }
}

PF_INLINE void int8_tile(const int height, const pf_int_tile *t)
{
    column_tile(height, 8, t);
}
PF_INLINE void int4_column_tile(const int height, const pf_int_tile *t)
{
    column_tile(height, 4, t);
}
PF_INT_DEFINE_TILES

void pf_gemm_integers_int8_avxvnni(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin,
                                   int32_t panel_end, float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    const pf_int_family family = { .tile_rows = PF_VEC_TILE_ROWS,
                                   .block_words = PF_INT_BYTE_WORDS,
                                   .halves = PF_VEC_HALVES,
                                   .tiles = pf_int_tiles[pf_int_tiles_of(w->format)] };
    pf_int_nest(family, w, input, m, panel_begin, panel_end, c, ldc, mode, scratch);
}
