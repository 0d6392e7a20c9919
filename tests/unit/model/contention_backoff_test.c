/* Fewer members beside a crowd: simulated times in, the members that passes are run by out. */
#include "model/forward/contention_backoff.h"

#include "tests/support/test.h"

enum { WINDOW = 10, PASS_NS = PF_BACKOFF_WINDOW_NS / WINDOW }; /* passes of that time make a window */

/* A machine: what a pass takes by so many members, in units of PASS_NS, and whether members are held up. */
typedef struct {
    double by_one, by_two, by_four, by_eight;
    bool is_contended;
} machine;

static double units(const machine *m, int32_t n_members)
{
    if (n_members == 1) return m->by_one;
    return n_members == 2 ? m->by_two : n_members <= 4 ? m->by_four : m->by_eight;
}

/* Run n passes that a crew would run by n_members; who alone runs one is not held up. Returns how many each number of members ran. */
typedef struct {
    int32_t by[9];
} counts;

static counts run(pf_backoff *r, int32_t n_members, const machine *m, int32_t n)
{
    counts c = { { 0 } };
    for (int32_t i = 0; i < n; i++) {
        const int32_t now = pf_backoff_members(r, n_members);
        c.by[now]++;
        const uint64_t ns = (uint64_t)(units(m, now) * PASS_NS);
        pf_backoff_note(r, n_members, 1, ns, m->is_contended && now > 1 ? ns / 2 : ns / 5);
    }
    return c;
}

static const machine quiet = { 2, 1, 0.6, 0.4, false }, /* the more the better */
    crowded = { 1, 10, 20, 40, true };                  /* the fewer */

static void without_contention_all_threads_stay_active(void **state)
{
    (void)state;
    pf_backoff r = { .state = PF_BACKOFF_QUIET };
    const machine slow = { 0.1, 10, 10, 10, false };
    assert_int_equal(run(&r, 8, &slow, 10 * WINDOW).by[8], 10 * WINDOW);
    assert_int_equal(r.state, PF_BACKOFF_QUIET);
}

/* A machine that stands still for a moment, now and then. */
static void a_single_slow_pass_is_not_contention(void **state)
{
    (void)state;
    pf_backoff r = { .state = PF_BACKOFF_QUIET };
    for (int32_t i = 0; i < 20; i++) {
        assert_int_equal(pf_backoff_members(&r, 2), 2);
        pf_backoff_note(&r, 2, 1, 2 * PF_BACKOFF_WINDOW_NS, PF_BACKOFF_WINDOW_NS);
        assert_int_equal(r.state, PF_BACKOFF_MEASURED);
        assert_int_equal(run(&r, 2, &quiet, 3 * PF_BACKOFF_LONGEST * WINDOW).by[2], 3 * PF_BACKOFF_LONGEST * WINDOW);
        assert_int_equal(r.state, PF_BACKOFF_QUIET);
    }
}

/* Two members meet a crowd: four passes at least are measured, then one member is tried, and stays. */
static void one_of_two_goes_on_alone(void **state)
{
    (void)state;
    pf_backoff r = { .state = PF_BACKOFF_QUIET };
    const counts first = run(&r, 2, &crowded, 1 + PF_BACKOFF_PASSES + PF_BACKOFF_HELD_FIRST * WINDOW);
    assert_int_equal(first.by[2], 1 + PF_BACKOFF_PASSES);
    assert_int_equal(first.by[1], PF_BACKOFF_HELD_FIRST * WINDOW);
}

static void two_threads_stay_active_under_contention_where_they_are_faster(void **state)
{
    (void)state;
    pf_backoff r = { .state = PF_BACKOFF_QUIET };
    const machine m = { 1.9, 2, 2, 2, true }; /* less than a tenth better alone */
    const counts c = run(&r, 2, &m, 200 * WINDOW);
    assert_in_range(c.by[1], 2, 20 * WINDOW);
    run(&r, 2, &quiet, 2 * PF_BACKOFF_HELD_MOST * WINDOW);
    assert_int_equal(r.state, PF_BACKOFF_QUIET);
}

