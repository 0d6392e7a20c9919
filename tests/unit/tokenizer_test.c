#include <jansson.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test.h"
#include "tokenizer/bpe.h"
#include "tokenizer/detokenize.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_parts.h"

static const char *const GOLDEN[] = { "gpt2",    "llama3", "qwen2",     "o200k",     "cl100k", "deepseek",
                                      "falcon",  "bloom",  "digits",    "behaviors", "flags",  "llama2",
                                      "mistral", "gemma",  "metaspace", "words" };

static pf_tokenizer *open_text(const char *text, const char *config)
{
    pf_tokenizer *t = NULL;
    pf_error error = { 0 };
    assert_ok(pf_tokenizer_parse(text, strlen(text), config, config ? strlen(config) : 0, &t, &error), error);
    return t;
}

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

static pf_tokens encode_bytes(const pf_tokenizer *t, const char *text, size_t n, bool add_special)
{
    pf_tokens out = { 0 };
    assert_status(pf_tokenizer_encode(t, text, n, add_special, &out), PF_OK);
    return out;
}

static pf_tokens encode(const pf_tokenizer *t, const char *text)
{
    return encode_bytes(t, text, strlen(text), false);
}

/* The bytes of ids. */
static pf_bytes decode(const pf_tokenizer *t, const pf_tokens *tokens)
{
    pf_bytes out = { .data = NULL };
    pf_detokenizer *d;
    assert_status(pf_detokenizer_create(t, &d), PF_OK);
    for (int32_t i = 0; i < tokens->n; i++) assert_status(pf_detokenizer_push(d, tokens->ids[i], &out), PF_OK);
    assert_status(pf_detokenizer_finish(d, &out), PF_OK);
    pf_detokenizer_destroy(d);
    return out;
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

/* --- against Hugging Face's library --- */

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

/* What the library has no bytes for it writes as U+FFFD: such texts say nothing here. */
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

static void ids_and_texts_are_those_of_the_reference_for_the_patterns_in_use(void **state)
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

/* --- any bytes --- */

static void any_bytes_come_back(void **state)
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

static void bytes_that_are_not_utf8_are_tokens_of_their_own(void **state)
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
    /* what is valid around them is split as if it stood alone */
    pf_tokens whole = encode_bytes(t, " the\xFF the", 9, false), part = encode(t, " the");
    assert_int_equal(whole.n, 2 * part.n + 1);
    assert_memory_equal(whole.ids, part.ids, (size_t)part.n * sizeof *part.ids);
    pf_tokens_clear(&whole);
    pf_tokens_clear(&part);
    pf_tokenizer_close(t);
}

static void a_long_piece_takes_n_log_n(void **state)
{
    (void)state;
    enum { N = 1 << 18 };
    pf_tokenizer *t = open_golden("llama3", NULL);
    char *text = malloc(N);
    assert_non_null(text);
    for (int i = 0; i < N; i++) text[i] = "aethrn"[(i * 7 + i / 13) % 6];
    const clock_t begin = clock();
    assert_comes_back(t, text, N);
    memset(text, ' ', N); /* one run of white space: the pattern backs up over all of it */
    assert_comes_back(t, text, N);
    const double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    if (seconds > 5.0) fail_msg("%d bytes took %.1f s", 2 * N, seconds);
    free(text);
    pf_tokenizer_close(t);
}

/* --- a small file, with parts put in --- */

/* All 256 bytes, as a file has them: ids 0 .. 255 in order of the byte. */
static void put_alphabet(char *out, size_t size)
{
    size_t used = 0;
    int next = 256;
    for (int b = 0; b < 256; b++) {
        const bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
        used += (size_t)snprintf(out + used, size - used, "%s\"\\u%04x\":%d", b ? "," : "", printable ? b : next++, b);
    }
}

typedef struct {
    const char *top;    /* fields of the file: "\"x\": y," */
    const char *pre;    /* the pre_tokenizer; NULL: ByteLevel without a pattern */
    const char *model;  /* fields of the model */
    const char *vocab;  /* ",\"ab\":256" */
    const char *merges; /* "\"a b\"" */
} parts;

#define BYTE_LEVEL "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": false}"
#define SPLIT(pattern)                                                                                              \
    "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", \"pattern\": {\"Regex\": \"" pattern "\"}," \
    "\"behavior\": \"Isolated\", \"invert\": false}," BYTE_LEVEL "]}"

