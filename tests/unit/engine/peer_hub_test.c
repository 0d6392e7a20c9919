/* Many sessions on the peers of a hub: their texts, their places, and what they see when a peer or the hub ends. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "engine/roles.h"
#include "host/sequence_host.h"
#include "tests/support/generating.h"
#include "tests/support/test.h"

enum { N_SESSIONS = 32, MS = 1000 * 1000 };
static const uint64_t LONG_NS = UINT64_C(60000) * MS;

/* ---- texts ------------------------------------------------------------------------------------------------------ */

static pf_engine *open_shared(const pf_tiny_model *model, pf_engine *threads_of)
{
    char directory[PF_TINY_PATH];
    pf_error error = { 0 };
    pf_tiny_model_create(model, directory);
    const pf_engine_options options = { .size = sizeof options,
                                        .n_threads = threads_of ? 0 : 1,
                                        .threads_of = threads_of,
                                        .max_context = CONTEXT,
                                        .max_sequences = N_SESSIONS,
                                        .kv_sequences = N_SESSIONS };
    pf_engine *engine = NULL;
    assert_ok(pf_engine_open(directory, &options, &engine, &error), error);
    pf_tiny_model_remove(directory);
    return engine;
}

typedef struct {
    pf_engine *target, *draft;
    pf_peer *verifier, *drafter;
    generated plain[N_SESSIONS]; /* each request alone, without a drafter */
} shared;

static int32_t prompt_length(int32_t i)
{
    return 3 + i * 5 % 41;
}

/* Request i: another prompt each, of another length; N_NEW tokens. */
static pf_request make_request(int32_t i, int32_t prompt[CONTEXT])
{
    pf_request request = plain_request();
    request.n_prompt = prompt_length(i);
    for (int32_t t = 0; t < request.n_prompt; t++) prompt[t] = (7 * i + 13 * t + t * t) % VOCAB;
    request.prompt = prompt;
    request.draft_len = i % 3 == 0 ? 0 : 1 + i % 5;
    return request;
}

static pf_status run_request(pf_peer *verifier, pf_peer *drafter, int32_t i, generated *out, pf_error *error)
{
    int32_t prompt[CONTEXT];
    const pf_request request = make_request(i, prompt);
    const pf_session_options options = { .size = sizeof options, .verifier = verifier, .drafter = drafter };
    pf_session *session = NULL;
    const pf_status status = pf_session_create(&options, &session, error);
    if (status != PF_OK) return status;
    out->result = PF_INIT(pf_result);
    out->result.tokens = out->tokens;
    out->result.capacity = CONTEXT;
    const pf_status ended = pf_generate(session, &request, &out->result, error);
    pf_session_destroy(session);
    return ended;
}

static int open_shared_pair(void **state)
{
    static shared s;
    pf_error error = { 0 };
    s = (shared){ 0 };
    s.target = open_shared(&(pf_tiny_model){ .seed = 1 }, NULL);
    s.draft = open_shared(&(pf_tiny_model){ .seed = 1, .layers = 1 }, s.target);
    assert_ok(pf_engine_verifier(s.target, NULL, &s.verifier, &error), error);
    assert_ok(pf_engine_drafter(s.draft, NULL, &s.drafter, &error), error);
    for (int32_t i = 0; i < N_SESSIONS; i++) assert_ok(run_request(s.verifier, NULL, i, &s.plain[i], &error), error);
    *state = &s;
    return 0;
}

static int close_shared_pair(void **state)
{
    shared *s = *state;
    pf_peer_destroy(s->drafter);
    pf_peer_destroy(s->verifier);
    pf_engine_close(s->draft);
    pf_engine_close(s->target);
    return 0;
}

/* One session on a thread of its own. */
typedef struct {
    pthread_t thread;
    pf_hub *hub;
    int32_t i;
    bool drafts;
    pf_status status;
    pf_error error;
    generated out;
} worker;

static void *run_worker(void *arg)
{
    worker *w = arg;
    pf_peer *verifier = NULL, *drafter = NULL;
    w->status = pf_hub_verifier(w->hub, &verifier, &w->error);
    if (w->status == PF_OK && w->drafts) w->status = pf_hub_drafter(w->hub, &drafter, &w->error);
    if (w->status == PF_OK) w->status = run_request(verifier, drafter, w->i, &w->out, &w->error);
    pf_peer_destroy(drafter);
    pf_peer_destroy(verifier);
    return NULL;
}

