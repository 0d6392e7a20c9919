/*
 * Products of integer weights and int8 activations with VPDPBUSD on ZMM: four products of an unsigned and a signed byte
 * added to a sum of 32 bits, exactly.
 *
 * Weights are the unsigned side: int8 as q + 128, int4 as q, asymmetric int4 of many rows in groups as q + 16 - z. What they
 * have too much is taken off by means of the sums of the activations, which packing (gemm_int_pack_avx512vnni.c) has put
 * before them: a group's sum starts at what must go.
 *
 *   for each panel of 32 columns
 *     for each block of K
 *       for each row tile
 *         for each step of K: two weight vectors (int4: out of one), and for each row one broadcast and two products
 *
 * The order of loops and the prefetching are gemm_nest.h's. The nest of gemm_int_blocks.h adds every group to sums in
 * memory, since its kernels have too few registers for more; here sums stay in registers and a tile that ends K writes
 * its results, so the two are not one. Formats with a scale a column keep integer sums, 14 (int8) or 12 rows of them;
 * groups keep integer and float sums, of six rows. A sum of integers may be taken in any order, so with few rows up to
 * four steps of K go into sums of their own: eight chains at least, which hides the latency.
 *
 * From a memory that is fetched near (gemm_nest.h) up to seven rows take two panels side by side, a run of eight lines of one
 * or a group, then of the other: the same sums, from two streams. A cache gives lines faster than that pace.
 */
#include <assert.h>

#include "base/checked.h"
#include "kernels/gemm/gemm_nest.h"
#include "kernels/gemm/layout.h"
#include "kernels/gemm/sums_avx512.h"

enum {
    INT8_ROWS = PF_GEMM_VNNI_INT8_ROWS,
    CHANNEL_ROWS = PF_GEMM_VNNI_CHANNEL_ROWS, /* int4 of a channel */
    GROUP_ROWS = PF_GEMM_VNNI_GROUP_ROWS,
    BLOCK_VALUES = 2048, /* of K that several row tiles pass over */
    MOST_VALUES = 65536, /* and one: 16 times the sum of so many nibbles by activations fits 32 bits */
    SHORT_STEPS = 8,     /* of a group of 32 */
    PAIR_ROWS = 7,       /* up to which columns with a scale go two panels at a time; groups do in all tiles */
    RUN_BYTES = 512,     /* of one of them, before the other has its turn */
};

/* What one register tile is to do. Its height, and the format, are the function's. */
typedef struct {
    const uint8_t *head;    /* of the panel: scales of a column, and its z */
    const uint8_t *w;       /* the block's first step, or its first group's head */
    const uint32_t *a;      /* the block's words; a group's begin with its starts */
    const uint32_t *starts; /* [height] of a channel */
    const float *row_scale; /* [height] */
    const void *before;     /* [height, 32] sums so far, 64-byte aligned; NULL: none */
    void *sums;             /* [height, 32] to leave sums in, where the block is not the last */
    float *c;               /* [height, 32], rows ldc elements apart, where it is */
    size_t ldc;
    size_t n;           /* steps, or groups */
    size_t n_times;     /* panels to pass over, straight through; one where there are more tiles */
    size_t panel_bytes; /* of each */
    uintptr_t prefetch;
    size_t step_stride, head_stride; /* how much further with each step, and each head */
    size_t a_ahead;                  /* bytes */
    size_t ahead;                    /* likewise: how far each of two panels is fetched */
    bool last;
    bool add; /* to what is in c */
} int_tile;

typedef void int_tile_fn(const int_tile *tile);

/* Where the tile is in its operands. */
typedef struct {
    const uint8_t *w;
    const uint32_t *a;
    uintptr_t prefetch;
    size_t stride, a_ahead; /* of the tile: clang would read them again with every step */
} cursor;

PF_INLINE cursor begin(const int_tile *t, size_t stride)
{
    return (cursor){ .w = t->w, .a = t->a, .prefetch = t->prefetch, .stride = stride, .a_ahead = t->a_ahead };
}

/* Tiles are as equal as can be, so one as low as this is the only one, and fetches as much as it reads. */
PF_INLINE bool is_alone(const int height, const int tile_rows)
{
    return 2 * height < tile_rows;
}

