/* Tests the tokens of the files beside tokenizer.json. Expected values are the tokens that AutoTokenizer of transformers 5.23
 * adds for the same files. */
#include <stdlib.h>

#include "tests/support/test.h"
#include "tokenizer/files/tokenizer_config.h"

typedef struct {
    const char *tokenizer; /* NULL: "{}" */
    const char *config, *special_map, *added;
} texts;

typedef struct {
    pf_json documents[4];
    pf_tokenizer_files files;
} parsed;

static const pf_json *parse(const char *name, const char *text, pf_json *out)
{
    pf_error error = { 0 };
    if (!text) return NULL;
    assert_ok(pf_json_parse(name, text, strlen(text), 1 << 20, out, &error), error);
    return out;
}

static parsed *parse_all(texts t)
{
    parsed *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->files.tokenizer = parse("tokenizer.json", t.tokenizer ? t.tokenizer : "{}", &p->documents[0]);
    p->files.config = parse("tokenizer_config.json", t.config, &p->documents[1]);
    p->files.special_map = parse("special_tokens_map.json", t.special_map, &p->documents[2]);
    p->files.added = parse("added_tokens.json", t.added, &p->documents[3]);
    return p;
}

static void close_all(parsed *p)
{
    for (int i = 0; i < 4; i++) pf_json_close(&p->documents[i]);
    free(p);
}

/* Each token as "text:flags ", with S single_word, L lstrip, R rstrip, N normalized, ! special; a bar ends the listed ones. */
static void assert_tokens(texts t, const char *expected)
{
    char got[1024] = "";
    parsed *p = parse_all(t);
    pf_tokenizer_config config = { 0 };
    pf_error error = { 0 };
    assert_ok(pf_tokenizer_config_read(&p->files, &config, &error), error);
    for (size_t i = 0, n = 0; i <= config.n; i++) {
        if (i == config.n_listed) n += (size_t)snprintf(got + n, sizeof got - n, "| ");
        if (i == config.n) break;
        const pf_config_token *token = &config.tokens[i];
        const pf_added_flags f = token->flags;
        n += (size_t)snprintf(got + n, sizeof got - n, "%.*s:%s%s%s%s%s ", (int)token->n_bytes, token->text,
                              f.single_word ? "S" : "", f.lstrip ? "L" : "", f.rstrip ? "R" : "",
                              f.normalized ? "N" : "", f.special ? "!" : "");
        assert_true(n < sizeof got);
    }
    assert_string_equal(got, expected);
    pf_tokenizer_config_clear(&config);
    close_all(p);
}

static void assert_refused(texts t, pf_status status, const char *part)
{
    parsed *p = parse_all(t);
    pf_tokenizer_config config = { .n = 77 };
    pf_error error = { 0 };
    assert_status(pf_tokenizer_config_read(&p->files, &config, &error), status);
    assert_says(error, part);
    assert_int_equal(config.n, 77);
    close_all(p);
}

static void listed_tokens_are_ordered_by_id(void **state)
{
    (void)state;
    assert_tokens((texts){ .config = "{\"added_tokens_decoder\": {"
                                     "\"10\": {\"content\": \"ten\", \"lstrip\": true, \"special\": true},"
                                     "\"9\": {\"content\": \"nine\", \"single_word\": true},"
                                     "\"-1\": {\"content\": \"-\", \"normalized\": false, \"rstrip\": true}}}" },
                  "-:R nine:SN ten:L! | ");
}

static void named_token_is_special(void **state)
{
    (void)state;
    assert_tokens((texts){ .config = "{\"added_tokens_decoder\": {\"1\": {\"content\": \"a\"}, \"2\": {\"content\":"
                                     "\"b\"}}, \"eos_token\": \"b\", \"extra_special_tokens\": [\"a\"]}" },
                  "a:N b:! | b:! a:! ");
    assert_tokens((texts){ .tokenizer = "{\"added_tokens\": [{\"id\": 2, \"content\": \"b\", \"normalized\": true},"
                                        "{\"id\": 1, \"content\": \"a\", \"special\": true}]}",
                           .config = "{\"eos_token\": \"b\"}" },
                  "a:! b:N! | b:! ");
}

