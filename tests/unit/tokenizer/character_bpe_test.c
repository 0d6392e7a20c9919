/* Tests BPE of characters with the parts that SentencePiece models use, and decoders. tests/golden/tokenizer compares them
 * with the library; here are cases on which the library gives no answer, and cases that would need a file each. */
#include <stdlib.h>
#include <time.h>

#include "tests/support/test.h"
#include "tokenizer/unicode/character_bytes.h"
#include "tokenizer/decode/detokenize.h"
#include "tokenizer/unicode/newer_characters.h"
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
    bool bytes;        /* with byte tokens */
    int lacked;        /* the byte without a token; 0: none */
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

static void character_without_token_becomes_byte_tokens(void **state)
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

/* The unk_token comes after the byte tokens, as in the library. */
static void character_with_a_missing_byte_token_is_unknown(void **state)
{
    (void)state;
    pf_tokenizer *t = open_parts((parts){ .top = LLAMA, .bytes = true, .lacked = 0xA9 });
    ASSERT_IDS(t, "a\xC3\xA8", 5, BYTES + 0xC3, BYTES + 0xA8);
    ASSERT_IDS(t, "a\xC3\xA9", 5, UNK);
    ASSERT_IDS(t, "a\xC3\xA9\n", 5, BYTES + '\n', UNK);
    pf_tokenizer_close(t);
}

static void invalid_utf8_round_trips_and_gets_no_prefix(void **state)
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
    t = open_parts((parts){ .top = LLAMA }); /* no byte tokens, but an unk_token */
    ASSERT_IDS(t, "a\xFF", 5, UNK);
    pf_tokenizer_close(t);
}

/* The first character may be removed or become several: pieces are attributed to it as in the library. */
static void first_piece_comes_from_the_start_of_the_text(void **state)
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

/* A tokenizer of single characters with lists of normalizers and pre-tokenizers. */
static pf_tokenizer *open_lists(const char *normalizers, const char *cuts)
{
    static const char *const vocab[] = { "_", "+", "-",      "a",      "b",      "c",      "f",      "e",     "i",
                                         "x", "y", "\u00e9", "\u0301", "\u0307", "\u1100", "\u1161", "\ufb01" };
    char text[4096];
    int n = snprintf(text, sizeof text,
                     "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[%s]},"
                     "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[%s]},\"decoder\":{\"type\":\"Fuse\"},"
                     "\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{\" \":0",
                     normalizers, cuts);
    for (size_t i = 0; i < PF_COUNT(vocab); i++)
        n += snprintf(text + n, sizeof text - (size_t)n, ",\"%s\":%zu", vocab[i], i + 1);
    n += snprintf(text + n, sizeof text - (size_t)n, "}}}");
    assert_true((size_t)n < sizeof text);
    pf_tokenizer *t = NULL;
    pf_error error = { 0 };
    assert_ok(pf_tokenizer_parse(text, (size_t)n, NULL, 0, &t, &error), error);
    return t;
}

/* The tokens of a text, joined. */
static void assert_becomes(const char *normalizers, const char *cuts, const char *text, const char *expected)
{
    pf_tokenizer *t = open_lists(normalizers, cuts);
    pf_tokens ids = { 0 };
    assert_status(pf_tokenizer_encode(t, text, strlen(text), false, NULL, &ids), PF_OK);
    pf_bytes got = decode(t, ids.ids, (size_t)ids.n);
    if (got.n != strlen(expected) || memcmp(got.data, expected, got.n) != 0)
        fail_msg("%s and %s: \"%s\" becomes \"%.*s\", expected \"%s\"", normalizers, cuts, text, (int)got.n, got.data,
                 expected);
    pf_bytes_clear(&got);
    pf_tokens_clear(&ids);
    pf_tokenizer_close(t);
}

#define EACH              "{\"type\":\"Split\",\"pattern\":{\"Regex\":\".\"},\"behavior\":\"Isolated\",\"invert\":false}"
#define MARK(sign, when)  "{\"type\":\"Metaspace\",\"replacement\":\"" sign "\",\"prepend_scheme\":\"" when "\"}"
#define KIND(type)        "{\"type\":\"" type "\"}"
#define FRONT(text)       "{\"type\":\"Prepend\",\"prepend\":\"" text "\"}"
#define TRIM(left, right) "{\"type\":\"Strip\",\"strip_left\":" left ",\"strip_right\":" right "}"
#define SWAP(kind, pattern, content) \
    "{\"type\":\"Replace\",\"pattern\":{\"" kind "\":\"" pattern "\"},\"content\":\"" content "\"}"

