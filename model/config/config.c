/*
 * Reads config.json and generation_config.json into a pf_config: what the row of its architecture asks for (config_parts.h lists
 * the files), then the format of quantised weights, and the ids that end a text.
 */
#include "model/config/config.h"

#include <string.h>

#include "base/file.h"
#include "model/config/config_parts.h"
#include "model/config/dtype.h"
#include "model/config/gguf_config.h"
#include "model/config/model_directory.h"

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
    if (!method || strcmp(method, "pilotfish") != 0) return pf_quantization_read(doc, &c->quantization, error);
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

/* What a product of dimensions must fit for the rows of fused and stacked tensors. */
static pf_status check_plan(const pf_json *doc, const pf_config *c, pf_error *error)
{
    enum { QUARTERS = 4 };
    const bool is_in_quarters = pf_config_pattern(c, PF_TENSOR_Q)->layout == PF_LAYOUT_QVK_QUARTERS;
    if (is_in_quarters && (c->n_heads % QUARTERS != 0 || c->n_kv_heads != c->n_heads))
        return pf_fail(error, PF_FORMAT, "%s: %d heads and %d key heads, expected the same number and a multiple of 4",
                       doc->name, c->n_heads, c->n_kv_heads);
    if (c->plan.positions == PF_POSITIONS_LEARNT && c->max_position > PF_MAX_POSITIONS - c->plan.position_offset)
        return pf_fail(error, PF_FORMAT, "%s: there are more than %d positions", doc->name, PF_MAX_POSITIONS);
    return PF_OK;
}

/* Where nothing is rotated, keys of RoPE have no effect (Falcon with ALiBi). */
static void skip_rope(pf_reader *r, pf_config *c)
{
    static const char *const keys[] = { "rope_theta", "rope_scaling", "rope_parameters" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) (void)pf_key_find(r, keys[i]);
    c->max_context = c->max_position;
}

static pf_status read_model(pf_reader *r, pf_config *c)
{
    PF_TRY(pf_config_read_dimensions(r, c));
    PF_TRY(pf_config_read_plan(r, c));
    if (r->row->read) PF_TRY(r->row->read(r, c));
    if (c->plan.positions == PF_POSITIONS_ROTARY)
        PF_TRY(pf_config_read_rope(r, c));
    else
        skip_rope(r, c);
    PF_TRY(pf_config_read_layers(r, c));
    if (r->context_limit > 0.0 && (double)c->max_context > r->context_limit) c->max_context = (int32_t)r->context_limit;
    if (c->plan.positions == PF_POSITIONS_LEARNT) c->n_positions = c->max_position + c->plan.position_offset;
    return check_plan(r->doc, c, r->error);
}

/* PARD's draft models name the token that stands for what is drafted in parallel. */
static pf_status read_pard_token(pf_reader *r, pf_config *c)
{
    c->pard_token = -1;
    return pf_key_int(r, "pard_token", 0, c->vocab_size - 1, &c->pard_token);
}

/* Reads the keys that every architecture has, and checks those that nothing has read. */
static pf_status read_keys(pf_reader *r, const pf_json *doc, const pf_load_policy *policy, pf_config *c)
{
    static const char *const common[] = {
        "architectures", "model_type", "bos_token_id", "eos_token_id", "quantization_config", "pilotfish_dtype", NULL
    };
    for (const char *const *key = common; *key; key++) (void)pf_key_find(r, *key);
    PF_TRY(read_model(r, c));
    PF_TRY(read_pard_token(r, c));
    PF_TRY(pf_config_check_keys(r, policy));
    PF_TRY(read_quantization(doc, c, r->error));
    return read_own_dtype(doc, c, r->error);
}

/* The object that has the keys of the decoder. */
static pf_status find_decoder(const pf_json *doc, const pf_architecture *row, pf_json *out, pf_error *error)
{
    *out = *doc;
    if (!row->in_text_config) return PF_OK;
    const json_t *node = json_object_get(doc->root, "text_config");
    if (!json_is_object(node))
        return pf_fail(error, PF_FORMAT, "%s: text_config is absent, expected the configuration of the decoder",
                       doc->name);
    *out = pf_json_within(doc, node, "text_config");
    return PF_OK;
}

