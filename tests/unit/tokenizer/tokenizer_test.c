/* Tests the whole tokenizer: equality with Hugging Face's library, arbitrary bytes, refusals, limits, the fingerprint. */
#include <jansson.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "tests/support/small_tokenizer.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test.h"
#include "tests/support/told.h"
#include "tokenizer/unicode/normal_forms.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_parts.h"

static const char *const GOLDEN[] = { "gpt2",    "llama3", "qwen2",     "o200k",     "cl100k", "deepseek",
                                      "falcon",  "bloom",  "digits",    "behaviors", "flags",  "llama2",
                                      "mistral", "gemma",  "metaspace", "words" };

static pf_tokenizer *open_golden(const char *name, const char *config)
{
    char path[128];
    json_error_t why;
    snprintf(path, sizeof path, "tests/golden/tokenizer/%s.json", name);
    json_t *root = json_load_file(path, JSON_ALLOW_NUL, &why);
    assert_non_null(root);
    char *text = json_dumps(root, 0);
    pf_tokenizer *t = open_text(text, config);
    free(text);
    json_decref(root);
    return t;
}

static void assert_comes_back(const pf_tokenizer *t, const char *text, size_t n)
{
    pf_tokens tokens = encode_bytes(t, text, n, false);
    pf_bytes back = decode(t, &tokens);
    assert_int_equal(back.n, n);
    if (n > 0) assert_memory_equal(back.data, text, n);
    pf_bytes_clear(&back);
    pf_tokens_clear(&tokens);
}

static void check_text(const pf_tokenizer *t, const char *name, const json_t *text, const json_t *ids, size_t index,
                       bool special)
{
    pf_tokens got = encode_bytes(t, json_string_value(text), json_string_length(text), special);
    bool same = (size_t)got.n == json_array_size(ids);
    for (int32_t i = 0; same && i < got.n; i++) same = got.ids[i] == json_integer_value(json_array_get(ids, (size_t)i));
    if (!same)
        fail_msg("%s: text %zu (%s): %d ids, expected %zu, or others: \"%.60s\"", name, index,
                 special ? "special" : "plain", got.n, json_array_size(ids), json_string_value(text));
    pf_tokens_clear(&got);
}

/* The library writes U+FFFD for invalid bytes: such texts are not compared. */
static void check_decoded(const pf_tokenizer *t, const char *name, const json_t *ids, const json_t *decoded,
                          size_t index)
{
    pf_tokens tokens = { 0 };
    for (size_t i = 0; i < json_array_size(ids); i++)
        assert_status(pf_tokens_push(&tokens, (int32_t)json_integer_value(json_array_get(ids, i))), PF_OK);
    pf_bytes back = decode(t, &tokens);
    const size_t n = json_string_length(decoded);
    const bool is_exact = !memmem(json_string_value(decoded), n, "\xEF\xBF\xBD", 3);
    if (is_exact && (back.n != n || memcmp(back.n ? back.data : "", json_string_value(decoded), n) != 0))
        fail_msg("%s: text %zu decoded: \"%.*s\", expected \"%s\"", name, index, (int)back.n, back.data,
                 json_string_value(decoded));
    pf_bytes_clear(&back);
    pf_tokens_clear(&tokens);
}

static void ids_and_texts_equal_the_reference(void **state)
{
    (void)state;
    json_error_t why;
    json_t *root = json_load_file("tests/golden/tokenizer/expected.json", JSON_ALLOW_NUL, &why);
    assert_non_null(root);
    const json_t *texts = json_object_get(root, "texts");
    assert_true(json_array_size(texts) >= 20);
    for (size_t g = 0; g < PF_COUNT(GOLDEN); g++) {
        const json_t *expected = json_object_get(json_object_get(root, "cases"), GOLDEN[g]);
        pf_tokenizer *t = open_golden(GOLDEN[g], NULL);
        for (size_t i = 0; i < json_array_size(texts); i++) {
            const json_t *text = json_array_get(texts, i);
            check_text(t, GOLDEN[g], text, json_array_get(json_object_get(expected, "plain"), i), i, false);
            check_text(t, GOLDEN[g], text, json_array_get(json_object_get(expected, "special"), i), i, true);
            check_decoded(t, GOLDEN[g], json_array_get(json_object_get(expected, "plain"), i),
                          json_array_get(json_object_get(expected, "decoded"), i), i);
        }
        pf_tokenizer_close(t);
    }
    json_decref(root);
}

