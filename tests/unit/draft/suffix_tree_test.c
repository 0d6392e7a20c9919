/* The suffix tree against its definition: strings are counted one by one in the text. */
#include "draft/suffix_tree.h"

#include <stdlib.h>

#include "draft/suffix_corpus.h"
#include "tests/support/alloc_count.h"
#include "tests/support/test.h"

typedef struct {
    pf_arena arena;
    pf_suffix_tree tree;
    int32_t *text;
} rig;

static rig make_tree(int32_t max_tokens)
{
    rig r = { 0 };
    pf_arena measure = pf_arena_measure();
    (void)pf_arena_take(&measure, (size_t)max_tokens, sizeof *r.text);
    pf_suffix_tree_lay_out(NULL, max_tokens, &measure);
    assert_int_equal(pf_arena_create(measure.used, &r.arena), PF_OK);
    r.text = pf_arena_take(&r.arena, (size_t)max_tokens, sizeof *r.text);
    pf_suffix_tree_lay_out(&r.tree, max_tokens, &r.arena);
    assert_true(r.arena.used <= r.arena.size);
    pf_suffix_tree_reset(&r.tree, r.text);
    return r;
}

/* ---- the definition ------------------------------------------------------------------------------------------------ */

static bool occurs_at(const int32_t *text, int32_t n_text, int32_t at, const int32_t *string, int32_t n)
{
    if (at + n > n_text) return false;
    for (int32_t i = 0; i < n; i++)
        if (text[at + i] != string[i]) return false;
    return true;
}

/* How often a string occurs; *n_ended: followed by something. */
static int32_t count_naively(const int32_t *text, int32_t n_text, const int32_t *string, int32_t n, int32_t *n_ended)
{
    int32_t count = 0;
    *n_ended = 0;
    for (int32_t at = 0; at < n_text; at++) {
        if (!occurs_at(text, n_text, at, string, n)) continue;
        count++;
        *n_ended += at + n < n_text;
    }
    return count;
}

/* Of the tokens behind the string the most frequent, of equals the one that occurred last, except one. -1: there is none. */
static int32_t next_naively(const int32_t *text, int32_t n_text, const int32_t *string, int32_t n, int32_t except,
                            int32_t *count)
{
    int32_t best = -1;
    *count = 0;
    for (int32_t at = n_text - n - 1; at >= 0; at--) {
        const int32_t token = text[at + n];
        if (token == PF_SUFFIX_BREAK || token == except || !occurs_at(text, n_text, at, string, n)) continue;
        int32_t times = 0;
        for (int32_t other = 0; other < n_text - n; other++)
            times += occurs_at(text, n_text, other, string, n) && text[other + n] == token;
        if (times <= *count) continue;
        *count = times;
        best = token;
    }
    return best;
}

/* The longest suffix of the last document that occurs before it. */
static int32_t repeated_naively(const int32_t *text, int32_t n_text)
{
    int32_t longest = 0;
    for (int32_t n = 1; n < PF_SUFFIX_DEPTH && n <= n_text && text[n_text - n] != PF_SUFFIX_BREAK; n++) {
        int32_t n_ended;
        if (count_naively(text, n_text, text + n_text - n, n, &n_ended) < 2) break;
        longest = n;
    }
    return longest;
}

/* ---- comparison ---------------------------------------------------------------------------------------------------- */

static void check_string(const pf_suffix_tree *t, const int32_t *string, int32_t n, pf_suffix_place place)
{
    int32_t n_ended, ended, count;
    assert_int_equal(pf_suffix_tree_count(t, place), count_naively(t->text, t->n_tokens, string, n, &n_ended));
    pf_suffix_next next[2];
    const int32_t n_next = pf_suffix_tree_next(t, place, next, &ended);
    assert_int_equal(ended, n_ended);
    int32_t except = -1;
    for (int32_t i = 0; i < 2; i++) {
        if (n == PF_SUFFIX_DEPTH) return; /* the first occurrence goes on there, and no more is promised */
        const int32_t token = next_naively(t->text, t->n_tokens, string, n, except, &count);
        assert_int_equal(i < n_next, token >= 0);
        if (token < 0) return;
        assert_int_equal(next[i].token, token);
        assert_int_equal(next[i].count, count);
        except = token;
    }
}