static const char * or (const char *text, const char *otherwise)
{
    return text ? text : otherwise;
}

static char *build(parts p)
{
    enum { SIZE = 16384 };
    static char alphabet[8192];
    char *out = malloc(SIZE);
    assert_non_null(out);
    put_alphabet(alphabet, sizeof alphabet);
    const int n = snprintf(out, SIZE,
                           "{%s \"pre_tokenizer\": %s, \"decoder\": {\"type\": \"ByteLevel\"},"
                           "\"model\": {%s \"type\": \"BPE\", \"vocab\": {%s%s}, \"merges\": [%s]}}",
                           or (p.top, ""), or (p.pre, BYTE_LEVEL), or (p.model, ""), alphabet, or (p.vocab, ""),
                           or (p.merges, ""));
    assert_true(n > 0 && n < SIZE);
    return out;
}

static pf_tokenizer *open_parts(parts p)
{
    char *text = build(p);
    pf_tokenizer *t = open_text(text, NULL);
    free(text);
    return t;
}

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

static void assert_ids(const pf_tokenizer *t, const char *text, const int32_t *ids, int32_t n)
{
    pf_tokens got = encode(t, text);
    assert_int_equal(got.n, n);
    assert_memory_equal(got.ids, ids, (size_t)n * sizeof *ids);
    pf_tokens_clear(&got);
}

