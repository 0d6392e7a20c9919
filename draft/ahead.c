#include "draft/ahead.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "draft/siblings.h"

static const double SMOOTHING = 1.0 / 8.0;
static const double OUTLIER = 4.0;             /* a stall says nothing about a verification */
static const uint64_t AT_ONCE_NS = 200 * 1000; /* after a pass: a verdict was there before it ended */
static const double OVERDUE = 2.0; /* mean deviations after which a verdict is no longer expected at its time */
enum { FREE = -1, NO_BRANCH = -1, MOST_REFUSED = 8 };

static pf_ahead_slot *slot_of(const pf_outcome_cache *c, int32_t slot)
{
    return &c->slots[slot];
}

/* ---- branches -------------------------------------------------------------------------------------------------- */

static void release(pf_outcome_cache *c, pf_ahead_branch *b)
{
    if (b->is_prepared) pf_prepared_remove(c->prepared, (int32_t)(b - c->branches));
    b->is_prepared = false;
    if (b->fork >= 0) pf_forward_release(c->backend, b->fork);
    b->fork = -1;
    b->slot = FREE;
}

static pf_ahead_branch *find_free(const pf_outcome_cache *c)
{
    for (int32_t i = 0; i < c->n_branches; i++)
        if (c->branches[i].slot == FREE) return &c->branches[i];
    return NULL;
}

/* Where there is no room for it, it is left out. */
static void add_branch(pf_outcome_cache *c, const pf_host_sequence *s, int32_t n_accepted, int32_t token,
                       double probability)
{
    const pf_ahead_slot *slot = slot_of(c, s->slot);
    const int32_t length = slot->base + n_accepted,
                  room = pf_siblings_chain(c->states[s->slot].siblings, pf_host_draft_room_at(c->host, s, length + 1));
    pf_ahead_branch *b = room > 0 ? find_free(c) : NULL;
    int64_t fork;
    if (!b || pf_sequence_cache_fork(c->cache, s->slot, length, &fork) != PF_OK) return;
    b->slot = s->slot;
    b->fork = fork;
    b->n_accepted = n_accepted;
    b->probability = probability;
    b->n_drafted = 0;
    b->n_planned = pf_min(room, s->is_adaptive && c->whole > 0 ? c->whole : c->host->config.max_draft);
    b->is_ended = false;
    b->tokens[0] = token;
}

bool pf_ahead_drop(pf_outcome_cache *c, int32_t slot)
{
    bool any = false;
    for (int32_t i = 0; i < c->n_branches; i++) {
        if (c->branches[i].slot != slot) continue;
        any |= c->branches[i].fork >= 0;
        release(c, &c->branches[i]);
    }
    if (c->n_branches > 0) {
        pf_ahead_slot *s = slot_of(c, slot);
        s->n_chain = s->n_proposed = s->n_rounds = 0;
        s->verdict_ns = 0;
        s->taken = NO_BRANCH;
    }
    return any;
}

/* Not one whose proposal has been sent. */
static bool release_unsent(pf_outcome_cache *c, pf_ahead_branch *b)
{
    if (b->is_prepared && !pf_prepared_withdraw(c->prepared, (int32_t)(b - c->branches))) return false;
    b->is_prepared = false;
    release(c, b);
    return true;
}

static bool has_branch(const pf_outcome_cache *c, int32_t slot)
{
    for (int32_t i = 0; i < c->n_branches; i++)
        if (c->branches[i].slot == slot) return true;
    return false;
}

/* But not a branch that a slot has adopted, or one whose proposal has been sent: its tokens are the next proposal's. */
bool pf_ahead_drop_all(pf_outcome_cache *c)
{
    bool any = false;
    for (int32_t i = 0; i < c->n_branches; i++) {
        pf_ahead_branch *b = &c->branches[i];
        const int32_t slot = b->slot;
        if (slot == FREE || b->fork < 0 || !release_unsent(c, b)) continue;
        if (!has_branch(c, slot)) slot_of(c, slot)->n_chain = 0;
        any = true;
    }
    return any;
}

