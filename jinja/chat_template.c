#include "jinja/chat_template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "gguf/gguf.h"
#include "jinja/jinja.h"

enum { MAX_CONFIG_BYTES = 1 << 26 }; /* of tokenizer_config.json, which may list a vocabulary's added tokens */

struct pf_chat_template {
    pf_jinja *plain, *with_tools; /* with_tools NULL: there is one template for all */
    json_t *tokens;               /* bos_token, eos_token, ...: texts */
};

/* ---- the template ---------------------------------------------------------------------------------------------------- */

static pf_status parse(const char *name, const json_t *source, pf_jinja **out, pf_error *error)
{
    return pf_jinja_parse(name, json_string_value(source), json_string_length(source), out, error);
}

/* The template of a name in a list of {"name", "template"}; NULL: there is none. */
static const json_t *named(const json_t *list, const char *name)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i), *source = json_object_get(item, "template");
        const char *text = json_string_value(json_object_get(item, "name"));
        if (text != NULL && strcmp(text, name) == 0 && json_is_string(source)) return source;
    }
    return NULL;
}

/* The templates of a document with "chat_template"; none where it has none. */
static pf_status read_document(pf_chat_template *chat, const pf_json *doc, pf_error *error)
{
    const json_t *source = json_object_get(doc->root, "chat_template");
    if (source == NULL || json_is_null(source)) return PF_OK;
    if (json_is_array(source)) {
        const json_t *tool_use = named(source, "tool_use"), *list = source;
        source = named(list, "default");
        if (source == NULL)
            return pf_fail(error, PF_FORMAT, "%s: chat_template lists no template that is named \"default\"",
                           doc->name);
        if (tool_use != NULL) PF_TRY(parse(doc->name, tool_use, &chat->with_tools, error));
    }
    if (!json_is_string(source))
        return pf_fail(error, PF_FORMAT, "%s: chat_template must be a text, or a list of named ones", doc->name);
    return parse(doc->name, source, &chat->plain, error);
}

/* Where it may be absent, that is no failure. */
static pf_status read_jinja_file(pf_chat_template *chat, const char *path, bool may_be_absent, pf_error *error)
{
    char *source = NULL;
    size_t n_bytes = 0;
    pf_error why = { 0 };
    const pf_status read = pf_file_read(path, PF_JINJA_MAX_SOURCE, &source, &n_bytes, &why);
    if (read == PF_UNAVAILABLE && may_be_absent) return PF_OK;
    if (read != PF_OK) return pf_fail(error, read, "%s", why.text);
    const pf_status status = pf_jinja_parse(path, source, n_bytes, &chat->plain, error);
    free(source);
    return status;
}

/* A document that may be absent: its root is NULL then. */
static pf_status open_optional(const char *directory, const char *name, pf_json *out, pf_error *error)
{
    char path[PF_FILE_PATH_BYTES];
    pf_error why = { 0 };
    PF_TRY(pf_file_join(directory, name, path, error));
    const pf_status status = pf_json_open(path, MAX_CONFIG_BYTES, out, &why);
    if (status == PF_OK || status == PF_UNAVAILABLE) return PF_OK;
    return pf_fail(error, status, "%s", why.text);
}

/* ---- the special tokens ---------------------------------------------------------------------------------------------- */

/* The text of a token: a string, or an object with "content". */
static json_t *token_text(json_t *node)
{
    return json_is_object(node) ? json_object_get(node, "content") : node;
}

static void take_tokens(pf_chat_template *chat, const pf_json *doc)
{
    static const char *const names[] = { "bos_token", "eos_token", "unk_token", "sep_token",
                                         "pad_token", "cls_token", "mask_token" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        json_t *text = token_text(json_object_get(doc->root, names[i]));
        if (json_is_string(text)) (void)json_object_set(chat->tokens, names[i], text);
    }
}

