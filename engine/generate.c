/*
 * The generation loop: a verifier disposes, a drafter proposes, and neither is known to be near or far.
 *
 *      open ---> verdict 0 ---> [ proposal ---> verdict ] ... ---> close
 *
 * Keeps true: the committed tokens are the verifier's alone; a drafter that is late, gone or wrong costs at most the
 * patience that proto/stream.h grants it, and the round is decoded plainly. Nothing is allocated between the first
 * token and the last.
 * Does not do: several requests at once (one session, one sequence).
 */
#include "engine/pilotfish.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "model/sampling.h"
#include "proto/stream.h"

/* Ids of a declared distribution. More accept a little more of a flat draft, and cost selecting and sending: with the
 * bundled pair 64 is faster than 256 at temperatures 0.7 and 1 (docs/gains.md). */
enum { N_DECLARED = 64 };

static const uint64_t CANCEL_POLL_NS = 50000000; /* how soon a far verifier's wait notices Ctrl-C */
static const uint64_t VERDICT_LIMIT_NS = 60000000000;
static const uint64_t RETURN_LIMIT_NS = 5000000000;
static const uint64_t RETURN_POLL_NS = 20000000;
enum { MAX_LOSSES = 50 }; /* of a sequence in one round, RETURN_POLL_NS apart: more is no restart */

struct pf_session {
    pf_session_options options;
    int32_t n_vocab; /* ids of both peers */
    pf_model_info verifier_info;
    int32_t *committed; /* [max_context] prompt, then verdicts */
    int32_t n_committed;
    uint64_t last_sequence;       /* ids are never used twice on a stream */
    pf_stream_owner *to_verifier; /* fences of either link */
    pf_stream_owner *to_drafter;
    pf_patience patience;      /* with a far drafter */
    pf_status drafter_trouble; /* what kind of it the last warning told; PF_OK: none, it is there */
    bool drafter_is_known;     /* what it says of itself has been looked at */
    bool drafter_is_unfit;     /* its vocabulary is another: it is not asked */
};

/* One request while it runs. */
typedef struct {
    pf_session *session;
    const pf_request *request;
    pf_method method;
    pf_result *result;
    pf_error *error;
    uint64_t sequence;
    int32_t max_tokens; /* committed length at which the request ends */
    int32_t last_base;  /* committed length before the last verdict */
    int32_t last_accepted;
    uint64_t asked_ns;         /* when the last batch left */
    uint64_t away_ns;          /* how long a far verifier has been away since it last said something */
    bool drafter_refused;      /* it will not serve this sequence */
    pf_error verifier_trouble; /* why a far verifier was lost, the last time */
} run;

/* ---- session ---------------------------------------------------------------------------------------------------- */

static void warn(const pf_session *session, const char *sentence)
{
    if (session->options.warn) session->options.warn(session->options.warn_user, sentence);
}

static bool is_zero(const uint8_t fingerprint[32])
{
    static const uint8_t zero[32];
    return memcmp(fingerprint, zero, sizeof zero) == 0;
}

static pf_status check_vocabularies(const pf_model_info *drafter, const pf_model_info *verifier, pf_error *error)
{
    const bool both_named = !is_zero(drafter->vocab_fingerprint) && !is_zero(verifier->vocab_fingerprint);
    const bool same = both_named ? memcmp(drafter->vocab_fingerprint, verifier->vocab_fingerprint, 32) == 0
                                 : drafter->vocab_size == verifier->vocab_size;
    if (same) return PF_OK;
    const uint8_t *d = drafter->vocab_fingerprint, *v = verifier->vocab_fingerprint;
    return pf_fail(
        error, PF_INVALID,
        "drafter %s and verifier %s do not share a vocabulary: %d tokens, fingerprint %02x%02x%02x%02x, against "
        "%d tokens, fingerprint %02x%02x%02x%02x; both must be one",
        drafter->model_id, verifier->model_id, drafter->vocab_size, d[0], d[1], d[2], d[3], verifier->vocab_size, v[0],
        v[1], v[2], v[3]);
}

