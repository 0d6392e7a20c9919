/* The ranking of outcomes: rows by scores, and the most probable outcomes by what is given and what is learnt. */
#include "draft/outcomes.h"

#include <math.h>

#include "tests/support/test.h"

enum { N = 8 };

static pf_outcome_row row_of(float margin)
{
    return (
        pf_outcome_row){ .margin = margin, .n = 4, .ids = { 1, 2, 3, 4 }, .weights = { 0.25f, 0.25f, 0.25f, 0.25f } };
}

static void candidates_are_the_best_tokens_without_the_drafted_one(void **state)
{
    (void)state;
    int32_t ids[] = { 2, 5, 7, 9, 11 };
    float scores[] = { 1.0f, 3.0f, 2.0f, 3.0f, -1.0f };
    pf_outcome_row row;
    pf_outcome_row_fill(&row, 5, 3.5f, ids, scores, 5);
    assert_int_equal(row.n, 4);
    const int32_t expected[] = { 9, 7, 2, 11 };
    assert_memory_equal(row.ids, expected, sizeof expected);
    assert_true(row.margin == 0.5f);
    assert_true(fabsf(row.weights[1] / row.weights[0] - expf(-1.0f)) < 1e-6f);
    float sum = 0.0f;
    for (int32_t i = 0; i < row.n; i++) sum += row.weights[i];
    assert_true(fabsf(sum - 1.0f) < 1e-6f);
    assert_int_equal(pf_outcome_row_find(&row, 7), 1);
    assert_int_equal(pf_outcome_row_find(&row, 5), PF_OUTCOME_CANDIDATES);
}

static void a_row_of_a_bonus_has_the_margin_of_its_first_candidate(void **state)
{
    (void)state;
    int32_t ids[] = { 2, 5 };
    float scores[] = { 1.0f, 3.0f };
    pf_outcome_row row;
    pf_outcome_row_fill(&row, -1, 0.0f, ids, scores, 2);
    assert_int_equal(row.ids[0], 5);
    assert_true(row.margin == 2.0f);
    pf_outcome_row_fill(&row, -1, 0.0f, ids, scores, 1);
    assert_true(isinf(row.margin));
}

static void infinite_scores_give_weights_that_are_numbers(void **state)
{
    (void)state;
    int32_t ids[] = { 2, 5, 6 };
    float scores[] = { INFINITY, INFINITY, -INFINITY };
    pf_outcome_row row;
    pf_outcome_row_fill(&row, -1, 0.0f, ids, scores, 3);
    float sum = 0.0f;
    for (int32_t i = 0; i < row.n; i++) {
        assert_true(row.weights[i] >= 0.0f);
        sum += row.weights[i];
    }
    assert_true(fabsf(sum - 1.0f) < 1e-6f);
}

static void outcomes_come_in_order_of_probability_and_within_the_limit(void **state)
{
    (void)state;
    const pf_outcome_shares shares = { .correction = { 0 } };
    pf_outcome_row rows[N];
    double acceptance[N];
    for (int32_t i = 0; i < N; i++) {
        rows[i] = row_of(1.0f);
        acceptance[i] = 0.8;
    }
    pf_outcome all[PF_OUTCOMES_MAX], few[5];
    const int32_t n = pf_outcomes_rank(&shares, rows, acceptance, N, PF_OUTCOME_CANDIDATES, PF_OUTCOMES_MAX, all);
    assert_int_equal(n, (N + 1) * PF_OUTCOME_CANDIDATES);
    double sum = 0.0;
    for (int32_t i = 0; i < n; i++) {
        sum += all[i].probability;
        assert_true(i == 0 || all[i].probability <= all[i - 1].probability);
    }
    assert_true(sum > 0.5 && sum < 1.0);
    assert_int_equal(pf_outcomes_rank(&shares, rows, acceptance, N, PF_OUTCOME_CANDIDATES, 5, few), 5);
    for (int32_t i = 0; i < 5; i++) assert_true(few[i].probability == all[i].probability);
    assert_int_equal(pf_outcomes_rank(&shares, rows, acceptance, N, 0, 0, few), 0);
}

