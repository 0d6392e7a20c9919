#include "model/files/config_writer.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/json.h"

static const char *torch_name(pf_type type)
{
    if (type == PF_TYPE_F16) return "float16";
    return type == PF_TYPE_F32 ? "float32" : "bfloat16";
}

/* Sets the type under the name that transformers 5 reads, the older name, or both, as in the document. False: no memory. */
static bool name_type(json_t *root, const char *type)
{
    const bool is_new = json_object_get(root, "dtype") != NULL;
    if (is_new && json_object_set_new(root, "dtype", json_string(type)) != 0) return false;
    if (is_new && json_object_get(root, "torch_dtype") == NULL) return true;
    return json_object_set_new(root, "torch_dtype", json_string(type)) == 0;
}

/* NULL: no memory. */
static json_t *describe_integers(pf_format format)
{
    const pf_format_info *info = pf_format_get(format);
    const int32_t version = pf_config_quantized_version(format);
    json_t *said = json_pack("{s:s, s:s, s:i, s:i, s:b}", "quant_method", "pilotfish", "format", info->name, "bits",
                             info->bits, "group_size", info->group, "zero_point", info->has_zeros);
    if (version == 1 || json_object_set_new(said, "version", json_integer(version)) == 0) return said;
    json_decref(said);
    return NULL;
}

/* Replaces the keys that describe the weights. False: no memory. */
static bool describe_weights(const pf_config *config, pf_dtype dtype, pf_type type, json_t *root)
{
    const pf_format format = pf_dtype_format(dtype);
    if (!config->tied_embeddings && json_is_true(json_object_get(root, "tie_word_embeddings")) &&
        json_object_set_new(root, "tie_word_embeddings", json_false()) != 0)
        return false;
    (void)json_object_del(root, "pilotfish_dtype"); /* the original's */
    if (dtype == PF_DTYPE_F16 && json_object_set_new(root, "pilotfish_dtype", json_string("f16")) != 0) return false;
    if (pf_format_is_integer(format))
        return json_object_set_new(root, "quantization_config", describe_integers(format)) == 0;
    return name_type(root, torch_name(type));
}

/* Prints into text [PF_MAX_CONFIG_BYTES]: indented, or on one line where that is too long. Returns the length, which may exceed
 * the buffer. 0: no memory. */
static size_t print_document(const json_t *root, size_t digits, char *text)
{
    const size_t flags = JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(digits), most = PF_MAX_CONFIG_BYTES - 1;
    const size_t n = json_dumpb(root, text, most, flags | JSON_INDENT(2));
    return n <= most ? n : json_dumpb(root, text, most, flags | JSON_COMPACT);
}

static bool reads_as(const char *text, size_t n, const json_t *root)
{
    pf_json back = { 0 };
    const pf_status status = pf_json_parse("config.json", text, n, PF_MAX_CONFIG_BYTES, &back, NULL);
    const bool same = status == PF_OK && json_equal(root, back.root);
    pf_json_close(&back);
    return same;
}

/* As print_document, with a line end. 15 digits print most numbers in their short form, 0.1; 17 print all exactly. */
static size_t print_config(const json_t *root, char *text)
{
    size_t n = print_document(root, 15, text);
    if (n > 0 && n < PF_MAX_CONFIG_BYTES && !reads_as(text, n, root)) n = print_document(root, 17, text);
    if (n > 0 && n < PF_MAX_CONFIG_BYTES) text[n] = '\n';
    return n > 0 ? n + 1 : 0;
}

pf_status pf_config_print_converted(const pf_checkpoint *from, pf_dtype dtype, pf_type type, char **out,
                                    size_t *n_bytes, pf_error *error)
{
    char path[PF_FILE_PATH_BYTES], name[PF_FILE_PATH_BYTES + 32];
    pf_json doc = { 0 };
    snprintf(path, sizeof path, "%s/config.json", from->directory); /* it was opened before, so the path fits */
    snprintf(name, sizeof name, "%s for converted weights", path);
    PF_TRY(pf_json_open(path, PF_MAX_CONFIG_BYTES, &doc, error));
    char *text = malloc(PF_MAX_CONFIG_BYTES);
    const bool is_described = text != NULL && describe_weights(&from->config, dtype, type, doc.root);
    const size_t n = is_described ? print_config(doc.root, text) : 0;
    pf_json_close(&doc);
    const pf_status status = n == 0 ? pf_fail(error, PF_NOMEM, "%s: no memory for the converted document", path)
                                    : pf_json_check_size(name, text, n, PF_MAX_CONFIG_BYTES, error);
    if (status != PF_OK) {
        free(text);
        return status;
    }
    *out = text;
    *n_bytes = n;
    return PF_OK;
}
