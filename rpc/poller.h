/*
 * Decides which thread polls a completion queue.
 *
 * gRPC works only while a thread polls: it reads, writes, answers pings and reconnects inside of the poll. Waking a thread costs
 * more than all that, so a thread that waits for an event polls for itself:
 *
 *     front   the thread that waits: it polls in pf_poller_wait, for a moment without sleeping, then asleep
 *     back    a background thread: it polls while the front does not, and stops when the front returns
 *
 *     front   ==polls====|  away  |==polls==|          away (it computes)         |====polls====
 *     back    ...........................................|==========polls=========|.............
 *                                                <------> front_idle_ns: unpolled for no longer
 *
 * A front that is away for longer, and whose events the back can answer, says so (pf_poller_leave).
 *
 * Never both at once: in gRPC one would wait for the other's poll. Events are handled one at a time, on the thread that polls.
 */
#ifndef PF_RPC_POLLER_H
#define PF_RPC_POLLER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <grpc/grpc.h>

#include "base/yield.h"

typedef struct {
    void (*handle)(void *user, void *tag, bool success); /* one event */
    void (*look)(void *user); /* called by the back, at least every 50 ms while it polls; or NULL */
    void *user;
    uint64_t front_idle_ns; /* how long the front may not poll until the back does */
} pf_poller_config;

/* Part of its owner's struct; its fields are the poller's alone. */
typedef struct {
    pf_poller_config config;
    grpc_completion_queue *cq;
    grpc_channel *wakeup_channel;
    grpc_call *wakeup; /* puts an event on the queue, which ends the poll */
    pthread_t back;
    atomic_bool news;
    pf_contention contention; /* on the front's core */
    atomic_bool front_polls;  /* or waits for the back to stop */
    atomic_uint n_polls;      /* begun */
    atomic_int polls_clock;   /* the CPU clock of the thread that polls; 0: none does */

    pthread_mutex_t lock;
    pthread_cond_t turn;
    bool back_polls;
    bool back_sleeps; /* it needs a wakeup */
    uint64_t left_ns; /* when the front went away */
} pf_poller;

/* Makes a queue and starts the back, which polls it at once. After pf_grpc_begin. False: the thread cannot be started;
 * nothing is left. */
bool pf_poller_start(pf_poller *poller, const pf_poller_config *config);

/* Shuts the queue down, handles what is left on it, and destroys it. Nothing may be started on it any more. */
void pf_poller_stop(pf_poller *poller);

/* Whether the front polls, or waits for the back to stop. Any thread. */
bool pf_poller_front_polls(const pf_poller *poller);

/* Whether a thread polls now: the number of the poll, and the CPU time of that thread since its start. A poll ends
 * within 50 ms, unless it reads without end, or signals interrupt it without end: then within 0.4 s. Any thread. */
bool pf_poller_sample(const pf_poller *poller, uint32_t *poll, uint64_t *cpu_ns);

/* Tells the front that what it waits for may have come. Any thread, mostly from `handle`. It needs no wakeup: the
 * front polls itself, or waits for the back to stop. */
void pf_poller_notify(pf_poller *poller);

/* On the front, which does not poll: the back polls from now on, until the front waits again. */
void pf_poller_leave(pf_poller *poller);

/* On the front, one thread at a time, without any lock that `handle` takes. Polls until pf_poller_notify has been
 * called since the last wait returned, or until deadline_ns (pf_now_ns time); asleep after spin_until_ns, or under
 * contention for the core (base/yield.h). After the deadline it ends after a few polls without an event, or at once
 * while the back polls. Returns after 50 ms asleep in any case: a caller that waits for more calls it in a loop. */
void pf_poller_wait(pf_poller *poller, uint64_t spin_until_ns, uint64_t deadline_ns);

#endif
