/*
 * Causal attention of a sequence's new rows over its keys and values in pages, and the store of new ones.
 *
 *   query row i stands at position p = position + i and sees keys first .. p:
 *       first = 0, or max(0, p - window + 1)                a window counts the row's own key
 *       s[t] = (scale * q[i, h]) . key[t, h / group]        group = n_heads / n_kv_heads
 *       s[t] = softcap * tanh(s[t] / softcap)               if there is a soft cap
 *       s[t] = s[t] + slopes[h] * (t - p)                   if there are slopes (ALiBi)
 *       out[i, h] = sum_t softmax(s)[t] * value[t, h / group]
 *   with a sink exp(sinks[h]) is added to the sum by which the softmax divides: a score of no key, which has no value
 *
 * A page holds n_kv_heads heads one after the other, of page_tokens positions each, laid out as the products read them:
 * a score is a sum along a column of sixteen keys, an output one along a column of values. In 32-bit words:
 *
 *       keys     f32    [position / 16][d]               [ p0 | p1 | ... | p15 ]
 *                bf16   [position / 16][ceil(d / 2)]     [ p0: d d+1 | p1: d d+1 | ... | p15 ]
 *       values   f32    [position]                       [ d0 | d1 | ... ]
 *                bf16   [position / 2]                   [ d0: p p+1 | d1: p p+1 | ... ]
 *
 * An odd head_dim is padded to even in bf16: with zeros in keys, with nothing in values. Sixteen keys, or the values of
 * 32 positions, of 32 or 16 elements each, are the right side of a tile product as they lie.
 *
 * Work is cut into items, one for each (key head, query row), in this order:
 *
 *       item = kv_head * n_rows + row                      n_items = n_kv_heads * n_rows
 *
 * A member takes a contiguous range. Query heads that share a key head are folded into one item, and rows that follow
 * each other within a range are taken together, so a key is read once for all of them.
 *
 * Where members are more than items and keys are many, the keys of an item are shared, too, by segments, and the work has two
 * steps (pf_attn_step): the parts that segments give, of all rows of a key head, and then items joined of their parts.
 *
 *       unit = kv_head * n_segments + segment - first      n_units = n_kv_heads * n_segments
 *
 * Segments below every row's window have no units: `first` is pf_attn_first_segment, n_segments pf_attn_segments. A segment
 * without a key that a row sees has no part of that row, and none is joined.
 *
 * Order, the definition (attn_ref.c): it depends on positions alone, never on pages, ranges, chunks or threads.
 *   query        f32    q' = scale * q
 *                bf16   q' = scale * log2(e) * q, the scale's product first, rounded to bf16 (to nearest, ties to even)
 *   score        f32    c = 0; for each d in order:             c = fma(q'[d], key[d], c)
 *                bf16   c = 0; for each pair d, d+1 in order:   c = fma(q'[d], key[d], fma(q'[d+1], key[d+1], c))
 *                unit: 1 in f32, log2(e) in bf16, the unit of scores; it multiplies softcap, slopes and sinks, rounded to f32
 *                soft cap: cap = unit * softcap, by = 1 / cap, each rounded;     c = cap * pf_tanh(c * by)
 *                slopes: slope = unit * slopes[h], rounded;                      c = fma(slope, t - p, c)
 *   softmax      keys in segments of PF_ATTN_SEGMENT positions, cut at its multiples, each by itself: top from minus infinity,
 *                sums and acc from 0. In it keys in blocks of PF_ATTN_BLOCK positions, likewise. Segments and blocks without a key
 *                that the row sees are left out. For each other block in order, t being those that the row sees:
 *                    top' = max(top, its scores);  rescale = exp(top - top')
 *                    weight[t] = exp(s[t] - top'), in bf16 rounded to bf16
 *                    sixteen sums: sum[i] = sum[i] * rescale, then weight[t] is added, in order of t, to the sum
 *                    t mod 16 (f32), or weight[t+1] and then weight[t] to the sum t / 2 mod 16 (bf16)
 *                    acc[d] = acc[d] * rescale, then for each t, or pair t, t+1, in order:
 *                        f32    acc[d] = fma(weight[t], value[t, d], acc[d])
 *                        bf16   acc[d] = fma(weight[t], value[t, d], fma(weight[t+1], value[t+1, d], acc[d]))
 *                    where one of a pair is not seen its weight and value count as 0
 *                The amx class, bf16 by TDPBF16PS, sums apart what is even and what is odd, in scores of 32 elements and in
 *                blocks of 32 positions: even = fma(.., even), odd = fma(.., odd), both from 0, then c = c + (even + odd).
 *                A block's c begins at 0, and acc[d] = fma(acc[d], rescale, c).
 *                At its end sum = the sixteen, added 8 apart, then 4, 2, 1.
 *   joined       what the first segment gives, and then each in order:
 *                    top' = max(top, its top);  a = exp(top - top'), b = exp(its top - top')
 *                    sum = fma(its sum, b, sum * a);  acc[d] = fma(its acc[d], b, acc[d] * a)
 *   sink         sink = unit * sinks[h], rounded; after the last segment:
 *                    top' = max(top, sink);  a = exp(top - top'), b = exp(sink - top')
 *                    sum = fma(sum, a, b);  acc[d] = acc[d] * a
 *                out[d] = acc[d] / sum
 *                exp is pf_exp in f32, pf_exp2_coarse in bf16 (kernels/vec/exp.h), pf_tanh in both that of kernels/vec/tanh.h
 * So a row's bits are a function of its own q and of the keys and values at first .. p. In f32 they are the same on every
 * instruction set; in bf16 too, the amx class apart, as long as no number on the way is denormal: with VDPBF16PS rounding
 * to bf16 and the products read denormals as zero and give none, the others keep them.
 * Draft trees (parents): row i is stored at position + i all the same, but stands right behind its parent, and its keys
 * from position on are those of the rows on its path, in the path's order. Nothing else differs, so a row's bits are
 * those of the chain of the same tokens, wherever its ancestors lie.
 *
 * Slots past p, below first, or off the path, are not used, whatever lies there. Pages in which no row sees a key may be NULL.
 * A NaN, a score of plus infinity, or nothing but minus infinity from the row's first key in a segment to the end of a
 * block: that row and head of out are NaN, others untouched. A soft cap makes an infinite score finite.
 * Source: Vaswani et al., arXiv:1706.03762, section 3.2.1; the running maximum: Milakov and Gimelshein,
 * arXiv:1805.02867, section 3; parts of the keys: Dao et al., Flash-Decoding for long-context inference, 2023; windows:
 * Beltagy et al., arXiv:2004.05150, section 3.1; soft caps: Gemma 2, arXiv:2408.00118, section 2; slopes: Press et al.,
 * arXiv:2108.12409, section 3; sinks: gpt-oss, arXiv:2508.10925, section 2.2.
 */
