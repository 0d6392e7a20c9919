/* Tests the rewriting of Oniguruma's regular expressions to PCRE2. */
#include <stdlib.h>

#include "tests/support/test.h"
#include "tokenizer/pattern/regex_syntax.h"

#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}"
#define KANA "\\x{1B132}-\\x{1B132}" /* newer than PCRE2 */

typedef struct {
    const char *in, *out;
} rewriting;

static void assert_rewritten(const rewriting *cases, size_t n_cases, bool newer)
{
    for (size_t i = 0; i < n_cases; i++) {
        char *out = NULL;
        size_t n;
        pf_error error = { 0 };
        assert_ok(pf_regex_from_oniguruma("test", cases[i].in, strlen(cases[i].in), newer, &out, &n, &error), error);
        assert_string_equal(out, cases[i].out);
        assert_int_equal(n, strlen(out));
        free(out);
    }
}

static void patterns_are_rewritten_for_pcre2(void **state)
{
    (void)state;
    static const rewriting cases[] = {
        { "\\s+(?!\\S)|[^\\s\\r\\n]", "\\p{White_Space}+(?!\\P{White_Space})|[^\\p{White_Space}\\r\\n]" },
        { "(?i:'s|'t)|(?m:.)", "(?i:'s|'t)|(?s:.)" },
        { "\\p{N}{1,3}+", "(?:\\p{N}{1,3})+" },
        { "(a|b){2}+c", "(?:(a|b){2})+c" },
        { "\\p{L}++a?+", "\\p{L}++a?+" },
        { "a{,3}", "a{0,3}" },
        { "a{x}", "a\\{x}" },
        { "\\u0041\\x41\\x{41}", "\\x{0041}\\x{41}\\x{41}" },
        { "\\v\\h", "\\x0B[0-9A-Fa-f]" },
        { "[\\h\\b]", "[0-9A-Fa-f\\x08]" },
        { "\\p{Han}\\p{Letter}\\p{^Lu}", "\\p{sc:Han}\\p{L}\\P{Lu}" },
        { "\\p{Yi}\\p{Lo}", "\\p{sc:Yi}\\p{Lo}" },
        { "[]a]", "[\\]a]" },
        { " ?[^(\\s|[.,!?])]+", " ?[^(\\p{White_Space}|.,!?)]+" },
        { "[a[b[cd]]e][]]", "[abcde][\\]]" },
        { "[[:alpha:][0-9]]", "[\\p{Alphabetic}0-9]" },
        { "[[:punct:]x[:cntrl:]]", "[\\p{P}\\p{S}x\\p{Cc}]" },
        { "[[:blank:]][^[:ascii:]]", "[\\p{Zs}\\x09][^\\x00-\\x7F]" },
        { "(?i:\\p{Lu}|[^\\p{L}]|(?-i:[\\p{Lu}]))[\\p{Lu}]",
          "(?i:(?-i:\\p{Lu})|[^\\p{L}\\x{345}-\\x{345}]|(?-i:[\\p{Lu}]))[\\p{Lu}]" },
        { "(?i)(?:[\\p{M}])(?:(?m-i)[\\p{M}])", "(?i)(?:[\\p{M}\\x{3B9}-\\x{3B9}])(?:(?s-i)[\\p{M}])" },
        { "\\P{Hiragana}[\\P{Zs}\\D]", "\\P{sc:Hiragana}[\\P{Zs}\\P{Nd}]" },
        { "\\u00412", "\\x{0041}2" },
        { "x(ab){2}+", "x(?:(ab){2})+" },
        { "x(?i:ab(c)){2}+", "x(?:(?i:ab(c)){2})+" },
        { "ab{2,}+", "a(?:b{2,})+" },
        { "a{{2}+", "a(?:\\{{2})+" },
        { "a{,}{}", "a\\{,}\\{}" },
        { "(?<=a)b(?<!c)(?>d)", "(?<=a)b(?<!c)(?>d)" },
        { "(?i)(?m)a(?:(?m)(?i)b)", "(?i)(?s)a(?:(?s)(?i)b)" },
        { "\\x{7}\\x{0000007F}\\x7f", "\\x{7}\\x{0000007F}\\x{7f}" },
    };
    assert_rewritten(cases, PF_COUNT(cases), false);
}

/* PCRE2 does not compile 25 copies that are written out. */
static void word_boundary_is_written_once_as_a_group(void **state)
{
    (void)state;
    static const rewriting cases[] = {
        { "\\w\\b\\b", "[" WORD "](?<b>(?<=[" WORD "])(?![" WORD "])|(?<![" WORD "])(?=[" WORD "]))(?&b)" },
        { "\\B(?:\\B)", "(?<B>(?<=[" WORD "])(?=[" WORD "])|(?<![" WORD "])(?![" WORD "]))(?:(?&B))" },
    };
    assert_rewritten(cases, PF_COUNT(cases), false);
}

