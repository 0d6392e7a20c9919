/* Text to ids and back, as the public header has it: arrays of the caller, bytes borrowed from a stream. */
#include <stdlib.h>

#include "engine/engine.h"

pf_status pf_tokenize(const pf_tokenizer *tokenizer, const char *text, size_t n_bytes, bool with_special, int32_t *ids,
                      size_t capacity, size_t *n_ids, pf_error *error)
{
    pf_tokens tokens = { 0 };
    if (!tokenizer) return pf_fail(error, PF_UNAVAILABLE, "the model has no tokenizer, or one that is not supported");
    const pf_status status = pf_tokenizer_encode(tokenizer, text, n_bytes, with_special, NULL, &tokens);
    if (status != PF_OK) {
        pf_tokens_clear(&tokens);
        return pf_fail(error, status, "the text of %zu bytes %s", n_bytes, pf_tokenizer_refusal(status));
    }
    const size_t n = (size_t)tokens.n;
    for (size_t i = 0; i < n && i < capacity; i++) ids[i] = tokens.ids[i];
    pf_tokens_clear(&tokens);
    *n_ids = n;
    return PF_OK;
}

struct pf_text {
    pf_detokenizer *detokenizer;
    pf_bytes bytes; /* what the last call added */
};

pf_status pf_text_create(const pf_tokenizer *tokenizer, const int32_t *prompt, int32_t n_prompt, pf_text **out)
{
    pf_text *text = calloc(1, sizeof *text);
    if (!text) return PF_NOMEM;
    pf_status status = pf_detokenizer_create(tokenizer, &text->detokenizer);
    if (status == PF_OK && n_prompt > 0) status = pf_detokenizer_skip_prompt(text->detokenizer, prompt, n_prompt);
    if (status != PF_OK) {
        pf_text_destroy(text);
        return status;
    }
    *out = text;
    return PF_OK;
}

void pf_text_destroy(pf_text *text)
{
    if (!text) return;
    pf_detokenizer_destroy(text->detokenizer);
    pf_bytes_clear(&text->bytes);
    free(text);
}

static pf_status hand_out(const pf_text *text, pf_status status, const char **bytes, size_t *n_bytes)
{
    if (status != PF_OK) return status;
    *bytes = text->bytes.data ? text->bytes.data : "";
    *n_bytes = text->bytes.n;
    return PF_OK;
}

pf_status pf_text_push(pf_text *text, int32_t id, const char **bytes, size_t *n_bytes)
{
    text->bytes.n = 0;
    return hand_out(text, pf_detokenizer_push(text->detokenizer, id, &text->bytes), bytes, n_bytes);
}

pf_status pf_text_finish(pf_text *text, const char **bytes, size_t *n_bytes)
{
    text->bytes.n = 0;
    return hand_out(text, pf_detokenizer_finish(text->detokenizer, &text->bytes), bytes, n_bytes);
}
