/* A server before real clients in one process, over real sockets: what it answers, what it refuses, where it listens, how it
 * stops. The client's side: rpc_client_test.c. */
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "proto/codec.h"
#include "proto/health.h"
#include "rpc/client/client.h"
#include "tests/support/echo_server.h"
#include "tests/support/ipv6.h"
#include "tests/support/raw_call.h"
#include "tests/support/raw_client.h"
#include "tests/support/test.h"

static raw_result health_of(const char *method, const char *service, int timeout_ms, pf_health *health)
{
    uint8_t request[PF_MAX_HEALTH_BYTES];
    size_t n = 0;
    assert_int_equal(pf_health_encode_request(service, request, sizeof request, &n), PF_OK);
    const raw_result result = raw_call(serving_address, method, request, n, timeout_ms);
    if (result.n_reply) assert_int_equal(pf_health_decode_response(result.reply, result.n_reply, health), PF_OK);
    return result;
}

/* Until the server's one thread has begun to think, and leaves what comes then to wait. */
static void await_thought(fixture *f)
{
    for (const uint64_t limit_ns = pf_now_ns() + 5 * SECOND; !f->echo.thinks; usleep(1000))
        assert_true(pf_now_ns() < limit_ns);
}

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
    assert_int_equal(say_open(peer, 1, ECHO_PROMPT, 3), PF_OK);
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
    assert_int_equal(say_open(a, 1, ECHO_PROMPT, 3), PF_OK);
    assert_int_equal(say_open(b, 1, ECHO_PROMPT, 3), PF_OK);
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
    assert_first_round(peer);
    free(prompt);
    pf_peer_destroy(peer);
    end(&f);
}

static void more_sequences_than_are_taken_are_refused_one_by_one(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    pf_peer *peer = connected(serving_address);
    for (uint64_t s = 1; s <= ECHO_SEQUENCES + 1; s++) assert_int_equal(say_open(peer, s, ECHO_PROMPT, 3), PF_OK);
    const pf_batch *batch = answer_within(peer, 5 * SECOND);
    assert_int_equal(batch->n_refusals, 1);
    assert_int_equal(batch->refusals[0].sequence, ECHO_SEQUENCES + 1);
    assert_int_equal(batch->refusals[0].status, PF_LIMIT);
    assert_int_equal(say_verdict(peer, ECHO_SEQUENCES, 0, 9), PF_OK);
    assert_proposal(answer_within(peer, 5 * SECOND), ECHO_SEQUENCES, 1, 9);
    pf_peer_destroy(peer);
    end(&f);
}

static void a_stream_that_ends_closes_its_sequences(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    pf_peer *peer = connected(serving_address), *other = connected(serving_address);
    assert_int_equal(say_open(other, 1, ECHO_PROMPT, 3), PF_OK);
    for (uint64_t s = 1; s <= 3; s++) assert_int_equal(say_open(peer, s, ECHO_PROMPT, 3), PF_OK);
    assert_first_round(peer);
    pf_peer_destroy(peer);
    for (int i = 0; i < 500 && f.echo.n_closes < 3; i++) usleep(10000);
    assert_int_equal(f.echo.n_closes, 3);
    assert_int_equal(f.echo.n_open, 1);
    pf_peer_destroy(other);
    end(&f);
}

static void a_message_may_be_as_large_as_the_server_says_and_no_larger(void **state)
{
    (void)state;
    enum { BYTES = 4096 };
    static const uint8_t zeros[BYTES + 1];
    fixture f;
    begin_with(&f, (pf_server_config){ .address = serving_address, .max_message_bytes = BYTES });
    raw_result r = raw_call(serving_address, "/pilotfish.v1.Drafter/Draft", zeros, BYTES, 5000);
    assert_int_equal(r.code, GRPC_STATUS_INVALID_ARGUMENT); /* it has been read */
    r = raw_call(serving_address, "/pilotfish.v1.Drafter/Draft", zeros, BYTES + 1, 5000);
    assert_int_equal(r.code, GRPC_STATUS_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(r.text, "larger than max")); /* gRPC's word: it has not taken it all in */
    end(&f);
}

/* Not smaller than an open of all that the peer's context holds: 400,000 tokens of three bytes. */
static void where_memory_is_scarce_messages_are_smaller(void **state)
{
    (void)state;
    enum { FITS = 1170 << 10, DOES_NOT = 1180 << 10 };
    static const uint8_t zeros[DOES_NOT];
    fixture f;
    begin_with(&f, (pf_server_config){ .address = serving_address, .memory_bytes = 64 << 20 });
    raw_result r = raw_call(serving_address, "/pilotfish.v1.Drafter/Draft", zeros, FITS, 5000);
    assert_int_equal(r.code, GRPC_STATUS_INVALID_ARGUMENT); /* it has been read */
    r = raw_call(serving_address, "/pilotfish.v1.Drafter/Draft", zeros, DOES_NOT, 5000);
    assert_int_equal(r.code, GRPC_STATUS_RESOURCE_EXHAUSTED);
    end(&f);
}

static void an_answer_larger_than_a_message_may_be_comes_in_several(void **state)
{
    (void)state;
    enum { BYTES = 512, N = 8 }; /* an answer of 1.6 kB */
    fixture f;
    begin_with(&f, (pf_server_config){ .address = serving_address, .max_message_bytes = BYTES });
    f.echo.n_tokens = PF_MAX_DRAFT_TOKENS;
    pf_peer *peer = connected(serving_address);
    const int32_t token = ECHO_VOCAB - 2; /* three bytes */
    pf_verdict verdicts[N];
    for (uint64_t s = 0; s < N; s++) {
        assert_int_equal(say_open(peer, s, ECHO_PROMPT, 3), PF_OK);
        verdicts[s] = (pf_verdict){ .sequence = s, .incarnation = 1, .base = 3, .tokens = &token, .n_tokens = 1 };
    }
    assert_int_equal(pf_peer_submit(peer, &(pf_batch){ .verdicts = verdicts, .n_verdicts = N }), PF_OK);
    bool has_come[N] = { false };
    for (int n = 0; n < N;) {
        const pf_batch *answer = answer_within(peer, 5 * SECOND);
        assert_in_range(answer->n_proposals, 1, N / 2);
        for (int32_t i = 0; i < answer->n_proposals; i++, n++) {
            const pf_proposal *p = &answer->proposals[i];
            assert_int_equal(p->n_tokens, PF_MAX_DRAFT_TOKENS);
            assert_int_equal(p->tokens[PF_MAX_DRAFT_TOKENS - 1], token);
            assert_false(has_come[p->sequence]);
            has_come[p->sequence] = true;
        }
    }
    pf_peer_destroy(peer);
    end(&f);
}

