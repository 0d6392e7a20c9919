/*
 * pilotfish generate: a prompt in, its continuation out as it is made.
 *
 * Keeps true: what is shown is a prefix of the text at any moment, cut at a character's end, and never a part of a
 * stop text; with --json nothing is written before a document is whole, and each request that has begun ends with one.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/figures.h"
#include "cli/hub.h"
#include "cli/input.h"
#include "cli/interrupt.h"
#include "cli/json_out.h"
#include "cli/progress.h"
#include "cli/request.h"
#include "cli/token_logprobs.h"
#include "tokenizer/decode/text_stream.h"

static const char *const COLOR_DRAFTED = "\033[32m"; /* green: proposed by the draft, accepted by the target */
static const char *const COLOR_OWN = "\033[33m";     /* yellow: the target's own */
static const char *const COLOR_NONE = "\033[0m";

/* What goes on while one continuation is made. */
typedef struct {
    const pf_options *options;
    pf_out *out;
    pf_text_stream text; /* without a tokenizer: not used */
    bool has_text;
    bool shows;   /* not with --json */
    bool is_seen; /* as it is made, on a terminal */
    bool colors;
    bool failed;    /* the request did */
    size_t n_shown; /* bytes of text */
    int32_t n_prompt, n_tokens;
    const pf_tokenizer *tokenizer;
    pf_token_logprobs *logprobs; /* [n_new]; NULL: not wanted */
    int32_t n_logprobs;
    pf_status status;           /* of the text */
    pf_progress prompt, tokens; /* bars: until the first token; then, unless the tokens are shown */
} continuation;

/* ---- showing ---------------------------------------------------------------------------------------------------- */

/* A character has the colour of its first byte. */
static void show_colored(continuation *c, size_t end)
{
    size_t i = c->n_shown;
    while (i < end) {
        const bool drafted = c->text.drafted[i];
        size_t j = i;
        while (j < end && c->text.drafted[j] == drafted) {
            bool valid;
            j += pf_utf8_length(c->text.bytes.data + j, end - j, &valid);
        }
        const char *color = drafted ? COLOR_DRAFTED : COLOR_OWN;
        pf_out_write(c->out, color, strlen(color));
        pf_out_write(c->out, c->text.bytes.data + i, j - i);
        pf_out_write(c->out, COLOR_NONE, strlen(COLOR_NONE));
        i = j;
    }
}

static void show_text(continuation *c, size_t end)
{
    if (end <= c->n_shown) return;
    if (c->colors)
        show_colored(c, end);
    else
        pf_out_write(c->out, c->text.bytes.data + c->n_shown, end - c->n_shown);
    c->n_shown = end;
    pf_out_flush(c->out);
}

static void show_id(continuation *c, int32_t token, bool drafted)
{
    const char *color = !c->colors ? "" : drafted ? COLOR_DRAFTED : COLOR_OWN;
    pf_out_print(c->out, "%s%s%d%s", c->n_tokens > 1 ? "," : "", color, token, c->colors ? COLOR_NONE : "");
    pf_out_flush(c->out);
}

static void on_prompt(void *user, int32_t n_read)
{
    continuation *c = user;
    pf_progress_update(&c->prompt, (size_t)n_read, (size_t)c->n_prompt);
}

static bool on_token(void *user, int32_t token, bool drafted)
{
    continuation *c = user;
    c->n_tokens++;
    pf_progress_end(&c->prompt);
    if (!c->is_seen) pf_progress_update(&c->tokens, (size_t)c->n_tokens, (size_t)c->options->n_new);
    if (!c->has_text) {
        if (c->shows) show_id(c, token, drafted);
        return !c->out->error;
    }
    const pf_status status = pf_text_stream_push(&c->text, token, drafted);
    if (status != PF_INVALID) c->status = status; /* an id beyond the tokenizer has no text, and that is no failure */
    if (c->shows) show_text(c, pf_text_stream_ready(&c->text));
    return !c->text.stopped && !c->out->error && c->status == PF_OK;
}

static void on_logprobs(void *user, const pf_token_logprobs *logprobs)
{
    continuation *c = user;
    if (c->n_logprobs < c->options->n_new) c->logprobs[c->n_logprobs++] = *logprobs;
}

