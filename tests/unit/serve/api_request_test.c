/* Tests the parameters of requests: what is read, what is refused by name, what changes nothing and is accepted. */
#include "tests/support/test.h"

#include "serve/api_request.h"

static bool parse(pf_api_kind kind, const char *body, pf_api_request *out, pf_api_error *error)
{
    *error = (pf_api_error){ 0 };
    return pf_api_request_parse(kind, body, strlen(body), out, error);
}

static pf_api_request must_parse(pf_api_kind kind, const char *body)
{
    pf_api_request request;
    pf_api_error error;
    if (!parse(kind, body, &request, &error)) fail_msg("%s: %s", body, error.text);
    return request;
}

static void assert_refused(pf_api_kind kind, const char *body, int32_t status, const char *param)
{
    pf_api_request request;
    pf_api_error error;
    if (parse(kind, body, &request, &error)) fail_msg("%s: taken", body);
    if (error.status != status || strcmp(error.param, param) != 0 || error.text[0] == '\0')
        fail_msg("%s: %d %s \"%s\", expected %d %s", body, error.status, error.param, error.text, status, param);
}

static void every_parameter_of_a_chat_is_read(void **state)
{
    (void)state;
    pf_api_request r = must_parse(
        PF_API_CHAT, "{\"model\": \"m\", \"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"n\": 3,"
                     "\"max_completion_tokens\": 9, \"temperature\": 0.5, \"top_p\": 0.25, \"top_k\": 7, \"min_p\": "
                     "0.125, \"typical_p\": 0.75,"
                     "\"seed\": 11, \"stop\": [\"a\", \"bc\"], \"ignore_eos\": true, \"stream\": true,"
                     "\"stream_options\": {\"include_usage\": true},"
                     "\"speculative\": {\"enabled\": false, \"draft_len\": 5, \"method\": \"coupled\", \"mark\": true, "
                     "\"drafter\": \"suffix\"}}");
    assert_string_equal(r.model, "m");
    assert_int_equal(r.n, 3);
    assert_int_equal(r.max_tokens, 9);
    assert_true(r.sampling.temperature == 0.5f && r.sampling.top_p == 0.25f && r.sampling.min_p == 0.125f &&
                r.sampling.typical_p == 0.75f);
    assert_int_equal(r.sampling.top_k, 7);
    assert_true(r.seed_given && r.sampling.seed == 11);
    assert_int_equal(r.n_stops, 2);
    assert_string_equal(r.stops[1], "bc");
    assert_true(r.ignore_eos && r.stream && r.include_usage && !r.continuous_usage);
    assert_true(!r.speculates && r.marks_drafted);
    assert_int_equal(r.draft_len, 5);
    assert_int_equal(r.method, PF_METHOD_COUPLED);
    assert_string_equal(r.drafter, "suffix");
    pf_api_request_end(&r);
}

static void rules_of_logits_are_read(void **state)
{
    (void)state;
    pf_api_request r =
        must_parse(PF_API_COMPLETION, "{\"prompt\": \"a\", \"repetition_penalty\": 1.5, \"frequency_penalty\": 0.5,"
                                      "\"presence_penalty\": -0.25, \"min_tokens\": 3,"
                                      "\"logit_bias\": {\"0\": -100, \"2147483647\": 2.5}}");
    assert_true(r.rules.repetition_penalty == 1.5f && r.rules.frequency_penalty == 0.5f);
    assert_true(r.rules.presence_penalty == -0.25f && r.rules.min_tokens == 3);
    assert_int_equal(r.rules.n_biases, 2);
    const int32_t first = r.rules.bias_ids[0] == 0 ? 0 : 1;
    assert_true(r.rules.bias_ids[first] == 0 && r.rules.biases[first] == -100.0f);
    assert_true(r.rules.bias_ids[1 - first] == INT32_MAX && r.rules.biases[1 - first] == 2.5f);
    pf_api_request_end(&r);
}

static void forms_and_logprobs_are_read(void **state)
{
    (void)state;
    pf_api_request r =
        must_parse(PF_API_CHAT, "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"logprobs\": true,"
                                "\"top_logprobs\": 3, \"response_format\": {\"type\": \"json_schema\","
                                "\"json_schema\": {\"name\": \"n\", \"schema\": {\"const\": 5}}}}");
    assert_int_equal(r.logprobs, 4);
    assert_non_null(memmem(r.grammar.data, r.grammar.n, "s-0 ::= \"5\"", 11));
    pf_api_request_end(&r);
    r = must_parse(PF_API_COMPLETION, "{\"prompt\": \"a\", \"logprobs\": 0, \"grammar\": \"root ::= \\\"x\\\"\"}");
    assert_int_equal(r.logprobs, 1);
    assert_int_equal(r.grammar.n, strlen("root ::= \"x\""));
    pf_api_request_end(&r);
    r = must_parse(PF_API_CHAT, "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"tools\": [{}],"
                                "\"tool_choice\": {\"type\": \"function\", \"function\": {\"name\": \"f\"}}}");
    assert_true(r.must_call && r.grammar.n == 0);
    assert_string_equal(r.must_call_of, "f");
    pf_api_request_end(&r);
}

