/* Tests the unigram model against all ways to cut a text, and the cases of ties, unknown characters and long tokens. */
#include "tokenizer/encode/unigram.h"

#include <stdlib.h>

#include "tests/support/draw.h"
#include "tests/support/test.h"

enum { MAX_TOKENS = 40, MAX_TEXT = 11, UNK = 0 };

typedef struct {
    pf_unigram_token tokens[MAX_TOKENS]; /* as given: not sorted */
    size_t n;
} vocabulary;

static void add(vocabulary *v, const char *text, double score)
{
    v->tokens[v->n] = (pf_unigram_token){ .text = text, .n_bytes = strlen(text), .score = score, .id = (int32_t)v->n };
    v->n++;
}

static pf_unigram *make(const vocabulary *v, int32_t unk_id, const int32_t *byte_id)
{
    pf_unigram_token sorted[MAX_TOKENS];
    pf_unigram *u = NULL;
    memcpy(sorted, v->tokens, sizeof sorted);
    assert_status(pf_unigram_create(sorted, v->n, unk_id, byte_id, &u), PF_OK);
    return u;
}

static void assert_ids(const pf_unigram *u, const char *text, const int32_t *ids, int32_t n)
{
    pf_tokens got = { 0 };
    pf_unigram_scratch scratch = { .nodes = NULL };
    assert_status(pf_unigram_encode(u, &scratch, text, strlen(text), NULL, &got), PF_OK);
    assert_int_equal(got.n, n);
    if (n > 0) assert_memory_equal(got.ids, ids, (size_t)n * sizeof *ids);
    pf_unigram_scratch_clear(&scratch);
    pf_tokens_clear(&got);
}

#define ASSERT_IDS(u, text, ...) \
    assert_ids(u, text, (const int32_t[]){ __VA_ARGS__ }, (int32_t)(sizeof((const int32_t[]){ __VA_ARGS__ }) / 4))

static void the_largest_sum_wins(void **state)
{
    (void)state;
    vocabulary v = { .n = 0 };
    add(&v, "<unk>", 0.0);
    add(&v, "a", -2.0);
    add(&v, "b", -2.0);
    add(&v, "ab", -3.0);
    add(&v, "abb", -7.5);
    pf_unigram *u = make(&v, UNK, NULL);
    ASSERT_IDS(u, "ab", 3);
    ASSERT_IDS(u, "abb", 3, 2);
    ASSERT_IDS(u, "ba", 2, 1);
    assert_ids(u, "", NULL, 0);
    pf_unigram_destroy(u);
}

/* Sums are -3 each: "ab" + "c" is offered to the end behind "a" + "bc", and does not replace it. */
static void of_equal_sums_the_earlier_begin_wins(void **state)
{
    (void)state;
    vocabulary v = { .n = 0 };
    add(&v, "a", -1.0);
    add(&v, "c", -1.0);
    add(&v, "ab", -2.0);
    add(&v, "bc", -2.0);
    pf_unigram *u = make(&v, -1, NULL);
    ASSERT_IDS(u, "abc", 0, 3);
    pf_unigram_destroy(u);
}

static void of_equal_texts_the_last_id_counts(void **state)
{
    (void)state;
    vocabulary v = { .n = 0 };
    add(&v, "a", -1.0);
    add(&v, "a", -5.0);
    pf_unigram *u = make(&v, -1, NULL);
    ASSERT_IDS(u, "a", 1);
    pf_unigram_destroy(u);
}

static void a_run_of_unknown_characters_is_one_token_or_its_bytes(void **state)
{
    (void)state;
    vocabulary v = { .n = 0 };
    int32_t byte_id[256];
    add(&v, "<unk>", 0.0);
    add(&v, "a", -1.0);
    pf_unigram *u = make(&v, UNK, NULL);
    ASSERT_IDS(u,
               "a\xC3\xA9\xC3\xA9z"
               "a",
               1, UNK, 1);
    ASSERT_IDS(u, "\xC3\xA9<unk>", UNK); /* the text of the unknown token joins the run */
    pf_unigram_destroy(u);
    for (int i = 0; i < 256; i++) byte_id[i] = 1000 + i;
    u = make(&v, UNK, byte_id);
    ASSERT_IDS(u, "a\xC3\xA9z", 1, 1000 + 0xC3, 1000 + 0xA9, 1000 + 'z');
    pf_unigram_destroy(u);
    byte_id['z'] = -1;
    u = make(&v, UNK, byte_id);
    ASSERT_IDS(u, "\xC3\xA9z", UNK); /* a byte of the run has no token */
    pf_unigram_destroy(u);
}

/* The worst token has -5: an unknown a and "bcd" are -16, "ab" and "cd" -10. */
static void an_unknown_character_scores_ten_less_than_the_worst_token(void **state)
{
    (void)state;
    vocabulary v = { .n = 0 };
    add(&v, "<unk>", 0.0);
    add(&v, "ab", -5.0);
    add(&v, "cd", -5.0);
    add(&v, "bcd", -1.0);
    pf_unigram *u = make(&v, UNK, NULL);
    ASSERT_IDS(u, "abcd", 1, 2);
    ASSERT_IDS(u, "xbcd", UNK, 3);
    pf_unigram_destroy(u);
}

