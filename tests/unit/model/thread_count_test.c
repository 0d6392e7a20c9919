/* The number of threads of a pass: simulated times in, the number of threads of each pass out. */
#include "model/forward/thread_count.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/test.h"

/* ---- speed, of a team of two --------------------------------------------------------------------------------------- */

static pf_thread_count of_speed(int32_t n_threads, int32_t fewest)
{
    return pf_thread_count_of(&(pf_thread_count_config){ .n_threads = n_threads, .fewest = fewest });
}

/* Run n passes that take together_ns on two threads and alone_ns on one. Returns how many ran on one. */
static int32_t run_two(pf_thread_count *count, int32_t n, int32_t n_rows, uint64_t together_ns, uint64_t alone_ns)
{
    int32_t n_alone = 0;
    for (int32_t i = 0; i < n; i++) {
        const bool alone = pf_thread_count_next(count, n_rows) == 1;
        pf_thread_count_note(count, n_rows, alone ? alone_ns : together_ns, 0);
        n_alone += alone;
    }
    return n_alone;
}

static void the_faster_number_of_threads_is_chosen(void **state)
{
    (void)state;
    pf_thread_count count = of_speed(2, 1);
    assert_int_equal(run_two(&count, 2 * PF_TRIAL_SAMPLES, 1, 20, 10), PF_TRIAL_SAMPLES); /* both equally often */
    assert_int_equal(run_two(&count, PF_TRIAL_PERIOD, 1, 20, 10), PF_TRIAL_PERIOD);

    pf_thread_count other = of_speed(2, 1);
    assert_int_equal(run_two(&other, 2 * PF_TRIAL_SAMPLES, 1, 10, 20), PF_TRIAL_SAMPLES);
    assert_int_equal(run_two(&other, PF_TRIAL_PERIOD, 1, 10, 20), 0);
}

static void the_next_trial_follows_a_machine_that_changes(void **state)
{
    (void)state;
    pf_thread_count count = of_speed(2, 1);
    run_two(&count, 2 * PF_TRIAL_SAMPLES + PF_TRIAL_PERIOD, 1, 20, 10);
    run_two(&count, 2 * PF_TRIAL_SAMPLES, 1, 7, 10);
    assert_int_equal(run_two(&count, PF_TRIAL_PERIOD, 1, 7, 10), 0);
}

static void a_few_interrupted_passes_do_not_decide(void **state)
{
    (void)state;
    pf_thread_count count = of_speed(2, 1);
    for (int32_t i = 0; i < 2 * PF_TRIAL_SAMPLES; i++) {
        const bool alone = pf_thread_count_next(&count, 1) == 1;
        pf_thread_count_note(&count, 1, alone && i < 4 ? 1000000 : alone ? 10 : 20, 0);
    }
    assert_int_equal(run_two(&count, 100, 1, 20, 10), 100);
}

/* Rounds of four passes, the first of them on cold caches: 30 ns more on any number of threads. */
static void a_cold_pass_each_round_does_not_decide(void **state)
{
    (void)state;
    pf_thread_count count = of_speed(2, 1);
    for (int32_t i = 0; i < 2 * PF_TRIAL_SAMPLES; i++) {
        const uint64_t ns = pf_thread_count_next(&count, 1) == 1 ? 11 : 10;
        pf_thread_count_note(&count, 1, ns + (i % 4 == 0 ? 30 : 0), 0);
    }
    assert_int_equal(run_two(&count, 100, 1, 10, 11), 0);
}

static void only_passes_of_the_same_number_of_rows_are_compared(void **state)
{
    (void)state;
    pf_thread_count count = of_speed(2, 1);
    for (int32_t i = 0; i < 3 * 2 * PF_TRIAL_SAMPLES; i++) { /* two rows take twice as long: no sample of this trial */
        const int32_t n_rows = i % 3 == 1 ? 2 : 1;
        const uint64_t ns = pf_thread_count_next(&count, n_rows) == 1 ? 11 : 10;
        pf_thread_count_note(&count, n_rows, ns * (uint64_t)n_rows, 0);
        if (i < 2 * PF_TRIAL_SAMPLES) assert_int_equal(count.trial.until_trial, 0);
    }
    assert_true(count.trial.until_trial > 0);
    assert_int_equal(pf_thread_count_next(&count, 1), 2);
}

