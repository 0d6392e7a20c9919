/* Oniguruma's regular expressions as PCRE2 takes them. */
#include <stdlib.h>

#include "tests/support/test.h"
#include "tokenizer/regex_syntax.h"

static void patterns_are_rewritten_for_pcre2(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } cases[] = {
        { "\\s+(?!\\S)|[^\\s\\r\\n]", "\\p{White_Space}+(?!\\P{White_Space})|[^\\p{White_Space}\\r\\n]" },
        { "(?i:'s|'t)|(?m:.)", "(?i:'s|'t)|(?s:.)" },
        { "\\p{N}{1,3}+", "(?:\\p{N}{1,3})+" },
        { "(a|b){2}+c", "(?:(a|b){2})+c" },
        { "\\p{L}++a?+", "\\p{L}++a?+" },
        { "a{,3}", "a{0,3}" },
        { "a{x}", "a\\{x}" },
        { "\\u0041\\x41\\x{41}", "\\x{0041}\\x41\\x{41}" },
        { "\\v\\h", "\\x0B[0-9A-Fa-f]" },
        { "[\\h\\b]", "[0-9A-Fa-f\\x08]" },
        { "\\p{Han}\\p{Letter}\\p{^Lu}", "\\p{sc:Han}\\p{L}\\p{^Lu}" },
        { "[]a]", "[\\]a]" },
        { " ?[^(\\s|[.,!?])]+", " ?[^(\\p{White_Space}|.,!?)]+" },
        { "[a[b[cd]]e][]]", "[abcde][\\]]" },
        { "[[:alpha:][0-9]]", "[\\p{Alphabetic}0-9]" },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        char *out = NULL;
        size_t n;
        pf_error error = { 0 };
        assert_ok(pf_regex_from_oniguruma("test", cases[i].in, strlen(cases[i].in), &out, &n, &error), error);
        assert_string_equal(out, cases[i].out);
        assert_int_equal(n, strlen(out));
        free(out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_are_rewritten_for_pcre2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