/* They are those of the sessions, once the last close has arrived. */
static void check_figures(pf_hub *hub, const pf_hub_figures *sums, int64_t n_accepted)
{
    pf_hub_figures figures = PF_INIT(pf_hub_figures);
    pf_error error = { 0 };
    const uint64_t until_ns = pf_now_ns() + LONG_NS;
    do assert_ok(pf_hub_get_figures(hub, &figures, &error), error);
    while (figures.n_running > 0 && pf_now_ns() < until_ns);
    assert_int_equal(figures.n_running, 0);
    assert_int_equal(figures.n_waiting, 0);
    assert_true(figures.n_sequences == N_SESSIONS);
    assert_true(figures.prompt_tokens == sums->prompt_tokens);
    assert_true(figures.cached_tokens == sums->cached_tokens);
    assert_true(figures.new_tokens == sums->new_tokens);
    assert_true(figures.drafts == sums->drafts);
    assert_true(figures.drafted == sums->drafted);
    assert_true(figures.accepted == n_accepted);
    int64_t n_accepted_to = 0;
    for (int32_t i = 0; i < PF_MAX_DRAFT_TOKENS; i++) n_accepted_to += figures.accepted_to[i];
    assert_true(n_accepted_to == n_accepted);
    assert_true(figures.passes > 0 && figures.rows > figures.passes);
    assert_true(figures.pages > 0 && figures.used_pages >= 0 && figures.used_pages <= figures.pages);
    assert_true((figures.draft_passes > 0) == (sums->drafts > 0));
    figures.size = 1;
    assert_status(pf_hub_get_figures(hub, &figures, &error), PF_INVALID);
}

static void check_texts_are_those_of_each_alone(const shared *s, const pf_hub_options *options)
{
    static worker workers[N_SESSIONS];
    pf_hub *hub = NULL;
    pf_error error = { 0 };
    assert_ok(pf_hub_create(options, &hub, &error), error);
    for (int32_t i = 0; i < N_SESSIONS; i++) {
        workers[i] = (worker){ .hub = hub, .i = i, .drafts = options->drafter != NULL };
        assert_int_equal(pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]), 0);
    }
    int64_t n_accepted = 0;
    pf_hub_figures sums = { 0 }; /* not of what other tests have done with the verifier */
    for (int32_t i = 0; i < N_SESSIONS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        assert_ok(workers[i].status, workers[i].error);
        assert_same_text(&workers[i].out, &s->plain[i]);
        n_accepted += workers[i].out.result.speculation.accepted;
        sums.drafts += workers[i].out.result.speculation.rounds;
        sums.drafted += workers[i].out.result.speculation.drafted;
        sums.new_tokens += workers[i].out.result.n_tokens;
        sums.prompt_tokens += prompt_length(i);
        assert_true(workers[i].out.result.reused_tokens >= 0);
        sums.cached_tokens += workers[i].out.result.reused_tokens;
    }
    check_figures(hub, &sums, n_accepted);
    assert_true(options->drafter ? n_accepted > 0 : n_accepted == 0);
    pf_hub_destroy(hub);
}

static void concurrent_greedy_texts_are_those_of_each_alone(void **state)
{
    const shared *s = *state;
    check_texts_are_those_of_each_alone(s,
                                        &(pf_hub_options){ .size = sizeof(pf_hub_options), .verifier = s->verifier });
}

static void concurrent_greedy_texts_with_a_drafter_are_those_of_each_alone(void **state)
{
    const shared *s = *state;
    check_texts_are_those_of_each_alone(
        s, &(pf_hub_options){ .size = sizeof(pf_hub_options), .verifier = s->verifier, .drafter = s->drafter });
}

static void more_sessions_than_places_wait_and_give_the_same_texts(void **state)
{
    const shared *s = *state;
    check_texts_are_those_of_each_alone(
        s, &(pf_hub_options){
               .size = sizeof(pf_hub_options), .verifier = s->verifier, .drafter = s->drafter, .max_sequences = 3 });
}

/* ---- prompts ------------------------------------------------------------------------------------------------------ */

typedef struct {
    int32_t n_calls, most; /* of on_prompt */
} progress;

static void note_prompt(void *user, int32_t n_read)
{
    progress *p = user;
    p->n_calls++;
    if (n_read > p->most) p->most = n_read;
}