static size_t resident_bytes(void)
{
    char line[128];
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    fclose(file);
    char *resident; /* behind what there is in all */
    (void)strtoull(line, &resident, 10);
    return (size_t)strtoull(resident, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

static void stripping_white_space_that_is_tokens_takes_linear_time(void **state)
{
    (void)state;
    static const char *const flags[] = { "\"lstrip\": true", "\"rstrip\": true", "\"lstrip\": true, \"rstrip\": true" };
    enum { N = 100000 };
    char *text = malloc(N + 1), top[128];
    assert_non_null(text);
    memset(text, '\n', N);
    text[N] = '\0';
    for (size_t i = 0; i < PF_COUNT(flags); i++) {
        snprintf(top, sizeof top, "\"added_tokens\": [{\"id\": 256, \"content\": \"\\n\", %s}],", flags[i]);
        pf_tokenizer *t = open_parts((parts){ .top = top });
        const clock_t begin = clock();
        pf_tokens tokens = encode(t, text);
        const double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
        if (seconds > 2.0) fail_msg("%s: %d bytes took %.1f s", flags[i], N, seconds);
        assert_true(tokens.n > 0 && tokens.ids[0] == 256);
        pf_tokens_clear(&tokens);
        pf_tokenizer_close(t);
    }
    free(text);
}

static void ids_far_apart_take_no_memory_between_them(void **state)
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

static void merges_go_by_rank_then_from_the_left(void **state)
{
    (void)state;
    pf_tokenizer *t = open_parts((parts){ .vocab = ",\"bc\":256,\"ab\":257,\"aa\":258,\"abc\":259",
                                          .merges = "\"b c\", [\"a\", \"b\"], \"a a\", \"ab c\"" });
    assert_ids(t, "abc", (int32_t[]){ 'a', 256 }, 2); /* b c has the lower rank: abc is never reached */
    assert_ids(t, "ab", (int32_t[]){ 257 }, 1);
    assert_ids(t, "aaa", (int32_t[]){ 258, 'a' }, 2);
    pf_tokenizer_close(t);
}

static void a_merge_whose_tokens_have_changed_is_not_made(void **state)
{
    (void)state;
    pf_tokenizer *t =
        open_parts((parts){ .vocab = ",\"bc\":256,\"ab\":257,\"abc\":258", .merges = "\"b c\", \"a b\", \"a bc\"" });
    assert_ids(t, "abc", (int32_t[]){ 258 }, 1);
    pf_tokenizer_close(t);
}

/* Where a pattern matches nothing it still cuts, and ^ and $ are at every line: a b and a LF are kept apart by it. */
static void empty_matches_and_line_ends_cut(void **state)
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

/* Its pattern sees characters that stand for bytes: \u0120 is a space, and an e with an accent is two. */
static void a_split_behind_byte_level_cuts_between_bytes(void **state)
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
    assert_ids(t, "\xF2\xB2\xB3\x80", (int32_t[]){ 0xF2, 0xB2, 0xB3, 0x80 }, 4); /* two digits there */
    pf_tokenizer_close(t);
    t = open_parts((parts){ .vocab = vocab, .merges = merges });
    assert_ids(t, "12\xF2\xB2\xB3\x80", (int32_t[]){ 301, 0xF2, 302, 0x80 }, 4);
    pf_tokenizer_close(t);
#undef BEHIND
}

static void ignore_merges_takes_a_piece_that_is_a_token_whole(void **state)
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

#define ADDED(content, more) "{\"id\": 9, \"content\": \"" content "\"" more "}"

static void added_tokens_are_found_longest_first_and_numbered_on(void **state)
{
    (void)state;
    pf_tokenizer *t = open_parts((parts){
        .top = "\"added_tokens\": [" ADDED("<a>", ", \"special\": true") "," ADDED(
            "<a><b>", ", \"normalized\": false") "," ADDED("", "") "],",
    });
    assert_int_equal(pf_tokenizer_vocab_size(t), 258);
    assert_ids(t, "x<a><b><a>", (int32_t[]){ 'x', 257, 256 }, 3);
    assert_int_equal(pf_tokenizer_find_special(t, "<a>"), 256);
    assert_int_equal(pf_tokenizer_find_special(t, "<b>"), -1);
    assert_int_equal(pf_tokenizer_find_special(t, "a"), -1);
    assert_true(pf_tokenizer_is_special(t, 256));
    assert_false(pf_tokenizer_is_special(t, 257));
    assert_false(pf_tokenizer_is_special(t, -1));
    assert_false(pf_tokenizer_is_special(t, 100000));
    pf_tokenizer_close(t);
}

/* \u0120 stands for a space in the vocabulary, and is a letter in a text. */
static void an_added_token_is_known_by_its_text_not_by_the_bytes_it_stands_for(void **state)
{
    (void)state;
    pf_tokenizer *t = open_parts((parts){ .top = "\"added_tokens\": [" ADDED("\\u0120", "") "," ADDED(" ", "") "]," });
    assert_ids(t, "x \xC4\xA0", (int32_t[]){ 'x', 256, ' ' }, 3);
    assert_int_equal(pf_tokenizer_find_special(t, " "), 256);
    pf_tokenizer_close(t);
}

/* As the library does, whose decoder sees no difference. A space is no stand-in, so the second text has others than those. */
static void an_added_token_of_stand_ins_alone_is_decoded_to_their_bytes(void **state)
{
    (void)state;
    pf_tokenizer *t =
        open_parts((parts){ .top = "\"added_tokens\": [" ADDED("caf\\u00e9", "") "," ADDED("na\\u00efve x", "") "]," });
    pf_tokens tokens = encode(t, "na\xC3\xAFve xcaf\xC3\xA9");
    assert_int_equal(tokens.n, 2);
    pf_bytes text = decode(t, &tokens);
    const char expected[] = "na\xC3\xAFve xcaf\xE9";
    assert_int_equal(text.n, sizeof expected - 1);
    assert_memory_equal(text.data, expected, sizeof expected - 1);
    pf_bytes_clear(&text);
    pf_tokens_clear(&tokens);
    pf_tokenizer_close(t);
}

static void white_space_goes_to_the_first_token_that_takes_it(void **state)
{
    (void)state;
    pf_tokenizer *t = open_parts((parts){
        .top = "\"added_tokens\": [" ADDED("\\n", ", \"lstrip\": true, \"rstrip\": true, \"normalized\": false") "],",
    });
    assert_ids(t, "a \n\n b\n", (int32_t[]){ 'a', 256, 'b', 256 }, 4);
    pf_tokenizer_close(t);
}

static void of_two_added_tokens_that_normalise_alike_the_special_one_is_found(void **state)
{
    (void)state;
    pf_tokenizer *t = open_parts((parts){
        .top = "\"normalizer\": {\"type\": \"NFC\"}, \"added_tokens\": [" ADDED("xe\\u0301", "") "," ADDED(
            "x\\u00e9", ", \"special\": true, \"normalized\": true") "],",
    });
    assert_ids(t, "x\xC3\xA9 xe\xCC\x81", (int32_t[]){ 257, ' ', 257 }, 3);
    pf_tokenizer_close(t);
}

/* Unicode 10 gave U+1DF6 a class and Unicode 15 U+1E030 a decomposition; the library's tables are those of Unicode 9. */
static void a_character_later_than_the_librarys_tables_stays_where_it_is(void **state)
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

static void marks_without_end_are_ordered_in_time(void **state)
{
    (void)state;
    enum { PAIRS = 200000 }; /* of an acute and a dot below, which goes before it; the first dot joins the a */
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

static void holes_in_the_vocabulary_are_no_tokens(void **state)
{
    (void)state;
    pf_bytes text = { .data = NULL };
    pf_detokenizer *d;
    pf_tokenizer *t = open_parts(
        (parts){ .top = "\"added_tokens\": [" ADDED("<a>", "") "],", .vocab = ",\"zz\":1000", .merges = "\"z z\"" });
    assert_int_equal(pf_tokenizer_vocab_size(t), 1001);
    assert_int_equal(pf_tokenizer_find_special(t, "<a>"), 257); /* after the number of tokens, not the largest id */
    assert_ids(t, "zz", (int32_t[]){ 1000 }, 1);
    assert_status(pf_detokenizer_create(t, &d), PF_OK);
    assert_status(pf_detokenizer_push(d, 999, &text), PF_INVALID);
    assert_status(pf_detokenizer_push(d, 1001, &text), PF_INVALID);
    assert_status(pf_detokenizer_push(d, -1, &text), PF_INVALID);
    assert_int_equal(text.n, 0);
    pf_detokenizer_destroy(d);
    pf_tokenizer_close(t);
}

static void special_tokens_of_tokenizer_config_are_recognised(void **state)
{
    (void)state;
    char *text = build((parts){ .vocab = ",\"<s>\":256,\"</s>\":257" });
    pf_tokenizer *t = open_text(text, NULL);
    assert_ids(t, "<s>", (int32_t[]){ '<', 's', '>' }, 3);
    pf_tokenizer_close(t);
    t = open_text(text, "{\"bos_token\": \"<s>\", \"eos_token\": {\"content\": \"</s>\", \"lstrip\": true},"
                        "\"pad_token\": null, \"additional_special_tokens\": [\"<new>\"],"
                        "\"add_bos_token\": true, \"chat_template\": \"{{ x }}\"}");
    assert_ids(t, "<s>a </s><new>", (int32_t[]){ 256, 'a', 257, 258 }, 4);
    pf_tokens tokens = encode_bytes(t, "a", 1, true); /* tokenizer.json has no post-processor: nothing is added */
    assert_int_equal(tokens.n, 1);
    pf_tokens_clear(&tokens);
    pf_tokenizer_close(t);
    free(text);
}

static void flags_listed_beside_the_file_are_those_that_hold(void **state)
{
    (void)state;
    char *text = build((parts){ .top = "\"added_tokens\": [{\"id\": 256, \"content\": \"<s>\", \"lstrip\": true,"
                                       "\"special\": true, \"normalized\": false}]," });
    pf_tokenizer *t = open_text(text, NULL);
    assert_ids(t, "a <s> b", (int32_t[]){ 'a', 256, ' ', 'b' }, 4);
    pf_tokenizer_close(t);
    t = open_text(text, "{\"added_tokens_decoder\": {\"256\": {\"content\": \"<s>\", \"rstrip\": true}}}");
    assert_ids(t, "a <s> b", (int32_t[]){ 'a', ' ', 256, 'b' }, 4);
    assert_true(pf_tokenizer_is_special(t, 256)); /* which it has been from the start */
    pf_tokenizer_close(t);
    t = open_text(text, "{\"bos_token\": \"<s>\"}"); /* a name alone changes nothing */
    assert_ids(t, "a <s> b", (int32_t[]){ 'a', 256, ' ', 'b' }, 4);
    pf_tokenizer_close(t);
    free(text);
}

static void an_added_token_that_is_too_long_is_refused_under_its_files_name(void **state)
{
    (void)state;
    static char too_long[6000];
    snprintf(too_long, sizeof too_long, "{\"image_token\": \"%05000d\"}", 0);
    const char *const configs[] = { "{\"bos_token\": \"a\\u0000b\"}", too_long };
    char *text = build((parts){ .vocab = NULL });
    for (int i = 0; i < 2; i++) {
        pf_tokenizer *t = NULL;
        pf_error error = { 0 };
        assert_status(pf_tokenizer_parse(text, strlen(text), configs[i], strlen(configs[i]), &t, &error),
                      PF_UNSUPPORTED);
        assert_says(error, "tokenizer_config.json: the added token \"");
    }
    free(text);
}

static void split_special_tokens_are_text_like_any_other(void **state)
{
    (void)state;
    char *text = build((parts){
        .top = "\"added_tokens\": [{\"id\": 256, \"content\": \"<s>\", \"special\": true},"
               "{\"id\": 257, \"content\": \"s>\", \"normalized\": false}, {\"id\": 258, \"content\": \"tool\"}],"
               "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\":"
               "[{\"SpecialToken\": {\"id\": \"<s>\"}}, {\"Sequence\": {\"id\": \"A\"}}],"
               "\"special_tokens\": {\"<s>\": {\"ids\": [256]}}}," });
    pf_tokenizer *t = open_text(text, "{\"split_special_tokens\": true}");
    /* found, and so not what begins within it */
    assert_ids(t, "<s>tool", (int32_t[]){ '<', 's', '>', 258 }, 4);
    pf_tokens tokens = encode_bytes(t, "a", 1, true);
    assert_int_equal(tokens.n, 2);
    assert_int_equal(tokens.ids[0], 256);
    pf_tokens_clear(&tokens);
    pf_tokenizer_close(t);
    t = open_text(text, "{\"split_special_tokens\": false}");
    assert_ids(t, "<s>tool", (int32_t[]){ 256, 258 }, 2);
    pf_tokenizer_close(t);
    free(text);
}

static void truncation_and_padding_change_nothing(void **state)
{
    (void)state;
    pf_tokenizer *t = open_parts(
        (parts){ .top = "\"truncation\": {\"max_length\": 2, \"strategy\": \"LongestFirst\", \"stride\": 0,"
                        "\"direction\": \"Right\"}, \"padding\": {\"strategy\": {\"Fixed\": 9}, \"pad_id\": 0,"
                        "\"pad_token\": \"[PAD]\", \"direction\": \"Left\"}," });
    assert_ids(t, "abc", (int32_t[]){ 'a', 'b', 'c' }, 3);
    assert_ids(t, "a[PAD]", (int32_t[]){ 'a', 256 }, 2); /* but it is a token, as transformers makes it one */
    pf_tokenizer_close(t);
}

static void the_class_of_gpt2_has_the_word_on_the_space_before_a_text(void **state)
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

static void new_tokens_count_on_from_what_was_there_before_their_lot(void **state)
{
    (void)state;
    pf_tokenizer *t = open_parts((parts){ .vocab = ",\"zz\":1000",
                                          .top = "\"added_tokens\": [{\"id\": 1000, \"content\": \"zz\"},"
                                                 "{\"id\": 257, \"content\": \"<a>\"}]," });
    assert_int_equal(pf_tokenizer_find_special(t, "<a>"), 257);
    pf_tokenizer_close(t);
    char *text =
        build((parts){ .vocab = ",\"zz\":1000", .top = "\"added_tokens\": [{\"id\": 1000, \"content\": \"zz\"}]," });
    t = open_text(text, "{\"bos_token\": \"<a>\"}");
    assert_int_equal(pf_tokenizer_find_special(t, "<a>"), 1001);
    pf_tokenizer_close(t);
    free(text);
}

static void a_byte_without_a_token_fails_rather_than_vanish(void **state)
{
    (void)state;
    static const char text[] = "{\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}, "
                               "\"decoder\": {\"type\": \"ByteLevel\"},"
                               "\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}}";
    pf_tokenizer *t = open_text(text, NULL);
    pf_tokens out = { 0 };
    assert_status(pf_tokenizer_encode(t, "aa", 2, false, &out), PF_OK);
    assert_status(pf_tokenizer_encode(t, "a b", 3, false, &out), PF_UNSUPPORTED);
    assert_int_equal(out.n, 2); /* as before the failure */
    pf_tokens_clear(&out);
    pf_tokenizer_close(t);
}

static void a_byte_without_a_token_is_the_unknown_one_where_there_is_one(void **state)
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

    t = open_parts((parts){ .model = "\"byte_fallback\": true," }); /* no byte to fall back for */
    assert_ids(t, "a", (int32_t[]){ 'a' }, 1);
    pf_tokenizer_close(t);
    pf_error error = { 0 };
    t = NULL;
    static const char lacking[] = FEW("\"byte_fallback\": true,");
    assert_status(pf_tokenizer_parse(lacking, strlen(lacking), NULL, 0, &t, &error), PF_UNSUPPORTED);
    assert_says(error, "the byte 0 has no token");
#undef FEW
}

static void what_is_not_known_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        parts p;
        const char *part;
        pf_status status;
    } cases[] = {
        { { .top = "\"never\": 1," }, "never", PF_UNSUPPORTED },
        { { .top = "\"normalizer\": {\"type\": \"Precompiled\"}," }, "Precompiled", PF_UNSUPPORTED },
        { { .top = "\"normalizer\": {\"type\": \"Sequence\"}," }, "normalizers", PF_FORMAT },
        { { .top = "\"post_processor\": {\"type\": \"BertProcessing\"}," }, "BertProcessing", PF_UNSUPPORTED },
        { { .top = "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": []}," }, "lost", PF_FORMAT },
        { { .top = "\"post_processor\": {\"type\": \"Sequence\", \"processors\": ["
                   "{\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"s\"}},"
                   "{\"Sequence\": {\"id\": \"A\"}}], \"special_tokens\": {\"s\": {\"ids\": [1, 2]}}},"
                   "{\"type\": \"TemplateProcessing\", \"single\": [{\"Sequence\": {\"id\": \"A\"}}]}]}," },
          "a second TemplateProcessing",
          PF_UNSUPPORTED },
        { { .top = "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\":"
                   "\"x\"}}], \"special_tokens\": {\"x\": {\"ids\": [999]}}}," },
          "no token",
          PF_FORMAT },
        { { .top = "\"added_tokens\": [{\"id\": -1, \"content\": \"x\"}]," }, "id is -1", PF_FORMAT },
        { { .top = "\"added_tokens\": [{\"id\": 1}]," }, "content", PF_FORMAT },
        { { .top = "\"added_tokens\": [{\"id\": 1, \"content\": \"a\\u0000b\"}]," }, "NUL", PF_UNSUPPORTED },
        { { .pre = "null" }, "decoder is ByteLevel and pre_tokenizer has none", PF_UNSUPPORTED },
        { { .pre = "{\"type\": \"UnicodeScripts\"}" }, "UnicodeScripts", PF_UNSUPPORTED },
        { { .pre = "{\"type\": \"Sequence\", \"pretokenizers\": [" BYTE_LEVEL "," BYTE_LEVEL "]}" },
          "a second ByteLevel",
          PF_UNSUPPORTED },
        { { .pre = SPLIT("(") }, "unmatched (", PF_UNSUPPORTED },
        { { .pre = SPLIT("[a-z&&[^b]]") }, "intersection", PF_UNSUPPORTED },
        { { .pre = SPLIT("[a[^b]]") }, "negated character class inside", PF_UNSUPPORTED },
        { { .pre = SPLIT("[a[]b]]") }, "empty character class inside", PF_UNSUPPORTED },
        { { .pre = SPLIT("[a[b]") }, "does not end", PF_UNSUPPORTED },
        { { .pre = SPLIT("[a-[b]]") }, "a '-' beside", PF_UNSUPPORTED },
        { { .pre = SPLIT("[a[-b]]") }, "a '-' beside", PF_UNSUPPORTED },
        { { .pre = SPLIT("[[a-]b]") }, "a '-' beside", PF_UNSUPPORTED },
        { { .pre = SPLIT("[[a]-b]") }, "a '-' beside", PF_UNSUPPORTED },
        { { .pre = SPLIT("\\\\p{Nonsense}") }, "Nonsense", PF_UNSUPPORTED },
        { { .pre = SPLIT("(?<n>a)") }, "(?<", PF_UNSUPPORTED },
        { { .pre = SPLIT("a\\\\1") }, "\\1", PF_UNSUPPORTED },
        { { .pre = SPLIT("\\\\X") }, "\\X", PF_UNSUPPORTED }, /* where it ends differs from library to library */
        { { .model = "\"byte_fallback\": 1," }, "byte_fallback", PF_FORMAT },
        { { .model = "\"dropout\": 0.1," }, "dropout", PF_UNSUPPORTED },
        { { .model = "\"continuing_subword_prefix\": \"##\"," }, "continuing_subword_prefix", PF_UNSUPPORTED },
        { { .model = "\"end_of_word_suffix\": \"</w>\"," }, "end_of_word_suffix", PF_UNSUPPORTED },
        { { .model = "\"odd\": 1," }, "odd", PF_UNSUPPORTED },
        { { .vocab = ",\"x y\":3" }, "id 3", PF_FORMAT },
        { { .vocab = ",\"xy\":-3" }, "xy", PF_FORMAT },
        { { .vocab = ",\"xy\":99999999999" }, "xy", PF_FORMAT },
        { { .vocab = ",\"xy\":2.5" }, "xy", PF_FORMAT },
        { { .vocab = ",\"a\":400" }, "duplicate", PF_FORMAT },
        { { .merges = "\"a b\"" }, "\"ab\" is not in model.vocab", PF_FORMAT },
        { { .merges = "\"a b c\"" }, "merges[0]", PF_FORMAT },
        { { .merges = "[\"a\"]" }, "merges[0]", PF_FORMAT },
        { { .merges = "7" }, "merges[0]", PF_FORMAT },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) assert_refused(cases[i].p, cases[i].status, cases[i].part);
}

