/*
 * Gathers the spans of many sequences into passes that a backend's limits allow, and runs them.
 *
 * If a pass of several spans fails, each span is run again by itself: a sequence that finds no room in the cache then fails
 * alone, and the others have their rows.
 *
 * Memory from an arena; nothing is allocated later. Threads: the backend's.
 */
#ifndef PF_MODEL_SPAN_BATCH_H
#define PF_MODEL_SPAN_BATCH_H

#include <stdbool.h>

#include "base/arena.h"
#include "model/backend/forward_backend.h"

typedef struct {
    pf_span *spans;  /* [capacity] */
    int32_t *owners; /* [capacity] of each span: a number of the caller's */
    int32_t n, n_rows, n_logits;
} pf_span_batch;

typedef struct {
    /* One pass, as pf_forward_run. */
    pf_status (*run)(void *user, const pf_span *spans, int32_t n_spans);
    /* PF_OK: the rows of these owners, in this order, are in the backend's logits. Otherwise n is 1, and why its pass
     * failed. */
    void (*use)(void *user, const int32_t *owners, int32_t n, pf_status status);
    void *user;
} pf_span_pass;

/* Room for `capacity` spans, from the arena (or its measure). */
void pf_span_batch_lay_out(pf_span_batch *batch, int32_t capacity, pf_arena *arena);

/* Whether one more span fits into the pass; if so, it is in. An empty batch takes any span that the limits allow. */
bool pf_span_batch_add(pf_span_batch *batch, const pf_forward_limits *limits, const pf_span *span, int32_t owner);

/* Run what has been added, if anything, and empty the batch. */
void pf_span_batch_run(pf_span_batch *batch, const pf_span_pass *pass);

#endif
