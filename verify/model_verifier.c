/*
 * submit copies proposals; collect computes. Between the two a sequence has at most one span of work, the rows
 *
 *      tokens   | 0 .. length of the cache | .. n_committed | n_drafted proposed |
 *                                           <-------------- a span ------------->    logits of the last n_drafted + 1 rows
 *
 * so an open and a proposal differ only in how many rows come before the last committed one. Accepted tokens of a chain are
 * in place already, those of a tree move up to where its path puts them; `next` is written behind them, and verdicts point
 * into the same array. The rows of the cache move likewise (pf_forward_keep).
 */
#include "verify/model_verifier.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/sampling_parameters.h"
#include "host/sequence_host.h"
#include "model/backend/sequence_cache.h"
#include "model/backend/span_batch.h"
#include "model/sampling/logprobs.h"
#include "proto/tree.h"
#include "verify/judge.h"

enum { ROUND_TOKENS = 32 }; /* unread tokens of a round at most; with more it is a prompt */

/* What the verifier keeps of a sequence besides the host's part. */
typedef struct {
    int32_t n_stop;
    int32_t *stop;    /* [PF_MAX_STOP_TOKENS] */
    bool is_tree;     /* the proposal is one, of these parents; else it is a chain */
    int32_t *parents; /* [max_draft] */
    int32_t *rows;    /* [backend's max_rows] the same for the rows of the span */
    bool has_declared;
    pf_rules rules;
    pf_typical typical;          /* of the method typical */
    int32_t wants_logprobs;      /* as pf_open.logprobs */
    pf_token_logprobs *logprobs; /* [max_draft + 1] of the last verdict */
} verify_state;

typedef struct {
    pf_host host;
    pf_forward_backend backend;
    uint64_t seed;           /* of the config */
    pf_sequence_cache cache; /* by slot */
    const float *synthetic;  /* of the config */
    pf_judge judge;
    verify_state *states; /* [max_sequences] by slot */
    uint64_t n_opened;
    pf_span_batch batch;
} verifier;

static verifier *verifier_of(pf_host *host)
{
    return (verifier *)host;
}

static verify_state *state_of(const pf_host *host, const pf_host_sequence *s)
{
    return &((const verifier *)host)->states[s->slot];
}

/* Tokens that the cache does not hold yet. */
static int32_t unread(const pf_host *host, const pf_host_sequence *s)
{
    return s->n_committed - pf_sequence_cache_length(&((const verifier *)host)->cache, s->slot);
}

/* ---- opens and closes ------------------------------------------------------------------------------------------ */

static pf_status check_open(const pf_host *host, const pf_open *open, pf_error *error)
{
    if (open->n_tokens < 1) return pf_fail(error, PF_INVALID, "the prompt is empty, expected at least one token");
    if (open->n_stop_tokens < 0 || open->n_stop_tokens > PF_MAX_STOP_TOKENS)
        return pf_fail(error, PF_INVALID, "%d stop tokens, expected 0 to %d", open->n_stop_tokens, PF_MAX_STOP_TOKENS);
    if (open->logprobs < 0 || open->logprobs > 1 + PF_MAX_LOGPROBS)
        return pf_fail(error, PF_INVALID, "log-probabilities of %d likeliest tokens, expected 0 to %d",
                       open->logprobs - 1, PF_MAX_LOGPROBS);
    PF_TRY(pf_typical_check(&open->typical, error));
    return pf_logit_rules_check(&open->rules, host->config.n_vocab, error);
}

/* All that is in the cache is taken but the last token: its row is to be computed. */
static pf_status acquire(pf_host *host, pf_host_sequence *s, const pf_open *open)
{
    return pf_sequence_cache_open(&verifier_of(host)->cache, s->slot, s->tokens, open->tokens, open->n_tokens - 1);
}

