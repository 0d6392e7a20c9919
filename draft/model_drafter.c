/*
 * submit moves the committed prefix; collect reads prompts and drafts. What a sequence holds:
 *
 *      tokens   | 0 .. n_committed                | n_drafted of the latest proposal |
 *      cache    | 0 .. length ................................|                          never the last drafted one
 *
 * The tokens behind the committed ones stay until a verdict is compared with them: the cache keeps what it confirms. At least the last committed token is always fed again, because its row gives the first draft token.
 */
#include "draft/model_drafter.h"

#include <stdlib.h>

#include "base/checked.h"
#include "draft/ahead.h"
#include "draft/draft_state.h"
#include "draft/draw_tokens.h"
#include "draft/drafter_kind.h"
#include "draft/goodput.h"
#include "draft/judged_step.h"
#include "draft/parallel.h"
#include "draft/siblings.h"
#include "host/sequence_host.h"
#include "model/backend/sequence_cache.h"
#include "model/backend/span_batch.h"

/* Levels that a tree may have beyond a chain's best length: with more candidates a path goes farther. */
enum { TREE_LEVELS = 2 };

typedef struct {
    pf_host host;
    pf_forward_backend backend;
    uint64_t seed;           /* of the config */
    pf_sequence_cache cache; /* by slot */
    pf_drawer drawer;
    pf_outcome_cache ahead;
    pf_length last_length; /* of the adaptive sequence that ended last */
    pf_length last_fixed;  /* likewise of one of fixed length, where it is drafted ahead */
    pf_goodput goodput;
    pf_sibling_shares sibling_shares;
    pf_parallel parallel;
    pf_judged_step judged;
    pf_goodput_sequence *weighed; /* [max_sequences] */
    pf_draft_state *states;       /* [max_sequences] by slot */
    uint64_t n_opened;
    int32_t *ready; /* [max_sequences] slots that are drafted for */
    int32_t n_ready;
    uint64_t begun_ns; /* when the first of them began */
    uint64_t read_ns;  /* what reading took before, of adaptive ones behind their prompts */
    pf_passes how;     /* the proposals of the step are drafted; not AUTO */
    bool is_brief;     /* in one pass or two, the first of which reads no prompt: its time is taken */
    bool draws_whole;  /* the length of the step is chosen for all */
    bool is_timed;     /* one of them has a deadline, or its length is chosen */
    uint64_t pass_ns;  /* of a pass behind a proposal's first, smoothed over those that are timed */
    pf_span_batch batch;
    const int32_t *drawing; /* slots of the pass being drawn from, and ... */
    int32_t *first_rows;    /* [max_sequences] ... the first row of each */
} drafter;

static drafter *drafter_of(pf_host *host)
{
    return (drafter *)host;
}

static pf_draft_state *state_of(const pf_host *host, const pf_host_sequence *s)
{
    return &((const drafter *)host)->states[s->slot];
}

static int32_t cached(const pf_host *host, const pf_host_sequence *s)
{
    return pf_sequence_cache_length(&((const drafter *)host)->cache, s->slot);
}

/* ---- opens and closes ------------------------------------------------------------------------------------------ */

static pf_status acquire(pf_host *host, pf_host_sequence *s, const pf_open *open)
{
    drafter *d = drafter_of(host);
    pf_draft_state *state = state_of(host, s);
    (void)pf_ahead_drop(&d->ahead, s->slot);
    if (!s->is_open) pf_length_begin(&state->adaptive.length, open->adaptive_draft ? &d->last_length : &d->last_fixed);
    return pf_sequence_cache_open(&d->cache, s->slot, s->tokens, open->tokens, open->n_tokens);
}

/* A request with a seed can be repeated. In this process 0 is a seed; on the wire it means none, and the request gets a seed of its
 * own, so that draws are independent. */
static uint64_t draft_seed(drafter *d, const pf_open *open)
{
    const bool own = open->sampling.seed != 0 || d->seed == 0;
    return own ? pf_noise_derive_seed(open->sampling.seed, 0) : pf_noise_derive_seed(d->seed, d->n_opened++);
}

/* Ranges may lie past the vocabulary. */
static void keep_excluded(const drafter *d, pf_draft_state *state, const pf_open *open)
{
    const int32_t n_vocab = d->backend.limits.n_vocab;
    state->n_excluded = 0;
    for (int32_t i = 0; i < open->n_excluded && open->excluded[2 * i] < n_vocab; i++) {
        state->excluded[2 * i] = open->excluded[2 * i];
        state->excluded[2 * i + 1] = pf_min(open->excluded[2 * i + 1], n_vocab);
        state->n_excluded++;
    }
}

/* Tokens that are chosen have second choices, drawn ones siblings. */
static void choose_trees(pf_draft_state *state, const pf_open *open)
{
    const bool draws = pf_sampling_request_declares(&state->request);
    const bool by_noise = open->method == PF_METHOD_COUPLED && open->sampling.temperature > 0.0f &&
                          open->siblings == PF_SIBLINGS_THAT_PAY;
    state->siblings = open->trees && draws ? open->siblings : 0;
    state->adaptive.branches = open->adaptive_draft && open->trees && (open->method == PF_METHOD_GREEDY || by_noise);
    state->adaptive.by_noise = state->adaptive.branches && by_noise;
}

