/*
 * config.json by a table of architectures.
 *
 * A key of the file is one of four things: read (FIELDS of the row), fixed (only the value that this engine computes
 * is let through), inert (written by transformers, not read at inference), or unknown, which is refused by name
 * unless it is null. What is computed from the numbers read (RoPE frequencies) is in rope_scaling.c.
 */
#include "model/config.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "model/dtype.h"

enum { MAX_CONFIG_BYTES = 1 << 20 };

/* --- the table --- */

typedef struct {
    const char *name;       /* as in "architectures" */
    const char *model_type; /* as in "model_type" */
    int32_t max_position;   /* defaults where the file is silent */
    double rms_eps, rope_theta;
    bool tied_embeddings;
    bool partial_rotary;                    /* whether partial_rotary_factor may differ from 1 */
    const char *const *fields;              /* keys that the reader below looks at */
    const char *tensors[PF_N_TENSOR_ROLES]; /* names without ".weight"; %d is the layer */
} architecture;

static const char *const LLAMA_FIELDS[] = {
    "architectures",
    "model_type",
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "max_position_embeddings",
    "rms_norm_eps",
    "tie_word_embeddings",
    "attention_bias",
    "mlp_bias",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "partial_rotary_factor",
    "bos_token_id",
    "eos_token_id",
    "layer_types",
    "original_max_position_embeddings",
    "quantization_config",
    NULL,
};

static const architecture ARCHITECTURES[PF_N_ARCHITECTURES] = {
    [PF_ARCH_LLAMA] = {
        .name = "LlamaForCausalLM",
        .model_type = "llama",
        .max_position = 2048,
        .rms_eps = 1e-6,
        .rope_theta = 10000.0,
        .fields = LLAMA_FIELDS,
        .tensors = {
            [PF_TENSOR_EMBEDDING] = "model.embed_tokens",
            [PF_TENSOR_FINAL_NORM] = "model.norm",
            [PF_TENSOR_HEAD] = "lm_head",
            [PF_TENSOR_ATTENTION_NORM] = "model.layers.%d.input_layernorm",
            [PF_TENSOR_Q] = "model.layers.%d.self_attn.q_proj",
            [PF_TENSOR_K] = "model.layers.%d.self_attn.k_proj",
            [PF_TENSOR_V] = "model.layers.%d.self_attn.v_proj",
            [PF_TENSOR_O] = "model.layers.%d.self_attn.o_proj",
            [PF_TENSOR_MLP_NORM] = "model.layers.%d.post_attention_layernorm",
            [PF_TENSOR_GATE] = "model.layers.%d.mlp.gate_proj",
            [PF_TENSOR_UP] = "model.layers.%d.mlp.up_proj",
            [PF_TENSOR_DOWN] = "model.layers.%d.mlp.down_proj",
        },
    },
};

/* Written by transformers, 4 or 5, or found in models that were published, and not read by a causal language model at
 * inference: the origin of the file, training, classification heads, what `generate` would default to, and how PyTorch or
 * a browser is to run it. */
static const char *const INERT[] = {
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_commit_hash",
    "_flash_attn_2_enabled",
    "_name_or_path",
    "attention_dropout",
    "attention_probs_dropout_prob",
    "attn_implementation",
    "attn_pdrop",
    "auto_map",
    "bad_words_ids",
    "begin_suppress_tokens",
    "cache_implementation",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dtype",
    "early_stopping",
    "embd_pdrop",
    "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "gradient_checkpointing",
    "hidden_dropout",
    "hidden_dropout_prob",
    "id2label",
    "initializer_range",
    "is_decoder",
    "keys_to_ignore_at_inference",
    "label2id",
    "length_penalty",
    "mask_token_id",
    "max_length",
    "max_new_tokens",
    "max_sequence_length",
    "max_window_layers",
    "min_length",
    "min_new_tokens",
    "model_max_length",
    "name_or_path",
    "neftune_noise_alpha",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_labels",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "pad_token_id",
    "prefix",
    "problem_type",
    "remove_invalid_values",
    "repetition_penalty",
    "resid_pdrop",
    "return_dict",
    "return_dict_in_generate",
    "sep_token_id",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tie_last_hidden_states",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "type_vocab_size",
    "typical_p",
    "unk_token_id",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
    "use_flash_attention",
    "use_flash_attention_2",
    "use_flash_attn",
    "use_sdpa",
    NULL,
};

