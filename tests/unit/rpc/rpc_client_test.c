/* A client before a real server: one that is slow, restarted, mute, wrong, not there yet, or not at all. */
#include <pthread.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "rpc/client/client.h"
#include "tests/support/echo_server.h"
#include "tests/support/delay_proxy.h"
#include "tests/support/test.h"

/* A server and its client, which has opened sequence 1. is_mute: the worker answers to nothing. */
static pf_peer *begin_opened(fixture *f, bool is_mute)
{
    begin(f);
    f->echo.is_mute = is_mute;
    pf_peer *peer = connected(serving_address);
    assert_status(say_open(peer, 1, ECHO_PROMPT, 3), PF_OK);
    return peer;
}

static void an_answer_that_does_not_come_costs_the_deadline_and_no_more(void **state)
{
    (void)state;
    fixture f;
    pf_peer *peer = begin_opened(&f, false); /* an open alone asks for nothing */
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

/* Rounds of a target that is faster than its worker and does not wait for it, until a verdict is not taken; 60 at most. */
static uint64_t rounds_without_waiting(void)
{
    fixture f;
    pf_peer *peer = begin_opened(&f, true);
    const pf_batch *batch;
    pf_error error;
    uint64_t round = 0;
    for (; round < 60; round++) {
        const pf_status status = say_verdict(peer, 1, round, 5);
        if (status == PF_LIMIT) break;
        assert_status(status, PF_OK);
        assert_status(pf_peer_collect(peer, 0, &batch, &error), PF_CANCELLED);
        usleep(100);
    }
    pf_peer_destroy(peer);
    end(&f);
    return round;
}

/* Tried again, since the background thread may hold the queue while another process has its CPU: nothing is sent then. */
static void a_worker_that_reads_is_not_reported_as_stalled_to_a_caller_that_never_waits(void **state)
{
    (void)state;
    uint64_t rounds = 0;
    for (int i = 0; i < 10 && rounds < 60; i++) rounds = rounds_without_waiting();
    assert_int_equal(rounds, 60);
}

/* As one that never looks, since others have its core. */
static void a_delay_without_polls_is_not_attributed_to_the_worker(void **state)
{
    (void)state;
    fixture f;
    pf_peer *peer = begin_opened(&f, true);
    uint64_t n = 0;
    pf_status status = PF_OK;
    for (; n < 60 && status == PF_OK; n++) status = say_verdict(peer, 1, n, 5);
    if (status != PF_OK) assert_status(status, PF_LIMIT);
    pf_close close = { .sequence = 1 }; /* has room behind them all */
    assert_status(pf_peer_submit(peer, &(pf_batch){ .closes = &close, .n_closes = 1 }), PF_OK);
    for (int i = 0; i < 5000 && f.echo.n_closes == 0; i++) usleep(1000);
    assert_int_equal(f.echo.n_closes, 1);
    assert_status(say_open(peer, 2, ECHO_PROMPT, 3), PF_OK);
    pf_rpc_client_stats stats;
    pf_rpc_client_get_stats(peer, &stats);
    assert_int_equal(stats.n_streams, 1);
    pf_peer_destroy(peer);
    end(&f);
}

/* Nanoseconds from a server's start, in the place of one that was stopped, to the first open that its client takes. */
static uint64_t restart(void)
{
    fixture f;
    pf_peer *peer = begin_opened(&f, false);
    assert_first_round(peer);
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
    while (say_open(peer, 1, ECHO_PROMPT, 3) != PF_OK) {
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

static void an_untaken_answer_is_dropped_with_its_stream(void **state)
{
    (void)state;
    fixture f;
    pf_peer *peer = begin_opened(&f, false);
    f.echo.thinks_ms = 5;
    assert_int_equal(say_verdict(peer, 1, 0, 9), PF_OK);
    const pf_batch *batch = NULL;
    pf_error error, why = { .text = "" };
    assert_status(pf_peer_collect(peer, 0, &batch, &error), PF_CANCELLED); /* it is asked for */
    pf_rpc_client_stats stats = { 0 };
    for (int i = 0; i < 5000 && stats.n_received == 0; i++) {
        usleep(1000);
        pf_rpc_client_get_stats(peer, &stats);
    }
    assert_int_equal(stats.n_received, 1);
    end(&f);
    for (int i = 0; i < 5000 && !strstr(why.text, "the stream broke"); i++) {
        usleep(1000);
        pf_peer_why(peer, &why);
    }
    assert_status(pf_peer_collect(peer, pf_now_ns() + SECOND, &batch, &error), PF_UNAVAILABLE);
    assert_null(batch);
    pf_peer_destroy(peer);
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
    pf_peer *peer = begin_opened(&f, true);
    assert_int_equal(say_open(peer, 2, ECHO_PROMPT, 3), PF_OK);
    uint64_t n = 0;
    const pf_batch *batch;
    pf_error error;
    for (; n < 200 && say_verdict(peer, 1, n, 9) == PF_OK; n++)
        assert_status(pf_peer_collect(peer, pf_now_ns() + MS, &batch, &error), PF_CANCELLED);
    assert_int_equal(n, 64);
    assert_int_equal(say_verdict(peer, 1, n, 9), PF_LIMIT);
    assert_int_equal(say_open(peer, 3, ECHO_PROMPT, 3), PF_LIMIT);
    pf_close end_of_two = { .sequence = 2 }; /* a server that gets no end keeps a place for it */
    assert_int_equal(pf_peer_submit(peer, &(pf_batch){ .closes = &end_of_two, .n_closes = 1 }), PF_OK);
    for (int i = 0; i < 5000 && f.echo.n_swallowed < 64; i++) usleep(1000);
    f.echo.is_mute = false;
    for (int i = 0; i < 5000 && say_verdict(peer, 1, n, 9) == PF_LIMIT; i++) usleep(1000);
    assert_proposal(answer_within(peer, 5 * SECOND), 1, n + 1, 9); /* one a second is let through */
    assert_int_equal(say_verdict(peer, 1, n + 1, 9), PF_OK);
    assert_int_equal(f.echo.n_closes, 1);
    assert_int_equal(f.echo.n_open, 1);
    pf_peer_destroy(peer);
    end(&f);
}

static void a_verifier_that_answers_nothing_is_sent_no_more_either(void **state)
{
    (void)state;
    fixture f;
    begin_with(&f, (pf_server_config){ .address = serving_address, .verifier = &f.echo.head });
    f.echo.is_mute = true;
    pf_peer *peer = NULL;
    pf_error error;
    assert_ok(pf_rpc_verifier_connect(serving_address, NULL, &peer, &error), error);
    assert_int_equal(say_open(peer, 1, ECHO_PROMPT, 3), PF_OK);
    pf_proposal proposal = { .sequence = 1, .incarnation = 1, .round = 1, .base = 4 };
    const pf_batch batch = { .proposals = &proposal, .n_proposals = 1 }, *answer;
    int32_t n = 0;
    for (; n < 200 && pf_peer_submit(peer, &batch) == PF_OK; n++)
        assert_status(pf_peer_collect(peer, pf_now_ns() + MS, &answer, &error), PF_CANCELLED);
    assert_int_equal(n, 64);
    pf_peer_destroy(peer);
    end(&f);
}

static void what_a_broken_stream_left_unanswered_does_not_count_on_the_next(void **state)
{
    (void)state;
    fixture f;
    pf_peer *peer = begin_opened(&f, true);
    const pf_batch *batch;
    pf_error error;
    pf_status status = PF_OK;
    for (uint64_t n = 0; n < 200 && status == PF_OK; n++) {
        assert_status(pf_peer_collect(peer, pf_now_ns() + MS, &batch, &error), PF_CANCELLED);
        status = say_verdict(peer, 1, n, 9);
    }
    assert_status(status, PF_LIMIT);
    end(&f);
    begin(&f);
    for (int i = 0; i < 5000 && say_open(peer, 1, ECHO_PROMPT, 3) != PF_OK; i++) usleep(1000);
    for (uint64_t round = 0; round < 3; round++) assert_int_equal(say_verdict(peer, 1, round, 9), PF_OK);
    pf_peer_destroy(peer);
    end(&f);
}

static void a_malformed_answer_closes_the_stream_and_names_the_field(void **state)
{
    (void)state;
    fixture f;
    pf_peer *peer = begin_opened(&f, false);
    f.echo.violates_protocol = true;
    assert_int_equal(say_verdict(peer, 1, 0, 9), PF_OK);
    const pf_batch *batch = NULL;
    pf_error error, why = { .text = "" };
    assert_status(pf_peer_collect(peer, pf_now_ns() + 5 * SECOND, &batch, &error), PF_UNAVAILABLE);
    assert_says(error, serving_address);
    assert_says(error, "protocol violation: proposals[0].incarnation is 0, expected 1 to");
    assert_int_equal(say_open(peer, 1, ECHO_PROMPT, 3), PF_UNAVAILABLE);
    pf_peer_why(peer, &why); /* the stream's end, which comes behind it, says it too */
    assert_says(why, "proposals[0].incarnation is 0");

    f.echo.violates_protocol = false;
    assert_taken_up(peer);
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
    assert_int_equal(say_open(peer, 1, ECHO_PROMPT, 3), PF_OK);
    pf_proposal proposal = { .sequence = 1, .incarnation = 1, .round = 1, .base = 4 };
    assert_int_equal(pf_peer_submit(peer, &(pf_batch){ .proposals = &proposal, .n_proposals = 1 }), PF_OK);
    const pf_batch *batch = NULL;
    assert_status(pf_peer_collect(peer, pf_now_ns() + 5 * SECOND, &batch, &error), PF_UNAVAILABLE);
    assert_says(error, "protocol violation: a Verifier takes proposals, it makes none");
    assert_null(batch);
    pf_peer_destroy(peer);
    end(&f);
}

static void a_drafter_that_makes_verdicts_is_hung_up_on(void **state)
{
    (void)state;
    fixture f;
    begin(&f);
    f.echo.makes_verdicts = true;
    pf_peer *peer = connected(serving_address);
    assert_int_equal(say_open(peer, 1, ECHO_PROMPT, 3), PF_OK);
    assert_int_equal(say_verdict(peer, 1, 0, 9), PF_OK);
    const pf_batch *batch = NULL;
    pf_error error;
    assert_status(pf_peer_collect(peer, pf_now_ns() + 5 * SECOND, &batch, &error), PF_UNAVAILABLE);
    assert_says(error, "protocol violation: a Drafter takes verdicts, it makes none");
    assert_null(batch);
    pf_peer_destroy(peer);
    end(&f);
}

static void a_caller_that_only_submits_is_mended_too(void **state)
{
    (void)state;
    fixture f;
    pf_peer *peer = begin_opened(&f, false);
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
        status = say_open(peer, 1, ECHO_PROMPT, 3); /* the first says that the old one broke */
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

static void a_missing_server_is_an_error_within_two_seconds(void **state)
{
    (void)state;
    pf_peer *peer = NULL;
    pf_error error;
    const uint64_t begin_ns = pf_now_ns();
    assert_status(pf_rpc_drafter_connect("unix:/tmp/pf-no-server-here", NULL, &peer, &error), PF_UNAVAILABLE);
    assert_says(error, "unix:/tmp/pf-no-server-here");
    assert_status(pf_rpc_drafter_connect("127.0.0.1:9", NULL, &peer, &error), PF_UNAVAILABLE);
    assert_says(error, "127.0.0.1:9");
    assert_true(pf_now_ns() - begin_ns < 4 * SECOND);
    for (int i = 0; i < 4 && strstr(error.text, "in time"); i++) /* late for want of a core says nothing */
        assert_status(pf_rpc_drafter_connect("unix:/tmp/pf-no-server-here", NULL, &peer, &error), PF_UNAVAILABLE);
    assert_null(strstr(error.text, "in time")); /* it was refused */
    assert_null(peer);
    assert_status(pf_rpc_drafter_connect("malformed", NULL, &peer, &error), PF_INVALID);
    assert_says(error, "host:port");
    assert_status(pf_rpc_drafter_connect("localhost:70000", NULL, &peer, &error), PF_INVALID);
    assert_status(pf_rpc_drafter_connect("unix:/tmp/a,b", NULL, &peer, &error), PF_INVALID);
    assert_says(error, "no comma");
}

/* In a URI, which gRPC takes, the half of them would be another path. */
static void whatever_path_a_server_listens_at_its_client_finds(void **state)
{
    (void)state;
    static const char *const ends[] = { "%41", "%", "?b", "#c", " \\:[@]\"\xc3\xa9\n" };
    char address[128];
    for (size_t i = 0; i < 2 * PF_COUNT(ends); i++) {
        const bool has_slashes = i >= PF_COUNT(ends);
        snprintf(address, sizeof address, "unix:%s%s%s", has_slashes ? "//" : "", serving_path,
                 ends[i % PF_COUNT(ends)]);
        fixture f;
        begin_at(&f, address);
        pf_peer *peer = connected(address);
        assert_int_equal(say_open(peer, 1, ECHO_PROMPT, 3), PF_OK);
        assert_first_round(peer);
        pf_peer_destroy(peer);
        end(&f);
    }
}

/* A socket at serving_path that takes connections. */
static int listening(void)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    strcpy(name.sun_path, serving_path);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&name, sizeof name), 0);
    assert_int_equal(listen(fd, 8), 0);
    return fd;
}

typedef struct {
    fixture served;
    int mute, first; /* sockets: one that listens and never answers, and the first client */
} late_server;

/* Takes a connection and says nothing on it; the next client is served. */
static void *miss_the_first(void *arg)
{
    late_server *s = arg;
    s->first = accept(s->mute, NULL, NULL);
    close(s->mute);
    assert_int_equal(unlink(serving_path), 0);
    begin(&s->served);
    return NULL;
}

static void a_first_connection_that_is_lost_is_followed_by_another(void **state)
{
    (void)state;
    late_server s = { .mute = listening() };
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, miss_the_first, &s), 0);
    const pf_rpc_client_config config = { .connect_timeout_ns = 60 * SECOND }; /* however loaded the machine is */
    pf_peer *peer = NULL;
    pf_error error;
    assert_ok(pf_rpc_drafter_connect(serving_address, &config, &peer, &error), error);
    pthread_join(thread, NULL);
    pf_peer_destroy(peer);
    end(&s.served);
    close(s.first);
}