static void start(pf_host *host, pf_host_sequence *s, const pf_open *open)
{
    pf_draft_state *state = state_of(host, s);
    state->is_cold = true;
    state->is_stuck = false;
    state->ahead = PF_AHEAD_NONE;
    state->n_sent = -1;
    state->request = (pf_sampling_request){ .sampling = open->sampling,
                                            .method = open->method,
                                            .max_declared = open->max_declared,
                                            .draft_seed = draft_seed(drafter_of(host), open) };
    keep_excluded(drafter_of(host), state, open);
    pf_rules_take(&state->rules, &open->rules, open->stop_tokens, open->n_stop_tokens,
                  drafter_of(host)->backend.limits.n_vocab);
    choose_trees(state, open);
    state->adaptive.n_proposed = state->adaptive.n_branches = state->n_siblings = 0;
}

static void release(pf_host *host, pf_host_sequence *s)
{
    drafter *d = drafter_of(host);
    (void)pf_ahead_drop(&d->ahead, s->slot);
    pf_sequence_cache_close(&d->cache, s->slot);
    if (s->is_adaptive)
        d->last_length = state_of(host, s)->adaptive.length;
    else if (d->ahead.is_used)
        d->last_fixed = state_of(host, s)->adaptive.length;
}

/* ---- verdicts -------------------------------------------------------------------------------------------------- */

/* Where a token of the chain was judged and not accepted, its siblings were. */
static void learn_siblings(drafter *d, const pf_host_sequence *s, const pf_verdict *verdict)
{
    pf_draft_state *state = &d->states[s->slot];
    const int32_t *tokens = s->tokens + s->n_committed;
    int32_t n_kept = 0, n = 0;
    while (n_kept < state->n_chain && n_kept < verdict->n_accepted && verdict->tokens[n_kept] == tokens[n_kept])
        n_kept++;
    bool is_kept = false;
    for (int32_t i = state->n_chain; i < state->n_chain + state->n_siblings && !is_kept; i++) {
        if (state->adaptive.parents[i] != n_kept - 1) continue;
        is_kept = verdict->n_accepted > n_kept && verdict->tokens[n_kept] == tokens[i];
        n++;
    }
    pf_siblings_observe(&d->sibling_shares, n, is_kept);
}

/* A verdict on a proposal that the target has verified, alone or with others of its batch. */
static void note_judged(drafter *d, const pf_host_sequence *s, const pf_verdict *verdict)
{
    pf_draft_state *state = &d->states[s->slot];
    const int32_t n_sent = state->n_sent;
    const bool is_late = n_sent > 0 && pf_adaptive_is_late(s->tokens + s->n_committed, verdict);
    state->n_sent = -1;
    if (n_sent < 0 || is_late || verdict->n_accepted > n_sent) return;
    if (state->n_siblings > 0) learn_siblings(d, s, verdict);
    if (d->parallel.mask >= 0)
        pf_parallel_judge(&d->parallel, s->slot, verdict,
                          state->adaptive.drafted_ns + pf_host_now_ns(&d->host) - state->adaptive.left_ns);
    pf_judged_step_add(&d->judged, &d->host, &d->goodput, verdict, n_sent, state->adaptive.left_ns);
}

/* Keep of the cache what the verdict confirms, but never the last token's row; or take a branch that was drafted for it. */
static pf_status follow(pf_host *host, pf_host_sequence *s, const pf_verdict *verdict)
{
    drafter *d = drafter_of(host);
    pf_draft_state *state = state_of(host, s);
    note_judged(d, s, verdict);
    if (s->is_adaptive || pf_ahead_awaits(&d->ahead, s->slot))
        pf_adaptive_judge(&state->adaptive, s->tokens + s->n_committed, verdict, pf_host_now_ns(host));
    state->is_cold = false;
    state->ahead = pf_ahead_follow(&d->ahead, s, verdict);
    if (state->ahead == PF_AHEAD_HIT) return PF_OK;
    const int32_t n_before = s->n_committed, last = n_before + verdict->n_tokens - 1;
    int32_t keep = 0;
    if (!s->is_full && last > 0)
        keep = pf_min(last, pf_forward_count_shared(&d->backend, pf_sequence_cache_of(&d->cache, s->slot), s->tokens,
                                                    n_before, verdict->tokens, verdict->n_tokens));
    return pf_sequence_cache_cut(&d->cache, s->slot, keep);
}

/* ---- turns and prompts ----------------------------------------------------------------------------------------- */

/* Whether another pass would end after the sequence's proposal is of use. It is asked before a token is drawn, never after
 * (DESIGN, invariant 4). */
