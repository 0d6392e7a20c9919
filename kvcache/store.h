/*
 * The contract of a store: what a group of layers keeps of the tokens of each sequence.
 *
 * Attention keeps keys and values in pages (page_store.h). A recurrent layer keeps a state and what the last tokens changed in it
 * (docs/design.md, "Layers that keep a state"). A cache (kvcache.h) is a list of stores: it owns handles and lengths, checks every
 * argument, and calls all of its stores alike.
 *
 * A sequence is a place, 0 <= place < max_sequences. `length` is the number of its tokens before the call.
 *
 * Invariant of every store: what it keeps of positions below a length that was reached by truncate, keep or fork is, bit for bit,
 * what it would keep had the sequence never had others.
 *
 * Threads: one thread at a time calls what is not const. No call but destroy allocates or frees.
 */
#ifndef PF_KVCACHE_STORE_H
#define PF_KVCACHE_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct {
    /* The place begins a sequence of length 0; or the child one of the first `length` tokens of the parent, which has them
     * (reachable). */
    void (*begin)(void *state, int32_t place);
    void (*fork)(void *state, int32_t parent, int32_t child, int32_t length);

    /* Room for n_tokens more, which the layers then write. PF_LIMIT: there is none; nothing has changed. */
    pf_status (*extend)(void *state, int32_t place, int32_t length, int32_t n_tokens);

    /* The greatest length, `wanted` at most, that the sequence can be cut to exactly. 0 is always one. */
    int32_t (*reachable)(const void *state, int32_t place, int32_t length, int32_t wanted);

    /* Drops the tokens from `to` on, which is reachable. */
    void (*truncate)(void *state, int32_t place, int32_t length, int32_t to);

    /* Keeps the rows, ascending, of those behind `base`, which is reachable, as positions base, base + 1, ...; the first n_stay
     * stand where they are. can_keep has no effect. PF_LIMIT: keep would need memory that is not free.  PF_INVALID: the store no
     * longer tells the rows apart; it does those of the last extend. keep follows a can_keep that gave PF_OK. */
    pf_status (*can_keep)(const void *state, int32_t place, int32_t base, const int32_t *rows, int32_t n_rows,
                          int32_t n_stay);
    void (*keep)(void *state, int32_t place, int32_t length, int32_t base, const int32_t *rows, int32_t n_rows,
                 int32_t n_stay);

    /* What one sequence of so many tokens takes. SIZE_MAX: more than can be addressed. */
    size_t (*bytes)(const void *state, int32_t n_tokens);

    void (*destroy)(void *state);
} pf_store_ops;

typedef struct {
    const pf_store_ops *ops;
    void *state;
} pf_store;

#endif
