/*
 * A submit fences and moves the committed prefix; a collect feeds and drafts. What a sequence holds:
 *
 *      tokens   | 0 .. n_committed                | n_drafted of the latest proposal |
 *      KV       | 0 .. pf_kv_length ..........................|                          never the last drafted one
 *
 * The tokens behind the committed ones stay until a verdict has been compared with them: what it confirms, the KV
 * keeps. At least the last committed token is always fed again, because its row gives the first draft token.
 */
#include "draft/model_drafter.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "draft/choose.h"
#include "draft/length.h"
#include "kvcache/kvcache.h"
#include "proto/answer.h"

typedef struct {
    bool alive;  /* open here; the stream knows it under this slot */
    bool cold;   /* opened, and no verdict has come: its prompt is fed while the target is busy with it too */
    bool wanted; /* a verdict has come: to be proposed for */
    bool full;   /* committed more than the context holds: nothing to propose until it is closed */
    bool stuck;  /* the pool has no room for its prompt: the next proposal is empty */
    uint64_t sequence;
    uint32_t incarnation;
    pf_kv_seq kv;
    pf_sampling_request request;
    int32_t max_draft;
    bool adaptive; /* `length` tells after each token whether another is drawn, up to max_draft */
    pf_length length;
    bool branches;                      /* it tells also whose second choice is proposed beside it */
    float margins[PF_MAX_DRAFT_TOKENS]; /* of the latest proposal's tokens, where it is adaptive; so the next */
    int32_t second_choices[PF_MAX_DRAFT_TOKENS]; /* below 0: there is none */
    int32_t parents[PF_MAX_DRAFT_TOKENS];        /* of a proposal with branches: behind the chain they stand */
    int32_t n_branches;
    int32_t n_proposed;  /* tokens of the latest proposal's chain; 0: it has been judged */
    uint64_t drafted_ns; /* what it took */
    uint64_t left_ns;    /* when it was handed out */
    int32_t max_tokens;  /* of the request; INT32_MAX when unknown */
    int32_t *tokens;     /* [context's max_tokens + PF_MAX_DRAFT_TOKENS] */
    int32_t n_committed;
    int32_t n_drafted;
    int32_t n_planned;     /* tokens of the proposal in the making, at most */
    uint64_t round;        /* of that proposal */
    pf_declared *declared; /* [max_draft], into the two below */
    int32_t *ids;          /* [max_draft, PF_MAX_DECLARED] */
    float *probabilities;  /* [max_draft, PF_MAX_DECLARED] */
} sequence_state;

enum {
    MAX_CHOOSERS = 8, /* each has memory in the size of the vocabulary */
    SHARED_ROWS = 4,  /* fewer are not worth a step of the team */
};

typedef struct {
    pf_peer peer;
    pf_context *context;
    pf_kv *kv;
    pf_model_drafter_config config;
    pf_arena arena;
    pf_chooser choosers[MAX_CHOOSERS]; /* [n_choosers]: rows are shared between so many members */
    int32_t n_choosers;
    pf_length last_length;     /* of the adaptive sequence that ended last */
    sequence_state *sequences; /* [max_sequences] by the stream's slot */
    uint64_t n_opened;
    pf_span *spans;            /* [max_sequences] of a part of the batch */
    sequence_state **drafting; /* [max_sequences] whose they are */
    int32_t n_drafting;        /* whose tokens are being drawn */
    int32_t next_fed;          /* the slot whose backlog has its turn */
    bool prompts_are_due;      /* proposals went before them in the last collect */
    pf_answer answer;
} drafter;

static uint64_t now_ns(const drafter *d)
{
    return pf_clock_now_ns(d->config.stop.clock_ns);
}

/* ---- the end of a sequence ------------------------------------------------------------------------------------- */

static void end_sequence(drafter *d, sequence_state *s)
{
    pf_kv_release(d->kv, s->kv);
    if (s->alive && s->adaptive) d->last_length = s->length;
    s->alive = s->cold = s->wanted = false;
}

static void refuse(drafter *d, sequence_state *s, pf_status status, const char *text)
{
    pf_answer_refuse(&d->answer, s->sequence, s->incarnation, status, text);
    end_sequence(d, s);
}