/* Passes take long enough for the session to ask. */
static void a_hub_says_what_of_a_prompt_was_cached_and_what_is_read(void **state)
{
    (void)state;
    const pf_role_options slow = { .size = sizeof slow, .simulate_ns = UINT64_C(600) * MS };
    pf_engine *engine = open_shared(&(pf_tiny_model){ .seed = 1 }, NULL);
    pf_peer *verifier = NULL, *client = NULL;
    pf_hub *hub = NULL;
    pf_error error = { 0 };
    assert_ok(pf_engine_verifier(engine, &slow, &verifier, &error), error);
    assert_ok(pf_hub_create(&(pf_hub_options){ .size = sizeof(pf_hub_options), .verifier = verifier }, &hub, &error),
              error);
    for (int32_t i = 0; i < 2; i++) {
        progress seen = { 0 };
        int32_t prompt[CONTEXT];
        pf_request request = make_request(8, prompt);
        request.max_new_tokens = 1;
        request.on_prompt = note_prompt;
        request.user = &seen;
        pf_result result = PF_INIT(pf_result);
        pf_session *session = NULL;
        assert_ok(pf_hub_verifier(hub, &client, &error), error);
        const pf_session_options options = { .size = sizeof options, .verifier = client };
        assert_ok(pf_session_create(&options, &session, &error), error);
        assert_ok(pf_generate(session, &request, &result, &error), error);
        const int32_t n_cached = i == 0 ? 0 : request.n_prompt - 1;
        assert_true(result.reused_tokens == n_cached);
        assert_true(seen.n_calls > 0);
        assert_in_range(seen.most, n_cached, request.n_prompt);
        pf_session_destroy(session);
        pf_peer_destroy(client);
    }
    pf_hub_destroy(hub);
    pf_peer_destroy(verifier);
    pf_engine_close(engine);
}

/* ---- a scripted verifier ---------------------------------------------------------------------------------------- */

enum { SCRIPT_SEQUENCES = 64, SCRIPT_CONTEXT = 32, SCRIPT_TOKEN = 7 };

/* Answers every open and every proposal with one token. Used by the hub's thread; the test looks at it after the hub. */
typedef struct {
    pf_peer head;
    pf_verdict verdicts[SCRIPT_SEQUENCES];
    int32_t n_verdicts;
    pf_batch answer;
    int32_t n_passes, last_answers; /* of the latest pass */
    int32_t n_closes;
    pf_status collect_status; /* PF_OK: it works */
    uint64_t pass_ns;         /* what a pass takes */
} script_verifier;

static const int32_t SCRIPT_TOKENS[] = { SCRIPT_TOKEN };

static void script_answer(script_verifier *s, uint64_t sequence, uint32_t incarnation, uint64_t round, int32_t base)
{
    s->verdicts[s->n_verdicts++] = (pf_verdict){ .sequence = sequence,
                                                 .incarnation = incarnation,
                                                 .round = round,
                                                 .base = base,
                                                 .tokens = SCRIPT_TOKENS,
                                                 .n_tokens = 1 };
}

static pf_status script_submit(pf_peer *peer, const pf_batch *batch)
{
    script_verifier *s = (script_verifier *)peer;
    s->n_closes += batch->n_closes;
    for (int32_t i = 0; i < batch->n_opens; i++) {
        const pf_open *o = &batch->opens[i];
        script_answer(s, o->sequence, o->incarnation, o->next_round, o->n_tokens);
    }
    for (int32_t i = 0; i < batch->n_proposals; i++) {
        const pf_proposal *p = &batch->proposals[i];
        script_answer(s, p->sequence, p->incarnation, p->round, p->base);
    }
    return PF_OK;
}

static pf_status script_collect(pf_peer *peer, uint64_t deadline_ns, const pf_batch **out, pf_error *error)
{
    script_verifier *s = (script_verifier *)peer;
    (void)deadline_ns;
    if (s->collect_status != PF_OK) return pf_fail(error, s->collect_status, "the script failed");
    if (s->n_verdicts == 0) return PF_CANCELLED;
    pf_wait_until(pf_now_ns() + s->pass_ns);
    s->answer = (pf_batch){ .verdicts = s->verdicts, .n_verdicts = s->n_verdicts };
    s->n_passes++;
    s->last_answers = s->n_verdicts;
    s->n_verdicts = 0;
    *out = &s->answer;
    return PF_OK;
}

