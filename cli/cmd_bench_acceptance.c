/* pilotfish bench acceptance: how much of what a drafter proposes is accepted, and what that gains. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/acceptance.h"
#include "bench/statistics.h"
#include "bench/what_if.h"
#include "cli/acceptance_report.h"
#include "cli/bench_simulate.h"
#include "cli/commands.h"
#include "cli/figures.h"
#include "cli/hub.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/json_out.h"
#include "cli/progress.h"
#include "cli/setup.h"

enum { DEFAULT_NEW_TOKENS = 64, DEFAULT_SEED = 1 };

/* ---- the bundled prompts ---------------------------------------------------------------------------------------- */

/* models/questions.jsonl: beside the binary's build or install, in the current directory, or where it is installed. */
static pf_status find_prompts(char out[PF_MAX_PATH], pf_error *error)
{
    static const char *const places[] = { "models/questions.jsonl", "../models/questions.jsonl",
                                          "../../models/questions.jsonl", "../share/pilotfish/models/questions.jsonl" };
    char binary[PF_MAX_PATH];
    const ssize_t n = readlink("/proc/self/exe", binary, sizeof binary - 1);
    binary[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(binary, '/');
    if (slash) *slash = '\0';
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const int length = snprintf(out, PF_MAX_PATH, "%s/%s", slash ? binary : ".", places[i]);
        if (length < PF_MAX_PATH && access(out, R_OK) == 0) return PF_OK;
    }
    for (size_t i = 0; i < 2; i++) {
        snprintf(out, PF_MAX_PATH, "%s", i ? PF_DATA_DIR "/models/questions.jsonl" : places[0]);
        if (access(out, R_OK) == 0) return PF_OK;
    }
    return pf_fail(
        error, PF_UNAVAILABLE,
        "the bundled models/questions.jsonl is neither beside the binary (%.200s) nor here: give --prompts FILE",
        binary);
}

/* ---- reporting -------------------------------------------------------------------------------------------------- */

static json_t *categories_json(const pf_acceptance_run *run)
{
    json_t *object = json_object();
    for (size_t i = 0; i < run->n_categories; i++) {
        const pf_acceptance_figures *f = &run->categories[i];
        const pf_speculation *s = &f->speculation;
        json_object_set_new(object, f->category,
                            json_pack("{s:I, s:o, s:o, s:o, s:o, s:o}", "requests", (json_int_t)f->n_requests,
                                      "plain_tokens_per_s", pf_json_number(pf_acceptance_plain_rate(f)),
                                      "speculative_tokens_per_s", pf_json_number(pf_acceptance_speculative_rate(f)),
                                      "speedup", pf_json_number(pf_acceptance_speedup(f)), "acceptance_rate",
                                      pf_json_number(pf_speculation_acceptance_rate(s)), "mean_accepted_length",
                                      pf_json_number(pf_speculation_mean_length(s))));
    }
    return object;
}

static const char *method_of(const pf_acceptance_setting *setting)
{
    if (setting->temperature == 0.0f) return "greedy";
    return setting->method ? pf_method_name(setting->method) : "rejection";
}

/* Whether its texts have another distribution than the target's. */
static bool is_lossy(const pf_acceptance_setting *setting)
{
    return setting->temperature > 0.0f && setting->method == PF_METHOD_TYPICAL;
}

/* For each position, null where nothing reached it. */
static json_t *conditional_json(const pf_speculation *s)
{
    json_t *rates = json_array();
    for (int32_t i = 0; i < PF_MAX_DRAFT_TOKENS && s->reached[i] > 0; i++)
        json_array_append_new(rates, pf_json_number(pf_what_if_conditional(s, i)));
    return rates;
}

static json_t *what_if_json(const pf_strings *given, const pf_speculation *s)
{
    json_t *points = json_array();
    for (int32_t i = 0; i < given->n; i++) {
        pf_what_if_costs costs;
        if (!pf_what_if_parse(given->items[i], &costs)) continue; /* checked before */
        const pf_what_if best = pf_what_if_best(s, &costs);
        json_array_append_new(
            points, json_pack("{s:o, s:o, s:o, s:i, s:o, s:o}", "verify_ms", pf_json_number(costs.verify_ms),
                              "draft_ms", pf_json_number(costs.draft_ms), "round_trip_us",
                              pf_json_number(costs.round_trip_us), "best_draft_len", best.draft_len, "expected_length",
                              pf_json_number(best.length), "speedup", pf_json_number(best.speedup)));
    }
    return points;
}

