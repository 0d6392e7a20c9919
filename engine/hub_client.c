/* The peer that a session sees: mailboxes between its thread and the hub's. */
#include "engine/hub_internal.h"

#include <stdlib.h>
#include <time.h>

#include "base/clock.h"

/* How often a wait returns, so that its caller sees whether it is cancelled. */
static const uint64_t LOOK_NS = 50 * 1000 * 1000;

/* A client that is away for longer is not waited for. */
static const uint64_t SLOW_NS = 2 * 1000 * 1000;

static hub_client *client_of(pf_peer *peer)
{
    return (hub_client *)peer;
}

bool pf_hub_is_over(const pf_hub *hub)
{
    return hub->stops_ns > 0 && pf_now_ns() >= hub->stops_ns;
}

/* ---- queues ---------------------------------------------------------------------------------------------------- */

void pf_hub_enqueue(hub_queue *queue, hub_client *c)
{
    c->queue = queue;
    c->next = NULL;
    *queue->end = c;
    queue->end = &c->next;
}

void pf_hub_dequeue(hub_client *c)
{
    hub_queue *queue = c->queue;
    if (!queue) return;
    hub_client **link = &queue->first;
    while (*link != c) link = &(*link)->next;
    *link = c->next;
    if (!*link) queue->end = link;
    if (queue == &c->lane->waiting) c->lane->n_waiting--;
    c->queue = NULL;
}

/* ---- away and back --------------------------------------------------------------------------------------------- */

void pf_hub_client_not_away(hub_client *c)
{
    if (c->is_away && !c->is_slow) c->lane->hub->n_away--;
    c->is_away = false;
}

static void set_away(hub_client *c)
{
    if (!c->is_away && !c->is_slow) c->lane->hub->n_away++;
    c->is_away = true;
}

static bool goes_on(const pf_batch *answer)
{
    for (int32_t i = 0; i < answer->n_verdicts; i++)
        if (answer->verdicts[i].finish == PF_FINISH_NONE) return true;
    return answer->n_proposals + answer->n_prefix_requests > 0;
}

/* ---- questions -------------------------------------------------------------------------------------------------- */

/* Whether an answer to it is to come. */
static bool asks(const pf_batch *batch, bool of_verifier)
{
    if (of_verifier) return batch->n_opens + batch->n_proposals > 0;
    for (int32_t i = 0; i < batch->n_verdicts; i++)
        if (batch->verdicts[i].finish == PF_FINISH_NONE && batch->verdicts[i].next_draft != PF_NO_DRAFT) return true;
    return false;
}

/* ---- answers --------------------------------------------------------------------------------------------------- */

/* An owner that leaves many answers uncollected loses the older ones. */
static void keep(hub_client *c, const pf_batch *answer)
{
    if (pf_held_add(c->out, answer)) return;
    pf_held_clear(c->out);
    (void)!pf_held_add(c->out, answer);
}

void pf_hub_client_answer(hub_client *c, const pf_batch *answer)
{
    pf_hub *hub = c->lane->hub;
    if (c->is_gone) return;
    keep(c, answer);
    /* What waits in the mailbox is not what this answers: the sequence before may have been closed meanwhile. */
    c->is_owed = asks(&c->in->batch, c->lane->service == PF_SERVICE_VERIFIER);
    c->answered_ns = hub->moved_ns = pf_now_ns();
    c->reads = 0;
    if (goes_on(answer)) set_away(c);
    pthread_cond_signal(&c->changed);
}

/* ---- the peer, on its owner's thread --------------------------------------------------------------------------- */

static bool has_direction(const pf_batch *batch, bool to_verifier)
{
    return (to_verifier ? batch->n_verdicts : batch->n_proposals) + batch->n_prefix_requests + batch->n_refusals == 0;
}

/* Wakes the hub's thread, where it waits for this. */
static void notify(pf_hub *hub)
{
    if (hub->is_idle || (hub->is_gathering && hub->n_away == 0)) pthread_cond_signal(&hub->work);
}

static void come_back(hub_client *c, uint64_t now_ns)
{
    const bool was_away = c->is_away;
    pf_hub_client_not_away(c);
    if (was_away) c->is_slow = now_ns - c->answered_ns > SLOW_NS;
}

