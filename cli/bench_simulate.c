#include "cli/bench_simulate.h"

#include <stdio.h>

#include "base/checked.h"
#include "bench/statistics.h"
#include "cli/figures.h"
#include "cli/interrupt.h"
#include "cli/json_out.h"
#include "cli/progress.h"
#include "sim/forecast.h"

static const uint64_t DEFAULT_TOKEN_NS = 3000000, DEFAULT_STEP_NS = 20000000;
enum { DEFAULT_ROUND_TRIP_US = 100, LONGEST = 16 };

typedef struct {
    const pf_options *options;
    pf_out *out;
    json_t *points;
    pf_error error;
} grid;

static void add_json(grid *g, const pf_forecast_point *p, const pf_forecast *forecast)
{
    json_t *length = p->draft_len == PF_DRAFT_LEN_AUTO ? json_string("auto") : json_integer(p->draft_len);
    json_t *object =
        json_pack("{s:f, s:f, s:f, s:o, s:i, s:o}", "draft_ms", (double)p->draft_ns * 1e-6, "verify_ms",
                  (double)p->verify_ns * 1e-6, "round_trip_us", (double)p->round_trip_ns * 1e-3, "acceptance",
                  pf_json_float((float)p->acceptance), "batch", p->batch, "draft_len", length);
    json_object_set_new(object, "plain_tokens_per_s", pf_json_number(forecast->plain_tokens_per_s));
    json_object_set_new(object, "speculative_tokens_per_s", pf_json_number(forecast->tokens_per_s));
    json_object_set_new(object, "speedup", pf_json_number(forecast->speedup));
    json_object_set_new(object, "speedup_ahead", pf_json_number(forecast->speedup_ahead));
    json_object_set_new(object, "bound", pf_json_number(forecast->bound));
    json_object_set_new(object, "ahead_bound", pf_json_number(forecast->ahead_bound));
    json_object_set_new(object, "best_draft_len", json_integer(forecast->best_len));
    json_object_set_new(object, "speculation", pf_json_speculation(&forecast->speculation));
    json_object_set_new(object, "speculation_ahead", pf_json_speculation(&forecast->ahead));
    json_array_append_new(g->points, object);
}

static void print(const grid *g, const pf_forecast_point *p, const pf_forecast *forecast)
{
    char length[16] = "auto";
    if (p->draft_len != PF_DRAFT_LEN_AUTO) snprintf(length, sizeof length, "%d", p->draft_len);
    if (json_array_size(g->points) == 1)
        pf_out_print(g->out, "%8s %9s %9s %6s %6s %6s  %9s %9s  %8s %6s  %8s %6s  %s\n", "draft ms", "verify ms",
                     "trip us", "accept", "batch", "length", "plain/s", "spec/s", "speed-up", "bound", "ahead", "bound",
                     "best length");
    pf_out_print(g->out, "%8.3g %9.3g %9.4g %6.3g %6d %6s  %9s %9s  %8s %6s  %8s %6s  %d\n", (double)p->draft_ns * 1e-6,
                 (double)p->verify_ns * 1e-6, (double)p->round_trip_ns * 1e-3, p->acceptance, p->batch, length,
                 pf_figure_rate(forecast->plain_tokens_per_s).text, pf_figure_rate(forecast->tokens_per_s).text,
                 pf_figure_fixed(forecast->speedup, 2).text, pf_figure_fixed(forecast->bound, 2).text,
                 pf_figure_fixed(forecast->speedup_ahead, 2).text, pf_figure_fixed(forecast->ahead_bound, 2).text,
                 forecast->best_len);
    pf_out_flush(g->out);
}

static pf_status run_point(grid *g, const pf_forecast_point *point)
{
    pf_forecast forecast;
    if (*pf_interrupt_flag()) return PF_CANCELLED;
    PF_TRY(pf_forecast_run(point, &forecast, &g->error));
    add_json(g, point, &forecast);
    if (!g->options->json) print(g, point, &forecast);
    return PF_OK;
}

/* What was not given, as a list of one. */
static void complete(pf_options *o)
{
    if (o->n_sim_acceptances == 0) o->sim_acceptances[o->n_sim_acceptances++] = 0.8f;
    if (o->n_sim_batches == 0) o->sim_batches[o->n_sim_batches++] = 1;
    if (o->n_sim_round_trips == 0) o->sim_round_trips[o->n_sim_round_trips++] = DEFAULT_ROUND_TRIP_US;
    if (o->n_draft_lens == 0) o->draft_lens[o->n_draft_lens++] = PF_DRAFT_LEN_AUTO;
    if (o->simulate_token_ns == 0) o->simulate_token_ns = DEFAULT_TOKEN_NS;
    if (o->simulate_step_ns == 0) o->simulate_step_ns = DEFAULT_STEP_NS;
}

static pf_status run_grid(grid *g)
{
    const pf_options *o = g->options;
    const int32_t n = o->n_sim_acceptances * o->n_sim_batches * o->n_sim_round_trips * o->n_draft_lens;
    for (int32_t i = 0; i < n && !g->out->error; i++) {
        int32_t at = i;
        const int32_t k = at % o->n_draft_lens, r = (at /= o->n_draft_lens) % o->n_sim_round_trips,
                      b = (at /= o->n_sim_round_trips) % o->n_sim_batches, a = at / o->n_sim_batches;
        const pf_forecast_point point = { .draft_ns = o->simulate_token_ns,
                                          .verify_ns = o->simulate_step_ns,
                                          .round_trip_ns = (uint64_t)((double)o->sim_round_trips[r] * 1e3),
                                          .acceptance = (double)o->sim_acceptances[a],
                                          .batch = o->sim_batches[b],
                                          .draft_len = o->draft_lens[k],
                                          .seed = o->seed_given ? o->sampling.seed : 1 };
        PF_TRY(run_point(g, &point));
    }
    return PF_OK;
}

int pf_bench_simulate(const pf_command *command, const pf_options *given, pf_out *out)
{
    if (given->model || given->draft || given->draft_worker || given->verifier || given->prompts_file)
        return pf_options_misuse(command, "--simulate has no model, no peers and no prompts");
    pf_options options = *given;
    complete(&options);
    for (int32_t k = 0; k < options.n_draft_lens; k++)
        if (options.draft_lens[k] > LONGEST)
            return pf_options_misuse(command, "--draft-len is %d, expected 1 to %d, or auto, with --simulate",
                                     options.draft_lens[k], LONGEST);
    grid g = { .options = &options, .out = out, .points = json_array() };
    const pf_status status = run_grid(&g);
    int code = status == PF_OK          ? PF_EXIT_DONE
               : status == PF_CANCELLED ? PF_EXIT_INTERRUPTED
                                        : pf_out_fail_error(status, &g.error);
    if (options.json && (status == PF_OK || status == PF_CANCELLED)) {
        const int written = pf_out_json(out, json_pack("{s:O}", "simulated", g.points));
        if (written != PF_EXIT_DONE) code = written;
    }
    json_decref(g.points);
    return code;
}
