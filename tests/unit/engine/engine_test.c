/* What an engine says of itself, and the role that it plays. */
#include "engine/engine.h"
#include "include/pilotfish.h"
#include "engine/roles.h"
#include "include/pilotfish.h"

#include <stdio.h>
#include <unistd.h>

#include "base/topology.h"
#include "kernels/cpu.h"
#include "model/forward/context.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test.h"
#include "tests/support/tiny_model.h"

/* Protobuf's strings are UTF-8: of a ModelInfo with another one nothing is read. */
static void the_model_id_is_the_directory_name_in_utf8(void **state)
{
    (void)state;
    char model[PF_TINY_PATH], longest[128 + 1] = "", link[PF_TEMP_PATH_BYTES];
    for (size_t i = 0; i < 128; i += 2) memcpy(longest + i, "\xC3\xA9", 2);
    const struct {
        const char *directory, *model_id;
        size_t n_bytes;
    } cases[] = { { "tiny", "tiny", 4 }, { "m\xFF", "m\xEF\xBF\xBD", 4 }, { longest, longest, 126 } };
    pf_temp_dir directory;
    pf_temp_dir_make(&directory);
    pf_tiny_model_create(&(pf_tiny_model){ .vocab = 128 }, model);
    char slashes[PF_TEMP_PATH_BYTES + 2];
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        (void)pf_temp_path(&directory, cases[i].directory, link);
        assert_int_equal(symlink(model, link), 0);
        const pf_engine_options options = { .size = sizeof(pf_engine_options), .n_threads = 1 };
        pf_engine *engine;
        pf_error error;
        pf_model_info info;
        snprintf(slashes, sizeof slashes, "%s//", link);
        assert_ok(pf_engine_open(i % 2 ? link : slashes, &options, &engine, &error), error);
        pf_engine_info(engine, &info);
        pf_engine_close(engine);
        assert_int_equal(strlen(info.model_id), cases[i].n_bytes);
        assert_memory_equal(info.model_id, cases[i].model_id, cases[i].n_bytes);
    }
    pf_tiny_model_remove(model);
    pf_temp_dir_remove(&directory);
}

static const pf_engine_options PLAIN = { .size = sizeof(pf_engine_options), .n_threads = 1 };

static void info_states_the_options_and_memory_matches_them(void **state)
{
    (void)state;
    char model[PF_TINY_PATH];
    pf_tiny_model_create(&(pf_tiny_model){ .vocab = 128 }, model);
    pf_engine_options options = PLAIN;
    options.max_context = 40;
    options.max_sequences = 3;
    options.max_draft = 6;
    pf_engine *engine = NULL;
    pf_error error;
    assert_ok(pf_engine_open(model, &options, &engine, &error), error);
    pf_model_info info;
    pf_engine_info(engine, &info);
    assert_int_equal(info.vocab_size, 128);
    assert_int_equal(info.n_ids, 128);
    assert_int_equal(info.max_context, 40);
    assert_int_equal(info.max_sequences, 3);
    assert_int_equal(info.max_draft, 6);
    assert_true(info.names_ends && info.n_ends == 1 && info.ends[0] == 2);
    const pf_context *context = pf_engine_context(engine);
    assert_int_equal(pf_context_get_config(context)->max_logit_rows, 3 * (1 + 6));
    pf_topology machine;
    assert_ok(pf_topology_read(&machine, &error), error);
    const size_t held_bytes =
        (8 << 20) + pf_model_packed_bytes(pf_engine_model(engine)) + pf_context_reserved_bytes(context);
    if (machine.memory_bytes > held_bytes)
        assert_int_equal(pf_engine_memory_left(engine), machine.memory_bytes - held_bytes);

    pf_engine *second = NULL; /* on the same threads, beside the first and its role */
    pf_peer *peer = NULL;
    assert_ok(pf_engine_verifier(engine, NULL, &peer, &error), error);
    const size_t left_bytes = pf_engine_memory_left(engine);
    options.threads_of = engine;
    options.max_draft = PF_MAX_DRAFT_TOKENS;
    assert_ok(pf_engine_open(model, &options, &second, &error), error);
    const size_t second_bytes =
        pf_model_packed_bytes(pf_engine_model(second)) + pf_context_reserved_bytes(pf_engine_context(second));
    if (left_bytes > second_bytes) assert_int_equal(pf_engine_memory_left(second), left_bytes - second_bytes);
    pf_engine_close(second);
    pf_peer_destroy(peer);
    pf_engine_close(engine);
    pf_tiny_model_remove(model);
}

static void an_address_to_connect_to_has_a_port(void **state)
{
    (void)state;
    static const struct {
        const char *address;
        bool listens;
        pf_status expected;
    } cases[] = { { "127.0.0.1:0", true, PF_OK },
                  { "127.0.0.1:0", false, PF_INVALID },
                  { "127.0.0.1:1", false, PF_OK },
                  { "unix:/a.sock", false, PF_OK },
                  { "127.0.0.1", true, PF_INVALID } };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        pf_error error;
        assert_status(pf_check_address(cases[i].address, cases[i].listens, &error), cases[i].expected);
    }
}