/* A short prompt, and then one row at a time: the prompt's number of rows does not come again. */
static void a_short_prompt_does_not_delay_a_trial(void **state)
{
    (void)state;
    pf_thread_count count = of_speed(2, 1);
    run_two(&count, 1, 15, 200, 100);
    assert_int_equal(run_two(&count, 2 * PF_TRIAL_SAMPLES, 1, 20, 10), PF_TRIAL_SAMPLES);
    assert_int_equal(run_two(&count, PF_TRIAL_PERIOD, 1, 20, 10), PF_TRIAL_PERIOD);
}

static void a_trial_ends_when_its_number_of_rows_does_not_come_again(void **state)
{
    (void)state;
    pf_thread_count count = of_speed(2, 1);
    run_two(&count, 2, 2, 20, 10);
    run_two(&count, PF_TRIAL_PASSES + 2 * PF_TRIAL_SAMPLES, 1, 20, 10);
    assert_int_equal(pf_thread_count_next(&count, 1), 1);
}

static void passes_of_many_rows_take_no_part_in_trials(void **state)
{
    (void)state;
    pf_thread_count count = of_speed(2, 1);
    const pf_thread_count before = count;
    assert_int_equal(run_two(&count, 100, PF_TRIAL_ROWS + 1, 20, 10), 0);
    assert_memory_equal(&count, &before, sizeof count);
}

static void two_levels_alternate_by_the_thue_morse_sequence(void **state)
{
    (void)state;
    pf_thread_count count = of_speed(2, 1);
    for (unsigned i = 0; i < 2 * PF_TRIAL_SAMPLES; i++)
        assert_int_equal(run_two(&count, 1, 1, 20, 10), __builtin_parity(i));
}

/* ---- speed, of larger teams ---------------------------------------------------------------------------------------- */

static void levels_are_all_threads_and_the_powers_of_two_below_down_to_the_fewest(void **state)
{
    (void)state;
    const struct {
        int32_t n_threads, fewest, n_levels, threads[PF_TRIAL_LEVELS];
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
        pf_thread_count count = of_speed(cases[i].n_threads, cases[i].fewest);
        assert_int_equal(count.trial.n_levels, cases[i].n_levels);
        for (int32_t level = 0; level < count.trial.n_levels; level++) { /* the first turn has all levels in order */
            assert_int_equal(pf_thread_count_next(&count, 1), cases[i].threads[level]);
            pf_thread_count_note(&count, 1, 10, 0);
        }
        assert_int_equal(pf_thread_count_next(&count, PF_TRIAL_ROWS + 1), cases[i].n_threads);
    }
}

enum { LEVELS = 5 }; /* 16, 8, 4, 2, 1 */

static int32_t level_of(int32_t n_threads)
{
    return 4 - __builtin_ctz((unsigned)n_threads);
}

/* Run n passes of one row, each of the time of its level; n_passes[] is how many each level ran. */
static void run_levels(pf_thread_count *count, int32_t n, const uint64_t ns[LEVELS], int32_t n_passes[LEVELS])
{
    memset(n_passes, 0, LEVELS * sizeof *n_passes);
    for (int32_t i = 0; i < n; i++) {
        const int32_t level = level_of(pf_thread_count_next(count, 1));
        n_passes[level]++;
        pf_thread_count_note(count, 1, ns[level], 0);
    }
}

