#include "rpc/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>

#include "base/clock.h"

enum {
    NOW_MS = 0,
    SOON_MS = 10,   /* gRPC will have closed what was shut down */
    LATER_MS = 100, /* perhaps somebody has left */
    LOOK_MS = 50,   /* between looks at the poll */
    RETRY_MS = 1,   /* for gRPC to read what it has been given */
    MAX_EVENTS = 64,
    MOST_UNREAD = 8,   /* connections that gRPC has been given and has not begun to read */
    MOST_CLOSING = 16, /* that have been shut down, and that it has not closed */
};

static const uint64_t COUNT_AGAIN_NS = 100u * 1000 * 1000;
static const uint64_t YOUNG_NS = 100u * 1000 * 1000; /* a newcomer has had no time to speak, or to call */
static const uint64_t COMPLAIN_AGAIN_NS = UINT64_C(60) * 1000 * 1000 * 1000;
static const uint64_t MOST_CPU_NS = 100u * 1000 * 1000; /* of one poll: 100 MB of honest messages, copied */
static const uint64_t REST_NS = 1000u * 1000 * 1000;    /* for those who are connected, after somebody kept them out */
static const char PREFACE[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

typedef enum {
    SILENT,  /* it has not said all of the preface */
    SPOKEN,  /* it has, and waits until gRPC is through with others */
    GIVEN,   /* to gRPC, which closes it */
    CLOSING, /* it was shut down; gRPC will close it */
} stage;

typedef struct {
    int fd;
    stage stage;
    bool is_unread; /* given, and gRPC has not begun to read it */
    ino_t inode;    /* of the socket */
    int32_t n_calls;
    uint64_t since_ns;
    int n_unread; /* bytes, when it was last looked at */
} connection;

struct pf_listener {
    pf_listener_config config;
    pf_sockets sockets;
    grpc_server_credentials *credentials;
    pthread_t thread;
    bool runs;
    atomic_bool stop;
    int epoll;
    int bell;  /* an eventfd: wakes the thread */
    int spare; /* a descriptor to work with when there are no more */
    uint64_t counted_ns, complained_ns;
    uint64_t accept_ns;   /* nobody is accepted before */
    uint64_t look_ns;     /* when the poll is looked at next */
    uint32_t poll;        /* the one last seen, */
    uint64_t poll_cpu_ns; /* and the CPU time of its thread then */

    pthread_mutex_t lock;    /* of the calls below; the thread alone adds, moves and removes connections */
    connection *connections; /* [n] the oldest first; some of gRPC's are closed already */
    int32_t n;
    bool blind; /* gRPC has not told the connection of a call: none may be taken for idle */
};

/* ---- connections ----------------------------------------------------------------------------------------------- */

static connection *find(pf_listener *l, int fd)
{
    for (int32_t i = 0; i < l->n; i++)
        if (l->connections[i].fd == fd) return &l->connections[i];
    return NULL;
}

/* On the thread, with the lock held. */
static void forget(pf_listener *l, connection *c)
{
    const connection *end = l->connections + l->n--;
    memmove(c, c + 1, (size_t)(end - (c + 1)) * sizeof *c);
}

static ino_t inode_of(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) ? st.st_ino : 0;
}

/* gRPC may close it meanwhile, and its number may become another's: what is shut down is a descriptor of our own. */
static void shut_down(pf_listener *l, connection *c)
{
    c->stage = CLOSING;
    if (dup3(c->fd, l->spare, O_CLOEXEC) < 0) return;
    if (inode_of(l->spare) == c->inode) (void)shutdown(l->spare, SHUT_RDWR);
    (void)dup3(l->bell, l->spare, O_CLOEXEC);
}

