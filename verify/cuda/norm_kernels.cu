/* Embedding, and what stands between two products of a layer: the residual and the norms. A block has a row. */
#include "verify/cuda/cuda_kernel.cuh"

namespace {

__global__ void __launch_bounds__(PF_BLOCK)
embed(float *x, const pf_bf16 *table, pf_cuda_rows rows, int n, float scale)
{
    const int row = blockIdx.x;
    if (row >= rows.counts[0]) return;
    const pf_bf16 *from = table + static_cast<size_t>(rows.tokens[row]) * n;
    float *to = x + static_cast<size_t>(row) * n;
    for (int i = threadIdx.x; i < n; i += PF_BLOCK) to[i] = __bfloat162float(from[i]) * scale;
}

/* How a row is normed: (value - mean) * factor. */
struct moments {
    float mean, factor;
};

__device__ __forceinline__ float value_of(const float *row, const float *bias, int i)
{
    return bias ? row[i] + bias[i] : row[i];
}

/* Of a row with its bias, or without. Each thread reads its own elements. partial: [2][PF_BLOCK_WARPS]. */
__device__ __forceinline__ moments measure(const float *row, const float *bias, const pf_cuda_join &join,
                                           float (*partial)[PF_BLOCK_WARPS])
{
    moments m = { 0.0f, 0.0f };
    const float n = static_cast<float>(join.n);
    float sum = 0.0f;
    if (join.kind == PF_CUDA_NORM_LAYER) {
        for (int i = threadIdx.x; i < join.n; i += PF_BLOCK) sum += value_of(row, bias, i);
        m.mean = pf_block_sum(sum, partial[0]) / n;
    }
    sum = 0.0f;
    for (int i = threadIdx.x; i < join.n; i += PF_BLOCK) {
        const float d = value_of(row, bias, i) - m.mean;
        sum = fmaf(d, d, sum);
    }
    m.factor = 1.0f / sqrtf(pf_block_sum(sum, partial[1]) / n + join.eps);
    return m;
}

__device__ __forceinline__ float normed(float value, moments m, pf_cuda_norm norm, int i)
{
    float x = (value - m.mean) * m.factor;
    if (norm.weight) x *= norm.weight[i];
    return norm.bias ? x + norm.bias[i] : x;
}

__global__ void __launch_bounds__(PF_BLOCK) join_rows(pf_cuda_join join, pf_cuda_rows rows)
{
    PF_SHARED(float, partial, [4][PF_BLOCK_WARPS]);
    const int at = blockIdx.x, n = join.n;
    if (at >= rows.counts[join.of_logit_rows]) return;
    const int row = join.of_logit_rows ? rows.logit_row[at] : at;
    float *x = join.x + static_cast<size_t>(row) * n;
    if (join.sum) {
        const float *sum = join.sum + static_cast<size_t>(row) * n;
        moments m = { 0.0f, 1.0f };
        if (join.has_post) m = measure(sum, join.bias, join, partial);
        for (int i = threadIdx.x; i < n; i += PF_BLOCK) {
            const float r = value_of(sum, join.bias, i);
            x[i] = fmaf(join.scale, join.has_post ? normed(r, m, join.post, i) : r, x[i]);
        }
    }
    if (!join.out) return;
    moments m = { 0.0f, 1.0f };
    if (join.has_norm) m = measure(x, nullptr, join, partial + 2);
    pf_bf16 *out = pf_bf16_of(join.out) + static_cast<size_t>(at) * n;
    for (int i = threadIdx.x; i < n; i += PF_BLOCK)
        out[i] = __float2bfloat16_rn(join.has_norm ? normed(x[i], m, join.norm, i) : x[i]);
}

} // namespace

extern "C" cudaError_t pf_cuda_launch_embed(float *x, const uint16_t *table, const pf_cuda_rows *rows, int32_t n_rows,
                                            int32_t n, float scale, cudaStream_t stream)
{
    PF_LAUNCH(embed, dim3(n_rows), dim3(PF_BLOCK), 0, stream, x, pf_bf16_of(table), *rows, n, scale);
    return cudaGetLastError();
}

extern "C" cudaError_t pf_cuda_launch_join(const pf_cuda_join *join, const pf_cuda_rows *rows, int32_t n_rows,
                                           cudaStream_t stream)
{
    PF_LAUNCH(join_rows, dim3(n_rows), dim3(PF_BLOCK), 0, stream, *join, *rows);
    return cudaGetLastError();
}
