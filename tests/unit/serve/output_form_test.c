/* The grammars of response_format and of calls that must be made: which texts fit, and what is refused with which words. */
#include "tests/unit/grammar/grammar_rig.h"

#include "serve/output_form.h"
#include "serve/tool_tags.h"

static json_t *parse(const char *text)
{
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);
    if (!value) fail_msg("no JSON: %s", text);
    return value;
}

/* The grammar of a form; the caller clears it. It may be empty. */
static pf_bytes format_of(const char *text)
{
    pf_bytes out = { 0 };
    pf_api_error error = { 0 };
    json_t *format = parse(text);
    if (!pf_api_write_format(format, &out, &error)) fail_msg("%s: %s", text, error.text);
    json_decref(format);
    assert_int_equal(pf_bytes_append(&out, "", 1), PF_OK);
    return out;
}

static void check(const pf_bytes *grammar, const char *const *texts)
{
    bool fits = true;
    for (; *texts; texts++) {
        if (strcmp(*texts, "|") == 0)
            fits = false;
        else if (fits)
            assert_fits(grammar->data, *texts);
        else
            assert_unfit(grammar->data, *texts);
    }
}

#define CHECK(grammar, ...) check(grammar, (const char *const[]){ __VA_ARGS__, NULL })

static void a_text_has_no_grammar(void **state)
{
    (void)state;
    pf_bytes out = format_of("{\"type\": \"text\"}");
    assert_string_equal(out.data, "");
    pf_bytes_clear(&out);
}

static void a_json_object_is_any_object(void **state)
{
    (void)state;
    pf_bytes out = format_of("{\"type\": \"json_object\"}");
    CHECK(&out, "{}", "{\"a\": [1]}", "|", "[]", "1", "{");
    pf_bytes_clear(&out);
}

static void a_schema_stands_in_json_schema_or_beside_the_type(void **state)
{
    (void)state;
    static const char *const forms[] = {
        "{\"type\": \"json_schema\", \"json_schema\": {\"name\": \"n\", \"schema\": {\"const\": 7}}}",
        "{\"type\": \"json_schema\", \"name\": \"n\", \"schema\": {\"const\": 7}}",
    };
    for (size_t i = 0; i < PF_COUNT(forms); i++) {
        pf_bytes out = format_of(forms[i]);
        CHECK(&out, "7", "|", "8", "{}");
        pf_bytes_clear(&out);
    }
}

static void other_formats_are_refused_by_their_parameter(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        { "{}", "expected the type" },
        { "{\"type\": 5}", "expected the type" },
        { "{\"type\": \"xml\"}", "expected the type" },
        { "{\"type\": \"json_schema\"}", "no schema" },
        { "{\"type\": \"json_schema\", \"json_schema\": {}}", "no schema" },
        { "{\"type\": \"json_schema\", \"schema\": {\"not\": {}}}", "the keyword not" },
        { "{\"type\": \"json_schema\", \"schema\": []}", "expected a schema" },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        pf_bytes out = { 0 };
        pf_api_error error = { 0 };
        json_t *format = parse(cases[i][0]);
        assert_false(pf_api_write_format(format, &out, &error));
        assert_int_equal(error.status, 400);
        assert_string_equal(error.param, "response_format");
        if (!strstr(error.text, cases[i][1])) fail_msg("%s: %s", cases[i][0], error.text);
        json_decref(format);
        pf_bytes_clear(&out);
    }
}

