/*
 * Replies in the form of OpenAI's completions and chat completions.
 *
 * Source: OpenAI API reference, "The chat completion object", "The chat completion chunk object", "The completion object".
 */
#include "base/json_values.h"
#include "serve/reply.h"

static const char *finish_reason(const pf_reply_choice *c)
{
    return c->finish == PF_FINISH_LENGTH ? "length" : pf_reply_has_called(c) ? "tool_calls" : "stop";
}

/* ---- events --------------------------------------------------------------------------------------------------------- */

/* An event with one choice, whose reference is taken. */
static pf_status choice_event(const pf_reply_head *head, const char *object, const pf_reply_choice *of, json_t *choice,
                              pf_bytes *out)
{
    json_t *event = json_pack("{s:s, s:s, s:I, s:s, s:[o]}", "id", head->id, "object", object, "created",
                              (json_int_t)head->created, "model", head->model, "choices", choice);
    if (head->request->continuous_usage)
        json_object_set_new(event, "usage", pf_reply_usage(head, &of->usage));
    else if (head->request->include_usage)
        json_object_set_new(event, "usage", json_null());
    return pf_reply_event(NULL, event, out);
}

/* The usage, where it is asked for, and the word that ends a stream. */
static pf_status end_stream(const pf_reply_head *head, const char *object, const pf_usage *usage, pf_bytes *out)
{
    static const char done[] = "data: [DONE]\n\n";
    if (head->request->include_usage)
        PF_TRY(pf_reply_event(NULL,
                              json_pack("{s:s, s:s, s:I, s:s, s:[], s:o}", "id", head->id, "object", object, "created",
                                        (json_int_t)head->created, "model", head->model, "choices", "usage",
                                        pf_reply_usage(head, usage)),
                              out));
    return pf_bytes_append(out, done, sizeof done - 1);
}

/* A choice with the drafted mark, where that is asked for. */
static json_t *mark(const pf_reply_head *head, const pf_reply_piece *piece, json_t *choice)
{
    if (head->request->marks_drafted) json_object_set_new(choice, "drafted", json_boolean(piece->drafted));
    return choice;
}

static json_t *whole(const pf_reply_head *head, const char *object, json_t *choices, const pf_usage *usage)
{
    return json_pack("{s:s, s:s, s:I, s:s, s:o, s:o}", "id", head->id, "object", object, "created",
                     (json_int_t)head->created, "model", head->model, "choices", choices, "usage",
                     pf_reply_usage(head, usage));
}

/* ---- chat completions ----------------------------------------------------------------------------------------------- */

static const char chat_chunk[] = "chat.completion.chunk";

/* With the log-probabilities of tokens that have not been sent yet. */
static json_t *chat_choice(const pf_reply_head *head, const pf_reply_choice *c, json_t *delta, const char *reason)
{
    const int32_t first = c->progress->n_logprobs;
    c->progress->n_logprobs = c->n_logprobs;
    return json_pack("{s:i, s:o, s:o, s:s?}", "index", c->index, "delta", delta, "logprobs",
                     first < c->n_logprobs ? pf_reply_chat_logprobs(head, c, first) : json_null(), "finish_reason",
                     reason);
}

static pf_status chat_open(const pf_reply_head *head, const pf_reply_choice *c, pf_bytes *out)
{
    json_t *delta = json_pack("{s:s, s:s}", "role", "assistant", "content", "");
    return choice_event(head, chat_chunk, c, chat_choice(head, c, delta, NULL), out);
}

static pf_status chat_delta(const pf_reply_head *head, const pf_reply_choice *c, const pf_reply_piece *piece,
                            pf_bytes *out)
{
    json_t *delta = json_pack("{s:o}", "content", pf_json_text(piece->text, piece->n_bytes));
    return choice_event(head, chat_chunk, c, mark(head, piece, chat_choice(head, c, delta, NULL)), out);
}

/* The call without its arguments, then these. */
static pf_status chat_call(const pf_reply_head *head, const pf_reply_choice *c, pf_bytes *out)
{
    const pf_reply_part *call = &c->parts[c->n_parts - 1];
    json_t *begin = json_pack("{s:[{s:i, s:s, s:s, s:{s:s, s:s}}]}", "tool_calls", "index", c->n_calls - 1, "id",
                              call->id, "type", "function", "function", "name", call->name, "arguments", "");
    PF_TRY(choice_event(head, chat_chunk, c, chat_choice(head, c, begin, NULL), out));
    json_t *arguments = json_pack("{s:[{s:i, s:{s:s}}]}", "tool_calls", "index", c->n_calls - 1, "function",
                                  "arguments", call->arguments);
    return choice_event(head, chat_chunk, c, chat_choice(head, c, arguments, NULL), out);
}

static pf_status chat_close(const pf_reply_head *head, const pf_reply_choice *c, pf_bytes *out)
{
    return choice_event(head, chat_chunk, c, chat_choice(head, c, json_object(), finish_reason(c)), out);
}

