#include "model/config/gguf_config.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    const char *architecture; /* general.architecture, which keys begin with */
    const char *name;         /* the class of transformers */
    bool head_pairs;
} row;

static const row ROWS[] = {
    { "llama", "LlamaForCausalLM", true },
};
enum { N_ROWS = sizeof ROWS / sizeof *ROWS };

/* Behind "ARCHITECTURE.". Those of the second list have no effect here. */
static const char *const KNOWN[] = { "context_length",
                                     "embedding_length",
                                     "block_count",
                                     "feed_forward_length",
                                     "attention.head_count",
                                     "attention.head_count_kv",
                                     "attention.layer_norm_rms_epsilon",
                                     "attention.key_length",
                                     "attention.value_length",
                                     "rope.dimension_count",
                                     "rope.freq_base",
                                     "rope.scaling.type",
                                     "rope.scaling.factor",
                                     "rope.scaling.original_context_length",
                                     "rope.scaling.attn_factor",
                                     NULL };
static const char *const INERT[] = { "vocab_size", "tensor_data_layout", "rope.scaling.finetuned", NULL };

static const pf_tensor_pattern PATTERNS[PF_N_TENSOR_ROLES] = {
    [PF_TENSOR_EMBEDDING] = { "token_embd" },
    [PF_TENSOR_FINAL_NORM] = { "output_norm" },
    [PF_TENSOR_HEAD] = { "output" },
    [PF_TENSOR_ATTENTION_NORM] = { "blk.%d.attn_norm" },
    [PF_TENSOR_Q] = { "blk.%d.attn_q" },
    [PF_TENSOR_K] = { "blk.%d.attn_k" },
    [PF_TENSOR_V] = { "blk.%d.attn_v" },
    [PF_TENSOR_Q_NORM] = { "blk.%d.attn_q_norm" },
    [PF_TENSOR_K_NORM] = { "blk.%d.attn_k_norm" },
    [PF_TENSOR_O] = { "blk.%d.attn_output" },
    [PF_TENSOR_MLP_NORM] = { "blk.%d.ffn_norm" },
    [PF_TENSOR_GATE] = { "blk.%d.ffn_gate" },
    [PF_TENSOR_UP] = { "blk.%d.ffn_up" },
    [PF_TENSOR_DOWN] = { "blk.%d.ffn_down" },
};

const pf_tensor_pattern *pf_gguf_pattern(pf_tensor_role role)
{
    return &PATTERNS[role];
}

/* ---- keys -------------------------------------------------------------------------------------------------------- */

typedef struct {
    const pf_gguf *file;
    const row *row;
    json_t *root;
    pf_error *error;
} builder;

enum { MAX_KEY = 96 };

static const char *key_of(const builder *b, const char *name, char out[MAX_KEY])
{
    snprintf(out, MAX_KEY, "%s.%s", b->row->architecture, name);
    return out;
}

static pf_status no_memory(const builder *b)
{
    return pf_fail(b->error, PF_NOMEM, "%s: no memory for its configuration", pf_gguf_path(b->file));
}

static pf_status set(const builder *b, json_t *object, const char *field, json_t *value)
{
    return json_object_set_new(object, field, value) == 0 ? PF_OK : no_memory(b);
}

/* Copies an integer that is there to a field of config.json. */
static pf_status copy_int(const builder *b, const char *name, bool required, json_t *object, const char *field)
{
    char key[MAX_KEY];
    int64_t value = -1;
    PF_TRY(pf_gguf_get_int(b->file, key_of(b, name, key), required, 0, INT32_MAX, &value, b->error));
    return value < 0 ? PF_OK : set(b, object, field, json_integer(value));
}

static pf_status copy_number(const builder *b, const char *name, bool required, json_t *object, const char *field)
{
    char key[MAX_KEY];
    double value = -1.0;
    PF_TRY(pf_gguf_get_number(b->file, key_of(b, name, key), required, 0.0, 1e30, &value, b->error));
    return value < 0.0 ? PF_OK : set(b, object, field, json_real(value));
}

static bool lists(const char *const *list, const char *word)
{
    for (; *list != NULL; list++)
        if (strcmp(*list, word) == 0) return true;
    return false;
}

/* Experts that are not there are written by some converters. */
static bool is_zero(const builder *b, const char *key)
{
    int64_t value = 1;
    return pf_gguf_get_int(b->file, key, true, 0, 0, &value, NULL) == PF_OK;
}