/* Tokens that a round commits by the rates of its positions; of a length that is chosen none is said. */
static double expected_length(const pf_acceptance_setting *setting, const pf_speculation *s)
{
    return setting->draft_len == PF_DRAFT_LEN_AUTO || s->rounds == 0 ? NAN : pf_what_if_length(s, setting->draft_len);
}

static json_t *run_json(const pf_options *o, const pf_acceptance_setting *setting, const pf_acceptance_run *run)
{
    const pf_acceptance_figures *f = &run->total;
    json_t *length = setting->draft_len == PF_DRAFT_LEN_AUTO ? json_string("auto") : json_integer(setting->draft_len);
    json_t *object =
        json_pack("{s:s, s:o, s:o, s:i, s:o, s:o, s:o, s:I, s:i}", "method", method_of(setting), "temperature",
                  pf_json_float(setting->temperature), "draft_len", length, "top_k", o->sampling.top_k, "top_p",
                  pf_json_float(o->sampling.top_p), "min_p", pf_json_float(o->sampling.min_p), "typical_p",
                  pf_json_float(o->sampling.typical_p), "seed", (json_int_t)o->sampling.seed, "new_tokens", o->n_new);
    if (!object) return NULL;
    json_object_set_new(object, "lossy", json_boolean(is_lossy(setting)));
    json_object_set_new(object, "requests", json_integer((json_int_t)f->n_requests));
    json_object_set_new(object, "skipped", json_integer((json_int_t)run->n_skipped));
    json_object_set_new(object, "identical", json_integer((json_int_t)f->n_identical));
    char checksum[24];
    snprintf(checksum, sizeof checksum, "%016" PRIx64, f->checksum);
    json_object_set_new(object, "text_checksum", json_string(checksum));
    json_object_set_new(object, "plain_tokens_per_s", pf_json_number(pf_acceptance_plain_rate(f)));
    json_object_set_new(object, "speculative_tokens_per_s", pf_json_number(pf_acceptance_speculative_rate(f)));
    json_object_set_new(object, "speedup", pf_json_number(pf_acceptance_speedup(f)));
    json_object_set_new(object, "predicted_speedup", pf_json_number(pf_acceptance_predicted_speedup(f)));
    json_object_set_new(object, "speculation", pf_json_speculation(&f->speculation));
    json_object_set_new(object, "drafter", json_string(pf_setup_drafter_word(o->drafter)));
    json_object_set_new(object, "expected_length", pf_json_number(expected_length(setting, &f->speculation)));
    json_object_set_new(object, "per_position_conditional", conditional_json(&f->speculation));
    if (o->what_if.n > 0 &&
        setting->draft_len != PF_DRAFT_LEN_AUTO) /* the rates of a chosen length are not those of any fixed one */
        json_object_set_new(object, "what_if", what_if_json(&o->what_if, &f->speculation));
    json_object_set_new(object, "by_category", categories_json(run));
    return object;
}

static void print_head(pf_out *out)
{
    pf_out_print(out, "%-15s %6s %6s  %7s %7s  %9s %9s  %8s %9s  %s\n", "method", "temp", "length", "accept", "mean",
                 "plain/s", "spec/s", "speed-up", "predicted", "same text");
}