#ifndef PF_KERNELS_ATTN_H
#define PF_KERNELS_ATTN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/checked.h"
#include "kernels/types.h"

enum {
    PF_ATTN_SEGMENT = 1024, /* key positions that are gathered by themselves */
    PF_ATTN_BLOCK = 64,     /* key positions of a softmax step */
    PF_ATTN_SIXTEEN = 16,   /* key positions side by side in a page */
};

/* What a call computes. */
typedef enum {
    PF_ATTN_WHOLE, /* items */
    PF_ATTN_PART,  /* units, to args.parts */
    PF_ATTN_JOIN,  /* items, from args.parts: of all segments, behind a barrier */
} pf_attn_step;

/* One layer of one sequence's cache. Position t is in page t / page_tokens. */
typedef struct {
    void *const *key_pages;   /* [n_pages]; pages of any element-aligned address */
    void *const *value_pages; /* [n_pages] */
    int32_t page_tokens;      /* a multiple of 16 */
    int32_t n_kv_heads;
    int32_t head_dim; /* a multiple of nothing */
} pf_attn_pages;

/* Elements that each position of a head takes in a page. */
static inline size_t pf_attn_width(pf_type type, int32_t head_dim)
{
    return type == PF_TYPE_F32 ? (size_t)head_dim : ((size_t)head_dim + 1) / 2 * 2;
}

/* Where in a page the elements of `head` lie: 0 <= slot < page_tokens, 0 <= d < pf_attn_width. */
static inline size_t pf_attn_key_at(const pf_attn_pages *pages, pf_type type, int32_t head, int32_t slot, int32_t d)
{
    const size_t width = pf_attn_width(type, pages->head_dim), pair = type == PF_TYPE_F32 ? 1 : 2;
    const size_t sixteen =
        (size_t)head * (size_t)pages->page_tokens + (size_t)(slot / PF_ATTN_SIXTEEN * PF_ATTN_SIXTEEN);
    const size_t word = (size_t)d / pair * PF_ATTN_SIXTEEN + (size_t)(slot % PF_ATTN_SIXTEEN);
    return sixteen * width + word * pair + (size_t)d % pair;
}
static inline size_t pf_attn_value_at(const pf_attn_pages *pages, pf_type type, int32_t head, int32_t slot, int32_t d)
{
    const size_t width = pf_attn_width(type, pages->head_dim), pair = type == PF_TYPE_F32 ? 1 : 2;
    const size_t row = (size_t)head * (size_t)pages->page_tokens + (size_t)slot / pair * pair;
    return row * width + (size_t)d * pair + (size_t)slot % pair;
}

/* Copy the key, or the value, that a head has at one slot to another, of this page or of any with the same type and
 * head_dim. `to` and `from` are where its element 0 lies. A key's padding goes with it. */
