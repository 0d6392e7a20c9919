#include "tests/support/unreliable_peer.h"

#include "base/clock.h"
#include "tests/support/test.h"

enum { COLLECT_NS = 100 * 1000 };

static uint32_t draw(unreliable_peer *u)
{
    u->rng = u->rng * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(u->rng >> 33);
}

static void pause_for(const unreliable_peer *u, uint64_t ns)
{
    pf_clock_wait_until(u->clock_ns, pf_clock_now_ns(u->clock_ns) + ns);
}

static mood next_mood(unreliable_peer *u)
{
    u->n_answers++;
    if (u->vanish_at && u->n_answers == u->vanish_at) return VANISH;
    if ((int32_t)(draw(u) % 16) >= u->faults_in_16) return HONEST;
    return u->only ? u->only : (mood)(draw(u) % N_MOODS);
}

/* Whatever it knew is gone with it. */
static pf_status vanish(unreliable_peer *u)
{
    pf_close close = { .sequence = u->open.sequence };
    const pf_batch batch = { .closes = &close, .n_closes = 1 };
    assert_int_equal(pf_peer_submit(u->inner, &batch), PF_OK);
    u->gone_for = u->stays_away ? INT32_MAX : u->stays_for ? u->stays_for : 3;
    return PF_UNAVAILABLE;
}

/* ---- what it hears ------------------------------------------------------------------------------------------------ */

static void note_opens(unreliable_peer *u, const pf_batch *batch)
{
    for (int32_t i = 0; i < batch->n_opens; i++) {
        u->open = batch->opens[i];
        if (u->open.incarnation > 1) u->n_reopened++;
        if (u->open.method != PF_METHOD_COUPLED) assert_int_equal(u->open.sampling.seed, 0);
        u->n_looks = 0;
    }
}

static void note_declared(unreliable_peer *u, const pf_batch *batch)
{
    const pf_proposal *p = batch->proposals;
    if (batch->n_proposals == 0 || !p->declared) return;
    for (int32_t i = 0; i < p->n_tokens; i++)
        if (p->declared[i].n > u->n_declared) u->n_declared = p->declared[i].n;
}

static pf_status submit(pf_peer *peer, const pf_batch *batch)
{
    unreliable_peer *u = (unreliable_peer *)peer;
    if (u->gone_for > 0) {
        u->gone_for--;
        return PF_UNAVAILABLE;
    }
    if (u->fails_as != PF_OK) return u->fails_as;
    if (u->full_for > 0 && batch->n_verdicts > 0 && batch->verdicts[0].round > 3) {
        u->full_for--;
        return PF_LIMIT;
    }
    for (int32_t i = 0; i < batch->n_closes; i++) assert_int_equal(batch->closes[i].sequence, u->open.sequence);
    note_opens(u, batch);
    note_declared(u, batch);
    for (int32_t i = 0; i < batch->n_verdicts; i++) u->n_accepted += batch->verdicts[i].n_accepted;
    if (u->knows_nothing) return PF_OK;
    if ((!u->ignore_limits && !u->is_old) || batch->n_opens == 0) return pf_peer_submit(u->inner, batch);
    pf_open open = batch->opens[0];
    if (u->is_old) open.drafter[0] = '\0';
    if (u->ignore_limits) {
        open.max_tokens = open.n_stop_tokens = 0;
        open.max_draft = PF_MAX_DRAFT_TOKENS;
        if (open.method == PF_METHOD_REJECTION) open.max_declared = PF_MAX_DECLARED;
    }
    pf_batch changed = *batch;
    changed.opens = &open;
    return pf_peer_submit(u->inner, &changed);
}

/* ---- what it says in the place of the truth ------------------------------------------------------------------------ */

/* A copy of the answer's one proposal, its tokens in memory of our own. */
static pf_proposal *change_proposal(unreliable_peer *u, const pf_batch *answer)
{
    u->answer = *answer;
    u->answer.proposals = &u->proposal;
    u->proposal = answer->proposals[0];
    if (u->proposal.n_tokens > 0)
        memcpy(u->tokens, u->proposal.tokens, (size_t)u->proposal.n_tokens * sizeof *u->tokens);
    u->proposal.tokens = u->tokens;
    return &u->proposal;
}