static void a_hostile_pattern_ends_in_a_limit(void **state)
{
    (void)state;
    pf_tokenizer *t = open_parts((parts){ .pre = SPLIT("(?:a|a)*(?:a|a)*c") });
    char text[4096];
    pf_tokens out = { 0 };
    memset(text, 'a', sizeof text);
    memcpy(text + sizeof text - 2, "bc", 2); /* what the pattern needs is there, but cannot be reached */
    assert_status(pf_tokenizer_encode(t, text, sizeof text, false, &out), PF_LIMIT);
    assert_int_equal(out.n, 0);
    pf_tokens_clear(&out);
    pf_tokenizer_close(t);
}

/* --- the fingerprint --- */

static void equal_vocabularies_have_one_fingerprint(void **state)
{
    (void)state;
    uint8_t a[32], b[32], c[32], d[32], e[32];
    pf_tokenizer *t = open_golden("gpt2", NULL), *u = open_golden("gpt2", "{\"eos_token\": \"<|end|>\"}");
    pf_tokenizer *v = open_golden("gpt2", "{\"pad_token\": \"<pad>\"}");
    pf_tokenizer *w = open_parts((parts){ .vocab = NULL });
    pf_tokenizer_fingerprint(t, INT32_MAX, a);
    pf_tokenizer_fingerprint(u, INT32_MAX, b);
    pf_tokenizer_fingerprint(v, INT32_MAX, c);
    pf_tokenizer_fingerprint(v, pf_tokenizer_vocab_size(v) - 1, e);
    pf_tokenizer_fingerprint(w, INT32_MAX, d);
    assert_memory_equal(a, b, 32);
    assert_memory_not_equal(a, c, 32); /* one token more */
    assert_memory_equal(a, e, 32);     /* for which the embedding has no row */
    /* of the 256 bytes as ids 0 to 255, by another implementation of SHA-256 */
    static const uint8_t known[32] = { 0x4A, 0x3C, 0xBC, 0x05, 0x36, 0xC8, 0xCD, 0x34, 0xF6, 0x2D, 0xD3,
                                       0xF6, 0xD4, 0xF7, 0x94, 0x59, 0xAD, 0xB2, 0xEF, 0xC6, 0x4F, 0x5A,
                                       0xB0, 0x30, 0xAB, 0xED, 0xD4, 0x36, 0x88, 0x27, 0x94, 0xD8 };
    assert_memory_equal(d, known, 32);
    pf_tokenizer_close(t);
    pf_tokenizer_close(u);
    pf_tokenizer_close(v);
    pf_tokenizer_close(w);
}

