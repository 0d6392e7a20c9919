/*
 * Products of integer weights and int8 activations with VPDPBUSD on ZMM: four products of an unsigned and a signed byte
 * added to a sum of 32 bits, exactly.
 *
 * Weights are the unsigned side: int8 as q + 128, int4 as q, asymmetric int4 as q + 15 - z. What they have too much is
 * taken off before it arises: a group's sum starts at -128, -8 or -15 times the sum of its activations, which packing
 * has put before them.
 *
 *   input   [tile] { [height] scales of the rows   [groups] { [height] starts   [group / 4] [height] words } }
 *
 *   for each panel of 32 columns
 *     for each block of K
 *       for each row tile
 *         for each step of K: two weight vectors (int4: out of one), and for each row one broadcast and two products
 *
 * The nest is gemm_nest.h's, its prefetching too. Formats with a scale a column keep integer sums, 14 (int8) or 12 rows
 * of them; groups keep integer and float sums, of six rows. A sum of integers may be taken in any order, so with few
 * rows up to four steps of K go into sums of their own: eight chains at least, which hides the latency.
 */
#include "base/checked.h"
#include "kernels/gemm/layout.h"
#include "kernels/gemm/pack_words_avx512.h"

enum {
    INT8_ROWS = PF_GEMM_VNNI_INT8_ROWS,
    CHANNEL_ROWS = PF_GEMM_VNNI_CHANNEL_ROWS, /* int4 of a channel */
    GROUP_ROWS = PF_GEMM_VNNI_GROUP_ROWS,
    BLOCK_VALUES = 2048, /* of K that several row tiles pass over */
};

/* What one register tile is to do. Its height, and the format, are the function's. */
typedef struct {
    const uint8_t *head;    /* of the panel: scales of a column, and its z */
    const uint8_t *w;       /* the block's first step, or its first group's head */
    const uint32_t *a;      /* the block's words; a first block's, or a group's, begin with the starts */
    const float *row_scale; /* [height] */
    const void *before;     /* [height, 32] sums so far, 64-byte aligned; NULL: none */
    void *sums;             /* [height, 32] to leave sums in, where the block is not the last */
    float *c;               /* [height, 32], rows ldc elements apart, where it is */
    size_t ldc;
    size_t n; /* steps, or groups */
    uintptr_t prefetch;
    size_t step_stride, head_stride; /* how much further with each step, and each head */
    size_t a_ahead;                  /* bytes */
    bool last;
    bool add; /* to what is in c */
} int_tile;

typedef void int_tile_fn(const int_tile *tile);

/* Where the tile is in its operands. */
typedef struct {
    const uint8_t *w;
    const uint32_t *a;
    uintptr_t prefetch;
} cursor;

PF_INLINE __m512i broadcast(const uint32_t *word)
{
    __m512i v;
    __asm__("vpbroadcastd %1, %0" : "=v"(v) : "m"(*word));
    return v;
}

PF_INLINE __m512i dot_bytes(__m512i sum, __m512i w, __m512i a)
{
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(w), "v"(a));
    return sum;
}

/* One step of K for all rows of a tile. `bias`: what is added to nibbles, where the format has zeros. */
PF_INLINE void one_step(const int height, const int bits, const bool zeros, const int_tile *t, cursor *at,
                        const __m512i bias[2], __m512i (*sum)[2])
{
    __m512i w0 = _mm512_loadu_si512(at->w), w1;
    PF_PREFETCH(at->prefetch);
    if (bits == 8) {
        PF_PREFETCH(at->prefetch + 64);
        w1 = _mm512_loadu_si512(at->w + 64);
    } else {
        const __m512i low = _mm512_set1_epi8(15);
        if (zeros) __asm__("" : "+v"(w0)); /* load it once: behind zeros, weights lie across two lines */
        w1 = _mm512_and_si512(_mm512_srli_epi16(w0, 4), low);
        w0 = _mm512_and_si512(w0, low);
        if (zeros) w0 = _mm512_add_epi8(w0, bias[0]);
        if (zeros) w1 = _mm512_add_epi8(w1, bias[1]);
    }
    if (height > 3) PF_PREFETCH((uintptr_t)at->a + t->a_ahead);
#define ROW(m)                                   \
    if (m < height) {                            \
        const __m512i b = broadcast(at->a + m);  \
        sum[m][0] = dot_bytes(sum[m][0], w0, b); \
        sum[m][1] = dot_bytes(sum[m][1], w1, b); \
    }
    PF_ROWS_14(ROW)
#undef ROW
    at->w += bits == 8 ? 128 : 64;
    at->a += height;
    at->prefetch += t->step_stride;
}

