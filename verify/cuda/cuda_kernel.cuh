/* What the kernels share: the macros that a host compiler defines in another way, and sums of a warp and of a block. */
#ifndef PF_VERIFY_CUDA_KERNEL_H
#define PF_VERIFY_CUDA_KERNEL_H

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <math.h>

#include "verify/cuda/cuda_launch.h"

#ifndef PF_LAUNCH /* else those of an emulation on the host, which comes with its cuda_runtime.h */
#define PF_LAUNCH(kernel, grid, block, shared_bytes, stream, ...) \
    kernel<<<grid, block, shared_bytes, stream>>>(__VA_ARGS__)
#define PF_SHARED(type, name, dims) __shared__ type name dims
#define PF_DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]
#endif

typedef __nv_bfloat16 pf_bf16;

enum { PF_WARP = 32, PF_BLOCK = 128, PF_BLOCK_WARPS = PF_BLOCK / PF_WARP };

#define PF_ALL_LANES 0xffffffffu

static __host__ __device__ __forceinline__ const pf_bf16 *pf_bf16_of(const uint16_t *p)
{
    return reinterpret_cast<const pf_bf16 *>(p);
}

static __host__ __device__ __forceinline__ pf_bf16 *pf_bf16_of(uint16_t *p)
{
    return reinterpret_cast<pf_bf16 *>(p);
}

static __device__ __forceinline__ float pf_warp_sum(float x)
{
    for (int d = PF_WARP / 2; d > 0; d /= 2) x += __shfl_xor_sync(PF_ALL_LANES, x, d);
    return x;
}

static __device__ __forceinline__ float pf_warp_max(float x)
{
    for (int d = PF_WARP / 2; d > 0; d /= 2) x = fmaxf(x, __shfl_xor_sync(PF_ALL_LANES, x, d));
    return x;
}

/* The sum over a block of PF_BLOCK threads, for all of them. Every thread calls it. partial [PF_BLOCK_WARPS] is free again
 * behind the block's next barrier. */
static __device__ __forceinline__ float pf_block_sum(float x, float *partial)
{
    x = pf_warp_sum(x);
    if (threadIdx.x % PF_WARP == 0) partial[threadIdx.x / PF_WARP] = x;
    __syncthreads();
    float sum = 0.0f;
    for (int i = 0; i < PF_BLOCK_WARPS; i++) sum += partial[i];
    return sum;
}

#endif
