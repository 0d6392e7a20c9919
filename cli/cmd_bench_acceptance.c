/* pilotfish bench acceptance: how much of what a drafter proposes is accepted, and what that gains. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/acceptance.h"
#include "bench/synthetic_rates.h"
#include "bench/what_if.h"
#include "cli/acceptance_figures.h"
#include "cli/acceptance_report.h"
#include "cli/bench_simulate.h"
#include "cli/commands.h"
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

/* ---- the grid --------------------------------------------------------------------------------------------------- */

/* A drafter of the grid, with its session. */
typedef struct {
    pf_drafter_kind kind;
    pf_session *session;
    pf_setup_drafter own; /* zero: those of the setup */
} lane;

/* A point of the grid, and what has been measured of it: where it was interrupted, over fewer requests. */
typedef struct {
    int32_t lane;
    pf_acceptance_setting setting;
    pf_acceptance_run run;
} point;

typedef struct {
    const pf_options *options;
    pf_acceptance_bench *bench;
    lane lanes[PF_MAX_LIST]; /* [options->n_drafters] */
    point *points;
    size_t n_points, n_reported;
    pf_synthetic_rates synthetic;
    float synthetic_rates[PF_MAX_DRAFT_TOKENS]; /* of the current point; the verifier reads them */
    json_t *runs;
    pf_out *out;
    pf_error *error;
} grid;

/* The points up to this one are complete, or as far as they came. */
static void report(grid *g, size_t n)
{
    for (; g->n_reported < n; g->n_reported++) {
        point *p = &g->points[g->n_reported];
        if (p->run.total.n_requests == 0) continue;
        const pf_drafter_kind drafter = g->lanes[p->lane].kind;
        json_array_append_new(g->runs, pf_acceptance_json(g->options, drafter, &p->setting, &p->run));
        if (!g->options->json)
            pf_acceptance_print(g->out, json_array_size(g->runs) == 1, g->options, drafter, &p->setting, &p->run);
        pf_acceptance_run_clear(&p->run);
    }
}

/* What the point measures: its drafter, and how often draft tokens are accepted where that is synthetic. */
static pf_status select_point(grid *g, const point *p)
{
    g->bench->speculative = g->lanes[p->lane].session;
    if (g->synthetic.kind == PF_SYNTHETIC_RATES_NONE) return PF_OK;
    return pf_synthetic_rates_resolve(&g->synthetic, p->setting.draft_len, g->synthetic_rates, g->error);
}

static pf_status run_point(grid *g, point *p)
{
    pf_acceptance_run *run = calloc(1, sizeof *run);
    if (!run) return pf_fail(g->error, PF_NOMEM, "no memory for the figures");
    pf_status status = select_point(g, p);
    if (status == PF_OK) {
        pf_progress_begin(g->bench->progress_user, "measuring");
        status = pf_bench_acceptance(g->bench, &p->setting, run, g->error);
        pf_progress_end(g->bench->progress_user);
        if (status == PF_OK && run->total.n_requests == 0)
            status = pf_fail(g->error, PF_INVALID, "none of the prompts leaves room for a token in a context of %d",
                             g->bench->max_context);
    }
    if ((status == PF_OK || status == PF_CANCELLED) && pf_acceptance_run_add(&p->run, run) != PF_OK)
        status = pf_fail(g->error, PF_NOMEM, "no memory for the figures");
    pf_acceptance_run_clear(run);
    free(run);
    return status;
}

static bool is_measured(const pf_options *o, int32_t t, int32_t m)
{
    const bool impossible = o->methods[m] == PF_METHOD_GREEDY && o->temperatures[t] > 0.0f;
    const bool same = m > 0 && o->temperatures[t] == 0.0f; /* at 0 every method is greedy: once is enough */
    return !impossible && !same;
}

/* As pf_request.drafter. */
static const char *asked_drafter(const pf_options *o, pf_drafter_kind kind)
{
    return o->draft_worker && kind != PF_DRAFTER_UNSET ? pf_setup_drafter_word(kind) : NULL;
}

