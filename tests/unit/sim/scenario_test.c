/*
 * Simulated deployments with faults, by seed: text, leaks, stuck requests. And without faults: a session takes the time that the
 * formulas say.
 *
 *      scenario_test                     the seeds of every run
 *      scenario_test SEEDS [FIRST]       so many, from FIRST on; one that fails is printed, and `scenario_test 1 SEED` repeats it
 */
#include <inttypes.h>
#include <stdlib.h>

#include "sim/scenario.h"
#include "tests/support/test.h"

static uint64_t n_seeds = 500, first_seed = 1;
static const uint64_t MS = 1000 * 1000;

static pf_scenario_result run(const pf_scenario *scenario)
{
    pf_error error = { 0 };
    pf_scenario_result result;
    if (pf_scenario_run(scenario, &result, &error) != PF_OK)
        fail_msg("seed %" PRIu64 ": %s", scenario->seed, error.text);
    return result;
}

static void whatever_happens_the_text_is_that_of_plain_decoding(void **state)
{
    (void)state;
    pf_wire_counts seen = { 0 };
    int64_t n_requests = 0, n_cancelled = 0, n_rounds = 0, n_hits = 0, n_misses = 0;
    for (uint64_t seed = first_seed; seed < first_seed + n_seeds; seed++) {
        char what[600];
        const pf_scenario scenario = pf_scenario_of_seed(seed);
        const pf_scenario_result result = run(&scenario);
        if (!pf_scenario_holds(&scenario, &result, what, sizeof what))
            fail_msg("seed %" PRIu64 ": %s (scenario_test 1 %" PRIu64 " repeats it)", seed, what, seed);
        seen.n_lost += result.worker.n_lost;
        seen.n_overtaken += result.worker.n_overtaken;
        seen.n_breaks += result.worker.n_breaks + result.verifier.n_breaks;
        seen.n_restarts += result.worker.n_restarts + result.verifier.n_restarts;
        n_requests += result.n_requests;
        n_cancelled += result.n_cancelled;
        n_rounds += result.speculation.rounds;
        n_hits += result.speculation.ahead_hits;
        n_misses += result.speculation.ahead_misses;
    }
    printf("%" PRIu64 " seeds: %" PRId64 " requests, %" PRId64 " cancelled, %" PRId64 " rounds; drafted ahead: %" PRId64
           " hits, %" PRId64 " misses; %" PRId64 " messages lost, %" PRId64 " overtaken, %" PRId64 " breaks, %" PRId64
           " restarts\n",
           n_seeds, n_requests, n_cancelled, n_rounds, n_hits, n_misses, seen.n_lost, seen.n_overtaken, seen.n_breaks,
           seen.n_restarts);
    if (n_seeds < 100) return;
    assert_true(n_hits > 0 && n_misses > 0);
    assert_true(n_cancelled > 0 && n_rounds > 0 && seen.n_lost > 0 && seen.n_overtaken > 0 && seen.n_breaks > 0 &&
                seen.n_restarts > 0);
}

static void a_seed_gives_the_same_run_each_time(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        const pf_scenario scenario = pf_scenario_of_seed(seed);
        const pf_scenario_result a = run(&scenario), b = run(&scenario);
        assert_int_equal(a.elapsed_ns, b.elapsed_ns);
        assert_int_equal(a.n_tokens, b.n_tokens);
        assert_int_equal(a.speculation.accepted, b.speculation.accepted);
        assert_int_equal(a.worker.n_messages, b.worker.n_messages);
    }
}

static pf_scenario calm(double acceptance, int32_t draft_len)
{
    return (pf_scenario){ .seed = 11,
                          .n_engines = 1,
                          .n_requests = 20,
                          .n_prompt = 20,
                          .n_new = 100,
                          .draft_ns = 1 * MS,
                          .verify_ns = 20 * MS,
                          .acceptance = acceptance,
                          .draft_len = draft_len,
                          .method = PF_METHOD_GREEDY,
                          .to_worker = { .least_ns = 100000 },
                          .to_verifier = { .least_ns = 0 } };
}

static void without_faults_a_token_takes_what_the_formula_says(void **state)
{
    (void)state;
    for (int32_t k = 2; k <= 6; k += 2) {
        pf_scenario scenario = calm(0.8, k);
        const pf_scenario_result drafted = run(&scenario);
        scenario.is_plain = true;
        const pf_scenario_result plain = run(&scenario);
        assert_int_equal(drafted.n_wrong, 0);
        assert_int_equal(plain.n_tokens, 2000);
        double expected_length = 1.0, power = 1.0;
        for (int32_t i = 0; i < k; i++) expected_length += power *= 0.8;
        const double step_ms = 20.0 + k * 1.0 + 0.2, expected = 20.0 / step_ms * expected_length;
        const double speedup = (double)plain.elapsed_ns / (double)drafted.elapsed_ns;
        if (speedup < 0.93 * expected || speedup > 1.07 * expected)
            fail_msg("k %d: %g times plain decoding, expected %g", k, speedup, expected);
    }
}

static void drafting_ahead_gives_what_the_formula_says_at_its_rate_of_hits(void **state)
{
    (void)state;
    pf_scenario scenario = calm(0.8, 5);
    scenario.draft_ns = 3 * MS;
    scenario.second = 0.5;
    const pf_scenario_result in_turns = run(&scenario);
    scenario.drafts_ahead = true;
    const pf_scenario_result ahead = run(&scenario);
    assert_int_equal(ahead.n_wrong, 0);
    const double n_hits = (double)ahead.speculation.ahead_hits, n_misses = (double)ahead.speculation.ahead_misses;
    const double hit_rate = n_hits / (n_hits + n_misses);
    assert_true(hit_rate > 0.6);
    const double step_ms = 20.0 + 5.0 * 3.0 + 0.2;
    const double expected = step_ms / (hit_rate * 20.2 + (1.0 - hit_rate) * step_ms);
    const double speedup = (double)in_turns.elapsed_ns / (double)ahead.elapsed_ns;
    if (speedup < 0.93 * expected || speedup > 1.07 * expected)
        fail_msg("%g times drafting in turns at a hit rate of %g, expected %g", speedup, hit_rate, expected);
}

/* A round trip that takes no time: the engine's clock does not move between a verdict and the next proposal. */
static void a_draft_that_does_not_pay_is_switched_off_where_messages_take_no_time(void **state)
{
    (void)state;
    pf_scenario scenario = calm(0.2, 0);
    scenario.draft_ns = 19 * MS;
    scenario.to_worker.least_ns = 0;
    const pf_scenario_result drafted = run(&scenario);
    scenario.is_plain = true;
    const pf_scenario_result plain = run(&scenario);
    const double loss = (double)drafted.elapsed_ns / (double)plain.elapsed_ns - 1.0;
    if (loss > 0.05) fail_msg("%g more time than plain decoding", loss);
}

int main(int argc, char **argv)
{
    if (argc > 1) n_seeds = strtoull(argv[1], NULL, 10);
    if (argc > 2) first_seed = strtoull(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_happens_the_text_is_that_of_plain_decoding),
        cmocka_unit_test(a_seed_gives_the_same_run_each_time),
        cmocka_unit_test(without_faults_a_token_takes_what_the_formula_says),
        cmocka_unit_test(drafting_ahead_gives_what_the_formula_says_at_its_rate_of_hits),
        cmocka_unit_test(a_draft_that_does_not_pay_is_switched_off_where_messages_take_no_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