/* To connect through it takes 0.8 s, which is more than a first attempt has, and every answer as long. */
static void a_line_that_is_slow_is_waited_for(void **state)
{
    (void)state;
    char path[sizeof serving_path + 8], address[sizeof path + 8];
    snprintf(path, sizeof path, "%s.slow", serving_path);
    snprintf(address, sizeof address, "unix:%s", path);
    fixture f;
    begin(&f);
    delay_proxy *line = delay_proxy_begin(path, serving_path, 400);
    pf_peer *peer = connected(address);
    assert_int_equal(say_open(peer, 1, ECHO_PROMPT, 3), PF_OK);
    assert_first_round(peer);
    pf_peer_destroy(peer);
    delay_proxy_end(line);
    end(&f);
}

static void a_server_that_never_answers_is_unavailable_at_the_deadline_or_when_cancelled(void **state)
{
    (void)state;
    const int mute = listening();
    pf_rpc_client_config config = { .connect_timeout_ns = SECOND };
    pf_peer *peer = NULL;
    pf_error error;
    assert_status(pf_rpc_verifier_connect(serving_address, &config, &peer, &error), PF_UNAVAILABLE);
    assert_says(error, "no answer in time");

    const volatile bool told = true;
    config = (pf_rpc_client_config){ .connect_timeout_ns = 60 * SECOND, .cancel = &told };
    uint64_t begin_ns = pf_now_ns();
    assert_status(pf_rpc_verifier_connect(serving_address, &config, &peer, &error), PF_CANCELLED);
    assert_true(pf_now_ns() - begin_ns < 10 * SECOND);
    assert_null(peer);

    /* An optional server is asked no second time. */
    config = (pf_rpc_client_config){ .connect_timeout_ns = 60 * SECOND, .keep_trying = true };
    begin_ns = pf_now_ns();
    assert_status(pf_rpc_drafter_connect(serving_address, &config, &peer, &error), PF_UNAVAILABLE);
    assert_true(pf_now_ns() - begin_ns < 10 * SECOND);
    assert_says(error, "no answer in time");
    pf_peer_destroy(peer);
    close(mute);
    unlink(serving_path);
}

