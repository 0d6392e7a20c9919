/* pilotfish bench kernels: every kernel of the registry beside its limit; or, of a model, those of a pass beside it. */
#include <math.h>
#include <string.h>

#include "bench/kernel_bench.h"
#include "bench/pass_bench.h"
#include "cli/commands.h"
#include "cli/figures.h"
#include "cli/interrupt.h"
#include "cli/json_out.h"
#include "cli/progress.h"
#include "cli/setup.h"

/* What figures are printed with, one at a time. */
typedef struct {
    pf_out *out;
    pf_progress progress;
    bool json;
    const pf_kernel *last; /* of the row before */
    int code;              /* of the first line of JSON that could not be made; PF_EXIT_DONE while all is well */
} printer;

static void print_line(printer *p, json_t *line)
{
    const int code = pf_out_json(p->out, line);
    if (p->code == PF_EXIT_DONE) p->code = code;
}

/* An exit status of what was measured and printed. Of output that was lost pf_out_finish tells. */
static int end(const printer *p, pf_status status, const pf_error *error)
{
    if (p->out->error) return PF_EXIT_DONE;
    if (p->code != PF_EXIT_DONE) return p->code;
    if (*pf_interrupt_flag()) return PF_EXIT_INTERRUPTED;
    return status == PF_OK ? PF_EXIT_DONE : pf_out_fail_error(status, error);
}

static json_t *document(const pf_kernel_figure *f)
{
    const pf_kernel *k = f->kernel;
    const bool is_product = k->op == PF_OP_GEMM;
    json_t *line = json_pack("{s:s, s:s, s:s, s:s, s:s}", "op", pf_op_name(k->op), "shape", f->shape, "isa",
                             pf_isa_name(k->isa), "kernel", k->name, "arithmetic", k->arithmetic);
    if (!line) return NULL;
    json_object_set_new(line, "format",
                        json_string(is_product ? pf_format_get(k->format)->name : pf_type_name(k->type)));
    if (is_product) json_object_set_new(line, "act", json_string(pf_act_name(k->act)));
    json_object_set_new(line, "rows", json_integer(f->rows));
    json_object_set_new(line, "threads", json_integer(f->n_threads));
    json_object_set_new(line, "us", pf_json_number(f->us));
    if (!isnan(f->gflops)) json_object_set_new(line, "gflops", pf_json_number(f->gflops));
    json_object_set_new(line, "gbps", pf_json_number(f->gbps));
    json_object_set_new(line, "fraction", pf_json_number(f->fraction));
    if (!isnan(f->limit_us)) {
        json_object_set_new(line, "limit", json_string(pf_limit_name(f->limit)));
        json_object_set_new(line, "limit_us", pf_json_number(f->limit_us));
        json_object_set_new(line, "read", json_string(f->read));
    }
    if (f->multiply) json_object_set_new(line, "multiply", json_string(f->multiply));
    if (!isnan(f->onednn_us)) json_object_set_new(line, "onednn_us", pf_json_number(f->onednn_us));
    return line;
}

static void print_row(printer *p, const pf_kernel_figure *f)
{
    if (!p->last)
        pf_out_print(p->out, "%-41s %-23s %-15s %10s %8s %7s %6s  %-11s %s\n", "kernel", "format", "shape", "us",
                     "Gop/s", "GB/s", "of", "limit", "oneDNN, us");
    const pf_kernel *k = f->kernel;
    if (p->last && p->last != k) pf_out_print(p->out, "\n");
    char format[40], peer[24] = "";
    if (k->op == PF_OP_GEMM)
        snprintf(format, sizeof format, "%s, %s", pf_format_get(k->format)->name, pf_act_name(k->act));
    else
        snprintf(format, sizeof format, "%s", pf_type_name(k->type));
    if (!isnan(f->onednn_us)) snprintf(peer, sizeof peer, "%.2f", f->onednn_us);
    pf_out_print(p->out, "%-41s %-23s %-15s %10.2f %8s %7s %6.2f  %-11s %s\n", k->name, format, f->shape, f->us,
                 pf_figure_rate(f->gflops).text, pf_figure_rate(f->gbps).text, f->fraction,
                 f->limit == PF_LIMIT_MULTIPLY ? f->multiply : pf_limit_name(f->limit), peer);
    p->last = k;
}

static bool print(void *user, const pf_kernel_figure *figure)
{
    printer *p = user;
    pf_progress_end(&p->progress);
    if (p->json)
        print_line(p, document(figure));
    else
        print_row(p, figure);
    return pf_out_flush(p->out);
}

static void progress(void *user, size_t done, size_t total)
{
    printer *p = user;
    pf_progress_update(&p->progress, done, total);
}

/* ---- a pass ------------------------------------------------------------------------------------------------------- */

