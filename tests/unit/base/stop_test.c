/* Being told to stop, and for how long one goes on; waiting that ends by it. */
#include "base/stop.h"

#include <pthread.h>
#include <time.h>

#include "base/clock.h"
#include "tests/support/test.h"
#include "tests/support/told.h"

static void without_a_flag_nothing_stops(void **state)
{
    (void)state;
    pf_stop stop = { 0 };
    assert_false(pf_stop_is_due(&stop));
    const uint64_t end_ns = pf_now_ns() + 5 * 1000 * 1000;
    pf_stop_or_wait(&stop, end_ns);
    assert_true(pf_now_ns() >= end_ns);
}

static void the_grace_period_begins_when_the_flag_is_seen(void **state)
{
    (void)state;
    told = false;
    uint64_t clock_ns = 5;
    pf_stop stop = { .told = &told, .grace_ns = 30, .clock_ns = &clock_ns };
    assert_false(pf_stop_is_due(&stop));
    clock_ns = 100;
    told = true;
    assert_false(pf_stop_is_due(&stop));
    clock_ns = 129;
    assert_false(pf_stop_is_due(&stop));
    clock_ns = 130;
    assert_true(pf_stop_is_due(&stop));
    told = false;
    assert_false(pf_stop_is_due(&stop));
    told = true;
    assert_false(pf_stop_is_due(&stop)); /* the grace period starts again */
    clock_ns = 160;
    assert_true(pf_stop_is_due(&stop));
}

static void a_wait_advances_a_simulated_clock_by_its_length(void **state)
{
    (void)state;
    const uint64_t end_ns = UINT64_C(3600) * 1000 * 1000 * 1000, grace_ns = 30 * 1000 * 1000;
    uint64_t clock_ns = 1;
    told = false;
    pf_stop stop = { .told = &told, .grace_ns = grace_ns, .clock_ns = &clock_ns };
    pf_stop_or_wait(&stop, end_ns);
    assert_int_equal(clock_ns, end_ns);
    pf_stop_or_wait(&stop, end_ns - 1); /* nor back */
    assert_int_equal(clock_ns, end_ns);
    told = true;
    pf_stop_or_wait(&stop, 2 * end_ns);
    assert_in_range(clock_ns, end_ns + grace_ns, end_ns + 2 * grace_ns); /* it looks now and then */
}

static void a_wait_ends_when_the_flag_is_set(void **state)
{
    (void)state;
    pf_stop stop = { .told = &told };
    tell_in(20);
    const uint64_t begin_ns = pf_now_ns();
    pf_stop_or_wait(&stop, begin_ns + UINT64_C(10) * 1000 * 1000 * 1000);
    assert_true(told && pf_now_ns() - begin_ns < UINT64_C(5) * 1000 * 1000 * 1000);
}

static void *tell_from_a_thread(void *flag)
{
    __atomic_store_n((volatile bool *)flag, true, __ATOMIC_RELAXED);
    return NULL;
}

/* Under ThreadSanitizer. */
static void another_thread_may_set_the_flag(void **state)
{
    (void)state;
    volatile bool flag = false;
    pf_stop stop = { .told = &flag };
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, tell_from_a_thread, (void *)(uintptr_t)&flag), 0);
    const uint64_t begin_ns = pf_now_ns();
    pf_stop_or_wait(&stop, begin_ns + UINT64_C(10) * 1000 * 1000 * 1000);
    assert_true(pf_is_told(&flag) && pf_now_ns() - begin_ns < UINT64_C(5) * 1000 * 1000 * 1000);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void a_signal_without_a_flag_neither_shortens_a_wait_nor_makes_it_busy(void **state)
{
    (void)state;
    tell_in(5);
    struct timespec before, after;
    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before), 0);
    const uint64_t end_ns = pf_now_ns() + 200 * 1000 * 1000;
    pf_wait_until(end_ns);
    assert_true(told && pf_now_ns() >= end_ns);
    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after), 0);
    const double worked_ms =
        (double)(after.tv_sec - before.tv_sec) * 1e3 + (double)(after.tv_nsec - before.tv_nsec) * 1e-6;
    if (worked_ms > 50.0) fail_msg("%.1f ms of work while asleep", worked_ms);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_flag_nothing_stops),
        cmocka_unit_test(the_grace_period_begins_when_the_flag_is_seen),
        cmocka_unit_test(a_wait_advances_a_simulated_clock_by_its_length),
        cmocka_unit_test(a_wait_ends_when_the_flag_is_set),
        cmocka_unit_test(another_thread_may_set_the_flag),
        cmocka_unit_test(a_signal_without_a_flag_neither_shortens_a_wait_nor_makes_it_busy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
