/* Predictions from acceptance rates: against the closed form, and at the edges. */
#include "bench/what_if.h"

#include <math.h>

#include "tests/support/test.h"

/* Proposals of n tokens, each accepted behind the others with probability `rate`. */
static pf_speculation constant(double rate, int32_t n)
{
    pf_speculation s = { .rounds = 1000000000000 };
    double reach = 1e12;
    for (int32_t i = 0; i < n; i++) {
        s.reached[i] = 1000000000000;
        reach *= rate;
        s.accepted_to[i] = (int64_t)(reach + 0.5);
    }
    return s;
}

static void assert_near(double value, double expected, double tolerance)
{
    if (!(fabs(value - expected) <= tolerance)) fail_msg("%.6f, expected %.6f", value, expected);
}

static void a_constant_rate_gives_the_closed_form(void **state)
{
    (void)state;
    const double rates[] = { 0.3, 0.6, 0.8, 0.95 };
    for (size_t i = 0; i < PF_COUNT(rates); i++) {
        const pf_speculation s = constant(rates[i], 8);
        const pf_what_if_costs costs = { 20, 3, 100 };
        for (int32_t k = 0; k <= 12; k++) { /* past the 8 measured positions, too */
            const double length = (1 - pow(rates[i], k + 1)) / (1 - rates[i]);
            assert_near(pf_what_if_length(&s, k), length, 1e-3);
            assert_near(pf_what_if_speedup(&s, &costs, k), k > 0 ? length * 20 / (20 + 3 * k + 0.1) : 1.0, 1e-3);
        }
        for (int32_t k = 0; k < 8; k++) assert_near(pf_what_if_conditional(&s, k), rates[i], 1e-4);
    }
}

static void the_best_length_is_the_argmax(void **state)
{
    (void)state;
    const pf_speculation s = constant(0.8, 8);
    for (double draft_ms = 0.5; draft_ms < 30; draft_ms *= 1.5) {
        const pf_what_if_costs costs = { 20, draft_ms, 100 };
        const pf_what_if best = pf_what_if_best(&s, &costs);
        for (int32_t k = 0; k <= PF_WHAT_IF_LONGEST; k++)
            assert_true(pf_what_if_speedup(&s, &costs, k) <= best.speedup);
        assert_near(pf_what_if_speedup(&s, &costs, best.draft_len), best.speedup, 0);
    }
    assert_int_equal(pf_what_if_best(&s, &(pf_what_if_costs){ 1, 100, 0 }).draft_len, 0); /* no draft pays */
}

static void positions_that_few_proposals_reach_are_not_trusted(void **state)
{
    (void)state;
    pf_speculation s = constant(0.5, 3);
    s.reached[2] = PF_WHAT_IF_LEAST - 1;
    s.accepted_to[2] = PF_WHAT_IF_LEAST - 1;
    assert_near(pf_what_if_length(&s, 3), 1.875, 1e-6);
    const pf_speculation none = { 0 };
    assert_true(isnan(pf_what_if_marginal(&none, 0)));
    assert_near(pf_what_if_length(&none, 4), 1.0, 0);
    assert_int_equal(pf_what_if_best(&none, &(pf_what_if_costs){ 20, 0, 0 }).draft_len, 0);
}

static void costs_are_three_numbers(void **state)
{
    (void)state;
    pf_what_if_costs costs;
    assert_true(pf_what_if_parse("20:3:100", &costs));
    assert_true(costs.verify_ms == 20 && costs.draft_ms == 3 && costs.round_trip_us == 100);
    static const char *const wrong[] = { "",      "20",     "20:3",     "20:3:",   "20:3:1x",
                                         "0:3:1", "-1:3:1", "20:nan:1", "20:3:1:", "1e99:1:1" };
    for (size_t i = 0; i < PF_COUNT(wrong); i++) assert_false(pf_what_if_parse(wrong[i], &costs));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_constant_rate_gives_the_closed_form),
        cmocka_unit_test(the_best_length_is_the_argmax),
        cmocka_unit_test(positions_that_few_proposals_reach_are_not_trusted),
        cmocka_unit_test(costs_are_three_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
