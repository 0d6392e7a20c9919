/* How many passes and tokens a draft with a mask token is given, and which tree is made of its candidates. */
#include "draft/passes.h"

#include <math.h>

#include "draft/candidate_tree.h"
#include "tests/support/test.h"

/* ---- passes -------------------------------------------------------------------------------------------------- */

static void observe(pf_passes_records *r, pf_passes how, int32_t n_committed, uint64_t ns, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const pf_passes_round round = { .how = how, .n_judged = 4, .n_kept = 3, .n_committed = n_committed, .ns = ns };
        pf_passes_observe(r, &round);
    }
}

static void each_way_is_tried_before_one_is_chosen(void **state)
{
    (void)state;
    pf_passes_records r = { 0 };
    bool tried[PF_N_PASSES] = { 0 };
    for (int32_t i = 0; i < 3; i++) {
        const pf_passes how = pf_passes_choose(&r);
        assert_false(tried[how]);
        tried[how] = true;
        observe(&r, how, 2, 1000, 1);
    }
    assert_true(tried[PF_PASSES_ONE] && tried[PF_PASSES_TWO] && tried[PF_PASSES_EACH]);
}

static void the_way_that_commits_most_in_its_time_is_chosen_mostly(void **state)
{
    (void)state;
    for (pf_passes best = PF_PASSES_ONE; best < PF_N_PASSES; best++) {
        pf_passes_records r = { 0 };
        int32_t n_best = 0;
        for (int32_t i = 0; i < 500; i++) {
            const pf_passes how = pf_passes_choose(&r);
            n_best += how == best;
            observe(&r, how, 3, how == best ? 1000 : 1400, 1);
        }
        assert_in_range(n_best, 440, 497); /* and the others now and then */
    }
}

static void an_unlucky_first_round_does_not_rule_a_way_out(void **state)
{
    (void)state;
    pf_passes_records r = { 0 };
    observe(&r, PF_PASSES_ONE, 1, 1000, 1);
    observe(&r, PF_PASSES_TWO, 3, 1400, 1);
    observe(&r, PF_PASSES_EACH, 3, 1400, 1);
    assert_int_equal(pf_passes_choose(&r), PF_PASSES_ONE); /* its time is known, its tokens are not */
    observe(&r, PF_PASSES_ONE, 1, 1000, 20);
    assert_int_not_equal(pf_passes_choose(&r), PF_PASSES_ONE);
}

static void a_stall_does_not_change_the_choice(void **state)
{
    (void)state;
    pf_passes_records r = { 0 };
    observe(&r, PF_PASSES_ONE, 3, 1000, 100);
    observe(&r, PF_PASSES_TWO, 3, 1300, 100);
    observe(&r, PF_PASSES_EACH, 3, 1300, 100);
    observe(&r, PF_PASSES_ONE, 3, 1000 * 1000 * 1000, 1);
    assert_int_equal(pf_passes_choose(&r), PF_PASSES_ONE);
}

static void acceptance_is_learnt_by_position(void **state)
{
    (void)state;
    pf_passes_records r = { 0 };
    assert_true(fabs(pf_passes_acceptance(&r, PF_PASSES_ONE, 0) - 0.5) < 1e-9);
    observe(&r, PF_PASSES_ONE, 4, 1000, 200); /* three kept, the fourth not */
    for (int32_t i = 0; i < 3; i++) assert_true(pf_passes_acceptance(&r, PF_PASSES_ONE, i) > 0.95);
    assert_true(pf_passes_acceptance(&r, PF_PASSES_ONE, 3) < 0.05);
    assert_true(fabs(pf_passes_acceptance(&r, PF_PASSES_ONE, 9) - 0.75) < 0.01); /* as all */
    assert_true(fabs(pf_passes_acceptance(&r, PF_PASSES_TWO, 0) - 0.5) < 1e-9);
}

static void the_length_is_that_of_the_most_tokens_in_the_time_of_a_round(void **state)
{
    (void)state;
    pf_passes_records r = { 0 };
    pf_goodput g = { 0 };
    assert_int_equal(pf_passes_length(&r, PF_PASSES_ONE, &g, 1, 1, 16), PF_PASSES_FIRST);
    assert_int_equal(pf_passes_length(&r, PF_PASSES_ONE, &g, 1, 1, 3), 3);
    observe(&r, PF_PASSES_ONE, 4, 1000, 200); /* positions 0 to 2 are kept, 3 is not */
    for (int32_t i = 0; i < 50; i++) {
        pf_goodput_observe_pass(&g, 1 + i % 8, 1000);
        pf_goodput_observe_step(&g, 1 + i % 8, (uint64_t)(10000 + 100 * (i % 8)), 0);
    }
    assert_in_range(pf_passes_length(&r, PF_PASSES_ONE, &g, 1, 1, 16), 3, 4);
    for (int32_t i = 0; i < 400; i++) pf_goodput_observe_step(&g, 1 + i % 8, (uint64_t)(100 + 10000 * (i % 8)), 0);
    assert_int_equal(pf_passes_length(&r, PF_PASSES_ONE, &g, 1, 1, 16), 1); /* a row costs as much as a round */
}

