/* pilotfish top: what a server does, from its metrics, once a second. */
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/stop.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/json_out.h"
#include "metrics/metrics_text.h"
#include "serve/http_get.h"

enum { MAX_BUCKETS = 64 };
static const uint64_t SECOND_NS = 1000000000, TIMEOUT_NS = 5000000000;

/* ---- a reading --------------------------------------------------------------------------------------------------- */

/* A histogram, summed over models. */
typedef struct {
    double sum, count;
    double bounds[MAX_BUCKETS], totals[MAX_BUCKETS]; /* [n] cumulative */
    int32_t n;
} times;

/* Sums over the models of the server; of cache_usage the largest. What it does not export is zero. */
typedef struct {
    uint64_t read_ns;
    double running, waiting, cache_usage;
    double prompt_tokens, new_tokens, cache_queries, cache_hits;
    double drafts, drafted, accepted, passes, rows;
    times first_token, between_tokens;
    double accepted_to[PF_MAX_DRAFT_TOKENS];
    bool is_known; /* it exports one of them */
} reading;

static const struct {
    const char *name;
    size_t offset;
} plain_names[] = {
    { "vllm:num_requests_running", offsetof(reading, running) },
    { "vllm:num_requests_waiting", offsetof(reading, waiting) },
    { "vllm:prompt_tokens_total", offsetof(reading, prompt_tokens) },
    { "vllm:generation_tokens_total", offsetof(reading, new_tokens) },
    { "vllm:prefix_cache_queries_total", offsetof(reading, cache_queries) },
    { "vllm:prefix_cache_hits_total", offsetof(reading, cache_hits) },
    { "vllm:spec_decode_num_drafts_total", offsetof(reading, drafts) },
    { "vllm:spec_decode_num_draft_tokens_total", offsetof(reading, drafted) },
    { "vllm:spec_decode_num_accepted_tokens_total", offsetof(reading, accepted) },
    { "pilotfish:passes_total", offsetof(reading, passes) },
    { "pilotfish:pass_rows_total", offsetof(reading, rows) },
};

static void add_bucket(times *t, const pf_metric_sample *s)
{
    const char *le = pf_metric_sample_label(s, "le");
    const double bound = le ? strtod(le, NULL) : (double)NAN;
    int32_t i = 0;
    while (i < t->n && t->bounds[i] != bound) i++;
    if (isnan(bound) || i == MAX_BUCKETS) return;
    if (i == t->n) {
        t->n++;
        t->bounds[i] = bound;
        t->totals[i] = 0.0;
    }
    t->totals[i] += s->value;
}

/* Whether the sample is one of a histogram of that name. */
static bool add_time(times *t, const char *name, const pf_metric_sample *s)
{
    const size_t n = strlen(name);
    if (strncmp(s->name, name, n) != 0) return false;
    if (strcmp(s->name + n, "_bucket") == 0)
        add_bucket(t, s);
    else if (strcmp(s->name + n, "_sum") == 0)
        t->sum += s->value;
    else if (strcmp(s->name + n, "_count") == 0)
        t->count += s->value;
    return true;
}

static void add_position(reading *r, const pf_metric_sample *s)
{
    const char *position = pf_metric_sample_label(s, "position");
    char *end;
    const long i = position ? strtol(position, &end, 10) : -1;
    if (i >= 0 && i < PF_MAX_DRAFT_TOKENS && *end == '\0') r->accepted_to[i] += s->value;
}

static void on_sample(void *user, const pf_metric_sample *s)
{
    reading *r = user;
    if (!(fabs(s->value) < 1e18)) return; /* NaN, too: no figure of a server */
    for (size_t i = 0; i < sizeof plain_names / sizeof *plain_names; i++) {
        if (strcmp(s->name, plain_names[i].name) != 0) continue;
        *(double *)(void *)((char *)r + plain_names[i].offset) += s->value;
        r->is_known = true;
    }
    if (strcmp(s->name, "vllm:kv_cache_usage_perc") == 0 && s->value > r->cache_usage) r->cache_usage = s->value;
    if (strcmp(s->name, "vllm:spec_decode_num_accepted_tokens_per_pos_total") == 0) add_position(r, s);
    if (!add_time(&r->first_token, "vllm:time_to_first_token_seconds", s))
        (void)add_time(&r->between_tokens, "vllm:inter_token_latency_seconds", s);
}

