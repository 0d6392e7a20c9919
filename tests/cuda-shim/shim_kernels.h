/*
 * Kernels that test the emulation itself: sound ones, and ones with a flaw that it must find. All pointers are device memory.
 */
#ifndef PF_SHIM_KERNELS_H
#define PF_SHIM_KERNELS_H

#include <stdint.h>

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* out[r] = the sum of x[r, 0..n): a tree in shared memory, with barriers. `threads`: a power of two. */
cudaError_t pf_shim_sum_by_barriers(float *out, const float *x, int n_rows, int n, int threads, cudaStream_t stream);
/* The same by shuffles of warps, then of the first warp. `threads`: a multiple of 32. */
cudaError_t pf_shim_sum_by_shuffles(float *out, const float *x, int n_rows, int n, int threads, cudaStream_t stream);
/* c[m, n] = a[m, k] * b[n, k]^T: BF16 in, F32 out, in tiles of 16 in shared memory. */
cudaError_t pf_shim_tile_product(float *c, const uint16_t *a, const uint16_t *b, int m, int n, int k,
                                 cudaStream_t stream);
/* counts[x[i] % n_bins] += 1 for each i */
cudaError_t pf_shim_histogram(int *counts, const int *x, int n, int n_bins, cudaStream_t stream);
/* out[i] = in[i] + 1: no barrier, no shared memory. */
cudaError_t pf_shim_increment(int *out, const int *in, int n, cudaStream_t stream);
/* out[0..31]: the results of each warp operation in one warp; see the source. */
enum { PF_SHIM_N_WARP_RESULTS = 14 };
cudaError_t pf_shim_warp_results(unsigned *out, cudaStream_t stream);
/* out[i] = in[n - 1 - i] through n ints of dynamic shared memory; `bytes` as given, not as needed. */
cudaError_t pf_shim_reverse(int *out, const int *in, int n, int bytes, cudaStream_t stream);

typedef enum {
    PF_SHIM_DIVERGENT_BARRIER,    // half of the block waits at one barrier, half at another
    PF_SHIM_BARRIER_AFTER_END,    // a thread ends before a barrier
    PF_SHIM_SHUFFLE_WITH_ENDED,   // a lane reads one that has ended
    PF_SHIM_LANE_STAYS_AWAY,      // a lane of the mask waits at a barrier instead
    PF_SHIM_MISSING_BARRIER,      // writes, then reads what another warp wrote
    PF_SHIM_MISSING_SYNCWARP,     // the same within a warp
    PF_SHIM_BLOCKS_SHARE_WORD,    // each block writes the same word of device memory
    PF_SHIM_ATOMIC_AND_PLAIN,     // a thread reads what others change atomically
    PF_SHIM_SHARED_UNWRITTEN,     // out[i] = shared memory that nothing wrote
    PF_SHIM_BEYOND_SHARED,        // writes one element past a shared array
    PF_SHIM_TRAPS,                // __trap()
    PF_SHIM_TOO_MUCH_SHARED,      // 49 KiB of static shared memory
    PF_SHIM_DEPENDS_ON_ORDER      // out[0]: the number of the thread that ran last
} pf_shim_flaw;
/* A block of 64 threads, two of them for PF_SHIM_BLOCKS_SHARE_WORD; out: [64] */
cudaError_t pf_shim_flawed(pf_shim_flaw flaw, int *out, cudaStream_t stream);
/* out[at] = 1 */
cudaError_t pf_shim_write_at(int *out, int at, cudaStream_t stream);
/* A launch of this shape that does nothing but out[0] = 1. */
cudaError_t pf_shim_launch_shape(int *out, unsigned blocks_x, unsigned blocks_y, unsigned threads, cudaStream_t stream);
/* bits[i] = the BF16 bits of f[i]; widened[i]: back */
cudaError_t pf_shim_round_to_bf16(uint16_t *bits, float *widened, const float *f, int n, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