/* The same of the panel behind this one, and behind two. */
PF_INLINE int_tile next_panel(int_tile t)
{
    t.head += t.panel_bytes;
    t.w += t.panel_bytes;
    t.prefetch += t.panel_bytes;
    t.c += PF_GEMM_PANEL;
    return t;
}
PF_INLINE int_tile next_pair(int_tile t)
{
    return next_panel(next_panel(t));
}

PF_INLINE __m512i dot_bytes(__m512i sum, __m512i w, __m512i a)
{
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(w), "v"(a));
    return sum;
}

/* How a step's weights meet the activations. Sums of whole bytes are the first ones, of low nibbles, and 16 times those of
 * high ones: one instruction takes a step apart, not three. From three or four rows on the products alone take longer. */
typedef enum { BYTES, NIBBLES, BIASED_NIBBLES, WHOLE_BYTES } step_form;

/* And how a step's are fetched: as the only panel's, on into the L1, or into the L2 alone; as one of two side by side. */
typedef enum { ALONE, FAR, PAIRED } step_fetch;

PF_INLINE bool takes_whole_bytes(const int height, const bool zeros)
{
    return height <= (zeros ? 3 : 2);
}

/* A line beside the vector that is loaded meanwhile. */
PF_INLINE void fetch_line(const step_fetch fetch, __m512i *beside, uintptr_t address)
{
    if (fetch == PAIRED) {
        PF_PREFETCH_BESIDE(*beside, address);
        pf_gemm_pace();
    } else {
        pf_gemm_fetch(address, fetch == FAR);
    }
}

/* One step of K for all rows of a tile. `bias`: what is added to nibbles. */
PF_INLINE void one_step(const int height, const step_form form, const step_fetch fetch, cursor *at,
                        const __m512i bias[2], __m512i (*sum)[2])
{
    const __m512i low = _mm512_set1_epi8(15);
    __m512i w0 = _mm512_loadu_si512(at->w), w1;
    fetch_line(fetch, &w0, at->prefetch);
    if (form == BYTES) {
        w1 = _mm512_loadu_si512(at->w + 64);
        fetch_line(fetch, &w1, at->prefetch + 64);
    } else if (form == WHOLE_BYTES) {
        __asm__("" : "+v"(w0)); /* load it once: behind zeros, weights lie across two lines */
        w1 = w0;
        w0 = _mm512_and_si512(w0, low);
    } else {
        if (form == BIASED_NIBBLES) __asm__("" : "+v"(w0)); /* likewise */
        w1 = _mm512_and_si512(_mm512_srli_epi16(w0, 4), low);
        w0 = _mm512_and_si512(w0, low);
        if (form == BIASED_NIBBLES) w0 = _mm512_add_epi8(w0, bias[0]);
        if (form == BIASED_NIBBLES) w1 = _mm512_add_epi8(w1, bias[1]);
    }
    if (height > 3) PF_PREFETCH((uintptr_t)at->a + at->a_ahead);
#define ROW(m)                                          \
    if (m < height) {                                   \
        const __m512i b = pf_sums_broadcast(at->a + m); \
        sum[m][0] = dot_bytes(sum[m][0], w0, b);        \
        sum[m][1] = dot_bytes(sum[m][1], w1, b);        \
    }
    PF_ROWS_14(ROW)
#undef ROW
    at->w += form == BYTES ? 128 : 64;
    at->a += height;
    at->prefetch += at->stride;
}

/* How many steps in a row go into sums of their own; short groups overlap each other. */
PF_INLINE size_t parts_of(const int height, const step_form form, const bool brief)
{
    if (brief) return height <= 3 || (height == 4 && form == NIBBLES) ? 2 : 1;
    return height <= 2 ? 4 : height <= 4 ? 2 : 1;
}

