/*
 * A drafter that proposes what was committed last, for tests of the way there and back: it counts what it is told, and
 * delays, stops answering or sends malformed answers as configured. Served as a verifier it makes proposals all the same.
 * One thread submits and collects; a test looks at the counts, and sets its whims, from another.
 */
#ifndef PF_TESTS_SUPPORT_ECHO_PEER_H
#define PF_TESTS_SUPPORT_ECHO_PEER_H

#include <stdatomic.h>
#include <stdbool.h>

#include "proto/peer.h"

enum {
    ECHO_VOCAB = 100000,
    ECHO_LONGEST_PROMPT = 400000, /* tokens; a longer one is refused */
    ECHO_ENDLESS = 99999,         /* a prompt that begins with it is computed for without end */
    ECHO_PENDING = 64,            /* proposals that wait to be collected */
    ECHO_SEQUENCES = 16,          /* that it says it takes */
};

typedef struct {
    pf_peer head;
    atomic_int n_open, n_closes;
    atomic_int n_fed;       /* steps of a prompt without end */
    atomic_int n_swallowed; /* verdicts, while it was mute */

    atomic_int thinks_ms; /* before an answer */
    atomic_bool thinks;   /* just now */
    atomic_int n_tokens;  /* of a proposal: what was committed first, over and over; 0: what was committed */
    atomic_bool violates_protocol, is_mute;
    atomic_bool makes_verdicts; /* of what it is told, in the place of a proposal */
    atomic_bool judges;         /* in a verifier's place: verdicts of n_tokens tokens with the most log-probabilities */
    const char *model_id;       /* as it says of itself, with its vocabulary: set before a server asks */
    int32_t vocab_size;
    uint8_t fingerprint; /* the first byte of it */

    uint64_t feeds; /* the sequence that it computes for without end, until it is closed; 0: none */
    pf_proposal proposals[ECHO_PENDING];
    int32_t tokens[ECHO_PENDING][PF_MAX_VERDICT_TOKENS];
    pf_refusal refusals[ECHO_PENDING];
    pf_verdict verdict, judged[ECHO_PENDING];
    pf_token_logprobs logprobs[PF_MAX_VERDICT_TOKENS];
    pf_batch answer;
} echo_peer;

/* It refers to itself: not to be copied. Nothing to destroy. */
void echo_peer_init(echo_peer *echo);

#endif
