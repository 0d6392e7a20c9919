/* What a yield tells, on one core that two threads share. */
#include "base/yield.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "tests/support/test.h"

enum { PATIENCE_S = 20 };
static const uint64_t SECOND_NS = 1000 * 1000 * 1000;

static void sit_on_one_core(void)
{
    cpu_set_t all, one;
    CPU_ZERO(&one);
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    for (size_t cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
    assert_int_equal(pthread_setaffinity_np(pthread_self(), sizeof one, &one), 0);
}

static atomic_bool over;

/* Computes, or looks and yields, until it is over. */
static void *compute(void *user)
{
    (void)user;
    while (!atomic_load(&over)) continue;
    return NULL;
}
static void *look(void *user)
{
    (void)user;
    while (!atomic_load(&over)) sched_yield();
    return NULL;
}

/* Whether a yield beside the other thread has told so, before patience was at its end. */
static bool tells(bool worked, void *(*other)(void *))
{
    pthread_t thread;
    atomic_store(&over, false);
    assert_int_equal(pthread_create(&thread, NULL, other, NULL), 0); /* it sits where its maker does */
    const uint64_t end_ns = pf_now_ns() + PATIENCE_S * SECOND_NS;
    bool told = false;
    while (!told && pf_now_ns() < end_ns) {
        uint64_t now_ns = pf_now_ns();
        const uint64_t before_ns = now_ns;
        told = pf_yield(&now_ns) == worked;
        assert_true(now_ns >= before_ns && now_ns <= pf_now_ns());
    }
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    return told;
}

static void who_is_back_late_made_way_for_work(void **state)
{
    (void)state;
    assert_true(tells(true, compute));
}

static void who_is_back_soon_made_way_for_looks(void **state)
{
    (void)state;
    assert_true(tells(false, look));
}

int main(void)
{
    sit_on_one_core();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_back_late_made_way_for_work),
        cmocka_unit_test(who_is_back_soon_made_way_for_looks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
