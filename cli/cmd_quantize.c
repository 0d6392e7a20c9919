/* pilotfish quantize: writes a copy of a model directory with its weights in another format. */
#include "cli/commands.h"
#include "cli/cut_short.h"
#include "cli/hub.h"
#include "cli/interrupt.h"
#include "cli/json_out.h"
#include "cli/progress.h"
#include "cli/setup.h"
#include "model/config/dtype.h"

static pf_status quantize(const pf_options *options, pf_quantize_result *out, pf_error *error)
{
    char directory[PF_MAX_PATH];
    pf_progress progress;
    PF_TRY(pf_hub_find_model(options->model, directory, error));
    pf_progress_begin(&progress, "quantizing");
    const pf_quantize_options how = { .size = sizeof how,
                                      .dtype = options->dtype,
                                      .n_threads = options->n_threads,
                                      .cores = options->cores,
                                      .n_cores = options->n_cores,
                                      .cancel = pf_interrupt_flag(),
                                      .strict = options->strict,
                                      .warn = pf_setup_warn,
                                      .progress = pf_progress_update,
                                      .user = &progress,
                                      .writing = pf_cut_short_remove };
    const pf_status status = pf_quantize(directory, options->output, &how, out, error);
    pf_progress_end(&progress);
    return status;
}

static int print_result(const pf_options *options, pf_out *out, const pf_quantize_result *result)
{
    if (options->json)
        return pf_out_json(out,
                           json_pack("{s:I, s:I, s:i}", "bytes_before", (json_int_t)result->bytes_before, "bytes_after",
                                     (json_int_t)result->bytes_after, "tensors", result->n_tensors));
    pf_out_print(out, "%s: %d tensors as %s, %.2f MB instead of %.2f MB\n", options->output, result->n_tensors,
                 options->dtype, (double)result->bytes_after * 1e-6, (double)result->bytes_before * 1e-6);
    return PF_EXIT_DONE;
}

static int check_dtype(const pf_command *self, const char *word)
{
    char known[256] = "";
    pf_dtype dtype = PF_DTYPE_AUTO;
    if (word && pf_dtype_parse(word, &dtype, NULL) == PF_OK && pf_dtype_is_written(dtype)) return PF_EXIT_DONE;
    for (int i = 0; i < PF_N_DTYPES; i++)
        if (pf_dtype_is_written((pf_dtype)i)) pf_list_word(known, sizeof known, ", ", pf_dtype_name((pf_dtype)i));
    if (dtype == PF_DTYPE_AUTO) return pf_options_misuse(self, "a format is needed: --dtype T, one of %s", known);
    return pf_options_misuse(self, "--dtype is %s, expected one of %s", word, known);
}

static int check(const pf_options *options)
{
    const pf_command *self = &pf_command_quantize;
    if (!options->model) return pf_options_misuse(self, "a model is needed: -m MODEL");
    if (!options->output) return pf_options_misuse(self, "an output directory is needed: -o DIR");
    return check_dtype(self, options->dtype);
}

static int run(const pf_options *options, pf_out *out)
{
    const int usage = check(options);
    if (usage != PF_EXIT_DONE) return usage;
    pf_error error = { 0 };
    pf_quantize_result result;
    const pf_status status = quantize(options, &result, &error);
    if (status == PF_CANCELLED) return PF_EXIT_INTERRUPTED;
    return status == PF_OK ? print_result(options, out, &result) : pf_out_fail_error(status, &error);
}

static const pf_option_group *const groups[] = { &pf_options_model, &pf_options_quantize, &pf_options_json, NULL };

const pf_command pf_command_quantize = {
    .name = "quantize",
    .summary = "write a copy of a model with its weights in another format",
    .synopsis = "-m MODEL -o DIR --dtype T [options]",
    .description =
        "Rounds the weights once (to nearest) and writes a directory that -m takes: config.json, model.safetensors\n"
        "and the tokenizer's files. Its logits are bit for bit those of MODEL loaded with the same --dtype. DIR\n"
        "is created atomically. Integers load in their own format only; any program reads f32, f16 and bf16.\n",
    .examples = "  pilotfish quantize -m models/target -o /tmp/target-int4 --dtype int4\n"
                "  pilotfish generate -m /tmp/target-int4 -p 'The list type'\n",
    .groups = groups,
    .run = run,
};