/* Keys that change a result, or would if anybody read them, with the values under which they do not. */
static const struct {
    const char *key;
    const char *values[3]; /* as compact JSON */
} FIXED[] = {
    { "add_cross_attention", { "false" } },
    { "alibi", { "false" } },
    { "hidden_act", { "\"silu\"", "\"swish\"" } },
    { "is_causal", { "true" } },
    { "is_encoder_decoder", { "false" } },
    { "is_llama_config", { "true" } },
    { "per_layer_config", { "{}" } },
    { "pretraining_tp", { "1" } },
    { "pruned_heads", { "{}" } },
    { "qk_norm", { "false" } },
    { "rope_interleaved", { "false" } },
    { "tie_encoder_decoder", { "false" } },
    { "use_mrope", { "false" } },
    { "use_qk_norm", { "false" } },
    { "use_sliding_window", { "false" } },
};

static const char *const ROPE_FIELDS[] = {
    "rope_type",
    "type",
    "rope_theta",
    "factor",
    "original_max_position_embeddings",
    "attention_factor",
    "beta_fast",
    "beta_slow",
    "short_factor",
    "long_factor",
    "low_freq_factor",
    "high_freq_factor",
    "mscale",
    "mscale_all_dim",
    "truncate",
    "partial_rotary_factor",
    "finetuned", /* of YaRN's first models; nothing reads it since */
    NULL,
};

static const char *const ROPE_TYPES[] = {
    [PF_ROPE_DEFAULT] = "default", [PF_ROPE_LINEAR] = "linear", [PF_ROPE_DYNAMIC] = "dynamic",
    [PF_ROPE_LLAMA3] = "llama3",   [PF_ROPE_YARN] = "yarn",     [PF_ROPE_LONGROPE] = "longrope",
};
enum { N_ROPE_TYPES = sizeof ROPE_TYPES / sizeof *ROPE_TYPES };

static bool listed(const char *const *list, const char *text)
{
    for (; *list; list++)
        if (strcmp(*list, text) == 0) return true;
    return false;
}

/* A value as it is written in errors, cut short. */
static void show(const json_t *value, char out[80])
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    snprintf(out, 80, "%s", text ? text : "?");
    free(text);
}

/* --- which architecture --- */

static void list_architectures(char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; i < PF_N_ARCHITECTURES && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s", i ? ", " : "", ARCHITECTURES[i].name);
}

static pf_status find_architecture(const pf_json *doc, const architecture **out, pf_error *error)
{
    char known[256];
    list_architectures(known, sizeof known);

    const json_t *names = json_object_get(doc->root, "architectures");
    const char *name = NULL;
    if (names && !json_is_null(names)) {
        if (!json_is_array(names) || json_array_size(names) != 1 || !json_is_string(json_array_get(names, 0)))
            return pf_fail(error, PF_FORMAT, "%s: architectures must be a list of one name (known: %s)", doc->name,
                           known);
        name = json_string_value(json_array_get(names, 0));
    }
    const char *model_type = NULL;
    PF_TRY(pf_json_get_string(doc, doc->root, "model_type", false, &model_type, error));
    if (!name && !model_type)
        return pf_fail(error, PF_FORMAT, "%s: neither architectures nor model_type is there (known: %s)", doc->name,
                       known);

    for (int i = 0; i < PF_N_ARCHITECTURES; i++) {
        const architecture *row = &ARCHITECTURES[i];
        if (name ? strcmp(name, row->name) != 0 : strcmp(model_type, row->model_type) != 0) continue;
        if (model_type && strcmp(model_type, row->model_type) != 0)
            return pf_fail(error, PF_FORMAT, "%s: model_type is \"%.60s\", expected \"%s\" for %s", doc->name,
                           model_type, row->model_type, row->name);
        *out = row;
        return PF_OK;
    }
    return pf_fail(error, PF_UNSUPPORTED, "%s: the architecture %.80s is not known (known: %s)", doc->name,
                   name ? name : model_type, known);
}

/* --- keys that nothing reads --- */