static void a_directory_is_read_with_and_without_its_configuration(void **state)
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
    assert_int_equal(pf_tokenizer_find_special(t, "<s>"), -1);
    pf_tokenizer_close(t);
    pf_temp_write(&dir, "tokenizer_config.json", "{\"bos_token\": \"<s>\"}", 20);
    assert_ok(pf_tokenizer_open(dir.path, &t, &error), error);
    assert_int_equal(pf_tokenizer_find_special(t, "<s>"), 256);
    pf_tokenizer_close(t);
    pf_temp_write(&dir, "special_tokens_map.json", "{\"eos_token\": \"</s>\"}", 21);
    pf_temp_write(&dir, "added_tokens.json", "{\"<x>\": 9}", 10);
    assert_ok(pf_tokenizer_open(dir.path, &t, &error), error);
    assert_int_equal(pf_tokenizer_find_special(t, "<x>"), 257);
    assert_int_equal(pf_tokenizer_find_special(t, "</s>"), 258);
    pf_tokenizer_close(t);
    pf_temp_write(&dir, "added_tokens.json", "[", 1);
    assert_status(pf_tokenizer_open(dir.path, &t, &error), PF_FORMAT);
    assert_says(error, "added_tokens.json");
    pf_temp_write(&dir, "tokenizer_config.json", "{\"added_tokens_decoder\": {}}", 28);
    assert_ok(pf_tokenizer_open(dir.path, &t, &error), error); /* nobody asks the older files */
    assert_int_equal(pf_tokenizer_find_special(t, "</s>"), -1);
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
        cmocka_unit_test(ids_and_texts_are_those_of_the_reference_for_the_patterns_in_use),
        cmocka_unit_test(any_bytes_come_back),
        cmocka_unit_test(bytes_that_are_not_utf8_are_tokens_of_their_own),
        cmocka_unit_test(a_long_piece_takes_n_log_n),
        cmocka_unit_test(stripping_white_space_that_is_tokens_takes_linear_time),
        cmocka_unit_test(ids_far_apart_take_no_memory_between_them),
        cmocka_unit_test(merges_go_by_rank_then_from_the_left),
        cmocka_unit_test(a_merge_whose_tokens_have_changed_is_not_made),
        cmocka_unit_test(empty_matches_and_line_ends_cut),
        cmocka_unit_test(a_split_behind_byte_level_cuts_between_bytes),
        cmocka_unit_test(ignore_merges_takes_a_piece_that_is_a_token_whole),
        cmocka_unit_test(added_tokens_are_found_longest_first_and_numbered_on),
        cmocka_unit_test(an_added_token_is_known_by_its_text_not_by_the_bytes_it_stands_for),
        cmocka_unit_test(an_added_token_of_stand_ins_alone_is_decoded_to_their_bytes),
        cmocka_unit_test(white_space_goes_to_the_first_token_that_takes_it),
        cmocka_unit_test(of_two_added_tokens_that_normalise_alike_the_special_one_is_found),
        cmocka_unit_test(a_character_later_than_the_librarys_tables_stays_where_it_is),
        cmocka_unit_test(marks_without_end_are_ordered_in_time),
        cmocka_unit_test(holes_in_the_vocabulary_are_no_tokens),
        cmocka_unit_test(special_tokens_of_tokenizer_config_are_recognised),
        cmocka_unit_test(flags_listed_beside_the_file_are_those_that_hold),
        cmocka_unit_test(an_added_token_that_is_too_long_is_refused_under_its_files_name),
        cmocka_unit_test(split_special_tokens_are_text_like_any_other),
        cmocka_unit_test(truncation_and_padding_change_nothing),
        cmocka_unit_test(the_class_of_gpt2_has_the_word_on_the_space_before_a_text),
        cmocka_unit_test(new_tokens_count_on_from_what_was_there_before_their_lot),
        cmocka_unit_test(a_byte_without_a_token_fails_rather_than_vanish),
        cmocka_unit_test(a_byte_without_a_token_is_the_unknown_one_where_there_is_one),
        cmocka_unit_test(what_is_not_known_is_refused_by_name),
        cmocka_unit_test(a_hostile_pattern_ends_in_a_limit),
        cmocka_unit_test(equal_vocabularies_have_one_fingerprint),
        cmocka_unit_test(a_directory_is_read_with_and_without_its_configuration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