static inline void pf_attn_copy_key(pf_type type, int32_t head_dim, void *to, const void *from)
{
    const size_t n_words = pf_attn_width(type, head_dim) * pf_type_bytes(type) / 4;
    for (size_t word = 0; word < n_words * PF_ATTN_SIXTEEN; word += PF_ATTN_SIXTEEN)
        memcpy((char *)to + word * 4, (const char *)from + word * 4, 4);
}
static inline void pf_attn_copy_value(pf_type type, int32_t head_dim, void *to, const void *from)
{
    if (type == PF_TYPE_F32)
        memcpy(to, from, (size_t)head_dim * sizeof(float));
    else
        for (size_t d = 0; d < (size_t)head_dim; d++) ((uint16_t *)to)[2 * d] = ((const uint16_t *)from)[2 * d];
}

/* Zero what is not named here (designated initialiser): fields may be added. */
typedef struct {
    pf_attn_pages pages;
    const float *q; /* [n_rows, n_heads, head_dim], rows q_stride elements apart */
    size_t q_stride;
    float *out; /* [n_rows, n_heads, head_dim], rows out_stride elements apart; overlaps nothing */
    size_t out_stride;
    int32_t n_rows;
    int32_t n_heads;        /* a multiple of n_kv_heads */
    int32_t position;       /* of row 0 */
    float scale;            /* usually 1 / sqrt(head_dim) */
    const int32_t *parents; /* [n_rows] the row that each one follows, before it; -1: the context. NULL: a chain */
    pf_attn_step step;
    float *parts;        /* [n_units, lines of a key head, pf_attn_part_floats], 64-byte aligned; but for WHOLE */
    int32_t window;      /* keys that a row sees, its own included; 0: all */
    float softcap;       /* above 0; 0: none */
    const float *slopes; /* [n_heads] of ALiBi; positions below 2^24. NULL: none */
    const float *sinks;  /* [n_heads] a learnt score of no key. NULL: none */
} pf_attn_args;

/* Where a row stands. */
static inline int32_t pf_attn_position(const pf_attn_args *args, int32_t row)
{
    if (args->parents == NULL) return args->position + row;
    int32_t depth = 0;
    while ((row = args->parents[row]) >= 0) depth++;
    return args->position + depth;
}

/* The first key that a row at a position sees. */
static inline int32_t pf_attn_first_key(const pf_attn_args *args, int32_t position)
{
    const int32_t outside = position - args->window + 1;
    return args->window > 0 && outside > 0 ? outside : 0;
}

/* Segments in which some row may see a key: the first one, and how many there are. */
static inline int32_t pf_attn_first_segment(const pf_attn_args *args)
{
    return pf_attn_first_key(args, args->position) / PF_ATTN_SEGMENT;
}
static inline int32_t pf_attn_segments(const pf_attn_args *args)
{
    return (args->position + args->n_rows - 1) / PF_ATTN_SEGMENT + 1 - pf_attn_first_segment(args);
}

/* What a segment gives for a line, a row and head: acc [head_dim rounded up to 16], top, sum, and 14 that fill its line up. */
static inline size_t pf_attn_part_floats(int32_t head_dim)
{
    return pf_round_up((size_t)head_dim, PF_ATTN_SIXTEEN) + PF_ATTN_SIXTEEN;
}
static inline float *pf_attn_part(const pf_attn_args *args, int32_t kv_head, int32_t segment, int32_t line)
{
    const size_t lines = (size_t)args->n_rows * (size_t)(args->n_heads / args->pages.n_kv_heads);
    const size_t unit =
        (size_t)kv_head * (size_t)pf_attn_segments(args) + (size_t)(segment - pf_attn_first_segment(args));
    return args->parts + (unit * lines + (size_t)line) * pf_attn_part_floats(args->pages.head_dim);
}

/* New keys and values, to be stored at positions position .. position + n_rows - 1. */
typedef struct {
    pf_attn_pages pages;
    const float *k, *v; /* [n_rows, n_kv_heads, head_dim], rows `stride` elements apart */
    size_t stride;
    int32_t n_rows;
    int32_t position; /* of row 0 */
} pf_attn_store_args;

/* Attend with items [item_begin, item_end), or with units where args->step is PF_ATTN_PART. The keys and values of all rows
 * must be in their pages before: with more than one row a barrier after the store; with one row a member that stores and
 * attends the same items needs none.
 * scratch: this member's own, pf_attn_scratch_bytes, 64-byte aligned. */
typedef void pf_attn_fn(const pf_attn_args *args, int32_t item_begin, int32_t item_end, void *scratch);

/* Store items [item_begin, item_end), numbered likewise. f32 as it is; to bf16 rounded to nearest, ties to even,
 * denormals kept. Nothing but the elements of these items, and the padding of their keys, is read or written, so
 * members may store neighbouring positions at the same time. */
typedef void pf_attn_store_fn(const pf_attn_store_args *args, int32_t item_begin, int32_t item_end);

static inline int32_t pf_attn_items(int32_t n_kv_heads, int32_t n_rows)
{
    return n_kv_heads * n_rows;
}

/* Bytes of one member's scratch, whatever the rows, the heads, the context and the implementation. */
size_t pf_attn_scratch_bytes(int32_t head_dim);

#endif