/* How many steps in a row go into sums of their own. */
#define PARTS(height) ((height) <= 2 ? 4 : (height) <= 4 ? 2 : 1)

/* Some rows' sums to those of other steps. */
PF_INLINE void clear_sums(const int height, __m512i (*sum)[2])
{
#define CLEAR(m) \
    if (m < height) sum[m][0] = sum[m][1] = _mm512_setzero_si512();
    PF_ROWS_6(CLEAR)
#undef CLEAR
}
PF_INLINE void add_sums(const int height, __m512i (*sum)[2], __m512i (*part)[2])
{
#define ADD(m)                                               \
    if (m < height) {                                        \
        sum[m][0] = _mm512_add_epi32(sum[m][0], part[m][0]); \
        sum[m][1] = _mm512_add_epi32(sum[m][1], part[m][1]); \
    }
    PF_ROWS_6(ADD)
#undef ADD
}

/* n steps into `sum`. */
PF_INLINE void steps(const int height, const int bits, const bool zeros, const int_tile *t, cursor *at,
                     const __m512i bias[2], __m512i (*sum)[2], size_t n)
{
    __m512i second[4][2], third[2][2], fourth[2][2];
    if (PARTS(height) > 1) clear_sums(height, second);
    if (PARTS(height) > 2) clear_sums(height, third);
    if (PARTS(height) > 2) clear_sums(height, fourth);
    for (; n >= PARTS(height); n -= PARTS(height)) {
        one_step(height, bits, zeros, t, at, bias, sum);
        if (PARTS(height) > 1) one_step(height, bits, zeros, t, at, bias, second);
        if (PARTS(height) > 2) one_step(height, bits, zeros, t, at, bias, third);
        if (PARTS(height) > 2) one_step(height, bits, zeros, t, at, bias, fourth);
    }
    if (PARTS(height) > 1)
        for (; n; n--) one_step(height, bits, zeros, t, at, bias, sum);
    if (PARTS(height) > 1) add_sums(height, sum, second);
    if (PARTS(height) > 2) add_sums(height, sum, third);
    if (PARTS(height) > 2) add_sums(height, sum, fourth);
}