/* F(i) = F(0) a^(i / (1 + r)): with s(j) ~ j^-(1 + r) and r = 1 the fan-out halves where a^i is a quarter. */
static void the_fan_out_is_geometric_where_acceptance_is_constant(void **state)
{
    (void)state;
    pf_outcome_shares shares = { .correction = { 0 } };
    for (int32_t j = 0; j < PF_OUTCOME_CANDIDATES; j++) shares.correction[j] = 1e9 / ((j + 1.0) * (j + 1.0));
    pf_outcome_row rows[N];
    double acceptance[N];
    for (int32_t i = 0; i < N; i++) {
        rows[i] = row_of(1.0f);
        for (int32_t j = 0; j < PF_OUTCOME_CANDIDATES; j++) rows[i].weights[j] = (float)(1.0 / ((j + 1.0) * (j + 1.0)));
        acceptance[i] = sqrt(0.5);
    }
    enum { MOST = 16 };
    pf_outcome out[MOST];
    int32_t fan_out[N] = { 0 };
    assert_int_equal(pf_outcomes_rank(&shares, rows, acceptance, N, 0, MOST, out), MOST);
    for (int32_t i = 0; i < MOST; i++) fan_out[out[i].n_accepted]++;
    for (int32_t i = 1; i < N; i++) assert_true(fan_out[i] <= fan_out[i - 1]);
    assert_int_equal(fan_out[0], PF_OUTCOME_CANDIDATES);
    assert_in_range(fan_out[4], 1, PF_OUTCOME_CANDIDATES / 2);
}

static void a_sure_token_leaves_its_position_no_outcome(void **state)
{
    (void)state;
    const pf_outcome_shares shares = { .correction = { 0 } };
    const pf_outcome_row rows[] = { row_of(1.0f), row_of(1.0f) };
    const double acceptance[] = { 0.999, 0.3 };
    pf_outcome out[4];
    assert_int_equal(pf_outcomes_rank(&shares, rows, acceptance, 2, 2, 4, out), 4);
    for (int32_t i = 0; i < 4; i++) assert_true(out[i].n_accepted > 0);
}

static void ranks_are_learnt_from_outcomes(void **state)
{
    (void)state;
    pf_outcome_shares shares = { .correction = { 0 } };
    const pf_outcome_row row = row_of(0.1f);
    const double acceptance[] = { 0.5 };
    pf_outcome out[8];
    for (int32_t i = 0; i < 200; i++) {
        pf_outcome_shares_observe(&shares, false, 2);
        pf_outcome_shares_observe(&shares, true, 1);
    }
    (void)pf_outcomes_rank(&shares, &row, acceptance, 1, PF_OUTCOME_CANDIDATES, 8, out);
    assert_int_equal(out[0].n_accepted, 1);
    assert_int_equal(out[0].rank, 1);
    assert_int_equal(out[1].n_accepted, 0);
    assert_int_equal(out[1].rank, 2);
    for (int32_t i = 0; i < 200; i++) pf_outcome_shares_observe(&shares, false, PF_OUTCOME_CANDIDATES);
    const double before = out[1].probability;
    (void)pf_outcomes_rank(&shares, &row, acceptance, 1, 0, 8, out);
    assert_true(out[0].probability < 0.5 * before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(candidates_are_the_best_tokens_without_the_drafted_one),
        cmocka_unit_test(a_row_of_a_bonus_has_the_margin_of_its_first_candidate),
        cmocka_unit_test(infinite_scores_give_weights_that_are_numbers),
        cmocka_unit_test(outcomes_come_in_order_of_probability_and_within_the_limit),
        cmocka_unit_test(the_fan_out_is_geometric_where_acceptance_is_constant),
        cmocka_unit_test(a_sure_token_leaves_its_position_no_outcome),
        cmocka_unit_test(ranks_are_learnt_from_outcomes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
