/*
 * Products of integer weights and int8 activations with VPDPBUSD on ZMM: four products of an unsigned and a signed byte
 * added to a sum of 32 bits, exactly.
 *
 * Weights are the unsigned side: int8 as q + 128, int4 as q. What they have too much is taken off by means of the sums of the
 * activations, which packing (gemm_int_pack_avx512vnni.c) has put before them.
 *
 *   for each panel of 32 columns
 *     for each block of K
 *       for each row tile
 *         for each step of K: two weight vectors (int4: out of one), and for each row one broadcast and two products
 *
 * The order of loops and the prefetching are gemm_nest.h's. The nest of gemm_int_blocks.h adds every block to sums in
 * memory, since its kernels have too few registers for more; here sums stay in registers and a tile that ends K writes
 * its results, so the two are not one. Formats without groups keep integer sums, 14 (int8) or 12 rows of them. With few
 * rows up to four steps of K go into sums of their own, which is as good for integers: eight chains at least, which hides the
 * latency.
 *
 * Groups: few rows, six a tile, keep a second sum, of the group, which is multiplied when the group ends (end_group). Of more
 * rows a block of nibbles becomes the bytes of int8 first, (q - z) * m + 128, in the scratch, and int8's tiles pass over it.
 *
 * From a memory that is fetched near (gemm_nest.h) up to seven rows take two panels side by side, a run of eight lines of one
 * or a group, then of the other: the same sums, from two streams. A cache gives lines faster than that pace.
 */
#include <assert.h>

#include "base/checked.h"
#include "kernels/gemm/int/group_bytes_avx512.h"
#include "kernels/gemm/layout_int.h"
#include "kernels/gemm/sums_avx512.h"

enum {
    INT8_ROWS = PF_GEMM_VNNI_INT8_ROWS,
    CHANNEL_ROWS = PF_GEMM_VNNI_CHANNEL_ROWS, /* int4 of a channel */
    GROUP_ROWS = PF_GEMM_VNNI_GROUP_ROWS,
    BLOCK_VALUES = 2048,   /* of K that several row tiles pass over */
    MOST_VALUES = 65536,   /* and one: 16 times the sum of so many nibbles by activations fits 32 bits */
    UNPACKED_VALUES = 512, /* of K that are unpacked at once: 16 KiB, which stay in L1 */
    SHORT_STEPS = 8,       /* of a group of 32 */
    PAIR_ROWS = 7,         /* up to which columns with a scale go two panels at a time; groups do in all tiles */
    RUN_BYTES = 512,       /* of one of them, before the other has its turn */
};

