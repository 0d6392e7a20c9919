/*
 * The interface to run forward passes: a cache of sequences, and passes that extend it and compute logits.
 *
 * A model drafter and a verifier compute through it alone. The CPU context (model/backend/cpu_backend.h) is the first
 * implementation; a GPU, or a machine across a network, would be others.
 *
 *      sequence    acquire -> run, truncate, keep, fork -> release      the cache holds `length` tokens of it
 *      pass        run(spans) -> logits, best, find_invalid(row), draw  rows of all spans, in their order
 *
 * A row's logits are bit-identical whatever the other rows of the pass and the chunking of the prompt. A pass is all or
 * nothing: after a failure every sequence is as before, but where a device is lost after the pass was queued.
 *
 * The struct is copied freely; what `state` points to must outlive the copies. Threads: one caller at a time. No call
 * allocates.
 */
#ifndef PF_MODEL_FORWARD_BACKEND_H
#define PF_MODEL_FORWARD_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/stop.h"
#include "base/team.h"
#include "kernels/kernels.h"
#include "model/backend/row_draw.h"
#include "model/forward/span.h"

typedef struct {
    int32_t max_tokens;     /* longest sequence */
    int32_t max_sequences;  /* acquired at once */
    int32_t max_forks;      /* short forks of them besides */
    int32_t max_rows;       /* rows of one pass */
    int32_t max_logit_rows; /* rows of one pass that have logits */
    int32_t n_vocab;        /* logits of a row: rows of the embedding */
    bool takes_mask;        /* id n_vocab may be fed, which no row has: the mask of a draft (draft/parallel.h) */
    int32_t n_threads;      /* members that share() may run on, at most */
} pf_forward_limits;

typedef struct {
    /* A new sequence of length 0; or one that has the first `length` tokens of another. PF_LIMIT: no room. */
    pf_status (*acquire)(void *state, int64_t *out);
    pf_status (*fork)(void *state, int64_t sequence, int32_t length, int64_t *out);
    void (*release)(void *state, int64_t sequence);

    int32_t (*length)(const void *state, int64_t sequence);

    /* The greatest length, `wanted` at most, that truncate, keep and fork can go back to; less than wanted where layers keep a
     * state (kvcache/kvcache.h). */
    int32_t (*reachable)(const void *state, int64_t sequence, int32_t wanted);

    /* Drop all from position `length` on. PF_INVALID: the sequence is shorter, not acquired, or not reachable there. */
    pf_status (*truncate)(void *state, int64_t sequence, int32_t length);

    /* Of the rows behind position `length` keep these, ascending offsets from it, and move them together: the path of a
     * tree. PF_INVALID as truncate. */
    pf_status (*keep)(void *state, int64_t sequence, int32_t length, const int32_t *rows, int32_t n_rows);

    /* One pass: extend each sequence by its span's tokens and compute the logits that are asked for. A device may still compute
     * when the call returns: the calls that read a row or draw wait for it.
     * PF_INVALID: a span is malformed or beyond the limits.  PF_LIMIT: the cache is full.  PF_CANCELLED: by the stop.
     * PF_UNAVAILABLE: the device failed, in this pass or in one before; where it is lost, every later pass ends so. */
    pf_status (*run)(void *state, const pf_span *spans, int32_t n_spans);

    /* Row i of the last pass's logits, [n_vocab], borrowed until the next pass; the caller may overwrite it. Not where all
     * spans asked for the best token only. A device copies them here; where that fails they are NaN. */
    float *(*logits)(void *state, int32_t row);

    /* The token below best_of with the largest logit, the first of equals; -1: all are NaN, or the device failed. */
    int32_t (*best)(const void *state, int32_t row, int32_t best_of);

    /* The lowest token below n whose logit in the row is NaN or plus infinity; -1: none. Where all spans asked for the best
     * token only, n is what they asked for. */
    int32_t (*find_invalid)(const void *state, int32_t row, int32_t n);

    /* Of rows 0 .. n - 1 of the last pass: draws [n] to out [n]. NULL: the backend has none, and the caller draws from logits. A
     * backend that has it gives the same tokens, but for the order of sums in double. PF_UNAVAILABLE: the device failed, in the
     * pass or in the draws; also where no row asks for one. */
    pf_status (*draw)(void *state, const pf_draw *draws, int32_t n, pf_drawn *out);

    /* Why the last pass or draw failed with PF_UNAVAILABLE: a sentence, borrowed until the next. NULL: it never does. */
    const char *(*refusal)(const void *state);

    /* Run fn(member, arg) on the threads of the last pass: for work on its logits. */
    void (*share)(void *state, pf_team_fn *fn, void *arg);

    /* From here on a pass ends with PF_CANCELLED when it is time to stop; borrowed. NULL: never. */
    void (*set_stop)(void *state, pf_stop *stop);

    /* Pages of the cache, and those in use. NULL: not known. */
    void (*pages)(const void *state, int64_t *n_pages, int64_t *n_used);
} pf_forward_ops;