static pf_status check_keys(const builder *b)
{
    const size_t n_prefix = strlen(b->row->architecture);
    for (size_t i = 0; i < pf_gguf_n_keys(b->file); i++) {
        const char *key = pf_gguf_key_at(b->file, i);
        if (strncmp(key, b->row->architecture, n_prefix) != 0 || key[n_prefix] != '.') continue;
        if (lists(KNOWN, key + n_prefix + 1) || lists(INERT, key + n_prefix + 1)) continue;
        const bool counts_experts = strncmp(key + n_prefix + 1, "expert_", 7) == 0;
        if (!counts_experts || !is_zero(b, key))
            return pf_fail(b->error, PF_UNSUPPORTED, "%s: the key %.80s is not known and could change the results",
                           pf_gguf_path(b->file), key);
    }
    return PF_OK;
}

/* ---- parts of the document --------------------------------------------------------------------------------------- */

static bool has_tensor(const builder *b, const char *name)
{
    return pf_gguf_find_tensor(b->file, name) != NULL;
}

static pf_status read_dimensions(const builder *b)
{
    const pf_gguf_tensor *embedding = pf_gguf_find_tensor(b->file, "token_embd.weight");
    if (embedding == NULL || embedding->n_dimensions != 2)
        return pf_fail(b->error, PF_FORMAT,
                       "%s: there is no matrix token_embd.weight, which gives the vocabulary's size",
                       pf_gguf_path(b->file));
    PF_TRY(set(b, b->root, "vocab_size", json_integer(embedding->shape[0])));
    PF_TRY(copy_int(b, "embedding_length", true, b->root, "hidden_size"));
    PF_TRY(copy_int(b, "feed_forward_length", true, b->root, "intermediate_size"));
    PF_TRY(copy_int(b, "block_count", true, b->root, "num_hidden_layers"));
    PF_TRY(copy_int(b, "attention.head_count", true, b->root, "num_attention_heads"));
    PF_TRY(copy_int(b, "attention.head_count_kv", false, b->root, "num_key_value_heads"));
    PF_TRY(copy_int(b, "attention.key_length", false, b->root, "head_dim"));
    PF_TRY(copy_int(b, "context_length", true, b->root, "max_position_embeddings"));
    PF_TRY(copy_number(b, "attention.layer_norm_rms_epsilon", true, b->root, "rms_norm_eps"));
    PF_TRY(set(b, b->root, "tie_word_embeddings", json_boolean(!has_tensor(b, "output.weight"))));
    PF_TRY(set(b, b->root, "attention_bias", json_boolean(has_tensor(b, "blk.0.attn_q.bias"))));
    return set(b, b->root, "mlp_bias", json_boolean(has_tensor(b, "blk.0.ffn_gate.bias")));
}

/* Keys and values of a head have one size here, and RoPE rotates all of it. */
static pf_status check_head_size(const builder *b)
{
    char key[MAX_KEY];
    const json_int_t hidden = json_integer_value(json_object_get(b->root, "hidden_size"));
    const json_int_t n_heads = json_integer_value(json_object_get(b->root, "num_attention_heads"));
    const json_t *given = json_object_get(b->root, "head_dim");
    if (given == NULL && n_heads == 0) return PF_OK; /* refused by the reader */
    const json_int_t expected = given != NULL ? json_integer_value(given) : hidden / n_heads;
    int64_t size = expected;
    PF_TRY(
        pf_gguf_get_int(b->file, key_of(b, "attention.value_length", key), false, expected, expected, &size, b->error));
    return pf_gguf_get_int(b->file, key_of(b, "rope.dimension_count", key), false, expected, expected, &size, b->error);
}

/* The divisors as longrope has them: one set for every length, attention is not scaled. */
static pf_status read_divisors(const builder *b, const pf_gguf_tensor *t, json_t *dict)
{
    if (t->type != PF_GGML_F32 || t->n_dimensions != 1)
        return pf_fail(b->error, PF_FORMAT, "%s: tensor %s must be a vector of F32", pf_gguf_path(b->file), t->name);
    json_t *factors = json_array();
    bool fits = factors != NULL;
    for (int64_t i = 0; fits && i < t->shape[0]; i++) {
        float value;
        memcpy(&value, t->data + (size_t)i * sizeof value, sizeof value);
        if (!(value > 0.0f && value < 1e9f)) {
            json_decref(factors);
            return pf_fail(b->error, PF_FORMAT, "%s: %s[%lld] is %g, expected a divisor above 0", pf_gguf_path(b->file),
                           t->name, (long long)i, (double)value);
        }
        fits = json_array_append_new(factors, json_real((double)value)) == 0;
    }
    fits = fits && json_object_set(dict, "short_factor", factors) == 0 &&
           json_object_set(dict, "long_factor", factors) == 0 &&
           json_object_set_new(dict, "rope_type", json_string("longrope")) == 0 &&
           json_object_set_new(dict, "factor", json_real(1.0)) == 0 &&
           json_object_set_new(dict, "attention_factor", json_real(1.0)) == 0;
    json_decref(factors);
    return fits ? PF_OK : no_memory(b);
}