/* What one register tile is to do. Its height, and the format, are the function's. */
typedef struct {
    const uint8_t *head;    /* of the panel: scales of a column, and its z */
    const uint8_t *w;       /* the block's first step, or its first groups' heads */
    const uint32_t *a;      /* the block's words; a group's begin with its starts and sums */
    const uint32_t *starts; /* [height], where there are no groups */
    const float *row_scale; /* [height] */
    const void *before;     /* [height, 32] sums so far, 64-byte aligned; NULL: none */
    void *sums;             /* [height, 32] to leave sums in, where the block is not the last */
    float *c;               /* [height, 32], rows ldc elements apart, where it is */
    size_t ldc;
    size_t n;           /* steps, or groups: all of them */
    size_t n_times;     /* panels to pass over, straight through; one where there are more tiles */
    size_t panel_bytes; /* of each */
    uintptr_t prefetch;
    size_t step_stride; /* how much further with each step */
    size_t a_ahead;     /* bytes */
    size_t ahead;       /* likewise: how far each of two panels is fetched */
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
typedef enum { BYTES, NIBBLES, WHOLE_BYTES } step_form;

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

/* One step of K for all rows of a tile. */
PF_INLINE void one_step(const int height, const step_form form, const step_fetch fetch, cursor *at, __m512i (*sum)[2])
{
    const __m512i low = _mm512_set1_epi8(15);
    __m512i w0 = _mm512_loadu_si512(at->w), w1;
    fetch_line(fetch, &w0, at->prefetch);
    if (form == BYTES) {
        w1 = _mm512_loadu_si512(at->w + 64);
        fetch_line(fetch, &w1, at->prefetch + 64);
    } else if (form == WHOLE_BYTES) {
        __asm__("" : "+v"(w0)); /* load it once */
        w1 = w0;
        w0 = _mm512_and_si512(w0, low);
    } else {
        w1 = _mm512_and_si512(_mm512_srli_epi16(w0, 4), low);
        w0 = _mm512_and_si512(w0, low);
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
PF_INLINE size_t parts_of(const int height, const bool brief)
{
    if (brief) return height <= 2 ? 2 : 1;
    return height <= 2 ? 4 : height <= 4 ? 2 : 1;
}

PF_INLINE void clear_sums(const int height, __m512i (*sum)[2])
{
#define CLEAR(m) \
    if (m < height) sum[m][0] = sum[m][1] = _mm512_setzero_si512();
    PF_ROWS_14(CLEAR)
#undef CLEAR
}

/* Some rows' sums to those of other steps. */
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
                          cursor *at, __m512i (*sum)[2], __m512i (*second)[2], __m512i (*third)[2],
                          __m512i (*fourth)[2])
{
    one_step(height, form, fetch, at, sum);
    if (parts > 1) one_step(height, form, fetch, at, second);
    if (parts > 2) one_step(height, form, fetch, at, third);
    if (parts > 2) one_step(height, form, fetch, at, fourth);
}

/* n steps into `sum`. `brief`: those of a short group, as straight-line code. */
PF_INLINE void steps(const int height, const step_form form, const bool brief, const step_fetch fetch, cursor *at,
                     __m512i (*sum)[2], size_t n)
{
    const size_t parts = parts_of(height, brief);
    __m512i second[4][2], third[2][2], fourth[2][2];
    if (parts > 1) clear_sums(height, second);
    if (parts > 2) clear_sums(height, third);
    if (parts > 2) clear_sums(height, fourth);
    if (brief) {
#pragma GCC unroll 8
        for (size_t i = 0; i < SHORT_STEPS; i += parts)
            parts_step(height, form, fetch, parts, at, sum, second, third, fourth);
    } else {
        /* A loop: all of a long group as straight-line code fetches in bursts, and waits for them. */
        __asm__("" : "+r"(n));
        for (; n >= parts; n -= parts) parts_step(height, form, fetch, parts, at, sum, second, third, fourth);
        if (parts > 1)
            for (; n; n--) one_step(height, form, fetch, at, sum);
    }
    if (parts > 1) add_sums(height, sum, second);
    if (parts > 2) add_sums(height, sum, third);
    if (parts > 2) add_sums(height, sum, fourth);
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

/* What the weights of columns without groups have too much, from their sums. */
PF_INLINE void take_off(const int height, const bool zeros, const int_tile *t, __m512i (*sum)[2])
{
    __m512i z[2];
    if (zeros) load_zeros(z, t->head + PF_GEMM_HEADS_AT);
#define TAKE(m)                                                                                 \
    if (m < height) {                                                                           \
        const __m512i less = pf_sums_broadcast(t->starts + m);                                  \
        sum[m][0] = _mm512_add_epi32(sum[m][0], zeros ? _mm512_mullo_epi32(z[0], less) : less); \
        sum[m][1] = _mm512_add_epi32(sum[m][1], zeros ? _mm512_mullo_epi32(z[1], less) : less); \
    }
    PF_ROWS_14(TAKE)
#undef TAKE
}

/* The results of complete sums. */
PF_INLINE void put_columns(const int height, const int_tile *t, __m512i (*sum)[2])
{
    const __m512 s0 = _mm512_loadu_ps(t->head), s1 = _mm512_loadu_ps(t->head + 64), none = _mm512_setzero_ps();
#define FINISH(m)                                                               \
    if (m < height)                                                             \
        put_row(t, m, _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[m][0]), s0, none), \
                _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[m][1]), s1, none));
    PF_ROWS_14(FINISH)
