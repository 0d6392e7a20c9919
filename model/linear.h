/* Matrices of weights and rows of activations, as the rooms of model/ share them. Internal to model/. */
#ifndef PF_MODEL_LINEAR_H
#define PF_MODEL_LINEAR_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/gemm/gemm.h"

/* y = W x + bias */
typedef struct {
    pf_gemm_weights weights;
    float *bias;           /* [weights.n], or NULL */
    const char *file_type; /* of weights in PF_FORMAT_EXACT: what the file has, "Q4_K"; a static string */
} pf_linear;

/* The bytes of all panels; 0 of a matrix that a plan does not have. Without the escape tables of bf16-12, of which a step reads one
 * or two percent. */
static inline size_t pf_linear_panel_bytes(const pf_linear *linear)
{
    return (size_t)linear->weights.n_panels * linear->weights.panel_bytes;
}

/* Panels [begin, end) of a matrix. */
typedef struct {
    int32_t begin, end;
} pf_panels;

/* A matrix of activations: row i is at data + i * stride. */
typedef struct {
    float *data;
    size_t stride; /* elements */
} pf_rows;

enum { PF_LINE_FLOATS = 64 / sizeof(float) };

static inline float *pf_row(pf_rows rows, int32_t row)
{
    return rows.data + (size_t)row * rows.stride;
}

#endif