static void an_option_out_of_range_is_refused_by_its_name(void **state)
{
    (void)state;
    static const int32_t cores[] = { 0 };
    const struct {
        const char *name;
        pf_engine_options options;
    } cases[] = {
        { "f33", { .dtype = "f33" } },
        { "f33", { .activations = "f33" } },
        { "gemm is \"mkl\", expected one of auto, own, onednn", { .gemm = "mkl" } },
        { "head is \"half\", expected one of auto, full, bounded, screened", { .head = "half" } },
        { "avx3", { .isa = "avx3" } },
        { "kv_dtype is \"f16\", expected one of auto, f32, bf16", { .kv_dtype = "f16" } },
        { "n_cores is -1", { .cores = cores, .n_cores = -1 } },
        { "n_cores is 1, expected 0", { .n_cores = 1 } }, /* of which there is no list */
        { "n_threads is -1", { .n_threads = -1 } },
        { "max_context is -1", { .max_context = -1 } },
        { "max_sequences is -1, expected 0 to 4096", { .max_sequences = -1 } },
        { "max_sequences is 4097", { .max_sequences = 4097 } },
        { "max_draft is -1, expected 0 to 64", { .max_draft = -1 } },
        { "max_draft is 65", { .max_draft = PF_MAX_DRAFT_TOKENS + 1 } },
    };
    char model[PF_TINY_PATH];
    pf_tiny_model_create(&(pf_tiny_model){ .vocab = 128 }, model);
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        pf_engine *engine = NULL;
        pf_error error = { 0 };
        pf_engine_options options = cases[i].options;
        options.size = sizeof options;
        assert_status(pf_engine_open(model, &options, &engine, &error), PF_INVALID);
        assert_says(error, cases[i].name);
        assert_null(engine);
    }
    pf_tiny_model_remove(model);
}

static void an_unsupported_tokenizer_is_reported_and_ids_work(void **state)
{
    (void)state;
    char model[PF_TINY_PATH], path[PF_TINY_PATH + 32];
    pf_tiny_model_create(&(pf_tiny_model){ .vocab = 128 }, model);
    snprintf(path, sizeof path, "%s/tokenizer.json", model);
    for (int i = 0; i < 3; i++) { /* one that is none, one of another kind, none */
        static const char *const texts[] = { "[", "{\"model\": {\"type\": \"WordPiece\", \"vocab\": {}}}" };
        if (i == 2) assert_int_equal(unlink(path), 0);
        if (i < 2) {
            FILE *f = fopen(path, "w");
            assert_non_null(f);
            assert_true(fputs(texts[i], f) >= 0 && fclose(f) == 0);
        }
        pf_engine *engine = NULL;
        pf_error error;
        const pf_status status = pf_engine_open(model, &PLAIN, &engine, &error);
        assert_status(status, i == 0 ? PF_FORMAT : PF_OK);
        if (i == 0) continue;
        assert_null(pf_engine_tokenizer(engine));
        const char *refusal = pf_engine_tokenizer_refusal(engine);
        if (i == 1) assert_non_null(strstr(refusal, "WordPiece"));
        if (i == 2) assert_null(refusal);
        pf_engine_close(engine);
    }
    pf_tiny_model_remove(model);
}

static pf_engine *open_tiny(const char *head)
{
    char model[PF_TINY_PATH];
    pf_tiny_model_create(&(pf_tiny_model){ .vocab = 128 }, model);
    const pf_engine_options options = {
        .size = sizeof(pf_engine_options), .dtype = "bf16", .head = head, .n_threads = 1
    };
    pf_engine *engine = NULL;
    pf_error error;
    assert_ok(pf_engine_open(model, &options, &engine, &error), error);
    pf_tiny_model_remove(model);
    return engine;
}

static void a_screened_head_makes_a_drafter_and_no_verifier(void **state)
{
    (void)state;
    pf_engine *engine = open_tiny("screened");
    pf_peer *peer = NULL;
    pf_error error;
    assert_status(pf_engine_verifier(engine, NULL, &peer, &error), PF_INVALID);
    assert_says(error, "its head is screened");
    assert_null(peer);
    assert_ok(pf_engine_drafter(engine, NULL, &peer, &error), error); /* its role is left */
    pf_peer_destroy(peer);
    pf_engine_close(engine);
}