static void start(pf_host *host, pf_host_sequence *s, const pf_open *open)
{
    verifier *v = verifier_of(host);
    verify_state *state = state_of(host, s);
    if (v->seed != 0 && open->sampling.seed == 0 && open->method != PF_METHOD_COUPLED)
        s->sampling.seed = pf_noise_derive_seed(v->seed, v->n_opened);
    v->n_opened++;
    s->max_tokens = pf_min(s->max_tokens, host->config.max_tokens + 1); /* no pass reads the last token */
    state->n_stop = open->n_stop_tokens;
    if (state->n_stop > 0) memcpy(state->stop, open->stop_tokens, (size_t)state->n_stop * sizeof *state->stop);
    state->is_tree = state->has_declared = false;
    pf_rules_take(&state->rules, &open->rules, state->stop, state->n_stop, v->judge.n_vocab);
    state->wants_logprobs = open->logprobs;
    state->typical = pf_typical_resolve(open->typical);
}

static void release(pf_host *host, pf_host_sequence *s)
{
    pf_sequence_cache_close(&verifier_of(host)->cache, s->slot);
}

/* ---- proposals ------------------------------------------------------------------------------------------------- */

static void copy_declared(const pf_host_sequence *s, int32_t i, const pf_declared *from)
{
    int32_t *ids = pf_host_ids(s, i);
    float *probabilities = pf_host_probabilities(s, i);
    memcpy(ids, from->ids, (size_t)from->n * sizeof *ids);
    memcpy(probabilities, from->probabilities, (size_t)from->n * sizeof *probabilities);
    s->declared[i] = (pf_declared){ ids, probabilities, from->n };
}

static void take_proposal(pf_host *host, pf_host_sequence *s, const pf_proposal *proposal)
{
    const verifier *v = verifier_of(host);
    verify_state *state = state_of(host, s);
    const int32_t room = pf_min(host->config.max_tokens, s->max_tokens) - s->n_committed;
    const int32_t n = pf_judge_count_usable(&v->judge, proposal, pf_min(room, host->config.max_draft));
    s->n_drafted = n;
    state->is_tree = pf_tree_chain(proposal->parents, n) < n;
    if (state->is_tree) memcpy(state->parents, proposal->parents, (size_t)n * sizeof *state->parents);
    state->has_declared = proposal->declared != NULL;
    if (n > 0) memcpy(s->tokens + s->n_committed, proposal->tokens, (size_t)n * sizeof *s->tokens);
    for (int32_t i = 0; state->has_declared && i < n; i++) copy_declared(s, i, &proposal->declared[i]);
}

/* ---- verdicts -------------------------------------------------------------------------------------------------- */

/* The row that decided token i of a verdict: that of the last committed token, then those of the accepted nodes. */
static int32_t row_of(int32_t i, int32_t first_row, const int32_t *path)
{
    return i == 0 ? first_row : first_row + 1 + path[i - 1];
}

static const pf_token_logprobs *find_logprobs(const verifier *v, const verify_state *state, const int32_t *tokens,
                                              int32_t n, int32_t first_row, const int32_t *path)
{
    if (state->wants_logprobs == 0) return NULL;
    for (int32_t i = 0; i < n; i++)
        state->logprobs[i] = pf_logprobs_of(pf_forward_logits(&v->backend, row_of(i, first_row, path)),
                                            v->judge.n_vocab, tokens[i], state->wants_logprobs - 1);
    return state->logprobs;
}

/* Commits the accepted tokens of `path` and `next`. Returns how many were kept. */
static int32_t commit(pf_host *host, pf_host_sequence *s, pf_acceptance acceptance, int32_t first_row,
                      const int32_t *path)
{
    int32_t *tokens = s->tokens + s->n_committed;
    for (int32_t i = 0; i < acceptance.n_accepted; i++) tokens[i] = tokens[path[i]];
    tokens[acceptance.n_accepted] = acceptance.next;

    pf_finish finish;
    const verify_state *state = state_of(host, s);
    const int32_t n = pf_judge_cut(tokens, acceptance.n_accepted + 1, s->max_tokens - s->n_committed, state->stop,
                                   state->n_stop, &finish);
    pf_host_commit(host, s,
                   (pf_verdict){ .n_tokens = n,
                                 .n_accepted = pf_min(acceptance.n_accepted, n),
                                 .finish = finish,
                                 .logprobs = find_logprobs(verifier_of(host), state, tokens, n, first_row, path) });
    return n;
}

