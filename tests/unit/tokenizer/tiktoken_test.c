/* Tests the readers of tiktoken files and of merges.txt on hostile lines. Their ids: tokenizer_forms_test.c. */
#include "tokenizer/files/tiktoken.h"

#include <stdlib.h>

#include "base/file.h"
#include "tests/support/test.h"
#include "tokenizer/files/vocab_merges.h"
#include "tokenizer/tokenizer_parts.h"

#define GOLDEN "tests/golden/tokenizer_forms/"

/* Opens a tokenizer from the text of qwen.tiktoken; the caller closes it. */
static pf_status open_qwen(const char *text, size_t n, pf_tokenizer **out, pf_error *error)
{
    pf_json doc = { 0 };
    pf_tokenizer_files files = { .tokenizer = &doc, .ranked = true };
    PF_TRY(pf_tiktoken_document("x.tiktoken", text, n, true, &files, &doc, error));
    pf_tokenizer *t = calloc(1, sizeof *t);
    assert_non_null(t);
    const pf_status status = pf_tokenizer_read_documents(&files, t, error);
    pf_json_close(&doc);
    if (status == PF_OK)
        *out = t;
    else
        pf_tokenizer_close(t);
    return status;
}

static void hostile_lines_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } cases[] = {
        { "", "the file has no tokens" },
        { "\n\n", "the file has no tokens" },
        { "YQ==", "line 1 must" },
        { "YQ== 0\nYg== x\n", "line 2 must" },
        { "YQ== 0\nYg==  1\n", "line 2 must" },
        { "YQ== -1\n", "line 1 must" },
        { "YQ== 99999999999999999999\n", "line 1 must" },
        { "YQ== 16777216\n", "line 1 must" },
        { "YQ= 0\n", "line 1 must" },
        { "Y*== 0\n", "line 1 must" },
        { " 0\n", "line 1 must" },
        { "YQ== 0\nYQ== 1\n", "line 2 has the bytes of another line" },
        { "YQ== 0\nYg== 0\n", "has the id 0, as another token has" },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        pf_tokenizer *t = NULL;
        pf_error error = { 0 };
        assert_status(open_qwen(cases[i].text, strlen(cases[i].text), &t, &error), PF_FORMAT);
        assert_says(error, cases[i].part);
        assert_says(error, "x.tiktoken");
    }
}

static void a_line_that_is_too_long_is_refused(void **state)
{
    (void)state;
    enum { N = 1 << 16 };
    char *text = malloc(N);
    pf_tokenizer *t = NULL;
    pf_error error = { 0 };
    assert_non_null(text);
    memset(text, 'A', N);
    memcpy(text + N - 3, " 0\n", 3);
    assert_status(open_qwen(text, N, &t, &error), PF_FORMAT);
    assert_says(error, "line 1 must");
    free(text);
}

/* Tokens "a", "aa", ... up to 4,000 letters have eight million ways to be cut in two. */
static void tokens_with_too_many_cuts_end_in_pf_limit(void **state)
{
    (void)state;
    pf_bytes file = { .data = NULL };
    pf_tokenizer *t = NULL;
    pf_error error = { 0 };
    for (int n = 3; n <= 4000; n += 3) {
        char line[8192];
        const int n_digits = 4 * n / 3;
        for (int i = 0; i < n_digits; i++) line[i] = "YWFh"[i % 4];
        const int length = n_digits + snprintf(line + n_digits, 32, " %d\n", n / 3 - 1);
        assert_status(pf_bytes_append(&file, line, (size_t)length), PF_OK);
    }
    assert_status(open_qwen(file.data, file.n, &t, &error), PF_LIMIT);
    assert_says(error, "too long to find their merges");
    pf_bytes_clear(&file);
}

/* Neighbors whose text is a token join, the lowest rank first. */
static void merges_follow_from_ranks(void **state)
{
    (void)state;
    static const char text[] = "YQ== 0\r\nYWE= 1\r\nYWFh 2\r\nYWFhYWE= 3\r\n"; /* a, aa, aaa, aaaaa */
    pf_tokenizer *t = NULL;
    pf_error error = { 0 };
    pf_tokens ids = { 0 };
    assert_ok(open_qwen(text, sizeof text - 1, &t, &error), error);
    assert_status(pf_tokenizer_encode(t, "aaaa", 4, false, NULL, &ids), PF_OK);
    assert_int_equal(ids.n, 2);
    assert_memory_equal(ids.ids, ((int32_t[]){ 1, 1 }), 2 * sizeof(int32_t));
    ids.n = 0;
    assert_status(pf_tokenizer_encode(t, "aaaaaaa", 7, false, NULL, &ids),
                  PF_OK); /* aa aa aa a: aa + a, then aa + aaa */
    assert_int_equal(ids.n, 2);
    assert_memory_equal(ids.ids, ((int32_t[]){ 1, 3 }), 2 * sizeof(int32_t));
    ids.n = 0;
    assert_status(pf_tokenizer_encode(t, "aaaaa", 5, false, NULL, &ids), PF_OK); /* a token is itself */
    assert_int_equal(ids.n, 1);
    assert_int_equal(ids.ids[0], 3);
    pf_tokens_clear(&ids);
    pf_tokenizer_close(t);
}

