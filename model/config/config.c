/*
 * Reads config.json and generation_config.json into a pf_config: the dimensions, then RoPE (config_rope.c), the format of
 * quantised weights, and the ids that end a text.
 */
#include "model/config/config.h"

#include <math.h>
#include <string.h>

#include "base/file.h"
#include "model/config/config_parts.h"
#include "model/config/dtype.h"
#include "model/config/model_directory.h"

static pf_status read_heads(const pf_json *doc, pf_config *c, pf_error *error)
{
    const json_t *root = doc->root;
    PF_TRY(pf_json_get_int32(doc, root, "num_attention_heads", true, 1, PF_MAX_HEADS, &c->n_heads, error));
    c->n_kv_heads = c->n_heads;
    PF_TRY(pf_json_get_int32(doc, root, "num_key_value_heads", false, 1, c->n_heads, &c->n_kv_heads, error));
    if (c->n_heads % c->n_kv_heads != 0)
        return pf_fail(error, PF_FORMAT, "%s: num_key_value_heads is %d, expected a divisor of num_attention_heads, %d",
                       doc->name, c->n_kv_heads, c->n_heads);

    c->head_dim = 0;
    PF_TRY(pf_json_get_int32(doc, root, "head_dim", false, 1, PF_MAX_HEAD_DIM, &c->head_dim, error));
    if (c->head_dim == 0) {
        if (c->hidden_size % c->n_heads != 0)
            return pf_fail(error, PF_FORMAT,
                           "%s: hidden_size is %d, expected a multiple of num_attention_heads, %d, where head_dim is "
                           "not given",
                           doc->name, c->hidden_size, c->n_heads);
        c->head_dim = c->hidden_size / c->n_heads;
    }
    if (c->head_dim % 2 != 0 || c->head_dim > PF_MAX_HEAD_DIM)
        return pf_fail(error, PF_FORMAT, "%s: head_dim is %d, expected an even number of at most %d", doc->name,
                       c->head_dim, PF_MAX_HEAD_DIM);
    return PF_OK;
}

static pf_status read_dimensions(const pf_json *doc, const pf_architecture *row, pf_config *c, pf_error *error)
{
    const json_t *root = doc->root;
    PF_TRY(pf_json_get_int32(doc, root, "vocab_size", true, 1, PF_MAX_VOCAB, &c->vocab_size, error));
    PF_TRY(pf_json_get_int32(doc, root, "hidden_size", true, 1, PF_MAX_HIDDEN, &c->hidden_size, error));
    PF_TRY(
        pf_json_get_int32(doc, root, "intermediate_size", true, 1, PF_MAX_INTERMEDIATE, &c->intermediate_size, error));
    PF_TRY(pf_json_get_int32(doc, root, "num_hidden_layers", true, 1, PF_MAX_LAYERS, &c->n_layers, error));

    PF_TRY(read_heads(doc, c, error));
    double positions = row->max_position, eps = row->rms_eps;
    PF_TRY(pf_config_read_positions(doc, "max_position_embeddings", &positions, error));
    c->max_position = positions < PF_MAX_POSITIONS ? (int32_t)positions : PF_MAX_POSITIONS;
    PF_TRY(pf_json_get_double(doc, root, "rms_norm_eps", false, 0.0, 1.0, &eps, error));
    c->norm_eps = (float)eps;

    c->tied_embeddings = row->tied_embeddings;
    PF_TRY(pf_json_get_bool(doc, root, "tie_word_embeddings", false, &c->tied_embeddings, error));
    c->embedding_size = c->hidden_size;
    return PF_OK;
}

/* Which tensors exist, and which of them have a bias. */
static pf_status read_plan(const pf_json *doc, const pf_architecture *row, pf_config *c, pf_error *error)
{
    bool attention_bias = false, mlp_bias = false;
    pf_plan *plan = &c->plan;
    *plan = row->plan;
    plan->embedding_scale = plan->residual_scale = plan->logit_scale = plan->alibi_scale = 1.0f;
    plan->attention_scale = (float)(1.0 / sqrt((double)c->head_dim));
    plan->n_kinds = 1;
    plan->kinds[0] = (pf_layer_kind){ .rope = 0 };
    for (int role = 0; role < PF_N_TENSOR_ROLES; role++) plan->has[role] = row->tensors[role].name != NULL;
    PF_TRY(pf_json_get_bool(doc, doc->root, "attention_bias", false, &attention_bias, error));
    PF_TRY(pf_json_get_bool(doc, doc->root, "mlp_bias", false, &mlp_bias, error));
    plan->has_bias[PF_TENSOR_Q] = plan->has_bias[PF_TENSOR_K] = plan->has_bias[PF_TENSOR_V] =
        plan->has_bias[PF_TENSOR_O] = attention_bias;
    plan->has_bias[PF_TENSOR_GATE] = plan->has_bias[PF_TENSOR_UP] = plan->has_bias[PF_TENSOR_DOWN] = mlp_bias;
    return PF_OK;
}

