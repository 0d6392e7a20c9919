/*
 * Paged attention of the rows of a pass, trees among them.
 *
 * A block has a segment of the keys of one row and one key head, for up to PF_BLOCK_WARPS of the heads that share it, a warp each.
 * A tile of keys and values is copied to shared memory; a lane has a key for the scores, and OWN elements of the output for the
 * sums. Then a second kernel joins the segments.
 */
#include "verify/cuda/cuda_kernel.cuh"

namespace {

enum { TILE = PF_CUDA_PAGE_TOKENS };

/* What a row sees. Positions from the base on are found by its path. */
struct sight {
    int first, last; /* positions */
    int base;
};

__device__ __forceinline__ sight see(const pf_cuda_rows &rows, int row, int window)
{
    const int base = rows.bases[row], last = base + rows.depths[row];
    const sight s = { window > 0 && last >= window ? last - window + 1 : 0, last, base };
    return s;
}

/* The row of the span at each depth of this row's path. One thread writes it. */
__device__ __forceinline__ void find_path(const pf_cuda_rows &rows, int row, int *path)
{
    const int first = rows.firsts[row];
    int at = row - first;
    for (int depth = rows.depths[row]; depth >= 0; depth--) {
        path[depth] = at;
        const int parent = rows.parents[first + at];
        at = parent == PF_CUDA_CHAIN ? at - 1 : parent;
    }
}

/* Shared memory of a block:  queries [PF_BLOCK_WARPS][dim] f32 | weights [PF_BLOCK_WARPS][TILE] f32 |
 * values [TILE][dim] bf16 | keys [TILE][dim + 2] bf16, so that lanes read from different banks */
__host__ __device__ inline size_t shared_bytes(int dim)
{
    return sizeof(float) * PF_BLOCK_WARPS * (dim + TILE) + sizeof(pf_bf16) * TILE * (2 * dim + 2);
}

struct tile_memory {
    float *queries, *weights;
    pf_bf16 *values, *keys;
};

__device__ __forceinline__ tile_memory lay_out(unsigned char *memory, int dim)
{
    tile_memory t;
    t.queries = reinterpret_cast<float *>(memory);
    t.weights = t.queries + PF_BLOCK_WARPS * dim;
    t.values = reinterpret_cast<pf_bf16 *>(t.weights + PF_BLOCK_WARPS * TILE);
    t.keys = t.values + TILE * dim;
    return t;
}

/* Copies the keys and values of positions tile .. tile + TILE - 1; those that the row does not see are zero. Two elements a
 * thread: dim is even. */
__device__ __forceinline__ void load_tile(const tile_memory &t, const pf_cuda_cache &cache, int table, int kv_head,
                                          const sight &s, const int *path, int tile)
{
    const int pairs = cache.head_dim / 2;
    const unsigned *pages = reinterpret_cast<const unsigned *>(cache.pages);
    unsigned *keys = reinterpret_cast<unsigned *>(t.keys), *values = reinterpret_cast<unsigned *>(t.values);
    for (int i = threadIdx.x; i < TILE * pairs; i += PF_BLOCK) {
        const int key = i / pairs, d = i % pairs, position = tile + key;
        unsigned k = 0, v = 0;
        if (position >= s.first && position <= s.last) {
            const int stored = position < s.base ? position : s.base + path[position - s.base];
            const size_t page = static_cast<size_t>(
                cache.page_tables[static_cast<size_t>(table) * cache.table_pages + stored / TILE]);
            const size_t of_keys =
                ((page * 2 * cache.n_kv_heads + kv_head) * TILE + stored % TILE) * static_cast<size_t>(pairs) + d;
            k = pages[of_keys];
            v = pages[of_keys + static_cast<size_t>(cache.n_kv_heads) * TILE * pairs];
        }
        keys[key * (pairs + 1) + d] = k;
        values[key * pairs + d] = v;
    }
}

__device__ __forceinline__ float score_of(const pf_cuda_attention &a, const float *query, const pf_bf16 *key, int dim)
{
    float score = 0.0f;
    for (int d = 0; d < dim; d++) score = fmaf(query[d], __bfloat162float(key[d]), score);
    score *= a.scale;
    return a.softcap > 0.0f ? a.softcap * tanhf(score / a.softcap) : score;
}

/* The running softmax of a head: the largest score, the sum of weights, and the weighted sum of values, OWN elements a lane. */
template <int OWN> struct running {
    float top, sum, own[OWN];
};

template <int OWN>
__device__ __forceinline__ void add_tile(running<OWN> &r, float score, const float *weights, const pf_bf16 *values,
                                         float *my_weight, int dim)
{
    const int lane = threadIdx.x % PF_WARP;
    const float top = fmaxf(r.top, pf_warp_max(score)), shrink = expf(r.top - top), weight = expf(score - top);
    *my_weight = weight;
    r.sum = fmaf(r.sum, shrink, pf_warp_sum(weight));
    r.top = top;
    __syncwarp(); /* weights are whole */
#pragma unroll
    for (int j = 0; j < OWN; j++) {
        const int d = j * PF_WARP + lane;
        float own = r.own[j] * shrink;
        if (d < dim)
            for (int t = 0; t < TILE; t++) own = fmaf(weights[t], __bfloat162float(values[t * dim + d]), own);
        r.own[j] = own;
    }
}

template <int OWN>
__global__ void __launch_bounds__(PF_BLOCK)
attend_segment(pf_cuda_attention a, pf_cuda_cache cache, pf_cuda_rows rows)
{
    PF_SHARED(int, path, [PF_CUDA_MAX_ROWS]);
    PF_DYNAMIC_SHARED(memory);
    const int row = blockIdx.x, segment = blockIdx.z, dim = cache.head_dim;
    if (row >= rows.counts[0]) return;
    const sight s = see(rows, row, a.window);
    if (segment < s.first / a.segment_tokens || segment > s.last / a.segment_tokens) return;

    const int group = cache.n_heads / cache.n_kv_heads, turns = (group + PF_BLOCK_WARPS - 1) / PF_BLOCK_WARPS;
    const int kv_head = blockIdx.y / turns, warp = threadIdx.x / PF_WARP, lane = threadIdx.x % PF_WARP;
    const int of_group = blockIdx.y % turns * PF_BLOCK_WARPS + warp, head = kv_head * group + of_group;
    const bool has_head = of_group < group;
    const tile_memory t = lay_out(memory, dim);
    float *query = t.queries + warp * dim, *weights = t.weights + warp * TILE;
    if (has_head)
        for (int d = lane; d < dim; d += PF_WARP)
            query[d] = a.q[static_cast<size_t>(row) * a.q_stride + static_cast<size_t>(head) * dim + d];
    if (threadIdx.x == 0) find_path(rows, row, path);
    __syncthreads(); /* queries and the path are whole */

    running<OWN> r;
    r.top = -INFINITY;
    r.sum = 0.0f;
#pragma unroll
    for (int j = 0; j < OWN; j++) r.own[j] = 0.0f;
    const int begin = segment * a.segment_tokens, end = min(begin + a.segment_tokens, s.last + 1);
    for (int tile = max(begin, s.first / TILE * TILE); tile < end; tile += TILE) {
        load_tile(t, cache, rows.tables[row], kv_head, s, path, tile);
        __syncthreads(); /* the tile is whole */
        if (has_head) {
            const int position = tile + lane;
            const bool is_seen = position >= s.first && position <= s.last;
            const float score = is_seen ? score_of(a, query, t.keys + lane * (dim + 2), dim) : -INFINITY;
            add_tile<OWN>(r, score, weights, t.values, weights + lane, dim);
        }
        __syncthreads(); /* the tile and the weights may go */
    }
    if (!has_head) return;
    float *part = a.parts + ((static_cast<size_t>(row) * cache.n_heads + head) * a.n_segments + segment) * (dim + 2);
    if (lane == 0) part[0] = r.top, part[1] = r.sum;
#pragma unroll
    for (int j = 0; j < OWN; j++)
        if (j * PF_WARP + lane < dim) part[2 + j * PF_WARP + lane] = r.own[j];
}

/* A block has a head of a row. */
__global__ void __launch_bounds__(PF_BLOCK) join_segments(pf_cuda_attention a, pf_cuda_cache cache, pf_cuda_rows rows)
{
    const int row = blockIdx.x, head = blockIdx.y, dim = cache.head_dim;
    if (row >= rows.counts[0]) return;
    const sight s = see(rows, row, a.window);
    const size_t at = static_cast<size_t>(row) * cache.n_heads + head;
    const float *parts = a.parts + at * a.n_segments * (dim + 2);
    const int first = s.first / a.segment_tokens, last = s.last / a.segment_tokens;
    float top = -INFINITY, sum = 0.0f;
    for (int i = first; i <= last; i++) top = fmaxf(top, parts[static_cast<size_t>(i) * (dim + 2)]);
    for (int i = first; i <= last; i++) {
        const float *part = parts + static_cast<size_t>(i) * (dim + 2);
        sum = fmaf(part[1], expf(part[0] - top), sum);
    }
    for (int d = threadIdx.x; d < dim; d += PF_BLOCK) {
        float out = 0.0f;
        for (int i = first; i <= last; i++) {
            const float *part = parts + static_cast<size_t>(i) * (dim + 2);
            out = fmaf(part[2 + d], expf(part[0] - top), out);
        }
        pf_bf16_of(a.out)[at * dim + d] = __float2bfloat16_rn(out / sum);
    }
}

template <int OWN>
cudaError_t launch(const pf_cuda_attention *a, const pf_cuda_cache *cache, const pf_cuda_rows *rows, int32_t n_rows,
                   cudaStream_t stream)
{
    const int group = cache->n_heads / cache->n_kv_heads, turns = (group + PF_BLOCK_WARPS - 1) / PF_BLOCK_WARPS;
    PF_LAUNCH(attend_segment<OWN>, dim3(n_rows, cache->n_kv_heads * turns, a->n_segments), dim3(PF_BLOCK),
              shared_bytes(cache->head_dim), stream, *a, *cache, *rows);
    const cudaError_t launched = cudaGetLastError();
    if (launched != cudaSuccess) return launched;
    PF_LAUNCH(join_segments, dim3(n_rows, cache->n_heads), dim3(PF_BLOCK), 0, stream, *a, *cache, *rows);
    return cudaGetLastError();
}

} // namespace

extern "C" cudaError_t pf_cuda_launch_attention(const pf_cuda_attention *attention, const pf_cuda_cache *cache,
                                                const pf_cuda_rows *rows, int32_t n_rows, cudaStream_t stream)
{
    if (cache->head_dim > PF_CUDA_MAX_HEAD_DIM || n_rows > PF_CUDA_MAX_ROWS) return cudaErrorInvalidValue;
    if (cache->head_dim <= 64) return launch<2>(attention, cache, rows, n_rows, stream);
    if (cache->head_dim <= 128) return launch<4>(attention, cache, rows, n_rows, stream);
    return launch<8>(attention, cache, rows, n_rows, stream);
}