static pf_status read_metrics(const char *address, reading *out, pf_error *error)
{
    pf_bytes text = { 0 };
    reading r = { 0 };
    const pf_metrics_reader reader = { .on_sample = on_sample, .user = &r };
    PF_TRY(pf_http_get(address, "/metrics", TIMEOUT_NS, &text, error));
    r.read_ns = pf_now_ns();
    pf_error why = { 0 };
    pf_status status = pf_metrics_read(text.data, text.n, &reader, &why);
    pf_bytes_clear(&text);
    if (status != PF_OK) return pf_fail(error, status, "%s/metrics: %s", address, why.text);
    if (!r.is_known) return pf_fail(error, PF_FORMAT, "%s/metrics has no metric of vLLM's names", address);
    *out = r;
    return PF_OK;
}

/* ---- figures ------------------------------------------------------------------------------------------------------ */

/* The first bound below which a part of the observations lies; NAN: none were made. */
static double quantile(const times *t, double part)
{
    double found = (double)INFINITY;
    if (t->count <= 0.0) return (double)NAN;
    for (int32_t i = 0; i < t->n; i++)
        if (t->totals[i] >= part * t->count && t->bounds[i] < found) found = t->bounds[i];
    return found;
}

static times times_since(const times *now, const times *before)
{
    times t = *now;
    t.sum -= before->sum;
    t.count -= before->count;
    for (int32_t i = 0; i < t.n; i++)
        for (int32_t j = 0; j < before->n; j++)
            if (before->bounds[j] == t.bounds[i]) t.totals[i] -= before->totals[j];
    return t;
}

/* What was done between two readings: gauges are the later one's. A server that was started again begins from zero. */
static reading since(const reading *now, const reading *before)
{
    reading r = *now;
    if (now->new_tokens < before->new_tokens || now->prompt_tokens < before->prompt_tokens) return r;
    r.prompt_tokens -= before->prompt_tokens;
    r.new_tokens -= before->new_tokens;
    r.cache_queries -= before->cache_queries;
    r.cache_hits -= before->cache_hits;
    r.drafts -= before->drafts;
    r.drafted -= before->drafted;
    r.accepted -= before->accepted;
    r.passes -= before->passes;
    r.rows -= before->rows;
    r.first_token = times_since(&now->first_token, &before->first_token);
    r.between_tokens = times_since(&now->between_tokens, &before->between_tokens);
    for (int32_t i = 0; i < PF_MAX_DRAFT_TOKENS; i++) r.accepted_to[i] -= before->accepted_to[i];
    return r;
}

/* ---- what is shown ------------------------------------------------------------------------------------------------ */

static double percent(double part, double whole)
{
    return whole > 0.0 ? 100.0 * part / whole : 0.0;
}

/* "12.3 ms"; "-" where there is none, ">" above all bounds. */
static void print_ms(pf_out *out, const char *label, double seconds)
{
    if (isnan(seconds))
        pf_out_print(out, "%s -", label);
    else if (isinf(seconds))
        pf_out_print(out, "%s > all", label);
    else
        pf_out_print(out, "%s %.4g ms", label, seconds * 1e3);
}

static void print_times(pf_out *out, const char *what, const times *t)
{
    pf_out_print(out, "%-16s", what);
    print_ms(out, "mean", t->count > 0.0 ? t->sum / t->count : (double)NAN);
    print_ms(out, "   p50 <=", quantile(t, 0.5));
    print_ms(out, "   p99 <=", quantile(t, 0.99));
    pf_out_print(out, "\n");
}

static void print_positions(pf_out *out, const reading *r)
{
    int32_t n = 0;
    for (int32_t i = 0; i < PF_MAX_DRAFT_TOKENS; i++)
        if (r->accepted_to[i] > 0.0) n = i + 1;
    if (n == 0) return;
    pf_out_print(out, "%-16s", "by position");
    for (int32_t i = 0; i < n; i++) pf_out_print(out, " %.0f%%", percent(r->accepted_to[i], r->drafts));
    pf_out_print(out, "\n");
}

/* seconds: that the figures are of; 0: since the server began. */
static void print_text(pf_out *out, const char *address, const reading *r, double seconds)
{
    const double per = seconds > 0.0 ? 1.0 / seconds : 1.0;
    const char *unit = seconds > 0.0 ? "/s" : " in all";
    pf_out_print(out, "%s%s\n", address, seconds > 0.0 ? "" : ", since it began");
    pf_out_print(out, "%-16s%.0f running, %.0f waiting\n", "requests", r->running, r->waiting);
    pf_out_print(out, "%-16s%.1f new%s, %.1f of prompts%s\n", "tokens", r->new_tokens * per, unit,
                 r->prompt_tokens * per, unit);
    print_times(out, "first token", &r->first_token);
    print_times(out, "between tokens", &r->between_tokens);
    pf_out_print(out, "%-16s%.1f%% of the pages, %.1f%% of prompt tokens were in it\n", "cache", 100.0 * r->cache_usage,
                 percent(r->cache_hits, r->cache_queries));
    pf_out_print(out, "%-16s%.1f%s, %.1f rows each\n", "passes", r->passes * per, unit,
                 r->passes > 0.0 ? r->rows / r->passes : 0.0);
    pf_out_print(out, "%-16s%.1f proposals%s, %.1f tokens each, %.1f%% accepted\n", "speculation", r->drafts * per,
                 unit, r->drafts > 0.0 ? r->drafted / r->drafts : 0.0, percent(r->accepted, r->drafted));
    print_positions(out, r);
}

