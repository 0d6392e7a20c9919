/* The chat template of a directory: where it is found, and which variables it sees. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "jinja/chat_template.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/temp_dir.h"

static const char MESSAGES[] = "[{\"role\": \"user\", \"content\": \"Hi\"}]";
static const char TOOLS[] =
    "{\"messages\": [], \"tools\": [{\"name\": \"f\"}], \"add_generation_prompt\": false, \"x\": 1}";

static void write_text(const char *directory, const char *name, const char *text)
{
    pf_temp_dir dir;
    snprintf(dir.path, sizeof dir.path, "%s", directory);
    pf_temp_write(&dir, name, text, strlen(text));
}

static int make_directory(void **state)
{
    static pf_temp_dir dir;
    pf_temp_dir_make(&dir);
    *state = dir.path;
    return 0;
}

static int remove_directory(void **state)
{
    pf_temp_dir dir;
    snprintf(dir.path, sizeof dir.path, "%s", (const char *)*state);
    pf_temp_dir_remove(&dir);
    return 0;
}

static void assert_renders(const char *directory, const char *conversation, const char *expected)
{
    pf_chat_template *chat = NULL;
    pf_error error = { 0 };
    pf_bytes out = { .n = 0 };
    json_t *parsed = json_loads(conversation, 0, NULL);
    assert_int_equal(pf_chat_template_open(directory, &chat, &error), PF_OK);
    assert_int_equal(pf_chat_template_render(chat, parsed, &out, &error), PF_OK);
    assert_int_equal(out.n, strlen(expected));
    assert_memory_equal(out.data, expected, out.n);
    pf_bytes_clear(&out);
    json_decref(parsed);
    pf_chat_template_close(chat);
}

static void a_template_sees_messages_tokens_and_variables(void **state)
{
    const char *directory = *state;
    write_text(directory, "special_tokens_map.json", "{\"eos_token\": \"</a>\", \"bos_token\": \"<a>\"}");
    write_text(directory, "tokenizer_config.json",
               "{\"bos_token\": {\"content\": \"<s>\"}, \"chat_template\": \"{{ bos_token }}{{ eos_token }}"
               "{% for m in messages %}{{ m.role }}:{{ m.content }}{% endfor %}{{ tools is none }}"
               "{{ add_generation_prompt }}{{ x }}\"}");
    assert_renders(directory, MESSAGES, "<s></a>user:HiTrueTrue");
    assert_renders(directory, TOOLS, "<s></a>FalseFalse1");
}

static void a_list_of_templates_has_one_for_tools(void **state)
{
    const char *directory = *state;
    write_text(directory, "tokenizer_config.json",
               "{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"tools\"}, "
               "{\"name\": \"default\", \"template\": \"plain\"}]}");
    assert_renders(directory, MESSAGES, "plain");
    assert_renders(directory, TOOLS, "tools");
}

static void a_template_file_precedes_the_tokenizer_config(void **state)
{
    const char *directory = *state;
    write_text(directory, "tokenizer_config.json", "{\"chat_template\": \"config\"}");
    write_text(directory, "chat_template.json", "{\"chat_template\": \"processor\"}");
    assert_renders(directory, MESSAGES, "processor");
    write_text(directory, "chat_template.jinja", "file\n");
    assert_renders(directory, MESSAGES, "file");
}

static void assert_refused(const char *directory, const char *conversation, pf_status expected, const char *sentence)
{
    pf_chat_template *chat = NULL;
    pf_error error = { 0 };
    pf_bytes out = { .n = 0 };
    json_t *parsed = json_loads(conversation, JSON_DECODE_ANY, NULL);
    pf_status status = pf_chat_template_open(directory, &chat, &error);
    if (status == PF_OK) status = pf_chat_template_render(chat, parsed, &out, &error);
    if (status != expected || strstr(error.text, sentence) == NULL)
        fail_msg("status %d, \"%s\"; expected %d, \"%s\"", status, error.text, expected, sentence);
    pf_bytes_clear(&out);
    json_decref(parsed);
    pf_chat_template_close(chat);
}

static void what_is_no_template_or_no_conversation_is_refused(void **state)
{
    const char *directory = *state;
    assert_refused(directory, MESSAGES, PF_UNAVAILABLE, "no chat template");
    write_text(directory, "tokenizer_config.json", "{\"chat_template\": 5}");
    assert_refused(directory, MESSAGES, PF_FORMAT, "chat_template must be a text");
    write_text(directory, "tokenizer_config.json", "{\"chat_template\": []}");
    assert_refused(directory, MESSAGES, PF_FORMAT, "named \"default\"");
    write_text(directory, "tokenizer_config.json", "{\"chat_template\": \"{% if %}\"}");
    assert_refused(directory, MESSAGES, PF_FORMAT, "tokenizer_config.json, line 1");
    write_text(directory, "tokenizer_config.json", "{\"chat_template\": \"x\"}");
    assert_refused(directory, "{\"tools\": []}", PF_FORMAT, "a conversation must be");
    assert_refused(directory, "\"Hi\"", PF_FORMAT, "a conversation must be");
}

/* Writes DIRECTORY/model.gguf. */
static const char *write_gguf(const char *directory, gguf_writer *w, char path[300])
{
    pf_temp_dir dir;
    pf_bytes out = { .data = NULL };
    gguf_print(w, 3, &out);
    snprintf(dir.path, sizeof dir.path, "%s", directory);
    pf_temp_write(&dir, "model.gguf", out.data, out.n);
    pf_bytes_clear(&out);
    gguf_writer_clear(w);
    *w = (gguf_writer){ .n_keys = 0 };
    snprintf(path, 300, "%s/model.gguf", directory);
    return path;
}

