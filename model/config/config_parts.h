/*
 * What reads the parts of config.json, between config.c and its helpers. Internal to model/.
 *
 *      config.c          dimensions, ids, quantization_config: the whole
 *      config_keys.c     which keys may be there at all; unknown_keys.c decides about those that are not known
 *      config_rope.c     RoPE's dictionary, of transformers 4 and 5
 *      architectures.c   the table of architectures: fields, defaults, tensors
 */
#ifndef PF_MODEL_CONFIG_PARTS_H
#define PF_MODEL_CONFIG_PARTS_H

#include "base/json.h"
#include "model/config/config.h"

/* A row of the table. */
typedef struct {
    const char *name;       /* as in "architectures" */
    const char *model_type; /* as in "model_type" */
    int32_t max_position;   /* defaults where the file is silent */
    double rms_eps, rope_theta;
    bool tied_embeddings;
    bool partial_rotary;                    /* whether partial_rotary_factor may differ from 1 */
    const char *const *fields;              /* keys of config.json that are read */
    const char *tensors[PF_N_TENSOR_ROLES]; /* names without ".weight"; %d is the layer */
} pf_architecture;

const pf_architecture *pf_architecture_get(pf_architecture_id id);

/* The one that config.json names. PF_FORMAT: it names none, or two that disagree.  PF_UNSUPPORTED: not in the table; the
 * sentence lists those that are. */
PF_MUST_USE pf_status pf_architecture_find(const pf_json *doc, const pf_load_policy *policy, pf_architecture_id *out,
                                           pf_error *error);

/* Whether `list`, which ends with NULL, has the word. */
bool pf_config_lists(const char *const *list, const char *word);

enum { PF_SHOWN_BYTES = 80 };

/* A value as it is written in errors: compact JSON, cut short. False, and "?": there is no memory for it. */
bool pf_config_show(const json_t *value, char out[PF_SHOWN_BYTES]);

/* Whether every key of the file is read, inert, fixed at a value that is computed here, or unknown and harmless; the last are
 * reported. PF_UNSUPPORTED: one is not; the sentence names it.  PF_FORMAT: layer_types is no list. */
PF_MUST_USE pf_status pf_config_check_keys(const pf_json *doc, const pf_architecture *architecture,
                                           const pf_load_policy *policy, pf_error *error);

/* Reports the keys of generation_config.json that would change what greedy decoding gives, and are not read.
 * PF_UNSUPPORTED: there are some, and the policy is strict. */
PF_MUST_USE pf_status pf_generation_check_keys(const pf_json *doc, const pf_load_policy *policy, pf_error *error);

/* A number of positions of doc's object, into *positions where it is there. PF_FORMAT: it is no integer of 1 or more. */
PF_MUST_USE pf_status pf_config_read_positions(const pf_json *doc, const char *field, double *positions,
                                               pf_error *error);

/* Into rope, rotary_dim and max_context; reads max_position and head_dim, which must be there.
 * PF_FORMAT, PF_UNSUPPORTED: as pf_config_load. */
PF_MUST_USE pf_status pf_config_read_rope(const pf_json *doc, const pf_architecture *architecture, pf_config *config,
                                          pf_error *error);

#endif