/* Some rows' sums to those of other steps. */
PF_INLINE void clear_sums(const int height, __m512i (*sum)[2])
{
    assert(height <= 6);
#define CLEAR(m) \
    if (m < height) sum[m][0] = sum[m][1] = _mm512_setzero_si512();
    PF_ROWS_6(CLEAR)
#undef CLEAR
}
PF_INLINE void add_sums(const int height, __m512i (*sum)[2], __m512i (*part)[2])
{
    assert(height <= 6);
#define ADD(m)                                               \
    if (m < height) {                                        \
        sum[m][0] = _mm512_add_epi32(sum[m][0], part[m][0]); \
        sum[m][1] = _mm512_add_epi32(sum[m][1], part[m][1]); \
    }
    PF_ROWS_6(ADD)
#undef ADD
}

/* As many steps, each into its sums. */
PF_INLINE void parts_step(const int height, const step_form form, const step_fetch fetch, const size_t parts,
                          cursor *at, const __m512i bias[2], __m512i (*sum)[2], __m512i (*second)[2],
                          __m512i (*third)[2], __m512i (*fourth)[2])
{
    one_step(height, form, fetch, at, bias, sum);
    if (parts > 1) one_step(height, form, fetch, at, bias, second);
    if (parts > 2) one_step(height, form, fetch, at, bias, third);
    if (parts > 2) one_step(height, form, fetch, at, bias, fourth);
}

/* n steps into `sum`. `brief`: those of a short group, as straight-line code. */
PF_INLINE void steps(const int height, const step_form form, const bool brief, const step_fetch fetch, cursor *at,
                     const __m512i bias[2], __m512i (*sum)[2], size_t n)
{
    const size_t parts = parts_of(height, form, brief);
    __m512i second[4][2], third[2][2], fourth[2][2];
    if (parts > 1) clear_sums(height, second);
    if (parts > 2) clear_sums(height, third);
    if (parts > 2) clear_sums(height, fourth);
    if (brief) {
#pragma GCC unroll 8
        for (size_t i = 0; i < SHORT_STEPS; i += parts)
            parts_step(height, form, fetch, parts, at, bias, sum, second, third, fourth);
    } else {
        /* A loop: all of a long group as straight-line code fetches in bursts, and waits for them. */
        __asm__("" : "+r"(n));
        for (; n >= parts; n -= parts) parts_step(height, form, fetch, parts, at, bias, sum, second, third, fourth);
        if (parts > 1)
            for (; n; n--) one_step(height, form, fetch, at, bias, sum);
    }
    if (parts > 1) add_sums(height, sum, second);
    if (parts > 2) add_sums(height, sum, third);
    if (parts > 2) add_sums(height, sum, fourth);
}

/* 16 - z of 32 columns, a byte of each weight. */
PF_INLINE void load_bias(__m512i bias[2], const uint8_t *zeros)
{
    const __m512i four_times = _mm512_set_epi8(15, 15, 15, 15, 14, 14, 14, 14, 13, 13, 13, 13, 12, 12, 12, 12, /**/
                                               11, 11, 11, 11, 10, 10, 10, 10, 9, 9, 9, 9, 8, 8, 8, 8,         /**/
                                               7, 7, 7, 7, 6, 6, 6, 6, 5, 5, 5, 5, 4, 4, 4, 4,                 /**/
                                               3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
    const __m512i sixteen = _mm512_set1_epi8(16);
    const __m128i *z = (const __m128i *)(const void *)zeros;
    const __m512i left = _mm512_broadcast_i32x4(_mm_loadu_si128(z)),
                  right = _mm512_broadcast_i32x4(_mm_loadu_si128(z + 1));
    bias[0] = _mm512_sub_epi8(sixteen, _mm512_shuffle_epi8(left, four_times));
    bias[1] = _mm512_sub_epi8(sixteen, _mm512_shuffle_epi8(right, four_times));
}

/* z of 32 columns, a lane each. */
PF_INLINE void load_zeros(__m512i z[2], const uint8_t *zeros)
{
    z[0] = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)zeros));
    z[1] = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(zeros + 16)));
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

/* Of a column, sums of whole bytes to those of nibbles. */
PF_INLINE void part_nibbles(const int height, __m512i (*sum)[2])
{
#define PART(m) \
    if (m < height) sum[m][1] = _mm512_srai_epi32(_mm512_sub_epi32(sum[m][1], sum[m][0]), 4);
    PF_ROWS_14(PART)
#undef PART
}