static pf_status make_points(grid *g)
{
    const pf_options *o = g->options;
    const size_t most = (size_t)o->n_temperatures * (size_t)o->n_methods * (size_t)o->n_drafters *
                        (size_t)o->n_draft_lens * (size_t)o->n_siblings_list;
    g->points = calloc(most, sizeof *g->points);
    if (!g->points) return pf_fail(g->error, PF_NOMEM, "no memory for %zu runs", most);
    for (int32_t t = 0; t < o->n_temperatures; t++)
        for (int32_t m = 0; m < o->n_methods; m++)
            for (int32_t d = 0; d < o->n_drafters && is_measured(o, t, m); d++)
                for (int32_t at = 0; at < o->n_draft_lens * o->n_siblings_list; at++)
                    g->points[g->n_points++] =
                        (point){ .lane = d,
                                 .setting = { .method = o->methods[m],
                                              .typical = o->typical,
                                              .temperature = o->temperatures[t],
                                              .draft_len = o->draft_lens[at / o->n_siblings_list],
                                              .drafter = asked_drafter(o, o->drafters[d]),
                                              .siblings = o->siblings_list[at % o->n_siblings_list] } };
    return PF_OK;
}

/* To its end, or for as long as what is printed of it can be written. A repeat measures the whole grid, so that what changes on the
 * machine meanwhile changes all points. */
static pf_status run_grid(grid *g)
{
    for (int32_t repeat = 1; repeat <= g->options->repeats; repeat++)
        for (size_t i = 0; i < g->n_points && !g->out->error; i++) {
            const pf_status status = run_point(g, &g->points[i]);
            if (status != PF_OK) {
                report(g, g->n_points);
                return status;
            }
            if (repeat == g->options->repeats) report(g, i + 1);
        }
    return PF_OK;
}

static void clear_grid(grid *g)
{
    for (size_t i = 0; i < g->n_points; i++) pf_acceptance_run_clear(&g->points[i].run);
    free(g->points);
    for (int32_t i = 0; i < PF_MAX_LIST; i++) pf_setup_close_drafter(&g->lanes[i].own);
    json_decref(g->runs);
}

/* The drafter that the setup opens: one with a model, where any has. */
static pf_drafter_kind kind_of_setup(const pf_options *o)
{
    for (int32_t i = 0; i < o->n_drafters; i++)
        if (pf_setup_drafts_by_model(o->drafters[i])) return o->drafters[i];
    return o->drafters[0];
}

