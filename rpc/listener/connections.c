#include "rpc/listener/connections.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"

enum {
    MOST_CLOSING = 16, /* shut down, and not yet closed by gRPC */
};

static const uint64_t COUNT_AGAIN_NS = 100u * 1000 * 1000;
static const uint64_t YOUNG_NS =
    100u * 1000 * 1000; /* a new connection has had no time to send its preface, or to call */
static const uint64_t BACK_PRESSURE_NS = 1000u * 1000 * 1000; /* an answer was not read for so long */

bool pf_connections_begin(pf_connections *cs, int32_t most)
{
    *cs = (pf_connections){ .most = most };
    pthread_mutex_init(&cs->lock, NULL);
    cs->all = calloc((size_t)most, sizeof *cs->all);
    cs->wakeup = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    cs->spare = fcntl(cs->wakeup, F_DUPFD_CLOEXEC, 0);
    return cs->all && cs->wakeup >= 0 && cs->spare >= 0;
}

void pf_connections_end(pf_connections *cs)
{
    if (cs->wakeup >= 0) close(cs->wakeup);
    if (cs->spare >= 0) close(cs->spare);
    pthread_mutex_destroy(&cs->lock);
    free(cs->all);
}

bool pf_connection_is_closed(const pf_connection *c)
{
    struct pollfd it = { .fd = c->fd, .events = POLLRDHUP };
    return poll(&it, 1, 0) == 1;
}

pf_connection *pf_connections_find(pf_connections *cs, int fd)
{
    for (int32_t i = 0; i < cs->n; i++)
        if (cs->all[i].fd == fd) return &cs->all[i];
    return NULL;
}

int32_t pf_connections_count(const pf_connections *cs, pf_connection_stage stage)
{
    int32_t n = 0;
    for (int32_t i = 0; i < cs->n; i++) n += cs->all[i].stage == stage;
    return n;
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* With the lock held. */
static void remove(pf_connections *cs, pf_connection *c)
{
    const pf_connection *end = cs->all + cs->n--;
    memmove(c, c + 1, (size_t)(end - (c + 1)) * sizeof *c);
}

/* With the lock held; not handed off. */
static void drop(pf_connections *cs, pf_connection *c)
{
    close(c->fd);
    remove(cs, c);
}

static ino_t inode_of(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) ? st.st_ino : 0;
}

void pf_connections_add(pf_connections *cs, int fd)
{
    const pf_connection newcomer = {
        .fd = fd, .stage = PF_CONNECTION_NEW, .inode = inode_of(fd), .since_ns = pf_now_ns()
    };
    pthread_mutex_lock(&cs->lock);
    pf_connection *before = pf_connections_find(cs, fd); /* its number was reused: gRPC has closed it */
    if (before) remove(cs, before);
    cs->all[cs->n++] = newcomer;
    pthread_mutex_unlock(&cs->lock);
}

void pf_connections_drop(pf_connections *cs, pf_connection *c)
{
    pthread_mutex_lock(&cs->lock);
    drop(cs, c);
    pthread_mutex_unlock(&cs->lock);
}

void pf_connections_advance(pf_connections *cs, pf_connection *c, pf_connection_stage to)
{
    pthread_mutex_lock(&cs->lock);
    c->stage = to;
    pthread_mutex_unlock(&cs->lock);
}

/* ---- eviction ---------------------------------------------------------------------------------------------------- */

/* With the lock held. gRPC may close the connection meanwhile, and its number may be reused: a duplicate of our own is
 * shut down. Whether it was still there. */
static bool shut_down(pf_connections *cs, pf_connection *c)
{
    c->stage = PF_CONNECTION_CLOSING;
    if (dup3(c->fd, cs->spare, O_CLOEXEC) < 0) return false;
    const bool is_there = inode_of(cs->spare) == c->inode;
    if (is_there) (void)shutdown(cs->spare, SHUT_RDWR);
    (void)dup3(cs->wakeup, cs->spare, O_CLOEXEC);
    return is_there;
}

bool pf_connections_shut_down(pf_connections *cs, pf_connection *c)
{
    pthread_mutex_lock(&cs->lock);
    const bool was_there = shut_down(cs, c);
    pthread_mutex_unlock(&cs->lock);
    return was_there;
}

/* Checks those that were shut down, and at times all: that takes thousands of system calls. */
static void remove_closed(pf_connections *cs)
{
    const uint64_t now_ns = pf_now_ns();
    const bool all = now_ns - cs->counted_ns >= COUNT_AGAIN_NS;
    if (all) cs->counted_ns = now_ns;
    pthread_mutex_lock(&cs->lock);
    for (int32_t i = cs->n - 1; i >= 0; i--) {
        pf_connection *c = &cs->all[i];
        if ((c->stage == PF_CONNECTION_CLOSING || (all && c->stage == PF_CONNECTION_HANDED_OFF)) && c->n_calls == 0 &&
            inode_of(c->fd) != c->inode)
            remove(cs, c);
    }
    pthread_mutex_unlock(&cs->lock);
}