static void the_first_trial_finds_the_fastest_of_all_levels(void **state)
{
    (void)state;
    for (int32_t best = 0; best < LEVELS; best++) {
        pf_thread_count count = of_speed(16, 1);
        uint64_t ns[LEVELS];
        int32_t n[LEVELS];
        for (int32_t level = 0; level < LEVELS; level++) ns[level] = 20 + 3 * (uint64_t)abs(level - best);
        run_levels(&count, LEVELS * PF_TRIAL_SAMPLES, ns, n);
        for (int32_t level = 0; level < LEVELS; level++) assert_int_equal(n[level], PF_TRIAL_SAMPLES);
        run_levels(&count, PF_TRIAL_PERIOD, ns, n);
        assert_int_equal(n[best], PF_TRIAL_PERIOD);
    }
}

static void of_equally_fast_levels_the_one_with_the_most_threads_is_chosen(void **state)
{
    (void)state;
    pf_thread_count count = of_speed(16, 1);
    run_levels(&count, LEVELS * PF_TRIAL_SAMPLES, (const uint64_t[LEVELS]){ 0 }, (int32_t[LEVELS]){ 0 });
    assert_int_equal(pf_thread_count_next(&count, 1), 16);
}

/* Two threads are fastest, and then the more the better: each trial tries the neighbours alone, and moves by one level. */
static void later_trials_follow_the_fastest_level(void **state)
{
    (void)state;
    const uint64_t few[LEVELS] = { 41, 30, 23, 21, 26 }, many[LEVELS] = { 10, 11, 12, 13, 14 };
    pf_thread_count count = of_speed(16, 1);
    int32_t n[LEVELS];
    run_levels(&count, LEVELS * PF_TRIAL_SAMPLES, few, n);
    for (int32_t level = 3; level > 0; level--) {
        run_levels(&count, PF_TRIAL_PERIOD, many, n);
        assert_int_equal(n[level], PF_TRIAL_PERIOD);
        run_levels(&count, 3 * PF_TRIAL_SAMPLES, many, n);
        for (int32_t other = 0; other < LEVELS; other++)
            assert_int_equal(n[other], abs(other - level) <= 1 ? PF_TRIAL_SAMPLES : 0);
    }
    run_levels(&count, PF_TRIAL_PERIOD + 2 * PF_TRIAL_SAMPLES, many, n); /* level 0 has one neighbour */
    assert_int_equal(n[0], PF_TRIAL_PERIOD + PF_TRIAL_SAMPLES);
    assert_int_equal(n[1], PF_TRIAL_SAMPLES);
}

/* Three levels, as most trials have, and a cold pass at a fixed period. */
static void a_period_of_cold_passes_does_not_choose_a_level(void **state)
{
    (void)state;
    for (int32_t every = 3; every <= 8; every++) {
        for (int32_t best = 0; best < 3; best++) {
            pf_thread_count count = of_speed(16, 4);
            for (int32_t i = 0; i < 3 * PF_TRIAL_SAMPLES; i++) {
                const bool is_best = level_of(pf_thread_count_next(&count, 1)) == best;
                pf_thread_count_note(&count, 1, (is_best ? 10u : 11u) + (i % every == 0 ? 30u : 0u), 0);
            }
            assert_int_equal(level_of(pf_thread_count_next(&count, 1)), best);
        }
    }
}

/* ---- contention, of long passes ------------------------------------------------------------------------------------ */

enum { WINDOW = 10, PASS_NS = PF_BACKOFF_WINDOW_NS / WINDOW }; /* so many passes of that time make a window */

/* What a pass takes by the number of threads, in units of PASS_NS, and whether it is then held up. One thread is not. */
typedef struct {
    double by_one, by_two, by_four, by_eight;
    bool is_contended;
} machine;

static double units(const machine *m, int32_t n_threads)
{
    if (n_threads == 1) return m->by_one;
    return n_threads == 2 ? m->by_two : n_threads <= 4 ? m->by_four : m->by_eight;
}

static pf_thread_count of_contention(int32_t n_threads)
{
    return pf_thread_count_of(
        &(pf_thread_count_config){ .n_threads = n_threads, .fewest = n_threads, .backs_off = true });
}