static void an_unknown_character_without_an_unknown_token_is_refused(void **state)
{
    (void)state;
    vocabulary v = { .n = 0 };
    pf_tokens got = { 0 };
    pf_unigram_scratch scratch = { .nodes = NULL };
    add(&v, "a", -1.0);
    pf_unigram *u = make(&v, -1, NULL);
    assert_status(pf_unigram_encode(u, &scratch, "ab", 2, NULL, &got), PF_UNSUPPORTED);
    pf_unigram_scratch_clear(&scratch);
    pf_tokens_clear(&got);
    pf_unigram_destroy(u);
}

/* ---- against all ways ---- */

/* The best sum of every way to cut text [n] of one-byte characters, from the back: sums are small integers, so their order
 * does not matter. */
static double best_sum(const vocabulary *v, double unknown, const char *text, size_t n)
{
    if (n == 0) return 0.0;
    double best = -1e300;
    bool has_single = false;
    for (size_t i = 0; i < v->n; i++) {
        const pf_unigram_token *t = &v->tokens[i];
        if (t->n_bytes > n || memcmp(t->text, text, t->n_bytes) != 0) continue;
        const double sum = t->score + best_sum(v, unknown, text + t->n_bytes, n - t->n_bytes);
        if (sum > best) best = sum;
        has_single = has_single || t->n_bytes == 1;
    }
    const double skipped = has_single ? -1e300 : unknown + best_sum(v, unknown, text + 1, n - 1);
    return skipped > best ? skipped : best;
}

/* The sum of the tokens that were chosen; with byte tokens each unknown character is seen. */
static double sum_of(const vocabulary *v, double unknown, const pf_tokens *ids)
{
    double sum = 0.0;
    for (int32_t i = 0; i < ids->n; i++) sum += ids->ids[i] >= 1000 ? unknown : v->tokens[ids->ids[i]].score;
    return sum;
}

static void no_other_way_has_a_larger_sum(void **state)
{
    (void)state;
    uint64_t rng = 7;
    int32_t byte_id[256];
    for (int i = 0; i < 256; i++) byte_id[i] = 1000 + i;
    for (int round = 0; round < 100; round++) {
        char texts[MAX_TOKENS][8], text[MAX_TEXT + 1] = "";
        vocabulary v = { .n = 0 };
        double least = 0.0;
        add(&v, "#", -3.0); /* the unknown token, whose text is in no text */
        for (size_t i = 0; i < 12; i++) {
            const size_t n = 1 + draw(&rng) % 4;
            for (size_t k = 0; k < n; k++) texts[i][k] = (char)('a' + draw(&rng) % 3);
            texts[i][n] = '\0';
            bool is_new = true;
            for (size_t k = 0; k < i; k++) is_new = is_new && strcmp(texts[k], texts[i]) != 0;
            if (is_new) add(&v, texts[i], -(double)(1 + draw(&rng) % 20));
        }
        for (size_t i = 0; i < v.n; i++) least = v.tokens[i].score < least ? v.tokens[i].score : least;
        const size_t n = draw(&rng) % MAX_TEXT;
        for (size_t k = 0; k < n; k++) text[k] = (char)('a' + draw(&rng) % 3);
        pf_unigram *u = make(&v, UNK, byte_id);
        pf_unigram_scratch scratch = { .nodes = NULL };
        pf_tokens got = { 0 };
        assert_status(pf_unigram_encode(u, &scratch, text, n, NULL, &got), PF_OK);
        assert_true(sum_of(&v, least - 10.0, &got) == best_sum(&v, least - 10.0, text, n));
        pf_tokens_clear(&got);
        pf_unigram_scratch_clear(&scratch);
        pf_unigram_destroy(u);
    }
}

/* ---- hostile vocabularies ---- */

static void tokens_that_take_too_long_end_in_pf_limit(void **state)
{
    (void)state;
    enum { N = 1 << 20 };
    char *text = malloc(N);
    pf_unigram *u = NULL;
    pf_unigram_scratch scratch = { .nodes = NULL };
    pf_tokens got = { 0 };
    assert_non_null(text);
    memset(text, 'a', N);
    pf_unigram_token tokens[] = { { .text = "a", .n_bytes = 1, .score = -1.0, .id = 0 },
                                  { .text = text, .n_bytes = N / 2, .score = -1.0, .id = 1 } };
    assert_status(pf_unigram_create(tokens, 2, -1, NULL, &u), PF_OK);
    assert_status(pf_unigram_encode(u, &scratch, text, N, NULL, &got), PF_LIMIT);
    pf_tokens_clear(&got);
    pf_unigram_scratch_clear(&scratch);
    pf_unigram_destroy(u);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_sum_wins),
        cmocka_unit_test(of_equal_sums_the_earlier_begin_wins),
        cmocka_unit_test(of_equal_texts_the_last_id_counts),
        cmocka_unit_test(a_run_of_unknown_characters_is_one_token_or_its_bytes),
        cmocka_unit_test(an_unknown_character_scores_ten_less_than_the_worst_token),
        cmocka_unit_test(an_unknown_character_without_an_unknown_token_is_refused),
        cmocka_unit_test(no_other_way_has_a_larger_sum),
        cmocka_unit_test(tokens_that_take_too_long_end_in_pf_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
