#include "tests/support/echo_server.h"

#include <unistd.h>

#include "base/clock.h"
#include "rpc/client/client.h"
#include "tests/support/test.h"

void begin_with(fixture *f, pf_server_config config)
{
    echo_peer_init(&f->echo);
    config.drafter = &f->echo.head;
    if (config.grace_ns == 0) config.grace_ns = 20 * MS;
    serving_begin(&f->running, &config);
}

void begin_at(fixture *f, const char *address)
{
    begin_with(f, (pf_server_config){ .address = address });
}

void begin(fixture *f)
{
    begin_at(f, serving_address);
}

void end(fixture *f)
{
    serving_end(&f->running);
}

pf_peer *connected(const char *address)
{
    pf_peer *peer = NULL;
    pf_error error;
    assert_ok(pf_rpc_drafter_connect(address, NULL, &peer, &error), error);
    return peer;
}

pf_status say_open(pf_peer *peer, uint64_t sequence, const int32_t *tokens, int32_t n_tokens)
{
    pf_open open = { .sequence = sequence,
                     .incarnation = 1,
                     .tokens = tokens,
                     .n_tokens = n_tokens,
                     .sampling = { .top_p = 1.0f },
                     .method = PF_METHOD_GREEDY,
                     .max_draft = 4 };
    return pf_peer_submit(peer, &(pf_batch){ .opens = &open, .n_opens = 1 });
}

pf_status say_verdict(pf_peer *peer, uint64_t sequence, uint64_t round, int32_t token)
{
    pf_verdict verdict = { .sequence = sequence,
                           .incarnation = 1,
                           .round = round,
                           .base = 3 + (int32_t)round,
                           .tokens = &token,
                           .n_tokens = 1 };
    return pf_peer_submit(peer, &(pf_batch){ .verdicts = &verdict, .n_verdicts = 1 });
}

const pf_batch *answer_within(pf_peer *peer, uint64_t wait_ns)
{
    const pf_batch *batch = NULL;
    pf_error error;
    assert_ok(pf_peer_collect(peer, pf_now_ns() + wait_ns, &batch, &error), error);
    return batch;
}

void assert_proposal(const pf_batch *batch, uint64_t sequence, uint64_t round, int32_t token)
{
    assert_int_equal(batch->n_proposals, 1);
    assert_int_equal(batch->proposals[0].sequence, sequence);
    assert_int_equal(batch->proposals[0].round, round);
    assert_int_equal(batch->proposals[0].n_tokens, 1);
    assert_int_equal(batch->proposals[0].tokens[0], token);
}

void assert_first_round(pf_peer *peer)
{
    assert_int_equal(say_verdict(peer, 1, 0, 9), PF_OK);
    assert_proposal(answer_within(peer, 5 * SECOND), 1, 1, 9);
}

void assert_taken_up(pf_peer *peer)
{
    for (int i = 0; i < 5000 && say_open(peer, 1, ECHO_PROMPT, 3) != PF_OK; i++) usleep(1000);
    assert_first_round(peer);
}