/* ---- proposals and verdicts ------------------------------------------------------------------------------------ */

static bool is_on(const pf_outcome_cache *c)
{
    return c->is_used && !c->trial.is_off;
}

bool pf_ahead_awaits(const pf_outcome_cache *c, int32_t slot)
{
    return c->n_branches > 0 && c->slots[slot].n_chain > 0;
}

pf_outcome_row *pf_ahead_row(pf_outcome_cache *c, int32_t slot, int32_t i)
{
    if (!is_on(c)) return NULL;
    slot_of(c, slot)->n_rows = i + 1;
    return &slot_of(c, slot)->rows[i];
}

void pf_ahead_begin(pf_outcome_cache *c, const pf_host_sequence *s, int32_t n_chain, uint64_t round, uint64_t left_ns)
{
    if (!c->is_used) return;
    pf_ahead_slot *slot = slot_of(c, s->slot);
    slot->base = s->n_committed;
    slot->n_proposed = n_chain;
    slot->n_chain = slot->n_rows >= n_chain && is_on(c) ? n_chain : 0;
    if (slot->n_chain > 0) pf_slot_list_add(&c->waiting, s->slot);
    slot->round = round;
    slot->left_ns = left_ns;
    slot->is_planned = slot->has_bonus_row = false;
    slot->n_bonus = slot->n_rows = 0;
}

/* A verdict that came during a pass is seen at its end. Of one that may have, what the engine says that verifying took counts, and the
 * way of those that were seen at once. */
static double away_ns(pf_outcome_cache *c, const pf_ahead_slot *slot)
{
    const uint64_t now_ns = slot->sent_ns > 0 ? slot->sent_ns : pf_host_now_ns(c->host);
    const pf_timing *told = &c->host->told;
    const double ns = (double)(now_ns - slot->left_ns), told_ns = (double)(told->compute_ns + told->queue_ns);
    if (told_ns <= 0.0 || told_ns > ns) return ns;
    if (slot->sent_ns == 0 && now_ns - c->ended_ns < AT_ONCE_NS)
        return told_ns + c->way_ns < ns ? told_ns + c->way_ns : ns;
    c->way_ns += (c->way_ns > 0.0 ? SMOOTHING : 1.0) * (ns - told_ns - c->way_ns);
    return ns;
}

static void time_verdict(pf_outcome_cache *c, const pf_ahead_slot *slot)
{
    const double ns = away_ns(c, slot);
    const double most = c->away_ns > 0.0 ? OUTLIER * c->away_ns : ns;
    const double difference = (ns < most ? ns : most) - c->away_ns;
    if (c->away_ns > 0.0) c->spread_ns += SMOOTHING * (fabs(difference) - c->spread_ns);
    c->away_ns += (c->away_ns > 0.0 ? SMOOTHING : 1.0) * difference;
}

/* What the proposal was expected to commit. */
static double expected_tokens(const pf_outcome_cache *c, const pf_host_sequence *s)
{
    const double acceptance = pf_length_acceptance(&c->states[s->slot].adaptive.length);
    double tokens = 1.0, power = 1.0;
    for (int32_t i = 0; i < slot_of(c, s->slot)->n_proposed; i++) tokens += power *= acceptance;
    return tokens;
}

/* A round has ended: for the trial. */
static void try_round(pf_outcome_cache *c, const pf_host_sequence *s)
{
    pf_ahead_slot *slot = slot_of(c, s->slot);
    const uint64_t now_ns = pf_host_now_ns(c->host);
    if (slot->block != c->trial.block) slot->n_rounds = 0;
    slot->block = c->trial.block;
    if (slot->verdict_ns > 0 && slot->n_proposed > 0 && slot->n_rounds++ > 0)
        pf_ahead_trial_observe(&c->trial, expected_tokens(c, s), now_ns - slot->verdict_ns,
                               slot->n_rounds > PF_AHEAD_BLOCK);
    slot->verdict_ns = now_ns;
    slot->n_proposed = 0;
}