static pf_status meet_peers(pf_session *session, pf_error *error)
{
    pf_model_info drafter;
    PF_TRY(pf_peer_info(session->options.verifier, &session->verifier_info, error));
    session->n_vocab = session->verifier_info.vocab_size;
    if (!session->options.drafter) return PF_OK;

    pf_error why = { 0 };
    const pf_status status = pf_peer_info(session->options.drafter, &drafter, &why);
    session->drafter_is_known = status == PF_OK;
    if (status == PF_OK) return check_vocabularies(&drafter, &session->verifier_info, error);
    if (!session->options.drafter_is_far) return pf_fail(error, status, "%s", why.text);
    warn(session, why.text);
    session->drafter_trouble = status;
    return PF_OK;
}

static pf_status make_session_memory(pf_session *session, pf_error *error)
{
    session->committed = calloc((size_t)session->options.max_context, sizeof *session->committed);
    if (!session->committed || pf_stream_owner_create(1, &session->to_verifier) != PF_OK ||
        pf_stream_owner_create(1, &session->to_drafter) != PF_OK)
        return pf_fail(error, PF_NOMEM, "no memory for a session of %d tokens", session->options.max_context);
    return PF_OK;
}

pf_status pf_session_create(const pf_session_options *options, pf_session **out, pf_error *error)
{
    if (!options->verifier || options->max_context < 1 || options->max_context > PF_MAX_PROMPT_TOKENS)
        return pf_fail(error, PF_INVALID, "a session needs a verifier, and a context of 1 to %d tokens, not %d",
                       PF_MAX_PROMPT_TOKENS, options->max_context);
    pf_session *session = calloc(1, sizeof *session);
    if (!session) return pf_fail(error, PF_NOMEM, "no memory for a session");
    session->options = *options;
    if (options->verdict_limit_ns == 0) session->options.verdict_limit_ns = VERDICT_LIMIT_NS;
    if (options->return_limit_ns == 0) session->options.return_limit_ns = RETURN_LIMIT_NS;
    pf_patience_init(&session->patience);
    pf_status status = make_session_memory(session, error);
    if (status == PF_OK) status = meet_peers(session, error);
    if (status != PF_OK) {
        pf_session_destroy(session);
        return status;
    }
    *out = session;
    return PF_OK;
}

void pf_session_destroy(pf_session *session)
{
    if (!session) return;
    pf_stream_owner_destroy(session->to_drafter);
    pf_stream_owner_destroy(session->to_verifier);
    free(session->committed);
    free(session);
}

/* ---- what both peers are told ----------------------------------------------------------------------------------- */

/* The open of this sequence at one of the links. A far peer gets the seed only where the method shares the noise
 * (DESIGN, invariant 7). */
static pf_status make_open(const run *r, pf_stream_owner *link, bool far, pf_open *open)
{
    const pf_request *q = r->request;
    *open = (pf_open){
        .tokens = r->session->committed,
        .sampling = q->sampling,
        .method = r->method,
        .max_draft = q->draft_len > 0 ? q->draft_len : PF_DEFAULT_MAX_DRAFT,
        .adaptive_draft = q->draft_len == 0,
        .max_declared = r->method == PF_METHOD_REJECTION ? N_DECLARED : 0,
        .max_tokens = r->max_tokens,
        .stop_tokens = q->stop_tokens,
        .n_stop_tokens = q->n_stop_tokens,
    };
    if (far && r->method != PF_METHOD_COUPLED) open->sampling.seed = 0;
    return pf_stream_owner_open(link, r->sequence, open, &open->n_tokens);
}

static bool is_cancelled(const run *r)
{
    return r->request->cancel && *r->request->cancel;
}

static pf_status submit(run *r, pf_peer *peer, const pf_batch *batch)
{
    r->asked_ns = pf_now_ns();
    return pf_peer_submit(peer, batch);
}

/* What the wire and the waking of threads took: the time away less what the peer computed. */
static void count_rpc(run *r, const pf_batch *answer)
{
    pf_speculation *s = &r->result->speculation;
    const uint64_t away_ns = pf_now_ns() - r->asked_ns;
    const uint64_t peer_ns = answer->timing.compute_ns < away_ns ? answer->timing.compute_ns : away_ns;
    s->rpc_us[s->n_rpc++ % PF_RPC_SAMPLES] = (uint32_t)((away_ns - peer_ns) / 1000);
}

