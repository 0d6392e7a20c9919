#include "host/traffic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "host/sequence_host.h"
#include "proto/tree.h"

/* vLLM's, with finer ones below: a small model on a CPU takes a millisecond a token. */
static const double FIRST_TOKEN_S[] = { 0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,  0.5,   0.75,
                                        1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0 };
static const double TOKEN_S[] = { 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1,  0.15, 0.2,  0.3,
                                  0.4,   0.5,    0.75,  1.0,  2.5,   5.0,  7.5,   10.0, 20.0, 40.0, 80.0 };
static const double SEQUENCE_S[] = { 0.01, 0.03, 0.1,  0.3,  0.5,  0.8,  1.0,   1.5,   2.0,   2.5,   5.0,    10.0,
                                     15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0 };
static const double NANOSECONDS = 1e-9;

/* Of one drafter's proposals. */
typedef struct {
    char name[PF_DRAFTER_NAME_BYTES];
    pf_counter *drafts, *drafted, *accepted;
} drafter_counters;

struct pf_traffic {
    bool verifies;
    drafter_counters drafters[PF_MAX_DRAFTERS]; /* [n_drafters] */
    int32_t n_drafters;                         /* 0: they are not named */
    pf_gauge *running, *waiting, *cache_usage, *pages;
    pf_counter *opened, *prompt_tokens, *new_tokens, *cache_queries, *cache_hits, *evicted;
    pf_counter *drafts, *drafted, *accepted, *accepted_to[PF_MAX_DRAFT_TOKENS];
    pf_counter *passes, *rows;
    pf_histogram *first_token, *between_tokens, *per_token, *whole;
};

/* ---- the series -------------------------------------------------------------------------------------------------- */

/* Of one peer. */
typedef struct {
    pf_metrics *metrics;
    const char *model_name, *role;
    pf_error *error;
} maker;

static pf_metric_spec spec_of(const maker *m, const char *name, const char *help)
{
    return (pf_metric_spec){
        .name = name, .help = help, .labels = { { "model_name", m->model_name }, { "engine", "0" } }, .n_labels = 2
    };
}

static pf_status count(const maker *m, const char *name, const char *help, pf_counter **out)
{
    const pf_metric_spec spec = spec_of(m, name, help);
    return pf_metrics_counter(m->metrics, &spec, out, m->error);
}

static pf_status gauge(const maker *m, const char *name, const char *help, pf_gauge **out)
{
    const pf_metric_spec spec = spec_of(m, name, help);
    return pf_metrics_gauge(m->metrics, &spec, out, m->error);
}

static pf_status time_of(const maker *m, const char *name, const char *help, const double *bounds, size_t n_bounds,
                         pf_histogram **out)
{
    const pf_metric_spec spec = spec_of(m, name, help);
    return pf_metrics_histogram(m->metrics, &spec, bounds, (int32_t)n_bounds, NANOSECONDS, out, m->error);
}

#define TIME_OF(m, name, help, bounds, out) time_of(m, name, help, bounds, sizeof(bounds) / sizeof *(bounds), out)

static pf_status make_positions(pf_traffic *t, const maker *m)
{
    for (int32_t i = 0; i < PF_MAX_DRAFT_TOKENS; i++) {
        char position[16];
        snprintf(position, sizeof position, "%d", i);
        pf_metric_spec spec = spec_of(m, "vllm:spec_decode_num_accepted_tokens_per_pos_total",
                                      "Accepted tokens by their position in the proposal.");
        spec.labels[spec.n_labels++] = (pf_metric_label){ "position", position };
        PF_TRY(pf_metrics_counter(m->metrics, &spec, &t->accepted_to[i], m->error));
    }
    return PF_OK;
}

static pf_status make_speculation(pf_traffic *t, const maker *m)
{
    PF_TRY(count(m, "vllm:spec_decode_num_drafts_total", "Proposals that were verified.", &t->drafts));
    PF_TRY(count(m, "vllm:spec_decode_num_draft_tokens_total", "Tokens of these proposals.", &t->drafted));
    PF_TRY(count(m, "vllm:spec_decode_num_accepted_tokens_total", "Tokens that were accepted.", &t->accepted));
    return make_positions(t, m);
}

static pf_status make_sequences(pf_traffic *t, const maker *m)
{
    PF_TRY(gauge(m, "vllm:num_requests_running", "Open sequences.", &t->running));
    PF_TRY(gauge(m, "vllm:num_requests_waiting", "Sequences that wait for a place.", &t->waiting));
    PF_TRY(count(m, "pilotfish:sequences_total", "Sequences that have been opened.", &t->opened));
    PF_TRY(count(m, "vllm:prompt_tokens_total", "Tokens of prompts.", &t->prompt_tokens));
    return count(m, "vllm:generation_tokens_total", "Tokens committed behind the prompts.", &t->new_tokens);
}