typedef struct {
    int listener, n_questions;
} full_server;

/* Every question of a connection is answered by status 8, RESOURCE_EXHAUSTED. */
static void turn_away_all_of(full_server *s, int fd)
{
    static const uint8_t settings[18] = { [3] = 4, [12] = 4, [13] = 1 }; /* ours; theirs are acknowledged */
    static const uint8_t end[] = "\x88\0\14content-type\20application/grpc\0\13grpc-status\1"
                                 "8\0\14grpc-message\11try again";
    static uint8_t head[9], body[1 << 14];
    (void)send(fd, settings, sizeof settings, MSG_NOSIGNAL);
    (void)recv(fd, body, 24, MSG_WAITALL); /* the preface */
    while (recv(fd, head, sizeof head, MSG_WAITALL) == sizeof head) {
        const size_t n = (size_t)head[1] << 8 | head[2];
        if (n > 0 && recv(fd, body, n, MSG_WAITALL) != (ssize_t)n) return;
        if (head[3] != 1) continue; /* HEADERS */
        const uint8_t reply[] = { 0, 0, sizeof end - 1, 1, 5, head[5], head[6], head[7], head[8] };
        s->n_questions++;
        (void)send(fd, reply, sizeof reply, MSG_NOSIGNAL);
        (void)send(fd, end, sizeof end - 1, MSG_NOSIGNAL);
    }
}