#undef FINISH
}

/* Columns without groups. */
PF_INLINE void channel_tile(const int height, const int bits, const bool zeros, const step_fetch fetch,
                            const int_tile *t)
{
    const step_form form = bits == 8 ? BYTES : takes_whole_bytes(height, zeros) ? WHOLE_BYTES : NIBBLES;
    const bool alone = is_alone(height, bits == 8 ? INT8_ROWS : CHANNEL_ROWS);
    __m512i sum[INT8_ROWS][2];
    cursor at = begin(t, alone ? (size_t)bits * 16 : t->step_stride);
    clear_sums(height, sum);

    steps(height, form, false, fetch, &at, sum, t->n);

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
        take_off(height, zeros, t, sum);
        put_columns(height, t, sum);
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

/* Of 32 columns of a group: m in the low half of a lane, (8 - z) * m in the high one. */
PF_INLINE void load_head(__m512i head[2], const uint8_t *heads)
{
    const __m512i twice = _mm512_set_epi8(-1, 15, -1, 15, -1, 14, -1, 14, -1, 13, -1, 13, -1, 12, -1, 12, /**/
                                          -1, 11, -1, 11, -1, 10, -1, 10, -1, 9, -1, 9, -1, 8, -1, 8,     /**/
                                          -1, 7, -1, 7, -1, 6, -1, 6, -1, 5, -1, 5, -1, 4, -1, 4,         /**/
                                          -1, 3, -1, 3, -1, 2, -1, 2, -1, 1, -1, 1, -1, 0, -1, 0);
    for (size_t v = 0; v < 2; v++) {
        const __m128i columns = _mm_loadu_si128((const __m128i *)(const void *)(heads + 16 * v));
        const __m512i bytes = _mm512_shuffle_epi8(_mm512_broadcast_i32x4(columns), twice);
        const __m512i zeros = _mm512_and_si512(bytes, _mm512_set1_epi32(0x000F0000));
        head[v] =
            _mm512_mullo_epi16(_mm512_srli_epi16(bytes, 4), _mm512_sub_epi16(_mm512_set1_epi32(0x00080001), zeros));
    }
}

/* A pair of int16 by a pair, both products added: exact. */
PF_INLINE __m512i dot_words(__m512i sum, __m512i pair, __m512i head)
{
    __asm__("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(pair), "v"(head));
    return sum;
}

/* A group's sum of (q - 8) * a to that of (q - z) * m * a. Of 32 values it fits int16 (32 * 8 * 127), so one instruction
 * multiplies it by m, and what stands in the word's upper half, the sum of the activations, by (8 - z) * m. */
PF_INLINE __m512i end_group(const bool brief, __m512i total, __m512i sum, __m512i word, __m512i head)
{
    const __m512i low_half = _mm512_set1_epi32(0xFFFF);
    if (brief) return dot_words(total, _mm512_ternarylogic_epi32(sum, low_half, word, 0xEA), head);
    total = dot_words(total, word, head);
    return _mm512_add_epi32(total, _mm512_mullo_epi32(sum, _mm512_and_si512(head, low_half)));
}

/* The line of heads that two groups begin with. */
PF_INLINE const uint8_t *next_heads(const step_fetch fetch, cursor *at)
{
    const uint8_t *heads = at->w;
    pf_gemm_fetch(at->prefetch, fetch == FAR);
    at->prefetch += at->stride;
    at->w += 64;
    return heads;
}

/* A group of nibbles, into its columns' sums. */
PF_INLINE void one_group(const int height, const size_t group_steps, const step_fetch fetch, const uint8_t *heads,
                         cursor *at, __m512i (*total)[2])
{
    const bool brief = group_steps == SHORT_STEPS;
    const step_form form = takes_whole_bytes(height, false) ? WHOLE_BYTES : NIBBLES;
    const uint32_t *words = at->a + 2 * height; /* the sums of the activations */
    __m512i sum[GROUP_ROWS][2], head[2];
#define BEGIN(m)                                                                             \
    if (m < height) {                                                                        \
        sum[m][0] = pf_sums_broadcast(at->a + m);                                            \
        sum[m][1] = form == WHOLE_BYTES ? pf_sums_broadcast(at->a + height + m) : sum[m][0]; \
    }
    PF_ROWS_6(BEGIN)
#undef BEGIN
    at->a += 3 * height;

    steps(height, form, brief, fetch, at, sum, group_steps);

    if (form == WHOLE_BYTES) part_nibbles(height, sum);
    load_head(head, heads);
#define END(m)                                                                 \
    if (m < height) {                                                          \
        const __m512i word = pf_sums_broadcast(words + m);                     \
        total[m][0] = end_group(brief, total[m][0], sum[m][0], word, head[0]); \
        total[m][1] = end_group(brief, total[m][1], sum[m][1], word, head[1]); \
    }
    PF_ROWS_6(END)
#undef END
}

/* Nibbles in groups, all of K. */
PF_INLINE void group_tile(const int height, const size_t group_steps, const step_fetch fetch, const int_tile *t)
{
    __m512i total[GROUP_ROWS][2];
    cursor at = begin(t, is_alone(height, GROUP_ROWS) ? 64 : t->step_stride);
    clear_sums(height, total);
    const uint8_t *heads = NULL;
    for (size_t g = 0; g < t->n; g++, heads += PF_GEMM_PANEL) {
        if (g % 2 == 0) heads = next_heads(fetch, &at);
        one_group(height, group_steps, fetch, heads, &at, total);
    }
    put_columns(height, t, total);
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
    for (size_t i = 0; i < n; i++) one_step(height, form, PAIRED, at, height <= 2 && i % 2 ? second : sum);
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
    clear_sums(height, sum[0]);
    clear_sums(height, sum[1]);
    if (height <= 2) clear_sums(height, second[0]);
    if (height <= 2) clear_sums(height, second[1]);

    for (int i = 0; i < 2; i++, at[0].prefetch += t->panel_bytes, at[1].prefetch += t->panel_bytes)
        for (size_t n = part[i]; n; n--) {
            one_run(height, form, run, &at[0], sum[0], second[0]);
            one_run(height, form, run, &at[1], sum[1], second[1]);
        }
    for (size_t n = t->n % run; n; n--) {
        one_step(height, form, PAIRED, &at[0], sum[0]);
        one_step(height, form, PAIRED, &at[1], sum[1]);
    }

    if (height <= 2) add_sums(height, sum[0], second[0]);
    if (height <= 2) add_sums(height, sum[1], second[1]);
    if (form == WHOLE_BYTES) part_nibbles(height, sum[0]);
    if (form == WHOLE_BYTES) part_nibbles(height, sum[1]);
    take_off(height, zeros, t, sum[0]);
    take_off(height, zeros, &right, sum[1]);
    put_columns(height, t, sum[0]);
    put_columns(height, &right, sum[1]);
}

PF_INLINE void group_pair(const int height, const size_t group_steps, const int_tile *t)
{
    const int_tile right = next_panel(*t);
    __m512i total[2][GROUP_ROWS][2];
    cursor at[2];
    size_t part[2];
    begin_pair(t, 64, at);
    pair_parts(t, t->n, PF_GEMM_PANEL + 64 * group_steps, part);
    clear_sums(height, total[0]);
    clear_sums(height, total[1]);

    const uint8_t *left = NULL, *right_heads = NULL;
    for (size_t g = 0; g < t->n; g++, left += PF_GEMM_PANEL, right_heads += PF_GEMM_PANEL) {
        if (g == part[0]) at[0].prefetch += t->panel_bytes;
        if (g == part[0]) at[1].prefetch += t->panel_bytes;
        if (g % 2 == 0) left = next_heads(PAIRED, &at[0]);
        if (g % 2 == 0) right_heads = next_heads(PAIRED, &at[1]);
        one_group(height, group_steps, PAIRED, left, &at[0], total[0]);
        one_group(height, group_steps, PAIRED, right_heads, &at[1], total[1]);
    }
    put_columns(height, t, total[0]);
    put_columns(height, &right, total[1]);
}

/* What the nest must know of a format's tiles. */
typedef struct {
    int32_t tile_rows, pair_rows;
    int32_t many_rows;         /* from which on multiplies take as long as the weights from memory */
    int_tile_fn *const *tiles; /* [tile_rows + 1], by height */
    int_tile_fn *const *far;   /* likewise, which fetch into the L2: those of many rows */
    int_tile_fn *const *pairs; /* [pair_rows + 1], by height: of two panels */
} int_family;

/* How many bytes ahead of its use a panel is fetched, where a single tile passes over it. From a fast memory 8 KiB cost 4 to 8
 * rows up to a tenth; from a cache 12 KiB cost nibbles as much, and so do 1 to 4 KiB. */
PF_INLINE size_t weights_ahead(const pf_gemm_weights *w, const pf_gemm_layout *l, int32_t m, bool many, bool pairs)
{
    if (pairs) return l->bits == 8 && m < 5 ? PF_GEMM_W_NEXT : PF_GEMM_W_NEAR;
    if (w->fetch != PF_FETCH_FAR) return pf_gemm_ahead(w, many);
    return w->from_memory && (l->bits == 8 || m > 2) ? 12288 : PF_GEMM_W_AHEAD;
}

/* How a product goes over K. */
typedef enum {
    BY_STEPS,    /* of a column without groups */
    BY_GROUPS,   /* all of them in each tile */
    BY_UNPACKED, /* steps of int8 in the scratch */
} int_way;

PF_INLINE int_way way_of(const pf_gemm_layout *l, int32_t m)
{
    if (!l->in_groups) return BY_STEPS;
    return m <= pf_gemm_vnni_group_rows(l->group) ? BY_GROUPS : BY_UNPACKED;
}

/* Where unit `unit` begins in a panel. */
PF_INLINE size_t unit_at(const pf_gemm_layout *l, const int_way way, size_t unit)
{
    if (way == BY_STEPS) return l->weights_at + unit * l->step_bytes;
    return pf_gemm_heads_at(l, way == BY_GROUPS ? unit : (unit + l->group_steps - 1) / l->group_steps);
}

/* n steps of groups as int8 has them, from a group's first on. */
static void unpack_steps(const pf_gemm_layout *l, const uint8_t *panel, size_t step, size_t n, uint8_t *bytes)
{
    for (size_t g = step / l->group_steps; n; g++) {
        const size_t in_group = n < l->group_steps ? n : l->group_steps;
        const pf_group_head head = pf_group_head_of(panel + pf_gemm_heads_at(l, g), 128);
        const uint8_t *from = panel + pf_gemm_group_at(l, g);
        for (size_t i = 0; i < in_group; i++, bytes += 128) pf_group_bytes(&head, from + 64 * i, bytes);
        n -= in_group;
    }
}

/* How m rows go through a matrix. What is counted are units: steps, or groups. */
typedef struct {
    pf_gemm_layout layout;
    int_way way;
    int32_t n_tiles;
    size_t units, block;           /* of K; those that all tiles pass over before the next ones */
    size_t first_words, row_words; /* of a row's activations: before its units, and in all */
    size_t unit_words;
    bool goes_on, pairs; /* one call for many panels; for two at a time */
    size_t ahead;
    int_tile_fn *const *tiles;
} int_plan;

PF_INLINE int_plan plan_of(const int_family *family, const pf_gemm_weights *w, int32_t m)
{
    int_plan plan = { .layout = pf_gemm_layout_of(w->format, w->k), .n_tiles = pf_gemm_tiles(family->tile_rows, m) };
    const int_way way = plan.way = way_of(&plan.layout, m);
    plan.units = way == BY_GROUPS ? (size_t)plan.layout.n_groups : ((size_t)w->k + 3) / 4;
    plan.unit_words = way == BY_GROUPS ? 3 + plan.layout.group_steps : 1;
    plan.first_words = way == BY_GROUPS ? 1 : 2;
    plan.row_words = plan.first_words + plan.units * plan.unit_words;
    plan.block = way == BY_GROUPS     ? plan.units
                 : way == BY_UNPACKED ? UNPACKED_VALUES / 4
                 : plan.n_tiles == 1  ? MOST_VALUES / 4
                                      : BLOCK_VALUES / 4;
    plan.goes_on = plan.n_tiles == 1 && plan.units <= plan.block && way != BY_UNPACKED;
    plan.pairs = plan.goes_on && pf_gemm_is_near(w) && m <= family->pair_rows;
    const bool many = m >= family->many_rows;
    plan.ahead = weights_ahead(w, &plan.layout, m, many, plan.pairs);
    plan.tiles = pf_gemm_is_into_l2(w, many) ? family->far : family->tiles;
    return plan;
}

PF_INLINE void int_nest(const int_family family, const pf_gemm_weights *w, const void *input, int32_t m,
                        int32_t panel_begin, int32_t panel_end, float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    const int_plan plan = plan_of(&family, w, m);
    const pf_gemm_layout *l = &plan.layout;
    const int32_t n_tiles = plan.n_tiles, whole_end = pf_gemm_whole_end(w, panel_end);
    const size_t shares = (size_t)n_tiles;
    float *rest =
        (float *)scratch + pf_round_up((size_t)m, 16) * PF_GEMM_PANEL; /* results of columns that fill the panel */
    uint8_t *unpacked = (uint8_t *)scratch + pf_gemm_scratch_bytes(m) - PF_GEMM_UNPACKED_BYTES;

    for (int32_t p = panel_begin, n_panels; p < panel_end; p += n_panels) {
        n_panels = plan.goes_on && p < whole_end ? whole_end - p : 1;
        const bool pair = plan.pairs && n_panels > 1;
        if (pair) n_panels -= n_panels % 2;
        const uint8_t *panel = (const uint8_t *)w->panels + (size_t)p * w->panel_bytes;
        const int32_t n_columns = w->n - p * PF_GEMM_PANEL;
        const bool whole = n_columns >= PF_GEMM_PANEL;
        for (size_t unit = 0; unit < plan.units; unit += plan.block) {
            const size_t n = plan.units - unit < plan.block ? plan.units - unit : plan.block;
            const uint8_t *from = panel + unit_at(l, plan.way, unit);
            const size_t bytes = unit_at(l, plan.way, unit + n) - unit_at(l, plan.way, unit);
            if (plan.way == BY_UNPACKED) unpack_steps(l, panel, unit, n, unpacked);
            for (int32_t i = 0; i < n_tiles; i++) {
                const int32_t row = pf_gemm_tile_row(n_tiles, m, i);
                const size_t height = (size_t)(pf_gemm_tile_row(n_tiles, m, i + 1) - row);
                const uint32_t *packed = (const uint32_t *)input + (size_t)row * plan.row_words;
                float *sums = (float *)scratch + (size_t)row * PF_GEMM_PANEL;
                int_tile tile = {
                    .head = panel,
                    .w = plan.way == BY_UNPACKED ? unpacked : from,
                    .a = packed + height * (plan.first_words + unit * plan.unit_words),
                    .starts = packed + height,
                    .row_scale = (const float *)(const void *)packed,
                    .before = unit ? sums : NULL,
                    .sums = sums,
                    .c = whole ? c + (size_t)row * ldc + (size_t)p * PF_GEMM_PANEL : rest + (sums - (float *)scratch),
                    .ldc = whole ? ldc : PF_GEMM_PANEL,
                    .n = n,
                    .n_times = (size_t)(pair ? n_panels / 2 : n_panels),
                    .panel_bytes = w->panel_bytes,
                    .prefetch = (uintptr_t)from + plan.ahead,
                    .step_stride = l->step_bytes,
                    .a_ahead = m > PF_GEMM_A_AHEAD_ROWS ? PF_GEMM_A_AHEAD : 0,
                    .ahead = plan.ahead,
                    .last = unit + n == plan.units,
                    .add = whole && mode == PF_GEMM_ADD,
                };
                if (n_tiles > 1 || plan.way == BY_UNPACKED) {
                    if (tile.last && whole) pf_gemm_prefetch_write(tile.c, ldc, height);
                    tile.prefetch = (uintptr_t)from + bytes + bytes * (size_t)i / shares;
                    tile.step_stride = (l->step_bytes + shares - 1) / shares;
                }
                (pair ? family.pairs : plan.tiles)[height](&tile);
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

/* A kind's tiles, of up to ROWS rows. FAR_ROWS: from LOWEST_TO_ROWS; tiles of MANY rows in all can be as low. */
#define TILES(T, ROWS, PAIRED, MANY, FAR_ROWS)                                                              \
    PF_EACH_##ROWS(DEFINE_TILE, T) PF_EACH_FROM_##FAR_ROWS(DEFINE_FAR, T) PF_EACH_##PAIRED(                 \
        DEFINE_PAIR, T) static int_tile_fn *const T##_tiles[] = { PF_EACH_##ROWS(PF_BY_HEIGHT, T##_tile) }; \
    static int_tile_fn *const T##_far[] = { PF_EACH_FROM_##FAR_ROWS(PF_BY_HEIGHT, T##_far) };               \
    static int_tile_fn *const T##_pairs[] = { PF_EACH_##PAIRED(PF_BY_HEIGHT, T##_pair) };                   \
    static const int_family T##_family = { .tile_rows = ROWS,                                               \
                                           .pair_rows = PAIRED,                                             \
                                           .many_rows = MANY,                                               \
                                           .tiles = T##_tiles,                                              \
                                           .far = T##_far,                                                  \
                                           .pairs = T##_pairs };
_Static_assert(INT8_ROWS == 14 && CHANNEL_ROWS == 12 && GROUP_ROWS == 6 && PAIR_ROWS == 7, "the lines below say so");

#define int8_TILE(height, fetch, t)         channel_tile(height, 8, false, fetch, t)
#define channel_TILE(height, fetch, t)      channel_tile(height, 4, false, fetch, t)
#define asym_channel_TILE(height, fetch, t) channel_tile(height, 4, true, fetch, t)
#define g32_TILE(height, fetch, t)          group_tile(height, 8, fetch, t)
#define g128_TILE(height, fetch, t)         group_tile(height, 32, fetch, t)
#define int8_PAIR(height, t)                channel_pair(height, 8, false, t)
#define channel_PAIR(height, t)             channel_pair(height, 4, false, t)
#define asym_channel_PAIR(height, t)        channel_pair(height, 4, true, t)
#define g32_PAIR(height, t)                 group_pair(height, 8, t)
#define g128_PAIR(height, t)                group_pair(height, 32, t)

TILES(int8, 14, 7, 7, 7_TO_14)
TILES(channel, 12, 7, 4, 4_TO_12)
TILES(asym_channel, 12, 7, 4, 4_TO_12)
TILES(g32, 6, 6, 6, 3_TO_6)
TILES(g128, 6, 6, 4, 3_TO_6)

/* A product of a family, and of the bytes of int8 where nibbles become those. */
#define PRODUCT(NAME, FAMILY)                                                                                          \
    void pf_gemm_##NAME##_int8_avx512vnni(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin, \
                                          int32_t panel_end, float *c, size_t ldc, pf_gemm_mode mode, void *scratch)   \
    {                                                                                                                  \
        int_nest(FAMILY, w, input, m, panel_begin, panel_end, c, ldc, mode, scratch);                                  \
    }

PRODUCT(int8, int8_family)
PRODUCT(int4_channel, channel_family)
PRODUCT(int4_asym_channel, asym_channel_family)
PRODUCT(int4_g32, m <= pf_gemm_vnni_group_rows(32) ? g32_family : int8_family)
PRODUCT(int4_g128, m <= pf_gemm_vnni_group_rows(128) ? g128_family : int8_family)
