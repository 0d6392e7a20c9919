/* Tests which documents a schema allows, and which schemas are refused by name. */
#include "tests/unit/grammar/grammar_rig.h"

#include <stdlib.h>

#include "grammar/json_schema.h"

/* The grammar of a schema; the caller frees it. NULL: refused with *error. */
static char *grammar_of(const char *schema, pf_error *error)
{
    pf_bytes out = { 0 };
    char name[PF_JSON_SCHEMA_NAME_BYTES], root[80];
    json_t *parsed = json_loads(schema, JSON_DECODE_ANY, NULL);
    if (!parsed) fail_msg("no JSON: %s", schema);
    assert_int_equal(pf_json_schema_add_common(&out), PF_OK);
    const pf_status status = pf_json_schema_add(parsed, "schema", "s", &out, name, error);
    json_decref(parsed);
    if (status == PF_OK) {
        snprintf(root, sizeof root, "root ::= %s\n", name);
        assert_int_equal(pf_bytes_append(&out, root, strlen(root) + 1), PF_OK);
        return out.data;
    }
    assert_int_equal(status, error->status);
    pf_bytes_clear(&out);
    return NULL;
}

/* Texts of a schema: those before "|" fit, those behind it do not. */
static void check(const char *schema, const char *const *texts)
{
    pf_error error = { 0 };
    char *grammar = grammar_of(schema, &error);
    bool fits = true;
    if (!grammar) fail_msg("%s: %s", schema, error.text);
    for (; *texts; texts++) {
        if (strcmp(*texts, "|") == 0)
            fits = false;
        else if (fits)
            assert_fits(grammar, *texts);
        else
            assert_unfit(grammar, *texts);
    }
    free(grammar);
}

#define CHECK(schema, ...) check(schema, (const char *const[]){ __VA_ARGS__, NULL })

static void types(void **state)
{
    (void)state;
    CHECK("{\"type\": \"string\"}", "\"\"", "\"a\\n\\u00e9\xc3\xa9\"", "|", "\"a", "\"\n\"", "1", "\"\\q\"");
    CHECK("{\"type\": \"integer\"}", "0", "-12", "|", "01", "1.5", "-", "\"1\"");
    CHECK("{\"type\": \"number\"}", "0.5", "-1e+9", "12", "|", ".5", "1.", "+1");
    CHECK("{\"type\": [\"boolean\", \"null\"]}", "true", "false", "null", "|", "nul", "0");
    CHECK("true", "{\"a\": [1, {}, \"x\", [[]]]}", "null", "|", "{a:1}", "[1,]", "");
    CHECK("{}", "[]", "{}", "|", "[");
}

static void objects(void **state)
{
    (void)state;
    CHECK("{\"type\": \"object\", \"properties\": {\"a\": {\"type\": \"integer\"}, \"b\": {\"type\": \"string\"},"
          "\"c\": {\"type\": \"null\"}}, \"required\": [\"b\"]}",
          "{\"b\":\"\"}", "{\"a\": 1, \"b\": \"x\", \"c\": null}", "{\"b\":\"\",\"c\":null}", "{\n  \"b\": \"\"\n}",
          "|", "{}", "{\"a\":1}", "{\"b\":\"\",\"a\":1}", "{\"b\":\"\",\"d\":1}", "{\"b\":\"\",}", "{\"b\":\"\"  }");
    CHECK("{\"properties\": {\"a\": {}, \"b\": {}}}", "{}", "{\"a\":1}", "{\"b\":2}", "{\"a\":1,\"b\":2}", "|",
          "{,\"b\":2}", "{\"a\":1 \"b\":2}");
    CHECK("{\"type\": \"object\", \"properties\": {\"a\": {}}, \"additionalProperties\": {\"type\": \"integer\"}}",
          "{\"a\":\"x\",\"z\":1,\"y\":2}", "{\"z\":1}", "{}", "|", "{\"z\":\"x\"}", "{\"a\":1,}");
    CHECK("{\"type\": \"object\", \"additionalProperties\": false}", "{}", "|", "{\"a\":1}");
    CHECK("{\"type\": \"object\"}", "{}", "{\"a\":{\"b\":[]}}", "|", "[]");
    CHECK("{\"required\": [\"k\"]}", "{\"k\":[1]}", "|", "{}", "{\"j\":1}");
}

static void arrays_and_lengths(void **state)
{
    (void)state;
    CHECK("{\"type\": \"array\", \"items\": {\"type\": \"integer\"}}", "[]", "[1, 2,3]", "|", "[\"a\"]", "[1,]");
    CHECK("{\"type\": \"array\", \"minItems\": 2, \"maxItems\": 3}", "[1,2]", "[1,{},3]", "|", "[1]", "[1,2,3,4]",
          "[]");
    CHECK("{\"type\": \"array\", \"maxItems\": 0}", "[]", "|", "[1]");
    CHECK("{\"type\": \"array\", \"maxItems\": 1}", "[]", "[1]", "|", "[1,2]");
    CHECK("{\"type\": \"string\", \"minLength\": 1, \"maxLength\": 2}", "\"a\"", "\"\xc3\xa9\\n\"", "|", "\"\"",
          "\"abc\"");
}

