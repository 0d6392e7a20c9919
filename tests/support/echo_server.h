/*
 * A server in this process with a drafter that echoes (echo_peer.h), and what an engine says to it. For tests of both ends
 * over a real socket; what fails here fails the test.
 */
#ifndef PF_TESTS_SUPPORT_ECHO_SERVER_H
#define PF_TESTS_SUPPORT_ECHO_SERVER_H

#include "rpc/server/server.h"
#include "tests/support/echo_peer.h"
#include "tests/support/running_server.h"

enum { MS = 1000 * 1000 }; /* in nanoseconds */
static const uint64_t SECOND = 1000u * MS;
static const int32_t ECHO_PROMPT[] = { 1, 2, 3 };

typedef struct {
    echo_peer echo;
    running_server running;
} fixture;

/* Serve, with 20 ms of grace unless the configuration has another: as it says, at an address, at serving_address. */
void begin_with(fixture *f, pf_server_config config);
void begin_at(fixture *f, const char *address);
void begin(fixture *f);
void end(fixture *f);

/* A client; the caller destroys it. */
pf_peer *connected(const char *address);

/* An open with incarnation 1; a verdict of one token for a sequence with a prompt of three, each round of one token. */
pf_status say_open(pf_peer *peer, uint64_t sequence, const int32_t *tokens, int32_t n_tokens);
pf_status say_verdict(pf_peer *peer, uint64_t sequence, uint64_t round, int32_t token);

/* Borrowed until the next collect. */
const pf_batch *answer_within(pf_peer *peer, uint64_t wait_ns);
void assert_proposal(const pf_batch *batch, uint64_t sequence, uint64_t round, int32_t token);

/* The first round of sequence 1, which is open; and with its open, at a server that may not be up yet. */
void assert_first_round(pf_peer *peer);
void assert_taken_up(pf_peer *peer);

#endif
