/*
 * Yields the CPU and infers CPU contention from how long the yield took.
 *
 * A worker and a verifier are two processes on the same CPUs, and each waits while the other computes. A waiting thread polls
 * and yields between polls. The latency of a yield tells what else runs on the CPU:
 *
 *     short        other threads that wait and only poll
 *     medium       another process has computed. The awaited event likely follows from that, so it pays to poll on without
 *                  yielding: two context switches take longer than a message
 *     very long    a thread that computes until the scheduler preempts it, milliseconds later. Every yield costs that much,
 *                  while a thread that sleeps is scheduled first when it is woken
 */
#ifndef PF_BASE_YIELD_H
#define PF_BASE_YIELD_H

#include <stdbool.h>
#include <stdint.h>

/* What a yield indicates, by its latency. */
typedef enum {
    PF_YIELD_OTHERS_LOOKED, /* short */
    PF_YIELD_OTHERS_WORKED, /* medium */
    PF_YIELD_CONTENDED,     /* very long */
} pf_yield_result;

/* Whether a thread's CPU is contended: another thread on it does not yield. Detected by several very long yields with few other
 * yields between them: a single one may be due to a peer that read a prompt, one in dozens to a peer's passes. Zeroed: not
 * contended, as far as is known. For one thread alone. */
typedef struct {
    uint64_t until_ns; /* contended until then, unless later yields renew it */
    int32_t evidence;  /* raised by each very long yield, lowered by each other one */
} pf_contention;

/* sched_yield, where *now_ns is the time (pf_now_ns); after it, *now_ns is the new time. */
pf_yield_result pf_contention_yield(pf_contention *contention, uint64_t *now_ns);

/* Record a yield that ended at now_ns, as pf_contention_yield does. */
void pf_contention_note(pf_contention *contention, pf_yield_result result, uint64_t now_ns);

/* False a tenth of a second after the last very long yield, so that the next yield measures again. */
static inline bool pf_contention_is_present(const pf_contention *contention, uint64_t now_ns)
{
    return now_ns < contention->until_ns;
}

#endif