/* Counts the invalid rows among those that the target's choices were made of: `path` has n_accepted nodes of the proposal. */
static void note_invalid(const verifier *v, pf_host_sequence *s, int32_t first_row, int32_t n_accepted,
                         const int32_t *path)
{
    for (int32_t i = 0; i <= n_accepted; i++) {
        const int32_t id = pf_forward_find_invalid(&v->backend, row_of(i, first_row, path), v->judge.n_vocab);
        if (id >= 0) pf_invalid_logits_note(&s->invalid, s->n_committed - 1 + i, id);
    }
}

static pf_drafted drafted_of(const verifier *v, const pf_host_sequence *s)
{
    const verify_state *state = state_of(&v->host, s);
    return (pf_drafted){ .tokens = s->tokens + s->n_committed,
                         .parents = state->is_tree ? state->parents : NULL,
                         .declared = state->has_declared ? s->declared : NULL,
                         .n = s->n_drafted };
}

static pf_judged judged_of(const verifier *v, const pf_host_sequence *s)
{
    return (pf_judged){ .sampling = &s->sampling,
                        .method = s->method,
                        .typical = state_of(&v->host, s)->typical,
                        .rules = &state_of(&v->host, s)->rules,
                        .tokens = s->tokens };
}

static void judge_span(verifier *v, pf_host_sequence *s, int32_t first_row)
{
    const int32_t n_committed = s->n_committed;
    const pf_drafted drafted = drafted_of(v, s);
    int32_t path[PF_MAX_DRAFT_TOKENS];
    pf_acceptance acceptance;
    const pf_judged sequence = judged_of(v, s);
    const pf_status status =
        pf_judge_proposal(&v->judge, &sequence, &drafted, first_row, n_committed, &acceptance, path);
    note_invalid(v, s, first_row, acceptance.n_accepted, path);
    if (status != PF_OK) {
        char text[80];
        snprintf(text, sizeof text, "the model's logits after position %d hold no number to choose by",
                 n_committed - 1);
        (void)!pf_sequence_cache_cut(&v->cache, s->slot, n_committed); /* rows of a tree are no text */
        pf_host_refuse(&v->host, s, PF_UNSUPPORTED, text);
        return;
    }
    const int32_t n_kept = commit(&v->host, s, acceptance, first_row, path);
    /* Not the last one's row: the next pass computes it. */
    if (pf_sequence_cache_keep(&v->cache, s->slot, n_committed, path, n_kept - 1) != PF_OK)
        pf_host_refuse(&v->host, s, PF_UNSUPPORTED, "the KV cache lost the sequence");
}

/* ---- passes ---------------------------------------------------------------------------------------------------- */

/* A cancelled pass refuses nothing. */
static void refuse_pass(verifier *v, pf_host_sequence *s, pf_status status)
{
    if (status == PF_CANCELLED) return;
    if (status == PF_UNAVAILABLE) {
        char text[PF_MAX_REFUSAL_BYTES + 1];
        const char *why = pf_forward_refusal(&v->backend);
        snprintf(text, sizeof text, "the target's device failed%s%s", why[0] ? ": " : "", why);
        pf_host_refuse(&v->host, s, PF_UNAVAILABLE, text);
        return;
    }
    pf_host_refuse(&v->host, s, PF_LIMIT, "the KV cache has no page left for the sequence");
}

static pf_status run_pass(void *user, const pf_span *spans, int32_t n)
{
    return pf_sequence_cache_run(&((verifier *)user)->cache, spans, n);
}

/* Where the backend draws: the draws of the rows of all spans. */
static pf_status draw_spans(verifier *v, const int32_t *slots, int32_t n)
{
    int32_t row = 0;
    if (!pf_judge_asks(&v->judge)) return PF_OK;
    for (int32_t i = 0; i < n; i++) {
        const pf_host_sequence *s = &v->host.sequences[slots[i]];
        const pf_drafted drafted = drafted_of(v, s);
        const pf_judged sequence = judged_of(v, s);
        pf_judge_ask(&v->judge, &sequence, &drafted, row, s->n_committed);
        row += s->n_drafted + 1;
    }
    return pf_judge_draw(&v->judge, row);
}