static bool is_late(const pf_host *host, const pf_host_sequence *s)
{
    if (s->propose_by_ns == UINT64_MAX) return false;
    const uint64_t now_ns = pf_host_now_ns(host);
    return now_ns >= s->propose_by_ns || s->propose_by_ns - now_ns < ((const drafter *)host)->pass_ns;
}

/* The length of the next proposal, or where it is adaptive what bounds it. */
static int32_t plan(const pf_host *host, const pf_host_sequence *s)
{
    return state_of(host, s)->is_stuck || (s->is_due && is_late(host, s)) ? 0 : pf_host_draft_room(host, s);
}

/* Nothing is read for a sequence that nothing will be drafted for. */
static bool will_be_drafted(const pf_host *host, const pf_host_sequence *s)
{
    if (!s->is_due || plan(host, s) == 0) return false;
    return !s->is_adaptive || !pf_goodput_rests(&((const drafter *)host)->goodput, pf_host_now_ns(host));
}

/* A sequence is ready when one pass can take its unread tokens and the row of the first draft token, or none is to be drafted. A cold
 * prompt is read completely. */
static pf_host_turn turn(const pf_host *host, const pf_host_sequence *s, int32_t *n_tokens)
{
    const int32_t max_rows = ((const drafter *)host)->backend.limits.max_rows;
    int32_t backlog = 0;
    if (state_of(host, s)->is_cold || will_be_drafted(host, s)) {
        backlog = s->n_committed - cached(host, s);
        if (s->is_due) backlog -= max_rows;
    }
    if (backlog <= 0 || (s->is_due && is_late(host, s))) return s->is_due ? PF_HOST_READY : PF_HOST_IDLE;
    *n_tokens = pf_min(backlog, max_rows);
    return PF_HOST_CHUNK;
}

static pf_status run_pass(void *user, const pf_span *spans, int32_t n)
{
    return pf_sequence_cache_run(&((drafter *)user)->cache, spans, n);
}

/* A cache that is full gives back what it has taken of the prompt. */
static void feed(pf_host *host, pf_host_sequence *s, int32_t n_tokens)
{
    drafter *d = drafter_of(host);
    pf_draft_state *state = state_of(host, s);
    const pf_span span = { .sequence = pf_sequence_cache_of(&d->cache, s->slot),
                           .tokens = s->tokens + cached(host, s),
                           .n_tokens = n_tokens };
    const uint64_t before_ns = s->is_adaptive && !state->is_cold ? pf_host_now_ns(host) : 0;
    const pf_status status = run_pass(d, &span, 1);
    if (before_ns > 0) d->read_ns += pf_host_now_ns(host) - before_ns;
    if (status == PF_OK) return;
    state->is_stuck = s->is_due;
    state->is_cold = false;
    (void)!pf_sequence_cache_cut(&d->cache, s->slot, 0);
}

/* ---- drafting -------------------------------------------------------------------------------------------------- */

/* Take the next token of a sequence from a row; false: it is one of NaNs. Tokens drawn before it are proposed. */
static bool draw_token(drafter *d, const pf_chooser *chooser, pf_host_sequence *s, int32_t row)
{
    pf_draft_state *state = &d->states[s->slot];
    const bool is_parallel = pf_parallel_drafts(&d->parallel, s->slot), by_noise = state->adaptive.by_noise;
    const int32_t i = s->n_drafted;
    pf_outcome_row candidates, *ahead = is_parallel ? NULL : pf_ahead_row(&d->ahead, s->slot, i);
    const pf_token_draw draw = {
        .request = &state->request,
        .excluded = state->excluded,
        .n_excluded = state->n_excluded,
        .rules = &state->rules,
        .tokens = s->tokens,
        .n_tokens = s->n_committed + i,
        .position = s->n_committed + i,
        .round = state->proposal.round,
        .invalid = &s->invalid,
        .token = &s->tokens[s->n_committed + i],
        .declared = &s->declared[i],
        .ids = pf_host_ids(s, i),
        .probabilities = pf_host_probabilities(s, i),
        .row = ahead                                                   ? ahead
               : by_noise || (is_parallel && state->adaptive.branches) ? &candidates
                                                                       : NULL,
    };
    const float *logits = pf_draw_logits(&d->drawer, chooser, row, &draw);
    if (!pf_draw_token(chooser, logits, &draw)) {
        state->n_planned = i;
        return false;
    }
    s->n_drafted++;
    if (is_parallel) {
        pf_parallel_note(&d->parallel, s, i, draw.row);
        return true;
    }
    if (!s->is_adaptive && draw.row)
        pf_adaptive_note(&state->adaptive.margins, i, draw.row);
    else if (s->is_adaptive &&
             !pf_adaptive_goes_on(&state->adaptive.length, &state->adaptive.margins, chooser, logits, *draw.token,
                                  by_noise ? draw.row : NULL, s->n_drafted, state->n_planned) &&
             !d->draws_whole)
        state->n_planned = s->n_drafted;
    return true;
}

