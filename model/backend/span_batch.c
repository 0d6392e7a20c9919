#include "model/backend/span_batch.h"

void pf_span_batch_lay_out(pf_span_batch *batch, int32_t capacity, pf_arena *arena)
{
    *batch = (pf_span_batch){
        .spans = pf_arena_take(arena, (size_t)capacity, sizeof *batch->spans),
        .owners = pf_arena_take(arena, (size_t)capacity, sizeof *batch->owners),
    };
}

bool pf_span_batch_add(pf_span_batch *batch, const pf_forward_limits *limits, const pf_span *span, int32_t owner)
{
    if (batch->n_rows + span->n_tokens > limits->max_rows) return false;
    if (batch->n_logits + span->n_logits > limits->max_logit_rows) return false;
    batch->n_rows += span->n_tokens;
    batch->n_logits += span->n_logits;
    batch->spans[batch->n] = *span;
    batch->owners[batch->n++] = owner;
    return true;
}

void pf_span_batch_run(pf_span_batch *batch, const pf_span_pass *pass)
{
    const int32_t n = batch->n;
    batch->n = batch->n_rows = batch->n_logits = 0;
    if (n == 0) return;
    const pf_status status = pass->run(pass->user, batch->spans, n);
    if (status == PF_OK || n == 1) {
        pass->use(pass->user, batch->owners, n, status);
        return;
    }
    for (int32_t i = 0; i < n; i++)
        pass->use(pass->user, &batch->owners[i], 1, pass->run(pass->user, &batch->spans[i], 1));
}