/* The most members whose passes are fastest, of eight. */
static void members_are_halved_as_long_as_it_helps(void **state)
{
    (void)state;
    const machine machines[] = {
        { 9, 4, 2, 5, true }, { 9, 2, 4, 5, true }, { 1, 2, 4, 5, true }, { 9, 8, 7, 5, true }
    };
    const int32_t best[] = { 4, 2, 1, 8 };
    for (size_t i = 0; i < PF_COUNT(machines); i++) {
        pf_backoff r = { .state = PF_BACKOFF_QUIET };
        run(&r, 8, &machines[i], 6 * WINDOW);
        assert_in_range(run(&r, 8, &machines[i], 40 * WINDOW).by[best[i]], 32 * WINDOW, 40 * WINDOW);
    }
}

/* Twelve are halved to powers of two: 8, 4, 2, 1. */
static void a_crew_is_halved_to_powers_of_two(void **state)
{
    (void)state;
    const int32_t of_twelve[] = { 12, 8, 4, 2, 1, 1 }, of_eight[] = { 8, 4, 2, 1, 1, 1 },
                  of_one[] = { 1, 1, 1, 1, 1, 1 };
    for (int32_t halved = 0; halved < 6; halved++) {
        const pf_backoff r = { .halved = halved };
        assert_int_equal(pf_backoff_members(&r, 12), of_twelve[halved]);
        assert_int_equal(pf_backoff_members(&r, 8), of_eight[halved]);
        assert_int_equal(pf_backoff_members(&r, 1), of_one[halved]);
    }
}

/* While it lasts, the more are tried ever more rarely; when it has gone they are back within the longest time that is held. */
static void the_end_of_contention_is_noticed(void **state)
{
    (void)state;
    pf_backoff r = { .state = PF_BACKOFF_QUIET };
    const counts lasting = run(&r, 2, &crowded, 1000 * WINDOW);
    assert_in_range(lasting.by[2], 2 * PF_BACKOFF_PASSES, 12 * PF_BACKOFF_PASSES);
    run(&r, 2, &quiet, 2 * PF_BACKOFF_HELD_MOST * WINDOW);
    assert_int_equal(r.state, PF_BACKOFF_QUIET);
    assert_int_equal(pf_backoff_members(&r, 2), 2);

    const pf_backoff new = { .state = PF_BACKOFF_QUIET };
    assert_memory_equal(&r, &new, sizeof r);
}

/* Four were best; then one is, and then eight. */
static void a_changing_contention_is_followed(void **state)
{
    (void)state;
    pf_backoff r = { .state = PF_BACKOFF_QUIET };
    const machine four = { 9, 4, 2, 5, true }, one = { 1, 2, 4, 5, true }, eight = { 9, 8, 7, 5, true };
    const int32_t long_enough = 3 * PF_BACKOFF_HELD_FIRST * WINDOW;
    run(&r, 8, &four, 6 * WINDOW);
    run(&r, 8, &one, long_enough);
    assert_in_range(run(&r, 8, &one, 40 * WINDOW).by[1], 32 * WINDOW, 40 * WINDOW); /* but for trials */
    run(&r, 8, &eight, long_enough);
    assert_in_range(run(&r, 8, &eight, 40 * WINDOW).by[8], 32 * WINDOW, 40 * WINDOW);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_contention_all_threads_stay_active),
        cmocka_unit_test(a_single_slow_pass_is_not_contention),
        cmocka_unit_test(one_of_two_goes_on_alone),
        cmocka_unit_test(two_threads_stay_active_under_contention_where_they_are_faster),
        cmocka_unit_test(members_are_halved_as_long_as_it_helps),
        cmocka_unit_test(a_crew_is_halved_to_powers_of_two),
        cmocka_unit_test(the_end_of_contention_is_noticed),
        cmocka_unit_test(a_changing_contention_is_followed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