/* Passes of one row, by the number of threads that ran them. */
typedef struct {
    int32_t by[9];
} counts;

static counts run_on(pf_thread_count *count, const machine *m, int32_t n)
{
    counts c = { { 0 } };
    for (int32_t i = 0; i < n; i++) {
        const int32_t now = pf_thread_count_next(count, 1);
        c.by[now]++;
        const uint64_t ns = (uint64_t)(units(m, now) * PASS_NS);
        pf_thread_count_note(count, 1, ns, m->is_contended && now > 1 ? ns / 2 : ns / 5);
    }
    return c;
}

static const machine quiet = { 2, 1, 0.6, 0.4, false }, contended = { 1, 10, 20, 40, true };

static void without_contention_all_threads_run(void **state)
{
    (void)state;
    pf_thread_count count = of_contention(8);
    const machine slow = { 0.1, 10, 10, 10, false };
    assert_int_equal(run_on(&count, &slow, 10 * WINDOW).by[8], 10 * WINDOW);
    assert_int_equal(count.of_few.state, PF_BACKOFF_QUIET);
}

static void a_single_long_pass_that_is_held_up_changes_nothing(void **state)
{
    (void)state;
    pf_thread_count count = of_contention(2);
    for (int32_t i = 0; i < 20; i++) {
        assert_int_equal(pf_thread_count_next(&count, 1), 2);
        pf_thread_count_note(&count, 1, 2 * PF_BACKOFF_WINDOW_NS, PF_BACKOFF_WINDOW_NS);
        assert_int_equal(count.of_few.state, PF_BACKOFF_MEASURED);
        const int32_t n = 3 * PF_BACKOFF_LONGEST * WINDOW;
        assert_int_equal(run_on(&count, &quiet, n).by[2], n);
        assert_int_equal(count.of_few.state, PF_BACKOFF_QUIET);
    }
}

static void under_contention_one_of_two_threads_runs(void **state)
{
    (void)state;
    pf_thread_count count = of_contention(2);
    const counts first = run_on(&count, &contended, 1 + PF_BACKOFF_PASSES + PF_BACKOFF_HELD_FIRST * WINDOW);
    assert_int_equal(first.by[2], 1 + PF_BACKOFF_PASSES); /* at least so many are measured */
    assert_int_equal(first.by[1], PF_BACKOFF_HELD_FIRST * WINDOW);
}

static void two_threads_run_under_contention_where_they_are_faster(void **state)
{
    (void)state;
    pf_thread_count count = of_contention(2);
    const machine m = { 1.9, 2, 2, 2, true }; /* one thread is less than a tenth faster */
    const counts c = run_on(&count, &m, 200 * WINDOW);
    assert_in_range(c.by[1], 2, 20 * WINDOW);
    run_on(&count, &quiet, 2 * PF_BACKOFF_HELD_MOST * WINDOW);
    assert_int_equal(count.of_few.state, PF_BACKOFF_QUIET);
}

static void threads_are_halved_as_long_as_it_helps(void **state)
{
    (void)state;
    const machine machines[] = {
        { 9, 4, 2, 5, true }, { 9, 2, 4, 5, true }, { 1, 2, 4, 5, true }, { 9, 8, 7, 5, true }
    };
    const int32_t best[] = { 4, 2, 1, 8 };
    for (size_t i = 0; i < PF_COUNT(machines); i++) {
        pf_thread_count count = of_contention(8);
        run_on(&count, &machines[i], 6 * WINDOW);
        assert_in_range(run_on(&count, &machines[i], 40 * WINDOW).by[best[i]], 32 * WINDOW, 40 * WINDOW);
    }
}

static void a_level_halves_to_powers_of_two(void **state)
{
    (void)state;
    const int32_t of_twelve[] = { 12, 8, 4, 2, 1, 1 }, of_eight[] = { 8, 4, 2, 1, 1, 1 },
                  of_one[] = { 1, 1, 1, 1, 1, 1 };
    for (int32_t level = 0; level < 6; level++) {
        assert_int_equal(pf_threads_of_level(12, level), of_twelve[level]);
        assert_int_equal(pf_threads_of_level(8, level), of_eight[level]);
        assert_int_equal(pf_threads_of_level(1, level), of_one[level]);
    }
}

