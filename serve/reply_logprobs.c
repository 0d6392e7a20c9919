/*
 * Log-probabilities as OpenAI's chat completions and completions have them.
 *
 * Source: OpenAI API reference, "logprobs".
 */
#include <float.h>

#include "base/json_values.h"
#include "base/utf8.h"
#include "serve/reply.h"

/* OpenAI's least, for what JSON has no number for. */
static const double LEAST = -9999.0;

static json_t *number(float logprob)
{
    return json_real(logprob >= -FLT_MAX ? (double)logprob : LEAST);
}

static json_t *text_of(const pf_reply_head *head, int32_t id)
{
    size_t n = 0;
    const char *text = head->token_text(head->texts, id, &n);
    return pf_json_text(text, n);
}

static json_t *bytes_of(const pf_reply_head *head, int32_t id)
{
    size_t n = 0;
    const char *text = head->token_text(head->texts, id, &n);
    json_t *bytes = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(bytes, json_integer((unsigned char)text[i]));
    return bytes;
}

static json_t *entry(const pf_reply_head *head, int32_t id, float logprob)
{
    return json_pack("{s:o, s:o, s:o}", "token", text_of(head, id), "logprob", number(logprob), "bytes",
                     bytes_of(head, id));
}

json_t *pf_reply_chat_logprobs(const pf_reply_head *head, const pf_reply_choice *c, int32_t first)
{
    if (head->request->logprobs == 0) return json_null();
    json_t *content = json_array();
    for (int32_t i = first; i < c->n_logprobs; i++) {
        const pf_token_logprobs *p = &c->logprobs[i];
        json_t *made = entry(head, p->token, p->logprob), *top = json_array();
        for (int32_t k = 0; k < p->n_top; k++) json_array_append_new(top, entry(head, p->top[k], p->top_logprobs[k]));
        json_object_set_new(made, "top_logprobs", top);
        json_array_append_new(content, made);
    }
    return json_pack("{s:o, s:n}", "content", content, "refusal");
}

json_t *pf_reply_text_logprobs(const pf_reply_head *head, const pf_reply_choice *c, int32_t first, int64_t *offset)
{
    if (head->request->logprobs == 0) return json_null();
    json_t *tokens = json_array(), *own = json_array(), *tops = json_array(), *offsets = json_array();
    for (int32_t i = first; i < c->n_logprobs; i++) {
        const pf_token_logprobs *p = &c->logprobs[i];
        json_t *text = text_of(head, p->token), *top = json_object();
        json_array_append_new(offsets, json_integer((json_int_t)*offset));
        if (text) *offset += (int64_t)pf_utf8_count(json_string_value(text), json_string_length(text));
        for (int32_t k = 0; k < p->n_top; k++) {
            json_t *name = text_of(head, p->top[k]);
            if (name) (void)json_object_set_new_nocheck(top, json_string_value(name), number(p->top_logprobs[k]));
            json_decref(name);
        }
        json_array_append_new(tokens, text);
        json_array_append_new(own, number(p->logprob));
        json_array_append_new(tops, top);
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "tokens", tokens, "token_logprobs", own, "top_logprobs", tops,
                     "text_offset", offsets);
}