static void verdicts_larger_than_a_message_may_be_come_in_several_answers(void **state)
{
    (void)state;
    enum { BYTES = 20000, N = 16 }; /* an answer of 220 kB */
    fixture f;
    echo_peer_init(&f.echo);
    f.echo.judges = true;
    f.echo.n_tokens = PF_MAX_VERDICT_TOKENS;
    const pf_server_config config = {
        .address = serving_address, .grace_ns = MS, .verifier = &f.echo.head, .max_message_bytes = BYTES
    };
    serving_begin(&f.running, &config);
    pf_peer *peer = NULL;
    pf_error error;
    assert_ok(pf_rpc_verifier_connect(serving_address, NULL, &peer, &error), error);
    pf_proposal proposals[N];
    for (uint64_t s = 0; s < N; s++) {
        assert_int_equal(say_open(peer, s, ECHO_PROMPT, 3), PF_OK);
        proposals[s] = (pf_proposal){ .sequence = s, .incarnation = 1, .round = 1, .base = 4 };
    }
    assert_int_equal(pf_peer_submit(peer, &(pf_batch){ .proposals = proposals, .n_proposals = N }), PF_OK);
    bool has_come[N] = { false };
    for (int n = 0; n < N;) {
        const pf_batch *answer = answer_within(peer, 5 * SECOND);
        assert_in_range(answer->n_verdicts, 1, N / 2);
        for (int32_t i = 0; i < answer->n_verdicts; i++, n++) {
            const pf_verdict *v = &answer->verdicts[i];
            assert_int_equal(v->n_tokens, PF_MAX_VERDICT_TOKENS);
            assert_int_equal(v->logprobs[PF_MAX_VERDICT_TOKENS - 1].n_top, PF_MAX_LOGPROBS);
            assert_false(has_come[v->sequence]);
            has_come[v->sequence] = true;
        }
    }
    pf_peer_destroy(peer);
    end(&f);
}

/* Two opens of 1.2 MB fit, and four do not. */
static void a_batch_larger_than_a_message_may_be_is_sent_in_several(void **state)
{
    (void)state;
    enum { N = 8 };
    fixture f;
    begin(&f);
    pf_peer *peer = connected(serving_address);
    int32_t *prompt = calloc(ECHO_LONGEST_PROMPT, sizeof *prompt);
    assert_non_null(prompt);
    for (int32_t i = 0; i < ECHO_LONGEST_PROMPT; i++) prompt[i] = ECHO_VOCAB - 2;
    pf_open opens[N];
    pf_verdict verdicts[N];
    for (uint64_t s = 0; s < N; s++) {
        opens[s] = (pf_open){ .sequence = s,
                              .incarnation = 1,
                              .tokens = prompt,
                              .n_tokens = ECHO_LONGEST_PROMPT,
                              .sampling = { .top_p = 1.0f },
                              .method = PF_METHOD_GREEDY,
                              .max_draft = 4 };
        verdicts[s] = (pf_verdict){
            .sequence = s, .incarnation = 1, .base = ECHO_LONGEST_PROMPT, .tokens = prompt, .n_tokens = 1
        };
    }
    const pf_batch batch = { .opens = opens, .n_opens = N, .verdicts = verdicts, .n_verdicts = N };
    assert_int_equal(pf_peer_submit(peer, &batch), PF_OK);
    for (int n = 0; n < N;) {
        const pf_batch *answer = answer_within(peer, 10 * SECOND);
        assert_int_equal(answer->n_prefix_requests + answer->n_refusals, 0); /* each open comes before its verdict */
        n += answer->n_proposals;
    }
    assert_int_equal(f.echo.n_open, N);
    free(prompt);
    pf_peer_destroy(peer);
    end(&f);
}

static void a_connection_is_told_how_many_calls_it_may_have(void **state)
{
    (void)state;
    fixture f;
    begin_with(&f, (pf_server_config){ .address = serving_address, .max_streams = 2 });
    const int fd = raw_client_dial();
    assert_true(raw_client_push_preface(fd));
    assert_true(raw_client_receives(fd, "\0\3\0\0\0\x42", 6, 5000)); /* SETTINGS_MAX_CONCURRENT_STREAMS: 64 more */
    close(fd);
    end(&f);
}

/* More, one after another, than would cost a connection its life at once. */
static void calls_that_have_ended_do_not_count(void **state)
{
    (void)state;
    enum { MOST_AT_ONCE = 2 * (1 + 64) };
    fixture f;
    begin_with(&f, (pf_server_config){ .address = serving_address, .max_streams = 1 });
    const int fd = raw_client_dial();
    assert_true(raw_client_push_preface(fd));
    for (uint32_t stream = 1; stream < 4 * MOST_AT_ONCE; stream += 2) {
        assert_true(raw_client_open_stream(fd, stream, "/grpc.health.v1.Health/Check"));
        assert_true(raw_client_push_frame(fd, 0, 1, stream, "\0\0\0\0\0", 5));
        assert_true(raw_client_receives(fd, "\0\0\0\0\2\x08", 6, 5000)); /* one state or another */
    }
    close(fd);
    end(&f);
}

/* gRPC by itself cuts for three that come within five minutes, or two hours where there is no call. */
static void pings_of_an_idle_client_are_answered_every_second(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    const int fd = raw_client_dial();
    assert_true(raw_client_push_preface(fd));
    for (int i = 0; i < 6; i++, usleep(1100 * 1000)) {
        assert_true(raw_client_push_frame(fd, 6, 0, 0, "12345678", 8));
        assert_true(raw_client_receives(fd, "\0\0\x08\6\1\0\0\0\00012345678", 17, 5000));
    }
    close(fd);
    end(&f);
}

static void a_malformed_message_ends_its_own_stream_alone(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    pf_peer *peer = connected(serving_address);
    assert_int_equal(say_open(peer, 1, ECHO_PROMPT, 3), PF_OK);

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

    assert_first_round(peer);
    pf_peer_destroy(peer);
    end(&f);
}

static void what_does_not_fit_costs_its_own_sequence_alone(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    pf_peer *peer = connected(serving_address);
    assert_int_equal(say_open(peer, 1, ECHO_PROMPT, 3), PF_OK);
    assert_int_equal(say_open(peer, 2, ECHO_PROMPT, 3), PF_OK);
    assert_int_equal(say_verdict(peer, 2, 0, ECHO_VOCAB), PF_OK);
    const pf_batch *batch = answer_within(peer, 5 * SECOND);
    assert_int_equal(batch->n_refusals, 1);
    assert_int_equal(batch->refusals[0].sequence, 2);
    assert_int_equal(batch->refusals[0].status, PF_INVALID);
    assert_non_null(strstr(batch->refusals[0].text, "verdicts[0].tokens[0] is "));
    assert_first_round(peer);
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
    assert_status(pf_rpc_verifier_connect(serving_address, NULL, &peer, &error), PF_FORMAT);
    assert_null(peer);
    assert_says(error, serving_address);
    assert_says(error, "this service is not offered there");
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
    (void)health_of("/grpc.health.v1.Health/Watch", "unknown", 200, &health);
    assert_int_equal(health, PF_HEALTH_SERVICE_UNKNOWN);
    static const char with_nul[] = "\x0a\x01"; /* the string's own NUL: no service has it in its name */
    assert_int_equal(raw_call(serving_address, "/grpc.health.v1.Health/Check", with_nul, sizeof with_nul, 5000).code,
                     GRPC_STATUS_NOT_FOUND);
    end(&f);
}