/* Each character is a piece, and gets a mark if it comes from the first character of the text. Expected values are those of
 * the library (tokenizers 0.23). */
static void each_normalizer_tracks_the_first_character(void **state)
{
    (void)state;
    static const struct {
        const char *normalizers, *text, *expected;
    } cases[] = {
        { "", "ab", "_ab" },
        { KIND("Lowercase"), "\u0130b", "_i_\u0307b" },
        { KIND("Lowercase"), "ba", "_ba" },
        { KIND("StripAccents"), "e\u0301b", "_eb" },
        { KIND("StripAccents"), "\u0301ab", "ab" },
        { KIND("NFC"), "\u00E9b", "_\u00E9b" },
        { KIND("NFC"), "e\u0301b", "_\u00E9b" },
        { KIND("NFC"), "ba", "_ba" },
        { KIND("NFD"), "ab", "_ab" },
        { KIND("NFD"), "\u00E9b", "_e_\u0301b" },
        { KIND("NFD"), "\uAC00b", "_\u1100_\u1161b" },
        { KIND("NFKD"), "\uFB01b", "_f_ib" },
        { TRIM("false", "true"), "  ab ", "__ab" },
        { KIND("NFC") "," KIND("Lowercase"), "e\u0301b", "_\u00E9b" },
        { FRONT("x"), "ab", "_x_ab" },
        { FRONT("xy"), "\u00E9b", "_x_y_\u00E9b" },
        { TRIM("true", "false"), "ab", "_ab" },
        { TRIM("true", "false"), "  ab", "ab" },
        { TRIM("false", "true"), "ab  ", "_ab" },
        { TRIM("false", "true"), "b", "_b" },
        { SWAP("String", "a", "xy"), "ab", "_x_yb" },
        { SWAP("String", "a", "xy"), "aab", "_x_yxyb" },
        { SWAP("String", "a", "xy"), "ba", "_bxy" },
        { SWAP("String", "ab", "x"), "ab", "x" },
        { SWAP("String", "ab", "x"), "aab", "_ax" },
        { SWAP("String", "", "x"), "ab", "_x_a_xbx" },
        { SWAP("String", "", "x"), "\u00E9b", "_x_\u00E9_xbx" },
        { SWAP("String", "a", ""), "ab", "b" },
        { SWAP("String", "a", ""), "aab", "b" },
        { SWAP("String", "a", ""), "ba", "_b" },
        { SWAP("Regex", "a*", "x"), "ab", "_xbx" },
        { SWAP("Regex", "a*", "x"), "ba", "_x_bx" },
        { SWAP("Regex", "^", "x"), "ab", "_x_ab" },
        { SWAP("String", "b", "xy"), "ab", "_axy" },
        { SWAP("String", "b", "xy"), "ba", "_x_ya" },
        { SWAP("String", "a", "xy") "," SWAP("String", "x", ""), "ab", "_yb" },
        { FRONT(" ") "," TRIM("true", "false"), "ab", "_ab" },
        { FRONT(" ") "," TRIM("true", "false"), "  ab", "ab" },
        { FRONT("a") "," SWAP("String", "a", "xy"), "ab", "_x_y_x_yb" },
        { KIND("NFD") "," KIND("StripAccents"), "\u00E9b", "_eb" },
        { KIND("NFD") "," KIND("StripAccents"), "\u0301ab", "ab" },
        { KIND("Lowercase") "," KIND("NFD"), "\u0130b", "_i_\u0307b" },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++)
        assert_becomes(cases[i].normalizers, EACH "," MARK("_", "first"), cases[i].text, cases[i].expected);
    static const char twice[] = EACH "," MARK("_", "first") "," EACH "," MARK("+", "first");
    static const char whole[] = "{\"type\":\"Metaspace\",\"replacement\":\"_\",\"prepend_scheme\":\"first\","
                                "\"split\":false}," EACH "," MARK("+", "first");
    assert_becomes("", whole, "ab", "+_+ab");
    assert_becomes("", whole, "\u00e9b", "+_+\u00e9b");
    assert_becomes("", twice, "ab", "+_+ab");
    assert_becomes("", twice, " ab", "+_ab");
    assert_becomes("", twice, "\u00e9b", "+_+\u00e9b");
    assert_becomes(FRONT("xy"), twice, "a b", "+_+x+_+y+_+a_b");
}

