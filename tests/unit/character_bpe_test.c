/* BPE without ByteLevel: pieces that are characters, the parts around it that SentencePiece's models are written with, and
 * the way back. What the library makes of them is in tests/golden/tokenizer; here is what it has no say on, and why. */
#include <stdlib.h>
#include <time.h>

#include "tests/support/test.h"
#include "tokenizer/detokenize.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_parts.h"

enum { UNK = 0, N_FIRST = 8, BYTES = 1000 };

/* ids: <unk> 0, ▁ 1, a 2, b 3, ab 4, ▁a 5, space 6, ▁▁ 7; the bytes from BYTES on */
static const char VOCAB[] =
    "\"<unk>\":0,\"\u2581\":1,\"a\":2,\"b\":3,\"ab\":4,\"\u2581a\":5,\" \":6,\"\u2581\u2581\":7";
static const char MERGES[] = "[\"a\",\"b\"],\"\u2581 a\",\"\u2581 \u2581\"";

typedef struct {
    const char *top;   /* fields of the file: "\"x\": y," */
    const char *model; /* fields of the model */
    bool bytes;        /* with a token for each */
    int lacked;        /* but for this one; 0: none */
} parts;

static char *build(parts p)
{
    enum { SIZE = 16384 };
    char *out = malloc(SIZE);
    assert_non_null(out);
    int n = snprintf(out, SIZE,
                     "{%s \"model\": {%s \"type\": \"BPE\", \"unk_token\": \"<unk>\", \"byte_fallback\": true,"
                     "\"merges\": [%s], \"vocab\": {%s",
                     p.top ? p.top : "", p.model ? p.model : "", MERGES, VOCAB);
    for (int b = 0; p.bytes && b < 256; b++)
        if (b == 0 || b != p.lacked) n += snprintf(out + n, (size_t)(SIZE - n), ",\"<0x%02X>\":%d", b, BYTES + b);
    n += snprintf(out + n, (size_t)(SIZE - n), "}}}");
    assert_true(n < SIZE);
    return out;
}

static pf_status open_as(parts p, pf_tokenizer **out, pf_error *error)
{
    char *text = build(p);
    const pf_status status = pf_tokenizer_parse(text, strlen(text), NULL, 0, out, error);
    free(text);
    return status;
}

static pf_tokenizer *open_parts(parts p)
{
    pf_tokenizer *t = NULL;
    pf_error error = { 0 };
    assert_ok(open_as(p, &t, &error), error);
    return t;
}

static void assert_ids(const pf_tokenizer *t, const char *text, size_t n, const int32_t *ids, int32_t n_ids)
{
    pf_tokens got = { 0 };
    assert_status(pf_tokenizer_encode(t, text, n, false, NULL, &got), PF_OK);
    assert_int_equal(got.n, n_ids);
    if (n_ids > 0) assert_memory_equal(got.ids, ids, (size_t)n_ids * sizeof *ids);
    pf_tokens_clear(&got);
}

#define ASSERT_IDS(t, text, ...)                                            \
    assert_ids(t, text, sizeof(text) - 1, (const int32_t[]){ __VA_ARGS__ }, \
               (int32_t)(sizeof((const int32_t[]){ __VA_ARGS__ }) / sizeof(int32_t)))

static pf_bytes decode(const pf_tokenizer *t, const int32_t *ids, size_t n)
{
    pf_bytes out = { .data = NULL };
    pf_detokenizer *d;
    assert_status(pf_detokenizer_create(t, &d), PF_OK);
    for (size_t i = 0; i < n; i++) assert_status(pf_detokenizer_push(d, ids[i], &out), PF_OK);
    assert_status(pf_detokenizer_finish(d, &out), PF_OK);
    pf_detokenizer_destroy(d);
    return out;
}

static void assert_text(const pf_tokenizer *t, const int32_t *ids, size_t n, const char *expected, size_t n_expected)
{
    pf_bytes got = decode(t, ids, n);
    assert_int_equal(got.n, n_expected);
    if (n_expected > 0) assert_memory_equal(got.data, expected, n_expected);
    pf_bytes_clear(&got);
}

#define ASSERT_TEXT(t, expected, ...)                                                                            \
    assert_text(t, (const int32_t[]){ __VA_ARGS__ }, sizeof((const int32_t[]){ __VA_ARGS__ }) / sizeof(int32_t), \
                expected, sizeof(expected) - 1)