static void print_run(pf_out *out, const pf_acceptance_setting *setting, const pf_acceptance_run *run)
{
    const pf_acceptance_figures *f = &run->total;
    const pf_speculation *s = &f->speculation;
    char length[16], skipped[40] = "";
    snprintf(length, sizeof length, "%d", setting->draft_len);
    if (run->n_skipped > 0) snprintf(skipped, sizeof skipped, ", %lld skipped", (long long)run->n_skipped);
    pf_out_print(
        out, "%-15s %6.4g %6s  %7s %7s  %9s %9s  %8s %9s  %lld of %lld%s\n",
        is_lossy(setting) ? "typical (lossy)" : method_of(setting), (double)setting->temperature,
        setting->draft_len == PF_DRAFT_LEN_AUTO ? "auto" : length,
        pf_figure_fixed(pf_speculation_acceptance_rate(s), 3).text,
        pf_figure_fixed(pf_speculation_mean_length(s), 2).text, pf_figure_rate(pf_acceptance_plain_rate(f)).text,
        pf_figure_rate(pf_acceptance_speculative_rate(f)).text, pf_figure_fixed(pf_acceptance_speedup(f), 2).text,
        pf_figure_fixed(pf_acceptance_predicted_speedup(f), 2).text, (long long)f->n_identical,
        (long long)f->n_requests, skipped);
    pf_out_flush(out);
}

static void print_what_if(pf_out *out, const pf_strings *given, const pf_speculation *s)
{
    for (int32_t i = 0; i < given->n; i++) {
        pf_what_if_costs costs;
        if (!pf_what_if_parse(given->items[i], &costs)) continue;
        const pf_what_if best = pf_what_if_best(s, &costs);
        pf_out_print(out,
                     "  step %.4g ms, pass %.4g ms, trip %.4g us: best length %d, %.2f tokens a round, speed-up %.2f\n",
                     costs.verify_ms, costs.draft_ms, costs.round_trip_us, best.draft_len, best.length, best.speedup);
    }
    pf_out_flush(out);
}

/* ---- the grid --------------------------------------------------------------------------------------------------- */

/* Runs that have been measured; the last one, where it was interrupted, over fewer requests. */
typedef struct {
    const pf_options *options;
    const pf_acceptance_bench *bench;
    json_t *runs;
    pf_out *out;
    pf_error *error;
} grid;

static void add_run(grid *g, const pf_acceptance_setting *setting, const pf_acceptance_run *run)
{
    json_array_append_new(g->runs, run_json(g->options, setting, run));
    if (g->options->json) return;
    if (json_array_size(g->runs) == 1) print_head(g->out);
    print_run(g->out, setting, run);
    if (setting->draft_len != PF_DRAFT_LEN_AUTO) print_what_if(g->out, &g->options->what_if, &run->total.speculation);
}

static pf_status run_point(grid *g, const pf_acceptance_setting *setting)
{
    pf_acceptance_run *run = calloc(1, sizeof *run);
    if (!run) return pf_fail(g->error, PF_NOMEM, "no memory for the figures");
    pf_progress_begin(g->bench->progress_user, "measuring");
    pf_status status = pf_bench_acceptance(g->bench, setting, run, g->error);
    pf_progress_end(g->bench->progress_user);
    if (status == PF_OK && run->total.n_requests == 0)
        status = pf_fail(g->error, PF_INVALID, "none of the prompts leaves room for a token in a context of %d",
                         g->bench->max_context);
    if ((status == PF_OK || status == PF_CANCELLED) && run->total.n_requests > 0) add_run(g, setting, run);
    pf_acceptance_run_clear(run);
    free(run);
    return status;
}

/* To its end, or for as long as what is printed of it can be written. */
static pf_status run_grid(grid *g)
{
    const pf_options *o = g->options;
    for (int32_t t = 0; t < o->n_temperatures; t++)
        for (int32_t m = 0; m < o->n_methods; m++) {
            const bool impossible = o->methods[m] == PF_METHOD_GREEDY && o->temperatures[t] > 0.0f;
            const bool same = m > 0 && o->temperatures[t] == 0.0f; /* at 0 every method is greedy: once is enough */
            for (int32_t k = 0; k < o->n_draft_lens && !impossible && !same && !g->out->error; k++) {
                const pf_acceptance_setting setting = { o->methods[m], o->typical, o->temperatures[t],
                                                        o->draft_lens[k] };
                PF_TRY(run_point(g, &setting));
            }
        }
    return PF_OK;
}

