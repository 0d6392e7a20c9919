/* What the tests of near peers, a drafter's and a verifier's, say and ask. */
#ifndef PF_TESTS_SUPPORT_NEAR_PEER_H
#define PF_TESTS_SUPPORT_NEAR_PEER_H

#include "model/backend/forward_backend.h"
#include "proto/peer.h"

enum { N_PROMPT = 5, N_LONG_PROMPT = 61 };
static const int32_t PROMPT[N_PROMPT] = { 9, 8, 7, 6, 5 };
static const pf_sampling GREEDY = { .temperature = 0.0f, .top_p = 1.0f };

/* A greedy request behind PROMPT, for proposals of up to 4 tokens. */
pf_open near_peer_open(uint64_t sequence);

/* Likewise behind N_LONG_PROMPT others, for contexts whose passes are shorter. */
pf_open near_peer_open_long(uint64_t sequence);

/* What a peer answers to a batch, borrowed until its next call; NULL: nothing. Another status fails the test. */
const pf_batch *near_peer_ask(pf_peer *peer, pf_batch batch);

/* Makes a peer. config: of its own type. */
typedef pf_status near_peer_create_fn(pf_forward_backend backend, const void *config, pf_peer **out, pf_error *error);

/* Refuse the first allocation of a creation, then the second, and so on: each time it fails with PF_NOMEM and leaves
 * nothing behind, until it needs no more. By the config its model_id is "tiny". */
void near_peer_check_refused_allocations(near_peer_create_fn *create, pf_forward_backend backend, const void *config);

#endif