static pf_status check_fixed(const pf_json *doc, const char *key, const json_t *value, bool *is_fixed, pf_error *error)
{
    *is_fixed = false;
    for (size_t i = 0; i < sizeof FIXED / sizeof *FIXED; i++) {
        if (strcmp(key, FIXED[i].key) != 0) continue;
        *is_fixed = true;
        char found[80];
        show(value, found);
        for (int v = 0; v < 3 && FIXED[i].values[v]; v++)
            if (strcmp(found, FIXED[i].values[v]) == 0) return PF_OK;
        return pf_fail(error, PF_UNSUPPORTED, "%s: %s is %s, only %s is known here", doc->name, key, found,
                       FIXED[i].values[0]);
    }
    return PF_OK;
}

static pf_status check_keys(const pf_json *doc, const architecture *row, pf_error *error)
{
    const char *key;
    json_t *value;
    json_object_foreach(doc->root, key, value)
    {
        bool is_fixed;
        if (json_is_null(value) || listed(row->fields, key) || listed(INERT, key)) continue;
        PF_TRY(check_fixed(doc, key, value, &is_fixed, error));
        if (is_fixed) continue;
        char found[80];
        show(value, found);
        return pf_fail(error, PF_UNSUPPORTED,
                       "%s: the field %.80s (%s) is not known for %s and could change its results", doc->name, key,
                       found, row->name);
    }

    const json_t *layers = json_object_get(doc->root, "layer_types");
    if (layers && !json_is_null(layers) && !json_is_array(layers))
        return pf_fail(error, PF_FORMAT, "%s: layer_types must be a list, a word for each layer", doc->name);
    for (size_t i = 0; i < json_array_size(layers); i++) {
        const char *type = json_string_value(json_array_get(layers, i));
        if (!type || strcmp(type, "full_attention") != 0)
            return pf_fail(error, PF_UNSUPPORTED, "%s: layer_types[%zu] is \"%.60s\", only \"full_attention\" is known",
                           doc->name, i, type ? type : "not a string");
    }
    return PF_OK;
}

/* --- numbers --- */

static pf_status get_int32(const pf_json *doc, const json_t *object, const char *field, bool required, int32_t min,
                           int32_t max, int32_t *out, pf_error *error)
{
    int64_t value = *out;
    PF_TRY(pf_json_get_int(doc, object, field, required, min, max, &value, error));
    *out = (int32_t)value;
    return PF_OK;
}

static pf_status read_dimensions(const pf_json *doc, const architecture *row, pf_config *c, pf_error *error)
{
    const json_t *root = doc->root;
    PF_TRY(get_int32(doc, root, "vocab_size", true, 1, PF_MAX_VOCAB, &c->vocab_size, error));
    PF_TRY(get_int32(doc, root, "hidden_size", true, 1, PF_MAX_HIDDEN, &c->hidden_size, error));
    PF_TRY(get_int32(doc, root, "intermediate_size", true, 1, PF_MAX_INTERMEDIATE, &c->intermediate_size, error));
    PF_TRY(get_int32(doc, root, "num_hidden_layers", true, 1, PF_MAX_LAYERS, &c->n_layers, error));
    PF_TRY(get_int32(doc, root, "num_attention_heads", true, 1, PF_MAX_HEADS, &c->n_heads, error));

    c->n_kv_heads = c->n_heads;
    PF_TRY(get_int32(doc, root, "num_key_value_heads", false, 1, c->n_heads, &c->n_kv_heads, error));
    if (c->n_heads % c->n_kv_heads != 0)
        return pf_fail(error, PF_FORMAT, "%s: num_key_value_heads is %d, expected a divisor of num_attention_heads, %d",
                       doc->name, c->n_kv_heads, c->n_heads);

    c->head_dim = 0;
    PF_TRY(get_int32(doc, root, "head_dim", false, 1, PF_MAX_HEAD_DIM, &c->head_dim, error));
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

    c->max_position = row->max_position;
    PF_TRY(get_int32(doc, root, "max_position_embeddings", false, 1, PF_MAX_POSITIONS, &c->max_position, error));
    double eps = row->rms_eps;
    PF_TRY(pf_json_get_double(doc, root, "rms_norm_eps", false, 1e-30, 1.0, &eps, error));
    c->rms_eps = (float)eps;

    c->tied_embeddings = row->tied_embeddings;
    PF_TRY(pf_json_get_bool(doc, root, "tie_word_embeddings", false, &c->tied_embeddings, error));
    PF_TRY(pf_json_get_bool(doc, root, "attention_bias", false, &c->attention_bias, error));
    return pf_json_get_bool(doc, root, "mlp_bias", false, &c->mlp_bias, error);
}

