/*
 * A test's owner of requests: opens sequences at a verifier and a drafter, carries proposals one way and verdicts the
 * other, and collects what is committed. It fences nothing and heals nothing: peers that answer wrongly fail the test.
 */
#ifndef PF_TESTS_SUPPORT_DUET_H
#define PF_TESTS_SUPPORT_DUET_H

#include <stdint.h>

#include "proto/peer.h"

enum { PF_DUET_TOKENS = 256 };

typedef struct {
    uint64_t sequence;
    const int32_t *prompt; /* [n_prompt] */
    int32_t n_prompt;
    int32_t n_new; /* at most PF_DUET_TOKENS */
    pf_sampling sampling;
    pf_method method;
    int32_t draft_len;
    bool adaptive;    /* draft_len is a bound, and proposals may be trees */
    int32_t siblings; /* as in pf_open; proposals may then be trees, of draft_len * (1 + siblings) tokens */
    int32_t max_declared;
    const int32_t *stop; /* [n_stop] */
    int32_t n_stop;
    const int32_t *excluded; /* [2 * n_excluded] as in pf_open */
    int32_t n_excluded;
    pf_logit_rules rules; /* n_prompt: the prompt's, whatever it says */
} pf_duet_request;

typedef struct {
    int32_t tokens[PF_DUET_TOKENS];
    int32_t n_tokens;
    int32_t rounds, drafted, accepted;
    pf_finish finish;
} pf_duet_text;

/* Something between the two: may change the proposal, and what it points to. */
typedef void pf_duet_tamper(void *user, pf_proposal *proposal);

/* Run requests [n], at most PF_MAX_BATCH_SEQUENCES, side by side to their ends. drafter NULL: plain decoding, by empty
 * proposals. tamper NULL: honest. */
void pf_duet_run(pf_peer *verifier, pf_peer *drafter, const pf_duet_request *requests, int32_t n,
                 pf_duet_tamper *tamper, void *user, pf_duet_text *texts);

#endif
