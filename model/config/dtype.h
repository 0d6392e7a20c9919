/*
 * Names the weight formats and activation types of a model: --dtype and --act.
 *
 * The names are those of kernels/gemm/format.h, and `auto`, and `f16`, which is F32 that holds F16 values.
 */
#ifndef PF_MODEL_DTYPE_H
#define PF_MODEL_DTYPE_H

#include <stdbool.h>

#include "base/status.h"
#include "kernels/gemm/format.h"
#include "kernels/types.h"

typedef enum {
    PF_DTYPE_AUTO, /* the file's own format if `pilotfish quantize` wrote it or it holds groups, else pf_dtype_choose */
    PF_DTYPE_F16,  /* matrices rounded to F16 (nearest, ties to even; beyond 65504 to infinity), held as F32 */
    PF_DTYPE_FORMATS,                                  /* from here on the values of pf_format, in order */
    PF_DTYPE_F32 = PF_DTYPE_FORMATS + PF_FORMAT_F32,   /* F32 weights, activations, sums and KV */
    PF_DTYPE_BF16 = PF_DTYPE_FORMATS + PF_FORMAT_BF16, /* BF16 weights, activations and KV, F32 sums */
    PF_DTYPE_BF16_12 =
        PF_DTYPE_FORMATS + PF_FORMAT_BF16_12,          /* the same in twelve bits; on AMX summed in another order */
    PF_DTYPE_INT8 = PF_DTYPE_FORMATS + PF_FORMAT_INT8, /* integers with scales, INT8 or BF16 activations, BF16 KV */
    PF_DTYPE_INT4 = PF_DTYPE_FORMATS + PF_FORMAT_INT4_G32,
    PF_DTYPE_EXACT = PF_DTYPE_FORMATS + PF_FORMAT_EXACT, /* the groups of the file, whatever they are; BF16 KV */
    PF_N_DTYPES = PF_DTYPE_FORMATS + PF_N_ALL_FORMATS
} pf_dtype;

static inline pf_dtype pf_dtype_of(pf_format format)
{
    return (pf_dtype)((int)PF_DTYPE_FORMATS + (int)format);
}

/* The format of the packed panels. Not for PF_DTYPE_AUTO. */
static inline pf_format pf_dtype_format(pf_dtype dtype)
{
    return dtype < PF_DTYPE_FORMATS ? PF_FORMAT_F32 : (pf_format)((int)dtype - (int)PF_DTYPE_FORMATS);
}

static inline bool pf_format_is_integer(pf_format format)
{
    return pf_format_get(format)->bits < 16;
}

/* Whether `pilotfish quantize` writes it. BF16_12 and EXACT exist in memory only. */
static inline bool pf_dtype_is_written(pf_dtype dtype)
{
    return dtype != PF_DTYPE_AUTO && dtype != PF_DTYPE_BF16_12 && dtype != PF_DTYPE_EXACT;
}

/* The default type of embedding rows and of the KV cache for weights of a format. */
static inline pf_type pf_format_row_type(pf_format format)
{
    return format == PF_FORMAT_F32 ? PF_TYPE_F32 : PF_TYPE_BF16;
}

/* What AUTO depends on for a file that is not quantised. */
typedef struct {
    bool has_f32;           /* at least one matrix is F32, and BF16 would lose bits of it */
    bool twelve_is_as_good; /* the twelve-bit product is fast and gives the bits of the sixteen-bit one */
    bool from_memory;       /* the weights of a step, in BF16, do not fit in the cache */
} pf_dtype_facts;

/* F32 if a matrix is F32, else BF16 (F16 is rounded to it), in twelve bits where weights are read from memory: there a step
 * is bound by bandwidth, while in cache unpacking would cost more than it saves. Never AUTO. */
pf_dtype pf_dtype_choose(const pf_dtype_facts *facts);

/* "auto", "f32", "int4-g128", ...  PF_INVALID: the sentence lists the names. */
PF_MUST_USE pf_status pf_dtype_parse(const char *text, pf_dtype *out, pf_error *error);
const char *pf_dtype_name(pf_dtype dtype); /* a static string */

typedef enum {
    PF_ACTIVATIONS_AUTO, /* the default of the weight format */
    PF_ACTIVATIONS_ACTS, /* from here on the values of pf_act, in order */
    PF_ACTIVATIONS_F32 = PF_ACTIVATIONS_ACTS + PF_ACT_F32,
    PF_ACTIVATIONS_BF16 = PF_ACTIVATIONS_ACTS + PF_ACT_BF16,
    PF_ACTIVATIONS_INT8 = PF_ACTIVATIONS_ACTS + PF_ACT_INT8,
    PF_N_ACT_CHOICES = PF_ACTIVATIONS_ACTS + PF_N_ACTS
} pf_activations;

/* "auto", "f32", "bf16", "int8".  PF_INVALID: the sentence lists the names. */
PF_MUST_USE pf_status pf_activations_parse(const char *text, pf_activations *out, pf_error *error);

/* The activation type that a format is multiplied with. PF_UNSUPPORTED: there is no such product; the sentence says what the
 * format takes. */
PF_MUST_USE pf_status pf_activations_resolve(pf_format format, pf_activations asked, pf_act *out, pf_error *error);

#endif
