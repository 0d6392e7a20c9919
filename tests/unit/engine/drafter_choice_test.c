/* Requests that choose their drafter: many at once, near and over a socket, beside plain decoding of the same. */
#include <pthread.h>
#include <stdio.h>

#include "engine/engine.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test.h"
#include "tests/support/tiny_model.h"

enum { N = 8, CONTEXT = 160, N_NEW = 60, N_PROMPT = 5 };

static const int32_t PROMPT[N_PROMPT] = { 5, 17, 3, 99, 42 };
static const char *const NAMES[] = { "model", "suffix", "cascade", "ngram" };
static const char ALL[] = "suffix,model,cascade,ngram";
static const pf_sampling COLD = { .temperature = 0.0f }, WARM = { .temperature = 0.05f, .seed = 11 };

static pf_engine *open_engine(pf_engine *threads_of)
{
    char directory[PF_TINY_PATH];
    pf_error error = { 0 };
    pf_engine *engine = NULL;
    pf_tiny_model_create(&(pf_tiny_model){ .seed = 1 }, directory);
    const pf_engine_options options = {
        .size = sizeof options, .n_threads = 1, .threads_of = threads_of, .max_context = CONTEXT, .max_sequences = N
    };
    assert_ok(pf_engine_open(directory, &options, &engine, &error), error);
    pf_tiny_model_remove(directory);
    return engine;
}

/* ---- a worker ------------------------------------------------------------------------------------------------------ */

typedef struct {
    const char *drafters;
    pf_temp_dir directory;
    char address[PF_TEMP_PATH_BYTES];
    pf_engine *engine;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_ready;
    volatile bool stop;
    pf_status status;
    pf_error error;
} worker;

static bool on_ready(void *user, const char *address)
{
    worker *w = user;
    (void)address;
    pthread_mutex_lock(&w->lock);
    w->is_ready = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    return true;
}

static void *serve(void *user)
{
    worker *w = user;
    const pf_serve_options options = { .size = sizeof options,
                                       .role = PF_ROLE_DRAFTER,
                                       .address = w->address,
                                       .drafter = w->drafters,
                                       .ready = on_ready,
                                       .user = w,
                                       .stop = &w->stop };
    w->status = pf_engine_serve(w->engine, &options, &w->error);
    (void)on_ready(w, NULL); /* also where it has failed */
    return NULL;
}

static void begin_worker(worker *w, const char *drafters, bool has_model)
{
    char path[PF_TEMP_PATH_BYTES - 8];
    *w = (worker){ .drafters = drafters };
    pf_temp_dir_make(&w->directory);
    snprintf(path, sizeof path, "%s/worker.sock", w->directory.path);
    snprintf(w->address, sizeof w->address, "unix:%s", path);
    w->engine = has_model ? open_engine(NULL) : NULL;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    assert_int_equal(pthread_create(&w->thread, NULL, serve, w), 0);
    pthread_mutex_lock(&w->lock);
    while (!w->is_ready) pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
}

static void end_worker(worker *w)
{
    __atomic_store_n(&w->stop, true, __ATOMIC_RELAXED);
    assert_int_equal(pthread_join(w->thread, NULL), 0);
    assert_ok(w->status, w->error);
    pf_engine_close(w->engine);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    pf_temp_dir_remove(&w->directory);
}

/* ---- sessions ------------------------------------------------------------------------------------------------------ */

/* N sessions of a hub with a drafter, the drafters of this process or the worker's, and one without. */
typedef struct {
    pf_engine *target, *draft;
    pf_peer *verifier, *drafter;
    pf_hub *hub;
    pf_session *sessions[N], *plain;
    pf_peer *peers[2 * N + 1];
    int32_t n_peers;
} side;

static pf_session *add_session(side *s, bool drafts)
{
    pf_error error = { 0 };
    pf_session *session;
    pf_session_options peers = PF_INIT(pf_session_options);
    assert_ok(pf_hub_verifier(s->hub, &peers.verifier, &error), error);
    s->peers[s->n_peers++] = peers.verifier;
    if (drafts) {
        assert_ok(pf_hub_drafter(s->hub, &peers.drafter, &error), error);
        s->peers[s->n_peers++] = peers.drafter;
        pf_model_info info;
        while (pf_peer_info(peers.drafter, &info, NULL) != PF_OK) {} /* a worker's connection is made meanwhile */
    }
    assert_ok(pf_session_create(&peers, &session, &error), error);
    return session;
}

static void open_side(side *s, const char *drafters, const char *address)
{
    pf_error error = { 0 };
    pf_hub_options options = PF_INIT(pf_hub_options);
    *s = (side){ .target = open_engine(NULL) };
    assert_ok(pf_engine_verifier(s->target, NULL, &s->verifier, &error), error);
    if (drafters) {
        s->draft = open_engine(s->target);
        const pf_drafter_options make = { .size = sizeof make, .drafter = drafters, .draft = s->draft };
        assert_ok(pf_drafter_create(&make, &s->drafter, &error), error);
    }
    options.verifier = s->verifier;
    options.drafter = s->drafter;
    options.draft_worker = address;
    assert_ok(pf_hub_create(&options, &s->hub, &error), error);
    for (int32_t i = 0; i < N; i++) s->sessions[i] = add_session(s, true);
    s->plain = add_session(s, false);
}

