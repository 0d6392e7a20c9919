/*
 * Replies in the form of OpenAI's responses: messages of one text each, and calls of functions.
 *
 * Source: OpenAI API reference, "The response object", "Streaming events".
 */
#include <stdio.h>

#include "base/json_values.h"
#include "serve/reply.h"

/* ---- the response ---------------------------------------------------------------------------------------------------- */

static json_t *usage_of(const pf_reply_head *head, const pf_usage *u)
{
    json_t *usage = json_pack("{s:I, s:{s:I}, s:I, s:{s:i}, s:I}", "input_tokens", (json_int_t)u->n_prompt,
                              "input_tokens_details", "cached_tokens", (json_int_t)u->n_cached, "output_tokens",
                              (json_int_t)u->n_completion, "output_tokens_details", "reasoning_tokens", 0,
                              "total_tokens", (json_int_t)(u->n_prompt + u->n_completion));
    if (head->has_drafter) json_object_set_new(usage, "speculative", pf_reply_speculation(u));
    return usage;
}

static const char *status_of(const pf_reply_choice *c)
{
    return c->finish == PF_FINISH_LENGTH ? "incomplete" : "completed";
}

enum { ID_BYTES = 80 };

/* The id of output item `index`. */
static void name_item(const pf_reply_head *head, const char *prefix, int32_t index, char id[ID_BYTES])
{
    if (index == 0)
        snprintf(id, ID_BYTES, "%s_%s", prefix, head->id);
    else
        snprintf(id, ID_BYTES, "%s_%s_%d", prefix, head->id, index);
}

/* text: its reference is taken. */
static json_t *text_part(json_t *text)
{
    return json_pack("{s:s, s:o, s:[], s:[]}", "type", "output_text", "text", text, "annotations", "logprobs");
}

/* content: its reference is taken. */
static json_t *message_item(const pf_reply_head *head, int32_t index, const char *status, json_t *content)
{
    char id[ID_BYTES];
    name_item(head, "msg", index, id);
    return json_pack("{s:s, s:s, s:s, s:s, s:o}", "id", id, "type", "message", "status", status, "role", "assistant",
                     "content", content);
}

static json_t *call_item(const pf_reply_head *head, int32_t index, const char *status, const pf_reply_part *call,
                         const char *arguments)
{
    char id[ID_BYTES];
    name_item(head, "fc", index, id);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "id", id, "type", "function_call", "status", status, "call_id",
                     call->id, "name", call->name, "arguments", arguments);
}

/* What the request has of a field, else null, or the other value, whose reference is taken. */
static json_t *echoed(const pf_reply_head *head, const char *field, json_t *otherwise)
{
    json_t *given = json_object_get(head->request->original, field);
    if (!given || json_is_null(given)) return otherwise ? otherwise : json_null();
    json_decref(otherwise);
    return json_incref(given);
}

/* c NULL: it has not ended. output and usage: the references are taken. */
static json_t *response(const pf_reply_head *head, const pf_reply_choice *c, json_t *output, json_t *usage)
{
    const bool is_cut = c && c->finish == PF_FINISH_LENGTH;
    json_t *made =
        json_pack("{s:s, s:s, s:I, s:s, s:n, s:o, s:s, s:o, s:o}", "id", head->id, "object", "response", "created_at",
                  (json_int_t)head->created, "status", c ? status_of(c) : "in_progress", "error", "incomplete_details",
                  is_cut ? json_pack("{s:s}", "reason", "max_output_tokens") : json_null(), "model", head->model,
                  "output", output, "usage", usage);
    json_t *more = json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:n, s:b, s:s, s:o}", "instructions",
        echoed(head, "instructions", NULL), "max_output_tokens", echoed(head, "max_output_tokens", NULL), "metadata",
        echoed(head, "metadata", json_object()), "parallel_tool_calls",
        echoed(head, "parallel_tool_calls", json_true()), "temperature", echoed(head, "temperature", json_real(1.0)),
        "tool_choice", echoed(head, "tool_choice", json_string("auto")), "tools", echoed(head, "tools", json_array()),
        "top_p", echoed(head, "top_p", json_real(1.0)), "previous_response_id", "store", 0, "truncation", "disabled",
        "text", echoed(head, "text", json_pack("{s:{s:s}}", "format", "type", "text")));
    if (!made || !more || json_object_update(made, more) != 0) {
        json_decref(made);
        made = NULL;
    }
    json_decref(more);
    return made;
}

static json_t *whole(const pf_reply_head *head, const pf_reply_choice *choices, int32_t n, const pf_usage *usage)
{
    json_t *output = json_array();
    (void)n;
    for (int32_t i = 0; i < pf_reply_count_parts(choices); i++) {
        const pf_reply_part part = pf_reply_part_at(choices, i);
        json_array_append_new(output, part.id
                                          ? call_item(head, i, "completed", &part, part.arguments)
                                          : message_item(head, i, status_of(choices),
                                                         json_pack("[o]", text_part(pf_reply_text(choices, &part)))));
    }
    return response(head, choices, output, usage_of(head, usage));
}

/* ---- events ----------------------------------------------------------------------------------------------------------- */

