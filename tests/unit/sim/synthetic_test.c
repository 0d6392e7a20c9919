/* The synthetic pair keeps the promises of a forward backend, and agrees as often as it is told to. */
#include "sim/synthetic.h"
#include "tests/support/test.h"

enum { N = 200, ROWS = 8 };

static pf_synthetic *make(bool is_draft, double acceptance, int32_t max_held)
{
    pf_error error = { 0 };
    pf_synthetic *out;
    const pf_synthetic_config config = { .seed = 5,
                                         .is_draft = is_draft,
                                         .acceptance = acceptance,
                                         .max_tokens = N,
                                         .max_sequences = 4,
                                         .max_rows = N,
                                         .max_logit_rows = N,
                                         .max_held = max_held };
    assert_ok(pf_synthetic_create(&config, &out, &error), error);
    return out;
}

/* The best token behind each of tokens [n]. */
static void choose_all(pf_synthetic *s, const int32_t *tokens, int32_t n, int32_t *best)
{
    const pf_forward_backend b = pf_synthetic_backend(s);
    int64_t id;
    assert_status(pf_forward_acquire(&b, &id), PF_OK);
    const pf_span span = { .sequence = id, .tokens = tokens, .n_tokens = n, .n_logits = n };
    assert_status(pf_forward_run(&b, &span, 1), PF_OK);
    for (int32_t i = 0; i < n; i++) best[i] = pf_forward_best(&b, i, PF_SYNTHETIC_VOCAB);
    pf_forward_release(&b, id);
}

static void fill(int32_t *tokens)
{
    for (int32_t i = 0; i < N; i++) tokens[i] = i * 7 % PF_SYNTHETIC_VOCAB;
}

static void draft_and_target_agree_as_often_as_is_asked(void **state)
{
    (void)state;
    int32_t tokens[N], target[N], draft[N];
    fill(tokens);
    pf_synthetic *t = make(false, 1.0, 0);
    choose_all(t, tokens, N, target);
    for (int32_t tenth = 0; tenth <= 10; tenth += 5) {
        pf_synthetic *d = make(true, tenth / 10.0, 0);
        int32_t n_same = 0;
        choose_all(d, tokens, N, draft);
        for (int32_t i = 0; i < N; i++) n_same += draft[i] == target[i];
        assert_in_range(n_same, tenth * N / 10 - (tenth == 5 ? 25 : 0), tenth * N / 10 + (tenth == 5 ? 25 : 0));
        pf_synthetic_destroy(d);
    }
    pf_synthetic_destroy(t);
}

static void rows_do_not_depend_on_the_pass_or_on_what_was_rolled_back(void **state)
{
    (void)state;
    int32_t tokens[N], best[N];
    fill(tokens);
    pf_synthetic *s = make(false, 1.0, 0);
    choose_all(s, tokens, N, best);
    const pf_forward_backend b = pf_synthetic_backend(s);
    int64_t id, branch;
    const int32_t other[2] = { 1, 2 };
    assert_status(pf_forward_acquire(&b, &id), PF_OK);
    pf_span span = { .sequence = id, .tokens = tokens, .n_tokens = 10 };
    assert_status(pf_forward_run(&b, &span, 1), PF_OK);
    span = (pf_span){ .sequence = id, .tokens = other, .n_tokens = 2 };
    assert_status(pf_forward_run(&b, &span, 1), PF_OK);
    assert_status(pf_forward_truncate(&b, id, 10), PF_OK);
    assert_status(pf_forward_fork(&b, id, 9, &branch), PF_OK);
    const pf_span both[2] = { { .sequence = branch, .tokens = tokens + 9, .n_tokens = 3, .n_logits = 1 },
                              { .sequence = id, .tokens = tokens + 10, .n_tokens = 1, .n_logits = 1 } };
    assert_status(pf_forward_run(&b, both, 2), PF_OK);
    assert_int_equal(pf_forward_best(&b, 0, PF_SYNTHETIC_VOCAB), best[11]);
    assert_int_equal(pf_forward_best(&b, 1, PF_SYNTHETIC_VOCAB), best[10]);
    pf_synthetic_destroy(s);
}

static void the_path_of_a_tree_is_what_a_chain_gives(void **state)
{
    (void)state;
    int32_t tokens[N], best[N];
    fill(tokens);
    pf_synthetic *s = make(false, 1.0, 0);
    choose_all(s, tokens, N, best);
    const pf_forward_backend b = pf_synthetic_backend(s);
    const int32_t tree[4] = { tokens[0], 63, tokens[1], tokens[2] }, parents[4] = { -1, 0, 0, 2 },
                  path[3] = { 0, 2, 3 };
    int64_t id;
    assert_status(pf_forward_acquire(&b, &id), PF_OK);
    pf_span span = { .sequence = id, .tokens = tree, .n_tokens = 4, .n_logits = 4, .parents = parents };
    assert_status(pf_forward_run(&b, &span, 1), PF_OK);
    assert_int_equal(pf_forward_best(&b, 3, PF_SYNTHETIC_VOCAB), best[2]);
    assert_status(pf_forward_keep(&b, id, 0, path, 3), PF_OK);
    span = (pf_span){ .sequence = id, .tokens = tokens + 3, .n_tokens = 1, .n_logits = 1 };
    assert_status(pf_forward_run(&b, &span, 1), PF_OK);
    assert_int_equal(pf_forward_best(&b, 0, PF_SYNTHETIC_VOCAB), best[3]);
    pf_synthetic_destroy(s);
}

static void a_full_cache_is_a_limit_and_changes_nothing(void **state)
{
    (void)state;
    int32_t tokens[N];
    fill(tokens);
    pf_synthetic *s = make(false, 1.0, 10);
    const pf_forward_backend b = pf_synthetic_backend(s);
    int64_t id, branch;
    assert_status(pf_forward_acquire(&b, &id), PF_OK);
    pf_span span = { .sequence = id, .tokens = tokens, .n_tokens = 8 };
    assert_status(pf_forward_run(&b, &span, 1), PF_OK);
    span.n_tokens = 3;
    assert_status(pf_forward_run(&b, &span, 1), PF_LIMIT);
    assert_status(pf_forward_fork(&b, id, 3, &branch), PF_LIMIT);
    assert_int_equal(pf_forward_length(&b, id), 8);
    assert_int_equal(pf_synthetic_count(s).n_held, 8);
    assert_int_equal(pf_synthetic_count(s).n_sequences, 1);
    pf_forward_release(&b, id);
    assert_int_equal(pf_synthetic_count(s).n_held, 0);
    pf_synthetic_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draft_and_target_agree_as_often_as_is_asked),
        cmocka_unit_test(rows_do_not_depend_on_the_pass_or_on_what_was_rolled_back),
        cmocka_unit_test(the_path_of_a_tree_is_what_a_chain_gives),
        cmocka_unit_test(a_full_cache_is_a_limit_and_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