/* What was not given, as a list of one; what the engines are opened for. */
static void complete(pf_options *o)
{
    if (o->n_draft_lens == 0) o->draft_lens[o->n_draft_lens++] = PF_DRAFT_LEN_AUTO;
    if (o->n_methods == 0) o->methods[o->n_methods++] = (pf_method)0;
    if (o->n_temperatures == 0) o->temperatures[o->n_temperatures++] = 0.0f;
    if (!o->seed_given) o->sampling.seed = DEFAULT_SEED;
    if (!o->n_new_given) o->n_new = DEFAULT_NEW_TOKENS;
    o->draft_len = 1;
    for (int32_t i = 0; i < o->n_draft_lens; i++)
        if (o->draft_lens[i] > o->draft_len) o->draft_len = o->draft_lens[i];
    o->sampling.temperature = o->temperatures[0]; /* the least: 0 where any run is greedy */
    for (int32_t i = 1; i < o->n_temperatures; i++)
        if (o->temperatures[i] < o->sampling.temperature) o->sampling.temperature = o->temperatures[i];
}

static pf_status read_prompts(const pf_options *options, pf_prompts *out, pf_error *error)
{
    char bundled[PF_MAX_PATH], *text;
    size_t n_bytes;
    if (!options->prompts_file) PF_TRY(find_prompts(bundled, error));
    const char *path = options->prompts_file ? options->prompts_file : bundled;
    PF_TRY(pf_input_read(path, &text, &n_bytes, error));
    const pf_status status = pf_prompts_parse(pf_input_name(path), text, n_bytes, (size_t)options->limit, out, error);
    free(text);
    return status == PF_OK ? pf_prompts_check_repeats(pf_input_name(path), out, error) : status;
}

/* Threads are started, weights and pages are touched, by a prompt that is not counted. */
static pf_status warm_up(const grid *g, const pf_acceptance_bench *bench)
{
    pf_prompts first = { .items = bench->prompts->items, .n = 1 };
    pf_acceptance_bench short_bench = *bench;
    pf_acceptance_run *run = calloc(1, sizeof *run);
    if (!run) return pf_fail(g->error, PF_NOMEM, "no memory for the figures");
    short_bench.prompts = &first;
    short_bench.progress = NULL;
    const pf_acceptance_setting setting = { g->options->methods[0], g->options->typical, g->options->temperatures[0],
                                            g->options->draft_lens[0] };
    const pf_status status = pf_bench_acceptance(&short_bench, &setting, run, g->error);
    pf_acceptance_run_clear(run);
    free(run);
    return status;
}

static pf_status measure(grid *g, pf_setup *setup, pf_prompts *prompts)
{
    if (g->options->report_file) PF_TRY(pf_acceptance_report_check(g->options->report_file, g->error));
    PF_TRY(read_prompts(g->options, prompts, g->error));
    PF_TRY(pf_setup_open(g->options, true, setup, g->error));
    if (!setup->tokenizer)
        return pf_fail(g->error, PF_INVALID, "prompts need a tokenizer, and the target has no tokenizer");
    pf_progress progress;
    pf_acceptance_bench bench = {
        .speculative = setup->session,
        .plain = setup->plain,
        .tokenizer = setup->tokenizer,
        .prompts = prompts,
        .sampling = g->options->sampling,
        .max_new_tokens = g->options->n_new,
        .max_context = setup->max_context,
        .cancel = pf_interrupt_flag(),
        .progress = pf_progress_update,
        .progress_user = &progress,
    };
    pf_setup_stop_tokens(setup, g->options, &bench.stop_tokens, &bench.n_stop_tokens);
    g->bench = &bench;
    if (g->options->warm_up) PF_TRY(warm_up(g, &bench));
    return run_grid(g);
}

