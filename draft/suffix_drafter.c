#include "draft/suffix_drafter.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "draft/drafter_kind.h"
#include "draft/goodput.h"
#include "draft/judged_step.h"
#include "draft/lookup_odds.h"
#include "draft/suffix_corpus.h"
#include "host/sequence_host.h"

enum {
    PART = 4096, /* tokens of a prompt that are read at once */
    WIDTH = 2,   /* children of a node of a tree, at most */
};
static const double LEAST_CHANCE = 0.05,
                    FIRST_CHANCE = 0.3; /* of a path that is proposed; before rows have been measured */
static const double CAUTION = 1.5;      /* of a row's price */

/* What the drafter keeps of a sequence besides the host's part. */
typedef struct {
    pf_suffix_tree tree; /* of the first committed tokens: of all but those that are still to be read */
    bool keeps_tree;     /* it is opened again, and its tokens begin with those of the tree */
    uint64_t client;
    int32_t n_prompt;                          /* of the open: what is committed behind it is output */
    pf_lookup_odds odds;                       /* of this text */
    pf_lookup_cell cells[PF_MAX_DRAFT_TOKENS]; /* of the latest proposal's tokens */
    int32_t parents[PF_MAX_DRAFT_TOKENS];      /* likewise */
    double expected;                           /* tokens of it that will be accepted */
    uint64_t left_ns;                          /* when it was handed out; 0: it was not sent ... */
    int32_t n_sent;                            /* ... and so many tokens of it */
    pf_proposal proposal;                      /* in the making */
    int32_t excluded[2 * PF_MAX_EXCLUDED], n_excluded;
} lookup_state;

typedef struct {
    pf_host host;
    pf_suffix_corpus corpus;
    size_t corpus_bytes;
    lookup_state *states; /* [max_sequences] by slot */
    pf_lookup_odds odds;  /* of all texts */
    pf_goodput goodput;
    pf_judged_step judged;
    int32_t *ready; /* [max_sequences] slots with a proposal in the making */
    int32_t n_ready;
    uint64_t begun_ns; /* when the first of them was begun */
} suffix_drafter;

static lookup_state *state_of(const pf_host *host, const pf_host_sequence *s)
{
    return &((const suffix_drafter *)host)->states[s->slot];
}

/* ---- opens and closes ---------------------------------------------------------------------------------------------- */

static void keep_output(pf_host *host, const pf_host_sequence *s)
{
    suffix_drafter *d = (suffix_drafter *)host;
    const lookup_state *state = state_of(host, s);
    if (d->corpus_bytes > 0)
        pf_suffix_corpus_add(&d->corpus, state->client, s->tokens + state->n_prompt, s->n_committed - state->n_prompt);
}

static pf_status acquire(pf_host *host, pf_host_sequence *s, const pf_open *open)
{
    lookup_state *state = state_of(host, s);
    const int32_t n = state->tree.n_tokens;
    if (s->is_open)
        keep_output(host, s);
    else
        state->odds = (pf_lookup_odds){ 0 };
    state->keeps_tree =
        s->is_open && n <= open->n_tokens && memcmp(s->tokens, open->tokens, (size_t)n * sizeof *open->tokens) == 0;
    return PF_OK;
}

static void start(pf_host *host, pf_host_sequence *s, const pf_open *open)
{
    lookup_state *state = state_of(host, s);
    if (!state->keeps_tree) pf_suffix_tree_reset(&state->tree, s->tokens);
    state->client = open->client;
    state->n_prompt = open->n_tokens;
    state->expected = 0.0;
    state->left_ns = 0;
    state->n_excluded = open->n_excluded;
    if (open->n_excluded > 0)
        memcpy(state->excluded, open->excluded, 2 * (size_t)open->n_excluded * sizeof *open->excluded);
}

/* ---- verdicts ------------------------------------------------------------------------------------------------------ */

/* What the committed tokens say of each proposed one that they reach. */
static void judge(suffix_drafter *d, const pf_host_sequence *s, const pf_verdict *verdict)
{
    lookup_state *state = state_of(&d->host, s);
    const int32_t *tokens = s->tokens + s->n_committed;
    int32_t at = -1;
    for (int32_t i = 0, node = 0; i < verdict->n_tokens; i++, at = node) {
        node = at;
        for (int32_t j = at + 1; j < s->n_drafted; j++) {
            if (state->parents[j] != at) continue;
            const bool is_kept = tokens[j] == verdict->tokens[i];
            pf_lookup_observe(&state->odds, state->cells[j], is_kept);
            pf_lookup_observe(&d->odds, state->cells[j], is_kept);
            if (is_kept) node = j;
        }
        if (node == at) return;
    }
}

