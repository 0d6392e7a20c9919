/*
 * Patience: how long an engine waits for a far drafter's proposal, and whether at all (DESIGN, invariant 6).
 *
 *      limit = max(PF_DRAFT_WAIT_FLOOR_NS, PF_DRAFT_WAIT_VERIFY_FACTOR * a recent verification)
 *      pays    if latency + verification of a proposal < tokens that it commits * verification of none
 *
 * A round waits for no longer than an answer can be worth. One that does not come in time is not waited for again until an
 * answer, even a stale one, shows that the drafter keeps up, or for so long that waits in vain take no more than 1 part in
 * PF_DRAFT_WAIT_SHARE: so a stalled drafter costs one wait, and a slow one nearly nothing.
 *
 * Nor is one waited for that keeps up and does not pay, where its answers take longer than the floor: a near one is asked
 * whatever it brings, so that what is measured of a pair is measured of every round. All four are means over the latest
 * rounds. They stay known while it is not waited for: its answers show the latency, and how much of them would have been
 * kept is seen in hindsight, when the text has come as far.
 *
 * Pure: no clock of its own. Threads: one at a time.
 */
#ifndef PF_ENGINE_DRAFT_WAIT_H
#define PF_ENGINE_DRAFT_WAIT_H

#include <stdbool.h>
#include <stdint.h>

enum {
    /* A drafter that keeps up answers in single milliseconds, but two processes on two busy cores lose whole time
     * slices to each other: below this a wait says more about the scheduler than about the drafter. */
    PF_DRAFT_WAIT_FLOOR_NS = 20 * 1000 * 1000,
    /* A wait of this many verifications is the most that any acceptance rate could repay at common draft lengths. */
    PF_DRAFT_WAIT_VERIFY_FACTOR = 4,
    /* A floor's wait in a second. */
    PF_DRAFT_WAIT_SHARE = 50,
    /* Tokens of advance: what waits may lose until it is believed that they do not pay. */
    PF_DRAFT_WAIT_CREDIT = 4,
    PF_DRAFT_WAIT_ROUNDS = 64, /* rounds back that an answer's latency can still be told */
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

/* The request for `round`'s proposal (the verdict of the round before) leaves now; how long to wait for it: the
 * limit, or 0: take what has come, decode on plainly. */
uint64_t pf_draft_wait_asked(pf_draft_wait *draft_wait, uint64_t round, uint64_t now_ns);

/* The proposal of `round` has come, in time or stale: below the limit, the peer keeps up. */
void pf_draft_wait_answered(pf_draft_wait *draft_wait, uint64_t round, uint64_t now_ns);

/* The wait has passed without an answer: the peer is not waited for until it shows that it is back. */
void pf_draft_wait_timed_out(pf_draft_wait *draft_wait, uint64_t now_ns);

/* The round's verification took that long and committed n_tokens, of a proposal or without one. */
void pf_draft_wait_verified(pf_draft_wait *draft_wait, uint64_t verify_ns, bool proposed, int32_t n_tokens);

/* A proposal that came too late would have committed n_tokens. */
void pf_draft_wait_in_hindsight(pf_draft_wait *draft_wait, int32_t n_tokens);

#endif
