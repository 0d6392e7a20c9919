/* Tests the character classes of added tokens and normalizers over all of Unicode. */
#include <stdlib.h>

#include "tests/support/test.h"
#include "tokenizer/unicode/character_bytes.h"
#include "tokenizer/unicode/characters.h"
#include "tokenizer/pattern/pattern.h"

enum { N_CHARACTERS = 0x110000 };

/* All characters in order, without surrogates; the caller frees it. */
static char *all_characters(size_t *n)
{
    char *text = malloc(4 * N_CHARACTERS);
    assert_non_null(text);
    *n = 0;
    for (int32_t c = 0; c < N_CHARACTERS; c = c == 0xD7FF ? 0xE000 : c + 1) *n += pf_character_put(c, text + *n);
    return text;
}

/* Asserts that a predicate agrees with a regular expression that matches runs of such characters. */
static void assert_as_pattern(bool is(int32_t c), const char *regex)
{
    const pf_json doc = { .name = "test" };
    pf_pattern *pattern = NULL;
    pf_searcher *searcher = NULL;
    pf_text_ranges found = { .items = NULL };
    pf_error error = { 0 };
    size_t n;
    char *text = all_characters(&n);
    assert_ok(pf_pattern_of_regex(&doc, regex, strlen(regex), &pattern, &error), error);
    assert_status(pf_searcher_create(n, NULL, &searcher), PF_OK);
    assert_status(pf_pattern_find_all(pattern, searcher, text, n, &found), PF_OK);
    assert_true(found.n > 2);
    for (size_t i = 0; i < found.n; i++) {
        for (size_t at = found.items[i].begin, next; at < found.items[i].end; at = next) {
            const int32_t c = pf_character_at(text, at, &next);
            if (is(c) != found.items[i].matched) fail_msg("U+%04X", (unsigned)c);
        }
    }
    free(found.items);
    pf_searcher_destroy(searcher);
    pf_pattern_destroy(pattern);
    free(text);
}

static void white_space_equals_the_unicode_property(void **state)
{
    (void)state;
    assert_as_pattern(pf_is_white_space, "\\p{White_Space}+");
}

/* Equal to WORD in pretokenize.c. */
static void word_characters_equal_the_regex_class(void **state)
{
    (void)state;
    assert_as_pattern(pf_is_word, "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200C}\\x{200D}]+");
}

/* Capitals of Unicode 16 and 17 at both ends of their ranges, and their neighbors. */
static void newest_capitals_have_lower_case(void **state)
{
    (void)state;
    static const int32_t pairs[][2] = {
        { 'A', 'a' },         { 'Z', 'z' },         { '@', '@' },         { '[', '[' },         { 0xC9, 0xE9 },
        { 0x130, 'i' },       { 0x1C89, 0x1C8A },   { 0xA7CB, 0x264 },    { 0xA7CC, 0xA7CD },   { 0xA7CE, 0xA7CF },
        { 0xA7D2, 0xA7D3 },   { 0xA7D4, 0xA7D5 },   { 0xA7DA, 0xA7DB },   { 0xA7DC, 0x19B },    { 0x10D50, 0x10D70 },
        { 0x10D65, 0x10D85 }, { 0x10D66, 0x10D66 }, { 0x16EA0, 0x16EBB }, { 0x16EB8, 0x16ED3 }, { 0x16EB9, 0x16EB9 },
    };
    for (size_t i = 0; i < PF_COUNT(pairs); i++) assert_int_equal(pf_lower_case(pairs[i][0]), pairs[i][1]);
}

static void marks_are_those_of_unicode_9(void **state)
{
    (void)state;
    static const int32_t marks[] = { 0x300, 0x36F, 0x903, 0x20DD, 0x1CF2, 0x1CF3, 0xFE20 };
    static const int32_t others[] = { 'a', 0x2FF, 0x370, 0x7FD, 0x8CA, 0x1CF1, 0x1CF5, 0x1CF7, 0x1E4EF };
    for (size_t i = 0; i < PF_COUNT(marks); i++)
        if (!pf_is_mark(marks[i])) fail_msg("U+%04X", (unsigned)marks[i]);
    for (size_t i = 0; i < PF_COUNT(others); i++)
        if (pf_is_mark(others[i])) fail_msg("U+%04X", (unsigned)others[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(white_space_equals_the_unicode_property),
        cmocka_unit_test(word_characters_equal_the_regex_class),
        cmocka_unit_test(newest_capitals_have_lower_case),
        cmocka_unit_test(marks_are_those_of_unicode_9),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