#define PREPEND            "{\"type\":\"Prepend\",\"prepend\":\"\u2581\"}"
#define SPACES             "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\u2581\"}"
#define LLAMA_NORMALIZER   "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[" PREPEND "," SPACES "]},"
#define UNDO               "{\"type\":\"Replace\",\"pattern\":{\"String\":\"\u2581\"},\"content\":\" \"}"
#define STRIP(start, stop) "{\"type\":\"Strip\",\"content\":\" \",\"start\":" #start ",\"stop\":" #stop "}"
#define DECODER(list)      "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[" list "]},"
#define LLAMA              LLAMA_NORMALIZER DECODER(UNDO ",{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}," STRIP(1, 0))
#define METASPACE(scheme) \
    "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\u2581\",\"prepend_scheme\":\"" scheme "\"},"

/* ---- text to ids ------------------------------------------------------------------------------------------------ */

static void a_character_without_a_token_becomes_its_bytes(void **state)
{
    (void)state;
    pf_tokenizer *t = open_parts((parts){ .top = LLAMA, .bytes = true });
    ASSERT_IDS(t, "a b", 5, 1, 3);
    ASSERT_IDS(t, "\xC3\xA9", 1, BYTES + 0xC3, BYTES + 0xA9);
    ASSERT_IDS(t, "a\n", 5, BYTES + '\n');
    pf_tokenizer_close(t);
    t = open_parts((parts){ .top = LLAMA });
    ASSERT_IDS(t, "a\xC3\xA9\xC3\xA9", 5, UNK, UNK);
    pf_tokenizer_close(t);
    t = open_parts((parts){ .top = LLAMA, .model = "\"fuse_unk\": true," });
    ASSERT_IDS(t, "a\xC3\xA9\xC3\xA9", 5, UNK);
    pf_tokenizer_close(t);
}

/* And the token that stands for it comes behind what is bytes, as in the library. */
static void a_character_of_which_one_byte_has_no_token_is_unknown(void **state)
{
    (void)state;
    pf_tokenizer *t = open_parts((parts){ .top = LLAMA, .bytes = true, .lacked = 0xA9 });
    ASSERT_IDS(t, "a\xC3\xA8", 5, BYTES + 0xC3, BYTES + 0xA8);
    ASSERT_IDS(t, "a\xC3\xA9", 5, UNK);
    ASSERT_IDS(t, "a\xC3\xA9\n", 5, BYTES + '\n', UNK);
    pf_tokenizer_close(t);
}

static void bytes_that_are_no_text_come_back_and_nothing_is_put_behind_them(void **state)
{
    (void)state;
    pf_tokenizer *t = open_parts((parts){ .top = LLAMA, .bytes = true });
    ASSERT_IDS(t,
               "\xFF"
               "a",
               BYTES + 0xFF, 2);
    ASSERT_IDS(t, "a\xC3 a", 5, BYTES + 0xC3, 5);
    ASSERT_TEXT(t, "a\xC3 a", 5, BYTES + 0xC3, 5);
    pf_tokenizer_close(t);
    t = open_parts((parts){
        .top = METASPACE("always") "\"decoder\":{\"type\":\"Metaspace\",\"replacement\":\"\u2581\"},", .bytes = true });
    ASSERT_IDS(t,
               "\xFF"
               "a",
               BYTES + 0xFF, 2);
    pf_tokenizer_close(t);
    t = open_parts(
        (parts){ .top = METASPACE("always") "\"added_tokens\":[{\"id\":8,\"content\":\"<s>\",\"normalized\":true}],",
                 .bytes = true });
    ASSERT_IDS(t,
               "\xFF"
               "a<s>a",
               BYTES + 0xFF, 2, N_FIRST + 256, 5);
    pf_tokenizer_close(t);
    t = open_parts((parts){ .top = LLAMA }); /* there are no bytes, but a token for what is unknown */
    ASSERT_IDS(t, "a\xFF", 5, UNK);
    pf_tokenizer_close(t);
}

