/*
 * Causal attention of a sequence's new rows over its keys and values in pages, and the store of new ones.
 *
 *   query row i stands at position p = position + i and sees keys 0 .. p:
 *       s[t] = scale * (q[i, h] . key[t, h / group])        group = n_heads / n_kv_heads
 *       out[i, h] = sum_t softmax(s)[t] * value[t, h / group]
 *
 * Work is cut into items, one for each (key head, query row), in this order:
 *
 *       item = kv_head * n_rows + row                      n_items = n_kv_heads * n_rows
 *
 * A member takes a contiguous range. Query heads that share a key head are folded into one item, and rows that follow
 * each other within a range are taken together, so a key is read once for all of them.
 *
 * Order, the definition (attn_ref.c): it depends on positions alone, never on pages, ranges, chunks or threads.
 *   dot product  element d goes to partial sum d mod 16 by fma in order of d; the 16 are added 8 apart, then 4, 2, 1;
 *                then times scale
 *   softmax      keys in blocks of PF_ATTN_BLOCK positions, cut at its multiples. For each block in order:
 *                    top' = max(top, its scores);  shrink = exp(top - top')
 *                    weight[t] = exp(s[t] - top');  sum = sum * shrink + tree(weights: t mod 16, then 8 4 2 1)
 *                    acc[d] = acc[d] * shrink, then acc[d] = fma(weight[t], value[t, d], acc[d]) for each t in order
 *                out[d] = acc[d] / sum
 *                exp is that of kernels/exp.h
 * So a row's bits are a function of its own q and of the keys and values at 0 .. p; the same on every instruction set.
 * Slots past p are not used, whatever lies there. A NaN, a score of plus infinity, or nothing but minus infinity up to
 * the end of a block: that row and head of out are NaN, others untouched. Denormals are kept.
 * Source: Vaswani et al., arXiv:1706.03762, section 3.2.1; the running maximum: Milakov and Gimelshein,
 * arXiv:1805.02867, section 3.
 */
#ifndef PF_KERNELS_ATTN_H
#define PF_KERNELS_ATTN_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/types.h"

enum { PF_ATTN_BLOCK = 64 }; /* key positions */

/* One layer of one sequence's cache. The key of head h at position t is at element
 * (h * page_tokens + t % page_tokens) * head_dim of key_pages[t / page_tokens]; values as keys. */
typedef struct {
    void *const *key_pages;   /* [n_pages]; pages of any element-aligned address */
    void *const *value_pages; /* [n_pages] */
    int32_t page_tokens;      /* a multiple of 16 */
    int32_t n_kv_heads;
    int32_t head_dim; /* a multiple of nothing */
} pf_attn_pages;

/* Zero what is not named here (designated initialiser): fields may be added. */
typedef struct {
    pf_attn_pages pages;
    const float *q; /* [n_rows, n_heads, head_dim], rows q_stride elements apart */
    size_t q_stride;
    float *out; /* [n_rows, n_heads, head_dim], rows out_stride elements apart; overlaps nothing */
    size_t out_stride;
    int32_t n_rows;
    int32_t n_heads;  /* a multiple of n_kv_heads */
    int32_t position; /* of row 0 */
    float scale;      /* usually 1 / sqrt(head_dim) */
} pf_attn_args;

/* New keys and values, to be stored at positions position .. position + n_rows - 1. */
typedef struct {
    pf_attn_pages pages;
    const float *k, *v; /* [n_rows, n_kv_heads, head_dim], rows `stride` elements apart */
    size_t stride;
    int32_t n_rows;
    int32_t position; /* of row 0 */
} pf_attn_store_args;

/* Attend with items [item_begin, item_end). The keys and values of all rows must be in their pages before: with more
 * than one row a barrier after the store; with one row a member that stores and attends the same items needs none.
 * scratch: this member's own, pf_attn_scratch_bytes, 64-byte aligned. */
typedef void pf_attn_fn(const pf_attn_args *args, int32_t item_begin, int32_t item_end, void *scratch);

/* Store items [item_begin, item_end), numbered likewise. f32 as it is; to bf16 rounded to nearest, ties to even,
 * denormals kept. */
typedef void pf_attn_store_fn(const pf_attn_store_args *args, int32_t item_begin, int32_t item_end);

static inline int32_t pf_attn_items(int32_t n_kv_heads, int32_t n_rows)
{
    return n_kv_heads * n_rows;
}

/* Bytes of one member's scratch, whatever the rows, the heads, the context and the implementation. */
size_t pf_attn_scratch_bytes(int32_t head_dim);

#endif