/* By name and by what .proto says of each, not by what both ends here call them. */
static void both_services_answer_to_their_names_on_the_wire(void **state)
{
    (void)state;
    static const char *const names[] = { "Drafter", "Verifier" }, *const streams[] = { "Draft", "Verify" };
    for (int i = 0; i < 2; i++) {
        fixture f;
        echo_peer_init(&f.echo);
        pf_server_config config = { .address = serving_address, .grace_ns = MS };
        *(i == 0 ? &config.drafter : &config.verifier) = &f.echo.head;
        serving_begin(&f.running, &config);
        for (int other = 0; other < 2; other++) {
            const grpc_status_code code = other == i ? GRPC_STATUS_OK : GRPC_STATUS_UNIMPLEMENTED;
            char method[64], service[64];
            pf_health health;
            snprintf(method, sizeof method, "/pilotfish.v1.%s/GetModelInfo", names[other]);
            assert_int_equal(raw_call(serving_address, method, "", 0, 5000).code, code);
            snprintf(method, sizeof method, "/pilotfish.v1.%s/%s", names[other], streams[other]);
            assert_int_equal(raw_call(serving_address, method, "", 0, 5000).code, code);
            snprintf(service, sizeof service, "pilotfish.v1.%s", names[other]);
            assert_int_equal(health_of("/grpc.health.v1.Health/Check", service, 5000, &health).code,
                             other == i ? GRPC_STATUS_OK : GRPC_STATUS_NOT_FOUND);
        }
        end(&f);
    }
}

static void a_question_that_is_not_one_is_answered_with_what_is_wrong(void **state)
{
    (void)state;
    static const char *const methods[] = { "/pilotfish.v1.Drafter/GetModelInfo", "/grpc.health.v1.Health/Check",
                                           "/grpc.health.v1.Health/Watch" };
    static const char why[] = "a request without a message", well[] = "grpc-status\0010";
    fixture f;
    begin(&f);
    for (size_t i = 0; i < PF_COUNT(methods); i++) {
        assert_int_equal(raw_call(serving_address, methods[i], "\xff", 1, 5000).code, GRPC_STATUS_INVALID_ARGUMENT);
        const int fd = raw_client_dial();
        assert_true(raw_client_push_preface(fd) && raw_client_open_stream(fd, 1, methods[i]));
        assert_true(raw_client_push_frame(fd, 0, 1, 1, NULL, 0)); /* half closed, and nothing said */
        assert_true(raw_client_receives(fd, why, sizeof why - 1, 5000));
        close(fd);
    }
    const int fd = raw_client_dial(); /* of a stream that is no fault */
    assert_true(raw_client_push_preface(fd) && raw_client_open_stream(fd, 1, "/pilotfish.v1.Drafter/Draft"));
    assert_true(raw_client_push_frame(fd, 0, 1, 1, NULL, 0));
    assert_true(raw_client_receives(fd, well, sizeof well - 1, 5000));
    close(fd);
    end(&f);
}

/* What a watcher has been told. The server is told to stop as soon as it is said to serve. */
typedef struct {
    fixture f;
    pf_health told[4];
    int n_told;
} watching;

static void on_health(void *user, const raw_result *so_far)
{
    watching *w = user;
    assert_true(w->n_told < (int)PF_COUNT(w->told));
    assert_int_equal(pf_health_decode_response(so_far->reply, so_far->n_reply, &w->told[w->n_told]), PF_OK);
    if (w->told[w->n_told++] == PF_HEALTH_SERVING) pf_server_stop(w->f.running.server);
}

static void a_health_watch_reports_that_the_server_stops(void **state)
{
    (void)state;
    watching w = { .n_told = 0 };
    begin_with(&w.f, (pf_server_config){ .address = serving_address, .grace_ns = 300 * MS });
    pf_peer *peer = connected(serving_address);
    assert_int_equal(say_open(peer, 1, ECHO_PROMPT, 3), PF_OK); /* what the server waits for */
    assert_first_round(peer);
    uint8_t request[PF_MAX_HEALTH_BYTES];
    size_t n = 0;
    assert_int_equal(pf_health_encode_request("", request, sizeof request, &n), PF_OK);
    (void)raw_call_heard(serving_address, "/grpc.health.v1.Health/Watch", request, n, 5000, on_health, &w);
    assert_int_equal(w.n_told, 2);
    assert_int_equal(w.told[0], PF_HEALTH_SERVING);
    assert_int_equal(w.told[1], PF_HEALTH_NOT_SERVING);
    pf_peer_destroy(peer);
    end(&w.f);
}

static void health_is_told_while_the_peer_computes(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    f.echo.thinks_ms = 1000;
    pf_peer *peer = connected(serving_address);
    assert_int_equal(say_open(peer, 1, ECHO_PROMPT, 3), PF_OK);
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
    begin_with(&f, (pf_server_config){ .address = serving_address, .heartbeat_ns = 100 * MS });
    pf_peer *peer = connected(serving_address), *idle = connected(serving_address);
    pf_peer *talker = connected(serving_address);
    assert_int_equal(say_open(peer, 1, ECHO_PROMPT, 3), PF_OK);
    assert_int_equal(say_open(idle, 1, ECHO_PROMPT, 3), PF_OK);
    assert_int_equal(say_verdict(idle, 1, 0, 9), PF_OK);
    assert_proposal(answer_within(idle, 5 * SECOND), 1, 1, 9);
    f.echo.thinks_ms = 1000;
    assert_int_equal(say_verdict(peer, 1, 0, 9), PF_OK);
    for (uint64_t i = 2; i < 17; i++, usleep(64 * 1000)) /* it waits for the other's answer, and goes on sending */
        assert_int_equal(say_open(talker, i, ECHO_PROMPT, 3), PF_OK);
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
    n_signs = 0;
    while (pf_peer_collect(talker, pf_now_ns() + 100 * MS, &batch, &error) == PF_OK)
        n_signs += batch->n_refusals == 0; /* eight sequences are open at most */
    assert_in_range(n_signs, 2, 10);
    pf_peer_destroy(talker);
    pf_peer_destroy(idle);
    pf_peer_destroy(peer);
    end(&f);
}