/* 15 - z of 32 columns, a byte of each weight. */
PF_INLINE void load_bias(__m512i bias[2], const uint8_t *zeros)
{
    const __m512i four_times = _mm512_set_epi8(15, 15, 15, 15, 14, 14, 14, 14, 13, 13, 13, 13, 12, 12, 12, 12, /**/
                                               11, 11, 11, 11, 10, 10, 10, 10, 9, 9, 9, 9, 8, 8, 8, 8,         /**/
                                               7, 7, 7, 7, 6, 6, 6, 6, 5, 5, 5, 5, 4, 4, 4, 4,                 /**/
                                               3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
    const __m512i low = _mm512_set1_epi8(15);
    const __m128i *z = (const __m128i *)(const void *)zeros;
    const __m512i left = _mm512_broadcast_i32x4(_mm_loadu_si128(z)),
                  right = _mm512_broadcast_i32x4(_mm_loadu_si128(z + 1));
    bias[0] = _mm512_xor_si512(_mm512_shuffle_epi8(left, four_times), low);
    bias[1] = _mm512_xor_si512(_mm512_shuffle_epi8(right, four_times), low);
}

/* The results of one row into c. */
PF_INLINE void put_row(const int_tile *t, size_t row, __m512 r0, __m512 r1)
{
    float *c = t->c + row * t->ldc;
    const __m512 scale = _mm512_set1_ps(t->row_scale[row]);
    r0 = _mm512_mul_ps(r0, scale);
    r1 = _mm512_mul_ps(r1, scale);
    if (t->add) {
        r0 = _mm512_add_ps(_mm512_loadu_ps(c), r0);
        r1 = _mm512_add_ps(_mm512_loadu_ps(c + 16), r1);
    }
    _mm512_storeu_ps(c, r0);
    _mm512_storeu_ps(c + 16, r1);
}

/* A scale a column: one group. */
PF_INLINE void channel_tile(const int height, const int bits, const bool zeros, const int_tile *t)
{
    __m512i sum[INT8_ROWS][2], bias[2];
    cursor at = { .w = t->w, .a = t->a, .prefetch = t->prefetch };
    if (zeros) load_bias(bias, t->head + 128);
    const int32_t *before = t->before;
    if (before) {
#define LOAD(m)                                                         \
    if (m < height) {                                                   \
        sum[m][0] = _mm512_load_si512(before + m * PF_GEMM_PANEL);      \
        sum[m][1] = _mm512_load_si512(before + m * PF_GEMM_PANEL + 16); \
    }
        PF_ROWS_14(LOAD)
#undef LOAD
    } else {
#define START(m) \
    if (m < height) sum[m][0] = sum[m][1] = broadcast(at.a + m);
        PF_ROWS_14(START)
#undef START
        at.a += height;
    }

    steps(height, bits, zeros, t, &at, bias, sum, t->n);

    if (t->last) {
        const __m512 s0 = _mm512_loadu_ps(t->head), s1 = _mm512_loadu_ps(t->head + 64), none = _mm512_setzero_ps();
#define FINISH(m)                                                               \
    if (m < height)                                                             \
        put_row(t, m, _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[m][0]), s0, none), \
                _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[m][1]), s1, none));
        PF_ROWS_14(FINISH)
#undef FINISH
    } else {
        int32_t *sums = t->sums;
#define LEAVE(m)                                                      \
    if (m < height) {                                                 \
        _mm512_store_si512(sums + m * PF_GEMM_PANEL, sum[m][0]);      \
        _mm512_store_si512(sums + m * PF_GEMM_PANEL + 16, sum[m][1]); \
    }
        PF_ROWS_14(LEAVE)
#undef LEAVE
    }
}

/* The f16 scales of 16 columns. */
PF_INLINE __m512 load_scales(const uint8_t *halves)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)halves));
}

/* Nibbles in groups: the integer sum of each is scaled and added, groups in order. */
PF_INLINE void group_tile(const int height, const size_t group_steps, const bool zeros, const int_tile *t)
{
    __m512 total[GROUP_ROWS][2];
    cursor at = { .w = t->w, .a = t->a, .prefetch = t->prefetch };
    const float *before = t->before;
#define START(m)                                                                                      \
    if (m < height) {                                                                                 \
        total[m][0] = before ? _mm512_load_ps(before + m * PF_GEMM_PANEL) : _mm512_setzero_ps();      \
        total[m][1] = before ? _mm512_load_ps(before + m * PF_GEMM_PANEL + 16) : _mm512_setzero_ps(); \
    }
    PF_ROWS_6(START)
#undef START

    for (size_t g = t->n; g; g--) {
        __m512i sum[GROUP_ROWS][2], bias[2];
        const uint8_t *head = at.w;
        PF_PREFETCH(at.prefetch);
        at.prefetch += t->head_stride;
        if (zeros) PF_PREFETCH(at.prefetch - 1);
        if (zeros) load_bias(bias, head + 64);
        at.w += zeros ? 96 : 64;
#define BEGIN(m) \
    if (m < height) sum[m][0] = sum[m][1] = broadcast(at.a + m);
        PF_ROWS_6(BEGIN)
#undef BEGIN
        at.a += height;

        steps(height, 4, zeros, t, &at, bias, sum, group_steps);

        const __m512 s0 = load_scales(head), s1 = load_scales(head + 32);
#define SCALE(m)                                                                       \
    if (m < height) {                                                                  \
        total[m][0] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[m][0]), s0, total[m][0]); \
        total[m][1] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[m][1]), s1, total[m][1]); \
    }
        PF_ROWS_6(SCALE)