typedef struct {
    const pf_forward_ops *ops;
    void *state;
    pf_forward_limits limits;
    const pf_kernels *kernels; /* of this CPU, for arithmetic on logits */
} pf_forward_backend;

static inline PF_MUST_USE pf_status pf_forward_acquire(const pf_forward_backend *b, int64_t *out)
{
    return b->ops->acquire(b->state, out);
}

static inline PF_MUST_USE pf_status pf_forward_fork(const pf_forward_backend *b, int64_t sequence, int32_t length,
                                                    int64_t *out)
{
    return b->ops->fork(b->state, sequence, length, out);
}

static inline void pf_forward_release(const pf_forward_backend *b, int64_t sequence)
{
    b->ops->release(b->state, sequence);
}

static inline int32_t pf_forward_length(const pf_forward_backend *b, int64_t sequence)
{
    return b->ops->length(b->state, sequence);
}

static inline int32_t pf_forward_reachable(const pf_forward_backend *b, int64_t sequence, int32_t wanted)
{
    return b->ops->reachable(b->state, sequence, wanted);
}

static inline PF_MUST_USE pf_status pf_forward_truncate(const pf_forward_backend *b, int64_t sequence, int32_t length)
{
    return b->ops->truncate(b->state, sequence, length);
}

static inline PF_MUST_USE pf_status pf_forward_keep(const pf_forward_backend *b, int64_t sequence, int32_t length,
                                                    const int32_t *rows, int32_t n_rows)
{
    return b->ops->keep(b->state, sequence, length, rows, n_rows);
}

static inline PF_MUST_USE pf_status pf_forward_run(const pf_forward_backend *b, const pf_span *spans, int32_t n_spans)
{
    return b->ops->run(b->state, spans, n_spans);
}

static inline float *pf_forward_logits(const pf_forward_backend *b, int32_t row)
{
    return b->ops->logits(b->state, row);
}

static inline int32_t pf_forward_best(const pf_forward_backend *b, int32_t row, int32_t best_of)
{
    return b->ops->best(b->state, row, best_of);
}

static inline int32_t pf_forward_find_invalid(const pf_forward_backend *b, int32_t row, int32_t n)
{
    return b->ops->find_invalid(b->state, row, n);
}

static inline bool pf_forward_can_draw(const pf_forward_backend *b)
{
    return b->ops->draw != NULL;
}

static inline PF_MUST_USE pf_status pf_forward_draw(const pf_forward_backend *b, const pf_draw *draws, int32_t n,
                                                    pf_drawn *out)
{
    return b->ops->draw(b->state, draws, n, out);
}

/* "": no reason is known. */
static inline const char *pf_forward_refusal(const pf_forward_backend *b)
{
    return b->ops->refusal ? b->ops->refusal(b->state) : "";
}

static inline void pf_forward_share(const pf_forward_backend *b, pf_team_fn *fn, void *arg)
{
    b->ops->share(b->state, fn, arg);
}

static inline void pf_forward_set_stop(const pf_forward_backend *b, pf_stop *stop)
{
    b->ops->set_stop(b->state, stop);
}

/* How many positions of a sequence with held_tokens stay valid if tokens [n] come to stand at `base`: what is reachable of
 * them is the length to truncate it to. */
int32_t pf_forward_count_shared(const pf_forward_backend *b, int64_t sequence, const int32_t *held_tokens, int32_t base,
                                const int32_t *tokens, int32_t n);

#endif
