/*
 * Whoever answers batches: a model drafter or a reference verifier in this process, or either across the wire.
 *
 * One caller submits a batch and later collects what has come of it. A near peer computes in collect; a far one
 * has been computing since submit. An answer may come late, twice or never: the caller fences by (incarnation,
 * sequence, round) and goes on without (DESIGN: speculation never blocks the target).
 *
 * Threads: one caller at a time.
 */
#ifndef PF_PROTO_PEER_H
#define PF_PROTO_PEER_H

#include <stdbool.h>

#include "base/status.h"
#include "proto/messages.h"

typedef struct pf_peer pf_peer;

typedef struct {
    /* Take a batch. What it points to is borrowed for the call only. Several may be submitted before a collect; each
     * has at most one answer, and one that asks for nothing (an open alone, a close) may have none. The refusals and
     * prefix requests for all of them come in the next answer: of more than PF_MAX_BATCH_SEQUENCES of a kind it has
     * the first.
     * PF_UNAVAILABLE: the peer is not there now (pf_peer_why tells); it may come back.  PF_LIMIT: the batch is too
     * large, or too many are unanswered. */
    pf_status (*submit)(pf_peer *peer, const pf_batch *batch);

    /* The next answer, waiting until deadline_ns (pf_now_ns time; 0: do not wait). *out is borrowed until the next
     * call on this peer. An answer may have nothing in it: a sign that the peer is at work still.
     * PF_CANCELLED: nothing came in time, or nothing is to come.  PF_UNAVAILABLE: the peer is gone, and all it knew with
     * it: reopen sequences when it is back. What goes wrong with one sequence comes as a refusal in the answer; another
     * status here is a fault of the whole peer. */
    pf_status (*collect)(pf_peer *peer, uint64_t deadline_ns, const pf_batch **out, pf_error *error);

    /* What the peer says of itself. PF_UNAVAILABLE: never reached. */
    pf_status (*info)(pf_peer *peer, pf_model_info *out, pf_error *error);

    void (*destroy)(pf_peer *peer);

    /* The sentence behind the last PF_UNAVAILABLE, for whoever had it from submit; its status is PF_UNSUPPORTED where
     * somebody is there who cannot be used. NULL for a peer that is always there. */
    void (*why)(pf_peer *peer, pf_error *out);

    /* How many tokens of prompts it has still to read. NULL for a peer that does not tell. */
    int32_t (*backlog)(const pf_peer *peer);

    /* Whether a later collect will answer for a sequence. NULL for a peer that does not tell. */
    bool (*owes)(const pf_peer *peer, uint64_t sequence);

    /* What makes an open impossible to serve, whatever else is open: the status and the sentence of the refusal that its
     * submit would bring. NULL for a peer that tells by that refusal alone. */
    pf_status (*check_open)(const pf_peer *peer, const pf_open *open, pf_error *error);
} pf_peer_ops;

/* The head of every implementation. */
struct pf_peer {
    const pf_peer_ops *ops;
    uint64_t last_sequence; /* of the ids that pf_peer_new_sequence has given out; 0: none */
};

/* An id for a sequence that neither peer was told of before by whoever has his ids from here, one user of a peer as the next:
 * an answer to one that is over is then never taken for another's. b may be NULL. */
static inline uint64_t pf_peer_new_sequence(pf_peer *a, pf_peer *b)
{
    const uint64_t last = b && b->last_sequence > a->last_sequence ? b->last_sequence : a->last_sequence;
    a->last_sequence = last + 1;
    if (b) b->last_sequence = last + 1;
    return last + 1;
}

static inline PF_MUST_USE pf_status pf_peer_submit(pf_peer *peer, const pf_batch *batch)
{
    return peer->ops->submit(peer, batch);
}

static inline PF_MUST_USE pf_status pf_peer_collect(pf_peer *peer, uint64_t deadline_ns, const pf_batch **out,
                                                    pf_error *error)
{
    return peer->ops->collect(peer, deadline_ns, out, error);
}

static inline PF_MUST_USE pf_status pf_peer_info(pf_peer *peer, pf_model_info *out, pf_error *error)
{
    return peer->ops->info(peer, out, error);
}

/* After PF_UNAVAILABLE. *out is untouched where the peer has nothing to say. */
static inline void pf_peer_why(pf_peer *peer, pf_error *out)
{
    if (peer->ops->why) peer->ops->why(peer, out);
}

/* -1: it does not tell. */
static inline int32_t pf_peer_backlog(const pf_peer *peer)
{
    return peer->ops->backlog ? peer->ops->backlog(peer) : -1;
}

/* True where it does not tell: it may. */
static inline bool pf_peer_owes(const pf_peer *peer, uint64_t sequence)
{
    return !peer->ops->owes || peer->ops->owes(peer, sequence);
}

/* PF_OK where it does not tell: it may be served. */
static inline PF_MUST_USE pf_status pf_peer_check_open(const pf_peer *peer, const pf_open *open, pf_error *error)
{
    return peer->ops->check_open ? peer->ops->check_open(peer, open, error) : PF_OK;
}

static inline void pf_peer_destroy(pf_peer *peer)
{
    if (peer) peer->ops->destroy(peer);
}

#endif