static void close_side(side *s)
{
    for (int32_t i = 0; i < N; i++) pf_session_destroy(s->sessions[i]);
    pf_session_destroy(s->plain);
    while (s->n_peers > 0) pf_peer_destroy(s->peers[--s->n_peers]);
    pf_hub_destroy(s->hub);
    pf_peer_destroy(s->drafter);
    pf_peer_destroy(s->verifier);
    pf_engine_close(s->draft);
    pf_engine_close(s->target);
}

static pf_request request_of(const pf_sampling *sampling, const char *drafter)
{
    return (pf_request){ .size = sizeof(pf_request),
                         .prompt = PROMPT,
                         .n_prompt = N_PROMPT,
                         .max_new_tokens = N_NEW,
                         .sampling = *sampling,
                         .method = sampling->temperature > 0.0f ? PF_METHOD_COUPLED : PF_METHOD_GREEDY,
                         .ignore_eos = true,
                         .draft_len = 4,
                         .drafter = drafter };
}

typedef struct {
    int32_t tokens[CONTEXT];
    pf_result result;
} generated;

static pf_status generate(pf_session *session, const pf_request *request, generated *out, pf_error *error)
{
    out->result = (pf_result){ .size = sizeof out->result, .tokens = out->tokens, .capacity = CONTEXT };
    return pf_generate(session, request, &out->result, error);
}

static void assert_same_text(const generated *a, const generated *b)
{
    assert_int_equal(a->result.n_tokens, b->result.n_tokens);
    assert_memory_equal(a->tokens, b->tokens, (size_t)b->result.n_tokens * sizeof *b->tokens);
}

/* Requests of N sessions at once, each with the next drafter: their text, and whose proposals they had. */
static void assert_all_give_the_plain_text(side *s, const pf_request *like)
{
    static generated plain, outs[N];
    pf_generation *generations[N];
    pf_error error = { 0 };
    pf_request request = *like;
    assert_ok(generate(s->plain, &request, &plain, &error), error);
    assert_string_equal(plain.result.drafter, "");
    for (size_t i = 0; i < N; i++) {
        request.drafter = NAMES[i % PF_COUNT(NAMES)];
        assert_ok(pf_generation_start(s->sessions[i], &request, &generations[i], &error), error);
    }
    for (size_t i = 0; i < N; i++) {
        outs[i].result = (pf_result){ .size = sizeof outs[i].result, .tokens = outs[i].tokens, .capacity = CONTEXT };
        assert_ok(pf_generation_finish(generations[i], &outs[i].result, &error), error);
        pf_generation_destroy(generations[i]);
        assert_same_text(&outs[i], &plain);
        assert_string_equal(outs[i].result.drafter, NAMES[i % PF_COUNT(NAMES)]);
    }
}

/* ---- claims -------------------------------------------------------------------------------------------------------- */

static void drafters_of_one_batch_change_no_text(void **state)
{
    (void)state;
    side s;
    open_side(&s, ALL, NULL);
    pf_request greedy = request_of(&COLD, NULL), coupled = request_of(&WARM, NULL);
    assert_all_give_the_plain_text(&s, &greedy);
    assert_all_give_the_plain_text(&s, &coupled);
    greedy.draft_len = 0;
    assert_all_give_the_plain_text(&s, &greedy);
    close_side(&s);
}

static void a_worker_has_a_drafter_for_each_sequence_of_a_batch(void **state)
{
    (void)state;
    worker w;
    side s;
    begin_worker(&w, ALL, true);
    open_side(&s, NULL, w.address);
    const pf_request greedy = request_of(&COLD, NULL), coupled = request_of(&WARM, NULL);
    assert_all_give_the_plain_text(&s, &greedy);
    assert_all_give_the_plain_text(&s, &coupled);
    close_side(&s);
    end_worker(&w);
}

/* The draft is the target, so the model's proposals are accepted whole; a lookup of a prompt without repetition has none at first. */
static void the_drafter_that_is_named_is_the_one_that_proposes(void **state)
{
    (void)state;
    side s;
    open_side(&s, ALL, NULL);
    pf_error error = { 0 };
    static generated out;
    pf_request request = request_of(&COLD, "model");
    request.max_new_tokens = 6;
    assert_ok(generate(s.sessions[0], &request, &out, &error), error);
    assert_int_equal(out.result.speculation.accepted, 4);
    assert_true(out.result.speculation.draft_passes > 0);
    request.drafter = ""; /* the first: suffix */
    assert_ok(generate(s.sessions[0], &request, &out, &error), error);
    assert_string_equal(out.result.drafter, "suffix");
    assert_int_equal(out.result.speculation.draft_passes, 0);
    close_side(&s);
}

