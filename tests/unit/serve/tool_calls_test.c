/* Tests what is a call of a tool in a text and what is not, whole and byte by byte. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/bytes.h"
#include "serve/tool_calls.h"

static json_t *two_tools(void)
{
    return json_pack("[{s:{s:s}}, {s:{s:s, s:{s:{s:{s:s}, s:{s:[s, s]}}}}}]", "function", "name", "f", "function",
                     "name", "g", "parameters", "properties", "n", "type", "number", "m", "type", "object", "null");
}

static void append(pf_bytes *out, const char *text, size_t n)
{
    assert_int_equal(pf_bytes_append(out, text, n), PF_OK);
}

/* Adds the parts that are decided: texts as they are, calls as <NAME ARGUMENTS>. */
static void take_parts(pf_tool_scan *scan, const char *text, size_t n, bool is_whole, pf_bytes *out)
{
    pf_tool_part part;
    while (pf_tool_scan_next(scan, text, n, is_whole, &part)) {
        if (!part.is_call) {
            append(out, text + part.begin, part.end - part.begin);
            continue;
        }
        append(out, "<", 1);
        append(out, part.name, strlen(part.name));
        append(out, " ", 1);
        append(out, part.arguments, strlen(part.arguments));
        append(out, ">", 1);
        free(part.name);
        free(part.arguments);
    }
}

/* step: bytes that come at once. */
static char *parts_of(pf_tool_format format, const char *text, size_t step)
{
    pf_tool_scan scan;
    pf_bytes out = { 0 };
    json_t *tools = two_tools();
    const size_t n = strlen(text);
    pf_tool_scan_begin(&scan, format, tools);
    for (size_t at = step; at < n; at += step) take_parts(&scan, text, at, false, &out);
    take_parts(&scan, text, n, true, &out);
    append(&out, "", 1);
    pf_tool_scan_end(&scan);
    json_decref(tools);
    return out.data;
}

static void assert_parts(pf_tool_format format, const char *text, const char *wanted)
{
    for (size_t step = 1; step < 9; step++) {
        char *found = parts_of(format, text, step == 8 ? strlen(text) + 1 : step);
        if (strcmp(found, wanted) != 0) fail_msg("by %zu: %s\n   is %s\n   expected %s", step, text, found, wanted);
        free(found);
    }
}

static void calls_of_hermes_are_found(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "plain <tool", "plain <tool" },
        { "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": [1, \"}\\\"\"]}}\n</tool_call>",
          "<f {\"x\":[1,\"}\\\"\"]}>" },
        { "\n\nSo.\n<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>\n<tool_call>{\"name\":\"g\"}</"
          "tool_call>\n",
          "\n\nSo.\n<f {}><g {}>" },
        { "\n <tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call> and more", "<f {}> and more" },
        { "<tool_call>{\"name\":\"f\",\"arguments\":\"{\\\"x\\\":1}\"}", "<f {\"x\":1}>" },
        { "<tool_call>{\"name\":\"f\",\"arguments\":{}}<tool_call>{\"name\":\"g\",\"arguments\":{}}", "<f {}><g {}>" },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) assert_parts(PF_TOOLS_HERMES, cases[i][0], cases[i][1]);
}

static void calls_between_tags_are_found(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "So.\n<tool_call>\n<function=f>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>",
          "So.\n<f {\"x\":\"1\"}>" },
        { "<tool_call><function=g><parameter=n>\n1.5\n</parameter>\n<parameter=m>{\"k\": []}</parameter>"
          "<parameter=s>\na\n<b>\n\n</parameter></function></tool_call>\n<tool_call>\n<function=f>\n</function>",
          "<g {\"n\":1.5,\"m\":{\"k\":[]},\"s\":\"a\\n<b>\\n\"}><f {}>" },
        { "<tool_call><function=g><parameter=n>many</parameter></function></tool_call> more",
          "<g {\"n\":\"many\"}> more" },
    };
    static const char *const texts[] = {
        "<tool_call>\n<function=h>\n</function>",
        "<tool_call>\n<function=f>\n<parameter=x>1</function>",
        "<tool_call>\n<function=f>\n<parameter=x>1</parameter>",
        "<tool_call>\n<function=f>\nx</function>",
        "<tool_call>\n<func",
        "<tool_call>{\"name\":\"f\"}</tool_call>",
        "<tool_call><function=f",
        "<tool_call><function=f</function>",
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) assert_parts(PF_TOOLS_TAGS, cases[i][0], cases[i][1]);
    for (size_t i = 0; i < PF_COUNT(texts); i++) assert_parts(PF_TOOLS_TAGS, texts[i], texts[i]);
}

