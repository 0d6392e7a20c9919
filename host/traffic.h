/*
 * Counts what a peer is asked and answers, in metrics of the names that vLLM exports (docs/metrics.md lists them).
 *
 *      open       prompt tokens, running          verdict    new tokens, time to the first and between tokens, accepted tokens
 *      proposal   drafted tokens                  close      running, time of the whole sequence
 *
 * A drafter is told of accepted tokens by the verdict that it follows, a verifier judges them: both count a proposal when its verdict
 * passes. Times between tokens are those of a verdict, divided by its tokens.
 *
 * Threads: the one that may use the peer; the metrics are read by any.
 */
#ifndef PF_HOST_TRAFFIC_H
#define PF_HOST_TRAFFIC_H

#include "metrics/metrics.h"
#include "proto/peer.h"

typedef struct pf_traffic pf_traffic;

/* Of a sequence; zeroed before its open. */
typedef struct {
    uint64_t opened_ns, token_ns; /* when it was opened, and when its latest tokens were committed; 0: none yet */
    int32_t n_proposed;           /* tokens of the proposal without a verdict, along its longest path */
    int32_t drafter; /* whose proposals it has: 1 + its place among those that are named; 0: none of them */
} pf_traffic_sequence;

/* The series of a peer of that service, by the name of its model. Errors as pf_metrics_counter. The metrics are borrowed. End it
 * with free(). */
PF_MUST_USE pf_status pf_traffic_create(pf_metrics *metrics, pf_service service, const char *model_name,
                                        pf_traffic **out, pf_error *error);

/* Counts the proposals of these drafters (pf_model_info.drafters) by their names, too; a sequence that names none has the first. Before
 * the first open. Errors as pf_metrics_counter. */
PF_MUST_USE pf_status pf_traffic_name_drafters(pf_traffic *traffic, pf_metrics *metrics, const char *model_name,
                                               const pf_model_info *drafter, pf_error *error);

/* What passes. traffic NULL: not counted. */
void pf_traffic_open(pf_traffic *traffic, pf_traffic_sequence *s, const pf_open *open, uint64_t waited_ns);
void pf_traffic_proposal(pf_traffic *traffic, pf_traffic_sequence *s, const pf_proposal *proposal);
void pf_traffic_verdict(pf_traffic *traffic, pf_traffic_sequence *s, const pf_verdict *verdict);
void pf_traffic_close(pf_traffic *traffic, const pf_traffic_sequence *s);

/* How many sequences are open, and wait for a place; and where the peer is a host's, what its model has done. */
void pf_traffic_update(pf_traffic *traffic, const pf_peer *peer, int32_t n_running, int32_t n_waiting);

/* The totals so far. From any thread. */
typedef struct {
    int64_t n_running, n_waiting, n_opened, prompt_tokens, new_tokens;
    int64_t drafts, drafted, accepted;
    int64_t accepted_to[PF_MAX_DRAFT_TOKENS]; /* proposals whose tokens 0 .. i were all accepted */
} pf_traffic_totals;

void pf_traffic_get(const pf_traffic *traffic, pf_traffic_totals *out);

#endif