/* Expected values are those of the library. */
static void metaspace_prefixes_pieces_without_the_mark(void **state)
{
    (void)state;
    static const char empty[] = "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?=b)\"},\"behavior\":\"Isolated\","
                                "\"invert\":false}," MARK("_", "always");
    static const char at_dashes[] = "{\"type\":\"CharDelimiterSplit\",\"delimiter\":\"-\"}," MARK("_", "always");
    assert_becomes("", empty, "ab", "_a_b");
    assert_becomes("", MARK("_", "always"), "_", "_");
    assert_becomes("", at_dashes, "a-b--a", "_a_b_a");
    assert_becomes("", at_dashes, "_-_a", "__a");
    assert_becomes("", "{\"type\":\"FixedLength\"}," MARK("_", "always"), "aaaaaaaaaaa", "_aaaaa_aaaaa_a");

    pf_tokenizer *t = open_parts((parts){ .top = METASPACE("always") });
    ASSERT_IDS(t, "a  b", 5, 1, 1, 3);
    pf_tokenizer_close(t);
    t = open_parts(
        (parts){ .top = "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\u2581\",\"split\":false}," });
    ASSERT_IDS(t, "a  b", 5, 7, 3);
    pf_tokenizer_close(t);
}

/* A removed character, a space, or the character itself. */
static void assert_cleaned(const pf_tokenizer *t, int32_t c)
{
    static const pf_character_range dropped[] = { { 0x01, 0x08 }, { 0x0B, 0x0B }, { 0x0E, 0x1F },
                                                  { 0x7F, 0x7F }, { 0x8F, 0x8F }, { 0x9F, 0x9F } };
    static const pf_character_range spaced[] = { { 0x09, 0x0A },     { 0x0C, 0x0D },     { 0x20, 0x20 },
                                                 { 0x1680, 0x1680 }, { 0x200B, 0x200F }, { 0x2028, 0x2029 },
                                                 { 0x2581, 0x2581 }, { 0xFEFF, 0xFEFF }, { 0xFFFD, 0xFFFD } };
    char text[4];
    const size_t n = pf_character_put(c, text);
    pf_bytes expected = { .data = text, .n = n };
    if (pf_is_in_ranges(dropped, PF_COUNT(dropped), c)) expected.n = 0;
    if (pf_is_in_ranges(spaced, PF_COUNT(spaced), c)) expected = (pf_bytes){ .data = " ", .n = 1 };
    pf_tokens ids = { 0 };
    assert_status(pf_tokenizer_encode(t, text, n, false, NULL, &ids), PF_OK);
    pf_bytes got = decode(t, ids.ids, (size_t)ids.n);
    if (got.n != expected.n || (got.n > 0 && memcmp(got.data, expected.data, got.n) != 0))
        fail_msg("U+%04X", (unsigned)c);
    pf_bytes_clear(&got);
    pf_tokens_clear(&ids);
}

/* At both ends of the ranges that the library removes and maps to spaces. */
static void nmt_maps_characters_as_the_library_does(void **state)
{
    (void)state;
    static const pf_character_range looked_at[] = { { 0, 0xFF },        { 0x167F, 0x1681 }, { 0x200A, 0x202A },
                                                    { 0x2580, 0x2582 }, { 0xFEFE, 0xFF00 }, { 0xFFFC, 0xFFFE } };
    pf_tokenizer *t = open_parts(
        (parts){ .top = "\"normalizer\":{\"type\":\"Nmt\"}," DECODER("{\"type\":\"ByteFallback\"}"), .bytes = true });
    for (size_t i = 0; i < PF_COUNT(looked_at); i++)
        for (int32_t c = looked_at[i].first; c <= looked_at[i].last; c++) assert_cleaned(t, c);
    pf_tokenizer_close(t);
}
#undef SWAP
#undef TRIM
#undef FRONT
#undef KIND

static void long_single_piece_takes_n_log_n_time(void **state)
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

static void push_emits_the_text_of_each_token(void **state)
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

