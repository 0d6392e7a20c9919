#include <stdio.h>
#include <string.h>

#include "model/config/config_parts.h"
#include "model/config/gguf_config_parts.h"

/* Behind "ARCHITECTURE.". Those of the second list have no effect here. */
static const char *const KNOWN[] = { "context_length",
                                     "embedding_length",
                                     "block_count",
                                     "feed_forward_length",
                                     "attention.head_count",
                                     "attention.head_count_kv",
                                     "attention.layer_norm_rms_epsilon",
                                     "attention.layer_norm_epsilon",
                                     "attention.key_length",
                                     "attention.value_length",
                                     "pard_token",
                                     NULL };
static const char *const INERT[] = { "vocab_size",           "tensor_data_layout",
                                     "pooling_type",         "use_parallel_residual",
                                     "embedding_length_out", NULL };
static const char *const OF_WINDOWS[] = { "attention.sliding_window", "attention.sliding_window_pattern", NULL };
static const char *const OF_EXPERTS[] = { "expert_count", "expert_used_count", "expert_feed_forward_length", NULL };

/* Keys that are off at 0, and those that are off at 1 too. */
static const char *const OFF_AT_ZERO[] = { "expert_count",
                                           "expert_used_count",
                                           "expert_feed_forward_length",
                                           "expert_shared_feed_forward_length",
                                           "expert_shared_count",
                                           "leading_dense_block_count",
                                           "nextn_predict_layers",
                                           "attention.max_alibi_bias",
                                           "attention.clamp_kqv",
                                           "attention.scale",
                                           "attention.sliding_window",
                                           "attention.temperature_scale",
                                           "attn_logit_softcapping",
                                           "final_logit_softcapping",
                                           NULL };
static const char *const OFF_AT_ONE[] = { "expert_group_count",        "expert_group_used_count",
                                          "expert_weights_scale",      "expert_gating_func", /* 1: softmax */
                                          "interleave_moe_layer_step", "logit_scale",
                                          "embedding_scale",           "residual_scale",
                                          "attention.causal",          "rope.scaling.yarn_ext_factor",
                                          "rope.scale_linear",         NULL };

#define BLOCK "blk.%d."

static const pf_tensor_pattern PATTERNS[PF_N_TENSOR_ROLES] = {
    [PF_TENSOR_EMBEDDING] = { "token_embd" },
    [PF_TENSOR_POSITIONS] = { "position_embd" },
    [PF_TENSOR_EMBEDDING_NORM] = { "token_embd_norm" },
    [PF_TENSOR_FINAL_NORM] = { "output_norm" },
    [PF_TENSOR_HEAD] = { "output" },
    [PF_TENSOR_ATTENTION_NORM] = { BLOCK "attn_norm" },
    [PF_TENSOR_Q] = { BLOCK "attn_q" },
    [PF_TENSOR_K] = { BLOCK "attn_k" },
    [PF_TENSOR_V] = { BLOCK "attn_v" },
    [PF_TENSOR_Q_NORM] = { BLOCK "attn_q_norm" },
    [PF_TENSOR_K_NORM] = { BLOCK "attn_k_norm" },
    [PF_TENSOR_SINKS] = { BLOCK "attn_sinks" },
    [PF_TENSOR_O] = { BLOCK "attn_output" },
    [PF_TENSOR_ATTENTION_POST] = { BLOCK "post_attention_norm" },
    [PF_TENSOR_MLP_NORM] = { BLOCK "ffn_norm" },
    [PF_TENSOR_GATE] = { BLOCK "ffn_gate" },
    [PF_TENSOR_UP] = { BLOCK "ffn_up" },
    [PF_TENSOR_DOWN] = { BLOCK "ffn_down" },
    [PF_TENSOR_ROUTER] = { BLOCK "ffn_gate_inp" },
    [PF_TENSOR_EXPERT_GATE] = { BLOCK "ffn_gate_exps", .stacked = true },
    [PF_TENSOR_EXPERT_UP] = { BLOCK "ffn_up_exps", .stacked = true },
    [PF_TENSOR_EXPERT_DOWN] = { BLOCK "ffn_down_exps", .stacked = true },
    [PF_TENSOR_SHARED_ROUTER] = { BLOCK "ffn_gate_inp_shexp" },
    [PF_TENSOR_SHARED_GATE] = { BLOCK "ffn_gate_shexp" },
    [PF_TENSOR_SHARED_UP] = { BLOCK "ffn_up_shexp" },
    [PF_TENSOR_SHARED_DOWN] = { BLOCK "ffn_down_shexp" },
    [PF_TENSOR_MLP_POST] = { BLOCK "post_ffw_norm" },
};

