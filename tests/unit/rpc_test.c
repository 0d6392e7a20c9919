/* Server and client against each other in one process, over real sockets, with a peer that echoes. */
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "proto/codec.h"
#include "proto/health.h"
#include "rpc/client.h"
#include "rpc/server.h"
#include "tests/support/echo_peer.h"
#include "tests/support/raw_call.h"
#include "tests/support/running_server.h"
#include "tests/support/test.h"

enum { MS = 1000 * 1000 };
static const uint64_t SECOND = 1000u * MS;

/* ---- the server under test --------------------------------------------------------------------------------------- */

typedef struct {
    echo_peer echo;
    running_server running;
} fixture;

static void begin_with(fixture *f, pf_server_config config)
{
    echo_peer_init(&f->echo);
    config.drafter = &f->echo.head;
    if (config.grace_ns == 0) config.grace_ns = 20 * MS;
    serving_begin(&f->running, &config);
}

static void begin_at(fixture *f, const char *address)
{
    begin_with(f, (pf_server_config){ .address = address });
}

static void begin(fixture *f)
{
    begin_at(f, serving_address);
}

static void end(fixture *f)
{
    serving_end(&f->running);
}

static pf_peer *connected(const char *address)
{
    pf_peer *peer = NULL;
    pf_error error;
    assert_ok(pf_rpc_drafter_connect(address, NULL, &peer, &error), error);
    return peer;
}

/* ---- what an engine says ----------------------------------------------------------------------------------------- */

static pf_status say_open(pf_peer *peer, uint64_t sequence, const int32_t *tokens, int32_t n_tokens)
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

static pf_status say_verdict(pf_peer *peer, uint64_t sequence, uint64_t round, int32_t token)
{
    pf_verdict verdict = { .sequence = sequence,
                           .incarnation = 1,
                           .round = round,
                           .base = 3 + (int32_t)round,
                           .tokens = &token,
                           .n_tokens = 1 };
    return pf_peer_submit(peer, &(pf_batch){ .verdicts = &verdict, .n_verdicts = 1 });
}

static const int32_t PROMPT[] = { 1, 2, 3 };

static const pf_batch *answer_within(pf_peer *peer, uint64_t wait_ns)
{
    const pf_batch *batch = NULL;
    pf_error error;
    assert_ok(pf_peer_collect(peer, pf_now_ns() + wait_ns, &batch, &error), error);
    return batch;
}

static void assert_proposal(const pf_batch *batch, uint64_t sequence, uint64_t round, int32_t token)
{
    assert_int_equal(batch->n_proposals, 1);
    assert_int_equal(batch->proposals[0].sequence, sequence);
    assert_int_equal(batch->proposals[0].round, round);
    assert_int_equal(batch->proposals[0].n_tokens, 1);
    assert_int_equal(batch->proposals[0].tokens[0], token);
}

static raw_result health_of(const char *method, const char *service, int timeout_ms, pf_health *health)
{
    uint8_t request[PF_MAX_HEALTH_BYTES];
    size_t n = 0;
    assert_int_equal(pf_health_encode_request(service, request, sizeof request, &n), PF_OK);
    const raw_result result = raw_call(serving_address, method, request, n, timeout_ms);
    if (result.n_reply) assert_int_equal(pf_health_decode_response(result.reply, result.n_reply, health), PF_OK);
    return result;
}

/* ---- claims ------------------------------------------------------------------------------------------------------ */

static int compare_u64(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void a_verdict_is_answered_by_its_proposal_in_microseconds(void **state)
{
    (void)state;
    enum { ROUNDS = 2000 };
    static uint64_t took[ROUNDS];
    fixture f;
    begin(&f);
    pf_peer *peer = connected(serving_address);
    assert_int_equal(say_open(peer, 1, PROMPT, 3), PF_OK);
    for (int i = 0; i < ROUNDS; i++) {
        const uint64_t begin_ns = pf_now_ns();
        assert_int_equal(say_verdict(peer, 1, (uint64_t)i, 1000 + i), PF_OK);
        const pf_batch *batch = answer_within(peer, 5 * SECOND);
        took[i] = pf_now_ns() - begin_ns;
        assert_proposal(batch, 1, (uint64_t)i + 1, 1000 + i);
        assert_int_equal(batch->timing.compute_ns, 7);
        assert_true(batch->timing.queue_ns > 0);
    }
    qsort(took, ROUNDS, sizeof *took, compare_u64);
    const double p50 = (double)took[ROUNDS / 2] * 1e-3, p99 = (double)took[ROUNDS * 99 / 100] * 1e-3;
    print_message("round trip: p50 %.1f us, p99 %.1f us\n", p50, p99);
    /* A sleep on the way would be in all of them, other work on the machine is not. */
    const double p1 = (double)took[ROUNDS / 100] * 1e-3;
    if (p1 > 500.0) fail_msg("the fastest hundredth of the round trips takes %.0f us", p1);
    pf_peer_destroy(peer);
    end(&f);
}

static void the_same_number_on_two_streams_is_two_sequences(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    pf_peer *a = connected(serving_address), *b = connected(serving_address);
    assert_int_equal(say_open(a, 1, PROMPT, 3), PF_OK);
    assert_int_equal(say_open(b, 1, PROMPT, 3), PF_OK);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(say_verdict(a, 1, (uint64_t)i, 10 + i), PF_OK);
        assert_int_equal(say_verdict(b, 1, (uint64_t)i, 90 + i), PF_OK);
        assert_proposal(answer_within(a, 5 * SECOND), 1, (uint64_t)i + 1, 10 + i);
        assert_proposal(answer_within(b, 5 * SECOND), 1, (uint64_t)i + 1, 90 + i);
    }
    assert_int_equal(f.echo.n_open, 2);
    pf_peer_destroy(a);
    pf_peer_destroy(b);
    end(&f);
}

