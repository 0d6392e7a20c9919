/*
 * Contention for the descriptors of a server that has few: silent, idle and active connections.
 * The server is a process of its own, for its limits are; this one speaks to it in frames, without gRPC.
 */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "rpc/server/server.h"
#include "tests/support/unresponsive_peer.h"
#include "tests/support/running_server.h"
#include "tests/support/raw_client.h"
#include "tests/support/test.h"

enum {
    MS = 1000 * 1000,
    FEW_FILES = 48,
    MANY = 100,
    LONG_MS = 60 * 1000, /* what is awaited comes sooner, however loaded the machine is */
};
static const uint64_t HOUR_NS = UINT64_C(3600) * 1000 * MS;
static const char DRAFT[] = "/pilotfish.v1.Drafter/Draft";

/* ---- the server, a child ----------------------------------------------------------------------------------------- */

static volatile bool stop;

static void on_signal(int number)
{
    (void)number;
    stop = true;
}

static int serve(pf_server_config config, rlim_t n_files, int ready)
{
    const struct rlimit files = { n_files, n_files };
    pf_peer mute = { .ops = &unresponsive_peer_ops };
    pf_server *server;
    pf_error error;
    config.address = config.address ? config.address : serving_address;
    config.drafter = &mute;
    config.grace_ns = 20 * MS;
    signal(SIGTERM, on_signal);
    if (setrlimit(RLIMIT_NOFILE, &files) != 0 || pf_server_create(&config, &server, &error) != PF_OK) return 1;
    const char *port = strrchr(pf_server_address(server), ':') + 1; /* or a path */
    if (write(ready, port, strlen(port) + 1) < 2) return 1;
    const pf_status status = pf_server_run(server, &stop, &error);
    pf_server_destroy(server);
    return status == PF_OK ? 0 : 1;
}

/* ---- clients ----------------------------------------------------------------------------------------------------- */

static const char CHECK[] = "/grpc.health.v1.Health/Check";

/* An empty message, and no more. False: the server has disconnected. */
static bool push_question(int fd, const char *path)
{
    return raw_client_push_preface(fd) && raw_client_open_stream(fd, 1, path) &&
           raw_client_push_frame(fd, 0, 1, 1, "\0\0\0\0\0", 5);
}

/* Asks for the server's health: once, or (Watch) for as long as the connection lasts. */
static int ask(const char *path)
{
    const int fd = raw_client_dial();
    assert_true(push_question(fd, path));
    return fd;
}

static int watcher(void)
{
    return ask("/grpc.health.v1.Health/Watch");
}

static int mute(void)
{
    return raw_client_dial();
}

static int idler(void)
{
    const int fd = raw_client_dial();
    assert_true(raw_client_push_preface(fd));
    return fd;
}

static bool receives_serving(int fd, int within_ms)
{
    return raw_client_receives(fd, "\0\0\0\0\2\x08\1", 7, within_ms); /* SERVING */
}

static bool is_served(int within_ms)
{
    const int fd = ask(CHECK);
    const bool served = receives_serving(fd, within_ms);
    close(fd);
    return served;
}

static void assert_is_there(int kept)
{
    assert_true(raw_client_push_frame(kept, 6, 0, 0, "12345678", 8)); /* PING, and its answer */
    assert_true(raw_client_receives(kept, "\0\0\x08\6\1\0\0\0\00012345678", 17, LONG_MS));
}

/* Sends a WINDOW_UPDATE: after five silent seconds the server sends a ping, which these clients do not answer. */
static void push_window_update(int fd)
{
    assert_true(raw_client_push_frame(fd, 8, 0, 0, "\0\0\0\1", 4));
}

static void open_many(int fds[MANY], int (*one)(void))
{
    for (int i = 0; i < MANY; i++) fds[i] = one();
}

static void close_many(const int fds[MANY])
{
    for (int i = 0; i < MANY; i++) close(fds[i]);
}

static bool new_client_is_served(void)
{
    const int fd = raw_client_dial();
    const bool served = push_question(fd, CHECK) && receives_serving(fd, 1000);
    close(fd);
    return served;
}

/* A new client is served sooner or later: the server may be starting, calls of others may be ending, cut connections have to
 * be closed, and a client that is silent at first may be disconnected. */
static void assert_new_clients_are_served(void)
{
    for (const uint64_t until_ns = pf_now_ns() + (uint64_t)LONG_MS * MS; pf_now_ns() < until_ns; usleep(10 * 1000))
        if (new_client_is_served()) return;
    fail_msg("newcomers are not served");
}

/* ---- its life, seen from here ------------------------------------------------------------------------------------ */

