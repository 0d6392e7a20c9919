/*
 * HTTP by libmicrohttpd.
 *
 * Without a thread of its own libmicrohttpd does not say that a connection has been resumed, so a descriptor of this file wakes the owner's.
 *
 * libmicrohttpd has no thread of its own: it runs where the owner calls pf_http_server_run, each time without waiting. With a
 * thread of its own it waits a second time, before it handles anything, whenever exactly 128 events (or 256, ...) come at once
 * (MHD_epoll in 0.9.75 to 1.0.1): requests then rested until something else happened.
 *
 * Locks: server->mutex has the table of connections; exchange->mutex has the reply and whether the connection is suspended.
 * server->mutex is taken first where both are. A connection is suspended by the owner's thread and resumed by any, both under
 * exchange->mutex.
 */
#include "serve/http_server.h"

#include <errno.h>
#include <microhttpd.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"

enum {
    CONTENT_TOO_LARGE = 413,     /* libmicrohttpd has changed the name of this status */
    CONNECTION_BYTES = 32 << 10, /* of libmicrohttpd: the headers of a request, and its buffers */
    STREAM_BLOCK_BYTES = 16 << 10,
    ACCEPTED_AT_ONCE = 64, /* before requests are looked at again */
    STALLED_S = 60,        /* a client that takes nothing of its reply for so long is gone */
};

typedef struct connection {
    struct connection *next, *previous;
    int fd;
    uint64_t since_ns; /* it is idle, or its request has begun */
    struct pf_http_exchange *exchange;
} connection;

struct pf_http_server {
    pf_http_options options;
    struct MHD_Daemon *daemon;
    int epoll_fd;         /* readable: the daemon has something to do */
    int wake_fd;          /* likewise: a connection has been resumed */
    atomic_bool is_woken; /* it has been written to, and not read since */
    pthread_mutex_t mutex;
    connection *connections; /* the latest first */
    int32_t n_connections, n_pending;
    uint64_t swept_ns;
};

typedef struct {
    const char *name;
    char value[PF_HTTP_HEADER_BYTES];
} header;

struct pf_http_exchange {
    pf_http_server *server;
    struct MHD_Connection *connection; /* NULL: it is over */
    atomic_int n_references;
    volatile bool gone;
    char method[16];
    char *path;
    pf_bytes body;
    bool body_is_whole;

    pthread_mutex_t mutex;
    bool suspended;
    bool decided; /* the reply's status is known */
    bool streams, ended;
    bool failed; /* memory was short, or the client is gone: the connection is closed */
    int32_t status;
    const char *content_type; /* static */
    header headers[PF_HTTP_MAX_HEADERS];
    int32_t n_headers;
    pf_bytes reply;
    size_t n_sent; /* of reply */
};

/* ---- exchanges --------------------------------------------------------------------------------------------------- */

static pf_http_exchange *make_exchange(pf_http_server *server, struct MHD_Connection *of, const char *path,
                                       const char *method)
{
    pf_http_exchange *x = calloc(1, sizeof *x);
    char *copy = strdup(path);
    if (!x || !copy) {
        free(x);
        free(copy);
        return NULL;
    }
    x->server = server;
    x->connection = of;
    x->path = copy;
    strncpy(x->method, method, sizeof x->method - 1);
    atomic_init(&x->n_references, 1);
    pthread_mutex_init(&x->mutex, NULL);
    return x;
}

void pf_http_retain(pf_http_exchange *x)
{
    atomic_fetch_add(&x->n_references, 1);
}

void pf_http_release(pf_http_exchange *x)
{
    if (atomic_fetch_sub(&x->n_references, 1) > 1) return;
    pthread_mutex_destroy(&x->mutex);
    pf_bytes_clear(&x->body);
    pf_bytes_clear(&x->reply);
    free(x->path);
    free(x);
}

const char *pf_http_method(const pf_http_exchange *x)
{
    return x->method;
}

const char *pf_http_path(const pf_http_exchange *x)
{
    return x->path;
}

const char *pf_http_body(const pf_http_exchange *x, size_t *n_bytes)
{
    *n_bytes = x->body.n;
    return x->body.data ? x->body.data : "";
}

const char *pf_http_header(const pf_http_exchange *x, const char *name)
{
    return MHD_lookup_connection_value(x->connection, MHD_HEADER_KIND, name);
}

const volatile bool *pf_http_gone(const pf_http_exchange *x)
{
    return &x->gone;
}

/* ---- replies ------------------------------------------------------------------------------------------------------ */

