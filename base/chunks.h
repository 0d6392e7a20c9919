/*
 * The work of a phase, cut into pieces that members take as they have time: each those of its own share, and when they
 * are gone what the others have not begun.
 *
 *      member 0's share  | done | done | at it | .... | .... |      member 1's share  | done | done | done | done | at it |
 *                                                        ^ the next that member 1 takes
 *
 * Cores of a shared machine are not equally fast from one moment to the next, and a phase of equal shares lasts as long as
 * the slower one takes. A share is still the same member's from phase to phase while nobody is late, so what it touched
 * first, or has in its cache, stays its own. A piece is half of what its share has left, within bounds: long ones are
 * cheaper, and the last ones, for which all wait, are short.
 *
 * Between two phases stands a barrier. The phases of a pass are numbered alike by all members, and the places where they
 * count take turns: a member that is in phase p makes its own ready for p + 1, which nobody has looked at since p - 1.
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

/* What has been taken of a member's share: of phases of even number and of odd. A line of its own. */
typedef struct {
    _Alignas(64) _Atomic int32_t taken[2];
} pf_chunks;

/* How the work of a phase is cut, 0 .. total-1: the same for all its members. */
typedef struct {
    int32_t total;
    int32_t run;         /* no piece reaches across a multiple of it */
    int32_t least, most; /* of a piece; less, or nearly half of `least` more, where a share or a run ends */
} pf_chunks_cut;

/* Before the first phase of a step, by its caller: all [n_threads]. */
void pf_chunks_reset(pf_chunks *all, int32_t n_threads);

/* By every member, as it comes to a phase; phases are numbered from 0. */
void pf_chunks_begin(pf_chunks *all, pf_member member, int32_t phase);

/* The next piece for this member. False: there are none left, but others may still be at theirs. */
bool pf_chunks_take(pf_chunks *all, pf_member member, int32_t phase, const pf_chunks_cut *cut, int32_t *begin,
                    int32_t *end);

#endif