/* ---- the verifier ----------------------------------------------------------------------------------------------- */

/* Open, or open again with all that is committed. */
static pf_status open_verifier(run *r)
{
    const pf_session_options *o = &r->session->options;
    pf_open open;
    PF_TRY(make_open(r, r->session->to_verifier, o->verifier_is_far, &open));
    const pf_batch batch = { .opens = &open, .n_opens = 1 };
    return submit(r, o->verifier, &batch);
}

static double seconds(uint64_t ns)
{
    return (double)ns * 1e-9;
}

/* Whatever it knew is gone with it. */
static void verifier_lost(run *r)
{
    pf_stream_owner_lost(r->session->to_verifier);
    pf_peer_why(r->session->options.verifier, &r->verifier_trouble);
}

/* A far verifier that vanished gets a moment to come back; what was committed is sent again. One that only comes back to vanish
 * gets no more of it. */
static pf_status reach_verifier(run *r)
{
    const uint64_t limit_ns = r->session->options.return_limit_ns, since_ns = pf_now_ns() - r->away_ns;
    do {
        if (is_cancelled(r)) return PF_CANCELLED;
        const pf_status status = open_verifier(r);
        if (status == PF_OK) return PF_OK;
        if (status != PF_UNAVAILABLE || !r->session->options.verifier_is_far)
            return pf_fail(r->error, status, "the verifier did not take the sequence: %s", pf_status_name(status));
        verifier_lost(r);
        pf_wait_until(pf_now_ns() + RETURN_POLL_NS);
        r->away_ns = pf_now_ns() - since_ns;
    } while (r->away_ns < limit_ns);
    return pf_fail(r->error, PF_UNAVAILABLE, "the verifier is gone and has not come back within %g s: %s",
                   seconds(limit_ns), r->verifier_trouble.text);
}

/* The fences have passed; do the tokens fit what was proposed? */
static bool tokens_fit(const run *r, const pf_verdict *v, const pf_proposal *proposal)
{
    if (v->n_accepted > v->n_tokens || v->n_tokens > r->session->options.max_context - r->session->n_committed)
        return false;
    for (int32_t i = 0; i < v->n_accepted; i++)
        if (v->tokens[i] != proposal->tokens[i]) return false;
    for (int32_t i = 0; i < v->n_tokens; i++)
        if (v->tokens[i] < 0 || v->tokens[i] >= r->session->n_vocab) return false;
    return true;
}

/* Look for this round's verdict in an answer. PF_CANCELLED: it is not there. */
static pf_status find_verdict(run *r, const pf_batch *answer, const pf_proposal *proposal, const pf_verdict **out)
{
    pf_stream_owner *link = r->session->to_verifier;
    for (int32_t i = 0; i < answer->n_refusals; i++)
        if (answer->refusals[i].sequence == r->sequence)
            return pf_fail(r->error, answer->refusals[i].status, "%s%s",
                           r->session->options.verifier_is_far ? "the verifier refuses the sequence: " : "",
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
        if (fence == PF_FENCE_CURRENT || fence == PF_FENCE_NONSENSE)
            return pf_fail(
                r->error, PF_FORMAT,
                "the verifier answered a proposal of %d tokens at %d with %d tokens at %d, %d of them accepted",
                proposal ? proposal->n_tokens : 0, r->session->n_committed, v->n_tokens, v->base, v->n_accepted);
    }
    return PF_CANCELLED;
}

/* It has taken the sequence and lost it before it answered. Now and then that is a restart. */
static pf_status give_up_or_pause(const run *r, int32_t n_losses)
{
    const char *last = r->verifier_trouble.text;
    if (n_losses == MAX_LOSSES)
        return pf_fail(r->error, PF_UNAVAILABLE, "the verifier has lost the sequence %d times without an answer%s%s",
                       n_losses, *last ? ", at last: " : "", last);
    if (n_losses > 1) pf_wait_until(pf_now_ns() + RETURN_POLL_NS);
    return PF_OK;
}