static void more_threads_are_tried_ever_more_rarely(void **state)
{
    (void)state;
    pf_thread_count count = of_contention(2);
    const counts lasting = run_on(&count, &contended, 1000 * WINDOW);
    assert_in_range(lasting.by[2], 2 * PF_BACKOFF_PASSES, 12 * PF_BACKOFF_PASSES);
}

static void the_end_of_contention_brings_all_threads_back(void **state)
{
    (void)state;
    pf_thread_count count = of_contention(2);
    run_on(&count, &contended, 1000 * WINDOW);
    run_on(&count, &quiet, 2 * PF_BACKOFF_HELD_MOST * WINDOW);
    const pf_thread_count fresh = of_contention(2);
    assert_memory_equal(&count.of_few, &fresh.of_few, sizeof fresh.of_few);
    assert_int_equal(pf_thread_count_next(&count, 1), 2);
}

static void a_changing_contention_is_followed(void **state)
{
    (void)state;
    pf_thread_count count = of_contention(8);
    const machine four = { 9, 4, 2, 5, true }, one = { 1, 2, 4, 5, true }, eight = { 9, 8, 7, 5, true };
    const int32_t long_enough = 3 * PF_BACKOFF_HELD_FIRST * WINDOW;
    run_on(&count, &four, 6 * WINDOW);
    run_on(&count, &one, long_enough);
    assert_in_range(run_on(&count, &one, 40 * WINDOW).by[1], 32 * WINDOW, 40 * WINDOW);
    run_on(&count, &eight, long_enough);
    assert_in_range(run_on(&count, &eight, 40 * WINDOW).by[8], 32 * WINDOW, 40 * WINDOW);
}

static void passes_of_few_and_of_many_rows_back_off_apart(void **state)
{
    (void)state;
    pf_thread_count count = of_contention(2);
    run_on(&count, &contended, 1000 * WINDOW);
    assert_int_equal(pf_thread_count_next(&count, PF_BACKOFF_FEW_ROWS), 1);
    assert_int_equal(pf_thread_count_next(&count, PF_BACKOFF_FEW_ROWS + 1), 2);
}

/* ---- contention, of short passes ----------------------------------------------------------------------------------- */

enum { START_NS = 50 * 1000 * 1000 };

static pf_thread_count of_short_passes(int32_t n_threads, bool is_contended)
{
    return pf_thread_count_of(&(pf_thread_count_config){ .n_threads = n_threads,
                                                         .fewest = n_threads,
                                                         .backs_off = true,
                                                         .is_in_cache = true,
                                                         .run_ns = 2 * START_NS,
                                                         .delay_ns = is_contended ? START_NS : START_NS - 1 });
}

enum { SHORT_NS = 100 * 1000, TURN_NS = 20 * 1000 * 1000 }; /* a pass; a hold-up of a thread that has lost its core */

/* Two cores that other processes use too: a pass of two threads is always held up, each tenth pass of one is late.
 * Returns the sum of all times. */
static uint64_t run_beside_others(pf_thread_count *count, int32_t n, int32_t *n_together)
{
    uint64_t sum = 0;
    *n_together = 0;
    for (int32_t i = 0; i < n; i++) {
        const bool together = pf_thread_count_next(count, 1) == 2;
        const uint64_t ns = together ? SHORT_NS / 2 + TURN_NS : SHORT_NS + (i % 10 == 9 ? TURN_NS : 0);
        pf_thread_count_note(count, 1, ns, together ? TURN_NS : 0);
        sum += ns;
        *n_together += together;
    }
    return sum;
}

