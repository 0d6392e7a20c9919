/* What an engine says of itself, and the role that it plays. */
#include "engine/pilotfish.h"
#include "engine/roles.h"
#include "engine/serve_peer.h"

#include <unistd.h>

#include "kernels/cpu.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test.h"
#include "tests/support/tiny_model.h"

/* Protobuf's strings are UTF-8: of a ModelInfo with another one nothing is read. */
static void a_model_is_called_after_its_directory_in_utf8(void **state)
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
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        (void)pf_temp_path(&directory, cases[i].directory, link);
        assert_int_equal(symlink(model, link), 0);
        const pf_engine_options options = { .isa = pf_cpu_best_isa(), .kv_type = PF_N_TYPES, .n_threads = 1 };
        pf_engine *engine;
        pf_error error;
        pf_model_info info;
        assert_ok(pf_engine_open(link, &options, &engine, &error), error);
        pf_engine_info(engine, &info);
        pf_engine_close(engine);
        assert_int_equal(strlen(info.model_id), cases[i].n_bytes);
        assert_memory_equal(info.model_id, cases[i].model_id, cases[i].n_bytes);
    }
    pf_tiny_model_remove(model);
    pf_temp_dir_remove(&directory);
}

/* An enumerator that is none would be looked up in a table of names or of formats. */
static void an_option_out_of_range_is_refused_by_its_name(void **state)
{
    (void)state;
    static const int32_t cores[] = { 0 };
    const struct {
        const char *name;
        pf_engine_options options;
    } cases[] = {
        { "dtype is 77", { .dtype = (pf_dtype)77 } },
        { "activations is 77", { .activations = (pf_activations)77 } },
        { "backend is 77", { .backend = (pf_backend)77 } },
        { "head is 77", { .head = (pf_head)77 } },
        { "isa is 77", { .isa = (pf_isa)77 } },
        { "KV type is 77", { .kv_type = (pf_type)77 } },
        { "n_cores is -1", { .cores = cores, .n_cores = -1 } },
        { "n_cores is 1, expected 0", { .n_cores = 1 } }, /* of which there is no list */
        { "n_threads is -1", { .n_threads = -1 } },
        { "max_context is -1", { .max_context = -1 } },
        { "max_sequences is 257", { .max_sequences = PF_MAX_BATCH_SEQUENCES + 1 } },
        { "max_draft is 65", { .max_draft = PF_MAX_DRAFT_TOKENS + 1 } },
    };
    char model[PF_TINY_PATH];
    pf_tiny_model_create(&(pf_tiny_model){ .vocab = 128 }, model);
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        pf_engine *engine = NULL;
        pf_error error = { 0 };
        assert_status(pf_engine_open(model, &cases[i].options, &engine, &error), PF_INVALID);
        assert_says(error, cases[i].name);
        assert_null(engine);
    }
    pf_tiny_model_remove(model);
}

static pf_engine *open_tiny(pf_head head)
{
    char model[PF_TINY_PATH];
    pf_tiny_model_create(&(pf_tiny_model){ .vocab = 128 }, model);
    const pf_engine_options options = {
        .dtype = PF_DTYPE_BF16, .head = head, .isa = pf_cpu_best_isa(), .kv_type = PF_N_TYPES, .n_threads = 1
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
    pf_engine *engine = open_tiny(PF_HEAD_SCREENED);
    pf_peer *peer = NULL;
    pf_error error;
    assert_status(pf_engine_verifier(engine, NULL, &peer, &error), PF_INVALID);
    assert_says(error, "its head is screened");
    assert_null(peer);
    assert_ok(pf_engine_drafter(engine, NULL, &peer, &error), error); /* its role is left */
    pf_peer_destroy(peer);
    pf_engine_close(engine);
}

static bool told_nobody(void *user, const char *address)
{
    (void)address;
    return ++*(int *)user < 0;
}

/* Nor is any of its memory held for what is over. */
static void serving_gives_the_role_back_however_it_ends(void **state)
{
    (void)state;
    pf_engine *engine = open_tiny(PF_HEAD_FULL);
    const size_t left_bytes = pf_engine_memory_left(engine);
    int n_ready = 0;
    pf_error error;
    pf_serve_options serve = { .role = PF_ROLE_VERIFIER, .ready = told_nobody, .user = &n_ready };
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
        cmocka_unit_test(a_model_is_called_after_its_directory_in_utf8),
        cmocka_unit_test(an_option_out_of_range_is_refused_by_its_name),
        cmocka_unit_test(a_screened_head_makes_a_drafter_and_no_verifier),
        cmocka_unit_test(serving_gives_the_role_back_however_it_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