static void *turn_away_all(void *arg)
{
    full_server *s = arg;
    for (int fd; (fd = accept(s->listener, NULL, NULL)) >= 0; close(fd)) turn_away_all_of(s, fd);
    return NULL;
}

static void a_server_that_refuses_all_calls_is_asked_again_and_reported(void **state)
{
    (void)state;
    full_server s = { .listener = listening() };
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, turn_away_all, &s), 0);
    const pf_rpc_client_config config = { .connect_timeout_ns = 2 * SECOND };
    pf_peer *peer = NULL;
    pf_error error;
    assert_status(pf_rpc_verifier_connect(serving_address, &config, &peer, &error), PF_UNAVAILABLE);
    for (int i = 0; i < 4 && strstr(error.text, "in time"); i++) /* late for want of a core says nothing */
        assert_status(pf_rpc_verifier_connect(serving_address, &config, &peer, &error), PF_UNAVAILABLE);
    assert_says(error, "it rejects the call, having too many (try again)");
    assert_null(peer);
    assert_int_equal(shutdown(s.listener, SHUT_RDWR), 0);
    pthread_join(thread, NULL);
    assert_true(s.n_questions > 1);
    close(s.listener);
    unlink(serving_path);
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
    for (int i = 0; i < 5000 && say_open(peer, 1, ECHO_PROMPT, 3) != PF_OK; i++) usleep(1000);
    assert_ok(pf_peer_info(peer, &info, &error), error);
    assert_string_equal(info.model_id, "echo");
    assert_int_equal(info.vocab_size, ECHO_VOCAB);
    pf_peer_destroy(peer);
    end(&f);
}

