/* Tests added tokens: matching, their ids, and the effect of tokenizer_config.json. */
#include <stdlib.h>
#include <time.h>

#include "tests/support/draw.h"
#include "tests/support/small_tokenizer.h"
#include "tests/support/test.h"
#include "tokenizer/decode/detokenize.h"
#include "tokenizer/tokenizer_parts.h"

#define ADDED(content, more) "{\"id\": 9, \"content\": \"" content "\"" more "}"

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

/* --- matching --- */

/* A matcher of texts; the id of a text is its index. */
static pf_added_matcher *matcher_of(const char *const *texts, int32_t n)
{
    pf_added_matcher *m;
    assert_status(pf_added_matcher_create(&m), PF_OK);
    for (int32_t i = 0; i < n; i++)
        assert_status(
            pf_added_matcher_add(m, texts[i], strlen(texts[i]), i, (pf_added_flags){ .lstrip = false }, false), PF_OK);
    assert_status(pf_added_matcher_finish(m), PF_OK);
    return m;
}

/* False: there is no further part. */
static bool next(const pf_added_matcher *m, pf_added_walk *walk, pf_added_part *out)
{
    assert_status(pf_added_matcher_next(m, walk, out), PF_OK);
    return out->begin < out->end;
}

/* Definition of the match at a position: the first of the longest tokens. */
static int32_t longest_at(const char *const *texts, int32_t n, const char *text)
{
    int32_t best = -1;
    for (int32_t i = 0; i < n; i++)
        if (strncmp(text, texts[i], strlen(texts[i])) == 0 && (best < 0 || strlen(texts[i]) > strlen(texts[best])))
            best = i;
    return best;
}

static void assert_walk(const char *const *texts, int32_t n, const char *text)
{
    pf_added_matcher *m = matcher_of(texts, n);
    pf_added_walk walk = { .text = text, .n_bytes = strlen(text) };
    size_t at = 0;
    for (pf_added_part part; next(m, &walk, &part); at = part.end) {
        assert_int_equal(part.begin, at);
        for (; part.id < 0 && at < part.end; at++) assert_int_equal(longest_at(texts, n, text + at), -1);
        if (part.id < 0) continue;
        assert_int_equal(part.id, longest_at(texts, n, text + at));
        assert_int_equal(part.end - part.begin, strlen(texts[part.id]));
    }
    assert_int_equal(at, walk.n_bytes);
    pf_added_matcher_destroy(m);
}

/* Tokens are parts of the text, so they overlap and contain each other; half of them are longer than a window. */
static void matcher_finds_the_longest_token_at_each_position(void **state)
{
    (void)state;
    enum { N_BYTES = 6000, N_TEXTS = 12 };
    static char text[N_BYTES + 1], copies[N_TEXTS][PF_MAX_ADDED_TOKEN_BYTES + 1];
    const char *texts[N_TEXTS];
    uint64_t rng = 7;
    for (int32_t trial = 0; trial < 200; trial++) {
        const int32_t left_out = trial % N_TEXTS; /* short ones first */
        for (int i = 0; i < N_BYTES; i++) text[i] = "aaaaaaab"[below(&rng, trial % 2 ? 8 : 1)];
        text[below(&rng, N_BYTES)] = 'c';
        for (int i = 0; i < N_TEXTS; i++) {
            const int32_t n = 1 + below(&rng, i < N_TEXTS / 2 ? 12 : 3 * PF_ADDED_WINDOW);
            snprintf(copies[i], sizeof copies[i], "%.*s", n, text + below(&rng, N_BYTES - n));
            texts[i] = copies[i];
        }
        assert_walk(texts + left_out, N_TEXTS - left_out, text);
    }
}

/* A text without a match, and a text with a shorter match everywhere. */
static void near_matches_everywhere_take_linear_time(void **state)
{
    (void)state;
    enum { N_BYTES = 4 << 20 };
    static char almost[PF_MAX_ADDED_TOKEN_BYTES + 1];
    memset(almost, 'a', PF_MAX_ADDED_TOKEN_BYTES - 1);
    almost[PF_MAX_ADDED_TOKEN_BYTES - 1] = 'b';
    char *text = malloc(N_BYTES);
    assert_non_null(text);
    memset(text, 'a', N_BYTES);
    for (int32_t n = 1; n <= 2; n++) {
        pf_added_matcher *m = matcher_of((const char *const[]){ almost, "a" }, n);
        pf_added_walk walk = { .text = text, .n_bytes = N_BYTES };
        pf_added_part part;
        int n_parts = 0;
        const clock_t begin = clock();
        while (next(m, &walk, &part)) n_parts++;
        const double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
        if (seconds > 2.0) fail_msg("%d bytes took %.1f s", N_BYTES, seconds);
        assert_int_equal(n_parts, n == 1 ? 1 : N_BYTES);
        pf_added_matcher_destroy(m);
    }
    free(text);
}

