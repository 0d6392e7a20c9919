/*
 * Reads config.json into a plain struct that holds everything the forward pass needs to know about a model.
 *
 * An architecture is one row of a table (architectures.c): its name, the fields that it reads, their defaults, the names of its
 * tensors. Files are read as transformers 4 writes them (rope_theta, rope_scaling) and as transformers 5 does
 * (rope_parameters). Keys that inference does not read (dtype, use_cache, initializer_range, ...) are ignored. A key that
 * is not known is refused by name where it could change the logits (unknown_keys.h), and is reported otherwise.
 *
 *      config.json             -> pf_config
 *      generation_config.json  -> the ids that end a text, where the file exists, as in transformers
 *
 * Every number is in the range that its comment gives, and every product of dimensions that is a tensor's size fits an
 * int64_t. A caller need not check again.
 */
#ifndef PF_MODEL_CONFIG_H
#define PF_MODEL_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "kernels/gemm/format.h"
#include "model/config/load_policy.h"
#include "model/config/plan.h"
#include "model/config/quantization.h"

enum {
    PF_MAX_CONFIG_BYTES = 1 << 20, /* of config.json, and of generation_config.json */
    PF_MAX_VOCAB = 1 << 24,
    PF_MAX_HIDDEN = 1 << 18,
    PF_MAX_INTERMEDIATE = 1 << 22,
    PF_MAX_LAYERS = 1 << 12,
    PF_MAX_HEADS = 1 << 12,
    PF_MAX_HEAD_DIM = 1 << 10,
    PF_MAX_POSITIONS = 1 << 28,
    PF_MAX_EOS_IDS = 32,
    PF_MAX_TENSOR_NAME = 160, /* bytes, the NUL included */
};

/* A row of the table of architectures; 0: Llama. */
typedef int32_t pf_architecture_id;

typedef enum {
    PF_ROPE_DEFAULT,
    PF_ROPE_LINEAR,   /* every frequency divided by `factor` */
    PF_ROPE_DYNAMIC,  /* theta grows with the session length beyond max_position (NTK-aware) */
    PF_ROPE_LLAMA3,   /* low frequencies divided, high ones kept, a ramp between */
    PF_ROPE_YARN,     /* as llama3, by number of rotations; attention is scaled too; arXiv:2309.00071 */
    PF_ROPE_LONGROPE, /* one divisor per frequency, in two sets by session length; arXiv:2402.13753 */
} pf_rope_type;

/* How a GGUF file has the tensors of a model. */
typedef struct {
    int32_t row;     /* of the table of architectures of llama.cpp */
    bool head_pairs; /* row 2 i + j of a head of Q and K in the file is row i + j * head_dim / 2: Llama and its kin */
    bool fused_qkv;  /* one tensor holds Q, K and V */
    bool fused_gate_up; /* one tensor holds GATE and UP */
    bool experts_apart; /* a tensor an expert, as in files of before stacked experts */
    bool fused_expert_gate_up;
} pf_gguf_form;

/* A field that the type does not use is 0. All numbers are finite. */
typedef struct {
    pf_rope_type type;
    double theta;                            /* > 1 */
    double factor;                           /* > 0: linear, dynamic, llama3, yarn; computed for longrope */
    double attention_scale;                  /* factor of cos and sin; 1 except for yarn and longrope */
    double original_max_position;            /* llama3, yarn, longrope: a whole number, 1 or more */
    double low_freq_factor;                  /* llama3 */
    double high_freq_factor;                 /* llama3; differs from low_freq_factor */
    double beta_fast, beta_slow;             /* yarn: rotations in the original context at the ends of the ramp */
    bool truncate;                           /* yarn: the ends of the ramp are rounded to whole dimensions */
    float short_factor[PF_MAX_HEAD_DIM / 2]; /* longrope: [rotary_dim / 2] */
    float long_factor[PF_MAX_HEAD_DIM / 2];  /* longrope: [rotary_dim / 2] */
} pf_rope;

typedef struct {
    pf_architecture_id architecture;
    int32_t vocab_size;        /* rows of the embedding; the tokenizer may have fewer tokens; 1 .. PF_MAX_VOCAB */
    int32_t hidden_size;       /* 1 .. PF_MAX_HIDDEN */
    int32_t embedding_size;    /* hidden_size, unless PROJECT_IN exists */
    int32_t intermediate_size; /* 1 .. PF_MAX_INTERMEDIATE */
    int32_t n_layers;          /* 1 .. PF_MAX_LAYERS */
    int32_t n_heads;           /* 1 .. PF_MAX_HEADS, a multiple of n_kv_heads */
    int32_t n_kv_heads;        /* 1 .. n_heads */
    int32_t head_dim;          /* even, 2 .. PF_MAX_HEAD_DIM; n_heads * head_dim need not be hidden_size */
    int32_t rotary_dim;        /* leading dimensions of a head that RoPE rotates: even, at most head_dim (Llama: all) */
    int32_t n_positions;       /* rows of POSITIONS, where it exists */
    int32_t max_position;      /* max_position_embeddings, at most PF_MAX_POSITIONS; 1 or more */
    int32_t max_context;       /* longest useful session: max_position, extended by RoPE scaling
                                    (dynamic, linear: times the factor; yarn: original_max_position times the factor) */
    float norm_eps;            /* 0 .. 1 */
    bool tied_embeddings;      /* the LM head is the embedding */
    pf_plan plan;
    uint8_t layer_kinds[PF_MAX_LAYERS]; /* [n_layers] each an index of plan.kinds */
    int32_t n_ropes;                    /* 0 .. PF_MAX_ROPES */
    pf_rope ropes[PF_MAX_ROPES];        /* [n_ropes] */
    bool quantized;                     /* the file holds matrices as integers, as `pilotfish quantize` writes them */
    pf_format format;                   /* of the integers (quantized) */
    pf_quantization quantization;       /* how another program quantised the files' matrices */
    bool kept_in_f16;                   /* AUTO keeps F16: written by `pilotfish quantize --dtype f16` */
    int32_t pard_token; /* the token that stands for those to be drafted in parallel (arXiv:2504.18583); -1: none */
    bool gguf;          /* tensors have the names of llama.cpp (gguf_config.h): */
    pf_gguf_form gguf_form;
    int32_t n_eos;
    int32_t eos_ids[PF_MAX_EOS_IDS]; /* [n_eos] any of them ends a text; each is below vocab_size */
} pf_config;