static pf_status read_configs(pf_chat_template *chat, const char *directory, pf_json *processor, pf_json *map,
                              pf_json *config, pf_error *error)
{
    PF_TRY(open_optional(directory, "chat_template.json", processor, error));
    PF_TRY(open_optional(directory, "special_tokens_map.json", map, error));
    PF_TRY(open_optional(directory, "tokenizer_config.json", config, error));
    if (chat->plain == NULL) PF_TRY(read_document(chat, processor, error));
    if (chat->plain == NULL) PF_TRY(read_document(chat, config, error));
    take_tokens(chat, map);
    take_tokens(chat, config); /* it has the last word */
    return PF_OK;
}

static pf_status read_directory(pf_chat_template *chat, const char *directory, pf_error *error)
{
    char path[PF_FILE_PATH_BYTES];
    pf_json processor = { 0 }, map = { 0 }, config = { 0 };
    PF_TRY(pf_file_join(directory, "chat_template.jinja", path, error));
    pf_status status = chat->plain == NULL ? read_jinja_file(chat, path, true, error) : PF_OK;
    if (status == PF_OK) status = read_configs(chat, directory, &processor, &map, &config, error);
    if (status == PF_OK && chat->plain == NULL)
        status = pf_fail(error, PF_UNAVAILABLE,
                         "%s: no chat template: neither chat_template.jinja nor chat_template.json is there, and "
                         "tokenizer_config.json has no chat_template",
                         directory);
    pf_json_close(&processor);
    pf_json_close(&map);
    pf_json_close(&config);
    return status;
}

/* ---- the metadata of a GGUF file ------------------------------------------------------------------------------------- */

/* The template of a key; *out stays NULL where it is absent. */
static pf_status parse_key(const pf_gguf *file, const char *key, pf_jinja **out, pf_error *error)
{
    char name[PF_FILE_PATH_BYTES];
    pf_gguf_string source = { NULL, 0 };
    PF_TRY(pf_gguf_get_string(file, key, false, &source, error));
    if (source.text == NULL) return PF_OK;
    snprintf(name, sizeof name, "%s: %s", pf_gguf_path(file), key);
    return pf_jinja_parse(name, source.text, source.n_bytes, out, error);
}

/* Sets the text of a token whose id is the value of a key. */
static pf_status take_gguf_token(pf_chat_template *chat, const pf_gguf *file, const char *key, const char *name,
                                 pf_error *error)
{
    pf_gguf_array tokens = { .n = 0 };
    int64_t id = -1;
    PF_TRY(pf_gguf_get_int(file, key, false, 0, INT64_MAX, &id, error));
    PF_TRY(pf_gguf_get_array(file, "tokenizer.ggml.tokens", false, &tokens, error));
    if (id < 0 || (uint64_t)id >= tokens.n || tokens.kind != PF_GGUF_STRING) return PF_OK;
    pf_gguf_string text = { NULL, 0 };
    for (int64_t i = 0; i <= id; i++) text = pf_gguf_next_string(&tokens);
    json_t *value = json_stringn(text.text, text.n_bytes); /* NULL: no valid UTF-8 */
    if (value != NULL && json_object_set_new(chat->tokens, name, value) != 0)
        return pf_fail(error, PF_NOMEM, "%s: no memory for its special tokens", pf_gguf_path(file));
    return PF_OK;
}

static pf_status parse_keys(pf_chat_template *chat, const pf_gguf *file, pf_error *error)
{
    PF_TRY(parse_key(file, "tokenizer.chat_template", &chat->plain, error));
    if (chat->plain == NULL) PF_TRY(parse_key(file, "tokenizer.chat_template.default", &chat->plain, error));
    if (chat->plain != NULL) return parse_key(file, "tokenizer.chat_template.tool_use", &chat->with_tools, error);
    return pf_fail(error, PF_UNAVAILABLE, "%s: no chat template: the metadata have no tokenizer.chat_template",
                   pf_gguf_path(file));
}