static void trailing_strip_holds_text_until_the_end(void **state)
{
    (void)state;
    pf_tokenizer *t = open_parts((parts){ .top = DECODER(UNDO ",{\"type\":\"Fuse\"}," STRIP(2, 2)) });
    ASSERT_TEXT(t, "", 1);
    ASSERT_TEXT(t, "", 7, 7);
    ASSERT_TEXT(t, "a", 7, 2, 7);
    ASSERT_TEXT(t, " a ", 7, 1, 2, 7, 1);
    ASSERT_TEXT(t, "a  a", 2, 7, 2);
    pf_tokenizer_close(t);
    t = open_parts((parts){ .top = DECODER(UNDO "," STRIP(1, 1)) }); /* applies to each token */
    ASSERT_TEXT(t, "aa", 5, 1, 5);
    pf_tokenizer_close(t);
    t = open_parts((parts){ .top = DECODER(UNDO "," STRIP(2, 1)) "\"added_tokens\":[{\"id\":8,\"content\":"
                                                                 "\"▁▁▁a▁a▁▁\"}]," });
    ASSERT_TEXT(t, " a a ", N_FIRST);
    ASSERT_TEXT(t, "aba", 5, 3, 5);
    ASSERT_TEXT(t, "", 1);
    ASSERT_TEXT(t, "", 7);
    pf_tokenizer_close(t);
    t = open_parts((parts){ .top = DECODER("{\"type\":\"ByteFallback\"}," UNDO "," STRIP(1, 1)), .bytes = true });
    ASSERT_TEXT(t, "aa", 5, 5);                                     /* a token at a time */
    ASSERT_TEXT(t, " a", BYTES + ' ', BYTES + ' ', BYTES + ' ', 2); /* a run of bytes is one token */
    ASSERT_TEXT(t, "aba", BYTES + ' ', 2, BYTES + ' ', BYTES + 'b', 5);
    ASSERT_TEXT(t, "b\xE2\x96", BYTES + 'b', BYTES + 0xE2, BYTES + 0x96);
    pf_tokenizer_close(t);
}

static void strip_restarts_after_a_partial_character(void **state)
{
    (void)state;
    pf_tokenizer *t =
        open_parts((parts){ .top = DECODER("{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\","
                                           "\"content\":\"▁\",\"start\":0,\"stop\":1}"),
                            .bytes = true });
    ASSERT_TEXT(t, "a\xE2", 2, BYTES + 0xE2, 1);
    ASSERT_TEXT(t, "a\xE2\x96", 2, BYTES + 0xE2, BYTES + 0x96, 1);
    ASSERT_TEXT(t, "a", 2, BYTES + 0xE2, BYTES + 0x96, BYTES + 0x81);
    ASSERT_TEXT(t, "a\xE2", 2, BYTES + 0xE2);
    ASSERT_TEXT(t, "a▁\xE2", 2, 1, BYTES + 0xE2);
    pf_tokenizer_close(t);
}

/* Definition: the parts are joined, then replaced from the left. */
static void assert_replaced(const char *pattern)
{
    const size_t n_pattern = strlen(pattern);
    char top[256];
    snprintf(top, sizeof top,
             DECODER("{\"type\":\"Fuse\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\"%s\"},"
                     "\"content\":\"-\"}"),
             pattern);
    pf_tokenizer *t = open_parts((parts){ .top = top });
    for (int trial = 0; trial < 1000; trial++) {
        int32_t ids[24];
        char all[64] = "", expected[64] = "";
        for (int i = 0; i < 24; i++) {
            ids[i] = 2 + rand() % 3;
            strcat(all, (const char *[]){ "a", "b", "ab" }[ids[i] - 2]);
        }
        size_t n = 0;
        for (const char *at = all; *at;) {
            const bool found = strncmp(at, pattern, n_pattern) == 0;
            expected[n++] = found ? '-' : *at;
            at += found ? n_pattern : 1;
        }
        assert_text(t, ids, 24, expected, n);
    }
    pf_tokenizer_close(t);
}

static void replace_matches_across_tokens(void **state)
{
    (void)state;
    static const char *const patterns[] = { "abaab", "aabab", "aabaaab", "ba" };
    srand(3);
    for (size_t i = 0; i < PF_COUNT(patterns); i++) assert_replaced(patterns[i]);
}

