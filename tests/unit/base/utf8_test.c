#include "base/utf8.h"

#include "tests/support/test.h"

static void a_character_that_is_not_whole_is_held_back(void **state)
{
    (void)state;
    struct {
        const char *bytes;
        size_t complete;
    } cases[] = {
        { "", 0 },
        { "abc", 3 },
        { "ab\xC3", 2 }, /* the first half of an e with an acute accent */
        { "ab\xC3\xA9", 4 },
        { "\xE4\xB8", 0 },
        { "x\xF0\x9F\x90", 1 },
        { "x\xF0\x9F\x90\x9F", 5 },
        { "x\xFF", 2 }, /* begins no character: there is nothing to wait for */
        { "x\x80\x80\x80\x80", 5 },
        { "x\xE0\x80", 3 }, /* overlong: E0 80 can never become a character */
        { "x\xED\xA0", 3 }, /* a surrogate */
        { "x\xF4\x90", 3 }, /* beyond U+10FFFF */
        { "\xC3\xA9\xC3", 2 },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++)
        assert_int_equal(pf_utf8_complete(cases[i].bytes, strlen(cases[i].bytes)), cases[i].complete);
}

static void characters_are_counted_by_their_first_bytes(void **state)
{
    (void)state;
    assert_int_equal(pf_utf8_count("", 0), 0);
    assert_int_equal(pf_utf8_count("ab\xC3\xA9\xF0\x9F\x90\x9F!", 9), 5);
    assert_int_equal(pf_utf8_count("ab\xC3\xA9", 3), 3);
    assert_int_equal(pf_utf8_count("\x80\x80", 2), 0);
}

static void what_does_not_fit_is_left_off_between_characters(void **state)
{
    (void)state;
    const struct {
        const char *bytes;
        size_t capacity;
        const char *out;
        bool all_valid;
    } cases[] = {
        { "ab\xC3\xA9", 4, "ab\xC3\xA9", true },
        { "ab\xC3\xA9", 3, "ab", true },
        { "ab\xC3\xA9", 0, "", true },
        { "x\xF0\x9F\x90\x9F", 4, "x", true },
        { "x\xFFy", 5, "x\xEF\xBF\xBDy", false },
        { "x\xFFy", 4, "x\xEF\xBF\xBD", false },
        { "x\xFFy", 3, "x", true }, /* what is left off is not looked at */
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        char out[8] = "";
        bool all_valid;
        const size_t n = pf_utf8_repair(cases[i].bytes, strlen(cases[i].bytes), out, cases[i].capacity, &all_valid);
        assert_string_equal(out, cases[i].out);
        assert_int_equal(n, strlen(out));
        assert_int_equal(all_valid, cases[i].all_valid);
    }
}

static void what_drives_a_terminal_is_replaced_and_nothing_else(void **state)
{
    (void)state;
    char text[] = "a\x1b[31m\n\x7f\xC3\xA9\x1f ~";
    pf_utf8_make_printable(text, '?');
    assert_string_equal(text, "a?[31m??\xC3\xA9? ~");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_character_that_is_not_whole_is_held_back),
        cmocka_unit_test(characters_are_counted_by_their_first_bytes),
        cmocka_unit_test(what_does_not_fit_is_left_off_between_characters),
        cmocka_unit_test(what_drives_a_terminal_is_replaced_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