/* ---- ids --------------------------------------------------------------------------------------------------------- */

/* An id beyond the vocabulary never occurs in a text and is ignored: models cut down from larger ones keep such ids. */
static bool is_token(const pf_config *c, int64_t id)
{
    return id >= 0 && id < c->vocab_size;
}

static pf_status push_eos(const pf_json *doc, const json_t *id, pf_config *c, pf_error *error)
{
    if (!json_is_integer(id)) {
        char found[PF_SHOWN_BYTES];
        (void)pf_config_show(id, found);
        return pf_fail(error, PF_FORMAT, "%s: eos_token_id is %s, expected the id of a token", doc->name, found);
    }
    if (!is_token(c, json_integer_value(id))) return PF_OK;
    const int32_t value = (int32_t)json_integer_value(id);
    for (int32_t i = 0; i < c->n_eos; i++)
        if (c->eos_ids[i] == value) return PF_OK;
    if (c->n_eos == PF_MAX_EOS_IDS)
        return pf_fail(error, PF_FORMAT, "%s: eos_token_id lists more than %d ids", doc->name, PF_MAX_EOS_IDS);
    c->eos_ids[c->n_eos++] = value;
    return PF_OK;
}

/* generation_config.json, where it exists, replaces the ids of config.json, even with none (transformers,
 * GenerationMixin.adjust_generation_fn). */
static pf_status read_ids(const pf_json *doc, pf_config *c, pf_error *error)
{
    int64_t bos = 0; /* the tokenizer decides what begins a text: only the type is checked */
    PF_TRY(pf_json_get_int(doc, doc->root, "bos_token_id", false, INT64_MIN, INT64_MAX, &bos, error));
    c->n_eos = 0;
    const json_t *eos = json_object_get(doc->root, "eos_token_id");
    if (!eos || json_is_null(eos)) return PF_OK;
    if (!json_is_array(eos)) return push_eos(doc, eos, c, error);
    for (size_t i = 0; i < json_array_size(eos); i++) PF_TRY(push_eos(doc, json_array_get(eos, i), c, error));
    return PF_OK;
}

/* ---- quantisation ------------------------------------------------------------------------------------------------ */

int32_t pf_config_quantized_version(pf_format format)
{
    return pf_format_get(format)->group ? 2 : 1;
}

static pf_status check_version(const pf_json *doc, pf_format format, pf_error *error)
{
    const int64_t expected = pf_config_quantized_version(format);
    int64_t version = 1;
    PF_TRY(pf_json_get_int(doc, doc->root, "version", false, 1, INT64_MAX, &version, error));
    if (version == expected) return PF_OK;
    if (version > expected)
        return pf_fail(error, PF_UNSUPPORTED,
                       "%s: version is %lld, expected %lld: %s was written by a later version of pilotfish", doc->name,
                       (long long)version, (long long)expected, pf_format_get(format)->name);
    return pf_fail(error, PF_UNSUPPORTED,
                   "%s: %s was written by an earlier version, with F16 scales of groups: quantize the original again",
                   doc->name, pf_format_get(format)->name);
}

/* Checks the fields that follow from the format, which are written for other readers. */
static pf_status check_derived(const pf_json *doc, const pf_format_info *format, pf_error *error)
{
    int64_t bits = format->bits, group = format->group;
    bool has_zeros = format->has_zeros;
    PF_TRY(pf_json_get_int(doc, doc->root, "bits", false, bits, bits, &bits, error));
    PF_TRY(pf_json_get_int(doc, doc->root, "group_size", false, group, group, &group, error));
    PF_TRY(pf_json_get_bool(doc, doc->root, "zero_point", false, &has_zeros, error));
    if (has_zeros != format->has_zeros)
        return pf_fail(error, PF_FORMAT, "%s: zero_point is %s, but the format %s has %s", doc->name,
                       has_zeros ? "true" : "false", format->name, format->has_zeros ? "zero points" : "none");

    static const char *const known[] = {
        "quant_method", "format", "version", "bits", "group_size", "zero_point", NULL
    };
    const char *key;
    json_t *value;
    json_object_foreach(doc->root, key, value) if (!pf_config_lists(known, key)) return pf_fail(
        error, PF_UNSUPPORTED, "%s: the field %.60s is not known and could change the weights", doc->name, key);
    return PF_OK;
}

