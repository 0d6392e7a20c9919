#include <jansson.h>
#include <math.h>
#include <stdlib.h>

#include "tests/support/gguf_writer.h"
#include "tests/support/small_tokenizer.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/unicode/byte_to_unicode.h"
#include "tokenizer/unicode/character_bytes.h"

enum { MAX_TOKENS = 1024 };

static pf_temp_dir dir;

static int make_dir(void **state)
{
    (void)state;
    pf_temp_dir_make(&dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    pf_temp_dir_remove(&dir);
    return 0;
}

static void save(gguf_writer *w)
{
    pf_bytes out = { .data = NULL };
    gguf_print(w, 3, &out);
    pf_temp_write(&dir, "model.gguf", out.data, out.n);
    pf_bytes_clear(&out);
    gguf_writer_clear(w);
    *w = (gguf_writer){ .n_keys = 0 };
}

static pf_tokenizer *open_saved(void)
{
    char path[PF_TEMP_PATH_BYTES];
    pf_tokenizer *t = NULL;
    pf_error error = { 0 };
    assert_ok(pf_tokenizer_open(pf_temp_path(&dir, "model.gguf", path), &t, &error), error);
    return t;
}

static void assert_refused(gguf_writer *w, pf_status status, const char *part)
{
    char path[PF_TEMP_PATH_BYTES];
    pf_tokenizer *t = NULL;
    pf_error error = { 0 };
    save(w);
    assert_status(pf_tokenizer_open(pf_temp_path(&dir, "model.gguf", path), &t, &error), status);
    assert_says(error, part);
    assert_says(error, "model.gguf");
}

static json_t *load(const char *path)
{
    json_error_t why;
    json_t *root = json_load_file(path, JSON_ALLOW_NUL, &why);
    assert_non_null(root);
    return root;
}

static void put_merges(gguf_writer *w, const json_t *merges)
{
    const size_t n = json_array_size(merges);
    char **texts = calloc(n, sizeof *texts);
    assert_non_null(texts);
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(merges, i);
        texts[i] = json_is_string(item) ? strdup(json_string_value(item)) : malloc(256);
        if (!json_is_string(item))
            snprintf(texts[i], 256, "%s %s", json_string_value(json_array_get(item, 0)),
                     json_string_value(json_array_get(item, 1)));
    }
    gguf_put_strings(w, "tokenizer.ggml.merges", (const char *const *)texts, n);
    for (size_t i = 0; i < n; i++) free(texts[i]);
    free(texts);
}

/* Writes a byte-level tokenizer.json as llama.cpp's converter does. */
static void put_tokenizer(gguf_writer *w, const json_t *root, const char *pre)
{
    const char *texts[MAX_TOKENS], *text;
    int32_t types[MAX_TOKENS], n = 0;
    json_t *value;
    const json_t *model = json_object_get(root, "model"), *added = json_object_get(root, "added_tokens");
    json_object_foreach(json_object_get(model, "vocab"), text, value)
    {
        texts[json_integer_value(value)] = text;
        types[json_integer_value(value)] = 1;
        n++;
    }
    for (size_t i = 0; i < json_array_size(added); i++, n++) {
        const json_t *token = json_array_get(added, i);
        assert_int_equal(json_integer_value(json_object_get(token, "id")), n);
        texts[n] = json_string_value(json_object_get(token, "content"));
        types[n] = json_is_true(json_object_get(token, "special")) ? 3 : 4;
    }
    gguf_put_string(w, "tokenizer.ggml.model", "gpt2");
    gguf_put_string(w, "tokenizer.ggml.pre", pre);
    gguf_put_strings(w, "tokenizer.ggml.tokens", texts, (size_t)n);
    gguf_put_i32s(w, "tokenizer.ggml.token_type", types, (size_t)n);
    put_merges(w, json_object_get(model, "merges"));
}

static void check_ids(const pf_tokenizer *t, const char *name, const json_t *texts, const json_t *expected,
                      bool special)
{
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const json_t *text = json_array_get(texts, i), *ids = json_array_get(expected, i);
        if (strstr(json_string_value(text), "caf\u00e9"))
            continue; /* an added token with a flag that GGUF does not keep */
        pf_tokens got = encode_bytes(t, json_string_value(text), json_string_length(text), special);
        bool same = (size_t)got.n == json_array_size(ids);
        for (int32_t k = 0; same && k < got.n; k++)
            same = got.ids[k] == json_integer_value(json_array_get(ids, (size_t)k));
        if (!same) fail_msg("%s: text %zu has other ids: \"%.60s\"", name, i, json_string_value(text));
        pf_tokens_clear(&got);
    }
}

