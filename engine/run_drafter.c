/*
 * Gets a round's proposal from the drafter, near or far.
 *
 * Invariant 6: a far drafter that is late, gone, refusing or wrong costs at most the wait that engine/draft_wait.h grants, and one
 * warning for each kind of trouble. A near drafter computes in this process: its failure is the request's.
 */
#include "engine/run.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "engine/roles.h"
#include "proto/drafter_names.h"
#include "proto/tree.h"

static const uint64_t STEADY_NS = 60000000000;
enum {
    MAX_LOSS_WARNINGS = 3,
    LATE_ANSWERS = 64,         /* late answers read in one round, */
    LATE_NS = 5 * 1000 * 1000, /* and the time for reading them but for the last: one of 4 MiB takes 15 ms */
};

static void count_loss(pf_session *s)
{
    const uint64_t now_ns = pf_session_now_ns(s);
    if (now_ns - s->lost_ns > STEADY_NS) s->n_losses = 0;
    if (s->n_losses <= MAX_LOSS_WARNINGS) s->n_losses++;
    s->lost_ns = now_ns;
}

/* Warns once for each kind of trouble: no worker, or another one. The last warning about a worker that comes and goes
 * says so. */
static void on_drafter_lost(pf_run *r)
{
    pf_session *s = r->session;
    pf_stream_owner_lost(s->to_drafter);
    pf_error why = { .status = PF_UNAVAILABLE, .text = "no reason given" };
    pf_peer_why(s->options.drafter, &why);
    if (s->drafter_trouble == why.status) return;
    s->drafter_trouble = why.status;
    count_loss(s);
    if (s->n_losses > MAX_LOSS_WARNINGS) return;
    char sentence[sizeof why.text + 128];
    snprintf(sentence, sizeof sentence, "the draft worker is gone (%s); decoding goes on without it%s", why.text,
             s->n_losses == MAX_LOSS_WARNINGS ? " while it comes and goes, which is not reported again" : "");
    pf_session_warn(s, sentence);
}

static bool may_be_asked(const pf_run *r)
{
    const pf_session *s = r->session;
    return s->options.drafter && !r->request->no_speculation && !r->drafter_refused && !s->drafter_is_unfit &&
           pf_run_max_draft(r) > 0;
}

static pf_status submit(pf_run *r, const pf_batch *batch)
{
    PF_TRY(pf_run_submit(r, r->session->options.drafter, batch));
    if (batch->n_opens > 0) r->drafter_has_it = true;
    return PF_OK;
}

/* The committed tokens with ids that the drafter has, borrowed until the next call. An id that it lacks becomes id 0: the
 * positions stay, and what it drafts is a guess in any case. */
static const int32_t *read_as_drafter(pf_run *r)
{
    enum { STAND_IN = 0 };
    pf_session *s = r->session;
    const int32_t n_ids = pf_model_ids(&s->drafter_info);
    if (!s->drafter_is_known || n_ids >= pf_model_ids(&s->verifier_info)) return s->committed;
    for (; r->n_as_drafter < s->n_committed; r->n_as_drafter++) {
        const int32_t id = s->committed[r->n_as_drafter];
        s->as_drafter[r->n_as_drafter] = id < n_ids ? id : STAND_IN;
    }
    return s->as_drafter;
}

static pf_status make_open(pf_run *r, pf_open *open)
{
    pf_session *s = r->session;
    PF_TRY(pf_run_make_open(r, s->to_drafter, s->options.drafter->is_far, open));
    open->tokens = read_as_drafter(r);
    open->excluded = s->match.excluded;
    open->n_excluded = s->match.n_excluded;
    if (r->request->drafter) snprintf(open->drafter, sizeof open->drafter, "%s", r->request->drafter);
    const int32_t n_ids = pf_model_ids(&s->drafter_info);
    if (!s->drafter_is_known || pf_count_known(open->stop_tokens, open->n_stop_tokens, n_ids) == open->n_stop_tokens)
        return PF_OK;
    int32_t n = 0;
    for (int32_t i = 0; i < open->n_stop_tokens; i++)
        if (open->stop_tokens[i] < n_ids) r->drafter_stops[n++] = open->stop_tokens[i];
    open->stop_tokens = r->drafter_stops;
    open->n_stop_tokens = n;
    return PF_OK;
}

void pf_run_announce(pf_run *r)
{
    pf_session *s = r->session;
    if (!may_be_asked(r) || !s->options.drafter->is_far) return;
    pf_open open;
    if (make_open(r, &open) != PF_OK) return;
    const pf_batch batch = { .opens = &open, .n_opens = 1 };
    if (submit(r, &batch) != PF_OK) pf_stream_owner_lost(s->to_drafter);
}

