/*
 * Patience: how long an engine waits for a far drafter's proposal (DESIGN, invariant 6).
 *
 *      limit = max(PF_PATIENCE_FLOOR_NS, PF_PATIENCE_VERIFY_FACTOR * a recent verification)
 *
 * A round waits for no longer than an answer can be worth. One that does not come in time is not waited for again until an
 * answer, even a stale one, shows that the drafter keeps up, or a second has passed: so a stalled drafter costs one wait, and
 * a slow one nothing.
 *
 * Pure: no clock of its own. Threads: one at a time.
 */
#ifndef PF_ENGINE_PATIENCE_H
#define PF_ENGINE_PATIENCE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    /* A drafter that keeps up answers in single milliseconds, but two processes on two busy cores lose whole time
     * slices to each other: below this a wait says more about the scheduler than about the drafter. */
    PF_PATIENCE_FLOOR_NS = 20 * 1000 * 1000,
    /* A wait of this many verifications is the most that any acceptance rate could repay at common draft lengths. */
    PF_PATIENCE_VERIFY_FACTOR = 4,
    /* A peer that is not waited for is tried again this often: a floor's wait in a second costs 2 %. */
    PF_PATIENCE_PROBE_NS = 1000 * 1000 * 1000,
    PF_PATIENCE_ROUNDS = 64, /* rounds back that an answer's latency can still be told */
};

/* For one sequence, or one engine that runs one at a time. Times are pf_now_ns or any other steady clock's. */
typedef struct {
    uint64_t verify_ns; /* smoothed; 0: none yet */
    uint64_t probe_ns;  /* when to try again, while it is not waited for */
    bool waiting;       /* the peer answers in time, as far as known */
    uint64_t asked_round[PF_PATIENCE_ROUNDS], asked_ns[PF_PATIENCE_ROUNDS];
} pf_patience;

void pf_patience_init(pf_patience *patience);

void pf_patience_verified(pf_patience *patience, uint64_t verify_ns); /* one verification took that long */

/* The request for `round`'s proposal (the verdict of the round before) leaves now; how long to wait for it: the
 * limit, or 0 while the peer is too slow: take what has come, decode on plainly. */
uint64_t pf_patience_asked(pf_patience *patience, uint64_t round, uint64_t now_ns);

/* The proposal of `round` has come, in time or stale: below the limit, the peer is waited for again. */
void pf_patience_answered(pf_patience *patience, uint64_t round, uint64_t now_ns);

/* The wait has passed without an answer: the peer is not waited for until it shows that it is back. */
void pf_patience_timed_out(pf_patience *patience, uint64_t now_ns);

#endif
