/*
 * pilotfish logits: the raw numbers after the last token, or after each.
 *
 * Keeps true: the rows are written as they are computed, each whole, and the JSON is closed whatever happens, so that
 * a context of any length needs memory for one pass alone.
 */
#include <math.h>
#include <stdio.h>

#include "cli/commands.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/progress.h"
#include "cli/setup.h"
#include "model/forward/context.h"

/* %.9g gives every float back exactly. JSON has no word for an infinity: 1e999 is one to every reader of doubles. */
static void write_number(pf_out *out, float value, bool json)
{
    char text[32];
    if (isnan(value))
        snprintf(text, sizeof text, "%s", json ? "null" : "nan");
    else if (isinf(value) && json)
        snprintf(text, sizeof text, "%s", value > 0.0f ? "1e999" : "-1e999");
    else
        snprintf(text, sizeof text, "%.9g", (double)value);
    pf_out_print(out, "%s", text);
}

static void write_row(pf_out *out, const float *row, int32_t n, bool json)
{
    if (json) pf_out_write(out, "[", 1);
    for (int32_t i = 0; i < n && !out->error; i++) {
        if (i > 0) pf_out_write(out, json ? "," : " ", 1);
        write_number(out, row[i], json);
    }
    pf_out_write(out, json ? "]" : "\n", 1);
}

/* Row i of the last pass, which stands behind the token at `position`. */
static void write_logit_row(pf_context *context, int32_t i, int32_t position, bool json, pf_invalid_logits *invalid,
                            pf_out *out)
{
    const int32_t n = pf_context_n_vocab(context), id = pf_context_find_invalid(context, i, n);
    if (id >= 0) pf_invalid_logits_note(invalid, position, id);
    write_row(out, pf_context_logits(context, i), n, json);
}

/* After the last token. */
static pf_status last_row(pf_context *context, pf_kv_seq sequence, const pf_options *options, pf_progress *progress,
                          pf_invalid_logits *invalid, pf_out *out)
{
    const int32_t step = pf_context_get_config(context)->max_rows, n = options->tokens.n;
    for (int32_t begin = 0; begin < n; begin += step) {
        const int32_t n_rows = n - begin < step ? n - begin : step;
        PF_TRY(pf_context_prefill(context, sequence, options->tokens.ids + begin, n_rows, begin + n_rows == n));
        pf_progress_update(progress, (size_t)(begin + n_rows), (size_t)n);
    }
    pf_progress_end(progress);
    write_logit_row(context, 0, n - 1, options->json, invalid, out);
    return PF_OK;
}

/* After each, as many rows a pass as the context can hold logits of. */
static pf_status all_rows(pf_context *context, pf_kv_seq sequence, const pf_options *options, pf_progress *progress,
                          pf_invalid_logits *invalid, pf_out *out)
{
    const int32_t step = pf_context_get_config(context)->max_logit_rows, n = options->tokens.n;
    for (int32_t begin = 0; begin < n && !out->error; begin += step) {
        const int32_t n_rows = n - begin < step ? n - begin : step;
        const pf_span span = { sequence, options->tokens.ids + begin, n_rows, n_rows, NULL, 0 };
        PF_TRY(pf_context_forward(context, &span, 1));
        pf_progress_end(progress); /* the rows may go where the bar is */
        for (int32_t i = 0; i < n_rows; i++) {
            if (options->json && begin + i > 0) pf_out_write(out, ",", 1);
            write_logit_row(context, i, begin + i, options->json, invalid, out);
        }
        pf_progress_update(progress, (size_t)(begin + n_rows), (size_t)n);
    }
    return PF_OK;
}

static pf_status check_tokens(const pf_context *context, const pf_tokens *tokens, pf_error *error)
{
    const int32_t max_tokens = pf_context_get_config(context)->max_tokens;
    if (tokens->n < 1) return pf_fail(error, PF_INVALID, "--tokens is empty, expected at least one token");
    if (tokens->n > max_tokens)
        return pf_fail(error, PF_INVALID,
                       "--tokens has %d entries, expected at most %d: the context has room for no more", tokens->n,
                       max_tokens);
    return pf_input_check_ids(tokens, pf_context_n_vocab(context), error);
}