static void judge_spans(void *user, const int32_t *slots, int32_t n, pf_status status)
{
    verifier *v = user;
    if (status != PF_OK) {
        refuse_pass(v, &v->host.sequences[slots[0]], status);
        return;
    }
    const pf_status drawn = draw_spans(v, slots, n);
    for (int32_t i = 0; drawn != PF_OK && i < n; i++) {
        pf_host_sequence *s = &v->host.sequences[slots[i]];
        (void)!pf_sequence_cache_cut(&v->cache, s->slot, s->n_committed); /* rows of a tree are no text */
        refuse_pass(v, s, drawn);
    }
    if (drawn != PF_OK) return;
    for (int32_t i = 0, row = 0; i < n; i++) {
        pf_host_sequence *s = &v->host.sequences[slots[i]];
        const int32_t n_rows = s->n_drafted + 1;
        judge_span(v, s, row);
        row += n_rows;
    }
}

static void run(pf_host *host)
{
    const pf_span_pass pass = { .run = run_pass, .use = judge_spans, .user = host };
    pf_span_batch_run(&verifier_of(host)->batch, &pass);
}

/* The parents of the span's rows: a chain of n_before committed tokens, then the tree of the proposal. */
static const int32_t *make_tree(const verify_state *state, int32_t n_before, int32_t n_drafted)
{
    for (int32_t i = 0; i < n_before; i++) state->rows[i] = i - 1;
    for (int32_t i = 0; i < n_drafted; i++) state->rows[n_before + i] = n_before + state->parents[i];
    return state->rows;
}

static bool add(pf_host *host, pf_host_sequence *s)
{
    verifier *v = verifier_of(host);
    const verify_state *state = state_of(host, s);
    if (s->n_committed >= s->max_tokens) { /* nothing is left to commit: an empty verdict that ends it */
        pf_host_commit(host, s, (pf_verdict){ .finish = PF_FINISH_LENGTH });
        return true;
    }
    const int32_t n_before = unread(host, s);
    pf_span span = { .sequence = pf_sequence_cache_of(&v->cache, s->slot),
                     .tokens = s->tokens + s->n_committed - n_before,
                     .n_tokens = n_before + s->n_drafted,
                     .n_logits = s->n_drafted + 1,
                     .best_of = pf_judge_best_of(&v->judge, &s->sampling, &state->rules, state->wants_logprobs > 0) };
    if (state->is_tree) span.parents = make_tree(state, n_before, s->n_drafted);
    return pf_span_batch_add(&v->batch, &v->backend.limits, &span, s->slot);
}

/* A sequence is ready when one pass can take its unread tokens and the rows to be judged. */
static pf_host_turn turn(const pf_host *host, const pf_host_sequence *s, int32_t *n_tokens)
{
    if (!s->is_due) return PF_HOST_IDLE;
    if (s->n_committed >= s->max_tokens) return PF_HOST_READY;
    const int32_t max_rows = ((const verifier *)host)->backend.limits.max_rows, n_unread = unread(host, s);
    const int32_t backlog = n_unread + s->n_drafted - max_rows;
    if (backlog <= 0) return n_unread <= ROUND_TOKENS ? PF_HOST_READY : PF_HOST_END;
    *n_tokens = pf_min(backlog, max_rows);
    return PF_HOST_CHUNK;
}

static void feed(pf_host *host, pf_host_sequence *s, int32_t n_tokens)
{
    verifier *v = verifier_of(host);
    const pf_span span = { .sequence = pf_sequence_cache_of(&v->cache, s->slot),
                           .tokens = s->tokens + s->n_committed - unread(host, s),
                           .n_tokens = n_tokens };
    const pf_status status = run_pass(v, &span, 1);
    if (status != PF_OK) refuse_pass(v, s, status);
}

/* ---- creation -------------------------------------------------------------------------------------------------- */

