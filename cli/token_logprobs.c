#include "cli/token_logprobs.h"

#include <math.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/json_values.h"
#include "cli/json_out.h"
#include "tokenizer/tokenizer.h"

/* The bytes of a token as a string, those that are no UTF-8 replaced. */
static json_t *text_of(const pf_tokenizer *tokenizer, int32_t id)
{
    size_t n = 0;
    const char *bytes = tokenizer ? pf_tokenizer_token_bytes(tokenizer, id, &n) : NULL;
    json_t *holder = bytes ? json_object() : NULL;
    if (!holder) return json_null();
    pf_json_set_text(holder, bytes, n);
    json_t *text = json_incref(json_object_get(holder, "text"));
    json_decref(holder);
    return text;
}

static json_t *entry(const pf_tokenizer *tokenizer, int32_t id, float logprob)
{
    return json_pack("{s:i, s:o, s:o}", "token", (int)id, "text", text_of(tokenizer, id), "logprob",
                     pf_json_number(isinf(logprob) ? (double)NAN : (double)logprob));
}

json_t *pf_json_token_logprobs(const pf_token_logprobs *logprobs, int32_t n, const pf_tokenizer *tokenizer)
{
    json_t *all = json_array();
    for (int32_t i = 0; all && i < n; i++) {
        const pf_token_logprobs *of = &logprobs[i];
        json_t *made = entry(tokenizer, of->token, of->logprob), *top = json_array();
        for (int32_t k = 0; k < of->n_top; k++)
            json_array_append_new(top, entry(tokenizer, of->top[k], of->top_logprobs[k]));
        json_object_set_new(made, "top", top);
        json_array_append_new(all, made);
    }
    return all;
}

/* Without a tokenizer the id. */
static void print_entry(pf_out *out, const pf_tokenizer *tokenizer, int32_t id, float logprob, const char *before)
{
    json_t *text = text_of(tokenizer, id);
    char *quoted = json_is_string(text) ? pf_json_print(text, JSON_ENCODE_ANY) : NULL;
    if (quoted)
        pf_out_print(out, "%s%.4f\t%s", before, (double)logprob, quoted);
    else
        pf_out_print(out, "%s%.4f\t%d", before, (double)logprob, id);
    free(quoted);
    json_decref(text);
}

void pf_out_token_logprobs(pf_out *out, const pf_token_logprobs *logprobs, int32_t n, const pf_tokenizer *tokenizer)
{
    for (int32_t i = 0; i < n; i++) {
        print_entry(out, tokenizer, logprobs[i].token, logprobs[i].logprob, "");
        for (int32_t k = 0; k < logprobs[i].n_top; k++)
            print_entry(out, tokenizer, logprobs[i].top[k], logprobs[i].top_logprobs[k], "\t");
        pf_out_write(out, "\n", 1);
    }
    pf_out_flush(out);
}