static void byte_level_files_give_the_ids_of_tokenizer_json(void **state)
{
    (void)state;
    static const struct {
        const char *json, *pre;
    } cases[] = { { "gpt2", "gpt-2" },  { "llama3", "llama-bpe" },     { "o200k", "gpt-4o" },
                  { "qwen2", "qwen2" }, { "deepseek", "deepseek-v3" }, { "falcon", "falcon" } };
    json_t *golden = load("tests/golden/tokenizer/expected.json");
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        char path[128];
        snprintf(path, sizeof path, "tests/golden/tokenizer/%s.json", cases[i].json);
        json_t *root = load(path);
        gguf_writer w = { .n_keys = 0 };
        put_tokenizer(&w, root, cases[i].pre);
        gguf_put_int(&w, "tokenizer.ggml.bos_token_id", PF_GGUF_U32, 384);
        gguf_put_int(&w, "tokenizer.ggml.add_bos_token", PF_GGUF_BOOL, strcmp(cases[i].json, "llama3") == 0);
        save(&w);
        pf_tokenizer *t = open_saved();
        const json_t *expected = json_object_get(json_object_get(golden, "cases"), cases[i].json);
        check_ids(t, cases[i].json, json_object_get(golden, "texts"), json_object_get(expected, "plain"), false);
        if (strcmp(cases[i].json, "llama3") == 0)
            check_ids(t, cases[i].json, json_object_get(golden, "texts"), json_object_get(expected, "special"), true);
        pf_tokenizer_close(t);
        json_decref(root);
    }
    json_decref(golden);
}

/* A vocabulary of the bytes and one pair of them. */
static void put_pair(gguf_writer *w, const char *pre, const char *left, const char *right)
{
    char texts[257][8], pair[16];
    const char *list[257], *merge = pair;
    for (int b = 0; b < 256; b++) {
        texts[b][pf_character_put(pf_byte_to_unicode((unsigned char)b), texts[b])] = '\0';
        list[b] = texts[b];
    }
    snprintf(texts[256], sizeof texts[256], "%s%s", left, right);
    list[256] = texts[256];
    snprintf(pair, sizeof pair, "%s %s", left, right);
    gguf_put_string(w, "tokenizer.ggml.model", "gpt2");
    gguf_put_string(w, "tokenizer.ggml.pre", pre);
    gguf_put_strings(w, "tokenizer.ggml.tokens", list, 257);
    gguf_put_strings(w, "tokenizer.ggml.merges", &merge, 1);
}

/* A pair that stands in one piece is merged, one that is cut apart is not. "\u0120" is a space, "\u010A" a line end. */
static void pre_tokenizers_cut_as_their_names_say(void **state)
{
    (void)state;
    static const struct {
        const char *pre, *left, *right, *text;
        bool merged;
    } cases[] = {
        { "llama-bpe", "1", "2", "x1234", true },
        { "superbpe", "1", "2", "x1234", false },
        { "superbpe", "2", "3", "x1234", true },
        { "tiny_aya", "1", "2", "1234", false },
        { "tiny_aya", "2", "3", "1234", true },
        { "qwen2", "1", "2", "1234", false },
        { "minicpm5", "3", "4", "1234", false },
        { "minicpm5", "2", "3", "1234", true },
        { "qwen2", "b", "\u0120", "ab c", false },
        { "exaone-moe", "b", "\u0120", "ab c", true },
        { "ufakzeka", "'", "s", "a'se", true },
        { "qwen2", "s", "e", "a'se", false },
        { "bailingmoe", "\u010A", "\u010A", "a\n\nb", true },
        { "qwen2", "\u010A", "\u010A", "a\n\nb", true },
        { "seed-coder", "!", "\u010A", "!\nb", false },
        { "qwen2", "!", "\u010A", "!\nb", true },
        { "laguna", "!", "\u010A", "!\nb", false },
        { "spark2_5", "\u010A", "\u010A", "a\n\nb", false },
        { "jais-2", "\u0120", "\u0120", "    a", true },
        { "youtu", "1", "2", "12", false },
        { "hy_v4", "1", "2", "12", true },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        gguf_writer w = { .n_keys = 0 };
        put_pair(&w, cases[i].pre, cases[i].left, cases[i].right);
        save(&w);
        pf_tokenizer *t = open_saved();
        pf_tokens ids = encode(t, cases[i].text);
        bool merged = false;
        for (int32_t k = 0; k < ids.n; k++) merged = merged || ids.ids[k] == 256;
        if (merged != cases[i].merged) fail_msg("%s: \"%s\" (case %zu)", cases[i].pre, cases[i].text, i);
        pf_tokens_clear(&ids);
        pf_tokenizer_close(t);
    }
}