static pf_status follow(pf_host *host, pf_host_sequence *s, const pf_verdict *verdict)
{
    suffix_drafter *d = (suffix_drafter *)host;
    lookup_state *state = state_of(host, s);
    judge(d, s, verdict);
    if (state->left_ns > 0) pf_judged_step_add(&d->judged, host, &d->goodput, verdict, state->n_sent, state->left_ns);
    state->expected = 0.0;
    state->left_ns = 0;
    return PF_OK;
}

static void release(pf_host *host, pf_host_sequence *s)
{
    keep_output(host, s);
}

/* ---- reading ------------------------------------------------------------------------------------------------------- */

static int32_t unread(const pf_host *host, const pf_host_sequence *s)
{
    return s->n_committed - state_of(host, s)->tree.n_tokens;
}

static void feed(pf_host *host, pf_host_sequence *s, int32_t n_tokens)
{
    pf_suffix_tree *tree = &state_of(host, s)->tree;
    for (int32_t i = 0; i < n_tokens; i++) (void)pf_suffix_tree_append(tree, s->tokens[tree->n_tokens]);
}

static pf_host_turn turn(const pf_host *host, const pf_host_sequence *s, int32_t *n_tokens)
{
    if (unread(host, s) > PART) {
        *n_tokens = PART;
        return PF_HOST_CHUNK;
    }
    return s->is_due ? PF_HOST_READY : PF_HOST_IDLE;
}

/* ---- proposals ----------------------------------------------------------------------------------------------------- */

/* A token that may be proposed next. */
typedef struct {
    pf_suffix_next next;
    int32_t parent, length, n_ended;
    double chance; /* that it and all before it are accepted */
} candidate;

/* A proposal in the making. */
typedef struct {
    candidate nodes[PF_MAX_DRAFT_TOKENS];                /* [n] each behind its parent */
    candidate open[WIDTH * PF_MAX_DRAFT_TOKENS + WIDTH]; /* [n_open] children of these */
    int32_t n, n_open;
    double expected;
} growth;

static bool is_excluded(const lookup_state *state, int32_t token)
{
    for (int32_t i = 0; i < state->n_excluded; i++)
        if (token >= state->excluded[2 * i] && token < state->excluded[2 * i + 1]) return true;
    return false;
}

/* The i-th token of the path to a node. */
static int32_t token_of_path(const growth *g, int32_t node, int32_t i)
{
    int32_t depth = 0;
    for (int32_t at = node; at >= 0; at = g->nodes[at].parent) depth++;
    for (depth--; depth > i; depth--) node = g->nodes[node].parent;
    return g->nodes[node].next.token;
}

/* A text that repeats its end goes on with what is proposed: behind its last token stands the first proposed one. */
static int32_t go_on(const pf_suffix_tree *tree, pf_suffix_place place, const growth *g, int32_t node,
                     pf_suffix_next *next, int32_t *n_ended)
{
    const int32_t behind = pf_suffix_tree_position(tree, place) - tree->n_tokens;
    if (node < 0 || behind < 0) return 0;
    *next = (pf_suffix_next){ token_of_path(g, node, behind), 1, { place.node, place.offset + 1 } };
    *n_ended = 1;
    return 1;
}

/* Adds what may follow the node, -1: the suffix that was found. */
static void open_children(const suffix_drafter *d, const lookup_state *state, const pf_suffix_tree *tree,
                          pf_suffix_place place, int32_t length, int32_t node, int32_t width, growth *g)
{
    pf_suffix_next next[2];
    int32_t n_ended;
    int32_t n = pf_min(pf_suffix_tree_next(tree, place, next, &n_ended), width);
    if (n == 0 && tree == &state->tree) n = go_on(tree, place, g, node, next, &n_ended);
    const double before = node < 0 ? 1.0 : g->nodes[node].chance;
    for (int32_t i = 0; i < n; i++) {
        if (is_excluded(state, next[i].token)) continue;
        const double chance = pf_lookup_chance(&state->odds, &d->odds, length, next[i].count, n_ended);
        g->open[g->n_open++] = (candidate){ next[i], node, length, n_ended, before * chance };
    }
}