/* Under the exchange's mutex, after what libmicrohttpd waits for has changed. */
static void wake(pf_http_exchange *x)
{
    if (!x->suspended || !x->connection) return;
    x->suspended = false;
    MHD_resume_connection(x->connection);
    if (atomic_exchange(&x->server->is_woken, true)) return;
    const uint64_t one = 1;
    const ssize_t written = write(x->server->wake_fd, &one, sizeof one);
    (void)written; /* it cannot be full */
}

static void append(pf_http_exchange *x, const char *bytes, size_t n)
{
    if (!x->failed && pf_bytes_append(&x->reply, bytes, n) != PF_OK) x->failed = true;
}

void pf_http_add_header(pf_http_exchange *x, const char *name, const char *value)
{
    pthread_mutex_lock(&x->mutex);
    if (x->n_headers < PF_HTTP_MAX_HEADERS) {
        header *h = &x->headers[x->n_headers++];
        h->name = name;
        strncpy(h->value, value, sizeof h->value - 1);
    }
    pthread_mutex_unlock(&x->mutex);
}

void pf_http_reply(pf_http_exchange *x, int32_t status, const char *content_type, const char *body, size_t n_bytes)
{
    pthread_mutex_lock(&x->mutex);
    if (!x->decided) {
        append(x, body, n_bytes);
        x->status = status;
        x->content_type = content_type;
        x->decided = x->ended = true;
        wake(x);
    }
    pthread_mutex_unlock(&x->mutex);
}

void pf_http_begin_stream(pf_http_exchange *x, const char *content_type)
{
    pthread_mutex_lock(&x->mutex);
    if (!x->decided) {
        x->status = MHD_HTTP_OK;
        x->content_type = content_type;
        x->decided = x->streams = true;
        wake(x);
    }
    pthread_mutex_unlock(&x->mutex);
}

void pf_http_send(pf_http_exchange *x, const char *bytes, size_t n_bytes)
{
    pthread_mutex_lock(&x->mutex);
    if (!x->ended && !x->gone) {
        append(x, bytes, n_bytes);
        wake(x);
    }
    pthread_mutex_unlock(&x->mutex);
}

void pf_http_end_stream(pf_http_exchange *x)
{
    pthread_mutex_lock(&x->mutex);
    x->ended = true;
    wake(x);
    pthread_mutex_unlock(&x->mutex);
}

size_t pf_http_unsent_bytes(pf_http_exchange *x)
{
    pthread_mutex_lock(&x->mutex);
    const size_t n = x->reply.n - x->n_sent;
    pthread_mutex_unlock(&x->mutex);
    return n;
}

/* ---- libmicrohttpd asks and tells: the owner's thread -------------------------------------------------------------- */

/* The next bytes of a stream, as libmicrohttpd asks for them. */
static ssize_t read_stream(void *user, uint64_t position, char *out, size_t capacity)
{
    (void)position;
    pf_http_exchange *x = user;
    pthread_mutex_lock(&x->mutex);
    const size_t left = x->reply.n - x->n_sent, n = left < capacity ? left : capacity;
    ssize_t result = (ssize_t)n;
    if (x->failed)
        result = MHD_CONTENT_READER_END_WITH_ERROR;
    else if (n > 0) {
        memcpy(out, x->reply.data + x->n_sent, n);
        x->n_sent += n;
        if (n == left) x->reply.n = x->n_sent = 0;
    } else if (x->ended)
        result = MHD_CONTENT_READER_END_OF_STREAM;
    else {
        x->suspended = true;
        MHD_suspend_connection(x->connection);
    }
    pthread_mutex_unlock(&x->mutex);
    return result;
}

static void release_stream(void *user)
{
    pf_http_release(user);
}

/* Under the exchange's mutex; NULL: no memory. */
static struct MHD_Response *make_response(pf_http_exchange *x)
{
    struct MHD_Response *response;
    if (x->streams) {
        response =
            MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK_BYTES, read_stream, x, release_stream);
        if (response) pf_http_retain(x);
    } else {
        response = MHD_create_response_from_buffer(x->reply.n, x->reply.data, MHD_RESPMEM_MUST_COPY);
        pf_bytes_clear(&x->reply);
    }
    if (!response) return NULL;
    bool all = MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, x->content_type) == MHD_YES;
    for (int32_t i = 0; i < x->n_headers; i++)
        all = MHD_add_response_header(response, x->headers[i].name, x->headers[i].value) == MHD_YES && all;
    if (all) return response;
    MHD_destroy_response(response);
    return NULL;
}