/* Of a text that has begun: what was held back, and a line end unless there is one. */
static void show_end(continuation *c)
{
    if (!c->shows) return;
    if (c->has_text) show_text(c, c->text.bytes.n);
    const bool ended = c->has_text && c->text.bytes.n > 0 && c->text.bytes.data[c->text.bytes.n - 1] == '\n';
    if (!ended) pf_out_write(c->out, "\n", 1);
    pf_out_flush(c->out);
    pf_out_token_logprobs(c->out, c->logprobs, c->n_logprobs, c->tokenizer);
}

static bool wants_color(const pf_options *options)
{
    if (options->json || options->color == PF_COLOR_NEVER || !pf_setup_has_drafter(options)) return false;
    if (options->color == PF_COLOR_ALWAYS) return true;
    const char *no_color = getenv("NO_COLOR");
    return pf_out_is_terminal(STDOUT_FILENO) && !(no_color && *no_color);
}

/* Without its colours it would say nothing. */
static void print_legend(const continuation *c)
{
    if (c->colors && (c->options->color == PF_COLOR_ALWAYS || isatty(STDERR_FILENO) == 1))
        fprintf(stderr, "%sdrafted and accepted%s, %sthe target's own%s\n", COLOR_DRAFTED, COLOR_NONE, COLOR_OWN,
                COLOR_NONE);
}

/* ---- figures ---------------------------------------------------------------------------------------------------- */

static void print_figures(const pf_setup *setup, const pf_result *result, int32_t n_prompt, uint64_t seed)
{
    fprintf(stderr, "prompt %d tokens in %.1f ms, then %d tokens in %.1f ms", n_prompt,
            (double)result->prefill_ns * 1e-6, result->n_tokens > 0 ? result->n_tokens - 1 : 0,
            (double)result->decode_ns * 1e-6);
    if (result->n_tokens > 1)
        fprintf(stderr, " (%s tokens/s)", pf_figure_rate(pf_request_tokens_per_second(result)).text);
    fprintf(stderr, ", seed %" PRIu64 "\n", seed);
    if (setup->drafter) pf_figures_print_speculation(&result->speculation);
}

static const char *finish_reason(pf_finish finish, const continuation *c)
{
    if (c->failed) return "error";
    if (c->text.stopped) return "stop";
    switch (finish) {
    case PF_FINISH_LENGTH: return "length";
    case PF_FINISH_STOP: return "stop";
    case PF_FINISH_EOS: return "eos";
    case PF_FINISH_NONE: break;
    }
    return "interrupted";
}

static json_t *speculation(const pf_result *result)
{
    json_t *figures = pf_json_speculation(&result->speculation);
    json_object_set_new(figures, "drafter", result->drafter[0] ? json_string(result->drafter) : json_null());
    return figures;
}

static json_t *document(const pf_tokens *prompt, const pf_result *result, uint64_t seed, const continuation *c)
{
    json_t *root = json_pack("{s:o, s:o}", "prompt_tokens", pf_json_ids(prompt->ids, prompt->n), "tokens",
                             pf_json_ids(result->tokens, result->n_tokens));
    if (!root) return NULL;
    if (c->has_text)
        pf_json_set_text(root, c->text.bytes.data, c->text.bytes.n);
    else
        json_object_set_new(root, "text", json_null());
    json_object_set_new(root, "seed", json_integer((json_int_t)seed));
    json_object_set_new(root, "finish_reason", json_string(finish_reason(result->finish, c)));
    json_object_set_new(root, "timing",
                        json_pack("{s:f, s:f, s:o, s:f}", "prefill_ms", (double)result->prefill_ns * 1e-6, "decode_ms",
                                  (double)result->decode_ns * 1e-6, "tokens_per_s",
                                  pf_json_number(pf_request_tokens_per_second(result)), "ttft_ms",
                                  (double)result->first_token_ns * 1e-6));
    if (c->logprobs)
        json_object_set_new(root, "logprobs", pf_json_token_logprobs(c->logprobs, c->n_logprobs, c->tokenizer));
    json_object_set_new(root, "invalid_logit_rows", json_integer((json_int_t)result->invalid_rows));
    if (pf_setup_has_drafter(c->options)) json_object_set_new(root, "speculation", speculation(result));
    return root;
}

/* ---- running ---------------------------------------------------------------------------------------------------- */