static pf_status read_documents(const pf_json *doc, const pf_json *generation, const pf_load_policy *policy,
                                pf_config *out, pf_error *error)
{
    pf_config c = { 0 };
    pf_json decoder;
    pf_reader r = { 0 };
    PF_TRY(pf_architecture_find(doc, policy, &c.architecture, error));
    const pf_architecture *row = pf_architecture_get(c.architecture);
    PF_TRY(find_decoder(doc, row, &decoder, error));
    pf_status status = pf_reader_open(&decoder, row, error, &r);
    if (status == PF_OK) status = read_keys(&r, doc, policy, &c);
    pf_reader_close(&r);
    if (status != PF_OK) return status;
    /* checked in any case: a wrong type is an error even where generation_config.json has ids */
    PF_TRY(read_ids(doc, &c, error));
    if (c.n_eos == 0 && row->in_text_config) PF_TRY(read_ids(&decoder, &c, error));
    if (generation) PF_TRY(read_ids(generation, &c, error));
    if (generation) PF_TRY(pf_generation_check_keys(generation, policy, error));
    *out = c;
    return PF_OK;
}

/* llama.cpp's converter adds the 1 of norms with 1 + w to their weights. */
static void set_form(pf_config *c, const pf_gguf_form *form)
{
    pf_plan *plan = &c->plan;
    c->gguf = true;
    c->gguf_form = *form;
    c->gguf_form.fused_gate_up = form->fused_gate_up && plan->gated;
    if (plan->norm == PF_NORM_RMS_PLUS_ONE) plan->norm = PF_NORM_RMS;
    if (plan->head_norm_kind == PF_NORM_RMS_PLUS_ONE) plan->head_norm_kind = PF_NORM_RMS;
}

/* The metadata of a GGUF file. */
static pf_status load_gguf(const char *path, const pf_load_policy *policy, pf_config *out, pf_error *error)
{
    pf_gguf *file = NULL;
    pf_json doc = { 0 };
    pf_gguf_form form = { 0 };
    PF_TRY(pf_gguf_open(path, &file, error));
    pf_status status = pf_gguf_config_document(file, &doc, &form, error);
    if (status == PF_OK) status = read_documents(&doc, NULL, policy, out, error);
    if (status == PF_OK) set_form(out, &form);
    pf_json_close(&doc);
    pf_gguf_close(file);
    return status;
}

/* A quantization_config in a file of its own, as AutoGPTQ and AutoAWQ wrote it at first, without a method. It counts where config.json
 * has none. */
static pf_status read_quantization_file(const char *directory, const pf_json *config, pf_config *c, pf_error *error)
{
    static const char *const files[][2] = { { "quantize_config.json", "gptq" }, { "quant_config.json", "awq" } };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[PF_FILE_PATH_BYTES];
        pf_json doc = { 0 };
        const json_t *in_config = json_object_get(config->root, "quantization_config");
        if (in_config != NULL && !json_is_null(in_config)) return PF_OK;
        if (pf_file_join(directory, files[i][0], path, NULL) != PF_OK || pf_file_is_absent(path)) continue;
        PF_TRY(pf_json_open(path, PF_MAX_CONFIG_BYTES, &doc, error));
        pf_status status = PF_OK;
        if (json_object_get(doc.root, "quant_method") == NULL &&
            json_object_set_new(doc.root, "quant_method", json_string(files[i][1])) != 0)
            status = pf_fail(error, PF_FORMAT, "%s: it is no object, expected one with bits", path);
        if (status == PF_OK) status = pf_quantization_read(&doc, &c->quantization, error);
        pf_json_close(&doc);
        return status;
    }
    return PF_OK;
}

pf_status pf_config_load(const char *directory, const pf_load_policy *policy, pf_config *out, pf_error *error)
{
    char path[PF_FILE_PATH_BYTES];
    pf_json doc = { 0 }, generation = { 0 };
    pf_config c = { 0 };
    if (pf_gguf_is_file(directory)) return load_gguf(directory, policy, out, error);
    PF_TRY(pf_file_join(directory, "config.json", path, error));
    const pf_status opened = pf_json_open(path, PF_MAX_CONFIG_BYTES, &doc, error);
    if (opened == PF_UNAVAILABLE) return pf_model_directory_explain(directory, "config.json", error);
    if (opened != PF_OK) return opened;

    if (pf_file_join(directory, "generation_config.json", path, NULL) != PF_OK) path[0] = '\0';
    pf_error absent = { 0 }; /* a missing file is no failure */
    pf_status status = pf_json_open(path, PF_MAX_CONFIG_BYTES, &generation, &absent);
    if (status == PF_OK || status == PF_UNAVAILABLE)
        status = read_documents(&doc, status == PF_OK ? &generation : NULL, policy, &c, error);
    else if (error)
        *error = absent;
    if (status == PF_OK) status = read_quantization_file(directory, &doc, &c, error);
    if (status == PF_OK) *out = c;
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
