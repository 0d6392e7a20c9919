/* The hub's thread: which sequences are admitted, when a pass begins, and what is computed. */
#include <stdio.h>

#include "base/clock.h"
#include "draft/choice_drafter.h"
#include "engine/hub_internal.h"
#include "host/merged_peer.h"

enum { MOST_GAPS = 25 }; /* of gather_ns that a pass waits, however many clients come one after the other */

/* ---- admission -------------------------------------------------------------------------------------------------- */

static void refuse(hub_client *c, pf_status status, const char *text)
{
    const pf_open *open = &c->in->batch.opens[0];
    pf_refusal refusal = { open->sequence, open->incarnation, status, text };
    pf_hub_client_answer(c, &(pf_batch){ .refusals = &refusal, .n_refusals = 1 });
    const int32_t n_closes = c->in->batch.n_closes;
    pf_held_clear(c->in);
    c->in->batch.n_closes = n_closes;
}

/* Its sequence is not open at the peer: it needs a place there. */
static bool needs_place(const hub_client *c)
{
    const pf_batch *in = &c->in->batch;
    return in->n_opens > 0 && !pf_dispatch_is_open(c->lane->dispatch, c, in->opens[0].sequence);
}

static void take_all(hub_client *c)
{
    pf_held_batch *in = c->in;
    c->in = c->taken;
    c->taken = in;
}

/* What it closes frees a place, so it does not wait behind its own next open. */
static void take_closes(hub_client *c)
{
    pf_batch *in = &c->in->batch;
    (void)!pf_held_add(c->taken, &(pf_batch){ .closes = in->closes, .n_closes = in->n_closes });
    in->n_closes = 0;
}

/* An open that finds no place waits, or is refused. */
static void hold_back(hub_client *c)
{
    hub_lane *lane = c->lane;
    char text[PF_MAX_REFUSAL_BYTES + 1];
    if (lane->n_waiting < lane->hub->options.max_waiting) {
        pf_hub_enqueue(&lane->waiting, c);
        lane->n_waiting++;
        return;
    }
    snprintf(text, sizeof text, "%d sequences are open and %d wait, more are not taken", lane->max_sequences,
             lane->n_waiting);
    refuse(c, PF_LIMIT, text);
}

/* *n_free: places for opens. */
static void take_ready(hub_client *c, int32_t *n_free)
{
    hub_lane *lane = c->lane;
    const bool needs = needs_place(c), is_stopping = lane->hub->stops_ns > 0;
    if (needs && is_stopping) refuse(c, PF_UNAVAILABLE, "the server is shutting down");
    if (!needs || is_stopping) {
        take_all(c);
    } else if (*n_free > 0) {
        --*n_free;
        take_all(c);
    } else {
        take_closes(c);
        hold_back(c);
    }
}

static void add_taken(hub_client *c)
{
    c->taken_ns = c->submitted_ns;
    c->next_taken = c->lane->taken;
    c->lane->taken = c;
}

/* Takes what clients have submitted, first of those that wait for a place, as many as there are. */
static void take_mail(hub_lane *lane)
{
    pthread_mutex_lock(&lane->hub->lock);
    int32_t n_free = lane->waiting.first || lane->ready.first ? pf_dispatch_free_slots(lane->dispatch) : 0;
    for (hub_client *c; n_free > 0 && (c = lane->waiting.first) != NULL; n_free--) {
        pf_hub_dequeue(c);
        take_all(c);
        add_taken(c);
    }
    for (hub_client *c; (c = lane->ready.first) != NULL;) {
        pf_hub_dequeue(c);
        take_ready(c, &n_free);
        if (!pf_held_is_empty(c->taken)) add_taken(c);
    }
    pthread_mutex_unlock(&lane->hub->lock);
}

/* ---- computing -------------------------------------------------------------------------------------------------- */

void pf_hub_send(void *user, void *client, const pf_batch *batch)
{
    hub_lane *lane = user;
    if (lane->service == PF_SERVICE_VERIFIER && batch->n_verdicts > 0) {
        const uint64_t all_ns = batch->timing.compute_ns, read_ns = pf_host_read_ns(lane->near);
        lane->hub->step = (pf_timing){ .compute_ns = all_ns > read_ns ? all_ns - read_ns : 0, .queue_ns = read_ns };
    }
    pthread_mutex_lock(&lane->hub->lock);
    pf_hub_client_answer(client, batch);
    pthread_mutex_unlock(&lane->hub->lock);
}

