#include "verify/cuda/cuda_products.h"

#include <cublasLt.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "verify/cuda/cuda_device.h"

#ifdef PF_CUDA_SHIM
enum { WORKSPACE_BYTES = 1 << 16 }; /* filling more takes most of a test's time */
#else
enum { WORKSPACE_BYTES = 32 << 20 };
#endif

/* The functions of the library. It is opened with the first model, so that a process that uses the CPU alone does not load it. */
/* clang-format off */
#define FUNCTIONS(X) \
    X(cublasLtCreate) \
    X(cublasLtDestroy) \
    X(cublasLtMatmulDescCreate) \
    X(cublasLtMatmulDescSetAttribute) \
    X(cublasLtMatmulDescDestroy) \
    X(cublasLtMatrixLayoutCreate) \
    X(cublasLtMatrixLayoutDestroy) \
    X(cublasLtMatmulPreferenceCreate) \
    X(cublasLtMatmulPreferenceSetAttribute) \
    X(cublasLtMatmulPreferenceDestroy) \
    X(cublasLtMatmulAlgoGetHeuristic) \
    X(cublasLtMatmul)
/* clang-format on */

#define DECLARE(name) __typeof__(&name) name;
typedef struct {
    void *library;
    FUNCTIONS(DECLARE)
} functions;
#undef DECLARE

typedef struct {
    int32_t n, k;
    cublasLtMatrixLayout_t weight, in, out;
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace_bytes;
} product;

struct pf_cuda_products {
    functions f;
    int32_t n_rows;
    cudaStream_t stream;
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t operation;
    cublasLtMatmulPreference_t preference;
    void *workspace;
    int32_t n, capacity;
    product products[]; /* [capacity] */
};

#ifdef PF_CUDA_SHIM
static pf_status load(functions *f, pf_error *error)
{
    (void)error;
#define TAKE(name) f->name = name;
    FUNCTIONS(TAKE)
#undef TAKE
    return PF_OK;
}
#else
static pf_status load(functions *f, pf_error *error)
{
    char name[40];
    snprintf(name, sizeof name, "libcublasLt.so.%d", CUBLAS_VER_MAJOR);
    f->library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!f->library) return pf_fail(error, PF_UNAVAILABLE, "%s, which the CUDA backend needs: %s", name, dlerror());
    bool has_all = true;
#define TAKE(function)                                              \
    {                                                               \
        void *found = dlsym(f->library, #function);                 \
        has_all = has_all && found;                                 \
        __extension__ f->function = (__typeof__(f->function))found; \
    }
    FUNCTIONS(TAKE)
#undef TAKE
    return has_all ? PF_OK : pf_fail(error, PF_UNAVAILABLE, "%s lacks a function that the CUDA backend needs", name);
}
#endif

static pf_status check(cublasStatus_t status, pf_error *error)
{
    if (status == CUBLAS_STATUS_SUCCESS) return PF_OK;
    const pf_status kind = status == CUBLAS_STATUS_ALLOC_FAILED ? PF_NOMEM : PF_UNAVAILABLE;
    return pf_fail(error, kind, "cuBLASLt cannot be set up: status %d", (int)status);
}

/* The first operand is the weight, transposed: in the library's column order the product is out^T = weight * in^T. */
static pf_status set_up(pf_cuda_products *p, pf_error *error)
{
    const functions *f = &p->f;
    const cublasOperation_t transposed = CUBLAS_OP_T, plain = CUBLAS_OP_N;
    const uint64_t workspace = WORKSPACE_BYTES;
    const uint32_t no_split = CUBLASLT_REDUCTION_SCHEME_NONE;
    PF_TRY(check(f->cublasLtCreate(&p->handle), error));
    PF_TRY(check(f->cublasLtMatmulDescCreate(&p->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), error));
    PF_TRY(check(
        f->cublasLtMatmulDescSetAttribute(p->operation, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed),
        error));
    PF_TRY(check(f->cublasLtMatmulDescSetAttribute(p->operation, CUBLASLT_MATMUL_DESC_TRANSB, &plain, sizeof plain),
                 error));
    PF_TRY(check(f->cublasLtMatmulPreferenceCreate(&p->preference), error));
    PF_TRY(check(f->cublasLtMatmulPreferenceSetAttribute(p->preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                         &workspace, sizeof workspace),
                 error));
    PF_TRY(check(f->cublasLtMatmulPreferenceSetAttribute(p->preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                         &no_split, sizeof no_split),
                 error));
    return pf_cuda_allocate(&p->workspace, WORKSPACE_BYTES, "the workspace of products", error);
}