/* For a proposal to be there in time it is to leave a far drafter before the wait is over; the rest of it is for the way. A proposal that is
 * not waited for is of use when it comes. */
static uint32_t propose_within_us(const pf_session *s)
{
    if (!s->options.drafter->is_far) return 0;
    const uint64_t limit_us = pf_draft_wait_limit_ns(&s->draft_wait, pf_session_now_ns(s)) / 1000;
    return (uint32_t)(limit_us < UINT32_MAX ? limit_us - limit_us / 8 : UINT32_MAX);
}

/* Sends the last verdict to the drafter; one that does not know the sequence gets all committed tokens before it. */
static pf_status send_verdict(pf_run *r, bool asks, uint64_t *round)
{
    pf_session *s = r->session;
    pf_open open;
    pf_verdict verdict = {
        .tokens = read_as_drafter(r) + r->last_base,
        .n_tokens = s->n_committed - r->last_base,
        .n_accepted = r->last_accepted,
        .propose_within_us = propose_within_us(s),
        .next_draft = asks ? 0 : PF_NO_DRAFT,
    };
    pf_batch batch = { .verdicts = &verdict, .n_verdicts = 1, .timing.compute_ns = r->verified_ns };
    if (pf_stream_owner_due(s->to_drafter, r->sequence)) {
        PF_TRY(make_open(r, &open));
        batch.opens = &open;
        batch.n_opens = 1;
        verdict.propose_within_us = 0; /* it has a prompt to read: its proposal may come late, and is of use then */
    }
    PF_TRY(pf_stream_owner_commit(s->to_drafter, r->sequence, verdict.n_tokens, &verdict));
    *round = verdict.round + 1;
    return submit(r, &batch);
}

/* One warning for each kind, refusals by their status, and only once a session: a worker chooses what it sends, and
 * how often. */
static void warn_once(pf_session *session, uint32_t kind, const char *does, const char *what)
{
    char sentence[2 * PF_MAX_REFUSAL_BYTES];
    if (session->told & 1u << kind) return;
    session->told |= 1u << kind;
    snprintf(sentence, sizeof sentence, "%s %s: %s; decoding goes on without it",
             session->options.drafter->is_far ? "the draft worker" : "the draft", does, what);
    pf_session_warn(session, sentence);
}

/* A protocol violation: the worker is not asked again for this sequence, nor waited for. */
static void distrust(pf_run *r, const char *what)
{
    if (r->drafter_refused) return;
    r->drafter_refused = true;
    warn_once(r->session, PF_FORMAT, "violates the protocol", what);
}

/* One at a time: the next late proposal is kept after this one is judged. */
static void keep_late(pf_run *r, const pf_proposal *p)
{
    pf_late_proposal *late = &r->late;
    if (late->n > 0 || p->n_tokens < 1 || p->base < 0 || p->base > r->session->n_committed) return;
    late->base = p->base;
    late->n = pf_tree_chain(p->parents, p->n_tokens);
    memcpy(late->tokens, p->tokens, (size_t)late->n * sizeof *late->tokens);
}

/* Counts the tokens that would have been accepted, once they are known. */
static void judge_late(pf_run *r)
{
    const pf_session *s = r->session;
    pf_late_proposal *late = &r->late;
    if (late->n == 0 || s->n_committed <= late->base + late->n) return;
    int32_t n = 0;
    while (n < late->n && s->committed[late->base + n] == late->tokens[n]) n++;
    late->n = 0;
    pf_draft_wait_in_hindsight(&r->session->draft_wait, n + 1);
}

/* What a late proposal has behind the committed tokens, where its first ones are those: a proposal for this round, of tokens only,
 * which any method judges losslessly as one-hot. NULL: there is none. */
static const pf_proposal *rest_of_late(pf_run *r)
{
    const pf_session *s = r->session;
    const pf_late_proposal *late = &r->late;
    const int32_t n_decided = s->n_committed - late->base;
    if (late->n <= n_decided) return NULL;
    if (memcmp(late->tokens, s->committed + late->base, (size_t)n_decided * sizeof *late->tokens) != 0) return NULL;
    r->proposal = (pf_proposal){ .tokens = late->tokens + n_decided,
                                 .n_tokens = pf_min(late->n - n_decided, pf_run_max_draft(r)) };
    return &r->proposal;
}

