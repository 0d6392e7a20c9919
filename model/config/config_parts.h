/*
 * Declares the functions that read the parts of config.json, and the rows that say how. Internal to model/config.
 *
 *      config.c             the order of all this; ids, the quantization_config of `pilotfish quantize`
 *      quantization.c       that of other programs
 *      config_dimensions.c  dimensions, and the constants of the plan
 *      config_layers.c      what layers differ in: windows, rotary tables, experts
 *      config_rope.c        RoPE's dictionary, of transformers 4 and 5
 *      config_reader.c      one key at a time, by name or by its aliases; remembers which keys were read
 *      config_keys.c        what the keys that nothing read mean; unknown_keys.c decides about those that are not known
 *      architectures.c      finds the row of a file; architectures_*.c have the rows
 *      plan_tensors.c       the tensors of a model: which, their names and their shapes
 */
#ifndef PF_MODEL_CONFIG_PARTS_H
#define PF_MODEL_CONFIG_PARTS_H

#include "base/json.h"
#include "model/config/config.h"

/* Numbers of config.json that most architectures have, under names of their own. */
typedef enum {
    PF_KEY_VOCAB,
    PF_KEY_HIDDEN,
    PF_KEY_INTERMEDIATE,
    PF_KEY_LAYERS,
    PF_KEY_HEADS,
    PF_KEY_KV_HEADS,
    PF_KEY_HEAD_DIM,
    PF_KEY_POSITIONS,
    PF_KEY_WINDOW,
    PF_KEY_EXPERTS,
    PF_KEY_EXPERTS_USED,
    PF_KEY_EXPERT_SIZE,
    PF_N_INT_KEYS,
    PF_KEY_EPS = PF_N_INT_KEYS,
    PF_KEY_ACTIVATION,
    PF_KEY_THETA,
    PF_KEY_ROTARY_FACTOR,
    PF_N_KEYS
} pf_config_key;

enum { PF_MAX_ALIASES = 4, PF_MAX_CLASSES = 6, PF_MAX_BIASES = 4 };

/* The layers that have a window, where the row or the file names one. */
typedef enum {
    PF_WINDOWS_NONE,       /* the key is not one of the architecture */
    PF_WINDOWS_ALL,        /* all layers */
    PF_WINDOWS_TYPES,      /* as layer_types has it; where that is absent, all (Ministral) */
    PF_WINDOWS_INTERVAL,   /* as layer_types; else all but the last of each `window_interval` layers */
    PF_WINDOWS_LAST,       /* as layer_types; else from max_window_layers on (Qwen2) */
    PF_WINDOWS_EVEN_FIRST, /* as layer_types; else even layers before max_window_layers (Qwen2-MoE) */
    PF_WINDOWS_NOPE,       /* as layer_types; else layers that do not rotate (SmolLM3) */
} pf_window_rule;

/* Which biases a key decides about. key NULL: they exist. */
typedef struct {
    const char *key;
    bool by_default;
    uint32_t roles; /* PF_ROLE(...) | ... */
} pf_bias_rule;

#define PF_ROLE(role) (1u << PF_TENSOR_##role)
_Static_assert(PF_N_TENSOR_ROLES <= 32, "roles of a bias rule are bits of 32");

/* A key that changes the result, with the values that are implemented, as compact JSON. */
typedef struct {
    const char *key;
    const char *values[3];
} pf_fixed_key;

typedef struct pf_reader pf_reader;

/* One architecture: what config.json says under which names, and what it does not say. */
typedef struct {
    const char *classes[PF_MAX_CLASSES];     /* as in "architectures"; the first names the row */
    const char *model_types[PF_MAX_ALIASES]; /* as in "model_type" */
    bool (*matches)(const json_t *root);     /* of two rows with one class: whether this is the one. NULL: it is */
    bool in_text_config;                     /* the keys are those of "text_config" */

    const char *keys[PF_N_KEYS][PF_MAX_ALIASES]; /* besides the usual names (pf_key_names) */
    int32_t defaults[PF_N_INT_KEYS];             /* of absent keys; 0: see config_dimensions.c */
    int32_t intermediate_factor;                 /* the default of the intermediate size in hidden sizes */
    double eps, rope_theta;
    double rotary_factor; /* the default part of a head that is rotated; 0: whole heads, and no key changes that */
    const char *rotary_dim_key; /* where the file says it in dimensions, with its default: */
    int32_t rotary_dim;
    int32_t original_positions; /* the default of original_max_position_embeddings; 0: max_position */
    bool needs_rope_dict;       /* the default is scaled: a file without a dictionary is refused */
    bool grows_queries;         /* the dictionary may have llama_4_scaling_beta */
    bool scales_by_longrope;    /* "yarn" stands for longrope (the first Phi-3 models) */
    bool two_ropes;             /* tables of full_attention and of sliding_attention */
    double local_theta;         /* the default theta of the second */
    bool tied_embeddings;       /* the default */
    bool gelu_is_tanh;          /* "gelu" stands for its approximation (Gemma) */
    pf_window_rule windows;
    int32_t window_interval;
    bool window_switch;         /* use_sliding_window, false where it is absent, decides whether there is a window */
    bool ropes_in_windows_only; /* layers without a window do not rotate (Cohere 2) */
    int32_t nope_interval;      /* no_rope_layers exists; its default: the last of so many layers does not rotate */
    bool sparse_layers;         /* mlp_only_layers and decoder_sparse_step exist */
    pf_bias_rule biases[PF_MAX_BIASES];
    const pf_fixed_key *fixed;                     /* ends with a NULL key */
    const char *const *ignored;                    /* keys without an effect; ends with NULL */
    pf_status (*read)(pf_reader *r, pf_config *c); /* what the above cannot say */

    pf_plan plan; /* constants: norms, blocks, positions, scales that are not 1 */
    pf_tensor_pattern tensors[PF_N_TENSOR_ROLES];
} pf_architecture;