static pid_t begin(pf_server_config config, rlim_t n_files)
{
    int ready[2];
    char port[128];
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* not to outlive a test that fails */
        exit(serve(config, n_files, ready[1]));
    }
    close(ready[1]);
    assert_true(read(ready[0], port, sizeof port) > 1);
    serving_port = (int)strtol(port, NULL, 10); /* 0 of a path */
    close(ready[0]);
    assert_new_clients_are_served();
    return child;
}

static void end(pid_t child)
{
    int status;
    assert_int_equal(kill(child, SIGTERM), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_not_equal(access(serving_path, F_OK), 0); /* the socket is gone with it */
}

/* ---- claims ------------------------------------------------------------------------------------------------------ */

static void a_server_out_of_descriptors_serves_again_once_some_are_free(void **state)
{
    (void)state;
    int fds[MANY];
    const pid_t server = begin((pf_server_config){ .max_connections = 1000 }, FEW_FILES);
    for (int round = 0; round < 2; round++) {
        assert_true(is_served(LONG_MS));
        open_many(fds, watcher); /* all with a call: none can be sent away */
        assert_false(is_served(300));
        close_many(fds);
    }
    assert_true(is_served(LONG_MS));
    end(server);
}

static void silent_and_idle_connections_are_evicted(void **state)
{
    (void)state;
    int silent[MANY], idle[MANY];
    /* For want of descriptors, and past the limit; long before their time is up. */
    const pf_server_config configs[] = { { .max_connections = 1000, .preface_timeout_ns = HOUR_NS },
                                         { .preface_timeout_ns = HOUR_NS } };
    for (size_t i = 0; i < PF_COUNT(configs); i++) {
        const pid_t server = begin(configs[i], FEW_FILES);
        open_many(silent, mute);
        assert_true(is_served(LONG_MS));
        open_many(idle, idler);
        assert_true(is_served(LONG_MS));
        close_many(silent);
        close_many(idle);
        end(server);
    }
}

static void a_connection_with_a_call_stays(void **state)
{
    (void)state;
    int fds[MANY];
    const pid_t server = begin((pf_server_config){ .max_connections = 20 }, 1000);
    const int kept = watcher();
    assert_true(receives_serving(kept, LONG_MS));
    open_many(fds, idler);
    assert_true(is_served(LONG_MS));
    assert_is_there(kept);
    close_many(fds);
    close(kept);
    end(server);
}

/* What the server says meanwhile. */
static int log_pipe[2];

static void log_line(void *user, const char *sentence)
{
    (void)user;
    (void)!write(log_pipe[1], sentence, strlen(sentence) + 1);
}

static void a_full_server_is_logged_once(void **state)
{
    (void)state;
    enum { MOST = 4 };
    static const char expected[] = "connections wait to be accepted: 4 are open, none of them idle";
    int fds[MOST];
    char words[4 * sizeof expected];
    assert_int_equal(pipe(log_pipe), 0);
    const pid_t server = begin((pf_server_config){ .max_connections = MOST, .log = log_line }, 1000);
    for (int i = 0; i < MOST; i++) assert_true(receives_serving(fds[i] = watcher(), LONG_MS));
    assert_false(is_served(500));
    for (int i = 0; i < MOST; i++) close(fds[i]);
    end(server);
    close(log_pipe[1]);
    assert_int_equal(read(log_pipe[0], words, sizeof words), sizeof expected);
    assert_string_equal(words, expected);
    close(log_pipe[0]);
}

/* What half a second costs the server. */
static uint64_t cpu_of_a_while(pid_t server)
{
    clockid_t clock;
    struct timespec before, after;
    assert_int_equal(clock_getcpuclockid(server, &clock), 0);
    assert_int_equal(clock_gettime(clock, &before), 0);
    usleep(500 * 1000);
    assert_int_equal(clock_gettime(clock, &after), 0);
    return (uint64_t)(after.tv_sec - before.tv_sec) * 1000 * MS + (uint64_t)after.tv_nsec - (uint64_t)before.tv_nsec;
}

static void waiting_for_a_connection_uses_no_cpu(void **state)
{
    (void)state;
    enum { MOST = 4 };
    int fds[MOST];
    const pid_t server = begin((pf_server_config){ .max_connections = MOST, .preface_timeout_ns = HOUR_NS }, 1000);
    for (int i = 1; i < MOST; i++) assert_true(receives_serving(fds[i] = watcher(), LONG_MS));
    fds[0] = mute();
    assert_true(raw_client_push(fds[0], "PRI * HTTP/2.0\r\n", 16)); /* more is to come */
    assert_true(cpu_of_a_while(server) < 100 * MS);
    assert_true(raw_client_push(fds[0], "\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 17));
    assert_true(raw_client_open_stream(fds[0], 1, "/grpc.health.v1.Health/Watch"));
    assert_true(raw_client_push_frame(fds[0], 0, 1, 1, "\0\0\0\0\0", 5));
    assert_true(receives_serving(fds[0], LONG_MS));
    const int newcomer = mute(); /* at the door of a full house */
    assert_true(cpu_of_a_while(server) < 100 * MS);
    close(newcomer);
    for (int i = 0; i < MOST; i++) close(fds[i]);
    end(server);
}

static void contention_from_the_start_reduces_to_one_thread(void **state)
{
    (void)state;
    int fds[MANY];
    const pid_t server = begin((pf_server_config){ .max_connections = 0 }, 1000);
    open_many(fds, idler);
    for (int i = 0; i < MANY; i++) assert_true(raw_client_receives(fds[i], "\4\0\0\0\0\0", 6, LONG_MS)); /* SETTINGS */
    close_many(fds);
    end(server);
}

/* No other client is there that would make the server look. */
static void a_silent_connection_is_closed_after_a_timeout(void **state)
{
    (void)state;
    enum { N = 3 };
    const pid_t server = begin((pf_server_config){ .preface_timeout_ns = 200 * MS }, 1000);
    const uint64_t begin_ns = pf_now_ns();
    const int silent[N] = { mute(), mute(), mute() };
    assert_true(raw_client_push(silent[1], "PRI * HTTP/2.0\r\n", 16));
    for (int i = 0; i < N; i++) {
        assert_true(raw_client_is_disconnected(silent[i], LONG_MS));
        assert_true(pf_now_ns() - begin_ns >= 200 * MS);
    }
    const int idle = idler();
    assert_false(raw_client_is_disconnected(idle, 300));
    for (int i = 0; i < N; i++) close(silent[i]);
    close(idle);
    end(server);
}

/* As after a machine has slept: it is accepted, and its time is up before the server has looked. */
static void a_connection_that_has_sent_its_preface_is_served_though_its_timeout_has_passed(void **state)
{
    (void)state;
    const pid_t server = begin((pf_server_config){ .preface_timeout_ns = 1 }, 1000);
    for (int i = 0; i < 20; i++) {
        int status;
        assert_int_equal(kill(server, SIGSTOP), 0);
        assert_int_equal(waitpid(server, &status, WUNTRACED), server);
        const int fd = ask(CHECK);
        assert_int_equal(kill(server, SIGCONT), 0);
        assert_true(receives_serving(fd, LONG_MS));
        close(fd);
    }
    end(server);
}

static void a_connection_of_another_protocol_is_closed_at_once(void **state)
{
    (void)state;
    const pid_t server = begin((pf_server_config){ .preface_timeout_ns = HOUR_NS }, 1000);
    const int other = mute();
    assert_true(raw_client_push(other, "GET / HTTP/1.1\r\n\r\n", 18));
    assert_true(raw_client_is_disconnected(other, LONG_MS));
    close(other);
    end(server);
}

static void a_client_that_resets_streams_without_end_is_cut_and_others_go_on(void **state)
{
    (void)state;
    const pid_t server = begin((pf_server_config){ .max_streams = 0 }, 1000);
    const int kept = watcher();
    assert_true(receives_serving(kept, LONG_MS));
    const int wild = idler();
    assert_true(raw_client_resets_until_refused(wild, 200 * 1000, DRAFT));
    assert_is_there(kept);
    assert_new_clients_are_served(); /* while it stays, and reads nothing */
    close(wild);
    close(kept);
    end(server);
}

/* A new client that asks for the health of the server is answered that too many calls are ending. */
static bool is_refused(void)
{
    static const char why[] = "too many calls are ending";
    const raw_client_bytes answers[] = { { "\0\0\0\0\2\x08\1", 7 }, { why, sizeof why - 1 } };
    int heard = -1; /* the server may disconnect, as in assert_new_clients_are_served */
    for (const uint64_t until_ns = pf_now_ns() + (uint64_t)LONG_MS * MS; heard < 0 && pf_now_ns() < until_ns;) {
        const int fd = raw_client_dial();
        if (push_question(fd, CHECK)) heard = raw_client_receives_one_of(fd, answers, 2, LONG_MS);
        close(fd);
    }
    assert_true(heard >= 0);
    return heard == 1;
}

/* The server has read most of what was pushed. */
static void await_room(int fd)
{
    struct pollfd it = { .fd = fd, .events = POLLOUT };
    assert_int_equal(poll(&it, 1, LONG_MS), 1);
}

enum { KEEPING = 64, KEPT = 320 }; /* streams at a time, and before gRPC stops reading their client */

/* So many streams, odd numbers from `first` on, opened or reset. False: not all could be written. */
static bool push_streams(int fd, uint32_t first, bool open)
{
    for (uint32_t stream = first; stream < first + 2 * KEEPING; stream += 2)
        if (!(open ? raw_client_open_stream(fd, stream, DRAFT) : raw_client_reset_stream(fd, stream))) return false;
    return true;
}

static void await_cut(int fd)
{
    struct pollfd it = { .fd = fd };
    assert_int_equal(poll(&it, 1, LONG_MS), 1);
    assert_true(it.revents & POLLHUP);
}

/* Opens streams and ends them, reading nothing, until other clients are refused or the server cuts this one. Writes to it wait
 * first for SETTINGS to be acknowledged, 1000 at a time, so that KEPT calls are kept before gRPC stops reading it at 10,000.
 * False: it was cut before it kept so many, as a client that is not read for so long that the server sends a ping. */
static bool keep_calls(int fd, const int *others, int n_others)
{
    enum { SETTINGS = 1000, STEPS = 1000 };
    static uint8_t settings[SETTINGS][9];
    for (int i = 0; i < SETTINGS; i++) settings[i][3] = 4;
    for (uint32_t stream = 1; stream < 2 * KEEPING * STEPS; stream += 2 * KEEPING) {
        for (int i = 0; i < n_others; i++) push_window_update(others[i]);
        await_room(fd);
        bool written = raw_client_push(fd, settings, sizeof settings) && push_streams(fd, stream, true);
        if (is_refused()) return true;
        await_room(fd);
        written = written && push_streams(fd, stream, false);
        if (written) continue;
        await_cut(fd);
        return stream > 2 * KEPT;
    }
    fail_msg("a client that reads nothing keeps no calls");
    return false;
}

/* A client that has kept calls. */
static int keeper(const int *others, int n_others)
{
    enum { TRIES = 5 };
    for (int i = 0; i < TRIES; i++) {
        const int fd = idler();
        if (keep_calls(fd, others, n_others)) return fd;
        close(fd);
    }
    fail_msg("a client that reads nothing is cut before it has kept many calls");
    return -1;
}

/* The client keeps sending, so that no unanswered ping ends it before the server does. */
static void assert_is_cut(int wild)
{
    for (const uint64_t until_ns = pf_now_ns() + (uint64_t)LONG_MS * MS; pf_now_ns() < until_ns; usleep(10 * 1000)) {
        (void)raw_client_push_frame(wild, 8, 0, 0, "\0\0\0\1", 4);
        if (new_client_is_served()) return;
    }
    fail_msg("a client that reads nothing blocks new clients");
}

static void calls_whose_answers_are_not_read_are_evicted(void **state)
{
    (void)state;
    const char *const addresses[] = { NULL, "127.0.0.1:0" }; /* a unix socket, and TCP */
    for (size_t i = 0; i < PF_COUNT(addresses); i++) {
        const pid_t server = begin((pf_server_config){ .address = addresses[i] }, 1000);
        const int others[] = { watcher(), watcher() }; /* the second reads nothing either, and keeps nothing */
        assert_true(receives_serving(others[0], LONG_MS));
        const int wild = keeper(others, 2);
        assert_is_cut(wild);
        for (int k = 0; k < 2; k++) {
            assert_is_there(others[k]);
            close(others[k]);
        }
        close(wild);
        end(server);
    }
}

static void a_server_stops_though_a_client_reads_nothing(void **state)
{
    (void)state;
    const pid_t server = begin((pf_server_config){ .max_streams = 0 }, 1000);
    const int wild = keeper(NULL, 0);
    end(server);
    close(wild);
}

/* A part of a stream's header block that goes on: a field of 251 bytes, so many times, each in a frame of its own. */
static bool push_fields(int fd, uint8_t stream, int n)
{
    static const uint8_t head[] = { 0, 1, 0, 9 /* CONTINUATION */, 0, 0, 0, 0, 0, 0, 1, 'a', 127, 251 - 127 };
    uint8_t frame[9 + 256];
    memset(frame, 'z', sizeof frame);
    memcpy(frame, head, sizeof head);
    frame[8] = stream;
    for (int i = 0; i < n; i++)
        if (send(fd, frame, sizeof frame, MSG_NOSIGNAL) != sizeof frame) return false;
    return true;
}

static int beginner_of_headers(void)
{
    const int fd = idler();
    assert_true(raw_client_push_frame(fd, 1, 0, 1, "\x83\x86", 2)); /* POST, http, and no END_HEADERS */
    return fd;
}

static void headers_without_end_cost_their_sender_the_connection(void **state)
{
    (void)state;
    enum { MESSAGE_BYTES = 256 << 10, FIELDS = 64, STEP_BYTES = FIELDS * (9 + 256), MOST_STEPS = 4000 };
    const pid_t server =
        begin((pf_server_config){ .address = "127.0.0.1:0", .max_message_bytes = MESSAGE_BYTES }, 1000);
    const int kept = watcher(), wild = beginner_of_headers();
    int n = 0; /* slowly: no poll is long */
    while (n < MOST_STEPS && push_fields(wild, 1, FIELDS)) n++, usleep(1000);
    assert_true(n >= 32 * MESSAGE_BYTES / STEP_BYTES); /* as much as messages on their way may take */
    assert_true(n < MOST_STEPS);
    assert_true(receives_serving(kept, LONG_MS));
    assert_is_there(kept);
    close(wild);
    close(kept);
    end(server);
}

static void trailing_headers_of_a_call_still_count_during_the_next(void **state)
{
    (void)state;
    enum { MESSAGE_BYTES = 64 << 10, FIELDS = 2000, STEP_BYTES = FIELDS * (9 + 256), MOST_CALLS = 100 };
    const pid_t server =
        begin((pf_server_config){ .address = "127.0.0.1:0", .max_message_bytes = MESSAGE_BYTES }, 1000);
    const int wild = idler();
    assert_true(raw_client_open_stream(wild, 1, DRAFT)); /* and stays open */
    int n = 0;
    for (uint8_t stream = 3; n < MOST_CALLS && raw_client_open_stream(wild, stream, DRAFT); n++, stream += 2) {
        if (!raw_client_push_frame(wild, 1, 1 /* END_STREAM */, stream, "\0\1a\1b", 5)) break;
        if (!push_fields(wild, stream, FIELDS) || !raw_client_push_frame(wild, 9, 4, stream, "\0\1a\1b", 5)) break;
        usleep(20000);
    }
    assert_in_range(n, 32 * MESSAGE_BYTES / STEP_BYTES, MOST_CALLS / 2);
    assert_new_clients_are_served();
    close(wild);
    end(server);
}

static void a_call_with_too_much_metadata_is_cut(void **state)
{
    (void)state;
    static const char rest[] = "\0\5:path\33/pilotfish.v1.Drafter/"
                               "Draft\0\12:authority\1x\0\2te\10trailers\0\14content-type\20application/grpc";
    const pid_t server = begin((pf_server_config){ .max_streams = 0 }, 1000);
    for (int much = 0; much < 2; much++) {
        const int fd = beginner_of_headers();
        assert_true(push_fields(fd, 1, much ? 100 : 10));
        assert_true(raw_client_push_frame(fd, 9, 4, 1, rest, sizeof rest - 1)); /* CONTINUATION, END_HEADERS */
        if (much)
            assert_true(raw_client_is_disconnected(fd, 9000)); /* a client that answers no ping is so after 10 s */
        else
            assert_true(raw_client_receives(fd, "application/grpc", 16, LONG_MS));
        close(fd);
    }
    end(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_out_of_descriptors_serves_again_once_some_are_free),
        cmocka_unit_test(silent_and_idle_connections_are_evicted),
        cmocka_unit_test(a_connection_with_a_call_stays),
        cmocka_unit_test(a_full_server_is_logged_once),
        cmocka_unit_test(waiting_for_a_connection_uses_no_cpu),
        cmocka_unit_test(contention_from_the_start_reduces_to_one_thread),
        cmocka_unit_test(a_silent_connection_is_closed_after_a_timeout),
        cmocka_unit_test(a_connection_that_has_sent_its_preface_is_served_though_its_timeout_has_passed),
        cmocka_unit_test(a_connection_of_another_protocol_is_closed_at_once),
        cmocka_unit_test(a_client_that_resets_streams_without_end_is_cut_and_others_go_on),
        cmocka_unit_test(calls_whose_answers_are_not_read_are_evicted),
        cmocka_unit_test(a_server_stops_though_a_client_reads_nothing),
        cmocka_unit_test(headers_without_end_cost_their_sender_the_connection),
        cmocka_unit_test(trailing_headers_of_a_call_still_count_during_the_next),
        cmocka_unit_test(a_call_with_too_much_metadata_is_cut),
    };
    return cmocka_run_group_tests(tests, serving_make_directory, serving_remove_directory);
}