/* Nothing of the masks is left in the cache. */
static void end_parallel_pass(drafter *d, int32_t slot, pf_status status)
{
    if (!pf_parallel_drafts(&d->parallel, slot)) return;
    pf_host_sequence *s = &d->host.sequences[slot];
    pf_draft_state *state = &d->states[slot];
    const int32_t keep = pf_parallel_end_pass(&d->parallel, s, state->n_planned, status != PF_OK);
    if (status != PF_OK) state->n_planned = s->n_drafted;
    (void)!pf_sequence_cache_cut(&d->cache, slot, pf_min(keep, cached(&d->host, s)));
}

static int32_t count_rows(const drafter *d, int32_t slot)
{
    return pf_parallel_drafts(&d->parallel, slot) ? d->parallel.slots[slot].n_rows : 1;
}

/* The rows of one sequence, in order: the rules of a token depend on those before it. */
static void draw_rows(void *user, const pf_chooser *chooser, int32_t i)
{
    drafter *d = user;
    const int32_t slot = d->drawing[i], n = count_rows(d, slot);
    for (int32_t row = 0; row < n; row++)
        if (!draw_token(d, chooser, &d->host.sequences[slot], d->first_rows[i] + row)) return;
}

/* Tokens from the rows of a pass; a sequence whose pass failed is done drafting. */
static void draw_tokens(void *user, const int32_t *slots, int32_t n, pf_status status)
{
    drafter *d = user;
    if (status != PF_OK && !pf_parallel_drafts(&d->parallel, slots[0]))
        d->states[slots[0]].n_planned = d->host.sequences[slots[0]].n_drafted;
    d->drawing = slots;
    for (int32_t i = 0, row = 0; i < n; row += count_rows(d, slots[i]), i++) d->first_rows[i] = row;
    if (status == PF_OK) pf_drawer_share(&d->drawer, n, draw_rows, d);
    for (int32_t i = 0; i < n; i++) end_parallel_pass(d, slots[i], status);
}

/* There is no time for another pass. */
static void stop_drafting(drafter *d, pf_host_sequence *s)
{
    pf_draft_state *state = &d->states[s->slot];
    if (pf_parallel_drafts(&d->parallel, s->slot) && d->parallel.slots[s->slot].is_second)
        pf_parallel_skip_second(&d->parallel, s, state->n_planned);
    state->n_planned = s->n_drafted;
}

/* One more token for every sequence that is below its plan, or all of them, in as few passes as the limits allow.
 * Returns how many rows that took. */
static int32_t draft_step(drafter *d)
{
    const pf_span_pass pass = { .run = run_pass, .use = draw_tokens, .user = d };
    int32_t n_rows = 0;
    for (int32_t i = 0; i < d->n_ready; i++) {
        const int32_t slot = d->ready[i];
        pf_host_sequence *s = &d->host.sequences[slot];
        if (s->n_drafted >= d->states[slot].n_planned) continue;
        if (is_late(&d->host, s)) {
            stop_drafting(d, s);
            continue;
        }
        const int32_t held = cached(&d->host, s);
        pf_span span = { .sequence = pf_sequence_cache_of(&d->cache, slot),
                         .tokens = s->tokens + held,
                         .n_tokens = s->n_committed + s->n_drafted - held,
                         .n_logits = 1 };
        if (pf_parallel_drafts(&d->parallel, slot))
            pf_parallel_plan_pass(&d->parallel, s, d->states[slot].n_planned, held, &span);
        d->states[slot].n_passes++;
        n_rows += span.n_tokens;
        if (pf_span_batch_add(&d->batch, &d->backend.limits, &span, slot)) continue;
        pf_span_batch_run(&d->batch, &pass);
        (void)pf_span_batch_add(&d->batch, &d->backend.limits, &span, slot);
    }
    pf_span_batch_run(&d->batch, &pass);
    return n_rows;
}

/* The proposal is to have n tokens at most: the rest of what was drafted ahead is left out, whatever it is. */
static void shorten(drafter *d, pf_host_sequence *s, int32_t n)
{
    if (s->n_drafted > n) s->n_drafted = n;
    const int32_t most = s->n_committed + s->n_drafted - 1;
    if (cached(&d->host, s) > most) (void)!pf_sequence_cache_cut(&d->cache, s->slot, most);
}

/* What was drafted ahead is proposed also where there is no time for another pass. */
static void take_branch(drafter *d, pf_host_sequence *s)
{
    pf_draft_state *state = &d->states[s->slot];
    const bool is_complete = pf_ahead_fill(&d->ahead, s, &state->sent_ns), has_time = state->n_planned > 0;
    if (state->sent_ns > 0) { /* it stays as it was sent */
        state->n_planned = state->n_room = s->n_drafted;
        return;
    }
    state->n_room = pf_host_draft_room(&d->host, s);
    state->n_planned = pf_siblings_chain(state->siblings, state->n_room);
    shorten(d, s, state->n_planned);
    if (is_complete || !has_time) state->n_planned = s->n_drafted;
}

