#include "tests/support/test.h"

static pf_status refuse(pf_error *error)
{
    return pf_fail(error, PF_FORMAT, "%s: %s is %d, expected 1 to %d", "a.json", "n_layers", 0, 9);
}

static pf_status pass_on(pf_error *error, int *reached)
{
    PF_TRY(PF_OK);
    *reached += 1;
    PF_TRY(refuse(error));
    *reached += 1;
    return PF_OK;
}

static void every_status_has_its_own_name(void **state)
{
    (void)state;
    for (int a = PF_OK; a <= PF_INTERNAL; a++) {
        assert_string_not_equal(pf_status_name((pf_status)a), "unknown");
        for (int b = PF_OK; b < a; b++)
            assert_string_not_equal(pf_status_name((pf_status)a), pf_status_name((pf_status)b));
    }
    assert_string_equal(pf_status_name((pf_status)999), "unknown");
}

static void a_failure_carries_its_status_and_its_sentence(void **state)
{
    (void)state;
    pf_error error = { 0 };
    assert_int_equal(refuse(&error), PF_FORMAT);
    assert_int_equal(error.status, PF_FORMAT);
    assert_string_equal(error.text, "a.json: n_layers is 0, expected 1 to 9");
}

static void a_caller_that_wants_no_sentence_still_gets_the_status(void **state)
{
    (void)state;
    assert_int_equal(refuse(NULL), PF_FORMAT);
}

static void try_returns_at_the_first_failure(void **state)
{
    (void)state;
    int reached = 0;
    pf_error error;
    assert_int_equal(pass_on(&error, &reached), PF_FORMAT);
    assert_int_equal(reached, 1);
}

static void of_a_long_sentence_the_middle_is_left_out_between_characters(void **state)
{
    (void)state;
    char path[1024];
    for (int shift = 0; shift < 4; shift++) { /* a four-byte character at every place relative to the ends */
        memset(path, 'x', sizeof path);
        for (size_t i = (size_t)shift; i + 4 < sizeof path; i += 4) memcpy(path + i, "\xF0\x9F\x90\x9F", 4);
        path[sizeof path - 1] = '\0';
        pf_error error;
        assert_int_equal(pf_fail(&error, PF_INVALID, "%s: is a pipe", path), PF_INVALID);
        const size_t n = strlen(error.text);
        assert_in_range(n, sizeof error.text - 7, sizeof error.text - 1);
        const char *dots = strstr(error.text, "...");
        assert_non_null(dots);
        assert_int_equal((dots - error.text - shift) % 4, 0);
        assert_true((dots[3] & 0xC0) != 0x80);
        assert_string_equal(error.text + n - 11, ": is a pipe");
    }
}

static void a_sentence_is_one_line_whatever_a_path_holds(void **state)
{
    (void)state;
    pf_error error;
    assert_int_equal(pf_fail(&error, PF_INVALID, "%s", "a\nb\r\x1B[31m\x7F"), PF_INVALID);
    assert_string_equal(error.text, "a b  [31m ");
}

static void a_sentence_is_utf8_whatever_a_path_holds_and_wherever_it_is_cut(void **state)
{
    (void)state;
    pf_error error;
    assert_int_equal(pf_fail(&error, PF_INVALID, "m\xFF: \"%.2s\"", "a\xC3\xA9"), PF_INVALID);
    assert_string_equal(error.text, "m\xEF\xBF\xBD: \"a\xEF\xBF\xBD\"");
    char path[500];
    memset(path, 0xFF, sizeof path - 1);
    path[sizeof path - 1] = '\0';
    assert_int_equal(pf_fail(&error, PF_INVALID, "%s", path), PF_INVALID);
    assert_int_equal(strlen(error.text), 510); /* 170 times U+FFFD */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_its_own_name),
        cmocka_unit_test(a_failure_carries_its_status_and_its_sentence),
        cmocka_unit_test(a_caller_that_wants_no_sentence_still_gets_the_status),
        cmocka_unit_test(try_returns_at_the_first_failure),
        cmocka_unit_test(of_a_long_sentence_the_middle_is_left_out_between_characters),
        cmocka_unit_test(a_sentence_is_one_line_whatever_a_path_holds),
        cmocka_unit_test(a_sentence_is_utf8_whatever_a_path_holds_and_wherever_it_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