static void put_tokens(gguf_writer *w)
{
    static const char *const tokens[] = { "<unk>", "<s>", "</s>", "\xff" };
    gguf_put_strings(w, "tokenizer.ggml.tokens", tokens, 4);
    gguf_put_int(w, "tokenizer.ggml.bos_token_id", PF_GGUF_U32, 1);
    gguf_put_int(w, "tokenizer.ggml.eos_token_id", PF_GGUF_U32, 2);
    gguf_put_int(w, "tokenizer.ggml.padding_token_id", PF_GGUF_U32, 4);
    gguf_put_int(w, "tokenizer.ggml.unknown_token_id", PF_GGUF_U32, 3);
}

static void a_gguf_file_has_templates_and_tokens_in_its_metadata(void **state)
{
    char path[300];
    gguf_writer w = { .n_keys = 0 };
    put_tokens(&w);
    gguf_put_string(&w, "tokenizer.chat_template",
                    "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}{{ pad_token is defined }}"
                    "{{ unk_token is defined }}");
    gguf_put_string(&w, "tokenizer.chat_template.tool_use", "tools");
    assert_renders(write_gguf(*state, &w, path), MESSAGES, "<s>Hi</s>FalseFalse");
    assert_renders(path, TOOLS, "tools");
    gguf_put_string(&w, "tokenizer.chat_template.default", "the default");
    assert_renders(write_gguf(*state, &w, path), MESSAGES, "the default");
}

static void a_template_of_another_file_sees_the_tokens_of_a_gguf_file(void **state)
{
    char path[300], file[300];
    gguf_writer w = { .n_keys = 0 };
    pf_chat_template *chat = NULL;
    pf_error error = { 0 };
    pf_bytes out = { .n = 0 };
    put_tokens(&w);
    write_gguf(*state, &w, path);
    write_text(*state, "other.jinja", "{{ bos_token }}!");
    snprintf(file, sizeof file, "%s/other.jinja", (const char *)*state);
    assert_int_equal(pf_chat_template_open_file(path, file, &chat, &error), PF_OK);
    json_t *messages = json_array();
    assert_int_equal(pf_chat_template_render(chat, messages, &out, &error), PF_OK);
    assert_int_equal(out.n, 4);
    assert_memory_equal(out.data, "<s>!", 4);
    pf_bytes_clear(&out);
    json_decref(messages);
    pf_chat_template_close(chat);
}

static void a_gguf_file_without_a_valid_template_is_refused(void **state)
{
    char path[300];
    gguf_writer w = { .n_keys = 0 };
    put_tokens(&w);
    assert_refused(write_gguf(*state, &w, path), MESSAGES, PF_UNAVAILABLE, "no tokenizer.chat_template");
    gguf_put_string(&w, "tokenizer.chat_template", "{% if %}");
    assert_refused(write_gguf(*state, &w, path), MESSAGES, PF_FORMAT, "model.gguf: tokenizer.chat_template, line 1");
    gguf_put_int(&w, "tokenizer.chat_template", PF_GGUF_U32, 5);
    assert_refused(write_gguf(*state, &w, path), MESSAGES, PF_FORMAT, "is of type u32, expected string");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_template_sees_messages_tokens_and_variables, make_directory,
                                        remove_directory),
        cmocka_unit_test_setup_teardown(a_list_of_templates_has_one_for_tools, make_directory, remove_directory),
        cmocka_unit_test_setup_teardown(a_template_file_precedes_the_tokenizer_config, make_directory,
                                        remove_directory),
        cmocka_unit_test_setup_teardown(a_gguf_file_has_templates_and_tokens_in_its_metadata, make_directory,
                                        remove_directory),
        cmocka_unit_test_setup_teardown(a_template_of_another_file_sees_the_tokens_of_a_gguf_file, make_directory,
                                        remove_directory),
        cmocka_unit_test_setup_teardown(a_gguf_file_without_a_valid_template_is_refused, make_directory,
                                        remove_directory),
        cmocka_unit_test_setup_teardown(what_is_no_template_or_no_conversation_is_refused, make_directory,
                                        remove_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