static void an_unknown_sequence_is_answered_with_a_prefix_request(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    pf_peer *peer = connected(serving_address);
    assert_int_equal(say_verdict(peer, 5, 4, 1), PF_OK);
    const pf_batch *batch = answer_within(peer, 5 * SECOND);
    assert_int_equal(batch->n_prefix_requests, 1);
    assert_int_equal(batch->prefix_requests[0].sequence, 5);
    assert_int_equal(batch->prefix_requests[0].incarnation, 1);
    assert_int_equal(batch->prefix_requests[0].known, 0);
    pf_peer_destroy(peer);
    end(&f);
}

static void a_large_prompt_gets_through_and_a_larger_one_is_refused_alone(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    pf_peer *peer = connected(serving_address);
    int32_t *prompt = calloc(ECHO_LONGEST_PROMPT + 1, sizeof *prompt);
    assert_non_null(prompt);
    for (int32_t i = 0; i <= ECHO_LONGEST_PROMPT; i++) prompt[i] = i % ECHO_VOCAB;
    assert_int_equal(say_open(peer, 1, prompt, ECHO_LONGEST_PROMPT), PF_OK);
    assert_int_equal(say_open(peer, 2, prompt, ECHO_LONGEST_PROMPT + 1), PF_OK);
    const pf_batch *batch = answer_within(peer, 10 * SECOND);
    assert_int_equal(batch->n_refusals, 1);
    assert_int_equal(batch->refusals[0].sequence, 2);
    assert_int_equal(batch->refusals[0].status, PF_INVALID);
    assert_string_equal(batch->refusals[0].text, "the prompt is too long for an echo");
    assert_int_equal(say_verdict(peer, 1, 0, 9), PF_OK);
    assert_proposal(answer_within(peer, 5 * SECOND), 1, 1, 9);
    free(prompt);
    pf_peer_destroy(peer);
    end(&f);
}

static void more_sequences_than_the_peer_takes_are_refused_one_by_one(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    pf_peer *peer = connected(serving_address);
    for (uint64_t s = 1; s <= 9; s++) assert_int_equal(say_open(peer, s, PROMPT, 3), PF_OK);
    const pf_batch *batch = answer_within(peer, 5 * SECOND);
    assert_int_equal(batch->n_refusals, 1);
    assert_int_equal(batch->refusals[0].sequence, 9);
    assert_int_equal(batch->refusals[0].status, PF_LIMIT);
    assert_int_equal(say_verdict(peer, 8, 0, 9), PF_OK);
    assert_proposal(answer_within(peer, 5 * SECOND), 8, 1, 9);
    pf_peer_destroy(peer);
    end(&f);
}

static void a_stream_that_ends_closes_its_sequences(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    pf_peer *peer = connected(serving_address), *other = connected(serving_address);
    assert_int_equal(say_open(other, 1, PROMPT, 3), PF_OK);
    for (uint64_t s = 1; s <= 3; s++) assert_int_equal(say_open(peer, s, PROMPT, 3), PF_OK);
    assert_int_equal(say_verdict(peer, 1, 0, 9), PF_OK);
    assert_proposal(answer_within(peer, 5 * SECOND), 1, 1, 9);
    pf_peer_destroy(peer);
    for (int i = 0; i < 500 && f.echo.n_closes < 3; i++) usleep(10000);
    assert_int_equal(f.echo.n_closes, 3);
    assert_int_equal(f.echo.n_open, 1);
    pf_peer_destroy(other);
    end(&f);
}