/* Wait for the verdict of this round, through restarts of a far verifier: after one, the round has no proposal.
 *
 * Whatever it says shows that it is at work, as long as that may take. Silence is counted in looks, and not by the clock:
 * this process may have been stopped meanwhile, with the answer already here. */
static pf_status await_verdict(run *r, const pf_proposal **proposal, const pf_verdict **out)
{
    pf_session *s = r->session;
    const uint64_t limit_ns = s->options.verdict_limit_ns;
    int32_t n_losses = 0;
    for (uint64_t silent_ns = 0; silent_ns < limit_ns; silent_ns += CANCEL_POLL_NS) {
        if (is_cancelled(r)) return PF_CANCELLED;
        if (pf_stream_owner_due(s->to_verifier, r->sequence)) {
            PF_TRY(give_up_or_pause(r, ++n_losses));
            *proposal = NULL;
            PF_TRY(reach_verifier(r));
            silent_ns = 0;
        }
        const pf_batch *answer;
        pf_status status = pf_peer_collect(s->options.verifier, pf_now_ns() + CANCEL_POLL_NS, &answer, r->error);
        if (status == PF_OK) {
            silent_ns = r->away_ns = 0;
            status = find_verdict(r, answer, *proposal, out);
            if (status == PF_OK) {
                r->result->speculation.verify_ns += answer->timing.compute_ns;
                if (s->options.verifier_is_far) count_rpc(r, answer);
                return PF_OK;
            }
        } else if (status == PF_UNAVAILABLE && s->options.verifier_is_far) {
            verifier_lost(r);
            continue;
        }
        if (status != PF_CANCELLED) return status;
    }
    return pf_fail(r->error, PF_UNAVAILABLE,
                   "the verifier has said nothing for %g s, expected a verdict or a sign of life", seconds(limit_ns));
}

/* One round: *proposal (NULL: none) to the verifier, and its verdict. *proposal is NULL after it where it was lost. */
static pf_status decide(run *r, const pf_proposal **proposal, const pf_verdict **verdict)
{
    pf_session *s = r->session;
    pf_proposal sent = *proposal ? **proposal : (pf_proposal){ 0 };
    PF_TRY(pf_stream_owner_propose(s->to_verifier, r->sequence, sent.n_tokens, &sent));
    const pf_batch batch = { .proposals = &sent, .n_proposals = 1 };
    const pf_status status = submit(r, s->options.verifier, &batch);
    if (status == PF_UNAVAILABLE && s->options.verifier_is_far)
        verifier_lost(r);
    else if (status != PF_OK)
        return pf_fail(r->error, status, "the verifier did not take a proposal: %s", pf_status_name(status));
    const uint64_t begin_ns = r->asked_ns;
    PF_TRY(await_verdict(r, proposal, verdict));
    pf_patience_verified(&s->patience, pf_now_ns() - begin_ns);
    return PF_OK;
}

/* ---- the drafter ------------------------------------------------------------------------------------------------ */

/* One warning for each kind of trouble: nobody there, and somebody else there. */
static void drafter_lost(run *r)
{
    pf_session *s = r->session;
    pf_stream_owner_lost(s->to_drafter);
    pf_error why = { .status = PF_UNAVAILABLE, .text = "no reason given" };
    pf_peer_why(s->options.drafter, &why);
    if (s->drafter_trouble == why.status) return;
    s->drafter_trouble = why.status;
    char sentence[sizeof why.text + 64];
    snprintf(sentence, sizeof sentence, "the draft worker is gone (%s); decoding goes on without it", why.text);
    warn(s, sentence);
}

/* Let a far drafter read the prompt while the verifier does. */
static void announce(run *r)
{
    pf_session *s = r->session;
    if (!s->options.drafter || !s->options.drafter_is_far) return;
    pf_open open;
    if (make_open(r, s->to_drafter, true, &open) != PF_OK) return;
    const pf_batch batch = { .opens = &open, .n_opens = 1 };
    if (submit(r, s->options.drafter, &batch) != PF_OK) pf_stream_owner_lost(s->to_drafter);
}