static void any_bytes_round_trip(void **state)
{
    (void)state;
    static const char *const exact[] = { "gpt2", "llama3", "o200k", "cl100k", "deepseek" };
    uint64_t rng = 42;
    for (size_t g = 0; g < PF_COUNT(exact); g++) {
        pf_tokenizer *t = open_golden(exact[g], NULL);
        char text[256];
        for (int trial = 0; trial < 300; trial++) {
            const size_t n = (size_t)trial % sizeof text;
            for (size_t i = 0; i < n; i++) {
                rng = rng * 6364136223846793005u + 1442695040888963407u;
                const uint32_t r = (uint32_t)(rng >> 40);
                text[i] = trial % 3 == 0 ? (char)r : "a \n1'sé\xE6\xBC\xA2\xFF\xC3<|end|>"[r % 20];
            }
            assert_comes_back(t, text, n);
        }
        pf_tokenizer_close(t);
    }
}

static void invalid_utf8_bytes_are_separate_tokens(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t n;
    } bad[] = {
        { "\xFF", 1 },         { "\xC3", 1 },
        { "\x80", 1 },         { "\xC0\xAF", 2 },
        { "\xED\xA0\x80", 3 }, { "\xF4\x90\x80\x80", 4 },
        { "\xE6\xBC", 2 },     { "\xF0\x82\x82\xAC", 4 },
    };
    pf_tokenizer *t = open_golden("llama3", NULL);
    for (size_t i = 0; i < PF_COUNT(bad); i++) {
        pf_tokens tokens = encode_bytes(t, bad[i].text, bad[i].n, false);
        assert_int_equal(tokens.n, bad[i].n);
        pf_tokens_clear(&tokens);
        assert_comes_back(t, bad[i].text, bad[i].n);
    }
    /* the valid text around them is split as if it were alone */
    pf_tokens whole = encode_bytes(t, " the\xFF the", 9, false), part = encode(t, " the");
    assert_int_equal(whole.n, 2 * part.n + 1);
    assert_memory_equal(whole.ids, part.ids, (size_t)part.n * sizeof *part.ids);
    pf_tokens_clear(&whole);
    pf_tokens_clear(&part);
    pf_tokenizer_close(t);
}

static void no_prefix_space_after_invalid_utf8(void **state)
{
    (void)state;
    pf_tokenizer *t = open_parts((parts){ .pre = "{\"type\": \"ByteLevel\", \"add_prefix_space\": true}" });
    assert_ids(t, "a\xFF\x80z\xFF", (int32_t[]){ ' ', 'a', 0xFF, 0x80, 'z', 0xFF }, 6);
    assert_ids(t, "\xFFz", (int32_t[]){ 0xFF, 'z' }, 2);
    pf_tokenizer_close(t);
}

static void cancel_ends_encoding_of_invalid_utf8(void **state)
{
    (void)state;
    pf_tokenizer *t = open_parts((parts){ .top = NULL });
    pf_tokens out = { 0 };
    static const volatile bool is_told = true;
    assert_status(pf_tokenizer_encode(t, "\xFF\xFF", 2, false, &is_told, &out), PF_CANCELLED);
    assert_int_equal(out.n, 0);
    pf_tokenizer_close(t);
}

static void long_piece_takes_n_log_n_time(void **state)
{
    (void)state;
    enum { N = 1 << 18 };
    pf_tokenizer *t = open_golden("llama3", NULL);
    char *text = malloc(N);
    assert_non_null(text);
    for (int i = 0; i < N; i++) text[i] = "aethrn"[(i * 7 + i / 13) % 6];
    const clock_t begin = clock();
    assert_comes_back(t, text, N);
    memset(text, ' ', N); /* one run of white space: the pattern backtracks over all of it */
    assert_comes_back(t, text, N);
    const double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    if (seconds > 5.0) fail_msg("%d bytes took %.1f s", 2 * N, seconds);
    free(text);
    pf_tokenizer_close(t);
}

/* --- normal forms --- */

/* U+1DF6 has a combining class since Unicode 10, U+1E030 a decomposition since 15; the library's tables are of Unicode 9. */
static void characters_newer_than_unicode_9_are_not_normalized(void **state)
{
    (void)state;
    static const char *const texts[] = { "a\xE1\xB7\xB6\xCC\x81", "\xF0\x9E\x80\xB0", "\xE1\xB7\xB6\xE1\xB7\xB6x" };
    pf_tokenizer *t = open_parts((parts){ .top = "\"normalizer\": {\"type\": \"NFKC\"}," });
    for (size_t i = 0; i < PF_COUNT(texts); i++) {
        int32_t expected[16];
        const int32_t n = (int32_t)strlen(texts[i]);
        for (int32_t k = 0; k < n; k++) expected[k] = (unsigned char)texts[i][k];
        assert_ids(t, texts[i], expected, n);
    }
    assert_ids(t, "e\xCC\x81\xE1\xB7\xB6\xEF\xBC\xA1", (int32_t[]){ 0xC3, 0xA9, 0xE1, 0xB7, 0xB6, 'A' }, 6);
    pf_tokenizer_close(t);
}