static void cancel_ends_matching_within_a_few_thousand_bytes(void **state)
{
    (void)state;
    enum { N_BYTES = 100000 };
    char *text = malloc(N_BYTES);
    assert_non_null(text);
    memset(text, 'a', N_BYTES);
    text[10] = 'b';
    volatile bool told = false;
    pf_added_matcher *m = matcher_of((const char *const[]){ "b" }, 1);
    pf_added_walk walk = { .text = text, .n_bytes = N_BYTES, .cancel = &told };
    pf_added_part part;
    assert_true(next(m, &walk, &part) && part.id < 0);
    assert_true(next(m, &walk, &part) && part.id == 0);
    told = true;
    assert_status(pf_added_matcher_next(m, &walk, &part), PF_CANCELLED);
    assert_true(walk.scanned < 5000);
    pf_added_matcher_destroy(m);
    free(text);
}

/* --- added tokens of a file --- */

static void longest_added_token_matches_and_new_ids_follow_the_vocabulary(void **state)
{
    (void)state;
    pf_tokenizer *t = open_parts((parts){
        .top = "\"added_tokens\": [" ADDED("<a>", ", \"special\": true") "," ADDED(
            "<a><b>", ", \"normalized\": false") "," ADDED("", "") "],",
    });
    assert_int_equal(pf_tokenizer_vocab_size(t), 258);
    assert_ids(t, "x<a><b><a>", (int32_t[]){ 'x', 257, 256 }, 3);
    assert_int_equal(pf_tokenizer_find_added(t, "<a>"), 256);
    assert_int_equal(pf_tokenizer_find_added(t, "<b>"), -1);
    assert_int_equal(pf_tokenizer_find_added(t, "a"), -1);
    assert_true(pf_tokenizer_is_special(t, 256));
    assert_false(pf_tokenizer_is_special(t, 257));
    assert_false(pf_tokenizer_is_special(t, -1));
    assert_false(pf_tokenizer_is_special(t, 100000));
    pf_tokenizer_close(t);
}

/* \u0120 maps to a space in the vocabulary and is a letter in a text. */
static void added_token_is_identified_by_its_text(void **state)
{
    (void)state;
    pf_tokenizer *t = open_parts((parts){ .top = "\"added_tokens\": [" ADDED("\\u0120", "") "," ADDED(" ", "") "]," });
    assert_ids(t, "x \xC4\xA0", (int32_t[]){ 'x', 256, ' ' }, 3);
    assert_int_equal(pf_tokenizer_find_added(t, " "), 256);
    pf_tokenizer_close(t);
}

/* As in the library. A space is not a byte character, so the second text is not one of byte characters alone. */
static void added_token_of_byte_characters_decodes_to_bytes(void **state)
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

static void white_space_is_stripped_by_the_first_token_that_takes_it(void **state)
{
    (void)state;
    pf_tokenizer *t = open_parts((parts){
        .top = "\"added_tokens\": [" ADDED("\\n", ", \"lstrip\": true, \"rstrip\": true, \"normalized\": false") "],",
    });
    assert_ids(t, "a \n\n b\n", (int32_t[]){ 'a', 256, 'b', 256 }, 4);
    pf_tokenizer_close(t);
}

/* The letter after the token is of Unicode 16. */
static void single_word_token_does_not_match_inside_a_word(void **state)
{
    (void)state;
    pf_tokenizer *t = open_parts((parts){ .top = "\"added_tokens\": [" ADDED("ab", ", \"single_word\": true") "]," });
    assert_ids(t, "ab-", (int32_t[]){ 256, '-' }, 2);
    assert_ids(t, "xab", (int32_t[]){ 'x', 'a', 'b' }, 3);
    assert_ids(t, "-ab", (int32_t[]){ '-', 256 }, 2);
    assert_ids(t, "ab\xF0\x90\x97\x80", (int32_t[]){ 'a', 'b', 0xF0, 0x90, 0x97, 0x80 }, 6);
    pf_tokenizer_close(t);
}

