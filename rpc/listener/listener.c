#include "rpc/listener/listener.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>

#include "base/clock.h"
#include "rpc/listener/connections.h"
#include "rpc/listener/preface_check.h"
#include "rpc/listener/poll_watchdog.h"
#include "rpc/listener/unattributed_bytes.h"

enum {
    MAX_EVENTS = 64,
};

static const uint64_t LOG_INTERVAL_NS = UINT64_C(60) * 1000 * 1000 * 1000;
static const uint64_t ACCEPT_PAUSE_NS =
    1000u * 1000 *
    1000; /* after a connection was disconnected for blocking the poll: serves those that are connected */
static const uint64_t TRIM_DELAY_NS = 2000u * 1000 * 1000; /* after a stream, when gRPC has freed its memory */
static const uint64_t TRIM_INTERVAL_NS = UINT64_C(10) * 1000 * 1000 * 1000; /* at least this long after the last time */

struct pf_listener {
    pf_listener_config config;
    pf_sockets sockets;
    grpc_server_credentials *credentials;
    pthread_t thread;
    bool runs;
    atomic_bool stop;
    atomic_bool has_back_pressure; /* a call was rejected because of finished calls */
    int epoll;
    uint64_t logged_ns;
    uint64_t accept_ns;         /* nothing is accepted before */
    uint64_t look_ns;           /* when the connections of gRPC are checked next */
    uint64_t trimmed_ns;        /* when memory was last trimmed */
    _Atomic uint64_t stream_ns; /* when a stream was finished, since then; 0: none was */
    pf_poll_watchdog watch;
    pf_connections connections;
};

/* ---- calls ----------------------------------------------------------------------------------------------------- */

/* The descriptor of a call's connection, or -1. */
static int connection_of(grpc_call *call)
{
    char *peer = grpc_call_get_peer(call);
    const bool is_told = peer && strncmp(peer, "fd:", 3) == 0;
    const int fd = is_told ? (int)strtol(peer + 3, NULL, 10) : -1;
    gpr_free(peer);
    return fd;
}

int pf_listener_call_started(pf_listener *listener, grpc_call *call)
{
    const int fd = connection_of(call);
    pf_connections_call_started(&listener->connections, fd, listener->config.max_calls);
    return fd;
}

void pf_listener_attribute(pf_listener *listener, int connection, size_t n_bytes)
{
    pf_connections_attribute(&listener->connections, connection, n_bytes);
}

void pf_listener_call_finished(pf_listener *listener, int connection, bool stream)
{
    if (stream) atomic_store(&listener->stream_ns, pf_now_ns());
    pf_connections_call_finished(&listener->connections, connection);
}

void pf_listener_call_freed(pf_listener *listener, int connection)
{
    pf_connections_call_freed(&listener->connections, connection);
}

void pf_listener_disconnect(int connection)
{
    if (connection >= 0) (void)shutdown(connection, SHUT_RDWR);
}

void pf_listener_disconnect_back_pressured(pf_listener *listener)
{
    atomic_store(&listener->has_back_pressure, true);
}

/* ---- its thread ------------------------------------------------------------------------------------------------ */

static void nap(const pf_listener *l, int wait_ms)
{
    struct pollfd wakeup = { .fd = l->connections.wakeup, .events = POLLIN };
    (void)poll(&wakeup, 1, wait_ms);
}

static void log_shortage(pf_listener *l, const char *why)
{
    const uint64_t now_ns = pf_now_ns();
    if (!l->config.log || (l->logged_ns && now_ns - l->logged_ns < LOG_INTERVAL_NS)) return;
    l->logged_ns = now_ns;
    char sentence[128];
    snprintf(sentence, sizeof sentence, "connections wait to be accepted: %d are open, %s", (int)l->connections.n, why);
    l->config.log(l->config.log_user, sentence);
}

