/* The choice of who runs a pass: simulated times in, the members that passes are run by out. */
#include "model/forward/thread_tuning.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

/* ---- of a team of two ---------------------------------------------------------------------------------------------- */

static pf_tuning two(void)
{
    return pf_tuning_of(2, 1);
}

/* Run n passes whose times the two ways give; returns how many of them ran alone. */
static int32_t run(pf_tuning *tuning, int32_t n, int32_t n_rows, uint64_t together_ns, uint64_t alone_ns)
{
    int32_t n_alone = 0;
    for (int32_t i = 0; i < n; i++) {
        const bool alone = pf_tuning_members(tuning, n_rows) == 1;
        pf_tuning_note(tuning, n_rows, alone ? alone_ns : together_ns);
        n_alone += alone;
    }
    return n_alone;
}

static void the_faster_way_is_taken(void **state)
{
    (void)state;
    pf_tuning tuning = two();
    assert_int_equal(run(&tuning, 2 * PF_TUNING_SAMPLES, 1, 20, 10),
                     PF_TUNING_SAMPLES); /* a trial tries both equally */
    assert_int_equal(run(&tuning, PF_TUNING_PERIOD, 1, 20, 10), PF_TUNING_PERIOD);

    pf_tuning other = two();
    assert_int_equal(run(&other, 2 * PF_TUNING_SAMPLES, 1, 10, 20), PF_TUNING_SAMPLES);
    assert_int_equal(run(&other, PF_TUNING_PERIOD, 1, 10, 20), 0);
}

static void a_machine_that_changes_is_noticed(void **state)
{
    (void)state;
    pf_tuning tuning = two();
    run(&tuning, 2 * PF_TUNING_SAMPLES + PF_TUNING_PERIOD, 1, 20, 10);
    run(&tuning, 2 * PF_TUNING_SAMPLES, 1, 7, 10); /* the next trial, the cores together again */
    assert_int_equal(run(&tuning, PF_TUNING_PERIOD, 1, 7, 10), 0);
}

static void a_pass_that_was_interrupted_does_not_decide(void **state)
{
    (void)state;
    pf_tuning tuning = two();
    for (int32_t i = 0; i < 2 * PF_TUNING_SAMPLES; i++) {
        const bool alone = pf_tuning_members(&tuning, 1) == 1;
        pf_tuning_note(&tuning, 1, alone && i < 4 ? 1000000 : alone ? 10 : 20);
    }
    assert_int_equal(run(&tuning, 100, 1, 20, 10), 100);
}

/* Rounds of four passes, the first of them on cold caches: 30 ns more whoever runs it. */
static void the_rhythm_of_rounds_does_not_decide(void **state)
{
    (void)state;
    pf_tuning tuning = two();
    for (int32_t i = 0; i < 2 * PF_TUNING_SAMPLES; i++) {
        const uint64_t ns = pf_tuning_members(&tuning, 1) == 1 ? 11 : 10;
        pf_tuning_note(&tuning, 1, ns + (i % 4 == 0 ? 30 : 0));
    }
    assert_int_equal(run(&tuning, 100, 1, 10, 11), 0);
}

static void only_passes_of_the_same_rows_are_compared(void **state)
{
    (void)state;
    pf_tuning tuning = two();
    for (int32_t i = 0; i < 3 * 2 * PF_TUNING_SAMPLES; i++) { /* two rows take twice as long: no sample of this trial */
        const int32_t n_rows = i % 3 == 1 ? 2 : 1;
        const uint64_t ns = pf_tuning_members(&tuning, n_rows) == 1 ? 11 : 10;
        pf_tuning_note(&tuning, n_rows, ns * (uint64_t)n_rows);
        if (i < 2 * PF_TUNING_SAMPLES) assert_int_equal(tuning.until_trial, 0);
    }
    assert_true(tuning.until_trial > 0);
    assert_int_equal(pf_tuning_members(&tuning, 1), 2);
}