static pf_status submit_taken(hub_lane *lane, pf_error *error)
{
    pf_merged_peer_set_step(lane->merged, lane->service == PF_SERVICE_DRAFTER ? lane->hub->step : (pf_timing){ 0 });
    for (hub_client *c = lane->taken; c; c = c->next_taken) {
        const pf_batch *taken = &c->taken->batch;
        c->opens = taken->n_opens > 0 ? taken->opens[0].sequence : 0; /* submitting renames it */
        PF_TRY(pf_dispatch_submit(lane->dispatch, c, &c->taken->batch, NULL, pf_now_ns() - c->taken_ns, error));
    }
    const pf_status status = pf_merged_peer_flush(lane->merged);
    return status == PF_OK ? PF_OK : pf_fail(error, status, "the peer takes no batch: %s", pf_status_name(status));
}

/* ---- prompts that are read -------------------------------------------------------------------------------------- */

static int32_t count_unread(const hub_lane *lane, const hub_client *c)
{
    const uint64_t number = pf_dispatch_number(lane->dispatch, c, c->reads);
    return number != 0 ? pf_host_unread(lane->near, number) : -1;
}

/* What has been opened: how much of its prompt was in the cache. With the lock. */
static void begin_prompts(hub_lane *lane)
{
    for (hub_client *c = lane->taken; c; c = c->next_taken) {
        if (c->opens == 0) continue;
        c->reads = c->opens;
        c->n_unread = count_unread(lane, c);
        c->n_cached = c->n_unread >= 0 ? c->taken->batch.opens[0].n_tokens - c->n_unread : -1;
    }
}

/* With the lock. */
static void follow_prompts(hub_lane *lane)
{
    for (hub_client *c = lane->clients; c; c = c->next_in_lane)
        if (c->reads != 0) c->n_unread = count_unread(lane, c);
}

/* One unit: what is ready, and perhaps a pass over a prompt. */
static bool is_enough(void *user)
{
    (void)user;
    return true;
}

/* The peer has answered all that it will answer: no other client is to wait. */
static void settle(hub_lane *lane)
{
    for (hub_client *c = lane->clients; c; c = c->next_in_lane) {
        if (!c->is_owed || c->queue) continue;
        c->is_owed = false;
        pthread_cond_signal(&c->changed);
    }
}

static void fail_lane(hub_lane *lane, const pf_error *error)
{
    lane->failure = *error;
    for (hub_client *c = lane->clients; c; c = c->next_in_lane) pthread_cond_signal(&c->changed);
}

static void report(hub_lane *lane)
{
    const pf_hub_options *options = &lane->hub->options;
    char sentence[PF_INVALID_LOG_BYTES];
    pthread_mutex_lock(&lane->hub->lock);
    const bool warns = pf_invalid_log_update(&lane->invalid, lane->merged, lane->service, sentence);
    pthread_mutex_unlock(&lane->hub->lock);
    if (warns && options->warn) options->warn(options->user, sentence);
}

static void take_figures(hub_lane *lane)
{
    const uint64_t rests_until_ns = pf_choice_drafter_rests_until_ns(lane->near);
    (void)pf_host_get_figures(lane->near, &lane->figures);
    lane->n_open = pf_dispatch_open_sequences(lane->dispatch);
    if (lane->rests_until_ns != rests_until_ns) lane->rests_with = lane->n_open;
    lane->rests_until_ns = rests_until_ns;
}

/* Takes what has come, and computes one unit. Whether there was any. */
static bool advance(hub_lane *lane)
{
    if (!lane->merged || lane->failure.status != PF_OK) return false;
    pf_error error = { 0 };
    take_mail(lane);
    pf_status status = submit_taken(lane, &error);
    pthread_mutex_lock(&lane->hub->lock);
    begin_prompts(lane);
    pthread_mutex_unlock(&lane->hub->lock);
    const bool computes = status == PF_OK && pf_dispatch_is_behind(lane->dispatch);
    if (computes) status = pf_dispatch_collect(lane->dispatch, is_enough, &error);
    error.status = status;
    report(lane);
    pthread_mutex_lock(&lane->hub->lock);
    take_figures(lane);
    follow_prompts(lane);
    if (lane->service == PF_SERVICE_VERIFIER)
        pf_traffic_update(lane->hub->traffic, lane->near, pf_dispatch_open_sequences(lane->dispatch), lane->n_waiting);
    for (hub_client *c = lane->taken; c; c = c->next_taken) {
        pf_held_clear(c->taken);
        if (c->settles) pthread_cond_signal(&c->changed);
    }
    lane->taken = NULL;
    if (status != PF_OK) fail_lane(lane, &error);
    if (!pf_dispatch_is_behind(lane->dispatch)) settle(lane);
    pthread_mutex_unlock(&lane->hub->lock);
    return computes;
}