/* Learns which candidate the target chose. A verdict that accepts nothing and begins with the chain came too late. */
static void observe(pf_outcome_cache *c, const pf_host_sequence *s, const pf_verdict *verdict)
{
    const pf_ahead_slot *slot = slot_of(c, s->slot);
    const int32_t *chain = s->tokens + s->n_committed;
    int32_t n = 0;
    while (n < slot->n_chain && n < verdict->n_tokens && verdict->tokens[n] == chain[n]) n++;
    if (n == verdict->n_tokens || n > verdict->n_accepted) return;
    const bool is_bonus = n == slot->n_chain;
    if (is_bonus && !slot->has_bonus_row) return;
    pf_outcome_shares_observe(&c->shares, is_bonus, pf_outcome_row_find(&slot->rows[n], verdict->tokens[n]));
}

/* How many tokens the branch has behind those of the verdict; 0: none, or the verdict has others. */
static int32_t count_tail(const pf_ahead_branch *b, const int32_t *chain, const pf_verdict *verdict)
{
    const int32_t n_own = verdict->n_tokens - b->n_accepted, n_tail = 1 + b->n_drafted - n_own;
    if (n_own < 1 || n_tail < 1) return 0;
    if (memcmp(verdict->tokens, chain, (size_t)b->n_accepted * sizeof *chain) != 0) return 0;
    if (memcmp(verdict->tokens + b->n_accepted, b->tokens, (size_t)n_own * sizeof *chain) != 0) return 0;
    return n_tail;
}

static int32_t find_branch(const pf_outcome_cache *c, const pf_host_sequence *s, const pf_verdict *verdict, bool *any)
{
    int32_t found = NO_BRANCH, longest = 0;
    *any = false;
    for (int32_t i = 0; i < c->n_branches; i++) {
        const pf_ahead_branch *b = &c->branches[i];
        if (b->slot != s->slot || b->n_drafted == 0) continue;
        *any = true;
        const int32_t n_tail = count_tail(b, s->tokens + s->n_committed, verdict);
        if (n_tail <= longest) continue;
        longest = n_tail;
        found = i;
    }
    return found;
}

/* The slot's cache becomes the branch's, and its tokens stand where the cache has them. */
static void adopt(pf_outcome_cache *c, pf_host_sequence *s, int32_t branch, const pf_verdict *verdict)
{
    pf_ahead_branch *b = &c->branches[branch];
    pf_ahead_slot *slot = slot_of(c, s->slot);
    slot->taken = branch;
    slot->n_tail = count_tail(b, s->tokens + s->n_committed, verdict);
    pf_sequence_cache_adopt(c->cache, s->slot, b->fork, s->n_committed + b->n_accepted);
    b->fork = -1;
    memcpy(s->tokens + s->n_committed + verdict->n_tokens, b->tokens + 1 + b->n_drafted - slot->n_tail,
           (size_t)slot->n_tail * sizeof *s->tokens);
}

pf_ahead pf_ahead_follow(pf_outcome_cache *c, pf_host_sequence *s, const pf_verdict *verdict)
{
    if (c->n_branches == 0) return PF_AHEAD_NONE;
    pf_ahead_slot *slot = slot_of(c, s->slot);
    int32_t found = NO_BRANCH;
    bool any = false;
    if (c->if_it_pays && c->is_used) try_round(c, s);
    const bool goes_on = !s->is_full && verdict->finish == PF_FINISH_NONE && verdict->next_draft != PF_NO_DRAFT;
    slot->sent_ns = 0;
    for (int32_t i = 0; i < c->n_branches && slot->sent_ns == 0; i++) {
        if (c->branches[i].slot != s->slot || !c->branches[i].is_prepared) continue;
        slot->sent_ns = pf_prepared_sent_ns(c->prepared, i);
        if (slot->sent_ns > 0) found = i;
    }
    if (slot->n_chain > 0) {
        time_verdict(c, slot);
        observe(c, s, verdict);
        if (goes_on && found == NO_BRANCH) found = find_branch(c, s, verdict, &any);
    }
    for (int32_t i = 0; i < c->n_branches; i++)
        if (c->branches[i].slot == s->slot && i != found) release(c, &c->branches[i]);
    slot->n_chain = 0;
    slot->taken = NO_BRANCH;
    if (found != NO_BRANCH) adopt(c, s, found, verdict);
    return found != NO_BRANCH ? PF_AHEAD_HIT : any ? PF_AHEAD_MISS : PF_AHEAD_NONE;
}