#undef SCALE
    }

    if (t->last) {
#define FINISH(m) \
    if (m < height) put_row(t, m, total[m][0], total[m][1]);
        PF_ROWS_6(FINISH)
#undef FINISH
    } else {
        float *sums = t->sums;
#define LEAVE(m)                                                     \
    if (m < height) {                                                \
        _mm512_store_ps(sums + m * PF_GEMM_PANEL, total[m][0]);      \
        _mm512_store_ps(sums + m * PF_GEMM_PANEL + 16, total[m][1]); \
    }
        PF_ROWS_6(LEAVE)
#undef LEAVE
    }
}

#define int8_DEFINE(m)                      \
    static void int8_##m(const int_tile *t) \
    {                                       \
        channel_tile(m + 1, 8, false, t);   \
    }
#define channel_DEFINE(m)                      \
    static void channel_##m(const int_tile *t) \
    {                                          \
        channel_tile(m + 1, 4, false, t);      \
    }
#define asym_channel_DEFINE(m)                      \
    static void asym_channel_##m(const int_tile *t) \
    {                                               \
        channel_tile(m + 1, 4, true, t);            \
    }
#define g32_DEFINE(m)                      \
    static void g32_##m(const int_tile *t) \
    {                                      \
        group_tile(m + 1, 8, false, t);    \
    }
#define g128_DEFINE(m)                      \
    static void g128_##m(const int_tile *t) \
    {                                       \
        group_tile(m + 1, 32, false, t);    \
    }
#define asym_g32_DEFINE(m)                      \
    static void asym_g32_##m(const int_tile *t) \
    {                                           \
        group_tile(m + 1, 8, true, t);          \
    }
#define asym_g128_DEFINE(m)                      \
    static void asym_g128_##m(const int_tile *t) \
    {                                            \
        group_tile(m + 1, 32, true, t);          \
    }
PF_ROWS_14(int8_DEFINE)
PF_ROWS_12(channel_DEFINE)
PF_ROWS_12(asym_channel_DEFINE)
PF_ROWS_6(g32_DEFINE)
PF_ROWS_6(g128_DEFINE)
PF_ROWS_6(asym_g32_DEFINE)
PF_ROWS_6(asym_g128_DEFINE)

#define INT8(m)         int8_##m,
#define CHANNEL(m)      channel_##m,
#define ASYM_CHANNEL(m) asym_channel_##m,
#define G32(m)          g32_##m,
#define G128(m)         g128_##m,
#define ASYM_G32(m)     asym_g32_##m,
#define ASYM_G128(m)    asym_g128_##m,
static int_tile_fn *const int8_tiles[] = { NULL, PF_ROWS_14(INT8) };
static int_tile_fn *const channel_tiles[] = { NULL, PF_ROWS_12(CHANNEL) };
static int_tile_fn *const asym_channel_tiles[] = { NULL, PF_ROWS_12(ASYM_CHANNEL) };
static int_tile_fn *const g32_tiles[] = { NULL, PF_ROWS_6(G32) };
static int_tile_fn *const g128_tiles[] = { NULL, PF_ROWS_6(G128) };
static int_tile_fn *const asym_g32_tiles[] = { NULL, PF_ROWS_6(ASYM_G32) };
static int_tile_fn *const asym_g128_tiles[] = { NULL, PF_ROWS_6(ASYM_G128) };

/* Words of a row in the packed input. */
PF_INLINE size_t row_words(const pf_gemm_layout *l)
{
    return 1 + (size_t)l->n_groups * (1 + l->group_steps);
}