/* A short prompt, and then a row at a time: the prompt's rows do not come again. */
static void a_prompt_does_not_hold_up_a_trial(void **state)
{
    (void)state;
    pf_tuning tuning = two();
    run(&tuning, 1, 15, 200, 100);
    assert_int_equal(run(&tuning, 2 * PF_TUNING_SAMPLES, 1, 20, 10), PF_TUNING_SAMPLES);
    assert_int_equal(run(&tuning, PF_TUNING_PERIOD, 1, 20, 10), PF_TUNING_PERIOD);
}

/* A trial that began with rows that do not come again begins anew; passes of many rows are nobody's business. */
static void a_trial_ends(void **state)
{
    (void)state;
    pf_tuning tuning = two();
    run(&tuning, 2, 2, 20, 10);
    run(&tuning, PF_TUNING_MAX_PASSES + 2 * PF_TUNING_SAMPLES, 1, 20, 10);
    assert_int_equal(pf_tuning_members(&tuning, 1), 1);
    const pf_tuning before = tuning;
    assert_int_equal(run(&tuning, 100, PF_TUNING_MAX_ROWS + 1, 20, 10), 0);
    assert_memory_equal(&tuning, &before, sizeof tuning);
}

/* That of Thue and Morse: the parity of the bits of each sample's number. */
static void two_ways_are_tried_in_an_order_without_a_rhythm(void **state)
{
    (void)state;
    pf_tuning tuning = two();
    for (unsigned i = 0; i < 2 * PF_TUNING_SAMPLES; i++)
        assert_int_equal(run(&tuning, 1, 1, 20, 10), __builtin_parity(i));
}

/* ---- of larger teams ------------------------------------------------------------------------------------------------- */

static void rungs_are_all_and_the_powers_of_two_below_that_are_not_too_few(void **state)
{
    (void)state;
    const struct {
        int32_t n_threads, fewest, n_rungs, members[PF_TUNING_RUNGS];
    } cases[] = {
        { 1, 1, 1, { 1 } },
        { 2, 1, 2, { 2, 1 } },
        { 2, 2, 1, { 2 } },
        { 3, 1, 3, { 3, 2, 1 } },
        { 12, 1, 5, { 12, 8, 4, 2, 1 } },
        { 16, 3, 3, { 16, 8, 4 } },
        { 16, 9, 1, { 16 } },
        { 1024, 1, 11, { 1024, 512, 256, 128, 64, 32, 16, 8, 4, 2, 1 } },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        pf_tuning tuning = pf_tuning_of(cases[i].n_threads, cases[i].fewest);
        assert_int_equal(tuning.n_rungs, cases[i].n_rungs);
        for (int32_t rung = 0; rung < tuning.n_rungs; rung++) { /* a trial's first turn has them all in order */
            assert_int_equal(pf_tuning_members(&tuning, 1), cases[i].members[rung]);
            pf_tuning_note(&tuning, 1, 10);
        }
        assert_int_equal(pf_tuning_members(&tuning, PF_TUNING_MAX_ROWS + 1), cases[i].n_threads);
    }
}

enum { RUNGS = 5 }; /* 16, 8, 4, 2, 1 */

static int32_t rung_of(int32_t n_members)
{
    return 4 - __builtin_ctz((unsigned)n_members);
}

/* Run n passes of one row that take as long as their rung says; n_passes[] is how many each rung ran. */
static void run_rungs(pf_tuning *tuning, int32_t n, const uint64_t ns[RUNGS], int32_t n_passes[RUNGS])
{
    memset(n_passes, 0, RUNGS * sizeof *n_passes);
    for (int32_t i = 0; i < n; i++) {
        const int32_t rung = rung_of(pf_tuning_members(tuning, 1));
        n_passes[rung]++;
        pf_tuning_note(tuning, 1, ns[rung]);
    }
}

