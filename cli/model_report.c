#include "cli/model_report.h"

#include <string.h>

#include "cli/json_out.h"
#include "jinja/chat_template.h"
#include "model/files/tensor_source.h"
#include "model/forward/context.h"

static pf_status no_memory(pf_error *error)
{
    return pf_fail(error, PF_NOMEM, "no memory for the report of a model");
}

/* Takes the value, also where it fails. */
static pf_status add(json_t *object, const char *field, json_t *value, pf_error *error)
{
    return json_object_set_new(object, field, value) == 0 ? PF_OK : no_memory(error);
}

/* ---- files ------------------------------------------------------------------------------------------------------------ */

static pf_status count_types(const pf_tensor_source *source, json_t *types, pf_error *error)
{
    for (int32_t i = 0; i < pf_tensor_source_count(source); i++) {
        const char *name = pf_tensor_source_type_name(source, i);
        PF_TRY(add(types, name, json_integer(json_integer_value(json_object_get(types, name)) + 1), error));
    }
    return PF_OK;
}

static bool has_chat_template(const char *path)
{
    pf_chat_template *chat = NULL;
    const bool exists = pf_chat_template_open(path, &chat, NULL) == PF_OK;
    pf_chat_template_close(chat);
    return exists;
}

pf_status pf_report_add_files(const char *path, json_t *model, pf_error *error)
{
    pf_tensor_source source;
    PF_TRY(pf_tensor_source_open(path, NULL, &source, error));
    json_t *types = json_object();
    json_t *files = json_pack("{s:s, s:i, s:O*}", "format", source.gguf != NULL ? "gguf" : "safetensors", "tensors",
                              pf_tensor_source_count(&source), "types", types);
    pf_status status = types != NULL ? count_types(&source, types, error) : PF_OK;
    json_decref(types);
    pf_tensor_source_close(&source);
    if (status == PF_OK) status = add(model, "files", json_incref(files), error);
    json_decref(files);
    return status == PF_OK ? add(model, "chat_template", json_boolean(has_chat_template(path)), error) : status;
}

/* ---- memory ----------------------------------------------------------------------------------------------------------- */

pf_status pf_report_add_memory(pf_engine *engine, json_t *model, pf_error *error)
{
    const pf_context *context = pf_engine_context(engine);
    const pf_context_config *config = pf_context_get_config(context);
    const size_t weights = pf_model_packed_bytes(pf_engine_model(engine)),
                 reserved = pf_context_reserved_bytes(context);
    const size_t kv = config->kv_budget_bytes;
    return add(model, "memory",
               json_pack("{s:i, s:i, s:I, s:I, s:I, s:I}", "context", config->max_tokens, "sequences",
                         config->max_sequences, "weight_bytes", (json_int_t)weights, "kv_bytes", (json_int_t)kv,
                         "buffer_bytes", (json_int_t)(reserved - kv), "total_bytes", (json_int_t)(weights + reserved)),
               error);
}

/* ---- vocabularies ----------------------------------------------------------------------------------------------------- */

typedef struct {
    const pf_tokenizer *tokenizer;
    int32_t n_rows; /* of the embedding */
} token_set;

/* The text of an id that has a row; NULL: it has none. */
static const char *text_of(const token_set *v, int32_t id, size_t *n_bytes)
{
    return id < v->n_rows ? pf_tokenizer_token_bytes(v->tokenizer, id, n_bytes) : NULL;
}

static json_t *compare(const char *other, const token_set *a, const token_set *b)
{
    const int32_t n_a = pf_tokenizer_vocab_size(a->tokenizer), n_b = pf_tokenizer_vocab_size(b->tokenizer);
    int32_t n_either = 0, n_shared = 0;
    for (int32_t id = 0; id < n_a || id < n_b; id++) {
        size_t bytes_a = 0, bytes_b = 0;
        const char *text_a = text_of(a, id, &bytes_a), *text_b = text_of(b, id, &bytes_b);
        n_either += text_a != NULL || text_b != NULL;
        n_shared += text_a != NULL && text_b != NULL && bytes_a == bytes_b && memcmp(text_a, text_b, bytes_a) == 0;
    }
    const char *relation = n_shared < n_either ? "partial" : a->n_rows != b->n_rows ? "padding" : "equal";
    return json_pack("{s:o, s:s, s:i, s:i, s:o}", "with", pf_json_text(other, strlen(other)), "relation", relation,
                     "tokens", n_either, "shared", n_shared, "share",
                     n_either > 0 ? json_real((double)n_shared / (double)n_either) : json_null());
}