/* What was not given, as a list of one; what the engines are opened for. */
static void complete(pf_options *o)
{
    if (o->n_draft_lens == 0) o->draft_lens[o->n_draft_lens++] = PF_DRAFT_LEN_AUTO;
    if (o->n_methods == 0) o->methods[o->n_methods++] = (pf_method)0;
    if (o->n_siblings_list == 0) o->siblings_list[o->n_siblings_list++] = 0;
    if (o->n_temperatures == 0) o->temperatures[o->n_temperatures++] = 0.0f;
    if (o->n_drafters == 0) o->drafters[o->n_drafters++] = PF_DRAFTER_UNSET;
    if (!o->seed_given) o->sampling.seed = DEFAULT_SEED;
    if (!o->n_new_given) o->n_new = DEFAULT_NEW_TOKENS;
    if (o->repeats == 0) o->repeats = 1;
    o->draft_len = 1;
    for (int32_t i = 0; i < o->n_draft_lens; i++)
        if (o->draft_lens[i] > o->draft_len) o->draft_len = o->draft_lens[i];
    for (int32_t i = 0; i < o->n_siblings_list; i++)
        if (o->siblings_list[i] > o->siblings && o->siblings_list[i] <= PF_MAX_SIBLINGS)
            o->siblings = o->siblings_list[i];
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

/* Threads are started, weights and pages are touched, by a prompt that is not counted, with each drafter. */
static pf_status warm_up(grid *g)
{
    const pf_prompts *all = g->bench->prompts;
    pf_prompts first = { .items = all->items, .n = 1 };
    void (*progress)(void *, size_t, size_t) = g->bench->progress;
    g->bench->prompts = &first;
    g->bench->progress = NULL;
    pf_status status = PF_OK;
    for (size_t i = 0; i < g->n_points && status == PF_OK; i++) {
        if (i > 0 && g->points[i].lane <= g->points[i - 1].lane) continue; /* it was run */
        pf_acceptance_run run;
        status = select_point(g, &g->points[i]);
        if (status != PF_OK) break;
        status = pf_bench_acceptance(g->bench, &g->points[i].setting, &run, g->error);
        pf_acceptance_run_clear(&run);
    }
    g->bench->prompts = all;
    g->bench->progress = progress;
    return status;
}

/* The setup has one drafter, and the others are opened beside it; or it has a worker, which is asked for each. */
static pf_status open_lanes(grid *g, const pf_setup *setup)
{
    const pf_options *o = g->options;
    const pf_drafter_kind of_setup = kind_of_setup(o);
    bool has_setups = false;
    for (int32_t i = 0; i < o->n_drafters; i++) {
        lane *l = &g->lanes[i];
        l->kind = o->drafters[i];
        if (o->draft_worker || (l->kind == of_setup && !has_setups)) {
            has_setups = true;
            l->session = setup->session;
            continue;
        }
        const pf_options of = pf_setup_options_of(o, l->kind);
        PF_TRY(pf_setup_open_drafter(&of, setup, &l->own, g->error));
        l->session = l->own.session;
    }
    return PF_OK;
}

static pf_status measure(grid *g, pf_setup *setup, pf_prompts *prompts)
{
    const pf_options *o = g->options;
    if (o->report_file) PF_TRY(pf_acceptance_report_check(o->report_file, g->error));
    PF_TRY(read_prompts(o, prompts, g->error));
    PF_TRY(make_points(g));
    const pf_options of_setup = pf_setup_options_of(o, kind_of_setup(o));
    PF_TRY(pf_setup_open(&of_setup, true, setup, g->error));
    if (!setup->tokenizer)
        return pf_fail(g->error, PF_INVALID, "prompts need a tokenizer, and the target has no tokenizer");
    PF_TRY(open_lanes(g, setup));
    pf_progress progress;
    pf_acceptance_bench bench = {
        .plain = setup->plain,
        .tokenizer = setup->tokenizer,
        .prompts = prompts,
        .sampling = o->sampling,
        .max_new_tokens = o->n_new,
        .max_context = setup->max_context,
        .cancel = pf_interrupt_flag(),
        .progress = pf_progress_update,
        .progress_user = &progress,
    };
    pf_setup_stop_tokens(setup, o, &bench.stop_tokens, &bench.n_stop_tokens);
    g->bench = &bench;
    if (o->warm_up || o->repeats > 1) PF_TRY(warm_up(g));
    return run_grid(g);
}

/* Each drafter as if it were the only one; a model is for those that have one. */
static int check_drafters(const pf_command *self, const pf_options *o)
{
    bool any_model = o->n_drafters == 0;
    for (int32_t i = 0; i < o->n_drafters; i++) any_model |= pf_setup_drafts_by_model(o->drafters[i]);
    for (int32_t i = 0; i < o->n_drafters || i == 0; i++) {
        pf_options one = pf_setup_options_of(o, o->n_drafters > 0 ? o->drafters[i] : PF_DRAFTER_UNSET);
        if (!any_model) one.draft = o->draft;
        if (!pf_setup_has_drafter(&one))
            return pf_options_misuse(self, "give one of -d DRAFT, --draft-worker ADDR and --drafter ngram or suffix");
        const int usage = pf_setup_check_drafter(self, &one);
        if (usage != PF_EXIT_DONE) return usage;
    }
    return PF_EXIT_DONE;
}

/* Whether each length can have it. */
static int check_synthetic(const pf_command *self, const pf_options *o)
{
    pf_synthetic_rates synthetic;
    pf_error error = { 0 };
    float rates[PF_MAX_DRAFT_TOKENS];
    if (!o->synthetic) return PF_EXIT_DONE;
    if (!o->model) return pf_options_misuse(self, "--synthetic-acceptance needs -m TARGET");
    if (pf_synthetic_rates_parse(o->synthetic, &synthetic, &error) != PF_OK)
        return pf_options_misuse(self, "%s", error.text);
    for (int32_t k = 0; k < o->n_draft_lens || k == 0; k++) {
        if (o->n_draft_lens == 0 || o->draft_lens[k] == PF_DRAFT_LEN_AUTO)
            return pf_options_misuse(
                self, "--synthetic-acceptance needs a length: with auto, it depends on what the target would accept");
        if (pf_synthetic_rates_resolve(&synthetic, o->draft_lens[k], rates, &error) != PF_OK)
            return pf_options_misuse(self, "%s", error.text);
    }
    return PF_EXIT_DONE;
}

static int check(const pf_options *o)
{
    const pf_command *self = &pf_command_bench_acceptance;
    if ((o->model != NULL) == (o->verifier != NULL))
        return pf_options_misuse(self, "give one of -m TARGET and --verifier ADDR");
    if (o->verifier && !o->draft) return pf_options_misuse(self, "--verifier needs a draft here: -d DRAFT");
    int usage = check_drafters(self, o);
    if (usage == PF_EXIT_DONE) usage = check_synthetic(self, o);
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
    grid *g = calloc(1, sizeof *g);
    if (!g) return pf_out_fail_error(pf_fail(&error, PF_NOMEM, "no memory for the grid"), &error);
    *g = (grid){ .options = &options, .runs = json_array(), .out = out, .error = &error };
    if (options.synthetic) {
        (void)!pf_synthetic_rates_parse(options.synthetic, &g->synthetic, NULL); /* checked before */
        options.synthetic_rates = g->synthetic_rates;
    }
    const pf_status status = measure(g, &setup, &prompts);
    const bool interrupted = *pf_interrupt_flag();
    int code = interrupted ? PF_EXIT_INTERRUPTED : status == PF_OK ? PF_EXIT_DONE : pf_out_fail_error(status, &error);
    if (options.json && (interrupted || status == PF_OK || json_array_size(g->runs) > 0)) {
        const int written = pf_out_json(out, json_pack("{s:O}", "runs", g->runs));
        if (written != PF_EXIT_DONE) code = written;
    }
    if (options.report_file && json_array_size(g->runs) > 0 && code != PF_EXIT_FAILED) {
        json_t *facts = pf_acceptance_facts(&options);
        const pf_status written = pf_acceptance_report_write(
            options.report_file, "Speculative decoding: acceptance and speed-up", facts, g->runs, &error);
        json_decref(facts);
        if (written != PF_OK) code = pf_out_fail_error(written, &error);
    }
    clear_grid(g);
    free(g);
    pf_setup_close(&setup);
    pf_prompts_clear(&prompts);
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
        "Plain and speculative decoding in turns, prompt by prompt. Lists of --drafter, --draft-len, --method and\n"
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
    .examples =
        "  pilotfish bench acceptance -m models/target -d models/draft --draft-len 2,4,8\n"
        "  pilotfish bench acceptance -m models/target --draft-worker unix:/tmp/worker.sock --limit 20 --json\n"
        "  pilotfish bench acceptance -m models/target -d models/draft --drafter model,suffix,cascade --repeats 5\n"
        "  pilotfish bench acceptance --simulate --simulate-acceptance 0.6,0.8 --draft-len 2,5,auto\n",
    .groups = groups,
    .run = run,
};
