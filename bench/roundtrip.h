/*
 * Round trips of real messages: a verdict for each sequence goes out, a proposal for each comes back, as in every round
 * of an engine that serves them together.
 *
 * What the worker says it computed is taken off, so that what is left is the way there and back. Its verdicts accept
 * 0 to draft_len tokens in turn, each sequence one more than the one before it. The loopback has a server in this process and a
 * drafter behind it that does not think.
 */
#ifndef PF_BENCH_ROUNDTRIP_H
#define PF_BENCH_ROUNDTRIP_H

#include "engine/pilotfish.h"

typedef struct {
    int32_t n_rounds;    /* counted ones; a tenth as many go before them to warm up */
    int32_t n_sequences; /* 1 .. PF_MAX_BATCH_SEQUENCES */
    int32_t draft_len;   /* tokens that a proposal may have, 1 .. PF_MAX_DRAFT_TOKENS */
    int32_t context;     /* tokens of each prompt, at least 1; all begin anew once one grew by 240, or as it may */
    float temperature;   /* above 0: proposals are sampled, and declared */
    /* That an answer may take; 0: ten seconds. One behind prompts has a tenth of a second more for each of their tokens. */
    uint64_t wait_ns;
} pf_roundtrip_plan;

/* Times and rates of no rounds are NaN. */
typedef struct {
    int32_t n_rounds;      /* that were counted: all, or those until it was cancelled */
    double p50_us, p99_us; /* the last answer's arrival less submit less the peer's compute */
    double compute_p50_us; /* what the peer computed */
    double round_p50_us;   /* both together */
    double per_s;          /* rounds a second, compute included; those that open sequences are not counted */
    double tokens_per_s;   /* proposed in them */
} pf_roundtrip;

/* Whoever waits for it. */
typedef struct {
    const volatile bool *cancel; /* or NULL; then PF_CANCELLED, with what was measured so far */
    void (*progress)(void *user, size_t done, size_t total); /* rounds; or NULL */
    void *progress_user;
} pf_roundtrip_watch;

/* PF_INVALID: the peer's limits do not allow the plan.
 * PF_FORMAT: it proposes more than was asked for, or what its vocabulary does not have.
 * PF_UNAVAILABLE: the peer is gone, or has not answered in time. */
PF_MUST_USE pf_status pf_bench_roundtrip(pf_peer *peer, const pf_roundtrip_plan *plan, const pf_roundtrip_watch *watch,
                                         pf_roundtrip *out, pf_error *error);

/* A server on a unix socket in a temporary directory, on a thread of its own, and a connection to it. */
typedef struct pf_loopback pf_loopback;

/* PF_UNAVAILABLE: no temporary directory or socket to be had.  PF_NOMEM. End it with pf_loopback_close. */
PF_MUST_USE pf_status pf_loopback_open(pf_loopback **out, pf_error *error);
void pf_loopback_close(pf_loopback *loopback);    /* NULL is fine */
pf_peer *pf_loopback_peer(pf_loopback *loopback); /* borrowed */

/* Where its socket lies, which the end removes. Borrowed. */
const char *pf_loopback_directory(const pf_loopback *loopback);

#endif