static void special_token_wins_over_an_equal_normalized_token(void **state)
{
    (void)state;
    pf_tokenizer *t = open_parts((parts){
        .top = "\"normalizer\": {\"type\": \"NFC\"}, \"added_tokens\": [" ADDED("xe\\u0301", "") "," ADDED(
            "x\\u00e9", ", \"special\": true, \"normalized\": true") "],",
    });
    assert_ids(t, "x\xC3\xA9 xe\xCC\x81", (int32_t[]){ 257, ' ', 257 }, 3);
    pf_tokenizer_close(t);
}

static void added_token_normalized_to_nothing_never_matches(void **state)
{
    (void)state;
    pf_tokenizer *t = open_parts((parts){ .top = "\"normalizer\": {\"type\": \"Strip\", \"strip_left\": true, "
                                                 "\"strip_right\": true}, \"added_tokens\": [" ADDED("\\n", "") "]," });
    assert_ids(t, "a\nb\n", (int32_t[]){ 'a', '\n', 'b' }, 3);
    pf_tokenizer_close(t);
}

static void ids_without_a_token_are_invalid(void **state)
{
    (void)state;
    pf_bytes text = { .data = NULL };
    pf_detokenizer *d;
    pf_tokenizer *t = open_parts(
        (parts){ .top = "\"added_tokens\": [" ADDED("<a>", "") "],", .vocab = ",\"zz\":1000", .merges = "\"z z\"" });
    assert_int_equal(pf_tokenizer_vocab_size(t), 1001);
    assert_int_equal(pf_tokenizer_find_added(t, "<a>"), 257); /* after the number of tokens, not the largest id */
    assert_ids(t, "zz", (int32_t[]){ 1000 }, 1);
    assert_status(pf_detokenizer_create(t, &d), PF_OK);
    assert_status(pf_detokenizer_push(d, 999, &text), PF_INVALID);
    assert_status(pf_detokenizer_push(d, 1001, &text), PF_INVALID);
    assert_status(pf_detokenizer_push(d, -1, &text), PF_INVALID);
    assert_int_equal(text.n, 0);
    pf_detokenizer_destroy(d);
    uint8_t with[32], without[32];
    pf_tokenizer *dense = open_parts((parts){ .top = "\"added_tokens\": [" ADDED("zz", "") "," ADDED("<a>", "") "]," });
    assert_status(pf_tokenizer_fingerprint(t, 258, with, NULL), PF_OK); /* id 256 has no token */
    assert_status(pf_tokenizer_fingerprint(dense, 258, without, NULL), PF_OK);
    assert_memory_not_equal(with, without, 32);
    pf_tokenizer_close(dense);
    pf_tokenizer_close(t);
}

static void special_tokens_of_tokenizer_config_are_recognized(void **state)
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
    pf_tokens tokens = encode_bytes(t, "a", 1, true); /* no post-processor: nothing is added */
    assert_int_equal(tokens.n, 1);
    pf_tokens_clear(&tokens);
    pf_tokenizer_close(t);
    free(text);
}

static void flags_in_tokenizer_config_override_tokenizer_json(void **state)
{
    (void)state;
    char *text = build((parts){ .top = "\"added_tokens\": [{\"id\": 256, \"content\": \"<s>\", \"lstrip\": true,"
                                       "\"special\": true, \"normalized\": false}]," });
    pf_tokenizer *t = open_text(text, NULL);
    assert_ids(t, "a <s> b", (int32_t[]){ 'a', 256, ' ', 'b' }, 4);
    pf_tokenizer_close(t);
    t = open_text(text, "{\"added_tokens_decoder\": {\"256\": {\"content\": \"<s>\", \"rstrip\": true}}}");
    assert_ids(t, "a <s> b", (int32_t[]){ 'a', ' ', 256, 'b' }, 4);
    assert_true(pf_tokenizer_is_special(t, 256)); /* it was special before */
    pf_tokenizer_close(t);
    t = open_text(text, "{\"bos_token\": \"<s>\"}"); /* a name alone changes no flags */
    assert_ids(t, "a <s> b", (int32_t[]){ 'a', 256, ' ', 'b' }, 4);
    pf_tokenizer_close(t);
    free(text);
}

