/*
 * cuBLAS and cuBLASLt: BF16 products by the loops of matmul_sum.cc, with the checks of operands, and several algorithms.
 *
 * An algorithm sums `chunk` products apart. The chunk depends on the algorithm and, as nothing else is promised, on the number
 * of columns of the result (pf_shim_set_order_by_rows). The heuristic's favourite depends on that number, too: a program
 * that does not pin its algorithm, or that changes the number of rows of a batch, gets other bits.
 */
#include <cstring>
#include <string>

#include "tests/cuda-shim/include/cublasLt.h"
#include "tests/cuda-shim/shim_state.hh"

using namespace pf_shim;

struct cublasContext {
    cudaStream_t stream;
};

struct cublasLtContext {
    int unused;
};

struct pf_shim_matmul_desc {
    cublasComputeType_t compute;
    cudaDataType scale;
    int32_t pointer_mode, transpose_a, transpose_b, epilogue;
};

struct pf_shim_matrix_layout {
    uint32_t type;
    uint64_t rows, cols;
    int64_t ld;
    int32_t order;
};

struct pf_shim_matmul_preference {
    uint64_t max_workspace;
    uint32_t reduction_mask;
    uint32_t alignment[4];   // of A, B, C, D
};

namespace
{
constexpr uint64_t ALGO_MARK = 0x70665f616c676f00;   // in data[0]; data[1]: the algorithm, data[2]: alignments
constexpr size_t VECTOR_BYTES = 16;                  // what the kernels of tensor cores load at a time

struct algorithm {
    int chunk;
    uint64_t workspace_bytes;
    uint32_t reduction_scheme;
    int split_k;
};
constexpr algorithm ALGORITHMS[] = {
    { 64, 0, CUBLASLT_REDUCTION_SCHEME_NONE, 1 },
    { 32, 0, CUBLASLT_REDUCTION_SCHEME_NONE, 1 },
    { 16, 65536, CUBLASLT_REDUCTION_SCHEME_NONE, 1 },
    { 8, 262144, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 4 },
};
constexpr int N_ALGORITHMS = sizeof ALGORITHMS / sizeof ALGORITHMS[0];

/* The algorithm of this rank among the fastest ones for a result of n columns. */
int ranked(int rank, int64_t n)
{
    const int first = n <= 1 ? 0 : n <= 8 ? 1 : n <= 32 ? 2 : 3;
    return (first + rank) % N_ALGORITHMS;
}

int chunk_of(int algo, int64_t n)
{
    return ALGORITHMS[algo].chunk + (state().order_by_rows ? static_cast<int>(n % 7) : 0);
}

size_t extent(int64_t rows, int64_t cols, int64_t ld, size_t element_bytes)
{
    return static_cast<size_t>((cols - 1) * ld + rows) * element_bytes;
}

bool is_operand(const void *p, size_t bytes, size_t alignment, const char *what)
{
    if (locate(p, bytes, what) != place::device) {
        violation("%s is not device memory: %s", what, describe(p).c_str());
        return false;
    }
    if (reinterpret_cast<uintptr_t>(p) % alignment == 0) return true;
    violation("%s: %s is not aligned to %zu bytes", what, describe(p).c_str(), alignment);
    return false;
}

struct alignments {
    size_t a, b, c, d;
};

/* All of what a kernel would read and write is device memory, now and when the product runs. */
bool is_sound(const product &p, const alignments &align)
{
    const size_t out = p.f32_out ? 4 : 2;
    if (p.m < 1 || p.n < 1 || p.k < 1 || p.lda < (p.transpose_a ? p.k : p.m) || p.ldb < (p.transpose_b ? p.n : p.k) ||
        p.ldc < p.m || p.ldd < p.m) {
        violation("matmul of %lld x %lld x %lld: leading dimensions %lld, %lld, %lld, %lld", (long long)p.m,
                  (long long)p.n, (long long)p.k, (long long)p.lda, (long long)p.ldb, (long long)p.ldc,
                  (long long)p.ldd);
        return false;
    }
    const size_t a = extent(p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.lda, 2);
    const size_t bytes_b = extent(p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.ldb, 2);
    return is_operand(p.a, a, align.a, "matmul: A") && is_operand(p.b, bytes_b, align.b, "matmul: B") &&
           is_operand(p.d, extent(p.m, p.n, p.ldd, out), align.d, "matmul: D") &&
           (p.beta == 0 || is_operand(p.c, extent(p.m, p.n, p.ldc, out), align.c, "matmul: C"));
}

cublasStatus_t queue_product(const product &p, const alignments &align, void *workspace, size_t workspace_bytes,
                             cudaStream_t stream)
{
    if (!is_sound(p, align)) return CUBLAS_STATUS_INVALID_VALUE;
    put(stream, { [=] {
                     if (!is_sound(p, align)) {
                         state().sticky = cudaErrorIllegalAddress;
                         return;
                     }
                     if (workspace_bytes > 0) memset(workspace, 0xff, workspace_bytes);
                     multiply(p);
                 },
                  {} });
    return CUBLAS_STATUS_SUCCESS;
}

/* What a failing call of cuBLAS returns, which has no error of its own for most. */
cublasStatus_t status_of(const api_call &call, cublasStatus_t otherwise)
{
    return call.error == cudaSuccess                 ? CUBLAS_STATUS_SUCCESS
           : call.error == cudaErrorMemoryAllocation ? CUBLAS_STATUS_ALLOC_FAILED
                                                     : otherwise;
}

template <class T> cublasStatus_t make(T **out, T made, cudaError_t if_failing = cudaErrorMemoryAllocation)
{
    const api_call call(if_failing);
    (void)cudaGetLastError();   // cuBLAS has its own statuses
    if (call.error != cudaSuccess) return status_of(call, CUBLAS_STATUS_NOT_INITIALIZED);
    state().n_live++;
    *out = new T(made);
    return CUBLAS_STATUS_SUCCESS;
}

template <class T> cublasStatus_t unmake(T *what)
{
    const std::lock_guard<std::recursive_mutex> guard(lock());
    if (what) state().n_live--;
    delete what;
    return CUBLAS_STATUS_SUCCESS;
}

template <class T> cublasStatus_t set(T *out, const void *value, size_t bytes)
{
    if (!value || bytes != sizeof *out) {
        violation("cublasLt: an attribute of %zu bytes, expected %zu", bytes, sizeof *out);
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    memcpy(out, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

const struct {
    cublasStatus_t status;
    const char *name, *text;
} STATUSES[] = {
    { CUBLAS_STATUS_SUCCESS, "CUBLAS_STATUS_SUCCESS", "success" },
    { CUBLAS_STATUS_NOT_INITIALIZED, "CUBLAS_STATUS_NOT_INITIALIZED", "the library was not initialized" },
    { CUBLAS_STATUS_ALLOC_FAILED, "CUBLAS_STATUS_ALLOC_FAILED", "the resource allocation failed" },
    { CUBLAS_STATUS_INVALID_VALUE, "CUBLAS_STATUS_INVALID_VALUE", "an invalid value was used as an argument" },
    { CUBLAS_STATUS_ARCH_MISMATCH, "CUBLAS_STATUS_ARCH_MISMATCH",
      "an absent device architectural feature is required" },
    { CUBLAS_STATUS_MAPPING_ERROR, "CUBLAS_STATUS_MAPPING_ERROR", "an access to GPU memory space failed" },
    { CUBLAS_STATUS_EXECUTION_FAILED, "CUBLAS_STATUS_EXECUTION_FAILED", "the function failed to launch on the GPU" },
    { CUBLAS_STATUS_INTERNAL_ERROR, "CUBLAS_STATUS_INTERNAL_ERROR", "an internal operation failed" },
    { CUBLAS_STATUS_NOT_SUPPORTED, "CUBLAS_STATUS_NOT_SUPPORTED", "the functionality requested is not supported" },
};
}   // namespace

const char *cublasGetStatusName(cublasStatus_t status)
{
    for (const auto &s : STATUSES)
        if (s.status == status) return s.name;
    return "unknown";
}

const char *cublasGetStatusString(cublasStatus_t status)
{
    for (const auto &s : STATUSES)
        if (s.status == status) return s.text;
    return "unknown";
}

const char *cublasLtGetStatusName(cublasStatus_t status)
{
    return cublasGetStatusName(status);
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return cublasGetStatusString(status);
}

/* ---- cuBLAS ---- */

cublasStatus_t cublasCreate(cublasHandle_t *out)
{
    return make(out, cublasContext{ nullptr });
}

cublasStatus_t cublasDestroy(cublasHandle_t handle)
{
    return unmake(handle);
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream)
{
    const api_call call(cudaErrorInvalidValue);
    if (call.error == cudaSuccess) handle->stream = stream;
    return status_of(call, CUBLAS_STATUS_INVALID_VALUE);
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t, void *workspace, size_t bytes)
{
    const api_call call(cudaErrorInvalidValue);
    if (call.error != cudaSuccess) return status_of(call, CUBLAS_STATUS_INVALID_VALUE);
    return bytes == 0 || is_operand(workspace, bytes, 256, "cublasSetWorkspace") ? CUBLAS_STATUS_SUCCESS
                                                                                 : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t)
{
    return status_of(api_call(cudaErrorInvalidValue), CUBLAS_STATUS_INVALID_VALUE);
}

cublasStatus_t cublasSetPointerMode(cublasHandle_t, cublasPointerMode_t mode)
{
    return mode == CUBLAS_POINTER_MODE_HOST ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k,
                            const void *alpha, const void *a, cudaDataType type_a, int lda, const void *b,
                            cudaDataType type_b, int ldb, const void *beta, void *c, cudaDataType type_c, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t)
{
    const api_call call(cudaErrorLaunchOutOfResources);
    if (call.error != cudaSuccess) return status_of(call, CUBLAS_STATUS_EXECUTION_FAILED);
    if (type_a != CUDA_R_16BF || type_b != CUDA_R_16BF || (type_c != CUDA_R_32F && type_c != CUDA_R_16BF) ||
        (compute != CUBLAS_COMPUTE_32F && compute != CUBLAS_COMPUTE_32F_PEDANTIC))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    product p = {};
    p.transpose_a = op_a != CUBLAS_OP_N;
    p.transpose_b = op_b != CUBLAS_OP_N;
    p.f32_out = type_c == CUDA_R_32F;
    p.m = m, p.n = n, p.k = k;
    p.lda = lda, p.ldb = ldb, p.ldc = p.ldd = ldc;
    memcpy(&p.alpha, alpha, sizeof p.alpha);
    memcpy(&p.beta, beta, sizeof p.beta);
    p.a = static_cast<const unsigned short *>(a);
    p.b = static_cast<const unsigned short *>(b);
    p.c = p.d = c;
    p.chunk = chunk_of(ranked(0, n), n);
    return queue_product(p, { 2, 2, 2, 2 }, nullptr, 0, handle->stream);
}

/* ---- cuBLASLt ---- */

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out)
{
    return make(out, cublasLtContext{ 0 });
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    return unmake(handle);
}

size_t cublasLtGetVersion(void)
{
    return 130000;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute, cudaDataType scale)
{
    return make(out, pf_shim_matmul_desc{ compute, scale, 0, CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT });
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    return unmake(desc);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes)
{
    const api_call call(cudaErrorInvalidValue);
    if (call.error != cudaSuccess) return status_of(call, CUBLAS_STATUS_INVALID_VALUE);
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE: return set(&desc->compute, value, bytes);
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE: return set(&desc->scale, value, bytes);
    case CUBLASLT_MATMUL_DESC_POINTER_MODE: return set(&desc->pointer_mode, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSA: return set(&desc->transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return set(&desc->transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return set(&desc->epilogue, value, bytes);
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type, uint64_t rows, uint64_t cols,
                                          int64_t ld)
{
    return make(out, pf_shim_matrix_layout{ static_cast<uint32_t>(type), rows, cols, ld, CUBLASLT_ORDER_COL });
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    return unmake(layout);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void *value,
                                                size_t bytes)
{
    const api_call call(cudaErrorInvalidValue);
    if (call.error != cudaSuccess) return status_of(call, CUBLAS_STATUS_INVALID_VALUE);
    switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE: return set(&layout->type, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ORDER: return set(&layout->order, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ROWS: return set(&layout->rows, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_COLS: return set(&layout->cols, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_LD: return set(&layout->ld, value, bytes);
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

/* The defaults of cuBLASLt: no workspace, operands aligned to 256 bytes. */
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    return make(out, pf_shim_matmul_preference{ 0, CUBLASLT_REDUCTION_SCHEME_MASK, { 256, 256, 256, 256 } });
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    return unmake(preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                                                    size_t bytes)
{
    const api_call call(cudaErrorInvalidValue);
    if (call.error != cudaSuccess) return status_of(call, CUBLAS_STATUS_INVALID_VALUE);
    switch (attribute) {
    case CUBLASLT_MATMUL_PREF_SEARCH_MODE: return CUBLAS_STATUS_SUCCESS;
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return set(&preference->max_workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return set(&preference->reduction_mask, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: return set(&preference->alignment[0], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: return set(&preference->alignment[1], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: return set(&preference->alignment[2], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return set(&preference->alignment[3], value, bytes);
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

namespace
{
/* The product that descriptors name, without its operands; NOT_SUPPORTED for what the emulation does not do. */
cublasStatus_t shape_of(const pf_shim_matmul_desc &desc, const pf_shim_matrix_layout &a, const pf_shim_matrix_layout &b,
                        const pf_shim_matrix_layout &c, const pf_shim_matrix_layout &d, product *out)
{
    const bool supported = a.type == CUDA_R_16BF && b.type == CUDA_R_16BF && c.type == d.type &&
                           (d.type == CUDA_R_32F || d.type == CUDA_R_16BF) && desc.scale == CUDA_R_32F &&
                           (desc.compute == CUBLAS_COMPUTE_32F || desc.compute == CUBLAS_COMPUTE_32F_PEDANTIC) &&
                           desc.epilogue == CUBLASLT_EPILOGUE_DEFAULT && desc.pointer_mode == 0 &&
                           (a.order | b.order | c.order | d.order) == CUBLASLT_ORDER_COL;
    if (!supported) return CUBLAS_STATUS_NOT_SUPPORTED;
    *out = product{};
    out->transpose_a = desc.transpose_a != CUBLAS_OP_N;
    out->transpose_b = desc.transpose_b != CUBLAS_OP_N;
    out->f32_out = d.type == CUDA_R_32F;
    out->m = static_cast<int64_t>(d.rows);
    out->n = static_cast<int64_t>(d.cols);
    out->k = static_cast<int64_t>(out->transpose_a ? a.rows : a.cols);
    out->lda = a.ld;
    out->ldb = b.ld;
    out->ldc = c.ld;
    out->ldd = d.ld;
    const int64_t a_m = static_cast<int64_t>(out->transpose_a ? a.cols : a.rows);
    const int64_t b_k = static_cast<int64_t>(out->transpose_b ? b.cols : b.rows);
    const int64_t b_n = static_cast<int64_t>(out->transpose_b ? b.rows : b.cols);
    if (a_m == out->m && b_k == out->k && b_n == out->n && c.rows == d.rows && c.cols == d.cols)
        return CUBLAS_STATUS_SUCCESS;
    violation("cublasLt: shapes do not fit: op(A) %lld x %lld, op(B) %lld x %lld, D %lld x %lld", (long long)a_m,
              (long long)out->k, (long long)b_k, (long long)b_n, (long long)out->m, (long long)out->n);
    return CUBLAS_STATUS_INVALID_VALUE;
}

void write_algorithm(cublasLtMatmulAlgo_t *out, int algo, const uint32_t alignment[4])
{
    *out = cublasLtMatmulAlgo_t{};
    out->data[0] = ALGO_MARK;
    out->data[1] = static_cast<uint64_t>(algo);
    for (int i = 0; i < 4; i++) out->data[2 + i] = alignment[i];
}

bool read_algorithm(const cublasLtMatmulAlgo_t &algo, int *out)
{
    if (algo.data[0] != ALGO_MARK || algo.data[1] >= N_ALGORITHMS) {
        violation("cublasLt: an algorithm that no heuristic gave");
        return false;
    }
    *out = static_cast<int>(algo.data[1]);
    return true;
}
}   // namespace

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                              cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference,
                                              int requested, cublasLtMatmulHeuristicResult_t results[], int *returned)
{
    *returned = 0;
    const api_call call(cudaErrorNotSupported);
    if (call.error != cudaSuccess) return status_of(call, CUBLAS_STATUS_NOT_SUPPORTED);
    product p;
    const cublasStatus_t status = shape_of(*desc, *a, *b, *c, *d, &p);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    for (int rank = 0; rank < N_ALGORITHMS && *returned < requested; rank++) {
        const int algo = ranked(rank, p.n);
        const algorithm &how = ALGORITHMS[algo];
        if (how.workspace_bytes > preference->max_workspace ||
            (how.reduction_scheme & ~preference->reduction_mask) != 0)
            continue;
        cublasLtMatmulHeuristicResult_t &r = results[(*returned)++];
        r = cublasLtMatmulHeuristicResult_t{};
        write_algorithm(&r.algo, algo, preference->alignment);
        r.workspaceSize = how.workspace_bytes;
        r.state = CUBLAS_STATUS_SUCCESS;
        r.wavesCount = 1.0f + static_cast<float>(rank);
    }
    return *returned > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algo, cublasLtMatmulHeuristicResult_t *result)
{
    const api_call call(cudaErrorNotSupported);
    if (call.error != cudaSuccess) return status_of(call, CUBLAS_STATUS_NOT_SUPPORTED);
    product p;
    int n;
    const cublasStatus_t status = shape_of(*desc, *a, *b, *c, *d, &p);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    if (!read_algorithm(*algo, &n)) return CUBLAS_STATUS_INVALID_VALUE;
    *result = cublasLtMatmulHeuristicResult_t{};
    result->algo = *algo;
    result->workspaceSize = ALGORITHMS[n].workspace_bytes;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute, void *value,
                                                    size_t bytes, size_t *written)
{
    int n;
    if (!read_algorithm(*algo, &n)) return CUBLAS_STATUS_INVALID_VALUE;
    const uint32_t values[] = { static_cast<uint32_t>(n), 0, static_cast<uint32_t>(ALGORITHMS[n].split_k),
                                ALGORITHMS[n].reduction_scheme };
    if (written) *written = sizeof values[0];
    if (bytes == 0) return CUBLAS_STATUS_SUCCESS;
    if (bytes != sizeof values[0] || attribute > CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(value, &values[attribute], bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t layout_a, const void *b, cublasLtMatrixLayout_t layout_b,
                              const void *beta, const void *c, cublasLtMatrixLayout_t layout_c, void *d,
                              cublasLtMatrixLayout_t layout_d, const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream)
{
    const api_call call(cudaErrorLaunchOutOfResources);
    if (call.error != cudaSuccess) return status_of(call, CUBLAS_STATUS_EXECUTION_FAILED);
    product p;
    const cublasStatus_t status = shape_of(*desc, *layout_a, *layout_b, *layout_c, *layout_d, &p);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
    int n = algo ? 0 : ranked(state().n_unpinned++ % N_ALGORITHMS, p.n); /* no two calls are promised the same */
    alignments align = { VECTOR_BYTES, VECTOR_BYTES, VECTOR_BYTES, VECTOR_BYTES };
    if (algo) {
        if (!read_algorithm(*algo, &n)) return CUBLAS_STATUS_INVALID_VALUE;
        align = { algo->data[2], algo->data[3], algo->data[4], algo->data[5] };
    }
    const size_t needed = algo ? ALGORITHMS[n].workspace_bytes : 0;
    if (needed > workspace_bytes) {
        violation("cublasLtMatmul: %zu bytes of workspace, algorithm %d needs %zu", workspace_bytes, n, needed);
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (needed > 0 && !is_operand(workspace, workspace_bytes, VECTOR_BYTES, "cublasLtMatmul: workspace"))
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(&p.alpha, alpha, sizeof p.alpha);
    memcpy(&p.beta, beta, sizeof p.beta);
    p.a = static_cast<const unsigned short *>(a);
    p.b = static_cast<const unsigned short *>(b);
    p.c = c;
    p.d = d;
    p.chunk = chunk_of(n, p.n);
    return queue_product(p, align, workspace, needed, stream);
}
