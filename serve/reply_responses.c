/*
 * Replies in the form of OpenAI's responses: one message of one text.
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

static json_t *part(const char *text, size_t n_bytes)
{
    return json_pack("{s:s, s:o, s:[], s:[]}", "type", "output_text", "text", pf_json_text(text, n_bytes),
                     "annotations", "logprobs");
}

static const char *status_of(const pf_reply_choice *c)
{
    return c->finish == PF_FINISH_LENGTH ? "incomplete" : "completed";
}

/* content: its reference is taken. */
static json_t *item(const pf_reply_head *head, const char *status, json_t *content)
{
    char id[64];
    snprintf(id, sizeof id, "msg_%s", head->id);
    return json_pack("{s:s, s:s, s:s, s:s, s:o}", "id", id, "type", "message", "status", status, "role", "assistant",
                     "content", content);
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
    (void)n;
    json_t *content = json_pack("[o]", part(choices->text, choices->n_bytes));
    return response(head, choices, json_pack("[o]", item(head, status_of(choices), content)), usage_of(head, usage));
}

/* ---- events ----------------------------------------------------------------------------------------------------------- */

static pf_status event(const pf_reply_head *head, const char *type, json_t *document, pf_bytes *out)
{
    json_object_set_new(document, "type", json_string(type));
    json_object_set_new(document, "sequence_number", json_integer((json_int_t)(*head->n_events)++));
    return pf_reply_event(type, document, out);
}

/* An event about the one text of the one message; `with` has more of it, and its reference is taken. */
static pf_status text_event(const pf_reply_head *head, const char *type, json_t *with, pf_bytes *out)
{
    char id[64];
    snprintf(id, sizeof id, "msg_%s", head->id);
    json_object_set_new(with, "item_id", json_string(id));
    json_object_set_new(with, "output_index", json_integer(0));
    json_object_set_new(with, "content_index", json_integer(0));
    return event(head, type, with, out);
}

static pf_status open_response(const pf_reply_head *head, const pf_reply_choice *c, pf_bytes *out)
{
    static const char *const begins[] = { "response.created", "response.in_progress" };
    (void)c;
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        PF_TRY(event(head, begins[i], json_pack("{s:o}", "response", response(head, NULL, json_array(), json_null())),
                     out));
    PF_TRY(event(head, "response.output_item.added",
                 json_pack("{s:i, s:o}", "output_index", 0, "item", item(head, "in_progress", json_array())), out));
    return text_event(head, "response.content_part.added", json_pack("{s:o}", "part", part("", 0)), out);
}

static pf_status delta(const pf_reply_head *head, const pf_reply_choice *c, const pf_reply_piece *piece, pf_bytes *out)
{
    (void)c;
    return text_event(head, "response.output_text.delta",
                      json_pack("{s:o, s:[]}", "delta", pf_json_text(piece->text, piece->n_bytes), "logprobs"), out);
}

static pf_status close_response(const pf_reply_head *head, const pf_reply_choice *c, pf_bytes *out)
{
    PF_TRY(text_event(head, "response.output_text.done",
                      json_pack("{s:o, s:[]}", "text", pf_json_text(c->text, c->n_bytes), "logprobs"), out));
    PF_TRY(text_event(head, "response.content_part.done", json_pack("{s:o}", "part", part(c->text, c->n_bytes)), out));
    PF_TRY(event(head, "response.output_item.done",
                 json_pack("{s:i, s:o}", "output_index", 0, "item",
                           item(head, status_of(c), json_pack("[o]", part(c->text, c->n_bytes)))),
                 out));
    const bool is_cut = c->finish == PF_FINISH_LENGTH;
    return event(head, is_cut ? "response.incomplete" : "response.completed",
                 json_pack("{s:o}", "response", whole(head, c, 1, &c->usage)), out);
}

static pf_status end(const pf_reply_head *head, const pf_usage *usage, pf_bytes *out)
{
    (void)head, (void)usage, (void)out;
    return PF_OK;
}

const pf_reply_format pf_reply_response = { open_response, delta, close_response, end, whole };
