/* Tests tokenizers in each form of file against the ids of their own libraries (tests/golden/tokenizer_forms). */
#include <jansson.h>
#include <stdlib.h>

#include "tests/support/small_tokenizer.h"
#include "tests/support/test.h"
#include "tokenizer/decode/detokenize.h"
#include "tokenizer/tokenizer.h"

#define DIRECTORY "tests/golden/tokenizer_forms"

static pf_tokenizer *open_golden(const char *name)
{
    char path[256];
    pf_tokenizer *t = NULL;
    pf_error error = { 0 };
    snprintf(path, sizeof path, DIRECTORY "/%s", name);
    assert_ok(pf_tokenizer_open(path, &t, &error), error);
    return t;
}

static void print_ids(const char *what, const json_t *ids, const pf_tokens *got)
{
    print_error("%s:\n expected", what);
    for (size_t i = 0; i < json_array_size(ids); i++)
        print_error(" %d", (int)json_integer_value(json_array_get(ids, i)));
    print_error("\n got     ");
    for (int32_t i = 0; i < got->n; i++) print_error(" %d", got->ids[i]);
    print_error("\n");
}

static void assert_same_ids(const char *name, const json_t *text, const json_t *ids, const pf_tokens *got)
{
    bool same = json_array_size(ids) == (size_t)got->n;
    for (int32_t i = 0; same && i < got->n; i++)
        same = json_integer_value(json_array_get(ids, (size_t)i)) == got->ids[i];
    if (!same) {
        print_error("%s: \"%s\"\n", name, json_string_value(text));
        print_ids(name, ids, got);
    }
    assert_true(same);
}

static void compare(const pf_tokenizer *t, const char *name, const json_t *texts, const json_t *expected, bool special)
{
    assert_int_equal(json_array_size(texts), json_array_size(expected));
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const json_t *text = json_array_get(texts, i);
        pf_tokens got = encode_bytes(t, json_string_value(text), json_string_length(text), special);
        assert_same_ids(name, text, json_array_get(expected, i), &got);
        pf_tokens_clear(&got);
    }
}

/* Bytes that are no UTF-8 are U+FFFD there, and themselves here: such texts are left out. */
static void compare_decoded(const pf_tokenizer *t, const json_t *ids, const json_t *expected)
{
    for (size_t i = 0; i < json_array_size(expected); i++) {
        const json_t *text = json_array_get(expected, i), *list = json_array_get(ids, i);
        pf_tokens tokens = { 0 };
        if (strstr(json_string_value(text), "\xEF\xBF\xBD") != NULL) continue;
        for (size_t k = 0; k < json_array_size(list); k++)
            assert_status(pf_tokens_push(&tokens, (int32_t)json_integer_value(json_array_get(list, k))), PF_OK);
        pf_bytes made = decode(t, &tokens);
        assert_int_equal(made.n, json_string_length(text));
        if (made.n > 0) assert_memory_equal(made.data, json_string_value(text), made.n);
        pf_bytes_clear(&made);
        pf_tokens_clear(&tokens);
    }
}

static void every_form_gives_the_ids_of_its_library(void **state)
{
    (void)state;
    json_error_t why;
    json_t *root = json_load_file(DIRECTORY "/expected.json", JSON_ALLOW_NUL, &why), *item;
    const char *name;
    assert_non_null(root);
    assert_int_equal(json_object_size(json_object_get(root, "cases")), 18);
    json_object_foreach(json_object_get(root, "cases"), name, item)
    {
        const char *list = json_string_value(json_object_get(item, "texts"));
        const json_t *texts = json_object_get(root, list ? list : "texts");
        pf_tokenizer *t = open_golden(name);
        compare(t, name, texts, json_object_get(item, "plain"), false);
        compare(t, name, texts, json_object_get(item, "special"), true);
        compare_decoded(t, json_object_get(item, "plain"), json_object_get(item, "decoded"));
        pf_tokenizer_close(t);
    }
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_gives_the_ids_of_its_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
