/* Medians and percentiles. */
#include "tests/support/test.h"

#include <math.h>

#include "bench/acceptance.h"
#include "bench/statistics.h"

static void a_percentile_lies_between_its_neighbours(void **state)
{
    (void)state;
    double odd[] = { 3, 1, 2 }, even[] = { 4, 1, 3, 2 }, one[] = { 7 };
    assert_true(pf_percentile(odd, 3, 0.5) == 2.0);
    assert_true(pf_percentile(even, 4, 0.5) == 2.5);
    assert_true(pf_percentile(even, 4, 0.0) == 1.0);
    assert_true(pf_percentile(even, 4, 1.0) == 4.0);
    assert_true(pf_percentile(one, 1, 0.99) == 7.0);
    assert_true(isnan(pf_percentile(NULL, 0, 0.5)));
}

static void samples_that_there_is_no_room_for_are_thinned_evenly(void **state)
{
    (void)state;
    enum { N = 20 * PF_MAX_SAMPLES };
    static pf_samples s;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N; i++) pf_samples_add(&s, i);
        assert_in_range(s.n, PF_MAX_SAMPLES / 2, PF_MAX_SAMPLES);
        for (size_t i = 0; i < s.n; i++) assert_true(s.values[i] == 32.0 * (double)i);
        assert_true(fabs(pf_samples_median(&s) - N / 2.0) <= 32);
        assert_true(fabs(pf_samples_mean(&s) - N / 2.0) <= 32);
        pf_samples_clear(&s);
        assert_true(isnan(pf_samples_median(&s)) && isnan(pf_samples_mean(&s)));
    }
    for (int i = 0; i < 4; i++) pf_samples_add(&s, i == 3 ? 10 : 1);
    assert_true(pf_samples_mean(&s) == 13.0 / 4);
}

static void a_ring_that_has_turned_holds_its_latest_samples(void **state)
{
    (void)state;
    static pf_speculation s;
    assert_true(isnan(pf_rpc_percentile(&s, 0.5)));
    for (int64_t i = 0; i < 2 * PF_RPC_SAMPLES; i++) s.rpc_us[s.n_rpc++ % PF_RPC_SAMPLES] = i < PF_RPC_SAMPLES ? 1 : 2;
    assert_true(pf_rpc_percentile(&s, 0.0) == 2.0);
    assert_true(isnan(pf_hit_percentile(&s, 0.5)));
    s.hit_us[s.ahead_hits++] = 7;
    assert_true(pf_hit_percentile(&s, 0.5) == 7.0);
}

static void the_prediction_is_the_formula(void **state)
{
    (void)state;
    /* 100 plain steps of 2 ms; 20 rounds that keep 3 drafted tokens each, 2.5 ms to verify, 1 ms to draft and 0.5 ms there
     * and back: 2 * 4 / 4. */
    static pf_acceptance_figures f;
    f.plain_tokens = 100;
    f.plain_ns = 200000000;
    f.speculative_tokens = 80;
    f.speculation.rounds = 20;
    f.speculation.accepted = 60;
    f.speculation.verify_ns = 50000000;
    f.speculation.draft_ns = 20000000;
    for (int i = 0; i < 20; i++) f.speculation.rpc_us[f.speculation.n_rpc++] = 500;
    assert_true(fabs(pf_acceptance_predicted_speedup(&f) - 2.0) < 1e-12);
    /* 80 passes without a proposal, of 2 ms, with nothing drafted: 2 * (20 * 4 + 80) / (20 * 4 + 80 * 2). Where the
     * verifier is the far one each of them is a round trip, too. */
    f.speculation.fallback_rounds = 80;
    f.speculative_tokens += 80;
    f.speculation.verify_ns += 160000000;
    assert_true(fabs(pf_acceptance_predicted_speedup(&f) - 320.0 / 240.0) < 1e-12);
    for (int i = 0; i < 80; i++) f.speculation.rpc_us[f.speculation.n_rpc++] = 500;
    assert_true(fabs(pf_acceptance_predicted_speedup(&f) - 320.0 / 280.0) < 1e-12);
    /* Where -n cuts the last round of each request, what was not kept is not gained. */
    f.speculative_tokens -= 20;
    assert_true(fabs(pf_acceptance_predicted_speedup(&f) - 280.0 / 280.0) < 1e-12);
    f.speculation.rounds = 0;
    assert_true(isnan(pf_acceptance_predicted_speedup(&f)));
}

