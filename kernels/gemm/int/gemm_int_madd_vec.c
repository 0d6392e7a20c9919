/*
 * Integer weights times int8 activations with VPMADDUBSW and VPMADDWD, without VNNI. In YMM registers tiles are 1 to 6 rows by
 * 16 columns, the halves of a panel side by side or, from three rows on, one after the other, so that a panel is still read
 * once; in ZMM registers 1 to 12 rows by 32 columns.
 *
 * int8: the stored bytes (0 .. 255) are taken apart into int16, k and k+2, k+1 and k+3, and multiplied with int16 by
 * VPMADDWD: two products of at most 255 * 127 fit its 32 bits. VPMADDUBSW would saturate, and with magnitudes and signs
 * parted take no fewer instructions.
 *
 * int4: VPMADDUBSW adds two products of a nibble and a byte, at most 2 * 15 * 127, to int16. Eight steps add up to at
 * most 8 * 3810 = 30480, so a block is summed in 16 bits, two sums a column; VPMADDWD joins them, in groups times m. There
 * z times the activations' own sums is taken off first, which leaves each of a sum's 16 activations counted q - z times, at
 * most 15, so the bound is the same. Where z is 7 or 8, a count is at most 8, and two blocks fit: 32 * 8 * 127 = 32512. On
 * the way there sums may wrap around.
 */
#include "kernels/gemm/int/gemm_int_vec.h"

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

/* How a block is multiplied; constants. */
typedef struct {
    int height;
    int halves;    /* of a panel, side by side */
    bool column;   /* it is not of a group */
    bool pair;     /* two blocks, of a group whose z are 7 or 8 */
    bool unpacked; /* a weight is a byte */
} pf_int4_form;

/* Where a tile is in its operands. */
typedef struct {
    const uint8_t *w;
    const uint32_t *a;
    uintptr_t prefetch;
} pf_int4_cursor;

PF_INLINE size_t pf_int4_step_bytes(const pf_int4_form form)
{
    return (form.unpacked ? 4 : 2) * PF_GEMM_PANEL;
}

/* One step; the sums begin with the first. */
PF_INLINE void pf_int4_step(const pf_int4_form form, const bool first, pf_int_sums sum, const uint8_t *w,
                            const uint32_t *a)
{
    const int height = form.height;
    const bool tall = height > 4;
    const pf_vec both = pf_vec_load(w), w0 = form.unpacked ? both : pf_vec_low_nibbles(both, tall);
    const pf_vec w1 = form.unpacked ? pf_vec_load(w + 64) : pf_vec_low_nibbles(pf_vec_right16(both, 4), tall);
#define ROW(m)                                                           \
    if (m < height) {                                                    \
        const pf_vec b = pf_vec_spread(a + m);                           \
        const pf_vec p0 = pf_vec_madd8(w0, b), p1 = pf_vec_madd8(w1, b); \
        sum[m][0] = first ? p0 : pf_vec_add16(sum[m][0], p0);            \
        sum[m][1] = first ? p1 : pf_vec_add16(sum[m][1], p1);            \
    }
    PF_VEC_EACH_ROW(ROW)
#undef ROW
}

/* The steps of a block; `begins`: the sums do with it. Returns where to prefetch. */
PF_INLINE uintptr_t pf_int4_steps(const pf_int4_form form, const bool begins, pf_int_sums sum[PF_VEC_HALVES],
                                  const uint8_t *w, const uint32_t *a, size_t steps, uintptr_t prefetch, size_t stride)
{
#pragma GCC unroll 8
    for (size_t step = 0; step < steps; step++, w += pf_int4_step_bytes(form)) {
        a += form.height;
#pragma GCC unroll 2
        for (int half = 0; half < form.halves; half++) {
            prefetch = pf_int_fetch(prefetch, stride);
            pf_int4_step(form, begins && step == 0, sum[half], w + half * 4 * PF_VEC_LANES, a);
        }
    }
    return prefetch;
}

