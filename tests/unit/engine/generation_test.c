/* Requests on a session's own thread, and the versioned options of the public header. */
#include <poll.h>
#include <string.h>

#include "tests/support/generating.h"
#include "tests/support/test.h"

static bool is_readable(const pf_generation *generation, int timeout_ms)
{
    struct pollfd ready = { .fd = pf_generation_fd(generation), .events = POLLIN };
    return poll(&ready, 1, timeout_ms) == 1;
}

/* All tokens, read a few at a time as the descriptor says. */
static int32_t read_all(pf_generation *generation, int32_t tokens[CONTEXT])
{
    int32_t n = 0;
    while (!pf_generation_ended(generation)) {
        assert_true(is_readable(generation, 60000));
        n += pf_generation_read(generation, tokens + n, NULL, 7);
    }
    return n;
}

static pf_generation *start(pf_session *session, const pf_request *request)
{
    pf_generation *generation = NULL;
    pf_error error = { 0 };
    assert_ok(pf_generation_start(session, request, &generation, &error), error);
    return generation;
}

static void queued_generations_give_the_text_of_pf_generate_in_order(void **state)
{
    pair *p = *state;
    pf_session *session = open_session(p, p->verifier, p->drafter);
    const pf_request request = plain_request();
    pf_generation *queued[3];
    for (size_t i = 0; i < PF_COUNT(queued); i++) queued[i] = start(session, &request);
    for (size_t i = 0; i < PF_COUNT(queued); i++) {
        int32_t tokens[CONTEXT];
        pf_result result = PF_INIT(pf_result);
        pf_error error = { 0 };
        assert_int_equal(read_all(queued[i], tokens), p->plain.result.n_tokens);
        assert_memory_equal(tokens, p->plain.tokens, (size_t)p->plain.result.n_tokens * sizeof *tokens);
        assert_true(is_readable(queued[i], 0)); /* the end stays readable */
        assert_ok(pf_generation_finish(queued[i], &result, &error), error);
        assert_int_equal(result.finish, PF_FINISH_LENGTH);
        assert_true(result.speculation.accepted > 0);
        pf_generation_destroy(queued[i]);
    }
    pf_session_destroy(session);
}

static bool count(void *user, int32_t token, bool drafted)
{
    (void)token, (void)drafted;
    return ++*(int32_t *)user < 3;
}

static void a_callback_ends_a_generation_and_a_blocking_request_follows(void **state)
{
    pair *p = *state;
    int32_t n_calls = 0;
    pf_error error = { 0 };
    pf_session *session = open_session(p, p->verifier, NULL);
    pf_request request = plain_request();
    request.on_token = count;
    request.user = &n_calls;
    pf_generation *generation = start(session, &request);
    pf_result result = PF_INIT(pf_result);
    assert_ok(pf_generation_finish(generation, &result, &error), error);
    assert_int_equal(result.n_tokens, 3);
    assert_int_equal(result.finish, PF_FINISH_STOP);
    pf_generation_destroy(generation);
    generated out;
    request = plain_request();
    assert_ok(run(session, &request, &out, &error), error);
    assert_same_text(&out, &p->plain);
    pf_session_destroy(session);
}

static void a_cancelled_generation_ends_as_cancelled(void **state)
{
    pair *p = *state;
    pf_session *session = open_session(p, p->verifier, NULL);
    const pf_request request = plain_request();
    pf_generation *first = start(session, &request), *second = start(session, &request);
    pf_error error = { 0 };
    pf_generation_cancel(second);
    assert_status(pf_generation_finish(second, NULL, &error), PF_CANCELLED);
    pf_generation_destroy(second);
    pf_generation_destroy(first); /* whatever it is doing */
    pf_session_destroy(session);
}

static void a_failure_of_the_request_comes_with_its_end(void **state)
{
    pair *p = *state;
    pf_session *session = open_session(p, p->verifier, NULL);
    pf_request request = plain_request();
    const int32_t high[] = { VOCAB };
    request.prompt = high;
    request.n_prompt = 1;
    pf_generation *generation = start(session, &request);
    pf_error error = { 0 };
    assert_true(is_readable(generation, 60000));
    assert_status(pf_generation_finish(generation, NULL, &error), PF_INVALID);
    assert_says(error, "token 0 of the prompt is 128");
    pf_generation_destroy(generation);
    pf_session_destroy(session);
}

/* ---- versions ------------------------------------------------------------------------------------------------------ */

static void options_of_an_older_header_are_accepted(void **state)
{
    pair *p = *state;
    pf_session_options options = PF_INIT(pf_session_options);
    options.size = offsetof(pf_session_options, max_context); /* what follows is not read */
    options.verifier = p->verifier;
    options.max_context = -1;
    pf_session *session = NULL;
    pf_error error = { 0 };
    assert_ok(pf_session_create(&options, &session, &error), error);
    pf_session_destroy(session);
}

static void options_of_a_newer_header_are_accepted_where_the_rest_is_zero(void **state)
{
    pair *p = *state;
    struct {
        pf_session_options known;
        uint64_t newer;
    } options = { .known = { .size = sizeof options, .verifier = p->verifier } };
    pf_session *session = NULL;
    pf_error error = { 0 };
    assert_ok(pf_session_create(&options.known, &session, &error), error);
    pf_session_destroy(session);
    session = NULL;
    options.newer = 1;
    assert_status(pf_session_create(&options.known, &session, &error), PF_INVALID);
    assert_says(error, "pf_session_options.size is");
    options.known.size = 0;
    assert_status(pf_session_create(&options.known, &session, &error), PF_INVALID);
    assert_says(error, "pf_session_options.size is 0, expected");
    assert_null(session);
}

static void zeroed_engine_options_choose_what_auto_chooses(void **state)
{
    (void)state;
    char directory[PF_TINY_PATH];
    pf_tiny_model_create(&(pf_tiny_model){ .seed = 1 }, directory);
    pf_engine_options by_word = PF_INIT(pf_engine_options);
    by_word.activations = by_word.kv_dtype = by_word.head = by_word.gemm = by_word.isa = "auto";
    by_word.dtype = "bf16";
    pf_engine_options zeroed = PF_INIT(pf_engine_options);
    zeroed.dtype = "bf16"; /* of a file in F32 */
    const pf_engine_options *all[] = { &zeroed, &by_word };
    for (size_t i = 0; i < PF_COUNT(all); i++) {
        pf_engine *engine = NULL;
        pf_error error = { 0 };
        pf_engine_details details = PF_INIT(pf_engine_details);
        assert_ok(pf_engine_open(directory, all[i], &engine, &error), error);
        assert_ok(pf_engine_describe(engine, &details, &error), error);
        assert_string_equal(details.isa, pf_isa_name(pf_cpu_best_isa()));
        assert_string_equal(details.dtype, "bf16");
        assert_string_equal(details.kv_dtype, "bf16");
        pf_engine_close(engine);
    }
    pf_tiny_model_remove(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queued_generations_give_the_text_of_pf_generate_in_order),
        cmocka_unit_test(a_callback_ends_a_generation_and_a_blocking_request_follows),
        cmocka_unit_test(a_cancelled_generation_ends_as_cancelled),
        cmocka_unit_test(a_failure_of_the_request_comes_with_its_end),
        cmocka_unit_test(options_of_an_older_header_are_accepted),
        cmocka_unit_test(options_of_a_newer_header_are_accepted_where_the_rest_is_zero),
        cmocka_unit_test(zeroed_engine_options_choose_what_auto_chooses),
    };
    return cmocka_run_group_tests(tests, open_pair, close_pair);
}
