/*
 * See shim_kernels.h. The same text is CUDA for nvcc.
 */
#include "tests/cuda-shim/shim_kernels.h"

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#ifndef PF_LAUNCH
#define PF_LAUNCH(kernel, grid, block, shared_bytes, stream, ...) \
    kernel<<<grid, block, shared_bytes, stream>>>(__VA_ARGS__)
#define PF_SHARED(type, name, dims) __shared__ type name dims
#define PF_DYNAMIC_SHARED(name)     extern __shared__ __align__(16) unsigned char name[]
#endif

namespace
{
constexpr unsigned FULL = 0xffffffffu;
constexpr int MAX_THREADS = 256, TILE = 16;

__global__ void sum_by_barriers(float *out, const float *x, int n)
{
    PF_SHARED(float, partial, [MAX_THREADS]);
    const int threads = static_cast<int>(blockDim.x), me = static_cast<int>(threadIdx.x);
    float sum = 0;
    for (int i = me; i < n; i += threads) sum += x[static_cast<size_t>(blockIdx.x) * n + i];
    partial[me] = sum;
    for (int d = threads / 2; d > 0; d /= 2) {
        __syncthreads();
        if (me < d) partial[me] += partial[me + d];
    }
    if (me == 0) out[blockIdx.x] = partial[0];
}

__device__ __forceinline__ float sum_of_warp(float x)
{
#pragma unroll
    for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(FULL, x, d);
    return x;
}

__global__ void __launch_bounds__(MAX_THREADS) sum_by_shuffles(float *out, const float *x, int n)
{
    PF_SHARED(float, partial, [MAX_THREADS / 32]);
    const int threads = static_cast<int>(blockDim.x), me = static_cast<int>(threadIdx.x), warp = me / 32,
              lane = me % 32;
    float sum = 0;
    for (int i = me; i < n; i += threads) sum += x[static_cast<size_t>(blockIdx.x) * n + i];
    sum = sum_of_warp(sum);
    if (lane == 0) partial[warp] = sum;
    __syncthreads();
    if (warp != 0) return;
    sum = sum_of_warp(lane < threads / 32 ? partial[lane] : 0.0f);
    if (lane == 0) out[blockIdx.x] = sum;
}

__global__ void tile_product(float *c, const __nv_bfloat16 *a, const __nv_bfloat16 *b, int m, int n, int k)
{
    PF_SHARED(float, tile_a, [TILE][TILE + 1]);
    PF_SHARED(float, tile_b, [TILE][TILE + 1]);
    const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
    const int row = static_cast<int>(blockIdx.y) * TILE + y, column = static_cast<int>(blockIdx.x) * TILE + x;
    const int b_row = static_cast<int>(blockIdx.x) * TILE + y;
    float sum = 0;
    for (int k0 = 0; k0 < k; k0 += TILE) {
        tile_a[y][x] = row < m && k0 + x < k ? __bfloat162float(a[row * k + k0 + x]) : 0.0f;
        tile_b[y][x] = b_row < n && k0 + x < k ? __bfloat162float(b[b_row * k + k0 + x]) : 0.0f;
        __syncthreads();
        for (int l = 0; l < TILE; l++) sum = fmaf(tile_a[y][l], tile_b[x][l], sum);
        __syncthreads();
    }
    if (row < m && column < n) c[row * n + column] = sum;
}

__global__ void histogram(int *counts, const int *x, int n, int n_bins)
{
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) atomicAdd(&counts[x[i] % n_bins], 1);
}

__global__ void increment(int *out, const int *in, int n)
{
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) out[i] = in[i] + 1;
}

__global__ void warp_results(unsigned *out)
{
    const unsigned lane = threadIdx.x;
    const unsigned results[PF_SHIM_N_WARP_RESULTS] = {
        __shfl_sync(FULL, lane, 35),   // of lane 3: the lane is taken modulo the width
        __shfl_sync(FULL, lane, 1, 8),
        __shfl_up_sync(FULL, lane, 1),
        __shfl_up_sync(FULL, lane, 3, 8),
        __shfl_down_sync(FULL, lane, 1),
        __shfl_down_sync(FULL, lane, 3, 8),
        __shfl_xor_sync(FULL, lane, 16),
        __ballot_sync(FULL, lane % 3 == 0),
        static_cast<unsigned>(__all_sync(FULL, lane < 32)) * 2 + static_cast<unsigned>(__all_sync(FULL, lane < 31)),
        static_cast<unsigned>(__any_sync(FULL, lane == 31)) * 2 + static_cast<unsigned>(__any_sync(FULL, lane == 32)),
        __match_any_sync(FULL, lane / 8),
        __reduce_add_sync(FULL, lane),
        static_cast<unsigned>(__reduce_min_sync(FULL, 5 - static_cast<int>(lane))),
        static_cast<unsigned>(__syncthreads_count(lane > 20)),
    };
    for (unsigned i = 0; i < PF_SHIM_N_WARP_RESULTS; i++) out[i * 32 + lane] = results[i];
}

