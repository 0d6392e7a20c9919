#include "tests/support/test.h"

#include <malloc.h>

#include "base/json.h"
#include "tests/support/alloc_count.h"
#include "tests/support/temp_dir.h"

static pf_json parse(const char *text)
{
    pf_json doc;
    pf_error error;
    assert_ok(pf_json_parse("config.json", text, strlen(text), 1 << 20, &doc, &error), error);
    return doc;
}

static void fields_of_each_type_are_read(void **state)
{
    (void)state;
    pf_json doc = parse("{\"n\": -3, \"x\": 1e-5, \"i\": 7, \"yes\": true, \"s\": \"\\u00e9\"}");
    int64_t n;
    double x;
    bool yes;
    const char *s;
    pf_error error;
    assert_ok(pf_json_get_int(&doc, doc.root, "n", true, -5, 5, &n, &error), error);
    assert_int_equal(n, -3);
    assert_ok(pf_json_get_double(&doc, doc.root, "x", true, 0.0, 1.0, &x, &error), error);
    assert_true(x == 1e-5);
    assert_ok(pf_json_get_double(&doc, doc.root, "i", true, 0.0, 10.0, &x, &error), error); /* as an integer */
    assert_true(x == 7.0);
    assert_ok(pf_json_get_bool(&doc, doc.root, "yes", true, &yes, &error), error);
    assert_true(yes);
    assert_ok(pf_json_get_string(&doc, doc.root, "s", true, &s, &error), error);
    assert_string_equal(s, "\xC3\xA9");
    pf_json_close(&doc);
}

static void an_absent_or_null_field_keeps_the_default_unless_it_is_required(void **state)
{
    (void)state;
    pf_json doc = parse("{\"null\": null}");
    const char *fields[] = { "null", "absent" };
    for (size_t i = 0; i < PF_COUNT(fields); i++) {
        int64_t n = 4;
        double x = 0.5;
        bool b = true;
        const char *s = "kept";
        pf_error error;
        assert_ok(pf_json_get_int(&doc, doc.root, fields[i], false, 10, 20, &n, &error), error);
        assert_ok(pf_json_get_double(&doc, doc.root, fields[i], false, 1.0, 2.0, &x, &error), error);
        assert_ok(pf_json_get_bool(&doc, doc.root, fields[i], false, &b, &error), error);
        assert_ok(pf_json_get_string(&doc, doc.root, fields[i], false, &s, &error), error);
        assert_status(pf_json_get_int(&doc, doc.root, fields[i], true, 1, 9, &n, &error), PF_FORMAT);
        assert_says(error, "config.json: ");
        assert_says(error, " is absent, expected an integer from 1 to 9");
        assert_status(pf_json_get_double(&doc, doc.root, fields[i], true, 1.0, 2.0, &x, &error), PF_FORMAT);
        assert_status(pf_json_get_bool(&doc, doc.root, fields[i], true, &b, &error), PF_FORMAT);
        assert_status(pf_json_get_string(&doc, doc.root, fields[i], true, &s, &error), PF_FORMAT);
        assert_true(n == 4 && x == 0.5 && b && strcmp(s, "kept") == 0);
    }
    pf_json_close(&doc);
}

static void a_value_of_the_wrong_type_or_range_is_shown(void **state)
{
    (void)state;
    static const struct {
        const char *value, *shown;
    } cases[] = {
        { "10", "n is 10, expected an integer from 1 to 9" },
        { "0", "n is 0, expected" },
        { "1.0", "n is 1.0, expected" }, /* an integer that is written as a real is a mistake of its writer */
        { "\"4\"", "n is \"4\", expected" },
        { "true", "n is true, expected" },
        { "[1]", "n is an array, expected" },
        { "{}", "n is an object, expected" },
        { "9223372036854775807", "n is 9223372036854775807, expected" },
        { "\"0123456789012345678901234567890123456789012345678901234567890123456789\"", "678..., expected" },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        char text[128];
        snprintf(text, sizeof text, "{\"n\": %s}", cases[i].value);
        pf_json doc = parse(text);
        int64_t n = 4;
        pf_error error;
        assert_status(pf_json_get_int(&doc, doc.root, "n", false, 1, 9, &n, &error), PF_FORMAT);
        assert_says(error, cases[i].shown);
        assert_int_equal(n, 4);
        pf_json_close(&doc);
    }
}

