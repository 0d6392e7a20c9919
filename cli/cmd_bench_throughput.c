/* pilotfish bench throughput: prefill, decode and verification beside the machine's limits. */
#include <math.h>
#include <stdio.h>

#include "bench/throughput.h"
#include "cli/commands.h"
#include "cli/figures.h"
#include "cli/interrupt.h"
#include "cli/json_out.h"
#include "cli/progress.h"
#include "cli/setup.h"

/* {"1": value, "2": value, ...} */
static json_t *by_rows(const double values[PF_N_VERIFY_ROWS])
{
    json_t *object = json_object();
    for (int i = 0; i < PF_N_VERIFY_ROWS; i++) {
        char rows[16];
        snprintf(rows, sizeof rows, "%d", pf_verify_rows[i]);
        json_object_set_new(object, rows, pf_json_number(values[i]));
    }
    return object;
}

static json_t *document(const pf_throughput *t)
{
    json_t *limits = json_pack("{s:o, s:o, s:o, s:o, s:i}", "read_gbps", pf_json_number(t->read_gbps), "bf16_gflops",
                               pf_json_number(t->bf16_gflops), "int8_gops", pf_json_number(t->int8_gops), "f32_gflops",
                               pf_json_number(t->f32_gflops), "threads", t->n_threads);
    json_t *decode =
        json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:s}", "tokens_per_s", pf_json_number(t->tokens_per_s), "step_ms",
                  pf_json_number(t->step_ms), "read_ms", pf_json_number(t->read_ms), "bandwidth_fraction",
                  pf_json_number(t->bandwidth_fraction), "kv_read_ms", pf_json_number(t->kv_read_ms),
                  "bandwidth_fraction_with_kv", pf_json_number(t->bandwidth_fraction_with_kv), "read", t->read_pattern);
    json_t *prefill =
        json_pack("{s:i, s:o, s:o, s:o, s:o, s:s?}", "tokens", t->prefill_tokens, "ms", pf_json_number(t->prefill_ms),
                  "tokens_per_s", pf_json_ratio(1000.0 * t->prefill_tokens, t->prefill_ms), "gflops",
                  pf_json_number(t->prefill_gflops), "peak_fraction", pf_json_number(t->peak_fraction), "multiply",
                  t->peak_instruction);
    return json_pack("{s:o, s:I, s:I, s:o, s:o, s:o, s:o}", "limits", limits, "weight_bytes",
                     (json_int_t)t->weight_bytes, "kv_bytes", (json_int_t)t->kv_bytes, "decode", decode, "prefill",
                     prefill, "verify", by_rows(t->verify_ms), "verify_of_limit", by_rows(t->verify_of_limit));
}

static void print_peak(pf_out *out, const char *name, double gops)
{
    if (!isnan(gops)) pf_out_print(out, ", %s %.0f Gop/s", name, gops);
}

static void print_decode(pf_out *out, const pf_throughput *t)
{
    pf_out_print(out,
                 "decode   %s tokens/s, %.3f ms a step; a bare read of its %.1f MB takes %.3f ms: %.2f of the limit\n",
                 pf_figure_rate(t->tokens_per_s).text, t->step_ms, (double)t->weight_bytes * 1e-6, t->read_ms,
                 t->bandwidth_fraction);
    pf_out_print(out, "         of its weights and its %.1f MB of keys and values: %.2f (%s)\n",
                 (double)t->kv_bytes * 1e-6, t->bandwidth_fraction_with_kv, t->read_pattern);
}

static void print_prefill(pf_out *out, const pf_throughput *t)
{
    pf_out_print(out, "prefill  %d token%s in %.2f ms, %s tokens/s, %s Gop/s: %s of the limit\n", t->prefill_tokens,
                 t->prefill_tokens == 1 ? "" : "s", t->prefill_ms,
                 pf_figure_rate(1000.0 * t->prefill_tokens / t->prefill_ms).text,
                 pf_figure_rate(t->prefill_gflops).text, pf_figure_fixed(t->peak_fraction, 2).text);
}

static void print_verify(pf_out *out, const pf_throughput *t, int i)
{
    pf_out_print(out,
                 "%s %2d row%s %9.3f ms, %.2f of one row; %s of the larger of the read and the multiplies at 0.75\n",
                 i ? "        " : "verify  ", pf_verify_rows[i], i ? "s" : " ", t->verify_ms[i],
                 t->verify_ms[i] / t->verify_ms[0], pf_figure_fixed(t->verify_of_limit[i], 2).text);
}