/* The loop nest. What it counts are units: steps where a scale is a column's, else groups. */
PF_INLINE void int_nest(int_tile_fn *const *tiles, int32_t tile_rows, const pf_gemm_weights *w, const void *input,
                        int32_t m, int32_t panel_begin, int32_t panel_end, float *c, size_t ldc, pf_gemm_mode mode,
                        void *scratch)
{
    const pf_gemm_layout l = pf_gemm_layout_of(w->format, w->k);
    const bool channel = l.n_groups == 1 && pf_format_get(w->format)->group == 0;
    const int32_t n_tiles = pf_gemm_tiles(tile_rows, m);
    const size_t units = channel ? l.group_steps : (size_t)l.n_groups;
    const size_t unit_bytes = channel ? l.step_bytes : l.group_bytes, unit_words = channel ? 1 : 1 + l.group_steps;
    const size_t unit_values = channel ? 4 : (size_t)l.group;
    const size_t block = n_tiles == 1 ? units : BLOCK_VALUES / unit_values;
    const size_t shares = (size_t)n_tiles, words = row_words(&l);
    float *rest =
        (float *)scratch + pf_round_up((size_t)m, 16) * PF_GEMM_PANEL; /* results of columns that fill the panel */

    for (int32_t p = panel_begin; p < panel_end; p++) {
        const uint8_t *panel = (const uint8_t *)w->panels + (size_t)p * w->panel_bytes;
        const uint8_t *begin = panel + (channel ? l.head_bytes : 0);
        const int32_t n_columns = w->n - p * PF_GEMM_PANEL;
        const bool whole = n_columns >= PF_GEMM_PANEL;
        for (size_t unit = 0; unit < units; unit += block) {
            const size_t n = units - unit < block ? units - unit : block, bytes = n * unit_bytes;
            const uint8_t *from = begin + unit * unit_bytes;
            for (int32_t i = 0; i < n_tiles; i++) {
                const int32_t row = pf_gemm_tile_row(n_tiles, m, i);
                const size_t height = (size_t)(pf_gemm_tile_row(n_tiles, m, i + 1) - row);
                const uint32_t *packed = (const uint32_t *)input + (size_t)row * words;
                float *sums = (float *)scratch + (size_t)row * PF_GEMM_PANEL;
                int_tile tile = {
                    .head = panel,
                    .w = from,
                    .a = packed + height * ((channel && unit ? 2u : 1u) + unit * unit_words),
                    .row_scale = (const float *)(const void *)packed,
                    .before = unit ? sums : NULL,
                    .sums = sums,
                    .c = whole ? c + (size_t)row * ldc + (size_t)p * PF_GEMM_PANEL : rest + (sums - (float *)scratch),
                    .ldc = whole ? ldc : PF_GEMM_PANEL,
                    .n = n,
                    .prefetch = (uintptr_t)from + PF_GEMM_W_AHEAD,
                    .step_stride = l.step_bytes,
                    .head_stride = l.head_bytes,
                    .a_ahead = m > PF_GEMM_A_AHEAD_ROWS ? PF_GEMM_A_AHEAD : 0,
                    .last = unit + n == units,
                    .add = whole && mode == PF_GEMM_ADD,
                };
                if (n_tiles > 1) {
                    tile.prefetch = (uintptr_t)from + bytes + bytes * (size_t)i / shares;
                    tile.step_stride = (l.step_bytes + shares - 1) / shares;
                    tile.head_stride = (l.head_bytes + shares - 1) / shares;
                }
                tiles[height](&tile);
            }
        }
        if (!whole) pf_gemm_copy_columns(c + (size_t)p * PF_GEMM_PANEL, ldc, rest, m, n_columns, mode);
    }
}

/* --- packing of activations --- */

/* The largest magnitude of a row, as bits: what is not finite is larger than what is. */
PF_INLINE uint32_t largest_bits(const float *a, size_t k)
{
    const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF);
    __m512i largest[2] = { _mm512_setzero_si512(), _mm512_setzero_si512() };
    size_t i = 0;
    for (; i + 32 <= k; i += 32)
        for (size_t j = 0; j < 2; j++)
            largest[j] = _mm512_max_epi32(largest[j], _mm512_and_si512(magnitude, _mm512_loadu_si512(a + i + 16 * j)));
    for (; i < k; i += 16) {
        const __mmask16 exist = (__mmask16)(k - i >= 16 ? 0xFFFFu : (1u << (k - i)) - 1);
        largest[0] = _mm512_max_epi32(largest[0], _mm512_and_si512(magnitude, _mm512_maskz_loadu_epi32(exist, a + i)));
    }
    return (uint32_t)_mm512_reduce_max_epi32(_mm512_max_epi32(largest[0], largest[1]));
}