/* Of those that were shut down, and now and then of all: that is thousands of system calls. */
static void forget_closed(pf_listener *l)
{
    const uint64_t now_ns = pf_now_ns();
    const bool all = now_ns - l->counted_ns >= COUNT_AGAIN_NS;
    if (all) l->counted_ns = now_ns;
    pthread_mutex_lock(&l->lock);
    for (int32_t i = l->n - 1; i >= 0; i--) {
        connection *c = &l->connections[i];
        if ((c->stage == CLOSING || (all && c->stage == GIVEN)) && c->n_calls == 0 && inode_of(c->fd) != c->inode)
            forget(l, c);
    }
    pthread_mutex_unlock(&l->lock);
}

static int32_t count(const pf_listener *l, stage of)
{
    int32_t n = 0;
    for (int32_t i = 0; i < l->n; i++) n += l->connections[i].stage == of;
    return n;
}

/* Of those without a call the oldest, of those that are silent first: whoever means it speaks at once. */
static connection *most_idle(pf_listener *l)
{
    const uint64_t now_ns = pf_now_ns();
    connection *idle = NULL;
    for (int32_t i = l->n - 1; i >= 0; i--) {
        connection *c = &l->connections[i];
        const bool may_go = c->stage == SILENT || (c->stage == GIVEN && c->n_calls == 0 && !l->blind);
        if (!may_go || now_ns - c->since_ns < YOUNG_NS) continue;
        if (c->stage == SILENT || !idle || idle->stage != SILENT) idle = c;
    }
    return idle;
}

/* In how many milliseconds there may be room for another connection. */
static int make_room(pf_listener *l)
{
    const int32_t before = l->n;
    forget_closed(l);
    if (l->n < before) return NOW_MS;
    if (count(l, CLOSING) >= MOST_CLOSING) return SOON_MS;
    pthread_mutex_lock(&l->lock);
    connection *c = most_idle(l);
    const int wait_ms = !c ? LATER_MS : c->stage == SILENT ? NOW_MS : SOON_MS;
    if (c && c->stage == SILENT) {
        close(c->fd);
        forget(l, c);
    } else if (c) {
        shut_down(l, c);
    }
    pthread_mutex_unlock(&l->lock);
    return wait_ms;
}

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

static void count_call(pf_listener *l, int fd, int32_t change)
{
    pthread_mutex_lock(&l->lock);
    connection *c = find(l, fd);
    if (c) c->n_calls += change;
    if (c && c->n_calls > l->config.max_calls) (void)shutdown(fd, SHUT_RDWR);
    if (fd < 0) l->blind = true;
    pthread_mutex_unlock(&l->lock);
}

int pf_listener_enter(pf_listener *listener, grpc_call *call)
{
    const int fd = connection_of(call);
    count_call(listener, fd, 1);
    return fd;
}

void pf_listener_leave(pf_listener *listener, int fd)
{
    count_call(listener, fd, -1);
}

/* ---- its thread ------------------------------------------------------------------------------------------------ */

static void nap(const pf_listener *l, int wait_ms)
{
    struct pollfd bell = { .fd = l->bell, .events = POLLIN };
    (void)poll(&bell, 1, wait_ms);
}

static void complain(pf_listener *l, const char *why)
{
    const uint64_t now_ns = pf_now_ns();
    if (!l->config.log || (l->complained_ns && now_ns - l->complained_ns < COMPLAIN_AGAIN_NS)) return;
    l->complained_ns = now_ns;
    char sentence[128];
    snprintf(sentence, sizeof sentence, "connections wait to be accepted: %d are open, %s", (int)l->n, why);
    l->config.log(l->config.log_user, sentence);
}

/* Hears from it when it speaks; edge by edge, or half a preface would wake us without end. */
static bool watch(pf_listener *l, int fd)
{
    struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.fd = fd };
    return epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

static void welcome(pf_listener *l, int fd)
{
    if (!watch(l, fd)) {
        close(fd);
        return;
    }
    pthread_mutex_lock(&l->lock);
    connection *before = find(l, fd); /* one that gRPC has closed since */
    if (before) forget(l, before);
    l->connections[l->n++] = (connection){ .fd = fd, .stage = SILENT, .inode = inode_of(fd), .since_ns = pf_now_ns() };
    pthread_mutex_unlock(&l->lock);
}