static pf_status event(const pf_reply_head *head, const char *type, json_t *document, pf_bytes *out)
{
    json_object_set_new(document, "type", json_string(type));
    json_object_set_new(document, "sequence_number", json_integer((json_int_t)(*head->n_events)++));
    return pf_reply_event(type, document, out);
}

/* An event about the output item that is under way; `with` has more of it, and its reference is taken. */
static pf_status item_event(const pf_reply_head *head, const pf_reply_choice *c, const char *prefix, const char *type,
                            json_t *with, pf_bytes *out)
{
    char id[ID_BYTES];
    name_item(head, prefix, c->progress->n_items, id);
    json_object_set_new(with, "item_id", json_string(id));
    json_object_set_new(with, "output_index", json_integer(c->progress->n_items));
    return event(head, type, with, out);
}

static pf_status text_event(const pf_reply_head *head, const pf_reply_choice *c, const char *type, json_t *with,
                            pf_bytes *out)
{
    json_object_set_new(with, "content_index", json_integer(0));
    return item_event(head, c, "msg", type, with, out);
}

/* item: its reference is taken. */
static pf_status output_event(const pf_reply_head *head, const pf_reply_choice *c, const char *type, json_t *item,
                              pf_bytes *out)
{
    return event(head, type, json_pack("{s:i, s:o}", "output_index", c->progress->n_items, "item", item), out);
}

static pf_status open_response(const pf_reply_head *head, const pf_reply_choice *c, pf_bytes *out)
{
    static const char *const begins[] = { "response.created", "response.in_progress" };
    (void)c;
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        PF_TRY(event(head, begins[i], json_pack("{s:o}", "response", response(head, NULL, json_array(), json_null())),
                     out));
    return PF_OK;
}

static pf_status begin_text(const pf_reply_head *head, const pf_reply_choice *c, pf_bytes *out)
{
    if (c->progress->in_text) return PF_OK;
    c->progress->in_text = true;
    c->progress->part = pf_reply_count_parts(c) - 1;
    PF_TRY(output_event(head, c, "response.output_item.added",
                        message_item(head, c->progress->n_items, "in_progress", json_array()), out));
    return text_event(head, c, "response.content_part.added", json_pack("{s:o}", "part", text_part(json_string(""))),
                      out);
}

static pf_status delta(const pf_reply_head *head, const pf_reply_choice *c, const pf_reply_piece *piece, pf_bytes *out)
{
    PF_TRY(begin_text(head, c, out));
    return text_event(head, c, "response.output_text.delta",
                      json_pack("{s:o, s:[]}", "delta", pf_json_text(piece->text, piece->n_bytes), "logprobs"), out);
}

static pf_status end_text(const pf_reply_head *head, const pf_reply_choice *c, const char *status, pf_bytes *out)
{
    const pf_reply_part part = pf_reply_part_at(c, c->progress->part);
    if (!c->progress->in_text) return PF_OK;
    PF_TRY(text_event(head, c, "response.output_text.done",
                      json_pack("{s:o, s:[]}", "text", pf_reply_text(c, &part), "logprobs"), out));
    PF_TRY(text_event(head, c, "response.content_part.done",
                      json_pack("{s:o}", "part", text_part(pf_reply_text(c, &part))), out));
    PF_TRY(output_event(
        head, c, "response.output_item.done",
        message_item(head, c->progress->n_items, status, json_pack("[o]", text_part(pf_reply_text(c, &part)))), out));
    c->progress->in_text = false;
    c->progress->n_items++;
    return PF_OK;
}

static pf_status call_function(const pf_reply_head *head, const pf_reply_choice *c, pf_bytes *out)
{
    const pf_reply_part *call = &c->parts[c->n_parts - 1];
    PF_TRY(end_text(head, c, "completed", out));
    PF_TRY(output_event(head, c, "response.output_item.added",
                        call_item(head, c->progress->n_items, "in_progress", call, ""), out));
    PF_TRY(item_event(head, c, "fc", "response.function_call_arguments.delta",
                      json_pack("{s:s}", "delta", call->arguments), out));
    PF_TRY(item_event(head, c, "fc", "response.function_call_arguments.done",
                      json_pack("{s:s, s:s}", "arguments", call->arguments, "name", call->name), out));
    PF_TRY(output_event(head, c, "response.output_item.done",
                        call_item(head, c->progress->n_items, "completed", call, call->arguments), out));
    c->progress->n_items++;
    return PF_OK;
}

static pf_status close_response(const pf_reply_head *head, const pf_reply_choice *c, pf_bytes *out)
{
    if (c->progress->n_items == 0) PF_TRY(begin_text(head, c, out));
    PF_TRY(end_text(head, c, status_of(c), out));
    const bool is_cut = c->finish == PF_FINISH_LENGTH;
    return event(head, is_cut ? "response.incomplete" : "response.completed",
                 json_pack("{s:o}", "response", whole(head, c, 1, &c->usage)), out);
}

static pf_status end(const pf_reply_head *head, const pf_usage *usage, pf_bytes *out)
{
    (void)head, (void)usage, (void)out;
    return PF_OK;
}

const pf_reply_format pf_reply_response = { open_response, delta, call_function, close_response, end, whole };