static void what_is_expected_is_said_as_short_as_it_can_be(void **state)
{
    (void)state;
    pf_json doc = parse("{\"n\": 1.5}");
    int64_t n = 4;
    pf_error error;
    assert_status(pf_json_get_int(&doc, doc.root, "n", true, 8, 8, &n, &error), PF_FORMAT);
    assert_string_equal(error.text, "config.json: n is 1.5, expected 8");
    assert_status(pf_json_get_int(&doc, doc.root, "n", true, INT64_MIN, INT64_MAX, &n, &error), PF_FORMAT);
    assert_string_equal(error.text, "config.json: n is 1.5, expected an integer");
    pf_json_close(&doc);
}

static void an_object_within_is_named_behind_its_document(void **state)
{
    (void)state;
    pf_json doc = parse("{\"list\": [{\"n\": 3}]}");
    int64_t n = 4;
    pf_error error;
    pf_json item = pf_json_within(&doc, json_array_get(json_object_get(doc.root, "list"), 0), "list[%d]", 0);
    assert_ok(pf_json_get_int(&item, item.root, "n", true, 1, 9, &n, &error), error);
    assert_int_equal(n, 3);
    assert_status(pf_json_get_int(&item, item.root, "m", true, 1, 9, &n, &error), PF_FORMAT);
    assert_says(error, "config.json: list[0]: m is absent");
    memset(doc.name, 'x', sizeof doc.name - 1); /* of a long path the beginning goes */
    item = pf_json_within(&doc, item.root, "list[0]");
    assert_int_equal(strlen(item.name), sizeof item.name - 1);
    assert_string_equal(item.name + sizeof item.name - 1 - strlen("x: list[0]"), "x: list[0]");
    pf_json_close(&doc);
}

static void numbers_flags_and_strings_are_not_taken_for_one_another(void **state)
{
    (void)state;
    pf_json doc = parse("{\"x\": 2.5, \"s\": \"true\", \"one\": 1, \"nul\": \"a\\u0000b\"}");
    int64_t n = 77;
    double x = 0.0;
    bool b = false;
    const char *s = NULL;
    pf_error error;
    assert_status(pf_json_get_int(&doc, doc.root, "x", true, 0, 9, &n, &error), PF_FORMAT);
    assert_status(pf_json_get_int(&doc, doc.root, "s", true, 0, 9, &n, &error), PF_FORMAT);
    assert_status(pf_json_get_double(&doc, doc.root, "x", true, 0.0, 2.0, &x, &error), PF_FORMAT);
    assert_says(error, "x is 2.5, expected a number from 0 to 2");
    assert_status(pf_json_get_double(&doc, doc.root, "s", true, 0.0, 2.0, &x, &error), PF_FORMAT);
    assert_status(pf_json_get_bool(&doc, doc.root, "s", true, &b, &error), PF_FORMAT);
    assert_status(pf_json_get_bool(&doc, doc.root, "one", true, &b, &error), PF_FORMAT);
    assert_status(pf_json_get_string(&doc, doc.root, "one", true, &s, &error), PF_FORMAT);
    assert_status(pf_json_get_string(&doc, doc.root, "nul", true, &s, &error), PF_FORMAT);
    assert_says(error, "a string without NUL");
    assert_true(n == 77 && x == 0.0 && !b && !s);
    pf_json_close(&doc);
}