/* And the results of all of a column's sums. What the weights have too much is taken off here. */
PF_INLINE void put_columns(const int height, const bool zeros, const int_tile *t, __m512i (*sum)[2])
{
    const __m512 s0 = _mm512_loadu_ps(t->head), s1 = _mm512_loadu_ps(t->head + 64), none = _mm512_setzero_ps();
    __m512i z[2];
    if (zeros) load_zeros(z, t->head + 128);
#define FINISH(m)                                                                                      \
    if (m < height) {                                                                                  \
        const __m512i less = pf_sums_broadcast(t->starts + m);                                         \
        const __m512i i0 = _mm512_add_epi32(sum[m][0], zeros ? _mm512_mullo_epi32(z[0], less) : less); \
        const __m512i i1 = _mm512_add_epi32(sum[m][1], zeros ? _mm512_mullo_epi32(z[1], less) : less); \
        put_row(t, m, _mm512_fmadd_ps(_mm512_cvtepi32_ps(i0), s0, none),                               \
                _mm512_fmadd_ps(_mm512_cvtepi32_ps(i1), s1, none));                                    \
    }
    PF_ROWS_14(FINISH)
#undef FINISH
}

/* A scale a column: one group. */
PF_INLINE void channel_tile(const int height, const int bits, const bool zeros, const step_fetch fetch,
                            const int_tile *t)
{
    const step_form form = bits == 8 ? BYTES : takes_whole_bytes(height, zeros) ? WHOLE_BYTES : NIBBLES;
    const bool alone = is_alone(height, bits == 8 ? INT8_ROWS : CHANNEL_ROWS);
    __m512i sum[INT8_ROWS][2];
    cursor at = begin(t, alone ? (size_t)bits * 16 : t->step_stride);
#define START(m) \
    if (m < height) sum[m][0] = sum[m][1] = _mm512_setzero_si512();
    PF_ROWS_14(START)
#undef START

    steps(height, form, false, fetch, &at, NULL, sum, t->n);

    if (form == WHOLE_BYTES) part_nibbles(height, sum);
    if (t->before) {
        const int32_t *before = t->before;
#define ADD(m)                                                                                       \
    if (m < height) {                                                                                \
        sum[m][0] = _mm512_add_epi32(sum[m][0], _mm512_load_si512(before + m * PF_GEMM_PANEL));      \
        sum[m][1] = _mm512_add_epi32(sum[m][1], _mm512_load_si512(before + m * PF_GEMM_PANEL + 16)); \
    }
        PF_ROWS_14(ADD)
#undef ADD
    }

    if (t->last) {
        put_columns(height, zeros, t, sum);
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

/* What the sums of a group start at: so that the weights have nothing too much at its end. `word` is -8 times the sum of a
 * row's activations, or where there are zeros -1 times. */
PF_INLINE void start_group(const step_form form, const bool zeros, const __m512i z[2], const uint32_t *word,
                           __m512i sum[2])
{
    const __m512i b = pf_sums_broadcast(word);
    if (form == BIASED_NIBBLES) {
        sum[0] = sum[1] = _mm512_slli_epi32(b, 4);
    } else {
        sum[0] = zeros ? _mm512_madd_epi16(z[0], b) : b; /* the sum of 128 activations fits 16 bits */
        sum[1] = form == NIBBLES ? b
                 : zeros         ? _mm512_madd_epi16(z[1], b)
                                 : _mm512_add_epi32(b, _mm512_slli_epi32(b, 4));
    }
}

/* How a group's steps meet few activations, and more. */
PF_INLINE step_form group_form(const int height, const bool zeros)
{
    return takes_whole_bytes(height, zeros) ? WHOLE_BYTES : zeros ? BIASED_NIBBLES : NIBBLES;
}

/* A group of nibbles: its integer sum is scaled and added. */
PF_INLINE void one_group(const int height, const size_t group_steps, const bool zeros, const step_fetch fetch,
                         size_t head_stride, cursor *at, __m512 (*total)[2])
{
    const step_form form = group_form(height, zeros);
    __m512i sum[GROUP_ROWS][2], z[2] = { 0 };
    const uint8_t *head = at->w;
    pf_gemm_fetch(at->prefetch, fetch == FAR);
    at->prefetch += head_stride;
    if (zeros) pf_gemm_fetch(at->prefetch - 1, fetch == FAR);
    if (form == BIASED_NIBBLES) load_bias(z, head + 64);
    if (form == WHOLE_BYTES && zeros) {
        load_zeros(z, head + 64);
        z[1] = _mm512_add_epi32(z[0], _mm512_slli_epi32(z[1], 4));
    }
    at->w += zeros ? 96 : 64;
#define BEGIN(m) \
    if (m < height) start_group(form, zeros, z, at->a + m, sum[m]);
    PF_ROWS_6(BEGIN)
#undef BEGIN
    at->a += height;

    steps(height, form, group_steps == SHORT_STEPS, fetch, at, z, sum, group_steps);

    const __m512 s0 = load_scales(head);
    __m512 s1 = load_scales(head + 32);
    if (form == WHOLE_BYTES) {
        s1 = _mm512_mul_ps(s1, _mm512_set1_ps(0.0625f)); /* exact, as 16 times an integer is */
#define PART(m) \
    if (m < height) sum[m][1] = _mm512_sub_epi32(sum[m][1], sum[m][0]);
        PF_ROWS_6(PART)
#undef PART
    }
#define SCALE(m)                                                                       \
    if (m < height) {                                                                  \
        total[m][0] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[m][0]), s0, total[m][0]); \
        total[m][1] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[m][1]), s1, total[m][1]); \
    }
    PF_ROWS_6(SCALE)