/* The first character may be gone, or have become several: as the library counts, by where a piece comes from. */
static void the_first_piece_is_the_one_that_comes_from_the_start(void **state)
{
    (void)state;
    pf_tokenizer *t = open_parts((parts){ .top = METASPACE("first") });
    ASSERT_IDS(t, "a", 5);
    ASSERT_IDS(t, "a a", 5, 5);
    pf_tokenizer_close(t);
    t = open_parts((parts){
        .top = METASPACE("first") "\"normalizer\":{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":false}," });
    ASSERT_IDS(t, "a", 5);
    ASSERT_IDS(t, "\ta", 2);
    pf_tokenizer_close(t);
    t = open_parts(
        (parts){ .top = METASPACE("first") "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":["
                                           "{\"type\":\"Prepend\",\"prepend\":\" \"},"
                                           "{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":false}]}," });
    ASSERT_IDS(t, "a", 5);
    pf_tokenizer_close(t);
    t = open_parts((parts){ .top = METASPACE("first") "\"added_tokens\":[{\"id\":9,\"content\":\"<s>\"}]," });
    ASSERT_IDS(t, "<s>a", N_FIRST, 2);
    pf_tokenizer_close(t);
    t = open_parts((parts){ .top = METASPACE("always") "\"added_tokens\":[{\"id\":9,\"content\":\"<s>\"}]," });
    ASSERT_IDS(t, "<s>a", N_FIRST, 5);
    pf_tokenizer_close(t);
}

static void a_long_text_that_is_one_piece_takes_n_log_n(void **state)
{
    (void)state;
    enum { N = 1 << 20 };
    static const char *const units[] = { "a", "ab", " ", "ab a  b", "\xF0\x9F\x98\x80", "\n" };
    pf_tokenizer *t = open_parts((parts){ .top = LLAMA, .bytes = true });
    char *text = malloc(N);
    assert_non_null(text);
    for (size_t u = 0; u < PF_COUNT(units); u++) {
        pf_tokens ids = { 0 };
        size_t n = 0;
        for (const size_t n_unit = strlen(units[u]); n + n_unit <= N; n += n_unit) memcpy(text + n, units[u], n_unit);
        const clock_t begin = clock();
        assert_status(pf_tokenizer_encode(t, text, n, false, NULL, &ids), PF_OK);
        pf_bytes back = decode(t, ids.ids, (size_t)ids.n);
        const double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
        if (seconds > 8.0) fail_msg("\"%s\": %zu bytes took %.1f s", units[u], n, seconds);
        assert_int_equal(back.n, n);
        assert_memory_equal(back.data, text, n);
        pf_bytes_clear(&back);
        pf_tokens_clear(&ids);
    }
    free(text);
    pf_tokenizer_close(t);
}

/* ---- ids to text ------------------------------------------------------------------------------------------------ */

static void text_comes_as_its_tokens_do(void **state)
{
    (void)state;
    static const struct {
        int32_t id;
        const char *adds;
    } steps[] = { { 5, "a" },  { 1, " " },      { BYTES + 0xC3, "\xC3" }, { BYTES + 0xA9, "\xA9" },
                  { 5, " a" }, { UNK, "<unk>" } };
    pf_tokenizer *t = open_parts((parts){ .top = LLAMA, .bytes = true });
    pf_detokenizer *d;
    pf_bytes text = { .data = NULL };
    assert_status(pf_detokenizer_create(t, &d), PF_OK);
    for (size_t i = 0; i < PF_COUNT(steps); i++) {
        const size_t before = text.n;
        assert_status(pf_detokenizer_push(d, steps[i].id, &text), PF_OK);
        assert_int_equal(text.n - before, strlen(steps[i].adds));
        assert_memory_equal(text.data + before, steps[i].adds, text.n - before);
    }
    assert_status(pf_detokenizer_push(d, 500, &text), PF_INVALID);
    pf_bytes_clear(&text);
    pf_detokenizer_destroy(d);
    pf_tokenizer_close(t);
}

static void what_is_stripped_from_the_end_waits_for_it(void **state)
{
    (void)state;
    pf_tokenizer *t = open_parts((parts){ .top = DECODER(UNDO ",{\"type\":\"Fuse\"}," STRIP(2, 2)) });
    ASSERT_TEXT(t, "", 1);
    ASSERT_TEXT(t, "", 7, 7);
    ASSERT_TEXT(t, "a", 7, 2, 7);
    ASSERT_TEXT(t, " a ", 7, 1, 2, 7, 1);
    ASSERT_TEXT(t, "a  a", 2, 7, 2);
    pf_tokenizer_close(t);
    t = open_parts((parts){ .top = DECODER(UNDO "," STRIP(1, 1)) }); /* of each token */
    ASSERT_TEXT(t, "aa", 5, 1, 5);
    pf_tokenizer_close(t);
}

static void a_character_to_strip_is_found_behind_a_part_of_one(void **state)
{
    (void)state;
    pf_tokenizer *t =
        open_parts((parts){ .top = DECODER("{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\","
                                           "\"content\":\"▁\",\"start\":0,\"stop\":1}"),
                            .bytes = true });
    ASSERT_TEXT(t, "a\xE2", 2, BYTES + 0xE2, 1);
    ASSERT_TEXT(t, "a\xE2\x96", 2, BYTES + 0xE2, BYTES + 0x96, 1);
    pf_tokenizer_close(t);
}

/* Against the definition: the parts joined, then replaced from the left. */
static void a_replacement_is_found_across_tokens(void **state)
{
    (void)state;
    static const char pattern[] = "abaab";
    pf_tokenizer *t = open_parts((parts){
        .top = DECODER(
            "{\"type\":\"Fuse\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\"abaab\"},\"content\":\"-\"}") });
    srand(3);
    for (int trial = 0; trial < 3000; trial++) {
        int32_t ids[24];
        char all[64] = "", expected[64] = "";
        for (int i = 0; i < 24; i++) {
            ids[i] = 2 + rand() % 3;
            strcat(all, (const char *[]){ "a", "b", "ab" }[ids[i] - 2]);
        }
        size_t n = 0;
        for (const char *at = all; *at;) {
            const bool found = strncmp(at, pattern, sizeof pattern - 1) == 0;
            expected[n++] = found ? '-' : *at;
            at += found ? sizeof pattern - 1 : 1;
        }
        assert_text(t, ids, 24, expected, n);
    }
    pf_tokenizer_close(t);
}

static void bytes_in_a_row_are_one_token_to_what_follows(void **state)
{
    (void)state;
    pf_tokenizer *t =
        open_parts((parts){ .top = DECODER("{\"type\":\"ByteFallback\"},"
                                           "{\"type\":\"Replace\",\"pattern\":{\"String\":\"ab\"},\"content\":\"-\"}"),
                            .bytes = true });
    ASSERT_TEXT(t, "-", BYTES + 'a', BYTES + 'b');
    ASSERT_TEXT(t, "ab", BYTES + 'a', 3);
    ASSERT_TEXT(t, "b-a", 3, BYTES + 'a', BYTES + 'b', BYTES + 'a');
    pf_tokenizer_close(t);
}

/* A sign in front of a digit, and nothing else that is two characters. */
static void a_byte_may_be_written_with_a_sign(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "<0x+a>", "\n" },     { "<0x0A>", "\n" },     { "<0x-A>", "<0x-A>" },
        { "<0xA+>", "<0xA+>" }, { "<0x++>", "<0x++>" }, { "<0x A>", "<0x A>" },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        char top[256];
        snprintf(top, sizeof top, "%s\"added_tokens\":[{\"id\":8,\"content\":\"%s\"}],",
                 DECODER("{\"type\":\"ByteFallback\"}"), cases[i][0]);
        pf_tokenizer *t = open_parts((parts){ .top = top });
        assert_text(t, (const int32_t[]){ N_FIRST }, 1, cases[i][1], strlen(cases[i][1]));
        pf_tokenizer_close(t);
    }
}