static void long_run_of_marks_is_ordered_in_linear_time(void **state)
{
    (void)state;
    enum {
        PAIRS = 200000
    }; /* an acute and a dot below, which is ordered before it; the first dot composes with the a */
    const size_t n = 1 + 4 * (size_t)PAIRS;
    char *text = malloc(n);
    assert_non_null(text);
    text[0] = 'a';
    for (size_t i = 1; i < n; i += 4) memcpy(text + i, "\xCC\x81\xCC\xA3", 4);
    pf_tokenizer *t = open_parts((parts){ .top = "\"normalizer\": {\"type\": \"NFC\"}," });
    const uint64_t begin_ns = pf_now_ns();
    pf_tokens got = encode_bytes(t, text, n, false);
    assert_true(pf_now_ns() - begin_ns < 10000000000u);
    assert_int_equal(got.n, 3 + 2 * (PAIRS - 1) + 2 * PAIRS);
    assert_memory_equal(got.ids, ((int32_t[]){ 0xE1, 0xBA, 0xA1, 0xCC, 0xA3 }), 5 * sizeof *got.ids);
    assert_memory_equal(got.ids + 3 + 2 * (PAIRS - 2), ((int32_t[]){ 0xCC, 0xA3, 0xCC, 0x81 }), 4 * sizeof *got.ids);
    assert_memory_equal(got.ids + got.n - 2, ((int32_t[]){ 0xCC, 0x81 }), 2 * sizeof *got.ids);
    pf_tokens_clear(&got);
    pf_tokenizer_close(t);
    free(text);
}

/* A mark that the end of a chunk would separate from its letter. */
static void normal_form_of_a_long_text_joins_across_chunks(void **state)
{
    (void)state;
    enum { N = 100000 };
    char *text = malloc(3 * N);
    assert_non_null(text);
    for (size_t i = 0; i < N; i++) memcpy(text + 3 * i, "e\xCC\x81", 3);
    pf_bytes form = { .data = NULL };
    assert_status(pf_normal_form_append(PF_NFC, text, 3 * N, NULL, &form), PF_OK);
    assert_int_equal(form.n, 2 * N);
    for (size_t i = 0; i < N; i++) assert_memory_equal(form.data + 2 * i, "\xC3\xA9", 2);
    pf_bytes_clear(&form);
    free(text);
}

/* U+11A7 is not a trailing consonant: it stays after U+AC00, composed of U+1100 and U+1161 or not. U+11A8 is one. */
static void hangul_syllable_composes_with_trailing_consonant_only(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "\xEA\xB0\x80\xE1\x86\xA7x", "\xEA\xB0\x80\xE1\x86\xA7x" },
        { "\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA7", "\xEA\xB0\x80\xE1\x86\xA7" },
        { "\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8", "\xEA\xB0\x81" },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        pf_bytes form = { .data = NULL };
        for (int compatible = 0; compatible < 2; compatible++) {
            form.n = 0;
            assert_status(
                pf_normal_form_append(compatible ? PF_NFKC : PF_NFC, cases[i][0], strlen(cases[i][0]), NULL, &form),
                PF_OK);
            assert_int_equal(form.n, strlen(cases[i][1]));
            assert_memory_equal(form.data, cases[i][1], form.n);
        }
        pf_bytes_clear(&form);
    }
}

/* Each takes many times a millisecond. */
static void cancel_ends_a_normalizer_step(void **state)
{
    (void)state;
    enum { N = 8 << 20 };
    static const char *const steps[] = {
        "{\"type\": \"NFC\"}",
        "{\"type\": \"Lowercase\"}",
        "{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, \"content\": \"b\"}",
    };
    char *text = malloc(N), top[128];
    assert_non_null(text);
    for (size_t i = 0; i < N; i += 4) memcpy(text + i, "aa\xC3\xA9", 4);
    for (size_t i = 0; i < PF_COUNT(steps); i++) {
        snprintf(top, sizeof top, "\"normalizer\": %s,", steps[i]);
        pf_tokenizer *t = open_parts((parts){ .top = top });
        pf_searcher *searcher;
        pf_text_place place = { .n_first = 1 };
        pf_bytes made = { .data = NULL };
        assert_status(pf_searcher_create(N, &told, &searcher), PF_OK);
        tell_in(1);
        assert_status(pf_normalize(t->normalizer, searcher, text, N, &place, &made), PF_CANCELLED);
        assert_null(made.data);
        pf_searcher_destroy(searcher);
        pf_tokenizer_close(t);
    }
    free(text);
}

/* --- refusals --- */