/* Edge-triggered: a partial preface would wake the thread without end. */
static bool watch(pf_listener *l, int fd)
{
    struct epoll_event event = { .events = EPOLLIN | EPOLLET, .data.fd = fd };
    return epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

static void add_connection(pf_listener *l, int fd)
{
    if (watch(l, fd))
        pf_connections_add(&l->connections, fd);
    else
        close(fd);
}

static void accept_one(pf_listener *l, int listening)
{
    if (pf_now_ns() < l->accept_ns) {
        nap(l, PF_SOON_MS);
        return;
    }
    int wait_ms = PF_NOW_MS;
    const pf_connections *cs = &l->connections;
    if (cs->n >= cs->most) wait_ms = pf_connections_make_room(&l->connections);
    if (cs->n >= cs->most) {
        log_shortage(l, "none of them idle");
        nap(l, wait_ms);
        return;
    }
    const int fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
        add_connection(l, fd);
        return;
    }
    switch (errno) {
    case EAGAIN:
    case EINTR:
    case ECONNABORTED: return; /* the client has closed it */
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
        log_shortage(l, strerror(errno));
        nap(l, pf_connections_make_room(&l->connections));
        return;
    default: nap(l, PF_LATER_MS); /* network errors, each of which accept4 reports once */
    }
}

/* Bytes have arrived on a new connection, or its end. */
static void check_preface(pf_listener *l, pf_connection *c)
{
    switch (pf_preface_of(c->fd)) {
    case PF_PREFACE_NONE: pf_connections_drop(&l->connections, c); break;
    case PF_PREFACE_WHOLE:
        (void)epoll_ctl(l->epoll, EPOLL_CTL_DEL, c->fd, NULL);
        pf_connections_advance(&l->connections, c, PF_CONNECTION_READY);
        break;
    case PF_PREFACE_PART:
    default: break;
    }
}

static void give_to_grpc(void *user, int fd)
{
    pf_listener *l = user;
    grpc_server_add_channel_from_fd(l->config.server, fd, l->credentials);
}

static void on_event(pf_listener *l, int fd)
{
    for (int32_t i = 0; i < l->sockets.n; i++)
        if (l->sockets.fds[i] == fd) accept_one(l, fd);
    pf_connection *c = pf_connections_find(&l->connections, fd);
    if (c && c->stage == PF_CONNECTION_NEW) check_preface(l, c);
}

/* Drops connections that have sent no preface in time. Returns in how many milliseconds the next one will; -1: there is
 * none. */
static int drop_timed_out(pf_listener *l)
{
    const uint64_t now_ns = pf_now_ns();
    pf_connections *cs = &l->connections;
    for (int32_t i = 0; i < cs->n; i++) {
        pf_connection *c = &cs->all[i];
        if (c->stage != PF_CONNECTION_NEW) continue;
        const uint64_t until_ns = c->since_ns + l->config.preface_timeout_ns;
        if (until_ns > now_ns) return (int)((until_ns - now_ns) / (1000 * 1000)) + 1;
        if (pf_preface_of(c->fd) == PF_PREFACE_WHOLE)
            continue; /* this process was suspended: the preface has arrived, and its event is pending */
        pf_connections_drop(cs, c);
        i--;
    }
    return -1;
}

/* ---- connections that block others --------------------------------------------------------------------------- */

static void log_sentence(const pf_listener *l, const char *sentence)
{
    if (l->config.log) l->config.log(l->config.log_user, sentence);
}

static void check_connections(pf_listener *l)
{
    if (pf_poll_watchdog_check(&l->watch, &l->connections, &l->stop)) {
        l->accept_ns = pf_now_ns() + ACCEPT_PAUSE_NS; /* such a client reconnects at once */
        log_sentence(l, "a connection that kept all others waiting has been cut");
    }
    if (atomic_exchange(&l->has_back_pressure, false) &&
        pf_connections_disconnect_back_pressured(&l->connections, l->config.max_finished) > 0)
        log_sentence(l, "a connection that reads none of its answers has been cut: others need the place of its calls");
    if (pf_unattributed_bytes_check(&l->connections, l->config.max_unattributed_bytes) > 0)
        log_sentence(l, "a connection has been cut: it has sent too much that belongs to no call");
}

/* Returns in how many milliseconds to check again; -1: gRPC has no connection. */
static int check_when_due(pf_listener *l)
{
    if (pf_connections_count(&l->connections, PF_CONNECTION_HANDED_OFF) == 0) return -1;
    const uint64_t now_ns = pf_now_ns();
    if (now_ns < l->look_ns) return (int)((l->look_ns - now_ns) / (1000 * 1000)) + 1;
    check_connections(l);
    l->look_ns = pf_now_ns() + (uint64_t)PF_POLL_WATCHDOG_MS * 1000 * 1000;
    return PF_POLL_WATCHDOG_MS;
}