static bool add(pf_host *host, pf_host_sequence *s)
{
    drafter *d = drafter_of(host);
    pf_draft_state *state = state_of(host, s);
    if (d->n_ready == 0) d->begun_ns = pf_host_now_ns(host);
    d->is_timed = (d->n_ready > 0 && d->is_timed) || s->propose_by_ns != UINT64_MAX || s->is_adaptive;
    pf_host_begin_proposal(host, s, &state->proposal);
    state->proposal.ahead = state->ahead;
    state->n_room = plan(host, s);
    state->n_planned = pf_siblings_chain(state->siblings, state->n_room);
    state->n_passes = 0;
    state->sent_ns = 0;
    if (state->ahead == PF_AHEAD_HIT) take_branch(d, s);
    state->ahead = PF_AHEAD_NONE;
    d->ready[d->n_ready++] = s->slot;
    return true;
}

/* A row's price is what it adds to the verification; the draft's pass is over. */
static void end_parallel(drafter *d, pf_host_sequence *s, pf_proposal *proposal)
{
    const pf_draft_state *state = state_of(&d->host, s);
    const bool is_parallel = pf_parallel_drafts(&d->parallel, s->slot);
    const pf_tree_plan tree = { .is_product = d->how == PF_PASSES_ONE,
                                .round_ns = (double)(pf_host_now_ns(&d->host) - d->begun_ns) +
                                            pf_goodput_step_ns(&d->goodput, d->n_ready),
                                .row_ns = d->n_ready * pf_goodput_row_ns(&d->goodput),
                                .most = state->n_room };
    pf_parallel_end_proposal(&d->parallel, s, is_parallel && state->adaptive.branches ? &tree : NULL, proposal);
}

/* How likely each token of the chain is accepted where it is judged, and what a row has to gain. */
static double weigh_chain(const drafter *d, const pf_host_sequence *s, double *acceptance)
{
    const pf_adaptive *adaptive = &d->states[s->slot].adaptive;
    if (!pf_parallel_drafts(&d->parallel, s->slot)) {
        for (int32_t i = 0; i < s->n_drafted; i++)
            acceptance[i] = pf_length_acceptance_at(&adaptive->length, adaptive->margins.margins[i]);
        return pf_length_row_price(&adaptive->length);
    }
    double tokens = 1.0, reach = 1.0;
    for (int32_t i = 0; i < s->n_drafted; i++) {
        acceptance[i] = pf_passes_acceptance(&d->parallel.records, d->how, i);
        tokens += reach *= acceptance[i];
    }
    const double verify_ns = pf_goodput_step_ns(&d->goodput, d->n_ready * (1 + s->n_drafted));
    const double round_ns = (double)(pf_host_now_ns(&d->host) - d->begun_ns) + verify_ns;
    return verify_ns > 0.0 ? tokens * d->n_ready * pf_goodput_row_ns(&d->goodput) / round_ns : -1.0;
}

/* Beside which tokens of the chain siblings are drawn: where they pay, or first one beside each token, then another. */
static int32_t place_siblings(drafter *d, const pf_host_sequence *s, int32_t most, int32_t *at)
{
    double acceptance[PF_MAX_DRAFT_TOKENS];
    const int32_t siblings = d->states[s->slot].siblings;
    if (siblings == PF_SIBLINGS_THAT_PAY) {
        const double price = weigh_chain(d, s, acceptance);
        return pf_siblings_choose(&d->sibling_shares, acceptance, s->n_drafted, price, most, at);
    }
    const int32_t n = pf_min(most, siblings * s->n_drafted);
    for (int32_t i = 0; i < n; i++) at[i] = i % s->n_drafted;
    return n;
}

/* The tokens that are judged before a sibling of token i: that one, and the siblings that it has. */
static int32_t find_before(const pf_draft_state *state, const int32_t *tokens, int32_t i, int32_t *before)
{
    int32_t n = 0;
    before[n++] = tokens[i];
    for (int32_t j = state->n_chain; j < state->n_chain + state->n_siblings; j++)
        if (state->adaptive.parents[j] == i - 1) before[n++] = tokens[j];
    return n;
}

/* Each is drawn by noise of its own, from what those before it leave of the token's distribution. */
static void add_siblings(drafter *d, pf_host_sequence *s, pf_proposal *proposal)
{
    pf_draft_state *state = state_of(&d->host, s);
    int32_t *tokens = s->tokens + s->n_committed, at[PF_MAX_DRAFT_TOKENS], before[1 + PF_MAX_SIBLINGS];
    state->n_siblings = 0;
    state->n_chain = s->n_drafted;
    if (state->siblings == 0 || s->n_drafted == 0 || state->sent_ns > 0) return;
    const int32_t n = place_siblings(d, s, state->n_room - s->n_drafted, at);
    for (int32_t i = 0; i < s->n_drafted; i++) state->adaptive.parents[i] = i - 1;
    for (int32_t k = 0; k < n; k++) {
        const int32_t node = state->n_chain + state->n_siblings, n_before = find_before(state, tokens, at[k], before);
        const uint64_t seed = pf_noise_derive_seed(state->request.draft_seed, (uint64_t)n_before);
        const float uniform =
            pf_noise_uniform(seed, PF_NOISE_DRAFT, s->n_committed + at[k], (int32_t)(proposal->round & INT32_MAX));
        if (!pf_sibling_draw(&s->declared[at[k]], before, n_before, uniform, pf_host_ids(s, node),
                             pf_host_probabilities(s, node), &s->declared[node], &tokens[node]))
            continue;
        state->adaptive.parents[node] = at[k] - 1;
        state->n_siblings++;
    }
    state->adaptive.n_branches = state->n_siblings;
    if (state->n_siblings == 0) return;
    proposal->n_tokens = state->n_chain + state->n_siblings;
    proposal->parents = state->adaptive.parents;
}