static void check_tree(const pf_suffix_tree *t)
{
    pf_suffix_place place = { 0, 0 };
    const int32_t n_repeated = repeated_naively(t->text, t->n_tokens);
    assert_int_equal(pf_suffix_tree_repeated(t, &place), n_repeated);
    if (n_repeated > 0) check_string(t, t->text + t->n_tokens - n_repeated, n_repeated, place);
    for (int32_t at = 0; at < t->n_tokens; at++)
        for (int32_t n = 1; n <= PF_SUFFIX_PATTERN && at + n <= t->n_tokens; n++) {
            const int32_t *string = t->text + at;
            if (string[n - 1] == PF_SUFFIX_BREAK) break;
            assert_int_equal(pf_suffix_tree_find(t, string, n, &place), n);
            check_string(t, string, n, place);
        }
}

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void counts_and_continuations_are_those_of_the_definition(void **state)
{
    (void)state;
    enum { N = 64 };
    uint32_t random = 7;
    for (uint32_t trial = 0; trial < 30; trial++) {
        rig r = make_tree(N);
        const uint32_t n_ids = 1 + trial % 6;
        for (int32_t i = 0; i < N; i++) {
            if (trial % 3 == 2 && next_random(&random) % 9 == 0)
                assert_true(pf_suffix_tree_break(&r.tree));
            else
                assert_true(pf_suffix_tree_append(&r.tree, (int32_t)(next_random(&random) % n_ids)));
            if (i % 31 == 30 || i < 8) check_tree(&r.tree);
        }
        check_tree(&r.tree);
        assert_false(pf_suffix_tree_append(&r.tree, 0));
        assert_false(pf_suffix_tree_break(&r.tree));
        pf_arena_destroy(&r.arena);
    }
}

static void a_period_is_counted_up_to_the_depth(void **state)
{
    (void)state;
    enum { N = 200 };
    rig r = make_tree(N);
    for (int32_t i = 0; i < N; i++) assert_true(pf_suffix_tree_append(&r.tree, i % 3));
    check_tree(&r.tree);
    pf_suffix_place place;
    assert_int_equal(pf_suffix_tree_repeated(&r.tree, &place), PF_SUFFIX_DEPTH - 1);
    pf_suffix_next next[2];
    int32_t n_ended;
    for (int32_t i = 0; i < 32; i++) { /* past the depth, along the first occurrence */
        assert_int_equal(pf_suffix_tree_next(&r.tree, place, next, &n_ended), 1);
        assert_int_equal(next[0].token, (N + i) % 3);
        place = next[0].place;
    }
    pf_arena_destroy(&r.arena);
}

static void a_string_spans_no_break(void **state)
{
    (void)state;
    rig r = make_tree(16);
    const int32_t tokens[] = { 1, 2, 3, -1, 4, 2, 3, 5 };
    for (size_t i = 0; i < PF_COUNT(tokens); i++)
        assert_true(tokens[i] < 0 ? pf_suffix_tree_break(&r.tree) : pf_suffix_tree_append(&r.tree, tokens[i]));
    pf_suffix_place place;
    assert_int_equal(pf_suffix_tree_find(&r.tree, (int32_t[]){ 3, 4 }, 2, &place), 1); /* 4 alone */
    assert_int_equal(pf_suffix_tree_find(&r.tree, (int32_t[]){ 9, 2, 3 }, 3, &place), 2);
    assert_int_equal(pf_suffix_tree_count(&r.tree, place), 2);
    check_tree(&r.tree);
    pf_arena_destroy(&r.arena);
}

static void an_emptied_tree_is_as_a_new_one(void **state)
{
    (void)state;
    enum { N = 64 };
    rig r = make_tree(N);
    uint32_t random = 3;
    for (int32_t round = 0; round < 3; round++) {
        for (int32_t i = 0; i < N; i++)
            assert_true(pf_suffix_tree_append(&r.tree, (int32_t)(next_random(&random) % 3)));
        check_tree(&r.tree);
        pf_suffix_tree_reset(&r.tree, r.text);
        pf_suffix_place place;
        assert_int_equal(pf_suffix_tree_find(&r.tree, (int32_t[]){ 0 }, 1, &place), 0);
    }
    pf_arena_destroy(&r.arena);
}

/* ---- hostile texts ------------------------------------------------------------------------------------------------- */

enum { MIB = 1 << 20 };

static void check_bounds(const pf_suffix_tree *t)
{
    assert_true(t->n_nodes <= 2 * t->n_tokens + 1);
    assert_true(t->n_walkers <= PF_SUFFIX_DEPTH);
}

