/* Monotonic time, of the machine or simulated. */
#ifndef PF_BASE_CLOCK_H
#define PF_BASE_CLOCK_H

#include <stdint.h>

#include "include/pilotfish_peer.h" /* pf_now_ns */

/* Wait until time_ns, to the microsecond; returns at once where it is past. Sleeps for most of the time, then spins. */
void pf_wait_until(uint64_t time_ns);

/* The same by *clock_ns, a simulated clock: its owner advances it, and so does a wait. NULL: the machine's clock. */
uint64_t pf_clock_now_ns(const uint64_t *clock_ns);
void pf_clock_wait_until(uint64_t *clock_ns, uint64_t time_ns);

#endif