bool pf_ahead_fill(pf_outcome_cache *c, pf_host_sequence *s, uint64_t *sent)
{
    pf_ahead_slot *slot = slot_of(c, s->slot);
    pf_ahead_branch *b = &c->branches[slot->taken];
    pf_draft_margins *margins = &c->states[s->slot].adaptive.margins;
    const bool is_complete = b->is_ended;
    for (int32_t i = 0, from = b->n_drafted - slot->n_tail; i < slot->n_tail; i++, from++) {
        const pf_declared *d = &b->declared[from];
        int32_t *ids = pf_host_ids(s, i);
        float *probabilities = pf_host_probabilities(s, i);
        memcpy(ids, d->ids, (size_t)d->n * sizeof *ids);
        memcpy(probabilities, d->probabilities, (size_t)d->n * sizeof *probabilities);
        s->declared[i] = (pf_declared){ ids, probabilities, d->n };
        margins->margins[i] = b->margins.margins[from];
        margins->second_choices[i] = b->margins.second_choices[from];
        slot->rows[i] = b->rows[from];
    }
    s->n_drafted = slot->n_rows = slot->n_tail;
    slot->taken = NO_BRANCH;
    *sent = slot->sent_ns;
    release(c, b);
    return is_complete || *sent > 0;
}

/* ---- passes ---------------------------------------------------------------------------------------------------- */

/* Of outcomes [n], the most probable first, how many to draft for: those that save the most passes after the verdict. A hit saves the passes that
 * end before it, and these take longer the more rows they have; the other sequences that wait have as many. */
static int32_t choose_count(const pf_outcome_cache *c, const pf_outcome *outcomes, int32_t n, int32_t n_passes)
{
    const int32_t n_waiting = c->waiting.n;
    double hits = 0.0, best = 0.0;
    int32_t chosen = 0;
    for (int32_t i = 0; i < n; i++) {
        const double pass_ns = pf_goodput_pass_ns(c->goodput, (i + 1) * n_waiting);
        const double in_time = c->away_ns > 0.0 && pass_ns > 0.0 ? c->away_ns / pass_ns : n_passes;
        hits += outcomes[i].probability;
        const double saved = hits * (in_time < n_passes ? in_time : n_passes);
        if (saved <= best) continue;
        best = saved;
        chosen = i + 1;
    }
    return chosen;
}

static void plan(pf_outcome_cache *c, const pf_host_sequence *s)
{
    pf_ahead_slot *slot = slot_of(c, s->slot);
    const pf_draft_state *state = &c->states[s->slot];
    const int32_t n = slot->n_chain;
    slot->is_planned = true;
    slot->bonus_probability = 0.0;
    if (pf_sequence_cache_length(c->cache, s->slot) != slot->base + n - 1) { /* it was evicted */
        slot->n_chain = 0;
        return;
    }
    double acceptance[PF_MAX_DRAFT_TOKENS];
    for (int32_t i = 0; i < n; i++)
        acceptance[i] = pf_length_acceptance_at(&state->adaptive.length, state->adaptive.margins.margins[i]);
    const int32_t most = c->of_sequence > 0 ? pf_min(c->of_sequence, c->n_branches) : c->n_branches;
    const bool has_bonus = pf_host_draft_room_at(c->host, s, slot->base + n + 1) > 0;
    pf_outcome outcomes[PF_OUTCOMES_MAX];
    const int32_t n_outcomes =
        pf_outcomes_rank(&c->shares, slot->rows, acceptance, n, has_bonus ? PF_OUTCOME_CANDIDATES : 0,
                         pf_min(most, PF_OUTCOMES_MAX), outcomes);
    const int32_t n_chosen = choose_count(c, outcomes, n_outcomes, n + 1);
    for (int32_t i = 0; i < n_chosen; i++) {
        const pf_outcome *o = &outcomes[i];
        if (o->n_accepted < n) add_branch(c, s, o->n_accepted, slot->rows[o->n_accepted].ids[o->rank], o->probability);
        if (o->n_accepted < n) continue;
        slot->bonus_probability += o->probability;
        slot->n_bonus++;
    }
}