static void end_proposal(pf_host *host, pf_host_sequence *s)
{
    drafter *d = drafter_of(host);
    pf_draft_state *state = state_of(host, s);
    pf_proposal *proposal = &state->proposal;
    proposal->tokens = s->tokens + s->n_committed;
    proposal->n_tokens = s->n_drafted;
    proposal->declared = s->n_drafted > 0 && pf_sampling_request_declares(&state->request) ? s->declared : NULL;
    proposal->passes = state->n_passes;
    if (!pf_parallel_drafts(&d->parallel, s->slot))
        pf_adaptive_end_proposal(&state->adaptive, s->tokens + s->n_committed, s->n_drafted, state->n_room, proposal);
    if (d->parallel.mask >= 0) end_parallel(d, s, proposal);
    if (!state->adaptive.branches) add_siblings(d, s, proposal);
    pf_host_propose(host, s, proposal);
    if (state->n_room == 0 && s->propose_by_ns != UINT64_MAX) {
        state->is_cold = !s->is_full && !state->is_stuck; /* what could not be read in time is read from here on */
        d->pass_ns -= d->pass_ns / 8;                     /* a pass that took long must not end all others */
    }
    state->is_stuck = false;
    const int32_t n_chain = pf_parallel_drafts(&d->parallel, s->slot) ? 0 : s->n_drafted;
    const uint64_t now_ns = pf_host_now_ns(host);
    state->n_sent = proposal->n_tokens;
    state->adaptive.left_ns = state->sent_ns > 0 ? state->sent_ns : now_ns;
    state->adaptive.drafted_ns = now_ns - d->begun_ns;
    pf_ahead_begin(&d->ahead, s, n_chain, proposal->round + 1, state->adaptive.left_ns);
}

/* A pass of n_rows has ended, which began at before_ns where it is not a proposal's first (0). When it ended. */
static uint64_t time_pass(drafter *d, uint64_t before_ns, int32_t n_rows)
{
    const uint64_t now_ns = pf_host_now_ns(&d->host);
    if (before_ns > 0) {
        const uint64_t took_ns = now_ns - before_ns;
        d->pass_ns = d->pass_ns == 0 ? took_ns : (3 * d->pass_ns + took_ns) / 4;
        pf_goodput_observe_pass(&d->goodput, n_rows, took_ns);
    }
    return now_ns;
}

/* Second choices are rows, too. */
static void limit_rows(pf_draft_state *state)
{
    const bool is_asked = state->siblings > 0 && state->siblings <= PF_MAX_SIBLINGS;
    const int32_t n_rows = state->n_planned * (is_asked ? 1 + state->siblings : 1);
    if (n_rows < state->n_room) state->n_room = n_rows;
}

/* The share of tokens that are rejected for a token beside them. */
static double second_of(const drafter *d, const pf_draft_state *state)
{
    const bool pays = state->adaptive.branches || state->siblings == PF_SIBLINGS_THAT_PAY;
    if (pays && d->n_ready > 1) return 0.0; /* of several each has a chain of the same length */
    if (state->adaptive.branches) return pf_length_second(&state->adaptive.length);
    if (state->siblings == 0) return 0.0;
    return (1.0 - pf_length_acceptance(&state->adaptive.length)) * pf_sibling_share(&d->sibling_shares, 0);
}

/* What is planned is judged for the whole step, whose passes its sequences share: all draft as much. Of one sequence alone, and where
 * no length is chosen yet, draft/length.h decides token by token. */