static void figures_add_up(void **state)
{
    (void)state;
    static pf_speculation total, one;
    one =
        (pf_speculation){ .rounds = 2, .fallback_rounds = 1, .drafted = 8, .accepted = 5, .draft_ns = 10, .n_rpc = 2 };
    one.reached[1] = 2;
    one.rpc_us[0] = 7;
    one.rpc_us[1] = 9;
    pf_speculation_add(&total, &one);
    pf_speculation_add(&total, &one);
    assert_int_equal(total.rounds, 4);
    assert_int_equal(total.accepted, 10);
    assert_int_equal(total.reached[1], 4);
    assert_int_equal(total.n_rpc, 4);
    assert_int_equal(total.rpc_us[3], 9);
    assert_true(pf_speculation_acceptance_rate(&total) == 10.0 / 16.0);
    assert_true(pf_speculation_mean_length(&total) == 1.0 + 10.0 / 4.0);
    one.n_rpc = 2 * PF_RPC_SAMPLES + 1;
    pf_speculation_add(&total, &one);
    assert_int_equal(total.n_rpc, 2 * PF_RPC_SAMPLES + 5);
    const pf_speculation none = { 0 };
    assert_true(isnan(pf_speculation_acceptance_rate(&none)) && isnan(pf_speculation_mean_length(&none)));
}

static void assert_spread(pf_spread spread, double least, double median, double most)
{
    assert_true(spread.least == least && spread.median == median && spread.most == most);
}

static void a_spread_is_of_the_numbers_alone_and_leaves_the_values_as_they_are(void **state)
{
    (void)state;
    const double values[] = { 5.0, NAN, 1.0, 9.0, NAN, 2.0 };
    double given[PF_COUNT(values)];
    memcpy(given, values, sizeof given);
    assert_spread(pf_spread_of(given, 6), 1.0, 3.5, 9.0);
    assert_memory_equal(given, values, sizeof given);
    assert_spread(pf_spread_of(given, 4), 1.0, 5.0, 9.0);
    assert_spread(pf_spread_of(given, 1), 5.0, 5.0, 5.0);
    const pf_spread spreads[] = { pf_spread_of(given, 0), pf_spread_of(given + 1, 1) };
    for (size_t i = 0; i < PF_COUNT(spreads); i++)
        assert_true(isnan(spreads[i].least) && isnan(spreads[i].median) && isnan(spreads[i].most));
    double many[PF_SPREAD_VALUES];
    for (int32_t i = 0; i < PF_SPREAD_VALUES; i++) many[i] = (double)((i * 37) % PF_SPREAD_VALUES);
    assert_spread(pf_spread_of(many, PF_SPREAD_VALUES), 0.0, (PF_SPREAD_VALUES - 1) / 2.0, PF_SPREAD_VALUES - 1.0);
}

/* Figures of n plain and twice as many speculative tokens a second, of a run of a second each. */
static pf_acceptance_figures figures_of_rate(const char *category, int64_t n, uint64_t checksum)
{
    return (pf_acceptance_figures){ .category = category,
                                    .n_requests = 3,
                                    .n_identical = 2,
                                    .checksum = checksum,
                                    .plain_tokens = n,
                                    .speculative_tokens = 2 * n,
                                    .plain_ns = 1000000000,
                                    .speculative_ns = 1000000000,
                                    .speculation = { .rounds = 4, .drafted = 8, .accepted = 6 } };
}

