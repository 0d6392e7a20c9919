#include "host/answer.h"

#include <stdio.h>

pf_status pf_answer_check_method(pf_method method, pf_error *error)
{
    const uint32_t bit = (uint32_t)method;
    if (bit < 32 && PF_ANSWER_METHODS >> bit & 1) return PF_OK;
    return pf_fail(error, PF_UNSUPPORTED, "method %d is not spoken here, only %d to %d", (int)method, PF_METHOD_GREEDY,
                   PF_METHOD_TRAVERSAL);
}

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

/* ---- refusals --------------------------------------------------------------------------------------------------- */

static void add_refusal(pf_answer *answer, uint64_t sequence, uint32_t incarnation, pf_status status, const char *text)
{
    pf_batch *batch = &answer->batch;
    if (batch->n_refusals == PF_MAX_BATCH_SEQUENCES) return;
    const int32_t i = batch->n_refusals++;
    snprintf(answer->refusal_texts[i], sizeof answer->refusal_texts[i], "%s", text);
    batch->refusals[i] = (pf_refusal){ sequence, incarnation, status, answer->refusal_texts[i] };
}

void pf_answer_refuse(pf_answer *answer, uint64_t sequence, uint32_t incarnation, pf_status status, const char *text)
{
    int32_t slot;
    add_refusal(answer, sequence, incarnation, status, text);
    (void)pf_stream_answerer_on_close(answer->stream, &(pf_close){ sequence }, &slot);
}

/* Whether the fence of a verdict or a proposal admits it. A sequence that the answer refuses gets no prefix request. */
static bool pass(pf_answer *answer, pf_fence fence, const pf_prefix_request *request)
{
    pf_batch *batch = &answer->batch;
    if (fence == PF_FENCE_MISSING && batch->n_prefix_requests < PF_MAX_BATCH_SEQUENCES &&
        !pf_batch_refuses(batch, request->sequence, request->incarnation))
        batch->prefix_requests[batch->n_prefix_requests++] = *request;
    return fence == PF_FENCE_CURRENT;
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

bool pf_answer_admit_close(pf_answer *answer, const pf_close *close, int32_t *slot)
{
    return pf_stream_answerer_on_close(answer->stream, close, slot) == PF_FENCE_CURRENT;
}

bool pf_answer_admit_open(pf_answer *answer, const pf_open *open, int32_t *slot)
{
    const pf_fence fence = pf_stream_answerer_on_open(answer->stream, open, slot);
    if (fence == PF_FENCE_FULL)
        add_refusal(answer, open->sequence, open->incarnation, PF_LIMIT, "no room for another sequence");
    return fence == PF_FENCE_CURRENT;
}

bool pf_answer_admit_verdict(pf_answer *answer, const pf_verdict *verdict, int32_t *slot)
{
    pf_prefix_request request;
    const pf_fence fence = pf_stream_answerer_on_verdict(answer->stream, verdict, slot, &request);
    return pass(answer, fence, &request);
}

bool pf_answer_admit_proposal(pf_answer *answer, const pf_proposal *proposal, int32_t *slot)
{
    pf_prefix_request request;
    const pf_fence fence = pf_stream_answerer_on_proposal(answer->stream, proposal, slot, &request);
    return pass(answer, fence, &request);
}

/* ---- the answer -------------------------------------------------------------------------------------------------- */

bool pf_answer_hand_out(pf_answer *answer, const pf_batch **out)
{
    const pf_batch *batch = &answer->batch;
    if (batch->n_proposals + batch->n_verdicts + batch->n_prefix_requests + batch->n_refusals == 0) return false;
    answer->handed_out = true;
    *out = batch;
    return true;
}