static pf_status chat_end(const pf_reply_head *head, const pf_usage *usage, pf_bytes *out)
{
    return end_stream(head, chat_chunk, usage, out);
}

/* The texts of a choice as one; null: there are calls alone. */
static json_t *content_of(const pf_reply_choice *c)
{
    pf_bytes text = { 0 };
    pf_status status = PF_OK;
    for (int32_t i = 0; i < c->n_parts && status == PF_OK; i++) {
        const pf_reply_part *part = &c->parts[i];
        if (!part->id) status = pf_bytes_append(&text, c->text + part->begin, part->end - part->begin);
    }
    json_t *made = status != PF_OK                 ? NULL
                   : c->n_calls > 0 && text.n == 0 ? json_null()
                                                   : pf_json_text(text.data ? text.data : "", text.n);
    pf_bytes_clear(&text);
    return made;
}

static json_t *chat_message(const pf_reply_choice *c)
{
    if (c->n_parts == 0)
        return json_pack("{s:s, s:o, s:n}", "role", "assistant", "content", pf_json_text(c->text, c->n_bytes),
                         "refusal");
    json_t *message = json_pack("{s:s, s:o, s:n}", "role", "assistant", "content", content_of(c), "refusal");
    json_t *calls = json_array();
    for (int32_t i = 0; i < c->n_parts; i++) {
        const pf_reply_part *part = &c->parts[i];
        if (part->id)
            json_array_append_new(calls, json_pack("{s:s, s:s, s:{s:s, s:s}}", "id", part->id, "type", "function",
                                                   "function", "name", part->name, "arguments", part->arguments));
    }
    if (c->n_calls > 0) json_object_set(message, "tool_calls", calls);
    json_decref(calls);
    return message;
}

static json_t *chat_whole(const pf_reply_head *head, const pf_reply_choice *choices, int32_t n, const pf_usage *usage)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < n; i++)
        json_array_append_new(list, json_pack("{s:i, s:o, s:o, s:s}", "index", choices[i].index, "message",
                                              chat_message(&choices[i]), "logprobs",
                                              pf_reply_chat_logprobs(head, &choices[i], 0), "finish_reason",
                                              finish_reason(&choices[i])));
    return whole(head, "chat.completion", list, usage);
}

const pf_reply_format pf_reply_chat = { chat_open, chat_delta, chat_call, chat_close, chat_end, chat_whole };

/* ---- completions ---------------------------------------------------------------------------------------------------- */

static const char completion_object[] = "text_completion";

/* logprobs: its reference is taken. */
static json_t *text_choice(const pf_reply_choice *c, const char *text, size_t n_bytes, json_t *logprobs,
                           const char *reason)
{
    return json_pack("{s:i, s:o, s:o, s:s?}", "index", c->index, "text", pf_json_text(text, n_bytes), "logprobs",
                     logprobs, "finish_reason", reason);
}

/* Of tokens that have not been sent yet. */
static json_t *next_logprobs(const pf_reply_head *head, const pf_reply_choice *c)
{
    const int32_t first = c->progress->n_logprobs;
    c->progress->n_logprobs = c->n_logprobs;
    return first < c->n_logprobs ? pf_reply_text_logprobs(head, c, first, &c->progress->text_offset) : json_null();
}

static pf_status text_open(const pf_reply_head *head, const pf_reply_choice *c, pf_bytes *out)
{
    (void)head, (void)c, (void)out;
    return PF_OK;
}

static pf_status text_delta(const pf_reply_head *head, const pf_reply_choice *c, const pf_reply_piece *piece,
                            pf_bytes *out)
{
    return choice_event(head, completion_object, c,
                        mark(head, piece, text_choice(c, piece->text, piece->n_bytes, next_logprobs(head, c), NULL)),
                        out);
}

static pf_status text_close(const pf_reply_head *head, const pf_reply_choice *c, pf_bytes *out)
{
    return choice_event(head, completion_object, c, text_choice(c, "", 0, next_logprobs(head, c), finish_reason(c)),
                        out);
}

static pf_status text_end(const pf_reply_head *head, const pf_usage *usage, pf_bytes *out)
{
    return end_stream(head, completion_object, usage, out);
}

static json_t *text_whole(const pf_reply_head *head, const pf_reply_choice *choices, int32_t n, const pf_usage *usage)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < n; i++) {
        const pf_reply_choice *c = &choices[i];
        int64_t offset = 0;
        json_t *logprobs = pf_reply_text_logprobs(head, c, 0, &offset);
        json_array_append_new(list, text_choice(c, c->text, c->n_bytes, logprobs, finish_reason(c)));
    }
    return whole(head, completion_object, list, usage);
}

const pf_reply_format pf_reply_completion = { text_open, text_delta, NULL, text_close, text_end, text_whole };
