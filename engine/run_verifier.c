/*
 * A round at the verifier: sends the proposal and waits for the verdict.
 *
 * A far verifier may restart at any time and then knows nothing: the sequence is opened again with all committed tokens, and
 * the round has no proposal. The time that a verifier may be unreachable or silent is bounded; the time that it computes is
 * not.
 */
#include "engine/run.h"

#include <inttypes.h>

#include "proto/tree.h"

static const uint64_t RETURN_POLL_NS = 20000000;
enum { MAX_LOSSES = 50 }; /* of a sequence in one round, RETURN_POLL_NS apart: more is no restart */

/* Open, or open again with all that is committed. */
static pf_status open_verifier(pf_run *r)
{
    const pf_session_options *o = &r->session->options;
    pf_open open;
    PF_TRY(pf_run_make_open(r, r->session->to_verifier, o->verifier->is_far, &open));
    open.logprobs = r->request->logprobs;
    const pf_batch batch = { .opens = &open, .n_opens = 1 };
    return pf_run_submit(r, o->verifier, &batch);
}

static double seconds(uint64_t ns)
{
    return (double)ns * 1e-9;
}

/* It lost its state, too. */
static void verifier_lost(pf_run *r)
{
    pf_stream_owner_lost(r->session->to_verifier);
    pf_peer_why(r->session->options.verifier, &r->verifier_trouble);
}

/* A verifier that keeps reconnecting and failing gets no more time than one that stays away. */
pf_status pf_run_reach_verifier(pf_run *r)
{
    const uint64_t limit_ns = r->session->options.return_limit_ns,
                   since_ns = pf_session_now_ns(r->session) - r->away_ns;
    do {
        if (pf_run_is_cancelled(r)) return PF_CANCELLED;
        const pf_status status = open_verifier(r);
        if (status == PF_OK) return PF_OK;
        if (status != PF_UNAVAILABLE || !r->session->options.verifier->is_far)
            return pf_fail(r->error, status, "the verifier did not take the sequence: %s", pf_status_name(status));
        verifier_lost(r);
        pf_session_pause(r->session, RETURN_POLL_NS);
        r->away_ns = pf_session_now_ns(r->session) - since_ns;
    } while (r->away_ns < limit_ns);
    return pf_fail(r->error, PF_UNAVAILABLE, "the verifier is gone and has not come back within %g s: %s",
                   seconds(limit_ns), r->verifier_trouble.text);
}

/* The fences have passed, counts and all; are the tokens those that were proposed, and tokens at all? */
static bool tokens_fit(const pf_run *r, const pf_verdict *v, const pf_proposal *proposal)
{
    for (int32_t i = 0, node = -1; i < v->n_accepted; i++) {
        node = pf_tree_child(proposal->tokens, proposal->parents, proposal->n_tokens, node, v->tokens[i]);
        if (node < 0) return false;
    }
    return pf_count_known(v->tokens, v->n_tokens, pf_model_ids(&r->session->verifier_info)) == v->n_tokens;
}

/* A verdict that no honest verifier gives, and what is wrong with it. */
static pf_status refuse_verdict(const pf_run *r, const pf_verdict *v, const pf_proposal *proposal)
{
    uint64_t round;
    uint32_t incarnation;
    PF_TRY(pf_stream_owner_expects(r->session->to_verifier, r->sequence, &round, &incarnation));
    if (v->incarnation != incarnation)
        return pf_fail(r->error, PF_FORMAT, "the verifier gave a verdict of incarnation %" PRIu32 ", expected %" PRIu32,
                       v->incarnation, incarnation);
    if (v->round > round)
        return pf_fail(r->error, PF_FORMAT, "the verifier gave a verdict of round %" PRIu64 ", expected round %" PRIu64,
                       v->round, round);
    if (v->base != r->session->n_committed)
        return pf_fail(r->error, PF_FORMAT, "the verifier gave a verdict at token %d, expected %d", v->base,
                       r->session->n_committed);
    const int32_t n_ids = pf_model_ids(&r->session->verifier_info);
    const int32_t unknown = pf_count_known(v->tokens, v->n_tokens, n_ids);
    if (unknown < v->n_tokens)
        return pf_fail(r->error, PF_FORMAT, "the verifier committed token %d, the vocabulary has %d",
                       v->tokens[unknown], n_ids);
    return pf_fail(r->error, PF_FORMAT,
                   "the verifier answered a proposal of %d tokens with %d tokens, %d of them accepted: expected the "
                   "accepted ones as they were proposed, and one more",
                   proposal ? proposal->n_tokens : 0, v->n_tokens, v->n_accepted);
}

