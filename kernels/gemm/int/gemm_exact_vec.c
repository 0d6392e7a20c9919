/*
 * The product of the exact format (layout_exact.h) with AVX2, and with VPDPBUSD on ZMM: one text for both. In YMM registers tiles are
 * 1 to 6 rows by 16 columns, the halves of a panel side by side or, from three rows on, one after the other; in ZMM registers
 * 1 to 12 rows by 32 columns.
 *
 *   for each panel of 32 columns
 *     for each span of K
 *       for each row tile
 *         for each block of 32 values of K: the heads of its groups as f32, then
 *           for each half of the panel (YMM), for each group of the block
 *             one step of K after another, integer sums in registers; they end as f32 in the scratch: one chain over the blocks
 *
 * Nibbles with AVX2: VPMADDUBSW adds two products of at most 15 * 127, and eight steps of those fit 16 bits (30480). Bytes with
 * AVX2: it would saturate, so it takes the magnitude of a weight and gives its sign to the activation: 2 * 128 * 127 fits. With
 * VPDPBUSD bytes are q + 128, and 128 times the sum of the activations is taken off; of symmetric nibbles 8 times.
 */
#include "kernels/gemm/int/exact_heads_vec.h"
#include "kernels/gemm/int/gemm_int_vec.h"

/* What one register tile is to do. Its height and the kind of groups are the function's. */
typedef struct {
    const pf_exact_layout *layout;
    const uint8_t *panel;
    const uint32_t *a;      /* the tile's words of the first block */
    size_t begin, n_blocks; /* of the panel */
    float *sums;            /* [height, 32] to be added to */
    size_t ahead;           /* bytes, how far weights are fetched */
} exact_tile;

typedef void exact_tile_fn(const exact_tile *tile);

/* What a block is multiplied by; constants. */
typedef struct {
    int height;
    int bits;
    bool has_minima;
    int units; /* groups of a block */
} exact_form;

/* ---- a block ------------------------------------------------------------------------------------------------------ */

/* Sums of half a panel, or of a whole one in ZMM registers. */
typedef pf_vec exact_sums[PF_VEC_TILE_ROWS][2];

PF_INLINE int halves_of(const int height)
{
    return height <= 2 ? PF_VEC_HALVES : 1;
}

#ifdef __AVX512VNNI__
PF_INLINE pf_vec dot(pf_vec sum, pf_vec w, pf_vec a)
{
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(w), "v"(a));
    return sum;
}

/* What the sums start at: what the stored weights have too much, taken off. */
PF_INLINE void start(const exact_form form, exact_sums sum, const uint32_t *counts)
{
#define START(m)                                                                   \
    if (m < form.height) {                                                         \
        sum[m][0] = form.bits == 8    ? pf_vec_left(pf_vec_spread(counts + m), 7)  \
                    : form.has_minima ? pf_vec_zero()                              \
                                      : pf_vec_left(pf_vec_spread(counts + m), 3); \
        sum[m][1] = sum[m][0];                                                     \
    }
    PF_VEC_EACH_ROW(START)
#undef START
}

PF_INLINE void step(const exact_form form, const bool first, exact_sums sum, const uint8_t *w, const uint32_t *a)
{
    (void)first;
    const pf_vec both = pf_vec_load(w), w0 = form.bits == 8 ? both : pf_vec_low_nibbles(both, false);
    const pf_vec w1 = form.bits == 8 ? pf_vec_load(w + 64) : pf_vec_low_nibbles(pf_vec_right16(both, 4), false);
#define ROW(m)                                 \
    if (m < form.height) {                     \
        const pf_vec b = pf_vec_spread(a + m); \
        sum[m][0] = dot(sum[m][0], w0, b);     \
        sum[m][1] = dot(sum[m][1], w1, b);     \
    }
    PF_VEC_EACH_ROW(ROW)
#undef ROW
}

