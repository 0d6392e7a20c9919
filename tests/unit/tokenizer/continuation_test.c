/* Tests the text that tokens add to a prompt: the decoder's rules for the start of a text apply to the prompt. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"
#include "tokenizer/decode/detokenize.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_parts.h"

/* Ids. SPECIAL and 1 are special tokens; from BYTES on there is a token for each byte. */
enum { SPECIAL = 0, SPACE = 2, A, B, AB, SPACE_A, PLAIN_SPACE, AA, SPACES, N_WORDS, BYTES = 100, N_IDS = BYTES + 256 };
static const char VOCAB[] = "\"<s>\":0,\"</s>\":1,\"\u2581\":2,\"a\":3,\"b\":4,\"ab\":5,\"\u2581a\":6,\" \":7,\"aa\":8,"
                            "\"\u2581\u2581\":9";
static const char ADDED[] =
    "{\"id\":0,\"content\":\"<s>\",\"special\":true},{\"id\":1,\"content\":\"</s>\",\"special\":true}";

#define UNDO               "{\"type\":\"Replace\",\"pattern\":{\"String\":\"\u2581\"},\"content\":\" \"}"
#define REPLACE(from, to)  "{\"type\":\"Replace\",\"pattern\":{\"String\":\"" from "\"},\"content\":\"" to "\"}"
#define STRIP(start, stop) "{\"type\":\"Strip\",\"content\":\" \",\"start\":" #start ",\"stop\":" #stop "}"
#define FUSE               "{\"type\":\"Fuse\"}"
#define FALLBACK           "{\"type\":\"ByteFallback\"}"
#define METASPACE(scheme)  "{\"type\":\"Metaspace\",\"replacement\":\"\u2581\",\"prepend_scheme\":\"" scheme "\"}"
#define LLAMA              UNDO "," FALLBACK "," FUSE "," STRIP(1, 0)

/* decoders: the parts of the decoder; NULL: no decoder */
static pf_tokenizer *open_with(const char *decoders)
{
    enum { SIZE = 16384 };
    static char text[SIZE];
    pf_tokenizer *t = NULL;
    pf_error error = { 0 };
    int n = snprintf(text, SIZE, "{\"added_tokens\":[%s],\"decoder\":", ADDED);
    n += decoders ? snprintf(text + n, (size_t)(SIZE - n), "{\"type\":\"Sequence\",\"decoders\":[%s]}", decoders)
                  : snprintf(text + n, (size_t)(SIZE - n), "null");
    n += snprintf(text + n, (size_t)(SIZE - n), ",\"model\":{\"type\":\"BPE\",\"merges\":[],\"vocab\":{%s", VOCAB);
    for (int b = 0; b < 256; b++) n += snprintf(text + n, (size_t)(SIZE - n), ",\"<0x%02X>\":%d", b, BYTES + b);
    n += snprintf(text + n, (size_t)(SIZE - n), "}}}");
    assert_true(n < SIZE);
    assert_ok(pf_tokenizer_parse(text, (size_t)n, NULL, 0, &t, &error), error);
    return t;
}

typedef struct {
    int32_t ids[64];
    int32_t n;
} id_list;

#define IDS(...) ((id_list){ { __VA_ARGS__ }, (int32_t)(sizeof((const int32_t[]){ __VA_ARGS__ }) / sizeof(int32_t)) })
static const id_list NONE = { .n = 0 };

static pf_bytes decode_after(const pf_tokenizer *t, id_list prompt, id_list ids)
{
    pf_bytes out = { .data = NULL };
    pf_detokenizer *d;
    assert_status(pf_detokenizer_create(t, &d), PF_OK);
    if (prompt.n > 0) assert_status(pf_detokenizer_skip_prompt(d, prompt.ids, prompt.n), PF_OK);
    for (int32_t i = 0; i < ids.n; i++) assert_status(pf_detokenizer_push(d, ids.ids[i], &out), PF_OK);
    assert_status(pf_detokenizer_finish(d, &out), PF_OK);
    pf_detokenizer_destroy(d);
    return out;
}

