/* pilotfish detokenize: writes the exact bytes of ids as one text. An id of the model without a token has no bytes. */
#include "cli/commands.h"
#include "cli/hub.h"
#include "cli/input.h"
#include "cli/json_out.h"
#include "model/config/config.h"
#include "tokenizer/decode/detokenize.h"

static pf_status push(pf_detokenizer *d, const pf_tokens *tokens, int32_t i, pf_bytes *text, pf_error *error)
{
    const pf_status status = pf_detokenizer_push(d, tokens->ids[i], text);
    if (status == PF_INVALID) return PF_OK; /* an id without a token */
    if (status == PF_LIMIT)
        return pf_fail(error, status, "entry %d of --tokens, %d: its decoder makes it longer by more than a MiB", i + 1,
                       tokens->ids[i]);
    return status;
}

/* The bytes of all tokens, joined. */
static pf_status decode(const pf_tokenizer *tokenizer, const pf_tokens *tokens, pf_bytes *text, pf_error *error)
{
    pf_detokenizer *d;
    pf_status status = pf_detokenizer_create(tokenizer, &d);
    if (status == PF_OK) {
        for (int32_t i = 0; status == PF_OK && i < tokens->n; i++) status = push(d, tokens, i, text, error);
        if (status == PF_OK) status = pf_detokenizer_finish(d, text);
        pf_detokenizer_destroy(d);
    }
    if (status == PF_NOMEM) return pf_fail(error, status, "no memory for the text of %d tokens", tokens->n);
    return status;
}

/* The number of ids of the tokenizer, or of the embedding if config.json has more. */
static int32_t count_ids(const char *directory, const pf_tokenizer *tokenizer)
{
    const int32_t n_tokens = pf_tokenizer_vocab_size(tokenizer);
    pf_config config;
    if (pf_config_load(directory, NULL, &config, NULL) != PF_OK) return n_tokens;
    return config.vocab_size > n_tokens ? config.vocab_size : n_tokens;
}

static pf_status open_and_decode(const pf_options *options, pf_bytes *text, pf_error *error)
{
    char directory[PF_MAX_PATH];
    pf_tokenizer *tokenizer;
    PF_TRY(pf_hub_find_tokenizer(options->model, directory, error));
    PF_TRY(pf_tokenizer_open(directory, &tokenizer, error));
    pf_status status = pf_input_check_ids(&options->tokens, count_ids(directory, tokenizer), error);
    if (status == PF_OK) status = decode(tokenizer, &options->tokens, text, error);
    pf_tokenizer_close(tokenizer);
    return status;
}

static int run(const pf_options *options, pf_out *out)
{
    if (!options->model) return pf_options_misuse(&pf_command_detokenize, "a model is needed: -m MODEL");
    if (!options->tokens_given) return pf_options_misuse(&pf_command_detokenize, "ids are needed: --tokens IDS");
    pf_error error = { 0 };
    pf_bytes text = { .data = NULL };
    const pf_status status = open_and_decode(options, &text, &error);
    if (status != PF_OK) {
        pf_bytes_clear(&text);
        return pf_out_fail_error(status, &error);
    }
    int code = PF_EXIT_DONE;
    if (options->json) {
        json_t *document = json_object();
        pf_json_set_text(document, text.data ? text.data : "", text.n);
        code = pf_out_json(out, document);
    } else {
        pf_out_write(out, text.data, text.n);
    }
    pf_bytes_clear(&text);
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