static void lie(unreliable_peer *u, const pf_batch *answer)
{
    pf_proposal *p = change_proposal(u, answer);
    for (int32_t i = 0; i < p->n_tokens; i++) u->tokens[i] = (int32_t)(draw(u) % (uint32_t)u->n_vocab);
    if (draw(u) % 4 == 0) p->base++;
    if (draw(u) % 4 == 0) p->round--;
}

static void add_siblings(unreliable_peer *u, pf_proposal *p)
{
    const int32_t n_chain = p->n_tokens < 2 ? p->n_tokens : 2;
    p->n_tokens = n_chain > 0 ? n_chain + u->siblings : 0;
    for (int32_t i = 0; i < p->n_tokens; i++) u->parents[i] = i < n_chain ? i - 1 : -1;
    for (int32_t i = n_chain; i < p->n_tokens; i++) u->tokens[i] = (u->tokens[0] + 1 + i) % u->n_vocab;
    p->parents = u->parents;
}

static void stray(unreliable_peer *u, const pf_batch *answer)
{
    pf_proposal *p = change_proposal(u, answer);
    if (u->out_of_vocabulary && p->n_tokens > 0) u->tokens[p->n_tokens - 1] = draw(u) % 2 ? u->n_vocab : -1;
    if (u->siblings > 0) add_siblings(u, p);
    if (u->empties > 0 && u->empties--) p->n_tokens = 0;
    if (u->declares_unknown && p->declared) {
        memcpy(u->declared, p->declared, (size_t)p->n_tokens * sizeof *u->declared);
        memcpy(u->ids, p->declared[0].ids, (size_t)p->declared[0].n * sizeof *u->ids);
        u->ids[p->declared[0].n - 1] = u->n_vocab;
        u->declared[0].ids = u->ids;
        p->declared = u->declared;
    }
    p->round += u->rounds_ahead;
    p->base += u->tokens_ahead;
}

static void judge_wrongly(unreliable_peer *u, const pf_batch *answer)
{
    u->answer = *answer;
    u->answer.verdicts = &u->verdict;
    u->verdict = answer->verdicts[0];
    memcpy(u->tokens, u->verdict.tokens, (size_t)u->verdict.n_tokens * sizeof *u->tokens);
    u->verdict.tokens = u->tokens;
    if (u->accept_another && u->verdict.n_accepted > 0) u->tokens[0] = (u->tokens[0] + 1) % u->n_vocab;
    if (u->accept_too_many) u->verdict.n_accepted = u->verdict.n_tokens + 1;
    if (u->accept_none) u->verdict.n_accepted = 0;
    if (u->adds) u->tokens[u->verdict.n_tokens - 1] = u->adds;
    u->verdict.round += u->rounds_ahead;
    u->verdict.incarnation += u->incarnations_ahead;
    u->verdict.base += u->tokens_ahead;
}

static pf_status refuse(unreliable_peer *u, uint32_t incarnation, pf_status status, const pf_batch **out)
{
    u->n_answers++;
    for (int32_t i = 0; i < REFUSALS; i++) {
        snprintf(u->words[i], sizeof u->words[i], "reason %d of answer %d", i, u->n_answers);
        u->refusals[i] = (pf_refusal){ u->open.sequence, incarnation, status, u->words[i] };
    }
    u->answer = (pf_batch){ .refusals = u->refusals, .n_refusals = REFUSALS };
    *out = &u->answer;
    return PF_OK;
}

/* A look that finds no answer: nothing, or a sign of life. */
static pf_status look(unreliable_peer *u, const pf_batch **out)
{
    u->n_looks++;
    if (u->sleeps_us) pause_for(u, (uint64_t)u->sleeps_us * 1000);
    u->answer = (pf_batch){ .n_verdicts = 0 };
    *out = &u->answer;
    return u->sign_at && u->n_looks % u->sign_at == 0 ? PF_OK : PF_CANCELLED;
}