PF_INLINE pf_vec whole_sum(const exact_form form, pf_vec sum, const uint32_t *count)
{
    (void)form;
    (void)count;
    return sum;
}
#else
PF_INLINE void start(const exact_form form, exact_sums sum, const uint32_t *counts)
{
    (void)counts;
#define START(m) \
    if (m < form.height && form.bits == 8) sum[m][0] = sum[m][1] = pf_vec_zero();
    PF_VEC_EACH_ROW(START)
#undef START
}

PF_INLINE void nibbles_step(const exact_form form, const bool first, exact_sums sum, const uint8_t *w,
                            const uint32_t *a)
{
    const bool tall = form.height > 4;
    const pf_vec both = pf_vec_load(w), w0 = pf_vec_low_nibbles(both, tall),
                 w1 = pf_vec_low_nibbles(pf_vec_right16(both, 4), tall);
#define ROW(m)                                                           \
    if (m < form.height) {                                               \
        const pf_vec b = pf_vec_spread(a + m);                           \
        const pf_vec p0 = pf_vec_madd8(w0, b), p1 = pf_vec_madd8(w1, b); \
        sum[m][0] = first ? p0 : pf_vec_add16(sum[m][0], p0);            \
        sum[m][1] = first ? p1 : pf_vec_add16(sum[m][1], p1);            \
    }
    PF_VEC_EACH_ROW(ROW)
#undef ROW
}

PF_INLINE pf_vec add_bytes(pf_vec sum, pf_vec magnitude, pf_vec w, pf_vec b)
{
    const pf_vec pairs = pf_vec_madd8(magnitude, _mm256_sign_epi8(b, w));
    return pf_vec_add(sum, pf_vec_madd16(pairs, pf_vec_set(0x00010001)));
}

PF_INLINE void bytes_step(const exact_form form, exact_sums sum, const uint8_t *w, const uint32_t *a)
{
    const pf_vec offset = pf_vec_set(0x80808080u);
#pragma GCC unroll 2
    for (int side = 0; side < 2; side++) {
        const pf_vec q = _mm256_xor_si256(pf_vec_load(w + 64 * side), offset), magnitude = _mm256_abs_epi8(q);
#define ROW(m) \
    if (m < form.height) sum[m][side] = add_bytes(sum[m][side], magnitude, q, pf_vec_spread(a + m));
        PF_VEC_EACH_ROW(ROW)
#undef ROW
    }
}

PF_INLINE void step(const exact_form form, const bool first, exact_sums sum, const uint8_t *w, const uint32_t *a)
{
    if (form.bits == 8)
        bytes_step(form, sum, w, a);
    else
        nibbles_step(form, first, sum, w, a);
}

/* Sums of pairs to one sum a column, less what symmetric nibbles have too much. */
PF_INLINE pf_vec whole_sum(const exact_form form, pf_vec sum, const uint32_t *count)
{
    if (form.bits == 8) return sum;
    const pf_vec whole = pf_vec_madd16(sum, pf_vec_set(0x00010001));
    return form.has_minima ? whole : pf_vec_add(whole, pf_vec_left(pf_vec_spread(count), 3));
}
#endif

/* What becomes of the sums of group u of a block, of columns from `column` on. `a`: the block's words. */
PF_INLINE void end_unit(const exact_form form, const int u, exact_sums sum, const pf_exact_heads *heads, size_t column,
                        const uint32_t *a, float *sums)
{
    const size_t height = (size_t)form.height, counts = height * (form.units == 2 ? 1 + (size_t)u : 3);
    const pf_vecf s0 = pf_vec_loadf(&heads->scale[u][column]), s1 = pf_vec_loadf(&heads->scale[u][column + 16]);
    const pf_vecf m0 = pf_vec_loadf(&heads->offset[u][column]), m1 = pf_vec_loadf(&heads->offset[u][column + 16]);
#define END(m)                                                                                                         \
    if (m < form.height) {                                                                                             \
        float *out = sums + column + m * PF_GEMM_PANEL;                                                                \
        const pf_vecf sa = pf_vec_spreadf(a + m);                                                                      \
        const pf_vec i0 = whole_sum(form, sum[m][0], a + counts + m), i1 = whole_sum(form, sum[m][1], a + counts + m); \
        pf_vecf c0 = pf_vec_fma(pf_vec_to_float(i0), pf_vec_mul(s0, sa), pf_vec_loadf(out));                           \
        pf_vecf c1 = pf_vec_fma(pf_vec_to_float(i1), pf_vec_mul(s1, sa), pf_vec_loadf(out + 16));                      \
        if (form.has_minima) {                                                                                         \
            const pf_vecf scaled = pf_vec_spreadf(a + counts + 3 * height + m);                                        \
            c0 = pf_vec_fma(m0, scaled, c0);                                                                           \
            c1 = pf_vec_fma(m1, scaled, c1);                                                                           \
        }                                                                                                              \
        pf_vec_storef(out, c0);                                                                                        \
        pf_vec_storef(out + 16, c1);                                                                                   \
    }
    PF_VEC_EACH_ROW(END)
#undef END
}

