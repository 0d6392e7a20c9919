/* Chat templates in the idioms of published ones: the text that transformers gives (tests/golden/make_chat_templates_golden.py). */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "jinja/jinja.h"

#define FOLDER "tests/golden/chat_templates/"

/* A text of the golden file with its dates filled in: "\x01%Y\x02" is the year of `now`. */
static void fill_dates(const json_t *text, time_t now, pf_bytes *out)
{
    const char *from = json_string_value(text);
    const size_t n = json_string_length(text);
    struct tm day;
    out->n = 0;
    localtime_r(&now, &day);
    for (size_t i = 0; i < n; i++) {
        char format[64] = "", date[128];
        if (from[i] != '\x01') {
            assert_int_equal(pf_bytes_append(out, from + i, 1), PF_OK);
            continue;
        }
        const char *end = memchr(from + i, '\x02', n - i);
        assert_non_null(end);
        memcpy(format, from + i + 1, (size_t)(end - from) - i - 1);
        assert_int_equal(pf_bytes_append(out, date, strftime(date, sizeof date, format, &day)), PF_OK);
        i = (size_t)(end - from);
    }
}

static pf_status render(const pf_jinja *tmpl, const json_t *tokens, const json_t *conversation, pf_bytes *out,
                        pf_error *error)
{
    json_t *variables = json_pack("{s:n, s:n, s:b}", "tools", "documents", "add_generation_prompt", 1);
    json_object_update(variables, (json_t *)(uintptr_t)tokens);
    json_object_update(variables, (json_t *)(uintptr_t)conversation);
    out->n = 0;
    const pf_status status = pf_jinja_render(tmpl, variables, out, error);
    json_decref(variables);
    return status;
}

static void compare_refusal(const char *name, const char *key, const json_t *text, pf_status status,
                            const char *sentence)
{
    const char *raises = json_string_value(json_object_get(text, "raises"));
    if (status == PF_OK) fail_msg("%s, %s: rendered, not refused", name, key);
    if (raises && !strstr(sentence, raises)) fail_msg("%s, %s: \"%s\", expected \"%s\"", name, key, sentence, raises);
}

/* At midnight the day may change between the rendering and the comparison. */
static bool is_text(const pf_bytes *got, const json_t *expected, time_t begin)
{
    pf_bytes wanted = { 0 };
    bool equal = false;
    const time_t days[] = { begin, time(NULL) };
    for (int i = 0; i < 2 && !equal; i++) {
        fill_dates(expected, days[i], &wanted);
        equal = got->n == wanted.n && memcmp(got->data ? got->data : "", wanted.data ? wanted.data : "", got->n) == 0;
    }
    pf_bytes_clear(&wanted);
    return equal;
}

static void compare_template(const json_t *item, json_t *conversations)
{
    const char *name = json_string_value(json_object_get(item, "name")), *key;
    char path[256], *source;
    size_t n;
    json_t *conversation;
    pf_jinja *tmpl = NULL;
    pf_error error = { 0 };
    pf_bytes out = { 0 };
    snprintf(path, sizeof path, FOLDER "%s.jinja", name);
    assert_ok(pf_file_read(path, PF_JINJA_MAX_SOURCE, &source, &n, &error), error);
    assert_ok(pf_jinja_parse(name, source, n, &tmpl, &error), error);
    json_object_foreach(conversations, key, conversation)
    {
        const json_t *text = json_object_get(json_object_get(item, "texts"), key);
        const time_t begin = time(NULL);
        const pf_status status = render(tmpl, json_object_get(item, "tokens"), conversation, &out, &error);
        if (!json_is_string(text))
            compare_refusal(name, key, text, status, error.text);
        else if (status != PF_OK)
            fail_msg("%s, %s: refused: %s", name, key, error.text);
        else if (!is_text(&out, text, begin))
            fail_msg("%s, %s:\n%.*s\nexpected:\n%s", name, key, (int)out.n, out.data, json_string_value(text));
    }
    pf_bytes_clear(&out);
    pf_jinja_release(tmpl);
    free(source);
}

static void published_styles_render_as_in_transformers(void **state)
{
    (void)state;
    json_t *document = json_load_file(FOLDER "rendered.json", 0, NULL), *item;
    size_t i;
    assert_non_null(document);
    assert_true(json_array_size(json_object_get(document, "templates")) >= 40);
    json_array_foreach(json_object_get(document, "templates"), i, item)
        compare_template(item, json_object_get(document, "conversations"));
    json_decref(document);
}

/* Each beginning of a few of them is a template, or refused with a sentence. */
static void every_beginning_of_a_style_is_parsed_or_refused(void **state)
{
    (void)state;
    static const char *const names[] = { "qwen3_thinking", "mistral_v3_tools", "harmony", "llava_parts" };
    for (size_t i = 0; i < PF_COUNT(names); i++) {
        char path[256], *source;
        size_t n;
        pf_error error = { 0 };
        snprintf(path, sizeof path, FOLDER "%s.jinja", names[i]);
        assert_ok(pf_file_read(path, PF_JINJA_MAX_SOURCE, &source, &n, &error), error);
        for (size_t length = 0; length < n; length++) {
            pf_jinja *tmpl = NULL;
            error = (pf_error){ 0 };
            const pf_status status = pf_jinja_parse(names[i], source, length, &tmpl, &error);
            if (status != PF_OK && (error.text[0] == '\0' || strchr(error.text, '\n')))
                fail_msg("%s, %zu bytes: \"%s\"", names[i], length, error.text);
            pf_jinja_release(tmpl);
        }
        free(source);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_styles_render_as_in_transformers),
        cmocka_unit_test(every_beginning_of_a_style_is_parsed_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