static pf_status read_scaling(const builder *b, json_t *dict)
{
    char key[MAX_KEY];
    pf_gguf_string type = { "none", 4 };
    const pf_gguf_tensor *divisors = pf_gguf_find_tensor(b->file, PF_GGUF_ROPE_FREQS);
    PF_TRY(pf_gguf_get_string(b->file, key_of(b, "rope.scaling.type", key), false, &type, b->error));
    const bool is_none = pf_gguf_string_is(type, "none");
    if (divisors != NULL && is_none) return read_divisors(b, divisors, dict);
    if (is_none) return set(b, dict, "rope_type", json_string("default"));
    const bool is_yarn = pf_gguf_string_is(type, "yarn");
    if (divisors != NULL || (!is_yarn && !pf_gguf_string_is(type, "linear")))
        return pf_fail(b->error, PF_UNSUPPORTED, "%s: %s is \"%.*s\"%s, expected none, linear or yarn",
                       pf_gguf_path(b->file), key, type.n_bytes < 40 ? (int)type.n_bytes : 40, type.text,
                       divisors != NULL ? " beside " PF_GGUF_ROPE_FREQS : "");
    PF_TRY(set(b, dict, "rope_type", json_string(is_yarn ? "yarn" : "linear")));
    PF_TRY(copy_number(b, "rope.scaling.factor", true, dict, "factor"));
    if (!is_yarn) return PF_OK;
    PF_TRY(copy_number(b, "rope.scaling.attn_factor", false, dict, "attention_factor"));
    return copy_int(b, "rope.scaling.original_context_length", true, dict, "original_max_position_embeddings");
}

static pf_status read_rope(const builder *b)
{
    json_t *dict = json_object();
    PF_TRY(set(b, b->root, "rope_parameters", dict)); /* owned by the document from here on */
    PF_TRY(copy_number(b, "rope.freq_base", false, dict, "rope_theta"));
    return read_scaling(b, dict);
}

/* The tokens that end a text: of the text, of a turn, of a message. */
static pf_status read_ends(const builder *b)
{
    static const char *const keys[] = { "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                        "tokenizer.ggml.eom_token_id" };
    json_t *ids = json_array();
    PF_TRY(set(b, b->root, "eos_token_id", ids));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        int64_t id = -1;
        PF_TRY(pf_gguf_get_int(b->file, keys[i], false, 0, UINT32_MAX, &id, b->error));
        if (id >= 0 && json_array_append_new(ids, json_integer(id)) != 0) return no_memory(b);
    }
    return PF_OK;
}

static pf_status build(builder *b)
{
    pf_gguf_string name;
    PF_TRY(pf_gguf_get_string(b->file, "general.architecture", true, &name, b->error));
    for (int i = 0; i < N_ROWS; i++)
        if (pf_gguf_string_is(name, ROWS[i].architecture)) b->row = &ROWS[i];
    if (b->row == NULL)
        return pf_fail(b->error, PF_UNSUPPORTED, "%s: general.architecture is \"%.*s\", which is not read from GGUF",
                       pf_gguf_path(b->file), name.n_bytes < 60 ? (int)name.n_bytes : 60, name.text);
    PF_TRY(check_keys(b));
    b->root = json_pack("{s:[s]}", "architectures", b->row->name);
    if (b->root == NULL) return no_memory(b);
    PF_TRY(read_dimensions(b));
    PF_TRY(check_head_size(b));
    PF_TRY(read_rope(b));
    return read_ends(b);
}

pf_status pf_gguf_config_document(const pf_gguf *file, pf_json *out, bool *head_pairs, pf_error *error)
{
    builder b = { .file = file, .error = error };
    const pf_status status = build(&b);
    if (status != PF_OK) {
        json_decref(b.root);
        return status;
    }
    *head_pairs = b.row->head_pairs;
    out->root = b.root;
    snprintf(out->name, sizeof out->name, "%s", pf_gguf_path(file));
    return PF_OK;
}
