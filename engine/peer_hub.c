/* Makes and ends hubs, and the peers that sessions get of them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/team.h"
#include "engine/hub_internal.h"
#include "engine/versioned.h"
#include "host/merged_peer.h"

enum { DEFAULT_WAITING = 256, MOST_WAITING = 1 << 20 };
static const uint64_t DEFAULT_GATHER_NS = 200 * 1000, MOST_GATHER_NS = UINT64_C(1000) * 1000 * 1000;

/* An open sequence that is idle for so long gives its place to one that waits. */
static const uint64_t SEQUENCE_IDLE_NS = UINT64_C(5) * 1000 * 1000 * 1000;

/* ---- options ---------------------------------------------------------------------------------------------------- */

static pf_status check_peers(const pf_hub_options *options, pf_error *error)
{
    if (!options->verifier || options->verifier->is_far)
        return pf_fail(error, PF_INVALID,
                       "a hub needs a verifier of this process: a session has one behind an address alone");
    if (options->drafter && options->drafter->is_far)
        return pf_fail(error, PF_INVALID,
                       "the drafter of a hub is behind an address, expected draft_worker to name it");
    if (options->drafter && options->draft_worker)
        return pf_fail(error, PF_INVALID, "a hub has a drafter and a draft_worker, expected one of them");
    return PF_OK;
}

static pf_status check_options(const pf_hub_options *options, pf_error *error)
{
    PF_TRY(check_peers(options, error));
    if (options->max_sequences < 0 || options->max_sequences > PF_MAX_OPEN_SEQUENCES)
        return pf_fail(error, PF_INVALID, "max_sequences is %d, expected 0 to %d", options->max_sequences,
                       PF_MAX_OPEN_SEQUENCES);
    if (options->max_waiting < -1 || options->max_waiting > MOST_WAITING)
        return pf_fail(error, PF_INVALID, "max_waiting is %d, expected -1 to %d", options->max_waiting, MOST_WAITING);
    if (options->gather_ns > MOST_GATHER_NS)
        return pf_fail(error, PF_INVALID, "gather_ns is %" PRIu64 ", expected at most %" PRIu64, options->gather_ns,
                       MOST_GATHER_NS);
    return options->draft_worker ? pf_check_address(options->draft_worker, false, error) : PF_OK;
}

static void resolve(pf_hub_options *options)
{
    if (options->gather_ns == 0) options->gather_ns = DEFAULT_GATHER_NS;
    if (options->max_waiting == 0) options->max_waiting = DEFAULT_WAITING;
    if (options->max_waiting < 0) options->max_waiting = 0;
}

/* ---- lanes ------------------------------------------------------------------------------------------------------ */

static pf_status describe_lane(hub_lane *lane, pf_peer *peer, pf_error *error)
{
    pf_model_info *info = &lane->info;
    PF_TRY(pf_peer_info(peer, info, error));
    const int32_t wanted = lane->hub->options.max_sequences;
    lane->max_sequences = wanted > 0 ? pf_min(wanted, info->max_sequences) : info->max_sequences;
    info->max_sequences = 1;
    const bool verifies = lane->service == PF_SERVICE_VERIFIER;
    const pf_held_room opens = { .open_tokens = info->max_context + PF_MAX_DRAFT_TOKENS },
                       proposals = { .draft_tokens = PF_MAX_DRAFT_TOKENS, .max_declared = info->max_declared };
    lane->in_room = opens;
    if (verifies) {
        lane->in_room.draft_tokens = proposals.draft_tokens;
        lane->in_room.max_declared = proposals.max_declared;
        lane->out_room.logprobs = info->max_draft + 1;
    } else {
        lane->out_room = proposals;
    }
    return PF_OK;
}

