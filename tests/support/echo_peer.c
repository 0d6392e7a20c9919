#include "tests/support/echo_peer.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void judge(echo_peer *e, const pf_batch *batch)
{
    e->answer.verdicts = e->judged;
    for (int32_t i = 0; i < PF_MAX_VERDICT_TOKENS; i++) {
        e->tokens[0][i] = ECHO_VOCAB - 1 - i;
        e->logprobs[i] = (pf_token_logprobs){ .token = e->tokens[0][i], .logprob = -1.0f, .n_top = PF_MAX_LOGPROBS };
        for (int32_t k = 0; k < PF_MAX_LOGPROBS; k++) e->logprobs[i].top[k] = ECHO_VOCAB - 1 - k;
    }
    for (int32_t i = 0; i < batch->n_proposals && e->answer.n_verdicts < ECHO_PENDING; i++) {
        const pf_proposal *p = &batch->proposals[i];
        e->judged[e->answer.n_verdicts++] = (pf_verdict){ .sequence = p->sequence,
                                                          .incarnation = p->incarnation,
                                                          .round = p->round,
                                                          .base = p->base,
                                                          .tokens = e->tokens[0],
                                                          .n_tokens = e->n_tokens,
                                                          .logprobs = e->logprobs };
    }
}

static pf_status submit(pf_peer *peer, const pf_batch *batch)
{
    echo_peer *e = (echo_peer *)peer;
    for (int32_t i = 0; i < batch->n_closes; i++)
        if (batch->closes[i].sequence == e->feeds) e->feeds = 0;
    e->n_open -= batch->n_closes;
    e->n_closes += batch->n_closes;
    for (int32_t i = 0; i < batch->n_opens; i++) {
        const pf_open *o = &batch->opens[i];
        if (o->tokens[0] == ECHO_ENDLESS) e->feeds = o->sequence;
        if (o->n_tokens > ECHO_LONGEST_PROMPT)
            e->answer.refusals[e->answer.n_refusals++] =
                (pf_refusal){ o->sequence, o->incarnation, PF_INVALID, "the prompt is too long for an echo" };
        else
            e->n_open++;
    }
    if (e->is_mute) {
        e->n_swallowed += batch->n_verdicts;
        return PF_OK;
    }
    for (int32_t i = 0; i < batch->n_verdicts; i++) {
        const pf_verdict *v = &batch->verdicts[i];
        if (e->makes_verdicts) {
            memcpy(e->tokens[0], v->tokens, (size_t)v->n_tokens * sizeof *v->tokens);
            e->verdict = *v;
            e->verdict.tokens = e->tokens[0];
            e->answer.n_verdicts = 1;
            continue;
        }
        if (e->answer.n_proposals == ECHO_PENDING) return PF_LIMIT;
        const int32_t at = e->answer.n_proposals++, n_tokens = e->n_tokens ? e->n_tokens : v->n_tokens;
        for (int32_t k = 0; k < n_tokens; k++) e->tokens[at][k] = v->tokens[e->n_tokens ? 0 : k];
        e->proposals[at] = (pf_proposal){ .sequence = v->sequence,
                                          .incarnation = v->incarnation,
                                          .round = v->round + 1,
                                          .base = v->base + v->n_tokens,
                                          .tokens = e->tokens[at],
                                          .n_tokens = n_tokens };
        if (e->violates_protocol) e->proposals[at].incarnation = 0;
    }
    if (e->judges) {
        judge(e, batch);
        return PF_OK;
    }
    for (int32_t i = 0; i < batch->n_proposals && e->answer.n_proposals < ECHO_PENDING; i++) /* in a verifier's place */
        e->proposals[e->answer.n_proposals++] = (pf_proposal){ .sequence = batch->proposals[i].sequence,
                                                               .incarnation = batch->proposals[i].incarnation,
                                                               .round = batch->proposals[i].round + 1,
                                                               .base = batch->proposals[i].base };
    return PF_OK;
}

static pf_status collect(pf_peer *peer, uint64_t deadline_ns, const pf_batch **out, pf_error *error)
{
    (void)deadline_ns;
    (void)error;
    static _Thread_local pf_batch given;
    echo_peer *e = (echo_peer *)peer;
    if (e->answer.n_proposals + e->answer.n_verdicts + e->answer.n_refusals == 0) {
        if (!e->feeds) return PF_CANCELLED;
        e->n_fed++;
        usleep(5000);
        given = (pf_batch){ .n_proposals = 0 };
        *out = &given;
        return PF_OK;
    }
    if (e->thinks_ms) {
        e->thinks = true;
        usleep((useconds_t)e->thinks_ms * 1000);
        e->thinks = false;
    }
    given = e->answer;
    given.timing.compute_ns = 7;
    e->answer.n_proposals = e->answer.n_verdicts = e->answer.n_refusals = 0;
    *out = &given;
    return PF_OK;
}

static pf_status info(pf_peer *peer, pf_model_info *out, pf_error *error)
{
    (void)error;
    const echo_peer *e = (const echo_peer *)peer;
    *out = (pf_model_info){ .protocol_version = PF_PROTOCOL_VERSION,
                            .vocab_size = e->vocab_size,
                            .max_context = ECHO_LONGEST_PROMPT,
                            .max_sequences = ECHO_SEQUENCES,
                            .max_draft = 16,
                            .methods = 1u << PF_METHOD_GREEDY };
    out->vocab_fingerprint[0] = e->fingerprint;
    snprintf(out->model_id, sizeof out->model_id, "%s", e->model_id);
    return PF_OK;
}

static bool owes(const pf_peer *peer, uint64_t sequence)
{
    const echo_peer *e = (const echo_peer *)peer;
    for (int32_t i = 0; i < e->answer.n_proposals; i++)
        if (e->proposals[i].sequence == sequence) return true;
    return sequence == e->feeds || (e->answer.n_verdicts > 0 && e->verdict.sequence == sequence);
}

static void destroy(pf_peer *peer)
{
    (void)peer;
}

static const pf_peer_ops OPS = { .submit = submit, .collect = collect, .info = info, .destroy = destroy, .owes = owes };

void echo_peer_init(echo_peer *echo)
{
    *echo = (echo_peer){ .head.ops = &OPS, .model_id = "echo", .vocab_size = ECHO_VOCAB };
    echo->answer.proposals = echo->proposals;
    echo->answer.refusals = echo->refusals;
    echo->answer.verdicts = &echo->verdict;
}
