/*
 * Products of rows and weights by cuBLASLt, each with one algorithm that is chosen when the model is opened.
 *
 *      out [n_rows, n] f32 = in [n_rows, k] bf16 * weight [n, k]^T bf16          sums in f32
 *
 * The number of rows is the same for all, and the algorithm does not split k: a row's bits then depend on that row alone.
 */
#ifndef PF_VERIFY_CUDA_PRODUCTS_H
#define PF_VERIFY_CUDA_PRODUCTS_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#include "base/status.h"

typedef struct pf_cuda_products pf_cuda_products;

/* A shape, with its algorithm. Plain data, valid as long as the products are. */
typedef struct {
    int32_t n, k;
    int32_t index;
} pf_cuda_shape;

/* n_shapes at most are found later. PF_UNAVAILABLE: the library is not there, or has not what is needed.  PF_NOMEM. */
PF_MUST_USE pf_status pf_cuda_products_create(int32_t n_rows, int32_t n_shapes, cudaStream_t stream,
                                              pf_cuda_products **out, pf_error *error);
void pf_cuda_products_destroy(pf_cuda_products *products); /* NULL is fine */

/* Finds the algorithm of a shape; the same shape is found once. PF_UNSUPPORTED: the library has none. */
PF_MUST_USE pf_status pf_cuda_products_find(pf_cuda_products *products, int32_t n, int32_t k, pf_cuda_shape *out,
                                            pf_error *error);

/* Queues a product in the stream. */
cudaError_t pf_cuda_products_run(const pf_cuda_products *products, pf_cuda_shape shape, const uint16_t *in,
                                 const uint16_t *weight, float *out);

#endif