static json_t *pass_document(const pf_pass_figure *f)
{
    json_t *line = document(&f->figure);
    if (!line) return NULL;
    json_object_set_new(line, "op", json_string(f->op));
    json_object_set_new(line, "part", json_string(f->name));
    json_object_set_new(line, "calls", json_integer(f->n_calls));
    json_object_set_new(line, "pass_us", pf_json_number(f->pass_us));
    json_object_set_new(line, "once_us", pf_json_number(f->once_us));
    return line;
}

static void print_pass_row(printer *p, const pf_pass_figure *f)
{
    const pf_kernel_figure *k = &f->figure;
    if (!p->last)
        pf_out_print(p->out, "%-14s %-41s %-15s %5s %9s %9s %9s %8s %7s %6s  %s\n", "of a pass", "kernel", "shape",
                     "calls", "us", "all, us", "once, us", "Gop/s", "GB/s", "of", "limit");
    pf_out_print(p->out, "%-14s %-41s %-15s %5d %9.3f %9.3f %9.3f %8s %7s %6s  %s\n", f->name, k->kernel->name,
                 k->shape, f->n_calls, k->us, f->pass_us, f->once_us, pf_figure_rate(k->gflops).text,
                 pf_figure_rate(k->gbps).text, pf_figure_fixed(k->fraction, 2).text,
                 isnan(k->fraction)              ? "-"
                 : k->limit == PF_LIMIT_MULTIPLY ? k->multiply
                                                 : pf_limit_name(k->limit));
    p->last = k->kernel;
}

static bool print_pass_figure(void *user, const pf_pass_figure *figure)
{
    printer *p = user;
    pf_progress_end(&p->progress);
    if (p->json)
        print_line(p, pass_document(figure));
    else
        print_pass_row(p, figure);
    return !p->out->error;
}

static json_t *sum_document(const pf_pass_sum *s)
{
    return json_pack("{s:s, s:o, s:s, s:i, s:i, s:i, s:o, s:o, s:o, s:o, s:o}", "op", "pass", "shape",
                     json_sprintf("%d behind %d", s->rows, s->context), "isa", pf_isa_name(s->isa), "rows", s->rows,
                     "context", s->context, "threads", s->n_threads, "us", pf_json_number(s->pass_us), "sum_us",
                     pf_json_number(s->sum_us), "ratio", pf_json_number(s->ratio), "once_sum_us",
                     pf_json_number(s->once_sum_us), "once_ratio", pf_json_number(s->once_ratio));
}

static bool print_pass_sum(void *user, const pf_pass_sum *s)
{
    printer *p = user;
    if (p->json)
        print_line(p, sum_document(s));
    else
        pf_out_print(p->out,
                     "a pass of %d row%s behind %d tokens, %d thread%s: %.3f us\n"
                     "  its kernels alone, again and again: %.3f us, ratio %.3f\n"
                     "  once, right behind a pass: %.3f us, ratio %.3f\n\n",
                     s->rows, s->rows == 1 ? "" : "s", s->context, s->n_threads, s->n_threads == 1 ? "" : "s",
                     s->pass_us, s->sum_us, s->ratio, s->once_sum_us, s->once_ratio);
    p->last = NULL;
    return pf_out_flush(p->out);
}

/* The context to open, or where the model's positions end. */
static pf_status fit_context(const pf_options *options, int32_t *out, pf_error *error)
{
    int32_t longest;
    const int32_t needed = options->bench_context + PF_PASS_MAX_ROWS;
    PF_TRY(pf_setup_longest_context(options->model, needed, &longest, error));
    if (longest <= PF_PASS_MAX_ROWS)
        return pf_fail(error, PF_INVALID, "the model's positions go to %d, expected more than the %d rows of a pass",
                       longest, PF_PASS_MAX_ROWS);
    if (longest < needed)
        return pf_fail(error, PF_INVALID,
                       "--context is %d, expected 1 to %d: with the %d rows of a pass that is as far as the model's "
                       "positions go",
                       options->bench_context, longest - PF_PASS_MAX_ROWS, PF_PASS_MAX_ROWS);
    *out = needed;
    return PF_OK;
}

static pf_status measure_pass(const pf_options *options, const pf_pass_bench_options *measured, printer *p,
                              pf_error *error)
{
    pf_options opened = *options;
    pf_engine *engine;
    PF_TRY(fit_context(options, &opened.context, error));
    PF_TRY(pf_setup_open_engine(&opened, 1, &engine, error));
    pf_progress_begin(&p->progress, "measuring");
    const pf_status status = pf_bench_pass(engine, measured, error);
    pf_progress_end(&p->progress);
    pf_engine_close(engine);
    return status;
}