static void assert_refused(parts p, pf_status status, const char *part)
{
    pf_error error = { 0 };
    pf_tokenizer *t = NULL;
    char *text = build(p);
    assert_status(pf_tokenizer_parse(text, strlen(text), NULL, 0, &t, &error), status);
    assert_says(error, part);
    assert_null(t);
    free(text);
}

static void unknown_parts_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        parts p;
        const char *part;
        pf_status status;
    } cases[] = {
        { { .top = "\"never\": 1," }, "never", PF_UNSUPPORTED },
        { { .top = "\"normalizer\": {\"type\": \"Precompiled\"}," }, "precompiled_charsmap", PF_FORMAT },
        { { .top = "\"normalizer\": {\"type\": \"Precompiled\", \"precompiled_charsmap\": \"AAAA\"}," },
          "Precompiled: precompiled_charsmap must",
          PF_FORMAT },
        { { .top = "\"normalizer\": {\"type\": \"BertNormalizer\"}," }, "BertNormalizer", PF_UNSUPPORTED },
        { { .top = "\"normalizer\": {\"type\": \"Sequence\"}," }, "normalizers", PF_FORMAT },
        { { .top = "\"post_processor\": {\"type\": \"Never\"}," }, "Never", PF_UNSUPPORTED },
        { { .top = "\"post_processor\": {\"type\": \"BertProcessing\", \"sep\": [\"b\", 98]}," },
          "cls must",
          PF_FORMAT },
        { { .top = "\"post_processor\": {\"type\": \"BertProcessing\", \"cls\": [\"a\", 97, 98],"
                   "\"sep\": [\"b\", 98]}," },
          "cls must",
          PF_FORMAT },
        { { .top = "\"post_processor\": {\"type\": \"RobertaProcessing\", \"cls\": [\"a\", 97],"
                   "\"sep\": [98, \"b\"]}," },
          "sep must",
          PF_FORMAT },
        { { .top = "\"post_processor\": {\"type\": \"RobertaProcessing\", \"cls\": [\"a\", 97],"
                   "\"sep\": [\"b\", 999]}," },
          "the id of \"b\" is no token",
          PF_FORMAT },
        { { .top = "\"post_processor\": {\"type\": \"Sequence\", \"processors\": ["
                   "{\"type\": \"BertProcessing\", \"cls\": [\"a\", 97], \"sep\": [\"b\", 98]},"
                   "{\"type\": \"RobertaProcessing\", \"cls\": [\"a\", 97], \"sep\": [\"b\", 98]}]}," },
          "post_processor: RobertaProcessing is a second part that adds tokens",
          PF_UNSUPPORTED },
        { { .top = "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": []}," }, "lost", PF_FORMAT },
        { { .top = "\"post_processor\": {\"type\": \"Sequence\", \"processors\": ["
                   "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"s\"}},"
                   "{\"Sequence\": {\"id\": \"A\"}}], \"special_tokens\": {\"s\": {\"ids\": [1, 2]}}},"
                   "{\"type\": \"TemplateProcessing\", \"single\": [{\"Sequence\": {\"id\": \"A\"}}]}]}," },
          "post_processor: TemplateProcessing is a second part that adds tokens",
          PF_UNSUPPORTED },
        { { .top = "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\":"
                   "\"x\"}}], \"special_tokens\": {\"x\": {\"ids\": [999]}}}," },
          "no token",
          PF_FORMAT },
        { { .top = "\"added_tokens\": [{\"id\": -1, \"content\": \"x\"}]," },
          "the added token \"x\": id is -1",
          PF_FORMAT },
        { { .top = "\"added_tokens\": [{\"id\": 1, \"content\": \"x\", \"rstrip\": 0}]," },
          "tokenizer.json: the added token \"x\": rstrip is 0, expected true or false",
          PF_FORMAT },
        { { .top = "\"added_tokens\": [{\"id\": 1}]," }, "content", PF_FORMAT },
        { { .top = "\"added_tokens\": [{\"id\": 1, \"content\": \"a\\u0000b\"}]," }, "NUL", PF_UNSUPPORTED },
        { { .pre = "{\"type\": \"UnicodeScripts\"}" }, "UnicodeScripts", PF_UNSUPPORTED },
        { { .pre = "{\"type\": \"Sequence\", \"pretokenizers\": [" BYTE_LEVEL "," BYTE_LEVEL "]}" },
          "pre_tokenizer: ByteLevel is there a second time",
          PF_UNSUPPORTED },
        { { .pre = "{\"type\": \"Punctuation\", \"behavior\": \"Cut\"}" },
          "pre_tokenizer: Punctuation: behavior is \"Cut\", expected Isolated, Removed, MergedWithPrevious, "
          "MergedWithNext or Contiguous",
          PF_FORMAT },
        { { .pre = "{\"type\": \"Split\", \"pattern\": {\"String\": \"a\"}, \"invert\": false}" },
          "tokenizer.json: pre_tokenizer: Split: behavior is absent, expected Isolated, ",
          PF_FORMAT },
        { { .pre = SPLIT("(") }, "pre_tokenizer: Split: the pattern has an unmatched (", PF_UNSUPPORTED },
        { { .pre = SPLIT("[a-z&&[^b]]") }, "intersection", PF_UNSUPPORTED },
        { { .pre = SPLIT("[a[^b]]") }, "negated character class inside", PF_UNSUPPORTED },
        { { .pre = SPLIT("[a[]b]]") }, "empty character class inside", PF_UNSUPPORTED },
        { { .pre = SPLIT("[a[b]") }, "does not end", PF_UNSUPPORTED },
        { { .pre = SPLIT("[a-[b]]") }, "a '-' beside", PF_UNSUPPORTED },
        { { .pre = SPLIT("[a[-b]]") }, "a '-' beside", PF_UNSUPPORTED },
        { { .pre = SPLIT("[[a-]b]") }, "a '-' beside", PF_UNSUPPORTED },
        { { .pre = SPLIT("[[a]-b]") }, "a '-' beside", PF_UNSUPPORTED },
        { { .pre = SPLIT("\\\\p{Unheard_of}") }, ": \\p{Unheard_of}", PF_UNSUPPORTED }, /* as in the file */
        { { .pre = SPLIT("(?<n>a)") }, "(?<", PF_UNSUPPORTED },
        { { .pre = SPLIT("a\\\\1") }, "\\1", PF_UNSUPPORTED },
        { { .pre = SPLIT("\\\\X") }, "\\X", PF_UNSUPPORTED }, /* its end differs between libraries */
        { { .model = "\"byte_fallback\": 1," }, "tokenizer.json: model: byte_fallback is 1", PF_FORMAT },
        { { .model = "\"dropout\": 0.1," }, "model: dropout is 0.1", PF_UNSUPPORTED },
        { { .model = "\"continuing_subword_prefix\": \"##\"," }, "continuing_subword_prefix", PF_UNSUPPORTED },
        { { .model = "\"end_of_word_suffix\": \"</w>\"," }, "end_of_word_suffix", PF_UNSUPPORTED },
        { { .model = "\"odd\": 1," }, "odd", PF_UNSUPPORTED },
        { { .vocab = ",\"x y\":3" }, "id 3", PF_FORMAT },
        { { .vocab = ",\"xy\":-3" }, "xy", PF_FORMAT },
        { { .vocab = ",\"xy\":99999999999" }, "xy", PF_FORMAT },
        { { .vocab = ",\"xy\":2.5" }, "xy", PF_FORMAT },
        { { .vocab = ",\"xy\":16777216" }, "the id of \"xy\" must be 0 to 16777215", PF_FORMAT },
        { { .vocab = ",\"xy\":257", .top = "\"added_tokens\": [{\"id\": 256, \"content\": \"<a>\"}]," },
          "the added token \"<a>\" gets the id 257, which is taken",
          PF_FORMAT },
        { { .merges = "\"a b\"" }, "\"ab\" is not in model.vocab", PF_FORMAT },
        { { .merges = "\"a b c\"" }, "merges[0]", PF_FORMAT },
        { { .merges = "[\"a\"]" }, "merges[0]", PF_FORMAT },
        { { .merges = "7" }, "merges[0]", PF_FORMAT },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) assert_refused(cases[i].p, cases[i].status, cases[i].part);
}