typedef struct {
    const pf_architecture *rows;
    int32_t n;
} pf_architecture_list;

extern const pf_architecture_list pf_llama_architectures, pf_qwen_architectures, pf_gemma_architectures,
    pf_gpt_architectures, pf_neox_architectures, pf_bloom_architectures, pf_phi_architectures, pf_glm_architectures,
    pf_moe_architectures, pf_baichuan_architectures, pf_norm_architectures;

const pf_architecture *pf_architecture_get(pf_architecture_id id);

/* Finds the architecture that config.json names. Class names around the same decoder are reported to `policy`. PF_FORMAT: it
 * names none, or architectures and model_type disagree.  PF_UNSUPPORTED: it is not in the table; the sentence lists those
 * that are. */
PF_MUST_USE pf_status pf_architecture_find(const pf_json *doc, const pf_load_policy *policy, pf_architecture_id *out,
                                           pf_error *error);

/* ---- one key at a time ----------------------------------------------------------------------------------------------- */

/* The keys of a file while they are read. */
struct pf_reader {
    const pf_json *doc; /* errors name it; its root has the keys */
    const pf_architecture *row;
    pf_error *error;
    json_t *left;         /* owned: the keys that nothing has read */
    double positions;     /* max_position_embeddings as written; pf_config caps it */
    double theta;         /* the default of rope_theta; a row's function may change it */
    double context_limit; /* no session may be longer; 0: none */
};

/* PF_NOMEM. The caller closes it, also then. */
PF_MUST_USE pf_status pf_reader_open(const pf_json *doc, const pf_architecture *row, pf_error *error, pf_reader *out);
void pf_reader_close(pf_reader *r);

/* The value of a key, which counts as read; NULL: it is absent or null. */
const json_t *pf_key_find(pf_reader *r, const char *key);

/* Read a key, as pf_json_get_...: *out keeps its value where the key is absent. */
PF_MUST_USE pf_status pf_key_int(pf_reader *r, const char *key, int32_t min, int32_t max, int32_t *out);
PF_MUST_USE pf_status pf_key_double(pf_reader *r, const char *key, double min, double max, double *out);
PF_MUST_USE pf_status pf_key_float(pf_reader *r, const char *key, double min, double max, float *out);
PF_MUST_USE pf_status pf_key_bool(pf_reader *r, const char *key, bool *out);
PF_MUST_USE pf_status pf_key_string(pf_reader *r, const char *key, const char **out);

/* The name under which the file has one of the numbers, which counts as read under all its names; NULL: it has none.
 * PF_FORMAT: two names have different values. */
PF_MUST_USE pf_status pf_key_name(pf_reader *r, pf_config_key key, const char **out);

/* The name to show where the file has none. */
const char *pf_key_usual_name(const pf_architecture *row, pf_config_key key);

/* Reads one of the integers: the file's, else the row's default. PF_FORMAT: there is neither, or it is out of range. */
PF_MUST_USE pf_status pf_key_read(pf_reader *r, pf_config_key key, int32_t max, int32_t *out);

/* ---- the parts --------------------------------------------------------------------------------------------------------- */

/* Whether the NULL-terminated list contains the word. */
bool pf_config_lists(const char *const *list, const char *word);

enum { PF_SHOWN_BYTES = 80 };

/* Prints a value for an error: compact JSON, truncated. False, and "?": there is no memory for it. */
bool pf_config_show(const json_t *value, char out[PF_SHOWN_BYTES]);

/* Fills in the dimensions, and the plan but for its layers. */
PF_MUST_USE pf_status pf_config_read_dimensions(pf_reader *r, pf_config *c);
PF_MUST_USE pf_status pf_config_read_plan(pf_reader *r, pf_config *c);

/* Fills in ropes, rotary_dim and max_context. Uses max_position and head_dim, which must be set.
 * PF_FORMAT, PF_UNSUPPORTED: as pf_config_load. */
PF_MUST_USE pf_status pf_config_read_rope(pf_reader *r, pf_config *c);

/* Fills in layer_kinds. */
PF_MUST_USE pf_status pf_config_read_layers(pf_reader *r, pf_config *c);

/* Fills in what experts need, for a row that has them. */
PF_MUST_USE pf_status pf_config_read_experts(pf_reader *r, pf_config *c);

/* Whether a key is of those that transformers writes and inference does not read. */
bool pf_config_is_inert(const char *key);

/* Checks that every key that nothing read is inert, fixed at the implemented value, or unknown and harmless; the last are
 * reported. PF_UNSUPPORTED: one is not; the sentence names it. */
PF_MUST_USE pf_status pf_config_check_keys(const pf_reader *r, const pf_load_policy *policy);

/* Reports the keys of generation_config.json that would change what greedy decoding gives, and are not read.
 * PF_UNSUPPORTED: there are some, and the policy is strict. */
PF_MUST_USE pf_status pf_generation_check_keys(const pf_json *doc, const pf_load_policy *policy, pf_error *error);

/* Reads a number of positions into *positions, if the field exists. PF_FORMAT: it is not an integer of 1 or more. */
PF_MUST_USE pf_status pf_config_read_positions(const pf_json *doc, const char *field, double *positions,
                                               pf_error *error);

#endif
