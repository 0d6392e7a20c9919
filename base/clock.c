#include "base/clock.h"

#include <errno.h>
#include <time.h>

uint64_t pf_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail: the clock exists and t is ours */
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void pf_wait_until(uint64_t time_ns)
{
    const uint64_t wake_ns = 200 * 1000; /* a sleeper may be woken that late */
    uint64_t now = pf_now_ns();
    if (now + wake_ns < time_ns) {
        const uint64_t end_ns = time_ns - wake_ns;
        const struct timespec end = { (time_t)(end_ns / 1000000000u), (long)(end_ns % 1000000000u) };
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR) {
        } /* signals are not its business */
    }
    do {
        now = pf_now_ns();
    } while (now < time_ns);
}

uint64_t pf_clock_now_ns(const uint64_t *clock_ns)
{
    return clock_ns ? *clock_ns : pf_now_ns();
}

void pf_clock_wait_until(uint64_t *clock_ns, uint64_t time_ns)
{
    if (!clock_ns)
        pf_wait_until(time_ns);
    else if (time_ns > *clock_ns)
        *clock_ns = time_ns;
}
