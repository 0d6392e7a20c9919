/*
 * Being told from outside to stop, by a flag that a signal's handler or another thread sets, and how long one may go on
 * all the same: whoever is served is given a moment, a command at a terminal none.
 *
 * Threads: the flag is anybody's, the rest one thread's. Another thread sets it with
 * __atomic_store_n(&flag, true, __ATOMIC_RELAXED): a plain store would be a data race. What it wrote before need not be seen
 * by who sees the flag.
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
    uint64_t grace_ns;         /* to go on for, from when the flag is first seen set */
    uint64_t until_ns;         /* the end of that; 0: not seen yet */
    uint64_t *clock_ns;        /* simulated (base/clock.h); NULL: the machine's */
} pf_stop;

/* Whether it is time to stop. The flag may be cleared again: then it is not. */
bool pf_stop_is_due(pf_stop *stop);

/* Wait until then by its clock, unless it is time to stop before: looked at fifty times a second. */
void pf_stop_or_wait(pf_stop *stop, uint64_t time_ns);

#endif