/* Tell the drafter what the last verdict committed; one that does not know the sequence gets all that came before. */
static pf_status tell_drafter(run *r, uint64_t *round)
{
    pf_session *s = r->session;
    pf_open open;
    pf_verdict verdict = {
        .tokens = s->committed + r->last_base,
        .n_tokens = s->n_committed - r->last_base,
        .n_accepted = r->last_accepted,
    };
    pf_batch batch = { .verdicts = &verdict, .n_verdicts = 1 };
    if (pf_stream_owner_due(s->to_drafter, r->sequence)) {
        PF_TRY(make_open(r, s->to_drafter, s->options.drafter_is_far, &open));
        batch.opens = &open;
        batch.n_opens = 1;
    }
    PF_TRY(pf_stream_owner_commit(s->to_drafter, r->sequence, verdict.n_tokens, &verdict));
    *round = verdict.round + 1;
    return submit(r, s->options.drafter, &batch);
}

static void warn_of_refusal(const pf_session *session, const char *text)
{
    char sentence[2 * PF_MAX_REFUSAL_BYTES];
    snprintf(sentence, sizeof sentence, "%s refuses the sequence: %s; decoding goes on without it",
             session->options.drafter_is_far ? "the draft worker" : "the draft", text);
    warn(session, sentence);
}

/* The proposal for the coming round in an answer, or NULL. */
static const pf_proposal *find_proposal(run *r, const pf_batch *answer)
{
    pf_session *s = r->session;
    for (int32_t i = 0; i < answer->n_refusals; i++) {
        if (answer->refusals[i].sequence != r->sequence) continue;
        warn_of_refusal(s, answer->refusals[i].text);
        r->drafter_refused = true;
    }
    for (int32_t i = 0; i < answer->n_prefix_requests; i++)
        (void)pf_stream_owner_on_prefix_request(s->to_drafter, &answer->prefix_requests[i]);
    const pf_proposal *current = NULL;
    for (int32_t i = 0; i < answer->n_proposals; i++) {
        const pf_proposal *p = &answer->proposals[i];
        if (p->sequence != r->sequence) continue;
        if (s->options.drafter_is_far) pf_patience_answered(&s->patience, p->round, pf_now_ns());
        if (pf_stream_owner_on_proposal(s->to_drafter, p) == PF_FENCE_CURRENT && p->n_tokens <= PF_MAX_DRAFT_TOKENS)
            current = p;
    }
    return current;
}

/* A drafter that was not there when the session began. */
static void get_to_know(pf_session *session)
{
    pf_model_info drafter;
    pf_error why = { 0 };
    if (pf_peer_info(session->options.drafter, &drafter, NULL) != PF_OK) return;
    session->drafter_is_known = true;
    if (check_vocabularies(&drafter, &session->verifier_info, &why) == PF_OK) return;
    session->drafter_is_unfit = true;
    warn(session, why.text);
}

/* A far drafter is back, or has been late: what it says shows that it lives. */
static void drafter_heard(pf_session *session)
{
    if (session->drafter_trouble != PF_OK) warn(session, "the draft worker is back");
    session->drafter_trouble = PF_OK;
    if (!session->drafter_is_known) get_to_know(session);
}

static bool is_in_vocabulary(const pf_session *session, const pf_proposal *proposal)
{
    for (int32_t i = 0; i < proposal->n_tokens; i++)
        if (proposal->tokens[i] < 0 || proposal->tokens[i] >= session->n_vocab) return false;
    return true;
}