static void too_long_added_token_is_refused_with_its_file_name(void **state)
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

/* The raw length, and the length after normalization. */
static void added_token_of_maximum_length_is_accepted(void **state)
{
    (void)state;
    for (int over = 0; over < 2; over++) {
        for (int grows = 0; grows < 2; grows++) {
            char top[6000];
            const int n = grows ? PF_MAX_ADDED_TOKEN_BYTES / 2 + over : PF_MAX_ADDED_TOKEN_BYTES + over;
            snprintf(top, sizeof top, "\"normalizer\": %s, \"added_tokens\": [{\"id\": 256, \"content\": \"%0*d\"}],",
                     grows ? "{\"type\": \"Replace\", \"pattern\": {\"String\": \"0\"}, \"content\": \"11\"}" : "null",
                     n, 0);
            char *text = build((parts){ .top = top });
            pf_tokenizer *t = NULL;
            pf_error error = { .text = "" };
            assert_status(pf_tokenizer_parse(text, strlen(text), NULL, 0, &t, &error), !over   ? PF_OK
                                                                                       : grows ? PF_LIMIT
                                                                                               : PF_UNSUPPORTED);
            if (over) assert_says(error, "longer than 4096 bytes");
            pf_tokenizer_close(t);
            free(text);
        }
    }
}

static void split_special_tokens_encodes_them_as_text(void **state)
{
    (void)state;
    char *text = build((parts){
        .top = "\"added_tokens\": [{\"id\": 256, \"content\": \"<s>\", \"special\": true},"
               "{\"id\": 257, \"content\": \"s>\", \"normalized\": false}, {\"id\": 258, \"content\": \"tool\"}],"
               "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\":"
               "[{\"SpecialToken\": {\"id\": \"<s>\"}}, {\"Sequence\": {\"id\": \"A\"}}],"
               "\"special_tokens\": {\"<s>\": {\"ids\": [256]}}}," });
    pf_tokenizer *t = open_text(text, "{\"split_special_tokens\": true}");
    /* it matches, so a token that begins inside it does not */
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

static void new_ids_follow_the_tokens_present_before_their_batch(void **state)
{
    (void)state;
    pf_tokenizer *t = open_parts((parts){ .vocab = ",\"zz\":1000",
                                          .top = "\"added_tokens\": [{\"id\": 1000, \"content\": \"zz\"},"
                                                 "{\"id\": 257, \"content\": \"<a>\"}]," });
    assert_int_equal(pf_tokenizer_find_added(t, "<a>"), 257);
    pf_tokenizer_close(t);
    char *text =
        build((parts){ .vocab = ",\"zz\":1000", .top = "\"added_tokens\": [{\"id\": 1000, \"content\": \"zz\"}]," });
    t = open_text(text, "{\"bos_token\": \"<a>\"}");
    assert_int_equal(pf_tokenizer_find_added(t, "<a>"), 1001);
    pf_tokenizer_close(t);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stripping_white_space_that_is_tokens_takes_linear_time),
        cmocka_unit_test(matcher_finds_the_longest_token_at_each_position),
        cmocka_unit_test(near_matches_everywhere_take_linear_time),
        cmocka_unit_test(cancel_ends_matching_within_a_few_thousand_bytes),
        cmocka_unit_test(longest_added_token_matches_and_new_ids_follow_the_vocabulary),
        cmocka_unit_test(added_token_is_identified_by_its_text),
        cmocka_unit_test(added_token_of_byte_characters_decodes_to_bytes),
        cmocka_unit_test(white_space_is_stripped_by_the_first_token_that_takes_it),
        cmocka_unit_test(single_word_token_does_not_match_inside_a_word),
        cmocka_unit_test(special_token_wins_over_an_equal_normalized_token),
        cmocka_unit_test(added_token_normalized_to_nothing_never_matches),
        cmocka_unit_test(ids_without_a_token_are_invalid),
        cmocka_unit_test(special_tokens_of_tokenizer_config_are_recognized),
        cmocka_unit_test(flags_in_tokenizer_config_override_tokenizer_json),
        cmocka_unit_test(too_long_added_token_is_refused_with_its_file_name),
        cmocka_unit_test(added_token_of_maximum_length_is_accepted),
        cmocka_unit_test(split_special_tokens_encodes_them_as_text),
        cmocka_unit_test(new_ids_follow_the_tokens_present_before_their_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
