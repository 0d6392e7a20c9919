/* A flag that a signal sets a moment from now: being told to stop in the midst of what a test does. */
#ifndef PF_TESTS_SUPPORT_TOLD_H
#define PF_TESTS_SUPPORT_TOLD_H

#include <signal.h>
#include <stdbool.h>
#include <sys/time.h>

#include "tests/support/test.h"

static volatile bool told;

static void tell(int signal)
{
    (void)signal;
    told = true;
}

/* A signal in so many milliseconds. */
static inline void tell_in(int ms)
{
    told = false;
    const struct sigaction action = { .sa_handler = tell };
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    const struct itimerval once = { .it_value = { .tv_usec = ms * 1000 } };
    assert_int_equal(setitimer(ITIMER_REAL, &once, NULL), 0);
}

#endif