/* Ask for the coming round's proposal. *out is NULL where none came in time: the round is then decoded plainly. */
static pf_status ask_drafter(run *r, const pf_proposal **out)
{
    pf_session *s = r->session;
    const bool far = s->options.drafter_is_far;
    *out = NULL;
    if (!s->options.drafter || r->drafter_refused || s->drafter_is_unfit) return PF_OK;
    uint64_t round = 0;
    const pf_status told = tell_drafter(r, &round);
    if (told != PF_OK && !far) return pf_fail(r->error, told, "the drafter took no verdict: %s", pf_status_name(told));
    if (told == PF_LIMIT) return pf_stream_owner_give_up(s->to_drafter, r->sequence); /* far behind: once it answers */
    if (told != PF_OK) {
        drafter_lost(r);
        return PF_OK;
    }
    const uint64_t wait_ns = far ? pf_patience_asked(&s->patience, round, r->asked_ns) : 0;
    const uint64_t deadline = wait_ns ? r->asked_ns + wait_ns : 0; /* a near one computes all the same, pass by pass */
    for (;;) {
        if (!far && is_cancelled(r)) return PF_CANCELLED;
        const pf_batch *answer;
        const pf_status status = pf_peer_collect(s->options.drafter, deadline, &answer, r->error);
        if (status == PF_CANCELLED) {
            if (wait_ns) pf_patience_timed_out(&s->patience, pf_now_ns());
            return PF_OK;
        }
        if (status == PF_UNAVAILABLE && far) {
            drafter_lost(r);
            return PF_OK;
        }
        PF_TRY(status);
        if (far) drafter_heard(s);
        if (s->drafter_is_unfit) return PF_OK;
        const pf_proposal *proposal = find_proposal(r, answer);
        if (proposal || !far) r->result->speculation.draft_ns += answer->timing.compute_ns;
        if (proposal) {
            if (far) count_rpc(r, answer);
            if (proposal->n_tokens > 0 && is_in_vocabulary(s, proposal)) *out = proposal;
            return PF_OK;
        }
        if (r->drafter_refused || pf_stream_owner_due(s->to_drafter, r->sequence)) return PF_OK;
    }
}

/* ---- the loop --------------------------------------------------------------------------------------------------- */

static void count_round(pf_speculation *s, const pf_proposal *proposal, int32_t n_kept)
{
    if (!proposal) {
        s->fallback_rounds++;
        return;
    }
    s->rounds++;
    s->drafted += proposal->n_tokens;
    s->accepted += n_kept;
    for (int32_t i = 0; i < proposal->n_tokens; i++) {
        s->reached[i]++;
        if (i < n_kept) s->accepted_to[i]++;
    }
}

static bool is_stop_token(const pf_request *request, int32_t token)
{
    for (int32_t i = 0; i < request->n_stop_tokens; i++)
        if (request->stop_tokens[i] == token) return true;
    return false;
}

/* Take a verdict's tokens one by one, as far as the request goes. Returns how many were kept; *finish says why no more
 * are wanted, PF_FINISH_NONE that they are. */
static int32_t commit(run *r, const pf_verdict *v, pf_finish *finish)
{
    pf_session *s = r->session;
    pf_result *out = r->result;
    *finish = PF_FINISH_NONE;
    r->last_base = s->n_committed;
    r->last_accepted = v->n_accepted;
    int32_t n = 0;
    while (n < v->n_tokens && *finish == PF_FINISH_NONE) {
        const int32_t token = v->tokens[n];
        s->committed[s->n_committed++] = token;
        out->tokens[out->n_tokens++] = token;
        const bool wants_more =
            !r->request->on_token || r->request->on_token(r->request->user, token, n < v->n_accepted);
        n++;
        if (is_stop_token(r->request, token))
            *finish = PF_FINISH_EOS;
        else if (!wants_more)
            *finish = PF_FINISH_STOP;
        else if (s->n_committed >= r->max_tokens)
            *finish = PF_FINISH_LENGTH;
    }
    if (*finish == PF_FINISH_NONE) *finish = v->finish;
    return n;
}

static pf_status first_token(run *r, pf_finish *finish)
{
    pf_session *s = r->session;
    const uint64_t begin_ns = pf_now_ns();
    announce(r);
    PF_TRY(reach_verifier(r));
    const pf_proposal *none = NULL;
    const pf_verdict *verdict;
    PF_TRY(await_verdict(r, &none, &verdict));
    r->result->prefill_ns = pf_now_ns() - begin_ns;
    r->result->speculation = (pf_speculation){ 0 };
    s->patience.verify_ns = 0; /* a prefill is no measure of a round */
    (void)commit(r, verdict, finish);
    r->result->first_token_ns = pf_now_ns() - begin_ns;
    return PF_OK;
}