/* A peer that has a prompt to feed says so between its passes: others are served, and nothing is fed for a client that has gone. */
static void an_endless_prompt_delays_no_other_client_and_stops_when_its_client_is_gone(void **state)
{
    (void)state;
    fixture f;
    begin_with(&f, (pf_server_config){ .address = serving_address, .heartbeat_ns = 100 * MS });
    pf_peer *greedy = connected(serving_address), *peer = connected(serving_address);
    const int32_t endless[] = { ECHO_ENDLESS, 1, 2 };
    assert_int_equal(say_open(greedy, 1, endless, 3), PF_OK);
    while (f.echo.n_fed == 0) usleep(1000);
    assert_int_equal(say_open(peer, 1, ECHO_PROMPT, 3), PF_OK);
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

/* A new client is refused at once; the prompt has the grace. */
static void a_server_that_stops_says_so_between_the_passes_of_a_prompt(void **state)
{
    (void)state;
    fixture f;
    begin_with(&f, (pf_server_config){ .address = serving_address, .grace_ns = 60 * SECOND });
    pf_peer *peer = connected(serving_address);
    const int32_t endless[] = { ECHO_ENDLESS, 1, 2 };
    assert_int_equal(say_open(peer, 1, endless, 3), PF_OK);
    while (f.echo.n_fed == 0) usleep(1000);
    const uint64_t begin_ns = pf_now_ns();
    pf_server_stop(f.running.server);
    while (access(serving_path, F_OK) == 0) { /* its door */
        assert_true(pf_now_ns() - begin_ns < 30 * SECOND);
        usleep(1000);
    }
    for (const int n_fed = f.echo.n_fed; f.echo.n_fed < n_fed + 3;) {
        assert_true(pf_now_ns() - begin_ns < 30 * SECOND);
        usleep(1000);
    }
    pf_close close = { .sequence = 1 };
    assert_int_equal(pf_peer_submit(peer, &(pf_batch){ .closes = &close, .n_closes = 1 }), PF_OK);
    end(&f);
    assert_true(pf_now_ns() - begin_ns < 30 * SECOND);
    pf_peer_destroy(peer);
}

/* More than a stream's queue has room for. */
static void messages_that_come_while_the_peer_computes_are_all_answered(void **state)
{
    (void)state;
    enum { N = 40 };
    fixture f;
    begin(&f);
    pf_peer *peer = connected(serving_address), *other = connected(serving_address);
    assert_int_equal(say_open(peer, 1, ECHO_PROMPT, 3), PF_OK);
    assert_int_equal(say_open(other, 1, ECHO_PROMPT, 3), PF_OK);
    f.echo.thinks_ms = 300;
    assert_int_equal(say_verdict(other, 1, 0, 9), PF_OK);
    await_thought(&f);
    f.echo.thinks_ms = 0;
    for (uint64_t round = 0; round < N; round++, usleep(1000)) assert_int_equal(say_verdict(peer, 1, round, 9), PF_OK);
    uint64_t n = 0;
    while (n < N) {
        const pf_batch *batch = answer_within(peer, 5 * SECOND);
        for (int32_t i = 0; i < batch->n_proposals; i++) assert_int_equal(batch->proposals[i].round, ++n);
    }
    assert_proposal(answer_within(other, 5 * SECOND), 1, 1, 9);
    pf_peer_destroy(other);
    pf_peer_destroy(peer);
    end(&f);
}

enum { N_LARGE = 5 };

/* How many sequences are open once a client has its answer that was queued before so many large batches. */
static int32_t open_before_the_small_one_is_answered(void)
{
    enum { N_TOKENS = ECHO_LONGEST_PROMPT };
    fixture f;
    begin(&f);
    pf_peer *busy = connected(serving_address), *small = connected(serving_address), *large[N_LARGE];
    for (int i = 0; i < N_LARGE; i++) large[i] = connected(serving_address);
    int32_t *prompt = calloc(N_TOKENS, sizeof *prompt);
    assert_non_null(prompt);
    for (int32_t i = 0; i < N_TOKENS; i++) prompt[i] = ECHO_VOCAB - 2; /* three bytes */
    pf_open open = { .sequence = 1,
                     .incarnation = 1,
                     .tokens = prompt,
                     .n_tokens = N_TOKENS,
                     .method = PF_METHOD_GREEDY,
                     .max_draft = 4 };
    pf_verdict verdict = { .sequence = 1, .incarnation = 1, .base = N_TOKENS, .tokens = prompt, .n_tokens = 1 };
    const pf_batch both = { .opens = &open, .n_opens = 1, .verdicts = &verdict, .n_verdicts = 1 };

    assert_int_equal(say_open(busy, 1, ECHO_PROMPT, 3), PF_OK);
    assert_int_equal(say_open(small, 1, ECHO_PROMPT, 3), PF_OK);
    f.echo.thinks_ms = 400;
    assert_int_equal(say_verdict(busy, 1, 0, 9), PF_OK);
    await_thought(&f);
    assert_int_equal(say_verdict(small, 1, 0, 9), PF_OK);
    usleep(50 * 1000);
    for (int i = 0; i < N_LARGE; i++) assert_int_equal(pf_peer_submit(large[i], &both), PF_OK);
    assert_proposal(answer_within(small, 10 * SECOND), 1, 1, 9);
    const int32_t n_open = f.echo.n_open;
    f.echo.thinks_ms = 0;
    free(prompt);
    for (int i = 0; i < N_LARGE; i++) pf_peer_destroy(large[i]);
    pf_peer_destroy(small);
    pf_peer_destroy(busy);
    end(&f);
    return n_open;
}

/* Most are not read by then. Judged by the best of a few tries: a client without a core receives its answer late. */
static void queued_large_batches_delay_no_other_client(void **state)
{
    (void)state;
    int32_t n_open = 2 + N_LARGE;
    for (int i = 0; i < 5 && n_open > 2 + 2; i++) n_open = open_before_the_small_one_is_answered();
    assert_in_range(n_open, 2, 2 + 2);
}

static size_t encode(const pf_batch *batch, uint8_t *out, size_t capacity)
{
    pf_codec *codec;
    size_t n = 0;
    assert_int_equal(pf_codec_create(capacity, 0, &codec), PF_OK);
    assert_int_equal(pf_codec_encode_batch(codec, batch, out, capacity, &n), PF_OK);
    pf_codec_destroy(codec);
    return n;
}

/* One message of a stream, as a raw client sends it. */
static void push_batch(int fd, uint32_t stream, bool is_last, const pf_batch *batch)
{
    enum { MOST = 255 };
    uint8_t message[5 + MOST] = { 0 };
    const size_t n = encode(batch, message + 5, MOST);
    message[4] = (uint8_t)n;
    assert_true(raw_client_push_frame(fd, 0, is_last, stream, message, 5 + (uint32_t)n));
}

static void push_open(int fd, uint64_t sequence)
{
    pf_open open = { .sequence = sequence,
                     .incarnation = 1,
                     .tokens = ECHO_PROMPT,
                     .n_tokens = 3,
                     .sampling = { .top_p = 1.0f },
                     .method = PF_METHOD_GREEDY,
                     .max_draft = 4 };
    push_batch(fd, 1, false, &(pf_batch){ .opens = &open, .n_opens = 1 });
}

static void push_verdict_of(int fd, uint64_t round, int32_t token, bool is_last)
{
    pf_verdict verdict = {
        .sequence = 1, .incarnation = 1, .round = round, .base = 3 + (int32_t)round, .tokens = &token, .n_tokens = 1
    };
    push_batch(fd, 1, is_last, &(pf_batch){ .verdicts = &verdict, .n_verdicts = 1 });
}

static void push_verdict(int fd, uint64_t round, bool is_last)
{
    push_verdict_of(fd, round, 9, is_last);
}

/* What comes until a stream has ended well, or for five seconds. */
static size_t hear_to_a_good_end(int fd, uint8_t *heard, size_t capacity)
{
    static const char well[] = "grpc-status\0010";
    size_t n = 0;
    for (struct pollfd it = { .fd = fd, .events = POLLIN }; n < capacity && poll(&it, 1, 5000) == 1;) {
        const ssize_t more = recv(fd, heard + n, capacity - n, 0);
        if (more <= 0) break;
        n += (size_t)more;
        if (memmem(heard, n, well, sizeof well - 1)) return n;
    }
    fail_msg("the stream does not end well");
    return 0;
}

/* The answers wait for the peer, which is busy with another's, and for the client, which has no room for them at first. */
static void a_half_closed_stream_gets_every_answer_and_ends_with_ok(void **state)
{
    (void)state;
    static const uint8_t no_window[] = { 0, 4, 0, 0, 0, 0 }, window[] = { 0, 1, 0, 0 };
    static const char last[] = "\x18\2\x20\5\x2a\1\x09"; /* round 2, base 5, token 9 */
    uint8_t heard[4096];
    for (int reads = 0; reads < 2; reads++) {
        fixture f;
        begin(&f);
        pf_peer *busy = connected(serving_address);
        const int fd = raw_client_dial();
        assert_true(raw_client_push_preface(fd));
        if (!reads) assert_true(raw_client_push_frame(fd, 4, 0, 0, no_window, sizeof no_window));
        assert_true(raw_client_open_stream(fd, 1, "/pilotfish.v1.Drafter/Draft"));
        push_open(fd, 1);
        f.echo.thinks_ms = 300;
        assert_int_equal(say_open(busy, 1, ECHO_PROMPT, 3), PF_OK);
        assert_int_equal(say_verdict(busy, 1, 0, 9), PF_OK);
        usleep(100 * 1000);
        push_verdict(fd, 0, false);
        usleep(350 * 1000); /* it is being computed */
        push_verdict(fd, 1, true);
        usleep(reads ? 0 : 600 * 1000); /* and so is this one */
        if (!reads) assert_true(raw_client_push_frame(fd, 8, 0, 1, window, sizeof window));
        const size_t n = hear_to_a_good_end(fd, heard, sizeof heard);
        assert_non_null(memmem(heard, n, last, sizeof last - 1));
        close(fd);
        pf_peer_destroy(busy);
        end(&f);
    }
}

static void a_half_closed_stream_is_not_evicted_while_its_prompt_is_computed(void **state)
{
    (void)state;
    const int32_t endless[] = { ECHO_ENDLESS, 1, 2 };
    pf_open open = {
        .sequence = 1, .incarnation = 1, .tokens = endless, .n_tokens = 3, .method = PF_METHOD_GREEDY, .max_draft = 4
    };
    fixture f;
    begin(&f);
    pf_peer *other = connected(serving_address);
    assert_int_equal(say_open(other, 1, ECHO_PROMPT, 3), PF_OK);
    const int fd = raw_client_dial();
    assert_true(raw_client_push_preface(fd) && raw_client_open_stream(fd, 1, "/pilotfish.v1.Drafter/Draft"));
    push_batch(fd, 1, true, &(pf_batch){ .opens = &open, .n_opens = 1 });
    while (f.echo.n_fed == 0) usleep(1000);
    for (uint64_t round = 0; round < 5; round++) { /* at each the server looks at all streams */
        assert_int_equal(say_verdict(other, 1, round, 9), PF_OK);
        assert_proposal(answer_within(other, 5 * SECOND), 1, round + 1, 9);
    }
    assert_false(raw_client_receives(fd, "grpc-status", 11, 100));
    close(fd);
    pf_peer_destroy(other);
    end(&f);
}

/* A server that stops says so to a client that reads late, too. */
static void a_health_watch_that_reads_late_gets_the_last_state(void **state)
{
    (void)state;
    static const uint8_t no_window[] = { 0, 4, 0, 0, 0, 0 }, window[] = { 0, 1, 0, 0 };
    fixture f;
    begin_with(&f, (pf_server_config){ .address = serving_address, .grace_ns = 5 * SECOND });
    pf_peer *peer = connected(serving_address);
    assert_int_equal(say_open(peer, 1, ECHO_PROMPT, 3), PF_OK); /* for its sake the server does not end at once */
    const int fd = raw_client_dial();
    assert_true(raw_client_push_preface(fd) && raw_client_push_frame(fd, 4, 0, 0, no_window, sizeof no_window));
    assert_true(raw_client_open_stream(fd, 1, "/grpc.health.v1.Health/Watch"));
    assert_true(raw_client_push_frame(fd, 0, 1, 1, "\0\0\0\0\0", 5));
    usleep(100 * 1000);
    pf_server_stop(f.running.server);
    usleep(200 * 1000);
    assert_true(raw_client_push_frame(fd, 8, 0, 1, window, sizeof window));
    assert_true(raw_client_receives(fd, "\0\0\0\0\2\x08\2", 7, 3000)); /* NOT_SERVING */
    close(fd);
    pf_peer_destroy(peer);
    end(&f);
}

/* It has said something, and no thread has looked at it yet. */
static void a_stream_that_waits_for_the_peer_keeps_its_place(void **state)
{
    (void)state;
    fixture f;
    begin_with(&f, (pf_server_config){ .address = serving_address, .max_streams = 2 });
    pf_peer *busy = connected(serving_address), *waiting = connected(serving_address);
    assert_int_equal(say_open(busy, 1, ECHO_PROMPT, 3), PF_OK);
    f.echo.thinks_ms = 1000;
    assert_int_equal(say_verdict(busy, 1, 0, 9), PF_OK);
    await_thought(&f);
    assert_int_equal(say_open(waiting, 1, ECHO_PROMPT, 3), PF_OK);
    usleep(100 * 1000);
    pf_peer *third = connected(serving_address);
    assert_proposal(answer_within(busy, 5 * SECOND), 1, 1, 9);
    f.echo.thinks_ms = 0;
    assert_first_round(waiting);
    pf_peer_destroy(third);
    pf_peer_destroy(waiting);
    pf_peer_destroy(busy);
    end(&f);
}

/* It has spoken since the prompt began, and been answered. */
static void an_idle_stream_is_evicted_while_the_prompt_of_another_is_computed(void **state)
{
    (void)state;
    fixture f;
    begin_with(&f, (pf_server_config){ .address = serving_address, .max_streams = 2 });
    pf_peer *greedy = connected(serving_address), *idle = connected(serving_address);
    const int32_t endless[] = { ECHO_ENDLESS, 1, 2 };
    assert_int_equal(say_open(greedy, 1, endless, 3), PF_OK);
    while (f.echo.n_fed == 0) usleep(1000);
    assert_int_equal(say_open(idle, 1, ECHO_PROMPT, 3), PF_OK);
    assert_first_round(idle);
    pf_close close = { .sequence = 1 };
    assert_int_equal(pf_peer_submit(idle, &(pf_batch){ .closes = &close, .n_closes = 1 }), PF_OK);
    while (f.echo.n_closes == 0) usleep(1000);
    for (const int n_fed = f.echo.n_fed; f.echo.n_fed < n_fed + 2;) usleep(1000);
    pf_peer *third = connected(serving_address);
    assert_int_equal(say_open(third, 1, ECHO_PROMPT, 3), PF_OK);
    assert_first_round(third);
    pf_peer_destroy(third);
    pf_peer_destroy(idle);
    pf_peer_destroy(greedy);
    end(&f);
}

/* While the peer computes, messages as large as may be wait for it: sixteen of all streams together, each of which may have
 * one. */
static void a_message_too_many_for_all_streams_together_ends_its_own(void **state)
{
    (void)state;
    enum { BYTES = 4096, N_CONNECTIONS = 3, N_STREAMS = 6 };
    static const uint8_t message[5 + BYTES] = { 0, 0, 0, BYTES >> 8, BYTES & 0xFF };
    static const char why[] = "too many bytes wait to be computed";
    fixture f;
    begin_with(&f, (pf_server_config){ .address = serving_address, .max_message_bytes = BYTES });
    pf_peer *peer = connected(serving_address);
    f.echo.thinks_ms = 3000; /* however loaded the machine is */
    assert_int_equal(say_open(peer, 1, ECHO_PROMPT, 3), PF_OK);
    assert_int_equal(say_verdict(peer, 1, 0, 9), PF_OK);
    await_thought(&f);
    int fds[N_CONNECTIONS];
    for (int i = 0; i < N_CONNECTIONS; i++) {
        fds[i] = raw_client_dial();
        assert_true(raw_client_push_preface(fds[i]));
        for (uint32_t s = 1; s < 2 * N_STREAMS; s += 2) {
            assert_true(raw_client_open_stream(fds[i], s, "/pilotfish.v1.Drafter/Draft"));
            assert_true(raw_client_push_frame(fds[i], 0, 0, s, message, sizeof message));
        }
        const bool hears = raw_client_receives(fds[i], why, strlen(why), i < N_CONNECTIONS - 1 ? 50 : 2500);
        assert_int_equal(hears, i == N_CONNECTIONS - 1);
    }
    for (int i = 0; i < N_CONNECTIONS; i++) close(fds[i]); /* and what waited goes with them */
    assert_proposal(answer_within(peer, 10 * SECOND), 1, 1, 9);
    f.echo.thinks_ms = 0;
    assert_int_equal(say_verdict(peer, 1, 1, 9), PF_OK);
    assert_proposal(answer_within(peer, 10 * SECOND), 1, 2, 9);
    pf_peer_destroy(peer);
    end(&f);
}

/* 64 wait, and one is being written. */
static void a_client_that_reads_no_answers_loses_its_stream(void **state)
{
    (void)state;
    enum { N = 66 };
    static const uint8_t no_window[] = { 0, 4, 0, 0, 0, 0 };
    static const char why[] = "the stream is not read";
    fixture f;
    begin(&f);
    const int fd = raw_client_dial();
    assert_true(raw_client_push_preface(fd) && raw_client_push_frame(fd, 4, 0, 0, no_window, sizeof no_window));
    assert_true(raw_client_open_stream(fd, 1, "/pilotfish.v1.Drafter/Draft"));
    for (uint64_t i = 0; i < N - 1; i++)
        push_verdict(fd, i, false); /* of a sequence that is not open: one answer each */
    assert_false(raw_client_receives(fd, why, sizeof why - 1, 300));
    push_verdict(fd, N - 1, false);
    assert_true(raw_client_receives(fd, why, sizeof why - 1, 5000));
    close(fd);
    end(&f);
}

/* Of all streams together, in bytes: the client that leaves the most unread goes, not the one that is answered next. */
static void the_client_with_the_most_unread_answers_loses_its_stream(void **state)
{
    (void)state;
    enum { N = 12, N_ROUNDS = 62, LONG_TOKEN = 99998 }; /* three bytes, 64 times */
    static const uint8_t no_window[] = { 0, 4, 0, 0, 0, 0 };
    static const char why[] = "the stream is not read";
    fixture f;
    begin_with(&f, (pf_server_config){ .address = serving_address, .max_message_bytes = 4096 });
    f.echo.n_tokens = 64;
    int fds[N];
    for (int i = 0; i < N; i++) {
        fds[i] = raw_client_dial();
        assert_true(raw_client_push_preface(fds[i]) &&
                    raw_client_push_frame(fds[i], 4, 0, 0, no_window, sizeof no_window));
        assert_true(raw_client_open_stream(fds[i], 1, "/pilotfish.v1.Drafter/Draft"));
        push_open(fds[i], 1);
        const uint64_t n_rounds = i == 1 ? N_ROUNDS : N_ROUNDS - 8;
        for (uint64_t round = 0; round < n_rounds; round++) push_verdict_of(fds[i], round, LONG_TOKEN, false);
        if (i == 1) usleep(300 * 1000); /* all of its verdicts are answered: it has the most when it is too much */
    }
    assert_true(raw_client_receives(fds[1], why, sizeof why - 1, 5000));
    for (int i = 0; i < N; i += 2) assert_false(raw_client_receives(fds[i], why, sizeof why - 1, 50));
    pf_peer *peer = connected(serving_address);
    assert_int_equal(say_open(peer, 1, ECHO_PROMPT, 3), PF_OK);
    assert_int_equal(say_verdict(peer, 1, 0, 9), PF_OK);
    assert_non_null(answer_within(peer, 5 * SECOND));
    for (int i = 0; i < N; i++) close(fds[i]);
    pf_peer_destroy(peer);
    end(&f);
}

/* Whether a new client that opens a sequence of n tokens beside another one is answered. */
static bool gets_through(const int32_t *prompt, int32_t n)
{
    pf_peer *peer = connected(serving_address);
    const pf_batch *batch = NULL;
    const bool said = say_open(peer, 1, ECHO_PROMPT, 3) == PF_OK && say_open(peer, 2, prompt, n) == PF_OK &&
                      say_verdict(peer, 1, 0, 9) == PF_OK;
    const bool answered = said && pf_peer_collect(peer, pf_now_ns() + SECOND, &batch, NULL) == PF_OK && batch != NULL;
    pf_peer_destroy(peer);
    return answered;
}

/* An end that cannot be written keeps its stream; what the stream has sent before is dropped. */
static void what_a_stream_said_before_its_end_takes_no_room_from_others(void **state)
{
    (void)state;
    enum { BYTES = 4085, N_CONNECTIONS = 4, N_STREAMS = 2, N_TOKENS = 400 };
    static const uint8_t no_window[] = { 0, 4, 0, 0, 0, 0 };
    static const uint8_t message[5 + BYTES] = { 0, 0, 0, BYTES >> 8, BYTES & 0xFF };
    static const int32_t prompt[N_TOKENS] = { 1 };
    pf_verdict of_no_sequence = { .sequence = 7, .incarnation = 1, .tokens = prompt, .n_tokens = 1 };
    fixture f;
    begin_with(&f, (pf_server_config){ .address = serving_address, .max_message_bytes = 4096 });
    pf_peer *peer = connected(serving_address);
    assert_int_equal(say_open(peer, 1, ECHO_PROMPT, 3), PF_OK);
    int fds[N_CONNECTIONS];
    for (int i = 0; i < N_CONNECTIONS; i++) {
        fds[i] = raw_client_dial();
        assert_true(raw_client_push_preface(fds[i]) &&
                    raw_client_push_frame(fds[i], 4, 0, 0, no_window, sizeof no_window));
        for (uint32_t s = 1; s < 2 * N_STREAMS; s += 2) {
            assert_true(raw_client_open_stream(fds[i], s, "/pilotfish.v1.Drafter/Draft"));
            push_batch(fds[i], s, false, &(pf_batch){ .verdicts = &of_no_sequence, .n_verdicts = 1 }); /* not read */
        }
    }
    usleep(200 * 1000);
    assert_int_equal(say_verdict(peer, 1, 0, 9), PF_OK);
    assert_proposal(answer_within(peer, 5 * SECOND), 1, 1, 9);
    f.echo.thinks_ms = 500;
    assert_int_equal(say_verdict(peer, 1, 1, 9), PF_OK);
    await_thought(&f); /* what comes then fills the queue */
    for (int i = 0; i < N_CONNECTIONS * N_STREAMS; i++) {
        const int fd = fds[i / N_STREAMS];
        const uint32_t s = 2 * (uint32_t)(i % N_STREAMS) + 1;
        assert_true(raw_client_push_frame(fd, 0, 0, s, "\0\0\0\0\1\x0a", 6)); /* not a batch */
        assert_true(raw_client_push_frame(fd, 0, 0, s, message, sizeof message));
        assert_true(raw_client_push_frame(fd, 0, 0, s, message, sizeof message));
    }
    assert_proposal(answer_within(peer, 5 * SECOND), 1, 2, 9);
    f.echo.thinks_ms = 0;
    for (int tries = 0; !gets_through(prompt, N_TOKENS); tries++) { /* the server has ended all of them by then */
        assert_true(tries < 50);
        usleep(100 * 1000);
    }
    assert_int_equal(say_open(peer, 2, prompt, N_TOKENS), PF_OK);
    assert_int_equal(say_verdict(peer, 1, 2, 9), PF_OK);
    assert_proposal(answer_within(peer, 5 * SECOND), 1, 3, 9);
    for (int i = 0; i < N_CONNECTIONS; i++) close(fds[i]);
    pf_peer_destroy(peer);
    end(&f);
}

/* The end waits for an answer to be written, and the client has sent all before the server looked at it. */
static void a_stream_that_ends_badly_is_not_told_that_it_ends_well(void **state)
{
    (void)state;
    static const uint8_t no_window[] = { 0, 4, 0, 0, 0, 0 }, window[] = { 0, 1, 0, 0 };
    static const char badly[] = "grpc-status\0013"; /* INVALID_ARGUMENT */
    fixture f;
    begin(&f);
    const int fd = raw_client_dial();
    assert_true(raw_client_push_preface(fd) && raw_client_push_frame(fd, 4, 0, 0, no_window, sizeof no_window));
    assert_true(raw_client_open_stream(fd, 1, "/pilotfish.v1.Drafter/Draft"));
    push_verdict(fd, 0, false); /* of no sequence: an answer */
    pf_peer *busy = connected(serving_address);
    assert_int_equal(say_open(busy, 1, ECHO_PROMPT, 3), PF_OK);
    f.echo.thinks_ms = 500;
    assert_int_equal(say_verdict(busy, 1, 0, 9), PF_OK);
    await_thought(&f);
    assert_true(raw_client_push_frame(fd, 0, 1, 1, "\0\0\0\0\1\x0a", 6)); /* not a batch, and the last */
    assert_proposal(answer_within(busy, 5 * SECOND), 1, 1, 9);
    usleep(100 * 1000);
    assert_true(raw_client_push_frame(fd, 8, 0, 1, window, sizeof window));
    assert_true(raw_client_receives(fd, badly, sizeof badly - 1, 5000));
    close(fd);
    pf_peer_destroy(busy);
    end(&f);
}

/* Its end waits to be written, and its sequence ends with it. */
static void a_stream_that_does_not_read_its_end_is_evicted(void **state)
{
    (void)state;
    static const uint8_t no_window[] = { 0, 4, 0, 0, 0, 0 };
    fixture f;
    begin_with(&f, (pf_server_config){ .address = serving_address, .max_streams = 1 });
    const int fd = raw_client_dial();
    assert_true(raw_client_push_preface(fd) && raw_client_push_frame(fd, 4, 0, 0, no_window, sizeof no_window));
    assert_true(raw_client_open_stream(fd, 1, "/pilotfish.v1.Drafter/Draft"));
    push_open(fd, 1);
    push_verdict(fd, 0, false); /* the answer cannot be written */
    while (f.echo.n_open == 0) usleep(1000);
    assert_true(raw_client_push_frame(fd, 0, 0, 1, "\0\0\0\0\1\x0a", 6)); /* not a batch */
    usleep(100 * 1000);
    pf_peer *peer = connected(serving_address);
    assert_taken_up(peer);
    pf_peer_destroy(peer);
    close(fd);
    end(&f);
}

static void a_server_takes_all_the_files_that_it_may(void **state)
{
    (void)state;
    struct rlimit before, during;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit few = { 256, before.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    fixture f;
    begin(&f);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &during), 0);
    assert_int_equal(during.rlim_cur, before.rlim_max);
    end(&f);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static void what_no_server_can_be_is_refused(void **state)
{
    (void)state;
    echo_peer echo;
    echo_peer_init(&echo);
    const pf_server_config configs[] = {
        { .address = serving_address },
        { .address = serving_address, .drafter = &echo.head, .max_message_bytes = (size_t)PF_MAX_MESSAGE_BYTES + 1 },
        { .address = serving_address, .drafter = &echo.head, .max_streams = -1 },
        { .address = serving_address, .drafter = &echo.head, .max_streams = (1 << 20) + 1 },
        { .address = serving_address, .drafter = &echo.head, .max_connections = -1 },
    };
    static const char *const why[] = { "without a peer", "messages of ", "a server of -1 streams",
                                       "a server of 1048577 streams", "a server of -1 connections" };
    for (size_t i = 0; i < PF_COUNT(configs); i++) {
        pf_server *server = NULL;
        pf_error error;
        assert_status(pf_server_create(&configs[i], &server, &error), PF_INVALID);
        assert_says(error, why[i]);
        assert_null(server);
    }
    pf_server *server = NULL;
    pf_error error;
    const pf_server_config poor = { .address = serving_address, .drafter = &echo.head, .memory_bytes = 4 << 20 };
    assert_status(pf_server_create(&poor, &server, &error), PF_LIMIT);
    assert_says(error, "4096 KiB of memory are left for messages");
    assert_null(server);
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
    config.address = "malformed";
    assert_status(pf_server_create(&config, &second, &error), PF_INVALID);
    assert_null(second);
    end(&f);
}

/* And is told as a client takes it: IPv6 in brackets. */
static void a_tcp_port_is_chosen_and_is_not_shared(void **state)
{
    (void)state;
    const char *const any[] = { "127.0.0.1:0", "[::1]:0" };
    for (size_t i = 0; i < (loopback_has_ipv6() ? 2 : 1); i++) {
        fixture f;
        begin_at(&f, any[i]);
        const char *address = pf_server_address(f.running.server);
        assert_string_not_equal(address, any[i]);
        assert_memory_equal(address, any[i], strlen(any[i]) - 1);
        pf_server *second = NULL;
        pf_error error;
        const pf_server_config config = { .address = address, .drafter = &f.echo.head };
        assert_status(pf_server_create(&config, &second, &error), PF_UNAVAILABLE);
        assert_says(error, "address in use");
        assert_says(error, address);

        pf_peer *peer = connected(address);
        assert_int_equal(say_open(peer, 1, ECHO_PROMPT, 3), PF_OK);
        assert_first_round(peer);
        pf_peer_destroy(peer);
        end(&f);
    }
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
        assert_int_equal(say_open(peers[i], 1, ECHO_PROMPT, 3), PF_OK);
    }
    const uint64_t begin_ns = pf_now_ns();
    end(&f);
    if (pf_now_ns() - begin_ns > 2 * SECOND) fail_msg("stopping took %.1f s", (double)(pf_now_ns() - begin_ns) * 1e-9);
    for (int i = 0; i < 3; i++) pf_peer_destroy(peers[i]);
}