/* ---- waiting ---------------------------------------------------------------------------------------------------- */

static bool lane_has_work(hub_lane *lane)
{
    if (!lane->merged || lane->failure.status != PF_OK) return false;
    return lane->ready.first || pf_dispatch_is_behind(lane->dispatch) ||
           (lane->waiting.first && pf_dispatch_free_slots(lane->dispatch) > 0);
}

static bool has_work(pf_hub *hub)
{
    return hub->is_closing || hub->has_gone || lane_has_work(&hub->lanes[PF_SERVICE_DRAFTER]) ||
           lane_has_work(&hub->lanes[PF_SERVICE_VERIFIER]);
}

/* Drafts ahead, a pass at a time, until there is work or nothing to draft. */
static void work_ahead(pf_hub *hub)
{
    const hub_lane *lane = &hub->lanes[PF_SERVICE_DRAFTER];
    bool goes_on = lane->merged && lane->failure.status == PF_OK;
    while (goes_on && !has_work(hub)) {
        pthread_mutex_unlock(&hub->lock);
        goes_on = pf_dispatch_work_ahead(lane->dispatch);
        pthread_mutex_lock(&hub->lock);
    }
}

/* A place may become free by the time that its sequence has been idle, too: so it looks now and then. */
static void wait_for_work(pf_hub *hub)
{
    static const uint64_t LOOK_NS = 100 * 1000 * 1000;
    while (!has_work(hub)) {
        hub->is_idle = true;
        pf_hub_wait(hub, &hub->work, pf_now_ns() + LOOK_NS);
        hub->is_idle = false;
    }
}

/* Clients that have not come in time are not waited for until they have come. */
static void give_up_on_late(hub_lane *lane)
{
    for (hub_client *c = lane->clients; c; c = c->next_in_lane) {
        if (!c->is_away || c->is_slow) continue;
        c->is_slow = true;
        lane->hub->n_away--;
    }
}

/* Waits for clients that have just been answered, as long as one after the other comes. */
static void gather(pf_hub *hub)
{
    const uint64_t most_ns = pf_now_ns() + MOST_GAPS * hub->options.gather_ns;
    while (hub->n_away > 0 && !hub->is_closing) {
        const uint64_t gap_ns = hub->moved_ns + hub->options.gather_ns;
        const uint64_t until_ns = gap_ns < most_ns ? gap_ns : most_ns;
        if (pf_now_ns() >= until_ns) break;
        hub->is_gathering = true;
        pf_hub_wait(hub, &hub->work, until_ns);
        hub->is_gathering = false;
    }
    for (int service = 0; service < PF_N_SERVICES; service++) give_up_on_late(&hub->lanes[service]);
}

/* ---- the loop --------------------------------------------------------------------------------------------------- */

static void end_gone_of(hub_lane *lane)
{
    for (hub_client **link = &lane->clients; *link;) {
        hub_client *c = *link;
        if (!c->is_gone) {
            link = &c->next_in_lane;
            continue;
        }
        *link = c->next_in_lane;
        pf_dispatch_end_stream(lane->dispatch, c);
        pf_hub_client_free(c);
    }
    if (lane->merged)
        (void)!pf_merged_peer_flush(lane->merged); /* a peer that takes no close fails at the next collect, too */
}

static void end_gone(pf_hub *hub)
{
    if (!hub->has_gone) return;
    hub->has_gone = false;
    for (int service = 0; service < PF_N_SERVICES; service++) end_gone_of(&hub->lanes[service]);
}

/* A round of every sequence is a pass of the drafter and one of the verifier. The drafter's comes first, so that its proposals
 * are verified in one pass with those that wait already. */
void *pf_hub_run(void *user)
{
    pf_hub *hub = user;
    for (;;) {
        pthread_mutex_lock(&hub->lock);
        gather(hub);
        work_ahead(hub);
        wait_for_work(hub);
        end_gone(hub);
        const bool is_closing = hub->is_closing;
        pthread_mutex_unlock(&hub->lock);
        if (is_closing) return NULL;
        if (advance(&hub->lanes[PF_SERVICE_DRAFTER])) {
            pthread_mutex_lock(&hub->lock);
            gather(hub);
            pthread_mutex_unlock(&hub->lock);
        }
        (void)advance(&hub->lanes[PF_SERVICE_VERIFIER]);
    }
}