/* A drafter and a verifier that say so of themselves. */
static void begin_another(fixture *f, const char *model_id, int32_t vocab_size, uint8_t fingerprint)
{
    echo_peer_init(&f->echo);
    f->echo.model_id = model_id;
    f->echo.vocab_size = vocab_size;
    f->echo.fingerprint = fingerprint;
    const pf_server_config serving = {
        .address = serving_address, .drafter = &f->echo.head, .verifier = &f->echo.head, .grace_ns = MS
    };
    serving_begin(&f->running, &serving);
}

static void a_client_that_keeps_trying_treats_a_malformed_answer_as_no_server(void **state)
{
    (void)state;
    const pf_rpc_client_config config = { .keep_trying = true };
    pf_peer *peer = NULL;
    pf_error error;
    fixture f;
    begin_another(&f, "echo", 0, 0);
    assert_status(pf_rpc_drafter_connect(serving_address, NULL, &peer, &error), PF_FORMAT);
    assert_null(peer);
    assert_status(pf_rpc_drafter_connect(serving_address, &config, &peer, &error), PF_FORMAT);
    assert_says(error, "vocab_size is 0");
    assert_non_null(peer);
    assert_int_equal(say_open(peer, 1, ECHO_PROMPT, 3), PF_UNAVAILABLE);
    end(&f);
    begin(&f);
    assert_taken_up(peer);
    pf_peer_destroy(peer);
    end(&f);
}