/* A stream alone, however long the grace for sequences. */
static void a_server_without_open_sequences_stops_at_once(void **state)
{
    (void)state;
    fixture f;
    begin_with(&f, (pf_server_config){ .address = serving_address, .grace_ns = 60 * SECOND });
    pf_peer *peer = connected(serving_address);
    assert_int_equal(say_open(peer, 1, ECHO_PROMPT, 3), PF_OK);
    assert_first_round(peer);
    pf_close close = { .sequence = 1 };
    assert_int_equal(pf_peer_submit(peer, &(pf_batch){ .closes = &close, .n_closes = 1 }), PF_OK);
    while (f.echo.n_closes == 0) usleep(1000);
    const uint64_t begin_ns = pf_now_ns();
    end(&f);
    assert_true(pf_now_ns() - begin_ns < 30 * SECOND);
    pf_peer_destroy(peer);
}

static atomic_bool is_broken;

static pf_status break_down(pf_peer *peer, uint64_t deadline_ns, const pf_batch **out, pf_error *error)
{
    (void)peer;
    (void)deadline_ns;
    (void)out;
    return is_broken ? pf_fail(error, PF_INTERNAL, "out of order") : PF_CANCELLED;
}

/* However long the grace for sequences: no thread computes them any more. */
static void a_peer_that_fails_as_a_whole_ends_its_server_for_good(void **state)
{
    (void)state;
    for (int stops = 0; stops < 2; stops++) { /* it fails while the server serves; and while it stops */
        fixture f;
        pf_error error;
        echo_peer_init(&f.echo);
        pf_peer_ops broken = *f.echo.head.ops;
        broken.collect = break_down;
        f.echo.head.ops = &broken;
        is_broken = false;
        serving_begin(&f.running, &(pf_server_config){
                                      .address = serving_address, .drafter = &f.echo.head, .grace_ns = 60 * SECOND });
        pf_peer *peer = connected(serving_address);
        const uint64_t begin_ns = pf_now_ns();
        assert_int_equal(say_open(peer, 1, ECHO_PROMPT, 3), PF_OK);
        while (f.echo.n_open == 0) usleep(1000);
        if (stops) {
            pf_server_stop(f.running.server);
            usleep(200 * 1000); /* so that it has seen it */
        }
        is_broken = true;
        (void)say_verdict(peer, 1, 0, 9); /* may find it broken already */
        pthread_join(f.running.thread, NULL);
        assert_true(pf_now_ns() - begin_ns < 30 * SECOND);
        assert_int_equal(f.running.run_status, PF_INTERNAL);
        assert_string_equal(f.running.run_error.text, "out of order");
        assert_status(pf_server_run(f.running.server, NULL, &error), PF_INVALID);
        assert_says(error, "has been stopped");
        pf_server_destroy(f.running.server);
        pf_peer_destroy(peer);
    }
}

