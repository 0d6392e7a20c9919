#include "host/merged_peer.h"

#include <stdlib.h>
#include <string.h>

enum { N = PF_MAX_BATCH_SEQUENCES };

typedef struct {
    pf_peer head;
    pf_peer *inner;
    pf_timing step;
    pf_batch batch; /* into the arrays below */
    pf_open opens[N];
    pf_close closes[N];
    pf_proposal proposals[N];
    pf_verdict verdicts[N];
} merged_peer;

static merged_peer *merged_of(pf_peer *peer)
{
    return (merged_peer *)peer;
}

static const pf_peer *inner_of(const pf_peer *peer)
{
    return ((const merged_peer *)peer)->inner;
}

static bool is_empty(const pf_batch *b)
{
    return b->n_opens + b->n_closes + b->n_proposals + b->n_verdicts == 0;
}

static pf_status flush(merged_peer *m)
{
    pf_batch *b = &m->batch;
    if (is_empty(b)) return PF_OK;
    if (m->step.compute_ns > 0) b->timing = m->step;
    const pf_status status = pf_peer_submit(m->inner, b);
    b->n_opens = b->n_closes = b->n_proposals = b->n_verdicts = 0;
    b->timing = (pf_timing){ 0 };
    return status;
}

static bool fits(const pf_batch *held, const pf_batch *more)
{
    return held->n_opens + more->n_opens <= N && held->n_closes + more->n_closes <= N &&
           held->n_proposals + more->n_proposals <= N && held->n_verdicts + more->n_verdicts <= N;
}

static pf_status submit(pf_peer *peer, const pf_batch *batch)
{
    merged_peer *m = merged_of(peer);
    pf_batch *b = &m->batch;
    if (!fits(b, batch)) PF_TRY(flush(m));
    if (!fits(b, batch)) return PF_LIMIT;
#define PF_APPEND(kind) \
    for (int32_t i = 0; i < batch->n_##kind; i++) b->kind[b->n_##kind++] = batch->kind[i];
    PF_APPEND(opens)
    PF_APPEND(closes)
    PF_APPEND(proposals)
    PF_APPEND(verdicts)
#undef PF_APPEND
    if (batch->timing.compute_ns > b->timing.compute_ns) b->timing.compute_ns = batch->timing.compute_ns;
    return PF_OK;
}

static pf_status collect(pf_peer *peer, uint64_t deadline_ns, const pf_batch **out, pf_error *error)
{
    merged_peer *m = merged_of(peer);
    (void)deadline_ns;
    const pf_status status = flush(m);
    if (status != PF_OK) return pf_fail(error, status, "the peer takes no batch: %s", pf_status_name(status));
    return pf_peer_collect(m->inner, 0, out, error);
}

static pf_status get_info(pf_peer *peer, pf_model_info *out, pf_error *error)
{
    return pf_peer_info(merged_of(peer)->inner, out, error);
}

static int32_t count_backlog(const pf_peer *peer)
{
    return pf_peer_backlog(inner_of(peer));
}

static bool owes(const pf_peer *peer, uint64_t sequence)
{
    return pf_peer_owes(inner_of(peer), sequence);
}

static pf_status check_open(const pf_peer *peer, const pf_open *open, pf_error *error)
{
    return pf_peer_check_open(inner_of(peer), open, error);
}

static void take_invalid_logits(pf_peer *peer, pf_invalid_logits *out)
{
    pf_peer_take_invalid_logits(merged_of(peer)->inner, out);
}

/* Not while something waits for the next collect. */
static bool work_ahead(pf_peer *peer)
{
    merged_peer *m = merged_of(peer);
    return is_empty(&m->batch) && pf_peer_work_ahead(m->inner);
}

static void destroy(pf_peer *peer)
{
    free(peer);
}

static const pf_peer_ops ops = {
    .size = sizeof(pf_peer_ops),
    .submit = submit,
    .collect = collect,
    .info = get_info,
    .destroy = destroy,
    .backlog = count_backlog,
    .owes = owes,
    .check_open = check_open,
    .take_invalid_logits = take_invalid_logits,
    .work_ahead = work_ahead,
};

pf_status pf_merged_peer_create(pf_peer *inner, pf_peer **out)
{
    merged_peer *m = calloc(1, sizeof *m);
    if (!m) return PF_NOMEM;
    m->head.ops = &ops;
    m->inner = inner;
    m->batch = (pf_batch){ .opens = m->opens, .closes = m->closes, .proposals = m->proposals, .verdicts = m->verdicts };
    *out = &m->head;
    return PF_OK;
}

void pf_merged_peer_set_step(pf_peer *merged, pf_timing step)
{
    merged_of(merged)->step = step;
}

pf_status pf_merged_peer_flush(pf_peer *merged)
{
    return flush(merged_of(merged));
}
