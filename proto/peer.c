/* Calls the operations of a peer, and answers for the optional ones that it does not implement. */
#include "proto/peer.h"

/* Whether a peer implements an operation: tables that were compiled for an older header are shorter. */
#define HAS(peer, op)                                                                                      \
    (((peer)->ops->size == 0 || (peer)->ops->size >= offsetof(pf_peer_ops, op) + sizeof(peer)->ops->op) && \
     (peer)->ops->op)

uint64_t pf_peer_new_sequence(pf_peer *a, pf_peer *b)
{
    const uint64_t last = b && b->last_sequence > a->last_sequence ? b->last_sequence : a->last_sequence;
    a->last_sequence = last + 1;
    if (b) b->last_sequence = last + 1;
    return last + 1;
}

pf_status pf_peer_submit(pf_peer *peer, const pf_batch *batch)
{
    return peer->ops->submit(peer, batch);
}

pf_status pf_peer_collect(pf_peer *peer, uint64_t deadline_ns, const pf_batch **out, pf_error *error)
{
    return peer->ops->collect(peer, deadline_ns, out, error);
}

pf_status pf_peer_info(pf_peer *peer, pf_model_info *out, pf_error *error)
{
    return peer->ops->info(peer, out, error);
}

void pf_peer_why(pf_peer *peer, pf_error *out)
{
    if (HAS(peer, why)) peer->ops->why(peer, out);
}

int32_t pf_peer_backlog(const pf_peer *peer)
{
    return HAS(peer, backlog) ? peer->ops->backlog(peer) : -1;
}

bool pf_peer_owes(const pf_peer *peer, uint64_t sequence)
{
    return !HAS(peer, owes) || peer->ops->owes(peer, sequence);
}

pf_status pf_peer_check_open(const pf_peer *peer, const pf_open *open, pf_error *error)
{
    return HAS(peer, check_open) ? peer->ops->check_open(peer, open, error) : PF_OK;
}

void pf_peer_take_invalid_logits(pf_peer *peer, pf_invalid_logits *out)
{
    *out = (pf_invalid_logits){ 0 };
    if (HAS(peer, take_invalid_logits)) peer->ops->take_invalid_logits(peer, out);
}

bool pf_peer_work_ahead(pf_peer *peer)
{
    return HAS(peer, work_ahead) && peer->ops->work_ahead(peer);
}

const pf_peer *pf_peer_model(const pf_peer *peer)
{
    return HAS(peer, model) ? peer->ops->model(peer) : peer;
}

void pf_peer_destroy(pf_peer *peer)
{
    if (peer) peer->ops->destroy(peer);
}