/* --- RoPE --- */

static pf_status read_rope_type(const pf_json *doc, const json_t *dict, pf_rope_type *out, pf_error *error)
{
    const char *type = NULL, *old = NULL;
    PF_TRY(pf_json_get_string(doc, dict, "rope_type", false, &type, error));
    PF_TRY(pf_json_get_string(doc, dict, "type", false, &old, error));
    if (type && old && strcmp(type, old) != 0)
        return pf_fail(error, PF_FORMAT, "%s: RoPE's rope_type is \"%.40s\" and its type \"%.40s\"", doc->name, type,
                       old);
    if (!type) type = old ? old : "default";
    for (int i = 0; i < N_ROPE_TYPES; i++) {
        if (strcmp(type, ROPE_TYPES[i]) != 0) continue;
        *out = (pf_rope_type)i;
        return PF_OK;
    }
    return pf_fail(error, PF_UNSUPPORTED,
                   "%s: the RoPE type \"%.40s\" is not known (known: default, linear, dynamic, llama3, yarn, longrope)",
                   doc->name, type);
}

/* One list of longrope's divisors, [rotary_dim / 2]. */
static pf_status read_factors(const pf_json *doc, const json_t *dict, const char *field, int32_t n, float *out,
                              pf_error *error)
{
    const json_t *list = json_object_get(dict, field);
    if (!json_is_array(list) || json_array_size(list) != (size_t)n)
        return pf_fail(error, PF_FORMAT, "%s: RoPE's %s must be a list of %d numbers, as half the rotated dimensions",
                       doc->name, field, n);
    for (int32_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(list, (size_t)i);
        const double value = json_number_value(item);
        if (!json_is_number(item) || !(value >= 1e-6 && value <= 1e9))
            return pf_fail(error, PF_FORMAT, "%s: RoPE's %s[%d] must be a number above 0", doc->name, field, i);
        out[i] = (float)value;
    }
    return PF_OK;
}

/* 0.1 * m * log(scale) + 1: the temperature of attention in a stretched context. Source: arXiv:2309.00071, 3.4. */
static double yarn_scale(double factor, double m)
{
    return factor <= 1.0 ? 1.0 : 0.1 * m * log(factor) + 1.0;
}

static pf_status read_yarn(const pf_json *doc, const json_t *dict, pf_config *c, pf_error *error)
{
    pf_rope *rope = &c->rope;
    double attention = 0.0, mscale = 0.0, mscale_all = 0.0, fast = 0.0, slow = 0.0;
    rope->truncate = true;
    PF_TRY(pf_json_get_double(doc, dict, "attention_factor", false, 1e-6, 1e6, &attention, error));
    PF_TRY(pf_json_get_double(doc, dict, "mscale", false, -1e6, 1e6, &mscale, error));
    PF_TRY(pf_json_get_double(doc, dict, "mscale_all_dim", false, -1e6, 1e6, &mscale_all, error));
    PF_TRY(pf_json_get_double(doc, dict, "beta_fast", false, 0.0, 1e6, &fast, error));
    PF_TRY(pf_json_get_double(doc, dict, "beta_slow", false, 0.0, 1e6, &slow, error));
    PF_TRY(pf_json_get_bool(doc, dict, "truncate", false, &rope->truncate, error));

    rope->beta_fast = fast > 0.0 ? fast : 32.0; /* 0 means the default, as in transformers */
    rope->beta_slow = slow > 0.0 ? slow : 1.0;
    rope->attention_scale = yarn_scale(rope->factor, 1.0);
    if (mscale != 0.0 && mscale_all != 0.0)
        rope->attention_scale = yarn_scale(rope->factor, mscale) / yarn_scale(rope->factor, mscale_all);
    if (attention > 0.0) rope->attention_scale = attention;
    if (!isfinite(rope->attention_scale))
        return pf_fail(error, PF_FORMAT, "%s: RoPE's mscale_all_dim gives attention no finite scale", doc->name);
    return PF_OK;
}