static pf_status script_info(pf_peer *peer, pf_model_info *out, pf_error *error)
{
    (void)peer, (void)error;
    *out = (pf_model_info){ .vocab_size = VOCAB,
                            .max_context = SCRIPT_CONTEXT,
                            .max_sequences = SCRIPT_SEQUENCES,
                            .max_draft = 4,
                            .methods = 1 << PF_METHOD_GREEDY };
    return PF_OK;
}

static void script_destroy(pf_peer *peer)
{
    (void)peer;
}

static const pf_peer_ops SCRIPT = {
    .submit = script_submit, .collect = script_collect, .info = script_info, .destroy = script_destroy
};

static script_verifier make_script(void)
{
    return (script_verifier){ .head.ops = &SCRIPT };
}

static pf_hub *open_hub(script_verifier *script, int32_t max_sequences, int32_t max_waiting)
{
    const pf_hub_options options = {
        .size = sizeof options, .verifier = &script->head, .max_sequences = max_sequences, .max_waiting = max_waiting
    };
    pf_hub *hub = NULL;
    pf_error error = { 0 };
    assert_ok(pf_hub_create(&options, &hub, &error), error);
    return hub;
}

static pf_peer *get_client(pf_hub *hub)
{
    pf_peer *client = NULL;
    pf_error error = { 0 };
    assert_ok(pf_hub_verifier(hub, &client, &error), error);
    return client;
}

static void say_open(pf_peer *client, uint64_t sequence)
{
    static const int32_t prompt[] = { 1, 2, 3 };
    pf_open open = { .sequence = sequence,
                     .incarnation = 1,
                     .tokens = prompt,
                     .n_tokens = (int32_t)PF_COUNT(prompt),
                     .method = PF_METHOD_GREEDY,
                     .max_draft = 1 };
    assert_int_equal(pf_peer_submit(client, &(pf_batch){ .opens = &open, .n_opens = 1 }), PF_OK);
}

static void say_close(pf_peer *client, uint64_t sequence)
{
    pf_close close = { .sequence = sequence };
    assert_int_equal(pf_peer_submit(client, &(pf_batch){ .closes = &close, .n_closes = 1 }), PF_OK);
}

/* The next answer that has something in it. */
static const pf_batch *await(pf_peer *client)
{
    const uint64_t until_ns = pf_now_ns() + LONG_NS;
    while (pf_now_ns() < until_ns) {
        const pf_batch *answer = NULL;
        pf_error error = { 0 };
        assert_ok(pf_peer_collect(client, until_ns, &answer, &error), error);
        if (answer->n_verdicts + answer->n_refusals > 0) return answer;
    }
    fail_msg("no answer came");
    return NULL;
}

static void expect_verdict(pf_peer *client, uint64_t sequence)
{
    const pf_batch *answer = await(client);
    assert_int_equal(answer->n_verdicts, 1);
    assert_true(answer->verdicts[0].sequence == sequence);
    assert_int_equal(answer->verdicts[0].tokens[0], SCRIPT_TOKEN);
}

static void expect_refusal(pf_peer *client, pf_status status, const char *part)
{
    const pf_batch *answer = await(client);
    assert_int_equal(answer->n_refusals, 1);
    assert_int_equal(answer->refusals[0].status, status);
    if (!strstr(answer->refusals[0].text, part)) fail_msg("\"%s\" does not say \"%s\"", answer->refusals[0].text, part);
}