/* ---- trees --------------------------------------------------------------------------------------------------- */

static const pf_tree_level LEVELS[3] = { { .margin = 0.1f, .n = 2, .ids = { 10, 11 } },
                                         { .margin = 0.1f, .n = 2, .ids = { 20, 21 } },
                                         { .margin = 0.1f, .n = 2, .ids = { 30, 31 } } };

static int32_t build(const pf_tree_shares *shares, const pf_tree_plan *plan, int32_t *tokens, int32_t *parents,
                     int32_t *n_chain)
{
    return pf_tree_build(shares, LEVELS, 3, plan, tokens, parents, n_chain);
}

static void a_free_row_gives_the_whole_product_tree(void **state)
{
    (void)state;
    const pf_tree_shares shares = { 0 };
    int32_t tokens[64], parents[64], n_chain, n_at[4] = { 0 };
    const int32_t n = build(&shares, &(pf_tree_plan){ .is_product = true, .most = 64 }, tokens, parents, &n_chain);
    assert_in_range(n, 10, 2 + 4 + 8); /* all but what is too improbable */
    assert_int_equal(n_chain, 3);
    for (int32_t i = 0; i < n; i++) {
        assert_in_range(parents[i] + 1, 0, i);
        int32_t level = 0;
        for (int32_t at = i; parents[at] >= 0; at = parents[at]) level++;
        assert_int_equal(tokens[i] / 10, level + 1);
        n_at[level]++;
    }
    assert_int_equal(n_at[0], 2);
    assert_int_equal(n_at[1], 4);
}

static void second_candidates_are_leaves_where_later_ones_depend_on_the_first(void **state)
{
    (void)state;
    const pf_tree_shares shares = { 0 };
    int32_t tokens[64], parents[64], n_chain;
    const int32_t n = build(&shares, &(pf_tree_plan){ .most = 64 }, tokens, parents, &n_chain);
    assert_int_equal(n, 6);
    assert_int_equal(n_chain, 3);
    for (int32_t i = 0; i < n; i++) assert_int_equal(parents[i], tokens[i] / 10 - 2);
}

static void the_dearer_a_row_the_smaller_the_tree(void **state)
{
    (void)state;
    const pf_tree_shares shares = { 0 };
    int32_t tokens[64], parents[64], n_chain, last = 64;
    for (double row_ns = 1.0; row_ns < 1000.0; row_ns *= 3.0) {
        const pf_tree_plan plan = { .is_product = true, .round_ns = 1000.0, .row_ns = row_ns, .most = 64 };
        const int32_t n = build(&shares, &plan, tokens, parents, &n_chain);
        assert_in_range(n, 1, last);
        last = n;
    }
    assert_int_equal(last, 1);
    const pf_tree_plan narrow = { .is_product = true, .most = 4 };
    assert_int_equal(build(&shares, &narrow, tokens, parents, &n_chain), 4);
}

static void shares_are_learnt_by_margin_and_rank(void **state)
{
    (void)state;
    pf_tree_shares shares = { 0 };
    const pf_tree_level sure = { .margin = 9.0f, .n = 2, .ids = { 1, 2 } },
                        unsure = { .margin = 0.1f, .n = 2, .ids = { 1, 2 } };
    for (int32_t i = 0; i < 300; i++) {
        pf_tree_observe(&shares, &sure, 1);
        pf_tree_observe(&shares, &unsure, i % 2 == 0 ? 1 : i % 4 == 1 ? 2 : 3);
    }
    assert_true(pf_tree_share(&shares, &sure, 0) > 0.95);
    assert_true(pf_tree_share(&shares, &sure, 1) < 0.05);
    assert_true(fabs(pf_tree_share(&shares, &unsure, 0) - 0.5) < 0.05);
    assert_true(fabs(pf_tree_share(&shares, &unsure, 1) - 0.25) < 0.05);
    const pf_tree_level unknown = { .margin = NAN, .n = 1, .ids = { 1 } };
    assert_true(pf_tree_share(&shares, &unknown, 0) > 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_way_is_tried_before_one_is_chosen),
        cmocka_unit_test(an_unlucky_first_round_does_not_rule_a_way_out),
        cmocka_unit_test(the_way_that_commits_most_in_its_time_is_chosen_mostly),
        cmocka_unit_test(a_stall_does_not_change_the_choice),
        cmocka_unit_test(acceptance_is_learnt_by_position),
        cmocka_unit_test(the_length_is_that_of_the_most_tokens_in_the_time_of_a_round),
        cmocka_unit_test(a_free_row_gives_the_whole_product_tree),
        cmocka_unit_test(second_candidates_are_leaves_where_later_ones_depend_on_the_first),
        cmocka_unit_test(the_dearer_a_row_the_smaller_the_tree),
        cmocka_unit_test(shares_are_learnt_by_margin_and_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
