/* Text at the edge of the process: UTF-8 cut at characters, bytes that are not UTF-8, figures that are not numbers. */
#include "tests/support/test.h"

#include <math.h>
#include <string.h>

#include "cli/json_out.h"
#include "cli/output.h"
#include "cli/utf8.h"

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

static void assert_text(const char *bytes, size_t n, const char *text, const char *base64)
{
    json_t *object = json_object();
    pf_json_set_text(object, bytes, n);
    assert_string_equal(json_string_value(json_object_get(object, "text")), text);
    if (base64)
        assert_string_equal(json_string_value(json_object_get(object, "text_base64")), base64);
    else
        assert_null(json_object_get(object, "text_base64"));
    json_decref(object);
}

/* The Unicode Standard, section 3.9, table 3-8: one U+FFFD for each longest part that could have begun a character. */
static void ill_formed_bytes_are_replaced_as_unicode_recommends(void **state)
{
    (void)state;
#define FFFD "\xEF\xBF\xBD"
    static const char bytes[] = "\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64";
    assert_text(bytes, sizeof bytes - 1, "a" FFFD FFFD FFFD "b" FFFD "c" FFFD FFFD "d", "YfGAgOGAwmKAY4C/ZA==");
    assert_text("\xC0\xAF", 2, FFFD FFFD, "wK8=");
    assert_text("\xED\xA0\x80", 3, FFFD FFFD FFFD, "7aCA");
    assert_text("\xF0\x9F\x90", 3, FFFD, "8J+Q");
}

static void text_that_is_utf8_is_given_once(void **state)
{
    (void)state;
    assert_text("", 0, "", NULL);
    assert_text("caf\xC3\xA9 \xF0\x9F\x90\x9F", 10, "caf\xC3\xA9 \xF0\x9F\x90\x9F", NULL);
}

static void a_rate_of_nothing_is_null(void **state)
{
    (void)state;
    json_t *none = pf_json_ratio(0.0, 0.0), *infinite = pf_json_number(INFINITY), *half = pf_json_ratio(1.0, 2.0);
    assert_true(json_is_null(none));
    assert_true(json_is_null(infinite));
    assert_true(json_real_value(half) == 0.5);
    json_decref(none);
    json_decref(infinite);
    json_decref(half);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_character_that_is_not_whole_is_held_back),
        cmocka_unit_test(ill_formed_bytes_are_replaced_as_unicode_recommends),
        cmocka_unit_test(text_that_is_utf8_is_given_once),
        cmocka_unit_test(a_rate_of_nothing_is_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
