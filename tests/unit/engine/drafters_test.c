/* Drafters by their names, and what a request says of its speculation. */
#include "engine/engine.h"
#include "tests/support/generating.h"
#include "tests/support/test.h"

static pf_peer *make_suffix(pair *p, uint64_t corpus_bytes)
{
    const pf_drafter_options options = {
        .size = sizeof options, .drafter = "suffix", .verifier = p->verifier, .suffix_corpus_bytes = corpus_bytes
    };
    pf_peer *drafter;
    pf_error error = { 0 };
    assert_ok(pf_drafter_create(&options, &drafter, &error), error);
    return drafter;
}

static void drafters_are_made_by_their_names(void **state)
{
    pair *p = *state;
    static const char *const names[] = { "ngram", "suffix" };
    for (size_t i = 0; i < PF_COUNT(names); i++) {
        const pf_drafter_options options = { .size = sizeof options, .drafter = names[i], .verifier = p->verifier };
        pf_peer *drafter;
        pf_model_info info;
        pf_error error = { 0 };
        assert_ok(pf_drafter_create(&options, &drafter, &error), error);
        assert_ok(pf_peer_info(drafter, &info, &error), error);
        assert_string_equal(info.model_id, names[i]);
        pf_request request = plain_request();
        generated out;
        generate(p, p->verifier, drafter, &request, &out);
        assert_same_text(&out, &p->plain);
        pf_peer_destroy(drafter);
    }
}

static void lookups_follow_as_many_sequences_as_the_verifier(void **state)
{
    enum { N = 3 };
    static const char *const names[] = { "ngram", "suffix" };
    (void)state;
    char directory[PF_TINY_PATH];
    pf_engine *engine = NULL;
    pf_peer *verifier, *drafter;
    pf_model_info info;
    pf_error error = { 0 };
    pf_tiny_model_create(&(pf_tiny_model){ .seed = 9 }, directory);
    const pf_engine_options make = { .size = sizeof make, .n_threads = 1, .max_context = 64, .max_sequences = N };
    assert_ok(pf_engine_open(directory, &make, &engine, &error), error);
    pf_tiny_model_remove(directory);
    assert_ok(pf_engine_verifier(engine, NULL, &verifier, &error), error);
    for (size_t i = 0; i < PF_COUNT(names); i++) {
        pf_drafter_options options = { .size = sizeof options, .drafter = names[i], .verifier = verifier };
        for (options.max_sequences = 0; options.max_sequences < N; options.max_sequences++) {
            assert_ok(pf_drafter_create(&options, &drafter, &error), error);
            assert_ok(pf_peer_info(drafter, &info, &error), error);
            assert_int_equal(info.max_sequences, options.max_sequences > 0 ? options.max_sequences : N);
            pf_peer_destroy(drafter);
        }
    }
    pf_peer_destroy(verifier);
    pf_engine_close(engine);
}

static void several_lookups_are_one_peer_that_names_them(void **state)
{
    pair *p = *state;
    const pf_drafter_options options = { .size = sizeof options, .drafter = "ngram,suffix", .verifier = p->verifier };
    pf_peer *drafter;
    pf_model_info info;
    pf_error error = { 0 };
    assert_ok(pf_drafter_create(&options, &drafter, &error), error);
    assert_ok(pf_peer_info(drafter, &info, &error), error);
    assert_int_equal(info.n_drafters, 2);
    assert_string_equal(info.drafters[0], "ngram");
    pf_request request = plain_request();
    static const char *const names[] = { NULL, "ngram", "suffix" };
    for (size_t i = 0; i < PF_COUNT(names); i++) {
        generated out;
        request.drafter = names[i];
        generate(p, p->verifier, drafter, &request, &out);
        assert_same_text(&out, &p->plain);
    }
    pf_peer_destroy(drafter);
}

static void a_drafter_refuses_an_open_that_names_another(void **state)
{
    pair *p = *state;
    const int32_t prompt[] = { 1, 2, 3 };
    pf_open open = {
        .sequence = 1, .incarnation = 1, .tokens = prompt, .n_tokens = 3, .method = PF_METHOD_GREEDY, .max_draft = 4
    };
    pf_peer *suffix = make_suffix(p, 0), *const drafters[] = { p->drafter, suffix };
    static const char *const own[] = { "model", "suffix" };
    for (size_t i = 0; i < 2; i++) {
        pf_error error = { 0 };
        strcpy(open.drafter, own[i]);
        assert_ok(pf_peer_check_open(drafters[i], &open, &error), error);
        strcpy(open.drafter, own[1 - i]);
        assert_status(pf_peer_check_open(drafters[i], &open, &error), PF_UNSUPPORTED);
        assert_says(error, own[i]);
        open.drafter[0] = '\0';
        assert_ok(pf_peer_check_open(drafters[i], &open, &error), error);
    }
    pf_peer_destroy(suffix);
}

