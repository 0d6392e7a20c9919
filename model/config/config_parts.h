/*
 * Declares the functions that read the parts of config.json. Internal to model/config.
 *
 *      config.c          dimensions, ids, quantization_config, and the calls of the rest
 *      config_keys.c     which keys are accepted; unknown_keys.c decides about those that are not known
 *      config_rope.c     RoPE's dictionary, of transformers 4 and 5
 *      architectures.c   the table of architectures: fields, defaults, tensors
 */
#ifndef PF_MODEL_CONFIG_PARTS_H
#define PF_MODEL_CONFIG_PARTS_H

#include "base/json.h"
#include "model/config/config.h"

/* One architecture of the table. */
typedef struct {
    const char *name;       /* as in "architectures" */
    const char *model_type; /* as in "model_type" */
    int32_t max_position;   /* defaults for absent fields */
    double rms_eps, rope_theta;
    bool tied_embeddings;
    bool partial_rotary;       /* whether partial_rotary_factor may differ from 1 */
    const char *const *fields; /* keys of config.json that are read, NULL-terminated */
    pf_plan plan;              /* what config.json does not say */
    pf_tensor_pattern tensors[PF_N_TENSOR_ROLES];
} pf_architecture;

const pf_architecture *pf_architecture_get(pf_architecture_id id);

/* Finds the architecture that config.json names. Class names around the same decoder are reported to `policy`. PF_FORMAT: it
 * names none, or architectures and model_type disagree.  PF_UNSUPPORTED: it is not in the table; the sentence lists those
 * that are. */
PF_MUST_USE pf_status pf_architecture_find(const pf_json *doc, const pf_load_policy *policy, pf_architecture_id *out,
                                           pf_error *error);

/* Whether the NULL-terminated list contains the word. */
bool pf_config_lists(const char *const *list, const char *word);

enum { PF_SHOWN_BYTES = 80 };

/* Prints a value for an error: compact JSON, truncated. False, and "?": there is no memory for it. */
bool pf_config_show(const json_t *value, char out[PF_SHOWN_BYTES]);

/* Checks that every key of the file is read, inert, fixed at the implemented value, or unknown and harmless; the last are
 * reported. PF_UNSUPPORTED: one is not; the sentence names it.  PF_FORMAT: layer_types is not a list. */
PF_MUST_USE pf_status pf_config_check_keys(const pf_json *doc, const pf_architecture *architecture,
                                           const pf_load_policy *policy, pf_error *error);

/* Reports the keys of generation_config.json that would change what greedy decoding gives, and are not read.
 * PF_UNSUPPORTED: there are some, and the policy is strict. */
PF_MUST_USE pf_status pf_generation_check_keys(const pf_json *doc, const pf_load_policy *policy, pf_error *error);

/* Reads a number of positions into *positions, if the field exists. PF_FORMAT: it is not an integer of 1 or more. */
PF_MUST_USE pf_status pf_config_read_positions(const pf_json *doc, const char *field, double *positions,
                                               pf_error *error);

/* Fills in ropes, rotary_dim and max_context. Uses max_position and head_dim, which must be set.
 * PF_FORMAT, PF_UNSUPPORTED: as pf_config_load. */
PF_MUST_USE pf_status pf_config_read_rope(const pf_json *doc, const pf_architecture *architecture, pf_config *config,
                                          pf_error *error);

#endif