/* Group u of a block for some halves of a panel, `column` the first of theirs. */
PF_INLINE void unit(const exact_form form, const int u, const exact_tile *t, const pf_exact_heads *heads, size_t column,
                    const uint8_t *w, const uint32_t *a, float *sums)
{
    const int halves = halves_of(form.height), steps = PF_EXACT_STEPS / form.units;
    const size_t step_bytes = (size_t)form.bits * PF_GEMM_PANEL / 2, height = (size_t)form.height;
    const uint8_t *from = w + (size_t)(u * steps) * step_bytes;
    const uint32_t *values = a + (PF_EXACT_VALUE_WORD + (size_t)(u * steps)) * height;
    exact_sums sum[PF_VEC_HALVES];
    __asm__("" : "+r"(from), "+r"(values)); /* one register each: the compiler would keep every word's address */
#pragma GCC unroll 2
    for (int half = 0; half < halves; half++)
        start(form, sum[half], a + height * (form.units == 2 ? 1 + (size_t)u : 3));
#pragma GCC unroll 8
    for (int i = 0; i < steps; i++, from += step_bytes, values += height) {
        if (column == 0) {
            PF_PREFETCH(from + t->ahead);
            if (form.bits == 8) PF_PREFETCH(from + t->ahead + 64);
        }
#pragma GCC unroll 2
        for (int half = 0; half < halves; half++)
            step(form, i == 0, sum[half], from + 4 * (column + (size_t)half * PF_VEC_LANES), values);
    }
#pragma GCC unroll 2
    for (int half = 0; half < halves; half++)
        end_unit(form, u, sum[half], heads, column + (size_t)half * PF_VEC_LANES, a, sums);
}

PF_INLINE void block(const exact_form form, const exact_tile *t, const pf_exact_heads *heads, const uint8_t *w,
                     const uint32_t *a)
{
    float *sums = t->sums;
    __asm__("" : "+r"(sums));
    for (int half = 0; half < PF_VEC_HALVES; half += halves_of(form.height))
        for (int u = 0; u < form.units; u++) unit(form, u, t, heads, (size_t)half * PF_VEC_LANES, w, a, sums);
}

/* Blocks, one after the other; those that begin a group have its heads before them. */
PF_INLINE void run_tile(const exact_form form, const exact_tile *t)
{
    const pf_exact_layout *l = t->layout;
    const size_t words = PF_EXACT_WORDS * (size_t)form.height, per_super = PF_GROUP_SUPER_VALUES / PF_EXACT_BLOCK;
    const uint8_t *w = t->panel + pf_exact_block_at(l, t->begin), *super = w;
    const uint32_t *a = t->a;
    pf_exact_heads heads;
    size_t left = t->begin % l->group_blocks; /* blocks that the group has still; a span may begin within one */
    if (left != 0) {
        pf_exact_load_heads(form.units, form.has_minima, true, l, super, t->panel + pf_exact_scales_at(l, t->begin, 0),
                            &heads);
        left = l->group_blocks - left;
    }
    for (size_t b = t->begin, end = t->begin + t->n_blocks; b < end; b++, left--, w += l->block_bytes, a += words) {
        if (l->super_bytes > 0 && b % per_super == 0) {
            super = w;
            w += l->super_bytes;
        }
        if (left == 0) {
            PF_PREFETCH(w + t->ahead);
            pf_exact_load_heads(form.units, form.has_minima, true, l, super, w, &heads);
            w += l->head_bytes;
            left = l->group_blocks;
        }
        block(form, t, &heads, w, a);
    }
}