static void a_malformed_message_ends_its_own_stream_alone(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    pf_peer *peer = connected(serving_address);
    assert_int_equal(say_open(peer, 1, PROMPT, 3), PF_OK);

    raw_result r = raw_call(serving_address, "/pilotfish.v1.Drafter/Draft", "\x0a\xff\xff\xff\xff\x0fzz", 8, 5000);
    assert_int_equal(r.code, GRPC_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(r.text, "not a pilotfish.v1.Batch"));
    const uint8_t no_incarnation[] = { 0x0a, 0x02, 0x08, 0x01 }; /* opens { sequence: 1 } */
    r = raw_call(serving_address, "/pilotfish.v1.Drafter/Draft", no_incarnation, sizeof no_incarnation, 5000);
    assert_int_equal(r.code, GRPC_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(r.text, "opens[0].incarnation is 0"));
    const uint8_t proposal[] = { 0x1a, 0x04, 0x10, 0x01, 0x18, 0x01 }; /* { incarnation: 1 round: 1 }: the wrong way */
    r = raw_call(serving_address, "/pilotfish.v1.Drafter/Draft", proposal, sizeof proposal, 5000);
    assert_int_equal(r.code, GRPC_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(r.text, "takes none"));
    r = raw_call(serving_address, "/pilotfish.v1.Drafter/Draft", "", 0, 5000); /* an empty batch is a batch */
    assert_int_equal(r.code, GRPC_STATUS_OK);

    assert_int_equal(say_verdict(peer, 1, 0, 9), PF_OK);
    assert_proposal(answer_within(peer, 5 * SECOND), 1, 1, 9);
    pf_peer_destroy(peer);
    end(&f);
}

static void what_does_not_fit_costs_its_own_sequence_alone(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    pf_peer *peer = connected(serving_address);
    assert_int_equal(say_open(peer, 1, PROMPT, 3), PF_OK);
    assert_int_equal(say_open(peer, 2, PROMPT, 3), PF_OK);
    assert_int_equal(say_verdict(peer, 2, 0, ECHO_VOCAB), PF_OK);
    const pf_batch *batch = answer_within(peer, 5 * SECOND);
    assert_int_equal(batch->n_refusals, 1);
    assert_int_equal(batch->refusals[0].sequence, 2);
    assert_int_equal(batch->refusals[0].status, PF_INVALID);
    assert_non_null(strstr(batch->refusals[0].text, "verdicts[0].tokens[0] is "));
    assert_int_equal(say_verdict(peer, 1, 0, 9), PF_OK);
    assert_proposal(answer_within(peer, 5 * SECOND), 1, 1, 9);
    assert_int_equal(f.echo.n_open, 1);
    pf_peer_destroy(peer);

    const uint8_t no_limits[] = { 0x0a, 0x02, 0x10, 0x01 }; /* opens { incarnation: 1 } */
    const raw_result r = raw_call(serving_address, "/pilotfish.v1.Drafter/Draft", no_limits, sizeof no_limits, 5000);
    assert_int_equal(r.code, GRPC_STATUS_OK);
    assert_non_null(memmem(r.reply, r.n_reply, "opens[0].limits is missing", 26));
    end(&f);
}

static void unknown_methods_and_services_are_said_to_be_unimplemented(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    assert_int_equal(raw_call(serving_address, "/pilotfish.v1.Drafter/Nope", "", 0, 5000).code,
                     GRPC_STATUS_UNIMPLEMENTED);
    pf_peer *peer = NULL;
    pf_error error;
    assert_status(pf_rpc_verifier_connect(serving_address, NULL, &peer, &error), PF_UNSUPPORTED);
    assert_says(error, serving_address);
    end(&f);
}

static void health_follows_the_server(void **state)
{
    (void)state;
    fixture f;
    echo_peer_init(&f.echo);
    const pf_server_config config = { .address = serving_address, .drafter = &f.echo.head, .grace_ns = MS };
    serving_create(&f.running, &config);

    pf_health health = PF_HEALTH_UNKNOWN;
    assert_int_equal(health_of("/grpc.health.v1.Health/Check", "", 5000, &health).code, GRPC_STATUS_OK);
    assert_int_equal(health, PF_HEALTH_NOT_SERVING);
    serving_run(&f.running);
    for (int i = 0; i < 500 && health != PF_HEALTH_SERVING; i++) {
        usleep(2000);
        (void)health_of("/grpc.health.v1.Health/Check", "pilotfish.v1.Drafter", 5000, &health);
    }
    assert_int_equal(health, PF_HEALTH_SERVING);
    assert_int_equal(health_of("/grpc.health.v1.Health/Check", "pilotfish.v1.Verifier", 5000, &health).code,
                     GRPC_STATUS_NOT_FOUND);
    assert_int_equal(health_of("/grpc.health.v1.Health/Watch", "", 200, &health).code, GRPC_STATUS_DEADLINE_EXCEEDED);
    assert_int_equal(health, PF_HEALTH_SERVING);
    (void)health_of("/grpc.health.v1.Health/Watch", "nobody", 200, &health);
    assert_int_equal(health, PF_HEALTH_SERVICE_UNKNOWN);
    end(&f);
}

