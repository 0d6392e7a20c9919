#include "rpc/listener/unattributed_bytes.h"

#include <linux/tcp.h> /* glibc's header lacks tcpi_bytes_received */
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

enum { PING_BYTES = 2 }; /* a check: 40 a second; a client that pings each second and answers pings takes 34 */

/* Bytes that gRPC has read; 0 where that is not known. What arrives between the two calls counts as read, so the
 * result is never negative. */
static uint64_t bytes_read(int fd)
{
    int n_unread = 0;
    struct tcp_info info = { .tcpi_bytes_received = 0 };
    socklen_t n = sizeof info;
    if (ioctl(fd, FIONREAD, &n_unread) != 0 || getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n) != 0) return 0;
    return info.tcpi_bytes_received - (unsigned)n_unread;
}

static void count(pf_connections *cs, pf_connection *c)
{
    pthread_mutex_lock(&cs->lock);
    const uint64_t n_more = c->n_to_attribute;
    c->n_to_attribute = 0;
    pthread_mutex_unlock(&cs->lock);
    const uint64_t n = bytes_read(c->fd); /* now: what is attributed was read before */
    const uint64_t n_left = n > c->n_attributed + PING_BYTES ? n - c->n_attributed - PING_BYTES : 0;
    c->n_unattributed = n_left > n_more ? n_left - n_more : 0;
    c->n_attributed = n - c->n_unattributed;
}

/* The connection with the most unattributed bytes; *all: of all. NULL: there is none. */
static pf_connection *worst(pf_connections *cs, uint64_t *all)
{
    pf_connection *most = NULL;
    *all = 0;
    for (int32_t i = 0; i < cs->n; i++) {
        pf_connection *c = &cs->all[i];
        if (c->stage != PF_CONNECTION_HANDED_OFF) continue;
        *all += c->n_unattributed;
        if (!most || c->n_unattributed > most->n_unattributed) most = c;
    }
    return most;
}

int pf_unattributed_bytes_check(pf_connections *cs, size_t most_bytes)
{
    int n = 0;
    uint64_t all;
    for (int32_t i = 0; i < cs->n; i++)
        if (cs->all[i].stage == PF_CONNECTION_HANDED_OFF) count(cs, &cs->all[i]);
    for (pf_connection *c; (c = worst(cs, &all)) != NULL && all > most_bytes;) n += pf_connections_shut_down(cs, c);
    return n;
}