/* What Ctrl-C kept from being measured is null in the document, and no line here. */
static int print_figures(const pf_options *options, pf_out *out, const pf_throughput *t)
{
    if (options->json) return pf_out_json(out, document(t));
    if (!isnan(t->read_gbps)) {
        pf_out_print(out, "limits   read %.1f GB/s", t->read_gbps);
        print_peak(out, "f32", t->f32_gflops);
        print_peak(out, "bf16", t->bf16_gflops);
        print_peak(out, "int8", t->int8_gops);
        pf_out_print(out, " (%d thread%s)\n", t->n_threads, t->n_threads == 1 ? "" : "s");
    }
    if (!isnan(t->step_ms)) print_decode(out, t);
    if (!isnan(t->prefill_ms)) print_prefill(out, t);
    for (int i = 0; i < PF_N_VERIFY_ROWS; i++)
        if (!isnan(t->verify_ms[i])) print_verify(out, t, i);
    return PF_EXIT_DONE;
}

/* The context to open, or by which option it is longer than the model's positions go. */
static pf_status fit_context(const pf_options *options, const pf_throughput_options *measured, int32_t *out,
                             pf_error *error)
{
    int32_t longest;
    const int32_t needed = pf_throughput_context(measured);
    PF_TRY(pf_setup_longest_context(options->model, needed, &longest, error));
    if (longest < measured->prompt_len)
        return pf_fail(error, PF_INVALID, "--prompt-len is %d, expected 1 to %d, as far as the model's positions go",
                       measured->prompt_len, longest);
    if (longest < needed)
        return pf_fail(error, PF_INVALID,
                       "--context is %d and --gen-len %d, which with the rows of a verification takes %d tokens, "
                       "expected 1 to %d, as far as the model's positions go",
                       measured->context, measured->gen_len, needed, longest);
    *out = needed;
    return PF_OK;
}

static pf_status measure(const pf_options *options, pf_throughput *out, pf_error *error)
{
    pf_progress progress;
    const pf_throughput_options measured = {
        .prompt_len = options->bench_prompt_len,
        .gen_len = options->bench_gen_len,
        .context = options->bench_context,
        .cancel = pf_interrupt_flag(),
        .progress = pf_progress_update,
        .progress_user = &progress,
    };
    pf_options opened = *options;
    PF_TRY(fit_context(options, &measured, &opened.context, error));
    pf_engine *engine;
    PF_TRY(pf_setup_open_engine(&opened, 1, &engine, error));
    pf_progress_begin(&progress, "measuring");
    const pf_status status = pf_bench_throughput(engine, &measured, out, error);
    pf_progress_end(&progress);
    pf_engine_close(engine);
    return status;
}

static int run(const pf_options *options, pf_out *out)
{
    if (!options->model) return pf_options_misuse(&pf_command_bench_throughput, "a model is needed: -m MODEL");
    pf_error error = { 0 };
    pf_throughput figures = { .n_threads = 0 }; /* as it stays where Ctrl-C comes before the first measurement */
    const pf_status status = measure(options, &figures, &error);
    const bool interrupted = *pf_interrupt_flag();
    if (status != PF_OK && !interrupted) return pf_out_fail_error(status, &error);
    int code = PF_EXIT_DONE;
    if (figures.n_threads > 0) code = print_figures(options, out, &figures);
    return code == PF_EXIT_DONE && interrupted ? PF_EXIT_INTERRUPTED : code;
}

static const pf_option_group *const groups[] = { &pf_options_model, &pf_options_throughput, &pf_options_running,
                                                 &pf_options_head,  &pf_options_json,       NULL };

const pf_command pf_command_bench_throughput = {
    .name = "bench throughput",
    .summary = "prefill, decode and verification beside the machine's limits",
    .synopsis = "-m MODEL [--prompt-len 512] [--gen-len 64] [--context 128] [options]",
    .description =
        "Each time is a median, measured in turns with its limit: decode steps with bare reads of the same\n"
        "weights and of as much KV, prefills with bursts of the instruction that the products are made of,\n"
        "verifications with both. Tokens a second of decode are those of all steps by their time, of prefill those\n"
        "of its median. A fraction above 1.05 means that the limit was measured badly, and fails.\n",
    .examples = "  pilotfish bench throughput -m models/target\n"
                "  pilotfish bench throughput -m models/target --threads 1 --json\n",
    .groups = groups,
    .run = run,
};