/* At least as long as a larger model's would be. */
static void roles_take_at_least_the_simulated_time(void **state)
{
    (void)state;
    const uint64_t step_ns = 2 * 1000 * 1000;
    static const int32_t prompt[] = { 1, 2, 3, 4, 5, 6 };
    pf_engine *target = open_tiny("full"), *draft = open_tiny("full");
    pf_peer *verifier = NULL, *drafter = NULL;
    pf_error error;
    const pf_role_options role = { .size = sizeof(pf_role_options), .simulate_ns = step_ns, .simulate_rows = 1 };
    assert_ok(pf_engine_verifier(target, &role, &verifier, &error), error);
    assert_ok(pf_engine_drafter(draft, &role, &drafter, &error), error);
    pf_session *session = NULL;
    assert_ok(pf_session_create(
                  &(pf_session_options){
                      .size = sizeof(pf_session_options), .verifier = verifier, .drafter = drafter, .max_context = 64 },
                  &session, &error),
              error);
    int32_t tokens[4];
    const pf_request request = { .size = sizeof(pf_request),
                                 .prompt = prompt,
                                 .n_prompt = PF_COUNT(prompt),
                                 .max_new_tokens = 4,
                                 .sampling.top_p = 1.0f,
                                 .draft_len = 2 };
    pf_result result = { .size = sizeof(pf_result), .tokens = tokens, .capacity = PF_COUNT(tokens) };
    assert_ok(pf_generate(session, &request, &result, &error), error);
    const pf_speculation *s = &result.speculation;
    assert_true(s->rounds > 0);
    assert_true(result.prefill_ns >= step_ns && s->verify_ns >= step_ns * (uint64_t)s->rounds);
    assert_true(s->draft_ns >= step_ns * (PF_COUNT(prompt) + 1)); /* each row takes as long again */
    pf_session_destroy(session);
    pf_peer_destroy(drafter);
    pf_peer_destroy(verifier);
    pf_engine_close(draft);
    pf_engine_close(target);
}

/* A served verifier draws from its own secret seed where a remote request has none. */
static void a_served_verifier_uses_its_own_seed(void **state)
{
    (void)state;
    static const int32_t prompt[] = { 1, 2, 3 };
    pf_engine *engine = open_tiny("full");
    int32_t tokens[3][16];
    const uint64_t seeds[] = { 5, 6, 5 };
    for (int i = 0; i < 3; i++) {
        pf_peer *verifier = NULL;
        pf_session *session = NULL;
        pf_error error;
        const pf_served_role served = { .seed = seeds[i] };
        assert_ok(pf_engine_make_verifier(engine, NULL, &served, &verifier, &error), error);
        const pf_session_options options = { .size = sizeof options, .verifier = verifier, .max_context = 64 };
        verifier->is_far = true;
        assert_ok(pf_session_create(&options, &session, &error), error);
        const pf_request request = { .size = sizeof(pf_request),
                                     .prompt = prompt,
                                     .n_prompt = PF_COUNT(prompt),
                                     .max_new_tokens = 16,
                                     .ignore_eos = true,
                                     .sampling = { .temperature = 2.0f, .top_p = 1.0f, .seed = 1 } };
        pf_result result = { .size = sizeof(pf_result), .tokens = tokens[i], .capacity = 16 };
        assert_ok(pf_generate(session, &request, &result, &error), error);
        assert_int_equal(result.n_tokens, 16);
        pf_session_destroy(session);
        pf_peer_destroy(verifier);
        pf_engine_give_role_back(engine);
    }
    assert_memory_equal(tokens[0], tokens[2], sizeof tokens[0]);
    assert_memory_not_equal(tokens[0], tokens[1], sizeof tokens[0]);
    pf_engine_close(engine);
}

static bool refuse_to_serve(void *user, const char *address)
{
    (void)address;
    return ++*(int *)user < 0;
}

/* Nor is any of its memory held for what is over. */
static void serving_gives_the_role_back_however_it_ends(void **state)
{
    (void)state;
    pf_engine *engine = open_tiny("full");
    const size_t left_bytes = pf_engine_memory_left(engine);
    int n_ready = 0;
    pf_error error;
    pf_serve_options serve = {
        .size = sizeof(pf_serve_options), .role = PF_ROLE_VERIFIER, .ready = refuse_to_serve, .user = &n_ready
    };
    serve.address = "unix:/nowhere/at/all.sock";
    assert_status(pf_engine_serve(engine, &serve, &error), PF_UNAVAILABLE);
    serve.address = "127.0.0.1:0";
    serve.role = PF_ROLE_DRAFTER;
    assert_ok(pf_engine_serve(engine, &serve, &error), error);
    assert_int_equal(n_ready, 1);
    assert_int_equal(pf_engine_memory_left(engine), left_bytes);

    pf_peer *peer = NULL;
    assert_ok(pf_engine_verifier(engine, NULL, &peer, &error), error);
    if (left_bytes > 0) assert_true(pf_engine_memory_left(engine) < left_bytes);
    assert_status(pf_engine_serve(engine, &serve, &error), PF_INVALID);
    assert_says(error, "plays one role");
    pf_peer_destroy(peer);
    pf_engine_close(engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_model_id_is_the_directory_name_in_utf8),
        cmocka_unit_test(info_states_the_options_and_memory_matches_them),
        cmocka_unit_test(an_address_to_connect_to_has_a_port),
        cmocka_unit_test(an_option_out_of_range_is_refused_by_its_name),
        cmocka_unit_test(an_unsupported_tokenizer_is_reported_and_ids_work),
        cmocka_unit_test(a_screened_head_makes_a_drafter_and_no_verifier),
        cmocka_unit_test(roles_take_at_least_the_simulated_time),
        cmocka_unit_test(a_served_verifier_uses_its_own_seed),
        cmocka_unit_test(serving_gives_the_role_back_however_it_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