/* Adds a row of one token to the pass, where it has room. */
static void add_row(pf_outcome_cache *c, int32_t *n, int64_t sequence, const int32_t *token, int32_t owner)
{
    const pf_forward_limits *limits = &c->backend->limits;
    if (*n >= limits->max_rows || *n >= limits->max_logit_rows) return;
    c->spans[*n] = (pf_span){ .sequence = sequence, .tokens = token, .n_tokens = 1, .n_logits = 1 };
    c->owners[(*n)++] = owner;
}

static void forget_answered(pf_outcome_cache *c)
{
    for (int32_t i = c->waiting.n - 1; i >= 0; i--)
        if (slot_of(c, c->waiting.slots[i])->n_chain == 0) pf_slot_list_remove(&c->waiting, c->waiting.slots[i]);
}

static int32_t gather(pf_outcome_cache *c)
{
    int32_t n = 0;
    forget_answered(c);
    for (int32_t at = 0; at < c->waiting.n; at++) {
        const int32_t i = c->waiting.slots[at];
        const pf_host_sequence *s = &c->host->sequences[i];
        const pf_ahead_slot *slot = slot_of(c, i);
        if (!slot->is_planned) plan(c, s);
        if (slot->n_chain > 0 && slot->n_bonus > 0 && !slot->has_bonus_row)
            add_row(c, &n, pf_sequence_cache_of(c->cache, i), s->tokens + slot->base + slot->n_chain - 1, -1 - i);
    }
    for (int32_t i = 0; i < c->n_branches; i++) {
        const pf_ahead_branch *b = &c->branches[i];
        if (b->slot == FREE || b->fork < 0 || b->is_ended || b->n_drafted >= b->n_planned) continue;
        add_row(c, &n, b->fork, &b->tokens[b->n_drafted], i);
    }
    return n;
}

/* The next token of a branch, as the drafter would draw it after the verdict. */
static void draw_for_branch(const pf_outcome_cache *c, const pf_chooser *chooser, int32_t row, pf_ahead_branch *b)
{
    const pf_ahead_slot *slot = slot_of(c, b->slot);
    pf_draft_state *state = &c->states[b->slot];
    const int32_t i = b->n_drafted;
    const pf_token_draw draw = {
        .request = &state->request,
        .excluded = state->excluded,
        .n_excluded = state->n_excluded,
        .rules = &state->rules,
        .tokens = c->host->sequences[b->slot].tokens,
        .n_tokens = slot->base + b->n_accepted,
        .more = b->tokens,
        .n_more = 1 + i,
        .position = slot->base + b->n_accepted + 1 + i,
        .round = slot->round,
        .token = &b->tokens[1 + i],
        .declared = &b->declared[i],
        .ids = b->ids + (ptrdiff_t)i * PF_MAX_DECLARED,
        .probabilities = b->probabilities + (ptrdiff_t)i * PF_MAX_DECLARED,
        .row = &b->rows[i],
    };
    const float *logits = pf_draw_logits(c->drawer, chooser, row, &draw);
    if (!pf_draw_token(chooser, logits, &draw)) {
        b->is_ended = true;
        return;
    }
    b->n_drafted++;
    if (!c->host->sequences[b->slot].is_adaptive)
        pf_adaptive_note(&b->margins, i, &b->rows[i]);
    else if (!pf_adaptive_goes_on(&state->adaptive.length, &b->margins, chooser, logits, *draw.token,
                                  state->adaptive.by_noise ? &b->rows[i] : NULL, b->n_drafted, b->n_planned))
        b->is_ended = c->whole == 0;
}