static pf_status open_lane(pf_hub *hub, pf_service service, pf_peer *peer, pf_error *error)
{
    hub_lane *lane = &hub->lanes[service];
    lane->hub = hub;
    lane->near = peer;
    lane->service = service;
    lane->ready.end = &lane->ready.first;
    lane->waiting.end = &lane->waiting.first;
    if (!peer) return PF_OK;
    PF_TRY(describe_lane(lane, peer, error));
    if (pf_host_get_figures(peer, &lane->before)) lane->figures = lane->before;
    pf_status status = pf_merged_peer_create(peer, &lane->merged);
    if (status == PF_OK)
        status = pf_dispatch_create(service, lane->merged, lane->max_sequences, SEQUENCE_IDLE_NS, pf_hub_send, lane,
                                    &lane->dispatch);
    return status == PF_OK ? PF_OK : pf_fail(error, status, "no room for a hub of %d sequences", lane->max_sequences);
}

static void close_lane(hub_lane *lane)
{
    pf_dispatch_destroy(lane->dispatch);
    pf_peer_destroy(lane->merged);
}

/* A sequence has a place at both peers. */
static pf_status share_places(pf_hub *hub, pf_error *error)
{
    pf_hub_options *options = &hub->options;
    pf_model_info info;
    if (!options->drafter) return PF_OK;
    PF_TRY(pf_peer_info(options->drafter, &info, error));
    if (options->max_sequences == 0 || info.max_sequences < options->max_sequences)
        options->max_sequences = info.max_sequences;
    return PF_OK;
}

static pf_status open_metrics(pf_hub *hub, pf_error *error)
{
    hub_lane *verifier = &hub->lanes[PF_SERVICE_VERIFIER];
    if (!hub->options.metrics && pf_metrics_create(&hub->own_metrics) != PF_OK)
        return pf_fail(error, PF_NOMEM, "no memory for the metrics of a hub");
    pf_metrics *metrics = hub->options.metrics ? hub->options.metrics : hub->own_metrics;
    PF_TRY(pf_traffic_create(metrics, PF_SERVICE_VERIFIER, verifier->info.model_id, &hub->traffic, error));
    pf_dispatch_count_in(verifier->dispatch, hub->traffic);
    const hub_lane *drafter = &hub->lanes[PF_SERVICE_DRAFTER];
    if (drafter->near)
        PF_TRY(pf_traffic_name_drafters(hub->traffic, metrics, verifier->info.model_id, &drafter->info, error));
    return PF_OK;
}

/* ---- creation and end -------------------------------------------------------------------------------------------- */

typedef struct {
    pf_hub *hub;
    int failure; /* of pthread_create */
} start;

static void start_thread(void *arg)
{
    start *s = arg;
    s->failure = pthread_create(&s->hub->thread, NULL, pf_hub_run, s->hub);
    s->hub->has_thread = s->failure == 0;
}

static pf_status open_hub(pf_hub *hub, pf_error *error)
{
    const pf_hub_options *options = &hub->options;
    if (options->draft_worker) {
        hub->draft_worker = strdup(options->draft_worker);
        if (!hub->draft_worker) return pf_fail(error, PF_NOMEM, "no memory for a hub");
    }
    PF_TRY(share_places(hub, error));
    PF_TRY(open_lane(hub, PF_SERVICE_DRAFTER, options->drafter, error));
    PF_TRY(open_lane(hub, PF_SERVICE_VERIFIER, options->verifier, error));
    PF_TRY(open_metrics(hub, error));
    start s = { .hub = hub };
    pf_team_run_unpinned(start_thread, &s); /* the caller may be pinned, and the thread would inherit its CPU */
    return hub->has_thread ? PF_OK
                           : pf_fail(error, PF_LIMIT, "a hub's thread cannot be started: %s", strerror(s.failure));
}

pf_status pf_hub_create(const pf_hub_options *given, pf_hub **out, pf_error *error)
{
    pf_hub_options options;
    PF_TRY(pf_versioned_copy("pf_hub_options", given, &options, sizeof options, error));
    PF_TRY(check_options(&options, error));
    resolve(&options);
    pf_hub *hub = calloc(1, sizeof *hub);
    if (!hub) return pf_fail(error, PF_NOMEM, "no memory for a hub");
    hub->options = options;
    pthread_mutex_init(&hub->lock, NULL);
    pf_hub_cond_init(&hub->work);
    const pf_status status = open_hub(hub, error);
    if (status != PF_OK) {
        pf_hub_destroy(hub);
        return status;
    }
    *out = hub;
    return PF_OK;
}

