#include "tokenizer/files/class_options.h"

#include <stdlib.h>
#include <string.h>

#include "tokenizer/files/document_parts.h"

static const json_t *root_of(const pf_json *doc)
{
    return doc ? doc->root : NULL;
}

static pf_status read_said(const pf_json *config, const char *field, pf_said *out, pf_error *error)
{
    const json_t *node = json_object_get(root_of(config), field);
    bool value = false;
    *out = PF_UNSAID;
    if (!node || json_is_null(node)) return PF_OK;
    PF_TRY(pf_json_get_bool(config, config->root, field, true, &value, error));
    *out = value ? PF_YES : PF_NO;
    return PF_OK;
}

/* The text of a named token; special_tokens_map.json comes first where it is read. */
static const char *named_text(const pf_tokenizer_files *files, const char *name)
{
    const json_t *node = NULL;
    if (pf_tokenizer_config_is_old(files->config)) node = json_object_get(root_of(files->special_map), name);
    if (!node) node = json_object_get(root_of(files->config), name);
    if (json_is_object(node)) node = json_object_get(node, "content");
    return pf_json_is_text(node) ? json_string_value(node) : NULL;
}

static pf_status read_name(const pf_json *config, char out[PF_CLASS_NAME_BYTES], pf_error *error)
{
    static const char fast[] = "Fast";
    const char *name = "";
    if (config) PF_TRY(pf_json_get_string(config, config->root, "tokenizer_class", false, &name, error));
    size_t n = strlen(name);
    if (n >= PF_CLASS_NAME_BYTES)
        return pf_fail(error, PF_FORMAT, "%s: tokenizer_class has %zu bytes, expected less than %d", config->name, n,
                       PF_CLASS_NAME_BYTES);
    if (n > sizeof fast - 1 && strcmp(name + n - (sizeof fast - 1), fast) == 0) n -= sizeof fast - 1;
    memcpy(out, name, n);
    out[n] = '\0';
    return PF_OK;
}

pf_status pf_class_options_read(const pf_tokenizer_files *files, pf_class_options *out, pf_error *error)
{
    pf_class_options made = {
        .legacy = true, .add_prefix_space = PF_UNSAID, .add_bos = PF_UNSAID, .add_eos = PF_UNSAID
    };
    PF_TRY(read_name(files->config, made.name, error));
    if (files->config) {
        PF_TRY(pf_json_get_bool(files->config, files->config->root, "legacy", false, &made.legacy, error));
        PF_TRY(read_said(files->config, "add_prefix_space", &made.add_prefix_space, error));
        PF_TRY(read_said(files->config, "add_bos_token", &made.add_bos, error));
        PF_TRY(read_said(files->config, "add_eos_token", &made.add_eos, error));
    }
    made.bos = named_text(files, "bos_token");
    made.eos = named_text(files, "eos_token");
    *out = made;
    return PF_OK;
}

/* The id that added_tokens_decoder gives a text. */
static int64_t find_listed(const json_t *decoder, const char *text)
{
    const char *key;
    json_t *node;
    json_object_foreach((json_t *)(uintptr_t)decoder, key, node)
    {
        const char *content = json_string_value(json_object_get(node, "content"));
        if (content && strcmp(content, text) == 0) return strtoll(key, NULL, 10);
    }
    return -1;
}

int64_t pf_class_find_id(const pf_tokenizer_files *files, const json_t *vocab, const char *text)
{
    const json_t *id = json_object_get(vocab, text);
    if (json_is_integer(id)) return json_integer_value(id);
    if (!pf_tokenizer_config_is_old(files->config))
        return find_listed(json_object_get(files->config->root, "added_tokens_decoder"), text);
    id = json_object_get(root_of(files->added), text);
    return json_is_integer(id) ? json_integer_value(id) : -1;
}

/* The token to add; false: none. */
static bool find_token(const pf_tokenizer_files *files, const json_t *vocab, const char *text, pf_said said,
                       bool by_default, pf_template_token *out)
{
    if (!text || said == PF_NO || (said == PF_UNSAID && !by_default)) return false;
    *out = (pf_template_token){ text, pf_class_find_id(files, vocab, text) };
    return out->id >= 0;
}

pf_status pf_class_set_template(const pf_tokenizer_files *files, const pf_class_options *options, bool adds_bos,
                                bool adds_eos, const json_t *vocab, json_t *root, pf_error *error)
{
    pf_template_token bos, eos;
    const bool has_bos = find_token(files, vocab, options->bos, options->add_bos, adds_bos, &bos);
    const bool has_eos = find_token(files, vocab, options->eos, options->add_eos, adds_eos, &eos);
    if ((!has_bos && !has_eos) || pf_set_template(root, &bos, has_bos ? 1 : 0, &eos, has_eos ? 1 : 0)) return PF_OK;
    return pf_fail(error, PF_NOMEM, "no memory for the tokens around a text");
}