static enum MHD_Result queue_reply(pf_http_exchange *x)
{
    pthread_mutex_lock(&x->mutex);
    struct MHD_Response *response = x->failed ? NULL : make_response(x);
    const unsigned int status = (unsigned int)x->status;
    pthread_mutex_unlock(&x->mutex);
    if (!response) return MHD_NO;
    const enum MHD_Result queued = MHD_queue_response(x->connection, status, response);
    MHD_destroy_response(response);
    return queued;
}

static connection *connection_of(struct MHD_Connection *of)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(of, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static bool is_decided(pf_http_exchange *x)
{
    pthread_mutex_lock(&x->mutex);
    const bool decided = x->decided;
    pthread_mutex_unlock(&x->mutex);
    return decided;
}

/* The headers have come. */
static enum MHD_Result begin_request(pf_http_server *server, struct MHD_Connection *of, const char *path,
                                     const char *method, void **state)
{
    connection *c = connection_of(of);
    pf_http_exchange *x = c ? make_exchange(server, of, path, method) : NULL;
    if (!x) return MHD_NO;
    *state = x;
    pthread_mutex_lock(&server->mutex);
    c->exchange = x;
    server->n_pending++;
    pthread_mutex_unlock(&server->mutex);
    server->options.check(server->options.user, x);
    const char *length = pf_http_header(x, MHD_HTTP_HEADER_CONTENT_LENGTH);
    if (!is_decided(x) && length && strtoull(length, NULL, 10) > server->options.max_body_bytes)
        pf_http_reply(x, CONTENT_TOO_LARGE, server->options.content_type, server->options.too_long_body,
                      strlen(server->options.too_long_body));
    return is_decided(x) ? queue_reply(x) : MHD_YES;
}

/* libmicrohttpd takes no reply while a request comes: this one is written as it is, and the connection is to be closed. */
static void write_refusal(const pf_http_server *server, int fd, const char *status, const char *body)
{
    char text[1024];
    if (server->options.key) return; /* TLS is libmicrohttpd's: the connection is closed without a word */
    const int n = snprintf(text, sizeof text,
                           "HTTP/1.1 %s\r\nConnection: close\r\nContent-Type: %s\r\nContent-Length: %zu\r\n\r\n%s",
                           status, server->options.content_type, strlen(body), body);
    if (n < 0 || (size_t)n >= sizeof text) return;
    const ssize_t sent = send(fd, text, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)sent; /* a client that does not read finds the connection closed */
}

/* A part of the body. */
static enum MHD_Result take_body(pf_http_server *server, pf_http_exchange *x, const char *bytes, size_t *n_bytes)
{
    const size_t n = *n_bytes;
    *n_bytes = 0;
    if (n > server->options.max_body_bytes - x->body.n) {
        const connection *c = connection_of(x->connection);
        if (c) write_refusal(server, c->fd, "413 Content Too Large", server->options.too_long_body);
        return MHD_NO;
    }
    return pf_bytes_append(&x->body, bytes, n) == PF_OK ? MHD_YES : MHD_NO;
}

/* The reply, or the connection rests until there is one. */
static enum MHD_Result await_reply(pf_http_exchange *x)
{
    pthread_mutex_lock(&x->mutex);
    const bool waits = !x->decided && !x->failed;
    if (waits) {
        x->suspended = true;
        MHD_suspend_connection(x->connection);
    }
    pthread_mutex_unlock(&x->mutex);
    return waits ? MHD_YES : queue_reply(x);
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *of, const char *path, const char *method,
                                  const char *version, const char *bytes, size_t *n_bytes, void **state)
{
    (void)version;
    pf_http_server *server = user;
    pf_http_exchange *x = *state;
    if (!x) return begin_request(server, of, path, method, state);
    if (*n_bytes > 0) return take_body(server, x, bytes, n_bytes);
    if (!x->body_is_whole) {
        pthread_mutex_lock(&server->mutex);
        x->body_is_whole = true;
        pthread_mutex_unlock(&server->mutex);
        server->options.handle(server->options.user, x);
    }
    return await_reply(x);
}

static void on_completed(void *user, struct MHD_Connection *of, void **state, enum MHD_RequestTerminationCode why)
{
    pf_http_server *server = user;
    pf_http_exchange *x = *state;
    if (!x) return;
    *state = NULL;
    connection *c = connection_of(of);
    pthread_mutex_lock(&server->mutex);
    if (c) {
        c->exchange = NULL;
        c->since_ns = pf_now_ns();
    }
    server->n_pending--;
    pthread_mutex_unlock(&server->mutex);
    pthread_mutex_lock(&x->mutex);
    x->connection = NULL;
    x->suspended = false;
    if (why != MHD_REQUEST_TERMINATED_COMPLETED_OK) __atomic_store_n(&x->gone, true, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&x->mutex);
    pf_http_release(x);
}

static void on_connection(void *user, struct MHD_Connection *of, void **state, enum MHD_ConnectionNotificationCode what)
{
    pf_http_server *server = user;
    connection *c = *state;
    pthread_mutex_lock(&server->mutex);
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info = MHD_get_connection_info(of, MHD_CONNECTION_INFO_CONNECTION_FD);
        *state = c = calloc(1, sizeof *c);
        if (c && info) {
            *c = (connection){ .next = server->connections, .fd = info->connect_fd, .since_ns = pf_now_ns() };
            if (c->next) c->next->previous = c;
            server->connections = c;
            server->n_connections++;
        }
    } else if (c) {
        if (c->next) c->next->previous = c->previous;
        *(c->previous ? &c->previous->next : &server->connections) = c->next;
        server->n_connections--;
        free(c);
        *state = NULL;
    }
    pthread_mutex_unlock(&server->mutex);
}

