/*
 * The claims of a forward backend, whatever it runs on: each computes the logits of one text in another way than one token a pass,
 * and compares bits. As tests/support/forward_rig.h makes them of the CPU's context; and greedy and coupled texts of a verifier.
 *
 * The backend must have CLAIM_ROWS rows of a pass, CLAIM_SEQUENCES sequences and CLAIM_TEXT + CLAIM_ROWS tokens.
 */
#ifndef PF_TESTS_SUPPORT_BACKEND_CLAIMS_H
#define PF_TESTS_SUPPORT_BACKEND_CLAIMS_H

#include "model/backend/forward_backend.h"

enum { CLAIM_TEXT = 45, CLAIM_ROWS = 24, CLAIM_SEQUENCES = 6 };

/* Token i of a text. */
int32_t claim_token(const pf_forward_backend *b, int32_t text, int32_t i);

/* [CLAIM_TEXT, n_vocab] of text 0, one token a pass. The caller frees them. */
float *claim_plain_logits(const pf_forward_backend *b);

typedef struct {
    const char *name;
    void (*check)(const pf_forward_backend *b, const float *plain);
} backend_claim;

/* The list: prompts in pieces, other sequences beside it, rollback, forks, trees, kept paths, passes that are not read, the best
 * token alone, refusals. */
extern const backend_claim backend_claims[];
extern const int32_t n_backend_claims;

#endif