static void defaults_are_those_of_the_api(void **state)
{
    (void)state;
    pf_api_request r = must_parse(PF_API_CHAT, "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}");
    assert_true(r.sampling.temperature == 1.0f && r.speculates && !r.stream && r.n == 1 && r.max_tokens == 0);
    pf_api_request_end(&r);
    r = must_parse(PF_API_COMPLETION, "{\"prompt\": \"Hi\"}");
    assert_int_equal(r.max_tokens, 16);
    pf_api_request_end(&r);
}

static void what_would_change_the_text_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *value, *param;
    } refused[] = {
        { "\"logit_bias\": {\"5\": 101}", "logit_bias" },
        { "\"logit_bias\": {\"5\": null}", "logit_bias" },
        { "\"logit_bias\": {\"05\": 1}", "logit_bias" },
        { "\"logit_bias\": {\"\": 1}", "logit_bias" },
        { "\"logit_bias\": {\"-1\": 1}", "logit_bias" },
        { "\"logit_bias\": {\"99999999999999999999\": 1}", "logit_bias" },
        { "\"logit_bias\": [5]", "logit_bias" },
        { "\"frequency_penalty\": 2.1", "frequency_penalty" },
        { "\"presence_penalty\": -3", "presence_penalty" },
        { "\"repetition_penalty\": 0", "repetition_penalty" },
        { "\"min_tokens\": -1", "min_tokens" },
        { "\"min_tokens\": 5, \"max_tokens\": 4", "min_tokens" },
        { "\"response_format\": {\"type\": \"xml\"}", "response_format" },
        { "\"response_format\": {\"type\": \"json_schema\", \"json_schema\": {\"schema\": {\"pattern\": 1}}}",
          "response_format" },
        { "\"response_format\": {\"type\": \"json_schema\"}", "response_format" },
        { "\"response_format\": {\"type\": \"json_object\"}, \"ignore_eos\": true", "ignore_eos" },
        { "\"response_format\": {\"type\": \"json_object\"}, \"grammar\": \"x\"", "grammar" },
        { "\"grammar\": 5", "grammar" },
        { "\"logprobs\": 5", "logprobs" },
        { "\"logprobs\": true, \"top_logprobs\": 21", "top_logprobs" },
        { "\"top_logprobs\": 2", "top_logprobs" },
        { "\"tool_choice\": \"required\"", "tool_choice" },
        { "\"typical_p\": 1.5", "typical_p" },
        { "\"temperature\": -1", "temperature" },
        { "\"temperature\": \"hot\"", "temperature" },
        { "\"top_p\": 0", "top_p" },
        { "\"top_k\": 1.5", "top_k" },
        { "\"max_tokens\": 0", "max_tokens" },
        { "\"max_tokens\": 99999999999", "max_tokens" },
        { "\"n\": 65", "n" },
        { "\"stop\": [\"a\", \"\"]", "stop" },
        { "\"stop\": \"a\\u0000b\"", "stop" },
        { "\"stream_options\": {\"color\": true}", "stream_options" },
        { "\"speculative\": {\"draft_len\": 65}", "speculative.draft_len" },
        { "\"speculative\": {\"method\": \"psychic\"}", "speculative.method" },
        { "\"speculative\": {\"drafter\": 1}", "speculative.drafter" },
        { "\"speculative\": {\"drafter\": \"\"}", "speculative.drafter" },
        { "\"speculative\": {\"method\": \"greedy\"}", "speculative.method" },
        { "\"speculative\": {\"depth\": 1}", "speculative" },
    };
    char body[512];
    for (size_t i = 0; i < PF_COUNT(refused); i++) {
        snprintf(body, sizeof body, "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], %s}",
                 refused[i].value);
        assert_refused(PF_API_CHAT, body, 400, refused[i].param);
    }
}

static void values_that_change_nothing_are_accepted(void **state)
{
    (void)state;
    pf_api_request r = must_parse(
        PF_API_CHAT,
        "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"logit_bias\": {}, \"frequency_penalty\": 0,"
        "\"presence_penalty\": null, \"response_format\": {\"type\": \"text\"}, \"logprobs\": false, \"top_p\": 1,"
        "\"top_k\": -1, \"stop\": null, \"tools\": null, \"temperature\": null, \"max_tokens\": null, \"user\": \"u\","
        "\"tool_choice\": \"none\", \"parallel_tool_calls\": true, \"modalities\": [\"text\"], \"store\": false}");
    assert_true(r.sampling.temperature == 1.0f && r.n_stops == 0 && r.max_tokens == 0 && r.sampling.top_k == 0);
    pf_api_request_end(&r);
}