/* What becomes of the sums of 16 columns, or 32; `heads` of theirs, `a` the activations' own sums. */
PF_INLINE void pf_int4_end(const pf_int4_form form, pf_int_sums sum, const pf_vec heads[2], const uint32_t *a,
                           uint32_t *sums)
{
    const int height = form.height;
    const uint32_t *second = a + PF_INT_BYTE_WORDS * height;
    const pf_vec z0 = pf_int_zeros(heads[0]), z1 = pf_int_zeros(heads[1]), ones = pf_vec_set(0x00010001);
    const pf_vec m0 = form.column ? ones : pf_int_multipliers(heads[0]);
    const pf_vec m1 = form.column ? ones : pf_int_multipliers(heads[1]);
#define END(m)                                                                                            \
    if (m < height) {                                                                                     \
        if (!form.column) {                                                                               \
            pf_vec b = pf_vec_spread(a + m);                                                              \
            if (form.pair) b = pf_vec_add16(b, pf_vec_spread(second + m));                                \
            sum[m][0] = pf_vec_add16(sum[m][0], pf_vec_mul16(z0, b));                                     \
            sum[m][1] = pf_vec_add16(sum[m][1], pf_vec_mul16(z1, b));                                     \
        }                                                                                                 \
        pf_int_add(sums + m * PF_GEMM_PANEL, pf_vec_madd16(sum[m][0], m0), pf_vec_madd16(sum[m][1], m1)); \
    }
    PF_VEC_EACH_ROW(END)
#undef END
}

/* A block, or two: straight-line code where `steps` is a constant, which saves up to a sixth. */
PF_INLINE void pf_int4_block(const pf_int4_form form, const pf_vec heads[PF_VEC_HALVES][2], size_t steps,
                             uint32_t *sums, size_t stride, pf_int4_cursor *at)
{
    const size_t block_bytes = steps * pf_int4_step_bytes(form), block_words = PF_INT_BYTE_WORDS * (size_t)form.height;
    const uint32_t *a = at->a;
    uintptr_t prefetch = at->prefetch;
    pf_int_sums sum[PF_VEC_HALVES];
    /* one register each: the compiler would keep every word's address, and all sums over several blocks */
    __asm__("" : "+r"(a), "+r"(prefetch), "+r"(sums));
    prefetch = pf_int4_steps(form, true, sum, at->w, a, steps, prefetch, stride);
    if (form.pair)
        prefetch = pf_int4_steps(form, false, sum, at->w + block_bytes, a + block_words, steps, prefetch, stride);
#pragma GCC unroll 2
    for (int half = 0; half < form.halves; half++)
        pf_int4_end(form, sum[half], heads[half], a, sums + half * PF_VEC_LANES);
    *at = (pf_int4_cursor){ .w = at->w + (form.pair ? 2 : 1) * block_bytes,
                            .a = a + (form.pair ? 2 : 1) * block_words,
                            .prefetch = prefetch };
}

PF_INLINE void pf_int4_load_heads(const pf_int4_form form, pf_vec to[PF_VEC_HALVES][2], const uint8_t *heads)
{
#pragma GCC unroll 2
    for (int half = 0; half < form.halves; half++, heads += PF_VEC_LANES) {
        to[half][0] = pf_vec_load_u8_twice(heads);
        to[half][1] = pf_vec_load_u8_twice(heads + 16);
    }
}

/* Blocks of a group, or one of a column, which may lack steps; of columns from `column` on. `heads` and the sums are the whole
 * panel's. Returns where to prefetch. */
PF_INLINE uintptr_t pf_int4_half(const pf_int4_form form, const pf_int_tile *t, const uint8_t *heads, size_t column,
                                 size_t steps, pf_int4_cursor at)
{
    pf_int4_form pair = form;
    pair.pair = true;
    pf_vec head[PF_VEC_HALVES][2] = { 0 };
    if (!form.column) pf_int4_load_heads(form, head, heads + column);
    at.w += 4 * column;
    uint32_t *sums = t->sums + column;
#define BLOCK(FORM, STEPS) pf_int4_block(FORM, head, STEPS, sums, t->prefetch_stride, &at)
    if (!form.column && !t->layout->has_zeros)
        for (; steps >= 2 * PF_INT_STEPS; steps -= 2 * PF_INT_STEPS) BLOCK(pair, PF_INT_STEPS);
    for (; steps >= PF_INT_STEPS; steps -= PF_INT_STEPS) BLOCK(form, PF_INT_STEPS);
    if (form.column && steps) BLOCK(form, steps);
#undef BLOCK
    return at.prefetch;
}