static void draw_row(void *user, const pf_chooser *chooser, int32_t i)
{
    const pf_outcome_cache *c = user;
    const int32_t owner = c->owners[i];
    if (owner >= 0) {
        draw_for_branch(c, chooser, i, &c->branches[owner]);
        return;
    }
    pf_ahead_slot *slot = slot_of(c, -1 - owner);
    const pf_draft_state *state = &c->states[-1 - owner];
    const pf_token_draw draw = { .excluded = state->excluded,
                                 .n_excluded = state->n_excluded,
                                 .rules = &state->rules,
                                 .tokens = c->host->sequences[-1 - owner].tokens,
                                 .n_tokens = slot->base + slot->n_chain };
    const float *logits = pf_draw_logits(c->drawer, chooser, i, &draw);
    pf_choose_alternatives(chooser, &state->request, logits, slot->base + slot->n_chain, -1,
                           &slot->rows[slot->n_chain]);
}

/* What is sent is what the drafter would propose after the verdict: a proposal that nothing is added to, and no tree. */
static bool is_whole(const pf_outcome_cache *c, const pf_ahead_branch *b)
{
    const pf_host_sequence *s = &c->host->sequences[b->slot];
    const pf_draft_state *state = &c->states[b->slot];
    if ((s->is_adaptive && state->adaptive.branches) || state->siblings > 0) return false;
    return b->n_drafted > 0 && (b->is_ended || b->n_drafted >= b->n_planned);
}

static void prepare(pf_outcome_cache *c, int32_t i)
{
    pf_ahead_branch *b = &c->branches[i];
    if (!c->prepared || b->is_prepared || b->fork < 0 || !is_whole(c, b)) return;
    const pf_host_sequence *s = &c->host->sequences[b->slot];
    const pf_ahead_slot *slot = slot_of(c, b->slot);
    const pf_prepared_outcome outcome = {
        .round = slot->round - 1,
        .base = slot->base,
        .accepted = s->tokens + slot->base,
        .n_accepted = b->n_accepted,
        .token = b->tokens[0],
        .wanted = s->next_draft,
        .max_draft = s->max_draft,
        .proposal = { .sequence = s->sequence,
                      .incarnation = s->incarnation,
                      .round = slot->round,
                      .base = slot->base + b->n_accepted + 1,
                      .tokens = b->tokens + 1,
                      .n_tokens = b->n_drafted,
                      .declared = pf_sampling_request_declares(&c->states[b->slot].request) ? b->declared : NULL,
                      .ahead = PF_AHEAD_HIT },
    };
    b->is_prepared = pf_prepared_put(c->prepared, i, &outcome);
}

/* The rows behind whole chains are known: their branches. */
static void branch_at_ends(pf_outcome_cache *c, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        if (c->owners[i] >= 0) continue;
        const pf_host_sequence *s = &c->host->sequences[-1 - c->owners[i]];
        pf_ahead_slot *slot = slot_of(c, s->slot);
        const pf_outcome_row *row = &slot->rows[slot->n_chain];
        slot->has_bonus_row = true;
        for (int32_t j = 0; j < slot->n_bonus && j < row->n; j++)
            add_branch(c, s, slot->n_chain, row->ids[j], slot->bonus_probability * (double)row->weights[j]);
    }
}

/* The passes after the verdict that a row saves on average. */
static double saved_passes(const pf_outcome_cache *c, int32_t owner)
{
    return owner >= 0 ? c->branches[owner].probability : slot_of(c, -1 - owner)->bonus_probability;
}

