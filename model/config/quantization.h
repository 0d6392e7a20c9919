/*
 * Reads quantization_config of a model that another program quantised: GPTQ, AWQ, AutoRound, compressed-tensors, FP8 or bitsandbytes.
 *
 * A field that could change the weights and is not known is refused by name. What a matrix of the files holds follows from its
 * own tensors (model/files/quantised_matrix.h): this says in which form they are, and what their shapes leave open.
 *
 * Source: transformers, utils/quantization_config.py; the configuration classes of GPTQModel, AutoAWQ, AutoRound and
 * compressed-tensors.
 */
#ifndef PF_MODEL_QUANTIZATION_H
#define PF_MODEL_QUANTIZATION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "base/status.h"

/* The form of a quantised matrix X. */
typedef enum {
    PF_SCHEME_NONE,   /* the files hold plain tensors, or what `pilotfish quantize` writes */
    PF_SCHEME_GPTQ,   /* X.qweight, packed along the columns of X, X.scales, X.qzeros, X.g_idx */
    PF_SCHEME_AWQ,    /* X.qweight, packed along the rows of X, X.scales, X.qzeros */
    PF_SCHEME_SCALED, /* X.weight_packed, or X.weight in I8 or F8_E4M3, and X.weight_scale (compressed-tensors, FP8) */
    PF_SCHEME_BITSANDBYTES, /* X.weight in U8 and X.weight.absmax, or X.weight in I8 and X.SCB */
} pf_scheme;

enum { PF_MAX_GROUP = 1 << 22, PF_SCHEME_WORDS = 128 };

typedef struct {
    pf_scheme scheme;
    uint32_t widths;     /* 1 << bits | ...: the bits that a packed value may have */
    int32_t group;       /* columns of a group, at most PF_MAX_GROUP; 0: a row is one group */
    bool varies;         /* modules may have other groups */
    bool zeros_less_one; /* GPTQ: a word of zero points is stored less one in each (version 1 of the format) */
    int32_t block_rows;  /* of F8_E4M3 with a scale a block; 0: none */
    int32_t block_columns;
    char words[PF_SCHEME_WORDS]; /* "GPTQ, 4 bits, groups of 128, asymmetric, act-order" */
} pf_quantization;

/* `doc`: quantization_config itself, whose quant_method is not "pilotfish".
 * PF_UNSUPPORTED: a method, a field or a value that is not read.  PF_FORMAT: a field is absent, of the wrong type or out of range. */
PF_MUST_USE pf_status pf_quantization_read(const pf_json *doc, pf_quantization *out, pf_error *error);

#endif
