/*
 * Who polls a completion queue now.
 *
 * gRPC works only while somebody polls: it reads, writes, answers pings and reconnects inside of the poll. Waking a
 * thread costs more than all that, so whoever waits for what comes polls for himself:
 *
 *     front   the thread that waits: it polls in pf_poller_wait, for a moment without sleeping, then asleep
 *     back    a thread in reserve: it polls while the front is away, and makes way when the front is back
 *
 *     front   ==polls====|  away  |==polls==|          away (it computes)         |====polls====
 *     back    ...........................................|==========polls=========|.............
 *                                                <------> front_idle_ns: unpolled for no longer
 *
 * Never both at once: gRPC has one of them wait for the other's poll. Events are handled one at a time, on whichever
 * thread it is.
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
    void (*look)(void *user); /* at other things, from the back, at least every 50 ms while it polls; or NULL */
    void *user;
    uint64_t front_idle_ns; /* how long the front may be away before the back polls */
} pf_poller_config;

/* Part of its owner's struct; its fields are the poller's alone. */
typedef struct {
    pf_poller_config config;
    grpc_completion_queue *cq;
    grpc_channel *nowhere;
    grpc_call *wakeup; /* puts an event on the queue, which gets who polls out of it */
    pthread_t back;
    atomic_bool news;
    pf_contention contention; /* on the front's core */
    atomic_bool front_polls;  /* or waits for the back to make way */
    atomic_uint n_polls;      /* begun */
    atomic_int polls_clock;   /* the CPU clock of the thread that polls; 0: none does */

    pthread_mutex_t lock;
    pthread_cond_t turn;
    bool back_polls;
    bool back_sleeps; /* somebody has to wake it */
    uint64_t left_ns; /* when the front went away */
} pf_poller;

/* Makes a queue, and the back, which polls it at once. After pf_grpc_begin. False: no thread; nothing is left. */
bool pf_poller_start(pf_poller *poller, const pf_poller_config *config);

/* Shuts the queue down, handles what is left on it, and destroys it. Nothing may be started on it any more. */
void pf_poller_stop(pf_poller *poller);

/* Whether the front polls, or waits for the back to make way. From anywhere. */
bool pf_poller_front_polls(const pf_poller *poller);

/* Whether somebody polls now: the number of the poll, and the CPU time that its thread has had in its life. A poll ends
 * within 50 ms, unless what it reads never ends, or signals do not: then within 0.4 s. From anywhere. */
bool pf_poller_sample(const pf_poller *poller, uint32_t *poll, uint64_t *cpu_ns);

/* Whatever the front waits for may have come. From anywhere, mostly from `handle`. It wakes nobody: the front polls
 * itself, or waits for the back to make way. */
void pf_poller_notify(pf_poller *poller);

/* On the front, one thread at a time, holding no lock that `handle` takes. Polls until pf_poller_notify has been
 * called since the last wait returned, or deadline_ns (pf_now_ns time) is there; asleep after spin_until_ns, or where the core
 * is crowded (base/yield.h). Where the deadline has passed it ends after a few looks that find nothing, or, while the back
 * polls, at once. Returns after 50 ms asleep in any case, so that the caller can look at other things: whoever
 * waits for more calls it in a loop, and looks before. */
void pf_poller_wait(pf_poller *poller, uint64_t spin_until_ns, uint64_t deadline_ns);

#endif
