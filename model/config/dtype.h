/*
 * The words for how a model's weights are held and what its activations are rounded to: --dtype and --act.
 *
 * The names are those of kernels/gemm/format.h; besides them there are `auto`, and `f16`, which is F32 that
 * holds F16 values.
 */
#ifndef PF_MODEL_DTYPE_H
#define PF_MODEL_DTYPE_H

#include <stdbool.h>

#include "base/status.h"
#include "kernels/gemm/format.h"
#include "kernels/types.h"

typedef enum {
    PF_DTYPE_AUTO,    /* by the file: its own format where `pilotfish quantize` gave it one, else pf_dtype_choose */
    PF_DTYPE_F16,     /* matrices rounded to F16 (nearest, ties to even; beyond 65504 to infinity), held as F32 */
    PF_DTYPE_FORMATS, /* from here on a pf_format each, in its order */
    PF_DTYPE_F32 = PF_DTYPE_FORMATS + PF_FORMAT_F32,         /* F32 weights, activations, sums and KV */
    PF_DTYPE_BF16 = PF_DTYPE_FORMATS + PF_FORMAT_BF16,       /* BF16 weights, activations and KV, F32 sums */
    PF_DTYPE_BF16_12 = PF_DTYPE_FORMATS + PF_FORMAT_BF16_12, /* the same, in twelve bits; on AMX in another order */
    PF_DTYPE_INT8 = PF_DTYPE_FORMATS + PF_FORMAT_INT8, /* integers with scales, INT8 or BF16 activations, BF16 KV */
    PF_DTYPE_INT4 = PF_DTYPE_FORMATS + PF_FORMAT_INT4_G32,
    PF_N_DTYPES = PF_DTYPE_FORMATS + PF_N_FORMATS
} pf_dtype;

static inline pf_dtype pf_dtype_of(pf_format format)
{
    return (pf_dtype)((int)PF_DTYPE_FORMATS + (int)format);
}

/* The format of the panels. Not for PF_DTYPE_AUTO. */
static inline pf_format pf_dtype_format(pf_dtype dtype)
{
    return dtype < PF_DTYPE_FORMATS ? PF_FORMAT_F32 : (pf_format)((int)dtype - (int)PF_DTYPE_FORMATS);
}

static inline bool pf_format_is_integer(pf_format format)
{
    return pf_format_get(format)->bits < 16;
}

/* Whether files hold it: `pilotfish quantize` writes no others. BF16_12 is a form that BF16 takes in memory. */
static inline bool pf_dtype_is_written(pf_dtype dtype)
{
    return dtype != PF_DTYPE_AUTO && dtype != PF_DTYPE_BF16_12;
}

/* What suits weights of a format where they are not multiplied: rows of the embedding, the KV cache. */
static inline pf_type pf_format_row_type(pf_format format)
{
    return format == PF_FORMAT_F32 ? PF_TYPE_F32 : PF_TYPE_BF16;
}

/* What AUTO goes by for a file of numbers. */
typedef struct {
    bool has_f32;           /* a matrix in F32, be it one of many: in BF16 it would lose bits that nobody gave up */
    bool twelve_is_as_good; /* the product from twelve bits is a fast one, and has the bits of that from sixteen */
    bool from_memory;       /* what a step would read in BF16 does not lie in a cache */
} pf_dtype_facts;

/* F32 where a matrix is; else BF16, which F16 is rounded to, and that from twelve bits where weights come from memory: there
 * the bytes are the time, in cache taking them apart would be. Never AUTO. */
pf_dtype pf_dtype_choose(const pf_dtype_facts *facts);

/* "auto", "f32", "int4-g128", ...; PF_INVALID lists what there is. */
PF_MUST_USE pf_status pf_dtype_parse(const char *text, pf_dtype *out, pf_error *error);
const char *pf_dtype_name(pf_dtype dtype); /* a static string */

typedef enum {
    PF_ACTIVATIONS_AUTO, /* what the format takes by default */
    PF_ACTIVATIONS_ACTS, /* from here on a pf_act each, in its order */
    PF_ACTIVATIONS_F32 = PF_ACTIVATIONS_ACTS + PF_ACT_F32,
    PF_ACTIVATIONS_BF16 = PF_ACTIVATIONS_ACTS + PF_ACT_BF16,
    PF_ACTIVATIONS_INT8 = PF_ACTIVATIONS_ACTS + PF_ACT_INT8,
    PF_N_ACTIVATIONS = PF_ACTIVATIONS_ACTS + PF_N_ACTS
} pf_activations;

/* "auto", "f32", "bf16", "int8"; PF_INVALID lists them. */
PF_MUST_USE pf_status pf_activations_parse(const char *text, pf_activations *out, pf_error *error);

/* What a format is multiplied with when `asked` for. PF_UNSUPPORTED: there is no such product; the sentence says what
 * the format takes. */
PF_MUST_USE pf_status pf_activations_resolve(pf_format format, pf_activations asked, pf_act *out, pf_error *error);

#endif