static void hostile_pattern_ends_in_pf_limit(void **state)
{
    (void)state;
    pf_tokenizer *t = open_parts((parts){ .pre = SPLIT("(?:a|a)*(?:a|a)*c") });
    char text[4096];
    pf_tokens out = { 0 };
    memset(text, 'a', sizeof text);
    memcpy(text + sizeof text - 2, "bc", 2); /* the text that the pattern needs, out of reach */
    assert_status(pf_tokenizer_encode(t, text, sizeof text, false, NULL, &out), PF_LIMIT);
    assert_int_equal(out.n, 0);
    pf_tokens_clear(&out);
    pf_tokenizer_close(t);
}

/* Thousands separators, as in SuperBPE's pattern: a search reads to the last digit, some 4,700 steps. */
static void many_slow_searches_are_allowed(void **state)
{
    (void)state;
    enum { DIGITS = 14000 };
    pf_tokenizer *t = open_parts((parts){ .pre = SPLIT("(?=(\\\\d{3})+(?!\\\\d))") });
    char *text = malloc(DIGITS);
    assert_non_null(text);
    memset(text, '1', DIGITS);
    pf_tokens got = encode_bytes(t, text, DIGITS, false);
    assert_int_equal(got.n, DIGITS);
    pf_tokens_clear(&got);
    free(text);
    pf_tokenizer_close(t);
}

