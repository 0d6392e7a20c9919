#include "rpc/listener/poll_watchdog.h"

#include <poll.h>
#include <sys/ioctl.h>

static const uint64_t MOST_CPU_NS = 100u * 1000 * 1000; /* of one poll */

/* Whether the poll is the one seen last, and has computed for too long since. */
static bool is_blocked(pf_poll_watchdog *watchdog)
{
    uint32_t poll;
    uint64_t cpu_ns;
    if (!pf_poller_sample(watchdog->poller, &poll, &cpu_ns)) return false;
    if (poll == watchdog->poll) return cpu_ns - watchdog->cpu_ns >= MOST_CPU_NS;
    watchdog->poll = poll;
    watchdog->cpu_ns = cpu_ns;
    return false;
}

/* A connection that was read since the last check; or NULL. */
static pf_connection *being_read(pf_connections *cs)
{
    pf_connection *read = NULL;
    for (int32_t i = 0; i < cs->n; i++) {
        pf_connection *c = &cs->all[i];
        int n_unread = 0;
        if (c->stage != PF_CONNECTION_HANDED_OFF || ioctl(c->fd, FIONREAD, &n_unread) != 0) continue;
        if (n_unread < c->n_unread) read = c;
        c->n_unread = n_unread;
    }
    return read;
}

bool pf_poll_watchdog_check(pf_poll_watchdog *watchdog, pf_connections *cs, const atomic_bool *stop)
{
    if (!is_blocked(watchdog)) return false;
    struct pollfd wakeup = { .fd = cs->wakeup, .events = POLLIN };
    (void)being_read(cs);
    for (int i = 0; i < PF_POLL_WATCHDOG_MS && is_blocked(watchdog) && !atomic_load(stop); i++) {
        (void)poll(&wakeup, 1, 1);
        pf_connection *c = being_read(cs);
        if (c && is_blocked(watchdog) && pf_connections_shut_down(cs, c)) return true;
    }
    return false;
}