static void byte_run_is_one_token_for_later_steps(void **state)
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

/* Only a plus sign before a hexadecimal digit. */
static void byte_token_may_have_a_sign(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "<0x+a>", "\n" },     { "<0x0A>", "\n" },     { "<0x-A>", "<0x-A>" }, { "<0xA+>", "<0xA+>" },
        { "<0x++>", "<0x++>" }, { "<0x A>", "<0x A>" }, { "<0x4f>", "O" },      { "<0xFg>", "<0xFg>" },
        { "<1x41>", "<1x41>" }, { "<0y41>", "<0y41>" }, { "<0x41)", "<0x41)" }, { "<0x41>>", "<0x41>>" },
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

static void metaspace_decoder_drops_the_leading_space(void **state)
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

static void tokens_without_decoder_are_joined_by_spaces(void **state)
{
    (void)state;
    pf_tokenizer *t = open_parts((parts){ .top = NULL });
    ASSERT_TEXT(t, "a ab b", 2, 4, 3);
    pf_tokenizer_close(t);
}

static void added_token_decodes_to_its_normalized_text(void **state)
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

/* ---- refusals and hostile files ----------------------------------------------------------------------------------- */

static void unknown_parts_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *top, *part;
        pf_status status;
    } cases[] = {
        { "\"decoder\":{\"type\":\"CTC\"},", "CTC", PF_UNSUPPORTED },
        { DECODER("{\"type\":\"Fuse\"},{\"type\":\"ByteFallback\"}"), "ByteFallback", PF_UNSUPPORTED },
        { DECODER(UNDO ",{\"type\":\"ByteLevel\"}"), "decoder: ByteLevel is behind another part", PF_UNSUPPORTED },
        { DECODER("{\"type\":\"ByteLevel\"},{\"type\":\"ByteLevel\"}"), "ByteLevel is behind another", PF_UNSUPPORTED },
        { "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},"
          "{\"type\":\"Metaspace\",\"replacement\":\"_\"}]},",
          "Metaspace is behind ByteLevel", PF_UNSUPPORTED },
        { "\"pre_tokenizer\":{\"type\":\"FixedLength\",\"length\":65536},", "length is 65536", PF_FORMAT },
        { DECODER(STRIP(65537, 0)), "start is 65537", PF_FORMAT },
        { DECODER(STRIP(0, 65537)), "stop is 65537", PF_FORMAT },
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
        { "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{}],\"special_tokens\":{}},",
          "single[0] must be a SpecialToken", PF_FORMAT },
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

/* `n` copies of `unit` between two ends. */
static pf_status open_many(const char *begin, const char *unit, int n, const char *end, pf_error *error)
{
    char *top = malloc(strlen(begin) + (size_t)n * strlen(unit) + strlen(end) + 1);
    assert_non_null(top);
    char *at = stpcpy(top, begin);
    for (int i = 0; i < n; i++) at = stpcpy(at, unit);
    stpcpy(at, end);
    char *text = malloc(strlen(top) + 1024);
    assert_non_null(text);
    const int n_text = sprintf(text, "{%s,\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}", top);
    pf_tokenizer *t = NULL;
    const pf_status status = pf_tokenizer_parse(text, (size_t)n_text, NULL, 0, &t, error);
    pf_tokenizer_close(t);
    free(text);
    free(top);
    return status;
}

static void documented_limits_are_accepted_and_one_more_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *begin, *unit, *end;
        int most;
        const char *says;
    } cases[] = {
        { "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"}", ",{\"type\":\"Fuse\"}", "]}", 31,
          "decoder: Fuse: more than 32 parts" },
        { "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"}", ",{\"type\":\"NFC\"}", "]}", 31,
          "normalizer: NFC: more than 32 parts" },
        { "\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Digits\"}", ",{\"type\":\"Digits\"}",
          "]}", 63, "pre_tokenizer: Digits: more than 64 parts" },
        { "\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"", "x", "\"}", 4096,
          "prepend has 4097 bytes, expected at most 4096" },
        { "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"},{\"type\":\"Replace\",\"content\":\"\","
          "\"pattern\":{\"String\":\"",
          "x", "\"}}]}", 4096, "must be a String of 1 to 4096 bytes" },
        { "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":\"A\"}}",
          ",{\"SpecialToken\":{\"id\":\"a\"}}", "],\"special_tokens\":{\"a\":{\"ids\":[0]}}}", 64,
          "more than 64 tokens" },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        pf_error error = { 0 };
        assert_ok(open_many(cases[i].begin, cases[i].unit, cases[i].most, cases[i].end, &error), error);
        assert_status(open_many(cases[i].begin, cases[i].unit, cases[i].most + 1, cases[i].end, &error),
                      PF_UNSUPPORTED);
        assert_says(error, cases[i].says);
    }
    for (int n = 16; n <= 17; n++) { /* nested Sequences */
        char begin[1024] = "\"decoder\":", end[64] = "";
        for (int i = 0; i < n; i++) strcat(begin, "{\"type\":\"Sequence\",\"decoders\":[");
        for (int i = 0; i < n; i++) strcat(end, "]}");
        pf_error error = { 0 };
        assert_status(open_many(begin, "{\"type\":\"Fuse\"}", 1, end, &error), n == 16 ? PF_OK : PF_UNSUPPORTED);
        if (n == 17) assert_says(error, "Sequences nested more than 16 deep");
    }
    pf_tokenizer *t = open_parts((parts){ .top = DECODER(STRIP(65536, 65536)) });
    pf_tokenizer_close(t);
    t = open_parts((parts){ .top = DECODER("{\"type\":\"Fuse\"},{\"type\":\"ByteLevel\"}") });
    pf_tokenizer_close(t);
    t = open_parts((parts){ .top = "\"pre_tokenizer\":{\"type\":\"FixedLength\",\"length\":65535}," });
    pf_tokenizer_close(t);
}