/* Reads DIR/config.json, or the metadata of a GGUF file, and the ids from DIR/generation_config.json when it is there. `policy` decides about keys that are
 * not read; NULL: they are ignored.
 * PF_UNAVAILABLE: there is no config.json; the sentence names what the directory holds.  PF_FORMAT: a field is missing, of the
 * wrong type or out of range.
 * PF_UNSUPPORTED: an architecture (the sentence lists the known ones), a field or a value that is not implemented.
 * PF_LIMIT: a file is larger than PF_MAX_CONFIG_BYTES.  PF_INVALID: a file exists and cannot be read.  PF_NOMEM. */
PF_MUST_USE pf_status pf_config_load(const char *directory, const pf_load_policy *policy, pf_config *out,
                                     pf_error *error);

/* The same for text in memory. `name` is the file name in errors; generation_text may be NULL. */
PF_MUST_USE pf_status pf_config_parse(const char *name, const char *text, size_t n_bytes, const char *generation_text,
                                      size_t n_generation_bytes, const pf_load_policy *policy, pf_config *out,
                                      pf_error *error);

/* The version number in quantization_config for an integer format: 2 for formats with groups, which changed the type of their
 * scales once; 1 for the others, which do not write it. */
int32_t pf_config_quantized_version(pf_format format);

/* "LlamaForCausalLM": a static string. */
const char *pf_architecture_name(pf_architecture_id id);
const char *pf_rope_type_name(pf_rope_type type); /* "default", "llama3", ... */

/* What layer l has of its own. */
static inline const pf_layer_kind *pf_config_layer(const pf_config *config, int32_t layer)
{
    return &config->plan.kinds[config->layer_kinds[layer]];
}

/* Whether a tensor exists in this model: a layer has the roles of experts, or those of a plain feed-forward block. HEAD does not
 * exist where it is tied. */
bool pf_config_has(const pf_config *config, pf_tensor_role role, int32_t layer);

/* Whether a role that exists has a bias. */
bool pf_config_has_bias(const pf_config *config, pf_tensor_role role);

/* Where the files have a role. */
const pf_tensor_pattern *pf_config_pattern(const pf_config *config, pf_tensor_role role);

/* The name of the file's tensor that holds a tensor of the plan.
 * `part`: "weight", "bias", or a part that a quantised directory has besides (model/files/checkpoint.h). */
void pf_config_tensor_name(const pf_config *config, pf_tensor_id id, const char *part, char out[PF_MAX_TENSOR_NAME]);

/* Rows and columns of the weight of a role. columns 0: a vector. */
void pf_config_shape(const pf_config *config, pf_tensor_role role, int32_t *rows, int32_t *columns);

/* Which rows of the file's tensor are a role's: n_blocks blocks of block_rows rows, the first at row `first`, `stride` rows
 * apart. file_rows: all rows of the file's tensor, of one expert where it is stacked. */
typedef struct {
    int32_t first, block_rows, stride, n_blocks;
    int32_t file_rows;
} pf_row_map;

pf_row_map pf_config_rows(const pf_config *config, pf_tensor_role role);

/* Whether the weight of a role is a matrix that activations are multiplied by, and so may be held as integers. An embedding is
 * only looked up, unless it is the LM head too. */
bool pf_config_is_multiplied(const pf_config *config, pf_tensor_role role);

/* The role of the tensor that the LM head is packed from: the embedding where the two are tied. */
static inline pf_tensor_role pf_config_head_role(const pf_config *config)
{
    return config->tied_embeddings ? PF_TENSOR_EMBEDDING : PF_TENSOR_HEAD;
}

/* Called for each tensor. A status other than PF_OK ends the visit and is returned. `part` is "weight" or "bias". */
typedef pf_status pf_config_tensor_fn(void *user, pf_tensor_id id, const char *part, pf_error *error);

/* Visits every tensor of the model, by layer, role and expert, each bias after its weight. */
PF_MUST_USE pf_status pf_config_visit_tensors(const pf_config *config, pf_config_tensor_fn *visit, void *user,
                                              pf_error *error);

/* The slope of each head, [n_heads]; with alibi_scale. Source: Press et al., arXiv:2108.12409, section 3. */
void pf_config_alibi_slopes(const pf_config *config, float *slopes);

/* Computes RoPE's inverse frequencies: dimension pair i is rotated by position * inv_freq[i], and cos and sin are both
 * multiplied by *attention_scale (1 for most types). Pairs are (i, i + rotary_dim / 2), as rotate_half in transformers.
 *   context_tokens         the longest that the session may grow, fixed when it is created (row invariance);
 *                          only dynamic and longrope use it
 *   which                  0 .. n_ropes - 1
 *   inv_freq               [rotary_dim / 2] out
 * Computed in float32 where transformers uses float32, in double where it uses Python floats.
 * Source: transformers, modeling_rope_utils.py (5.x; where 4.x differs, config_rope.c says so). */
void pf_rope_frequencies(const pf_config *config, int32_t which, int32_t context_tokens, float *inv_freq,
                         float *attention_scale);

#endif
