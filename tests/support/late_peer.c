#include "tests/support/late_peer.h"

#include <string.h>

#include "base/clock.h"
#include "tests/support/test.h"

static void keep(late_peer *l, const pf_batch *answer, uint64_t asked_ns)
{
    if (answer->n_proposals + answer->n_verdicts == 0) return;
    assert_true(l->n < LATE_ANSWERS);
    late_answer *a = &l->answers[(l->first + l->n++) % LATE_ANSWERS];
    *a = (late_answer){ .due_ns = asked_ns + l->delay_ns };
    const int32_t *tokens = NULL;
    int32_t n = 0;
    if (answer->n_proposals > 0) {
        a->n_proposals = 1;
        a->proposal = answer->proposals[0];
        tokens = a->proposal.tokens;
        n = a->proposal.n_tokens;
        a->proposal.tokens = a->tokens;
        a->proposal.declared = NULL;
    } else {
        a->n_verdicts = 1;
        a->verdict = answer->verdicts[0];
        tokens = a->verdict.tokens;
        n = a->verdict.n_tokens;
        a->verdict.tokens = a->tokens;
    }
    if (n > 0) memcpy(a->tokens, tokens, (size_t)n * sizeof *tokens);
    if (l->n_wrong > 0 && l->n_wrong--)
        for (int32_t i = 0; i < n; i++) a->tokens[i] ^= 1;
}

static pf_status late_submit(pf_peer *peer, const pf_batch *batch)
{
    late_peer *l = (late_peer *)peer;
    const uint64_t asked_ns = pf_clock_now_ns(l->clock_ns);
    pf_error error;
    const pf_batch *answer;
    if (batch->n_verdicts > 0) {
        l->told = batch->timing;
        l->within_us = batch->verdicts[0].propose_within_us;
    }
    PF_TRY(pf_peer_submit(l->inner, batch));
    while (pf_peer_collect(l->inner, 0, &answer, &error) == PF_OK) keep(l, answer, asked_ns);
    return PF_OK;
}

static pf_status late_collect(pf_peer *peer, uint64_t deadline_ns, const pf_batch **out, pf_error *error)
{
    late_peer *l = (late_peer *)peer;
    late_answer *a = &l->answers[l->first];
    const uint64_t now_ns = pf_clock_now_ns(l->clock_ns);
    if (deadline_ns > now_ns + l->longest_wait_ns) l->longest_wait_ns = deadline_ns - now_ns;
    if (l->cancels) {
        *l->cancels = true;
        return pf_fail(error, PF_CANCELLED, "nothing came in time");
    }
    if (l->n > 0) pf_clock_wait_until(l->clock_ns, a->due_ns < deadline_ns ? a->due_ns : deadline_ns);
    if (l->n == 0 || a->due_ns > pf_clock_now_ns(l->clock_ns)) {
        pf_clock_wait_until(l->clock_ns, deadline_ns);
        return pf_fail(error, PF_CANCELLED, "nothing came in time");
    }
    l->first = (l->first + 1) % LATE_ANSWERS;
    l->n--;
    l->batch = (pf_batch){
        .proposals = &a->proposal, .n_proposals = a->n_proposals, .verdicts = &a->verdict, .n_verdicts = a->n_verdicts
    };
    *out = &l->batch;
    return PF_OK;
}

static pf_status late_info(pf_peer *peer, pf_model_info *out, pf_error *error)
{
    return pf_peer_info(((late_peer *)peer)->inner, out, error);
}

static void late_destroy(pf_peer *peer)
{
    (void)peer;
}

static const pf_peer_ops ops = {
    .submit = late_submit, .collect = late_collect, .info = late_info, .destroy = late_destroy
};

late_peer late_peer_of(pf_peer *inner, uint64_t delay_ns, uint64_t *clock_ns)
{
    return (late_peer){ .head.ops = &ops, .inner = inner, .delay_ns = delay_ns, .clock_ns = clock_ns };
}