static void qwen2_composes_characters(void **state)
{
    (void)state;
    json_t *root = load("tests/golden/tokenizer/qwen2.json");
    gguf_writer w = { .n_keys = 0 };
    put_tokenizer(&w, root, "qwen2");
    save(&w);
    pf_tokenizer *t = open_saved();
    pf_tokens one = encode(t, "\u00f1"), two = encode(t, "n\u0303");
    assert_int_equal(one.n, two.n);
    assert_memory_equal(one.ids, two.ids, (size_t)one.n * sizeof *one.ids);
    pf_tokens_clear(&one);
    pf_tokens_clear(&two);
    pf_tokenizer_close(t);
    json_decref(root);
}

static void sentencepiece_files_give_the_ids_of_sentencepiece(void **state)
{
    (void)state;
    static const char *const names[] = { "prefix", "plain" };
    json_t *golden = load("tests/golden/gguf_tokenizer/expected.json");
    for (size_t i = 0; i < PF_COUNT(names); i++) {
        char path[128];
        pf_tokenizer *t = NULL;
        pf_error error = { 0 };
        snprintf(path, sizeof path, "tests/golden/gguf_tokenizer/%s.gguf", names[i]);
        assert_ok(pf_tokenizer_open(path, &t, &error), error);
        check_ids(t, names[i], json_object_get(golden, "texts"), json_object_get(golden, names[i]), false);
        const json_t *texts = json_object_get(golden, "texts");
        for (size_t k = 0; k < json_array_size(texts); k++) { /* and the text comes back */
            pf_tokens ids = encode(t, json_string_value(json_array_get(texts, k)));
            pf_bytes text = decode(t, &ids);
            assert_int_equal(text.n, json_string_length(json_array_get(texts, k)));
            pf_bytes_clear(&text);
            pf_tokens_clear(&ids);
        }
        pf_tokens with_bos = encode_bytes(t, "a", 1, true);
        assert_int_equal(with_bos.ids[0], 1);
        pf_tokens_clear(&with_bos);
        pf_tokenizer_close(t);
    }
    json_decref(golden);
}

static void control_tokens_are_special_and_padding_is_no_token(void **state)
{
    (void)state;
    static const char *const texts[] = { "a", "<end>", "<tool>", "[PAD3]", "b" };
    static const int32_t types[] = { 1, 3, 4, 5, 1 };
    gguf_writer w = { .n_keys = 0 };
    gguf_put_string(&w, "tokenizer.ggml.model", "gpt2");
    gguf_put_string(&w, "tokenizer.ggml.pre", "gpt-2");
    gguf_put_strings(&w, "tokenizer.ggml.tokens", texts, 5);
    gguf_put_i32s(&w, "tokenizer.ggml.token_type", types, 5);
    gguf_put_strings(&w, "tokenizer.ggml.merges", NULL, 0);
    save(&w);
    pf_tokenizer *t = open_saved();
    size_t n;
    assert_int_equal(pf_tokenizer_vocab_size(t), 5);
    assert_true(pf_tokenizer_is_special(t, 1));
    assert_false(pf_tokenizer_is_special(t, 2));
    assert_null(pf_tokenizer_token_bytes(t, 3, &n));
    assert_ids(t, "a<end><tool>b", (const int32_t[]){ 0, 1, 2, 4 }, 4);
    pf_tokenizer_close(t);
}

static void put_model(gguf_writer *w, const char *model, const char *pre, const char *const *texts, size_t n)
{
    gguf_put_string(w, "tokenizer.ggml.model", model);
    gguf_put_string(w, "tokenizer.ggml.pre", pre);
    gguf_put_strings(w, "tokenizer.ggml.tokens", texts, n);
}