/* Look for this round's verdict in an answer. PF_CANCELLED: it is not there. */
static pf_status find_verdict(pf_run *r, const pf_batch *answer, const pf_proposal *proposal, const pf_verdict **out)
{
    pf_stream_owner *link = r->session->to_verifier;
    for (int32_t i = 0; i < answer->n_refusals; i++)
        if (pf_stream_owner_on_refusal(link, &answer->refusals[i]) != PF_FENCE_STALE)
            return pf_fail(r->error, answer->refusals[i].status, "%s%s",
                           r->session->options.verifier->is_far ? "the verifier refuses the sequence: " : "",
                           answer->refusals[i].text);
    for (int32_t i = 0; i < answer->n_prefix_requests; i++)
        (void)pf_stream_owner_on_prefix_request(link, &answer->prefix_requests[i]);
    for (int32_t i = 0; i < answer->n_verdicts; i++) {
        const pf_verdict *v = &answer->verdicts[i];
        const pf_fence fence = pf_stream_owner_on_verdict(link, v);
        if (fence == PF_FENCE_CURRENT && tokens_fit(r, v, proposal)) {
            *out = v;
            return PF_OK;
        }
        if (fence == PF_FENCE_CURRENT || fence == PF_FENCE_PROTOCOL_VIOLATION) return refuse_verdict(r, v, proposal);
    }
    return PF_CANCELLED;
}

/* It has taken the sequence and lost it before it answered. Now and then that is a restart. */
static pf_status give_up_or_pause(const pf_run *r, int32_t n_losses)
{
    const char *last = r->verifier_trouble.text;
    if (n_losses == MAX_LOSSES)
        return pf_fail(r->error, PF_UNAVAILABLE, "the verifier has lost the sequence %d times without an answer%s%s",
                       n_losses, *last ? ", at last: " : "", last);
    if (n_losses > 1) pf_session_pause(r->session, RETURN_POLL_NS);
    return PF_OK;
}

/* The verifier is still working: on the prompt, if nothing is committed after it yet. */
static void report_prompt(const pf_run *r)
{
    const pf_request *q = r->request;
    const int32_t backlog = pf_peer_backlog(r->session->options.verifier);
    if (q->on_prompt && backlog >= 0 && r->result->n_tokens == 0) q->on_prompt(q->user, q->n_prompt - backlog);
}

/* How long to wait for a far verifier now: not at all after a pass of a near drafter, which drafts ahead meanwhile. */
static uint64_t wait_ns(const pf_run *r)
{
    const pf_session_options *o = &r->session->options;
    const bool drafts = o->verifier->is_far && o->drafter && !o->drafter->is_far && pf_peer_work_ahead(o->drafter);
    return drafts ? 0 : PF_RUN_CANCEL_POLL_NS;
}

/* Any answer shows that the verifier is working, however long that takes. Silence is counted in polls, not by the clock: this
 * process may have been stopped meanwhile with the answer already received. A lost sequence does not count as an answer. */
pf_status pf_run_await_verdict(pf_run *r, const pf_proposal **proposal, const pf_verdict **out)
{
    pf_session *s = r->session;
    const uint64_t limit_ns = s->options.verdict_limit_ns;
    uint64_t silent_ns = 0;
    int32_t n_losses = 0;
    while (silent_ns < limit_ns) {
        if (pf_run_is_cancelled(r)) return PF_CANCELLED;
        if (pf_stream_owner_due(s->to_verifier, r->sequence)) {
            PF_TRY(give_up_or_pause(r, ++n_losses));
            *proposal = NULL;
            PF_TRY(pf_run_reach_verifier(r));
        }
        const pf_batch *answer;
        const uint64_t poll_ns = wait_ns(r);
        pf_status status = pf_peer_collect(s->options.verifier, pf_session_now_ns(s) + poll_ns, &answer, r->error);
        if (status == PF_OK) {
            silent_ns = r->away_ns = 0;
            status = find_verdict(r, answer, *proposal, out);
            if (status == PF_OK) {
                pf_run_count_answer(r, answer, s->options.verifier->is_far, &r->result->speculation.verify_ns);
                return PF_OK;
            }
            report_prompt(r);
        } else if (status == PF_UNAVAILABLE && s->options.verifier->is_far) {
            verifier_lost(r);
            continue;
        } else if (!s->options.verifier->is_far) {
            return status; /* a near one that has nothing to say was told to stop */
        }
        if (status != PF_CANCELLED) return status;
        silent_ns += poll_ns;
    }
    return pf_fail(r->error, PF_UNAVAILABLE,
                   "the verifier has said nothing for %g s, expected a verdict or a sign of life", seconds(limit_ns));
}

pf_status pf_run_decide(pf_run *r, const pf_proposal **proposal, const pf_verdict **verdict)
{
    pf_session *s = r->session;
    pf_proposal sent = *proposal ? **proposal : (pf_proposal){ 0 };
    PF_TRY(pf_stream_owner_propose(s->to_verifier, r->sequence, sent.n_tokens, &sent));
    const pf_batch batch = { .proposals = &sent, .n_proposals = 1 };
    const pf_status status = pf_run_submit(r, s->options.verifier, &batch);
    if (status == PF_UNAVAILABLE && s->options.verifier->is_far)
        verifier_lost(r);
    else if (status != PF_OK)
        return pf_fail(r->error, status, "the verifier did not take a proposal: %s", pf_status_name(status));
    const uint64_t begin_ns = r->asked_ns;
    PF_TRY(pf_run_await_verdict(r, proposal, verdict));
    r->verified_ns = pf_session_now_ns(s) - begin_ns;
    pf_draft_wait_verified(&s->draft_wait, r->verified_ns, *proposal != NULL, (*verdict)->n_tokens);
    return PF_OK;
}