static void options_that_a_drafter_does_not_take_are_refused(void **state)
{
    pair *p = *state;
    const pf_drafter_options cases[] = {
        { .drafter = "tree", .verifier = p->verifier },
        { .drafter = "suffix" },
        { .drafter = "suffix", .verifier = p->verifier, .draft = p->draft },
        { .drafter = "suffix", .verifier = p->verifier, .suffix_corpus_bytes = 100 },
        { .drafter = "ngram", .verifier = p->verifier, .suffix_corpus_bytes = 1 << 20 },
        { .drafter = NULL },
        { .drafter = "model", .draft = p->draft, .verifier = p->verifier },
        { .drafter = "suffix,,ngram", .verifier = p->verifier },
        { .drafter = "suffix,ngram,suffix", .verifier = p->verifier },
        { .drafter = "suffix,model", .verifier = p->verifier },
    };
    static const char *const says[] = { "expected one of model, ngram, suffix, cascade",
                                        "needs a verifier",
                                        "neither a draft",
                                        "100 bytes",
                                        "expected 0 with the drafter ngram",
                                        "needs a draft",
                                        "takes no verifier",
                                        "drafter is \"\", expected one of model",
                                        "which has suffix twice",
                                        "the drafter suffix,model needs a draft" };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        pf_drafter_options options = cases[i];
        options.size = sizeof options;
        pf_peer *drafter = NULL;
        pf_error error = { 0 };
        assert_status(pf_drafter_create(&options, &drafter, &error), PF_INVALID);
        if (!strstr(error.text, says[i])) fail_msg("\"%s\", expected \"%s\" in it", error.text, says[i]);
        assert_null(drafter);
    }
}

/* Rounds that two requests of the same prompt take, of these clients. */
static int64_t count_rounds(pair *p, uint64_t first, uint64_t second)
{
    pf_peer *drafter = make_suffix(p, 1 << 20);
    pf_request request = plain_request();
    generated out;
    request.client = first;
    generate(p, p->verifier, drafter, &request, &out);
    request.client = second;
    generate(p, p->verifier, drafter, &request, &out);
    assert_same_text(&out, &p->plain);
    pf_peer_destroy(drafter);
    return out.result.speculation.rounds + out.result.speculation.fallback_rounds;
}

static void earlier_outputs_are_proposed_to_requests_of_their_client_alone(void **state)
{
    pair *p = *state;
    const int64_t own = count_rounds(p, 7, 7), of_others = count_rounds(p, 7, 8);
    if (own >= of_others * 2 / 3)
        fail_msg("%lld rounds, with outputs of another client %lld", (long long)own, (long long)of_others);
    assert_int_equal(count_rounds(p, 0, 8), of_others);
    assert_int_equal(count_rounds(p, 7, 0), of_others);
}

static void a_request_without_speculation_does_not_ask_the_drafter(void **state)
{
    pair *p = *state;
    pf_request request = plain_request();
    generated out;
    for (int32_t none = 0; none < 2; none++) {
        request.no_speculation = none;
        generate(p, p->verifier, p->drafter, &request, &out);
        assert_same_text(&out, &p->plain);
        if (none) assert_int_equal(out.result.speculation.rounds, 0);
        if (!none) assert_true(out.result.speculation.rounds > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drafters_are_made_by_their_names),
        cmocka_unit_test(lookups_follow_as_many_sequences_as_the_verifier),
        cmocka_unit_test(several_lookups_are_one_peer_that_names_them),
        cmocka_unit_test(a_drafter_refuses_an_open_that_names_another),
        cmocka_unit_test(options_that_a_drafter_does_not_take_are_refused),
        cmocka_unit_test(earlier_outputs_are_proposed_to_requests_of_their_client_alone),
        cmocka_unit_test(a_request_without_speculation_does_not_ask_the_drafter),
    };
    return cmocka_run_group_tests(tests, open_pair, close_pair);
}