static void a_mebitoken_of_one_token_stays_within_its_memory(void **state)
{
    (void)state;
    rig r = make_tree(MIB);
    pf_alloc_count_reset();
    for (int32_t i = 0; i < MIB; i++) assert_true(pf_suffix_tree_append(&r.tree, 7));
    assert_int_equal(pf_alloc_count(), 0);
    check_bounds(&r.tree);
    assert_true(r.tree.n_nodes <= 2 * PF_SUFFIX_DEPTH);
    pf_suffix_place place;
    int32_t n_ended;
    pf_suffix_next next[2];
    assert_int_equal(pf_suffix_tree_find(&r.tree, (int32_t[]){ 7, 7, 7 }, 3, &place), 3);
    assert_int_equal(pf_suffix_tree_count(&r.tree, place), MIB - 2);
    assert_int_equal(pf_suffix_tree_next(&r.tree, place, next, &n_ended), 1);
    assert_int_equal(next[0].count, MIB - 3);
    pf_arena_destroy(&r.arena);
}

/* Every string of four tokens of 32 once: each suffix leaves the tree at once, and no slot is shared. */
static void a_de_bruijn_sequence_stays_within_its_memory(void **state)
{
    (void)state;
    enum { K = 32, ORDER = 4 };
    rig r = make_tree(MIB);
    uint8_t *seen = calloc(MIB, 1);
    assert_non_null(seen);
    pf_alloc_count_reset();
    uint32_t window = 0;
    for (int32_t i = 0; i < MIB; i++) { /* the greedy construction: the highest token that gives a new string */
        uint32_t token = K;
        while (token > 0 && seen[(window << 5 | (token - 1)) & (MIB - 1)]) token--;
        if (token == 0) break;
        window = (window << 5 | (token - 1)) & (MIB - 1);
        seen[window] = 1;
        assert_true(pf_suffix_tree_append(&r.tree, (int32_t)token - 1));
    }
    assert_int_equal(pf_alloc_count(), 0);
    check_bounds(&r.tree);
    assert_true(r.tree.n_tokens > MIB / 2);
    assert_true(r.tree.n_walkers < 2 * ORDER);
    free(seen);
    pf_arena_destroy(&r.arena);
}

static void a_different_token_each_time_stays_within_its_memory(void **state)
{
    (void)state;
    rig r = make_tree(MIB);
    for (int32_t i = 0; i < MIB; i++) assert_true(pf_suffix_tree_append(&r.tree, i * 2039 & INT32_MAX));
    check_bounds(&r.tree);
    pf_arena_destroy(&r.arena);
}

/* ---- the corpus ---------------------------------------------------------------------------------------------------- */

typedef struct {
    pf_arena arena;
    pf_suffix_corpus corpus;
} corpus_rig;

static corpus_rig make_corpus(size_t n_bytes)
{
    corpus_rig r = { 0 };
    pf_arena measure = pf_arena_measure();
    pf_suffix_corpus_lay_out(&(pf_suffix_corpus){ 0 }, n_bytes, &measure);
    assert_true(measure.used <= n_bytes);
    assert_true(measure.used > n_bytes / 2); /* tables come in powers of two */
    assert_int_equal(pf_arena_create(measure.used, &r.arena), PF_OK);
    pf_suffix_corpus_lay_out(&r.corpus, n_bytes, &r.arena);
    return r;
}

static int32_t find(const corpus_rig *r, uint64_t client, const int32_t *tokens, int32_t n, int32_t *next_token)
{
    const pf_suffix_tree *tree;
    pf_suffix_place place;
    const int32_t found = pf_suffix_corpus_find(&r->corpus, client, tokens, n, &tree, &place);
    pf_suffix_next next[2];
    int32_t n_ended;
    *next_token = found > 0 && pf_suffix_tree_next(tree, place, next, &n_ended) > 0 ? next[0].token : -1;
    return found;
}

static void a_corpus_takes_the_memory_that_it_is_given(void **state)
{
    (void)state;
    static const size_t sizes[] = { PF_SUFFIX_CORPUS_LEAST_BYTES, 1 << 20, 3333333, 64 << 20 };
    for (size_t i = 0; i < PF_COUNT(sizes); i++) {
        corpus_rig r = make_corpus(sizes[i]);
        uint32_t random = 1;
        pf_alloc_count_reset();
        for (int32_t text = 0; text < 200; text++) {
            int32_t tokens[300];
            for (int32_t j = 0; j < 300; j++) tokens[j] = (int32_t)(next_random(&random) % 7);
            pf_suffix_corpus_add(&r.corpus, (uint64_t)text % 20, tokens, 300);
        }
        assert_int_equal(pf_alloc_count(), 0);
        pf_arena_destroy(&r.arena);
    }
}