static void the_fastest_of_all_rungs_is_taken(void **state)
{
    (void)state;
    for (int32_t best = 0; best < RUNGS; best++) {
        pf_tuning tuning = pf_tuning_of(16, 1);
        uint64_t ns[RUNGS];
        int32_t n[RUNGS];
        for (int32_t rung = 0; rung < RUNGS; rung++) ns[rung] = 20 + 3 * (uint64_t)abs(rung - best);
        run_rungs(&tuning, RUNGS * PF_TUNING_SAMPLES, ns, n);
        for (int32_t rung = 0; rung < RUNGS; rung++) assert_int_equal(n[rung], PF_TUNING_SAMPLES);
        run_rungs(&tuning, PF_TUNING_PERIOD, ns, n);
        assert_int_equal(n[best], PF_TUNING_PERIOD);
    }
    pf_tuning tuning = pf_tuning_of(16, 1); /* of equals the one of most members */
    run_rungs(&tuning, RUNGS * PF_TUNING_SAMPLES, (const uint64_t[RUNGS]){ 0 }, (int32_t[RUNGS]){ 0 });
    assert_int_equal(pf_tuning_members(&tuning, 1), 16);
}

/* Two, and then the more the better: a rung a trial, and none but the neighbours is tried. */
static void a_fastest_rung_that_moves_is_followed(void **state)
{
    (void)state;
    const uint64_t few[RUNGS] = { 41, 30, 23, 21, 26 }, many[RUNGS] = { 10, 11, 12, 13, 14 };
    pf_tuning tuning = pf_tuning_of(16, 1);
    int32_t n[RUNGS];
    run_rungs(&tuning, RUNGS * PF_TUNING_SAMPLES, few, n);
    for (int32_t rung = 3; rung > 0; rung--) {
        run_rungs(&tuning, PF_TUNING_PERIOD, many, n);
        assert_int_equal(n[rung], PF_TUNING_PERIOD);
        run_rungs(&tuning, 3 * PF_TUNING_SAMPLES, many, n);
        for (int32_t other = 0; other < RUNGS; other++)
            assert_int_equal(n[other], abs(other - rung) <= 1 ? PF_TUNING_SAMPLES : 0);
    }
    run_rungs(&tuning, PF_TUNING_PERIOD + 2 * PF_TUNING_SAMPLES, many, n); /* at the end there are two to try */
    assert_int_equal(n[0], PF_TUNING_PERIOD + PF_TUNING_SAMPLES);
    assert_int_equal(n[1], PF_TUNING_SAMPLES);
}

/* Three rungs, as most trials have, and every so many passes one is cold. */
static void a_rhythm_of_passes_does_not_choose_a_rung(void **state)
{
    (void)state;
    for (int32_t every = 3; every <= 8; every++) {
        for (int32_t best = 0; best < 3; best++) {
            pf_tuning tuning = pf_tuning_of(16, 4);
            for (int32_t i = 0; i < 3 * PF_TUNING_SAMPLES; i++) {
                const bool is_best = rung_of(pf_tuning_members(&tuning, 1)) == best;
                pf_tuning_note(&tuning, 1, (is_best ? 10u : 11u) + (i % every == 0 ? 30u : 0u));
            }
            assert_int_equal(rung_of(pf_tuning_members(&tuning, 1)), best);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_faster_way_is_taken),
        cmocka_unit_test(a_machine_that_changes_is_noticed),
        cmocka_unit_test(a_pass_that_was_interrupted_does_not_decide),
        cmocka_unit_test(the_rhythm_of_rounds_does_not_decide),
        cmocka_unit_test(only_passes_of_the_same_rows_are_compared),
        cmocka_unit_test(a_prompt_does_not_hold_up_a_trial),
        cmocka_unit_test(a_trial_ends),
        cmocka_unit_test(two_ways_are_tried_in_an_order_without_a_rhythm),
        cmocka_unit_test(rungs_are_all_and_the_powers_of_two_below_that_are_not_too_few),
        cmocka_unit_test(the_fastest_of_all_rungs_is_taken),
        cmocka_unit_test(a_fastest_rung_that_moves_is_followed),
        cmocka_unit_test(a_rhythm_of_passes_does_not_choose_a_rung),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
