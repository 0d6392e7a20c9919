/* Tests the HTTP server where end-to-end tests cannot choose what it finds: how many events come at once. */
#include "tests/support/test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "serve/http_server.h"

enum { MAX_CLIENTS = 260, MAX_BODY_BYTES = 64 };
static const char request[] = "POST /text HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab";

typedef struct {
    pf_sockets sockets;
    pf_http_server *server;
    pf_http_exchange *kept[MAX_CLIENTS]; /* requests without a reply yet */
    int32_t n_kept;
    bool keeps;
} service;

static void take(void *user, pf_http_exchange *x)
{
    service *s = user;
    size_t n_bytes;
    const char *body = pf_http_body(x, &n_bytes);
    if (!s->keeps) {
        pf_http_reply(x, 200, "text/plain", body, n_bytes);
        return;
    }
    pf_http_retain(x);
    s->kept[s->n_kept++] = x;
}

static void check_nothing(void *user, pf_http_exchange *x)
{
    (void)user;
    (void)x;
}

static void open_service(service *s, bool keeps)
{
    pf_address address;
    pf_error error;
    *s = (service){ .keeps = keeps };
    assert_ok(pf_address_parse("127.0.0.1:0", &address, &error), error);
    assert_ok(pf_sockets_listen(&address, &s->sockets, &error), error);
    const pf_http_options options = { .sockets = &s->sockets,
                                      .max_connections = MAX_CLIENTS,
                                      .max_body_bytes = MAX_BODY_BYTES,
                                      .request_ns = UINT64_MAX,
                                      .check = check_nothing,
                                      .handle = take,
                                      .user = s,
                                      .content_type = "text/plain",
                                      .timeout_body = "late",
                                      .too_long_body = "long" };
    assert_ok(pf_http_server_create(&options, &s->server, &error), error);
}

static void close_service(service *s)
{
    pf_http_server_destroy(s->server);
    pf_sockets_close(&s->sockets);
}

static int connect_to(const service *s)
{
    const struct sockaddr_in to = { .sin_family = AF_INET,
                                    .sin_port = htons((uint16_t)s->sockets.port),
                                    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static void ask(int fd)
{
    assert_int_equal(send(fd, request, sizeof request - 1, MSG_NOSIGNAL), sizeof request - 1);
}

static bool is_answered(int fd)
{
    char text[512];
    const ssize_t n = recv(fd, text, sizeof text - 1, MSG_DONTWAIT);
    if (n <= 0) return false;
    text[n] = 0;
    assert_non_null(strstr(text, "HTTP/1.1 200"));
    return true;
}

/* How many of the clients have an answer after so many turns of the server, which wait for nothing. */
static int32_t count_answers(service *s, const int *fds, int32_t n, int32_t n_turns)
{
    bool answered[MAX_CLIENTS] = { false };
    int32_t n_answers = 0;
    for (int32_t turn = 0; turn < n_turns && n_answers < n; turn++) {
        pf_http_server_run(s->server, 0);
        for (int32_t i = 0; i < n; i++)
            if (!answered[i] && is_answered(fds[i])) {
                answered[i] = true;
                n_answers++;
            }
    }
    return n_answers;
}

/* libmicrohttpd takes events by 128: none may rest because their number is a multiple of it. */
static void any_number_of_requests_at_once_is_answered(void **state)
{
    (void)state;
    static const int32_t counts[] = { 1, 126, 127, 128, 129, 255, 256, 257 };
    int fds[MAX_CLIENTS];
    service s;
    open_service(&s, false);
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
        const int32_t n = counts[k];
        for (int32_t i = 0; i < n; i++) fds[i] = connect_to(&s);
        for (int32_t i = 0; i < n; i++) ask(fds[i]);
        assert_int_equal(count_answers(&s, fds, n, 1000), n);
        for (int32_t i = 0; i < n; i++) ask(fds[i]); /* on connections that are known */
        assert_int_equal(count_answers(&s, fds, n, 1000), n);
        for (int32_t i = 0; i < n; i++) close(fds[i]);
        for (int32_t i = 0; i < 100; i++) pf_http_server_run(s.server, 0);
    }
    close_service(&s);
}

enum { LONG_WAIT_MS = 5000 };

/* The owner's thread, in one long wait. */
typedef struct {
    pf_http_server *server;
    atomic_bool is_over;
} waiting_owner;

static void *wait_long(void *user)
{
    waiting_owner *owner = user;
    pf_http_server_run(owner->server, LONG_WAIT_MS);
    atomic_store(&owner->is_over, true);
    return NULL;
}

/* What is sent from elsewhere ends the wait of the owner's thread: each event of a stream comes before the wait is over. */
static void a_reply_wakes_the_server(void **state)
{
    (void)state;
    enum { EVENTS = 20, PAUSE_US = 2000 };
    service s;
    char text[4096];
    open_service(&s, true);
    const int fd = connect_to(&s);
    ask(fd);
    for (int32_t i = 0; i < 1000 && s.n_kept == 0; i++) pf_http_server_run(s.server, 1);
    assert_int_equal(s.n_kept, 1);
    assert_int_equal(pf_http_server_pending(s.server), 1);
    const struct timeval most = { .tv_sec = LONG_WAIT_MS / 1000 };
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most), 0);
    waiting_owner owner = { .server = s.server };
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wait_long, &owner), 0);
    pf_http_begin_stream(s.kept[0], "text/plain");
    for (int32_t i = 0; i < EVENTS; i++) {
        usleep(PAUSE_US); /* it waits again meanwhile */
        pf_http_send(s.kept[0], "event", 5);
        for (ssize_t n = 0; n == 0 || !memmem(text, (size_t)n, "event", 5);) {
            n = recv(fd, text, sizeof text, 0);
            assert_true(n > 0);
        }
    }
    assert_false(atomic_load(&owner.is_over));
    pf_http_end_stream(s.kept[0]);
    pf_http_release(s.kept[0]);
    assert_int_equal(pthread_join(thread, NULL), 0);
    for (int32_t i = 0; i < 1000 && pf_http_server_pending(s.server) > 0; i++) pf_http_server_run(s.server, 1);
    assert_int_equal(pf_http_server_pending(s.server), 0);
    close(fd);
    close_service(&s);
}

/* A new connection takes the place of the one that has been idle longest, and of none that waits for its reply. */
static void a_full_server_closes_what_is_idle(void **state)
{
    (void)state;
    int idle[MAX_CLIENTS];
    service s;
    open_service(&s, true);
    const int busy = connect_to(&s);
    ask(busy);
    for (int32_t i = 0; i < 1000 && s.n_kept == 0; i++) pf_http_server_run(s.server, 1);
    for (int32_t i = 0; i < MAX_CLIENTS - 1; i++) idle[i] = connect_to(&s);
    const int last = connect_to(&s);
    ask(last);
    for (int32_t i = 0; i < 1000 && s.n_kept < 2; i++) pf_http_server_run(s.server, 1);
    assert_int_equal(s.n_kept, 2);
    for (int32_t i = 0; i < 2; i++) {
        pf_http_reply(s.kept[i], 200, "text/plain", "ab", 2);
        pf_http_release(s.kept[i]);
    }
    assert_int_equal(count_answers(&s, (const int[]){ busy, last }, 2, 1000), 2);
    for (int32_t i = 0; i < MAX_CLIENTS - 1; i++) close(idle[i]);
    close(busy);
    close(last);
    close_service(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_requests_at_once_is_answered),
        cmocka_unit_test(a_reply_wakes_the_server),
        cmocka_unit_test(a_full_server_closes_what_is_idle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