static pf_status make_times(pf_traffic *t, const maker *m)
{
    PF_TRY(TIME_OF(m, "vllm:e2e_request_latency_seconds", "Time from a sequence's open to its close.", SEQUENCE_S,
                   &t->whole));
    if (!t->verifies) return PF_OK;
    PF_TRY(TIME_OF(m, "vllm:time_to_first_token_seconds", "Time from a sequence's open to its first token.",
                   FIRST_TOKEN_S, &t->first_token));
    PF_TRY(TIME_OF(m, "vllm:inter_token_latency_seconds", "Time between tokens, of a verdict divided by its tokens.",
                   TOKEN_S, &t->between_tokens));
    return TIME_OF(m, "vllm:time_per_output_token_seconds", "The same under the name of older versions of vLLM.",
                   TOKEN_S, &t->per_token);
}

static pf_status make_cache(pf_traffic *t, const maker *m)
{
    PF_TRY(
        gauge(m, "vllm:kv_cache_usage_perc", "Part of the KV cache's pages that is in use, 0 to 1.", &t->cache_usage));
    PF_TRY(gauge(m, "pilotfish:kv_cache_pages", "Pages of the KV cache.", &t->pages));
    PF_TRY(count(m, "vllm:prefix_cache_queries_total", "Prompt tokens that were looked up in the cache.",
                 &t->cache_queries));
    PF_TRY(count(m, "vllm:prefix_cache_hits_total", "Prompt tokens that were in the cache.", &t->cache_hits));
    return count(m, "vllm:num_preemptions_total", "Idle sequences that lost their pages to others.", &t->evicted);
}

static pf_status make_passes(pf_traffic *t, const maker *m)
{
    pf_metric_spec passes = spec_of(m, "pilotfish:passes_total", "Forward passes."),
                   rows = spec_of(m, "pilotfish:pass_rows_total", "Rows of forward passes.");
    passes.labels[passes.n_labels++] = rows.labels[rows.n_labels++] = (pf_metric_label){ "role", m->role };
    PF_TRY(pf_metrics_counter(m->metrics, &passes, &t->passes, m->error));
    return pf_metrics_counter(m->metrics, &rows, &t->rows, m->error);
}

static pf_status make_series(pf_traffic *t, const maker *m)
{
    PF_TRY(make_sequences(t, m));
    PF_TRY(make_times(t, m));
    PF_TRY(make_speculation(t, m));
    PF_TRY(make_cache(t, m));
    return make_passes(t, m);
}

pf_status pf_traffic_create(pf_metrics *metrics, pf_service service, const char *model_name, pf_traffic **out,
                            pf_error *error)
{
    pf_traffic *t = calloc(1, sizeof *t);
    if (!t) return pf_fail(error, PF_NOMEM, "no memory for metrics");
    t->verifies = service == PF_SERVICE_VERIFIER;
    const maker m = { metrics, model_name, t->verifies ? "verifier" : "drafter", error };
    const pf_status status = make_series(t, &m);
    if (status != PF_OK) {
        free(t);
        return status;
    }
    *out = t;
    return PF_OK;
}

static pf_status count_drafter(const maker *m, const char *name, const char *help, const char *drafter,
                               pf_counter **out)
{
    pf_metric_spec spec = spec_of(m, name, help);
    spec.labels[spec.n_labels++] = (pf_metric_label){ "drafter", drafter };
    return pf_metrics_counter(m->metrics, &spec, out, m->error);
}

