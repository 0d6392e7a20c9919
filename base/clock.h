/* Time that only goes forward. */
#ifndef PF_BASE_CLOCK_H
#define PF_BASE_CLOCK_H

#include <stdint.h>

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t pf_now_ns(void);

#endif