static void messages_are_made_as_templates_take_them(void **state)
{
    (void)state;
    pf_api_request r =
        must_parse(PF_API_CHAT,
                   "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"},"
                   "{\"type\": \"text\", \"text\": \"b\"}]}, {\"role\": \"assistant\", \"tool_calls\": [{\"id\": \"1\","
                   "\"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": \"{\\\"x\\\": 1}\"}}]}],"
                   "\"tools\": [{\"type\": \"function\"}], \"chat_template_kwargs\": {\"enable_thinking\": false}}");
    const json_t *messages = json_object_get(r.conversation, "messages");
    assert_string_equal(json_string_value(json_object_get(json_array_get(messages, 0), "content")), "a\nb");
    assert_true(json_is_null(json_object_get(json_array_get(messages, 1), "content")));
    const json_t *call = json_array_get(json_object_get(json_array_get(messages, 1), "tool_calls"), 0);
    const json_t *arguments = json_object_get(json_object_get(call, "function"), "arguments");
    assert_int_equal(json_integer_value(json_object_get(arguments, "x")), 1);
    assert_int_equal(json_array_size(json_object_get(r.conversation, "tools")), 1);
    assert_true(json_is_false(json_object_get(r.conversation, "enable_thinking")));
    pf_api_request_end(&r);
}

static void messages_that_are_none_are_refused(void **state)
{
    (void)state;
    assert_refused(PF_API_CHAT, "{}", 400, "messages");
    assert_refused(PF_API_CHAT, "{\"messages\": []}", 400, "messages");
    assert_refused(PF_API_CHAT, "{\"messages\": [5]}", 400, "messages[0]");
    assert_refused(PF_API_CHAT, "{\"messages\": [{\"content\": \"a\"}]}", 400, "messages[0]");
    assert_refused(PF_API_CHAT, "{\"messages\": [{\"role\": \"user\", \"content\": 5}]}", 400, "messages[0].content");
    assert_refused(PF_API_CHAT, "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image_url\"}]}]}", 400,
                   "messages[0].content[0]");
}

static void prompts_are_texts_or_ids(void **state)
{
    (void)state;
    const json_t *ids;
    size_t n;
    pf_api_request r = must_parse(PF_API_COMPLETION, "{\"prompt\": [\"a\", \"bcd\"]}");
    assert_int_equal(r.n_prompts, 2);
    assert_string_equal(pf_api_prompt(&r, 1, &n, &ids), "bcd");
    assert_int_equal(n, 3);
    pf_api_request_end(&r);
    r = must_parse(PF_API_COMPLETION, "{\"prompt\": [4, 5, 6]}");
    assert_int_equal(r.n_prompts, 1);
    assert_null(pf_api_prompt(&r, 0, &n, &ids));
    assert_int_equal(json_array_size(ids), 3);
    pf_api_request_end(&r);
    r = must_parse(PF_API_COMPLETION, "{\"prompt\": [[4], [5, 6]]}");
    assert_null(pf_api_prompt(&r, 1, &n, &ids));
    assert_int_equal(json_array_size(ids), 2);
    pf_api_request_end(&r);
    for (size_t i = 0; i < 4; i++)
        assert_refused(
            PF_API_COMPLETION,
            (const char *[]){ "{}", "{\"prompt\": []}", "{\"prompt\": [[]]}", "{\"prompt\": {\"a\": 1}}" }[i], 400,
            "prompt");
    assert_refused(PF_API_COMPLETION, "{\"prompt\": [\"a\", \"b\"], \"n\": 33}", 400, "n");
}

static void bodies_that_are_no_object_are_refused(void **state)
{
    (void)state;
    char deep[600] = "{\"messages\": ";
    for (size_t i = 0; i < 100; i++) strcat(deep, "[");
    for (size_t i = 0; i < 100; i++) strcat(deep, "]");
    strcat(deep, "}");
    for (size_t i = 0; i < 5; i++)
        assert_refused(PF_API_CHAT, (const char *[]){ "", "{", "[1]", "\"a\"", deep }[i], 400, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_parameter_of_a_chat_is_read),
        cmocka_unit_test(rules_of_logits_are_read),
        cmocka_unit_test(forms_and_logprobs_are_read),
        cmocka_unit_test(defaults_are_those_of_the_api),
        cmocka_unit_test(what_would_change_the_text_is_refused_by_name),
        cmocka_unit_test(values_that_change_nothing_are_accepted),
        cmocka_unit_test(messages_are_made_as_templates_take_them),
        cmocka_unit_test(messages_that_are_none_are_refused),
        cmocka_unit_test(prompts_are_texts_or_ids),
        cmocka_unit_test(bodies_that_are_no_object_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
