/*
 * Keeps what the layers of a model need of many token sequences, with exact rollback.
 *
 * A cache is a list of stores (store.h). The first keeps the keys and values of the attention layers in pages (page_store.h);
 * layers that keep a state bring stores of their own. Every operation acts on all of them, or on none.
 *
 *   sequence 7, length 37, pages of 16 positions
 *
 *      page table        page pool (one allocation, made at creation)
 *      +----+            +--------------------------------------------+
 *      |  4 |----------->| page 4: positions  0..15   refs 2          |  shared with sequence 9,
 *      |  0 |----------->| page 0: positions 16..31   refs 2          |  which was forked from 7
 *      |  9 |----------->| page 9: positions 32..36   refs 1  | free  |
 *      +----+            +--------------------------------------------+
 *
 *   inside a page, for each layer:  keys    [n_kv_heads] { page_tokens positions }
 *                                   values  [n_kv_heads] { page_tokens positions }     in the order of kernels/attn/attn.h
 *
 * One invariant: positions below a sequence's length do not change until pf_kv_truncate, pf_kv_keep or pf_kv_release.
 * Fork shares pages, and copies the last, partly filled one when either side extends into it, so a fork costs a page
 * table and at most one page.
 *
 * Rollback is exact: after pf_kv_truncate(seq, n) a forward pass gives the bits that it would have given had the
 * sequence never gone past n. In debug builds freed slots are filled with NaN, so that a stray read shows.
 *
 * Memory is fixed at creation: the pool, the page tables, the free list. Nothing is allocated later.
 * Threads: one thread at a time mutates a cache; any number may read views, and write the slots that an extend
 * has just made, between mutations.
 */
#ifndef PF_KVCACHE_KVCACHE_H
#define PF_KVCACHE_KVCACHE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/team.h"
#include "kernels/types.h"
#include "kvcache/store.h"

typedef struct pf_kv pf_kv;

enum { PF_KV_MAX_STORES = 3 };

typedef struct {
    pf_type type;     /* PF_TYPE_F32 or PF_TYPE_BF16 */
    int32_t n_layers; /* of attention */
    int32_t n_kv_heads;
    int32_t head_dim;      /* elements */
    int32_t page_tokens;   /* positions in a page; a power of two, 16 to 1024 */
    int32_t max_sequences; /* alive at once */
    int32_t max_tokens;    /* the longest sequence: sizes the page tables */
    size_t budget_bytes;   /* for the page pool; rounded down to whole pages */

    /* [n_stores] of layers that keep something else, each made for max_sequences places; the cache owns them once it is made. */
    const pf_store *stores;
    int32_t n_stores; /* 0 to PF_KV_MAX_STORES */
} pf_kv_config;

/* Handle of a sequence: a slot and a generation, so that a released handle is recognised. Never negative. */
typedef int64_t pf_kv_seq;

/* Where one layer's keys and values of a sequence lie. Borrowed: valid until the next mutation of the cache.
 * Position t is in page t / page_tokens; pf_attn_key_at and pf_attn_value_at say where in it. */
typedef struct {
    void *const *key_pages;   /* [n_pages] */
    void *const *value_pages; /* [n_pages] */
    int32_t length;           /* positions, those of the last extend included */
} pf_kv_view;

/* Bytes that one page takes, all layers, keys and values. 0: the configuration is not valid. */
size_t pf_kv_page_bytes(const pf_kv_config *config);

/* Makes a cache. The caller owns it and ends it with pf_kv_destroy.
 * PF_INVALID: a field is out of range, or the budget holds no page (the sentence says which).
 * PF_NOMEM: the budget cannot be allocated. */
PF_MUST_USE pf_status pf_kv_create(const pf_kv_config *config, pf_kv **out, pf_error *error);
void pf_kv_destroy(pf_kv *kv); /* NULL is fine */

/* Touches the memory of the first page, which a first prompt uses, by the threads of `team` (pf_arena_populate). */
void pf_kv_populate(const pf_kv *kv, pf_team *team);

/* Starts an empty sequence, or one that shares the first `length` positions of another.
 * PF_LIMIT: max_sequences are alive; nothing has changed.
 * PF_INVALID (fork): no such parent, or length is negative, exceeds the parent's, or is not reachable. */
PF_MUST_USE pf_status pf_kv_acquire(pf_kv *kv, pf_kv_seq *out);
PF_MUST_USE pf_status pf_kv_fork(pf_kv *kv, pf_kv_seq parent, int32_t length, pf_kv_seq *out);

/* Adds room for `n_tokens` positions; the caller then writes their keys and values, layer by layer.
 * All or nothing. PF_LIMIT: the pool has too few pages, or max_tokens would be exceeded; the sequence is as before.
 * PF_INVALID: no such sequence, or n_tokens is negative. */
PF_MUST_USE pf_status pf_kv_extend(pf_kv *kv, pf_kv_seq seq, int32_t n_tokens);

/* The greatest length, `wanted` at most, that the sequence can be cut to: `wanted` itself where all layers are attention; where
 * some keep a state perhaps less, and the tokens between must be computed again. -1: no such sequence. */
int32_t pf_kv_reachable(const pf_kv *kv, pf_kv_seq seq, int32_t wanted);

/* Drops the positions from `length` on. The cost is that of the pages that become free.
 * PF_INVALID: no such sequence, or length is negative, exceeds the sequence's, or is not reachable. */
PF_MUST_USE pf_status pf_kv_truncate(pf_kv *kv, pf_kv_seq seq, int32_t length);

/* Keeps the named rows of those at positions length, length + 1, ..., as positions length, length + 1, ..., and drops the
 * others. Rows count from 0 and ascend. A path of a tree so becomes the sequence, as if only the path had been appended.
 * The cost is a copy of each position that moves, and of each shared page within which positions move.
 * PF_INVALID: no such sequence, or length is as truncate refuses it, or no such row, or rows do not ascend.
 * PF_LIMIT: the pool has too few pages for the copies; the sequence is as before. */
PF_MUST_USE pf_status pf_kv_keep(pf_kv *kv, pf_kv_seq seq, int32_t length, const int32_t *rows, int32_t n_rows);

/* Ends a sequence. A handle that is not alive is ignored. */
void pf_kv_release(pf_kv *kv, pf_kv_seq seq);

/* Positions of a live sequence; -1 when the handle is not alive. */
int32_t pf_kv_length(const pf_kv *kv, pf_kv_seq seq);

/* What a sequence of so many tokens takes in all stores. SIZE_MAX: more than can be addressed. */
size_t pf_kv_sequence_bytes(const pf_kv *kv, int32_t n_tokens);

/* The view of one layer of attention; `seq` must be alive and 0 <= layer < n_layers (asserted). */
pf_kv_view pf_kv_layer(const pf_kv *kv, pf_kv_seq seq, int32_t layer);

/* The place of a live sequence in every store (asserted). */
int32_t pf_kv_place(const pf_kv *kv, pf_kv_seq seq);

const pf_kv_config *pf_kv_get_config(const pf_kv *kv);
size_t pf_kv_free_pages(const pf_kv *kv);
size_t pf_kv_pages(const pf_kv *kv); /* of the pool, free ones too */

#endif