/* A verifier's address given as the worker's, or a proxy whose worker is not up yet. */
static void a_client_that_keeps_trying_treats_another_service_as_no_server(void **state)
{
    (void)state;
    const pf_rpc_client_config config = { .keep_trying = true };
    pf_peer *peer = NULL;
    pf_error error;
    fixture f;
    echo_peer_init(&f.echo);
    const pf_server_config serving = { .address = serving_address, .verifier = &f.echo.head, .grace_ns = MS };
    serving_begin(&f.running, &serving);
    assert_status(pf_rpc_drafter_connect(serving_address, &config, &peer, &error), PF_FORMAT);
    assert_says(error, "this service is not offered there");
    assert_non_null(peer);
    end(&f);
    begin(&f);
    assert_taken_up(peer);
    pf_peer_destroy(peer);
    end(&f);
}

typedef pf_status connect_fn(const char *address, const pf_rpc_client_config *config, pf_peer **out, pf_error *error);

/* Whether a client whose server has gone takes another of this name; error: why not. */
static bool takes_another(connect_fn *connect_to, const char *model_id, pf_error *error)
{
    fixture f;
    begin_another(&f, "echo", ECHO_VOCAB, 0);
    pf_peer *peer = NULL;
    assert_ok(connect_to(serving_address, NULL, &peer, error), *error);
    end(&f);
    const pf_batch *batch = NULL;
    assert_status(pf_peer_collect(peer, pf_now_ns() + 5 * SECOND, &batch, error), PF_UNAVAILABLE);

    begin_another(&f, model_id, ECHO_VOCAB, 0);
    bool taken = false;
    for (const uint64_t until = pf_now_ns() + 10 * SECOND; !taken && pf_now_ns() < until; usleep(1000)) {
        pf_peer_why(peer, error);
        if (strstr(error->text, "another model is served there now")) break;
        taken = say_open(peer, 1, ECHO_PROMPT, 3) == PF_OK;
    }
    pf_peer_destroy(peer);
    end(&f);
    return taken;
}

/* A draft is a guess, whichever model makes it; a text is one target's. */
static void another_drafter_of_the_vocabulary_is_taken_up_and_another_verifier_is_not(void **state)
{
    (void)state;
    pf_error error;
    assert_true(takes_another(pf_rpc_drafter_connect, "echo", &error));
    assert_true(takes_another(pf_rpc_drafter_connect, "other", &error));
    assert_true(takes_another(pf_rpc_verifier_connect, "echo", &error));
    assert_false(takes_another(pf_rpc_verifier_connect, "other", &error));
    assert_says(error, "another model is served there now: other with 100000 tokens, expected echo with 100000");
}