void pf_hub_destroy(pf_hub *hub)
{
    if (!hub) return;
    pthread_mutex_lock(&hub->lock);
    hub->is_closing = true;
    pthread_cond_signal(&hub->work);
    pthread_mutex_unlock(&hub->lock);
    if (hub->has_thread) pthread_join(hub->thread, NULL);
    for (int service = 0; service < PF_N_SERVICES; service++) close_lane(&hub->lanes[service]);
    pthread_cond_destroy(&hub->work);
    pthread_mutex_destroy(&hub->lock);
    free(hub->traffic);
    pf_metrics_destroy(hub->own_metrics);
    free(hub->draft_worker);
    free(hub);
}

/* ---- clients ----------------------------------------------------------------------------------------------------- */

pf_status pf_hub_verifier(pf_hub *hub, pf_peer **out, pf_error *error)
{
    return pf_hub_client_create(&hub->lanes[PF_SERVICE_VERIFIER], out, error);
}

pf_status pf_hub_drafter(pf_hub *hub, pf_peer **out, pf_error *error)
{
    if (hub->draft_worker) return pf_connect_drafter(hub->draft_worker, NULL, out, error);
    if (!hub->options.drafter) return pf_fail(error, PF_UNSUPPORTED, "the hub has no drafter");
    return pf_hub_client_create(&hub->lanes[PF_SERVICE_DRAFTER], out, error);
}

void pf_hub_stop(pf_hub *hub, uint64_t grace_ns)
{
    pthread_mutex_lock(&hub->lock);
    const uint64_t now_ns = pf_now_ns(), until_ns = grace_ns < UINT64_MAX - now_ns ? now_ns + grace_ns : UINT64_MAX;
    if (hub->stops_ns == 0 || until_ns < hub->stops_ns) hub->stops_ns = until_ns;
    pthread_mutex_unlock(&hub->lock);
}

/* ---- figures ----------------------------------------------------------------------------------------------------- */

static void fill_figures(const pf_hub *hub, pf_hub_figures *out)
{
    const hub_lane *verifier = &hub->lanes[PF_SERVICE_VERIFIER], *drafter = &hub->lanes[PF_SERVICE_DRAFTER];
    const pf_model_figures *now = &verifier->figures, *before = &verifier->before;
    pf_traffic_totals totals;
    pf_traffic_get(hub->traffic, &totals);
    *out = (pf_hub_figures){
        .n_running = (int32_t)totals.n_running,
        .n_waiting = (int32_t)totals.n_waiting,
        .n_sequences = totals.n_opened,
        .prompt_tokens = totals.prompt_tokens,
        .cached_tokens = (int64_t)(now->cached_tokens - before->cached_tokens),
        .new_tokens = totals.new_tokens,
        .drafts = totals.drafts,
        .drafted = totals.drafted,
        .accepted = totals.accepted,
        .passes = (int64_t)(now->n_passes - before->n_passes),
        .rows = (int64_t)(now->n_rows - before->n_rows),
        .draft_passes = (int64_t)(drafter->figures.n_passes - drafter->before.n_passes),
        .draft_rows = (int64_t)(drafter->figures.n_rows - drafter->before.n_rows),
        .pages = now->n_pages,
        .used_pages = now->n_used_pages,
        .invalid_rows = verifier->invalid.all.n_rows + drafter->invalid.all.n_rows,
    };
    memcpy(out->accepted_to, totals.accepted_to, sizeof out->accepted_to);
}

pf_status pf_hub_get_figures(pf_hub *hub, pf_hub_figures *out, pf_error *error)
{
    const size_t size = out->size;
    pf_hub_figures figures;
    if (size < sizeof size)
        return pf_fail(error, PF_INVALID, "pf_hub_figures.size is %zu, expected %zu", size, sizeof figures);
    pthread_mutex_lock(&hub->lock);
    fill_figures(hub, &figures);
    pthread_mutex_unlock(&hub->lock);
    figures.size = size;
    memcpy(out, &figures, size < sizeof figures ? size : sizeof figures);
    return PF_OK;
}