#define DEFINE_KIND(NAME, BITS, MINIMA, UNITS)                    \
    PF_INLINE void NAME(const int height, const exact_tile *t)    \
    {                                                             \
        run_tile((exact_form){ height, BITS, MINIMA, UNITS }, t); \
    }                                                             \
    PF_VEC_EACH_HEIGHT(DEFINE_TILE, NAME)
#define DEFINE_TILE(NAME, m) PF_GEMM_DEFINE(NAME##_##m, exact_tile, NAME(m + 1, tile))
#define TILES(NAME)                            \
    {                                          \
        PF_VEC_EACH_HEIGHT(PF_BY_HEIGHT, NAME) \
    }
DEFINE_KIND(nibbles, 4, false, 1)
DEFINE_KIND(nibbles_minima, 4, true, 1)
DEFINE_KIND(bytes, 8, false, 1)
DEFINE_KIND(bytes_minima, 8, true, 1)
DEFINE_KIND(nibbles_of_16, 4, false, 2)
DEFINE_KIND(nibbles_minima_of_16, 4, true, 2)
DEFINE_KIND(bytes_of_16, 8, false, 2)
DEFINE_KIND(bytes_minima_of_16, 8, true, 2)

typedef exact_tile_fn *tile_table[PF_VEC_TILE_ROWS + 1];

static exact_tile_fn *const *tiles_of(const pf_exact_layout *l)
{
    static const tile_table tables[2][2][2] = {
        { { TILES(nibbles), TILES(nibbles_of_16) }, { TILES(nibbles_minima), TILES(nibbles_minima_of_16) } },
        { { TILES(bytes), TILES(bytes_of_16) }, { TILES(bytes_minima), TILES(bytes_minima_of_16) } },
    };
    return tables[l->groups.bits == 8][l->groups.offset != PF_GROUP_SYMMETRIC][l->units == 2];
}

/* ---- a product ---------------------------------------------------------------------------------------------------- */

void PF_FOR_ISA(pf_gemm_exact)(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin,
                               int32_t panel_end, float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    const pf_exact_layout l = pf_exact_layout_of(&w->groups, w->k);
    exact_tile_fn *const *tiles = tiles_of(&l);
    const int32_t n_tiles = pf_gemm_tiles(PF_VEC_TILE_ROWS, m);
    const size_t span = n_tiles == 1 ? l.n_blocks : PF_INT_SPAN_BLOCKS; /* whole super-blocks */
    const size_t row_words = l.n_blocks * PF_EXACT_WORDS;
    float *sums = scratch;
    for (int32_t p = panel_begin; p < panel_end; p++) {
        const int32_t left = w->n - p * PF_GEMM_PANEL, n_columns = left < PF_GEMM_PANEL ? left : PF_GEMM_PANEL;
        memset(sums, 0, (size_t)m * PF_GEMM_PANEL * sizeof *sums);
        for (size_t b = 0; b < l.n_blocks; b += span) {
            const size_t n_blocks = l.n_blocks - b < span ? l.n_blocks - b : span;
            for (int32_t t = 0; t < n_tiles; t++) {
                const size_t row = (size_t)pf_gemm_tile_row(n_tiles, m, t);
                const size_t height = (size_t)pf_gemm_tile_row(n_tiles, m, t + 1) - row;
                const exact_tile tile = {
                    .layout = &l,
                    .panel = (const uint8_t *)w->panels + (size_t)p * w->panel_bytes,
                    .a = (const uint32_t *)input + row * row_words + b * PF_EXACT_WORDS * height,
                    .begin = b,
                    .n_blocks = n_blocks,
                    .sums = sums + row * PF_GEMM_PANEL,
                    .ahead = n_tiles == 1 ? PF_GEMM_W_AHEAD
                             : t == 0     ? pf_exact_block_at(&l, b + n_blocks) - pf_exact_block_at(&l, b)
                                          : 0,
                };
                tiles[height](&tile);
            }
        }
        for (int32_t row = 0; row < m; row++)
            pf_int_put(c + (size_t)row * ldc + (size_t)p * PF_GEMM_PANEL, sums + (size_t)row * PF_GEMM_PANEL, n_columns,
                       mode);
    }
}

