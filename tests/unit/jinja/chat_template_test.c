/* The chat template of a directory: where it is found, and which variables it sees. */
#include "tests/support/test.h"

#include <stdio.h>
#include <string.h>

#include "jinja/chat_template.h"
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_template_sees_messages_tokens_and_variables, make_directory,
                                        remove_directory),
        cmocka_unit_test_setup_teardown(a_list_of_templates_has_one_for_tools, make_directory, remove_directory),
        cmocka_unit_test_setup_teardown(a_template_file_precedes_the_tokenizer_config, make_directory,
                                        remove_directory),
        cmocka_unit_test_setup_teardown(what_is_no_template_or_no_conversation_is_refused, make_directory,
                                        remove_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
