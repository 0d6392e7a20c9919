/*
 * What raw clients do to a server below the level of messages, in HTTP/2 frames of their own making: connections that say
 * nothing, streams that are opened and dropped, messages that never end. Others are served meanwhile, memory stays
 * bounded, and the server stops when it is told to.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "rpc/client/client.h"
#include "rpc/server/server.h"
#include "tests/support/unresponsive_peer.h"
#include "tests/support/raw_call.h"
#include "tests/support/running_server.h"
#include "tests/support/raw_client.h"
#include "tests/support/test.h"

enum { MS = 1000 * 1000, MESSAGE_BYTES = 1 << 20 };
enum { WAIT_MS = 10 * 1000 }; /* for what comes in milliseconds where no other process has the CPU */
static const uint64_t SECOND = 1000u * MS, WAIT_NS = (uint64_t)WAIT_MS * MS;
static const char DRAFT[] = "/pilotfish.v1.Drafter/Draft";

/* ---- a peer that has nothing to say, and its server -------------------------------------------------------------- */

typedef struct {
    pf_peer peer;
    running_server running;
} fixture;

static void begin(fixture *f, int32_t max_streams)
{
    *f = (fixture){ .peer.ops = &unresponsive_peer_ops };
    const pf_server_config config = { .address = serving_address,
                                      .drafter = &f->peer,
                                      .max_message_bytes = MESSAGE_BYTES,
                                      .max_streams = max_streams,
                                      .grace_ns = 20 * MS };
    serving_begin(&f->running, &config);
}

/* The server stops within two seconds, whichever clients are connected. */
static void end(fixture *f)
{
    const uint64_t begin_ns = pf_now_ns();
    serving_end(&f->running);
    const uint64_t took = pf_now_ns() - begin_ns;
    if (took > 2 * SECOND) fail_msg("stopping took %.1f s", (double)took * 1e-9);
}

/* The server is there, and says what it is within the client's two seconds. */
static pf_peer *connected(void)
{
    pf_peer *peer = NULL;
    pf_error error;
    assert_ok(pf_rpc_drafter_connect(serving_address, NULL, &peer, &error), error);
    return peer;
}

static void assert_served(void)
{
    pf_peer_destroy(connected());
}

/* One that tries until it is served. */
static pf_peer *patient(void)
{
    pf_peer *peer = NULL;
    pf_error error;
    const pf_rpc_client_config config = { .keep_trying = true };
    const pf_status status = pf_rpc_drafter_connect(serving_address, &config, &peer, &error);
    assert_true(status == PF_OK || status == PF_UNAVAILABLE); /* not yet */
    return peer;
}

/* Whether the stream of a connected peer stands for a while. */
static bool is_up(pf_peer *peer, uint64_t wait_ns, pf_error *error)
{
    const pf_batch *batch;
    const pf_status status = pf_peer_collect(peer, pf_now_ns() + wait_ns, &batch, error);
    assert_true(status == PF_CANCELLED || status == PF_UNAVAILABLE);
    return status == PF_CANCELLED;
}

/* All of them at once: a client whose stream was refused tries again every 100 ms. */
static void assert_all_come_up(pf_peer **peers, int n)
{
    pf_error error = { .text = "" };
    bool up = false;
    for (const uint64_t until = pf_now_ns() + WAIT_NS; !up && pf_now_ns() < until; usleep(10 * 1000)) {
        up = true;
        for (int i = 0; i < n; i++) up &= is_up(peers[i], 50 * MS, &error);
    }
    if (!up) fail_msg("%s", error.text);
}