/* How a row is rounded. */
typedef struct {
    float scale, inverse;
} row_rounding;

PF_INLINE row_rounding round_row(const float *a, size_t k)
{
    const uint32_t bits = largest_bits(a, k);
    float largest;
    memcpy(&largest, &bits, sizeof largest);
    if (bits >= 0x7F800000u) return (row_rounding){ .scale = __builtin_nanf("") };
    if (largest < 0x1p-100f) return (row_rounding){ 0 };
    return (row_rounding){ .scale = largest / 127.0f, .inverse = 127.0f / largest };
}

/* 16 words of a row: n values that exist, the others zero. */
PF_INLINE __m512i quantised_words(const float *a, float inverse, size_t n)
{
    const __m512 by = _mm512_set1_ps(inverse);
    const __mmask64 exist = n >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << n) - 1;
    __m512i q[4];
#define QUARTER(i) \
    q[i] = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_maskz_loadu_ps((__mmask16)(exist >> (16 * i)), a + 16 * i), by));
    QUARTER(0)
    QUARTER(1)
    QUARTER(2)
    QUARTER(3)
#undef QUARTER
    /* word 4 * i + j of the result lies in word i of lane j */
    const __m512i lanes = _mm512_packs_epi16(_mm512_packs_epi32(q[0], q[1]), _mm512_packs_epi32(q[2], q[3]));
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_permutexvar_epi32(order, lanes);
}

/* 16 words of up to four rows, quantised: those that lack repeat the last. */
PF_INLINE void quantise_four(__m512i words[4], const float *a, size_t lda, size_t n_rows, const row_rounding *rounding,
                             size_t n)
{
    for (size_t r = 0; r < 4; r++) {
        const size_t row = r < n_rows ? r : n_rows - 1;
        words[r] = quantised_words(a + row * lda, rounding[row].inverse, n);
    }
}

/* Words [word, word + n_words) of up to four rows where they belong: 16, or what a row ends with. */
PF_INLINE void spread(uint32_t *out, size_t height, const __m512i words[4], size_t n_rows, size_t n_words, size_t gap)
{
    if (height == 1) {
        const __mmask16 first = (__mmask16)((1u << (gap ? 8 : n_words)) - 1);
        const __mmask16 exist = (__mmask16)((1u << n_words) - 1);
        _mm512_mask_storeu_epi32(out, first & exist, words[0]);
        if (gap && n_words > 8) _mm512_mask_storeu_epi32(out + gap, exist & (__mmask16)~first, words[0]);
    } else if (n_words == 16) {
        pf_pack_four_rows(out, height, words, n_rows, 16, gap);
    } else {
        pf_pack_four_rows(out, height, words, n_rows, n_words, gap);
    }
}

/* Sums of eight words each, in all of their lanes. */
PF_INLINE __m512i sums_of_eight(__m512i v)
{
    v = _mm512_add_epi32(v, _mm512_shuffle_epi32(v, _MM_PERM_CDAB));
    v = _mm512_add_epi32(v, _mm512_shuffle_epi32(v, _MM_PERM_BADC));
    return _mm512_add_epi32(v, _mm512_shuffle_i32x4(v, v, 0xB1));
}