/* Whether the verifier has all the tokens that it names: a far verifier refuses the sequence for one that it lacks. */
static bool is_known(const pf_run *r, const pf_proposal *p)
{
    const int32_t n_ids = pf_model_ids(&r->session->verifier_info);
    if (pf_count_known(p->tokens, p->n_tokens, n_ids) < p->n_tokens) return false;
    for (int32_t i = 0; p->declared && i < p->n_tokens; i++)
        if (pf_count_known(p->declared[i].ids, p->declared[i].n, n_ids) < p->declared[i].n) return false;
    return true;
}

static bool declares_too_much(const pf_run *r, const pf_proposal *p)
{
    for (int32_t i = 0; p->declared && i < p->n_tokens; i++)
        if (p->declared[i].n > r->session->verifier_info.max_declared) return true;
    return false;
}

static void count_ahead(pf_run *r, pf_ahead ahead)
{
    pf_speculation *s = &r->result->speculation;
    if (ahead == PF_AHEAD_HIT)
        s->hit_us[s->ahead_hits++ % PF_RPC_SAMPLES] = (uint32_t)((pf_session_now_ns(r->session) - r->asked_ns) / 1000);
    s->ahead_misses += ahead == PF_AHEAD_MISS;
}

/* The proposal for the coming round in an answer, or NULL. Of one that is longer than was asked for, the rest is nothing to
 * count or to judge; the first nodes of a tree are a tree. One that declares more than its verifier may read is tokens only,
 * as lossless. */
static const pf_proposal *find_proposal(pf_run *r, const pf_batch *answer)
{
    pf_session *s = r->session;
    for (int32_t i = 0; i < answer->n_refusals; i++) {
        if (pf_stream_owner_on_refusal(s->to_drafter, &answer->refusals[i]) == PF_FENCE_STALE) continue;
        warn_once(s, answer->refusals[i].status, "refuses the sequence", answer->refusals[i].text);
        r->drafter_refused = true;
    }
    for (int32_t i = 0; i < answer->n_prefix_requests; i++)
        (void)pf_stream_owner_on_prefix_request(s->to_drafter, &answer->prefix_requests[i]);
    const pf_proposal *current = NULL;
    const int32_t longest = pf_run_max_draft(r);
    for (int32_t i = 0; i < answer->n_proposals; i++) {
        pf_proposal p = answer->proposals[i];
        if (p.sequence != r->sequence || p.incarnation < r->first_incarnation) continue;
        if (p.n_tokens > longest) p.n_tokens = longest;
        if (declares_too_much(r, &p)) p.declared = NULL;
        const pf_fence fence = pf_stream_owner_on_proposal(s->to_drafter, &p);
        if (fence == PF_FENCE_PROTOCOL_VIOLATION) {
            if (s->options.drafter->is_far) distrust(r, "a proposal for what was never asked of it");
            continue;
        }
        if (s->options.drafter->is_far) pf_draft_wait_answered(&s->draft_wait, p.round, pf_session_now_ns(s));
        if (fence == PF_FENCE_CURRENT) {
            count_ahead(r, p.ahead);
            r->result->speculation.draft_passes += p.passes;
            r->proposal = p;
            current = &r->proposal;
        } else if (s->options.drafter->is_far) {
            keep_late(r, &p);
        }
    }
    return current;
}

/* Gets the info of a drafter that was not reachable when the session began. Where its vocabulary differs, the sequence
 * is opened again with the excluded ids. */
static void fetch_drafter_info(pf_session *session)
{
    if (pf_peer_info(session->options.drafter, &session->drafter_info, NULL) != PF_OK) return;
    session->drafter_is_known = true;
    (void)!pf_session_accept_drafter(session, NULL); /* a far one's never fails */
    if (session->match.n_different > 0) pf_stream_owner_lost(session->to_drafter);
}

/* A far drafter has answered: it is back, or was late. */
static void on_drafter_answer(pf_session *session)
{
    if (session->drafter_trouble != PF_OK && session->n_losses < MAX_LOSS_WARNINGS)
        pf_session_warn(session, "the draft worker is back");
    session->drafter_trouble = PF_OK;
    if (!session->drafter_is_known) fetch_drafter_info(session);
}

/* One that came late may lack what the request asks for, and may not read the field. */
static void check_offer(pf_run *r)
{
    const pf_session *s = r->session;
    pf_error why;
    if (!r->request->drafter || !s->drafter_is_known || r->drafter_refused) return;
    if (pf_drafter_names_check(&s->drafter_info, r->request->drafter, &why) == PF_OK) return;
    r->drafter_refused = true;
    warn_once(r->session, (uint32_t)why.status, "cannot draft as it is asked", why.text);
}

