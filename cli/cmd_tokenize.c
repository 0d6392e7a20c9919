/* pilotfish tokenize: prints the ids of a text. */
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/hub.h"
#include "cli/input.h"
#include "cli/interrupt.h"

/* Writes JSON directly: a document of many millions of ids would take seconds, and Ctrl-C can end this in between. */
static int print_ids(const pf_options *options, pf_out *out, const pf_tokens *tokens)
{
    const volatile bool *interrupted = pf_interrupt_flag();
    if (*interrupted) return PF_EXIT_INTERRUPTED;
    if (options->json) pf_out_print(out, "{\"tokens\":[");
    for (int32_t i = 0; i < tokens->n && !out->error && !*interrupted; i++)
        pf_out_print(out, "%s%d", i ? "," : "", tokens->ids[i]);
    pf_out_print(out, options->json ? "]}\n" : "\n");
    return *interrupted ? PF_EXIT_INTERRUPTED : PF_EXIT_DONE;
}

static pf_status encode(const pf_options *options, pf_tokens *out, pf_error *error)
{
    char directory[PF_MAX_PATH];
    pf_tokenizer *tokenizer;
    PF_TRY(pf_hub_find_tokenizer(options->model, directory, error));
    PF_TRY(pf_tokenizer_open(directory, &tokenizer, error));

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
    pf_tokenizer_close(tokenizer);
    return status;
}

static int run(const pf_options *options, pf_out *out)
{
    if (!options->model) return pf_options_misuse(&pf_command_tokenize, "a model is needed: -m MODEL");
    pf_error error = { 0 };
    pf_tokens tokens = { 0 };
    const pf_status status = encode(options, &tokens, &error);
    const int code = status == PF_OK          ? print_ids(options, out, &tokens)
                     : status == PF_CANCELLED ? PF_EXIT_INTERRUPTED
                                              : pf_out_fail_error(status, &error);
    pf_tokens_clear(&tokens);
    return code;
}

static const pf_option_group *const groups[] = { &pf_options_model, &pf_options_text, &pf_options_json, NULL };

const pf_command pf_command_tokenize = {
    .name = "tokenize",
    .summary = "text to token ids",
    .synopsis = "-m MODEL [-p TEXT] [--no-special] [--json]",
    .description =
        "Prints the ids of a text, separated by commas, on one line, with the special tokens that the\n"
        "tokenizer adds by default. Any bytes are taken; detokenize gives them back as they were, unless the\n"
        "tokenizer changes texts (a normalizer, an unknown token).\n",
    .examples = "  pilotfish tokenize -m models/target -p 'A pilot fish'\n"
                "  pilotfish tokenize -m models/target --no-special < README.md\n",
    .groups = groups,
    .run = run,
};
