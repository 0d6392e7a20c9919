/*
 * Integer weights times int8 activations with VPDPBUSD on YMM registers, for processors that have AVX-VNNI and no
 * AVX-512: tiles of 1 to 6 rows by 16 columns, the halves of a panel one after the other. Packed activations are
 * those of the int4 kernels with AVX2.
 *
 * The instruction adds four products of uint8 and int8 to 32 bits and cannot saturate; sums wrap around on the way to
 * an end that fits. VPDPWSSD adds two of int16.
 */
#include "kernels/gemm/int/gemm_int_vec.h"

PF_INLINE pf_vec dot(pf_vec sum, pf_vec w, pf_vec a)
{
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(w), "x"(a));
    return sum;
}

PF_INLINE pf_vec dot16(pf_vec sum, pf_vec a, pf_vec b)
{
    __asm__("%{vex%} vpdpwssd %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
    return sum;
}

typedef struct {
    pf_vec of[PF_VEC_TILE_ROWS][2];
} tile_sums;

PF_INLINE void clear(const int height, tile_sums *sum)
{
#define CLEAR(m) \
    if (m < height) sum->of[m][0] = sum->of[m][1] = pf_vec_zero();
    PF_VEC_EACH_ROW(CLEAR)
#undef CLEAR
}

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
PF_INLINE void column_steps(const int height, const int bits, const pf_int_tile *t)
{
    const uint8_t *w = t->w;
    const uint32_t *a = t->a;
    uintptr_t prefetch = t->prefetch;
    for (size_t left = t->steps; left;) {
        const size_t steps = left < PF_INT_STRETCH_STEPS ? left : PF_INT_STRETCH_STEPS;
        for (size_t j = 0; j < 16; j += PF_VEC_LANES) {
            uint32_t *to = t->sums + j;
            tile_sums sum;
            clear(height, &sum);
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

/* What the sums of some blocks start at: -z times those of the activations. */
PF_INLINE void start(const int height, tile_sums *sum, pf_vec z0, pf_vec z1, const uint32_t *a, size_t blocks)
{
    const size_t block_words = PF_INT_BYTE_WORDS * (size_t)height;
#define START(m)                                                                                         \
    if (m < height) {                                                                                    \
        pf_vec b = pf_vec_spread(a + m);                                                                 \
        for (size_t i = 1; i < blocks; i++) b = pf_vec_add16(b, pf_vec_spread(a + i * block_words + m)); \
        sum->of[m][0] = pf_vec_madd16(z0, b);                                                            \
        sum->of[m][1] = pf_vec_madd16(z1, b);                                                            \
    }
    PF_VEC_EACH_ROW(START)
#undef START
}

/* A block of a group, whose sums VPDPWSSD multiplies: they fit 16 bits where z is 7 or 8. Where it is any, they are sums of
 * q - 8, and the activations' own sums are taken m * (8 - z) times: they are stored with their sign changed. */
PF_INLINE uintptr_t one_block(const int height, const bool any_zero, const pf_int_tile *t, const uint8_t *heads,
                              const uint8_t *w, const uint32_t *a, uint32_t *to, uintptr_t prefetch)
{
    const pf_vec h0 = pf_vec_load_u8_twice(heads), h1 = pf_vec_load_u8_twice(heads + 16);
    const pf_vec z0 = pf_int_zeros(h0), z1 = pf_int_zeros(h1), eight = pf_vec_set(0x00080008);
    tile_sums sum;
    start(height, &sum, any_zero ? eight : z0, any_zero ? eight : z1, a, 1);
    prefetch = add_steps(height, 4, true, &sum, w, a, PF_INT_STEPS, prefetch, t->prefetch_stride);
    const pf_vec m0 = pf_vec_right(h0, 20), m1 = pf_vec_right(h1, 20); /* once in a lane */
    const pf_vec c0 = pf_vec_mul16(pf_int_multipliers(h0), _mm256_sub_epi16(z0, eight));
    const pf_vec c1 = pf_vec_mul16(pf_int_multipliers(h1), _mm256_sub_epi16(z1, eight));
#define END(m)                                                    \
    if (m < height) {                                             \
        uint32_t *row = to + m * PF_GEMM_PANEL;                   \
        pf_vec s0 = pf_vec_load(row), s1 = pf_vec_load(row + 16); \
        if (any_zero) {                                           \
            const pf_vec b = pf_vec_spread(a + m);                \
            s0 = dot16(s0, c0, b);                                \
            s1 = dot16(s1, c1, b);                                \
        }                                                         \
        pf_vec_store(row, dot16(s0, sum.of[m][0], m0));           \
        pf_vec_store(row + 16, dot16(s1, sum.of[m][1], m1));      \
    }
    PF_VEC_EACH_ROW(END)
#undef END
    return prefetch;
}

/* Several together: fewer sums to be multiplied, and of any size. */
PF_INLINE uintptr_t some_blocks(const int height, const pf_int_tile *t, const uint8_t *heads, const uint8_t *w,
                                const uint32_t *a, size_t blocks, uint32_t *to, uintptr_t prefetch)
{
    const pf_vec h0 = pf_vec_load_u8_twice(heads), h1 = pf_vec_load_u8_twice(heads + 16);
    tile_sums sum;
    start(height, &sum, pf_int_zeros(h0), pf_int_zeros(h1), a, blocks);
    prefetch = add_steps(height, 4, false, &sum, w, a, blocks * PF_INT_STEPS, prefetch, t->prefetch_stride);
    const pf_vec m0 = pf_vec_right(h0, 20), m1 = pf_vec_right(h1, 20);
#define END(m)      \
    if (m < height) \
        pf_int_add(to + m * PF_GEMM_PANEL, _mm256_mullo_epi32(sum.of[m][0], m0), _mm256_mullo_epi32(sum.of[m][1], m1));
    PF_VEC_EACH_ROW(END)
#undef END
    return prefetch;
}

/* Groups, one after the other; the last may lack blocks. */
PF_INLINE void groups(const int height, const bool by_block, const bool any_zero, const pf_int_tile *t)
{
    const pf_gemm_layout *l = t->layout;
    const size_t group_blocks = l->group_steps / PF_INT_STEPS;
    const uint8_t *heads = t->heads, *w = t->w;
    const uint32_t *a = t->a;
    uintptr_t prefetch = t->prefetch;
    size_t left = t->steps / PF_INT_STEPS;
    for (size_t g = 0; left; g++) {
        const size_t in_group = left < group_blocks ? left : group_blocks, blocks = by_block ? 1 : in_group;
        for (const size_t end = left - in_group; left > end; left -= blocks) {
            for (size_t j = 0; j < 16; j += PF_VEC_LANES)
                prefetch = by_block ? one_block(height, any_zero, t, heads + j, w + 4 * j, a, t->sums + j, prefetch)
                                    : some_blocks(height, t, heads + j, w + 4 * j, a, blocks, t->sums + j, prefetch);
            w += blocks * PF_INT_STEPS * 2 * PF_GEMM_PANEL;
            a += blocks * PF_INT_BYTE_WORDS * (size_t)height;
        }
        if (g % 2) w += PF_INT_LINE;
        heads = pf_int_next_heads(l, g, heads);
    }
}

/* Few rows are better off with short chains. */
PF_INLINE void group_tile(const int height, const pf_int_tile *t)
{
    if (height > 2 && t->layout->group_steps > PF_INT_STEPS)
        groups(height, false, false, t);
    else if (t->layout->has_zeros)
        groups(height, true, true, t);
    else
        groups(height, true, false, t);
}

PF_INLINE void int8_tile(const int height, const pf_int_tile *t)
{
    column_steps(height, 8, t);
}
PF_INLINE void column_tile(const int height, const pf_int_tile *t)
{
    column_steps(height, 4, t);
}
PF_INT_DEFINE_TILES(int8_tile)
PF_INT_DEFINE_TILES(column_tile)
PF_INT_DEFINE_TILES(group_tile)

/* 128 - z * m of a register's columns, a byte of each weight. */
PF_INLINE pf_vec bias_of(pf_vec zeros, pf_vec multipliers)
{
    const pf_vec bias = _mm256_sub_epi16(_mm256_set1_epi16(128), pf_vec_mul16(zeros, multipliers));
    return pf_vec_or(bias, pf_vec_left16(bias, 8));
}

/* (q - z) * m + 128: see pf_int_unpack_fn. A product of 15 and a nibble does not carry into the byte beside it. */
static void unpack_group(uint8_t *bytes, const uint8_t *heads, const uint8_t *nibbles, size_t steps)
{
    for (size_t j = 0; j < 16; j += PF_VEC_LANES) {
        const pf_vec head0 = pf_vec_load_u8_twice(heads + j), head1 = pf_vec_load_u8_twice(heads + j + 16);
        const pf_vec m0 = pf_int_multipliers(head0), m1 = pf_int_multipliers(head1);
        const pf_vec bias0 = bias_of(pf_int_zeros(head0), m0), bias1 = bias_of(pf_int_zeros(head1), m1);
        const uint8_t *from = nibbles + 4 * j;
        uint8_t *to = bytes + 4 * j;
        for (size_t step = steps; step; step--, from += 2 * PF_GEMM_PANEL, to += 4 * PF_GEMM_PANEL) {
            const pf_vec both = pf_vec_load(from), q0 = pf_vec_low_nibbles(both, false),
                         q1 = pf_vec_low_nibbles(pf_vec_right16(both, 4), false);
            pf_vec_store(to, _mm256_add_epi8(pf_vec_mul16(q0, m0), bias0));
            pf_vec_store(to + 64, _mm256_add_epi8(pf_vec_mul16(q1, m1), bias1));
        }
    }
}

void pf_gemm_integers_int8_avxvnni(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin,
                                   int32_t panel_end, float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    const pf_format_info *info = pf_format_get(w->format);
    const pf_int_family family = { .tile_rows = PF_VEC_TILE_ROWS,
                                   .block_words = PF_INT_BYTE_WORDS,
                                   .halves = PF_VEC_HALVES,
                                   .tiles = info->bits == 8 ? int8_tiles
                                            : info->group   ? group_tiles
                                                            : column_tiles,
                                   .unpack = info->group ? unpack_group : NULL,
                                   .of_bytes = int8_tiles,
                                   .bytes_are_int8 = true };
    pf_int_nest(family, w, input, m, panel_begin, panel_end, c, ldc, mode, scratch);
}