/* ---- submit: fence and follow ---------------------------------------------------------------------------------- */

static int32_t longest_sequence(const drafter *d)
{
    return pf_context_get_config(d->context)->max_tokens;
}

static pf_status check_open(const pf_peer *peer, const pf_open *open, pf_error *error)
{
    const drafter *d = (const drafter *)peer;
    PF_TRY(pf_sampling_check(&open->sampling, error));
    PF_TRY(pf_answer_check_method(open->method, error));
    if (open->max_draft < 1 || open->max_draft > PF_MAX_DRAFT_TOKENS)
        return pf_fail(error, PF_INVALID, "max_draft is %d, expected 1 to %d", open->max_draft, PF_MAX_DRAFT_TOKENS);
    if (open->max_declared < 0 || open->max_declared > PF_MAX_DECLARED)
        return pf_fail(error, PF_INVALID, "max_declared is %d, expected 0 to %d", open->max_declared, PF_MAX_DECLARED);
    if (open->n_tokens < 0 || open->n_tokens > longest_sequence(d))
        return pf_fail(error, PF_LIMIT, "the prompt has %d tokens, the draft's context holds %d", open->n_tokens,
                       longest_sequence(d));
    const int32_t n_vocab = pf_context_n_vocab(d->context);
    const int32_t unknown = pf_count_known(open->tokens, open->n_tokens, n_vocab);
    if (unknown < open->n_tokens)
        return pf_fail(error, PF_INVALID, "token %d of the prompt is %d, the draft's vocabulary has %d", unknown,
                       open->tokens[unknown], n_vocab);
    return PF_OK;
}

