/* Reads the post-processor of tokenizer.json: the tokens that are added before and after a text. */
#include <string.h>

#include "tokenizer/json_sequence.h"
#include "tokenizer/tokenizer_parts.h"

static pf_status push_id(const pf_tokenizer *t, const pf_json *doc, const json_t *item, const char *name,
                         pf_id_list *out, pf_error *error)
{
    const json_int_t id = json_integer_value(item);
    if (!json_is_integer(item) || id < 0 || id >= t->vocab_size || !t->tokens[id].bytes)
        return pf_fail(error, PF_FORMAT, "%s: the id of \"%.60s\" is no token", doc->name, name);
    if (out->n == PF_MAX_TEMPLATE_IDS)
        return pf_fail(error, PF_UNSUPPORTED, "%s: more than %d tokens", doc->name, PF_MAX_TEMPLATE_IDS);
    out->ids[out->n++] = (int32_t)id;
    return PF_OK;
}

static pf_status push_template_ids(const pf_tokenizer *t, const pf_json *doc, const json_t *special, const char *name,
                                   pf_id_list *out, pf_error *error)
{
    const json_t *ids = json_object_get(json_object_get(special, name), "ids");
    if (!json_is_array(ids))
        return pf_fail(error, PF_FORMAT, "%s: special_tokens has no ids for \"%.60s\"", doc->name, name);
    for (size_t i = 0; i < json_array_size(ids); i++) PF_TRY(push_id(t, doc, json_array_get(ids, i), name, out, error));
    return PF_OK;
}

/* TemplateProcessing's "single": special tokens, the text once, special tokens. */
static pf_status read_template(const pf_tokenizer *t, const pf_json *doc, const json_t *part, pf_id_list *before,
                               pf_id_list *after, pf_error *error)
{
    const json_t *single = json_object_get(part, "single"), *special = json_object_get(part, "special_tokens");
    bool has_text = false;
    for (size_t i = 0; i < json_array_size(single); i++) {
        const json_t *piece = json_array_get(single, i);
        const char *name = json_string_value(json_object_get(json_object_get(piece, "SpecialToken"), "id"));
        const char *text = json_string_value(json_object_get(json_object_get(piece, "Sequence"), "id"));
        if (text && strcmp(text, "A") == 0 && !has_text)
            has_text = true;
        else if (name)
            PF_TRY(push_template_ids(t, doc, special, name, has_text ? after : before, error));
        else
            return pf_fail(error, PF_FORMAT, "%s: single[%zu] must be a SpecialToken, or the Sequence A once",
                           doc->name, i);
    }
    if (!has_text) return pf_fail(error, PF_FORMAT, "%s: single has no Sequence A: the text would be lost", doc->name);
    return PF_OK;
}

/* One token of BertProcessing and RobertaProcessing: its text and its id. */
static pf_status read_token(const pf_tokenizer *t, const pf_json *doc, const json_t *part, const char *field,
                            pf_id_list *out, pf_error *error)
{
    const json_t *pair = json_object_get(part, field);
    const char *name = json_string_value(json_array_get(pair, 0));
    if (json_array_size(pair) != 2 || !name)
        return pf_fail(error, PF_FORMAT, "%s: %s must be a token's text and its id", doc->name, field);
    return push_id(t, doc, json_array_get(pair, 1), name, out, error);
}

static pf_status add_post_processor(void *user, const pf_json *doc, const char *type, const json_t *part,
                                    pf_error *error)
{
    pf_tokenizer *t = user;
    if (strcmp(type, "ByteLevel") == 0) return PF_OK; /* offsets only */
    const bool is_template = strcmp(type, "TemplateProcessing") == 0;
    if (!is_template && strcmp(type, "RobertaProcessing") != 0 && strcmp(type, "BertProcessing") != 0)
        return pf_fail(error, PF_UNSUPPORTED,
                       "%s is not known (known: TemplateProcessing, RobertaProcessing, "
                       "BertProcessing, ByteLevel)",
                       doc->name);
    if (t->prefix.n + t->suffix.n > 0) /* the library processes the tokens of the first as a second text */
        return pf_fail(error, PF_UNSUPPORTED, "%s is a second part that adds tokens, expected one", doc->name);
    pf_id_list before = { .n = 0 }, after = { .n = 0 };
    if (is_template) {
        PF_TRY(read_template(t, doc, part, &before, &after, error));
    } else { /* Roberta's trim_offsets and add_prefix_space only affect offsets */
        PF_TRY(read_token(t, doc, part, "cls", &before, error));
        PF_TRY(read_token(t, doc, part, "sep", &after, error));
    }
    t->prefix = before;
    t->suffix = after;
    return PF_OK;
}

pf_status pf_post_processor_read(const pf_json *doc, pf_tokenizer *t, pf_error *error)
{
    return pf_json_visit_sequence(doc, json_object_get(doc->root, "post_processor"), "post_processor", "processors",
                                  add_post_processor, t, error);
}