pf_status pf_report_add_vocabulary(const pf_engine *engine, const char *other, const char *path, json_t *model,
                                   pf_error *error)
{
    const token_set own = { pf_engine_tokenizer(engine), pf_model_config(pf_engine_model(engine))->vocab_size };
    pf_tokenizer *tokenizer = NULL;
    pf_config config;
    if (own.tokenizer == NULL)
        return pf_fail(error, PF_UNAVAILABLE, "%s cannot be compared: -m MODEL has no tokenizer", other);
    PF_TRY(pf_config_load(path, NULL, &config, error));
    PF_TRY(pf_tokenizer_open(path, &tokenizer, error));
    const token_set its = { tokenizer, config.vocab_size };
    const pf_status status = add(model, "vocabulary", compare(other, &own, &its), error);
    pf_tokenizer_close(tokenizer);
    return status;
}

/* ---- for people ------------------------------------------------------------------------------------------------------- */

static json_int_t number_of(const json_t *object, const char *field)
{
    return json_integer_value(json_object_get(object, field));
}

static void print_files(pf_out *out, const json_t *model)
{
    const json_t *files = json_object_get(model, "files");
    const char *name, *separator = "";
    json_t *count;
    pf_out_print(out, "files      %s, %lld tensors: ", json_string_value(json_object_get(files, "format")),
                 number_of(files, "tensors"));
    json_object_foreach(json_object_get(files, "types"), name, count)
    {
        pf_out_print(out, "%s%lld %s", separator, json_integer_value(count), name);
        separator = ", ";
    }
    pf_out_print(out, "; chat template: %s\n", json_is_true(json_object_get(model, "chat_template")) ? "yes" : "no");
}

static void print_memory(pf_out *out, const json_t *memory)
{
    pf_out_print(out,
                 "needs      %.2f MB for %lld %s of %lld tokens: %.2f weights, %.2f keys and values, %.2f buffers\n",
                 (double)number_of(memory, "total_bytes") * 1e-6, number_of(memory, "sequences"),
                 number_of(memory, "sequences") == 1 ? "sequence" : "sequences", number_of(memory, "context"),
                 (double)number_of(memory, "weight_bytes") * 1e-6, (double)number_of(memory, "kv_bytes") * 1e-6,
                 (double)number_of(memory, "buffer_bytes") * 1e-6);
}

static void print_vocabulary(pf_out *out, const json_t *vocabulary)
{
    const char *relation = json_string_value(json_object_get(vocabulary, "relation"));
    const char *with = json_string_value(json_object_get(vocabulary, "with"));
    if (strcmp(relation, "partial") != 0)
        pf_out_print(out, "vocabulary the same as that of %s%s: %lld tokens\n", with,
                     strcmp(relation, "padding") == 0 ? ", up to padding" : "", number_of(vocabulary, "tokens"));
    else
        pf_out_print(out, "vocabulary %.1f %% shared with %s: %lld of %lld ids have one text in both\n",
                     100.0 * json_number_value(json_object_get(vocabulary, "share")), with,
                     number_of(vocabulary, "shared"), number_of(vocabulary, "tokens"));
}

void pf_report_print(pf_out *out, const json_t *model)
{
    print_files(out, model);
    print_memory(out, json_object_get(model, "memory"));
    const json_t *vocabulary = json_object_get(model, "vocabulary");
    if (vocabulary != NULL) print_vocabulary(out, vocabulary);
}
