/* Tests the tables of SentencePiece's normalizer: damaged ones, and how much of a grapheme is replaced. */
#include "tokenizer/unicode/charsmap.h"

#include <jansson.h>
#include <stdlib.h>

#include "tests/support/draw.h"
#include "tests/support/test.h"
#include "tokenizer/base64.h"

/* The table of a golden tokenizer [*n]; the caller frees it. */
static uint8_t *read_golden(size_t *n)
{
    json_error_t why;
    json_t *root = json_load_file("tests/golden/tokenizer_forms/precompiled/tokenizer.json", 0, &why);
    const json_t *parts = json_object_get(json_object_get(root, "normalizer"), "normalizers");
    const json_t *text = json_object_get(json_array_get(parts, 0), "precompiled_charsmap");
    uint8_t *out = malloc(json_string_length(text));
    assert_non_null(out);
    assert_true(pf_base64_decode(json_string_value(text), json_string_length(text), out, n));
    json_decref(root);
    return out;
}

static void assert_maps(pf_charsmap_rule rule, const char *text, const char *expected)
{
    size_t n, n_first = 0;
    uint8_t *data = read_golden(&n);
    pf_charsmap *map = NULL;
    pf_bytes out = { .data = NULL };
    assert_status(pf_charsmap_create(data, n, rule, &map), PF_OK);
    assert_status(pf_charsmap_append(map, text, strlen(text), &n_first, 1000, NULL, &out), PF_OK);
    assert_int_equal(out.n, strlen(expected));
    if (out.n > 0) assert_memory_equal(out.data, expected, out.n);
    pf_bytes_clear(&out);
    pf_charsmap_destroy(map);
    free(data);
}

/* The table has U+FF21 as A, U+FF21 U+0301 as an accented A, and A as a: what is replaced is not looked up again. */
static void by_grapheme_takes_the_shortest_prefix_and_by_longest_the_longest(void **state)
{
    (void)state;
    assert_maps(PF_CHARSMAP_BY_GRAPHEME, "\uff21\u0301", "A");
    assert_maps(PF_CHARSMAP_BY_LONGEST, "\uff21\u0301", "\u00c1");
    assert_maps(PF_CHARSMAP_BY_GRAPHEME, "\r\nA\ufb01", " afi");
    assert_maps(PF_CHARSMAP_BY_LONGEST, "\r\nA\ufb01", " .afi");
    assert_maps(PF_CHARSMAP_BY_GRAPHEME, "x\u0301\u0302\u0303y",
                "X\u0301\u0302\u0303y"); /* seven bytes: by character */
    assert_maps(PF_CHARSMAP_BY_LONGEST, "a\u200bb", "ab");
    assert_maps(PF_CHARSMAP_BY_GRAPHEME, "x\u1acfy", "Xy"); /* a mark of Unicode 17 */
}

/* The first character's bytes grow and shrink with it. */
static void the_bytes_of_the_first_character_are_followed(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t n_first, expected;
    } cases[] = { { "\u00bdab", 2, 3 }, { "\ufb01x", 3, 2 }, { "ab", 1, 1 },
                  { "\uff22b", 3, 1 },  { "b\u00bd", 1, 1 }, { "ab", 0, 0 } };
    size_t n;
    uint8_t *data = read_golden(&n);
    pf_charsmap *map = NULL;
    assert_status(pf_charsmap_create(data, n, PF_CHARSMAP_BY_GRAPHEME, &map), PF_OK);
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        pf_bytes out = { .data = NULL };
        size_t n_first = cases[i].n_first;
        assert_status(pf_charsmap_append(map, cases[i].text, strlen(cases[i].text), &n_first, 1000, NULL, &out), PF_OK);
        assert_int_equal(n_first, cases[i].expected);
        pf_bytes_clear(&out);
    }
    pf_charsmap_destroy(map);
    free(data);
}