static pf_status read_longrope(const pf_json *doc, const json_t *dict, pf_config *c, pf_error *error)
{
    pf_rope *rope = &c->rope;
    double attention = 0.0;
    PF_TRY(pf_json_get_double(doc, dict, "attention_factor", false, 1e-6, 1e6, &attention, error));
    PF_TRY(read_factors(doc, dict, "short_factor", c->rotary_dim / 2, rope->short_factor, error));
    PF_TRY(read_factors(doc, dict, "long_factor", c->rotary_dim / 2, rope->long_factor, error));
    if (rope->factor > 1.0 && rope->original_max_position < 2)
        return pf_fail(error, PF_FORMAT, "%s: original_max_position_embeddings is %d, expected 2 or more for longrope",
                       doc->name, rope->original_max_position);
    rope->attention_scale =
        rope->factor <= 1.0 ? 1.0 : sqrt(1.0 + log(rope->factor) / log((double)rope->original_max_position));
    if (attention > 0.0) rope->attention_scale = attention;
    return PF_OK;
}

static pf_status read_llama3(const pf_json *doc, const json_t *dict, pf_rope *rope, pf_error *error)
{
    PF_TRY(pf_json_get_double(doc, dict, "low_freq_factor", true, 1e-6, 1e6, &rope->low_freq_factor, error));
    PF_TRY(pf_json_get_double(doc, dict, "high_freq_factor", true, 1e-6, 1e6, &rope->high_freq_factor, error));
    if (rope->low_freq_factor == rope->high_freq_factor)
        return pf_fail(error, PF_FORMAT,
                       "%s: RoPE's low_freq_factor and high_freq_factor are both %g, expected two values", doc->name,
                       rope->low_freq_factor);
    return PF_OK;
}

/* `factor`, and the context that the model was trained on before it was stretched. Where factor is absent, yarn and
 * longrope take the ratio of the two contexts. A field original_max_position_embeddings beside the RoPE dictionary
 * goes before the one in it, as in transformers 5; 4 looked at one or the other by type. */
static pf_status read_stretch(const pf_json *doc, const json_t *dict, pf_config *c, pf_error *error)
{
    pf_rope *rope = &c->rope;
    if (rope->type == PF_ROPE_LLAMA3 || rope->type == PF_ROPE_YARN || rope->type == PF_ROPE_LONGROPE) {
        rope->original_max_position = c->max_position;
        PF_TRY(get_int32(doc, dict, "original_max_position_embeddings", false, 1, PF_MAX_POSITIONS,
                         &rope->original_max_position, error));
        PF_TRY(get_int32(doc, doc->root, "original_max_position_embeddings", false, 1, PF_MAX_POSITIONS,
                         &rope->original_max_position, error));
        if (rope->type != PF_ROPE_LLAMA3) rope->factor = (double)c->max_position / rope->original_max_position;
    }
    const bool required = rope->factor == 0.0;
    return pf_json_get_double(doc, dict, "factor", required, 1e-6, 1e6, &rope->factor, error);
}

static pf_status read_rotary_dim(const pf_json *doc, const json_t *dict, const architecture *row, pf_config *c,
                                 pf_error *error)
{
    double part = 1.0;
    PF_TRY(pf_json_get_double(doc, doc->root, "partial_rotary_factor", false, 1e-6, 1.0, &part, error));
    PF_TRY(pf_json_get_double(doc, dict, "partial_rotary_factor", false, 1e-6, 1.0, &part, error));
    if (part != 1.0 && !row->partial_rotary)
        return pf_fail(error, PF_UNSUPPORTED, "%s: partial_rotary_factor is %g, %s turns whole heads", doc->name, part,
                       row->name);
    c->rotary_dim = (int32_t)((double)c->head_dim * part);
    if (c->rotary_dim < 2 || c->rotary_dim % 2 != 0)
        return pf_fail(error, PF_FORMAT,
                       "%s: partial_rotary_factor leaves %d dimensions of a head to turn, expected an "
                       "even number",
                       doc->name, c->rotary_dim);
    return PF_OK;
}

static bool is_set(const json_t *value)
{
    return json_is_object(value) && json_object_size(value) > 0;
}

static pf_status find_rope_dict(const pf_json *doc, const json_t **out, pf_error *error)
{
    static const char *const names[] = { "rope_scaling", "rope_parameters" }; /* the first that is set */
    *out = NULL;
    for (int i = 0; i < 2; i++) {
        const json_t *dict = json_object_get(doc->root, names[i]);
        if (dict && !json_is_null(dict) && !json_is_object(dict))
            return pf_fail(error, PF_FORMAT, "%s: %s must be an object or null", doc->name, names[i]);
        if (!*out && is_set(dict)) *out = dict;
    }
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)*out, key, value)
    {
        if (!json_is_null(value) && !listed(ROPE_FIELDS, key))
            return pf_fail(error, PF_UNSUPPORTED, "%s: RoPE's field %.80s is not known and could change the results",
                           doc->name, key);
    }
    return PF_OK;
}