static void an_integer_that_64_bits_do_not_hold_is_a_real(void **state)
{
    (void)state;
    /* as transformers writes model_max_length; in a string, in a fraction and where it fits a number stays as it is */
    pf_json doc = parse("{\"model_max_length\": 1000000000000000019884624838656, \"x\": [-98765432109876543210],"
                        "\"s\": \"\\\"98765432109876543210\", \"f\": 0.98765432109876543210,"
                        "\"least\": -9223372036854775808}");
    int64_t n;
    double x;
    const char *s;
    pf_error error;
    assert_ok(pf_json_get_double(&doc, doc.root, "model_max_length", true, 0.0, 1e31, &x, &error), error);
    assert_true(x == 1000000000000000019884624838656.0);
    assert_true(json_real_value(json_array_get(json_object_get(doc.root, "x"), 0)) == -98765432109876543210.0);
    assert_ok(pf_json_get_string(&doc, doc.root, "s", true, &s, &error), error);
    assert_string_equal(s, "\"98765432109876543210");
    assert_ok(pf_json_get_double(&doc, doc.root, "f", true, 0.0, 1.0, &x, &error), error);
    assert_true(x == 0.98765432109876543210);
    assert_ok(pf_json_get_int(&doc, doc.root, "least", true, INT64_MIN, INT64_MAX, &n, &error), error);
    assert_true(n == INT64_MIN);
    assert_status(pf_json_get_int(&doc, doc.root, "model_max_length", true, 0, INT64_MAX, &n, &error), PF_FORMAT);
    assert_says(error, "config.json: model_max_length is 1e30, expected an integer");
    pf_json_close(&doc);
    static const char overflows[] = "{\"n\": 98765432109876543210, \"x\": 1e999}";
    assert_status(pf_json_parse("a.json", overflows, strlen(overflows), 1 << 20, &doc, &error), PF_FORMAT);
    assert_says(error, "line 1, column ");
}

static void of_a_key_that_is_there_twice_the_last_value_counts(void **state)
{
    (void)state;
    pf_json doc = parse("{\"n\": 1, \"m\": 99999999999999999999, \"n\": {\"a\": 2, \"a\": 3}}");
    const json_t *within = json_object_get(doc.root, "n");
    assert_int_equal(json_object_size(doc.root), 2);
    assert_int_equal(json_integer_value(json_object_get(within, "a")), 3);
    pf_json_close(&doc);
}

static void a_text_that_is_not_one_object_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "", "{", "[]", "3", "{} {}", "{\"a\": \"\xFF\"}", "{\"n\": 1e999}", "{\"n\": 99999999999999999999-5}"
    };
    for (size_t i = 0; i < PF_COUNT(texts); i++) {
        pf_json doc = { .name = "untouched" };
        pf_error error;
        assert_status(pf_json_parse("x.json", texts[i], strlen(texts[i]), 1 << 20, &doc, &error), PF_FORMAT);
        assert_says(error, "x.json: ");
        assert_string_equal(doc.name, "untouched");
        pf_json_close(&doc);
    }
}

static void nesting_without_end_is_refused_without_a_crash(void **state)
{
    (void)state;
    static char text[100000];
    memset(text, '[', sizeof text);
    memcpy(text, "{\"a\":", 5);
    pf_json doc;
    pf_error error;
    assert_status(pf_json_parse("deep", text, sizeof text, 1 << 24, &doc, &error), PF_FORMAT);
}

/* n bytes of `unit` over and over, in a list or an object. */
static char *repeat(const char *open, const char *unit, const char *close, size_t n, bool numbered)
{
    char *text = malloc(n + 64);
    size_t at = (size_t)sprintf(text, "%s", open);
    for (size_t i = 0; at < n; i++) {
        if (i > 0) text[at++] = ',';
        if (numbered) at += (size_t)sprintf(text + at, "\"%zx\":", i);
        at += (size_t)sprintf(text + at, "%s", unit);
    }
    sprintf(text + at, "%s", close);
    return text;
}

static void no_shape_of_a_document_takes_more_than_is_counted(void **state)
{
    (void)state;
    static const struct {
        const char *open, *unit, *close;
        bool numbered;
    } shapes[] = {
        { "{\"a\":[", "0", "]}", false },
        { "{\"a\":[", "[]", "]}", false },
        { "{\"a\":[", "{}", "]}", false },
        { "{\"a\":[", "\"\"", "]}", false },
        { "{\"a\":[", "[0]", "]}", false },
        { "{\"a\":[", "[1.5,2]", "]}", false },
        { "{\"a\":[", "null", "]}", false },
        { "{\"a\":[", "[[[]]]", "]}", false },
        { "{", "0", "}", true },
        { "{", "\"a\\\"b\"", "}", true },
        { "{", "{}", "}", true },
        { "{", "[]", "}", true },
        { "{\"a\":[", "{\"a\":0,\"b\":[1,2]}", "]}", false },
    };
    for (size_t i = 0; i < PF_COUNT(shapes); i++) {
        char *text = repeat(shapes[i].open, shapes[i].unit, shapes[i].close, 1 << 20, shapes[i].numbered);
        const size_t before = mallinfo2().uordblks;
        json_t *root = json_loads(text, 0, NULL);
        const size_t taken = mallinfo2().uordblks - before; /* 0 under a sanitizer */
        assert_non_null(root);
        json_decref(root);
        pf_error error;
        assert_status(pf_json_check_size("x.json", text, strlen(text), taken / PF_JSON_MEMORY_A_BYTE, &error),
                      PF_LIMIT);
        free(text);
    }
}