/* Where one tensor holds several roles. */
static const pf_tensor_pattern FUSED_QKV = { .name = BLOCK "attn_qkv", .layout = PF_LAYOUT_QKV };
static const pf_tensor_pattern FUSED_GATE_UP = { .name = BLOCK "ffn_up", .layout = PF_LAYOUT_GATE_UP };
static const pf_tensor_pattern FUSED_EXPERTS = { .name = BLOCK "ffn_gate_up_exps",
                                                 .layout = PF_LAYOUT_GATE_UP,
                                                 .stacked = true };

/* A tensor an expert. */
static const pf_tensor_pattern EXPERTS_APART[PF_N_TENSOR_ROLES] = {
    [PF_TENSOR_EXPERT_GATE] = { BLOCK "ffn_gate.%e" },
    [PF_TENSOR_EXPERT_UP] = { BLOCK "ffn_up.%e" },
    [PF_TENSOR_EXPERT_DOWN] = { BLOCK "ffn_down.%e" },
};

const pf_tensor_pattern *pf_gguf_pattern(const pf_config *config, pf_tensor_role role)
{
    const pf_gguf_form *form = &config->gguf_form;
    const pf_gguf_architecture *row = &pf_gguf_architectures[form->row];
    const bool is_qkv = role == PF_TENSOR_Q || role == PF_TENSOR_K || role == PF_TENSOR_V;
    if (is_qkv && form->fused_qkv) return &FUSED_QKV;
    if ((role == PF_TENSOR_GATE || role == PF_TENSOR_UP) && form->fused_gate_up) return &FUSED_GATE_UP;
    if (form->experts_apart && EXPERTS_APART[role].name != NULL) return &EXPERTS_APART[role];
    if ((role == PF_TENSOR_EXPERT_GATE || role == PF_TENSOR_EXPERT_UP) && form->fused_expert_gate_up)
        return &FUSED_EXPERTS;
    for (int i = 0; i < PF_GGUF_MAX_NAMES && row->names[i].pattern.name != NULL; i++)
        if (row->names[i].role == role) return &row->names[i].pattern;
    return &PATTERNS[role];
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

const char *pf_gguf_builder_key(const pf_gguf_builder *b, const char *name, char out[PF_GGUF_KEY_BYTES])
{
    snprintf(out, PF_GGUF_KEY_BYTES, "%s.%s", b->row->architecture, name);
    return out;
}

bool pf_gguf_builder_has_key(const pf_gguf_builder *b, const char *name)
{
    char key[PF_GGUF_KEY_BYTES];
    return pf_gguf_has(b->file, pf_gguf_builder_key(b, name, key));
}

bool pf_gguf_builder_has_tensor(const pf_gguf_builder *b, const char *name)
{
    static const char *const of_qkv[] = { "attn_q.bias", "attn_k.bias", "attn_v.bias", NULL };
    char full[PF_GGUF_KEY_BYTES];
    snprintf(full, sizeof full, "blk.0.%s", name);
    if (pf_gguf_find_tensor(b->file, full) != NULL) return true;
    return pf_config_lists(of_qkv, name) && pf_gguf_find_tensor(b->file, "blk.0.attn_qkv.bias") != NULL;
}

pf_status pf_gguf_builder_no_memory(const pf_gguf_builder *b)
{
    return pf_fail(b->error, PF_NOMEM, "%s: no memory for its configuration", pf_gguf_path(b->file));
}

pf_status pf_gguf_builder_set(const pf_gguf_builder *b, json_t *object, const char *field, json_t *value)
{
    return json_object_set_new(object, field, value) == 0 ? PF_OK : pf_gguf_builder_no_memory(b);
}

static pf_status read_key(const pf_gguf_builder *b, const char *key, pf_gguf_field_kind kind, json_t **out)
{
    int64_t integer = 0;
    double number = 0.0;
    bool flag = false;
    switch (kind) {
    case PF_GGUF_FIELD_INT:
        PF_TRY(pf_gguf_get_int(b->file, key, true, 0, INT32_MAX, &integer, b->error));
        *out = json_integer(integer);
        break;
    case PF_GGUF_FIELD_NUMBER:
        PF_TRY(pf_gguf_get_number(b->file, key, true, -1e30, 1e30, &number, b->error));
        *out = json_real(number);
        break;
    case PF_GGUF_FIELD_BOOL:
        PF_TRY(pf_gguf_get_bool(b->file, key, true, &flag, b->error));
        *out = json_boolean(flag);
        break;
    }
    return PF_OK;
}

pf_status pf_gguf_builder_copy(const pf_gguf_builder *b, const char *name, pf_gguf_field_kind kind, bool required,
                               json_t *object, const char *field)
{
    char key[PF_GGUF_KEY_BYTES];
    json_t *value = NULL;
    if (!required && !pf_gguf_builder_has_key(b, name)) return PF_OK;
    PF_TRY(read_key(b, pf_gguf_builder_key(b, name, key), kind, &value));
    return pf_gguf_builder_set(b, object, field, value);
}

pf_status pf_gguf_builder_number(const pf_gguf_builder *b, const char *name, double *out)
{
    char key[PF_GGUF_KEY_BYTES];
    return pf_gguf_get_number(b->file, pf_gguf_builder_key(b, name, key), false, -1e30, 1e30, out, b->error);
}

json_int_t pf_gguf_builder_int(const pf_gguf_builder *b, const char *field)
{
    return json_integer_value(json_object_get(b->root, field));
}

static bool is_field(const pf_gguf_architecture *row, const char *name)
{
    for (int i = 0; i < PF_GGUF_MAX_FIELDS && row->fields[i].key != NULL; i++)
        if (strcmp(row->fields[i].key, name) == 0) return true;
    return false;
}

static bool is_known(const pf_gguf_architecture *row, const char *name)
{
    if (pf_config_lists(KNOWN, name) || pf_config_lists(INERT, name) || pf_config_lists(pf_gguf_rope_keys, name))
        return true;
    if (row->has_windows && pf_config_lists(OF_WINDOWS, name)) return true;
    if (row->has_experts && pf_config_lists(OF_EXPERTS, name)) return true;
    if (row->has_two_ropes && strcmp(name, "rope.freq_base_swa") == 0) return true;
    return is_field(row, name);
}

/* Whether a key has the value that switches it off. Some converters write experts that are not there. */
static bool is_off(const pf_gguf_builder *b, const char *key, const char *name)
{
    double value = -1.0;
    bool flag = false;
    if (pf_gguf_get_bool(b->file, key, true, &flag, NULL) == PF_OK)
        value = flag ? 1.0 : 0.0;
    else if (pf_gguf_get_number(b->file, key, true, 0.0, 1.0, &value, NULL) != PF_OK)
        return false;
    if (pf_config_lists(OFF_AT_ONE, name))
        return value == 1.0 || (value == 0.0 && strcmp(name, "attention.causal") != 0);
    return value == 0.0 && pf_config_lists(OFF_AT_ZERO, name);
}

static pf_status check_keys(const pf_gguf_builder *b)
{
    const size_t n_prefix = strlen(b->row->architecture);
    for (size_t i = 0; i < pf_gguf_n_keys(b->file); i++) {
        const char *key = pf_gguf_key_at(b->file, i), *name = key + n_prefix + 1;
        if (strncmp(key, b->row->architecture, n_prefix) != 0 || key[n_prefix] != '.') continue;
        if (!is_known(b->row, name) && !is_off(b, key, name))
            return pf_fail(b->error, PF_UNSUPPORTED, "%s: the key %.80s is not known and could change the results",
                           pf_gguf_path(b->file), key);
    }
    return PF_OK;
}

/* ---- parts of the document --------------------------------------------------------------------------------------- */

static pf_status set_int(const pf_gguf_builder *b, const char *field, json_int_t value)
{
    return pf_gguf_builder_set(b, b->root, field, json_integer(value));
}

/* Keys and values of a head have one size here. llama.cpp's default follows from the hidden size, whatever the class has. */
static pf_status read_heads(const pf_gguf_builder *b)
{
    char key[PF_GGUF_KEY_BYTES];
    const json_int_t hidden = pf_gguf_builder_int(b, "hidden_size"), n = pf_gguf_builder_int(b, "num_attention_heads");
    if (json_object_get(b->root, "num_key_value_heads") == NULL) PF_TRY(set_int(b, "num_key_value_heads", n));
    if (json_object_get(b->root, "head_dim") == NULL) {
        if (n == 0 || hidden % n != 0) return PF_OK; /* refused by the reader */
        PF_TRY(set_int(b, "head_dim", hidden / n));
    }
    int64_t size = pf_gguf_builder_int(b, "head_dim");
    pf_gguf_builder_key(b, "attention.value_length", key);
    return pf_gguf_get_int(b->file, key, false, size, size, &size, b->error);
}

/* Classes differ in which of the two kinds of epsilon they have, and some converters write the other. */
static pf_status read_eps(const pf_gguf_builder *b)
{
    static const char rms[] = "attention.layer_norm_rms_epsilon", plain[] = "attention.layer_norm_epsilon";
    char key[PF_GGUF_KEY_BYTES];
    const char *name = pf_gguf_builder_has_key(b, rms) || !pf_gguf_builder_has_key(b, plain) ? rms : plain;
    if (b->row->eps_field != NULL)
        return pf_gguf_builder_copy(b, name, PF_GGUF_FIELD_NUMBER, true, b->root, b->row->eps_field);
    double eps = 1e-5;
    PF_TRY(pf_gguf_builder_number(b, name, &eps));
    if ((float)eps == 1e-5f) return PF_OK;
    return pf_fail(b->error, PF_UNSUPPORTED, "%s: %s is %g, only 1e-5 is known for %s", pf_gguf_path(b->file),
                   pf_gguf_builder_key(b, name, key), eps, b->row->name);
}

static pf_status read_dimensions(const pf_gguf_builder *b)
{
    static const struct {
        const char *key, *field;
        bool required;
    } sizes[] = { { "embedding_length", "hidden_size", true },
                  { "feed_forward_length", "intermediate_size", true },
                  { "block_count", "num_hidden_layers", true },
                  { "attention.head_count", "num_attention_heads", true },
                  { "attention.head_count_kv", "num_key_value_heads", false },
                  { "attention.key_length", "head_dim", false },
                  { "context_length", "max_position_embeddings", true },
                  { "pard_token", "pard_token", false } }; /* of no converter: it is added to a file by hand */
    const pf_gguf_tensor *embedding = pf_gguf_find_tensor(b->file, "token_embd.weight");
    if (embedding == NULL || embedding->n_dimensions != 2)
        return pf_fail(b->error, PF_FORMAT,
                       "%s: there is no matrix token_embd.weight, which gives the vocabulary's size",
                       pf_gguf_path(b->file));
    PF_TRY(set_int(b, "vocab_size", embedding->shape[0]));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        PF_TRY(pf_gguf_builder_copy(b, sizes[i].key, PF_GGUF_FIELD_INT, sizes[i].required, b->root, sizes[i].field));
    PF_TRY(read_heads(b));
    PF_TRY(read_eps(b));
    const bool is_tied = pf_gguf_find_tensor(b->file, "output.weight") == NULL;
    return pf_gguf_builder_set(b, b->root, "tie_word_embeddings", json_boolean(is_tied));
}

/* Sets layer_types: is_window says for each layer whether it has a window; NULL: none has. */
static pf_status set_layer_types(const pf_gguf_builder *b, const pf_gguf_array *is_window)
{
    const json_int_t n_layers = pf_gguf_builder_int(b, "num_hidden_layers");
    json_t *types = json_array();
    PF_TRY(pf_gguf_builder_set(b, b->root, "layer_types", types));
    for (json_int_t i = 0; i < n_layers && i < PF_MAX_LAYERS; i++) {
        const bool slides = is_window != NULL && is_window->next[i] != 0;
        json_t *word = json_string(slides ? "sliding_attention" : "full_attention");
        if (json_array_append_new(types, word) != 0) return pf_gguf_builder_no_memory(b);
    }
    return PF_OK;
}

/* A number is the interval of layers without a window. A list has an entry a layer. */
static pf_status read_pattern(const pf_gguf_builder *b)
{
    static const char name[] = "attention.sliding_window_pattern";
    char key[PF_GGUF_KEY_BYTES];
    pf_gguf_array list;
    int64_t interval = 1;
    pf_gguf_builder_key(b, name, key);
    if (!pf_gguf_has(b->file, key)) return PF_OK;
    if (pf_gguf_get_int(b->file, key, true, INT64_MIN, INT64_MAX, &interval, NULL) == PF_OK)
        return pf_gguf_builder_copy(b, name, PF_GGUF_FIELD_INT, true, b->root, "sliding_window_pattern");
    PF_TRY(pf_gguf_get_array(b->file, key, true, &list, b->error));
    if (list.kind == PF_GGUF_BOOL && list.n >= (size_t)pf_gguf_builder_int(b, "num_hidden_layers"))
        return set_layer_types(b, &list);
    return pf_fail(b->error, PF_FORMAT,
                   "%s: %s must be a number, or a list of bool with an entry for each of %lld layers",
                   pf_gguf_path(b->file), key, (long long)pf_gguf_builder_int(b, "num_hidden_layers"));
}

static pf_status read_windows(const pf_gguf_builder *b)
{
    static const char name[] = "attention.sliding_window";
    char key[PF_GGUF_KEY_BYTES];
    int64_t window = 0;
    if (b->row->has_windows)
        PF_TRY(pf_gguf_get_int(b->file, pf_gguf_builder_key(b, name, key), false, 0, INT32_MAX, &window, b->error));
    if (window > 0) {
        PF_TRY(set_int(b, "sliding_window", window));
        return read_pattern(b);
    }
    PF_TRY(pf_gguf_builder_set(b, b->root, "sliding_window", json_null())); /* the default of a class is a window */
    return b->row->has_windows ? set_layer_types(b, NULL) : PF_OK;
}

static pf_status read_experts(const pf_gguf_builder *b)
{
    if (!b->row->has_experts) return PF_OK;
    PF_TRY(pf_gguf_builder_copy(b, "expert_count", PF_GGUF_FIELD_INT, true, b->root, "num_local_experts"));
    PF_TRY(pf_gguf_builder_copy(b, "expert_used_count", PF_GGUF_FIELD_INT, true, b->root, "num_experts_per_tok"));
    return pf_gguf_builder_copy(b, "expert_feed_forward_length", PF_GGUF_FIELD_INT, false, b->root,
                                "moe_intermediate_size");
}

static pf_status read_fields(const pf_gguf_builder *b)
{
    const pf_gguf_architecture *row = b->row;
    for (const pf_gguf_field *f = row->fields; f < row->fields + PF_GGUF_MAX_FIELDS && f->key != NULL; f++)
        if (f->field != NULL) PF_TRY(pf_gguf_builder_copy(b, f->key, f->kind, false, b->root, f->field));
    for (const pf_gguf_presence *p = row->presences; p < row->presences + PF_GGUF_MAX_FIELDS && p->field != NULL; p++) {
        const bool is_there = pf_gguf_builder_has_tensor(b, p->tensor);
        PF_TRY(pf_gguf_builder_set(b, b->root, p->field, json_boolean(is_there != p->is_negated)));
    }
    return PF_OK;
}

/* The tokens that end a text: of the text, of a turn, of a message. */
static pf_status read_ends(const pf_gguf_builder *b)
{
    static const char *const keys[] = { "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                        "tokenizer.ggml.eom_token_id" };
    json_t *ids = json_array();
    PF_TRY(pf_gguf_builder_set(b, b->root, "eos_token_id", ids));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        int64_t id = -1;
        PF_TRY(pf_gguf_get_int(b->file, keys[i], false, 0, UINT32_MAX, &id, b->error));
        if (id >= 0 && json_array_append_new(ids, json_integer(id)) != 0) return pf_gguf_builder_no_memory(b);
    }
    return PF_OK;
}

/* ---- the document ------------------------------------------------------------------------------------------------ */

static pf_status find_row(pf_gguf_builder *b)
{
    pf_gguf_string name;
    PF_TRY(pf_gguf_get_string(b->file, "general.architecture", true, &name, b->error));
    for (int32_t i = 0; i < pf_gguf_n_architectures; i++) {
        const pf_gguf_architecture *row = &pf_gguf_architectures[i];
        if (!pf_gguf_string_is(name, row->architecture)) continue;
        if (row->when != NULL && !pf_gguf_builder_has_tensor(b, row->when)) continue;
        b->row = row;
        return PF_OK;
    }
    return pf_fail(b->error, PF_UNSUPPORTED, "%s: general.architecture is \"%.*s\", which is not read from GGUF",
                   pf_gguf_path(b->file), name.n_bytes < 60 ? (int)name.n_bytes : 60, name.text);
}

static pf_status build(pf_gguf_builder *b)
{
    PF_TRY(find_row(b));
    PF_TRY(check_keys(b));
    b->root = json_pack("{s:[s]}", "architectures", b->row->name);
    if (b->root == NULL) return pf_gguf_builder_no_memory(b);
    PF_TRY(read_dimensions(b));
    PF_TRY(read_windows(b));
    PF_TRY(read_experts(b));
    PF_TRY(read_fields(b));
    PF_TRY(pf_gguf_builder_set_rope(b));
    PF_TRY(read_ends(b));
    return b->row->finish != NULL ? b->row->finish(b) : PF_OK;
}

pf_status pf_gguf_config_document(const pf_gguf *file, pf_json *out, pf_gguf_form *form, pf_error *error)
{
    pf_gguf_builder b = { .file = file, .error = error };
    const pf_status status = build(&b);
    if (status != PF_OK) {
        json_decref(b.root);
        return status;
    }
    *form = (pf_gguf_form){ .row = (int32_t)(b.row - pf_gguf_architectures),
                            .head_pairs = b.row->head_pairs,
                            .fused_qkv = pf_gguf_builder_has_tensor(&b, "attn_qkv.weight"),
                            .fused_gate_up = pf_gguf_builder_has_tensor(&b, "ffn_up.weight") &&
                                             !pf_gguf_builder_has_tensor(&b, "ffn_gate.weight"),
                            .experts_apart = pf_gguf_builder_has_tensor(&b, "ffn_down.0.weight"),
                            .fused_expert_gate_up = pf_gguf_builder_has_tensor(&b, "ffn_gate_up_exps.weight") };
    out->root = b.root;
    snprintf(out->name, sizeof out->name, "%s", pf_gguf_path(file));
    return PF_OK;
}