static void a_kept_sequence_may_change_its_drafter(void **state)
{
    (void)state;
    side s;
    open_side(&s, ALL, NULL);
    static generated plain, out;
    pf_error error = { 0 };
    pf_request request = request_of(&COLD, NULL);
    assert_ok(generate(s.plain, &request, &plain, &error), error);
    request.keep_sequence = true;
    for (size_t i = 0; i < 2 * PF_COUNT(NAMES); i++) {
        request.drafter = NAMES[i % PF_COUNT(NAMES)];
        assert_ok(generate(s.sessions[0], &request, &out, &error), error);
        assert_same_text(&out, &plain);
    }
    close_side(&s);
}

static void assert_refused(side *s, const char *drafter, pf_status status, const char *says)
{
    static generated out;
    pf_error error = { 0 };
    const pf_request request = request_of(&COLD, drafter);
    assert_status(generate(s->sessions[0], &request, &out, &error), status);
    assert_says(error, says);
}

static void a_drafter_that_is_not_offered_is_refused_by_name(void **state)
{
    (void)state;
    side s;
    open_side(&s, "model,suffix", NULL);
    assert_refused(&s, "ngram", PF_UNSUPPORTED, "drafter is ngram, but what is offered is model, suffix");
    assert_refused(&s, "two words", PF_INVALID, "drafter is \"two words\", expected a name");
    assert_refused(&s, "sixteen-letters-", PF_INVALID, "expected a name of 1 to 15");
    static generated out;
    pf_error error = { 0 };
    pf_request request = request_of(&COLD, "suffix");
    assert_status(generate(s.plain, &request, &out, &error), PF_UNSUPPORTED);
    assert_says(error, "the session has no drafter");
    request.no_speculation = true; /* none is asked */
    request.drafter = "ngram";
    assert_ok(generate(s.sessions[0], &request, &out, &error), error);
    assert_string_equal(out.result.drafter, "");
    close_side(&s);
}

static void a_worker_of_one_drafter_offers_that_one(void **state)
{
    (void)state;
    static const char *const kinds[] = { "suffix", "ngram", "model", "cascade" };
    for (size_t i = 0; i < PF_COUNT(kinds); i++) {
        worker w;
        side s;
        char says[64];
        begin_worker(&w, kinds[i], i >= 2);
        open_side(&s, NULL, w.address);
        snprintf(says, sizeof says, "but what is offered is %s", kinds[i]);
        assert_refused(&s, kinds[(i + 1) % PF_COUNT(kinds)], PF_UNSUPPORTED, says);
        static generated out;
        pf_error error = { 0 };
        const pf_request request = request_of(&COLD, kinds[i]);
        assert_ok(generate(s.sessions[0], &request, &out, &error), error);
        close_side(&s);
        end_worker(&w);
    }
}

/* ---- allowed tokens ------------------------------------------------------------------------------------------------ */

static void allow_every_third(void *user, const int32_t *text, int32_t n_text, const int32_t *path, int32_t n_path,
                              uint32_t *mask, int32_t n_ids)
{
    (void)user;
    (void)text;
    (void)path;
    for (int32_t id = 0; id < n_ids; id++)
        if ((id + n_text + n_path) % 3 == 0) mask[id / 32] |= 1u << id % 32;
}

static void a_far_drafter_drafts_without_the_mask_and_changes_no_text(void **state)
{
    (void)state;
    worker w;
    side s;
    begin_worker(&w, ALL, true);
    open_side(&s, NULL, w.address);
    pf_request greedy = request_of(&COLD, NULL), coupled = request_of(&WARM, NULL);
    greedy.rules.allow = coupled.rules.allow = allow_every_third;
    assert_all_give_the_plain_text(&s, &greedy);
    assert_all_give_the_plain_text(&s, &coupled);
    static generated out;
    pf_error error = { 0 };
    pf_request rejection = coupled;
    rejection.method = PF_METHOD_REJECTION;
    rejection.drafter = "model";
    assert_ok(generate(s.sessions[0], &rejection, &out, &error), error);
    for (int32_t i = 0; i < out.result.n_tokens; i++) assert_int_equal((out.tokens[i] + i) % 3, 0);
    close_side(&s);
    end_worker(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drafters_of_one_batch_change_no_text),
        cmocka_unit_test(a_worker_has_a_drafter_for_each_sequence_of_a_batch),
        cmocka_unit_test(the_drafter_that_is_named_is_the_one_that_proposes),
        cmocka_unit_test(a_kept_sequence_may_change_its_drafter),
        cmocka_unit_test(a_drafter_that_is_not_offered_is_refused_by_name),
        cmocka_unit_test(a_worker_of_one_drafter_offers_that_one),
        cmocka_unit_test(a_far_drafter_drafts_without_the_mask_and_changes_no_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
