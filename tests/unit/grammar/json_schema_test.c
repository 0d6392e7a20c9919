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
    assert_int_equal(pf_json_schema_add_common(false, &out), PF_OK);
    const pf_status status = pf_json_schema_add(parsed, parsed, "schema", "s", &out, name, error);
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

static void schemas_of_which_one_fits(void **state)
{
    (void)state;
    CHECK("{\"oneOf\": [{\"type\": \"integer\"}, {\"type\": [\"string\", \"null\"]}]}", "1", "\"x\"", "null", "|", "[]",
          "1.5");
    CHECK("{\"oneOf\": [{\"enum\": [1, 2]}, {\"const\": 3}, {\"$ref\": \"#/$defs/t\"}], \"$defs\": {\"t\": {\"type\": "
          "\"boolean\"}}}",
          "1", "3", "true", "|", "4");
    CHECK("{\"oneOf\": [{\"properties\": {\"kind\": {\"const\": \"a\"}, \"x\": {\"type\": \"integer\"}}, \"required\": "
          "[\"kind\"]},"
          "{\"properties\": {\"kind\": {\"enum\": [\"b\", \"c\"]}}, \"required\": [\"kind\"]}]}",
          "{\"kind\":\"a\",\"x\":1}", "{\"kind\":\"c\"}", "|", "{\"kind\":\"b\",\"x\":1}", "{\"x\":1}");
}

static void numbers_between_bounds(void **state)
{
    (void)state;
    CHECK("{\"type\": \"integer\", \"minimum\": 3, \"exclusiveMaximum\": 12}", "3", "11", "|", "2", "12", "-5", "3.0");
    CHECK("{\"type\": \"integer\", \"minimum\": 0.5, \"maximum\": 2.5}", "1", "2", "|", "0", "3");
    CHECK("{\"type\": \"integer\", \"minimum\": 5, \"exclusiveMinimum\": 5}", "6", "|", "5");
    CHECK("{\"type\": \"integer\", \"minimum\": 6, \"exclusiveMinimum\": 5}", "6", "|", "5");
    CHECK("{\"minimum\": 0.0, \"maximum\": 1}", "0.25", "1", "0", "|", "1.5", "-1", "\"x\"");
    CHECK("{\"type\": [\"number\", \"null\"], \"exclusiveMinimum\": 0}", "0.001", "7", "null", "|", "0", "0.0", "-1");
    CHECK("{\"type\": \"number\", \"minimum\": 0.5, \"exclusiveMaximum\": 2.25}", "0.5", "1", "2.2499", "|", "0.49",
          "2.25", "3");
    CHECK("{\"type\": \"number\", \"minimum\": -0.25, \"maximum\": 1e3}", "-0.25", "1000", "999.75", "|", "-0.26",
          "1000.5");
}

static void multiples_of_a_number(void **state)
{
    (void)state;
    CHECK("{\"type\": \"integer\", \"multipleOf\": 7}", "0", "7", "-49", "700000000000007", "|", "1", "8", "7.0");
    CHECK("{\"type\": \"integer\", \"multipleOf\": 1.5, \"minimum\": 1}", "3", "12", "|", "1", "0", "-3", "4");
    CHECK("{\"multipleOf\": 0.01}", "0.01", "12.5", "3", "-7.25", "|", "0.001", "1e-2", "\"x\"");
    CHECK("{\"type\": \"number\", \"multipleOf\": 0.25, \"maximum\": 10, \"exclusiveMinimum\": 0}", "0.25", "0.5",
          "9.75", "10", "10.0", "|", "0", "10.25", "0.3", "-0.25");
}

static void texts_that_match_a_pattern(void **state)
{
    (void)state;
    CHECK("{\"type\": \"string\", \"pattern\": \"^[A-Z]{2}-\\\\d+$\"}", "\"AB-1\"", "\"ZZ-007\"", "|", "\"AB-\"",
          "\"ab-1\"", "\"xAB-1\"", "1");
    CHECK("{\"pattern\": \"b.?d\"}", "\"bd\"", "\"a bcd e\"", "\"b\303\251d\"", "|", "\"bccd\"", "\"b\\nd\"");
    CHECK("{\"pattern\": \"^(?:a|bc)*?x$|^y\"}", "\"x\"", "\"abcax\"", "\"yes\"", "|", "\"bx\"", "\"ny\"");
    CHECK("{\"pattern\": \"^[^a-z\\\\s]+$\"}", "\"A\\\"\\\\\"", "\"\xc3\xa9\"", "|", "\"a\"", "\" \"", "\"\\t\"",
          "\"\"");
    CHECK("{\"pattern\": \"^\\\\w{2,3}\\\\.\\\\s\\\\D$\"}", "\"a_. x\"", "\"a1B.\\tx\"", "|", "\"a. x\"", "\"ab. 1\"",
          "\"ab,  x\"");
    CHECK("{\"pattern\": \"^\\\"\\\\\\\\$\"}", "\"\\\"\\\\\"", "|", "\"\"", "\"x\"");
    CHECK("{\"pattern\": \"^$\"}", "\"\"", "|", "\"a\"");
    CHECK("{\"pattern\": \"^(a*)*$\"}", "\"\"", "\"aaa\"", "|", "\"b\"");
}