static void a_client_that_leaves_while_the_server_stops_causes_no_failure(void **state)
{
    (void)state;
    for (int i = 0; i < 30; i++) {
        fixture f;
        begin_with(&f, (pf_server_config){ .address = serving_address, .grace_ns = SECOND });
        pf_peer *peer = connected(serving_address);
        assert_int_equal(say_open(peer, 1, ECHO_PROMPT, 3), PF_OK);
        assert_first_round(peer);
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
        cmocka_unit_test(more_sequences_than_are_taken_are_refused_one_by_one),
        cmocka_unit_test(a_stream_that_ends_closes_its_sequences),
        cmocka_unit_test(a_message_may_be_as_large_as_the_server_says_and_no_larger),
        cmocka_unit_test(where_memory_is_scarce_messages_are_smaller),
        cmocka_unit_test(an_answer_larger_than_a_message_may_be_comes_in_several),
        cmocka_unit_test(verdicts_larger_than_a_message_may_be_come_in_several_answers),
        cmocka_unit_test(a_batch_larger_than_a_message_may_be_is_sent_in_several),
        cmocka_unit_test(a_connection_is_told_how_many_calls_it_may_have),
        cmocka_unit_test(calls_that_have_ended_do_not_count),
        cmocka_unit_test(pings_of_an_idle_client_are_answered_every_second),
        cmocka_unit_test(a_malformed_message_ends_its_own_stream_alone),
        cmocka_unit_test(what_does_not_fit_costs_its_own_sequence_alone),
        cmocka_unit_test(unknown_methods_and_services_are_said_to_be_unimplemented),
        cmocka_unit_test(health_follows_the_server),
        cmocka_unit_test(both_services_answer_to_their_names_on_the_wire),
        cmocka_unit_test(a_question_that_is_not_one_is_answered_with_what_is_wrong),
        cmocka_unit_test(a_health_watch_reports_that_the_server_stops),
        cmocka_unit_test(health_is_told_while_the_peer_computes),
        cmocka_unit_test(a_long_computation_gives_signs_of_life),
        cmocka_unit_test(an_endless_prompt_delays_no_other_client_and_stops_when_its_client_is_gone),
        cmocka_unit_test(a_server_stops_in_its_grace_period_with_a_prompt_without_end),
        cmocka_unit_test(a_server_that_stops_says_so_between_the_passes_of_a_prompt),
        cmocka_unit_test(messages_that_come_while_the_peer_computes_are_all_answered),
        cmocka_unit_test(queued_large_batches_delay_no_other_client),
        cmocka_unit_test(a_half_closed_stream_gets_every_answer_and_ends_with_ok),
        cmocka_unit_test(a_half_closed_stream_is_not_evicted_while_its_prompt_is_computed),
        cmocka_unit_test(a_health_watch_that_reads_late_gets_the_last_state),
        cmocka_unit_test(a_stream_that_waits_for_the_peer_keeps_its_place),
        cmocka_unit_test(an_idle_stream_is_evicted_while_the_prompt_of_another_is_computed),
        cmocka_unit_test(a_message_too_many_for_all_streams_together_ends_its_own),
        cmocka_unit_test(a_client_that_reads_no_answers_loses_its_stream),
        cmocka_unit_test(the_client_with_the_most_unread_answers_loses_its_stream),
        cmocka_unit_test(what_a_stream_said_before_its_end_takes_no_room_from_others),
        cmocka_unit_test(a_stream_that_ends_badly_is_not_told_that_it_ends_well),
        cmocka_unit_test(a_stream_that_does_not_read_its_end_is_evicted),
        cmocka_unit_test(a_server_takes_all_the_files_that_it_may),
        cmocka_unit_test(what_no_server_can_be_is_refused),
        cmocka_unit_test(an_address_that_cannot_be_listened_on_says_why),
        cmocka_unit_test(a_tcp_port_is_chosen_and_is_not_shared),
        cmocka_unit_test(the_socket_file_of_a_dead_process_is_taken_over),
        cmocka_unit_test(a_server_with_clients_stops_in_its_grace_period),
        cmocka_unit_test(a_server_without_open_sequences_stops_at_once),
        cmocka_unit_test(a_peer_that_fails_as_a_whole_ends_its_server_for_good),
        cmocka_unit_test(a_client_that_leaves_while_the_server_stops_causes_no_failure),
    };
    return cmocka_run_group_tests(tests, serving_make_directory, serving_remove_directory);
}
