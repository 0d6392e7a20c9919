/* Tests how requests of other APIs become chat completions. */
#include "tests/support/test.h"

#include "serve/translate.h"

typedef json_t *(*translator)(const json_t *root, pf_api_error *error);

static json_t *translate(translator by, const char *body, pf_api_error *error)
{
    json_t *root = json_loads(body, 0, NULL);
    assert_non_null(root);
    *error = (pf_api_error){ 0 };
    json_t *made = by(root, error);
    json_decref(root);
    return made;
}

static void assert_becomes(translator by, const char *body, const char *expected)
{
    pf_api_error error;
    json_t *made = translate(by, body, &error), *wanted = json_loads(expected, 0, NULL);
    if (!made) fail_msg("%s: %s", body, error.text);
    assert_non_null(wanted);
    if (!json_equal(made, wanted)) {
        char *text = json_dumps(made, 0);
        fail_msg("%s became %s", body, text);
    }
    json_decref(made);
    json_decref(wanted);
}

static void assert_refused(translator by, const char *body, const char *param)
{
    pf_api_error error;
    assert_null(translate(by, body, &error));
    assert_int_equal(error.status, 400);
    assert_string_equal(error.param, param);
}

static void a_message_keeps_what_it_names_alike(void **state)
{
    (void)state;
    assert_becomes(
        pf_api_translate_message,
        "{\"model\": \"m\", \"max_tokens\": 5, \"system\": \"s\", \"stop_sequences\": [\"x\"], \"top_k\": 3,"
        "\"thinking\": {\"type\": \"disabled\"}, \"tool_choice\": {\"type\": \"none\"},"
        "\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}",
        "{\"model\": \"m\", \"max_tokens\": 5, \"stop\": [\"x\"], \"top_k\": 3, \"tool_choice\": \"none\","
        "\"messages\": [{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", \"content\": \"Hi\"}]}");
}

static void tools_of_messages_become_functions_and_calls(void **state)
{
    (void)state;
    assert_becomes(
        pf_api_translate_message,
        "{\"max_tokens\": 5, \"tools\": [{\"name\": \"f\", \"description\": \"d\", \"input_schema\": {\"type\": "
        "\"object\"}}],"
        "\"messages\": [{\"role\": \"assistant\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}, {\"type\": "
        "\"tool_use\","
        "\"id\": \"1\", \"name\": \"f\", \"input\": {\"x\": 1}}]}, {\"role\": \"user\", \"content\": [{\"type\": "
        "\"tool_result\","
        "\"tool_use_id\": \"1\", \"content\": \"r\"}, {\"type\": \"text\", \"text\": \"b\"}]}]}",
        "{\"max_tokens\": 5, \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": "
        "\"d\","
        "\"parameters\": {\"type\": \"object\"}}}], \"messages\": [{\"role\": \"assistant\", \"content\": [{\"type\": "
        "\"text\","
        "\"text\": \"a\"}], \"tool_calls\": [{\"type\": \"function\", \"id\": \"1\", \"function\": {\"name\": \"f\","
        "\"arguments\": {\"x\": 1}}}]}, {\"role\": \"tool\", \"tool_call_id\": \"1\", \"content\": \"r\"},"
        "{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"b\"}]}]}");
}

static void messages_that_cannot_be_served_are_refused(void **state)
{
    (void)state;
    assert_refused(pf_api_translate_message, "{\"messages\": []}", "max_tokens");
    assert_refused(pf_api_translate_message, "{\"max_tokens\": 1, \"thinking\": {\"type\": \"enabled\"}}", "thinking");
    assert_refused(pf_api_translate_message, "{\"max_tokens\": 1, \"tool_choice\": {\"type\": \"every\"}}",
                   "tool_choice");
    assert_refused(pf_api_translate_message, "{\"max_tokens\": 1, \"tools\": 5}", "tools");
}

static void a_response_becomes_a_chat(void **state)
{
    (void)state;
    assert_becomes(
        pf_api_translate_response,
        "{\"model\": \"m\", \"input\": \"Hi\", \"instructions\": \"s\", \"max_output_tokens\": 5, \"store\": true,"
        "\"text\": {\"format\": {\"type\": \"text\"}}, \"reasoning\": {\"effort\": \"low\"}, \"temperature\": 0,"
        "\"tools\": [{\"type\": \"function\", \"name\": \"f\", \"parameters\": {}}]}",
        "{\"model\": \"m\", \"max_tokens\": 5, \"temperature\": 0, \"response_format\": {\"type\": \"text\"},"
        "\"reasoning_effort\": \"low\", \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\","
        "\"parameters\": {}}}], \"messages\": [{\"role\": \"system\", \"content\": \"s\"},"
        "{\"role\": \"user\", \"content\": \"Hi\"}]}");
    assert_becomes(
        pf_api_translate_response,
        "{\"input\": [{\"role\": \"user\", \"content\": [{\"type\": \"input_text\", \"text\": \"a\"}]},"
        "{\"type\": \"function_call\", \"call_id\": \"1\", \"name\": \"f\", \"arguments\": \"{}\"},"
        "{\"type\": \"function_call_output\", \"call_id\": \"1\", \"output\": \"r\"}]}",
        "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"input_text\", \"text\": \"a\"}]},"
        "{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"type\": \"function\", \"id\": \"1\","
        "\"function\": {\"name\": \"f\", \"arguments\": \"{}\"}}]},"
        "{\"role\": \"tool\", \"tool_call_id\": \"1\", \"content\": \"r\"}]}");
}

static void responses_that_cannot_be_served_are_refused(void **state)
{
    (void)state;
    assert_refused(pf_api_translate_response, "{}", "input");
    assert_refused(pf_api_translate_response, "{\"input\": []}", "input");
    assert_refused(pf_api_translate_response, "{\"input\": [5]}", "input[0]");
    assert_refused(pf_api_translate_response, "{\"input\": \"a\", \"previous_response_id\": \"r\"}",
                   "previous_response_id");
    assert_refused(pf_api_translate_response, "{\"input\": \"a\", \"background\": true}", "background");
    assert_refused(pf_api_translate_response, "{\"input\": \"a\", \"truncation\": \"auto\"}", "truncation");
    assert_refused(pf_api_translate_response, "{\"input\": \"a\", \"tools\": [{\"type\": \"web_search\"}]}", "tools");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_keeps_what_it_names_alike),
        cmocka_unit_test(tools_of_messages_become_functions_and_calls),
        cmocka_unit_test(messages_that_cannot_be_served_are_refused),
        cmocka_unit_test(a_response_becomes_a_chat),
        cmocka_unit_test(responses_that_cannot_be_served_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