/* "a" becomes 64 characters, each of them 64, and so on. */
static void growing_normalizers_end_in_pf_limit(void **state)
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

/* A Metaspace and a split at every character, repeated. */
static void growing_metaspaces_end_in_pf_limit(void **state)
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

static void growing_decoders_end_in_pf_limit(void **state)
{
    (void)state;
    char top[8192], many[65];
    memset(many, 'a', 64);
    many[64] = '\0';
    for (int is_token_step = 0; is_token_step < 2; is_token_step++) {
        int n = snprintf(top, sizeof top, "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[%s",
                         is_token_step ? "" : "{\"type\":\"Fuse\"},");
        for (int i = 0; i < 8; i++)
            n += snprintf(top + n, sizeof top - (size_t)n,
                          "%s{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"%s\"}", i ? "," : "",
                          many);
        snprintf(top + n, sizeof top - (size_t)n, "]},");
        pf_tokenizer *t = NULL;
        pf_error error = { 0 };
        if (is_token_step) {
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
        cmocka_unit_test(character_without_token_becomes_byte_tokens),
        cmocka_unit_test(character_with_a_missing_byte_token_is_unknown),
        cmocka_unit_test(invalid_utf8_round_trips_and_gets_no_prefix),
        cmocka_unit_test(first_piece_comes_from_the_start_of_the_text),
        cmocka_unit_test(each_normalizer_tracks_the_first_character),
        cmocka_unit_test(metaspace_prefixes_pieces_without_the_mark),
        cmocka_unit_test(nmt_maps_characters_as_the_library_does),
        cmocka_unit_test(long_single_piece_takes_n_log_n_time),
        cmocka_unit_test(push_emits_the_text_of_each_token),
        cmocka_unit_test(trailing_strip_holds_text_until_the_end),
        cmocka_unit_test(strip_restarts_after_a_partial_character),
        cmocka_unit_test(replace_matches_across_tokens),
        cmocka_unit_test(byte_run_is_one_token_for_later_steps),
        cmocka_unit_test(byte_token_may_have_a_sign),
        cmocka_unit_test(metaspace_decoder_drops_the_leading_space),
        cmocka_unit_test(tokens_without_decoder_are_joined_by_spaces),
        cmocka_unit_test(added_token_decodes_to_its_normalized_text),
        cmocka_unit_test(unknown_parts_are_refused_by_name),
        cmocka_unit_test(documented_limits_are_accepted_and_one_more_is_refused),
        cmocka_unit_test(growing_normalizers_end_in_pf_limit),
        cmocka_unit_test(growing_metaspaces_end_in_pf_limit),
        cmocka_unit_test(growing_decoders_end_in_pf_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
