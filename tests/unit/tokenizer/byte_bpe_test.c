/* Tests byte-level BPE: splits, merges, and bytes without a token. BPE of characters: character_bpe_test.c. */
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/small_tokenizer.h"
#include "tests/support/test.h"
#include "tokenizer/tokenizer_parts.h"

static size_t resident_bytes(void)
{
    char line[128];
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    fclose(file);
    char *resident; /* follows the total size */
    (void)strtoull(line, &resident, 10);
    return (size_t)strtoull(resident, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

static void sparse_ids_take_no_memory(void **state)
{
    (void)state;
    static const char text[] = ",\"middle\": 9000000, \"last\": 16777215";
    const size_t before = resident_bytes();
    pf_tokenizer *t = open_parts((parts){ .vocab = text });
    assert_true(resident_bytes() < before + (128 << 20)); /* of 400 MB */
    assert_int_equal(pf_tokenizer_vocab_size(t), 16777216);
    assert_ids(t, "a", (const int32_t[]){ 'a' }, 1);
    pf_tokenizer_close(t);
}

static void merges_apply_by_rank_then_leftmost(void **state)
{
    (void)state;
    pf_tokenizer *t = open_parts((parts){ .vocab = ",\"bc\":256,\"ab\":257,\"aa\":258,\"abc\":259",
                                          .merges = "\"#version: 0.2\", \"b c\", [\"a\", \"b\"], \"a a\", \"ab c\"" });
    assert_ids(t, "abc", (int32_t[]){ 'a', 256 }, 2); /* b c has the lower rank, so abc is never built */
    assert_ids(t, "ab", (int32_t[]){ 257 }, 1);
    assert_ids(t, "aaa", (int32_t[]){ 258, 'a' }, 2);
    pf_tokenizer_close(t);
}

static void stale_merge_candidate_is_dropped(void **state)
{
    (void)state;
    pf_tokenizer *t =
        open_parts((parts){ .vocab = ",\"bc\":256,\"ab\":257,\"abc\":258", .merges = "\"b c\", \"a b\", \"a bc\"" });
    assert_ids(t, "abc", (int32_t[]){ 258 }, 1);
    pf_tokenizer_close(t);
    t = open_text("{\"pre_tokenizer\": " BYTE_LEVEL ", \"decoder\": {\"type\": \"ByteLevel\"}, \"model\": {\"vocab\": "
                  "{\"a\": 0, \"b\": 1, \"c\": 2, \"ba\": 3, \"ac\": 4}, \"merges\": [\"b a\", \"a c\"]}}",
                  NULL);
    assert_ids(t, "bac", (int32_t[]){ 3, 2 }, 2); /* nor a merge with a removed token, whose id could be 0 */
    pf_tokenizer_close(t);
}

/* An empty match splits, and ^ and $ match at every line: the pattern separates a b from an LF. */
static void empty_matches_and_line_anchors_split(void **state)
{
    (void)state;
    pf_tokenizer *t = open_parts((parts){ .pre = SPLIT("(?=b)"), .vocab = ",\"ab\":256", .merges = "\"a b\"" });
    assert_ids(t, "ab", (int32_t[]){ 'a', 'b' }, 2);
    pf_tokenizer_close(t);
    t = open_parts((parts){ .pre = SPLIT("a$"), .vocab = ",\"a\\u010a\":256", .merges = "\"a \\u010a\"" });
    assert_ids(t, "a\nb", (int32_t[]){ 'a', '\n', 'b' }, 3);
    pf_tokenizer_close(t);
    t = open_parts((parts){ .vocab = ",\"a\\u010a\":256", .merges = "\"a \\u010a\"" });
    assert_ids(t, "a\nb", (int32_t[]){ 256, 'b' }, 2);
    pf_tokenizer_close(t);
}

/* The pattern sees byte characters: \u0120 is a space, and an e with an accent is two characters. */
static void split_after_byte_level_sees_byte_characters(void **state)
{
    (void)state;
#define BEHIND(split) "{\"type\": \"Sequence\", \"pretokenizers\": [" BYTE_LEVEL "," split "]}"
    pf_tokenizer *t = open_parts((parts){ .pre = BEHIND("{\"type\": \"Split\", \"pattern\": {\"Regex\": \"\\u0120\"},"
                                                        "\"behavior\": \"Removed\", \"invert\": false}") });
    assert_ids(t, " a \xC3\xA9  b ", (int32_t[]){ 'a', 0xC3, 0xA9, 'b' }, 4);
    pf_tokenizer_close(t);

    static const char vocab[] = ",\"\\u00c3\\u00a9\":300,\"12\":301,\"\\u00b2\\u00b3\":302";
    static const char merges[] = "\"\\u00c3 \\u00a9\",\"1 2\",\"\\u00b2 \\u00b3\"";
    t = open_parts((parts){
        .pre = BEHIND("{\"type\": \"Digits\", \"individual_digits\": true}"), .vocab = vocab, .merges = merges });
    assert_ids(t, "12\xC3\xA9", (int32_t[]){ '1', '2', 300 }, 3);
    assert_ids(t, "\xF2\xB2\xB3\x80", (int32_t[]){ 0xF2, 0xB2, 0xB3, 0x80 },
               4); /* two of the byte characters are digits */
    pf_tokenizer_close(t);
    t = open_parts((parts){ .vocab = vocab, .merges = merges });
    assert_ids(t, "12\xF2\xB2\xB3\x80", (int32_t[]){ 301, 0xF2, 302, 0x80 }, 4);
    pf_tokenizer_close(t);
#undef BEHIND
}

static void ignore_merges_keeps_a_piece_that_is_a_token(void **state)
{
    (void)state;
    pf_tokenizer *t = open_parts((parts){ .model = "\"ignore_merges\": true,", .vocab = ",\"xyz\":300" });
    assert_ids(t, "xyz", (int32_t[]){ 300 }, 1);
    assert_ids(t, "xyzx", (int32_t[]){ 'x', 'y', 'z', 'x' }, 4);
    pf_tokenizer_close(t);
    t = open_parts((parts){ .vocab = ",\"xyz\":300" });
    assert_ids(t, "xyz", (int32_t[]){ 'x', 'y', 'z' }, 3);
    pf_tokenizer_close(t);
}

static void byte_without_token_is_refused(void **state)
{
    (void)state;
    static const char text[] = "{\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}, "
                               "\"decoder\": {\"type\": \"ByteLevel\"},"
                               "\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}}";
    pf_tokenizer *t = open_text(text, NULL);
    pf_tokens out = { 0 };
    assert_status(pf_tokenizer_encode(t, "aa", 2, false, NULL, &out), PF_OK);
    assert_status(pf_tokenizer_encode(t, "a b", 3, false, NULL, &out), PF_UNSUPPORTED);
    assert_status(pf_tokenizer_encode(t, "a\xFF", 2, false, NULL, &out), PF_UNSUPPORTED); /* an invalid byte */
    assert_status(pf_tokenizer_encode(t, "a", ((size_t)1 << 30) + 1, false, NULL, &out),
                  PF_LIMIT);    /* not read either */
    assert_int_equal(out.n, 2); /* unchanged by the failure */
    pf_tokens_clear(&out);
    pf_tokenizer_close(t);
}

static void byte_without_token_becomes_unk_token(void **state)
{
    (void)state;
#define FEW(model)                                                                                   \
    "{\"pre_tokenizer\": " BYTE_LEVEL ", \"decoder\": {\"type\": \"ByteLevel\"}, \"model\": {" model \
    "\"unk_token\": \"<unk>\", \"vocab\": {\"a\": 0, \"b\": 1, \"<unk>\": 2, \"ab\": 3}, \"merges\": [\"a b\"]}}"
    pf_tokenizer *t = open_text(FEW(""), NULL);
    assert_ids(t, "abxyaxb", (int32_t[]){ 3, 2, 2, 0, 2, 1 }, 6);
    pf_tokenizer_close(t);
    t = open_text(FEW("\"fuse_unk\": true,"), NULL);
    assert_ids(t, "xxabxya x", (int32_t[]){ 2, 3, 2, 0, 2 }, 5);
    pf_tokenizer_close(t);

    t = open_parts((parts){ .model = "\"byte_fallback\": true," }); /* every byte has a token */
    assert_ids(t, "a", (int32_t[]){ 'a' }, 1);
    pf_tokenizer_close(t);
    pf_error error = { 0 };
    t = NULL;
    static const char lacking[] = FEW("\"byte_fallback\": true,");
    assert_status(pf_tokenizer_parse(lacking, strlen(lacking), NULL, 0, &t, &error), PF_UNSUPPORTED);
    assert_says(error, "the byte 0 has no token");
#undef FEW
}

static void cancel_ends_merging(void **state)
{
    (void)state;
    const volatile bool told = true;
    pf_tokenizer *t = open_parts((parts){ .vocab = ",\"ab\":256", .merges = "\"a b\"" });
    pf_bpe_scratch scratch = { 0 };
    pf_tokens out = { 0 };
    assert_status(pf_bpe_encode(&t->bpe, &scratch, "ab", 2, &told, &out), PF_CANCELLED);
    pf_bpe_scratch_clear(&scratch);
    pf_tokens_clear(&out);
    pf_tokenizer_close(t);
}

/* Id 0 is a valid token in every role. */
static void id_0_is_found_in_every_table(void **state)
{
    (void)state;
#define FIRST(top, pre, model, vocab)                                                                   \
    "{" top "\"pre_tokenizer\": " pre ", \"model\": {" model "\"unk_token\": \"u\", \"vocab\": {" vocab \
    ", \"u\": 9}, "                                                                                     \
    "\"merges\": []}}"
    static const struct {
        const char *file, *text;
        int32_t ids[4], n;
    } cases[] = {
        { FIRST("", BYTE_LEVEL, "", "\"\u00ff\": 0, \"a\": 1"), "a\xFF", { 1, 0 }, 2 },
        { FIRST("", BYTE_LEVEL, "\"ignore_merges\": true,", "\"ab\": 0, \"a\": 1"), "ab", { 0 }, 1 },
        { FIRST("", "null", "", "\"a\": 0, \"b\": 1"), "ba", { 1, 0 }, 2 },
        { FIRST("", "null", "\"byte_fallback\": true,", "\"<0xC3>\": 0, \"<0xA9>\": 1"), "\xC3\xA9", { 0, 1 }, 2 },
        { FIRST("\"added_tokens\": [{\"id\": 0, \"content\": \"<s>\"}],", "null", "", "\"<s>\": 0, \"a\": 1"),
          "a<s>a",
          { 1, 0, 1 },
          3 },
        { FIRST("\"added_tokens\": [{\"id\": 0, \"content\": \"<s>\", \"special\": true}],", "null", "",
                "\"<s>\": 0, \"a\": 1"),
          "a<s>a",
          { 1, 0, 1 },
          3 },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        pf_tokenizer *t = open_text(cases[i].file, NULL);
        assert_ids(t, cases[i].text, cases[i].ids, cases[i].n);
        pf_tokenizer_close(t);
    }
#undef FIRST
}

/* The library's defaults: GPT-2's pattern, and a prefix space. */
static void byte_level_splits_and_adds_prefix_space_by_default(void **state)
{
    (void)state;
    pf_tokenizer *t = open_parts((parts){ .pre = "{\"type\": \"ByteLevel\"}",
                                          .vocab = ",\"a1\":256,\"\\u0120a\":257",
                                          .merges = "\"a 1\",\"\\u0120 a\"" });
    assert_ids(t, "a1", (int32_t[]){ 257, '1' }, 2);
    pf_tokenizer_close(t);
}

#define STEP(step) "{\"type\": \"Sequence\", \"pretokenizers\": [" step "," BYTE_LEVEL "]}"

/* A letter, a digit, punctuation and a number of Unicode 15 to 17. Merges join them with the preceding character unless there
 * is a split. */
static void characters_newer_than_pcre2_are_split_as_in_the_library(void **state)
{
    (void)state;
    static const char letter[] = "a\xF0\xB1\x8D\x90", digit[] = "1\xF0\x9E\x93\xB0", newest[] = "1\xF0\x91\xB7\xA0";
    static const char mark[] = "a\xE1\xAD\x8E";
    static const struct {
        const char *pre, *text;
        int32_t first;
    } cases[] = {
        { SPLIT("\\\\p{L}+"), letter, 256 },
        { SPLIT("a\\\\P{L}?"), letter, 'a' },
        { SPLIT("a\\\\p{Han}"), letter, 256 },
        { SPLIT("\\\\w+"), letter, 256 },
        { SPLIT("a\\\\b"), letter, 256 },
        { SPLIT("[[:alpha:]]+"), letter, 256 },
        { SPLIT("\\\\d+"), digit, 257 },
        { SPLIT("\\\\p{N}+"), digit, 257 },
        { STEP("{\"type\": \"Digits\"}"), digit, 257 },
        { STEP("{\"type\": \"Digits\"}"), newest, 257 },
        { STEP("{\"type\": \"Whitespace\"}"), letter, 256 },
        { STEP("{\"type\": \"Punctuation\"}"), mark, 258 }, /* Punctuation's table is older */
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        pf_tokenizer *t = open_parts((parts){ .pre = cases[i].pre,
                                              .vocab = ",\"a\\u00f0\":256,\"1\\u00f0\":257,\"a\\u00e1\":258",
                                              .merges = "\"a \\u00f0\",\"1 \\u00f0\",\"a \\u00e1\"" });
        pf_tokens got = encode(t, cases[i].text);
        assert_int_equal(got.ids[0], cases[i].first);
        pf_tokens_clear(&got);
        pf_tokenizer_close(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sparse_ids_take_no_memory),
        cmocka_unit_test(merges_apply_by_rank_then_leftmost),
        cmocka_unit_test(stale_merge_candidate_is_dropped),
        cmocka_unit_test(characters_newer_than_pcre2_are_split_as_in_the_library),
        cmocka_unit_test(empty_matches_and_line_anchors_split),
        cmocka_unit_test(split_after_byte_level_sees_byte_characters),
        cmocka_unit_test(ignore_merges_keeps_a_piece_that_is_a_token),
        cmocka_unit_test(byte_without_token_is_refused),
        cmocka_unit_test(byte_without_token_becomes_unk_token),
        cmocka_unit_test(cancel_ends_merging),
        cmocka_unit_test(id_0_is_found_in_every_table),
        cmocka_unit_test(byte_level_splits_and_adds_prefix_space_by_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