static void health_is_told_while_the_peer_computes(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    f.echo.thinks_ms = 1000;
    pf_peer *peer = connected(serving_address);
    assert_int_equal(say_open(peer, 1, PROMPT, 3), PF_OK);
    for (int i = 0; i < 2; i++) { /* also after a wait in between */
        assert_int_equal(say_verdict(peer, 1, (uint64_t)i, 9), PF_OK);
        usleep(20000);
        const uint64_t begin_ns = pf_now_ns();
        pf_health health = PF_HEALTH_UNKNOWN;
        assert_int_equal(health_of("/grpc.health.v1.Health/Check", "", 5000, &health).code, GRPC_STATUS_OK);
        const uint64_t took = pf_now_ns() - begin_ns;
        assert_int_equal(health, PF_HEALTH_SERVING);
        if (took > 500 * MS) fail_msg("health was told after %.0f ms", (double)took * 1e-6);
        assert_proposal(answer_within(peer, 5 * SECOND), 1, (uint64_t)i + 1, 9);
    }
    pf_peer_destroy(peer);
    end(&f);
}

static void a_long_computation_gives_signs_of_life(void **state)
{
    (void)state;
    fixture f;
    begin_with(&f, (pf_server_config){ .address = serving_address, .sign_ns = 100 * MS });
    pf_peer *peer = connected(serving_address), *idle = connected(serving_address);
    assert_int_equal(say_open(peer, 1, PROMPT, 3), PF_OK);
    assert_int_equal(say_open(idle, 1, PROMPT, 3), PF_OK);
    assert_int_equal(say_verdict(idle, 1, 0, 9), PF_OK);
    assert_proposal(answer_within(idle, 5 * SECOND), 1, 1, 9);
    f.echo.thinks_ms = 1000;
    assert_int_equal(say_verdict(peer, 1, 0, 9), PF_OK);
    int n_signs = 0;
    const pf_batch *batch = answer_within(peer, 5 * SECOND);
    for (; batch->n_proposals == 0; batch = answer_within(peer, 5 * SECOND)) {
        assert_int_equal(batch->n_opens + batch->n_closes + batch->n_verdicts, 0);
        assert_int_equal(batch->n_prefix_requests + batch->n_refusals, 0);
        n_signs++;
    }
    assert_proposal(batch, 1, 1, 9);
    assert_in_range(n_signs, 2, 10); /* the poller looks every 50 ms, on a machine that does other things as well */
    pf_error error;
    assert_status(pf_peer_collect(idle, 0, &batch, &error), PF_CANCELLED);
    pf_peer_destroy(idle);
    pf_peer_destroy(peer);
    end(&f);
}

/* A peer that has a prompt to feed says so between its passes: others are served, and nothing is fed for who has gone. */
static void a_prompt_without_end_holds_nobody_up_and_is_left_when_its_client_is_gone(void **state)
{
    (void)state;
    fixture f;
    begin_with(&f, (pf_server_config){ .address = serving_address, .sign_ns = 100 * MS });
    pf_peer *greedy = connected(serving_address), *peer = connected(serving_address);
    const int32_t endless[] = { ECHO_ENDLESS, 1, 2 };
    assert_int_equal(say_open(greedy, 1, endless, 3), PF_OK);
    while (f.echo.n_fed == 0) usleep(1000);
    assert_int_equal(say_open(peer, 1, PROMPT, 3), PF_OK);
    for (uint64_t round = 0; round < 20; round++) {
        assert_int_equal(say_verdict(peer, 1, round, 9), PF_OK);
        const pf_batch *batch = answer_within(peer, 2 * SECOND);
        while (batch->n_proposals == 0) batch = answer_within(peer, 2 * SECOND); /* a sign of life */
        assert_proposal(batch, 1, round + 1, 9);
    }
    assert_int_equal(answer_within(greedy, 2 * SECOND)->n_proposals, 0); /* a sign of life */
    pf_peer_destroy(greedy);
    for (const uint64_t until = pf_now_ns() + 2 * SECOND; f.echo.n_open > 1 && pf_now_ns() < until;) usleep(1000);
    assert_int_equal(f.echo.n_open, 1);
    const int n_fed = f.echo.n_fed;
    usleep(50000);
    assert_int_equal(f.echo.n_fed, n_fed);
    pf_peer_destroy(peer);
    end(&f);
}