static void the_space_that_a_metaspace_began_the_text_with_is_dropped_unless_it_writes_none(void **state)
{
    (void)state;
    static const struct {
        const char *scheme, *expected;
    } cases[] = { { "always", "a a" }, { "first", "a a" }, { "never", " a a" } };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        char top[128];
        snprintf(top, sizeof top,
                 "\"decoder\":{\"type\":\"Metaspace\",\"replacement\":\"\u2581\",\"prepend_scheme\":\"%s\"},",
                 cases[i].scheme);
        pf_tokenizer *t = open_parts((parts){ .top = top });
        assert_text(t, (const int32_t[]){ 5, 5 }, 2, cases[i].expected, strlen(cases[i].expected));
        pf_tokenizer_close(t);
    }
}

static void without_a_decoder_tokens_are_joined_by_spaces(void **state)
{
    (void)state;
    pf_tokenizer *t = open_parts((parts){ .top = NULL });
    ASSERT_TEXT(t, "a ab b", 2, 4, 3);
    pf_tokenizer_close(t);
}

static void an_added_token_is_shown_as_the_normalizers_leave_it(void **state)
{
    (void)state;
    pf_tokenizer *t =
        open_parts((parts){ .top = LLAMA "\"added_tokens\":[{\"id\":8,\"content\":\"word\",\"normalized\":true},"
                                         "{\"id\":9,\"content\":\"<s>\",\"special\":true,\"normalized\":false}]," });
    ASSERT_IDS(t, "a word", 5, N_FIRST);
    ASSERT_TEXT(t, "a word", 5, N_FIRST);
    ASSERT_TEXT(t, "<s> word", N_FIRST + 1, N_FIRST);
    pf_tokenizer_close(t);
}

