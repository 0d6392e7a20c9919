#include "proto/batch_halves.h"

/* What lies behind the parts that a batch begins with: n of each kind. */
static pf_batch parts_behind(const pf_batch *batch, const pf_batch *first)
{
    pf_batch rest = *batch;
    rest.closes += first->n_closes;
    rest.opens += first->n_opens;
    rest.proposals += first->n_proposals;
    rest.verdicts += first->n_verdicts;
    rest.prefix_requests += first->n_prefix_requests;
    rest.refusals += first->n_refusals;
    rest.n_closes -= first->n_closes;
    rest.n_opens -= first->n_opens;
    rest.n_proposals -= first->n_proposals;
    rest.n_verdicts -= first->n_verdicts;
    rest.n_prefix_requests -= first->n_prefix_requests;
    rest.n_refusals -= first->n_refusals;
    return rest;
}

bool pf_batch_halve(const pf_batch *batch, pf_batch *first, pf_batch *second)
{
    const int32_t n_parts = batch->n_closes + batch->n_opens + batch->n_proposals + batch->n_verdicts +
                            batch->n_prefix_requests + batch->n_refusals;
    if (n_parts < 2) return false;
    int32_t *const counts[] = { &first->n_closes,   &first->n_opens,           &first->n_proposals,
                                &first->n_verdicts, &first->n_prefix_requests, &first->n_refusals };
    *first = *batch;
    int32_t n_left = n_parts / 2;
    for (int32_t i = 0; i < 6; i++) {
        if (*counts[i] > n_left) *counts[i] = n_left;
        n_left -= *counts[i];
    }
    *second = parts_behind(batch, first);
    return true;
}
