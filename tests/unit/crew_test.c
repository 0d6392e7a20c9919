/* The choice of who runs a pass: simulated times in, the way that passes are run out. */
#include "model/crew.h"

#include "tests/support/test.h"

/* Run n passes whose times the two ways give; returns how many of them ran alone. */
static int32_t run(pf_crew *crew, int32_t n, int32_t n_rows, uint64_t together_ns, uint64_t alone_ns)
{
    int32_t n_alone = 0;
    for (int32_t i = 0; i < n; i++) {
        const bool alone = pf_crew_alone(crew, n_rows);
        pf_crew_note(crew, n_rows, alone ? alone_ns : together_ns);
        n_alone += alone;
    }
    return n_alone;
}

static void the_faster_way_is_taken(void **state)
{
    (void)state;
    pf_crew crew = { 0 };
    assert_int_equal(run(&crew, 2 * PF_CREW_SAMPLES, 1, 20, 10), PF_CREW_SAMPLES); /* a trial tries both equally */
    assert_int_equal(run(&crew, PF_CREW_PERIOD, 1, 20, 10), PF_CREW_PERIOD);

    pf_crew other = { 0 };
    assert_int_equal(run(&other, 2 * PF_CREW_SAMPLES, 1, 10, 20), PF_CREW_SAMPLES);
    assert_int_equal(run(&other, PF_CREW_PERIOD, 1, 10, 20), 0);
}

static void a_machine_that_changes_is_noticed(void **state)
{
    (void)state;
    pf_crew crew = { 0 };
    run(&crew, 2 * PF_CREW_SAMPLES + PF_CREW_PERIOD, 1, 20, 10);
    run(&crew, 2 * PF_CREW_SAMPLES, 1, 7, 10); /* the next trial, the cores together again */
    assert_int_equal(run(&crew, PF_CREW_PERIOD, 1, 7, 10), 0);
}

static void a_pass_that_was_interrupted_does_not_decide(void **state)
{
    (void)state;
    pf_crew crew = { 0 };
    for (int32_t i = 0; i < 2 * PF_CREW_SAMPLES; i++) {
        const bool alone = pf_crew_alone(&crew, 1);
        pf_crew_note(&crew, 1, alone && i < 4 ? 1000000 : alone ? 10 : 20);
    }
    assert_int_equal(run(&crew, 100, 1, 20, 10), 100);
}

/* Rounds of four passes, the first of them on cold caches: 30 ns more whoever runs it. */
static void the_rhythm_of_rounds_does_not_decide(void **state)
{
    (void)state;
    pf_crew crew = { 0 };
    for (int32_t i = 0; i < 2 * PF_CREW_SAMPLES; i++) {
        const uint64_t ns = pf_crew_alone(&crew, 1) ? 11 : 10;
        pf_crew_note(&crew, 1, ns + (i % 4 == 0 ? 30 : 0));
    }
    assert_int_equal(run(&crew, 100, 1, 10, 11), 0);
}

static void only_passes_of_the_same_rows_are_compared(void **state)
{
    (void)state;
    pf_crew crew = { 0 };
    for (int32_t i = 0; i < 3 * 2 * PF_CREW_SAMPLES; i++) { /* two rows take twice as long: no sample of this trial */
        const int32_t n_rows = i % 3 == 1 ? 2 : 1;
        const uint64_t ns = pf_crew_alone(&crew, n_rows) ? 11 : 10;
        pf_crew_note(&crew, n_rows, ns * (uint64_t)n_rows);
        if (i < 2 * PF_CREW_SAMPLES) assert_int_equal(crew.until_trial, 0);
    }
    assert_true(crew.until_trial > 0);
    assert_false(crew.alone);
}

/* A short prompt, and then a row at a time: the prompt's rows do not come again. */
static void a_prompt_does_not_hold_up_a_trial(void **state)
{
    (void)state;
    pf_crew crew = { 0 };
    run(&crew, 1, 15, 200, 100);
    assert_int_equal(run(&crew, 2 * PF_CREW_SAMPLES, 1, 20, 10), PF_CREW_SAMPLES);
    assert_int_equal(run(&crew, PF_CREW_PERIOD, 1, 20, 10), PF_CREW_PERIOD);
}

/* A trial that began with rows that do not come again begins anew; passes of many rows are nobody's business. */
static void a_trial_ends(void **state)
{
    (void)state;
    pf_crew crew = { 0 };
    run(&crew, 2, 2, 20, 10);
    run(&crew, PF_CREW_PATIENCE + 2 * PF_CREW_SAMPLES, 1, 20, 10);
    assert_true(crew.alone);
    const pf_crew before = crew;
    assert_int_equal(run(&crew, 100, PF_CREW_MAX_ROWS + 1, 20, 10), 0);
    assert_memory_equal(&crew, &before, sizeof crew);
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