static void a_choice_is_one_of_the_names_or_is_told_them(void **state)
{
    (void)state;
    static const char *const names[] = { "gelu", "relu", "silu" };
    pf_json doc = parse("{\"a\": \"gelu\", \"c\": \"silu\", \"long\": \"silus\", \"nul\": \"relu\\u0000\", \"n\": 1}");
    pf_error error;
    int choice = -7;
    assert_status(pf_json_get_choice(&doc, doc.root, "absent", false, names, 3, &choice, &error), PF_OK);
    assert_int_equal(choice, -7);
    static const char *const wrong[] = { "long", "nul", "n", "absent" };
    for (size_t i = 0; i < PF_COUNT(wrong); i++) {
        assert_status(pf_json_get_choice(&doc, doc.root, wrong[i], true, names, 3, &choice, &error), PF_FORMAT);
        assert_says(error, "expected gelu, relu or silu");
        assert_int_equal(strstr(error.text, " is absent") != NULL, strcmp(wrong[i], "absent") == 0);
        assert_says(error, wrong[i]);
        assert_int_equal(choice, -7);
    }
    assert_ok(pf_json_get_choice(&doc, doc.root, "c", true, names, 3, &choice, &error), error);
    assert_int_equal(choice, 2);
    assert_ok(pf_json_get_choice(&doc, doc.root, "a", true, names, 3, &choice, &error), error);
    assert_int_equal(choice, 0);
    pf_json_close(&doc);
}

static void what_would_take_too_much_memory_is_refused_before_it_is_taken(void **state)
{
    (void)state;
    char *text = repeat("{\"a\":[", "0", "]}", 1 << 20, false);
    pf_json doc;
    pf_error error;
    assert_status(pf_json_parse("config.json", text, strlen(text), 1 << 21, &doc, &error), PF_LIMIT);
    assert_says(error, "config.json: has too many values: ");
    assert_says(error, " expected at most 16777216");
    assert_ok(pf_json_parse("config.json", text, strlen(text), 1 << 23, &doc, &error), error);
    pf_json_close(&doc);
    free(text);

    text = repeat("{\"a\":\"", ",:[{\\\"", "\"}", 1 << 20, false); /* a string is no more than its bytes */
    assert_ok(pf_json_parse("config.json", text, strlen(text), 1 << 21, &doc, &error), error);
    pf_json_close(&doc);
    free(text);
}

/* Of a word or a key that it has no memory for jansson says that the text is wrong, and where. */
static void an_allocation_that_is_refused_is_no_fault_of_the_text(void **state)
{
    (void)state;
    const char *text = "{\"a\": [1, 2.5, \"b\", {\"c\": null}], \"d\": 1}"; /* no word of 16 bytes: jansson aborts */
    json_malloc_t plain_malloc;
    json_free_t plain_free;
    pf_json doc;
    pf_error error;
    int64_t n = 0;
    json_get_alloc_funcs(&plain_malloc, &plain_free);
    pf_json_watch_memory();
    for (pf_status status = PF_NOMEM; status != PF_OK; n++) {
        pf_alloc_refuse_after(n);
        status = pf_json_parse("config.json", text, strlen(text), 1 << 20, &doc, &error);
        pf_alloc_refuse_after(-1);
        if (status != PF_OK) assert_status(status, PF_NOMEM);
    }
    json_set_alloc_funcs(plain_malloc, plain_free);
    assert_true(n > 16);
    pf_json_close(&doc);
}