/* How far a session may grow: scaling that stretches max_position_embeddings at run time is let run to its end. */
static int32_t longest_context(const pf_config *c)
{
    double tokens = c->max_position;
    if (c->rope.type == PF_ROPE_LINEAR || c->rope.type == PF_ROPE_DYNAMIC) tokens *= c->rope.factor;
    if (c->rope.type == PF_ROPE_YARN) tokens = c->rope.original_max_position * c->rope.factor;
    if (tokens < c->max_position) tokens = c->max_position;
    return tokens > PF_MAX_POSITIONS ? PF_MAX_POSITIONS : (int32_t)tokens;
}

static pf_status read_rope(const pf_json *doc, const architecture *row, pf_config *c, pf_error *error)
{
    pf_rope *rope = &c->rope;
    const json_t *dict;
    PF_TRY(find_rope_dict(doc, &dict, error));
    rope->theta = row->rope_theta;
    rope->attention_scale = 1.0;
    PF_TRY(pf_json_get_double(doc, doc->root, "rope_theta", false, 1.0 + 1e-6, 1e15, &rope->theta, error));
    PF_TRY(pf_json_get_double(doc, dict, "rope_theta", false, 1.0 + 1e-6, 1e15, &rope->theta, error));
    PF_TRY(read_rope_type(doc, dict, &rope->type, error));
    PF_TRY(read_rotary_dim(doc, dict, row, c, error));

    if (rope->type != PF_ROPE_DEFAULT) PF_TRY(read_stretch(doc, dict, c, error));
    if (rope->type == PF_ROPE_LLAMA3) PF_TRY(read_llama3(doc, dict, rope, error));
    if (rope->type == PF_ROPE_YARN) PF_TRY(read_yarn(doc, dict, c, error));
    if (rope->type == PF_ROPE_LONGROPE) PF_TRY(read_longrope(doc, dict, c, error));
    if (rope->type == PF_ROPE_DYNAMIC && c->rotary_dim < 4)
        return pf_fail(error, PF_FORMAT, "%s: head_dim is %d, dynamic RoPE needs 4 or more", doc->name, c->head_dim);
    c->max_context = longest_context(c);
    return PF_OK;
}

/* --- ids --- */

/* An id past the vocabulary stands for none: a text never has it. Models cut out of larger ones keep theirs. */
static bool is_token(const pf_config *c, int64_t id)
{
    return id >= 0 && id < c->vocab_size;
}

static pf_status push_eos(const pf_json *doc, const json_t *id, pf_config *c, pf_error *error)
{
    if (!json_is_integer(id)) {
        char found[80];
        show(id, found);
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

/* generation_config.json, where it is there, has the only word: an id that it lacks is none (transformers,
 * GenerationMixin.adjust_generation_fn). */
static pf_status read_ids(const pf_json *doc, pf_config *c, pf_error *error)
{
    int64_t bos = -1;
    PF_TRY(pf_json_get_int(doc, doc->root, "bos_token_id", false, INT64_MIN, INT64_MAX, &bos, error));
    c->bos_id = is_token(c, bos) ? (int32_t)bos : -1;
    c->n_eos = 0;
    const json_t *eos = json_object_get(doc->root, "eos_token_id");
    if (!eos || json_is_null(eos)) return PF_OK;
    if (!json_is_array(eos)) return push_eos(doc, eos, c, error);
    for (size_t i = 0; i < json_array_size(eos); i++) PF_TRY(push_eos(doc, json_array_get(eos, i), c, error));
    return PF_OK;
}

/* --- quantisation --- */

/* The fields that follow from the format: there to be read by others, and here to be checked. */
static pf_status check_derived(const pf_json *doc, const json_t *node, const pf_format_info *format, pf_error *error)
{
    int64_t bits = format->bits, group = format->group;
    bool has_zeros = format->has_zeros;
    PF_TRY(pf_json_get_int(doc, node, "bits", false, bits, bits, &bits, error));
    PF_TRY(pf_json_get_int(doc, node, "group_size", false, group, group, &group, error));
    PF_TRY(pf_json_get_bool(doc, node, "zero_point", false, &has_zeros, error));
    if (has_zeros != format->has_zeros)
        return pf_fail(error, PF_FORMAT, "%s: zero_point is %s, but the format %s has %s", doc->name,
                       has_zeros ? "true" : "false", format->name, format->has_zeros ? "zero points" : "none");

    static const char *const known[] = { "quant_method", "format", "bits", "group_size", "zero_point", NULL };
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)node, key, value) if (!listed(known, key)) return pf_fail(
        error, PF_UNSUPPORTED,
        "%s: quantization_config: the field %.60s is not known and could "
        "change the weights",
        doc->name, key);
    return PF_OK;
}