static void limit_lengths(drafter *d)
{
    pf_judged_step_end(&d->judged, &d->goodput);
    int32_t n_adaptive = 0, most = 0;
    for (int32_t i = 0; i < d->n_ready; i++) {
        const int32_t slot = d->ready[i];
        const pf_draft_state *state = &d->states[slot];
        const int32_t room = pf_siblings_chain(state->siblings, state->n_room);
        d->weighed[i] = (pf_goodput_sequence){ .acceptance = pf_length_acceptance(&state->adaptive.length),
                                               .second = second_of(d, state),
                                               .room = room };
        n_adaptive += d->host.sequences[slot].is_adaptive;
        if (room > most) most = room;
    }
    if (n_adaptive == 0) return;
    const int32_t limit = pf_goodput_choose(&d->goodput, d->weighed, d->n_ready, most, pf_host_now_ns(&d->host));
    const bool is_alone = d->n_ready == 1 && limit > 0;
    d->draws_whole = !is_alone && limit < most;
    for (int32_t i = 0; i < d->n_ready; i++) {
        pf_host_sequence *s = &d->host.sequences[d->ready[i]];
        pf_draft_state *state = state_of(&d->host, s);
        if (!s->is_adaptive || state->sent_ns > 0) continue;
        const bool is_read =
            s->n_committed - cached(&d->host, s) <= d->backend.limits.max_rows; /* no longer, while it rested */
        state->n_planned = !is_read ? 0 : is_alone ? state->n_planned : pf_min(state->n_planned, limit);
        if (limit > 0 && !is_alone) limit_rows(state);
        if (s->n_drafted > state->n_planned) shorten(d, s, state->n_planned);
    }
    d->ahead.whole = d->draws_whole ? limit : 0;
}

/* The proposals of the step are drafted in one pass or two: how many tokens each is to have. One that was drafted ahead goes on as it was
 * begun. */
static void plan_parallel(drafter *d)
{
    pf_judged_step_end(&d->judged, &d->goodput);
    int32_t n_fed = 0, most = 1;
    for (int32_t i = 0; i < d->n_ready; i++) {
        const pf_host_sequence *s = &d->host.sequences[d->ready[i]];
        n_fed += s->n_committed - cached(&d->host, s);
        if (d->states[s->slot].n_planned > most) most = d->states[s->slot].n_planned;
    }
    const int32_t k = pf_passes_length(&d->parallel.records, d->how, &d->goodput, d->n_ready, n_fed, most);
    for (int32_t i = 0; i < d->n_ready; i++) {
        pf_host_sequence *s = &d->host.sequences[d->ready[i]];
        pf_draft_state *state = &d->states[s->slot];
        if (s->n_drafted > 0) continue;
        const int32_t unread = s->n_committed - cached(&d->host, s);
        const int32_t rows = pf_min(d->backend.limits.max_rows - unread + 1, d->backend.limits.max_logit_rows);
        pf_parallel_begin(&d->parallel, s->slot, d->how);
        if (s->is_adaptive)
            state->n_planned = pf_min(state->n_planned, k + (state->adaptive.branches ? TREE_LEVELS : 0));
        state->n_planned = pf_min(state->n_planned, rows > 0 ? rows : 0);
    }
    d->is_timed = true;
    d->is_brief = n_fed <= d->n_ready * (PF_MAX_DRAFT_TOKENS + 1);
}

static void plan_step(drafter *d)
{
    d->how = pf_parallel_choose(&d->parallel);
    d->is_brief = false;
    for (int32_t i = 0; d->parallel.mask >= 0 && i < d->n_ready; i++)
        pf_parallel_begin(&d->parallel, d->ready[i], PF_PASSES_EACH);
    if (d->how == PF_PASSES_EACH)
        limit_lengths(d);
    else
        plan_parallel(d);
}

/* Proposals for all that are ready, drafted together. None when it is time to stop: a proposal cut
 * short by the clock would have another distribution under rejection. */
static void run(pf_host *host)
{
    drafter *d = drafter_of(host);
    bool is_over = false;
    uint64_t before_ns = 0;
    if (d->n_ready > 0) plan_step(d);
    if (d->n_ready > 0 && d->is_brief) before_ns = pf_host_now_ns(host);
    for (int32_t n_rows; !is_over && (n_rows = draft_step(d)) > 0;) {
        is_over = pf_stop_is_due(&d->host.config.stop);
        if (d->is_timed) before_ns = time_pass(d, before_ns, n_rows);
    }
    if (before_ns > 0) {
        pf_goodput_observe_drafting(&d->goodput, d->read_ns + (before_ns - d->begun_ns), before_ns);
        d->read_ns = 0;
    }
    for (int32_t i = 0; !is_over && i < d->n_ready; i++) end_proposal(host, &host->sequences[d->ready[i]]);
    d->n_ready = 0;
}

/* ---- creation -------------------------------------------------------------------------------------------------- */

static void lay_out(pf_host *host, pf_arena *arena)
{
    drafter *d = drafter_of(host);
    const size_t n = (size_t)host->config.max_sequences;
    int32_t n_vocab = d->backend.limits.n_vocab;
    if (host->info.vocab_size > 0) n_vocab = pf_min(n_vocab, host->info.vocab_size);
    pf_drawer_lay_out(&d->drawer, &d->backend, n_vocab, arena);
    d->states = pf_arena_take(arena, n, sizeof *d->states);
    for (size_t i = 0; i < n; i++) {
        const pf_rules rules = pf_rules_lay_out(arena);
        if (d->states) d->states[i].rules = rules;
    }
    d->ready = pf_arena_take(arena, n, sizeof *d->ready);
    d->first_rows = pf_arena_take(arena, n, sizeof *d->first_rows);
    pf_parallel_lay_out(&d->parallel, host->config.max_sequences, arena);
    d->weighed = pf_arena_take(arena, n, sizeof *d->weighed);
    pf_span_batch_lay_out(&d->batch, host->config.max_sequences, arena);
    pf_sequence_cache_lay_out(&d->cache, arena);
    d->ahead.host = host;
    d->ahead.backend = &d->backend;
    d->ahead.cache = &d->cache;
    d->ahead.drawer = &d->drawer;
    d->ahead.states = d->states;
    d->ahead.goodput = &d->goodput;
    d->ahead.prepared = host->prepared;
    pf_ahead_lay_out(&d->ahead, arena);
}