/* A repeated group takes backtracking memory for each iteration: more than PCRE2's own stack for a megabyte, and more than
 * the limit for sixteen. */
static void match_over_megabytes_is_bounded_by_memory(void **state)
{
    (void)state;
    enum { MIB = 1 << 20 };
    pf_tokenizer *t = open_parts((parts){ .pre = SPLIT("(?:\\\\p{L}|')+") });
    pf_tokens out = { 0 };
    char *text = malloc(16 * MIB);
    assert_non_null(text);
    memset(text, 'a', 16 * MIB);
    assert_status(pf_tokenizer_encode(t, text, MIB, false, NULL, &out), PF_OK);
    assert_int_equal(out.n, MIB);
    assert_status(pf_tokenizer_encode(t, text, 16 * MIB, false, NULL, &out), PF_NOMEM);
    assert_int_equal(out.n, MIB);
    free(text);
    pf_tokens_clear(&out);
    pf_tokenizer_close(t);
}

/* --- fingerprint --- */

static void equal_vocabularies_have_equal_fingerprints(void **state)
{
    (void)state;
    uint8_t a[32], b[32], c[32], d[32], e[32];
    pf_tokenizer *t = open_golden("gpt2", NULL), *u = open_golden("gpt2", "{\"eos_token\": \"<|end|>\"}");
    pf_tokenizer *v = open_golden("gpt2", "{\"pad_token\": \"<pad>\"}");
    pf_tokenizer *w = open_parts((parts){ .vocab = NULL });
    assert_int_equal(pf_tokenizer_fingerprint(t, INT32_MAX, a, NULL), PF_OK);
    assert_int_equal(pf_tokenizer_fingerprint(u, INT32_MAX, b, NULL), PF_OK);
    assert_int_equal(pf_tokenizer_fingerprint(v, INT32_MAX, c, NULL), PF_OK);
    assert_int_equal(pf_tokenizer_fingerprint(v, pf_tokenizer_vocab_size(v) - 1, e, NULL), PF_OK);
    assert_int_equal(pf_tokenizer_fingerprint(w, INT32_MAX, d, NULL), PF_OK);
    assert_memory_equal(a, b, 32);
    assert_memory_not_equal(a, c, 32); /* one token more */
    assert_memory_equal(a, e, 32);     /* that token has no row in the embedding */
    /* the 256 bytes as ids 0 to 255, hashed with another implementation of SHA-256 */
    static const uint8_t known[32] = { 0x4A, 0x3C, 0xBC, 0x05, 0x36, 0xC8, 0xCD, 0x34, 0xF6, 0x2D, 0xD3,
                                       0xF6, 0xD4, 0xF7, 0x94, 0x59, 0xAD, 0xB2, 0xEF, 0xC6, 0x4F, 0x5A,
                                       0xB0, 0x30, 0xAB, 0xED, 0xD4, 0x36, 0x88, 0x27, 0x94, 0xD8 };
    assert_memory_equal(d, known, 32);
    pf_tokenizer_close(t);
    pf_tokenizer_close(u);
    pf_tokenizer_close(v);
    pf_tokenizer_close(w);
}

/* --- other parts of the files --- */

static void bert_and_roberta_processing_add_cls_and_sep(void **state)
{
    (void)state;
    static const char *const processors[] = {
        "{\"type\": \"BertProcessing\", \"sep\": [\"</s>\", 257], \"cls\": [\"<s>\", 256]}",
        "{\"type\": \"RobertaProcessing\", \"sep\": [\"</s>\", 257], \"cls\": [\"<s>\", 256],"
        "\"trim_offsets\": true, \"add_prefix_space\": true}", /* it has no effect on ids */
    };
    for (int i = 0; i < 2; i++) {
        char top[512];
        snprintf(top, sizeof top,
                 "\"added_tokens\": [{\"id\": 256, \"content\": \"<s>\", \"special\": true},"
                 "{\"id\": 257, \"content\": \"</s>\", \"special\": true}], \"post_processor\": %s,",
                 processors[i]);
        pf_tokenizer *t = open_parts((parts){ .top = top });
        pf_tokens tokens = encode_bytes(t, "ab", 2, true);
        assert_int_equal(tokens.n, 4);
        assert_memory_equal(tokens.ids, ((int32_t[]){ 256, 'a', 'b', 257 }), 4 * sizeof(int32_t));
        pf_tokens_clear(&tokens);
        tokens = encode_bytes(t, "", 0, true);
        assert_int_equal(tokens.n, 2);
        pf_tokens_clear(&tokens);
        assert_ids(t, "ab", (int32_t[]){ 'a', 'b' }, 2); /* no special tokens */
        pf_tokenizer_close(t);
    }
}

