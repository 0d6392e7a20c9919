/* Which ids two vocabularies share: by text, by hashes of blocks, and what a drafter is told to exclude. */
#include "tests/support/test.h"

#include <string.h>

#include "proto/vocabulary.h"

enum { N = 10000 };

/* Token i is its number in decimal digits, unless `other` names it. */
typedef struct {
    int32_t other; /* -1: none; every id from `other` on in steps of `step` is another text */
    int32_t step;
    int32_t absent; /* an id without a token; -1 */
    char text[16];
} words;

static const char *token(const void *user, int32_t id, size_t *n_bytes)
{
    words *w = (words *)(uintptr_t)user;
    if (id == w->absent) return NULL;
    const bool other = w->other >= 0 && id >= w->other && (id - w->other) % w->step == 0;
    *n_bytes = (size_t)snprintf(w->text, sizeof w->text, "%s%d", other ? "x" : "", (int)id);
    return w->text;
}

typedef struct {
    words words;
    pf_vocab_texts texts;
    pf_model_info info;
} vocabulary;

static void make(vocabulary *v, int32_t n, int32_t other, int32_t step, int32_t absent)
{
    *v = (vocabulary){ .words = { other, step, absent, "" }, .info.vocab_size = n };
    v->texts = (pf_vocab_texts){ token, &v->words };
    v->info.texts = &v->texts;
    pf_vocab_hash(&v->info);
}

static vocabulary draft, target;
static pf_vocab_match match;

static void compare(void)
{
    assert_status(pf_vocab_compare(&draft.info, &target.info, &match), PF_OK);
}

static void across_the_wire(void)
{
    draft.info.texts = NULL;
    compare();
}

static void assert_excluded(const int32_t *expected, int32_t n)
{
    assert_int_equal(match.n_excluded, n);
    for (int32_t i = 0; i < 2 * n; i++) assert_int_equal(match.excluded[i], expected[i]);
}

static void equal_vocabularies_share_all_ids(void **state)
{
    (void)state;
    make(&draft, N, -1, 1, 7);
    make(&target, N, -1, 1, 7);
    for (int i = 0; i < 2; i++) {
        i == 0 ? compare() : across_the_wire();
        assert_int_equal(match.n_ids, N);
        assert_int_equal(match.n_different, 0);
        assert_int_equal(match.first_different, -1);
        assert_int_equal(match.n_excluded, 0);
    }
}

static void an_added_token_of_the_target_excludes_nothing(void **state)
{
    (void)state;
    make(&draft, N, -1, 1, -1);
    make(&target, N + 1, -1, 1, -1);
    compare();
    assert_int_equal(match.n_ids, N + 1);
    assert_int_equal(match.n_different, 1);
    assert_int_equal(match.first_different, N);
    assert_int_equal(match.n_excluded, 0);
}

static void ids_past_the_end_of_the_target_are_excluded(void **state)
{
    (void)state;
    make(&draft, N, -1, 1, -1);
    make(&target, N - 3, -1, 1, -1);
    compare();
    assert_int_equal(match.n_different, 3);
    assert_excluded((int32_t[]){ N - 3, N }, 1);
}

static void a_renamed_token_and_a_missing_one_are_excluded(void **state)
{
    (void)state;
    make(&draft, N, 10, N, -1);
    make(&target, N, -1, 1, 12);
    compare();
    assert_int_equal(match.n_different, 2);
    assert_int_equal(match.first_different, 10);
    assert_excluded((int32_t[]){ 10, 11, 12, 13 }, 2);
}

static void hashes_of_one_id_each_are_exact(void **state)
{
    (void)state;
    make(&draft, PF_VOCAB_HASHES, 10, PF_VOCAB_HASHES, -1);
    make(&target, PF_VOCAB_HASHES, -1, 1, 12);
    across_the_wire();
    assert_int_equal(match.block_ids, 1);
    assert_int_equal(match.n_different, 2);
    assert_excluded((int32_t[]){ 10, 11, 12, 13 }, 2);
}

static void a_block_with_one_difference_is_excluded_whole(void **state)
{
    (void)state;
    make(&draft, 8 * PF_VOCAB_HASHES, 21, 8 * PF_VOCAB_HASHES, -1);
    make(&target, 8 * PF_VOCAB_HASHES, -1, 1, -1);
    across_the_wire();
    assert_int_equal(match.block_ids, 8);
    assert_int_equal(match.n_different, 8);
    assert_int_equal(match.first_different, 16);
    assert_excluded((int32_t[]){ 16, 24 }, 1);
}