static void destroy(pf_host *host)
{
    pf_sequence_cache_end(&drafter_of(host)->cache);
    pf_prepared_destroy(host->prepared);
    pf_forward_set_stop(&drafter_of(host)->backend, NULL);
}

static void get_figures(const pf_host *host, pf_model_figures *out)
{
    *out = pf_sequence_cache_figures(&((const drafter *)host)->cache);
}

static uint64_t rests_until_ns(const pf_host *host)
{
    const pf_goodput *goodput = &((const drafter *)host)->goodput;
    return goodput->rests ? goodput->retry_ns : 0;
}

static bool work_ahead(pf_host *host)
{
    return pf_ahead_step(&drafter_of(host)->ahead);
}

static bool drop_forks(void *owner)
{
    return pf_ahead_drop_all(&((drafter *)owner)->ahead);
}

static const pf_host_role role = {
    .name = "drafter",
    .model = "draft",
    .declares = true,
    .check_open = pf_host_check_draft,
    .acquire = acquire,
    .start = start,
    .release = release,
    .follow = follow,
    .turn = turn,
    .add = add,
    .run = run,
    .feed = feed,
    .figures = get_figures,
    .rests_until_ns = rests_until_ns,
    .work_ahead = work_ahead,
    .lay_out = lay_out,
    .destroy = destroy,
};

static pf_status check_config(const pf_forward_limits *limits, const pf_model_drafter_config *config, pf_error *error)
{
    if (config->max_sequences > limits->max_sequences)
        return pf_fail(error, PF_INVALID, "the drafter's max_sequences is %d, expected 1 to %d", config->max_sequences,
                       limits->max_sequences);
    const int32_t last_mask = limits->takes_mask ? limits->n_vocab : limits->n_vocab - 1;
    if (config->pard && (config->pard_token < 0 || config->pard_token > last_mask))
        return pf_fail(error, PF_INVALID, "the drafter's pard_token is %d, expected 0 to %d", config->pard_token,
                       last_mask);
    if (limits->max_logit_rows < 1)
        return pf_fail(error, PF_INVALID, "the draft's context has no row for logits, expected at least 1");
    return PF_OK;
}

pf_status pf_model_drafter_create(pf_forward_backend backend, const pf_model_drafter_config *config, pf_peer **out,
                                  pf_error *error)
{
    PF_TRY(check_config(&backend.limits, config, error));
    drafter *d = calloc(1, sizeof *d);
    if (!d) return pf_fail(error, PF_NOMEM, "no memory for the drafter");
    d->backend = backend;
    d->seed = config->seed;
    d->parallel.mask = config->pard ? config->pard_token : -1;
    d->parallel.asked = config->passes;
    d->ahead.if_it_pays = config->ahead_if_it_pays;
    d->ahead.of_sequence = config->ahead_branches;
    d->cache.config = (pf_sequence_cache_config){ .backend = backend,
                                                  .n_slots = config->max_sequences,
                                                  .forgets = config->no_prefix_cache,
                                                  .stop = &d->host.config.stop,
                                                  .least_ns = config->simulate_token_ns,
                                                  .rows = config->simulate_rows,
                                                  .idle_ns = pf_host_idle_ns,
                                                  .user = &d->host,
                                                  .drop_forks = drop_forks,
                                                  .owner = d };
    pf_model_info info = config->info ? *config->info : (pf_model_info){ 0 };
    pf_drafts_by_state(PF_DRAFTS_BY_MODEL, &info);
    const pf_host_config host = { .max_sequences = config->max_sequences,
                                  .max_draft = config->max_draft,
                                  .max_tokens = backend.limits.max_tokens,
                                  .n_vocab = backend.limits.n_vocab,
                                  .stop = config->stop,
                                  .info = &info };
    if (backend.limits.max_forks > 0 && !config->pard &&
        pf_prepared_create(backend.limits.max_forks, &d->host.prepared) != PF_OK) {
        free(d);
        return pf_fail(error, PF_NOMEM, "no memory for the drafter");
    }
    PF_TRY(pf_host_create(&d->host, &role, &host, out, error));
    pf_forward_set_stop(&backend, &d->host.config.stop);
    return PF_OK;
}

pf_sequence_cache_counts pf_model_drafter_counts(const pf_peer *peer)
{
    return ((const drafter *)peer)->cache.counts;
}