static pf_status generate(run *r)
{
    pf_finish finish;
    PF_TRY(first_token(r, &finish));
    const uint64_t begin_ns = pf_now_ns();
    pf_status status = PF_OK;
    while (finish == PF_FINISH_NONE && status == PF_OK) {
        const pf_proposal *proposal;
        const pf_verdict *verdict;
        status = ask_drafter(r, &proposal);
        if (status == PF_OK) status = decide(r, &proposal, &verdict);
        if (status == PF_OK) {
            const int32_t n_accepted = verdict->n_accepted, n_kept = commit(r, verdict, &finish);
            count_round(&r->result->speculation, proposal, n_accepted < n_kept ? n_accepted : n_kept);
        }
        r->result->decode_ns = pf_now_ns() - begin_ns;
    }
    if (status == PF_OK) r->result->finish = finish;
    return status;
}

static void close_everywhere(run *r)
{
    pf_session *s = r->session;
    pf_close close = { .sequence = r->sequence };
    const pf_batch batch = { .closes = &close, .n_closes = 1 };
    pf_stream_owner_end(s->to_verifier, r->sequence);
    pf_stream_owner_end(s->to_drafter, r->sequence);
    (void)!pf_peer_submit(s->options.verifier, &batch);
    if (s->options.drafter) (void)!pf_peer_submit(s->options.drafter, &batch);
}

static pf_status check_request(const pf_session *s, const pf_request *q, const pf_result *result, pf_error *error)
{
    if (q->n_prompt < 1) return pf_fail(error, PF_INVALID, "the prompt is empty, expected at least one token");
    if (q->n_prompt >= s->options.max_context)
        return pf_fail(error, PF_INVALID, "the prompt has %d tokens, expected at most %d: the context is %d",
                       q->n_prompt, s->options.max_context - 1, s->options.max_context);
    for (int32_t i = 0; i < q->n_prompt; i++)
        if (q->prompt[i] < 0 || q->prompt[i] >= s->n_vocab)
            return pf_fail(error, PF_INVALID, "token %d of the prompt is %d, expected 0 to %d", i, q->prompt[i],
                           s->n_vocab - 1);
    if (q->max_new_tokens < 1 || result->capacity < q->max_new_tokens)
        return pf_fail(error, PF_INVALID, "%d new tokens with room for %d, expected at least 1, and room for all",
                       q->max_new_tokens, result->capacity);
    if (s->options.drafter && (q->draft_len < 0 || q->draft_len > PF_MAX_DRAFT_TOKENS))
        return pf_fail(error, PF_INVALID, "a draft length of %d, expected 1 to %d, or 0 for auto", q->draft_len,
                       PF_MAX_DRAFT_TOKENS);
    if (q->n_stop_tokens < 0 || q->n_stop_tokens > PF_MAX_STOP_TOKENS)
        return pf_fail(error, PF_INVALID, "%d stop tokens, expected at most %d", q->n_stop_tokens, PF_MAX_STOP_TOKENS);
    return pf_sampling_check(&q->sampling, error);
}

static pf_method resolve_method(const pf_request *q)
{
    if (q->sampling.temperature == 0.0f) return PF_METHOD_GREEDY;
    return q->method ? q->method : PF_METHOD_REJECTION;
}

pf_status pf_generate(pf_session *session, const pf_request *request, pf_result *result, pf_error *error)
{
    result->n_tokens = 0;
    result->finish = PF_FINISH_NONE;
    result->prefill_ns = result->first_token_ns = result->decode_ns = 0;
    result->speculation = (pf_speculation){ 0 };
    PF_TRY(check_request(session, request, result, error));

    const int32_t room = session->options.max_context - request->n_prompt;
    run r = {
        .session = session,
        .request = request,
        .method = resolve_method(request),
        .result = result,
        .error = error,
        .sequence = ++session->last_sequence,
        .max_tokens = request->n_prompt + (request->max_new_tokens < room ? request->max_new_tokens : room),
    };
    memcpy(session->committed, request->prompt, (size_t)request->n_prompt * sizeof *request->prompt);
    session->n_committed = request->n_prompt;
    PF_TRY(pf_stream_owner_begin(session->to_verifier, r.sequence, request->n_prompt));
    PF_TRY(pf_stream_owner_begin(session->to_drafter, r.sequence, request->n_prompt));
    const pf_status status = generate(&r);
    close_everywhere(&r);
    return status;
}