__global__ void reverse(int *out, const int *in, int n)
{
    PF_DYNAMIC_SHARED(raw);
    int *values = reinterpret_cast<int *>(raw);
    const int i = static_cast<int>(threadIdx.x);
    if (i < n) values[i] = in[i];
    __syncthreads();
    if (i < n) out[i] = values[n - 1 - i];
}

__global__ void divergent_barrier(int *out)
{
    if (threadIdx.x < 32) {
        __syncthreads();
    } else {
        __syncthreads();
        out[threadIdx.x] = 0;
    }
}

__global__ void barrier_after_end(int *out)
{
    if (threadIdx.x == 3) return;
    __syncthreads();
    out[threadIdx.x] = 0;
}

__global__ void shuffle_with_ended(int *out)
{
    if (threadIdx.x == 3) return;
    out[threadIdx.x] = __shfl_xor_sync(FULL, 1, 16);
}

__global__ void lane_stays_away(int *out)
{
    if (threadIdx.x != 3) out[threadIdx.x] = __shfl_xor_sync(FULL, 1, 16);
    __syncthreads();
}

__global__ void missing_barrier(int *out)
{
    PF_SHARED(int, values, [64]);
    values[threadIdx.x] = static_cast<int>(threadIdx.x);
    out[threadIdx.x] = values[63 - threadIdx.x];
}

__global__ void missing_syncwarp(int *out)
{
    PF_SHARED(int, values, [64]);
    values[threadIdx.x] = static_cast<int>(threadIdx.x);
    out[threadIdx.x] = values[threadIdx.x ^ 1];
}

__global__ void blocks_share_word(int *out)
{
    if (threadIdx.x == 0) out[0] = static_cast<int>(blockIdx.x);
}

__global__ void atomic_and_plain(int *out)
{
    if (threadIdx.x == 0)
        out[1] = out[0];
    else
        atomicAdd(&out[0], 1);
}

__global__ void shared_unwritten(int *out)
{
    PF_SHARED(int, values, [64]);
    if (threadIdx.x == 70) values[0] = 1;
    __syncthreads();
    out[threadIdx.x] = values[threadIdx.x];
}

__global__ void beyond_shared(int *out, int at)
{
    PF_SHARED(int, values, [3]);
    if (threadIdx.x == 0) values[at] = 1;
    __syncthreads();
    out[threadIdx.x] = values[0];
}

__global__ void traps(int *out)
{
    out[threadIdx.x] = 1;
    if (threadIdx.x == 5) __trap();
}

#ifdef PF_CUDA_SHIM   // nvcc refuses to compile it
__global__ void too_much_shared(int *out)
{
    PF_SHARED(char, values, [49 << 10]);
    values[threadIdx.x] = 1;
    out[threadIdx.x] = values[threadIdx.x];
}
#endif

__global__ void depends_on_order(int *out)
{
    atomicExch(&out[0], static_cast<int>(threadIdx.x));
}

__global__ void write_at(int *out, int at)
{
    out[at] = 1;
}

__global__ void write_one(int *out)
{
    if (blockIdx.x + blockIdx.y + threadIdx.x == 0) out[0] = 1;
}

__global__ void round_to_bf16(__nv_bfloat16 *bits, float *widened, const float *f, int n)
{
    const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i >= n) return;
    bits[i] = __float2bfloat16_rn(f[i]);
    widened[i] = __bfloat162float(bits[i]);
}

unsigned blocks_of(int n, int each)
{
    return static_cast<unsigned>((n + each - 1) / each);
}
}   // namespace

cudaError_t pf_shim_sum_by_barriers(float *out, const float *x, int n_rows, int n, int threads, cudaStream_t stream)
{
    PF_LAUNCH(sum_by_barriers, dim3(static_cast<unsigned>(n_rows)), dim3(static_cast<unsigned>(threads)), 0, stream,
              out, x, n);
    return cudaGetLastError();
}

cudaError_t pf_shim_sum_by_shuffles(float *out, const float *x, int n_rows, int n, int threads, cudaStream_t stream)
{
    PF_LAUNCH(sum_by_shuffles, dim3(static_cast<unsigned>(n_rows)), dim3(static_cast<unsigned>(threads)), 0, stream,
              out, x, n);
    return cudaGetLastError();
}