static void truncation_and_padding_change_nothing(void **state)
{
    (void)state;
    pf_tokenizer *t = open_parts(
        (parts){ .top = "\"truncation\": {\"max_length\": 2, \"strategy\": \"LongestFirst\", \"stride\": 0,"
                        "\"direction\": \"Right\"}, \"padding\": {\"strategy\": {\"Fixed\": 9}, \"pad_id\": 0,"
                        "\"pad_token\": \"[PAD]\", \"direction\": \"Left\"}," });
    assert_ids(t, "abc", (int32_t[]){ 'a', 'b', 'c' }, 3);
    assert_ids(t, "a[PAD]", (int32_t[]){ 'a', 256 }, 2); /* it is a token, as in transformers */
    pf_tokenizer_close(t);
}

static void assert_decodes(const pf_tokenizer *t, const int32_t *ids, size_t n, const char *expected)
{
    pf_tokens tokens = { 0 };
    for (size_t i = 0; i < n; i++) assert_status(pf_tokens_push(&tokens, ids[i]), PF_OK);
    pf_bytes back = decode(t, &tokens);
    assert_int_equal(back.n, strlen(expected));
    assert_memory_equal(back.data, expected, back.n);
    pf_bytes_clear(&back);
    pf_tokens_clear(&tokens);
}

/* As in the library: the decoder gets the text in the vocabulary, whatever the pre-tokenizer. */
static void byte_level_decoder_maps_byte_characters_to_bytes(void **state)
{
    (void)state;
    char *text = build((parts){ .top = "\"added_tokens\": [{\"id\": 256, \"content\": \"<x>\"}]," });
    memcpy(strstr(text, "decoder"), "version", 7); /* removes the decoder */
    pf_tokenizer *t = open_text(text, NULL);
    assert_ids(t, "a \xC3\xA9<x>", (int32_t[]){ 'a', ' ', 0xC3, 0xA9, 256 }, 5);
    assert_decodes(t, (int32_t[]){ 'a', ' ', 0xC3, 0xA9, 256 }, 5, "a \xC4\xA0 \xC3\x83 \xC2\xA9 <x>");
    pf_tokenizer_close(t);
    free(text);

    t = open_parts((parts){ .pre = "null", .vocab = ",\"\u6f22\": 256" });
    assert_ids(t, "a\xC4\xA0\xC3\x83\xC2\xA9\xE6\xBC\xA2", (int32_t[]){ 'a', ' ', 0xC3, 0xA9, 256 }, 5);
    assert_decodes(t, (int32_t[]){ 'a', ' ', 0xC3, 0xA9, 256 }, 5, "a \xC3\xA9\xE6\xBC\xA2");
    pf_tokenizer_close(t);
}

static void gpt2_class_overrides_add_prefix_space(void **state)
{
    (void)state;
    static const char *const configs[] = { "{}", "{\"tokenizer_class\": \"GPT2Tokenizer\"}",
                                           "{\"tokenizer_class\": \"GPT2TokenizerFast\", \"add_prefix_space\": true}",
                                           "{\"tokenizer_class\": \"X\", \"add_prefix_space\": false}" };
    static const bool spaced[2][4] = { { false, false, true, false }, { true, false, true, true } };
    for (int filed = 0; filed < 2; filed++) {
        char *text =
            build((parts){ .pre = filed ? "{\"type\": \"ByteLevel\", \"add_prefix_space\": true}" : BYTE_LEVEL });
        for (int i = 0; i < 4; i++) {
            pf_tokenizer *t = open_text(text, configs[i]);
            if (spaced[filed][i])
                assert_ids(t, "a", (int32_t[]){ ' ', 'a' }, 2);
            else
                assert_ids(t, "a", (int32_t[]){ 'a' }, 1);
            pf_tokenizer_close(t);
        }
        free(text);
    }
}

static void cohere_class_overrides_add_prefix_space_in_a_sequence(void **state)
{
    (void)state;
    static const struct {
        const char *config;
        bool spaced;
    } cases[] = { { "{\"tokenizer_class\": \"CohereTokenizer\", \"add_prefix_space\": true}", true },
                  { "{\"tokenizer_class\": \"CohereTokenizer\"}", false },
                  { "{\"tokenizer_class\": \"GPT2Tokenizer\", \"add_prefix_space\": true}", false } };
    char *text = build((parts){ .pre = "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Digits\", "
                                       "\"individual_digits\": true}, " BYTE_LEVEL "]}" });
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        pf_tokenizer *t = open_text(text, cases[i].config);
        if (cases[i].spaced)
            assert_ids(t, "12", (int32_t[]){ ' ', '1', ' ', '2' }, 4);
        else
            assert_ids(t, "12", (int32_t[]){ '1', '2' }, 2);
        pf_tokenizer_close(t);
    }
    free(text);
}