static int32_t min_of(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* Positions of the KV that tokens [n] at `base` leave as they are. */
static int32_t count_confirmed(const drafter *d, const sequence_state *s, int32_t base, const int32_t *tokens,
                               int32_t n)
{
    const int32_t held = pf_kv_length(d->kv, s->kv);
    int32_t at = min_of(base, held);
    while (at < held && at - base < n && s->tokens[at] == tokens[at - base]) at++;
    return at;
}

/* A request that brings a seed can be repeated, and in this process 0 is one; on the wire it is none, and such a request gets
 * one of its own, so that no two draw alike. */
static uint64_t draft_seed(drafter *d, const pf_open *open)
{
    const bool own = open->sampling.seed != 0 || d->config.seed == 0;
    return own ? pf_noise_derive_seed(open->sampling.seed, 0) : pf_noise_derive_seed(d->config.seed, d->n_opened++);
}

static void start_sequence(drafter *d, sequence_state *s, const pf_open *open)
{
    if (!s->alive) pf_length_begin(&s->length, &d->last_length);
    s->alive = s->cold = true;
    s->wanted = s->full = s->stuck = false;
    s->request = (pf_sampling_request){ .sampling = open->sampling,
                                        .method = open->method,
                                        .max_declared = open->max_declared,
                                        .draft_seed = draft_seed(d, open) };
    s->max_draft = min_of(open->max_draft, d->config.max_draft);
    s->adaptive = open->adaptive_draft;
    s->branches = open->adaptive_draft && open->trees && open->method == PF_METHOD_GREEDY;
    s->n_proposed = s->n_branches = 0;
    s->max_tokens = open->max_tokens > 0 ? open->max_tokens : INT32_MAX;
    if (open->n_tokens > 0) memcpy(s->tokens, open->tokens, (size_t)open->n_tokens * sizeof *s->tokens);
    s->n_committed = open->n_tokens;
}

static void take_open(drafter *d, const pf_open *open)
{
    int32_t slot;
    if (!pf_answer_admit_open(&d->answer, open, &slot)) return;
    sequence_state *s = &d->sequences[slot];
    s->sequence = open->sequence;
    s->incarnation = open->incarnation;

    pf_error error;
    pf_status status = check_open(&d->peer, open, &error);
    if (status == PF_OK) {
        status = s->alive ? pf_kv_truncate(d->kv, s->kv, count_confirmed(d, s, 0, open->tokens, open->n_tokens))
                          : pf_kv_acquire(d->kv, &s->kv);
        if (status != PF_OK) status = pf_fail(&error, PF_LIMIT, "no room for another sequence in the KV cache");
    }
    if (status == PF_OK)
        start_sequence(d, s, open);
    else
        refuse(d, s, status, error.text);
}

/* The committed prefix grows by tokens [n]: keep of the KV what they confirm, but never the last one's row. */
static pf_status follow(drafter *d, sequence_state *s, const int32_t *tokens, int32_t n)
{
    const int32_t committed = s->n_committed + n;
    int32_t keep = 0;
    if (committed > longest_sequence(d))
        s->full = true;
    else
        keep = min_of(count_confirmed(d, s, s->n_committed, tokens, n), committed > 0 ? committed - 1 : 0);
    PF_TRY(pf_kv_truncate(d->kv, s->kv, keep));
    if (!s->full && n > 0) memcpy(s->tokens + s->n_committed, tokens, (size_t)n * sizeof *tokens);
    if (!s->full) s->n_committed = committed;
    s->n_drafted = 0;
    return PF_OK;
}

/* What a verdict tells of the proposal before it, whose tokens are still behind the committed ones. */
static void learn_length(const drafter *d, sequence_state *s, const pf_verdict *verdict)
{
    const int32_t *chain = s->tokens + s->n_committed, n_drawn = s->n_proposed;
    s->n_proposed = 0;
    if (n_drawn == 0 || verdict->n_accepted > n_drawn) return;
    if (verdict->n_accepted == 0 && verdict->n_tokens > 0 && verdict->tokens[0] == chain[0]) {
        pf_length_observe_late(&s->length, s->margins[0]);
        return;
    }
    int32_t n_kept = 0;
    while (n_kept < verdict->n_accepted && verdict->tokens[n_kept] == chain[n_kept]) n_kept++;
    const bool second_right =
        n_kept < n_drawn && n_kept < verdict->n_tokens && verdict->tokens[n_kept] == s->second_choices[n_kept];
    const pf_length_round round = { .n_drawn = n_drawn,
                                    .n_branches = s->n_branches,
                                    .n_kept = n_kept,
                                    .second_right = second_right,
                                    .n_committed = verdict->n_accepted + 1,
                                    .draft_ns = s->drafted_ns,
                                    .away_ns = now_ns(d) - s->left_ns };
    pf_length_observe(&s->length, s->margins, &round);
}

static void take_verdict(drafter *d, const pf_verdict *verdict)
{
    int32_t slot;
    if (!pf_answer_admit_verdict(&d->answer, verdict, &slot)) return;
    sequence_state *s = &d->sequences[slot];
    if (pf_count_known(verdict->tokens, verdict->n_tokens, pf_context_n_vocab(d->context)) < verdict->n_tokens) {
        refuse(d, s, PF_INVALID, "a committed token is not in the draft's vocabulary");
        return;
    }
    if (s->adaptive) learn_length(d, s, verdict);
    if (follow(d, s, verdict->tokens, verdict->n_tokens) != PF_OK) {
        refuse(d, s, PF_LIMIT, "the KV cache lost the sequence");
        return;
    }
    s->wanted = verdict->finish == PF_FINISH_NONE;
    s->cold = false;
}

static pf_status submit(pf_peer *peer, const pf_batch *batch)
{
    drafter *d = (drafter *)peer;
    pf_answer_begin(&d->answer);
    int32_t slot;
    for (int32_t i = 0; i < batch->n_closes; i++)
        if (pf_answer_admit_close(&d->answer, &batch->closes[i], &slot)) end_sequence(d, &d->sequences[slot]);
    for (int32_t i = 0; i < batch->n_opens; i++) take_open(d, &batch->opens[i]);
    for (int32_t i = 0; i < batch->n_verdicts; i++) take_verdict(d, &batch->verdicts[i]);
    return PF_OK;
}

/* ---- collect: feed and draft ----------------------------------------------------------------------------------- */

/* When a pass that begins now ends where a larger draft's is simulated; 0: when it is done, and no clock is read. */
static uint64_t simulated_end_ns(const drafter *d, int32_t n_rows)
{
    const pf_model_drafter_config *config = &d->config;
    if (config->simulate_token_ns == 0) return 0;
    const int32_t n_reads = config->simulate_rows > 0 ? n_rows / config->simulate_rows : 1;
    return now_ns(d) + config->simulate_token_ns * (uint64_t)(n_reads > 1 ? n_reads : 1);
}

static pf_status forward(drafter *d, const pf_span *spans, int32_t n)
{
    int32_t n_rows = 0;
    for (int32_t i = 0; i < n; i++) n_rows += spans[i].n_tokens;
    const uint64_t end_ns = simulated_end_ns(d, n_rows);
    const pf_status status = pf_context_forward(d->context, spans, n);
    if (end_ns > 0) pf_stop_or_wait(&d->config.stop, end_ns);
    return status;
}

/* The length of the next proposal, or where it is adaptive what bounds it: what was asked for, and what there is room for. */
static int32_t plan(const drafter *d, const sequence_state *s)
{
    if (s->full || s->stuck || s->n_committed == 0) return 0;
    const int32_t to_commit = s->max_tokens - s->n_committed;
    if (to_commit <= 0) return 0;
    /* The last token of a proposal is not fed, so the context may be full when it is drawn. */
    const int32_t room = longest_sequence(d) - s->n_committed + 1;
    return min_of(min_of(s->max_draft, room), to_commit > 1 ? to_commit - 1 : 1);
}

/* Tokens to be fed before it is a sequence's turn: all but what one pass takes together with the first draft token's row;
 * of a cold one all. */
static int32_t count_backlog(const drafter *d, const sequence_state *s)
{
    if (!s->cold && (!s->wanted || plan(d, s) == 0)) return 0;
    const int32_t missing = s->n_committed - pf_kv_length(d->kv, s->kv);
    return s->wanted ? missing - pf_context_get_config(d->context)->max_rows : missing;
}

static bool is_ready(const drafter *d, const sequence_state *s)
{
    return s->wanted && count_backlog(d, s) <= 0;
}

/* One pass over a backlog. What a pool that is full has taken of it is given back. */
static void feed_sequence(drafter *d, sequence_state *s, int32_t n_tokens)
{
    const int32_t held = pf_kv_length(d->kv, s->kv);
    const uint64_t end_ns = simulated_end_ns(d, n_tokens);
    if (pf_context_prefill(d->context, s->kv, s->tokens + held, n_tokens, false) != PF_OK) {
        s->stuck = s->wanted;
        s->cold = false;
        (void)!pf_kv_truncate(d->kv, s->kv, 0);
    }
    if (end_ns > 0) pf_stop_or_wait(&d->config.stop, end_ns);
}

/* One pass over a backlog, of each in turn: between two, whoever is ready goes first. Whether there was any. */
static bool feed(drafter *d)
{
    const int32_t max_rows = pf_context_get_config(d->context)->max_rows, n_slots = d->config.max_sequences;
    for (int32_t i = 0; i < n_slots; i++) {
        const int32_t slot = (d->next_fed + i) % n_slots;
        sequence_state *s = &d->sequences[slot];
        const int32_t n = min_of(count_backlog(d, s), max_rows);
        if (n <= 0) continue;
        feed_sequence(d, s, n);
        d->next_fed = (slot + 1) % n_slots;
        return true;
    }
    return false;
}

/* Take the next token of a sequence from its row. What was drawn before a row of NaNs is proposed all the same. */
static void draw_token(drafter *d, const pf_chooser *chooser, sequence_state *s, int32_t row)
{
    const int32_t i = s->n_drafted;
    const float *logits = pf_context_logits(d->context, row);
    int32_t *token = &s->tokens[s->n_committed + i];
    int32_t *ids = s->ids + (ptrdiff_t)i * PF_MAX_DECLARED;
    float *probabilities = s->probabilities + (ptrdiff_t)i * PF_MAX_DECLARED;
    int32_t n_declared = 0;
    const pf_status status = pf_choose_token(chooser, &s->request, logits, s->n_committed + i, s->round, token, ids,
                                             probabilities, &n_declared);
    if (status != PF_OK) {
        s->n_planned = i;
        return;
    }
    s->declared[i] = (pf_declared){ ids, probabilities, n_declared };
    s->n_drafted++;
    if (!s->adaptive) return;
    s->margins[i] = pf_choose_margin(chooser, logits, *token, &s->second_choices[i]);
    if (!pf_length_goes_on(&s->length, s->margins, s->n_drafted, s->n_planned)) s->n_planned = s->n_drafted;
}

/* A member's share of the rows of d->drafting. */
static void draw_share(pf_member member, void *arg)
{
    drafter *d = arg;
    member.n_threads = min_of(member.n_threads, d->n_choosers);
    if (member.id >= member.n_threads) return;
    int32_t begin, end;
    pf_team_share(member, d->n_drafting, &begin, &end);
    for (int32_t i = begin; i < end; i++) draw_token(d, &d->choosers[member.id], d->drafting[i], i);
}

static void draw_tokens(drafter *d, int32_t n)
{
    d->n_drafting = n;
    if (n < SHARED_ROWS)
        draw_share((pf_member){ .n_threads = 1 }, d);
    else
        pf_context_run_members(d->context, draw_share, d);
}

/* Run n spans, and draw a token for each. What one of them lacks it lacks alone: after a failure each runs by itself,
 * and one that fails then is done drafting. */
static void run_spans(drafter *d, int32_t n)
{
    if (n == 0) return;
    if (forward(d, d->spans, n) == PF_OK) {
        draw_tokens(d, n);
        return;
    }
    for (int32_t i = 0; i < n; i++) {
        if (n > 1 && forward(d, &d->spans[i], 1) == PF_OK)
            draw_token(d, &d->choosers[0], d->drafting[i], 0);
        else
            d->drafting[i]->n_planned = d->drafting[i]->n_drafted;
    }
}

/* One more token for every sequence that has not all it planned, in as few passes as the context's rows allow.
 * Returns whether there was any. */
static bool draft_step(drafter *d)
{
    const pf_context_config *limits = pf_context_get_config(d->context);
    int32_t n = 0, n_rows = 0;
    bool any = false;
    for (int32_t slot = 0; slot < d->config.max_sequences; slot++) {
        sequence_state *s = &d->sequences[slot];
        if (!s->wanted || s->n_drafted >= s->n_planned) continue;
        any = true;
        const int32_t held = pf_kv_length(d->kv, s->kv), rows = s->n_committed + s->n_drafted - held;
        if (n_rows + rows > limits->max_rows || n == limits->max_logit_rows) {
            run_spans(d, n);
            n = n_rows = 0;
        }
        d->spans[n] = (pf_span){ .sequence = s->kv, .tokens = s->tokens + held, .n_tokens = rows, .n_logits = 1 };
        d->drafting[n++] = s;
        n_rows += rows;
    }
    run_spans(d, n);
    return any;
}

static void begin_proposal(drafter *d, int32_t slot)
{
    sequence_state *s = &d->sequences[slot];
    pf_proposal proposal = { 0 };
    pf_stream_answerer_propose(d->answer.stream, slot, &proposal);
    s->round = proposal.round;
    s->n_planned = plan(d, s);
}

/* Runners-up beside the chain, behind its tokens in the same array. A verdict that takes one finds no row of it in the KV. */
static void add_branches(const drafter *d, sequence_state *s, pf_proposal *proposal)
{
    const int32_t n_chain = s->n_drafted;
    int32_t at[PF_MAX_DRAFT_TOKENS];
    const int32_t n_wanted = pf_length_branches(&s->length, s->margins, n_chain, plan(d, s), at);
    s->n_branches = 0;
    for (int32_t i = 0; i < n_chain; i++) s->parents[i] = i - 1;
    for (int32_t i = 0; i < n_wanted; i++) {
        if (s->second_choices[at[i]] < 0) continue; /* nothing else is a number, or there is nothing else */
        const int32_t node = n_chain + s->n_branches++;
        s->tokens[s->n_committed + node] = s->second_choices[at[i]];
        s->parents[node] = at[i] - 1;
    }
    if (s->n_branches == 0) return;
    proposal->n_tokens = n_chain + s->n_branches;
    proposal->parents = s->parents;
}

static void end_proposal(drafter *d, int32_t slot, uint64_t drafted_ns)
{
    sequence_state *s = &d->sequences[slot];
    pf_proposal proposal = { 0 };
    pf_stream_answerer_propose(d->answer.stream, slot, &proposal);
    proposal.tokens = s->tokens + s->n_committed;
    proposal.n_tokens = s->n_drafted;
    proposal.declared = s->n_drafted > 0 && pf_sampling_request_declares(&s->request) ? s->declared : NULL;
    if (s->branches && s->n_drafted > 0) add_branches(d, s, &proposal);
    d->answer.batch.proposals[d->answer.batch.n_proposals++] = proposal;
    s->wanted = s->stuck = false;
    s->n_proposed = s->n_drafted;
    s->drafted_ns = drafted_ns;
    s->left_ns = now_ns(d);
}

/* Proposals for all that are ready, drafted together. Told to stop, none: a proposal that time has cut short would be one
 * of other tokens, under rejection of another distribution. */
static void propose(drafter *d)
{
    const uint64_t start = now_ns(d);
    for (int32_t slot = 0; slot < d->config.max_sequences; slot++) {
        d->sequences[slot].n_planned = 0;
        if (is_ready(d, &d->sequences[slot])) begin_proposal(d, slot);
    }
    while (draft_step(d))
        if (pf_stop_is_due(&d->config.stop)) return;
    for (int32_t slot = 0; slot < d->config.max_sequences; slot++)
        if (is_ready(d, &d->sequences[slot])) end_proposal(d, slot, now_ns(d) - start);
}

/* Who is ready goes before who has a prompt to be fed, and is answered before it; but only once, since there may always be
 * somebody. */
static pf_status collect(pf_peer *peer, uint64_t deadline_ns, const pf_batch **out, pf_error *error)
{
    drafter *d = (drafter *)peer;
    pf_answer_begin(&d->answer);
    const uint64_t start = now_ns(d);
    do {
        const bool fed = d->prompts_are_due && feed(d);
        propose(d);
        d->prompts_are_due = !fed;
        d->answer.batch.timing.compute_ns = now_ns(d) - start;
        if (pf_answer_hand_out(&d->answer, out)) return PF_OK;
        if (pf_stop_is_due(&d->config.stop)) return pf_fail(error, PF_CANCELLED, "the drafter was told to stop");
        d->prompts_are_due = false;
        if (!fed && !feed(d)) return pf_fail(error, PF_CANCELLED, "nothing was asked of the drafter");
    } while (now_ns(d) < deadline_ns);
    d->answer.batch.timing.compute_ns = now_ns(d) - start;
    *out = &d->answer.batch; /* nothing in it: it is at work still */
    return PF_OK;
}

/* ---- life ---------------------------------------------------------------------------------------------------- */

static pf_status tell_info(pf_peer *peer, pf_model_info *out, pf_error *error)
{
    (void)error;
    *out = ((drafter *)peer)->config.info;
    return PF_OK;
}

static void destroy(pf_peer *peer)
{
    drafter *d = (drafter *)peer;
    for (int32_t i = 0; d->sequences && i < d->config.max_sequences; i++)
        if (d->sequences[i].alive) end_sequence(d, &d->sequences[i]);
    pf_context_set_stop(d->context, NULL);
    pf_stream_answerer_destroy(d->answer.stream);
    pf_arena_destroy(&d->arena);
    free(d);
}

static bool owes(const pf_peer *peer, uint64_t sequence)
{
    const drafter *d = (const drafter *)peer;
    const int32_t slot = pf_stream_answerer_find(d->answer.stream, sequence);
    return slot >= 0 && d->sequences[slot].wanted;
}

static const pf_peer_ops ops = {
    .submit = submit,
    .collect = collect,
    .info = tell_info,
    .destroy = destroy,
    .owes = owes,
    .check_open = check_open,
};

static void lay_out_sequence(const drafter *d, sequence_state *s, pf_arena *arena)
{
    const size_t n_draft = (size_t)d->config.max_draft;
    sequence_state laid = {
        .tokens = pf_arena_take(arena, (size_t)longest_sequence(d) + PF_MAX_DRAFT_TOKENS, sizeof *s->tokens),
        .declared = pf_arena_take(arena, n_draft, sizeof *s->declared),
        .ids = pf_arena_take(arena, n_draft * PF_MAX_DECLARED, sizeof *s->ids),
        .probabilities = pf_arena_take(arena, n_draft * PF_MAX_DECLARED, sizeof *s->probabilities),
    };
    if (s) *s = laid;
}

/* Run twice: on a measure, where every pointer is NULL, and on the arena made to that measure. */
static void lay_out(drafter *d, pf_arena *arena)
{
    const size_t n = (size_t)d->config.max_sequences;
    int32_t n_vocab = pf_context_n_vocab(d->context);
    if (d->config.info.vocab_size > 0) n_vocab = min_of(n_vocab, d->config.info.vocab_size);
    d->n_choosers = min_of(pf_context_n_threads(d->context), MAX_CHOOSERS);
    for (int32_t i = 0; i < d->n_choosers; i++)
        d->choosers[i] = pf_chooser_create(pf_context_model(d->context), n_vocab, arena);
    d->sequences = pf_arena_take(arena, n, sizeof *d->sequences);
    d->spans = pf_arena_take(arena, n, sizeof *d->spans);
    d->drafting = pf_arena_take(arena, n, sizeof(sequence_state *));
    d->answer.batch.proposals = pf_arena_take(arena, n, sizeof *d->answer.batch.proposals);
    pf_answer_lay_out(&d->answer, arena);
    for (size_t i = 0; i < n; i++) lay_out_sequence(d, d->sequences ? &d->sequences[i] : NULL, arena);
}

static pf_status check_config(pf_context *context, const pf_model_drafter_config *config, pf_error *error)
{
    const int32_t max_sequences = min_of(pf_context_get_config(context)->max_sequences, PF_MAX_BATCH_SEQUENCES);
    if (config->max_sequences < 1 || config->max_sequences > max_sequences)
        return pf_fail(error, PF_INVALID, "the drafter's max_sequences is %d, expected 1 to %d", config->max_sequences,
                       max_sequences);
    if (config->max_draft < 1 || config->max_draft > PF_MAX_DRAFT_TOKENS)
        return pf_fail(error, PF_INVALID, "the drafter's max_draft is %d, expected 1 to %d", config->max_draft,
                       PF_MAX_DRAFT_TOKENS);
    if (pf_context_get_config(context)->max_logit_rows < 1)
        return pf_fail(error, PF_INVALID, "the draft's context has no row for logits, expected at least 1");
    return PF_OK;
}

pf_status pf_model_drafter_create(pf_context *context, const pf_model_drafter_config *config, pf_peer **out,
                                  pf_error *error)
{
    PF_TRY(check_config(context, config, error));
    drafter *d = calloc(1, sizeof *d);
    if (!d) return pf_fail(error, PF_NOMEM, "no memory for the drafter");
    *d = (drafter){ .peer.ops = &ops, .context = context, .kv = pf_context_kv(context), .config = *config };

    pf_arena measure = pf_arena_measure();
    lay_out(d, &measure);
    pf_status status = pf_arena_create(measure.used, &d->arena);
    if (status == PF_OK) {
        pf_arena_populate(&d->arena, PF_ARENA_FIRST_BYTES, NULL);
        lay_out(d, &d->arena);
        status = pf_stream_answerer_create(config->max_sequences, &d->answer.stream);
    }
    pf_context_set_stop(context, &d->config.stop);
    if (status != PF_OK) {
        destroy(&d->peer);
        return pf_fail(error, status, "no memory for the drafter's %d sequences", config->max_sequences);
    }
    *out = &d->peer;
    return PF_OK;
}

size_t pf_model_drafter_reserved_bytes(const pf_peer *peer)
{
    return ((const drafter *)peer)->arena.size;
}
