/* Tests the documents and the events of replies, and the framing of events. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "serve/reply.h"

typedef struct {
    pf_api_request request;
    pf_reply_head head;
    int64_t n_events;
    pf_reply_progress progress;
} rig;

static void set_up(rig *r)
{
    *r = (rig){ .request = { .n = 1 } };
    r->head =
        (pf_reply_head){ .id = "id-1", .model = "m", .created = 7, .request = &r->request, .n_events = &r->n_events };
}

/* A stream of one choice with one piece, as text; freed by the caller. */
static char *stream(rig *r, const pf_reply_format *format, pf_reply_choice *choice, const char *piece)
{
    pf_bytes out = { 0 };
    choice->progress = &r->progress;
    const pf_reply_piece all = { piece, strlen(piece), true };
    assert_int_equal(format->open(&r->head, choice, &out), PF_OK);
    assert_int_equal(format->delta(&r->head, choice, &all, &out), PF_OK);
    assert_int_equal(format->close(&r->head, choice, &out), PF_OK);
    assert_int_equal(format->end(&r->head, &choice->usage, &out), PF_OK);
    assert_int_equal(pf_bytes_append(&out, "", 1), PF_OK);
    return out.data;
}

static pf_reply_choice one_choice(const char *text)
{
    return (pf_reply_choice){
        .text = text,
        .n_bytes = strlen(text),
        .finish = PF_FINISH_EOS,
        .usage = { .n_prompt = 5, .n_cached = 2, .n_completion = 3, .rounds = 2, .drafted = 4, .accepted = 1 }
    };
}

static void assert_has(const char *text, const char *part)
{
    if (!strstr(text, part)) fail_msg("no %s in %s", part, text);
}

static void an_event_is_one_line_of_data_and_a_blank_one(void **state)
{
    (void)state;
    pf_bytes out = { 0 };
    assert_int_equal(pf_reply_event("name", json_pack("{s:s}", "a", "line\nline"), &out), PF_OK);
    assert_int_equal(pf_bytes_append(&out, "", 1), PF_OK);
    assert_string_equal(out.data, "event: name\ndata: {\"a\":\"line\\nline\"}\n\n");
    pf_bytes_clear(&out);
    assert_int_equal(pf_reply_event(NULL, NULL, &out), PF_NOMEM);
    pf_bytes_clear(&out);
}

static void a_chat_stream_has_role_text_reason_usage_and_end(void **state)
{
    (void)state;
    rig r;
    set_up(&r);
    r.request.include_usage = true;
    pf_reply_choice choice = one_choice("Hi");
    char *text = stream(&r, &pf_reply_chat, &choice, "Hi");
    static const char *const parts[] = {
        "data: {\"id\":\"id-1\",\"object\":\"chat.completion.chunk\",\"created\":7,\"model\":\"m\"",
        "\"delta\":{\"role\":\"assistant\",\"content\":\"\"}",
        "\"delta\":{\"content\":\"Hi\"}",
        "\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\"",
        "\"usage\":null",
        ("\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":3,\"total_tokens\":8,"
         "\"prompt_tokens_details\":{\"cached_tokens\":2}}"),
    };
    for (size_t i = 0; i < PF_COUNT(parts); i++) assert_has(text, parts[i]);
    assert_string_equal(text + strlen(text) - strlen("data: [DONE]\n\n"), "data: [DONE]\n\n");
    assert_null(strstr(text, "drafted"));
    free(text);
}

static void speculation_is_in_the_usage_where_there_is_a_drafter(void **state)
{
    (void)state;
    rig r;
    set_up(&r);
    r.head.has_drafter = true;
    pf_reply_choice choice = one_choice("Hi");
    json_t *document = pf_reply_completion.whole(&r.head, &choice, 1, &choice.usage);
    const json_t *figures = json_object_get(json_object_get(document, "usage"), "speculative");
    assert_true(json_real_value(json_object_get(figures, "acceptance_rate")) == 0.25);
    assert_true(json_real_value(json_object_get(figures, "mean_accepted_length")) == 1.5);
    assert_true(json_is_null(json_object_get(figures, "drafter")));
    json_decref(document);
    strcpy(choice.usage.drafter, "suffix");
    document = pf_reply_completion.whole(&r.head, &choice, 1, &choice.usage);
    figures = json_object_get(json_object_get(document, "usage"), "speculative");
    assert_string_equal(json_string_value(json_object_get(figures, "drafter")), "suffix");
    json_decref(document);
}

static void bytes_that_are_no_text_are_replaced(void **state)
{
    (void)state;
    rig r;
    set_up(&r);
    const pf_reply_choice choice = one_choice("a\xff");
    json_t *document = pf_reply_chat.whole(&r.head, &choice, 1, &choice.usage);
    const json_t *message = json_object_get(json_array_get(json_object_get(document, "choices"), 0), "message");
    assert_string_equal(json_string_value(json_object_get(message, "content")), "a\xef\xbf\xbd");
    json_decref(document);
}

