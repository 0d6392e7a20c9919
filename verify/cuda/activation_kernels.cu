/* The activation of a feed-forward block, and what is chosen from logits. */
#include "verify/cuda/cuda_kernel.cuh"

namespace {

enum { A_BLOCK = 4 * PF_BLOCK }; /* values of a row that a block has */

__device__ __forceinline__ float activate(pf_cuda_activation activation, float x)
{
    switch (activation) {
    case PF_CUDA_SILU: return x / (1.0f + expf(-x));
    case PF_CUDA_GELU: return 0.5f * x * (1.0f + erff(x * 0.70710678f));
    case PF_CUDA_GELU_TANH: return 0.5f * x * (1.0f + tanhf(0.79788456f * fmaf(0.044715f * x * x, x, x)));
    default: return fmaxf(x, 0.0f);
    }
}

__global__ void __launch_bounds__(PF_BLOCK)
activate_rows(pf_bf16 *out, const float *in, const float *bias, pf_cuda_activation activation, int gated,
              pf_cuda_rows rows, int n)
{
    const int row = blockIdx.x;
    if (row >= rows.counts[0]) return;
    const float *from = in + static_cast<size_t>(row) * (gated ? 2 * n : n);
    const int end = min(n, static_cast<int>(blockIdx.y + 1) * A_BLOCK);
    for (int i = static_cast<int>(blockIdx.y) * A_BLOCK + threadIdx.x; i < end; i += PF_BLOCK) {
        float x = activate(activation, bias ? from[i] + bias[i] : from[i]);
        if (gated) x *= bias ? from[n + i] + bias[n + i] : from[n + i];
        out[static_cast<size_t>(row) * n + i] = __float2bfloat16_rn(x);
    }
}

/* Token -1: none. */
struct found {
    float value;
    int best, invalid;
};

__device__ __forceinline__ int lower(int a, int b)
{
    if (a < 0 || b < 0) return max(a, b);
    return min(a, b);
}

__device__ __forceinline__ found better(found a, found b)
{
    const int invalid = lower(a.invalid, b.invalid);
    const bool takes_b =
        b.best >= 0 && (a.best < 0 || b.value > a.value || (b.value == a.value && b.best < a.best));
    found f = takes_b ? b : a;
    f.invalid = invalid;
    return f;
}

/* The best of a block's, for thread 0. Every thread calls it, once in a kernel. */
__device__ __forceinline__ found best_of_block(found mine)
{
    PF_SHARED(float, values, [PF_BLOCK_WARPS]);
    PF_SHARED(int, ids, [PF_BLOCK_WARPS][2]);
    for (int d = PF_WARP / 2; d > 0; d /= 2) {
        const found other = { __shfl_down_sync(PF_ALL_LANES, mine.value, d),
                              __shfl_down_sync(PF_ALL_LANES, mine.best, d),
                              __shfl_down_sync(PF_ALL_LANES, mine.invalid, d) };
        mine = better(mine, other);
    }
    const int warp = threadIdx.x / PF_WARP;
    if (threadIdx.x % PF_WARP == 0) {
        values[warp] = mine.value;
        ids[warp][0] = mine.best;
        ids[warp][1] = mine.invalid;
    }
    __syncthreads(); /* values and ids are whole */
    for (int i = 1; i < PF_BLOCK_WARPS; i++) {
        const found other = { values[i], ids[i][0], ids[i][1] };
        mine = better(mine, other);
    }
    return mine;
}

__global__ void __launch_bounds__(PF_BLOCK) choose_chunk(pf_cuda_choice c, pf_cuda_rows rows)
{
    const int row = blockIdx.y, size = (c.n_vocab + PF_CUDA_CHOICE_CHUNKS - 1) / PF_CUDA_CHOICE_CHUNKS;
    if (row >= rows.counts[1]) return;
    const int begin = static_cast<int>(blockIdx.x) * size, end = min(begin + size, c.n_vocab), n = rows.best_of[row];
    float *logits = c.logits + static_cast<size_t>(row) * c.n_vocab;
    const bool changes = c.scale != 1.0f || c.softcap > 0.0f;
    found mine = { 0.0f, -1, -1 };
    for (int i = begin + static_cast<int>(threadIdx.x); i < end; i += PF_BLOCK) {
        float x = logits[i];
        if (changes) {
            x *= c.scale;
            if (c.softcap > 0.0f) x = c.softcap * tanhf(x / c.softcap);
            logits[i] = x;
        }
        if (i >= n) continue;
        const bool is_nan = x != x;
        const found one = { x, is_nan ? -1 : i, is_nan || x == INFINITY ? i : -1 };
        mine = better(mine, one);
    }
    mine = best_of_block(mine);
    if (threadIdx.x != 0) return;
    const int at = row * PF_CUDA_CHOICE_CHUNKS + static_cast<int>(blockIdx.x);
    c.chunk_values[at] = mine.value;
    c.chunk_best[at] = mine.best;
    c.chunk_invalid[at] = mine.invalid;
}

__global__ void __launch_bounds__(PF_BLOCK) choose_row(pf_cuda_choice c, pf_cuda_rows rows)
{
    const int row = blockIdx.x;
    if (row >= rows.counts[1]) return;
    found mine = { 0.0f, -1, -1 };
    for (int i = threadIdx.x; i < PF_CUDA_CHOICE_CHUNKS; i += PF_BLOCK) {
        const int at = row * PF_CUDA_CHOICE_CHUNKS + i;
        const found one = { c.chunk_values[at], c.chunk_best[at], c.chunk_invalid[at] };
        mine = better(mine, one);
    }
    mine = best_of_block(mine);
    if (threadIdx.x != 0) return;
    c.best[row] = mine.best;
    c.invalid[row] = mine.invalid;
}

} // namespace

extern "C" cudaError_t pf_cuda_launch_activate(uint16_t *out, const float *in, const float *bias,
                                               pf_cuda_activation activation, int32_t gated, const pf_cuda_rows *rows,
                                               int32_t n_rows, int32_t n, cudaStream_t stream)
{
    PF_LAUNCH(activate_rows, dim3(n_rows, (n + A_BLOCK - 1) / A_BLOCK), dim3(PF_BLOCK), 0, stream, pf_bf16_of(out), in,
              bias, activation, gated, *rows, n);
    return cudaGetLastError();
}

extern "C" cudaError_t pf_cuda_launch_choose(const pf_cuda_choice *choice, const pf_cuda_rows *rows, int32_t n_rows,
                                             cudaStream_t stream)
{
    PF_LAUNCH(choose_chunk, dim3(PF_CUDA_CHOICE_CHUNKS, n_rows), dim3(PF_BLOCK), 0, stream, *choice, *rows);
    const cudaError_t launched = cudaGetLastError();
    if (launched != cudaSuccess) return launched;
    PF_LAUNCH(choose_row, dim3(n_rows), dim3(PF_BLOCK), 0, stream, *choice, *rows);
    return cudaGetLastError();
}
