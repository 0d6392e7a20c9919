/*
 * Divides the work of a phase into chunks that threads take as they become free: each thread takes the chunks of its own share
 * first, then chunks that other threads have not begun.
 *
 *      member 0's share  | done | done | taken | .... | .... |      member 1's share  | done | done | done | done | taken |
 *                                                        ^ the chunk that member 1 takes next
 *
 * The CPUs of a shared machine vary in speed from one moment to the next, and a phase of equal shares takes as long as the
 * slowest CPU needs. While no thread is late, each share stays with the same thread from phase to phase, so memory that the
 * thread touched first or has in its cache remains local. A chunk is half of what its share has left, within bounds: long
 * chunks cost less, and the last ones, which all threads wait for, are short.
 *
 * A barrier separates two phases. All threads number the phases of a pass alike, and two counters alternate: a thread in phase
 * p resets its own counter for p + 1, which no thread has read since p - 1.
 *
 * Source: self-scheduling with affinity, Markatos and LeBlanc, IEEE TPDS 5(4), 1994, section 3; guided, Polychronopoulos
 * and Kuck, IEEE ToC C-36(12), 1987 (half of a share here, not one of n of all).
 */
#ifndef PF_BASE_CHUNKS_H
#define PF_BASE_CHUNKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/team.h"

/* How much of a thread's share has been taken, in phases of even and of odd number. On a cache line of its own. */
typedef struct {
    _Alignas(64) _Atomic int32_t taken[2];
} pf_chunks;

/* How the work of a phase, 0 .. total-1, is divided into chunks: the same for all its threads. */
typedef struct {
    int32_t total;
    int32_t run;         /* no chunk crosses a multiple of it */
    int32_t least, most; /* of a chunk; less, or nearly half of `least` more, where a share or a run ends */
} pf_chunks_cut;

/* Called before the first phase of a step by the caller of the team: all [n_threads]. */
void pf_chunks_reset(pf_chunks *all, int32_t n_threads);

/* Called by every thread at the start of a phase; phases are numbered from 0. */
void pf_chunks_begin(pf_chunks *all, pf_member member, int32_t phase);

/* Take the next chunk for this thread. False: no chunk is left to take; other threads may still be computing. */
bool pf_chunks_take(pf_chunks *all, pf_member member, int32_t phase, const pf_chunks_cut *cut, int32_t *begin,
                    int32_t *end);

#endif
