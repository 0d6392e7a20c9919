#include "draft/ngram_drafter.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "draft/goodput.h"
#include "draft/judged_step.h"
#include "draft/lookup_odds.h"
#include "draft/drafter_kind.h"
#include "host/sequence_host.h"

/* Of a sequence, besides the host's part. */
typedef struct {
    pf_lookup_odds odds; /* of this text */
    int32_t end, length; /* of the latest lookup: where the suffix ends that was found, and its tokens */
    int32_t n_sent;      /* tokens of the latest proposal; -1: it has been judged */
    uint64_t left_ns;    /* when it was handed out */
} ngram_state;

typedef struct {
    pf_host host;
    pf_lookup_odds odds; /* of all texts */
    pf_goodput goodput;
    pf_judged_step judged;
    ngram_state *states;          /* [max_sequences] by slot */
    pf_goodput_sequence *weighed; /* [max_sequences] */
    int32_t *ready;               /* [max_sequences] slots that are answered together */
    int32_t n_ready;
} ngram_drafter;

static ngram_state *state_of(const pf_host *host, const pf_host_sequence *s)
{
    return &((const ngram_drafter *)host)->states[s->slot];
}

static void start(pf_host *host, pf_host_sequence *s, const pf_open *open)
{
    (void)open;
    *state_of(host, s) = (ngram_state){ .n_sent = -1 };
}

/* What the committed tokens say of each proposed one that they reach. */
static pf_status follow(pf_host *host, pf_host_sequence *s, const pf_verdict *verdict)
{
    ngram_drafter *d = (ngram_drafter *)host;
    ngram_state *state = state_of(host, s);
    const int32_t *tokens = s->tokens + s->n_committed;
    bool is_kept = true;
    if (state->n_sent < 0) return PF_OK;
    for (int32_t i = 0; i < s->n_drafted && i < verdict->n_tokens && is_kept; i++) {
        const pf_lookup_cell cell = pf_lookup_cell_of(state->length + i, 1, 1);
        is_kept = tokens[i] == verdict->tokens[i];
        pf_lookup_observe(&state->odds, cell, is_kept);
        pf_lookup_observe(&d->odds, cell, is_kept);
    }
    pf_judged_step_add(&d->judged, host, &d->goodput, verdict, state->n_sent, state->left_ns);
    state->n_sent = -1;
    return PF_OK;
}

/* How many of the tokens before `end` equal the last ones of tokens [n], at most PF_NGRAM_MAX. */
static int32_t count_matching(const int32_t *tokens, int32_t n, int32_t end)
{
    int32_t k = 0;
    while (k < PF_NGRAM_MAX && k < end && tokens[end - 1 - k] == tokens[n - 1 - k]) k++;
    return k;
}

