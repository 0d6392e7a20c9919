#include "draft/lookup_answers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    bool is_held;
    pf_proposal proposal;
    int32_t tokens[PF_MAX_DRAFT_TOKENS], parents[PF_MAX_DRAFT_TOKENS];
} held_proposal;

struct pf_lookup_answers {
    int32_t max_sequences, n_held;
    int32_t n_refusals, n_prefix_requests;
    held_proposal *held;    /* [max_sequences] by slot */
    pf_proposal *proposals; /* [max_sequences] of the batch */
    pf_refusal refusals[PF_MAX_BATCH_SEQUENCES];
    char texts[PF_MAX_BATCH_SEQUENCES][PF_MAX_REFUSAL_BYTES + 1];
    pf_prefix_request prefix_requests[PF_MAX_BATCH_SEQUENCES];
    pf_batch batch;
};

pf_status pf_lookup_answers_create(int32_t max_sequences, pf_lookup_answers **out)
{
    const size_t n = (size_t)max_sequences;
    pf_lookup_answers *a = calloc(1, sizeof *a);
    if (!a) return PF_NOMEM;
    a->max_sequences = max_sequences;
    a->held = calloc(n, sizeof *a->held);
    a->proposals = calloc(n, sizeof *a->proposals);
    if (!a->held || !a->proposals) {
        pf_lookup_answers_destroy(a);
        return PF_NOMEM;
    }
    *out = a;
    return PF_OK;
}

void pf_lookup_answers_destroy(pf_lookup_answers *a)
{
    if (!a) return;
    free(a->held);
    free(a->proposals);
    free(a);
}

void pf_lookup_answers_hold(pf_lookup_answers *a, int32_t slot, const pf_proposal *p)
{
    held_proposal *h = &a->held[slot];
    const size_t n = (size_t)p->n_tokens;
    a->n_held += !h->is_held;
    h->is_held = true;
    h->proposal = *p;
    if (n > 0) memcpy(h->tokens, p->tokens, n * sizeof *h->tokens);
    if (n > 0 && p->parents) memcpy(h->parents, p->parents, n * sizeof *h->parents);
    h->proposal.tokens = h->tokens;
    h->proposal.parents = p->parents ? h->parents : NULL;
}

void pf_lookup_answers_drop(pf_lookup_answers *a, int32_t slot)
{
    a->n_held -= a->held[slot].is_held;
    a->held[slot].is_held = false;
}

bool pf_lookup_answers_holds(const pf_lookup_answers *a, int32_t slot)
{
    return a->held[slot].is_held;
}

void pf_lookup_answers_refuse(pf_lookup_answers *a, const pf_refusal *refusal)
{
    if (a->n_refusals == PF_MAX_BATCH_SEQUENCES) return;
    char *text = a->texts[a->n_refusals];
    snprintf(text, sizeof a->texts[0], "%s", refusal->text);
    a->refusals[a->n_refusals] = *refusal;
    a->refusals[a->n_refusals++].text = text;
}

void pf_lookup_answers_ask(pf_lookup_answers *a, const pf_prefix_request *request)
{
    if (a->n_prefix_requests < PF_MAX_BATCH_SEQUENCES) a->prefix_requests[a->n_prefix_requests++] = *request;
}

bool pf_lookup_answers_are_empty(const pf_lookup_answers *a)
{
    return a->n_held + a->n_refusals + a->n_prefix_requests == 0;
}

pf_batch *pf_lookup_answers_hand_out(pf_lookup_answers *a)
{
    a->batch = (pf_batch){ .proposals = a->proposals,
                           .refusals = a->refusals,
                           .n_refusals = a->n_refusals,
                           .prefix_requests = a->prefix_requests,
                           .n_prefix_requests = a->n_prefix_requests };
    for (int32_t slot = 0; slot < a->max_sequences && a->n_held > 0; slot++) {
        if (!a->held[slot].is_held) continue;
        if (a->batch.n_proposals == PF_MAX_BATCH_SEQUENCES) break; /* of more the next batch */
        a->proposals[a->batch.n_proposals++] = a->held[slot].proposal;
        pf_lookup_answers_drop(a, slot);
    }
    a->n_refusals = a->n_prefix_requests = 0;
    return &a->batch;
}
