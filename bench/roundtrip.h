/*
 * Round trips of real messages: a verdict goes out, a proposal comes back, as in every round of generation.
 *
 * To a worker, each round makes it draft one token; what it says it computed is taken off, so that what is left is the
 * way there and back. The loopback has a server in this process and a drafter behind it that does not think.
 */
#ifndef PF_BENCH_ROUNDTRIP_H
#define PF_BENCH_ROUNDTRIP_H

#include "engine/pilotfish.h"

typedef struct {
    double p50_us, p99_us; /* answer's arrival less submit less the peer's compute */
    double compute_p50_us; /* what the peer computed */
    double per_s;          /* rounds a second, compute included */
    int64_t rounds;
} pf_roundtrip;

/* n_rounds after a tenth as many to warm up. cancel: or NULL; then PF_CANCELLED.
 * PF_UNAVAILABLE: the peer is gone, or has not answered within ten seconds. */
PF_MUST_USE pf_status pf_bench_roundtrip(pf_peer *peer, int32_t n_rounds, const volatile bool *cancel,
                                         pf_roundtrip *out, pf_error *error);

/* A server on a unix socket in a temporary directory, on a thread of its own, and a connection to it. */
typedef struct pf_loopback pf_loopback;

/* PF_UNAVAILABLE: no temporary directory or socket to be had.  PF_NOMEM. End it with pf_loopback_close. */
PF_MUST_USE pf_status pf_loopback_open(pf_loopback **out, pf_error *error);
void pf_loopback_close(pf_loopback *loopback);    /* NULL is fine */
pf_peer *pf_loopback_peer(pf_loopback *loopback); /* borrowed */

#endif