static void events_of_messages_have_their_order(void **state)
{
    (void)state;
    rig r;
    set_up(&r);
    pf_reply_choice choice = one_choice("Hi");
    choice.stop = "END";
    r.head.keeps_prompts = true;
    char *text = stream(&r, &pf_reply_message, &choice, "Hi");
    static const char *const names[] = { "message_start",      "content_block_start", "content_block_delta",
                                         "content_block_stop", "message_delta",       "message_stop" };
    const char *at = text;
    char line[64];
    for (size_t i = 0; i < PF_COUNT(names); i++) {
        snprintf(line, sizeof line, "event: %s\n", names[i]);
        at = strstr(at, line);
        if (!at) fail_msg("no %s in its place: %s", names[i], text);
    }
    assert_has(text, "\"stop_reason\":\"stop_sequence\",\"stop_sequence\":\"END\"");
    assert_has(text, "\"input_tokens\":1,\"cache_creation_input_tokens\":2,\"cache_read_input_tokens\":2");
    free(text);
    r.head.keeps_prompts = false;
    text = stream(&r, &pf_reply_message, &choice, "Hi");
    assert_has(text, "\"input_tokens\":3,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":2");
    free(text);
}

static void events_of_responses_are_numbered(void **state)
{
    (void)state;
    rig r;
    set_up(&r);
    pf_reply_choice choice = one_choice("Hi");
    choice.finish = PF_FINISH_LENGTH;
    char *text = stream(&r, &pf_reply_response, &choice, "Hi");
    int32_t n = 0;
    for (const char *at = text; (at = strstr(at, "\"sequence_number\":")) != NULL; at++, n++)
        assert_int_equal((int)strtol(at + strlen("\"sequence_number\":"), NULL, 10), n);
    assert_int_equal(n, 9);
    assert_has(text, "event: response.incomplete\n");
    assert_has(text, "\"incomplete_details\":{\"reason\":\"max_output_tokens\"}");
    free(text);
}

/* A text, then a call: its whole document, and its stream, which the caller frees. */
static json_t *call_a_tool(rig *r, const pf_reply_format *format, char **events)
{
    static const pf_reply_part parts[] = { { .end = 2 }, { .id = "call-1", .name = "f", .arguments = "{\"x\":1}" } };
    pf_reply_choice choice = one_choice("Hi<call>");
    pf_bytes out = { 0 };
    choice.parts = parts;
    choice.n_parts = 1;
    choice.progress = &r->progress;
    assert_int_equal(format->open(&r->head, &choice, &out), PF_OK);
    assert_int_equal(format->delta(&r->head, &choice, &(pf_reply_piece){ "Hi", 2, false }, &out), PF_OK);
    choice.n_parts = 2;
    choice.n_calls = 1;
    assert_int_equal(format->call(&r->head, &choice, &out), PF_OK);
    assert_int_equal(format->close(&r->head, &choice, &out), PF_OK);
    assert_int_equal(pf_bytes_append(&out, "", 1), PF_OK);
    *events = out.data;
    return format->whole(&r->head, &choice, 1, &choice.usage);
}

static void assert_printed_has(const json_t *document, const char *part)
{
    char *text = json_dumps(document, JSON_COMPACT);
    assert_has(text, part);
    free(text);
}

static void calls_of_tools_have_the_form_of_each_api(void **state)
{
    (void)state;
    static const struct {
        const pf_reply_format *format;
        const char *whole[2], *events[4];
    } forms[] = {
        { &pf_reply_chat,
          { "\"content\":\"Hi\",\"refusal\":null,\"tool_calls\":[{\"id\":\"call-1\",\"type\":\"function\",\"function\":"
            "{\"name\":\"f\",\"arguments\":\"{\\\"x\\\":1}\"}}]",
            "\"finish_reason\":\"tool_calls\"" },
          { "\"delta\":{\"content\":\"Hi\"}",
            "\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"call-1\",\"type\":\"function\",\"function\":{\"name\":"
            "\"f\",",
            "\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\\\"x\\\":1}\"}}]}",
            "\"finish_reason\":\"tool_calls\"" } },
        { &pf_reply_message,
          { "\"content\":[{\"type\":\"text\",\"text\":\"Hi\"},{\"type\":\"tool_use\",\"id\":\"call-1\",\"name\":\"f\","
            "\"input\":{\"x\":1}}]",
            "\"stop_reason\":\"tool_use\"" },
          { "\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hi\"}",
            "{\"index\":0,\"type\":\"content_block_stop\"}",
            "\"index\":1,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\"{\\\"x\\\":1}\"}",
            "\"stop_reason\":\"tool_use\"" } },
        { &pf_reply_response,
          { "\"type\":\"function_call\",\"status\":\"completed\",\"call_id\":\"call-1\",\"name\":\"f\",\"arguments\":"
            "\"{",
            "\"output\":[{\"id\":\"msg_id-1\"" },
          { "event: response.output_text.done\n", "\"output_index\":1,\"item\":{\"id\":\"fc_id-1_1\"",
            "event: response.function_call_arguments.done\n", "event: response.completed\n" } },
    };
    for (size_t i = 0; i < PF_COUNT(forms); i++) {
        rig r;
        char *events;
        set_up(&r);
        json_t *document = call_a_tool(&r, forms[i].format, &events);
        for (size_t k = 0; k < 2; k++) assert_printed_has(document, forms[i].whole[k]);
        for (size_t k = 0; k < 4; k++) assert_has(events, forms[i].events[k]);
        json_decref(document);
        free(events);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_is_one_line_of_data_and_a_blank_one),
        cmocka_unit_test(a_chat_stream_has_role_text_reason_usage_and_end),
        cmocka_unit_test(speculation_is_in_the_usage_where_there_is_a_drafter),
        cmocka_unit_test(bytes_that_are_no_text_are_replaced),
        cmocka_unit_test(events_of_messages_have_their_order),
        cmocka_unit_test(events_of_responses_are_numbered),
        cmocka_unit_test(calls_of_tools_have_the_form_of_each_api),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