static pf_status read_quantization(const pf_json *whole, pf_config *c, pf_error *error)
{
    const json_t *node = json_object_get(whole->root, "quantization_config");
    if (!node || json_is_null(node)) return PF_OK;
    const pf_json within = pf_json_within(whole, node, "quantization_config"), *doc = &within;
    const char *method = json_string_value(json_object_get(node, "quant_method"));
    if (!method || strcmp(method, "pilotfish") != 0)
        return pf_fail(error, PF_UNSUPPORTED,
                       "%s: quant_method is %.60s, only \"pilotfish\", written by `pilotfish quantize`, is known here",
                       doc->name, method ? method : "no string");
    const char *name = NULL;
    pf_dtype dtype = PF_DTYPE_AUTO;
    pf_error why = { 0 };
    PF_TRY(pf_json_get_string(doc, node, "format", true, &name, error));
    const pf_status status = pf_dtype_parse(name, &dtype, &why);
    if (status != PF_OK) return pf_fail(error, PF_UNSUPPORTED, "%s: %s", doc->name, why.text);
    if (dtype < PF_DTYPE_FORMATS || !pf_format_is_integer(pf_dtype_format(dtype)))
        return pf_fail(error, PF_FORMAT, "%s: format is \"%s\", which is not an integer format", doc->name, name);
    c->quantized = true;
    c->format = pf_dtype_format(dtype);
    PF_TRY(check_version(doc, c->format, error));
    return check_derived(doc, pf_format_get(c->format), error);
}

/* Marks F16 files that were written to be used as F16. Published F16 files lack the field, and AUTO makes BF16 of them. */
static pf_status read_own_dtype(const pf_json *doc, pf_config *c, pf_error *error)
{
    const json_t *node = json_object_get(doc->root, "pilotfish_dtype");
    if (!node || json_is_null(node)) return PF_OK;
    const char *name = json_string_value(node);
    c->kept_in_f16 = name && strcmp(name, pf_dtype_name(PF_DTYPE_F16)) == 0;
    if (c->kept_in_f16) return PF_OK;
    return pf_fail(error, PF_UNSUPPORTED, "%s: pilotfish_dtype is %.60s, only \"f16\" is known", doc->name,
                   name ? name : "no string");
}

/* ---- both files -------------------------------------------------------------------------------------------------- */

static pf_status read_documents(const pf_json *doc, const pf_json *generation, const pf_load_policy *policy,
                                pf_config *out, pf_error *error)
{
    pf_config c = { 0 };
    PF_TRY(pf_architecture_find(doc, policy, &c.architecture, error));
    const pf_architecture *row = pf_architecture_get(c.architecture);
    PF_TRY(pf_config_check_keys(doc, row, policy, error));
    PF_TRY(read_dimensions(doc, row, &c, error));
    PF_TRY(read_plan(doc, row, &c, error));
    PF_TRY(pf_config_read_rope(doc, row, &c, error));
    PF_TRY(read_quantization(doc, &c, error));
    PF_TRY(read_own_dtype(doc, &c, error));
    PF_TRY(read_ids(
        doc, &c, error)); /* checked in any case: a wrong type is an error even where generation_config.json has ids */
    if (generation) PF_TRY(read_ids(generation, &c, error));
    if (generation) PF_TRY(pf_generation_check_keys(generation, policy, error));
    *out = c;
    return PF_OK;
}

pf_status pf_config_load(const char *directory, const pf_load_policy *policy, pf_config *out, pf_error *error)
{
    char path[PF_FILE_PATH_BYTES];
    pf_json doc = { 0 }, generation = { 0 };
    PF_TRY(pf_file_join(directory, "config.json", path, error));
    const pf_status opened = pf_json_open(path, PF_MAX_CONFIG_BYTES, &doc, error);
    if (opened == PF_UNAVAILABLE) return pf_model_directory_explain(directory, "config.json", error);
    if (opened != PF_OK) return opened;

    if (pf_file_join(directory, "generation_config.json", path, NULL) != PF_OK) path[0] = '\0';
    pf_error absent = { 0 }; /* a missing file is no failure */
    pf_status status = pf_json_open(path, PF_MAX_CONFIG_BYTES, &generation, &absent);
    if (status == PF_OK || status == PF_UNAVAILABLE)
        status = read_documents(&doc, status == PF_OK ? &generation : NULL, policy, out, error);
    else if (error)
        *error = absent;
    pf_json_close(&generation);
    pf_json_close(&doc);
    return status;
}

pf_status pf_config_parse(const char *name, const char *text, size_t n_bytes, const char *generation_text,
                          size_t n_generation_bytes, const pf_load_policy *policy, pf_config *out, pf_error *error)
{
    pf_json doc = { 0 }, generation = { 0 };
    PF_TRY(pf_json_parse(name, text, n_bytes, PF_MAX_CONFIG_BYTES, &doc, error));
    pf_status status = PF_OK;
    if (generation_text)
        status = pf_json_parse("generation_config.json", generation_text, n_generation_bytes, PF_MAX_CONFIG_BYTES,
                               &generation, error);
    if (status == PF_OK) status = read_documents(&doc, generation_text ? &generation : NULL, policy, out, error);
    pf_json_close(&generation);
    pf_json_close(&doc);
    return status;
}