/* Where the latest occurrence of the longest suffix of tokens [n] ends, before n; 0: it has none. *length: its tokens. */
static int32_t find_suffix(const int32_t *tokens, int32_t n, int32_t *length)
{
    int32_t best_end = 0, best = 0;
    for (int32_t end = n - 1; end > 0 && best < PF_NGRAM_MAX; end--) {
        const int32_t k = count_matching(tokens, n, end);
        if (k <= best) continue;
        best = k;
        best_end = end;
    }
    *length = best;
    return best_end;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the type is that of the hosts' function */
static pf_host_turn turn(const pf_host *host, const pf_host_sequence *s, int32_t *n_tokens)
{
    (void)host;
    (void)n_tokens;
    return s->is_due ? PF_HOST_READY : PF_HOST_IDLE;
}

static bool add(pf_host *host, pf_host_sequence *s)
{
    ngram_drafter *d = (ngram_drafter *)host;
    d->ready[d->n_ready++] = s->slot;
    return true;
}

/* What is looked up for the step, and how likely it is accepted. The most tokens of a proposal whose length is chosen. */
static int32_t look_up(ngram_drafter *d)
{
    int32_t most = 0;
    for (int32_t i = 0; i < d->n_ready; i++) {
        pf_host_sequence *s = &d->host.sequences[d->ready[i]];
        ngram_state *state = &d->states[s->slot];
        pf_goodput_sequence *w = &d->weighed[i];
        *w = (pf_goodput_sequence){ .room = pf_host_draft_room(&d->host, s) };
        if (s->is_adaptive) w->room = pf_min(w->room, PF_NGRAM_ADAPTIVE_DRAFT);
        state->end = w->room > 0 ? find_suffix(s->tokens, s->n_committed, &state->length) : 0;
        if (state->end == 0)
            w->room = 0;
        else
            w->acceptance = pf_lookup_chance(&state->odds, &d->odds, state->length, 1, 1);
        if (s->is_adaptive && w->room > most) most = w->room;
    }
    return most;
}

static void propose(ngram_drafter *d, pf_host_sequence *s, int32_t n, uint64_t now_ns)
{
    ngram_state *state = &d->states[s->slot];
    s->n_drafted = n;
    /* What is copied may run into the proposal itself: a period goes on. */
    for (int32_t i = 0; i < n; i++) s->tokens[s->n_committed + i] = s->tokens[state->end + i];

    pf_proposal proposal;
    pf_host_begin_proposal(&d->host, s, &proposal);
    proposal.tokens = s->tokens + s->n_committed;
    proposal.n_tokens = n;
    state->n_sent = n;
    state->left_ns = now_ns;
    pf_host_propose(&d->host, s, &proposal);
}

/* The first steps differ in their rows, so that it is known what one costs. */
static int32_t choose_length(ngram_drafter *d, int32_t most, uint64_t now_ns)
{
    static const int32_t parts[] = { 1, 2, PF_NGRAM_ADAPTIVE_DRAFT };
    const int32_t n_steps = d->goodput.n_steps;
    if (n_steps < PF_GOODPUT_FIRST_STEPS) return most > parts[n_steps % 3] ? most / parts[n_steps % 3] : 1;
    return pf_goodput_choose(&d->goodput, d->weighed, d->n_ready, most, now_ns);
}

/* A lookup takes no pass: a token costs its row of the verification alone. */
static void run(pf_host *host)
{
    ngram_drafter *d = (ngram_drafter *)host;
    if (d->n_ready == 0) return;
    const uint64_t begun_ns = pf_host_now_ns(host);
    pf_judged_step_end(&d->judged, &d->goodput);
    const int32_t most = look_up(d);
    const uint64_t now_ns = pf_host_now_ns(host);
    pf_goodput_observe_pass(&d->goodput, 1, 0);
    const int32_t limit = most > 0 ? choose_length(d, most, now_ns) : 0;
    if (most > 0) pf_goodput_observe_drafting(&d->goodput, now_ns - begun_ns, now_ns);
    for (int32_t i = 0; i < d->n_ready; i++) {
        pf_host_sequence *s = &host->sequences[d->ready[i]];
        const int32_t room = d->weighed[i].room;
        propose(d, s, s->is_adaptive ? pf_min(room, limit) : room, now_ns);
    }
    d->n_ready = 0;
}

static uint64_t rests_until_ns(const pf_host *host)
{
    const pf_goodput *goodput = &((const ngram_drafter *)host)->goodput;
    return goodput->rests ? goodput->retry_ns : 0;
}

static void lay_out(pf_host *host, pf_arena *arena)
{
    ngram_drafter *d = (ngram_drafter *)host;
    const size_t n = (size_t)host->config.max_sequences;
    d->states = pf_arena_take(arena, n, sizeof *d->states);
    d->weighed = pf_arena_take(arena, n, sizeof *d->weighed);
    d->ready = pf_arena_take(arena, n, sizeof *d->ready);
}

static const pf_host_role role = {
    .name = "n-gram drafter",
    .model = "target",
    .check_open = pf_host_check_draft,
    .start = start,
    .follow = follow,
    .turn = turn,
    .add = add,
    .run = run,
    .rests_until_ns = rests_until_ns,
    .lay_out = lay_out,
};

pf_status pf_ngram_drafter_create(const pf_model_info *target, int32_t max_sequences, int32_t max_draft, pf_stop stop,
                                  pf_peer **out, pf_error *error)
{
    ngram_drafter *d = calloc(1, sizeof *d);
    if (!d) return pf_fail(error, PF_NOMEM, "no memory for the n-gram drafter");
    pf_model_info info = *target;
    memcpy(info.model_id, "ngram", sizeof "ngram");
    pf_drafts_by_state(PF_DRAFTS_BY_NGRAM, &info);
    info.max_sequences = max_sequences;
    info.max_draft = max_draft;
    info.max_declared = 0;
    info.judges_trees = info.draws_siblings = false;
    const pf_host_config config = { .max_sequences = max_sequences,
                                    .max_draft = max_draft,
                                    .max_tokens = target->max_context,
                                    .n_vocab = pf_model_ids(target),
                                    .stop = stop,
                                    .info = &info };
    return pf_host_create(&d->host, &role, &config, out, error);
}
