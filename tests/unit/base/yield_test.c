/* What a yield tells, on one core that two threads share. */
#include "base/yield.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "tests/support/test.h"

enum { WAIT_S = 20 };
static const uint64_t SECOND_NS = 1000 * 1000 * 1000;

static void pin_to_one_cpu(void)
{
    cpu_set_t all, one;
    CPU_ZERO(&one);
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    for (size_t cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
    assert_int_equal(pthread_setaffinity_np(pthread_self(), sizeof one, &one), 0);
}

static atomic_bool over;

/* Computes, computes for a moment and yields, or looks and yields, until it is over. */
static void *compute(void *user)
{
    (void)user;
    while (!atomic_load(&over)) continue;
    return NULL;
}
static void *work(void *user)
{
    (void)user;
    while (!atomic_load(&over)) {
        pf_wait_until(pf_now_ns() + 100 * 1000); /* looking, not asleep */
        sched_yield();
    }
    return NULL;
}
static void *look(void *user)
{
    (void)user;
    while (!atomic_load(&over)) sched_yield();
    return NULL;
}

/* Whether a yield beside the other thread gives the expected result within WAIT_S. */
static bool tells(pf_yield_result expected, void *(*other)(void *))
{
    pthread_t thread;
    atomic_store(&over, false);
    assert_int_equal(pthread_create(&thread, NULL, other, NULL), 0); /* it inherits the CPU of its creator */
    const uint64_t end_ns = pf_now_ns() + WAIT_S * SECOND_NS;
    pf_contention contention = { 0 };
    bool told = false;
    while (!told && pf_now_ns() < end_ns) {
        uint64_t now_ns = pf_now_ns();
        const uint64_t before_ns = now_ns;
        told = pf_contention_yield(&contention, &now_ns) == expected;
        assert_true(now_ns >= before_ns && now_ns <= pf_now_ns());
    }
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    return told;
}

static void a_busy_thread_makes_the_core_contended(void **state)
{
    (void)state;
    assert_true(tells(PF_YIELD_CONTENDED, compute));
}

static void a_short_computation_is_reported_as_work(void **state)
{
    (void)state;
    assert_true(tells(PF_YIELD_OTHERS_WORKED, work));
}

static void a_polling_thread_returns_the_cpu_soon(void **state)
{
    (void)state;
    assert_true(tells(PF_YIELD_OTHERS_LOOKED, look));
}

/* L, W, C: results of yields; then whether contention is detected. */
static void contention_is_detected_after_several_slow_yields(void **state)
{
    (void)state;
    const struct {
        const char *told;
        bool is_contended;
    } cases[] = {
        { "", false },        { "C", false },
        { "CCC", false },     { "CCCC", true },
        { "CLCCC", false },   { "CLCCCC", true },
        { "WWCWCCC", false }, { "CLLLLCLLLLCLLLLCLLLLCLLLLCLLLLC", false },
        { "CCCCLLC", true },  { "LLLLLLLLLLLLLLLLLLLLLLCCCC", true },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        pf_contention contention = { 0 };
        for (const char *c = cases[i].told; *c; c++)
            pf_contention_note(&contention,
                               *c == 'L'   ? PF_YIELD_OTHERS_LOOKED
                               : *c == 'W' ? PF_YIELD_OTHERS_WORKED
                                           : PF_YIELD_CONTENDED,
                               SECOND_NS);
        if (pf_contention_is_present(&contention, SECOND_NS) != cases[i].is_contended)
            fail_msg("\"%s\"", cases[i].told);
    }
}

/* After that, one long yield is enough to detect it again. */
static void contention_is_reset_and_measured_again(void **state)
{
    (void)state;
    pf_contention contention = { 0 };
    for (int i = 0; i < 4; i++) pf_contention_note(&contention, PF_YIELD_CONTENDED, SECOND_NS);
    assert_true(pf_contention_is_present(&contention, SECOND_NS + SECOND_NS / 20));
    assert_false(pf_contention_is_present(&contention, 2 * SECOND_NS));
    pf_contention_note(&contention, PF_YIELD_CONTENDED, 2 * SECOND_NS);
    assert_true(pf_contention_is_present(&contention, 2 * SECOND_NS));
}

int main(void)
{
    pin_to_one_cpu();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_busy_thread_makes_the_core_contended),
        cmocka_unit_test(a_short_computation_is_reported_as_work),
        cmocka_unit_test(a_polling_thread_returns_the_cpu_soon),
        cmocka_unit_test(contention_is_detected_after_several_slow_yields),
        cmocka_unit_test(contention_is_reset_and_measured_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
