#include "tokenizer/decode/token_text.h"

#include "tokenizer/decode/detokenize.h"

static bool exists(const pf_token_text *r, int32_t id)
{
    size_t n_bytes;
    return id >= 0 && id < r->n_ids && pf_tokenizer_token_bytes(r->tokenizer, id, &n_bytes) != NULL;
}

/* A prompt of one plain token: none of those that follow it is the first of the text. */
static void find_before(pf_token_text *r)
{
    r->before = -1;
    r->is_known = true;
    for (int32_t id = 0; id < r->n_ids && r->before < 0; id++)
        if (exists(r, id) && !pf_tokenizer_is_special(r->tokenizer, id)) r->before = id;
}

pf_status pf_token_text_append(pf_token_text *r, int32_t id, pf_bytes *out)
{
    pf_detokenizer *d;
    if (!exists(r, id)) return PF_OK;
    if (!r->is_known) find_before(r);
    PF_TRY(pf_detokenizer_create(r->tokenizer, &d));
    pf_status status = r->before >= 0 ? pf_detokenizer_skip_prompt(d, &r->before, 1) : PF_OK;
    if (status == PF_OK) status = pf_detokenizer_push(d, id, out);
    if (status == PF_OK) status = pf_detokenizer_finish(d, out);
    pf_detokenizer_destroy(d);
    return status;
}
