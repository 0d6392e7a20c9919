/*
 * Replies in the form of Anthropic's messages.
 *
 * Source: Anthropic API reference, "Messages" and "Streaming messages".
 */
#include "base/json_values.h"
#include "serve/reply.h"

static const char *stop_reason(const pf_reply_choice *c)
{
    return c->stop ? "stop_sequence" : c->finish == PF_FINISH_LENGTH ? "max_tokens" : "end_turn";
}

static json_t *usage_of(const pf_reply_head *head, const pf_usage *u, int64_t n_output)
{
    json_t *usage = json_pack("{s:I, s:I, s:I, s:I}", "input_tokens", (json_int_t)(u->n_prompt - u->n_cached),
                              "cache_creation_input_tokens", (json_int_t)0, "cache_read_input_tokens",
                              (json_int_t)u->n_cached, "output_tokens", (json_int_t)n_output);
    if (head->has_drafter) json_object_set_new(usage, "speculative", pf_reply_speculation(u));
    return usage;
}

/* content: its reference is taken. c NULL: it has not ended. */
static json_t *message(const pf_reply_head *head, json_t *content, const pf_reply_choice *c, json_t *usage)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:s?, s:s?, s:o}", "id", head->id, "type", "message", "role",
                     "assistant", "model", head->model, "content", content, "stop_reason", c ? stop_reason(c) : NULL,
                     "stop_sequence", c ? c->stop : NULL, "usage", usage);
}

static pf_status event(const char *type, json_t *document, pf_bytes *out)
{
    json_object_set_new(document, "type", json_string(type));
    return pf_reply_event(type, document, out);
}

static pf_status open_message(const pf_reply_head *head, const pf_reply_choice *c, pf_bytes *out)
{
    PF_TRY(event("message_start",
                 json_pack("{s:o}", "message", message(head, json_array(), NULL, usage_of(head, &c->usage, 0))), out));
    return event("content_block_start",
                 json_pack("{s:i, s:{s:s, s:s}}", "index", 0, "content_block", "type", "text", "text", ""), out);
}

static pf_status delta(const pf_reply_head *head, const pf_reply_choice *c, const pf_reply_piece *piece, pf_bytes *out)
{
    (void)head, (void)c;
    return event("content_block_delta",
                 json_pack("{s:i, s:{s:s, s:o}}", "index", 0, "delta", "type", "text_delta", "text",
                           pf_json_text(piece->text, piece->n_bytes)),
                 out);
}

static pf_status close_message(const pf_reply_head *head, const pf_reply_choice *c, pf_bytes *out)
{
    PF_TRY(event("content_block_stop", json_pack("{s:i}", "index", 0), out));
    PF_TRY(event("message_delta",
                 json_pack("{s:{s:s, s:s?}, s:o}", "delta", "stop_reason", stop_reason(c), "stop_sequence", c->stop,
                           "usage", usage_of(head, &c->usage, c->usage.n_completion)),
                 out));
    return event("message_stop", json_object(), out);
}

static pf_status end(const pf_reply_head *head, const pf_usage *usage, pf_bytes *out)
{
    (void)head, (void)usage, (void)out;
    return PF_OK;
}

static json_t *whole(const pf_reply_head *head, const pf_reply_choice *choices, int32_t n, const pf_usage *usage)
{
    (void)n;
    json_t *content = json_pack("[{s:s, s:o}]", "type", "text", "text", pf_json_text(choices->text, choices->n_bytes));
    return message(head, content, choices, usage_of(head, usage, usage->n_completion));
}

const pf_reply_format pf_reply_message = { open_message, delta, close_message, end, whole };