static pf_status take(hub_client *c, const pf_batch *batch)
{
    pf_hub *hub = c->lane->hub;
    const bool of_verifier = c->lane->service == PF_SERVICE_VERIFIER;
    const uint64_t now_ns = pf_now_ns();
    if (c->lane->failure.status != PF_OK) return c->lane->failure.status;
    if (!has_direction(batch, of_verifier)) return PF_INVALID;
    const bool was_empty = pf_held_is_empty(c->in);
    if (!pf_held_add(c->in, batch)) return PF_LIMIT;
    if (was_empty) c->submitted_ns = now_ns;
    come_back(c, now_ns);
    if (c->other) come_back(c->other, now_ns);
    if (batch->n_closes > 0) c->is_owed = false;
    if (asks(batch, of_verifier)) c->is_owed = true;
    if (c->queue == &c->lane->waiting && c->in->batch.n_opens == 0) pf_hub_dequeue(c); /* it has been closed */
    if (!c->queue) pf_hub_enqueue(&c->lane->ready, c);
    hub->moved_ns = now_ns;
    notify(hub);
    return PF_OK;
}

static pf_status submit(pf_peer *peer, const pf_batch *batch)
{
    hub_client *c = client_of(peer);
    pthread_mutex_lock(&c->lane->hub->lock);
    const pf_status status = take(c, batch);
    pthread_mutex_unlock(&c->lane->hub->lock);
    return status;
}

static struct timespec time_of(uint64_t ns)
{
    enum { NS_PER_S = 1000 * 1000 * 1000 };
    return (struct timespec){ .tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S) };
}

void pf_hub_wait(pf_hub *hub, pthread_cond_t *cond, uint64_t until_ns)
{
    const struct timespec until = time_of(until_ns);
    (void)pthread_cond_timedwait(cond, &hub->lock, &until);
}

static pf_status await(hub_client *c, uint64_t until_ns, const pf_batch **out, pf_error *error)
{
    static const pf_batch at_work = { 0 };
    pf_hub *hub = c->lane->hub;
    pf_held_clear(c->given);
    while (pf_held_is_empty(c->out)) {
        const pf_error *failure = &c->lane->failure;
        if (failure->status != PF_OK) return pf_fail(error, failure->status, "%s", failure->text);
        if (pf_hub_is_over(hub)) return pf_fail(error, PF_CANCELLED, "the hub has been stopped");
        if (!c->is_owed) return pf_fail(error, PF_CANCELLED, "nothing is to come");
        if (pf_now_ns() >= until_ns) {
            *out = &at_work;
            return PF_OK;
        }
        pf_hub_wait(hub, &c->changed, until_ns);
    }
    pf_held_batch *answered = c->out;
    c->out = c->given;
    c->given = answered;
    *out = &answered->batch;
    return PF_OK;
}

/* Waits past the deadline as a peer that computes here does, but never for long. */
static pf_status collect(pf_peer *peer, uint64_t deadline_ns, const pf_batch **out, pf_error *error)
{
    hub_client *c = client_of(peer);
    const uint64_t look_ns = pf_now_ns() + LOOK_NS;
    pthread_mutex_lock(&c->lane->hub->lock);
    const pf_status status = await(c, deadline_ns < look_ns ? look_ns : deadline_ns, out, error);
    pthread_mutex_unlock(&c->lane->hub->lock);
    return status;
}

static pf_status get_info(pf_peer *peer, pf_model_info *out, pf_error *error)
{
    (void)error;
    *out = client_of(peer)->lane->info;
    return PF_OK;
}

static bool owes(const pf_peer *peer, uint64_t sequence)
{
    const hub_client *c = (const hub_client *)peer;
    (void)sequence;
    pthread_mutex_lock(&c->lane->hub->lock);
    const bool is_owed = c->is_owed;
    pthread_mutex_unlock(&c->lane->hub->lock);
    return is_owed;
}

static int32_t count_backlog(const pf_peer *peer)
{
    const hub_client *c = (const hub_client *)peer;
    pthread_mutex_lock(&c->lane->hub->lock);
    const int32_t n = c->reads != 0 ? c->n_unread : c->is_owed ? -1 : 0;
    pthread_mutex_unlock(&c->lane->hub->lock);
    return n;
}

static void unpair(hub_client *c)
{
    if (c->other) c->other->other = NULL;
    c->other = NULL;
}