static pf_request make_request(const pf_options *options, const pf_setup *setup, const pf_tokens *prompt, uint64_t seed,
                               continuation *c)
{
    pf_request request = pf_request_by_options(options, setup, seed);
    request.prompt = prompt->ids;
    request.n_prompt = prompt->n;
    request.max_new_tokens = options->n_new;
    request.on_prompt = on_prompt;
    request.on_token = on_token;
    request.logprobs = 1 + options->n_logprobs;
    request.on_logprobs = c->logprobs ? on_logprobs : NULL;
    request.user = c;
    return request;
}

/* Whether the request ends with a document: it has begun. What it asks for was refused before that (PF_INVALID). */
static bool ends_with_document(const continuation *c, pf_status status, const pf_result *result)
{
    return c->options->json && (!c->failed || status != PF_INVALID || result->n_tokens > 0);
}

/* One continuation. An exit status. */
static int run_one(const pf_options *options, const pf_setup *setup, const pf_tokens *prompt, uint64_t seed,
                   pf_result *result, pf_token_logprobs *logprobs, pf_out *out)
{
    continuation c = {
        .options = options,
        .out = out,
        .has_text = setup->tokenizer != NULL,
        .shows = !options->json,
        .is_seen = !options->json && isatty(STDOUT_FILENO) == 1,
        .colors = wants_color(options),
        .n_prompt = prompt->n,
        .tokenizer = setup->tokenizer,
        .logprobs = logprobs,
    };
    pf_progress_begin(&c.prompt, "reading the prompt");
    pf_progress_begin(&c.tokens, "generating");
    if (c.has_text)
        c.status = pf_text_stream_begin(&c.text, setup->tokenizer, options->stops.items, options->stops.n, prompt,
                                        options->n_new);
    if (c.status != PF_OK) return pf_out_fail("%s", pf_request_text_failure(c.status));
    print_legend(&c);

    pf_error error = { 0 };
    const pf_request request = make_request(options, setup, prompt, seed, &c);
    pf_status status = pf_generate(setup->session, &request, result, &error);
    pf_progress_end(&c.prompt);
    pf_progress_end(&c.tokens);
    if (c.has_text && c.status == PF_OK) c.status = pf_text_stream_finish(&c.text);
    if (c.status != PF_OK) status = pf_fail(&error, c.status, "%s", pf_request_text_failure(c.status));
    const bool interrupted = status == PF_CANCELLED;

    int code = interrupted ? PF_EXIT_INTERRUPTED : PF_EXIT_DONE;
    if (result->n_tokens > 0) show_end(&c);
    c.failed = status != PF_OK && !interrupted;
    if (ends_with_document(&c, status, result)) {
        const int written = pf_out_json(out, document(prompt, result, seed, &c));
        if (written != PF_EXIT_DONE) code = written;
    }
    if (!options->json && !c.failed && !out->error && result->n_tokens > 0)
        print_figures(setup, result, prompt->n, seed);
    if (c.failed) code = pf_out_fail_error(status, &error);
    pf_text_stream_end(&c.text);
    return code;
}

static int run_all(const pf_options *options, const pf_setup *setup, const pf_tokens *prompt, uint64_t seed,
                   pf_out *out)
{
    int code = PF_EXIT_DONE;
    pf_result *result = calloc(1, sizeof *result);
    int32_t *tokens = calloc((size_t)options->n_new, sizeof *tokens);
    pf_token_logprobs *logprobs = options->n_logprobs >= 0 ? calloc((size_t)options->n_new, sizeof *logprobs) : NULL;
    if (!result || !tokens || (options->n_logprobs >= 0 && !logprobs))
        code = pf_out_fail("no memory for %d tokens", options->n_new);
    for (int32_t i = 0; i < options->n_samples && code == PF_EXIT_DONE && !out->error; i++) {
        result->size = sizeof *result;
        result->tokens = tokens;
        result->capacity = options->n_new;
        code = run_one(options, setup, prompt, seed + (uint64_t)i, result, logprobs, out);
    }
    free(logprobs);
    free(tokens);
    free(result);
    return code;
}

/* The conversation of --chat, by the template of the model whose tokenizer is used. */
static pf_status read_chat(const pf_options *options, const pf_setup *setup, pf_tokens *ids, pf_error *error)
{
    char directory[PF_MAX_PATH];
    pf_bytes text = { 0 };
    if (setup->tokenizer == NULL)
        return pf_fail(error, PF_INVALID, "--chat needs text, and the model has no tokenizer");
    PF_TRY(pf_hub_find_tokenizer(options->model != NULL ? options->model : options->draft, directory, error));
    const pf_status status = pf_input_read_chat(options->chat_file, directory, setup->tokenizer, &text, ids, error);
    pf_bytes_clear(&text);
    return status;
}

