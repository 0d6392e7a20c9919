/*
 * A far peer played by a near one: every answer comes so long after its question, and no later for another one before it, as
 * over a line with that round trip. One sequence; linear proposals; no wire.
 */
#ifndef PF_TESTS_SUPPORT_LATE_PEER_H
#define PF_TESTS_SUPPORT_LATE_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/peer.h"

enum { LATE_ANSWERS = 32 }; /* on their way */

typedef struct {
    uint64_t due_ns;
    pf_proposal proposal;
    pf_verdict verdict;
    int32_t n_proposals, n_verdicts;
    int32_t tokens[PF_MAX_VERDICT_TOKENS];
} late_answer;

typedef struct {
    pf_peer head;
    pf_peer *inner;
    uint64_t delay_ns;
    uint64_t *clock_ns; /* NULL: the machine's */
    bool *cancels;      /* set by a look, which finds nothing then: the waiting caller is cancelled. NULL: none */
    int32_t n_wrong;    /* answers, from the first, whose proposals have other tokens */
    late_answer answers[LATE_ANSWERS];
    int32_t first, n;
    uint64_t longest_wait_ns; /* that a collect was told */
    pf_timing told;           /* by the last batch with a verdict, and ... */
    uint32_t within_us;       /* ... likewise: propose_within_us of its verdict */
    pf_batch batch;
} late_peer;

/* inner and the clock (base/clock.h) are borrowed; the wrapper's end is not its end. */
late_peer late_peer_of(pf_peer *inner, uint64_t delay_ns, uint64_t *clock_ns);

#endif