static void a_short_pass_that_is_held_up_halves_the_threads_at_once(void **state)
{
    (void)state;
    pf_thread_count count = of_short_passes(8, false);
    for (int32_t expected = 8; expected > 1; expected /= 2) {
        assert_int_equal(pf_thread_count_next(&count, 1), expected);
        pf_thread_count_note(&count, 1, TURN_NS, TURN_NS / 2);
    }
    assert_int_equal(pf_thread_count_next(&count, 1), 1);
    pf_thread_count_note(&count, 1, TURN_NS, TURN_NS / 2);
    assert_int_equal(pf_thread_count_next(&count, 1), 1);
}

static void a_failed_try_of_more_threads_costs_at_most_a_tenth_of_the_time(void **state)
{
    (void)state;
    pf_thread_count count = of_short_passes(2, false);
    int32_t n_together;
    const uint64_t sum = run_beside_others(&count, 10000, &n_together);
    assert_in_range(n_together, 2, 20);
    assert_true((uint64_t)n_together * TURN_NS * 10 <= sum + 10 * TURN_NS);
}

static void a_short_text_beside_other_processes_runs_on_one_thread(void **state)
{
    (void)state;
    pf_thread_count count = of_short_passes(2, true);
    int32_t n_together;
    (void)run_beside_others(&count, 256, &n_together); /* half a second */
    assert_int_equal(n_together, 0);
    assert_int_equal(pf_thread_count_next(&count, PF_BACKOFF_FEW_ROWS + 1), 2); /* long passes of many rows */
}

static void a_short_delay_before_the_first_pass_is_no_contention(void **state)
{
    (void)state;
    pf_thread_count_config config = { .n_threads = 2, .fewest = 2, .backs_off = true, .is_in_cache = true };
    config.delay_ns = PF_BACKOFF_START_DELAY_NS - 1;
    pf_thread_count count = pf_thread_count_of(&config);
    assert_int_equal(pf_thread_count_next(&count, 1), 2);
    config.delay_ns = PF_BACKOFF_START_DELAY_NS;
    count = pf_thread_count_of(&config);
    assert_int_equal(pf_thread_count_next(&count, 1), 1);
}

static void quiet_after_a_contended_start_brings_all_threads_back(void **state)
{
    (void)state;
    pf_thread_count count = of_short_passes(2, true);
    for (int32_t i = 0; i <= PF_BACKOFF_CLEAN_NS / SHORT_NS; i++) {
        assert_int_equal(pf_thread_count_next(&count, 1), 1);
        assert_true(pf_thread_count_is_contended(&count));
        pf_thread_count_note(&count, 1, SHORT_NS, 0);
    }
    assert_int_equal(pf_thread_count_next(&count, 1), 2);
    assert_true(pf_thread_count_is_contended(&count)); /* two threads are only tried */
    for (int32_t i = 0; i < 7 * PF_BACKOFF_WINDOW_NS / SHORT_NS * 2; i++)
        pf_thread_count_note(&count, 1, SHORT_NS / 2, 0);
    assert_int_equal(count.of_few.state, PF_BACKOFF_QUIET);
    assert_int_equal(pf_thread_count_next(&count, 1), 2);
    assert_false(pf_thread_count_is_contended(&count));
    pf_thread_count_note(&count, 1, TURN_NS, TURN_NS / 2); /* a held-up pass */
    assert_true(pf_thread_count_is_contended(&count));
}

static void a_held_up_pass_of_many_rows_is_contention_once_fewer_threads_run(void **state)
{
    (void)state;
    pf_thread_count count = pf_thread_count_of(
        &(pf_thread_count_config){ .n_threads = 2, .fewest = 2, .backs_off = true, .is_in_cache = true });
    const int32_t n_rows = PF_BACKOFF_FEW_ROWS + 1;
    for (int32_t i = 0; i < 100 && pf_thread_count_next(&count, n_rows) == 2; i++) {
        assert_false(pf_thread_count_is_contended(&count));
        pf_thread_count_note(&count, n_rows, PF_BACKOFF_WINDOW_NS, PF_BACKOFF_WINDOW_NS / 2);
    }
    assert_int_equal(pf_thread_count_next(&count, n_rows), 1);
    assert_true(pf_thread_count_is_contended(&count));
}