/* The hub's thread closes its sequence and frees it. */
static void destroy(pf_peer *peer)
{
    hub_client *c = client_of(peer);
    pf_hub *hub = c->lane->hub;
    pthread_mutex_lock(&hub->lock);
    pf_hub_client_not_away(c);
    pf_hub_dequeue(c);
    unpair(c);
    c->is_gone = hub->has_gone = true;
    if (hub->is_idle || hub->is_gathering) pthread_cond_signal(&hub->work);
    pthread_mutex_unlock(&hub->lock);
}

static const pf_peer_ops ops = {
    .size = sizeof(pf_peer_ops),
    .submit = submit,
    .collect = collect,
    .info = get_info,
    .destroy = destroy,
    .backlog = count_backlog,
    .owes = owes,
};

int32_t pf_hub_cached_tokens(const pf_peer *peer)
{
    const hub_client *c = (const hub_client *)peer;
    if (peer->ops != &ops) return -1;
    pthread_mutex_lock(&c->lane->hub->lock);
    const int32_t n = c->n_cached;
    pthread_mutex_unlock(&c->lane->hub->lock);
    return n;
}

void pf_hub_pair(pf_peer *verifier, pf_peer *drafter)
{
    hub_client *a = client_of(verifier), *b = client_of(drafter);
    if (verifier->ops != &ops || drafter->ops != &ops || a->lane->hub != b->lane->hub) return;
    pf_hub *hub = a->lane->hub;
    pthread_mutex_lock(&hub->lock);
    unpair(a);
    unpair(b);
    a->other = b;
    b->other = a;
    pthread_mutex_unlock(&hub->lock);
}

/* A drafter that rests is asked again as soon as fewer sequences share its passes. */
bool pf_hub_rests(const pf_peer *peer)
{
    enum { PARTS = 4 };
    const hub_client *c = (const hub_client *)peer;
    if (peer->ops != &ops || c->lane->service != PF_SERVICE_DRAFTER) return false;
    const hub_lane *lane = c->lane;
    pthread_mutex_lock(&lane->hub->lock);
    const bool rests = lane->rests_until_ns > pf_now_ns() && PARTS * lane->n_open > (PARTS - 1) * lane->rests_with;
    pthread_mutex_unlock(&lane->hub->lock);
    return rests;
}

/* What has been taken is cleared once the peer has it, and the hub's thread is no longer in the peer. */
void pf_hub_settle(pf_peer *peer)
{
    hub_client *c = client_of(peer);
    if (peer->ops != &ops) return;
    pf_hub *hub = c->lane->hub;
    pthread_mutex_lock(&hub->lock);
    c->settles = true;
    while (c->lane->failure.status == PF_OK && !(pf_held_is_empty(c->in) && pf_held_is_empty(c->taken)))
        pf_hub_wait(hub, &c->changed, pf_now_ns() + LOOK_NS);
    c->settles = false;
    pthread_mutex_unlock(&hub->lock);
}

/* ---- creation and end ------------------------------------------------------------------------------------------ */

static void lay_out(hub_client *c, pf_arena *arena)
{
    for (size_t i = 0; i < sizeof c->mailboxes / sizeof *c->mailboxes; i++)
        pf_held_lay_out(&c->mailboxes[i], i < 2 ? &c->lane->in_room : &c->lane->out_room, arena);
}

pf_status pf_hub_client_create(hub_lane *lane, pf_peer **out, pf_error *error)
{
    hub_client *c = calloc(1, sizeof *c);
    if (!c) return pf_fail(error, PF_NOMEM, "no memory for a peer of a hub");
    c->lane = lane;
    pf_arena measure = pf_arena_measure();
    lay_out(c, &measure);
    if (pf_arena_create(measure.used, &c->arena) != PF_OK) {
        free(c);
        return pf_fail(error, PF_NOMEM, "no memory for a peer of a hub");
    }
    lay_out(c, &c->arena);
    c->peer.ops = &ops;
    c->n_cached = -1;
    c->in = &c->mailboxes[0];
    c->taken = &c->mailboxes[1];
    c->out = &c->mailboxes[2];
    c->given = &c->mailboxes[3];
    pf_hub_cond_init(&c->changed);
    pthread_mutex_lock(&lane->hub->lock);
    c->next_in_lane = lane->clients;
    lane->clients = c;
    pthread_mutex_unlock(&lane->hub->lock);
    *out = &c->peer;
    return PF_OK;
}

void pf_hub_client_free(hub_client *c)
{
    pthread_cond_destroy(&c->changed);
    pf_arena_destroy(&c->arena);
    free(c);
}

void pf_hub_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC); /* pf_now_ns */
    pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
}