#undef SCALE
}

/* Nibbles in groups, in order. */
PF_INLINE void group_tile(const int height, const size_t group_steps, const bool zeros, const step_fetch fetch,
                          const int_tile *t)
{
    const bool alone = is_alone(height, GROUP_ROWS);
    const size_t head_stride = alone ? (zeros ? 96 : 64) : t->head_stride;
    __m512 total[GROUP_ROWS][2];
    cursor at = begin(t, alone ? 64 : t->step_stride);
    const float *before = t->before;
#define START(m)                                                                                      \
    if (m < height) {                                                                                 \
        total[m][0] = before ? _mm512_load_ps(before + m * PF_GEMM_PANEL) : _mm512_setzero_ps();      \
        total[m][1] = before ? _mm512_load_ps(before + m * PF_GEMM_PANEL + 16) : _mm512_setzero_ps(); \
    }
    PF_ROWS_6(START)
#undef START

    for (size_t g = t->n; g; g--) one_group(height, group_steps, zeros, fetch, head_stride, &at, total);

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

/* Two panels side by side, whole: where each is, the right one in [1]. What is fetched goes over the head of the first
 * step, too. */
PF_INLINE void begin_pair(const int_tile *t, size_t stride, cursor at[2])
{
    at[0] = begin(t, stride);
    at[0].prefetch = (uintptr_t)t->head + t->ahead;
    at[1] = at[0];
    at[1].w += t->panel_bytes;
    at[1].prefetch += t->panel_bytes;
}

/* Of n units of a pair those after which what is fetched lies in the next pair, and those from there on. */
PF_INLINE void pair_parts(const int_tile *t, size_t n, size_t unit_bytes, size_t part[2])
{
    const size_t ahead = t->ahead / unit_bytes;
    part[1] = ahead < n ? ahead : n;
    part[0] = n - part[1];
}

/* A run of one panel's steps. With up to two rows every other one goes into sums of its own. */
PF_INLINE void one_run(const int height, const step_form form, const size_t n, cursor *at, __m512i (*sum)[2],
                       __m512i (*second)[2])
{
#pragma GCC unroll 8
    for (size_t i = 0; i < n; i++) one_step(height, form, PAIRED, at, NULL, height <= 2 && i % 2 ? second : sum);
}

PF_INLINE void channel_pair(const int height, const int bits, const bool zeros, const int_tile *t)
{
    const step_form form = bits == 8 ? BYTES : takes_whole_bytes(height, zeros) ? WHOLE_BYTES : NIBBLES;
    const size_t step_bytes = (size_t)bits * 16, run = RUN_BYTES / step_bytes;
    const int_tile right = next_panel(*t);
    __m512i sum[2][PAIR_ROWS][2], second[2][2][2];
    cursor at[2];
    size_t part[2];
    begin_pair(t, step_bytes, at);
    pair_parts(t, t->n / run, RUN_BYTES, part);
#define START(m) \
    if (m < height) sum[0][m][0] = sum[0][m][1] = sum[1][m][0] = sum[1][m][1] = _mm512_setzero_si512();
    PF_ROWS_7(START)
#undef START
    if (height <= 2) clear_sums(height, second[0]);
    if (height <= 2) clear_sums(height, second[1]);

    for (int i = 0; i < 2; i++, at[0].prefetch += t->panel_bytes, at[1].prefetch += t->panel_bytes)
        for (size_t n = part[i]; n; n--) {
            one_run(height, form, run, &at[0], sum[0], second[0]);
            one_run(height, form, run, &at[1], sum[1], second[1]);
        }
    for (size_t n = t->n % run; n; n--) {
        one_step(height, form, PAIRED, &at[0], NULL, sum[0]);
        one_step(height, form, PAIRED, &at[1], NULL, sum[1]);
    }

    if (height <= 2) add_sums(height, sum[0], second[0]);
    if (height <= 2) add_sums(height, sum[1], second[1]);
    if (form == WHOLE_BYTES) part_nibbles(height, sum[0]);
    if (form == WHOLE_BYTES) part_nibbles(height, sum[1]);
    put_columns(height, zeros, t, sum[0]);
    put_columns(height, zeros, &right, sum[1]);
}

PF_INLINE void group_pair(const int height, const size_t group_steps, const bool zeros, const int_tile *t)
{
    const size_t head_bytes = zeros ? 96 : 64;
    const int_tile right = next_panel(*t);
    __m512 total[2][GROUP_ROWS][2];
    cursor at[2];
    size_t part[2];
    begin_pair(t, 64, at);
    pair_parts(t, t->n, head_bytes + 64 * group_steps, part);
#define START(m) \
    if (m < height) total[0][m][0] = total[0][m][1] = total[1][m][0] = total[1][m][1] = _mm512_setzero_ps();
    PF_ROWS_6(START)
#undef START

    for (int i = 0; i < 2; i++, at[0].prefetch += t->panel_bytes, at[1].prefetch += t->panel_bytes)
        for (size_t g = part[i]; g; g--) {
            one_group(height, group_steps, zeros, PAIRED, head_bytes, &at[0], total[0]);
            one_group(height, group_steps, zeros, PAIRED, head_bytes, &at[1], total[1]);
        }

#define FINISH(m)                                           \
    if (m < height) {                                       \
        put_row(t, m, total[0][m][0], total[0][m][1]);      \
        put_row(&right, m, total[1][m][0], total[1][m][1]); \
    }
    PF_ROWS_6(FINISH)
#undef FINISH
}

/* What the nest must know of a format's tiles. */
typedef struct {
    int32_t tile_rows, pair_rows;
    int32_t many_rows;         /* from which on multiplies take as long as the weights from memory */
    int_tile_fn *const *tiles; /* [tile_rows + 1], by height */
    int_tile_fn *const *far;   /* likewise, which fetch into the L2: those of many rows */
    int_tile_fn *const *pairs; /* [pair_rows + 1], by height: of two panels */
} int_family;

/* Words of a row in the packed input. */
PF_INLINE size_t row_words(const pf_gemm_layout *l)
{
    return 1 + (size_t)l->n_groups * (1 + l->group_steps);
}

/* How many bytes ahead of its use a panel is fetched, where a single tile passes over it. From a fast memory 8 KiB cost 4 to 8
 * rows up to a tenth; from a cache 12 KiB cost nibbles as much, and so do 1 to 4 KiB. */
PF_INLINE size_t weights_ahead(const pf_gemm_weights *w, const pf_gemm_layout *l, int32_t m, bool many, bool pairs)
{
    if (pairs) return l->bits == 8 && m < 5 ? PF_GEMM_W_NEXT : PF_GEMM_W_NEAR;
    if (w->fetch != PF_FETCH_FAR) return pf_gemm_ahead(w, many);
    return w->from_memory && (l->bits == 8 || m > 2) ? 12288 : PF_GEMM_W_AHEAD;
}

/* The loop nest. What it counts are units: steps where a scale is a column's, else groups. */
PF_INLINE void int_nest(const int_family family, const pf_gemm_weights *w, const void *input, int32_t m,
                        int32_t panel_begin, int32_t panel_end, float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    const pf_gemm_layout l = pf_gemm_layout_of(w->format, w->k);
    const bool channel = l.n_groups == 1 && pf_format_get(w->format)->group == 0;
    const int32_t n_tiles = pf_gemm_tiles(family.tile_rows, m);
    const size_t units = channel ? l.group_steps : (size_t)l.n_groups;
    const size_t unit_bytes = channel ? l.step_bytes : l.group_bytes, unit_words = channel ? 1 : 1 + l.group_steps;
    const size_t unit_values = channel ? 4 : (size_t)l.group;
    const size_t block = (n_tiles == 1 ? MOST_VALUES : BLOCK_VALUES) / unit_values;
    const size_t shares = (size_t)n_tiles, words = row_words(&l);
    float *rest =
        (float *)scratch + pf_round_up((size_t)m, 16) * PF_GEMM_PANEL; /* results of columns that fill the panel */

    const int32_t whole_end = pf_gemm_whole_end(w, panel_end);
    const bool goes_on = n_tiles == 1 && units <= block;
    const bool pairs = goes_on && pf_gemm_is_near(w) && m <= family.pair_rows;
    const bool many = m >= family.many_rows;
    const size_t ahead = weights_ahead(w, &l, m, many, pairs);
    int_tile_fn *const *const tiles = pf_gemm_is_into_l2(w, many) ? family.far : family.tiles;

    for (int32_t p = panel_begin, n_panels; p < panel_end; p += n_panels) {
        n_panels = goes_on && p < whole_end ? whole_end - p : 1;
        const bool pair = pairs && n_panels > 1;
        if (pair) n_panels -= n_panels % 2;
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
                    .a = packed + height * ((channel ? 2u : 1u) + unit * unit_words),
                    .starts = packed + height,
                    .row_scale = (const float *)(const void *)packed,
                    .before = unit ? sums : NULL,
                    .sums = sums,
                    .c = whole ? c + (size_t)row * ldc + (size_t)p * PF_GEMM_PANEL : rest + (sums - (float *)scratch),
                    .ldc = whole ? ldc : PF_GEMM_PANEL,
                    .n = n,
                    .n_times = (size_t)(pair ? n_panels / 2 : n_panels),
                    .panel_bytes = w->panel_bytes,
                    .prefetch = (uintptr_t)from + ahead,
                    .step_stride = l.step_bytes,
                    .head_stride = l.head_bytes,
                    .a_ahead = m > PF_GEMM_A_AHEAD_ROWS ? PF_GEMM_A_AHEAD : 0,
                    .ahead = ahead,
                    .last = unit + n == units,
                    .add = whole && mode == PF_GEMM_ADD,
                };
                if (n_tiles > 1) {
                    if (tile.last && whole) pf_gemm_claim(tile.c, ldc, height);
                    tile.prefetch = (uintptr_t)from + bytes + bytes * (size_t)i / shares;
                    tile.step_stride = (l.step_bytes + shares - 1) / shares;
                    tile.head_stride = (l.head_bytes + shares - 1) / shares;
                }
                (pair ? family.pairs : tiles)[height](&tile);
            }
        }
        if (!whole) pf_gemm_copy_columns(c + (size_t)p * PF_GEMM_PANEL, ldc, rest, m, n_columns, mode);
    }
}