static json_t *times_document(const times *t)
{
    return json_pack("{s:o, s:o, s:o, s:o}", "mean", pf_json_ratio(t->sum, t->count), "p50_at_most",
                     pf_json_number(quantile(t, 0.5)), "p99_at_most", pf_json_number(quantile(t, 0.99)), "count",
                     json_real(t->count));
}

static json_t *document_of(const char *address, const reading *r, double seconds)
{
    json_t *positions = json_array();
    for (int32_t i = 0; i < PF_MAX_DRAFT_TOKENS && r->accepted_to[i] > 0.0; i++)
        (void)json_array_append_new(positions, pf_json_ratio(r->accepted_to[i], r->drafts));
    return json_pack("{s:s, s:o, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:o, s:o, s:o}", "address",
                     address, "seconds", seconds > 0.0 ? json_real(seconds) : json_null(), "running", r->running,
                     "waiting", r->waiting, "new_tokens", r->new_tokens, "prompt_tokens", r->prompt_tokens,
                     "kv_cache_usage", r->cache_usage, "prefix_cache_queries", r->cache_queries, "prefix_cache_hits",
                     r->cache_hits, "passes", r->passes, "pass_rows", r->rows, "drafts", r->drafts, "draft_tokens",
                     r->drafted, "accepted_tokens", r->accepted, "accepted_per_position", positions,
                     "time_to_first_token_s", times_document(&r->first_token), "inter_token_latency_s",
                     times_document(&r->between_tokens));
}

static int show(pf_out *out, const pf_options *options, const reading *r, double seconds)
{
    if (options->json) return pf_out_json(out, document_of(options->operand, r, seconds));
    const bool is_screen = seconds > 0.0 && pf_out_is_terminal(STDOUT_FILENO);
    if (is_screen) pf_out_print(out, "\x1b[H\x1b[J");
    print_text(out, options->operand, r, seconds);
    if (!is_screen && seconds > 0.0) pf_out_print(out, "\n");
    return pf_out_flush(out) ? PF_EXIT_DONE : PF_EXIT_FAILED;
}

/* Once a second until it is interrupted. */
static int watch(pf_out *out, const pf_options *options, reading *before)
{
    pf_error error = { 0 };
    pf_stop stop = { .told = pf_interrupt_flag() };
    for (;;) {
        reading now;
        pf_stop_or_wait(&stop, before->read_ns + SECOND_NS);
        if (*pf_interrupt_flag()) return PF_EXIT_INTERRUPTED;
        const pf_status status = read_metrics(options->operand, &now, &error);
        if (*pf_interrupt_flag()) return PF_EXIT_INTERRUPTED;
        if (status != PF_OK) return pf_out_fail_error(status, &error);
        const reading done = since(&now, before);
        const int code = show(out, options, &done, (double)(now.read_ns - before->read_ns) * 1e-9);
        if (code != PF_EXIT_DONE) return code;
        *before = now;
    }
}

static int run(const pf_options *options, pf_out *out)
{
    pf_error error = { 0 };
    reading first;
    if (!options->operand) return pf_options_misuse(&pf_command_top, "an address is needed: host:port or unix:/path");
    const pf_status status = read_metrics(options->operand, &first, &error);
    if (status != PF_OK) return pf_out_fail_error(status, &error);
    return options->once ? show(out, options, &first, 0.0) : watch(out, options, &first);
}

static const pf_option_group *const groups[] = { &pf_options_top, &pf_options_json_lines, NULL };

const pf_command pf_command_top = {
    .name = "top",
    .summary = "what a server, a worker or a verifier does, once a second",
    .synopsis = "ADDR [--once] [--json]",
    .description =
        "Reads the metrics of a server (serve), of a worker or a verifier with --metrics ADDR, or of vLLM, and\n"
        "shows what was done in the last second: tokens, latencies, passes, the cache, speculation. A latency of a\n"
        "quantile is the upper end of its bucket. --once shows the totals since the server began, and ends.\n",
    .examples = "  pilotfish top localhost:8080\n"
                "  pilotfish top unix:/tmp/worker-metrics.sock --once --json\n",
    .groups = groups,
    .operand = "ADDR",
    .run = run,
};