static void a_file_cut_at_any_byte_is_read_or_refused(void **state)
{
    (void)state;
    char *data = NULL;
    size_t size = 0, n_read = 0;
    pf_error error = { 0 };
    assert_ok(pf_file_read(GOLDEN "qwen/qwen.tiktoken", 1 << 20, &data, &size, &error), error);
    for (size_t n = 0; n < size; n += n < 600 ? 1 : 37) {
        pf_tokenizer *t = NULL;
        error.text[0] = '\0';
        const pf_status status = open_qwen(data, n, &t, &error);
        n_read += status == PF_OK;
        assert_true(status == PF_OK || (status == PF_FORMAT && error.text[0]));
        pf_tokenizer_close(t);
    }
    assert_true(n_read > 50);
    free(data);
}

static void a_tokenizer_model_is_told_from_lines(void **state)
{
    (void)state;
    assert_true(pf_tiktoken_is_file("YQ== 0\n", 7));
    assert_true(pf_tiktoken_is_file("YQ== 0\r\nYg== 1", 14));
    assert_true(pf_tiktoken_is_file("YQ== 0", 6));
    assert_false(pf_tiktoken_is_file("\n\x0E\n\x05<unk>", 9));
    assert_false(pf_tiktoken_is_file("", 0));
    assert_false(pf_tiktoken_is_file("\nYQ== 0\n", 8));
}

/* ---- merges.txt ---- */

static pf_status read_merges(const char *merges, const char *config_text, pf_error *error)
{
    static const char text[] = "{\"a\": 0, \"b\": 1, \"ab\": 2}";
    pf_json vocab = { 0 }, config = { 0 }, made = { 0 };
    const pf_tokenizer_files files = { .config = config_text ? &config : NULL };
    assert_status(pf_json_parse("vocab.json", text, sizeof text - 1, 4096, &vocab, error), PF_OK);
    if (config_text)
        assert_status(pf_json_parse("config", config_text, strlen(config_text), 4096, &config, error), PF_OK);
    const pf_status status =
        pf_vocab_merges_document(&vocab, "merges.txt", merges, strlen(merges), &files, &made, error);
    if (status == PF_OK)
        assert_int_equal(json_array_size(json_object_get(json_object_get(made.root, "model"), "merges")), 1);
    pf_json_close(&made);
    pf_json_close(&vocab);
    pf_json_close(&config);
    return status;
}

static void lines_of_merges_have_two_tokens(void **state)
{
    (void)state;
    static const char *const bad[] = { "a b\nab\n", "a b\na b c\n", "a b\n\xC3 b\n", "a b\na  b\n" };
    pf_error error = { 0 };
    assert_ok(read_merges("#version: 0.2\na b\n", NULL, &error), error);
    assert_ok(read_merges("a b\r\n\r\n", NULL, &error), error);
    assert_ok(read_merges("# b", NULL, &error), error); /* no comment: the merge of a number sign */
    for (size_t i = 0; i < PF_COUNT(bad); i++) {
        assert_status(read_merges(bad[i], NULL, &error), PF_FORMAT);
        assert_says(error, "merges.txt: line 2 must be two tokens");
    }
    assert_status(read_merges("a b", "{\"tokenizer_class\": \"CLIPTokenizer\"}", &error), PF_UNSUPPORTED);
    assert_says(error, "tokenizer_class is CLIPTokenizer");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hostile_lines_are_refused),
        cmocka_unit_test(a_line_that_is_too_long_is_refused),
        cmocka_unit_test(tokens_with_too_many_cuts_end_in_pf_limit),
        cmocka_unit_test(merges_follow_from_ranks),
        cmocka_unit_test(a_file_cut_at_any_byte_is_read_or_refused),
        cmocka_unit_test(a_tokenizer_model_is_told_from_lines),
        cmocka_unit_test(lines_of_merges_have_two_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