static void a_server_stops_in_its_grace_period_with_a_prompt_without_end(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    pf_peer *peer = connected(serving_address);
    const int32_t endless[] = { ECHO_ENDLESS, 1, 2 };
    assert_int_equal(say_open(peer, 1, endless, 3), PF_OK);
    while (f.echo.n_fed == 0) usleep(1000);
    const uint64_t begin_ns = pf_now_ns();
    end(&f);
    const uint64_t took = pf_now_ns() - begin_ns;
    if (took > SECOND) fail_msg("stopping took %.1f s", (double)took * 1e-9);
    pf_peer_destroy(peer);
}

static void an_answer_that_does_not_come_costs_the_deadline_and_no_more(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    pf_peer *peer = connected(serving_address);
    assert_int_equal(say_open(peer, 1, PROMPT, 3), PF_OK); /* an open alone asks for nothing */
    const pf_batch *batch = NULL;
    pf_error error;
    const uint64_t begin_ns = pf_now_ns();
    assert_status(pf_peer_collect(peer, begin_ns + 30 * MS, &batch, &error), PF_CANCELLED);
    const uint64_t took = pf_now_ns() - begin_ns;
    assert_true(took >= 30 * MS);
    if (took > 500 * MS) fail_msg("a wait of 30 ms took %.1f ms", (double)took * 1e-6);
    assert_status(pf_peer_collect(peer, 0, &batch, &error), PF_CANCELLED);
    assert_null(batch);
    pf_peer_destroy(peer);
    end(&f);
}

/* A target that is faster than its worker does not wait for it: it takes what has come, and tells its next verdict. */
static void a_caller_who_never_waits_is_not_told_that_a_worker_that_reads_does_not(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    f.echo.is_mute = true;
    pf_peer *peer = connected(serving_address);
    assert_status(say_open(peer, 1, PROMPT, 3), PF_OK);
    const pf_batch *batch;
    pf_error error;
    for (uint64_t round = 0; round < 60; round++) {
        assert_status(say_verdict(peer, 1, round, 5), PF_OK);
        assert_status(pf_peer_collect(peer, 0, &batch, &error), PF_CANCELLED);
        usleep(100);
    }
    pf_peer_destroy(peer);
    end(&f);
}

/* Nanoseconds from a server's start, in the place of one that was stopped, to the first open that its client takes. */
static uint64_t restart(void)
{
    fixture f;
    begin(&f);
    pf_peer *peer = connected(serving_address);
    assert_int_equal(say_open(peer, 1, PROMPT, 3), PF_OK);
    assert_int_equal(say_verdict(peer, 1, 0, 9), PF_OK);
    assert_proposal(answer_within(peer, 5 * SECOND), 1, 1, 9);
    end(&f);

    const pf_batch *batch = NULL;
    pf_error error;
    assert_status(pf_peer_collect(peer, pf_now_ns() + 5 * SECOND, &batch, &error), PF_UNAVAILABLE);
    assert_says(error, serving_address);
    uint64_t begin_ns = pf_now_ns();
    assert_int_equal(say_verdict(peer, 1, 1, 9), PF_UNAVAILABLE);
    assert_true(pf_now_ns() - begin_ns < 200 * MS); /* never blocks */
    usleep(400000);

    begin(&f);
    begin_ns = pf_now_ns();
    while (say_open(peer, 1, PROMPT, 3) != PF_OK) {
        if (pf_now_ns() - begin_ns > 10 * SECOND) fail_msg("not taken up again in 10 s");
        usleep(1000);
    }
    const uint64_t took = pf_now_ns() - begin_ns;
    assert_int_equal(say_verdict(peer, 1, 0, 8), PF_OK);
    assert_proposal(answer_within(peer, 5 * SECOND), 1, 1, 8);
    pf_rpc_client_stats stats;
    pf_rpc_client_get_stats(peer, &stats);
    assert_int_equal(stats.n_streams, 2);
    pf_peer_destroy(peer);
    end(&f);
    return took;
}

static void a_restarted_server_is_taken_up_again_within_a_second(void **state)
{
    (void)state;
    uint64_t took = SECOND + 1;
    for (int i = 0; i < 4 && took > SECOND; i++) { /* late for want of a core says nothing */
        took = restart();
        print_message("taken up again after %.0f ms\n", (double)took * 1e-6);
    }
    if (took > SECOND) fail_msg("taken up again after %.0f ms, expected a second at most", (double)took * 1e-6);
}

static void a_server_that_answers_nothing_is_sent_no_more_than_its_socket_holds(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    f.echo.is_mute = true;
    pf_peer *peer = connected(serving_address);
    assert_int_equal(say_open(peer, 1, PROMPT, 3), PF_OK);
    uint64_t n = 0;
    const pf_batch *batch;
    pf_error error;
    for (; n < 200 && say_verdict(peer, 1, n, 9) == PF_OK; n++)
        assert_status(pf_peer_collect(peer, pf_now_ns() + MS, &batch, &error), PF_CANCELLED);
    assert_int_equal(n, 64);
    assert_int_equal(say_verdict(peer, 1, n, 9), PF_LIMIT);
    for (int i = 0; i < 5000 && f.echo.n_swallowed < 64; i++) usleep(1000);
    f.echo.is_mute = false;
    for (int i = 0; i < 5000 && say_verdict(peer, 1, n, 9) == PF_LIMIT; i++) usleep(1000);
    assert_proposal(answer_within(peer, 5 * SECOND), 1, n + 1, 9); /* one a second is let through */
    assert_int_equal(say_verdict(peer, 1, n + 1, 9), PF_OK);
    pf_peer_destroy(peer);
    end(&f);
}