static void a_text_is_found_by_its_client_alone(void **state)
{
    (void)state;
    corpus_rig r = make_corpus(1 << 20);
    const int32_t one[] = { 1, 2, 3, 4 }, two[] = { 1, 2, 9 };
    int32_t next;
    pf_suffix_corpus_add(&r.corpus, 1, one, 4);
    pf_suffix_corpus_add(&r.corpus, 2, two, 3);
    assert_int_equal(find(&r, 1, one, 3, &next), 3);
    assert_int_equal(next, 4);
    assert_int_equal(find(&r, 2, one, 2, &next), 2);
    assert_int_equal(next, 9);
    assert_int_equal(find(&r, 2, one, 3, &next), 0); /* no text of client 2 has a 3 */
    assert_int_equal(find(&r, 3, one, 3, &next), 0);
    assert_int_equal(find(&r, 0, one, 3, &next), 0);
    pf_arena_destroy(&r.arena);
}

static void the_oldest_texts_are_evicted(void **state)
{
    (void)state;
    corpus_rig r = make_corpus(PF_SUFFIX_CORPUS_LEAST_BYTES);
    const int32_t room = r.corpus.segments[0].tree.max_tokens;
    int32_t next;
    for (int32_t i = 0; i <= PF_SUFFIX_SEGMENTS; i++) { /* one more than there are segments; each fills one */
        int32_t tokens[4096];
        assert_true(room + 1 <= 4096);
        for (int32_t j = 0; j < room; j++) tokens[j] = 10000 * (i + 1) + j;
        pf_suffix_corpus_add(&r.corpus, 5, tokens, room);
    }
    assert_int_equal(find(&r, 5, (int32_t[]){ 10001 }, 1, &next), 0);
    for (int32_t i = 1; i <= PF_SUFFIX_SEGMENTS; i++) {
        const int32_t token = 10000 * (i + 1) + 1;
        assert_int_equal(find(&r, 5, &token, 1, &next), 1);
        assert_int_equal(next, token + 1);
    }
    pf_arena_destroy(&r.arena);
}

static void the_segment_of_a_client_that_is_silent_longest_goes_to_a_new_one(void **state)
{
    (void)state;
    corpus_rig r = make_corpus(1 << 20);
    int32_t next;
    for (uint64_t client = 1; client <= PF_SUFFIX_SEGMENTS; client++)
        pf_suffix_corpus_add(&r.corpus, client, (int32_t[]){ 3, 4 }, 2);
    pf_suffix_corpus_add(&r.corpus, 1, (int32_t[]){ 3, 5, 5 }, 3);
    pf_suffix_corpus_add(&r.corpus, 99, (int32_t[]){ 8, 9 }, 2);
    assert_int_equal(find(&r, 2, (int32_t[]){ 3 }, 1, &next), 0);
    assert_int_equal(find(&r, 1, (int32_t[]){ 3 }, 1, &next), 1);
    assert_int_equal(find(&r, 99, (int32_t[]){ 3 }, 1, &next), 0);
    assert_int_equal(find(&r, 99, (int32_t[]){ 8 }, 1, &next), 1);
    pf_arena_destroy(&r.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_and_continuations_are_those_of_the_definition),
        cmocka_unit_test(a_period_is_counted_up_to_the_depth),
        cmocka_unit_test(a_string_spans_no_break),
        cmocka_unit_test(an_emptied_tree_is_as_a_new_one),
        cmocka_unit_test(a_mebitoken_of_one_token_stays_within_its_memory),
        cmocka_unit_test(a_de_bruijn_sequence_stays_within_its_memory),
        cmocka_unit_test(a_different_token_each_time_stays_within_its_memory),
        cmocka_unit_test(a_corpus_takes_the_memory_that_it_is_given),
        cmocka_unit_test(a_text_is_found_by_its_client_alone),
        cmocka_unit_test(the_oldest_texts_are_evicted),
        cmocka_unit_test(the_segment_of_a_client_that_is_silent_longest_goes_to_a_new_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