static size_t resident_bytes(void)
{
    char line[128], *resident;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    fclose(file);
    (void)strtoul(line, &resident, 10); /* all pages */
    return (size_t)strtoul(resident, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

/* ---- claims ------------------------------------------------------------------------------------------------------ */

static void silent_and_incomplete_connections_block_no_client(void **state)
{
    (void)state;
    enum { N = 150 };
    fixture f;
    begin(&f, 0);
    int fds[N];
    for (int i = 0; i < N; i++) {
        fds[i] = raw_client_dial();
        if (i % 3 == 1) assert_true(raw_client_push(fds[i], "PRI * HTTP/2.0\r\n", 16));
        if (i % 3 == 2) assert_true(raw_client_push_preface(fds[i]));
        if (i % 6 == 5) assert_true(raw_client_open_stream(fds[i], 1, DRAFT));          /* and nothing more */
        if (i % 12 == 11) assert_true(raw_client_push_frame(fds[i], 0, 1, 1, NULL, 0)); /* half closed */
    }
    assert_served();
    end(&f);
    for (int i = 0; i < N; i++) assert_true(raw_client_is_disconnected(fds[i], 0));
    for (int i = 0; i < N; i++) close(fds[i]);
}

/* Descriptors of this process; of them those that a program which it starts would have too. */
static int count_descriptors(int *n_inherited)
{
    int n = 0;
    *n_inherited = 0;
    for (int fd = 0; fd < 1024; fd++) {
        const int flags = fcntl(fd, F_GETFD);
        n += flags >= 0;
        *n_inherited += flags >= 0 && !(flags & FD_CLOEXEC);
    }
    return n;
}

static void descriptors_of_a_server_are_not_inherited_and_close_with_it(void **state)
{
    (void)state;
    int n_after[2], n_inherited_before, n_inherited;
    for (int again = 0; again < 2; again++) { /* a few gRPC keeps of the first */
        fixture f;
        const int n_before = count_descriptors(&n_inherited_before);
        begin(&f, 0);
        const int mute = raw_client_dial(), idle = raw_client_dial();
        assert_true(raw_client_push_preface(idle));
        assert_served();
        assert_true(count_descriptors(&n_inherited) > n_before);
        assert_int_equal(n_inherited, n_inherited_before);
        end(&f);
        close(mute);
        close(idle);
        n_after[again] = count_descriptors(&n_inherited);
    }
    assert_int_equal(n_after[1], n_after[0]);
}

static void open_sequence(pf_peer *peer)
{
    const int32_t token = 1;
    pf_open open = {
        .sequence = 1, .incarnation = 1, .tokens = &token, .n_tokens = 1, .method = PF_METHOD_GREEDY, .max_draft = 1
    };
    assert_int_equal(pf_peer_submit(peer, &(pf_batch){ .opens = &open, .n_opens = 1 }), PF_OK);
}

static void close_sequence(pf_peer *peer)
{
    pf_close close = { .sequence = 1 };
    assert_int_equal(pf_peer_submit(peer, &(pf_batch){ .closes = &close, .n_closes = 1 }), PF_OK);
}

static void streams_with_sequences_keep_their_places_until_those_end(void **state)
{
    (void)state;
    fixture f;
    pf_error error;
    begin(&f, 2);
    pf_peer *a = connected(), *b = connected();
    open_sequence(a);
    open_sequence(b);
    assert_true(is_up(a, 100 * MS, &error) && is_up(b, 100 * MS, &error));
    pf_peer *c = connected(); /* what it is may be asked; its stream is refused */
    assert_false(is_up(c, WAIT_NS, &error));
    assert_non_null(strstr(error.text, "as many streams are open as are taken"));
    close_sequence(a);
    assert_all_come_up(&c, 1);
    open_sequence(c);
    assert_false(is_up(a, WAIT_NS, &error));
    assert_non_null(strstr(error.text, "this one has no sequence open"));
    assert_true(is_up(b, 100 * MS, &error) && is_up(c, 100 * MS, &error));
    pf_peer_destroy(b);
    assert_all_come_up(&a, 1);
    pf_peer_destroy(a);
    pf_peer_destroy(c);
    end(&f);
}

/* The server has taken all that the peer has said: a verdict of no sequence is answered. */
static void await_processed(pf_peer *peer)
{
    static const int32_t token = 9;
    pf_verdict verdict = { .sequence = 7, .incarnation = 1, .tokens = &token, .n_tokens = 1 };
    const pf_batch *batch = NULL;
    assert_int_equal(pf_peer_submit(peer, &(pf_batch){ .verdicts = &verdict, .n_verdicts = 1 }), PF_OK);
    assert_int_equal(pf_peer_collect(peer, pf_now_ns() + 5 * SECOND, &batch, NULL), PF_OK);
    assert_non_null(batch);
}

/* Since when is not when it began. */
static void the_stream_that_is_idle_for_longest_is_evicted(void **state)
{
    (void)state;
    for (int again = 0; again < 2; again++) {
        fixture f;
        pf_error error;
        begin(&f, 2);
        pf_peer *busy = connected(), *other = again ? NULL : connected();
        open_sequence(busy);
        await_processed(busy);
        if (other) await_processed(other);
        close_sequence(busy);
        await_processed(busy);
        if (again) other = connected();
        close_sequence(again ? busy : other); /* one that it does not have: nothing begins again */
        await_processed(again ? busy : other);
        await_processed(other);
        pf_peer *third = connected();
        assert_true(is_up(again ? other : busy, 100 * MS, &error));
        assert_false(is_up(again ? busy : other, WAIT_NS, &error));
        pf_peer_destroy(third);
        pf_peer_destroy(other);
        pf_peer_destroy(busy);
        end(&f);
    }
}

/* Calls of one connection, with or without what they ask. */
static int contention_in(const char *path, uint32_t n, bool say)
{
    const int fd = raw_client_dial();
    assert_true(raw_client_push_preface(fd));
    for (uint32_t i = 0; i < n; i++) {
        assert_true(raw_client_open_stream(fd, 2 * i + 1, path));
        if (say) assert_true(raw_client_push_frame(fd, 0, 1, 2 * i + 1, "\0\0\0\0", 5)); /* empty, half closed */
    }
    usleep(100 * 1000);
    return fd;
}

/* Two clients are served: each asks what is there, and has a stream with a sequence. The client at `fd` receives the reason for its end. */
static void assert_two_get_in(int fd)
{
    static const char why[] = "evicted for another";
    pf_peer *peers[2] = { patient(), NULL };
    assert_all_come_up(peers, 1);
    open_sequence(peers[0]);
    peers[1] = patient();
    assert_all_come_up(peers, 2);
    open_sequence(peers[1]);
    assert_all_come_up(peers, 2);
    assert_true(raw_client_receives(fd, why, strlen(why), WAIT_MS));
    pf_peer_destroy(peers[0]);
    pf_peer_destroy(peers[1]);
}

enum { MOST_STREAMS = 2, MOST_CALLS = MOST_STREAMS + 64 };

static void silent_streams_are_evicted(void **state)
{
    (void)state;
    fixture f;
    begin(&f, MOST_STREAMS);
    const int fd = contention_in(DRAFT, MOST_STREAMS, false);
    assert_two_get_in(fd);
    end(&f);
    close(fd);
}

static void watches_take_free_places_and_are_evicted(void **state)
{
    (void)state;
    fixture f;
    begin(&f, MOST_STREAMS);
    const int fd = contention_in("/grpc.health.v1.Health/Watch", MOST_CALLS, true);
    const int late = contention_in("/grpc.health.v1.Health/Watch", 1, true);
    static const char why[] = "as many calls are open as are taken";
    assert_true(raw_client_receives(late, why, strlen(why), WAIT_MS));
    assert_two_get_in(fd);
    end(&f);
    close(late);
    close(fd);
}

static void calls_without_a_request_are_evicted(void **state)
{
    (void)state;
    fixture f;
    begin(&f, MOST_STREAMS);
    const int fd = contention_in("/pilotfish.v1.Drafter/GetModelInfo", MOST_CALLS, false);
    assert_two_get_in(fd);
    end(&f);
    close(fd);
}

/* The client has room for no answer: gRPC holds each until there is some. */
static void calls_with_unread_answers_are_evicted(void **state)
{
    (void)state;
    static const uint8_t no_window[] = { 0, 4, 0, 0, 0, 0 };
    fixture f;
    begin(&f, MOST_STREAMS);
    const int fd = raw_client_dial();
    assert_true(raw_client_push_preface(fd) && raw_client_push_frame(fd, 4, 0, 0, no_window, sizeof no_window));
    for (uint32_t i = 0; i < MOST_CALLS; i++) {
        assert_true(raw_client_open_stream(fd, 2 * i + 1, "/pilotfish.v1.Drafter/GetModelInfo"));
        assert_true(raw_client_push_frame(fd, 0, 1, 2 * i + 1, "\0\0\0\0", 5));
    }
    usleep(100 * 1000);
    assert_two_get_in(fd);
    end(&f);
    close(fd);
}

static void streams_that_are_dropped_at_once_leave_nothing(void **state)
{
    (void)state;
    fixture f;
    begin(&f, 4);
    const int fd = raw_client_dial();
    assert_true(raw_client_push_preface(fd));
    for (uint32_t i = 0; i < 2000; i++) {
        const uint32_t stream = 2 * i + 1;
        if (!raw_client_open_stream(fd, stream, DRAFT) || !raw_client_reset_stream(fd, stream))
            break; /* it reads no more: no harm */
    }
    close(fd);
    const int gone[] = { raw_client_dial(), raw_client_dial() };
    for (int i = 0; i < 2; i++) {
        assert_true(raw_client_push_preface(gone[i]));
        assert_true(raw_client_open_stream(gone[i], 1, DRAFT));
        close(gone[i]);
    }
    pf_peer *peers[4];
    for (int i = 0; i < 4; i++) peers[i] = patient(); /* as many as there may be at all */
    assert_all_come_up(peers, 4);
    for (int i = 0; i < 4; i++) pf_peer_destroy(peers[i]);
    end(&f);
}

/* Almost all of a message as large as may be, on each of many streams of many connections. */
static void messages_that_never_end_do_not_fill_the_memory(void **state)
{
    (void)state;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    skip(); /* what a sanitizer keeps of each byte would be counted too */
#endif
    enum { N_CONNECTIONS = 16, N_STREAMS = 15, PIECE = 16000, MOST = MESSAGE_BYTES - 2 * PIECE, KEPT = 32 << 20 };
    static const uint8_t piece[PIECE];
    static uint32_t sent[N_CONNECTIONS][N_STREAMS];
    memset(sent, 0, sizeof sent);
    fixture f;
    begin(&f, 0);
    assert_served(); /* whatever is allocated for the first */
    const size_t before = resident_bytes();
    int fds[N_CONNECTIONS];
    for (int i = 0; i < N_CONNECTIONS; i++) {
        assert_true(raw_client_push_preface(fds[i] = raw_client_dial()));
        for (uint32_t s = 0; s < N_STREAMS; s++) assert_true(raw_client_open_stream(fds[i], 2 * s + 1, DRAFT));
    }
    for (const uint64_t until = pf_now_ns() + SECOND; pf_now_ns() < until; usleep(1000)) {
        for (int i = 0; i < N_CONNECTIONS; i++) {
            for (uint32_t s = 0; s < N_STREAMS && sent[i][s] < MOST; s++) {
                const uint8_t head[] = { 0, MESSAGE_BYTES >> 24, MESSAGE_BYTES >> 16 & 0xFF, MESSAGE_BYTES >> 8 & 0xFF,
                                         MESSAGE_BYTES & 0xFF };
                if (sent[i][s] == 0 && !raw_client_push_frame(fds[i], 0, 0, 2 * s + 1, head, sizeof head)) break;
                if (!raw_client_push_frame(fds[i], 0, 0, 2 * s + 1, piece, PIECE)) break;
                sent[i][s] += PIECE;
            }
        }
    }
    pf_peer *peer = patient(); /* gRPC, short of memory, may refuse a client that has no stream yet */
    assert_all_come_up(&peer, 1);
    pf_peer_destroy(peer);
    size_t now = resident_bytes();
    if (now > before + ((size_t)100 << 20))
        fail_msg("%zu MiB more in memory, of 240 that were offered", (now - before) >> 20);
    for (int i = 0; i < N_CONNECTIONS; i++) close(fds[i]);
    for (const uint64_t until = pf_now_ns() + 15 * SECOND; now > before + KEPT && pf_now_ns() < until;
         now = resident_bytes())
        usleep(100 * 1000);
    if (now > before + KEPT) fail_msg("%zu MiB of it are kept", (now - before) >> 20);
    end(&f);
}

static void what_a_large_message_took_goes_back_when_nothing_more_comes(void **state)
{
    (void)state;
    enum { N_FIELDS = 200000, LEAST = 8 << 20 }; /* 12 MiB in memory, beyond the two that are kept */
    static uint8_t message[3 * N_FIELDS];
    for (int i = 0; i < N_FIELDS; i++) memcpy(message + 3 * i, "\xa0\x06\x01", 3); /* of an unknown field */
    fixture f = { .peer.ops = &unresponsive_peer_ops };
    serving_begin(&f.running, &(pf_server_config){ .address = serving_address, .drafter = &f.peer });
    assert_int_equal(raw_call(serving_address, DRAFT, message, sizeof message, 5000).code, GRPC_STATUS_OK);
    const size_t before = resident_bytes();
    for (const uint64_t until = pf_now_ns() + 15 * SECOND; resident_bytes() + LEAST > before; usleep(50 * 1000))
        assert_true(pf_now_ns() < until);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descriptors_of_a_server_are_not_inherited_and_close_with_it),
        cmocka_unit_test(silent_and_incomplete_connections_block_no_client),
        cmocka_unit_test(streams_with_sequences_keep_their_places_until_those_end),
        cmocka_unit_test(the_stream_that_is_idle_for_longest_is_evicted),
        cmocka_unit_test(silent_streams_are_evicted),
        cmocka_unit_test(watches_take_free_places_and_are_evicted),
        cmocka_unit_test(calls_without_a_request_are_evicted),
        cmocka_unit_test(calls_with_unread_answers_are_evicted),
        cmocka_unit_test(streams_that_are_dropped_at_once_leave_nothing),
        cmocka_unit_test(what_a_large_message_took_goes_back_when_nothing_more_comes),
        cmocka_unit_test(messages_that_never_end_do_not_fill_the_memory),
    };
    return cmocka_run_group_tests(tests, serving_make_directory, serving_remove_directory);
}