static void lay_out(pf_host *host, pf_arena *arena)
{
    verifier *v = verifier_of(host);
    const size_t n = (size_t)host->config.max_sequences;
    v->judge = pf_judge_create(v->backend, v->synthetic, arena);
    v->states = pf_arena_take(arena, n, sizeof *v->states);
    pf_span_batch_lay_out(&v->batch, host->config.max_sequences, arena);
    pf_sequence_cache_lay_out(&v->cache, arena);
    for (size_t i = 0; i < n; i++) {
        const verify_state state = {
            .stop = pf_arena_take(arena, PF_MAX_STOP_TOKENS, sizeof(int32_t)),
            .parents = pf_arena_take(arena, (size_t)host->config.max_draft, sizeof(int32_t)),
            .rows = pf_arena_take(arena, (size_t)v->backend.limits.max_rows, sizeof(int32_t)),
            .rules = pf_rules_lay_out(arena),
            .logprobs = pf_arena_take(arena, (size_t)host->config.max_draft + 1, sizeof(pf_token_logprobs)),
        };
        if (v->states) v->states[i] = state;
    }
}

static void destroy(pf_host *host)
{
    pf_sequence_cache_end(&verifier_of(host)->cache);
    pf_forward_set_stop(&verifier_of(host)->backend, NULL);
}

static void get_figures(const pf_host *host, pf_model_figures *out)
{
    *out = pf_sequence_cache_figures(&((const verifier *)host)->cache);
}

static const pf_host_role role = {
    .name = "verifier",
    .model = "target",
    .declares = true,
    .answers_opens = true,
    .refuses_in_answer = true,
    .check_open = check_open,
    .acquire = acquire,
    .start = start,
    .release = release,
    .take_proposal = take_proposal,
    .turn = turn,
    .add = add,
    .run = run,
    .feed = feed,
    .unread = unread,
    .figures = get_figures,
    .lay_out = lay_out,
    .destroy = destroy,
};

static pf_status check_config(const pf_forward_limits *limits, const pf_model_verifier_config *config, pf_error *error)
{
    if (config->max_sequences > limits->max_sequences)
        return pf_fail(error, PF_INVALID, "the verifier's max_sequences is %d, expected 1 to %d", config->max_sequences,
                       limits->max_sequences);
    if (config->max_draft > 0 && config->max_draft <= PF_MAX_DRAFT_TOKENS &&
        limits->max_logit_rows < config->max_draft + 1)
        return pf_fail(error, PF_INVALID, "the context has logits for %d rows, a proposal of %d tokens needs %d",
                       limits->max_logit_rows, config->max_draft, config->max_draft + 1);
    return PF_OK;
}

pf_status pf_model_verifier_create(pf_forward_backend backend, const pf_model_verifier_config *config, pf_peer **out,
                                   pf_error *error)
{
    PF_TRY(check_config(&backend.limits, config, error));
    verifier *v = calloc(1, sizeof *v);
    if (!v) return pf_fail(error, PF_NOMEM, "no memory for the verifier");
    v->backend = backend;
    v->seed = config->seed;
    v->synthetic = config->synthetic;
    v->cache.config = (pf_sequence_cache_config){ .backend = backend,
                                                  .n_slots = config->max_sequences,
                                                  .forgets = config->no_prefix_cache,
                                                  .idle_ns = pf_host_idle_ns,
                                                  .user = &v->host };
    const pf_host_config host = { .max_sequences = config->max_sequences,
                                  .max_draft = config->max_draft,
                                  .max_tokens = backend.limits.max_tokens,
                                  .n_vocab = backend.limits.n_vocab,
                                  .least_answer_ns = config->simulate_step_ns,
                                  .stop = config->stop,
                                  .info = config->info };
    PF_TRY(pf_host_create(&v->host, &role, &host, out, error));
    pf_forward_set_stop(&backend, &v->host.config.stop);
    return PF_OK;
}

pf_sequence_cache_counts pf_model_verifier_counts(const pf_peer *peer)
{
    return ((const verifier *)peer)->cache.counts;
}