static void accept_one(pf_listener *l, int listening)
{
    if (pf_now_ns() < l->accept_ns) {
        nap(l, SOON_MS);
        return;
    }
    int wait_ms = NOW_MS;
    if (l->n >= l->config.max_connections) wait_ms = make_room(l);
    if (l->n >= l->config.max_connections) {
        complain(l, "none of them idle");
        nap(l, wait_ms);
        return;
    }
    const int fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
        welcome(l, fd);
        return;
    }
    switch (errno) {
    case EAGAIN:
    case EINTR:
    case ECONNABORTED: return; /* gone again */
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
        complain(l, strerror(errno));
        nap(l, make_room(l));
        return;
    default: nap(l, LATER_MS); /* a network's own troubles, each of which accept4 tells once */
    }
}

static void drop(pf_listener *l, connection *c)
{
    pthread_mutex_lock(&l->lock);
    close(c->fd);
    forget(l, c);
    pthread_mutex_unlock(&l->lock);
}

static void advance(pf_listener *l, connection *c, stage to)
{
    pthread_mutex_lock(&l->lock);
    c->stage = to;
    pthread_mutex_unlock(&l->lock);
}

/* It says something, or goes. */
static void listen_to(pf_listener *l, connection *c)
{
    char said[sizeof PREFACE - 1];
    const ssize_t n = recv(c->fd, said, sizeof said, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0 || memcmp(said, PREFACE, (size_t)n) != 0) {
        drop(l, c);
    } else if ((size_t)n == sizeof said) {
        (void)epoll_ctl(l->epoll, EPOLL_CTL_DEL, c->fd, NULL);
        advance(l, c, SPOKEN);
    }
}

/* Whether the preface is still what comes first. */
static bool is_unread(const connection *c)
{
    char said[sizeof PREFACE - 1];
    return recv(c->fd, said, sizeof said, MSG_PEEK | MSG_DONTWAIT) == (ssize_t)sizeof said &&
           memcmp(said, PREFACE, sizeof said) == 0;
}

static int32_t count_unread(pf_listener *l)
{
    int32_t n = 0;
    for (int32_t i = 0; i < l->n; i++) {
        connection *c = &l->connections[i];
        if (c->is_unread) c->is_unread = is_unread(c);
        n += c->is_unread;
    }
    return n;
}

/* Gives gRPC who has spoken, the oldest first, as fast as it begins to read them: who connects faster than that waits here,
 * and not everybody who is connected with him. In how many milliseconds to go on; -1: there is nobody left. */
static int hand_over(pf_listener *l)
{
    int32_t n_unread = count_unread(l);
    for (int32_t i = 0; i < l->n; i++) {
        connection *c = &l->connections[i];
        if (c->stage != SPOKEN) continue;
        if (n_unread++ >= MOST_UNREAD) return RETRY_MS;
        advance(l, c, GIVEN);
        c->is_unread = true;
        grpc_server_add_channel_from_fd(l->config.server, c->fd, l->credentials);
    }
    return -1;
}

static void on_event(pf_listener *l, int fd)
{
    for (int32_t i = 0; i < l->sockets.n; i++)
        if (l->sockets.fds[i] == fd) accept_one(l, fd);
    connection *c = find(l, fd);
    if (c && c->stage == SILENT) listen_to(l, c);
}

/* Those that were silent for too long. In how many milliseconds the next will have been; -1: there is none. */
static int drop_silent(pf_listener *l)
{
    const uint64_t now_ns = pf_now_ns();
    for (int32_t i = 0; i < l->n; i++) {
        connection *c = &l->connections[i];
        if (c->stage != SILENT) continue;
        const uint64_t until_ns = c->since_ns + l->config.silence_ns;
        if (until_ns > now_ns) return (int)((until_ns - now_ns) / (1000 * 1000)) + 1;
        drop(l, c);
        i--;
    }
    return -1;
}