static void an_error_of_syntax_names_line_and_column(void **state)
{
    (void)state;
    pf_json doc;
    pf_error error;
    const char *text = "{\n  \"a\": 1,\n  \"b\": x\n}";
    assert_status(pf_json_parse("config.json", text, strlen(text), 1 << 20, &doc, &error), PF_FORMAT);
    assert_says(error, "config.json: line 3, column 8: ");
}

static void a_document_is_read_from_disk_under_its_path(void **state)
{
    (void)state;
    pf_temp_dir dir;
    char path[PF_TEMP_PATH_BYTES];
    pf_json doc;
    pf_error error;
    pf_temp_dir_make(&dir);
    char text[101];
    snprintf(text, sizeof text, "%100s", "{\"n\": 3}");
    pf_temp_write(&dir, "a.json", text, 100);
    assert_ok(pf_json_open(pf_temp_path(&dir, "a.json", path), 100, &doc, &error), error);
    assert_string_equal(doc.name, path);
    pf_json_close(&doc);
    pf_json_close(&doc);
    assert_status(pf_json_open(path, 99, &doc, &error), PF_LIMIT);
    assert_status(pf_json_open(pf_temp_path(&dir, "b.json", path), 7, &doc, &error), PF_UNAVAILABLE);
    pf_temp_dir_remove(&dir);
}

static void of_a_name_that_is_too_long_the_end_is_kept(void **state)
{
    (void)state;
    char name[600];
    memset(name, 'd', sizeof name);
    strcpy(name + sizeof name - 13, "/config.json");
    pf_json doc;
    pf_error error;
    assert_ok(pf_json_parse(name, "{}", 2, 1 << 20, &doc, &error), error);
    assert_int_equal(strlen(doc.name), sizeof doc.name - 1);
    assert_memory_equal(doc.name, "...ddd", 6);
    assert_string_equal(doc.name + sizeof doc.name - 13, "/config.json");
    pf_json_close(&doc);
}

static void a_list_may_stand_at_the_top_and_its_integers_are_exact(void **state)
{
    (void)state;
    static const char list[] = "[1, {\"a\": 2}]", large[] = "[100000000000000000000]";
    pf_error error = { 0 };
    json_t *root = NULL;
    assert_int_equal(pf_json_parse_exactly("chat.json", list, strlen(list), 1 << 20, &root, &error), PF_OK);
    assert_int_equal(json_array_size(root), 2);
    json_decref(root);
    assert_int_equal(pf_json_parse_exactly("chat.json", large, strlen(large), 1 << 20, &root, &error), PF_FORMAT);
    assert_non_null(strstr(error.text, "chat.json: line 1"));
    assert_int_equal(pf_json_parse_exactly("chat.json", list, strlen(list), 4, &root, &error), PF_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_of_each_type_are_read),
        cmocka_unit_test(a_list_may_stand_at_the_top_and_its_integers_are_exact),
        cmocka_unit_test(an_absent_or_null_field_keeps_the_default_unless_it_is_required),
        cmocka_unit_test(a_value_of_the_wrong_type_or_range_is_shown),
        cmocka_unit_test(what_is_expected_is_said_as_short_as_it_can_be),
        cmocka_unit_test(an_object_within_is_named_behind_its_document),
        cmocka_unit_test(numbers_flags_and_strings_are_not_taken_for_one_another),
        cmocka_unit_test(an_integer_that_64_bits_do_not_hold_is_a_real),
        cmocka_unit_test(of_a_key_that_is_there_twice_the_last_value_counts),
        cmocka_unit_test(a_text_that_is_not_one_object_is_refused),
        cmocka_unit_test(nesting_without_end_is_refused_without_a_crash),
        cmocka_unit_test(no_shape_of_a_document_takes_more_than_is_counted),
        cmocka_unit_test(a_choice_is_one_of_the_names_or_is_told_them),
        cmocka_unit_test(what_would_take_too_much_memory_is_refused_before_it_is_taken),
        cmocka_unit_test(an_allocation_that_is_refused_is_no_fault_of_the_text),
        cmocka_unit_test(an_error_of_syntax_names_line_and_column),
        cmocka_unit_test(a_document_is_read_from_disk_under_its_path),
        cmocka_unit_test(of_a_name_that_is_too_long_the_end_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