static void properties_include_newer_characters(void **state)
{
    (void)state;
    static const rewriting cases[] = {
        { "\\p{Hiragana}\\P{Hiragana}", "[\\p{sc:Hiragana}" KANA "][^\\p{sc:Hiragana}" KANA "]" },
        { "[\\p{Hiragana}-]\\p{Zs}", "[\\p{sc:Hiragana}" KANA "-]\\p{Zs}" },
        { "\\p{^No}[No]", "[^\\p{No}\\x{1D2C0}-\\x{1D2D3}][No]" },
        { "\\p{hira}\\p{_Hira_gana}", "[\\p{sc:Hiragana}" KANA "][\\p{sc:_Hira_gana}" KANA "]" },
        { "\\p{Other_Number}", "[\\p{No}\\x{1D2C0}-\\x{1D2D3}]" },
    };
    assert_rewritten(cases, PF_COUNT(cases), true);
}

static void assert_refused(const char *pattern, const char *part)
{
    char *out = NULL;
    size_t n;
    pf_error error = { 0 };
    assert_status(pf_regex_from_oniguruma("test", pattern, strlen(pattern), true, &out, &n, &error), PF_UNSUPPORTED);
    assert_non_null(strstr(error.text, part));
}

static void pattern_too_long_for_pcre2_is_refused(void **state)
{
    (void)state;
    enum { N = 20000 };
    static char pattern[2 * N + 1];
    for (size_t i = 0; i < N; i++) memcpy(pattern + 2 * i, "\\w", 2);
    assert_refused(pattern, "is longer than 524288 bytes when it is written for PCRE2");
}

static void unknown_syntax_is_refused_by_name(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "\\pL", "\\p without braces" },
        { "\\p{L", "\\p{ without a name and an end" },
        { "\\p{L!}", "\\p{ without a name and an end" },
        { "\\u12", "\\u without four" },
        { "\\u123g", "\\u without four" },
        { "\\x{}", "a list of code points" },
        { "\\x{1 2}", "a list of code points" },
        { "\\x{12", "a list of code points" },
        { "\\x{123456789}", "a list of code points" },
        { "\\x8", "\\x of a byte" },
        { "\\x80", "\\x of a byte" },
        { "\\xg1", "\\x of a byte" },
        { "\\\xC3\xA9", "\\? at byte 0" },
        { "\\q", "\\q at byte 0" },
        { "a\\", "a backslash at its end" },
        { "(*FAIL)", "(* at byte 0" },
        { "(?\xC3\xA9)", "(?? at byte 0" },
        { "(?#x)", "(?# at byte 0" },
        { "a)", "an unmatched )" },
        { "a{3}?", "{n}? at byte 1" },
        { "a(?i)b", "flags where they are" },
        { "(?i", "flags where they are" },
        { "[a-[:graph:]]", "a POSIX bracket" },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) assert_refused(cases[i][0], cases[i][1]);
    static const char nul[] = "a\0b";
    pf_error error = { 0 };
    char *out;
    size_t n;
    assert_status(pf_regex_from_oniguruma("test", nul, 3, false, &out, &n, &error), PF_UNSUPPORTED);
    assert_says(error, "a pattern that holds a NUL");
}

static void documented_depth_and_length_are_accepted(void **state)
{
    (void)state;
    enum { DEPTH = 199, LONGEST = PF_MAX_PATTERN_BYTES };
    char *text = malloc(LONGEST + 2), *out = NULL;
    assert_non_null(text);
    pf_error error = { 0 };
    size_t n;
    memset(text, '(', DEPTH + 1);
    memset(text + DEPTH, ')', DEPTH);
    assert_ok(pf_regex_from_oniguruma("test", text, 2 * DEPTH, false, &out, &n, &error), error);
    free(out);
    memset(text, '(', DEPTH + 1);
    text[DEPTH + 1] = '\0';
    assert_refused(text, "groups nested too deeply");
    memset(text, 'a', LONGEST + 1);
    assert_ok(pf_regex_from_oniguruma("test", text, LONGEST, false, &out, &n, &error), error);
    assert_int_equal(n, LONGEST);
    free(out);
    assert_status(pf_regex_from_oniguruma("test", text, LONGEST + 1, false, &out, &n, &error), PF_LIMIT);
    free(text);
}

static void properties_with_unknown_new_members_are_refused(void **state)
{
    (void)state;
    static const char *const patterns[] = { "\\p{CI}", "[a\\P{sd}]", "\\p{^Unknown}", "\\p{Zzzz}" };
    for (size_t i = 0; i < PF_COUNT(patterns); i++) assert_refused(patterns[i], "PCRE2 may know of other characters");
}

