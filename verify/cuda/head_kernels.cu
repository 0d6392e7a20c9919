/* Queries, keys and values of a pass: bias, norm of heads, rotation, and the store of keys and values. A block has a head of a
 * row. */
#include "verify/cuda/cuda_kernel.cuh"

namespace {

/* Where position `position` of the row's sequence lies, of keys (0) or values (1) of a head. */
__device__ __forceinline__ size_t slot_of(const pf_cuda_cache &cache, int table, int position, int which, int kv_head)
{
    const size_t page = static_cast<size_t>(
        cache.page_tables[static_cast<size_t>(table) * cache.table_pages + position / PF_CUDA_PAGE_TOKENS]);
    const size_t tokens = (page * 2 + which) * cache.n_kv_heads + kv_head;
    return (tokens * PF_CUDA_PAGE_TOKENS + position % PF_CUDA_PAGE_TOKENS) * cache.head_dim;
}

/* Element i of a head, rotated. */
__device__ __forceinline__ float rotated(const pf_cuda_heads &h, const float *values, int position, int i)
{
    if (!h.cosines || i >= h.rotary_dim) return values[i];
    const int half = h.rotary_dim / 2;
    const int pair = h.interleaved ? i / 2 : i % half;
    const bool is_first = h.interleaved ? i % 2 == 0 : i < half;
    const int other = h.interleaved ? i ^ 1 : is_first ? i + half : i - half;
    const size_t at = static_cast<size_t>(position) * half + pair;
    const float across = values[other] * h.sines[at];
    return values[i] * h.cosines[at] + (is_first ? -across : across);
}

/* The norm of a head by itself. */
__device__ __forceinline__ void norm_head(const pf_cuda_heads &h, pf_cuda_norm norm, float *values, int dim,
                                          float (*partial)[PF_BLOCK_WARPS])
{
    float sum = 0.0f, mean = 0.0f;
    if (h.kind == PF_CUDA_NORM_LAYER) {
        for (int i = threadIdx.x; i < dim; i += PF_BLOCK) sum += values[i];
        mean = pf_block_sum(sum, partial[0]) / static_cast<float>(dim);
    }
    sum = 0.0f;
    for (int i = threadIdx.x; i < dim; i += PF_BLOCK) sum = fmaf(values[i] - mean, values[i] - mean, sum);
    const float factor = 1.0f / sqrtf(pf_block_sum(sum, partial[1]) / static_cast<float>(dim) + h.eps);
    for (int i = threadIdx.x; i < dim; i += PF_BLOCK) {
        float x = (values[i] - mean) * factor;
        if (norm.weight) x *= norm.weight[i];
        values[i] = norm.bias ? x + norm.bias[i] : x;
    }
}

__global__ void __launch_bounds__(PF_BLOCK) prepare_heads(pf_cuda_heads h, pf_cuda_cache cache, pf_cuda_rows rows)
{
    PF_SHARED(float, values, [PF_CUDA_MAX_HEAD_DIM]);
    PF_SHARED(float, partial, [2][PF_BLOCK_WARPS]);
    const int row = blockIdx.x, head = blockIdx.y, dim = cache.head_dim;
    if (row >= rows.counts[0]) return;
    const int n_heads = cache.n_heads + 2 * cache.n_kv_heads;
    const bool is_query = head < cache.n_heads, is_value = head >= cache.n_heads + cache.n_kv_heads;
    float *from = h.qkv + (static_cast<size_t>(row) * n_heads + head) * dim;
    const float *bias = h.bias ? h.bias + static_cast<size_t>(head) * dim : nullptr;
    for (int i = threadIdx.x; i < dim; i += PF_BLOCK) values[i] = bias ? from[i] + bias[i] : from[i];
    if (h.has_head_norm && !is_value) norm_head(h, is_query ? h.q_norm : h.k_norm, values, dim, partial);
    __syncthreads(); /* values are whole */
    const int position = rows.bases[row] + rows.depths[row];
    if (is_query) {
        for (int i = threadIdx.x; i < dim; i += PF_BLOCK) from[i] = rotated(h, values, position, i);
        return;
    }
    const int kv_head = is_value ? head - cache.n_heads - cache.n_kv_heads : head - cache.n_heads;
    const int stored = rows.bases[row] + row - rows.firsts[row]; /* of a tree not its position */
    pf_bf16 *to = pf_bf16_of(cache.pages) + slot_of(cache, rows.tables[row], stored, is_value, kv_head);
    for (int i = threadIdx.x; i < dim; i += PF_BLOCK)
        to[i] = __float2bfloat16_rn(is_value ? values[i] : rotated(h, values, position, i));
}

/* A block moves the positions of one head of keys or values of a layer. Thread i has its own elements, in order of moves: a slot
 * that one move reads and a later one writes needs no barrier. */
__global__ void __launch_bounds__(PF_BLOCK)
move_positions(pf_cuda_cache cache, long long layer_elements, const int *moves, int n_moves)
{
    pf_bf16 *pages = pf_bf16_of(cache.pages) + static_cast<size_t>(blockIdx.y) * layer_elements;
    const int heads = 2 * cache.n_kv_heads;
    for (int m = 0; m < n_moves; m++) {
        const int from = moves[2 * m], to = moves[2 * m + 1];
        const size_t from_head = static_cast<size_t>(from / PF_CUDA_PAGE_TOKENS) * heads + blockIdx.x;
        const size_t to_head = static_cast<size_t>(to / PF_CUDA_PAGE_TOKENS) * heads + blockIdx.x;
        const size_t a = (from_head * PF_CUDA_PAGE_TOKENS + from % PF_CUDA_PAGE_TOKENS) * cache.head_dim;
        const size_t b = (to_head * PF_CUDA_PAGE_TOKENS + to % PF_CUDA_PAGE_TOKENS) * cache.head_dim;
        for (int i = threadIdx.x; i < cache.head_dim; i += PF_BLOCK) pages[b + i] = pages[a + i];
    }
}

} // namespace

extern "C" cudaError_t pf_cuda_launch_heads(const pf_cuda_heads *heads, const pf_cuda_cache *cache,
                                            const pf_cuda_rows *rows, int32_t n_rows, cudaStream_t stream)
{
    PF_LAUNCH(prepare_heads, dim3(n_rows, cache->n_heads + 2 * cache->n_kv_heads), dim3(PF_BLOCK), 0, stream, *heads,
              *cache, *rows);
    return cudaGetLastError();
}

extern "C" cudaError_t pf_cuda_launch_move(const pf_cuda_cache *cache, int64_t layer_elements, int32_t n_layers,
                                           const int32_t *moves, int32_t n_moves, cudaStream_t stream)
{
    PF_LAUNCH(move_positions, dim3(2 * cache->n_kv_heads, n_layers), dim3(PF_BLOCK), 0, stream, *cache, layer_elements,
              moves, n_moves);
    return cudaGetLastError();
}
