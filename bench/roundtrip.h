/*
 * Measures round trips of real messages: each round sends a verdict for every sequence and receives a proposal for every
 * sequence, as an engine that serves them in one batch.
 *
 * The compute time that the worker reports is subtracted, which leaves the transport. Verdicts accept 0 to draft_len tokens in
 * turn, each sequence one more than the previous. The loopback runs a server in this process with a drafter that proposes
 * immediately.
 */
#ifndef PF_BENCH_ROUNDTRIP_H
#define PF_BENCH_ROUNDTRIP_H

#include "include/pilotfish.h"

typedef struct {
    int32_t n_rounds;    /* counted ones; a tenth as many go before them to warm up */
    int32_t n_sequences; /* 1 .. PF_MAX_BATCH_SEQUENCES */
    int32_t draft_len;   /* tokens that a proposal may have, 1 .. PF_MAX_DRAFT_TOKENS */
    int32_t
        context; /* tokens of each prompt, at least 1; all restart once one has grown by 240, or by what the context allows */
    float temperature; /* above 0: proposals are sampled, with their draft distributions */
    /* Timeout of an answer; 0: ten seconds. An answer after prompts gets another 0.1 s for each of their tokens. */
    uint64_t wait_ns;
} pf_roundtrip_plan;

/* Times and rates of no rounds are NaN. */
typedef struct {
    int32_t n_rounds;      /* counted rounds: all, or those before it was cancelled */
    double p50_us, p99_us; /* the last answer's arrival less submit less the peer's compute */
    double compute_p50_us; /* what the peer computed */
    double round_p50_us;   /* both together */
    double per_s;          /* rounds a second, compute included; those that open sequences are not counted */
    double tokens_per_s;   /* proposed in them */
} pf_roundtrip;

/* How the caller cancels and watches the measurement. */
typedef struct {
    const volatile bool *cancel; /* or NULL; then PF_CANCELLED, with what was measured so far */
    void (*progress)(void *user, size_t done, size_t total); /* rounds; or NULL */
    void *progress_user;
} pf_roundtrip_watch;

/* PF_INVALID: the peer's limits do not allow the plan.
 * PF_FORMAT: it proposes more tokens than requested, or ids outside its vocabulary.
 * PF_UNAVAILABLE: the peer is gone, or the request timed out. */
PF_MUST_USE pf_status pf_bench_roundtrip(pf_peer *peer, const pf_roundtrip_plan *plan, const pf_roundtrip_watch *watch,
                                         pf_roundtrip *out, pf_error *error);

/* A server on a unix socket in a temporary directory, on a thread of its own, and a connection to it. */
typedef struct pf_loopback pf_loopback;

/* PF_UNAVAILABLE: no temporary directory or socket to be had.  PF_NOMEM. End it with pf_loopback_close. */
PF_MUST_USE pf_status pf_loopback_open(pf_loopback **out, pf_error *error);
void pf_loopback_close(pf_loopback *loopback);    /* NULL is fine */
pf_peer *pf_loopback_peer(pf_loopback *loopback); /* borrowed */

/* The path of its socket, removed by pf_loopback_close. Borrowed. */
const char *pf_loopback_directory(const pf_loopback *loopback);

#endif