static int check(const pf_options *o)
{
    const pf_command *self = &pf_command_bench_acceptance;
    if ((o->model != NULL) == (o->verifier != NULL))
        return pf_options_misuse(self, "give one of -m TARGET and --verifier ADDR");
    if (o->verifier && !o->draft) return pf_options_misuse(self, "--verifier needs a draft here: -d DRAFT");
    if (!pf_setup_has_drafter(o))
        return pf_options_misuse(self, "give one of -d DRAFT, --draft-worker ADDR and --drafter ngram or suffix");
    const int usage = pf_setup_check_drafter(self, o);
    if (usage != PF_EXIT_DONE) return usage;
    bool any = o->n_methods == 0;
    for (int32_t m = 0; m < o->n_methods; m++)
        for (int32_t t = 0; t < o->n_temperatures || t == 0; t++)
            any = any || o->methods[m] != PF_METHOD_GREEDY || o->n_temperatures == 0 || o->temperatures[t] == 0.0f;
    if (!any) return pf_options_misuse(self, "--method greedy is for --temperature 0");
    pf_what_if_costs costs;
    for (int32_t i = 0; i < o->what_if.n; i++)
        if (!pf_what_if_parse(o->what_if.items[i], &costs))
            return pf_options_misuse(
                self, "--what-if is \"%.40s\", expected STEP:PASS:TRIP in ms, ms and us, such as 20:3:100",
                o->what_if.items[i]);
    return pf_setup_check_trial(self, o);
}

static int run(const pf_options *given, pf_out *out)
{
    if (given->simulate) return pf_bench_simulate(&pf_command_bench_acceptance, given, out);
    const int usage = check(given);
    if (usage != PF_EXIT_DONE) return usage;
    pf_options options = *given;
    complete(&options);
    pf_error error = { 0 };
    pf_setup setup = { 0 };
    pf_prompts prompts = { 0 };
    grid g = { .options = &options, .runs = json_array(), .out = out, .error = &error };
    const pf_status status = measure(&g, &setup, &prompts);
    pf_setup_close(&setup);
    pf_prompts_clear(&prompts);

    const bool interrupted = *pf_interrupt_flag();
    int code = interrupted ? PF_EXIT_INTERRUPTED : status == PF_OK ? PF_EXIT_DONE : pf_out_fail_error(status, &error);
    if (options.json && (interrupted || status == PF_OK || json_array_size(g.runs) > 0)) {
        const int written = pf_out_json(out, json_pack("{s:O}", "runs", g.runs));
        if (written != PF_EXIT_DONE) code = written;
    }
    if (options.report_file && json_array_size(g.runs) > 0 && code != PF_EXIT_FAILED) {
        const pf_status written = pf_acceptance_report_write(
            options.report_file, "Speculative decoding: acceptance and speed-up", g.runs, &error);
        if (written != PF_OK) code = pf_out_fail_error(written, &error);
    }
    json_decref(g.runs);
    return code;
}

static const pf_option_group *const groups[] = { &pf_options_model,   &pf_options_acceptance,
                                                 &pf_options_running, &pf_options_target_head,
                                                 &pf_options_context, &pf_options_draft_running,
                                                 &pf_options_json,    NULL };

const pf_command pf_command_bench_acceptance = {
    .name = "bench acceptance",
    .summary = "acceptance and speed-up of a drafter over prompts",
    .synopsis = "(-m TARGET | --verifier ADDR) (-d DRAFT | --draft-worker ADDR) [options]",
    .description =
        "Plain and speculative decoding in turns, prompt by prompt. Lists of --draft-len, --method and\n"
        "--temperature make a grid, one run for each combination. The speed-up that theory gives is\n"
        "  predicted = s * n / (v + d + r)\n"
        "with s a plain step, n the tokens kept of all passes after the prefill, v those passes, d all drafting,\n"
        "r all round trips, each as the median, measured in the same run.\n"
        "\n"
        "--simulate needs no model: sessions, drafter and verifier run in virtual time on a synthetic pair whose "
        "draft\n"
        "tokens are accepted as often as is said, and whose passes take --simulate-token-ms (3) and "
        "--simulate-step-ms\n"
        "(20). bound is what the formulas allow: in turns, and ahead with every proposal there when the verdict "
        "comes.\n",
    .examples = "  pilotfish bench acceptance -m models/target -d models/draft --draft-len 2,4,8\n"
                "  pilotfish bench acceptance -m models/target --draft-worker unix:/tmp/worker.sock --limit 20 --json\n"
                "  pilotfish bench acceptance --simulate --simulate-acceptance 0.6,0.8 --draft-len 2,5,auto\n",
    .groups = groups,
    .run = run,
};
