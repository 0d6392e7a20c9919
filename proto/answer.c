#include "proto/answer.h"

#include <stdio.h>

void pf_answer_lay_out(pf_answer *answer, pf_arena *arena)
{
    pf_batch *batch = &answer->batch;
    batch->prefix_requests = pf_arena_take(arena, PF_MAX_BATCH_SEQUENCES, sizeof *batch->prefix_requests);
    batch->refusals = pf_arena_take(arena, PF_MAX_BATCH_SEQUENCES, sizeof *batch->refusals);
    answer->refusal_texts = pf_arena_take(arena, PF_MAX_BATCH_SEQUENCES, sizeof *answer->refusal_texts);
}

void pf_answer_begin(pf_answer *answer)
{
    if (!answer->handed_out) return;
    answer->handed_out = false;
    pf_batch *batch = &answer->batch;
    batch->n_proposals = batch->n_verdicts = batch->n_prefix_requests = batch->n_refusals = 0;
    batch->timing = (pf_timing){ 0 };
}

void pf_answer_refuse(pf_answer *answer, uint64_t sequence, uint32_t incarnation, pf_status status, const char *text)
{
    pf_batch *batch = &answer->batch;
    if (batch->n_refusals == PF_MAX_BATCH_SEQUENCES) return;
    const int32_t i = batch->n_refusals++;
    snprintf(answer->refusal_texts[i], sizeof answer->refusal_texts[i], "%s", text);
    batch->refusals[i] = (pf_refusal){ sequence, incarnation, status, answer->refusal_texts[i] };
}

void pf_answer_request_prefix(pf_answer *answer, pf_prefix_request request)
{
    if (answer->batch.n_prefix_requests < PF_MAX_BATCH_SEQUENCES)
        answer->batch.prefix_requests[answer->batch.n_prefix_requests++] = request;
}

bool pf_answer_hand_out(pf_answer *answer, const pf_batch **out)
{
    const pf_batch *batch = &answer->batch;
    if (batch->n_proposals + batch->n_verdicts + batch->n_prefix_requests + batch->n_refusals == 0) return false;
    answer->handed_out = true;
    *out = batch;
    return true;
}
