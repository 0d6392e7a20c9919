/*
 * What the files of a hub share. Internal to engine/.
 *
 *      session threads                              the hub's thread
 *      hub_client.c   submit --> in  --swap-->  taken --> host/dispatch.c --> host/merged_peer.c --> near peer
 *                     collect <-- out <----------------- host/dispatch.c <-----------------------/
 *      hub_loop.c     admission in order of arrival, gathering, one unit of work of each lane in turn
 *      peer_hub.c     creation and end, figures, stopping
 *
 * A lane is one near peer with its clients. A client follows one sequence at a time. It is in one of its lane's two queues, or in
 * none:
 *
 *      ready      it has messages that the hub's thread takes next
 *      waiting    its open waits until a sequence is closed; first in, first out
 *
 * A client that has been answered, and is expected to go on, is away until it submits. A pass waits for clients that are away,
 * but only briefly (pf_hub_gather), and not for one that took longer than that the last time. A session that goes on at its drafter has come
 * back from its verifier, and the other way round (pf_hub_pair).
 *
 * While nothing pays at the drafter (draft/goodput.h), sessions tell it of their verdicts and do not ask it: a round has then no way to
 * the drafter and back (pf_hub_rests).
 *
 * Threads: everything is guarded by the hub's lock, and functions require it held, unless they say otherwise.
 */
#ifndef PF_ENGINE_HUB_INTERNAL_H
#define PF_ENGINE_HUB_INTERNAL_H

#include <pthread.h>

#include "engine/roles.h"
#include "host/dispatch.h"
#include "host/held_batch.h"
#include "host/invalid_log.h"
#include "host/sequence_host.h"
#include "include/pilotfish.h"

typedef struct hub_client hub_client;
typedef struct hub_lane hub_lane;

typedef struct {
    hub_client *first, **end;
} hub_queue;

struct hub_client {
    pf_peer peer;
    hub_lane *lane;
    pthread_cond_t changed; /* there is an answer, or there will be none */
    pf_arena arena;         /* of the mailboxes */
    pf_held_batch mailboxes[4];
    pf_held_batch *in;    /* submitted and not taken */
    pf_held_batch *taken; /* of the hub's thread, until the lane has been collected from */
    pf_held_batch *out;   /* answered and not collected */
    pf_held_batch *given; /* borrowed by the owner until its next call */
    hub_queue *queue;     /* that it is in; NULL: none */
    hub_client *next;     /* in that queue */
    hub_client *next_taken;
    hub_client *next_in_lane, **previous_in_lane;
    hub_client *other;     /* of the same session, in the other lane; NULL: none */
    uint64_t submitted_ns; /* when the oldest message of `in` came */
    uint64_t taken_ns;     /* the same of `taken`; of the hub's thread */
    uint64_t answered_ns;  /* when it was last answered */
    uint64_t reads;        /* the sequence whose prompt is read, after its open; 0: none */
    int32_t n_unread;      /* of that prompt; -1: not known */
    int32_t n_cached;      /* tokens of the latest prompt that the peer had in its cache; -1: not known */
    uint64_t opens;        /* the sequence that `taken` opens; 0: none; of the hub's thread */
    bool is_owed;          /* an answer is to come */
    bool is_away;          /* answered, and expected to go on */
    bool is_slow;          /* it was away for too long the last time */
    bool settles;          /* its owner waits until the peer has taken all that it submitted */
    bool is_gone;          /* destroyed by its owner: the hub's thread frees it */
};

/* One near peer. */
struct hub_lane {
    pf_hub *hub;
    pf_service service;
    pf_peer *near;         /* NULL: the hub has no such peer */
    pf_peer *merged;       /* in front of it */
    pf_dispatch *dispatch; /* of the hub's thread, without the lock */
    pf_model_info info;    /* of a client */
    int32_t max_sequences; /* open at once */
    pf_held_room in_room, out_room;
    hub_client *clients;
    hub_queue ready, waiting;
    int32_t n_waiting;
    hub_client *taken; /* of the hub's thread: whose messages are at the peer, by next_taken */
    pf_error failure;  /* of the peer as a whole; PF_OK: none */
    pf_invalid_log invalid;
    pf_model_figures figures;   /* after the latest unit */
    pf_model_figures before;    /* of the peer, when the hub was created */
    uint64_t rests_until_ns;    /* of a drafter: pf_choice_drafter_rests_until_ns */
    int32_t n_open, rests_with; /* sequences: now, and when it began to rest */
};

struct pf_hub {
    pf_hub_options options;
    char *draft_worker;
    pf_metrics *own_metrics; /* where none were given */
    pf_traffic *traffic;     /* of the verifier */
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock;
    pthread_cond_t work; /* the hub's thread waits for it */
    hub_lane lanes[PF_N_SERVICES];
    int32_t n_away;    /* clients that are away and not slow */
    uint64_t moved_ns; /* when a client last submitted or was answered */
    bool is_idle;      /* the hub's thread sleeps until there is work */
    bool is_gathering; /* ... until clients that are away have come */
    bool has_gone;     /* some client is_gone */
    bool is_closing;   /* pf_hub_destroy */
    uint64_t stops_ns; /* when open sequences are cancelled; 0: it is not stopping */
    pf_timing
        step; /* of the verifier's latest answer: the verification, and prompts that it read before; of the hub's thread */
};

/* ---- hub_client.c ------------------------------------------------------------------------------------------------- */

/* A client of the lane. Without the lock. PF_NOMEM. */
PF_MUST_USE pf_status pf_hub_client_create(hub_lane *lane, pf_peer **out, pf_error *error);
void pf_hub_client_free(hub_client *c); /* on the hub's thread, once nothing refers to it */

/* A condition by the clock of pf_now_ns, and a wait on it. */
void pf_hub_cond_init(pthread_cond_t *cond);
void pf_hub_wait(pf_hub *hub, pthread_cond_t *cond, uint64_t until_ns);

/* Puts an answer into its mailbox and wakes it. */
void pf_hub_client_answer(hub_client *c, const pf_batch *answer);

/* It is not away any more, whether it came or not. */
void pf_hub_client_not_away(hub_client *c);

/* Adds it to a queue, or takes it out of the one that it is in. */
void pf_hub_enqueue(hub_queue *queue, hub_client *c);
void pf_hub_dequeue(hub_client *c);

/* Whether open sequences are to be cancelled. */
bool pf_hub_is_over(const pf_hub *hub);

/* ---- hub_loop.c, without the lock --------------------------------------------------------------------------------- */

void *pf_hub_run(void *hub);                                       /* the hub's thread */
void pf_hub_send(void *lane, void *client, const pf_batch *batch); /* a pf_dispatch_send */

#endif