static void blocks_of_two_sizes_are_compared_in_the_larger(void **state)
{
    (void)state;
    make(&draft, PF_VOCAB_HASHES, -1, 1, -1);      /* a hash for each id */
    make(&target, PF_VOCAB_HASHES + 1, -1, 1, -1); /* for each two */
    across_the_wire();
    assert_int_equal(match.block_ids, 2);
    assert_int_equal(match.n_different, 1); /* the last block has one id */
    assert_int_equal(match.first_different, PF_VOCAB_HASHES);
    assert_int_equal(match.n_excluded, 0);
}

static void the_hash_depends_on_the_id(void **state)
{
    (void)state;
    make(&draft, 2, -1, 1, -1);
    const uint32_t first = draft.info.vocab_hashes[0];
    assert_int_not_equal(first, draft.info.vocab_hashes[1]);
    assert_int_equal(first, 0x7E1502C3); /* of 00000000 01000000 30: docs/protocol.md */
}

static void too_many_ranges_are_widened_until_they_fit(void **state)
{
    (void)state;
    make(&draft, N, 3, 13, -1); /* 769 ids, none beside another */
    make(&target, N, -1, 1, -1);
    compare();
    assert_int_equal(match.n_different, (N - 3 - 1) / 13 + 1);
    assert_true(match.n_excluded > 0 && match.n_excluded <= PF_MAX_EXCLUDED);
    for (int32_t id = 3; id < N; id += 13) {
        bool is_excluded = false;
        for (int32_t i = 0; i < match.n_excluded; i++)
            is_excluded |= match.excluded[2 * i] <= id && id < match.excluded[2 * i + 1];
        assert_true(is_excluded);
    }
    for (int32_t i = 1; i < 2 * match.n_excluded; i++) assert_true(match.excluded[i - 1] < match.excluded[i]);
    assert_true(match.excluded[2 * match.n_excluded - 1] <= N);
}

static void a_peer_that_tells_nothing_cannot_be_compared(void **state)
{
    (void)state;
    make(&draft, N, -1, 1, -1);
    make(&target, N, -1, 1, -1);
    draft.info.texts = NULL;
    draft.info.n_vocab_hashes = 0;
    assert_status(pf_vocab_compare(&draft.info, &target.info, &match), PF_UNAVAILABLE);
    assert_status(pf_vocab_compare(&target.info, &draft.info, &match), PF_UNAVAILABLE);
}

static void the_largest_vocabulary_has_a_bounded_number_of_hashes(void **state)
{
    (void)state;
    assert_int_equal(pf_vocab_n_hashes(1), 1);
    assert_int_equal(pf_vocab_n_hashes(PF_VOCAB_HASHES), PF_VOCAB_HASHES);
    assert_int_equal(pf_vocab_n_hashes(PF_VOCAB_HASHES + 1), PF_VOCAB_HASHES / 2 + 1);
    assert_int_equal(pf_vocab_n_hashes(INT32_MAX), PF_VOCAB_HASHES);
    /* Hashes of a peer that claims it: nothing runs past an int32_t. */
    draft = target = (vocabulary){ .info = { .vocab_size = INT32_MAX, .n_vocab_hashes = PF_VOCAB_HASHES } };
    draft.info.vocab_hashes[PF_VOCAB_HASHES - 1] = 1;
    compare();
    assert_int_equal(match.n_excluded, 1);
    assert_int_equal(match.excluded[1], INT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_vocabularies_share_all_ids),
        cmocka_unit_test(an_added_token_of_the_target_excludes_nothing),
        cmocka_unit_test(ids_past_the_end_of_the_target_are_excluded),
        cmocka_unit_test(a_renamed_token_and_a_missing_one_are_excluded),
        cmocka_unit_test(hashes_of_one_id_each_are_exact),
        cmocka_unit_test(a_block_with_one_difference_is_excluded_whole),
        cmocka_unit_test(blocks_of_two_sizes_are_compared_in_the_larger),
        cmocka_unit_test(the_hash_depends_on_the_id),
        cmocka_unit_test(too_many_ranges_are_widened_until_they_fit),
        cmocka_unit_test(a_peer_that_tells_nothing_cannot_be_compared),
        cmocka_unit_test(the_largest_vocabulary_has_a_bounded_number_of_hashes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
