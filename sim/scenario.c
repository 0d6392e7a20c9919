#include "sim/scenario.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/hash.h"
#include "bench/acceptance.h"
#include "draft/model_drafter.h"
#include "engine/run.h"
#include "sim/synthetic.h"
#include "verify/model_verifier.h"

enum {
    MAX_ENGINES = 64,
    MAX_REQUESTS = 1000,
    MAX_CONTEXT = 2048,
    MAX_DRAFT = 16,
    SPARE_SEQUENCES = 4,
    PREFILL_ROWS = 64,
    SHARED_PROMPTS = 3,
    FORKS = 64, /* of a drafter that drafts ahead */
};
static const uint64_t MS = 1000 * 1000, DRAIN_NS = UINT64_C(10) * 1000 * 1000 * 1000;

typedef struct scenario_run scenario_run;

/* A model behind a server. */
typedef struct {
    scenario_run *run;
    bool drafts;
    pf_synthetic *synthetic;
} role;

typedef struct {
    scenario_run *run;
    pf_process *process;
    pf_peer *drafter, *verifier; /* far */
    pf_synthetic *synthetic;     /* of its own, for what the text must be */
    pf_peer *reference;
    pf_status status; /* of its setting up */
    pf_error error;
    int32_t prompt[MAX_CONTEXT], tokens[MAX_CONTEXT], expected[MAX_CONTEXT];
    int32_t cancel_after; /* tokens; 0: never */
    int32_t n_seen;
    volatile bool cancel;
} engine;

struct scenario_run {
    const pf_scenario *scenario;
    pf_scenario_result *result;
    pf_world *world;
    role worker_role, verifier_role;
    pf_wire_server *worker, *verifier;
    engine *engines; /* [n_engines] */
    int32_t context;
};

/* ---- the peers --------------------------------------------------------------------------------------------------- */

static pf_synthetic_config synthetic_config(const scenario_run *r, bool drafts, int32_t n_sequences)
{
    const int32_t n_forks = drafts && r->scenario->drafts_ahead ? FORKS : 0;
    const int32_t n_rows = n_sequences * (MAX_DRAFT + 1) + n_forks;
    return (pf_synthetic_config){ .seed = r->scenario->seed ^ 0x5EED,
                                  .is_draft = drafts,
                                  .acceptance = r->scenario->acceptance,
                                  .second = r->scenario->second,
                                  .max_tokens = r->context,
                                  .max_sequences = n_sequences,
                                  .max_rows = n_rows > PREFILL_ROWS ? n_rows : PREFILL_ROWS,
                                  .max_logit_rows = n_rows,
                                  .max_forks = n_forks,
                                  .max_held = r->scenario->max_held };
}