/* Groups, one after the other; or blocks of a column. */
PF_INLINE void pf_int4_tile(const pf_int4_form form, const pf_int_tile *t)
{
    const pf_gemm_layout *l = t->layout;
    const size_t all = form.column ? PF_INT_STEPS : l->group_steps;
    const uint8_t *heads = t->heads;
    pf_int4_cursor at = { .w = t->w, .a = t->a, .prefetch = t->prefetch };
    size_t left = t->steps;
    for (size_t g = 0; left; g++) {
        const size_t steps = left < all ? left : all;
        for (int half = 0; half < PF_VEC_HALVES; half += form.halves)
            at.prefetch = pf_int4_half(form, t, heads, (size_t)half * PF_VEC_LANES, steps, at);
        at.w += steps * pf_int4_step_bytes(form);
        at.a += steps / PF_INT_STEPS * PF_INT_BYTE_WORDS * (size_t)form.height;
        left -= steps;
        if (form.column) continue;
        if (g % 2 && !form.unpacked) at.w += PF_INT_LINE;
        heads = pf_int_next_heads(l, g, heads);
    }
}

PF_INLINE pf_int4_form pf_int4_form_of(const int height, const bool column, const bool unpacked)
{
    return (pf_int4_form){ .height = height, .halves = pf_int_halves(height), .column = column, .unpacked = unpacked };
}
PF_INLINE void column_tile(const int height, const pf_int_tile *t)
{
    pf_int4_tile(pf_int4_form_of(height, true, false), t);
}
PF_INLINE void group_tile(const int height, const pf_int_tile *t)
{
    pf_int4_tile(pf_int4_form_of(height, false, false), t);
}
PF_INLINE void unpacked_column_tile(const int height, const pf_int_tile *t)
{
    pf_int4_tile(pf_int4_form_of(height, true, true), t);
}
PF_INLINE void unpacked_group_tile(const int height, const pf_int_tile *t)
{
    pf_int4_tile(pf_int4_form_of(height, false, true), t);
}
PF_INT_DEFINE_TILES(int8_tile)
PF_INT_DEFINE_TILES(column_tile)
PF_INT_DEFINE_TILES(group_tile)
PF_INT_DEFINE_TILES(unpacked_column_tile)
PF_INT_DEFINE_TILES(unpacked_group_tile)

/* See pf_int_unpack_fn. */
static void pf_int4_unpack(uint8_t *bytes, const uint8_t *heads, const uint8_t *nibbles, size_t steps)
{
    (void)heads;
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
    const pf_format_info *info = pf_format_get(w->format);
    pf_int_family family = { .tile_rows = PF_VEC_TILE_ROWS, .halves = PF_VEC_HALVES };
    if (info->bits == 8) {
        family.block_words = PF_INT_PAIR_WORDS;
        family.tiles = int8_tiles;
    } else {
        family.block_words = PF_INT_BYTE_WORDS;
        family.tiles = info->group ? group_tiles : column_tiles;
        if (PF_INT4_UNPACKS) {
            family.unpack = pf_int4_unpack;
            family.of_bytes = info->group ? unpacked_group_tiles : unpacked_column_tiles;
        }
    }
    pf_int_nest(family, w, input, m, panel_begin, panel_end, c, ldc, mode, scratch);
}

void PF_FOR_ISA(pf_gemm_integers_int8)(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin,
                                       int32_t panel_end, float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    pf_int_multiply(w, input, m, panel_begin, panel_end, c, ldc, mode, scratch);
}

void PF_FOR_ISA(pf_gemm_pack_int8_pairs)(void *input, const float *a, size_t lda, int32_t m, int32_t k,
                                         int32_t tile_begin, int32_t tile_end)
{
    pf_int_pack(PF_INT_PAIR_WORDS, PF_VEC_TILE_ROWS, input, a, lda, m, k, tile_begin, tile_end);
}

void PF_FOR_ISA(pf_gemm_pack_int8_bytes)(void *input, const float *a, size_t lda, int32_t m, int32_t k,
                                         int32_t tile_begin, int32_t tile_end)
{
    pf_int_pack(PF_INT_BYTE_WORDS, PF_VEC_TILE_ROWS, input, a, lda, m, k, tile_begin, tile_end);
}