cudaError_t pf_shim_tile_product(float *c, const uint16_t *a, const uint16_t *b, int m, int n, int k,
                                 cudaStream_t stream)
{
    PF_LAUNCH(tile_product, dim3(blocks_of(n, TILE), blocks_of(m, TILE)), dim3(TILE, TILE), 0, stream, c,
              reinterpret_cast<const __nv_bfloat16 *>(a), reinterpret_cast<const __nv_bfloat16 *>(b), m, n, k);
    return cudaGetLastError();
}

cudaError_t pf_shim_histogram(int *counts, const int *x, int n, int n_bins, cudaStream_t stream)
{
    PF_LAUNCH(histogram, dim3(blocks_of(n, 64)), dim3(64), 0, stream, counts, x, n, n_bins);
    return cudaGetLastError();
}

cudaError_t pf_shim_increment(int *out, const int *in, int n, cudaStream_t stream)
{
    PF_LAUNCH(increment, dim3(blocks_of(n, 128)), dim3(128), 0, stream, out, in, n);
    return cudaGetLastError();
}

cudaError_t pf_shim_warp_results(unsigned *out, cudaStream_t stream)
{
    PF_LAUNCH(warp_results, dim3(1), dim3(32), 0, stream, out);
    return cudaGetLastError();
}

cudaError_t pf_shim_reverse(int *out, const int *in, int n, int bytes, cudaStream_t stream)
{
    const cudaError_t e = cudaFuncSetAttribute(reverse, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10);
    if (e != cudaSuccess) return e;
    PF_LAUNCH(reverse, dim3(1), dim3(static_cast<unsigned>(n)), static_cast<size_t>(bytes), stream, out, in, n);
    return cudaGetLastError();
}

cudaError_t pf_shim_flawed(pf_shim_flaw flaw, int *out, cudaStream_t stream)
{
    const dim3 one(1), two(2), threads(64);
    switch (flaw) {
    case PF_SHIM_DIVERGENT_BARRIER: PF_LAUNCH(divergent_barrier, one, threads, 0, stream, out); break;
    case PF_SHIM_BARRIER_AFTER_END: PF_LAUNCH(barrier_after_end, one, threads, 0, stream, out); break;
    case PF_SHIM_SHUFFLE_WITH_ENDED: PF_LAUNCH(shuffle_with_ended, one, threads, 0, stream, out); break;
    case PF_SHIM_LANE_STAYS_AWAY: PF_LAUNCH(lane_stays_away, one, threads, 0, stream, out); break;
    case PF_SHIM_MISSING_BARRIER: PF_LAUNCH(missing_barrier, one, threads, 0, stream, out); break;
    case PF_SHIM_MISSING_SYNCWARP: PF_LAUNCH(missing_syncwarp, one, threads, 0, stream, out); break;
    case PF_SHIM_BLOCKS_SHARE_WORD: PF_LAUNCH(blocks_share_word, two, threads, 0, stream, out); break;
    case PF_SHIM_ATOMIC_AND_PLAIN: PF_LAUNCH(atomic_and_plain, one, threads, 0, stream, out); break;
    case PF_SHIM_SHARED_UNWRITTEN: PF_LAUNCH(shared_unwritten, one, threads, 0, stream, out); break;
    case PF_SHIM_BEYOND_SHARED: PF_LAUNCH(beyond_shared, one, threads, 0, stream, out, 3); break;
    case PF_SHIM_TRAPS: PF_LAUNCH(traps, one, threads, 0, stream, out); break;
#ifdef PF_CUDA_SHIM
    case PF_SHIM_TOO_MUCH_SHARED: PF_LAUNCH(too_much_shared, one, threads, 0, stream, out); break;
#else
    case PF_SHIM_TOO_MUCH_SHARED: break;
#endif
    case PF_SHIM_DEPENDS_ON_ORDER: PF_LAUNCH(depends_on_order, one, threads, 0, stream, out); break;
    }
    return cudaGetLastError();
}

cudaError_t pf_shim_write_at(int *out, int at, cudaStream_t stream)
{
    PF_LAUNCH(write_at, dim3(1), dim3(1), 0, stream, out, at);
    return cudaGetLastError();
}

cudaError_t pf_shim_launch_shape(int *out, unsigned blocks_x, unsigned blocks_y, unsigned threads, cudaStream_t stream)
{
    PF_LAUNCH(write_one, dim3(blocks_x, blocks_y), dim3(threads), 0, stream, out);
    return cudaGetLastError();
}

cudaError_t pf_shim_round_to_bf16(uint16_t *bits, float *widened, const float *f, int n, cudaStream_t stream)
{
    PF_LAUNCH(round_to_bf16, dim3(blocks_of(n, 128)), dim3(128), 0, stream, reinterpret_cast<__nv_bfloat16 *>(bits),
              widened, f, n);
    return cudaGetLastError();
}