static void calls_of_llama_are_found(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "{\"name\": \"f\", \"parameters\": {\"x\": 1}}", "<f {\"x\":1}>" },
        { "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {}}\n",
          "<f {}><g {}>" },
        { "Text {\"name\": \"f\", \"parameters\": {}}", "Text {\"name\": \"f\", \"parameters\": {}}" },
        { "{\"name\": \"f\", \"parameters\": {}} and more", "<f {}> and more" },
        { "{\"answer\": 5} ", "{\"answer\": 5} " },
        { "<|python_tag|>print(1)", "<|python_tag|>print(1)" },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) assert_parts(PF_TOOLS_LLAMA, cases[i][0], cases[i][1]);
}

static void calls_of_mistral_are_found(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"x\": 1}, \"id\": \"a\"}, {\"name\": \"g\", \"arguments\": "
          "{}}]",
          "<f {\"x\":1}><g {}>" },
        { "So [TOOL_CALLS]f[ARGS]{\"x\": 1}[TOOL_CALLS]g{}", "So <f {\"x\":1}><g {}>" },
        { "[TOOL_CALLS][]", "[TOOL_CALLS][]" },
        { "[TOOL_CALLS] f (1)", "[TOOL_CALLS] f (1)" },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) assert_parts(PF_TOOLS_MISTRAL, cases[i][0], cases[i][1]);
}

static void what_is_no_call_of_a_known_tool_stays_text(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "<tool_call>",
        "<tool_call> {\"name\": \"h\", \"arguments\": {}}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": {}",
        "<tool_call>{\"name\": f}</tool_call>",
        "<tool_call>f</tool_call>",
        "<tool_call>[{\"name\":\"f\"}]</tool_call>",
    };
    for (size_t i = 0; i < PF_COUNT(texts); i++) assert_parts(PF_TOOLS_HERMES, texts[i], texts[i]);
    assert_parts(PF_TOOLS_MISTRAL, "[TOOL_CALLS][{\"name\":\"f\"},{\"name\":\"h\"}]",
                 "[TOOL_CALLS][{\"name\":\"f\"},{\"name\":\"h\"}]");
    assert_parts(PF_TOOLS_NONE, "<tool_call>{\"name\":\"f\"}</tool_call>", "<tool_call>{\"name\":\"f\"}</tool_call>");
}

static pf_tool_format format_of(const char *name)
{
    char path[256];
    pf_chat_template *chat = NULL;
    pf_error error = { 0 };
    snprintf(path, sizeof path, "tests/golden/chat_templates/%s.jinja", name);
    assert_ok(pf_chat_template_open_file("models/target", path, &chat, &error), error);
    const pf_tool_format format = pf_tool_format_of(chat);
    pf_chat_template_close(chat);
    return format;
}

/* Of Qwen3-Coder, whose template has the marks of Hermes, too. */
static void tags_of_a_function_in_a_template_are_the_form_of_calls(void **state)
{
    (void)state;
    static const char text[] = "{{ '<tool_call>\n<function=' + messages[0].content + '>' }}";
    char path[] = "/tmp/pilotfish-template-XXXXXX";
    pf_chat_template *chat = NULL;
    pf_error error = { 0 };
    const int file = mkstemp(path);
    assert_true(file >= 0);
    assert_true(write(file, text, sizeof text - 1) == (ssize_t)sizeof text - 1);
    assert_int_equal(close(file), 0);
    assert_ok(pf_chat_template_open_file("models/target", path, &chat, &error), error);
    assert_int_equal(pf_tool_format_of(chat), PF_TOOLS_TAGS);
    pf_chat_template_close(chat);
    assert_int_equal(unlink(path), 0);
}

static void a_template_says_which_form_calls_have(void **state)
{
    (void)state;
    assert_int_equal(format_of("hermes_tools"), PF_TOOLS_HERMES);
    assert_int_equal(format_of("qwen25_tools"), PF_TOOLS_HERMES);
    assert_int_equal(format_of("qwen3_thinking"), PF_TOOLS_HERMES);
    assert_int_equal(format_of("llama31_tools"), PF_TOOLS_LLAMA);
    assert_int_equal(format_of("mistral_tekken"), PF_TOOLS_MISTRAL);
    assert_int_equal(format_of("mistral_v3_tools"), PF_TOOLS_MISTRAL);
    assert_int_equal(format_of("gemma"), PF_TOOLS_NONE);
    assert_int_equal(pf_tool_format_of(NULL), PF_TOOLS_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_of_hermes_are_found),
        cmocka_unit_test(calls_between_tags_are_found),
        cmocka_unit_test(calls_of_llama_are_found),
        cmocka_unit_test(calls_of_mistral_are_found),
        cmocka_unit_test(what_is_no_call_of_a_known_tool_stays_text),
        cmocka_unit_test(tags_of_a_function_in_a_template_are_the_form_of_calls),
        cmocka_unit_test(a_template_says_which_form_calls_have),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