static void repeats_are_sums_of_counts_and_medians_of_rates_by_category(void **state)
{
    (void)state;
    static const char *const names[] = { "code", "chat" };
    static pf_acceptance_run sum;
    const int64_t rates[] = { 100, 400, 200 };
    for (int32_t repeat = 0; repeat < 3; repeat++) {
        pf_acceptance_figures categories[2];
        for (int32_t i = 0; i < 2; i++) /* in either order: they are found by name */
            categories[i] = figures_of_rate(names[(repeat + i) % 2], (1 + (repeat + i) % 2) * rates[repeat], 7);
        static pf_acceptance_run one;
        one = (pf_acceptance_run){ .total = figures_of_rate("", 3 * rates[repeat], 10 + (uint64_t)repeat),
                                   .n_skipped = 2,
                                   .categories = categories,
                                   .n_categories = 2 };
        assert_int_equal(pf_acceptance_run_add(&sum, &one), PF_OK);
    }
    assert_int_equal(sum.n_skipped, 6);
    assert_int_equal(sum.n_categories, 2);
    assert_string_equal(sum.total.category, "");
    assert_int_equal(sum.total.checksum, 10); /* of one repeat: all are of the same texts, or none is */
    assert_int_equal(sum.total.n_requests, 9);
    assert_int_equal(sum.total.n_identical, 6);
    assert_int_equal(sum.total.plain_tokens, 3 * 700);
    assert_int_equal(sum.total.speculative_tokens, 6 * 700);
    assert_int_equal(sum.total.speculation.drafted, 24);
    assert_spread(pf_acceptance_plain_spread(&sum.total), 300.0, 600.0, 1200.0);
    assert_spread(pf_acceptance_speculative_spread(&sum.total), 600.0, 1200.0, 2400.0);
    assert_spread(pf_acceptance_speedup_spread(&sum.total), 2.0, 2.0, 2.0);
    for (size_t i = 0; i < 2; i++) {
        const pf_acceptance_figures *f = &sum.categories[i];
        const double factor = (double)(1 + i);
        assert_string_equal(f->category, names[i]);
        assert_int_equal(f->n_requests, 9);
        assert_spread(pf_acceptance_plain_spread(f), 100.0 * factor, 200.0 * factor, 400.0 * factor);
    }
    pf_acceptance_run_clear(&sum);
    assert_null(sum.categories);
}

static void more_repeats_than_are_kept_count_in_sums_alone(void **state)
{
    (void)state;
    static pf_acceptance_run sum, one;
    for (int64_t repeat = 0; repeat < PF_ACCEPTANCE_REPEATS + 5; repeat++) {
        one = (pf_acceptance_run){ .total = figures_of_rate("", 1 + repeat, 1) };
        assert_int_equal(pf_acceptance_run_add(&sum, &one), PF_OK);
    }
    assert_int_equal(sum.total.n_repeats, PF_ACCEPTANCE_REPEATS);
    assert_int_equal(sum.total.n_requests, 3 * (PF_ACCEPTANCE_REPEATS + 5));
    assert_spread(pf_acceptance_plain_spread(&sum.total), 1.0, (PF_ACCEPTANCE_REPEATS + 1) / 2.0,
                  PF_ACCEPTANCE_REPEATS);
    pf_acceptance_run_clear(&sum);
}

static void a_repeat_that_drafted_nothing_has_no_speed_up(void **state)
{
    (void)state;
    static pf_acceptance_run sum, one;
    one = (pf_acceptance_run){ .total = figures_of_rate("", 100, 1) };
    one.total.speculation.drafted = 0;
    assert_int_equal(pf_acceptance_run_add(&sum, &one), PF_OK);
    assert_true(isnan(pf_acceptance_speedup(&sum.total)));
    one.total.speculation.drafted = 8;
    assert_int_equal(pf_acceptance_run_add(&sum, &one), PF_OK);
    assert_true(pf_acceptance_speedup(&sum.total) == 2.0); /* of those that have one */
    pf_acceptance_run_clear(&sum);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_percentile_lies_between_its_neighbours),
        cmocka_unit_test(samples_that_there_is_no_room_for_are_thinned_evenly),
        cmocka_unit_test(a_ring_that_has_turned_holds_its_latest_samples),
        cmocka_unit_test(the_prediction_is_the_formula),
        cmocka_unit_test(figures_add_up),
        cmocka_unit_test(a_spread_is_of_the_numbers_alone_and_leaves_the_values_as_they_are),
        cmocka_unit_test(repeats_are_sums_of_counts_and_medians_of_rates_by_category),
        cmocka_unit_test(more_repeats_than_are_kept_count_in_sums_alone),
        cmocka_unit_test(a_repeat_that_drafted_nothing_has_no_speed_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