static void assert_adds(const char *decoders, id_list prompt, id_list ids, const char *expected)
{
    pf_tokenizer *t = open_with(decoders);
    pf_bytes got = decode_after(t, prompt, ids);
    assert_int_equal(got.n, strlen(expected));
    if (got.n > 0) assert_memory_equal(got.data, expected, got.n);
    pf_bytes_clear(&got);
    pf_tokenizer_close(t);
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

static void continuation_keeps_its_leading_space(void **state)
{
    (void)state;
    static const char *const decoders[] = { LLAMA, METASPACE("first"), METASPACE("always"),
                                            FUSE "," REPLACE("\u2581", " ") "," STRIP(1, 0) };
    for (size_t i = 0; i < PF_COUNT(decoders); i++) {
        assert_adds(decoders[i], NONE, IDS(SPACE_A, SPACE_A), "a a");
        assert_adds(decoders[i], IDS(A), IDS(SPACE_A, SPACE_A), " a a");
        assert_adds(decoders[i], IDS(SPACE_A, SPECIAL), IDS(SPACES, SPACE_A), "   a");
        assert_adds(decoders[i], IDS(A), IDS(SPECIAL, SPACE_A), "<s> a");
    }
}

static void tokens_joined_by_spaces_are_joined_to_the_prompt(void **state)
{
    (void)state;
    assert_adds(NULL, NONE, IDS(A, B), "a b");
    assert_adds(NULL, IDS(B), IDS(A, B), " a b");
}

static void leading_strip_counts_the_spaces_of_the_prompt(void **state)
{
    (void)state;
    assert_adds(UNDO "," FUSE "," STRIP(3, 0), IDS(SPACES), IDS(SPACES, A), " a");
    assert_adds(UNDO "," FUSE "," STRIP(3, 0), IDS(SPACES, SPACE), IDS(SPACES, A), "  a");
    assert_adds(UNDO "," FUSE "," STRIP(3, 0), IDS(SPACE_A), IDS(SPACES, A), "  a");
}

static void prompt_without_visible_tokens_changes_nothing(void **state)
{
    (void)state;
    static const char *const decoders[] = { LLAMA, METASPACE("first"), NULL };
    for (size_t i = 0; i < PF_COUNT(decoders); i++) {
        const char *expected = decoders[i] ? "a a" : "\u2581a \u2581a";
        assert_adds(decoders[i], IDS(SPECIAL), IDS(SPACE_A, SPACE_A), expected);
        assert_adds(decoders[i], IDS(SPECIAL, 1, 50, N_IDS, -1), IDS(SPACE_A, SPACE_A), expected);
    }
}

static void split_character_keeps_its_bytes_on_both_sides(void **state)
{
    (void)state;
    assert_adds(LLAMA, IDS(A, BYTES + 0xC3), IDS(BYTES + 0xA9, SPACE_A), "\xA9 a");
    assert_adds(LLAMA, IDS(BYTES + 0xE2, BYTES + 0x96), IDS(BYTES + 0x81), "\x81");
    assert_adds(FALLBACK "," METASPACE("first"), IDS(A, BYTES + 0xC3), IDS(BYTES + 0xA9, SPACE_A), "\xA9 a");
}

static void held_back_prompt_bytes_are_not_repeated(void **state)
{
    (void)state;
    assert_adds(FUSE "," REPLACE("aab", "x"), IDS(B, AA), IDS(A, A), "aa");
    assert_adds(FUSE "," REPLACE("aab", "x"), IDS(B, AA), IDS(B), "x");  /* "baa" becomes "bx" */
    assert_adds(FUSE "," REPLACE("aab", "ax"), IDS(B, AA), IDS(B), "x"); /* and here "bax" */
    assert_adds(FUSE "," REPLACE("aab", "x"), IDS(B, AA), IDS(SPECIAL), "<s>");
    assert_adds(FUSE "," REPLACE("aab", "x"), IDS(B, AA), NONE, "");
    assert_adds(FUSE "," STRIP(0, 2), IDS(A, PLAIN_SPACE), IDS(B), " b"); /* the prompt's text is "a" */
}

/* Six steps grow an "a" to 16 MiB: a prompt token that is decoded ends in PF_LIMIT. */
static void prompt_tokens_that_do_not_change_the_state_are_skipped(void **state)
{
    (void)state;
#define GROW8(from)                                                                          \
    REPLACE(from, "aaaaaaaaaaaaaaaa")                                                        \
    "," REPLACE(from, "aaaaaaaaaaaaaaaa") "," REPLACE(from, "aaaaaaaaaaaaaaaa") "," REPLACE( \
        from, "aaaaaaaaaaaaaaaa") "," REPLACE(from, "aaaaaaaaaaaaaaaa") "," REPLACE(from, "aaaaaaaaaaaaaaaa")
    pf_tokenizer *t = open_with(FUSE "," GROW8("a"));
    const int32_t prompt[] = { B, A, B };
    pf_bytes text = { .data = NULL };
    pf_detokenizer *d;
    assert_status(pf_detokenizer_create(t, &d), PF_OK);
    assert_status(pf_detokenizer_skip_prompt(d, prompt + 1, 2), PF_LIMIT);
    pf_detokenizer_destroy(d);
    assert_status(pf_detokenizer_create(t, &d), PF_OK);
    assert_status(pf_detokenizer_skip_prompt(d, prompt, 3), PF_OK);
    assert_status(pf_detokenizer_push(d, B, &text), PF_OK);
    assert_int_equal(text.n, 1);
    pf_bytes_clear(&text);
    pf_detokenizer_destroy(d);
    pf_tokenizer_close(t);
}

/* ---- random decoders --------------------------------------------------------------------------------------------- */

static const char *choose_from(const char *const *choices, size_t n)
{
    return choices[(size_t)rand() % n];
}

static void append_part(char *list, size_t size, const char *part)
{
    const size_t n = strlen(list);
    snprintf(list + n, size - n, "%s%s", n ? "," : "", part);
}

static pf_tokenizer *open_random(void)
{
    static const char *const alone[] = { UNDO, STRIP(1, 1), REPLACE("a", "ba"), REPLACE("ab", "") };
    static const char *const behind[] = { FUSE,
                                          FUSE,
                                          UNDO,
                                          STRIP(1, 0),
                                          STRIP(2, 0),
                                          STRIP(1, 2),
                                          REPLACE("aa", "b"),
                                          REPLACE("ab", "ax"),
                                          REPLACE("a", "aa"),
                                          REPLACE(" ", ""),
                                          METASPACE("first"),
                                          METASPACE("never"),
                                          "{\"type\":\"Strip\",\"content\":\"\u00e9\",\"start\":2,\"stop\":1}" };
    char list[2048] = "";
    if (rand() % 10 == 0) return open_with(NULL);
    for (int i = rand() % 2; i > 0; i--) append_part(list, sizeof list, choose_from(alone, PF_COUNT(alone)));
    if (rand() % 3) append_part(list, sizeof list, FALLBACK);
    for (int i = rand() % 4; i > 0; i--) append_part(list, sizeof list, choose_from(behind, PF_COUNT(behind)));
    return open_with(list);
}

static id_list draw_ids(int32_t most)
{
    static const int32_t bytes[] = { 'a', 'b', ' ', 0xE2, 0x96, 0x81, 0xC3, 0xA9 };
    id_list out = { .n = rand() % (most + 1) };
    const bool has_bytes = rand() % 2;
    for (int32_t i = 0; i < out.n; i++)
        out.ids[i] = has_bytes && rand() % 2 ? BYTES + bytes[(size_t)rand() % PF_COUNT(bytes)] : rand() % N_WORDS;
    return out;
}

/* The tokens of the prompt that are not special, then `behind`. */
static id_list join_visible(id_list prompt, id_list behind)
{
    id_list out = { .n = 0 };
    for (int32_t i = 0; i < prompt.n; i++)
        if (prompt.ids[i] > 1) out.ids[out.n++] = prompt.ids[i];
    memcpy(out.ids + out.n, behind.ids, (size_t)behind.n * sizeof *behind.ids);
    out.n += behind.n;
    return out;
}

/* True: the end of the prompt's own text is not in the whole text. */
static bool check_definition(const pf_tokenizer *t)
{
    const id_list prompt = draw_ids(20), ids = draw_ids(6);
    pf_bytes before = decode_after(t, NONE, join_visible(prompt, NONE)),
             whole = decode_after(t, NONE, join_visible(prompt, ids)), got = decode_after(t, prompt, ids);
    size_t shared = 0;
    while (shared < before.n && shared < whole.n && before.data[shared] == whole.data[shared]) shared++;
    const bool takes_back = shared < before.n;
    assert_int_equal(got.n, whole.n - shared);
    if (got.n > 0) assert_memory_equal(got.data, whole.data + shared, got.n);
    pf_bytes_clear(&before);
    pf_bytes_clear(&whole);
    pf_bytes_clear(&got);
    return takes_back;
}

static void continuation_equals_whole_text_without_prompt_text(void **state)
{
    (void)state;
    int n_taken_back = 0;
    srand(1);
    for (int i = 0; i < 500; i++) {
        pf_tokenizer *t = open_random();
        for (int k = 0; k < 60; k++) n_taken_back += check_definition(t);
        pf_tokenizer_close(t);
    }
    assert_in_range(n_taken_back, 10, 3000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(continuation_keeps_its_leading_space),
        cmocka_unit_test(tokens_joined_by_spaces_are_joined_to_the_prompt),
        cmocka_unit_test(leading_strip_counts_the_spaces_of_the_prompt),
        cmocka_unit_test(prompt_without_visible_tokens_changes_nothing),
        cmocka_unit_test(split_character_keeps_its_bytes_on_both_sides),
        cmocka_unit_test(held_back_prompt_bytes_are_not_repeated),
        cmocka_unit_test(prompt_tokens_that_do_not_change_the_state_are_skipped),
        cmocka_unit_test(continuation_equals_whole_text_without_prompt_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