static pf_status collect(pf_peer *peer, uint64_t deadline_ns, const pf_batch **out, pf_error *error)
{
    unreliable_peer *u = (unreliable_peer *)peer;
    if (u->clock_ns) pause_for(u, COLLECT_NS);
    if (u->gone_for > 0) return PF_UNAVAILABLE;
    if (u->knows_nothing) {
        u->request = (pf_prefix_request){ .sequence = u->open.sequence, .incarnation = u->open.incarnation };
        u->answer = (pf_batch){ .prefix_requests = &u->request, .n_prefix_requests = 1 };
        *out = &u->answer;
        return PF_OK;
    }
    if (u->refuses_as != PF_OK) return refuse(u, u->open.incarnation, u->refuses_as, out);
    if (u->refuses_late > 0 && u->refuses_late--) return refuse(u, u->open.incarnation - 1, PF_LIMIT, out);
    if (u->n_looks < u->computes) return look(u, out);
    const mood now = next_mood(u);
    if (now == VANISH) return vanish(u);
    const pf_batch *answer;
    PF_TRY(pf_peer_collect(u->inner, deadline_ns, &answer, error));
    if (now == LOSE_ANSWER) return PF_CANCELLED;

    const bool lies = now == LIE && answer->n_proposals == 1;
    const bool strays = (u->out_of_vocabulary || u->declares_unknown || u->siblings || u->empties || u->rounds_ahead ||
                         u->tokens_ahead) &&
                        answer->n_proposals == 1;
    const bool misjudges = (u->accept_too_many || u->accept_another || u->accept_none || u->adds || u->rounds_ahead ||
                            u->incarnations_ahead || u->tokens_ahead) &&
                           answer->n_verdicts == 1;
    if (lies) lie(u, answer);
    if (strays) stray(u, answer);
    if (misjudges) judge_wrongly(u, answer);
    if (!lies && !strays && !misjudges) u->answer = *answer;
    if (u->boasts_ns) u->answer.timing.compute_ns = u->boasts_ns;
    *out = &u->answer;
    return PF_OK;
}

static pf_status tell_info(pf_peer *peer, pf_model_info *out, pf_error *error)
{
    unreliable_peer *u = (unreliable_peer *)peer;
    u->n_infos++;
    if (u->is_unmet) return pf_fail(error, PF_UNAVAILABLE, "no answer");
    PF_TRY(pf_peer_info(u->inner, out, error));
    if (u->takes != 0) out->max_draft = u->takes > 0 ? u->takes : 0;
    if (u->declares != 0) out->max_declared = u->declares > 0 ? u->declares : 0;
    if (u->methods != 0) out->methods = u->methods < UINT32_MAX ? u->methods : 0;
    if (u->judges_chains) out->judges_trees = false;
    if (u->is_old) out->applies_typical_p = out->gives_logprobs = false;
    if (u->is_old) out->n_drafters = 0;
    if (u->vocab == 0) return PF_OK;
    out->vocab_size = u->vocab;
    memset(out->vocab_fingerprint, 0, sizeof out->vocab_fingerprint);
    return PF_OK;
}

static void tell_why(pf_peer *peer, pf_error *out)
{
    *out = ((unreliable_peer *)peer)->why;
}

static int32_t tell_backlog(const pf_peer *peer)
{
    const unreliable_peer *u = (const unreliable_peer *)peer;
    return u->unread > 0 ? u->unread : -1;
}

static void destroy(pf_peer *peer)
{
    (void)peer;
}

static const pf_peer_ops OPS = { .submit = submit,
                                 .collect = collect,
                                 .info = tell_info,
                                 .destroy = destroy,
                                 .why = tell_why,
                                 .backlog = tell_backlog };

unreliable_peer unreliable_peer_of(pf_peer *inner, uint64_t seed, int32_t faults_in_16, uint64_t *clock_ns)
{
    pf_error error = { 0 };
    pf_model_info info;
    assert_ok(pf_peer_info(inner, &info, &error), error);
    unreliable_peer u = {
        .head.ops = &OPS, .inner = inner, .rng = seed, .n_vocab = info.vocab_size, .faults_in_16 = faults_in_16
    };
    u.clock_ns = clock_ns;
    (void)pf_fail(&u.why, PF_UNAVAILABLE, "far:1: the cable is cut");
    return u;
}