static void a_server_that_talks_nonsense_is_hung_up_on_with_the_field_named(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    pf_peer *peer = connected(serving_address);
    assert_int_equal(say_open(peer, 1, PROMPT, 3), PF_OK);
    f.echo.talks_nonsense = true;
    assert_int_equal(say_verdict(peer, 1, 0, 9), PF_OK);
    const pf_batch *batch = NULL;
    pf_error error, why = { .text = "" };
    assert_status(pf_peer_collect(peer, pf_now_ns() + 5 * SECOND, &batch, &error), PF_UNAVAILABLE);
    assert_says(error, serving_address);
    assert_says(error, "it talks nonsense: proposals[0].incarnation is 0, expected 1 to");
    assert_int_equal(say_open(peer, 1, PROMPT, 3), PF_UNAVAILABLE);
    pf_peer_why(peer, &why); /* the stream's end, which comes behind it, says it too */
    assert_says(why, "proposals[0].incarnation is 0");

    f.echo.talks_nonsense = false;
    for (int i = 0; i < 5000 && say_open(peer, 1, PROMPT, 3) != PF_OK; i++) usleep(1000);
    assert_int_equal(say_verdict(peer, 1, 0, 9), PF_OK);
    assert_proposal(answer_within(peer, 5 * SECOND), 1, 1, 9);
    pf_peer_destroy(peer);
    end(&f);
}

static void a_verifier_that_makes_proposals_is_hung_up_on(void **state)
{
    (void)state;
    fixture f;
    begin_with(&f, (pf_server_config){ .address = serving_address, .verifier = &f.echo.head });
    pf_peer *peer = NULL;
    pf_error error;
    assert_ok(pf_rpc_verifier_connect(serving_address, NULL, &peer, &error), error);
    assert_int_equal(say_open(peer, 1, PROMPT, 3), PF_OK);
    pf_proposal proposal = { .sequence = 1, .incarnation = 1, .round = 1, .base = 4 };
    assert_int_equal(pf_peer_submit(peer, &(pf_batch){ .proposals = &proposal, .n_proposals = 1 }), PF_OK);
    const pf_batch *batch = NULL;
    assert_status(pf_peer_collect(peer, pf_now_ns() + 5 * SECOND, &batch, &error), PF_UNAVAILABLE);
    assert_says(error, "it talks nonsense: a Verifier takes proposals, it makes none");
    pf_peer_destroy(peer);
    end(&f);
}

static void a_caller_that_only_submits_is_mended_too(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    pf_peer *peer = connected(serving_address);
    assert_int_equal(say_open(peer, 1, PROMPT, 3), PF_OK);
    end(&f);
    begin(&f);
    pf_status status = PF_UNAVAILABLE;
    pf_error why = { .text = "" };
    int32_t n_refused = 0;
    for (int i = 0; i < 5000 && status != PF_OK; i++) {
        usleep(1000);
        pf_rpc_client_stats stats;
        pf_rpc_client_get_stats(peer, &stats);
        if (stats.n_streams < 2) continue;
        status = say_open(peer, 1, PROMPT, 3); /* the first says that the old one broke */
        if (status == PF_OK) continue;
        n_refused++;
        pf_peer_why(peer, &why);
        assert_says(why, serving_address);
        assert_says(why, "the stream broke");
    }
    assert_int_equal(status, PF_OK);
    assert_int_equal(n_refused, 1);
    pf_peer_destroy(peer);
    end(&f);
}

static void nobody_there_is_a_sentence_within_two_seconds(void **state)
{
    (void)state;
    pf_peer *peer = NULL;
    pf_error error;
    const uint64_t begin_ns = pf_now_ns();
    assert_status(pf_rpc_drafter_connect("unix:/tmp/pf-nobody-is-here", NULL, &peer, &error), PF_UNAVAILABLE);
    assert_says(error, "unix:/tmp/pf-nobody-is-here");
    assert_status(pf_rpc_drafter_connect("127.0.0.1:9", NULL, &peer, &error), PF_UNAVAILABLE);
    assert_says(error, "127.0.0.1:9");
    assert_true(pf_now_ns() - begin_ns < 4 * SECOND);
    assert_null(peer);
    assert_status(pf_rpc_drafter_connect("nonsense", NULL, &peer, &error), PF_INVALID);
    assert_says(error, "host:port");
    assert_status(pf_rpc_drafter_connect("localhost:70000", NULL, &peer, &error), PF_INVALID);
}

