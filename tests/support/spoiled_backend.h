/*
 * A backend whose logits are spoiled: after each pass it writes a value over an id, or over all, of chosen rows. One at a
 * time, whose passes compute all logits (a full head).
 */
#ifndef PF_TESTS_SUPPORT_SPOILED_BACKEND_H
#define PF_TESTS_SUPPORT_SPOILED_BACKEND_H

#include "model/backend/cpu_backend.h"

enum { SPOIL_ALL_IDS = -1 };

typedef struct {
    uint32_t rows; /* bit r: row r of each pass */
    int32_t id;    /* or SPOIL_ALL_IDS */
    float value;
} spoil;

static spoil spoiled;
static pf_forward_ops spoiled_ops;
static pf_forward_backend unspoiled;

static pf_status run_and_spoil(void *state, const pf_span *spans, int32_t n_spans)
{
    (void)state;
    PF_TRY(pf_forward_run(&unspoiled, spans, n_spans));
    int32_t n_rows = 0;
    for (int32_t i = 0; i < n_spans; i++) n_rows += spans[i].n_logits;
    for (int32_t row = 0; row < n_rows; row++) {
        if (!(spoiled.rows >> row & 1)) continue;
        float *logits = pf_forward_logits(&unspoiled, row);
        for (int32_t id = 0; id < unspoiled.limits.n_vocab; id++)
            if (spoiled.id == SPOIL_ALL_IDS || spoiled.id == id) logits[id] = spoiled.value;
    }
    return PF_OK;
}

/* What is drawn is drawn from logits, on the host. */
static inline pf_forward_backend spoil_backend(pf_forward_backend backend)
{
    unspoiled = backend;
    spoiled_ops = *unspoiled.ops;
    spoiled_ops.run = run_and_spoil;
    spoiled_ops.draw = NULL;
    backend.ops = &spoiled_ops;
    return backend;
}

static inline pf_forward_backend spoiled_backend(pf_context *context)
{
    return spoil_backend(pf_cpu_backend(context));
}

#endif