pf_status pf_cuda_products_create(int32_t n_rows, int32_t n_shapes, cudaStream_t stream, pf_cuda_products **out,
                                  pf_error *error)
{
    pf_cuda_products *p = calloc(1, sizeof *p + (size_t)n_shapes * sizeof *p->products);
    if (!p) return pf_fail(error, PF_NOMEM, "no memory for %d products", n_shapes);
    p->n_rows = n_rows;
    p->capacity = n_shapes;
    p->stream = stream;
    pf_status status = load(&p->f, error);
    if (status == PF_OK) status = set_up(p, error);
    if (status == PF_OK)
        *out = p;
    else
        pf_cuda_products_destroy(p);
    return status;
}

static void end_product(const functions *f, product *one)
{
    if (one->weight) (void)f->cublasLtMatrixLayoutDestroy(one->weight);
    if (one->in) (void)f->cublasLtMatrixLayoutDestroy(one->in);
    if (one->out) (void)f->cublasLtMatrixLayoutDestroy(one->out);
}

void pf_cuda_products_destroy(pf_cuda_products *p)
{
    if (!p) return;
    for (int32_t i = 0; i < p->capacity; i++) end_product(&p->f, &p->products[i]);
    if (p->preference) (void)p->f.cublasLtMatmulPreferenceDestroy(p->preference);
    if (p->operation) (void)p->f.cublasLtMatmulDescDestroy(p->operation);
    if (p->handle) (void)p->f.cublasLtDestroy(p->handle);
    (void)cudaFree(p->workspace);
    if (p->f.library) (void)dlclose(p->f.library);
    free(p);
}

static pf_status plan(const pf_cuda_products *p, product *one, pf_error *error)
{
    const functions *f = &p->f;
    const uint64_t n = (uint64_t)one->n, k = (uint64_t)one->k, m = (uint64_t)p->n_rows;
    PF_TRY(check(f->cublasLtMatrixLayoutCreate(&one->weight, CUDA_R_16BF, k, n, one->k), error));
    PF_TRY(check(f->cublasLtMatrixLayoutCreate(&one->in, CUDA_R_16BF, k, m, one->k), error));
    PF_TRY(check(f->cublasLtMatrixLayoutCreate(&one->out, CUDA_R_32F, n, m, one->n), error));
    cublasLtMatmulHeuristicResult_t found = { 0 };
    int n_found = 0;
    const cublasStatus_t status = f->cublasLtMatmulAlgoGetHeuristic(
        p->handle, p->operation, one->weight, one->in, one->out, one->out, p->preference, 1, &found, &n_found);
    if (status != CUBLAS_STATUS_SUCCESS || n_found < 1 || found.state != CUBLAS_STATUS_SUCCESS)
        return pf_fail(error, PF_UNSUPPORTED, "cuBLASLt has no product of %d rows with a matrix of %d x %d in BF16",
                       p->n_rows, one->n, one->k);
    one->algorithm = found.algo;
    one->workspace_bytes = found.workspaceSize;
    return PF_OK;
}

pf_status pf_cuda_products_find(pf_cuda_products *p, int32_t n, int32_t k, pf_cuda_shape *out, pf_error *error)
{
    for (int32_t i = 0; i < p->n; i++)
        if (p->products[i].n == n && p->products[i].k == k) {
            *out = (pf_cuda_shape){ n, k, i };
            return PF_OK;
        }
    if (p->n == p->capacity) return pf_fail(error, PF_INTERNAL, "more than %d shapes of products", p->capacity);
    product *one = &p->products[p->n];
    one->n = n;
    one->k = k;
    PF_TRY(plan(p, one, error));
    *out = (pf_cuda_shape){ n, k, p->n++ };
    return PF_OK;
}

cudaError_t pf_cuda_products_run(const pf_cuda_products *p, pf_cuda_shape shape, const uint16_t *in,
                                 const uint16_t *weight, float *out)
{
    const product *found = &p->products[shape.index];
    const float one = 1.0f, zero = 0.0f;
    const cublasStatus_t status =
        p->f.cublasLtMatmul(p->handle, p->operation, &one, weight, found->weight, in, found->in, &zero, out, found->out,
                            out, found->out, &found->algorithm, p->workspace, WORKSPACE_BYTES, p->stream);
    return status == CUBLAS_STATUS_SUCCESS ? cudaSuccess : cudaErrorLaunchFailure;
}