static void metadata_that_cannot_be_read_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = { "a", "b" }, *const twice[] = { "a", "a" }, *const raw[] = { "a", "\xFF" };
    static const char *const merge[] = { "ab" }, *const unknown[] = { "a c" };
    static const float scores[] = { 0.0f, NAN };
    gguf_writer w = { .n_keys = 0 };
    assert_refused(&w, PF_UNAVAILABLE, "no tokenizer");
    put_model(&w, "bert", "x", texts, 2);
    assert_refused(&w, PF_UNSUPPORTED, "tokenizer.ggml.model is \"bert\"");
    put_model(&w, "gpt2", "of-tomorrow", texts, 2);
    assert_refused(&w, PF_UNSUPPORTED,
                   "tokenizer.ggml.pre is \"of-tomorrow\", which is not known (known are llama-bpe, dbrx, qwen2, ");
    put_model(&w, "t5", "", texts, 2);
    assert_refused(&w, PF_FORMAT, "no tokenizer.ggml.scores");
    put_model(&w, "t5", "", texts, 2);
    gguf_put_f32s(&w, "tokenizer.ggml.scores", (const float[]){ 0.0f, 0.0f }, 2);
    gguf_put_strings(&w, "tokenizer.ggml.precompiled_charsmap", merge, 1);
    assert_refused(&w, PF_FORMAT, "tokenizer.ggml.precompiled_charsmap has elements of type string, expected integers");
    put_model(&w, "gpt2", "gpt-2", texts, 2);
    assert_refused(&w, PF_FORMAT, "no tokenizer.ggml.merges");
    put_model(&w, "gpt2", "gpt-2", twice, 2);
    assert_refused(&w, PF_FORMAT, "tokens[1] is \"a\", as token 0 is");
    put_model(&w, "gpt2", "gpt-2", raw, 2);
    assert_refused(&w, PF_FORMAT, "tokens[1] is not UTF-8");
    put_model(&w, "gpt2", "gpt-2", texts, 2);
    gguf_put_strings(&w, "tokenizer.ggml.merges", merge, 1);
    assert_refused(&w, PF_FORMAT, "merges[0]");
    put_model(&w, "gpt2", "gpt-2", texts, 2);
    gguf_put_strings(&w, "tokenizer.ggml.merges", unknown, 1);
    assert_refused(&w, PF_FORMAT, "merges[0]");
    put_model(&w, "llama", "", texts, 2);
    assert_refused(&w, PF_FORMAT, "no tokenizer.ggml.scores");
    put_model(&w, "llama", "", texts, 2);
    gguf_put_f32s(&w, "tokenizer.ggml.scores", scores, 1);
    assert_refused(&w, PF_FORMAT, "1 numbers for 2 tokens");
    put_model(&w, "llama", "", texts, 2);
    gguf_put_f32s(&w, "tokenizer.ggml.scores", scores, 2);
    assert_refused(&w, PF_FORMAT, "tokenizer.ggml.scores[1]");
    put_model(&w, "llama", "", texts, 2);
    gguf_put_f32s(&w, "tokenizer.ggml.scores", (const float[]){ 0.0f, 0.0f }, 2);
    gguf_put_int(&w, "tokenizer.ggml.bos_token_id", PF_GGUF_U32, 2);
    assert_refused(&w, PF_FORMAT, "bos_token_id is 2, which is no token");
}

static void a_long_token_does_not_take_long(void **state)
{
    (void)state;
    enum { LENGTH = 200000 };
    char *text = malloc(LENGTH + 1);
    assert_non_null(text);
    memset(text, 'a', LENGTH);
    text[LENGTH] = '\0';
    const char *const texts[] = { "a", text };
    gguf_writer w = { .n_keys = 0 };
    put_model(&w, "llama", "", texts, 2);
    gguf_put_f32s(&w, "tokenizer.ggml.scores", (const float[]){ 0.0f, 0.0f }, 2);
    assert_refused(&w, PF_LIMIT, "too long");
    free(text);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, make_dir, remove_dir)
    const struct CMUnitTest tests[] = {
        T(byte_level_files_give_the_ids_of_tokenizer_json),
        T(pre_tokenizers_cut_as_their_names_say),
        T(qwen2_composes_characters),
        T(sentencepiece_files_give_the_ids_of_sentencepiece),
        T(control_tokens_are_special_and_padding_is_no_token),
        T(metadata_that_cannot_be_read_are_refused),
        T(a_long_token_does_not_take_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