static bool is_back_pressured(const pf_connection *c, uint64_t now_ns)
{
    return c->stage == PF_CONNECTION_HANDED_OFF && c->n_finished > 0 && now_ns - c->finished_ns >= BACK_PRESSURE_NS;
}

static bool may_go(const pf_connections *cs, const pf_connection *c, uint64_t now_ns)
{
    if (now_ns < c->since_ns + YOUNG_NS) return c->stage == PF_CONNECTION_NEW && pf_connection_is_closed(c);
    if (c->stage == PF_CONNECTION_NEW) return true;
    if (c->stage != PF_CONNECTION_HANDED_OFF || cs->blind || c->n_calls > c->n_finished) return false;
    return c->n_finished == 0 || is_back_pressured(c, now_ns);
}

/* The oldest idle connection; one in stage NEW first, since a client sends its preface at once. */
static pf_connection *most_idle(pf_connections *cs)
{
    const uint64_t now_ns = pf_now_ns();
    pf_connection *idle = NULL;
    for (int32_t i = cs->n - 1; i >= 0; i--) {
        pf_connection *c = &cs->all[i];
        if (!may_go(cs, c, now_ns)) continue;
        if (c->stage == PF_CONNECTION_NEW || !idle || idle->stage != PF_CONNECTION_NEW) idle = c;
    }
    return idle;
}

int pf_connections_make_room(pf_connections *cs)
{
    const int32_t before = cs->n;
    remove_closed(cs);
    if (cs->n < before) return PF_NOW_MS;
    if (pf_connections_count(cs, PF_CONNECTION_CLOSING) >= MOST_CLOSING) return PF_SOON_MS;
    pthread_mutex_lock(&cs->lock);
    pf_connection *c = most_idle(cs);
    const int wait_ms = !c ? PF_LATER_MS : c->stage == PF_CONNECTION_NEW ? PF_NOW_MS : PF_SOON_MS;
    if (c && c->stage == PF_CONNECTION_NEW)
        drop(cs, c);
    else if (c)
        (void)shut_down(cs, c);
    pthread_mutex_unlock(&cs->lock);
    return wait_ms;
}

/* The most back-pressured connection; *n_finished: the finished calls of all back-pressured ones. */
static pf_connection *most_back_pressured(pf_connections *cs, int32_t *n_finished)
{
    const uint64_t now_ns = pf_now_ns();
    pf_connection *worst = NULL;
    *n_finished = 0;
    for (int32_t i = 0; i < cs->n; i++) {
        pf_connection *c = &cs->all[i];
        if (!is_back_pressured(c, now_ns)) continue;
        *n_finished += c->n_finished;
        if (!worst || c->n_finished > worst->n_finished) worst = c;
    }
    return worst;
}

int pf_connections_disconnect_back_pressured(pf_connections *cs, int32_t most_finished)
{
    int n = 0;
    int32_t n_finished;
    pthread_mutex_lock(&cs->lock);
    for (pf_connection *c; (c = most_back_pressured(cs, &n_finished)) != NULL && n_finished > most_finished;)
        n += shut_down(cs, c);
    pthread_mutex_unlock(&cs->lock);
    return n;
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

enum {
    CALL_BYTES = 1024,   /* headers on the wire, and what is sent once for a connection */
    FRAMES_SHARE = 8,    /* of a message: the headers of its frames, where these are small */
    MESSAGE_BYTES = 256, /* a small message, with its window updates and pings */
};

static void claim(pf_connection *c, uint64_t n_bytes)
{
    c->n_to_attribute = n_bytes > UINT64_MAX - c->n_to_attribute ? UINT64_MAX : c->n_to_attribute + n_bytes;
}

void pf_connections_call_started(pf_connections *cs, int fd, int32_t most)
{
    pthread_mutex_lock(&cs->lock);
    pf_connection *c = pf_connections_find(cs, fd);
    if (c && ++c->n_calls > most) (void)shutdown(fd, SHUT_RDWR);
    if (c) claim(c, CALL_BYTES);
    if (fd < 0) cs->blind = true;
    pthread_mutex_unlock(&cs->lock);
}

void pf_connections_attribute(pf_connections *cs, int fd, size_t n_bytes)
{
    pthread_mutex_lock(&cs->lock);
    pf_connection *c = pf_connections_find(cs, fd);
    if (c) claim(c, n_bytes + n_bytes / FRAMES_SHARE + MESSAGE_BYTES);
    pthread_mutex_unlock(&cs->lock);
}

void pf_connections_call_finished(pf_connections *cs, int fd)
{
    pthread_mutex_lock(&cs->lock);
    pf_connection *c = pf_connections_find(cs, fd);
    if (c && c->n_finished++ == 0) c->finished_ns = pf_now_ns();
    pthread_mutex_unlock(&cs->lock);
}

void pf_connections_call_freed(pf_connections *cs, int fd)
{
    pthread_mutex_lock(&cs->lock);
    pf_connection *c = pf_connections_find(cs, fd);
    if (c) c->n_calls--, c->n_finished--;
    if (c && c->n_calls == 0) claim(c, UINT64_MAX); /* nothing that was read for a call is kept */
    pthread_mutex_unlock(&cs->lock);
}
