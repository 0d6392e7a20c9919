/* pilotfish detokenize: ids to the exact bytes. */
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/hub.h"
#include "cli/json_out.h"

/* The bytes of all tokens, joined; the caller frees. */
static pf_status decode(const pf_tokenizer *tokenizer, const pf_tokens *tokens, char **out, size_t *n_out,
                        pf_error *error)
{
    char *text = NULL;
    size_t n = 0;
    FILE *stream = open_memstream(&text, &n);
    if (!stream) return pf_fail(error, PF_NOMEM, "no memory for the text of %d tokens", tokens->n);
    pf_status status = PF_OK;
    for (int32_t i = 0; status == PF_OK && i < tokens->n; i++) {
        const char *bytes;
        size_t n_bytes;
        status = pf_tokenizer_decode_token(tokenizer, tokens->ids[i], &bytes, &n_bytes);
        if (status != PF_OK)
            status = pf_fail(error, status, "entry %d of --tokens is %d, expected a token id from 0 to %d", i + 1,
                             tokens->ids[i], pf_tokenizer_vocab_size(tokenizer) - 1);
        else if (fwrite(bytes, 1, n_bytes, stream) != n_bytes)
            status = pf_fail(error, PF_NOMEM, "no memory for the text of %d tokens", tokens->n);
    }
    if (fclose(stream) != 0 && status == PF_OK)
        status = pf_fail(error, PF_NOMEM, "no memory for the text of %d tokens", tokens->n);
    if (status != PF_OK) {
        free(text);
        return status;
    }
    *out = text;
    *n_out = n;
    return PF_OK;
}

static pf_status open_and_decode(const pf_options *options, char **text, size_t *n, pf_error *error)
{
    char directory[PF_MAX_PATH];
    pf_tokenizer *tokenizer;
    PF_TRY(pf_hub_find_model(options->model, directory, error));
    PF_TRY(pf_tokenizer_open(directory, &tokenizer, error));
    const pf_status status = decode(tokenizer, &options->tokens, text, n, error);
    pf_tokenizer_close(tokenizer);
    return status;
}

static int run(const pf_options *options, pf_out *out)
{
    if (!options->model) return pf_options_misuse(&pf_command_detokenize, "a model is needed: -m MODEL");
    if (!options->tokens_given) return pf_options_misuse(&pf_command_detokenize, "ids are needed: --tokens IDS");
    pf_error error = { 0 };
    char *text = NULL;
    size_t n = 0;
    const pf_status status = open_and_decode(options, &text, &n, &error);
    if (status != PF_OK) return pf_out_fail_error(status, &error);
    int code = PF_EXIT_DONE;
    if (options->json) {
        json_t *document = json_object();
        pf_json_set_text(document, text, n);
        code = pf_out_json(out, document);
    } else {
        pf_out_write(out, text, n);
    }
    free(text);
    return code;
}

static const pf_option_group *const groups[] = { &pf_options_model, &pf_options_ids, &pf_options_json, NULL };

const pf_command pf_command_detokenize = {
    .name = "detokenize",
    .summary = "token ids to the exact bytes",
    .synopsis = "-m MODEL --tokens IDS [--json]",
    .description =
        "Writes the bytes that the tokens stand for, special tokens as their text, and no line end behind\n"
        "them. With --json, bytes that are not UTF-8 are replaced in \"text\", and \"text_base64\" has them.\n",
    .examples =
        "  pilotfish detokenize -m models/target --tokens 312,77,1024\n"
        "  pilotfish detokenize -m models/target --tokens \"$(pilotfish tokenize -m models/target -p hello)\"\n",
    .groups = groups,
    .run = run,
};