static void output_is_bounded(void **state)
{
    (void)state;
    size_t n, n_first = 0;
    uint8_t *data = read_golden(&n);
    pf_charsmap *map = NULL;
    pf_bytes out = { .data = NULL };
    assert_status(pf_charsmap_create(data, n, PF_CHARSMAP_BY_GRAPHEME, &map), PF_OK);
    assert_status(pf_charsmap_append(map, "\u00bd\u00bd", 4, &n_first, 5, NULL, &out), PF_LIMIT);
    pf_bytes_clear(&out);
    pf_charsmap_destroy(map);
    free(data);
}

static void sizes_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static const uint8_t bad[][8] = {
        { 0 },                            /* no unit */
        { 8, 0, 0, 0, 1, 2, 3, 4 },       /* longer than the data */
        { 3, 0, 0, 0, 1, 2, 3, 4 },       /* no multiple of four */
        { 0xFF, 0xFF, 0xFF, 0xFF, 0, 0 }, /* near 2^32 */
    };
    pf_charsmap *map = NULL;
    for (size_t i = 0; i < PF_COUNT(bad); i++)
        assert_status(pf_charsmap_create(bad[i], 8, PF_CHARSMAP_BY_GRAPHEME, &map), PF_FORMAT);
    assert_status(pf_charsmap_create(bad[1], 3, PF_CHARSMAP_BY_GRAPHEME, &map), PF_FORMAT);
    static const uint8_t not_utf8[] = { 4, 0, 0, 0, 0, 0, 0, 0, 0xC3, 0 };
    assert_status(pf_charsmap_create(not_utf8, sizeof not_utf8, PF_CHARSMAP_BY_GRAPHEME, &map), PF_FORMAT);
    assert_null(map);
}

/* Units lead anywhere: a search reads no byte outside, and its output is UTF-8. */
static void damaged_tables_are_searched_within_their_bounds(void **state)
{
    (void)state;
    static const char text[] = "aA\u00bd\uff21\u0301\r\n \U0001F642x\u3000";
    uint64_t rng = 3;
    size_t n;
    uint8_t *data = read_golden(&n);
    for (int round = 0; round < 2000; round++) {
        pf_charsmap *map = NULL;
        pf_bytes out = { .data = NULL };
        size_t n_first = 1;
        for (int i = 0; i < 8; i++) data[4 + draw(&rng) % (n - 4)] = (uint8_t)draw(&rng);
        const pf_charsmap_rule rule = round % 2 ? PF_CHARSMAP_BY_GRAPHEME : PF_CHARSMAP_BY_LONGEST;
        if (pf_charsmap_create(data, n, rule, &map) != PF_OK) {
            free(data);
            data = read_golden(&n);
            continue;
        }
        const pf_status status = pf_charsmap_append(map, text, sizeof text - 1, &n_first, 4096, NULL, &out);
        assert_true(status == PF_OK || status == PF_LIMIT);
        pf_bytes_clear(&out);
        pf_charsmap_destroy(map);
    }
    free(data);
}

static void base64_is_strict(void **state)
{
    (void)state;
    static const char *const bad[] = { "A", "AA", "AA=A", "A===", "====", "AAA*", "AA==AAAA", "AB==", "AAB=", "AA\n=" };
    uint8_t out[16];
    size_t n = 99;
    for (size_t i = 0; i < PF_COUNT(bad); i++) assert_false(pf_base64_decode(bad[i], strlen(bad[i]), out, &n));
    assert_true(pf_base64_decode("AP9+/w==", 8, out, &n));
    assert_int_equal(n, 4);
    assert_memory_equal(out, "\x00\xFF\x7E\xFF", 4);
    assert_true(pf_base64_decode("", 0, out, &n));
    assert_int_equal(n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_grapheme_takes_the_shortest_prefix_and_by_longest_the_longest),
        cmocka_unit_test(the_bytes_of_the_first_character_are_followed),
        cmocka_unit_test(output_is_bounded),
        cmocka_unit_test(sizes_that_do_not_fit_are_refused),
        cmocka_unit_test(damaged_tables_are_searched_within_their_bounds),
        cmocka_unit_test(base64_is_strict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
