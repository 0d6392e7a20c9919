/* Templates: the text that Jinja 2 gives (tests/golden/jinja_cases.py), refusals, limits. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "jinja/jinja.h"

static pf_status render(const char *source, size_t n, const json_t *variables, pf_bytes *out, pf_error *error)
{
    pf_jinja *t = NULL;
    pf_status status = pf_jinja_parse("chat_template", source, n, &t, error);
    if (status == PF_OK) status = pf_jinja_render(t, variables, out, error);
    pf_jinja_release(t);
    return status;
}

static void compare_case(size_t i, const json_t *item, const json_t *variables)
{
    const json_t *source = json_object_get(item, "template"), *text = json_object_get(item, "text");
    pf_bytes out = { .n = 0 };
    pf_error error = { 0 };
    const pf_status status = render(json_string_value(source), json_string_length(source), variables, &out, &error);
    const bool is_refused = status != PF_OK;
    if (is_refused != json_is_null(text))
        fail_msg("case %zu: %s", i, is_refused ? error.text : "rendered, not refused");
    const size_t n = json_string_length(text);
    if (!is_refused && (out.n != n || (n > 0 && memcmp(out.data, json_string_value(text), n) != 0)))
        fail_msg("case %zu:\n%.*s\nexpected:\n%s", i, (int)out.n, out.data, json_string_value(text));
    pf_bytes_clear(&out);
}

static void templates_render_as_jinja_does(void **state)
{
    (void)state;
    json_error_t why;
    json_t *doc = json_load_file("tests/golden/jinja/features.json", 0, &why), *item;
    size_t i;
    assert_non_null(doc);
    assert_true(json_array_size(json_object_get(doc, "cases")) > 40);
    json_array_foreach(json_object_get(doc, "cases"), i, item) compare_case(i, item, json_object_get(doc, "variables"));
    json_decref(doc);
}

static void assert_refused(const char *source, pf_status expected, const char *sentence)
{
    json_t *none = json_object();
    pf_bytes out = { .n = 0 };
    pf_error error = { 0 };
    const pf_status status = render(source, strlen(source), none, &out, &error);
    if (status != expected || strstr(error.text, sentence) == NULL)
        fail_msg("%.60s: status %d, \"%s\"; expected %d, \"%s\"", source, status, error.text, expected, sentence);
    pf_bytes_clear(&out);
    json_decref(none);
}

static void a_refusal_names_the_line_and_what_was_expected(void **state)
{
    (void)state;
    assert_refused("a\nb {% if %}", PF_FORMAT, "chat_template, line 2: %} stands where an expression is expected");
    assert_refused("{{ 'abc", PF_FORMAT, "line 1: a quoted text does not end");
    assert_refused("\n\n{% for x in y %}", PF_FORMAT, "the template ends where endfor is expected");
    assert_refused("{% include 'x' %}", PF_UNSUPPORTED, "the statement \"include\" is not known");
    assert_refused("{% endif %}", PF_FORMAT, "{% endif %} ends nothing that is open");
    assert_refused("{{ 1 | nothing }}", PF_UNSUPPORTED, "the filter \"nothing\" is not known");
    assert_refused("{{ 1 is nothing }}", PF_UNSUPPORTED, "the test \"nothing\" is not known");
    assert_refused("{{ a.b }}", PF_INVALID, "\"a\" is undefined");
    assert_refused("{{ raise_exception('no system role') }}", PF_INVALID, "refuses its input: no system role");
    assert_refused("{{ [].append(1) }}", PF_INVALID, "does not change");
}

static void a_template_ends_within_its_limits(void **state)
{
    (void)state;
    assert_refused("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", PF_LIMIT, "");
    assert_refused(
        "{% set ns = namespace(x='aaaaaaaa') %}{% for a in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
        PF_LIMIT, "MiB");
    assert_refused("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", PF_LIMIT, "deep");
    assert_refused(
        "{% set ns = namespace(x=[]) %}{% for a in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
        PF_LIMIT, "deep");
    assert_refused("{{ 'a' * 999999999 }}", PF_LIMIT, "");
    assert_refused("{{ range(10 ** 9) }}", PF_LIMIT, "100000 items");
    assert_refused("{% for a in range(9) %}{{ '%999999999d' % a }}{% endfor %}", PF_INVALID, "three digits");
    assert_refused("{{ 'a'.center(999999999) }}", PF_LIMIT, "");
    assert_refused(
        "{% set ns = namespace(s='ab') %}{% for a in range(99) %}{% set ns.s = ns.s.replace('a', 'aa').replace("
        "'b', 'abab') %}{% endfor %}",
        PF_LIMIT, "");
    assert_refused("{% macro f(x) %}{{ g(x) }}{% endmacro %}{% macro g(x) %}{{ f([x]) }}{% endmacro %}{{ f(1) }}",
                   PF_LIMIT, "deep");
    assert_refused("{% for a in range(99999) %}{{ 'abcdefghij' * 1000 }}{% endfor %}", PF_LIMIT, "MiB");
    static const char *const reads[] = {
        "x | length", "(x | list)[0]", "l | sum", "l == l", "l < l", "x[-1]", "l | max"
    };
    for (size_t i = 0; i < PF_COUNT(reads); i++) {
        char source[256];
        snprintf(source, sizeof source,
                 "{%% set x = 'a' * 10 ** 7 %%}{%% set l = range(99999) | list %%}"
                 "{%% for i in range(99999) %%}{{ %s }}{%% endfor %%}",
                 reads[i]);
        assert_refused(source, PF_LIMIT, "");
    }
    assert_refused("{% for a in range(9999) %}{{ range(9999) | map('string') | join | length }}{% endfor %}", PF_LIMIT,
                   "");
    assert_refused("{% for a in range(99999) %}{{ range(99999) | tojson | length }}{% endfor %}", PF_LIMIT, "");
    assert_refused("{% for a in range(99999) %}{{ range(99999) | sort(reverse=true) | first }}{% endfor %}", PF_LIMIT,
                   "");
    assert_refused("{{ 9223372036854775807 + 1 }}", PF_LIMIT, "64 bits");
    assert_refused("{{ 99999999999999999999 }}", PF_LIMIT, "too large");
}

static void deep_nesting_is_refused_and_not_followed(void **state)
{
    (void)state;
    enum { DEEP = 100000 };
    static char source[2 * DEEP + 16];
    memset(source, '(', DEEP);
    memset(source + DEEP, ')', DEEP - 3); /* three of the opening ones are overwritten */
    memcpy(source, "{{ ", 3);
    memcpy(source + 2 * DEEP - 3, " }}", 4);
    assert_refused(source, PF_LIMIT, "deep");
    memset(source + 3, '-', 2 * DEEP - 7);
    memcpy(source + 2 * DEEP - 4, "1 }}", 5);
    assert_refused(source, PF_LIMIT, "deep");
}

static void every_beginning_of_a_template_is_parsed_or_refused(void **state)
{
    (void)state;
    static const char source[] =
        "{% for m in messages -%} {{ m['x'][1:2] | tojson(indent=4) }}{# c #}{% set a, b = 1, {'k': 'v'} %}"
        "{% if a is not none and b.k.startswith('v') %}x{% elif not a %}y{% else %}z{% endif %}{% endfor %}";
    json_t *none = json_object();
    for (size_t n = 0; n < sizeof source; n++) {
        pf_bytes out = { .n = 0 };
        pf_error error = { 0 };
        const pf_status status = render(source, n, none, &out, &error);
        assert_true(status == PF_OK || error.text[0] != '\0');
        pf_bytes_clear(&out);
    }
    json_decref(none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_render_as_jinja_does),
        cmocka_unit_test(a_refusal_names_the_line_and_what_was_expected),
        cmocka_unit_test(a_template_ends_within_its_limits),
        cmocka_unit_test(deep_nesting_is_refused_and_not_followed),
        cmocka_unit_test(every_beginning_of_a_template_is_parsed_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