static void a_client_that_keeps_trying_meets_a_server_that_comes_later(void **state)
{
    (void)state;
    const pf_rpc_client_config config = { .keep_trying = true };
    pf_peer *peer = NULL;
    pf_error error;
    assert_status(pf_rpc_drafter_connect(serving_address, &config, &peer, &error), PF_UNAVAILABLE);
    assert_non_null(peer);
    pf_model_info info;
    assert_status(pf_peer_info(peer, &info, &error), PF_UNAVAILABLE);
    const pf_batch *batch;
    assert_status(pf_peer_collect(peer, pf_now_ns() + SECOND, &batch, &error), PF_UNAVAILABLE);
    fixture f;
    begin(&f);
    for (int i = 0; i < 5000 && say_open(peer, 1, PROMPT, 3) != PF_OK; i++) usleep(1000);
    assert_ok(pf_peer_info(peer, &info, &error), error);
    assert_string_equal(info.model_id, "echo");
    assert_int_equal(info.vocab_size, ECHO_VOCAB);
    pf_peer_destroy(peer);
    end(&f);
}

static void a_client_that_keeps_trying_takes_who_talks_nonsense_for_nobody(void **state)
{
    (void)state;
    const pf_rpc_client_config config = { .keep_trying = true };
    pf_peer *peer = NULL;
    pf_error error;
    fixture f;
    echo_peer_init(&f.echo);
    f.echo.has_no_vocabulary = true;
    const pf_server_config serving = { .address = serving_address, .drafter = &f.echo.head, .grace_ns = MS };
    serving_begin(&f.running, &serving);
    assert_status(pf_rpc_drafter_connect(serving_address, NULL, &peer, &error), PF_FORMAT);
    assert_null(peer);
    assert_status(pf_rpc_drafter_connect(serving_address, &config, &peer, &error), PF_FORMAT);
    assert_says(error, "vocab_size is 0");
    assert_non_null(peer);
    assert_int_equal(say_open(peer, 1, PROMPT, 3), PF_UNAVAILABLE);
    end(&f);
    begin(&f);
    for (int i = 0; i < 5000 && say_open(peer, 1, PROMPT, 3) != PF_OK; i++) usleep(1000);
    assert_int_equal(say_verdict(peer, 1, 0, 9), PF_OK);
    assert_proposal(answer_within(peer, 5 * SECOND), 1, 1, 9);
    pf_peer_destroy(peer);
    end(&f);
}

static void an_address_that_cannot_be_listened_on_says_why(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    struct stat st;
    assert_int_equal(stat(serving_path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);

    pf_server *second = NULL;
    pf_error error;
    pf_server_config config = { .address = serving_address, .drafter = &f.echo.head };
    assert_status(pf_server_create(&config, &second, &error), PF_UNAVAILABLE);
    assert_says(error, "address in use");
    assert_says(error, serving_address);
    config.address = "unix:/no/such/directory/x.sock";
    assert_status(pf_server_create(&config, &second, &error), PF_UNAVAILABLE);
    assert_says(error, "/no/such/directory");
    config.address = "unix:/etc/passwd";
    assert_status(pf_server_create(&config, &second, &error), PF_UNAVAILABLE);
    assert_says(error, "not a socket");
    config.address = "nonsense";
    assert_status(pf_server_create(&config, &second, &error), PF_INVALID);
    assert_null(second);
    end(&f);
}

static void a_tcp_port_is_chosen_and_is_not_shared(void **state)
{
    (void)state;
    fixture f;
    begin_at(&f, "127.0.0.1:0");
    const char *address = pf_server_address(f.running.server);
    assert_string_not_equal(address, "127.0.0.1:0");
    pf_server *second = NULL;
    pf_error error;
    const pf_server_config config = { .address = address, .drafter = &f.echo.head };
    assert_status(pf_server_create(&config, &second, &error), PF_UNAVAILABLE);
    assert_says(error, "address in use");
    assert_says(error, address);

    pf_peer *peer = connected(address);
    assert_int_equal(say_open(peer, 1, PROMPT, 3), PF_OK);
    assert_int_equal(say_verdict(peer, 1, 0, 9), PF_OK);
    assert_proposal(answer_within(peer, 5 * SECOND), 1, 1, 9);
    pf_peer_destroy(peer);
    end(&f);
}

static void the_socket_file_of_a_dead_process_is_taken_over(void **state)
{
    (void)state;
    struct sockaddr_un un = { .sun_family = AF_UNIX };
    snprintf(un.sun_path, sizeof un.sun_path, "%s", serving_path);
    (void)unlink(serving_path);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&un, sizeof un), 0);
    close(fd);
    assert_int_equal(access(serving_path, F_OK), 0);
    fixture f;
    begin(&f);
    pf_peer_destroy(connected(serving_address));
    end(&f);
}