static void patterns_that_are_none_are_refused(void **state)
{
    (void)state;
    static const char *const patterns[] = { "(",     ")",      "a)",   "[",       "[a",        "a{2",
                                            "a{}",   "a{3,2}", "*",    "a**",     "(?!a)",     "(?<n>a)",
                                            "\\\\b", "\\\\1",  "\\\\", "[z-a]",   "[\\\\d-z]", "a^b",
                                            "a$b",   "[]",     "{1}",  "a{9999}", "[\xc3\xa9]" };
    for (size_t i = 0; i < PF_COUNT(patterns); i++) {
        char schema[64];
        pf_error error = { 0 };
        snprintf(schema, sizeof schema, "{\"pattern\": \"%s\"}", patterns[i]);
        if (grammar_of(schema, &error)) fail_msg("taken: %s", schema);
        if (error.status != PF_INVALID && error.status != PF_UNSUPPORTED)
            fail_msg("%s: %d %s", schema, error.status, error.text);
    }
    static char deep[512] = "{\"pattern\": \"";
    pf_error error = { 0 };
    for (int32_t i = 0; i < 40; i++) strcat(deep, "(");
    strcat(deep, "\"}");
    assert_null(grammar_of(deep, &error));
    assert_int_equal(error.status, PF_LIMIT);
}

static void schemas_that_are_not_followed_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *schema;
        pf_status status;
        const char *says;
    } cases[] = {
        { "{\"properties\": {\"a\": {\"type\": \"string\", \"not\": {}}}}", PF_UNSUPPORTED,
          "schema.properties.a: the keyword not is not supported" },
        { "{\"oneOf\": []}", PF_INVALID, "expected a list of schemas" },
        { "{\"oneOf\": [{\"type\": \"integer\"}, {\"type\": \"number\"}]}", PF_UNSUPPORTED,
          "oneOf of schemas 0 and 1" },
        { "{\"oneOf\": [{\"const\": 1}, {\"enum\": [2, 1.0]}]}", PF_UNSUPPORTED, "oneOf of schemas 0 and 1" },
        { "{\"oneOf\": [{\"type\": \"null\"}], \"anyOf\": [{}]}", PF_UNSUPPORTED, "oneOf beside anyOf" },
        { "{\"oneOf\": [{\"properties\": {\"k\": {\"const\": 1}}}, {\"properties\": {\"k\": {\"const\": 2}}, "
          "\"required\": [\"k\"]}]}",
          PF_UNSUPPORTED, "oneOf of schemas 0 and 1" },
        { "{\"minimum\": \"1\"}", PF_INVALID, "schema.minimum: expected a number" },
        { "{\"type\": \"number\", \"maximum\": 1e-12}", PF_UNSUPPORTED, "schema.maximum" },
        { "{\"maximum\": 1e14, \"minimum\": 1e-9}", PF_UNSUPPORTED, "more than 18 digits in all" },
        { "{\"multipleOf\": 0}", PF_INVALID, "schema.multipleOf: expected a number above 0" },
        { "{\"multipleOf\": 1e12}", PF_UNSUPPORTED, "schema.multipleOf" },
        { "{\"type\": \"integer\", \"multipleOf\": 999983}", PF_LIMIT, "multipleOf: the number needs too many" },
        { "{\"type\": \"integer\", \"multipleOf\": 4, \"minimum\": 5, \"maximum\": 7}", PF_INVALID, "no number is" },
        { "{\"type\": \"integer\", \"maximum\": 1e300}", PF_UNSUPPORTED, "schema.maximum" },
        { "{\"type\": \"integer\", \"minimum\": 2, \"maximum\": 1}", PF_INVALID, "no number is between" },
        { "{\"exclusiveMinimum\": true}", PF_INVALID, "schema.exclusiveMinimum" },
        { "{\"pattern\": \"(?=a)\"}", PF_UNSUPPORTED,
          "schema.pattern: a group of this kind is not supported at byte 1" },
        { "{\"pattern\": 5}", PF_INVALID, "schema.pattern: expected a string" },
        { "{\"pattern\": \"a\", \"maxLength\": 5}", PF_UNSUPPORTED, "pattern beside minLength or maxLength" },
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
    static char many[4096] = "{\"oneOf\":[";
    for (int32_t i = 0; i < 33; i++) sprintf(many + strlen(many), "%s{\"const\":%d}", i > 0 ? "," : "", i);
    strcat(many, "]}");
    assert_null(grammar_of(many, &error));
    assert_int_equal(error.status, PF_LIMIT);
    static char knot[8192] =
        "{\"oneOf\":[{\"$ref\":\"#/$defs/a\"},{\"$ref\":\"#/$defs/a\"}],\"$defs\":{\"a\":{\"anyOf\":[";
    for (int32_t i = 0; i < 200; i++) sprintf(knot + strlen(knot), "%s{\"$ref\":\"#/$defs/a\"}", i > 0 ? "," : "");
    strcat(knot, "]}}}");
    assert_null(grammar_of(knot, &error)); /* each way through the references is another one */
    assert_int_equal(error.status, PF_UNSUPPORTED);
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
        cmocka_unit_test(schemas_of_which_one_fits),
        cmocka_unit_test(numbers_between_bounds),
        cmocka_unit_test(multiples_of_a_number),
        cmocka_unit_test(texts_that_match_a_pattern),
        cmocka_unit_test(patterns_that_are_none_are_refused),
        cmocka_unit_test(schemas_that_are_not_followed_are_refused_by_name),
        cmocka_unit_test(hostile_schemas_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
