/* pilotfish tokenize: prints the ids of a text. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli/commands.h"
#include "cli/hub.h"
#include "cli/input.h"
#include "cli/interrupt.h"

/* The text that a chat template has given, as a field of the document. */
static int print_text(pf_out *out, const pf_bytes *text)
{
    json_t *value = json_stringn(text->data ? text->data : "", text->n); /* NULL: no valid UTF-8 */
    char *printed = value != NULL ? pf_json_print(value, JSON_ENCODE_ANY) : NULL;
    const int code = printed != NULL ? PF_EXIT_DONE : pf_out_fail("no memory for a text of %zu bytes", text->n);
    if (printed != NULL) pf_out_print(out, "\"text\":%s,", printed);
    free(printed);
    json_decref(value);
    return code;
}

/* Writes JSON directly: a document of many millions of ids would take seconds, and Ctrl-C can end this in between. */
static int print_ids(const pf_options *options, pf_out *out, const pf_tokens *tokens, const pf_bytes *text)
{
    const volatile bool *interrupted = pf_interrupt_flag();
    if (*interrupted) return PF_EXIT_INTERRUPTED;
    if (options->json) pf_out_print(out, "{");
    if (options->json && options->chat_file != NULL) {
        const int code = print_text(out, text);
        if (code != PF_EXIT_DONE) return code;
    }
    if (options->json) pf_out_print(out, "\"tokens\":[");
    for (int32_t i = 0; i < tokens->n && !out->error && !*interrupted; i++)
        pf_out_print(out, "%s%d", i ? "," : "", tokens->ids[i]);
    pf_out_print(out, options->json ? "]}\n" : "\n");
    return *interrupted ? PF_EXIT_INTERRUPTED : PF_EXIT_DONE;
}

/* -p, or standard input. */
static pf_status encode_text(const pf_options *options, const pf_tokenizer *tokenizer, pf_tokens *out, pf_error *error)
{
    char *input = NULL;
    const char *text = options->prompt;
    size_t n_bytes = text ? strlen(text) : 0;
    pf_status status = PF_OK;
    if (!text) {
        status = pf_input_read("-", &input, &n_bytes, error);
        text = input;
    }
    if (status == PF_OK) status = pf_input_encode(tokenizer, text, n_bytes, !options->no_special, out, error);
    free(input);
    return status;
}

static pf_status encode(const pf_options *options, pf_tokens *out, pf_bytes *text, pf_error *error)
{
    char directory[PF_MAX_PATH];
    pf_tokenizer *tokenizer;
    PF_TRY(pf_hub_find_tokenizer(options->model, directory, error));
    PF_TRY(pf_tokenizer_open(directory, &tokenizer, error));
    const pf_status status = options->chat_file != NULL
                                 ? pf_input_read_chat(options->chat_file, directory, tokenizer, text, out, error)
                                 : encode_text(options, tokenizer, out, error);
    pf_tokenizer_close(tokenizer);
    return status;
}

static int run(const pf_options *options, pf_out *out)
{
    if (!options->model) return pf_options_misuse(&pf_command_tokenize, "a model is needed: -m MODEL");
    if (options->prompt && options->chat_file)
        return pf_options_misuse(&pf_command_tokenize, "-p and --chat do not go together");
    pf_error error = { 0 };
    pf_tokens tokens = { 0 };
    pf_bytes text = { 0 };
    const pf_status status = encode(options, &tokens, &text, &error);
    const int code = status == PF_OK          ? print_ids(options, out, &tokens, &text)
                     : status == PF_CANCELLED ? PF_EXIT_INTERRUPTED
                                              : pf_out_fail_error(status, &error);
    pf_tokens_clear(&tokens);
    pf_bytes_clear(&text);
    return code;
}

static const pf_option_group *const groups[] = { &pf_options_model, &pf_options_text, &pf_options_json, NULL };

const pf_command pf_command_tokenize = {
    .name = "tokenize",
    .summary = "text to token ids",
    .synopsis = "-m MODEL [-p TEXT | --chat FILE] [--no-special] [--json]",
    .description =
        "Prints the ids of a text, separated by commas, on one line, with the special tokens that the\n"
        "tokenizer adds by default. Any bytes are taken; detokenize gives them back as they were, unless the\n"
        "tokenizer changes texts (a normalizer, an unknown token).\n"
        "\n"
        "--chat takes a list of messages, [{\"role\": \"user\", \"content\": \"Hi\"}], or an object with "
        "\"messages\",\n"
        "\"tools\" and other variables of the model's chat template; nothing is added to the text that it gives.\n",
    .examples = "  pilotfish tokenize -m models/target -p 'A pilot fish'\n"
                "  pilotfish tokenize -m models/target --no-special < README.md\n",
    .groups = groups,
    .run = run,
};