/* Answers read after the deadline. */
typedef struct {
    int32_t n;
    uint64_t begin_ns;
} lateness;

/* Whether to stop reading late answers: a far drafter may send faster than it is read. */
static bool late_limit_reached(const pf_session *s, lateness *late, uint64_t deadline_ns)
{
    const uint64_t now_ns = pf_session_now_ns(s);
    if (now_ns < deadline_ns) return false;
    if (late->n == 0) late->begin_ns = now_ns;
    return late->n++ == LATE_ANSWERS || now_ns > late->begin_ns + LATE_NS;
}

/* PF_CANCELLED: no answer came, or the request is cancelled (pf_run_is_cancelled tells). A far drafter is waited for
 * in slices, so that a cancel is noticed; an answer ends a slice at once, and so does a peer that owes none. */
static pf_status next_answer(const pf_run *r, uint64_t deadline_ns, lateness *late, const pf_batch **out)
{
    const pf_session *s = r->session;
    const bool far = s->options.drafter->is_far;
    if (far && late_limit_reached(s, late, deadline_ns)) return PF_CANCELLED;
    for (;;) {
        if (pf_run_is_cancelled(r)) return PF_CANCELLED;
        const uint64_t look_ns = pf_session_now_ns(s) + PF_RUN_CANCEL_POLL_NS;
        const uint64_t until_ns = far && look_ns < deadline_ns ? look_ns : deadline_ns;
        const pf_status status = pf_peer_collect(s->options.drafter, until_ns, out, r->error);
        if (status != PF_CANCELLED || until_ns == deadline_ns || pf_session_now_ns(s) < until_ns) return status;
    }
}

/* The coming round's proposal, waited for wait_ns since it was asked for; 0: as long as a near drafter computes, and of a far
 * one what has come. *out stays NULL where none came, or none that can be used. */
static pf_status await_proposal(pf_run *r, uint64_t wait_ns, const pf_proposal **out)
{
    pf_session *s = r->session;
    const bool far = s->options.drafter->is_far;
    const uint64_t deadline_ns =
        wait_ns ? r->asked_ns + wait_ns : 0; /* a near one computes all the same, pass by pass */
    lateness late = { 0 };
    for (;;) {
        const pf_batch *answer;
        const pf_status status = next_answer(r, deadline_ns, &late, &answer);
        if (status == PF_CANCELLED) {
            if (pf_run_is_cancelled(r)) return PF_CANCELLED;
            if (wait_ns) pf_draft_wait_timed_out(&s->draft_wait, pf_session_now_ns(s));
            *out = far ? rest_of_late(r) : NULL;
            if (*out && !is_known(r, *out)) *out = NULL;
            r->proposes_late = *out != NULL;
            return PF_OK;
        }
        if (status == PF_UNAVAILABLE && far) {
            on_drafter_lost(r);
            return PF_OK;
        }
        PF_TRY(status);
        if (far) on_drafter_answer(s);
        if (far) check_offer(r);
        if (s->drafter_is_unfit || r->drafter_refused) return PF_OK;
        const pf_proposal *proposal = find_proposal(r, answer);
        if (proposal || !far) pf_run_count_answer(r, answer, far, &r->result->speculation.draft_ns);
        if (proposal) {
            if (!is_known(r, proposal))
                distrust(r, "a token that its vocabulary does not have");
            else if (proposal->n_tokens > 0)
                *out = proposal;
            return PF_OK;
        }
        if (r->drafter_refused || pf_stream_owner_due(s->to_drafter, r->sequence)) return PF_OK;
    }
}

pf_status pf_run_ask_drafter(pf_run *r, const pf_proposal **out)
{
    pf_session *s = r->session;
    *out = NULL;
    r->proposes_late = false;
    if (!may_be_asked(r)) return PF_OK;
    const bool far = s->options.drafter->is_far;
    uint64_t round = 0;
    const bool asks = r->request->draft_len > 0 || !pf_hub_rests(s->options.drafter);
    const pf_status status = send_verdict(r, asks, &round);
    judge_late(r);
    if (status != PF_OK && !far)
        return pf_fail(r->error, status, "the drafter took no verdict: %s", pf_status_name(status));
    if (status == PF_LIMIT)
        return pf_stream_owner_give_up(s->to_drafter, r->sequence); /* far behind: once it answers */
    if (status != PF_OK) {
        on_drafter_lost(r);
        return PF_OK;
    }
    return !asks ? PF_OK : await_proposal(r, far ? pf_draft_wait_asked(&s->draft_wait, round, r->asked_ns) : 0, out);
}
