/*
 * Draft wait policy: how long an engine waits for a far drafter's proposal, and whether it waits at all.
 *
 *      limit = max(PF_DRAFT_WAIT_FLOOR_NS, PF_DRAFT_WAIT_VERIFY_FACTOR * a recent verification)
 *      pays    if latency + verification of a proposal < tokens that it commits * verification of none
 *
 * A round waits no longer than a proposal can be worth. After a timeout the engine does not wait for the drafter until an
 * answer, even a stale one, shows that it keeps up, or until the failed waits are at most 1 part in PF_DRAFT_WAIT_SHARE of the
 * time. A stalled drafter thus costs one wait, and a slow one nearly nothing.
 *
 * A drafter that keeps up but does not pay is not waited for either, if its answers take longer than the floor; a faster one
 * is always asked, so that a measurement of a pair covers every round. All four figures are means over the latest rounds. They
 * stay current while the engine does not wait: answers show the latency, and once the text has reached that point it shows how
 * much of a late proposal would have been kept.
 *
 * Pure: the caller passes the time. Threads: one at a time.
 */
#ifndef PF_ENGINE_DRAFT_WAIT_H
#define PF_ENGINE_DRAFT_WAIT_H

#include <stdbool.h>
#include <stdint.h>

enum {
    /* A drafter that keeps up answers within milliseconds, but two processes on two busy cores lose whole time slices to
     * each other: a shorter wait measures the scheduler, not the drafter. */
    PF_DRAFT_WAIT_FLOOR_NS = 20 * 1000 * 1000,
    /* No acceptance rate repays a longer wait than this many verifications at common draft lengths. */
    PF_DRAFT_WAIT_VERIFY_FACTOR = 4,
    /* One wait of the floor each second. */
    PF_DRAFT_WAIT_SHARE = 50,
    /* Tokens that waits may lose before they are taken not to pay. */
    PF_DRAFT_WAIT_CREDIT = 4,
    PF_DRAFT_WAIT_ROUNDS = 64, /* rounds whose answers still count for the latency */
};

/* For one sequence, or one engine that runs one at a time. Times are pf_now_ns or any other steady clock's. */
typedef struct {
    uint64_t verify_ns; /* of any round, smoothed; 0: none yet */
    double plain_ns;    /* of one without a proposal, smoothed; 0: none yet */
    double latency_ns;  /* of answers in time, smoothed; 0: none yet */
    /* Weighted sums over proposals: their count, their verification, and what they commit, which begins with a credit. */
    double rounds, judge_ns, tokens;
    bool keeps_up;     /* it answers in time, as far as known */
    uint64_t probe_ns; /* when to try again, while it does not */
    uint64_t last_round;
    uint64_t last_ns, looked_ns; /* when the last request left, and the one before it */
    uint64_t asked_round[PF_DRAFT_WAIT_ROUNDS], asked_ns[PF_DRAFT_WAIT_ROUNDS];
} pf_draft_wait;

void pf_draft_wait_init(pf_draft_wait *draft_wait);

/* How long a proposal that is asked for now is waited for: later it is of no use for its round. 0: it is not, or no verification has been
 * measured. */
uint64_t pf_draft_wait_limit_ns(const pf_draft_wait *draft_wait, uint64_t now_ns);

/* The request for `round`'s proposal (the verdict of the round before) leaves now. Returns how long to wait for it:
 * the limit, or 0: take what has arrived and decode plainly otherwise. */
uint64_t pf_draft_wait_asked(pf_draft_wait *draft_wait, uint64_t round, uint64_t now_ns);

/* The proposal of `round` has arrived, in time or stale. With a latency below the limit the peer keeps up. */
void pf_draft_wait_answered(pf_draft_wait *draft_wait, uint64_t round, uint64_t now_ns);

/* The wait timed out: the engine does not wait for the peer until an answer shows that it is back. */
void pf_draft_wait_timed_out(pf_draft_wait *draft_wait, uint64_t now_ns);

/* A round's verification took verify_ns and committed n_tokens, with a proposal or without one. */
void pf_draft_wait_verified(pf_draft_wait *draft_wait, uint64_t verify_ns, bool proposed, int32_t n_tokens);

/* A late proposal would have committed n_tokens. */
void pf_draft_wait_in_hindsight(pf_draft_wait *draft_wait, int32_t n_tokens);

#endif