static void a_server_with_clients_stops_in_its_grace_period(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    pf_peer *peers[3];
    for (int i = 0; i < 3; i++) {
        peers[i] = connected(serving_address);
        assert_int_equal(say_open(peers[i], 1, PROMPT, 3), PF_OK);
    }
    const uint64_t begin_ns = pf_now_ns();
    end(&f);
    if (pf_now_ns() - begin_ns > 2 * SECOND) fail_msg("stopping took %.1f s", (double)(pf_now_ns() - begin_ns) * 1e-9);
    for (int i = 0; i < 3; i++) pf_peer_destroy(peers[i]);
}

static void a_client_that_leaves_while_the_server_stops_harms_nobody(void **state)
{
    (void)state;
    for (int i = 0; i < 30; i++) {
        fixture f;
        begin_with(&f, (pf_server_config){ .address = serving_address, .grace_ns = SECOND });
        pf_peer *peer = connected(serving_address);
        assert_int_equal(say_open(peer, 1, PROMPT, 3), PF_OK);
        assert_int_equal(say_verdict(peer, 1, 0, 9), PF_OK);
        assert_proposal(answer_within(peer, 5 * SECOND), 1, 1, 9);
        f.echo.thinks_ms = 12; /* another thread polls meanwhile */
        pf_server_stop(f.running.server);
        for (uint64_t round = 1; round < 4; round++) {
            assert_int_equal(say_verdict(peer, 1, round, 9), PF_OK);
            assert_proposal(answer_within(peer, 5 * SECOND), 1, round + 1, 9);
        }
        pf_close close = { .sequence = 1 };
        assert_int_equal(pf_peer_submit(peer, &(pf_batch){ .closes = &close, .n_closes = 1 }), PF_OK);
        pf_peer_destroy(peer); /* the stream's end comes with its last message */
        end(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_verdict_is_answered_by_its_proposal_in_microseconds),
        cmocka_unit_test(the_same_number_on_two_streams_is_two_sequences),
        cmocka_unit_test(an_unknown_sequence_is_answered_with_a_prefix_request),
        cmocka_unit_test(a_large_prompt_gets_through_and_a_larger_one_is_refused_alone),
        cmocka_unit_test(more_sequences_than_the_peer_takes_are_refused_one_by_one),
        cmocka_unit_test(a_stream_that_ends_closes_its_sequences),
        cmocka_unit_test(a_malformed_message_ends_its_own_stream_alone),
        cmocka_unit_test(what_does_not_fit_costs_its_own_sequence_alone),
        cmocka_unit_test(unknown_methods_and_services_are_said_to_be_unimplemented),
        cmocka_unit_test(health_follows_the_server),
        cmocka_unit_test(health_is_told_while_the_peer_computes),
        cmocka_unit_test(a_long_computation_gives_signs_of_life),
        cmocka_unit_test(a_prompt_without_end_holds_nobody_up_and_is_left_when_its_client_is_gone),
        cmocka_unit_test(a_server_stops_in_its_grace_period_with_a_prompt_without_end),
        cmocka_unit_test(an_answer_that_does_not_come_costs_the_deadline_and_no_more),
        cmocka_unit_test(a_caller_who_never_waits_is_not_told_that_a_worker_that_reads_does_not),
        cmocka_unit_test(a_restarted_server_is_taken_up_again_within_a_second),
        cmocka_unit_test(a_server_that_answers_nothing_is_sent_no_more_than_its_socket_holds),
        cmocka_unit_test(a_server_that_talks_nonsense_is_hung_up_on_with_the_field_named),
        cmocka_unit_test(a_verifier_that_makes_proposals_is_hung_up_on),
        cmocka_unit_test(a_caller_that_only_submits_is_mended_too),
        cmocka_unit_test(nobody_there_is_a_sentence_within_two_seconds),
        cmocka_unit_test(a_client_that_keeps_trying_meets_a_server_that_comes_later),
        cmocka_unit_test(a_client_that_keeps_trying_takes_who_talks_nonsense_for_nobody),
        cmocka_unit_test(an_address_that_cannot_be_listened_on_says_why),
        cmocka_unit_test(a_tcp_port_is_chosen_and_is_not_shared),
        cmocka_unit_test(the_socket_file_of_a_dead_process_is_taken_over),
        cmocka_unit_test(a_server_with_clients_stops_in_its_grace_period),
        cmocka_unit_test(a_client_that_leaves_while_the_server_stops_harms_nobody),
    };
    return cmocka_run_group_tests(tests, serving_make_directory, serving_remove_directory);
}
