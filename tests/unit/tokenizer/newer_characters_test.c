/* Tests that the tables of newer characters are consistent. */
#include "tests/support/test.h"
#include "tokenizer/unicode/character_bytes.h"
#include "tokenizer/unicode/newer_characters.h"

/* All properties of the tables, general categories by their first letter; C is the complement of the others. */
static const char *const PROPERTIES[] = {
    "L",
    "M",
    "N",
    "P",
    "S",
    "Z",
    "C",
    "Cn",
    "Alphabetic",
    "Lowercase",
    "Emoji",
    "Uppercase",
    "Arabic",
    "Balinese",
    "Common",
    "Cyrillic",
    "Devanagari",
    "Han",
    "Hiragana",
    "Kannada",
    "Katakana",
    "Khojki",
    "Lao",
    "Latin",
    "Myanmar",
    "Egyptian_Hieroglyphs",
    "Khitan_Small_Script",
};

static bool has_newer(int32_t c)
{
    char text[8] = "a";
    const size_t n = 1 + pf_character_put(c, text + 1);
    return pf_has_newer(text, n);
}

static void newer_characters_are_found_in_every_range(void **state)
{
    (void)state;
    for (size_t i = 0; i < PF_COUNT(PROPERTIES); i++) {
        pf_character_range range;
        size_t n_ranges = 0;
        for (size_t at = 0; pf_newer_next(PROPERTIES[i], strlen(PROPERTIES[i]), &at, &range); n_ranges++)
            for (int32_t c = range.first; c <= range.last; c++)
                if (!has_newer(c)) fail_msg("U+%04X, which is newer in %s", (unsigned)c, PROPERTIES[i]);
        if (PROPERTIES[i][0] != 'Z' && n_ranges == 0) fail_msg("%s has nothing newer", PROPERTIES[i]);
    }
}

/* Whether the ranges of a property contain c. */
static bool any_property_has(int32_t c)
{
    for (size_t i = 0; i < PF_COUNT(PROPERTIES); i++) {
        pf_character_range range;
        for (size_t at = 0; pf_newer_next(PROPERTIES[i], strlen(PROPERTIES[i]), &at, &range);)
            if (c >= range.first && c <= range.last) return true;
    }
    return false;
}

static void text_without_newer_characters_has_none(void **state)
{
    (void)state;
    for (int32_t c = 0x80; c <= 0x3FFFF; c++) {
        const bool surrogate = c >= 0xD800 && c <= 0xDFFF;
        if (!surrogate && has_newer(c) && !any_property_has(c)) fail_msg("U+%04X, which no property has", (unsigned)c);
    }
    assert_false(pf_has_newer("plain", 5));
    assert_false(pf_has_newer("", 0));
}

static void cased_letters_are_the_union_of_all_cases(void **state)
{
    (void)state;
    pf_character_range of_all, of_one;
    size_t n = 0, at = 0, at_upper = 0, at_lower = 0, n_cases = 0;
    while (pf_newer_next("LC", 2, &at, &of_all)) n += (size_t)(of_all.last - of_all.first) + 1;
    while (pf_newer_next("Lu", 2, &at_upper, &of_one)) n_cases += (size_t)(of_one.last - of_one.first) + 1;
    while (pf_newer_next("Ll", 2, &at_lower, &of_one)) n_cases += (size_t)(of_one.last - of_one.first) + 1;
    assert_true(n > 0);
    assert_int_equal(n, n_cases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(newer_characters_are_found_in_every_range),
        cmocka_unit_test(text_without_newer_characters_has_none),
        cmocka_unit_test(cased_letters_are_the_union_of_all_cases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