/* It waits: what it gets is empty. */
static void expect_nothing(pf_peer *client)
{
    const pf_batch *answer = NULL;
    pf_error error = { 0 };
    assert_ok(pf_peer_collect(client, 0, &answer, &error), error);
    assert_int_equal(answer->n_verdicts + answer->n_refusals, 0);
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

static void opens_wait_for_places_in_order_of_arrival(void **state)
{
    (void)state;
    enum { N = 5 };
    script_verifier script = make_script();
    pf_hub *hub = open_hub(&script, 1, 0);
    pf_peer *clients[N];
    for (uint64_t i = 0; i < N; i++) {
        clients[i] = get_client(hub);
        say_open(clients[i], 1); /* ids of clients are independent */
        if (i == 0) expect_verdict(clients[0], 1);
    }
    for (int i = 1; i < N; i++) {
        for (int later = i; later < N; later++) expect_nothing(clients[later]);
        say_close(clients[i - 1], 1);
        expect_verdict(clients[i], 1);
    }
    for (int i = 0; i < N; i++) pf_peer_destroy(clients[i]);
    pf_hub_destroy(hub);
}

static void an_open_beyond_the_queue_is_refused(void **state)
{
    (void)state;
    script_verifier script = make_script();
    pf_hub *hub = open_hub(&script, 1, 1);
    pf_peer *a = get_client(hub), *b = get_client(hub), *c = get_client(hub);
    say_open(a, 1);
    expect_verdict(a, 1);
    say_open(b, 1);
    expect_nothing(b);
    say_open(c, 1);
    expect_refusal(c, PF_LIMIT, "1 sequences are open and 1 wait");
    say_close(a, 1);
    expect_verdict(b, 1);
    pf_peer_destroy(a);
    pf_peer_destroy(b);
    pf_peer_destroy(c);
    pf_hub_destroy(hub);
}

static void a_session_does_not_keep_its_place_for_its_next_request(void **state)
{
    (void)state;
    script_verifier script = make_script();
    pf_hub *hub = open_hub(&script, 1, 0);
    pf_peer *a = get_client(hub), *b = get_client(hub);
    say_open(a, 1);
    expect_verdict(a, 1);
    say_open(b, 1);
    expect_nothing(b);
    say_close(a, 1);
    say_open(a, 2); /* behind b */
    expect_verdict(b, 1);
    expect_nothing(a);
    pf_peer_destroy(b);
    expect_verdict(a, 2);
    pf_peer_destroy(a);
    pf_hub_destroy(hub);
}

/* A request is cancelled in the midst of a pass, and the session's next one begins before the answer has come. */
static void an_answer_to_a_closed_sequence_leaves_the_next_open_pending(void **state)
{
    (void)state;
    script_verifier script = make_script();
    script.pass_ns = 100 * MS;
    pf_hub *hub = open_hub(&script, 1, 0);
    pf_peer *client = get_client(hub);
    say_open(client, 1);
    pf_wait_until(pf_now_ns() + 30 * MS);
    say_close(client, 1);
    say_open(client, 2);
    const pf_batch *answer = await(client);
    if (answer->verdicts[0].sequence != 2) expect_verdict(client, 2);
    pf_peer_destroy(client);
    pf_hub_destroy(hub);
}

static void a_closed_open_leaves_the_queue(void **state)
{
    (void)state;
    script_verifier script = make_script();
    pf_hub *hub = open_hub(&script, 1, 1);
    pf_peer *a = get_client(hub), *b = get_client(hub), *c = get_client(hub);
    say_open(a, 1);
    expect_verdict(a, 1);
    say_open(b, 1);
    expect_nothing(b);
    say_close(b, 1);
    say_open(c, 1); /* there is room in the queue again */
    expect_nothing(c);
    say_close(a, 1);
    expect_verdict(c, 1);
    pf_peer_destroy(a);
    pf_peer_destroy(b);
    pf_peer_destroy(c);
    pf_hub_destroy(hub);
}

static void a_destroyed_client_gives_its_place_to_the_next(void **state)
{
    (void)state;
    script_verifier script = make_script();
    pf_hub *hub = open_hub(&script, 1, 0);
    pf_peer *a = get_client(hub), *b = get_client(hub), *c = get_client(hub);
    say_open(a, 1);
    expect_verdict(a, 1);
    say_open(b, 1);
    say_open(c, 1);
    pf_peer_destroy(b); /* it waits */
    pf_peer_destroy(a); /* it is open */
    expect_verdict(c, 1);
    pf_peer_destroy(c);
    pf_hub_destroy(hub);
}

/* ---- batches ------------------------------------------------------------------------------------------------------ */

static void say_proposal(pf_peer *client, uint64_t round)
{
    pf_proposal p = { .sequence = 1, .incarnation = 1, .round = round, .base = 3 + (int32_t)round };
    assert_int_equal(pf_peer_submit(client, &(pf_batch){ .proposals = &p, .n_proposals = 1 }), PF_OK);
}

static void a_pass_waits_for_a_sequence_that_was_just_answered(void **state)
{
    (void)state;
    script_verifier script = make_script();
    const pf_hub_options options = {
        .size = sizeof options, .verifier = &script.head, .gather_ns = 1000 * MS /* a loaded machine is slow */
    };
    pf_hub *hub = NULL;
    pf_error error = { 0 };
    assert_ok(pf_hub_create(&options, &hub, &error), error);
    pf_peer *a = get_client(hub), *b = get_client(hub);
    say_open(a, 1);
    say_open(b, 1);
    expect_verdict(a, 1);
    expect_verdict(b, 1);
    say_proposal(a, 1);
    pf_wait_until(pf_now_ns() + 20 * MS);
    say_proposal(b, 1);
    expect_verdict(a, 1);
    expect_verdict(b, 1);
    pf_peer_destroy(a);
    pf_peer_destroy(b);
    pf_hub_destroy(hub);
    assert_int_equal(script.last_answers, 2);
}

static void a_pass_does_not_wait_for_a_sequence_that_stays_away(void **state)
{
    (void)state;
    script_verifier script = make_script();
    const pf_hub_options options = { .size = sizeof options, .verifier = &script.head, .gather_ns = 200 * MS };
    pf_hub *hub = NULL;
    pf_error error = { 0 };
    assert_ok(pf_hub_create(&options, &hub, &error), error);
    pf_peer *a = get_client(hub), *b = get_client(hub);
    say_open(a, 1);
    say_open(b, 1);
    expect_verdict(a, 1);
    expect_verdict(b, 1);
    const uint64_t begin_ns = pf_now_ns();
    for (uint64_t round = 1; round <= 20; round++) { /* b says nothing */
        say_proposal(a, round);
        expect_verdict(a, 1);
    }
    assert_true(pf_now_ns() - begin_ns < UINT64_C(2000) * MS); /* one wait, not one in each round */
    say_proposal(b, 1);
    expect_verdict(b, 1);
    pf_peer_destroy(a);
    pf_peer_destroy(b);
    pf_hub_destroy(hub);
    assert_true(script.n_passes >= 22);
}

/* While the drafter is asked, the verifier's client of the same session has nothing to say, and the other way round. */
static void a_pass_does_not_wait_for_a_session_that_goes_on_at_its_other_peer(void **state)
{
    const shared *s = *state;
    const pf_hub_options options = {
        .size = sizeof options, .verifier = s->verifier, .drafter = s->drafter, .gather_ns = 1000 * MS
    };
    pf_hub *hub = NULL;
    pf_error error = { 0 };
    assert_ok(pf_hub_create(&options, &hub, &error), error);
    worker w = { .hub = hub, .i = 1, .drafts = true };
    const uint64_t begin_ns = pf_now_ns();
    (void)run_worker(&w);
    const uint64_t took_ns = pf_now_ns() - begin_ns;
    assert_ok(w.status, w.error);
    assert_same_text(&w.out, &s->plain[1]);
    pf_hub_destroy(hub);
    assert_true(took_ns < UINT64_C(1000) * MS); /* not one wait */
}

/* ---- drafting ahead ----------------------------------------------------------------------------------------------- */

enum { AHEAD_PASSES = 3 };

/* A drafter that has so many passes to run ahead. */
typedef struct {
    script_verifier script;
    atomic_int n_asked;
} ahead_drafter;

static bool script_work_ahead(pf_peer *peer)
{
    return atomic_fetch_add(&((ahead_drafter *)peer)->n_asked, 1) < AHEAD_PASSES;
}

static void the_drafter_works_ahead_while_no_client_has_asked(void **state)
{
    (void)state;
    pf_peer_ops ops = SCRIPT;
    ops.size = sizeof ops;
    ops.work_ahead = script_work_ahead;
    ahead_drafter drafter = { .script = make_script() };
    drafter.script.head.ops = &ops;
    script_verifier script = make_script();
    const pf_hub_options options = { .size = sizeof options,
                                     .verifier = &script.head,
                                     .drafter = &drafter.script.head };
    pf_hub *hub = NULL;
    pf_error error = { 0 };
    const uint64_t until_ns = pf_now_ns() + LONG_NS;
    assert_ok(pf_hub_create(&options, &hub, &error), error);
    while (atomic_load(&drafter.n_asked) <= AHEAD_PASSES && pf_now_ns() < until_ns) pf_wait_until(pf_now_ns() + MS);
    pf_peer *client = get_client(hub);
    say_open(client, 1);
    expect_verdict(client, 1);
    pf_peer_destroy(client);
    pf_hub_destroy(hub);
    assert_true(atomic_load(&drafter.n_asked) > AHEAD_PASSES);
}

/* A drafter that proposes token 1, and says once it has done so that it rests. */
typedef struct {
    pf_host host;
    int32_t n_asked, n_told;
} resting_drafter;

/* NOLINTNEXTLINE(readability-non-const-parameter): the type is that of the hosts' function */
static pf_host_turn resting_turn(const pf_host *host, const pf_host_sequence *s, int32_t *n_tokens)
{
    (void)host, (void)n_tokens;
    return s->is_due ? PF_HOST_READY : PF_HOST_IDLE;
}

static pf_status resting_follow(pf_host *host, pf_host_sequence *s, const pf_verdict *verdict)
{
    (void)s;
    ((resting_drafter *)host)->n_told += verdict->n_tokens;
    return PF_OK;
}

static bool resting_add(pf_host *host, pf_host_sequence *s)
{
    static const int32_t token = 1;
    pf_proposal proposal;
    pf_host_begin_proposal(host, s, &proposal);
    proposal.tokens = &token;
    proposal.n_tokens = 1;
    ((resting_drafter *)host)->n_asked++;
    pf_host_propose(host, s, &proposal);
    return true;
}

static uint64_t rests_until_ns(const pf_host *host)
{
    return ((const resting_drafter *)host)->n_asked > 0 ? UINT64_MAX : 0;
}

static void a_drafter_that_rests_is_told_of_verdicts_and_not_asked(void **state)
{
    const shared *s = *state;
    static const pf_host_role role = { .name = "drafter that rests",
                                       .model = "none",
                                       .turn = resting_turn,
                                       .add = resting_add,
                                       .follow = resting_follow,
                                       .rests_until_ns = rests_until_ns };
    for (int32_t i = 0; i <= 1; i++) { /* of request 0 the length is chosen, of the other not */
        pf_error error = { 0 };
        pf_model_info info;
        pf_hub *hub = NULL;
        pf_peer *near = NULL;
        resting_drafter *d = calloc(1, sizeof *d);
        assert_non_null(d);
        assert_ok(pf_peer_info(s->verifier, &info, &error), error);
        const pf_host_config config = {
            .max_sequences = 1, .max_draft = 8, .max_tokens = CONTEXT, .n_vocab = VOCAB, .info = &info
        };
        assert_ok(pf_host_create(&d->host, &role, &config, &near, &error), error);
        assert_ok(
            pf_hub_create(&(pf_hub_options){ .size = sizeof(pf_hub_options), .verifier = s->verifier, .drafter = near },
                          &hub, &error),
            error);
        worker w = { .hub = hub, .i = i, .drafts = true };
        (void)run_worker(&w);
        assert_ok(w.status, w.error);
        assert_same_text(&w.out, &s->plain[i]);
        pf_hub_destroy(hub);
        const pf_speculation *spec = &w.out.result.speculation;
        assert_int_equal(d->n_asked, i == 0 ? 1 : spec->rounds + spec->fallback_rounds);
        assert_int_equal(d->n_told, w.out.result.n_tokens - 1); /* not of the last round: the sequence is closed */
        pf_peer_destroy(near);
    }
}

/* ---- ends --------------------------------------------------------------------------------------------------------- */

static void a_client_that_settles_waits_until_its_close_is_taken(void **state)
{
    (void)state;
    script_verifier script = make_script();
    script.pass_ns = 100 * MS;
    pf_hub *hub = open_hub(&script, 1, 0);
    pf_peer *client = get_client(hub);
    say_open(client, 1);
    expect_verdict(client, 1);
    say_proposal(client, 1);
    say_close(client, 1);
    pf_hub_settle(client);
    assert_int_equal(script.n_closes, 1);
    pf_hub_settle(client);
    pf_hub_settle(&script.head); /* no hub's */
    pf_peer_destroy(client);
    pf_hub_destroy(hub);
}

static void a_stopped_hub_refuses_opens_and_lets_open_sequences_go_on(void **state)
{
    (void)state;
    script_verifier script = make_script();
    pf_hub *hub = open_hub(&script, 0, 0);
    pf_peer *a = get_client(hub), *b = get_client(hub);
    pf_error error = { 0 };
    say_open(a, 1);
    expect_verdict(a, 1);
    pf_hub_stop(hub, LONG_NS);
    say_open(b, 1);
    expect_refusal(b, PF_UNAVAILABLE, "shutting down");
    say_proposal(a, 1);
    expect_verdict(a, 1);
    pf_hub_stop(hub, 0);
    const pf_batch *answer = NULL;
    say_proposal(a, 2);
    pf_status status;
    while ((status = pf_peer_collect(a, 0, &answer, &error)) == PF_OK) {} /* what was made before comes first */
    assert_int_equal(status, PF_CANCELLED);
    pf_peer_destroy(a);
    pf_peer_destroy(b);
    pf_hub_destroy(hub);
}

static void a_failure_of_the_peer_is_told_to_every_client(void **state)
{
    (void)state;
    script_verifier script = make_script();
    script.collect_status = PF_INTERNAL;
    pf_hub *hub = open_hub(&script, 0, 0);
    pf_peer *a = get_client(hub), *b = get_client(hub);
    const pf_batch *answer = NULL;
    pf_error error = { 0 };
    say_open(a, 1);
    pf_status status;
    while ((status = pf_peer_collect(a, 0, &answer, &error)) == PF_OK) {}
    assert_int_equal(status, PF_INTERNAL);
    assert_says(error, "the script failed");
    assert_status(pf_peer_collect(b, 0, &answer, &error), PF_INTERNAL);
    pf_peer_destroy(a);
    pf_peer_destroy(b);
    pf_hub_destroy(hub);
}

static void a_client_that_asked_for_nothing_gets_no_answer(void **state)
{
    (void)state;
    script_verifier script = make_script();
    pf_hub *hub = open_hub(&script, 0, 0);
    pf_peer *a = get_client(hub);
    const pf_batch *answer = NULL;
    pf_error error = { 0 };
    assert_status(pf_peer_collect(a, pf_now_ns() + LONG_NS, &answer, &error), PF_CANCELLED);
    pf_peer_destroy(a);
    pf_hub_destroy(hub);
}

static void options_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    script_verifier script = make_script(), far = make_script();
    far.head.is_far = true;
    pf_hub *hub = NULL;
    pf_error error = { 0 };
    pf_hub_options options = PF_INIT(pf_hub_options);
    assert_status(pf_hub_create(&options, &hub, &error), PF_INVALID);
    assert_says(error, "needs a verifier of this process");
    options.verifier = &far.head;
    assert_status(pf_hub_create(&options, &hub, &error), PF_INVALID);
    options.verifier = &script.head;
    options.drafter = &far.head;
    assert_status(pf_hub_create(&options, &hub, &error), PF_INVALID);
    assert_says(error, "draft_worker");
    options.drafter = NULL;
    options.max_sequences = PF_MAX_OPEN_SEQUENCES + 1;
    assert_status(pf_hub_create(&options, &hub, &error), PF_INVALID);
    assert_says(error, "max_sequences is 4097");
    options.max_sequences = 0;
    options.draft_worker = "nowhere";
    assert_status(pf_hub_create(&options, &hub, &error), PF_INVALID);
    assert_null(hub);
    pf_hub_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(concurrent_greedy_texts_are_those_of_each_alone),
        cmocka_unit_test(concurrent_greedy_texts_with_a_drafter_are_those_of_each_alone),
        cmocka_unit_test(more_sessions_than_places_wait_and_give_the_same_texts),
        cmocka_unit_test(a_hub_says_what_of_a_prompt_was_cached_and_what_is_read),
        cmocka_unit_test(opens_wait_for_places_in_order_of_arrival),
        cmocka_unit_test(an_open_beyond_the_queue_is_refused),
        cmocka_unit_test(a_session_does_not_keep_its_place_for_its_next_request),
        cmocka_unit_test(an_answer_to_a_closed_sequence_leaves_the_next_open_pending),
        cmocka_unit_test(a_closed_open_leaves_the_queue),
        cmocka_unit_test(a_destroyed_client_gives_its_place_to_the_next),
        cmocka_unit_test(a_pass_waits_for_a_sequence_that_was_just_answered),
        cmocka_unit_test(a_pass_does_not_wait_for_a_sequence_that_stays_away),
        cmocka_unit_test(a_pass_does_not_wait_for_a_session_that_goes_on_at_its_other_peer),
        cmocka_unit_test(the_drafter_works_ahead_while_no_client_has_asked),
        cmocka_unit_test(a_drafter_that_rests_is_told_of_verdicts_and_not_asked),
        cmocka_unit_test(a_client_that_settles_waits_until_its_close_is_taken),
        cmocka_unit_test(a_stopped_hub_refuses_opens_and_lets_open_sequences_go_on),
        cmocka_unit_test(a_failure_of_the_peer_is_told_to_every_client),
        cmocka_unit_test(a_client_that_asked_for_nothing_gets_no_answer),
        cmocka_unit_test(options_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, open_shared_pair, close_shared_pair);
}
