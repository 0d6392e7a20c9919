/* Prompts of a text: what a line of JSON may hold, and memory that runs out. */
#include "bench/prompts.h"

#include "base/json.h"
#include "tests/support/alloc_count.h"
#include "tests/support/test.h"

static pf_status read_text(const char *text, pf_prompts *out, pf_error *error)
{
    return pf_prompts_parse("prompts.jsonl", text, strlen(text), 100, out, error);
}

static void a_field_that_is_not_asked_for_may_be_any_number(void **state)
{
    (void)state;
    pf_prompts prompts = { 0 };
    pf_error error;
    assert_ok(read_text("{\"turns\": [\"a\"], \"id\": 123456789012345678901234567890}\n", &prompts, &error), error);
    assert_int_equal(prompts.n, 1);
    assert_string_equal(prompts.items[0].turns[0], "a");
    pf_prompts_clear(&prompts);
}

static void a_text_that_a_nul_would_cut_is_refused(void **state)
{
    (void)state;
    const char *texts[] = { "{\"turns\": [\"a\\u0000b\"]}", "{\"turns\": [\"a\"], \"category\": \"a\\u0000b\"}" };
    for (size_t i = 0; i < PF_COUNT(texts); i++) {
        pf_prompts prompts = { 0 };
        pf_error error;
        assert_status(read_text(texts[i], &prompts, &error), PF_FORMAT);
        assert_says(error, "line 1");
        assert_says(error, "NUL");
    }
}

static void running_out_of_memory_is_said_as_that(void **state)
{
    (void)state;
    pf_prompts prompts = { 0 };
    pf_error error;
    int64_t n_refused = 0;
    for (int64_t n = 0;; n++, n_refused++) {
        const char *text = "{\"category\": \"math\", \"turns\": [\"a\", \"b\"]}\n{\"turns\": [\"c\"]}\n";
        pf_alloc_refuse_after(n);
        const pf_status status = read_text(text, &prompts, &error);
        pf_alloc_refuse_after(-1);
        if (status == PF_OK) break;
        assert_status(status, PF_NOMEM);
        assert_null(prompts.items);
    }
    assert_true(n_refused > 15); /* jansson's are among them */
    assert_int_equal(prompts.n, 2);
    pf_prompts_clear(&prompts);
}

int main(void)
{
    pf_json_watch_memory();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_field_that_is_not_asked_for_may_be_any_number),
        cmocka_unit_test(a_text_that_a_nul_would_cut_is_refused),
        cmocka_unit_test(running_out_of_memory_is_said_as_that),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