/* The most probable tokens behind a suffix of `length` tokens, one after another. */
static void grow(const suffix_drafter *d, const lookup_state *state, const pf_suffix_tree *tree, pf_suffix_place place,
                 int32_t length, int32_t room, int32_t width, double least, growth *g)
{
    const int32_t most = pf_min(room, PF_SUFFIX_FACTOR * length);
    g->n = g->n_open = 0;
    g->expected = 0.0;
    open_children(d, state, tree, place, length, -1, width, g);
    while (g->n < most && g->n_open > 0) {
        int32_t best = 0;
        for (int32_t i = 1; i < g->n_open; i++)
            if (g->open[i].chance > g->open[best].chance) best = i;
        const candidate c = g->open[best];
        if (c.chance < least) return;
        g->open[best] = g->open[--g->n_open];
        g->expected += c.chance;
        g->nodes[g->n] = c;
        open_children(d, state, tree, c.next.place, c.length + 1, g->n++, width, g);
    }
}

/* The least chance of acceptance that pays for a row: by the time of a row, and the tokens committed in it otherwise. */
static double least_chance(const suffix_drafter *d, const pf_host_sequence *s)
{
    if (!s->is_adaptive) return LEAST_CHANCE;
    if (d->goodput.n_steps < PF_GOODPUT_FIRST_STEPS) return FIRST_CHANCE;
    const double price = CAUTION * pf_goodput_row_price(&d->goodput);
    return price > LEAST_CHANCE ? price : LEAST_CHANCE;
}

/* Puts a growth behind the committed tokens: first the path of first children, which is the chain where no tree is judged, then the rest. */
static void write_proposal(lookup_state *state, pf_host_sequence *s, const growth *g, pf_proposal *proposal)
{
    int32_t place[PF_MAX_DRAFT_TOKENS], n = 0, at = -1;
    for (int32_t i = 0; i < g->n; i++) {
        place[i] = g->nodes[i].parent == at ? n++ : -1;
        if (place[i] >= 0) at = i;
    }
    const bool is_chain = n == g->n;
    for (int32_t i = 0; i < g->n; i++) {
        const candidate *c = &g->nodes[i];
        if (place[i] < 0) place[i] = n++;
        s->tokens[s->n_committed + place[i]] = c->next.token;
        state->parents[place[i]] = c->parent < 0 ? -1 : place[c->parent];
        state->cells[place[i]] = pf_lookup_cell_of(c->length, c->next.count, c->n_ended);
    }
    s->n_drafted = g->n;
    proposal->tokens = s->tokens + s->n_committed;
    proposal->n_tokens = g->n;
    if (!is_chain) proposal->parents = state->parents;
}

static bool add(pf_host *host, pf_host_sequence *s)
{
    suffix_drafter *d = (suffix_drafter *)host;
    lookup_state *state = state_of(host, s);
    if (d->n_ready == 0) {
        d->begun_ns = pf_host_now_ns(host);
        pf_judged_step_end(&d->judged, &d->goodput);
    }
    feed(host, s, unread(host, s));
    growth own = { .n = 0 }, earlier = { .n = 0 };
    const int32_t room = pf_host_draft_room(host, s), width = s->is_adaptive && s->judges_trees ? WIDTH : 1;
    const double least = least_chance(d, s);
    pf_suffix_place place;
    const int32_t n_own = room > 0 ? pf_suffix_tree_repeated(&state->tree, &place) : 0;
    if (n_own > 0) grow(d, state, &state->tree, place, n_own, room, width, least, &own);
    const pf_suffix_tree *tree;
    const int32_t n_earlier =
        room > 0 && d->corpus_bytes > 0
            ? pf_suffix_corpus_find(&d->corpus, state->client, s->tokens, s->n_committed, &tree, &place)
            : 0;
    if (n_earlier > 0) grow(d, state, tree, place, n_earlier, room, width, least, &earlier);

    const growth *better = earlier.expected > own.expected ? &earlier : &own;
    pf_host_begin_proposal(host, s, &state->proposal);
    write_proposal(state, s, better, &state->proposal);
    state->expected = better->expected;
    d->ready[d->n_ready++] = s->slot;
    return true;
}

/* Whether the proposals of the step are worth the rows that they add to its verification. */
static bool step_pays(suffix_drafter *d, uint64_t now_ns)
{
    int32_t n_proposed = 0;
    double expected = 0.0;
    for (int32_t i = 0; i < d->n_ready; i++) {
        n_proposed += d->host.sequences[d->ready[i]].n_drafted;
        expected += d->states[d->ready[i]].expected;
    }
    const bool pays = pf_goodput_pays(&d->goodput, d->n_ready, n_proposed, expected, now_ns);
    pf_goodput_observe_drafting(&d->goodput, now_ns - d->begun_ns, now_ns);
    return pays;
}