static pf_status read_quantization(const pf_json *doc, pf_config *c, pf_error *error)
{
    const json_t *node = json_object_get(doc->root, "quantization_config");
    if (!node || json_is_null(node)) return PF_OK;
    const char *method = json_string_value(json_object_get(node, "quant_method"));
    if (!method || strcmp(method, "pilotfish") != 0)
        return pf_fail(error, PF_UNSUPPORTED,
                       "%s: quantization_config: quant_method is %.60s, only \"pilotfish\", what `pilotfish quantize` "
                       "writes, is known here",
                       doc->name, method ? method : "no string");
    const char *name = NULL;
    pf_dtype dtype = PF_DTYPE_AUTO;
    pf_error why = { 0 };
    PF_TRY(pf_json_get_string(doc, node, "format", true, &name, error));
    const pf_status status = pf_dtype_parse(name, &dtype, &why);
    if (status != PF_OK) return pf_fail(error, PF_UNSUPPORTED, "%s: quantization_config: %s", doc->name, why.text);
    if (dtype < PF_DTYPE_FORMATS || !pf_format_is_integer(pf_dtype_format(dtype)))
        return pf_fail(error, PF_FORMAT, "%s: quantization_config: format is \"%s\", which is not one of integers",
                       doc->name, name);
    c->quantized = true;
    c->format = pf_dtype_format(dtype);
    return check_derived(doc, node, pf_format_get(c->format), error);
}

/* --- the whole --- */

static pf_status read_documents(const pf_json *doc, const pf_json *generation, pf_config *out, pf_error *error)
{
    const architecture *row = NULL;
    PF_TRY(find_architecture(doc, &row, error));
    PF_TRY(check_keys(doc, row, error));

    pf_config c = { .architecture = (pf_architecture_id)(row - ARCHITECTURES), .bos_id = -1 };
    PF_TRY(read_dimensions(doc, row, &c, error));
    PF_TRY(read_rope(doc, row, &c, error));
    PF_TRY(read_quantization(doc, &c, error));
    PF_TRY(read_ids(doc, &c, error)); /* looked at in any case: a wrong type there is an error, whoever has the word */
    if (generation) PF_TRY(read_ids(generation, &c, error));
    *out = c;
    return PF_OK;
}

pf_status pf_config_load(const char *directory, pf_config *out, pf_error *error)
{
    char path[4096];
    pf_json doc = { 0 }, generation = { 0 };
    if ((size_t)snprintf(path, sizeof path, "%s/config.json", directory) >= sizeof path)
        return pf_fail(error, PF_INVALID, "the path of the model is longer than %zu bytes", sizeof path - 32);
    PF_TRY(pf_json_open(path, MAX_CONFIG_BYTES, &doc, error));

    if ((size_t)snprintf(path, sizeof path, "%s/generation_config.json", directory) >= sizeof path) path[0] = '\0';
    pf_error absent = { 0 }; /* that there is no such file is no failure */
    pf_status status = pf_json_open(path, MAX_CONFIG_BYTES, &generation, &absent);
    if (status == PF_OK || status == PF_UNAVAILABLE)
        status = read_documents(&doc, status == PF_OK ? &generation : NULL, out, error);
    else if (error)
        *error = absent;
    pf_json_close(&generation);
    pf_json_close(&doc);
    return status;
}