static void constants_alternatives_and_references(void **state)
{
    (void)state;
    CHECK("{\"enum\": [\"red\", \"a\\\"\\\\\", 5, null, [1]]}", "\"red\"", "\"a\\\"\\\\\"", "5", "null", "[1]", "|",
          "\"re\"", "6");
    CHECK("{\"const\": {\"k\": \"v\"}}", "{\"k\":\"v\"}", "|", "{}");
    CHECK("{\"anyOf\": [{\"type\": \"integer\"}, {\"const\": \"x\"}]}", "1", "\"x\"", "|", "\"y\"");
    CHECK("{\"allOf\": [{\"$ref\": \"#/$defs/a~1b\"}], \"$defs\": {\"a/b\": {\"type\": \"null\"}}}", "null", "|", "1");
    CHECK("{\"$ref\": \"#/definitions/node\", \"definitions\": {\"node\": {\"type\": \"object\", \"properties\": "
          "{\"next\":"
          "{\"anyOf\": [{\"$ref\": \"#/definitions/node\"}, {\"type\": \"null\"}]}}, \"required\": [\"next\"]}}}",
          "{\"next\":{\"next\":{\"next\":null}}}", "|", "{}", "{\"next\":{}}");
}

static void schemas_that_are_not_followed_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *schema;
        pf_status status;
        const char *says;
    } cases[] = {
        { "{\"properties\": {\"a\": {\"type\": \"string\", \"pattern\": \"x\"}}}", PF_UNSUPPORTED,
          "schema.properties.a: the keyword pattern is not supported" },
        { "{\"oneOf\": []}", PF_UNSUPPORTED, "the keyword oneOf" },
        { "{\"minimum\": 1}", PF_UNSUPPORTED, "the keyword minimum" },
        { "{\"allOf\": [{}, {}]}", PF_UNSUPPORTED, "allOf" },
        { "{\"anyOf\": [{}], \"properties\": {}}", PF_UNSUPPORTED, "anyOf beside object" },
        { "{\"$ref\": \"http://elsewhere\"}", PF_UNSUPPORTED, "the $ref http://elsewhere" },
        { "{\"$ref\": \"#/none\"}", PF_UNSUPPORTED, "the $ref #/none" },
        { "{\"type\": \"text\"}", PF_INVALID, "the type text" },
        { "{\"type\": 5}", PF_INVALID, "type" },
        { "{\"type\": \"array\", \"minItems\": 3, \"maxItems\": 2}", PF_INVALID, "schema.maxItems" },
        { "{\"type\": \"array\", \"minItems\": -1}", PF_INVALID, "schema.minItems" },
        { "{\"enum\": []}", PF_INVALID, "expected a list of values" },
        { "{\"anyOf\": {}}", PF_INVALID, "expected a list of schemas" },
        { "{\"properties\": []}", PF_INVALID, "properties" },
        { "{\"additionalProperties\": 5}", PF_INVALID, "additionalProperties" },
        { "{\"items\": []}", PF_INVALID, "expected a schema" },
        { "[]", PF_INVALID, "expected a schema" },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        pf_error error = { 0 };
        if (grammar_of(cases[i].schema, &error)) fail_msg("taken: %s", cases[i].schema);
        if (error.status != cases[i].status || !strstr(error.text, cases[i].says))
            fail_msg("%s: %d %s", cases[i].schema, error.status, error.text);
    }
}

/* A reference to itself is left recursion; depth and size are bounded. */
static void hostile_schemas_are_refused(void **state)
{
    (void)state;
    pf_error error = { 0 };
    pf_grammar *grammar = NULL;
    char *source = grammar_of("{\"$ref\": \"#\"}", &error);
    assert_non_null(source);
    assert_int_equal(pf_grammar_parse(source, strlen(source), &grammar, &error), PF_FORMAT);
    free(source);
    static char deep[4096];
    for (int32_t i = 0; i < 100; i++) strcat(deep, "{\"items\":");
    strcat(deep, "{}");
    for (int32_t i = 0; i < 100; i++) strcat(deep, "}");
    assert_null(grammar_of(deep, &error));
    assert_int_equal(error.status, PF_LIMIT);
    static char wide[1 << 17] = "{\"properties\":{";
    for (int32_t i = 0; i < 3000; i++) sprintf(wide + strlen(wide), "%s\"p%d\":{}", i > 0 ? "," : "", i);
    strcat(wide, "}}");
    source = grammar_of(wide, &error); /* it is cut off when its rules are written, or when they are read */
    if (source) assert_int_equal(pf_grammar_parse(source, strlen(source), &grammar, &error), PF_LIMIT);
    assert_int_equal(error.status, PF_LIMIT);
    free(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types),
        cmocka_unit_test(objects),
        cmocka_unit_test(arrays_and_lengths),
        cmocka_unit_test(constants_alternatives_and_references),
        cmocka_unit_test(schemas_that_are_not_followed_are_refused_by_name),
        cmocka_unit_test(hostile_schemas_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