pf_status pf_traffic_name_drafters(pf_traffic *t, pf_metrics *metrics, const char *model_name,
                                   const pf_model_info *drafter, pf_error *error)
{
    const maker m = { metrics, model_name, NULL, error };
    for (int32_t i = 0; i < drafter->n_drafters; i++) {
        const char *name = drafter->drafters[i];
        drafter_counters *d = &t->drafters[i];
        snprintf(d->name, sizeof d->name, "%s", name);
        PF_TRY(count_drafter(&m, "pilotfish:drafter_drafts_total", "Proposals that were verified, by their drafter.",
                             name, &d->drafts));
        PF_TRY(
            count_drafter(&m, "pilotfish:drafter_draft_tokens_total", "Tokens of these proposals.", name, &d->drafted));
        PF_TRY(count_drafter(&m, "pilotfish:drafter_accepted_tokens_total", "Tokens that were accepted.", name,
                             &d->accepted));
    }
    t->n_drafters = drafter->n_drafters;
    return PF_OK;
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static int32_t place_of(const pf_traffic *t, const char *drafter)
{
    if (drafter[0] == '\0') return t->n_drafters > 0;
    for (int32_t i = 0; i < t->n_drafters; i++)
        if (strcmp(t->drafters[i].name, drafter) == 0) return 1 + i;
    return 0;
}

/* An open of round 0 is a request; a later one repairs a sequence, whose request goes on. */
void pf_traffic_open(pf_traffic *t, pf_traffic_sequence *s, const pf_open *open, uint64_t waited_ns)
{
    if (!t || open->next_round > 0) return;
    if (s->opened_ns > 0) pf_traffic_close(t, s); /* its next request */
    const uint64_t now_ns = pf_now_ns();
    *s = (pf_traffic_sequence){ .opened_ns = waited_ns < now_ns ? now_ns - waited_ns : now_ns,
                                .drafter = place_of(t, open->drafter) };
    pf_counter_add(t->opened, 1);
    pf_counter_add(t->prompt_tokens, (uint64_t)(open->n_tokens > 0 ? open->n_tokens : 0));
}

void pf_traffic_proposal(pf_traffic *t, pf_traffic_sequence *s, const pf_proposal *proposal)
{
    if (!t) return;
    s->n_proposed = pf_tree_depth(proposal->parents, pf_min(proposal->n_tokens, PF_MAX_DRAFT_TOKENS));
}

static void count_judged(pf_traffic *t, int32_t drafter, int32_t n_proposed, int32_t n_accepted)
{
    n_accepted = n_accepted > 0 ? pf_min(n_accepted, n_proposed) : 0;
    const drafter_counters *by = drafter > 0 ? &t->drafters[drafter - 1] : NULL;
    if (by) {
        pf_counter_add(by->drafts, 1);
        pf_counter_add(by->drafted, (uint64_t)n_proposed);
        pf_counter_add(by->accepted, (uint64_t)n_accepted);
    }
    pf_counter_add(t->drafts, 1);
    pf_counter_add(t->drafted, (uint64_t)n_proposed);
    pf_counter_add(t->accepted, (uint64_t)n_accepted);
    for (int32_t i = 0; i < n_accepted; i++) pf_counter_add(t->accepted_to[i], 1);
}

static void count_times(pf_traffic *t, pf_traffic_sequence *s, uint64_t n_tokens)
{
    const uint64_t now_ns = pf_now_ns();
    if (s->token_ns == 0) {
        pf_histogram_add(t->first_token, now_ns - s->opened_ns, 1);
    } else {
        pf_histogram_add(t->between_tokens, now_ns - s->token_ns, n_tokens);
        pf_histogram_add(t->per_token, now_ns - s->token_ns, n_tokens);
    }
    s->token_ns = now_ns;
}

void pf_traffic_verdict(pf_traffic *t, pf_traffic_sequence *s, const pf_verdict *verdict)
{
    if (!t || verdict->n_tokens < 0) return;
    if (s->n_proposed > 0) count_judged(t, s->drafter, s->n_proposed, verdict->n_accepted);
    s->n_proposed = 0;
    pf_counter_add(t->new_tokens, (uint64_t)verdict->n_tokens);
    if (t->verifies && verdict->n_tokens > 0 && s->opened_ns > 0) count_times(t, s, (uint64_t)verdict->n_tokens);
}

void pf_traffic_close(pf_traffic *t, const pf_traffic_sequence *s)
{
    if (t && s->opened_ns > 0) pf_histogram_add(t->whole, pf_now_ns() - s->opened_ns, 1);
}

void pf_traffic_update(pf_traffic *t, const pf_peer *peer, int32_t n_running, int32_t n_waiting)
{
    pf_model_figures figures;
    if (!t) return;
    pf_gauge_set(t->running, n_running);
    pf_gauge_set(t->waiting, n_waiting);
    if (!pf_host_get_figures(peer, &figures)) return;
    pf_counter_set(t->passes, figures.n_passes);
    pf_counter_set(t->rows, figures.n_rows);
    pf_counter_set(t->cache_queries, figures.prompt_tokens);
    pf_counter_set(t->cache_hits, figures.cached_tokens);
    pf_counter_set(t->evicted, figures.n_evicted);
    pf_gauge_set(t->pages, (double)figures.n_pages);
    if (figures.n_pages > 0) pf_gauge_set(t->cache_usage, (double)figures.n_used_pages / (double)figures.n_pages);
}

static int64_t total(const pf_counter *counter)
{
    return (int64_t)pf_counter_get(counter);
}

void pf_traffic_get(const pf_traffic *t, pf_traffic_totals *out)
{
    *out = (pf_traffic_totals){
        .n_running = (int64_t)pf_gauge_get(t->running),
        .n_waiting = (int64_t)pf_gauge_get(t->waiting),
        .n_opened = total(t->opened),
        .prompt_tokens = total(t->prompt_tokens),
        .new_tokens = total(t->new_tokens),
        .drafts = total(t->drafts),
        .drafted = total(t->drafted),
        .accepted = total(t->accepted),
    };
    for (int32_t i = 0; i < PF_MAX_DRAFT_TOKENS; i++) out->accepted_to[i] = total(t->accepted_to[i]);
}