pf_status pf_config_parse(const char *name, const char *text, size_t n_bytes, const char *generation_text,
                          size_t n_generation_bytes, pf_config *out, pf_error *error)
{
    pf_json doc = { 0 }, generation = { 0 };
    PF_TRY(pf_json_parse(name, text, n_bytes, MAX_CONFIG_BYTES, &doc, error));
    pf_status status = PF_OK;
    if (generation_text)
        status = pf_json_parse("generation_config.json", generation_text, n_generation_bytes, MAX_CONFIG_BYTES,
                               &generation, error);
    if (status == PF_OK) status = read_documents(&doc, generation_text ? &generation : NULL, out, error);
    pf_json_close(&generation);
    pf_json_close(&doc);
    return status;
}

const char *pf_architecture_name(pf_architecture_id id)
{
    return ARCHITECTURES[id].name;
}

const char *pf_rope_type_name(pf_rope_type type)
{
    return ROPE_TYPES[type];
}

void pf_config_tensor_name(const pf_config *config, pf_tensor_role role, int32_t layer, const char *part,
                           char out[PF_MAX_TENSOR_NAME])
{
    assert((unsigned)role < PF_N_TENSOR_ROLES);
    const char *stem = ARCHITECTURES[config->architecture].tensors[role];
    const char *mark = strstr(stem, "%d");
    if (mark)
        snprintf(out, PF_MAX_TENSOR_NAME, "%.*s%d%s.%s", (int)(mark - stem), stem, layer, mark + 2, part);
    else
        snprintf(out, PF_MAX_TENSOR_NAME, "%s.%s", stem, part);
}

void pf_config_shape(const pf_config *c, pf_tensor_role role, int32_t *rows, int32_t *columns)
{
    const int32_t q_dim = c->n_heads * c->head_dim, kv_dim = c->n_kv_heads * c->head_dim;
    const struct {
        int32_t rows, columns;
    } shapes[PF_N_TENSOR_ROLES] = {
        [PF_TENSOR_EMBEDDING] = { c->vocab_size, c->hidden_size },
        [PF_TENSOR_FINAL_NORM] = { c->hidden_size, 0 },
        [PF_TENSOR_HEAD] = { c->vocab_size, c->hidden_size },
        [PF_TENSOR_ATTENTION_NORM] = { c->hidden_size, 0 },
        [PF_TENSOR_Q] = { q_dim, c->hidden_size },
        [PF_TENSOR_K] = { kv_dim, c->hidden_size },
        [PF_TENSOR_V] = { kv_dim, c->hidden_size },
        [PF_TENSOR_O] = { c->hidden_size, q_dim },
        [PF_TENSOR_MLP_NORM] = { c->hidden_size, 0 },
        [PF_TENSOR_GATE] = { c->intermediate_size, c->hidden_size },
        [PF_TENSOR_UP] = { c->intermediate_size, c->hidden_size },
        [PF_TENSOR_DOWN] = { c->hidden_size, c->intermediate_size },
    };
    *rows = shapes[role].rows;
    *columns = shapes[role].columns;
}

bool pf_config_has_bias(const pf_config *config, pf_tensor_role role)
{
    switch (role) {
    case PF_TENSOR_Q:
    case PF_TENSOR_K:
    case PF_TENSOR_V:
    case PF_TENSOR_O: return config->attention_bias;
    case PF_TENSOR_GATE:
    case PF_TENSOR_UP:
    case PF_TENSOR_DOWN: return config->mlp_bias;
    default: return false;
    }
}

bool pf_config_is_multiplied(const pf_config *config, pf_tensor_role role)
{
    int32_t rows, columns;
    pf_config_shape(config, role, &rows, &columns);
    return columns != 0 && (role != PF_TENSOR_EMBEDDING || config->tied_embeddings);
}

static pf_status visit_role(const pf_config *config, pf_tensor_role role, int32_t layer, pf_config_tensor_fn *visit,
                            void *user, pf_error *error)
{
    if (role == PF_TENSOR_HEAD && config->tied_embeddings) return PF_OK;
    PF_TRY(visit(user, role, layer, "weight", error));
    return pf_config_has_bias(config, role) ? visit(user, role, layer, "bias", error) : PF_OK;
}

pf_status pf_config_visit_tensors(const pf_config *config, pf_config_tensor_fn *visit, void *user, pf_error *error)
{
    for (int32_t layer = 0; layer < config->n_layers; layer++)
        for (int role = layer == 0 ? 0 : PF_TENSOR_ATTENTION_NORM; role < PF_N_TENSOR_ROLES; role++)
            PF_TRY(visit_role(config, (pf_tensor_role)role, layer, visit, user, error));
    return PF_OK;
}