/* *text: the ids of a prompt that is one. */
static pf_status prepare(const pf_options *options, pf_setup *setup, pf_tokens *text, uint64_t *seed, pf_error *error)
{
    PF_TRY(pf_request_seed(options, seed, error));
    PF_TRY(pf_setup_open(options, false, setup, error));
    if (options->chat_file != NULL)
        PF_TRY(read_chat(options, setup, text, error));
    else if (options->tokens_given)
        PF_TRY(pf_input_check_ids(&options->tokens, pf_model_ids(&setup->verifier_info), error));
    else
        PF_TRY(pf_input_read_prompt(options, setup->tokenizer, text, error));
    if (options->stops.n > 0 && !setup->tokenizer)
        return pf_fail(error, PF_INVALID, "--stop needs text, and the model has no tokenizer");
    return PF_OK;
}

/* Ctrl-C before there was anything to show: with --json a document all the same, with no tokens in it but those that were
 * given; of several samples, which are a line each, none. */
static int end_early(const pf_options *options, const pf_tokens *prompt, uint64_t seed, pf_out *out)
{
    if (!options->json || options->n_samples > 1) return PF_EXIT_INTERRUPTED;
    const continuation nothing = { .options = options, .has_text = pf_setup_finds_tokenizer(options) };
    pf_result *result = calloc(1, sizeof *result);
    const int code = pf_out_json(out, result ? document(prompt, result, seed, &nothing) : NULL);
    free(result);
    return code == PF_EXIT_DONE ? PF_EXIT_INTERRUPTED : code;
}

static int check(const pf_options *o)
{
    const pf_command *self = &pf_command_generate;
    const int n_prompts = (o->prompt != NULL) + (o->prompt_file != NULL) + (o->chat_file != NULL) + o->tokens_given;
    if (n_prompts != 1)
        return pf_options_misuse(self, "%s prompt: give one of -p TEXT, -f FILE, --tokens IDS and --chat FILE",
                                 n_prompts ? "more than one" : "there is no");
    const int usage = pf_request_check(self, o);
    if (usage != PF_EXIT_DONE) return usage;
    if (o->sampling.seed > (uint64_t)INT64_MAX - (uint64_t)(o->n_samples - 1))
        return pf_options_misuse(self, "--seed is too large for %d samples", o->n_samples);
    return PF_EXIT_DONE;
}

static int run(const pf_options *options, pf_out *out)
{
    const int usage = check(options);
    if (usage != PF_EXIT_DONE) return usage;
    pf_setup setup = { 0 };
    pf_tokens text = { 0 };
    const pf_tokens *prompt = options->tokens_given ? &options->tokens : &text;
    pf_error error = { 0 };
    uint64_t seed = 0;
    const pf_status status = prepare(options, &setup, &text, &seed, &error);
    int code;
    if (*pf_interrupt_flag())
        code = end_early(options, prompt, seed, out);
    else if (status != PF_OK)
        code = pf_out_fail_error(status, &error);
    else
        code = run_all(options, &setup, prompt, seed, out);
    pf_tokens_clear(&text);
    pf_setup_close(&setup);
    return code;
}

static const pf_option_group *const groups[] = {
    &pf_options_model,       &pf_options_prompt,         &pf_options_generating, &pf_options_sampling,
    &pf_options_speculation, &pf_options_target_backend, &pf_options_running,    &pf_options_target_head,
    &pf_options_context,     &pf_options_draft_running,  &pf_options_color,      NULL
};

const pf_command pf_command_generate = {
    .name = "generate",
    .summary = "continue a text, with or without a drafter",
    .synopsis = "(-m MODEL | --verifier ADDR -d DRAFT) (-p | -f | --tokens | --chat) INPUT [options]",
    .description =
        "Writes the text, and figures to standard error. A drafter leaves text or distribution as they are.\n",
    .examples = "  pilotfish generate -m models/target -p 'The list type' -n 64\n"
                "  pilotfish generate -m models/target --draft-worker unix:/tmp/worker.sock -p 'The list type'\n"
                "  pilotfish generate --verifier gpu-host:7000 -d models/draft -p 'The list type' --json\n",
    .groups = groups,
    .run = run,
};