static void standard_names_precede_names_of_the_model(void **state)
{
    (void)state;
    assert_tokens((texts){ .config =
                               "{\"image_token\": \"<i>\", \"mask_token\": \"<m>\","
                               "\"video_token\": {\"__type\": \"AddedToken\", \"content\": \"<v>\", \"lstrip\": true},"
                               "\"eos_token\": {\"content\": \"</s>\", \"rstrip\": true, \"special\": false},"
                               "\"bos_token\": \"<s>\", \"pad_token\": null, \"add_bos_token\": true,"
                               "\"max_token\": 5, \"min_token\": {\"content\": 3},"
                               "\"extra_special_tokens\": {\"tool\": \"<t>\", \"image_token\": \"<j>\"}}" },
                  "| <s>:! </s>:R! <m>:! <v>:L! <j>:! <t>:! ");
}

static void repeated_text_keeps_its_flags(void **state)
{
    (void)state;
    assert_tokens((texts){ .config = "{\"bos_token\": \"x\", \"eos_token\": {\"content\": \"x\", \"lstrip\": true},"
                                     "\"pad_token\": \"x\", \"extra_special_tokens\": [\"x\", \"y\", \"y\"]}" },
                  "| x:! x:L! y:! ");
    assert_tokens((texts){ .config = "{\"mask_token\": {\"content\": \"x\", \"lstrip\": true}, \"image_token\": \"x\","
                                     "\"extra_special_tokens\": {\"tool\": {\"content\": \"x\", \"lstrip\": true}}}" },
                  "| x:L! x:! ");
    assert_tokens(
        (texts){ .config = "{\"mask_token\": {\"content\": \"x\", \"lstrip\": true}, \"image_token\": \"x\","
                           "\"extra_special_tokens\": [{\"content\": \"x\", \"lstrip\": true, \"special\": true}]}" },
        "| x:L! x:! x:L! "); /* other flags make it another entry */
}

static void additional_special_tokens_apply_without_extra_special_tokens(void **state)
{
    (void)state;
    assert_tokens((texts){ .config = "{\"additional_special_tokens\": [\"a\"], \"extra_special_tokens\": []}" },
                  "| a:! ");
    assert_tokens((texts){ .config = "{\"additional_special_tokens\": [\"a\"], \"extra_special_tokens\": [\"b\"]}" },
                  "| b:! ");
    assert_tokens(
        (texts){ .config = "{\"additional_special_tokens\": [\"a\"], \"extra_special_tokens\": {\"x\": \"b\"}}" },
        "| b:! a:! ");
    assert_tokens((texts){ .config =
                               "{\"extra_special_tokens\": [{\"content\": \"c\"}, {\"content\": \"d\", \"special\":"
                               "true, \"normalized\": true}]}" },
                  "| c:N d:N! "); /* an entry with flags keeps them */
    assert_tokens((texts){ .config = "{\"extra_special_tokens\": [\"a\"]}",
                           .special_map = "{\"extra_special_tokens\": [{\"content\": \"b\"}],"
                                          "\"additional_special_tokens\": [\"c\"]}" },
                  "| a:! b:! ");
    assert_tokens((texts){ .special_map = "{\"additional_special_tokens\": [\"c\"]}" }, "| c:! ");
}

static void older_files_apply_without_added_tokens_decoder(void **state)
{
    (void)state;
    texts t = { .tokenizer = "{\"added_tokens\": [{\"id\": 7, \"content\": \"own\", \"lstrip\": true}]}",
                .config = "{\"bos_token\": \"<new>\", \"eos_token\": \"</s>\"}",
                .special_map = "{\"bos_token\": {\"content\": \"<old>\", \"lstrip\": true}, \"eos_token\": null}",
                .added = "{\"<old>\": 8, \"plain\": 6, \"lost\": 7}" };
    assert_tokens(t, "plain:N own:LN <old>:! | <old>:L! ");
    t.config = "{\"bos_token\": \"<new>\", \"eos_token\": \"</s>\", \"added_tokens_decoder\": {}}";
    assert_tokens(t, "| <new>:! </s>:! ");
    t.config = NULL;
    assert_tokens(t, "plain:N own:LN <old>:! | <old>:L! ");
}