static int run_pass(const pf_options *options, printer *p)
{
    if (options->bench_op || options->bench_format)
        return pf_options_misuse(&pf_command_bench_kernels, "--op and --format choose kernels, and -m has its own");
    const pf_pass_bench_options measured = {
        .context = options->bench_context,
        .rows = options->rows,
        .n_rows = options->n_rows,
        .quick = options->quick,
        .cancel = pf_interrupt_flag(),
        .figure = print_pass_figure,
        .sum = print_pass_sum,
        .progress = progress,
        .user = p,
    };
    pf_error error = { 0 };
    const pf_status status = measure_pass(options, &measured, p, &error);
    return end(p, status, &error);
}

/* ---- the registry ------------------------------------------------------------------------------------------------- */

static const char *format_name(int format)
{
    return pf_format_get((pf_format)format)->name;
}
static const char *op_name(int op)
{
    return pf_op_name((pf_op)op);
}

/* A word that stands for a member of an enumeration. */
typedef struct {
    const char *option; /* "--op" */
    const char *word;   /* what was given, or NULL */
    const char *(*name)(int value);
    int n_values;
} choice;

/* n_values: none is named so, or none was given. */
static int find(const choice *c)
{
    int value = 0;
    while (value < c->n_values && (!c->word || strcmp(c->word, c->name(value)) != 0)) value++;
    return value;
}

static int misuse(const choice *c)
{
    char known[256] = "";
    for (int value = 0; value < c->n_values; value++) pf_list_word(known, sizeof known, ", ", c->name(value));
    return pf_options_misuse(&pf_command_bench_kernels, "%s is \"%.40s\", expected one of %s", c->option, c->word,
                             known);
}

static int run(const pf_options *options, pf_out *out)
{
    printer p = { .out = out, .json = options->json };
    if (options->model) return run_pass(options, &p);
    const choice format = { "--format", options->bench_format, format_name, PF_N_FORMATS };
    const choice op = { "--op", options->bench_op, op_name, PF_N_OPS };
    const pf_kernel_bench_options measured = {
        .isa = options->isa,
        .isa_alone = strcmp(options->isa_word, "auto") != 0,
        .format = (pf_format)find(&format),
        .op = (pf_op)find(&op),
        .quick = options->quick,
        .cancel = pf_interrupt_flag(),
        .figure = print,
        .progress = progress,
        .user = &p,
    };
    if (format.word && measured.format == PF_N_FORMATS) return misuse(&format);
    if (op.word && measured.op == PF_N_OPS) return misuse(&op);
    if (format.word && op.word && measured.op != PF_OP_GEMM)
        return pf_options_misuse(&pf_command_bench_kernels, "--format chooses among products, and --op is %s", op.word);
    pf_error error = { 0 };
    pf_team *team = NULL;
    pf_status status = pf_setup_create_team(options, &team, &error);
    if (status == PF_OK) pf_setup_warn_of_idle_options(options);
    pf_progress_begin(&p.progress, "measuring");
    if (status == PF_OK) status = pf_bench_kernels(team, &measured, &error);
    pf_progress_end(&p.progress);
    pf_team_destroy(team);
    return end(&p, status, &error);
}

static const pf_option_group *const groups[] = { &pf_options_kernels, &pf_options_pass, &pf_options_json_lines, NULL };

const pf_command pf_command_bench_kernels = {
    .name = "bench kernels",
    .summary = "every kernel beside what this machine allows it",
    .synopsis = "[--op NAME] [--format NAME] [options], or -m MODEL [options]",
    .description =
        "Products have the shapes of a Llama-3.2-1B and come from memory. The limit is the larger of a bare read\n"
        "of the same packed bytes, by the best of several patterns, and of the multiplies at the rate of a burst\n"
        "of nothing else; all are measured in turns, and each figure is a median. Norms and the like work on one\n"
        "thread in cache, beside a copy of what comes out with a read of what else goes in. A fraction above 1.05\n"
        "means that the limit was measured badly, and fails.\n"
        "\n"
        "With -m: the kernels that a pass of this model calls, with its own weights, shapes and shares of the\n"
        "threads, each run alone through all layers: again and again, at its best (us, and all its calls of a\n"
        "pass), and once, right behind a pass; in turns with them the whole pass. The last lines have the pass, the\n"
        "sums of its kernels and the ratios: what the engine adds. Without --threads a small model runs on all or on\n"
        "the first few, whichever is measured fastest, and its kernels likewise.\n",
    .examples = "  pilotfish bench kernels\n"
                "  pilotfish bench kernels --isa avx2 --format bf16 --threads 1\n"
                "  pilotfish bench kernels --quick --json\n"
                "  pilotfish bench kernels -m models/draft --dtype int8 --rows 1,4\n",
    .groups = groups,
    .run = run,
};