/* malloc keeps what gRPC has freed. Returns in how many milliseconds memory is trimmed; -1: no stream has finished. */
static int trim_memory(pf_listener *l)
{
    const uint64_t stream_ns = atomic_load(&l->stream_ns), again_ns = l->trimmed_ns + TRIM_INTERVAL_NS;
    if (stream_ns == 0) return -1;
    const uint64_t now_ns = pf_now_ns(), then_ns = stream_ns + TRIM_DELAY_NS;
    const uint64_t due_ns = then_ns > again_ns ? then_ns : again_ns;
    if (now_ns < due_ns) return (int)((due_ns - now_ns) / (1000 * 1000)) + 1;
    l->trimmed_ns = now_ns;
    atomic_store(&l->stream_ns, 0);
    (void)malloc_trim(0);
    return -1;
}

/* ---- life ------------------------------------------------------------------------------------------------------ */

/* Of two times, of which -1 is never. */
static int sooner(int a_ms, int b_ms)
{
    return a_ms < 0 || (b_ms >= 0 && b_ms < a_ms) ? b_ms : a_ms;
}

static void *run(void *arg)
{
    pf_listener *l = arg;
    struct epoll_event events[MAX_EVENTS];
    while (!atomic_load(&l->stop)) {
        const int quiet_ms = sooner(drop_timed_out(l), trim_memory(l));
        const int wait_ms =
            sooner(sooner(quiet_ms, check_when_due(l)), pf_preface_hand_off(&l->connections, give_to_grpc, l));
        const int n = epoll_wait(l->epoll, events, MAX_EVENTS, wait_ms);
        for (int i = 0; i < n && !atomic_load(&l->stop); i++) on_event(l, events[i].data.fd);
    }
    return NULL;
}

static bool await(const pf_listener *l, int fd)
{
    struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };
    return epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

static bool start(pf_listener *l)
{
    const bool has_table = pf_connections_begin(&l->connections, l->config.max_connections);
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!has_table || l->epoll < 0 || !await(l, l->connections.wakeup)) return false;
    for (int32_t i = 0; i < l->sockets.n; i++)
        if (!await(l, l->sockets.fds[i])) return false;
    l->runs = pthread_create(&l->thread, NULL, run, l) == 0;
    return l->runs;
}

pf_status pf_listener_open(const pf_listener_config *config, const pf_sockets *sockets, pf_listener **out,
                           pf_error *error)
{
    pf_listener *l = calloc(1, sizeof *l);
    if (!l) return pf_fail(error, PF_NOMEM, "no memory for a listener");
    l->config = *config;
    l->sockets = *sockets;
    l->watch.poller = config->poller;
    l->credentials = grpc_insecure_server_credentials_create();
    if (!start(l)) {
        l->sockets.n = 0; /* the caller's */
        pf_listener_destroy(l);
        return pf_fail(error, PF_NOMEM, "no memory, descriptor or thread for a listener");
    }
    *out = l;
    return PF_OK;
}

void pf_listener_close(pf_listener *listener)
{
    if (listener->runs) {
        atomic_store(&listener->stop, true);
        (void)eventfd_write(listener->connections.wakeup, 1);
        pthread_join(listener->thread, NULL);
        listener->runs = false;
    }
    pf_sockets_close(&listener->sockets);
    pf_connections *cs = &listener->connections;
    for (int32_t i = cs->n - 1; i >= 0; i--)
        if (cs->all[i].stage <= PF_CONNECTION_READY) pf_connections_drop(cs, &cs->all[i]);
}

void pf_listener_disconnect_all(pf_listener *listener)
{
    pf_connections *cs = &listener->connections;
    for (int32_t i = 0; i < cs->n; i++)
        if (cs->all[i].stage == PF_CONNECTION_HANDED_OFF) (void)pf_connections_shut_down(cs, &cs->all[i]);
}

void pf_listener_destroy(pf_listener *listener)
{
    if (!listener) return;
    pf_listener_close(listener);
    if (listener->epoll >= 0) close(listener->epoll);
    pf_connections_end(&listener->connections);
    grpc_server_credentials_release(listener->credentials);
    free(listener);
}