static void directory_opens_with_and_without_tokenizer_config(void **state)
{
    (void)state;
    pf_temp_dir dir;
    pf_tokenizer *t = NULL;
    pf_error error = { 0 };
    pf_temp_dir_make(&dir);
    assert_status(pf_tokenizer_open(dir.path, &t, &error), PF_UNAVAILABLE);
    assert_says(error, "tokenizer.json");
    char *text = build((parts){ .vocab = ",\"<s>\":256" });
    pf_temp_write(&dir, "tokenizer.json", text, strlen(text));
    assert_ok(pf_tokenizer_open(dir.path, &t, &error), error);
    assert_int_equal(pf_tokenizer_find_added(t, "<s>"), -1);
    pf_tokenizer_close(t);
    pf_temp_write(&dir, "tokenizer_config.json", "{\"bos_token\": \"<s>\"}", 20);
    assert_ok(pf_tokenizer_open(dir.path, &t, &error), error);
    assert_int_equal(pf_tokenizer_find_added(t, "<s>"), 256);
    pf_tokenizer_close(t);
    pf_temp_write(&dir, "special_tokens_map.json", "{\"eos_token\": \"</s>\"}", 21);
    pf_temp_write(&dir, "added_tokens.json", "{\"<x>\": 9}", 10);
    assert_ok(pf_tokenizer_open(dir.path, &t, &error), error);
    assert_int_equal(pf_tokenizer_find_added(t, "<x>"), 257);
    assert_int_equal(pf_tokenizer_find_added(t, "</s>"), 258);
    pf_tokenizer_close(t);
    pf_temp_write(&dir, "added_tokens.json", "[", 1);
    assert_status(pf_tokenizer_open(dir.path, &t, &error), PF_FORMAT);
    assert_says(error, "added_tokens.json");
    pf_temp_write(&dir, "tokenizer_config.json", "{\"added_tokens_decoder\": {}}", 28);
    assert_ok(pf_tokenizer_open(dir.path, &t, &error), error); /* the older files are ignored */
    assert_int_equal(pf_tokenizer_find_added(t, "</s>"), -1);
    pf_tokenizer_close(t);
    pf_temp_write(&dir, "tokenizer_config.json", "{", 1);
    assert_status(pf_tokenizer_open(dir.path, &t, &error), PF_FORMAT);
    assert_says(error, "tokenizer_config.json");
    pf_temp_write(&dir, "tokenizer.json", text, strlen(text) / 2);
    pf_temp_write(&dir, "tokenizer_config.json", "{}", 2);
    assert_status(pf_tokenizer_open(dir.path, &t, &error), PF_FORMAT);
    free(text);
    pf_temp_dir_remove(&dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_and_texts_equal_the_reference),
        cmocka_unit_test(any_bytes_round_trip),
        cmocka_unit_test(invalid_utf8_bytes_are_separate_tokens),
        cmocka_unit_test(no_prefix_space_after_invalid_utf8),
        cmocka_unit_test(cancel_ends_encoding_of_invalid_utf8),
        cmocka_unit_test(long_piece_takes_n_log_n_time),
        cmocka_unit_test(characters_newer_than_unicode_9_are_not_normalized),
        cmocka_unit_test(long_run_of_marks_is_ordered_in_linear_time),
        cmocka_unit_test(normal_form_of_a_long_text_joins_across_chunks),
        cmocka_unit_test(hangul_syllable_composes_with_trailing_consonant_only),
        cmocka_unit_test(cancel_ends_a_normalizer_step),
        cmocka_unit_test(unknown_parts_are_refused_by_name),
        cmocka_unit_test(hostile_pattern_ends_in_pf_limit),
        cmocka_unit_test(many_slow_searches_are_allowed),
        cmocka_unit_test(match_over_megabytes_is_bounded_by_memory),
        cmocka_unit_test(equal_vocabularies_have_equal_fingerprints),
        cmocka_unit_test(bert_and_roberta_processing_add_cls_and_sep),
        cmocka_unit_test(truncation_and_padding_change_nothing),
        cmocka_unit_test(byte_level_decoder_maps_byte_characters_to_bytes),
        cmocka_unit_test(gpt2_class_overrides_add_prefix_space),
        cmocka_unit_test(cohere_class_overrides_add_prefix_space_in_a_sequence),
        cmocka_unit_test(directory_opens_with_and_without_tokenizer_config),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