/* ---- what is refused, and what a hostile file can ask for --------------------------------------------------------- */

static void what_is_not_known_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *top, *part;
        pf_status status;
    } cases[] = {
        { "\"decoder\":{\"type\":\"CTC\"},", "CTC", PF_UNSUPPORTED },
        { DECODER("{\"type\":\"Fuse\"},{\"type\":\"ByteFallback\"}"), "ByteFallback", PF_UNSUPPORTED },
        { DECODER("{\"type\":\"Fuse\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a\"},\"content\":\"\"}"),
          "must be a String", PF_UNSUPPORTED },
        { DECODER("{\"type\":\"Fuse\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\",\"Regex\":\"b\"},"
                  "\"content\":\"\"}"),
          "must be a String", PF_UNSUPPORTED },
        { DECODER("{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"}}"),
          "decoder: Replace: expected a string content", PF_FORMAT },
        { DECODER("{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"sometimes\"}"), "sometimes",
          PF_FORMAT },
        { DECODER(
              "{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"first\",\"add_prefix_space\":false}"),
          "decoder: Metaspace: add_prefix_space is false", PF_FORMAT },
        { DECODER("{\"type\":\"Strip\",\"content\":\"ab\",\"start\":1,\"stop\":0}"), "one character", PF_FORMAT },
        { DECODER("{\"type\":\"Strip\",\"content\":\"a\",\"start\":-1,\"stop\":0}"), "decoder: Strip: start is -1",
          PF_FORMAT },
        { "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"}},", "content", PF_FORMAT },
        { "\"normalizer\":{\"type\":\"Replace\",\"pattern\":\"a\",\"content\":\"b\"},",
          "normalizer: Replace: pattern must be", PF_FORMAT },
        { "\"normalizer\":{\"type\":\"Prepend\"},", "prepend", PF_FORMAT },
        { "\"normalizer\":{\"type\":\"Strip\",\"strip_left\":true},", "normalizer: Strip: strip_right is absent",
          PF_FORMAT },
        { "\"normalizer\":{\"type\":\"BertNormalizer\"},", "BertNormalizer", PF_UNSUPPORTED },
        { METASPACE("sometimes"), "sometimes", PF_FORMAT },
        { "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"ab\"},", "one character", PF_FORMAT },
        { "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\",\"add_prefix_space\":false},",
          "add_prefix_space is false", PF_FORMAT },
        { "\"pre_tokenizer\":{\"type\":\"FixedLength\",\"length\":0},", "pre_tokenizer: FixedLength: length is 0",
          PF_FORMAT },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        pf_tokenizer *t = NULL;
        pf_error error = { 0 };
        assert_status(open_as((parts){ .top = cases[i].top }, &t, &error), cases[i].status);
        assert_says(error, cases[i].part);
        assert_null(t);
    }
}