/* How long the verdict on a slot's proposal would wait for a pass from now_ns on; 0 also where it is overdue, and may come at any time. */
static double delay_ns(const pf_outcome_cache *c, const pf_ahead_slot *slot, uint64_t now_ns, double pass_ns)
{
    const double left_ns = (double)slot->left_ns + c->away_ns - (double)now_ns; /* until the verdict */
    if (slot->n_chain == 0 || left_ns > pass_ns || left_ns < -OVERDUE * c->spread_ns) return 0.0;
    return left_ns > 0.0 ? pass_ns - left_ns : pass_ns;
}

/* Whether a pass of the rows in hand [n] saves more time than verdicts would wait for it. Now and then one is run all the same: what it
 * takes may have changed. */
static bool pays(pf_outcome_cache *c, int32_t n)
{
    const double pass_ns = pf_goodput_pass_ns(c->goodput, n);
    const uint64_t now_ns = pf_host_now_ns(c->host);
    double saved = 0.0, delayed = 0.0;
    if (!c->if_it_pays || c->away_ns <= 0.0) return true;
    for (int32_t i = 0; i < n; i++) saved += saved_passes(c, c->owners[i]) * pass_ns;
    for (int32_t i = 0; i < c->waiting.n; i++) delayed += delay_ns(c, slot_of(c, c->waiting.slots[i]), now_ns, pass_ns);
    c->n_refused = saved >= delayed || c->n_refused == MOST_REFUSED ? 0 : c->n_refused + 1;
    return c->n_refused == 0;
}

bool pf_ahead_step(pf_outcome_cache *c)
{
    if (c->n_branches == 0) return false;
    c->is_used = true;
    const int32_t n = gather(c);
    if (n == 0 || !pays(c, n)) return false;
    const uint64_t before_ns = pf_host_now_ns(c->host);
    if (pf_sequence_cache_try(c->cache, c->spans, n) != PF_OK) {
        (void)pf_ahead_drop_all(c);
        for (int32_t i = 0; i < c->waiting.n; i++)
            if (!has_branch(c, c->waiting.slots[i])) (void)pf_ahead_drop(c, c->waiting.slots[i]);
        return false;
    }
    pf_drawer_share(c->drawer, n, draw_row, c);
    branch_at_ends(c, n);
    for (int32_t i = 0; i < n; i++)
        if (c->owners[i] >= 0) prepare(c, c->owners[i]);
    c->ended_ns = pf_host_now_ns(c->host);
    pf_goodput_observe_pass(c->goodput, n, c->ended_ns - before_ns);
    return true;
}

/* ---- memory ---------------------------------------------------------------------------------------------------- */

void pf_ahead_lay_out(pf_outcome_cache *c, pf_arena *arena)
{
    const size_t max_draft = (size_t)c->host->config.max_draft, n_slots = (size_t)c->host->config.max_sequences;
    c->n_branches = c->backend->limits.max_forks;
    const size_t n = (size_t)c->n_branches;
    c->branches = pf_arena_take(arena, n, sizeof *c->branches);
    c->slots = pf_arena_take(arena, n > 0 ? n_slots : 0, sizeof *c->slots);
    c->waiting = pf_slot_list_lay_out(n > 0 ? c->host->config.max_sequences : 0, arena);
    c->spans = pf_arena_take(arena, n > 0 ? n + n_slots : 0, sizeof *c->spans);
    c->owners = pf_arena_take(arena, n > 0 ? n + n_slots : 0, sizeof *c->owners);
    for (size_t i = 0; i < n; i++) {
        const pf_ahead_branch empty = {
            .slot = FREE,
            .fork = -1,
            .declared = pf_arena_take(arena, max_draft, sizeof(pf_declared)),
            .ids = pf_arena_take(arena, max_draft * PF_MAX_DECLARED, sizeof(int32_t)),
            .probabilities = pf_arena_take(arena, max_draft * PF_MAX_DECLARED, sizeof(float)),
        };
        if (c->branches) c->branches[i] = empty;
    }
    for (size_t i = 0; c->slots && i < n_slots && n > 0; i++) c->slots[i].taken = NO_BRANCH;
}