/* ---- a poll that does not end ---------------------------------------------------------------------------------- */

static bool has_grpc_any(const pf_listener *l)
{
    for (int32_t i = 0; i < l->n; i++)
        if (l->connections[i].stage == GIVEN) return true;
    return false;
}

/* Whether the poll is the one last seen, and has computed for too long since. */
static bool is_held_up(pf_listener *l)
{
    uint32_t poll;
    uint64_t cpu_ns;
    if (!pf_poller_sample(l->config.poller, &poll, &cpu_ns)) return false;
    if (poll == l->poll) return cpu_ns - l->poll_cpu_ns >= MOST_CPU_NS;
    l->poll = poll;
    l->poll_cpu_ns = cpu_ns;
    return false;
}

/* One that has been read since it was last looked at; or NULL. */
static connection *being_read(pf_listener *l)
{
    connection *read = NULL;
    for (int32_t i = 0; i < l->n; i++) {
        connection *c = &l->connections[i];
        int n_unread = 0;
        if (c->stage != GIVEN || ioctl(c->fd, FIONREAD, &n_unread) != 0) continue;
        if (n_unread < c->n_unread) read = c;
        c->n_unread = n_unread;
    }
    return read;
}

/* While a poll is held up, only who holds it up is read: all others wait for the next. */
static void free_poll(pf_listener *l)
{
    (void)being_read(l);
    for (int i = 0; i < LOOK_MS && is_held_up(l) && !atomic_load(&l->stop); i++) {
        nap(l, 1);
        connection *c = being_read(l);
        if (!c || !is_held_up(l)) continue;
        pthread_mutex_lock(&l->lock);
        shut_down(l, c);
        pthread_mutex_unlock(&l->lock);
        l->accept_ns = pf_now_ns() + REST_NS;
        if (l->config.log) l->config.log(l->config.log_user, "a connection that kept all others waiting has been cut");
        return;
    }
}

/* In how many milliseconds to look again; -1: there is nobody to look at. */
static int look_at_poll(pf_listener *l)
{
    if (!has_grpc_any(l)) return -1;
    const uint64_t now_ns = pf_now_ns();
    if (now_ns < l->look_ns) return (int)((l->look_ns - now_ns) / (1000 * 1000)) + 1;
    if (is_held_up(l)) free_poll(l);
    l->look_ns = pf_now_ns() + (uint64_t)LOOK_MS * 1000 * 1000;
    return LOOK_MS;
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
        const int wait_ms = sooner(sooner(drop_silent(l), look_at_poll(l)), hand_over(l));
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
    l->connections = calloc((size_t)l->config.max_connections, sizeof *l->connections);
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    l->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    l->spare = fcntl(l->bell, F_DUPFD_CLOEXEC, 0);
    if (!l->connections || l->epoll < 0 || l->bell < 0 || l->spare < 0 || !await(l, l->bell)) return false;
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
    l->credentials = grpc_insecure_server_credentials_create();
    pthread_mutex_init(&l->lock, NULL);
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
        (void)eventfd_write(listener->bell, 1);
        pthread_join(listener->thread, NULL);
        listener->runs = false;
    }
    pf_sockets_close(&listener->sockets);
    for (int32_t i = listener->n - 1; i >= 0; i--)
        if (listener->connections[i].stage <= SPOKEN) drop(listener, &listener->connections[i]);
}

void pf_listener_destroy(pf_listener *listener)
{
    if (!listener) return;
    pf_listener_close(listener);
    if (listener->epoll >= 0) close(listener->epoll);
    if (listener->bell >= 0) close(listener->bell);
    if (listener->spare >= 0) close(listener->spare);
    grpc_server_credentials_release(listener->credentials);
    pthread_mutex_destroy(&listener->lock);
    free(listener->connections);
    free(listener);
}