/* "a" becomes 64 characters, each of these 64, and so on. */
static void a_text_that_normalizers_make_endless_ends_in_a_limit(void **state)
{
    (void)state;
    char top[8192], many[65];
    memset(many, 'a', 64);
    many[64] = '\0';
    int n = snprintf(top, sizeof top, "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
    for (int i = 0; i < 8; i++)
        n += snprintf(top + n, sizeof top - (size_t)n,
                      "%s{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"%s\"}", i ? "," : "", many);
    snprintf(top + n, sizeof top - (size_t)n, "]},");
    pf_tokenizer *t = open_parts((parts){ .top = top });
    pf_tokens out = { 0 };
    const clock_t begin = clock();
    assert_status(pf_tokenizer_encode(t, "a", 1, false, NULL, &out), PF_LIMIT);
    assert_true((double)(clock() - begin) / CLOCKS_PER_SEC < 1.0);
    assert_int_equal(out.n, 0);
    pf_tokenizer_close(t);
}

/* A Metaspace before every character, and a cut at every character, again and again. */
static void a_text_that_metaspaces_make_endless_ends_in_a_limit(void **state)
{
    (void)state;
    static const char cut[] = "{\"type\":\"FixedLength\",\"length\":1},";
    char top[8192];
    int n = snprintf(top, sizeof top, "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[");
    for (int i = 0; i < 31; i++)
        n += snprintf(top + n, sizeof top - (size_t)n, "%s{\"type\":\"Metaspace\",\"replacement\":\"%c\"},", cut,
                      'c' + i % 2);
    snprintf(top + n, sizeof top - (size_t)n, "{\"type\":\"Digits\"}]},");
    pf_tokenizer *t = open_parts((parts){ .top = top });
    pf_tokens out = { 0 };
    const clock_t begin = clock();
    assert_status(pf_tokenizer_encode(t, "abab", 4, false, NULL, &out), PF_LIMIT);
    assert_true((double)(clock() - begin) / CLOCKS_PER_SEC < 5.0);
    pf_tokenizer_close(t);
}

static void a_token_that_decoders_make_endless_ends_in_a_limit(void **state)
{
    (void)state;
    char top[8192], many[65];
    memset(many, 'a', 64);
    many[64] = '\0';
    for (int spells = 0; spells < 2; spells++) {
        int n = snprintf(top, sizeof top, "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[%s",
                         spells ? "" : "{\"type\":\"Fuse\"},");
        for (int i = 0; i < 8; i++)
            n += snprintf(top + n, sizeof top - (size_t)n,
                          "%s{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"%s\"}", i ? "," : "",
                          many);
        snprintf(top + n, sizeof top - (size_t)n, "]},");
        pf_tokenizer *t = NULL;
        pf_error error = { 0 };
        if (spells) {
            assert_status(open_as((parts){ .top = top }, &t, &error), PF_LIMIT);
            assert_says(error, "decoder");
            continue;
        }
        assert_ok(open_as((parts){ .top = top }, &t, &error), error);
        pf_detokenizer *d;
        pf_bytes text = { .data = NULL };
        assert_status(pf_detokenizer_create(t, &d), PF_OK);
        assert_status(pf_detokenizer_push(d, 2, &text), PF_LIMIT);
        pf_bytes_clear(&text);
        pf_detokenizer_destroy(d);
        pf_tokenizer_close(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_character_without_a_token_becomes_its_bytes),
        cmocka_unit_test(a_character_of_which_one_byte_has_no_token_is_unknown),
        cmocka_unit_test(bytes_that_are_no_text_come_back_and_nothing_is_put_behind_them),
        cmocka_unit_test(the_first_piece_is_the_one_that_comes_from_the_start),
        cmocka_unit_test(a_long_text_that_is_one_piece_takes_n_log_n),
        cmocka_unit_test(text_comes_as_its_tokens_do),
        cmocka_unit_test(what_is_stripped_from_the_end_waits_for_it),
        cmocka_unit_test(a_character_to_strip_is_found_behind_a_part_of_one),
        cmocka_unit_test(a_replacement_is_found_across_tokens),
        cmocka_unit_test(bytes_in_a_row_are_one_token_to_what_follows),
        cmocka_unit_test(a_byte_may_be_written_with_a_sign),
        cmocka_unit_test(the_space_that_a_metaspace_began_the_text_with_is_dropped_unless_it_writes_none),
        cmocka_unit_test(without_a_decoder_tokens_are_joined_by_spaces),
        cmocka_unit_test(an_added_token_is_shown_as_the_normalizers_leave_it),
        cmocka_unit_test(what_is_not_known_is_refused_by_name),
        cmocka_unit_test(a_text_that_normalizers_make_endless_ends_in_a_limit),
        cmocka_unit_test(a_text_that_metaspaces_make_endless_ends_in_a_limit),
        cmocka_unit_test(a_token_that_decoders_make_endless_ends_in_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