static pf_status read_gguf(pf_chat_template *chat, const pf_gguf *file, pf_error *error)
{
    static const char *const tokens[][2] = { { "tokenizer.ggml.bos_token_id", "bos_token" },
                                             { "tokenizer.ggml.eos_token_id", "eos_token" },
                                             { "tokenizer.ggml.unknown_token_id", "unk_token" },
                                             { "tokenizer.ggml.seperator_token_id", "sep_token" }, /* spelled so */
                                             { "tokenizer.ggml.padding_token_id", "pad_token" },
                                             { "tokenizer.ggml.mask_token_id", "mask_token" } };
    if (chat->plain == NULL) PF_TRY(parse_keys(chat, file, error));
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        PF_TRY(take_gguf_token(chat, file, tokens[i][0], tokens[i][1], error));
    return PF_OK;
}

static pf_status read_gguf_file(pf_chat_template *chat, const char *path, pf_error *error)
{
    pf_gguf *file = NULL;
    PF_TRY(pf_gguf_open(path, &file, error));
    const pf_status status = read_gguf(chat, file, error);
    pf_gguf_close(file);
    return status;
}

/* ---- opening --------------------------------------------------------------------------------------------------------- */

/* file NULL: the template of the model. */
static pf_status open_template(const char *path, const char *file, pf_chat_template **out, pf_error *error)
{
    pf_chat_template *chat = calloc(1, sizeof *chat);
    if (chat == NULL || (chat->tokens = json_object()) == NULL) {
        free(chat);
        return pf_fail(error, PF_NOMEM, "%s: no memory for its chat template", path);
    }
    pf_status status = file != NULL ? read_jinja_file(chat, file, false, error) : PF_OK;
    if (status == PF_OK)
        status = pf_gguf_is_file(path) ? read_gguf_file(chat, path, error) : read_directory(chat, path, error);
    if (status != PF_OK)
        pf_chat_template_close(chat);
    else
        *out = chat;
    return status;
}

pf_status pf_chat_template_open(const char *path, pf_chat_template **out, pf_error *error)
{
    return open_template(path, NULL, out, error);
}

pf_status pf_chat_template_open_file(const char *path, const char *file, pf_chat_template **out, pf_error *error)
{
    return open_template(path, file, out, error);
}

void pf_chat_template_close(pf_chat_template *chat)
{
    if (chat == NULL) return;
    pf_jinja_release(chat->plain);
    pf_jinja_release(chat->with_tools);
    json_decref(chat->tokens);
    free(chat);
}

bool pf_chat_template_mentions(const pf_chat_template *chat, const char *text)
{
    return pf_jinja_mentions(chat->with_tools != NULL ? chat->with_tools : chat->plain, text);
}

/* ---- rendering ------------------------------------------------------------------------------------------------------- */

/* The variables of the template. NULL: no memory. */
static json_t *variables_of(const pf_chat_template *chat, const json_t *conversation)
{
    json_t *variables = json_deep_copy(chat->tokens), *given = (json_t *)(uintptr_t)conversation;
    bool fits = variables != NULL;
    fits = fits && json_object_set_new(variables, "tools", json_null()) == 0;
    fits = fits && json_object_set_new(variables, "documents", json_null()) == 0;
    fits = fits && json_object_set_new(variables, "add_generation_prompt", json_true()) == 0;
    if (json_is_object(conversation))
        fits = fits && json_object_update(variables, given) == 0;
    else
        fits = fits && json_object_set(variables, "messages", given) == 0;
    if (fits) return variables;
    json_decref(variables);
    return NULL;
}

pf_status pf_chat_template_render(const pf_chat_template *chat, const json_t *conversation, pf_bytes *out,
                                  pf_error *error)
{
    const json_t *messages = json_is_object(conversation) ? json_object_get(conversation, "messages") : conversation;
    if (!json_is_array(messages))
        return pf_fail(error, PF_FORMAT, "a conversation must be a list of messages, or an object with \"messages\"");
    json_t *variables = variables_of(chat, conversation);
    if (variables == NULL) return pf_fail(error, PF_NOMEM, "no memory for the variables of the chat template");
    const bool has_tools = json_array_size(json_object_get(variables, "tools")) > 0;
    const pf_status status =
        pf_jinja_render(has_tools && chat->with_tools != NULL ? chat->with_tools : chat->plain, variables, out, error);
    json_decref(variables);
    return status;
}
