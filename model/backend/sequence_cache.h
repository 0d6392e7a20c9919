/*
 * Keeps the cache sequences of a peer: those of its open slots, and those of closed ones, so that a new sequence is not read again
 * where it begins like another; and makes room when the cache is full.
 *
 *      open(slot) -> sequence, length, cut, keep, run -> close(slot)
 *                                                           |  retained, until its place or its pages are needed
 *      open(slot) <- taken over, or forked from ------------+
 *
 * - An open takes the longest prefix that the slot, another open sequence or a retained one has of its tokens. A retained sequence that
 *   is all prefix is taken over; of any other the prefix is forked (copy on write), exact to the token. Of other sequences less than
 *   PF_PREFIX_BLOCK tokens are not taken.
 * - Hashes choose a sequence, the tokens themselves decide how much of it is the same.
 * - What layers that keep a state cannot go back to (pf_forward_reachable) is not taken.
 * - Places and pages go to open sequences first. A retained sequence has a place that no open one needs. Where a pass finds the cache
 *   full, forks are dropped, then retained sequences, the least recently used first, then the open one that has been idle longest loses
 *   what the cache holds of it; its owner has the tokens and reads them again.
 * - A fork of an open slot (backend.limits.max_forks) belongs to the caller, which extends it, and lets the slot adopt it or releases it.
 *
 * A slot's tokens are its owner's array, which at every call has those that the cache holds of the slot.
 * Rows do not depend on the pass that computed them (DESIGN, invariant 2), so what is reused is bit for bit what would be computed.
 *
 * Memory from an arena; nothing is allocated later. Threads: the backend's.
 */
#ifndef PF_MODEL_SEQUENCE_CACHE_H
#define PF_MODEL_SEQUENCE_CACHE_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/model_figures.h"
#include "model/backend/forward_backend.h"
#include "model/backend/prefix_index.h"
#include "model/backend/simulated_pass.h"

typedef struct {
    pf_forward_backend backend;
    int32_t n_slots;   /* places, at most the backend's: of open sequences and retained ones together */
    bool forgets;      /* nothing is retained, and nothing taken but what a slot has itself */
    pf_stop *stop;     /* as in pf_simulated_pass */
    uint64_t least_ns; /* of a pass, and ... */
    int32_t rows;      /* ... likewise */

    /* How long an open slot has been idle; 0: it may not be evicted. */
    uint64_t (*idle_ns)(const void *user, int32_t slot);
    const void *user;

    /* Release forks whose pages a pass needs more; false: there were none. NULL: there never are. */
    bool (*drop_forks)(void *owner);
    void *owner;
} pf_sequence_cache_config;

/* Since creation. */
typedef struct {
    uint64_t n_opened, n_reusing;              /* sequences; those that began with tokens in the cache */
    uint64_t n_tokens, n_reused;               /* tokens of their prompts; those that were in the cache */
    uint64_t n_passes, n_rows;                 /* passes, and the rows that they have computed */
    uint64_t n_retained, n_dropped, n_evicted; /* closed ones kept; of these dropped for room; open ones evicted */
} pf_sequence_cache_counts;

/* One sequence of the backend. Written by sequence_cache.c. */
typedef struct {
    int32_t slot; /* -1: retained; -2: there is none */
    int64_t sequence;
    const int32_t *tokens; /* that the backend holds: the slot's, or the copy */
    int32_t *copy;         /* [max_tokens] of a retained one */
    pf_prefix_blocks blocks;
    uint64_t used; /* the higher, the later */
} pf_cached_sequence;

typedef struct {
    pf_sequence_cache_config config; /* by the owner */
    pf_simulated_pass simulated;
    pf_cached_sequence *places; /* [n_slots] */
    int32_t *place_of;          /* [n_slots] by slot; -1: it is not open */
    pf_prefix_blocks wanted;    /* of the prompt that is opened */
    uint64_t n_used;
    pf_sequence_cache_counts counts;
} pf_sequence_cache;

/* A cache whose config is filled in: the rest of it, from the arena (or its measure). */
void pf_sequence_cache_lay_out(pf_sequence_cache *cache, pf_arena *arena);

/* Releases what is retained. A cache that was not laid out is fine. */
void pf_sequence_cache_end(pf_sequence_cache *cache);

/* Open a slot for tokens [n], or open it again. held: the slot's array, which has its old tokens where it is open, and is to have the
 * new ones before the next call. PF_LIMIT: no room; the slot is then not open. */
PF_MUST_USE pf_status pf_sequence_cache_open(pf_sequence_cache *cache, int32_t slot, const int32_t *held,
                                             const int32_t *tokens, int32_t n);

/* Where the slot is open: end it, and retain what it had. */
void pf_sequence_cache_close(pf_sequence_cache *cache, int32_t slot);

/* Of an open slot: the sequence of the backend, and its length. */
int64_t pf_sequence_cache_of(const pf_sequence_cache *cache, int32_t slot);
int32_t pf_sequence_cache_length(const pf_sequence_cache *cache, int32_t slot);

/* Cut an open slot to the greatest reachable length that is at most `length`. PF_INVALID: length is negative or exceeds it. */
PF_MUST_USE pf_status pf_sequence_cache_cut(pf_sequence_cache *cache, int32_t slot, int32_t length);

/* pf_forward_keep. A failure empties the slot's sequence: which tokens its rows are of is no longer known. */
PF_MUST_USE pf_status pf_sequence_cache_keep(pf_sequence_cache *cache, int32_t slot, int32_t length,
                                             const int32_t *rows, int32_t n_rows);

/* What the cache's passes have computed, and the pages of the backend. */
pf_model_figures pf_sequence_cache_figures(const pf_sequence_cache *cache);

/* A fork of the first `length` tokens of an open slot. The caller releases it (pf_forward_release), or lets a slot adopt it. PF_LIMIT:
 * no room.  PF_INVALID: length is negative, exceeds the slot's, or is not reachable. */
PF_MUST_USE pf_status pf_sequence_cache_fork(const pf_sequence_cache *cache, int32_t slot, int32_t length,
                                             int64_t *out);

/* The fork, whose first n_shared tokens are those of the slot, becomes the slot's sequence; the one it had is released. */
void pf_sequence_cache_adopt(pf_sequence_cache *cache, int32_t slot, int64_t fork, int32_t n_shared);

/* pf_forward_run, without making room. */
PF_MUST_USE pf_status pf_sequence_cache_try(pf_sequence_cache *cache, const pf_span *spans, int32_t n_spans);

/* pf_forward_run, with as much room as can be made. */
PF_MUST_USE pf_status pf_sequence_cache_run(pf_sequence_cache *cache, const pf_span *spans, int32_t n_spans);

#endif
