/* Chooses the kind of head that a model is loaded with. Pure, and internal to model/. */
#ifndef PF_MODEL_HEAD_CHOICE_H
#define PF_MODEL_HEAD_CHOICE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "kernels/types.h"
#include "model/head/head_kind.h"

/* What the choice depends on. */
typedef struct {
    pf_head asked;
    const char *dtype;     /* the name of the model's */
    bool is_integer;       /* the matrices */
    bool is_f16;           /* their values are rounded to it */
    bool is_quantised;     /* in the file */
    pf_type row_type;      /* of the embedding */
    bool has_own_products; /* not oneDNN's */
    bool has_bias;         /* the head */
    float logit_scale;     /* 1: none */
    float logit_softcap;   /* 0: none */
    int32_t n_vocab, hidden;
    double step_bytes;        /* of a decode step with a full head */
    double weight_bytes;      /* of one weight */
    bool step_is_from_memory; /* not from the cache */
} pf_head_facts;

/* The kind, never AUTO. *why_full: why AUTO has not taken a bounded head that would save enough bytes, a static string that ends
 * a sentence about it; else NULL. PF_UNSUPPORTED: what was asked for is not possible; the sentence says why, without the model's
 * name. */
PF_MUST_USE pf_status pf_head_choose(const pf_head_facts *facts, pf_head *kind, const char **why_full, pf_error *error);

/* Whether a model of `bytes` with a bounded head leaves too little of memory_bytes, and is to have a full head: where AUTO has
 * chosen the bounded one. */
bool pf_head_takes_too_much(pf_head kind, pf_head asked, size_t bytes, size_t memory_bytes);

#endif