static void another_model_in_the_same_place_is_not_taken_up_and_the_first_one_is(void **state)
{
    (void)state;
    static const struct {
        int32_t vocab_size;
        uint8_t fingerprint;
        const char *refusal;
    } others[] = {
        { ECHO_VOCAB - 1, 0, "another model is served there now: echo with 99999 tokens, expected echo with 100000" },
        { ECHO_VOCAB, 1,
          "another model is served there now: echo with 100000 tokens, expected echo with 100000 other ones" },
    };
    fixture f;
    begin(&f);
    pf_peer *peer = connected(serving_address);
    end(&f);
    const pf_batch *batch = NULL;
    pf_error error = { .text = "" };
    assert_status(pf_peer_collect(peer, pf_now_ns() + 5 * SECOND, &batch, &error), PF_UNAVAILABLE);
    for (size_t i = 0; i < PF_COUNT(others); i++) {
        begin_another(&f, "echo", others[i].vocab_size, others[i].fingerprint);
        error.text[0] = 0;
        for (const uint64_t until = pf_now_ns() + 10 * SECOND;
             !strstr(error.text, others[i].refusal) && pf_now_ns() < until; usleep(1000)) {
            assert_int_equal(say_open(peer, 1, ECHO_PROMPT, 3), PF_UNAVAILABLE);
            pf_peer_why(peer, &error);
        }
        assert_says(error, others[i].refusal);
        end(&f);
    }
    begin(&f);
    assert_taken_up(peer);
    pf_peer_destroy(peer);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_that_does_not_come_costs_the_deadline_and_no_more),
        cmocka_unit_test(a_worker_that_reads_is_not_reported_as_stalled_to_a_caller_that_never_waits),
        cmocka_unit_test(a_delay_without_polls_is_not_attributed_to_the_worker),
        cmocka_unit_test(an_untaken_answer_is_dropped_with_its_stream),
        cmocka_unit_test(a_restarted_server_is_taken_up_again_within_a_second),
        cmocka_unit_test(a_server_that_answers_nothing_is_sent_no_more_than_its_socket_holds),
        cmocka_unit_test(a_verifier_that_answers_nothing_is_sent_no_more_either),
        cmocka_unit_test(what_a_broken_stream_left_unanswered_does_not_count_on_the_next),
        cmocka_unit_test(a_malformed_answer_closes_the_stream_and_names_the_field),
        cmocka_unit_test(a_verifier_that_makes_proposals_is_hung_up_on),
        cmocka_unit_test(a_drafter_that_makes_verdicts_is_hung_up_on),
        cmocka_unit_test(a_caller_that_only_submits_is_mended_too),
        cmocka_unit_test(a_missing_server_is_an_error_within_two_seconds),
        cmocka_unit_test(whatever_path_a_server_listens_at_its_client_finds),
        cmocka_unit_test(a_first_connection_that_is_lost_is_followed_by_another),
        cmocka_unit_test(a_line_that_is_slow_is_waited_for),
        cmocka_unit_test(a_server_that_never_answers_is_unavailable_at_the_deadline_or_when_cancelled),
        cmocka_unit_test(a_server_that_refuses_all_calls_is_asked_again_and_reported),
        cmocka_unit_test(a_client_that_keeps_trying_meets_a_server_that_comes_later),
        cmocka_unit_test(a_client_that_keeps_trying_treats_a_malformed_answer_as_no_server),
        cmocka_unit_test(a_client_that_keeps_trying_treats_another_service_as_no_server),
        cmocka_unit_test(another_drafter_of_the_vocabulary_is_taken_up_and_another_verifier_is_not),
        cmocka_unit_test(another_model_in_the_same_place_is_not_taken_up_and_the_first_one_is),
    };
    return cmocka_run_group_tests(tests, serving_make_directory, serving_remove_directory);
}
