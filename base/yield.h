/*
 * Leaving the core to others, and what that tells.
 *
 * A worker and a verifier are two processes on the same cores, each waiting while the other one computes. Whoever waits
 * looks, and yields between looks. How long he is away tells who else is there:
 *
 *     a moment         others who wait, and only look
 *     longer           somebody has computed. What he waits for is likely what came of that, so it pays to look on without
 *                      yielding: two switches between processes take longer than a message
 *     very long        somebody who does not make way until the scheduler takes the core from him, milliseconds later. Every
 *                      yield costs that much, while one who sleeps goes before him when he is woken
 */
#ifndef PF_BASE_YIELD_H
#define PF_BASE_YIELD_H

#include <stdbool.h>
#include <stdint.h>

/* What a yield tells, by how long it took. */
typedef enum {
    PF_YIELD_OTHERS_LOOKED, /* a moment */
    PF_YIELD_OTHERS_WORKED, /* longer */
    PF_YIELD_CONTENDED,     /* very long */
} pf_yield_result;

/* Whether a thread's core is *crowded*: somebody on it does not make way. Its own yields tell, where several are very long and
 * few others come between them: a single one may have met a peer that read a prompt, one in dozens a peer's passes. Zeroed:
 * not crowded, as far as is known. For one thread alone. */
typedef struct {
    uint64_t until_ns; /* crowded until then, unless later yields tell so again */
    int32_t evidence;  /* that it is: more by each very long yield, less by each other one */
} pf_contention;

/* sched_yield, where *now_ns is the time (pf_now_ns); after it, *now_ns is the new time. */
pf_yield_result pf_contention_yield(pf_contention *contention, uint64_t *now_ns);

/* Take note of a yield that ended at now_ns, as pf_contention_yield does itself. */
void pf_contention_note(pf_contention *contention, pf_yield_result result, uint64_t now_ns);

/* A tenth of a second after the last very long yield it is false, so that another yield tells anew. */
static inline bool pf_contention_is_present(const pf_contention *contention, uint64_t now_ns)
{
    return now_ns < contention->until_ns;
}

#endif
