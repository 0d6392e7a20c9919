/*
 * Stops work on request: a flag that a signal handler or another thread sets, and a grace period after it. A server gives its
 * clients a grace period, a command at a terminal has none.
 *
 * Threads: any thread may set the flag, the rest belongs to one thread. Another thread sets it with
 * __atomic_store_n(&flag, true, __ATOMIC_RELAXED): a plain store would be a data race. A thread that sees the flag need not see
 * what was written before it.
 */
#ifndef PF_BASE_STOP_H
#define PF_BASE_STOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether a flag is set; NULL never is. */
static inline bool pf_is_told(const volatile bool *flag)
{
    return flag != NULL && __atomic_load_n(flag, __ATOMIC_RELAXED);
}

typedef struct {
    const volatile bool *told; /* NULL: never */
    uint64_t grace_ns;         /* grace period, from when the flag is first seen set */
    uint64_t until_ns;         /* its end; 0: not seen yet */
    uint64_t *clock_ns;        /* simulated (base/clock.h); NULL: the machine's */
} pf_stop;

/* Whether it is time to stop. The flag may be cleared again: then it is not. */
bool pf_stop_is_due(pf_stop *stop);

/* Wait until time_ns by its clock, or until it is time to stop; checks fifty times a second. */
void pf_stop_or_wait(pf_stop *stop, uint64_t time_ns);

#endif
