#include "rpc/listener/preface_check.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

enum { RETRY_MS = 1 }; /* until gRPC has read those handed off */

static const char PREFACE[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pf_preface pf_preface_of(int fd)
{
    char bytes[sizeof PREFACE - 1];
    const ssize_t n = recv(fd, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return PF_PREFACE_PART;
    if (n <= 0 || memcmp(bytes, PREFACE, (size_t)n) != 0) return PF_PREFACE_NONE;
    return (size_t)n == sizeof bytes ? PF_PREFACE_WHOLE : PF_PREFACE_PART;
}

static int32_t count_unread(pf_connections *cs)
{
    int32_t n = 0;
    for (int32_t i = 0; i < cs->n; i++) {
        pf_connection *c = &cs->all[i];
        if (c->is_unread) c->is_unread = pf_preface_of(c->fd) == PF_PREFACE_WHOLE;
        n += c->is_unread;
    }
    return n;
}

int pf_preface_hand_off(pf_connections *cs, void (*give)(void *user, int fd), void *user)
{
    int32_t n_unread = count_unread(cs);
    for (int32_t i = 0; i < cs->n; i++) {
        pf_connection *c = &cs->all[i];
        if (c->stage != PF_CONNECTION_READY) continue;
        if (pf_connection_is_closed(c)) {
            pf_connections_drop(cs, c);
            i--;
            continue;
        }
        if (n_unread++ >= PF_PREFACE_CHECK_MOST_UNREAD) return RETRY_MS;
        pf_connections_advance(cs, c, PF_CONNECTION_HANDED_OFF);
        c->is_unread = true;
        give(user, c->fd);
    }
    return -1;
}