/* ---- activations -------------------------------------------------------------------------------------------------- */

/* The words of a block, `height` apart. */
PF_INLINE void pack_block(uint32_t *words, size_t height, const float *a, size_t n)
{
    const pf_int_rounding rounding = pf_int_rounding_of(pf_int_magnitude(a, n));
    int32_t q[PF_INT_BLOCK], sums[3] = { 0 };
    int8_t bytes[PF_INT_BLOCK];
    pf_int_round_block(q, a, n, rounding.factor);
    for (size_t i = 0; i < PF_INT_BLOCK / 2; i++) sums[0] += q[i];
    for (size_t i = PF_INT_BLOCK / 2; i < PF_INT_BLOCK; i++) sums[1] += q[i];
    for (size_t i = 0; i < PF_INT_BLOCK; i++) bytes[i] = (int8_t)q[i];
    sums[2] = sums[0] + sums[1];
    memcpy(words, &rounding.scale, sizeof rounding.scale);
    for (size_t i = 0; i < 3; i++) {
        const float scaled = rounding.scale * (float)sums[i];
        words[(1 + i) * height] = (uint32_t)-sums[i];
        memcpy(&words[(4 + i) * height], &scaled, sizeof scaled);
    }
    words[7 * height] = 0;
    for (size_t s = 0; s < PF_EXACT_STEPS; s++)
        memcpy(&words[(PF_EXACT_VALUE_WORD + s) * height], bytes + 4 * s, sizeof *words);
}

/* Values [k_begin, k_end) of some tiles, from a whole block on. */
PF_INLINE void pack_part(uint32_t *input, const float *a, size_t lda, int32_t m, int32_t k, int32_t tile_begin,
                         int32_t tile_end, int32_t k_begin, int32_t k_end)
{
    const size_t row_words = ((size_t)k + PF_EXACT_BLOCK - 1) / PF_EXACT_BLOCK * PF_EXACT_WORDS;
    const int32_t n_tiles = pf_gemm_tiles(PF_VEC_TILE_ROWS, m);
    for (int32_t t = tile_begin; t < tile_end; t++) {
        const size_t first = (size_t)pf_gemm_tile_row(n_tiles, m, t);
        const size_t height = (size_t)pf_gemm_tile_row(n_tiles, m, t + 1) - first;
        for (size_t r = 0; r < height; r++)
            for (size_t i = (size_t)k_begin; i < (size_t)k_end; i += PF_EXACT_BLOCK) {
                const size_t left = (size_t)k_end - i;
                pack_block(input + first * row_words + i / PF_EXACT_BLOCK * PF_EXACT_WORDS * height + r, height,
                           a + (first + r) * lda + i, left < PF_EXACT_BLOCK ? left : PF_EXACT_BLOCK);
            }
    }
}

void PF_FOR_ISA(pf_gemm_pack_exact)(void *input, const float *a, size_t lda, int32_t m, int32_t k, int32_t tile_begin,
                                    int32_t tile_end)
{
    pack_part(input, a, lda, m, k, tile_begin, tile_end, 0, k);
}

void PF_FOR_ISA(pf_gemm_pack_columns_exact)(void *input, const float *a, size_t lda, int32_t m, int32_t k,
                                            int32_t k_begin, int32_t k_end)
{
    pack_part(input, a, lda, m, k, 0, pf_gemm_tiles(PF_VEC_TILE_ROWS, m), k_begin, k_end);
}
