/*
 * Replies in the form of Anthropic's messages.
 *
 * Source: Anthropic API reference, "Messages" and "Streaming messages".
 */
#include "base/json_values.h"
#include "serve/reply.h"

static const char *stop_reason(const pf_reply_choice *c)
{
    return c->stop                         ? "stop_sequence"
           : c->finish == PF_FINISH_LENGTH ? "max_tokens"
           : pf_reply_has_called(c)        ? "tool_use"
                                           : "end_turn";
}

/* The three counts of the prompt add up to it. The last token is computed in any case: no cache serves it. */
static json_t *usage_of(const pf_reply_head *head, const pf_usage *u, int64_t n_output)
{
    const int64_t n_read = u->n_prompt - u->n_cached, n_kept = head->keeps_prompts && n_read > 1 ? n_read - 1 : 0;
    json_t *usage = json_pack("{s:I, s:I, s:I, s:I}", "input_tokens", (json_int_t)(n_read - n_kept),
                              "cache_creation_input_tokens", (json_int_t)n_kept, "cache_read_input_tokens",
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
    return event("message_start",
                 json_pack("{s:o}", "message", message(head, json_array(), NULL, usage_of(head, &c->usage, 0))), out);
}

/* content_block: its reference is taken. */
static pf_status begin_block(const pf_reply_choice *c, json_t *content_block, pf_bytes *out)
{
    return event("content_block_start",
                 json_pack("{s:i, s:o}", "index", c->progress->n_items, "content_block", content_block), out);
}

static pf_status end_block(const pf_reply_choice *c, pf_bytes *out)
{
    c->progress->in_text = false;
    return event("content_block_stop", json_pack("{s:i}", "index", c->progress->n_items++), out);
}

static pf_status begin_text(const pf_reply_choice *c, pf_bytes *out)
{
    if (c->progress->in_text) return PF_OK;
    c->progress->in_text = true;
    return begin_block(c, json_pack("{s:s, s:s}", "type", "text", "text", ""), out);
}

static pf_status delta(const pf_reply_head *head, const pf_reply_choice *c, const pf_reply_piece *piece, pf_bytes *out)
{
    (void)head;
    PF_TRY(begin_text(c, out));
    return event("content_block_delta",
                 json_pack("{s:i, s:{s:s, s:o}}", "index", c->progress->n_items, "delta", "type", "text_delta", "text",
                           pf_json_text(piece->text, piece->n_bytes)),
                 out);
}

/* arguments: JSON, an object. */
static json_t *tool_use(const pf_reply_part *call, const char *arguments)
{
    return json_pack("{s:s, s:s, s:s, s:o}", "type", "tool_use", "id", call->id, "name", call->name, "input",
                     json_loads(arguments, JSON_ALLOW_NUL, NULL));
}

static pf_status call_tool(const pf_reply_head *head, const pf_reply_choice *c, pf_bytes *out)
{
    const pf_reply_part *call = &c->parts[c->n_parts - 1];
    (void)head;
    if (c->progress->in_text) PF_TRY(end_block(c, out));
    PF_TRY(begin_block(c, tool_use(call, "{}"), out));
    PF_TRY(event("content_block_delta",
                 json_pack("{s:i, s:{s:s, s:s}}", "index", c->progress->n_items, "delta", "type", "input_json_delta",
                           "partial_json", call->arguments),
                 out));
    return end_block(c, out);
}

static pf_status close_message(const pf_reply_head *head, const pf_reply_choice *c, pf_bytes *out)
{
    if (c->progress->n_items == 0) PF_TRY(begin_text(c, out));
    if (c->progress->in_text) PF_TRY(end_block(c, out));
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
    json_t *content = json_array();
    for (int32_t i = 0; i < pf_reply_count_parts(choices); i++) {
        const pf_reply_part part = pf_reply_part_at(choices, i);
        json_array_append_new(content,
                              part.id ? tool_use(&part, part.arguments)
                                      : json_pack("{s:s, s:o}", "type", "text", "text", pf_reply_text(choices, &part)));
    }
    return message(head, content, choices, usage_of(head, usage, usage->n_completion));
}

const pf_reply_format pf_reply_message = { open_message, delta, call_tool, close_message, end, whole };
