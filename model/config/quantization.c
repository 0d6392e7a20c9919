#include "model/config/quantization.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "model/config/config_parts.h"

enum { WIDTH_2_4_8 = 1 << 2 | 1 << 4 | 1 << 8, MAX_BLOCK = 1 << 16 };

/* ---- fields ------------------------------------------------------------------------------------------------------ */

/* NULL: the field is absent. */
static bool is_off(const json_t *value)
{
    return value == NULL || json_is_null(value) || json_is_false(value) ||
           (json_is_string(value) && json_string_length(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

/* Checks that each field is read, inert, or switched off. */
static pf_status check_fields(const pf_json *doc, const char *const *read, const char *const *inert, pf_error *error)
{
    const char *key;
    json_t *value;
    json_object_foreach(doc->root, key, value)
    {
        if (is_off(value) || pf_config_lists(read, key) || pf_config_lists(inert, key)) continue;
        char found[PF_SHOWN_BYTES];
        (void)pf_config_show(value, found);
        return pf_fail(error, PF_UNSUPPORTED, "%s: the field %.60s (%s) is not known and could change the weights",
                       doc->name, key, found);
    }
    return PF_OK;
}

/* Fails where a field is there and is none of the words. Letter case does not count. */
static pf_status expect_word(const pf_json *doc, const char *field, const char *const *words, const char **out,
                             pf_error *error)
{
    const char *found = NULL;
    PF_TRY(pf_json_get_string(doc, doc->root, field, false, &found, error));
    if (found == NULL) return PF_OK;
    for (const char *const *word = words; *word != NULL; word++) {
        if (strcasecmp(found, *word) != 0) continue;
        *out = *word;
        return PF_OK;
    }
    char known[96] = "";
    for (const char *const *word = words; *word != NULL; word++) pf_list_word(known, sizeof known, ", ", *word);
    return pf_fail(error, PF_UNSUPPORTED, "%s: %s is \"%.60s\", only %s is read", doc->name, field, found, known);
}

/* The name of a field that has two; NULL: neither is there. */
static const char *find_field(const pf_json *doc, const char *a, const char *b)
{
    if (json_object_get(doc->root, a) != NULL) return a;
    return json_object_get(doc->root, b) != NULL ? b : NULL;
}

static pf_status read_bits(const pf_json *doc, const char *field, uint32_t widths, int32_t *bits, pf_error *error)
{
    PF_TRY(pf_json_get_int32(doc, doc->root, field, true, 1, 16, bits, error));
    if (widths >> *bits & 1) return PF_OK;
    char known[32] = "";
    for (int32_t b = 1; b <= 16; b++) {
        char number[8];
        snprintf(number, sizeof number, "%d", b);
        if (widths >> b & 1) pf_list_word(known, sizeof known, ", ", number);
    }
    return pf_fail(error, PF_UNSUPPORTED, "%s: %s is %d, what is read is %s", doc->name, field, *bits, known);
}

/* -1 is a group as long as a row. */
static pf_status read_group(const pf_json *doc, const char *field, bool required, int32_t *group, pf_error *error)
{
    int32_t n = *group == 0 ? -1 : *group;
    PF_TRY(pf_json_get_int32(doc, doc->root, field, required, -1, PF_MAX_GROUP, &n, error));
    if (n == 0) return pf_fail(error, PF_FORMAT, "%s: %s is 0, expected -1, or 1 or more", doc->name, field);
    *group = n < 0 ? 0 : n;
    return PF_OK;
}

static void describe_group(int32_t group, char out[48])
{
    if (group > 0)
        snprintf(out, 48, "groups of %d", group);
    else
        snprintf(out, 48, "one group a row");
}

/* "NAME, 4 bits, groups of 128, asymmetric, act-order" */
static void describe(pf_quantization *q, const char *name, int32_t bits, bool asymmetric, bool act_order)
{
    char group[48];
    describe_group(q->group, group);
    snprintf(q->words, sizeof q->words, "%s, %d bits, %s, %s%s%s", name, bits, group,
             asymmetric ? "asymmetric" : "symmetric", act_order ? ", act-order" : "",
             q->varies ? ", some modules otherwise" : "");
}

/* ---- GPTQ -------------------------------------------------------------------------------------------------------- */

/* What was asked of the program that quantised, and how some other one is to run it. */
static const char *const MADE_AND_RUN[] = { "act_group_aware",
                                            "amp",
                                            "autoround_version",
                                            "backend",
                                            "batch_size",
                                            "block_name_to_quantize",
                                            "cache_block_outputs",
                                            "damp_auto_increment",
                                            "damp_percent",
                                            "dataset",
                                            "do_fuse",
                                            "enable_minmax_tuning",
                                            "enable_norm_bias_tuning",
                                            "enable_quanted_input",
                                            "exllama_config",
                                            "failsafe",
                                            "fallback",
                                            "fuse_max_seq_len",
                                            "gradient_accumulate_steps",
                                            "hyb_act",
                                            "iters",
                                            "lm_head",
                                            "low_gpu_mem_usage",
                                            "lr",
                                            "max_input_length",
                                            "meta",
                                            "minmax_lr",
                                            "model_file_base_name",
                                            "model_name_or_path",
                                            "model_seqlen",
                                            "module_name_preceding_first_block",
                                            "modules_in_block_to_quantize",
                                            "modules_to_fuse",
                                            "modules_to_not_convert",
                                            "mse",
                                            "nsamples",
                                            "pad_token_id",
                                            "provider",
                                            "quantizer",
                                            "scale_dtype",
                                            "seqlen",
                                            "static_groups",
                                            "to_quant_block_names",
                                            "tokenizer",
                                            "true_sequential",
                                            "use_cuda_fp16",
                                            "use_exllama",
                                            NULL };

/* "data_type" of AutoRound. */
static const char *const INTEGERS[] = { "int", "int_sym", "int_asym", NULL };

static pf_status read_gptq(const pf_json *doc, pf_quantization *q, pf_error *error)
{
    static const char *const fields[] = { "quant_method", "method", "bits",    "group_size", "desc_act",
                                          "sym",          "format", "dynamic", "pack_dtype", "checkpoint_format",
                                          "data_type",    NULL };
    static const char *const formats[] = { "gptq", "gptq_v2", NULL };
    static const char *const methods[] = { "gptq", NULL }, *const packs[] = { "int32", NULL };
    const char *format = formats[0], *ignored = NULL;
    const char *format_field = find_field(doc, "checkpoint_format", "format");
    int32_t bits = 4;
    bool act_order = false, symmetric = true;
    q->scheme = PF_SCHEME_GPTQ;
    q->group = 128;
    if (format_field != NULL) PF_TRY(expect_word(doc, format_field, formats, &format, error));
    PF_TRY(expect_word(doc, "method", methods, &ignored, error));
    PF_TRY(expect_word(doc, "pack_dtype", packs, &ignored, error));
    PF_TRY(expect_word(doc, "data_type", INTEGERS, &ignored, error));
    PF_TRY(read_bits(doc, "bits", WIDTH_2_4_8, &bits, error));
    PF_TRY(read_group(doc, "group_size", false, &q->group, error));
    PF_TRY(pf_json_get_bool(doc, doc->root, "desc_act", false, &act_order, error));
    PF_TRY(pf_json_get_bool(doc, doc->root, "sym", false, &symmetric, error));
    PF_TRY(check_fields(doc, fields, MADE_AND_RUN, error));
    q->varies = !is_off(json_object_get(doc->root, "dynamic"));
    q->zeros_less_one = format == formats[0];
    q->widths = q->varies ? WIDTH_2_4_8 : 1u << bits;
    describe(q, "GPTQ", bits, !symmetric, act_order);
    return PF_OK;
}

/* ---- AWQ --------------------------------------------------------------------------------------------------------- */

static pf_status read_awq(const pf_json *doc, pf_quantization *q, pf_error *error)
{
    static const char *const fields[] = { "quant_method", "method",
                                          "bits",         "w_bit",
                                          "group_size",   "q_group_size",
                                          "zero_point",   "version",
                                          "format",       "checkpoint_format",
                                          "pack_dtype",   "backend",
                                          "sym",          "desc_act",
                                          "data_type",    NULL };
    static const char *const versions[] = { "gemm", NULL }, *const methods[] = { "awq", NULL };
    static const char *const backends[] = { "autoawq", "auto", NULL }, *const packs[] = { "int32", NULL };
    const char *ignored = NULL, *group = find_field(doc, "group_size", "q_group_size");
    const char *bits_field = find_field(doc, "bits", "w_bit"), *format = find_field(doc, "checkpoint_format", "format");
    int32_t bits = 4;
    bool has_zeros = true;
    q->scheme = PF_SCHEME_AWQ;
    q->group = 128;
    PF_TRY(expect_word(doc, "version", versions, &ignored, error));
    if (format != NULL) PF_TRY(expect_word(doc, format, versions, &ignored, error));
    PF_TRY(expect_word(doc, "method", methods, &ignored, error));
    PF_TRY(expect_word(doc, "backend", backends, &ignored, error));
    PF_TRY(expect_word(doc, "pack_dtype", packs, &ignored, error));
    PF_TRY(expect_word(doc, "data_type", INTEGERS, &ignored, error));
    PF_TRY(read_bits(doc, bits_field != NULL ? bits_field : "bits", 1 << 4, &bits, error));
    if (group != NULL) PF_TRY(read_group(doc, group, false, &q->group, error));
    PF_TRY(pf_json_get_bool(doc, doc->root, "zero_point", false, &has_zeros, error));
    PF_TRY(check_fields(doc, fields, MADE_AND_RUN, error));
    q->widths = 1u << bits;
    describe(q, "AWQ", bits, has_zeros, false);
    return PF_OK;
}

/* ---- AutoRound --------------------------------------------------------------------------------------------------- */

/* Its formats of integers. Those of its own hold zero points as they are. */
static const struct {
    const char *name;
    pf_scheme scheme;
    bool zeros_less_one;
} PACKINGS[] = {
    { "auto_round:auto_gptq", PF_SCHEME_GPTQ, true },  { "auto_gptq", PF_SCHEME_GPTQ, true },
    { "auto_round:gptq", PF_SCHEME_GPTQ, true },       { "auto_round", PF_SCHEME_GPTQ, false },
    { "auto_round:gptqmodel", PF_SCHEME_GPTQ, false }, { "auto_round:exllamav2", PF_SCHEME_GPTQ, false },
    { "auto_round:auto_awq", PF_SCHEME_AWQ, false },   { "auto_round:awq", PF_SCHEME_AWQ, false },
};

static pf_status read_packing(const pf_json *doc, const char **name, pf_quantization *q, pf_error *error)
{
    const char *field = find_field(doc, "packing_format", "backend");
    *name = PACKINGS[0].name;
    if (field != NULL) PF_TRY(pf_json_get_string(doc, doc->root, field, false, name, error));
    for (size_t i = 0; i < sizeof PACKINGS / sizeof *PACKINGS; i++) {
        if (strcasecmp(*name, PACKINGS[i].name) != 0) continue;
        q->scheme = PACKINGS[i].scheme;
        q->zeros_less_one = PACKINGS[i].zeros_less_one;
        return PF_OK;
    }
    return pf_fail(
        error, PF_UNSUPPORTED,
        "%s: %s is \"%.60s\", which is not read: auto_round, auto_round:auto_gptq and auto_round:auto_awq are",
        doc->name, field, *name);
}

static pf_status read_auto_round(const pf_json *doc, pf_quantization *q, pf_error *error)
{
    static const char *const fields[] = { "quant_method", "packing_format", "backend",      "bits",     "group_size",
                                          "sym",          "data_type",      "extra_config", "act_bits", NULL };
    const char *packing = NULL, *ignored = NULL;
    int32_t bits = 4, act_bits = 16;
    bool symmetric = true;
    char name[64];
    q->group = 128;
    PF_TRY(read_packing(doc, &packing, q, error));
    PF_TRY(expect_word(doc, "data_type", INTEGERS, &ignored, error));
    PF_TRY(read_bits(doc, "bits", q->scheme == PF_SCHEME_AWQ ? 1 << 4 : WIDTH_2_4_8, &bits, error));
    PF_TRY(read_group(doc, "group_size", false, &q->group, error));
    PF_TRY(pf_json_get_bool(doc, doc->root, "sym", false, &symmetric, error));
    PF_TRY(pf_json_get_int32(doc, doc->root, "act_bits", false, 1, 32, &act_bits, error));
    if (act_bits < 16)
        return pf_fail(error, PF_UNSUPPORTED, "%s: act_bits is %d: quantised activations are not read", doc->name,
                       act_bits);
    PF_TRY(check_fields(doc, fields, MADE_AND_RUN, error));
    q->varies = !is_off(json_object_get(doc->root, "extra_config"));
    q->widths = q->scheme == PF_SCHEME_AWQ ? 1u << 4 : q->varies ? WIDTH_2_4_8 : 1u << bits;
    snprintf(name, sizeof name, "AutoRound as %.40s", packing);
    describe(q, name, bits, !symmetric, false);
    return PF_OK;
}

/* ---- compressed-tensors ------------------------------------------------------------------------------------------ */

/* [128, 128], or "128x128" */
static pf_status read_blocks(const pf_json *doc, const char *field, pf_quantization *q, pf_error *error)
{
    const json_t *value = json_object_get(doc->root, field);
    int rows = 0, columns = 0, end = 0;
    if (value == NULL || json_is_null(value)) return PF_OK;
    if (json_is_string(value)) {
        /* NOLINTNEXTLINE(cert-err34-c): a number has six digits at most */
        if (sscanf(json_string_value(value), "%6dx%6d%n", &rows, &columns, &end) != 2 ||
            (size_t)end != json_string_length(value))
            rows = 0;
    } else if (json_array_size(value) == 2) {
        const json_int_t a = json_integer_value(json_array_get(value, 0));
        const json_int_t b = json_integer_value(json_array_get(value, 1));
        rows = a > 0 && a <= MAX_BLOCK ? (int)a : 0;
        columns = b > 0 && b <= MAX_BLOCK ? (int)b : 0;
    }
    if (rows < 1 || columns < 1 || rows > MAX_BLOCK || columns > MAX_BLOCK)
        return pf_fail(error, PF_FORMAT, "%s: %s: expected two numbers from 1 to %d", doc->name, field, MAX_BLOCK);
    q->block_rows = rows;
    q->block_columns = columns;
    return PF_OK;
}

/* What one group of modules says of its weights. */
typedef struct {
    int32_t bits;
    bool is_float, symmetric, act_order;
    const char *strategy;
} weights_rule;

static pf_status read_weights_fields(const pf_json *w, weights_rule *rule, pf_error *error)
{
    static const char *const types[] = { "int", "float", NULL };
    static const char *const strategies[] = { "tensor", "channel", "group", "block", NULL };
    static const char *const orders[] = { "group", "dynamic", "weight", "static", NULL };
    const char *type = types[0], *order = NULL;
    bool dynamic = false;
    PF_TRY(expect_word(w, "type", types, &type, error));
    rule->is_float = type == types[1];
    PF_TRY(read_bits(w, "num_bits", rule->is_float ? 1 << 8 : WIDTH_2_4_8, &rule->bits, error));
    PF_TRY(pf_json_get_bool(w, w->root, "symmetric", false, &rule->symmetric, error));
    PF_TRY(pf_json_get_bool(w, w->root, "dynamic", false, &dynamic, error));
    if (dynamic) return pf_fail(error, PF_UNSUPPORTED, "%s: dynamic is true, expected weights with scales", w->name);
    PF_TRY(expect_word(w, "strategy", strategies, &rule->strategy, error));
    if (json_is_boolean(json_object_get(w->root, "actorder"))) {
        rule->act_order = json_is_true(json_object_get(w->root, "actorder"));
        return PF_OK;
    }
    PF_TRY(expect_word(w, "actorder", orders, &order, error));
    rule->act_order = order == orders[0] || order == orders[1];
    return PF_OK;
}

/* One of config_groups. */
static pf_status read_rule(const pf_json *group, pf_quantization *q, weights_rule *rule, pf_error *error)
{
    static const char *const parts[] = {
        "weights", "targets", "input_activations", "output_activations", "format", NULL
    };
    static const char *const fields[] = { "num_bits", "type",     "symmetric",       "strategy", "group_size",
                                          "dynamic",  "actorder", "block_structure", NULL };
    static const char *const inert[] = { "observer", "observer_kwargs", "zp_dtype", "scale_dtype", NULL };
    const json_t *node = json_object_get(group->root, "weights");
    if (!json_is_object(node))
        return pf_fail(error, PF_FORMAT, "%s: weights is absent, expected what was quantised", group->name);
    const pf_json weights = pf_json_within(group, node, "weights"), *w = &weights;
    *rule = (weights_rule){ .bits = 8, .symmetric = true };
    PF_TRY(check_fields(group, parts, inert, error));
    PF_TRY(read_weights_fields(w, rule, error));
    PF_TRY(read_group(w, "group_size", false, &q->group, error));
    PF_TRY(read_blocks(w, "block_structure", q, error));
    return check_fields(w, fields, inert, error);
}

static void describe_compressed(pf_quantization *q, const char *format, const weights_rule *rule, bool rounds_inputs)
{
    char name[64], blocks[48] = "a scale a tensor";
    snprintf(name, sizeof name, "compressed-tensors %.32s", format);
    if (!rule->is_float) {
        describe(q, name, rule->bits, !rule->symmetric, rule->act_order);
    } else {
        if (q->block_rows > 0)
            snprintf(blocks, sizeof blocks, "blocks of %d x %d", q->block_rows, q->block_columns);
        else if (rule->strategy != NULL && strcmp(rule->strategy, "tensor") != 0)
            describe_group(q->group, blocks);
        snprintf(q->words, sizeof q->words, "%s, FP8 E4M3, %s%s", name, blocks,
                 q->varies ? ", some modules otherwise" : "");
    }
    if (rounds_inputs) pf_list_word(q->words, sizeof q->words, "; ", "activations are not rounded");
}

static const char *const FORMATS[] = { "pack-quantized",  "int-quantized",   "float-quantized",
                                       "naive-quantized", "mixed-precision", NULL };

/* What may stand beside the weights: 2:4 sparsity and rotations are not read, scales of the KV cache are not used. */
static pf_status check_beside_weights(const pf_json *doc, pf_error *error)
{
    static const char *const fields[] = { "quant_method",
                                          "format",
                                          "config_groups",
                                          "ignore",
                                          "quantization_status",
                                          "version",
                                          "kv_cache_scheme",
                                          "sparsity_config",
                                          "global_compression_ratio",
                                          NULL };
    static const char *const inert[] = { "run_compressed", "dequantize", "use_optimized_inference", NULL };
    static const char *const dense[] = { "dense", NULL };
    const json_t *node = json_object_get(doc->root, "sparsity_config");
    const char *ignored = NULL;
    if (json_is_object(node)) {
        const pf_json sparsity = pf_json_within(doc, node, "sparsity_config");
        PF_TRY(expect_word(&sparsity, "format", dense, &ignored, error));
    }
    return check_fields(doc, fields, inert, error);
}

static pf_status read_compressed(const pf_json *doc, pf_quantization *q, pf_error *error)
{
    const json_t *groups = json_object_get(doc->root, "config_groups");
    const char *format = FORMATS[0], *name, *own = NULL;
    json_t *node;
    bool rounds_inputs = false;
    weights_rule first = { .bits = 0 };
    pf_quantization of_first = { .scheme = PF_SCHEME_SCALED };
    PF_TRY(expect_word(doc, "format", FORMATS, &format, error));
    PF_TRY(check_beside_weights(doc, error));
    if (!json_is_object(groups) || json_object_size(groups) == 0)
        return pf_fail(error, PF_FORMAT, "%s: config_groups is absent, expected what was quantised", doc->name);
    json_object_foreach((json_t *)(uintptr_t)groups, name, node)
    {
        const pf_json group = pf_json_within(doc, node, "config_groups.%.40s", name);
        weights_rule rule;
        pf_quantization one = { .scheme = PF_SCHEME_SCALED };
        if (!json_is_object(node)) return pf_fail(error, PF_FORMAT, "%s: expected an object", group.name);
        PF_TRY(expect_word(&group, "format", FORMATS, &own, error));
        PF_TRY(read_rule(&group, &one, &rule, error));
        rounds_inputs |= !is_off(json_object_get(node, "input_activations"));
        const uint32_t widths = of_first.widths | 1u << rule.bits;
        if (first.bits == 0) {
            first = rule;
            of_first = one;
        }
        of_first.widths = widths;
    }
    *q = of_first;
    q->varies = json_object_size(groups) > 1;
    describe_compressed(q, format, &first, rounds_inputs);
    return PF_OK;
}

/* ---- FP8 --------------------------------------------------------------------------------------------------------- */

/* Without weight_block_size scales may be those of blocks of 128 x 128, as in transformers, or of tensors, as in vLLM. */
static pf_status read_fp8(const pf_json *doc, pf_quantization *q, pf_error *error)
{
    static const char *const fields[] = { "quant_method", "weight_block_size", "fmt",
                                          "scale_fmt",    "activation_scheme", NULL };
    static const char *const inert[] = { "modules_to_not_convert", "ignored_layers", "activation_scale_ub",
                                         "kv_cache_scheme",        "dequantize",     NULL };
    static const char *const formats[] = { "e4m3", "float8_e4m3fn", NULL };
    static const char *const scales[] = { "float", "ue8m0", NULL };
    const char *ignored = NULL;
    q->scheme = PF_SCHEME_SCALED;
    q->widths = 1 << 8;
    PF_TRY(expect_word(doc, "fmt", formats, &ignored, error));
    PF_TRY(expect_word(doc, "scale_fmt", scales, &ignored, error));
    PF_TRY(read_blocks(doc, "weight_block_size", q, error));
    PF_TRY(check_fields(doc, fields, inert, error));
    const bool is_said = q->block_rows > 0;
    if (json_object_get(doc->root, "weight_block_size") == NULL) q->block_rows = q->block_columns = 128;
    if (is_said)
        snprintf(q->words, sizeof q->words, "FP8 E4M3, blocks of %d x %d; activations are not rounded", q->block_rows,
                 q->block_columns);
    else
        snprintf(q->words, sizeof q->words, "FP8 E4M3, a scale a tensor or a row; activations are not rounded");
    return PF_OK;
}

/* ---- bitsandbytes ------------------------------------------------------------------------------------------------ */

static pf_status read_bitsandbytes(const pf_json *doc, pf_quantization *q, pf_error *error)
{
    static const char *const fields[] = { "quant_method",
                                          "load_in_4bit",
                                          "load_in_8bit",
                                          "_load_in_4bit",
                                          "_load_in_8bit",
                                          "bnb_4bit_quant_type",
                                          "bnb_4bit_use_double_quant",
                                          "bnb_4bit_quant_storage",
                                          NULL };
    static const char *const inert[] = { "bnb_4bit_compute_dtype",   "llm_int8_enable_fp32_cpu_offload",
                                         "llm_int8_has_fp16_weight", "llm_int8_skip_modules",
                                         "llm_int8_threshold",       NULL };
    static const char *const types[] = { "nf4", "fp4", NULL }, *const storages[] = { "uint8", NULL };
    const char *type = types[1], *ignored = NULL;
    bool is_4bit = false, has_nested = false;
    q->scheme = PF_SCHEME_BITSANDBYTES;
    PF_TRY(pf_json_get_bool(doc, doc->root, "_load_in_4bit", false, &is_4bit, error));
    PF_TRY(pf_json_get_bool(doc, doc->root, "load_in_4bit", false, &is_4bit, error));
    PF_TRY(pf_json_get_bool(doc, doc->root, "bnb_4bit_use_double_quant", false, &has_nested, error));
    PF_TRY(expect_word(doc, "bnb_4bit_quant_type", types, &type, error));
    PF_TRY(expect_word(doc, "bnb_4bit_quant_storage", storages, &ignored, error));
    PF_TRY(check_fields(doc, fields, inert, error));
    if (is_4bit)
        snprintf(q->words, sizeof q->words, "bitsandbytes %s%s", type == types[0] ? "NF4" : "FP4",
                 has_nested ? ", scales in 8 bits" : "");
    else
        snprintf(q->words, sizeof q->words, "bitsandbytes INT8, one group a row; activations are not rounded");
    return PF_OK;
}

/* ---- the method -------------------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    pf_status (*read)(const pf_json *doc, pf_quantization *q, pf_error *error);
} METHODS[] = {
    { "gptq", read_gptq },
    { "awq", read_awq },
    { "auto-round", read_auto_round },
    { "intel/auto-round", read_auto_round },
    { "compressed-tensors", read_compressed },
    { "fp8", read_fp8 },
    { "fbgemm_fp8", read_fp8 },
    { "bitsandbytes", read_bitsandbytes },
};

pf_status pf_quantization_read(const pf_json *doc, pf_quantization *out, pf_error *error)
{
    const char *method = json_string_value(json_object_get(doc->root, "quant_method"));
    for (size_t i = 0; method != NULL && i < sizeof METHODS / sizeof *METHODS; i++) {
        if (strcmp(method, METHODS[i].name) != 0) continue;
        pf_quantization q = { .scheme = PF_SCHEME_NONE };
        PF_TRY(METHODS[i].read(doc, &q, error));
        *out = q;
        return PF_OK;
    }
    return pf_fail(
        error, PF_UNSUPPORTED,
        "%s: quant_method is %.60s, known here are pilotfish, gptq, awq, auto-round, compressed-tensors, fp8, "
        "fbgemm_fp8 and bitsandbytes",
        doc->name, method ? method : "no string");
}
