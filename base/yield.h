/*
 * Leaving the core to others, and what that tells.
 *
 * A worker and a verifier are two processes on the same cores, each waiting while the other one computes. Whoever waits
 * looks, and yields between looks. If he is back after a moment, the others only looked, too. If he is back late, one of
 * them has computed, and what he waits for is likely what came of that: then it pays to look on without yielding, since two
 * switches between processes take longer than a message.
 */
#ifndef PF_BASE_YIELD_H
#define PF_BASE_YIELD_H

#include <stdbool.h>
#include <stdint.h>

/* sched_yield, where *now_ns is the time (pf_now_ns); after it, *now_ns is the new time. True: somebody has had the core for
 * longer than it takes to look. */
bool pf_yield(uint64_t *now_ns);

#endif