/* Passes of one thread are never late where the others compute on another core. */
static void a_clean_stretch_ends_no_hold_but_the_first(void **state)
{
    (void)state;
    pf_thread_count count = of_short_passes(2, false);
    pf_thread_count_note(&count, 1, TURN_NS, TURN_NS / 2);
    for (int32_t i = 0; i < PF_BACKOFF_WINDOW_NS / SHORT_NS; i++) {
        assert_int_equal(pf_thread_count_next(&count, 1), 1);
        pf_thread_count_note(&count, 1, SHORT_NS, 0);
    }
}

static void without_leave_to_back_off_all_threads_run_under_contention(void **state)
{
    (void)state;
    pf_thread_count count = pf_thread_count_of(
        &(pf_thread_count_config){ .n_threads = 2, .fewest = 2, .is_in_cache = true, .delay_ns = START_NS });
    int32_t n_together;
    (void)run_beside_others(&count, 1000, &n_together);
    assert_int_equal(n_together, 1000);
    assert_true(pf_thread_count_is_fixed(&count));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_faster_number_of_threads_is_chosen),
        cmocka_unit_test(the_next_trial_follows_a_machine_that_changes),
        cmocka_unit_test(a_few_interrupted_passes_do_not_decide),
        cmocka_unit_test(a_cold_pass_each_round_does_not_decide),
        cmocka_unit_test(only_passes_of_the_same_number_of_rows_are_compared),
        cmocka_unit_test(a_short_prompt_does_not_delay_a_trial),
        cmocka_unit_test(a_trial_ends_when_its_number_of_rows_does_not_come_again),
        cmocka_unit_test(passes_of_many_rows_take_no_part_in_trials),
        cmocka_unit_test(two_levels_alternate_by_the_thue_morse_sequence),
        cmocka_unit_test(levels_are_all_threads_and_the_powers_of_two_below_down_to_the_fewest),
        cmocka_unit_test(the_first_trial_finds_the_fastest_of_all_levels),
        cmocka_unit_test(of_equally_fast_levels_the_one_with_the_most_threads_is_chosen),
        cmocka_unit_test(later_trials_follow_the_fastest_level),
        cmocka_unit_test(a_period_of_cold_passes_does_not_choose_a_level),
        cmocka_unit_test(without_contention_all_threads_run),
        cmocka_unit_test(a_single_long_pass_that_is_held_up_changes_nothing),
        cmocka_unit_test(under_contention_one_of_two_threads_runs),
        cmocka_unit_test(two_threads_run_under_contention_where_they_are_faster),
        cmocka_unit_test(threads_are_halved_as_long_as_it_helps),
        cmocka_unit_test(a_level_halves_to_powers_of_two),
        cmocka_unit_test(more_threads_are_tried_ever_more_rarely),
        cmocka_unit_test(the_end_of_contention_brings_all_threads_back),
        cmocka_unit_test(a_changing_contention_is_followed),
        cmocka_unit_test(passes_of_few_and_of_many_rows_back_off_apart),
        cmocka_unit_test(a_short_pass_that_is_held_up_halves_the_threads_at_once),
        cmocka_unit_test(a_failed_try_of_more_threads_costs_at_most_a_tenth_of_the_time),
        cmocka_unit_test(a_short_text_beside_other_processes_runs_on_one_thread),
        cmocka_unit_test(a_short_delay_before_the_first_pass_is_no_contention),
        cmocka_unit_test(quiet_after_a_contended_start_brings_all_threads_back),
        cmocka_unit_test(a_held_up_pass_of_many_rows_is_contention_once_fewer_threads_run),
        cmocka_unit_test(a_clean_stretch_ends_no_hold_but_the_first),
        cmocka_unit_test(without_leave_to_back_off_all_threads_run_under_contention),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