/* --- the formats --- */

/* The functions of a kind of tiles, T: the only panel's, near and into the L2, and those of two panels. */
#define DEFINE_TILE(T, m) PF_GEMM_DEFINE_GOING_ON(T##_tile_##m, int_tile, next_panel, T##_TILE(m + 1, ALONE, &tile))
#define DEFINE_FAR(T, m)  PF_GEMM_DEFINE_GOING_ON(T##_far_##m, int_tile, next_panel, T##_TILE(m + 1, FAR, &tile))
#define DEFINE_PAIR(T, m) PF_GEMM_DEFINE_GOING_ON(T##_pair_##m, int_tile, next_pair, T##_PAIR(m + 1, &tile))

/* A format's tiles, of up to ROWS rows, and its product. FAR_ROWS: from LOWEST_TO_ROWS; tiles of MANY rows in all can be as
 * low. */
#define FORMAT(NAME, T, ROWS, PAIRED, MANY, FAR_ROWS)                                                                  \
    PF_EACH_##ROWS(DEFINE_TILE, T) PF_EACH_FROM_##FAR_ROWS(DEFINE_FAR, T) PF_EACH_##PAIRED(                            \
        DEFINE_PAIR, T) static int_tile_fn *const T##_tiles[] = { PF_EACH_##ROWS(PF_BY_HEIGHT, T##_tile) };            \
    static int_tile_fn *const T##_far[] = { PF_EACH_FROM_##FAR_ROWS(PF_BY_HEIGHT, T##_far) };                          \
    static int_tile_fn *const T##_pairs[] = { PF_EACH_##PAIRED(PF_BY_HEIGHT, T##_pair) };                              \
    void pf_gemm_##NAME##_int8_avx512vnni(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin, \
                                          int32_t panel_end, float *c, size_t ldc, pf_gemm_mode mode, void *scratch)   \
    {                                                                                                                  \
        const int_family family = { .tile_rows = ROWS,                                                                 \
                                    .pair_rows = PAIRED,                                                               \
                                    .many_rows = MANY,                                                                 \
                                    .tiles = T##_tiles,                                                                \
                                    .far = T##_far,                                                                    \
                                    .pairs = T##_pairs };                                                              \
        int_nest(family, w, input, m, panel_begin, panel_end, c, ldc, mode, scratch);                                  \
    }
_Static_assert(INT8_ROWS == 14 && CHANNEL_ROWS == 12 && GROUP_ROWS == 6 && PAIR_ROWS == 7, "the lines below say so");

#define int8_TILE(height, fetch, t)         channel_tile(height, 8, false, fetch, t)
#define channel_TILE(height, fetch, t)      channel_tile(height, 4, false, fetch, t)
#define asym_channel_TILE(height, fetch, t) channel_tile(height, 4, true, fetch, t)
#define g32_TILE(height, fetch, t)          group_tile(height, 8, false, fetch, t)
#define g128_TILE(height, fetch, t)         group_tile(height, 32, false, fetch, t)
#define asym_g32_TILE(height, fetch, t)     group_tile(height, 8, true, fetch, t)
#define asym_g128_TILE(height, fetch, t)    group_tile(height, 32, true, fetch, t)
#define int8_PAIR(height, t)                channel_pair(height, 8, false, t)
#define channel_PAIR(height, t)             channel_pair(height, 4, false, t)
#define asym_channel_PAIR(height, t)        channel_pair(height, 4, true, t)
#define g32_PAIR(height, t)                 group_pair(height, 8, false, t)
#define g128_PAIR(height, t)                group_pair(height, 32, false, t)
#define asym_g32_PAIR(height, t)            group_pair(height, 8, true, t)
#define asym_g128_PAIR(height, t)           group_pair(height, 32, true, t)

FORMAT(int8, int8, 14, 7, 7, 7_TO_14)
FORMAT(int4_channel, channel, 12, 7, 4, 4_TO_12)
FORMAT(int4_g32, g32, 6, 6, 6, 3_TO_6)
FORMAT(int4_g128, g128, 6, 6, 4, 3_TO_6)
FORMAT(int4_asym_channel, asym_channel, 12, 7, 4, 4_TO_12)
FORMAT(int4_asym_g32, asym_g32, 6, 6, 6, 3_TO_6)
FORMAT(int4_asym_g128, asym_g128, 6, 6, 4, 3_TO_6)
