/* Forecasts: the formulas by known figures, and the simulation between them. */
#include <math.h>

#include "sim/forecast.h"
#include "tests/support/test.h"

static const uint64_t MS = 1000 * 1000;

static void assert_near(double value, double expected, double tolerance)
{
    if (!(fabs(value - expected) <= tolerance)) fail_msg("%g, expected %g +- %g", value, expected, tolerance);
}

static void the_formulas_give_known_figures(void **state)
{
    (void)state;
    const pf_forecast_point p = { .draft_ns = 3 * MS, .verify_ns = 20 * MS, .acceptance = 1.0 };
    assert_near(pf_forecast_length(0.8, 5), (1.0 - pow(0.8, 6)) / 0.2, 1e-12);
    assert_near(pf_forecast_length(1.0, 5), 6.0, 1e-12);
    /* Beside steps in turns drafting ahead takes the draft out of 35 ms: 1.75 times. */
    assert_near(pf_forecast_ahead(&p, 5) / pf_forecast_in_turns(&p, 5), 1.75, 1e-12);
    assert_near(pf_forecast_in_turns(&p, 0), 1.0, 0.0);
}

static void a_simulated_speed_up_is_what_the_formula_allows(void **state)
{
    (void)state;
    for (int32_t batch = 1; batch <= 8; batch += 7) {
        pf_error error = { 0 };
        pf_forecast forecast;
        const pf_forecast_point p = { .draft_ns = 3 * MS,
                                      .verify_ns = 20 * MS,
                                      .round_trip_ns = MS / 10,
                                      .acceptance = 0.8,
                                      .batch = batch,
                                      .draft_len = 4,
                                      .seed = 3 };
        assert_ok(pf_forecast_run(&p, &forecast, &error), error);
        if (forecast.speedup < 0.9 * forecast.bound || forecast.speedup > 1.05 * forecast.ahead_bound)
            fail_msg("batch %d: %g, expected %g to %g", batch, forecast.speedup, forecast.bound, forecast.ahead_bound);
        assert_near((double)forecast.speculation.accepted_to[0] / (double)forecast.speculation.reached[0], 0.8, 0.05);
    }
}

static void a_draft_that_does_not_pay_is_not_used(void **state)
{
    (void)state;
    pf_error error = { 0 };
    pf_forecast forecast;
    const pf_forecast_point p = { .draft_ns = 19 * MS,
                                  .verify_ns = 20 * MS,
                                  .round_trip_ns = MS / 10,
                                  .acceptance = 0.2,
                                  .batch = 1,
                                  .draft_len = 0,
                                  .seed = 3 };
    assert_ok(pf_forecast_run(&p, &forecast, &error), error);
    assert_int_equal(forecast.best_len, 0);
    if (forecast.speedup < 0.9) fail_msg("%g times plain decoding", forecast.speedup);
}

static void a_batch_drafts_about_as_well_as_by_the_best_fixed_length(void **state)
{
    (void)state;
    double best = 0.0, chosen = 0.0;
    for (int32_t k = 0; k <= 6; k += 2) {
        pf_error error = { 0 };
        pf_forecast forecast;
        const pf_forecast_point p = { .draft_ns = 3 * MS,
                                      .verify_ns = 20 * MS,
                                      .round_trip_ns = MS / 10,
                                      .acceptance = 0.8,
                                      .batch = 16,
                                      .draft_len = k,
                                      .seed = 3 };
        assert_ok(pf_forecast_run(&p, &forecast, &error), error);
        if (k == 0) chosen = forecast.speedup;
        if (k > 0 && forecast.speedup > best) best = forecast.speedup;
    }
    if (chosen < 0.93 * best) fail_msg("%g times plain decoding, %g with the best fixed length", chosen, best);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_formulas_give_known_figures),
        cmocka_unit_test(a_simulated_speed_up_is_what_the_formula_allows),
        cmocka_unit_test(a_draft_that_does_not_pay_is_not_used),
        cmocka_unit_test(a_batch_drafts_about_as_well_as_by_the_best_fixed_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