static void null_in_special_tokens_map_removes_a_name(void **state)
{
    (void)state;
    static const char map[] = "{\"image_token\": null, \"turn_token\": null, \"audio_token\": true}";
    assert_tokens((texts){ .config = "{\"turn_token\": \"<t>\", \"image_token\": {\"__type\": \"AddedToken\","
                                     "\"content\": \"<i>\"}}",
                           .special_map = map },
                  "| <t>:! "); /* a plain text takes precedence over that file */
}

/* A name keeps the position of null or of a value that is no token; a plain text does not. */
static void special_tokens_map_entry_keeps_its_position_in_tokenizer_config(void **state)
{
    (void)state;
    static const char map[] = "{\"image_token\": {\"content\": \"<i>\"}, \"own_token\": \"<o>\"}";
    static const char turn[] = "\"turn_token\": {\"__type\": \"AddedToken\", \"content\": \"<t>\"}";
    char config[128];
    static const char *const first[] = { "null", "3", "{\"content\": \"<j>\"}" };
    for (size_t i = 0; i < PF_COUNT(first); i++) {
        snprintf(config, sizeof config, "{\"image_token\": %s, %s}", first[i], turn);
        assert_tokens((texts){ .config = config, .special_map = map }, "| <i>:! <t>:! <o>:! ");
    }
    snprintf(config, sizeof config, "{\"own_token\": \"<p>\", %s}", turn);
    assert_tokens((texts){ .config = config, .special_map = map }, "| <t>:! <i>:! <p>:! ");
}

static void padding_token_of_tokenizer_json_is_the_pad_token(void **state)
{
    (void)state;
    static const char padding[] = "{\"padding\": {\"pad_token\": \"[PAD]\"}}";
    assert_tokens((texts){ .tokenizer = padding }, "| [PAD]:! ");
    assert_tokens((texts){ .tokenizer = padding, .config = "{\"pad_token\": \"<p>\"}" }, "| <p>:! ");
    assert_tokens((texts){ .tokenizer = padding, .config = "{\"pad_token\": null}" }, "| ");
    assert_tokens((texts){ .tokenizer = "{\"padding\": null}" }, "| ");
}

static void known_classes_have_default_tokens(void **state)
{
    (void)state;
    static const struct {
        const char *config, *tokens;
        pf_prefix_space space;
    } cases[] = {
        { "{\"tokenizer_class\": \"GPT2TokenizerFast\"}", "| <|endoftext|>:! ", PF_PREFIX_SPACE_OFF },
        { "{\"tokenizer_class\": \"GPT2Tokenizer\", \"add_prefix_space\": true, \"bos_token\": \"b\", \"eos_token\": "
          "null,"
          "\"unk_token\": null}",
          "| b:! ", PF_PREFIX_SPACE_ON },
        { "{\"tokenizer_class\": \"Qwen2TokenizerFast\", \"pad_token\": \"p\", \"add_prefix_space\": true}",
          "| <|endoftext|>:! p:! ", PF_PREFIX_SPACE_AS_FILED },
        { "{\"tokenizer_class\": \"CodeGenTokenizer\", \"add_prefix_space\": true}", "| <|endoftext|>:! ",
          PF_PREFIX_SPACE_ON },
        { "{\"tokenizer_class\": \"CohereTokenizerFast\", \"bos_token\": \"b\", \"pad_token\": null}",
          "| b:! <|END_OF_TURN_TOKEN|>:! <UNK>:! <SEP>:! <CLS>:! <MASK_TOKEN>:! ", PF_PREFIX_SPACE_OFF },
        { "{\"tokenizer_class\": \"LlamaTokenizerFast\", \"add_prefix_space\": true}", "| ", PF_PREFIX_SPACE_AS_FILED },
        { "{\"tokenizer_class\": \"GPT2TokenizerFaster\"}", "| ", PF_PREFIX_SPACE_AS_FILED },
        { "{\"tokenizer_class\": null, \"add_prefix_space\": null}", "| ", PF_PREFIX_SPACE_AS_FILED },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        const texts t = { .config = cases[i].config };
        parsed *p = parse_all(t);
        pf_tokenizer_config config = { 0 };
        pf_error error = { 0 };
        assert_tokens(t, cases[i].tokens);
        assert_ok(pf_tokenizer_config_read(&p->files, &config, &error), error);
        assert_int_equal(config.prefix_space, cases[i].space);
        assert_false(config.split_special_tokens);
        pf_tokenizer_config_clear(&config);
        close_all(p);
    }
}