/* Everything between the braces; afterwards, what could not be computed is missing, and the braces are closed. */
static pf_status write_logits(pf_context *context, const pf_options *options, pf_invalid_logits *invalid, pf_out *out,
                              pf_error *error)
{
    pf_kv_seq sequence;
    PF_TRY(check_tokens(context, &options->tokens, error));
    if (pf_kv_acquire(pf_context_kv(context), &sequence) != PF_OK)
        return pf_fail(error, PF_LIMIT, "the KV cache has no room for a sequence");

    if (options->json) pf_out_print(out, options->all ? "{\"logits\":[" : "{\"logits\":");
    pf_stop stop = { .told = pf_interrupt_flag() };
    pf_context_set_stop(context, &stop);
    pf_progress progress;
    pf_progress_begin(&progress, "computing");
    const pf_status status = (options->all ? all_rows : last_row)(context, sequence, options, &progress, invalid, out);
    pf_progress_end(&progress);
    pf_context_set_stop(context, NULL);
    if (options->json && status != PF_OK && !options->all) pf_out_print(out, "null");
    if (options->json) pf_out_print(out, options->all ? "]}\n" : "}\n");
    pf_kv_release(pf_context_kv(context), sequence);
    if (status != PF_OK && status != PF_CANCELLED)
        return pf_fail(error, status, "the forward pass over %d tokens failed: %s", options->tokens.n,
                       pf_status_name(status));
    return status;
}

/* As long as the tokens are, unless --context says otherwise: what depends on a length (dynamic and longrope frequencies)
 * is then what transformers has for them. */
static pf_status open_engine(const pf_options *options, pf_engine **out, pf_error *error)
{
    pf_options fitted = *options;
    if (fitted.context == 0 && options->tokens.n > 0)
        PF_TRY(pf_setup_longest_context(options->model, options->tokens.n, &fitted.context, error));
    return pf_setup_open_engine(&fitted, 1, out, error);
}

static void warn_of_invalid(const pf_engine *engine, const pf_invalid_logits *invalid)
{
    if (invalid->n_rows == 0) return;
    pf_model_info info;
    char sentence[PF_INVALID_LOGITS_TEXT_BYTES];
    pf_engine_info(engine, &info);
    pf_invalid_logits_print(invalid, "model", info.model_id, sentence);
    pf_setup_warn(NULL, sentence);
}

static int run(const pf_options *options, pf_out *out)
{
    if (!options->model) return pf_options_misuse(&pf_command_logits, "a model is needed: -m MODEL");
    if (!options->tokens_given) return pf_options_misuse(&pf_command_logits, "ids are needed: --tokens IDS");
    pf_error error = { 0 };
    pf_engine *engine = NULL;
    pf_status status = open_engine(options, &engine, &error);
    if (status == PF_OK) {
        pf_invalid_logits invalid = { 0 };
        status = write_logits(pf_engine_context(engine), options, &invalid, out, &error);
        warn_of_invalid(engine, &invalid);
    }
    pf_engine_close(engine);
    if (*pf_interrupt_flag()) return PF_EXIT_INTERRUPTED;
    return status == PF_OK ? PF_EXIT_DONE : pf_out_fail_error(status, &error);
}

static const pf_option_group *const groups[] = { &pf_options_model,      &pf_options_ids,
                                                 &pf_options_logits,     &pf_options_running,
                                                 &pf_options_draft_head, &pf_options_context,
                                                 &pf_options_json,       NULL };

const pf_command pf_command_logits = {
    .name = "logits",
    .summary = "the raw logits after given tokens",
    .synopsis = "-m MODEL --tokens IDS [options]",
    .description =
        "Prints the logits of every id in the model's vocabulary (as config.json counts it) after the last\n"
        "token, or with --all after each. Nine digits: every float comes back exactly. NaN is null in JSON.\n",
    .examples = "  pilotfish logits -m models/target --tokens 1,312,77 --dtype f32 --json\n"
                "  pilotfish logits -m models/target --tokens 1,312,77 --all | wc -l\n",
    .groups = groups,
    .run = run,
};