static const char tools[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"add\", \"parameters\": {\"type\": \"object\", \"properties\":"
    "{\"a\": {\"type\": \"integer\"}}, \"required\": [\"a\"]}}},"
    "{\"type\": \"function\", \"function\": {\"name\": \"now\"}}]";

static bool write_call(pf_tool_format format, bool names_before, const char *list, const char *name, pf_bytes *out,
                       pf_api_error *error)
{
    json_t *given = parse(list);
    const bool written = pf_api_write_call(format, names_before, given, name, out, error);
    json_decref(given);
    if (written) assert_int_equal(pf_bytes_append(out, "", 1), PF_OK);
    return written;
}

static void a_call_has_the_form_of_the_template_and_the_arguments_of_the_tool(void **state)
{
    (void)state;
    static const struct {
        pf_tool_format format;
        bool names_before;
        const char *before, *arguments, *behind; /* of a call of add; of now */
        const char *now;
    } forms[] = {
        { PF_TOOLS_HERMES, false, "<tool_call>\n{\"name\": \"add\", \"arguments\": ", "{\"a\":5}", "}\n</tool_call>",
          "<tool_call>\n{\"name\": \"now\", \"arguments\": {\"x\":1}}\n</tool_call>" },
        { PF_TOOLS_LLAMA, false, "{\"name\": \"add\", \"parameters\": ", "{\"a\":5}", "}",
          "{\"name\": \"now\", \"parameters\": {\"x\":1}}" },
        { PF_TOOLS_MISTRAL, false, "[TOOL_CALLS][{\"name\": \"add\", \"arguments\": ", "{\"a\":5}", "}]",
          "[TOOL_CALLS][{\"name\": \"now\", \"arguments\": {\"x\":1}}]" },
        { PF_TOOLS_MISTRAL, true, "[TOOL_CALLS]add[ARGS]", "{\"a\":5}", "", "[TOOL_CALLS]now[ARGS]{\"x\":1}" },
    };
    for (size_t i = 0; i < PF_COUNT(forms); i++) {
        pf_bytes any = { 0 }, one = { 0 };
        pf_api_error error = { 0 };
        char call[200], other[200];
        if (!write_call(forms[i].format, forms[i].names_before, tools, NULL, &any, &error)) fail_msg("%s", error.text);
        if (!write_call(forms[i].format, forms[i].names_before, tools, "add", &one, &error)) fail_msg("%s", error.text);
        snprintf(call, sizeof call, "%s%s%s", forms[i].before, forms[i].arguments, forms[i].behind);
        snprintf(other, sizeof other, "%s%s%s", forms[i].before, "{\"b\":5}", forms[i].behind);
        CHECK(&any, call, forms[i].now, "|", other, "", "text");
        CHECK(&one, call, "|", forms[i].now, other);
        pf_bytes_clear(&any);
        pf_bytes_clear(&one);
    }
}

/* A call of f with these parameters: `fits` and `unfit` texts stand between <tool_call> and </tool_call>. */
static void check_tags(const char *parameters, const char *const *texts)
{
    char list[1024], text[512];
    pf_bytes out = { 0 };
    pf_api_error error = { 0 };
    bool fits = true;
    snprintf(list, sizeof list, "[{\"function\": {\"name\": \"f\", \"parameters\": %s}}]", parameters);
    if (!write_call(PF_TOOLS_TAGS, false, list, NULL, &out, &error)) fail_msg("%s: %s", parameters, error.text);
    json_t *given = parse(list);
    for (; *texts; texts++) {
        if (strcmp(*texts, "|") == 0) {
            fits = false;
            continue;
        }
        snprintf(text, sizeof text, "<tool_call>\n<function=f>\n%s</function>\n</tool_call>", *texts);
        if (!fits) {
            assert_unfit(out.data, text);
            continue;
        }
        assert_fits(out.data, text);
        snprintf(text, sizeof text, "f>\n%s", *texts);
        json_t *call = pf_tool_tags_read(text, strlen(text), given); /* what is written is read */
        if (!call) fail_msg("%s is no call", text);
        json_decref(call);
    }
    json_decref(given);
    pf_bytes_clear(&out);
}

#define CHECK_TAGS(parameters, ...) check_tags(parameters, (const char *const[]){ __VA_ARGS__, NULL })
#define VALUE(key, value)           "<parameter=" key ">\n" value "\n</parameter>\n"

static void a_call_with_tags_has_the_values_of_the_tool(void **state)
{
    (void)state;
    CHECK_TAGS(
        "{\"properties\": {\"a\": {\"type\": \"integer\"}, \"b\": {\"type\": \"string\"}}, \"required\": [\"a\"]}",
        VALUE("a", "5"), VALUE("a", "-7") VALUE("b", "any text, 1 < 2\nin \"lines\" </p> </param </function"), "|", "",
        VALUE("a", "x"), VALUE("b", "x"), VALUE("a", "1") VALUE("c", "x"), VALUE("a", "1") VALUE("b", "</function>"),
        VALUE("a", "1") VALUE("b", "x</parameter>y"));
    CHECK_TAGS(
        "{\"properties\": {\"a\": {\"enum\": [\"red\", \"green\"]}, \"n\": {\"type\": \"string\", \"maxLength\": 2}}}",
        VALUE("a", "red"), VALUE("n", "ab"), VALUE("a", "green") VALUE("n", ""), "|", VALUE("a", "blue"),
        VALUE("n", "abc"), VALUE("a", "\"red\""));
    CHECK_TAGS(
        "{\"properties\": {\"a\": {\"anyOf\": [{\"$ref\": \"#/$defs/n\"}, {\"type\": \"null\"}]}}, \"$defs\": {\"n\": "
        "{\"type\": \"array\", \"items\": {\"type\": \"string\"}}}}",
        VALUE("a", "null"), VALUE("a", "[\"x\", \"y\"]"), "", "|", VALUE("a", "x"), VALUE("a", "[\"</parameter>\"]"));
    CHECK_TAGS("{\"type\": \"object\"}", "", "|", VALUE("a", "1"));
    CHECK_TAGS("{\"required\": [\"a\"]}", VALUE("a", "anything"), "|", "");
}

static void a_text_between_tags_may_end_like_a_tag(void **state)
{
    (void)state;
    CHECK_TAGS("{\"properties\": {\"a\": {\"type\": \"string\"}}}", VALUE("a", "<"), VALUE("a", "</"),
               VALUE("a", "</para"), VALUE("a", "<<</functio"), VALUE("a", "</parameter<"), VALUE("a", "\xc3\xa4"),
               VALUE("a", ""));
}

static void calls_that_cannot_be_written_are_refused_by_their_parameter(void **state)
{
    (void)state;
    static const struct {
        pf_tool_format format;
        const char *tools, *name, *param, *says;
    } cases[] = {
        { PF_TOOLS_NONE, tools, NULL, "tool_choice", "teaches no form" },
        { PF_TOOLS_TAGS, "[{\"function\": {\"name\": \"a>b\"}}]", NULL, "tools", "does not stand in a tag" },
        { PF_TOOLS_TAGS, "[{\"function\": {\"name\": \"f\", \"parameters\": {\"properties\": {\"a<\": {}}}}}]", NULL,
          "tools", "does not stand in a tag" },
        { PF_TOOLS_TAGS, "[{\"function\": {\"name\": \"f\", \"parameters\": {\"anyOf\": []}}}]", NULL, "tools",
          "another keyword" },
        { PF_TOOLS_TAGS, "[{\"function\": {\"name\": \"f\", \"parameters\": {\"properties\": []}}}]", NULL, "tools",
          "expected an object" },
        { PF_TOOLS_TAGS,
          "[{\"function\": {\"name\": \"f\", \"parameters\": {\"properties\": {\"a\": {\"pattern\": \"x\"}}}}}]", NULL,
          "tools", "a pattern of a text between tags" },
        { PF_TOOLS_TAGS,
          "[{\"function\": {\"name\": \"f\", \"parameters\": {\"properties\": {\"a\": {\"type\": \"array\", "
          "\"contains\": 1}}}}}]",
          NULL, "tools", "the keyword contains" },
        { PF_TOOLS_HERMES, tools, "sub", "tool_choice", "no tool sub" },
        { PF_TOOLS_HERMES, "[]", NULL, "tool_choice", "no tool at all" },
        { PF_TOOLS_HERMES, "[{\"function\": {}}]", NULL, "tools", "tools[0]" },
        { PF_TOOLS_HERMES, "[{\"function\": {\"name\": \"f\", \"parameters\": {\"not\": {}}}}]", NULL, "tools",
          "the keyword not" },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        pf_bytes out = { 0 };
        pf_api_error error = { 0 };
        assert_false(write_call(cases[i].format, false, cases[i].tools, cases[i].name, &out, &error));
        assert_int_equal(error.status, 400);
        assert_string_equal(error.param, cases[i].param);
        if (!strstr(error.text, cases[i].says)) fail_msg("case %zu: %s", i, error.text);
        pf_bytes_clear(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_has_no_grammar),
        cmocka_unit_test(a_json_object_is_any_object),
        cmocka_unit_test(a_schema_stands_in_json_schema_or_beside_the_type),
        cmocka_unit_test(other_formats_are_refused_by_their_parameter),
        cmocka_unit_test(a_call_has_the_form_of_the_template_and_the_arguments_of_the_tool),
        cmocka_unit_test(a_call_with_tags_has_the_values_of_the_tool),
        cmocka_unit_test(a_text_between_tags_may_end_like_a_tag),
        cmocka_unit_test(calls_that_cannot_be_written_are_refused_by_their_parameter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