static void malformed_token_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        texts t;
        const char *part;
    } cases[] = {
        { { .config = "{\"bos_token\": 1}" }, "tokenizer_config.json: bos_token must be the text of a token" },
        { { .config = "{\"bos_token\": {\"content\": null}}" }, "bos_token" },
        { { .config = "{\"bos_token\": {\"content\": \"a\", \"lstrip\": 1}}" },
          "tokenizer_config.json: the added token \"a\": lstrip is 1, expected true or false" },
        { { .config = "{\"extra_special_tokens\": \"a\"}" }, "extra_special_tokens must be a list" },
        { { .config = "{\"extra_special_tokens\": [[]]}" }, "extra_special_tokens must be the text" },
        { { .config = "{\"extra_special_tokens\": {\"x\": null}}" }, "tokenizer_config.json: x must" },
        { { .config = "{\"additional_special_tokens\": {}}" }, "additional_special_tokens must be a list of tokens" },
        { { .config = "{\"added_tokens_decoder\": null}" }, "added_tokens_decoder must be an object" },
        { { .config = "{\"added_tokens_decoder\": {\"x\": {\"content\": \"a\"}}}" }, "\"x\" must be an id" },
        { { .config = "{\"added_tokens_decoder\": {\"\": {\"content\": \"a\"}}}" }, "\"\" must be an id" },
        { { .config = "{\"added_tokens_decoder\": {\"99999999999999999999\": {\"content\": \"a\"}}}" },
          "must be an id" },
        { { .config = "{\"added_tokens_decoder\": {\"1\": \"a\"}}" }, "\"1\" must be an id, and an object" },
        { { .config = "{\"added_tokens_decoder\": {\"1\": {}}}" }, "a token of added_tokens_decoder" },
        { { .config = "{\"split_special_tokens\": \"no\"}" }, "split_special_tokens is \"no\"" },
        { { .config = "{\"tokenizer_class\": []}" }, "tokenizer_class is an array" },
        { { .special_map = "{\"bos_token\": []}" }, "special_tokens_map.json: bos_token" },
        { { .special_map = "{\"additional_special_tokens\": 3}" }, "special_tokens_map.json: additional_special" },
        { { .added = "{\"a\": \"1\"}" }, "added_tokens.json: \"a\" must have an id" },
        { { .tokenizer = "{\"padding\": {\"pad_token\": 0}}" }, "tokenizer.json: pad_token" },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) assert_refused(cases[i].t, PF_FORMAT, cases[i].part);
    assert_refused((texts){ .config = "{\"fast_tokenizer_files\": [\"tokenizer.json\", \"tokenizer.4.0.json\"]}" },
                   PF_UNSUPPORTED, "fast_tokenizer_files has \"tokenizer.4.0.json\"");
}

static void too_many_names_are_refused(void **state)
{
    (void)state;
    enum { N = 300 };
    static char text[N * 32];
    size_t n = (size_t)snprintf(text, sizeof text, "{");
    for (int i = 0; i < N; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s\"%d_token\": \"a\"", i ? "," : "", i);
    snprintf(text + n, sizeof text - n, "}");
    assert_refused((texts){ .config = text }, PF_UNSUPPORTED, "more than 256 tokens have names");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(listed_tokens_are_ordered_by_id),
        cmocka_unit_test(named_token_is_special),
        cmocka_unit_test(standard_names_precede_names_of_the_model),
        cmocka_unit_test(repeated_text_keeps_its_flags),
        cmocka_unit_test(additional_special_tokens_apply_without_extra_special_tokens),
        cmocka_unit_test(older_files_apply_without_added_tokens_decoder),
        cmocka_unit_test(null_in_special_tokens_map_removes_a_name),
        cmocka_unit_test(special_tokens_map_entry_keeps_its_position_in_tokenizer_config),
        cmocka_unit_test(padding_token_of_tokenizer_json_is_the_pad_token),
        cmocka_unit_test(known_classes_have_default_tokens),
        cmocka_unit_test(malformed_token_is_refused_by_name),
        cmocka_unit_test(too_many_names_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
