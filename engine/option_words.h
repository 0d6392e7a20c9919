/* The words of pf_engine_options as the values that the model knows. Internal to engine/. */
#ifndef PF_ENGINE_OPTION_WORDS_H
#define PF_ENGINE_OPTION_WORDS_H

#include "draft/passes.h"
#include "engine/engine.h"

typedef struct {
    pf_dtype dtype;
    pf_activations activations;
    pf_type kv_type; /* PF_N_TYPES: what suits the dtype */
    pf_head head;
    pf_backend backend;
    pf_isa isa;
    pf_threading threading;
    bool runs_on_cuda;
} pf_option_words;

/* NULL is "auto".  PF_INVALID: an unknown word; the sentence lists the words.  PF_UNSUPPORTED: an instruction set that this
 * machine lacks. */
PF_MUST_USE pf_status pf_option_words_parse(const pf_engine_options *options, pf_option_words *out, pf_error *error);

/* The word of pf_role_options. PF_INVALID: an unknown one. */
PF_MUST_USE pf_status pf_draft_passes_parse(const char *word, pf_passes *out, pf_error *error);

#endif