/* What is not sent stands behind the committed tokens all the same, and is judged. */
static void run(pf_host *host)
{
    suffix_drafter *d = (suffix_drafter *)host;
    const uint64_t now_ns = pf_host_now_ns(host);
    const bool pays = d->n_ready == 0 || step_pays(d, now_ns);
    for (int32_t i = 0; i < d->n_ready; i++) {
        pf_host_sequence *s = &host->sequences[d->ready[i]];
        lookup_state *state = &d->states[s->slot];
        if (s->is_adaptive && !pays) {
            state->proposal.n_tokens = 0;
            state->proposal.parents = NULL;
            state->expected = 0.0;
        }
        state->n_sent = state->proposal.n_tokens;
        state->left_ns = now_ns;
        pf_host_propose(host, s, &state->proposal);
    }
    d->n_ready = 0;
}

static uint64_t rests_until_ns(const pf_host *host)
{
    const pf_goodput *goodput = &((const suffix_drafter *)host)->goodput;
    return goodput->rests ? goodput->retry_ns : 0;
}

/* ---- creation ------------------------------------------------------------------------------------------------------ */

static void lay_out(pf_host *host, pf_arena *arena)
{
    suffix_drafter *d = (suffix_drafter *)host;
    const int32_t n = host->config.max_sequences;
    d->states = pf_arena_take(arena, (size_t)n, sizeof *d->states);
    d->ready = pf_arena_take(arena, (size_t)n, sizeof *d->ready);
    for (int32_t i = 0; i < n; i++)
        pf_suffix_tree_lay_out(d->states ? &d->states[i].tree : NULL, host->config.max_tokens, arena);
    if (d->corpus_bytes > 0) pf_suffix_corpus_lay_out(&d->corpus, d->corpus_bytes, arena);
}

static const pf_host_role role = {
    .name = "suffix drafter",
    .model = "target",
    .check_open = pf_host_check_draft,
    .acquire = acquire,
    .start = start,
    .release = release,
    .follow = follow,
    .turn = turn,
    .add = add,
    .run = run,
    .feed = feed,
    .unread = unread,
    .rests_until_ns = rests_until_ns,
    .lay_out = lay_out,
};

pf_status pf_suffix_drafter_create(const pf_model_info *target, const pf_suffix_drafter_config *config, pf_peer **out,
                                   pf_error *error)
{
    if (config->corpus_bytes > 0 && config->corpus_bytes < PF_SUFFIX_CORPUS_LEAST_BYTES)
        return pf_fail(error, PF_INVALID, "the corpus of the suffix drafter has %zu bytes, expected 0 or at least %d",
                       config->corpus_bytes, PF_SUFFIX_CORPUS_LEAST_BYTES);
    suffix_drafter *d = calloc(1, sizeof *d);
    if (!d) return pf_fail(error, PF_NOMEM, "no memory for the suffix drafter");
    d->corpus_bytes = config->corpus_bytes;
    pf_model_info info = *target;
    memcpy(info.model_id, "suffix", sizeof "suffix");
    pf_drafts_by_state(PF_DRAFTS_BY_SUFFIX, &info);
    info.max_sequences = config->max_sequences;
    info.max_draft = config->max_draft;
    info.max_declared = 0;
    info.judges_trees = info.draws_siblings = false;
    const pf_host_config host = { .max_sequences = config->max_sequences,
                                  .max_draft = config->max_draft,
                                  .max_tokens = pf_min(target->max_context, PF_MAX_PROMPT_TOKENS),
                                  .n_vocab = pf_model_ids(target),
                                  .stop = config->stop,
                                  .info = &info };
    return pf_host_create(&d->host, &role, &host, out, error);
}

/* ---- for a cascade --------------------------------------------------------------------------------------------------- */

static lookup_state *find_state(const pf_peer *peer, uint64_t sequence)
{
    const suffix_drafter *d = (const suffix_drafter *)peer;
    const int32_t slot = pf_stream_answerer_find(d->host.answer.stream, sequence);
    return slot < 0 ? NULL : &d->states[slot];
}

double pf_suffix_drafter_expects(const pf_peer *peer, uint64_t sequence)
{
    const lookup_state *state = find_state(peer, sequence);
    return state ? state->expected : 0.0;
}

void pf_suffix_drafter_withhold(pf_peer *peer, uint64_t sequence)
{
    lookup_state *state = find_state(peer, sequence);
    if (state) state->left_ns = 0;
}