/* Up to four rows of a tile: scales, and groups with what they start at, `factor` times the sum of their values. */
PF_INLINE void pack_rows(uint32_t *out, size_t height, const float *a, size_t lda, size_t n_rows, size_t k,
                         size_t group_words, int32_t factor)
{
    const __m512i ones = _mm512_set1_epi8(1), none = _mm512_setzero_si512();
    const size_t n_words = ((k + 3) / 4 + group_words - 1) / group_words * group_words;
    row_rounding rounding[4];
    __m512i words[4], sum[4] = { none, none, none, none };
    for (size_t r = 0; r < n_rows; r++) {
        rounding[r] = round_row(a + r * lda, k);
        memcpy(out + r, &rounding[r].scale, sizeof(float));
    }
    for (size_t word = 0; word < n_words; word += 16) {
        const size_t left = n_words - word < 16 ? n_words - word : 16, group = word / group_words;
        uint32_t *starts = out + (1 + group * (1 + group_words)) * height;
        quantise_four(words, a + 4 * word, lda, n_rows, rounding, 4 * word < k ? k - 4 * word : 0);
        spread(starts + (1 + word % group_words) * height, height, words, n_rows, left, group_words == 8 ? 1 : 0);
        for (size_t r = 0; r < 4; r++) sum[r] = _mm512_dpbusd_epi32(sum[r], ones, words[r]);
        if (group_words == 8) {
            for (size_t r = 0; r < n_rows; r++) {
                const __m512i both = sums_of_eight(sum[r]);
                starts[r] = (uint32_t)(factor * _mm_cvtsi128_si32(_mm512_castsi512_si128(both)));
                if (left > 8)
                    starts[9 * height + r] = (uint32_t)(factor * _mm_cvtsi128_si32(_mm512_extracti32x4_epi32(both, 2)));
            }
        } else if (word % group_words + left == group_words) {
            for (size_t r = 0; r < n_rows; r++) starts[r] = (uint32_t)(factor * _mm512_reduce_add_epi32(sum[r]));
        } else {
            continue;
        }
        for (size_t r = 0; r < 4; r++) sum[r] = none;
    }
}

/* Row tiles [tile_begin, tile_end). `group_words`: 8, 32, or 0 where all of K is one group. */
PF_INLINE void pack_tiles(void *input, const float *a, size_t lda, int32_t m, int32_t k, int32_t tile_begin,
                          int32_t tile_end, int32_t tile_rows, size_t group_words, int32_t factor)
{
    const size_t n_values = (size_t)k, one_group = (n_values + 3) / 4, in_group = group_words ? group_words : one_group;
    const size_t words = 1 + (one_group + in_group - 1) / in_group * (1 + in_group);
    const int32_t n_tiles = pf_gemm_tiles(tile_rows, m);
    for (int32_t t = tile_begin; t < tile_end; t++) {
        const size_t first = (size_t)pf_gemm_tile_row(n_tiles, m, t);
        const size_t height = (size_t)pf_gemm_tile_row(n_tiles, m, t + 1) - first;
        uint32_t *tile = (uint32_t *)input + first * words;
        for (size_t r = 0; r < height; r += 4)
            pack_rows(tile + r, height, a + (first + r) * lda, lda, height - r < 4 ? height - r : 4, n_values, in_group,
                      factor);
    }
}

/* --- the formats --- */

#define FORMAT(NAME, ROWS, GROUP_WORDS, FACTOR, TILES)                                                                 \
    void pf_gemm_pack_##NAME##_int8_avx512vnni(void *input, const float *a, size_t lda, int32_t m, int32_t k,          \
                                               int32_t tile_begin, int32_t tile_end)                                   \
    {                                                                                                                  \
        pack_tiles(input, a, lda, m, k, tile_begin, tile_end, ROWS, GROUP_WORDS, FACTOR);                              \
    }                                                                                                                  \
    void pf_gemm_##NAME##_int8_avx512vnni(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin, \
                                          int32_t panel_end, float *c, size_t ldc, pf_gemm_mode mode, void *scratch)   \
    {                                                                                                                  \
        int_nest(TILES, ROWS, w, input, m, panel_begin, panel_end, c, ldc, mode, scratch);                             \
    }

FORMAT(int8, INT8_ROWS, 0, -128, int8_tiles)
FORMAT(int4_channel, CHANNEL_ROWS, 0, -8, channel_tiles)
FORMAT(int4_g32, GROUP_ROWS, 8, -8, g32_tiles)
FORMAT(int4_g128, GROUP_ROWS, 32, -8, g128_tiles)
FORMAT(int4_asym_channel, CHANNEL_ROWS, 0, -15, asym_channel_tiles)
FORMAT(int4_asym_g32, GROUP_ROWS, 8, -15, asym_g32_tiles)
FORMAT(int4_asym_g128, GROUP_ROWS, 32, -15, asym_g128_tiles)
