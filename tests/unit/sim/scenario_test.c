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
    int64_t n_requests = 0, n_cancelled = 0, n_rounds = 0;
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
    }
    printf("%" PRIu64 " seeds: %" PRId64 " requests, %" PRId64 " cancelled, %" PRId64 " rounds; %" PRId64
           " messages lost, %" PRId64 " overtaken, %" PRId64 " breaks, %" PRId64 " restarts\n",
           n_seeds, n_requests, n_cancelled, n_rounds, seen.n_lost, seen.n_overtaken, seen.n_breaks, seen.n_restarts);
    if (n_seeds < 100) return;
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

int main(int argc, char **argv)
{
    if (argc > 1) n_seeds = strtoull(argv[1], NULL, 10);
    if (argc > 2) first_seed = strtoull(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_happens_the_text_is_that_of_plain_decoding),
        cmocka_unit_test(a_seed_gives_the_same_run_each_time),
        cmocka_unit_test(without_faults_a_token_takes_what_the_formula_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
