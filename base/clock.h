/* Time that only goes forward. */
#ifndef PF_BASE_CLOCK_H
#define PF_BASE_CLOCK_H

#include <stdint.h>

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t pf_now_ns(void);

/* Return at time_ns, to the microsecond, or at once where that is past: asleep while there is time to be woken in, then
 * looking. */
void pf_wait_until(uint64_t time_ns);

/* Likewise by *clock_ns, a clock that is simulated: its owner moves it, and so does who waits. NULL: the machine's. */
uint64_t pf_clock_now_ns(const uint64_t *clock_ns);
void pf_clock_wait_until(uint64_t *clock_ns, uint64_t time_ns);

#endif