static pf_model_info info_of(const scenario_run *r, const char *name, int32_t n_sequences)
{
    pf_model_info info = { .protocol_version = PF_PROTOCOL_VERSION,
                           .vocab_size = PF_SYNTHETIC_VOCAB,
                           .n_ids = PF_SYNTHETIC_VOCAB,
                           .max_context = r->context,
                           .max_sequences = n_sequences,
                           .max_draft = MAX_DRAFT,
                           .max_declared = PF_MAX_DECLARED,
                           .judges_trees = true,
                           .names_ends = true };
    snprintf(info.model_id, sizeof info.model_id, "%s", name);
    return info;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the peer waits by it */
static pf_status make_drafter(const scenario_run *r, pf_synthetic *synthetic, uint64_t *clock_ns, pf_peer **out,
                              pf_error *error)
{
    const int32_t n = r->scenario->n_engines + SPARE_SEQUENCES;
    const pf_model_info info = info_of(r, "draft", n);
    const pf_model_drafter_config config = { .max_sequences = n,
                                             .max_draft = MAX_DRAFT,
                                             .seed = 1 + r->scenario->seed,
                                             .simulate_token_ns = r->scenario->draft_ns,
                                             .no_prefix_cache = true,
                                             .ahead_if_it_pays = true,
                                             .stop.clock_ns = clock_ns,
                                             .info = &info };
    return pf_model_drafter_create(pf_synthetic_backend(synthetic), &config, out, error);
}

/* NOLINTBEGIN(readability-non-const-parameter): likewise */
static pf_status make_verifier(const scenario_run *r, pf_synthetic *synthetic, int32_t n, uint64_t step_ns,
                               uint64_t seed, uint64_t *clock_ns, pf_peer **out, pf_error *error)
/* NOLINTEND(readability-non-const-parameter) */
{
    const pf_model_info info = info_of(r, "target", n);
    const pf_model_verifier_config config = { .max_sequences = n,
                                              .max_draft = MAX_DRAFT,
                                              .seed = seed,
                                              .simulate_step_ns = step_ns,
                                              .no_prefix_cache = true,
                                              .stop.clock_ns = clock_ns,
                                              .info = &info };
    return pf_model_verifier_create(pf_synthetic_backend(synthetic), &config, out, error);
}

/* pf_wire_make: a model, and a peer on it. */
static pf_status make_role(void *user, uint64_t *clock_ns, pf_peer **out, pf_error *error)
{
    role *role_ = user;
    const scenario_run *r = role_->run;
    const int32_t n = r->scenario->n_engines + SPARE_SEQUENCES;
    const pf_synthetic_config config = synthetic_config(r, role_->drafts, n);
    PF_TRY(pf_synthetic_create(&config, &role_->synthetic, error));
    const pf_status status = role_->drafts ? make_drafter(r, role_->synthetic, clock_ns, out, error)
                                           : make_verifier(r, role_->synthetic, n, r->scenario->verify_ns,
                                                           1 + r->scenario->seed, clock_ns, out, error);
    if (status == PF_OK) return PF_OK;
    pf_synthetic_destroy(role_->synthetic);
    role_->synthetic = NULL;
    return status;
}

static void end_role(void *user)
{
    role *role_ = user;
    pf_synthetic_destroy(role_->synthetic);
    role_->synthetic = NULL;
}

/* ---- an engine --------------------------------------------------------------------------------------------------- */

static void count_warning(void *user, const char *sentence)
{
    (void)sentence;
    ((engine *)user)->run->result->n_warnings++;
}

static bool on_token(void *user, int32_t token, bool drafted)
{
    engine *e = user;
    (void)token;
    (void)drafted;
    if (e->cancel_after > 0 && ++e->n_seen >= e->cancel_after) e->cancel = true;
    return true;
}

static int32_t draw_length(engine *e, int32_t most)
{
    return e->run->scenario->varied ? 1 + (int32_t)pf_world_draw_below(e->run->world, (uint64_t)most) : most;
}

/* A prompt: with varied half of them begin like others. Behind a kept sequence its text, and more. */
static int32_t make_prompt(engine *e, int32_t n_kept)
{
    const pf_scenario *s = e->run->scenario;
    pf_world *world = e->run->world;
    const int32_t n = pf_min(n_kept + draw_length(e, s->n_prompt), e->run->context - s->n_new - 1);
    const bool is_shared = s->varied && pf_world_draw_below(world, 2) == 0;
    const uint64_t from = is_shared ? pf_world_draw_below(world, SHARED_PROMPTS) : pf_world_draw(world);
    for (int32_t i = n_kept; i < n; i++)
        e->prompt[i] = (int32_t)(pf_hash_pair(s->seed, from, (uint64_t)i) % PF_SYNTHETIC_VOCAB);
    return n;
}

static pf_request make_request(engine *e, int32_t n_prompt)
{
    const pf_scenario *s = e->run->scenario;
    pf_world *world = e->run->world;
    pf_request q = PF_INIT(pf_request);
    q.prompt = e->prompt;
    q.n_prompt = n_prompt;
    q.max_new_tokens = draw_length(e, s->n_new);
    q.method = s->method;
    q.draft_len = s->draft_len;
    if (s->method != PF_METHOD_GREEDY)
        q.sampling = (pf_sampling){ .temperature = 1.0f, .top_p = 1.0f, .seed = pf_world_draw(world) };
    q.cancel = &e->cancel;
    q.on_token = on_token;
    q.user = e;
    q.keep_sequence = s->varied && pf_world_draw_below(world, 2) == 0;
    return q;
}

/* What plain decoding on a verifier of its own gives. */
static pf_status expect(engine *e, pf_session *plain, const pf_request *request, pf_result *out)
{
    pf_request q = *request;
    q.cancel = NULL;
    q.on_token = NULL;
    q.keep_sequence = false;
    out->tokens = e->expected;
    out->capacity = MAX_CONTEXT;
    return pf_generate(plain, &q, out, &e->error);
}

static void judge(engine *e, pf_status status, const pf_error *why, const pf_result *got, const pf_result *expected)
{
    const pf_scenario *s = e->run->scenario;
    pf_scenario_result *result = e->run->result;
    const bool is_cancelled = status == PF_CANCELLED && e->cancel;
    result->n_requests++;
    result->n_cancelled += is_cancelled;
    result->n_tokens += got->n_tokens;
    pf_speculation_add(&result->speculation, &got->speculation);
    if (status != PF_OK && !is_cancelled) {
        if (result->n_failed++ == 0) result->first_failure = *why;
    } else if (s->method != PF_METHOD_REJECTION) {
        const bool is_whole = is_cancelled || got->n_tokens == expected->n_tokens;
        result->n_wrong += !is_whole || memcmp(e->tokens, e->expected, (size_t)got->n_tokens * sizeof *e->tokens) != 0;
    }
}

static void run_requests(engine *e, pf_session *session, pf_session *plain)
{
    const pf_scenario *s = e->run->scenario;
    int32_t n_kept = 0;
    for (int32_t i = 0; i < s->n_requests && !pf_process_is_over(e->process); i++) {
        e->cancel = false;
        e->n_seen = 0;
        e->cancel_after = s->varied && pf_world_draw_below(e->run->world, 4) == 0
                              ? 1 + (int32_t)pf_world_draw_below(e->run->world, 20)
                              : 0;
        const pf_request request = make_request(e, make_prompt(e, n_kept));
        pf_result got = PF_INIT(pf_result), expected = PF_INIT(pf_result);
        pf_error why = { 0 };
        got.tokens = e->tokens;
        got.capacity = MAX_CONTEXT;
        e->status = s->method == PF_METHOD_REJECTION ? PF_OK : expect(e, plain, &request, &expected);
        if (e->status != PF_OK) return;
        const pf_status status = pf_generate(session, &request, &got, &why);
        if (pf_process_is_over(e->process)) return;
        judge(e, status, &why, &got, &expected);
        n_kept = 0;
        if (!request.keep_sequence || request.n_prompt + got.n_tokens > e->run->context / 2) continue;
        n_kept = request.n_prompt + got.n_tokens;
        memcpy(e->prompt + request.n_prompt, e->tokens, (size_t)got.n_tokens * sizeof *e->tokens);
    }
}

static pf_status open_session(engine *e, pf_peer *verifier, pf_peer *drafter, pf_session **out)
{
    pf_session_options options = PF_INIT(pf_session_options);
    options.verifier = verifier;
    options.drafter = drafter;
    options.return_limit_ns = PF_SCENARIO_LIMIT_NS;
    options.warn = count_warning;
    options.warn_user = e;
    PF_TRY(pf_session_create(&options, out, &e->error));
    pf_session_set_clock(*out, pf_process_clock(e->process));
    return PF_OK;
}

static void run_engine(pf_process *process, void *arg)
{
    engine *e = arg;
    pf_session *session = NULL, *plain = NULL;
    (void)process;
    e->status = open_session(e, e->verifier, e->drafter, &session);
    if (e->status == PF_OK) e->status = open_session(e, e->reference, NULL, &plain);
    if (e->status == PF_OK) run_requests(e, session, plain);
    pf_session_destroy(plain);
    pf_session_destroy(session);
    pf_peer_destroy(e->drafter);
    pf_peer_destroy(e->verifier);
}

static pf_status make_engine(scenario_run *r, int32_t number)
{
    engine *e = &r->engines[number];
    e->run = r;
    pf_synthetic_config config = synthetic_config(r, false, 1);
    config.max_held = 0;
    PF_TRY(pf_synthetic_create(&config, &e->synthetic, &e->error));
    PF_TRY(make_verifier(r, e->synthetic, 1, 0, 0, NULL, &e->reference, &e->error));
    PF_TRY(pf_world_spawn(r->world, true, run_engine, e, &e->process));
    PF_TRY(pf_wire_connect(r->verifier, e->process, &r->scenario->to_verifier, &e->verifier));
    return r->worker ? pf_wire_connect(r->worker, e->process, &r->scenario->to_worker, &e->drafter) : PF_OK;
}

/* ---- the whole ---------------------------------------------------------------------------------------------------- */

static pf_status make_server(scenario_run *r, role *role_, bool drafts, pf_wire_server **out, pf_error *error)
{
    *role_ = (role){ .run = r, .drafts = drafts };
    const pf_wire_server_config config = { .make = make_role,
                                           .ended = end_role,
                                           .user = role_,
                                           .restart_ns = drafts ? r->scenario->worker_restart_ns
                                                                : r->scenario->verifier_restart_ns,
                                           .down_ns = r->scenario->down_ns,
                                           .gather_ns = drafts ? 0 : r->scenario->gather_ns };
    return pf_wire_server_create(r->world, &config, r->scenario->n_engines, out, error);
}

static pf_status set_up(scenario_run *r, pf_error *error)
{
    const pf_scenario *s = r->scenario;
    r->engines = calloc((size_t)s->n_engines, sizeof *r->engines);
    if (!r->engines || pf_world_create(s->seed, PF_SCENARIO_LIMIT_NS, DRAIN_NS, &r->world) != PF_OK)
        return pf_fail(error, PF_NOMEM, "no memory for %d simulated engines", s->n_engines);
    if (!s->is_plain) PF_TRY(make_server(r, &r->worker_role, true, &r->worker, error));
    PF_TRY(make_server(r, &r->verifier_role, false, &r->verifier, error));
    for (int32_t i = 0; i < s->n_engines; i++) {
        const pf_status status = make_engine(r, i);
        if (status != PF_OK)
            return pf_fail(error, status, "engine %d of the simulation: %s", i,
                           r->engines[i].error.text[0] ? r->engines[i].error.text : pf_status_name(status));
    }
    return PF_OK;
}

/* What a server has after the last close, and how it did. */
static void take_stock(scenario_run *r, const pf_wire_server *server, const role *role_, pf_wire_counts *out)
{
    if (!server) return;
    *out = *pf_wire_server_counts(server);
    if (role_->synthetic) r->result->n_left += pf_synthetic_count(role_->synthetic).n_sequences;
}

static pf_status run_world(scenario_run *r, pf_error *error)
{
    const pf_status status = pf_world_run(r->world);
    if (status == PF_NOMEM) return pf_fail(error, status, "no thread is left for a simulation");
    r->result->is_stuck = status == PF_CANCELLED;
    r->result->elapsed_ns = pf_world_ended_ns(r->world) - PF_WORLD_BEGIN_NS;
    for (int32_t i = 0; i < r->scenario->n_engines; i++)
        if (r->engines[i].status != PF_OK)
            return pf_fail(error, r->engines[i].status, "engine %d of the simulation: %s", i, r->engines[i].error.text);
    take_stock(r, r->worker, &r->worker_role, &r->result->worker);
    take_stock(r, r->verifier, &r->verifier_role, &r->result->verifier);
    return PF_OK;
}

static void tear_down(scenario_run *r)
{
    for (int32_t i = 0; r->engines && i < r->scenario->n_engines; i++) {
        pf_peer_destroy(r->engines[i].reference);
        pf_synthetic_destroy(r->engines[i].synthetic);
    }
    pf_wire_server_destroy(r->worker);
    pf_wire_server_destroy(r->verifier);
    pf_world_destroy(r->world);
    free(r->engines);
}

static pf_status check(const pf_scenario *s, int32_t *context, pf_error *error)
{
    *context = pf_min(2 * (s->n_prompt + s->n_new) + MAX_DRAFT, MAX_CONTEXT);
    if (s->n_engines < 1 || s->n_engines > MAX_ENGINES || s->n_requests < 1 || s->n_requests > MAX_REQUESTS)
        return pf_fail(error, PF_INVALID, "%d engines with %d requests, expected 1 to %d, and 1 to %d", s->n_engines,
                       s->n_requests, MAX_ENGINES, MAX_REQUESTS);
    if (s->n_prompt < 1 || s->n_new < 1 || s->n_prompt > MAX_CONTEXT / 4 || s->n_new > MAX_CONTEXT / 4)
        return pf_fail(error, PF_INVALID, "prompts of %d tokens and %d new ones, expected 1 to %d", s->n_prompt,
                       s->n_new, MAX_CONTEXT / 4);
    if (s->draft_len < 0 || s->draft_len > MAX_DRAFT)
        return pf_fail(error, PF_INVALID, "a draft length of %d, expected 0 to %d", s->draft_len, MAX_DRAFT);
    return PF_OK;
}

pf_status pf_scenario_run(const pf_scenario *scenario, pf_scenario_result *out, pf_error *error)
{
    scenario_run r = { .scenario = scenario, .result = out };
    memset(out, 0, sizeof *out);
    PF_TRY(check(scenario, &r.context, error));
    pf_status status = set_up(&r, error);
    if (status == PF_OK) status = run_world(&r, error);
    tear_down(&r);
    return status;
}

/* ---- drawn scenarios ---------------------------------------------------------------------------------------------- */

static uint64_t draw(uint64_t seed, uint64_t what, uint64_t n)
{
    return pf_hash_pair(seed, what, 77) % n;
}

pf_scenario pf_scenario_of_seed(uint64_t seed)
{
    static const pf_method methods[] = { PF_METHOD_GREEDY, PF_METHOD_GREEDY, PF_METHOD_COUPLED, PF_METHOD_REJECTION };
    const bool is_calm = draw(seed, 1, 4) == 0;
    pf_scenario s = { .seed = seed,
                      .n_engines = 1 + (int32_t)draw(seed, 2, 5),
                      .n_requests = 2 + (int32_t)draw(seed, 3, 4),
                      .n_prompt = 1 + (int32_t)draw(seed, 4, 150),
                      .n_new = 2 + (int32_t)draw(seed, 5, 60),
                      .varied = true,
                      .draft_ns = draw(seed, 6, 5) * MS,
                      .verify_ns = (1 + draw(seed, 7, 30)) * MS,
                      .acceptance = (double)draw(seed, 8, 11) / 10.0,
                      .draft_len = (int32_t)draw(seed, 9, 9),
                      .method = methods[draw(seed, 10, 4)],
                      .second = (double)draw(seed, 23, 3) / 2.0,
                      .drafts_ahead = draw(seed, 24, 3) > 0,
                      .to_worker = { .least_ns = 20000 + draw(seed, 11, 3) * MS, .spread_ns = draw(seed, 12, 4) * MS },
                      .to_verifier = { .least_ns = 20000 + draw(seed, 13, 2) * MS,
                                       .spread_ns = draw(seed, 14, 3) * MS } };
    /* What the engines' sequences may grow to as they are kept, and nothing for closed ones. */
    if (draw(seed, 15, 3) == 0) s.max_held = s.n_engines * (2 * (s.n_prompt + s.n_new) + MAX_DRAFT);
    if (is_calm) return s;
    s.to_worker.lost = (uint32_t)draw(seed, 16, 3) * 10000;
    s.to_worker.overtaken = (uint32_t)draw(seed, 17, 3) * 20000;
    s.to_worker.broken = (uint32_t)draw(seed, 18, 3) * 10000;
    s.to_verifier.broken = (uint32_t)draw(seed, 19, 3) * 5000;
    s.to_worker.down_ns = s.to_verifier.down_ns = s.down_ns = 1 + draw(seed, 20, 300) * MS;
    s.worker_restart_ns = draw(seed, 21, 3) * 500 * MS;
    s.verifier_restart_ns = draw(seed, 22, 3) * 1000 * MS;
    return s;
}

bool pf_scenario_holds(const pf_scenario *s, const pf_scenario_result *r, char *what, size_t capacity)
{
    if (r->is_stuck)
        snprintf(what, capacity, "requests did not end: %" PRId64 " of %d did", r->n_requests,
                 s->n_engines * s->n_requests);
    else if (r->n_failed > 0)
        snprintf(what, capacity, "%" PRId64 " requests failed, the first: %s", r->n_failed, r->first_failure.text);
    else if (r->n_wrong > 0)
        snprintf(what, capacity, "%" PRId64 " texts differ from plain decoding", r->n_wrong);
    else if (r->n_requests != (int64_t)s->n_engines * s->n_requests)
        snprintf(what, capacity, "%" PRId64 " requests ended, expected %d", r->n_requests,
                 s->n_engines * s->n_requests);
    else if (r->n_left > 0)
        snprintf(what, capacity, "%d sequences are left in the caches", r->n_left);
    else if (r->worker.status != PF_OK || r->verifier.status != PF_OK)
        snprintf(what, capacity, "a peer failed: %s%s", r->worker.error.text, r->verifier.error.text);
    else
        return true;
    return false;
}