/* ---- the owner's thread ------------------------------------------------------------------------------------------- */

/* Whether the client has closed its side. */
static bool is_closed_by_client(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLRDHUP };
    return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

/* Of a connection whose request is whole: libmicrohttpd does not look at it while it is suspended. */
static void look_for_client(connection *c)
{
    pf_http_exchange *x = c->exchange;
    if (!is_closed_by_client(c->fd)) return;
    pthread_mutex_lock(&x->mutex);
    if (x->suspended) {
        __atomic_store_n(&x->gone, true, __ATOMIC_RELAXED);
        x->failed = true;
        wake(x);
    }
    pthread_mutex_unlock(&x->mutex);
}

static void sweep(pf_http_server *server)
{
    pthread_mutex_lock(&server->mutex);
    const uint64_t now_ns = pf_now_ns(); /* with the lock: no connection is younger */
    for (connection *c = server->connections; c; c = c->next) {
        const bool is_over = now_ns - c->since_ns > server->options.request_ns;
        if (c->exchange && c->exchange->body_is_whole)
            look_for_client(c);
        else if (is_over) {
            if (c->exchange) write_refusal(server, c->fd, "408 Request Timeout", server->options.timeout_body);
            shutdown(c->fd, SHUT_RDWR);
        }
    }
    pthread_mutex_unlock(&server->mutex);
}

/* How many more connections there is room for; where there is none, the one that has been idle longest is closed. */
static int32_t make_room(pf_http_server *server)
{
    pthread_mutex_lock(&server->mutex);
    const int32_t room = server->options.max_connections - server->n_connections;
    connection *idle = NULL;
    for (connection *c = server->connections; c && room <= 0; c = c->next)
        if (!c->exchange && (!idle || c->since_ns < idle->since_ns)) idle = c;
    if (idle) shutdown(idle->fd, SHUT_RDWR);
    pthread_mutex_unlock(&server->mutex);
    return room;
}

static void accept_from(pf_http_server *server, int listening, int32_t most)
{
    for (int32_t i = 0; i < most; i++) {
        struct sockaddr_storage from = { 0 };
        socklen_t n = sizeof from;
        const int fd = accept4(listening, (struct sockaddr *)&from, &n, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) return;
        (void)MHD_add_connection(server->daemon, fd, (struct sockaddr *)&from, n); /* it closes what it refuses */
    }
}

/* What is resumed from here on wakes again. */
static void take_wake(pf_http_server *server)
{
    uint64_t count;
    const ssize_t taken = read(server->wake_fd, &count, sizeof count);
    (void)taken; /* no other thread reads it */
    atomic_store(&server->is_woken, false);
}

