/*
 * Memory and weights of the naive forward pass (forward_ref.c). Internal to model/forward.
 *
 * A failed read of a weight stays in `status`: later reads give zeros, and the result of the pass is discarded.
 */
#ifndef PF_MODEL_FORWARD_REF_ROWS_H
#define PF_MODEL_FORWARD_REF_ROWS_H

#include "model/files/checkpoint.h"

/* Rows are [n, width] doubles, one behind the other. */
typedef struct {
    const pf_checkpoint *files;
    const pf_config *c;
    const pf_plan *plan;
    ptrdiff_t n;      /* rows */
    ptrdiff_t hidden; /* hidden_size */
    ptrdiff_t d;      /* head_dim */
    int32_t context_tokens;
    int32_t layer; /* the one that is computed; 0 outside of layers */
    pf_status status;
    pf_error *error;
    float *weight;                /* the matrix that was read last */
    float *vector, *bias;         /* likewise */
    double *x, *before;           /* [n, hidden] the residual stream, now and before the layer */
    double *normed, *sum;         /* [n, hidden] what a block reads, and what it gives */
    double *q, *k, *v, *attended; /* [n, n_heads * d], [n, n_kv_heads * d] twice, as q */
    double *gate, *up;            /* [n, intermediate_size], or of an expert */
    double *expert;               /* [n, hidden] what an expert gives */
    double *shares;               /* [n, n_experts] */
} pf_ref_pass;

/* Fails as pf_forward_ref. The caller ends it with pf_ref_pass_destroy. */
PF_MUST_USE pf_status pf_ref_pass_create(const pf_checkpoint *files, const int32_t *tokens, int32_t n_tokens,
                                         int32_t context_tokens, pf_ref_pass *out, pf_error *error);
void pf_ref_pass_destroy(pf_ref_pass *pass); /* `status` stays */

/* Whether the current layer has a role. */
bool pf_ref_has(const pf_ref_pass *pass, pf_tensor_role role);

/* Reads the weight of a norm or the sinks to `vector`, or a bias to `bias`. NULL: there is none. */
const float *pf_ref_vector(pf_ref_pass *pass, pf_tensor_role role);
const float *pf_ref_bias(pf_ref_pass *pass, pf_tensor_role role, int32_t expert);

/* Reads a matrix to `weight` [*rows, *columns]. A normalised head is read as such (checkpoint.c). */
const float *pf_ref_matrix(pf_ref_pass *pass, pf_tensor_role role, int32_t expert, int32_t *rows, int32_t *columns);

#endif