/* A class of PCRE2 cannot exclude characters from a property. */
static void negated_property_with_new_members_in_a_class_is_refused(void **state)
{
    (void)state;
    static const char *const patterns[] = { "[\\P{L}]", "[^a\\D]", "[\\p{^Han}]", "[\\p{C}]", "[\\p{Cn}]" };
    for (size_t i = 0; i < PF_COUNT(patterns); i++) assert_refused(patterns[i], "inside a character class");
}

/* Oniguruma folds a class as a whole. */
static void case_property_in_a_caseless_class_is_refused(void **state)
{
    (void)state;
    static const char *const patterns[] = {
        "(?i:[\\p{Lu}])",
        "(?i:[^a\\p{ll}])",
        "(?i)a|(?:[\\p{Lt}])",
        "(?i:[\\p{LC}])",
        "(?i:[\\p{Uppercase_Letter}])",
        "(?i:[\\p{Lower}])",
        "(?i:[[:upper:]])",
        "(?-i:a)(?m-i:(?i:[[:lower:]]))",
    };
    for (size_t i = 0; i < PF_COUNT(patterns); i++)
        assert_refused(patterns[i], "of case in a character class under (?i)");
}

/* Oniguruma matches ss with the sharp s and vice versa, but not separated, repeated or single characters. */
static void multi_character_folding_is_refused_when_caseless(void **state)
{
    (void)state;
    static const char *const refused[] = {
        "(?i:strasse)",        "(?i)STRA\xC3\x9FG",
        "(?i:s\xC5\xBF)",      "(?i:1st)",
        "a|(?i:b|ofi)",        "(?i:s(?:s))",
        "(?i:(?:s)s)",         "(?i:ss{1})",
        "(?i:s{1}s)",          "(?i:\\u0073\\x{73})",
        "(?i:\xEF\xAC\x81+)",  "(?i:\\x{1E9E})",
        "(?i:i\xCC\x87)",      "(?i:\xCE\xB9\xCC\x88\xCC\x81)",
        "(?i:[\xC3\x9F])",     "(?i:[\\u00df-\\u00ff])",
        "(?i:[\\n-\xC4\x80])", "(?i:[!-\xC4\x80])",
        "(?i:[]-\xC4\x80])",   "(?i:[\\--\xC4\x80])",
        "(?i:[a[b\xC3\x9F]])", "(?i:[\\p{L}])",
        "(?i:[\\w])",          "(?i:[\\S])",
        "(?i:[\\P{Zs}])",      "(?i:[\\p{Greek}])",
        "(?i:[\\p{grek}])",    "(?i:[[:alpha:]])",
    };
    static const rewriting taken[] = {
        { "strasse\xC3\x9F[\xC3\x9F\\p{L}]", "strasse\xC3\x9F[\xC3\x9F\\p{L}]" },
        { "(?i:'s|'t|'re|'ve|'m|'ll|'d)|'(?i:[sdmt]|ll|ve|re)", "(?i:'s|'t|'re|'ve|'m|'ll|'d)|'(?i:[sdmt]|ll|ve|re)" },
        { "(?i:s|s)s(?i:s)", "(?i:s|s)s(?i:s)" },
        { "(?i:ss?|s+s|s[s]|s(?-i:ss))", "(?i:ss?|s+s|s[s]|s(?-i:ss))" },
        { "(?i:[^\xC3\x9F\\p{L}][a-z\\p{Lo}\\s-])",
          "(?i:[^\xC3\x9F\\p{L}\\x{345}-\\x{345}][a-z\\p{Lo}\\p{White_Space}-])" },
        { "(?i:[\xC3\xA0-\xC3\xAF-\xC4\x80])", "(?i:[\xC3\xA0-\xC3\xAF-\xC4\x80])" },
    };
    for (size_t i = 0; i < PF_COUNT(refused); i++) assert_refused(refused[i], "that (?i) takes for ");
    assert_rewritten(taken, PF_COUNT(taken), false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_are_rewritten_for_pcre2),
        cmocka_unit_test(word_boundary_is_written_once_as_a_group),
        cmocka_unit_test(properties_include_newer_characters),
        cmocka_unit_test(pattern_too_long_for_pcre2_is_refused),
        cmocka_unit_test(case_property_in_a_caseless_class_is_refused),
        cmocka_unit_test(multi_character_folding_is_refused_when_caseless),
        cmocka_unit_test(unknown_syntax_is_refused_by_name),
        cmocka_unit_test(documented_depth_and_length_are_accepted),
        cmocka_unit_test(properties_with_unknown_new_members_are_refused),
        cmocka_unit_test(negated_property_with_new_members_in_a_class_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
