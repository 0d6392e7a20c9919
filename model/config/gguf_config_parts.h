/* Declares the table of GGUF architectures and what builds the parts of the document. Internal to model/config. */
#ifndef PF_MODEL_GGUF_CONFIG_PARTS_H
#define PF_MODEL_GGUF_CONFIG_PARTS_H

#include "model/config/gguf_config.h"

enum { PF_GGUF_MAX_FIELDS = 5, PF_GGUF_MAX_NAMES = 3, PF_GGUF_KEY_BYTES = 96 };

typedef enum { PF_GGUF_FIELD_INT, PF_GGUF_FIELD_NUMBER, PF_GGUF_FIELD_BOOL } pf_gguf_field_kind;

/* A key, behind "ARCHITECTURE.", and the field of config.json that has its value. An absent key gives no field. */
typedef struct {
    const char *key, *field;
    pf_gguf_field_kind kind;
} pf_gguf_field;

/* A field that is true where the files have a tensor of layer 0: "attn_q.bias". */
typedef struct {
    const char *field, *tensor;
    bool is_negated;
} pf_gguf_presence;

typedef struct pf_gguf_builder pf_gguf_builder;

/* One architecture of llama.cpp. */
typedef struct {
    const char *architecture; /* general.architecture, which its keys begin with */
    const char *name;         /* the class of transformers */
    const char *eps_field;    /* of the norms' epsilon; NULL: the class has a constant, 1e-5 */
    bool head_pairs;          /* pf_gguf_form */
    const char *when;         /* of two rows with one architecture: a tensor of layer 0 of the files of this one */
    bool has_experts;         /* in all layers */
    bool has_windows;         /* attention.sliding_window is known */
    bool is_partial;          /* RoPE may rotate a part of a head */
    bool has_two_ropes;       /* layers with a window have a table of their own (Gemma 3) */
    bool keeps_ramp;          /* YaRN's ramp is not rounded to whole dimensions (gpt-oss) */
    pf_gguf_field fields[PF_GGUF_MAX_FIELDS];
    pf_gguf_presence presences[PF_GGUF_MAX_FIELDS];
    pf_status (*finish)(const pf_gguf_builder *b); /* what the above cannot say; or NULL */
    struct {
        pf_tensor_role role;
        pf_tensor_pattern pattern;
    } names[PF_GGUF_MAX_NAMES]; /* that differ from the common ones; end with NULL */
} pf_gguf_architecture;

extern const pf_gguf_architecture pf_gguf_architectures[];
extern const int32_t pf_gguf_n_architectures;

/* A document that is being built. */
struct pf_gguf_builder {
    const pf_gguf *file;
    const pf_gguf_architecture *row;
    json_t *root; /* owned */
    pf_error *error;
};

/* Prints a key of the architecture. */
const char *pf_gguf_builder_key(const pf_gguf_builder *b, const char *name, char out[PF_GGUF_KEY_BYTES]);

bool pf_gguf_builder_has_key(const pf_gguf_builder *b, const char *name);

/* Whether layer 0 has a tensor: "attn_q.bias". A bias of q, k or v may be that of the fused tensor. */
bool pf_gguf_builder_has_tensor(const pf_gguf_builder *b, const char *name);

PF_MUST_USE pf_status pf_gguf_builder_no_memory(const pf_gguf_builder *b);

/* Sets a field; takes the value, also where it fails. */
PF_MUST_USE pf_status pf_gguf_builder_set(const pf_gguf_builder *b, json_t *object, const char *field, json_t *value);

/* Copies the value of a key to a field, where it is there. */
PF_MUST_USE pf_status pf_gguf_builder_copy(const pf_gguf_builder *b, const char *name, pf_gguf_field_kind kind,
                                           bool required, json_t *object, const char *field);

/* Reads a number; *out keeps its value where the key is absent. */
PF_MUST_USE pf_status pf_gguf_builder_number(const pf_gguf_builder *b, const char *name, double *out);

/* An integer of the document, which was set before; 0: there is none. */
json_int_t pf_gguf_builder_int(const pf_gguf_builder *b, const char *field);

/* Sets rope_parameters. Uses head_dim. */
PF_MUST_USE pf_status pf_gguf_builder_set_rope(const pf_gguf_builder *b);

/* The keys of RoPE, behind "ARCHITECTURE."; ends with NULL. */
extern const char *const pf_gguf_rope_keys[];

#endif