/* How long there is nothing to do unless a descriptor says so. */
static int wait_ms_until(pf_http_server *server, uint64_t until_ns)
{
    enum { NS_PER_MS = 1000 * 1000 };
    const uint64_t now_ns = pf_now_ns();
    const uint64_t ms = now_ns < until_ns ? (until_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS : 0;
    MHD_UNSIGNED_LONG_LONG due_ms;
    return (int)(MHD_get_timeout(server->daemon, &due_ms) == MHD_YES && due_ms < ms ? due_ms : ms);
}

/* Waits once, takes new connections, and lets libmicrohttpd read, handle and write what is due. */
static void run_once(pf_http_server *server, uint64_t until_ns)
{
    const pf_sockets *sockets = server->options.sockets;
    enum { OWN = 2 };
    struct pollfd polled[OWN + PF_MAX_SOCKETS] = { { .fd = server->epoll_fd, .events = POLLIN },
                                                   { .fd = server->wake_fd, .events = POLLIN } };
    int32_t room = make_room(server);
    const int32_t n_listening = room > 0 ? sockets->n : 0;
    for (int32_t i = 0; i < n_listening; i++)
        polled[OWN + i] = (struct pollfd){ .fd = sockets->fds[i], .events = POLLIN };
    const int n_ready = poll(polled, OWN + (nfds_t)n_listening, wait_ms_until(server, until_ns));
    if (n_ready > 0 && polled[1].revents) take_wake(server);
    if (n_ready > 0)
        for (int32_t i = 0; i < n_listening && room > 0; i++)
            if (polled[OWN + i].revents) {
                accept_from(server, sockets->fds[i], room < ACCEPTED_AT_ONCE ? room : ACCEPTED_AT_ONCE);
                room = make_room(server);
            }
    (void)MHD_run(server->daemon);
}

void pf_http_server_run(pf_http_server *server, int32_t wait_ms)
{
    enum { SWEEP_NS = 100 * 1000 * 1000 };
    const uint64_t until_ns = pf_now_ns() + (uint64_t)wait_ms * 1000000u;
    uint64_t now_ns;
    do {
        run_once(server, until_ns);
        now_ns = pf_now_ns();
    } while (now_ns < until_ns);
    if (now_ns - server->swept_ns < SWEEP_NS) return;
    server->swept_ns = now_ns;
    sweep(server);
}

int32_t pf_http_server_pending(pf_http_server *server)
{
    pthread_mutex_lock(&server->mutex);
    const int32_t n = server->n_pending;
    pthread_mutex_unlock(&server->mutex);
    return n;
}

/* ---- life ----------------------------------------------------------------------------------------------------------- */

static struct MHD_Daemon *start_daemon(pf_http_server *server)
{
    const pf_http_options *o = &server->options;
    const struct MHD_OptionItem tls[] = { { MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(uintptr_t)o->certificate },
                                          { MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)o->key },
                                          { MHD_OPTION_END, 0, NULL } };
    return MHD_start_daemon((o->key ? (unsigned int)MHD_USE_TLS : 0u) | MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET |
                                MHD_USE_ITC | MHD_ALLOW_SUSPEND_RESUME,
                            0, NULL, NULL, on_request, server, MHD_OPTION_NOTIFY_COMPLETED, on_completed, server,
                            MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_CONNECTION_LIMIT,
                            (unsigned int)o->max_connections, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned int)STALLED_S,
                            MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES, MHD_OPTION_ARRAY,
                            o->key ? tls : &tls[2], MHD_OPTION_END);
}

pf_status pf_http_server_create(const pf_http_options *options, pf_http_server **out, pf_error *error)
{
    if (options->key && MHD_is_feature_supported(MHD_FEATURE_SSL) != MHD_YES)
        return pf_fail(error, PF_UNSUPPORTED, "the libmicrohttpd of this system has no TLS");
    pf_http_server *server = calloc(1, sizeof *server);
    if (!server) return pf_fail(error, PF_NOMEM, "no memory for an HTTP server");
    server->options = *options;
    pthread_mutex_init(&server->mutex, NULL);
    server->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (server->wake_fd >= 0) server->daemon = start_daemon(server);
    const int why = errno;
    const bool has_wake = server->wake_fd >= 0;
    const union MHD_DaemonInfo *info =
        server->daemon ? MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD) : NULL;
    if (!info) {
        pf_http_server_destroy(server);
        if (options->key && has_wake)
            return pf_fail(error, PF_INVALID,
                           "the certificate and the key do not make TLS: expected PEM, and that they belong together");
        return pf_fail(error, PF_LIMIT, "the HTTP server does not start: %s", strerror(why));
    }
    server->epoll_fd = info->epoll_fd;
    *out = server;
    return PF_OK;
}

void pf_http_server_stop(pf_http_server *server)
{
    pthread_mutex_lock(&server->mutex);
    for (connection *c = server->connections; c; c = c->next) {
        shutdown(c->fd, SHUT_RDWR);
        if (!c->exchange) continue;
        pthread_mutex_lock(&c->exchange->mutex);
        __atomic_store_n(&c->exchange->gone, true, __ATOMIC_RELAXED);
        c->exchange->failed = true;
        wake(c->exchange);
        pthread_mutex_unlock(&c->exchange->mutex);
    }
    pthread_mutex_unlock(&server->mutex);
    MHD_stop_daemon(server->daemon);
    server->daemon = NULL;
}

void pf_http_server_destroy(pf_http_server *server)
{
    if (!server) return;
    if (server->daemon) pf_http_server_stop(server);
    if (server->wake_fd >= 0) close(server->wake_fd);
    pthread_mutex_destroy(&server->mutex);
    free(server);
}
