/*
 * The kernels of the CUDA backend, and how each is launched: what one computes, and on which memory. C, for host code.
 *
 * Pointers are to device memory. bf16 values are uint16_t here. All sums are f32 and in one fixed order, which depends on the
 * row alone: the bits of a row do not depend on the other rows of a pass (docs/cuda.md). Launches are queued in the stream; the
 * result is that of the launch itself.
 *
 * The rows of a pass have a fixed number, n_rows of the launch; those from pf_cuda_rows.counts on are padding, and kernels skip
 * them.
 */
#ifndef PF_VERIFY_CUDA_LAUNCH_H
#define PF_VERIFY_CUDA_LAUNCH_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    PF_CUDA_MAX_ROWS = 512, /* of a pass */
    PF_CUDA_MAX_HEAD_DIM = 256,
    PF_CUDA_PAGE_TOKENS = 32,  /* positions of a page of the cache, and keys of a tile of attention */
    PF_CUDA_MAX_SEGMENTS = 32, /* that the keys of a row are cut into */
#ifdef PF_CUDA_SHIM
    PF_CUDA_CHOICE_CHUNKS = 3, /* blocks of padding rows cost most of an emulated pass */
#else
    PF_CUDA_CHOICE_CHUNKS = 32, /* that a row of logits is cut into */
#endif
    PF_CUDA_MAX_ENTRIES = 256 /* ids of one draft distribution */
};

/* What a pass is, in device memory: a graph of fixed shape reads it each time. Arrays are [n_rows]. */
typedef struct {
    const int32_t *counts; /* [2] rows, and rows with logits */
    const int32_t *tokens;
    const int32_t *tables; /* the row's sequence: which page table */
    const int32_t *bases;  /* the length of its sequence before the pass */
    const int32_t *firsts; /* the first row of its span */
    const int32_t *depths; /* its position is base + depth */
    const int32_t
        *parents; /* of a tree: the row of the span that it follows, -1: the cache; PF_CUDA_CHAIN in a chain */
    const int32_t *logit_row; /* the rows with logits */
    const int32_t *best_of;   /* of each of these: how many of its logits are compared */
} pf_cuda_rows;

enum { PF_CUDA_CHAIN = -2 };

/* The keys and values of one layer: pages of [2: keys, values][n_kv_heads][PF_CUDA_PAGE_TOKENS][head_dim] bf16. */
typedef struct {
    uint16_t *pages;
    const int32_t *page_tables; /* [sequences][table_pages] */
    int32_t table_pages;
    int32_t n_heads, n_kv_heads, head_dim;
} pf_cuda_cache;

/* Weights of a norm, f32; NULL: ones, zeros. */
typedef struct {
    const float *weight, *bias;
} pf_cuda_norm;

typedef enum { PF_CUDA_NORM_RMS, PF_CUDA_NORM_LAYER } pf_cuda_norm_kind;

/* x[r, :] = table[tokens[r], :] * scale.   x [n_rows, n] f32; table [vocab, n] bf16 */
cudaError_t pf_cuda_launch_embed(float *x, const uint16_t *table, const pf_cuda_rows *rows, int32_t n_rows, int32_t n,
                                 float scale, cudaStream_t stream);

/* What stands between two products:  x = x + scale * post(sum + bias);  out = norm(x) as bf16. */
typedef struct {
    float *x;          /* [n_rows, n] the residual stream */
    const float *sum;  /* [n_rows, n] what a block gives; NULL: x stays */
    const float *bias; /* [n] of the sum, or NULL */
    pf_cuda_norm post; /* of the sum */
    int32_t has_post;
    float scale;
    uint16_t *out; /* [n_rows, n], or NULL: there is no norm */
    pf_cuda_norm norm;
    int32_t has_norm;      /* else out is x, rounded */
    int32_t of_logit_rows; /* row i of out is that of rows.logit_row[i], and sum is NULL */
    pf_cuda_norm_kind kind;
    int32_t n;
    float eps;
    int32_t zero; /* no padding: an emulation looks for pointers in arguments */
} pf_cuda_join;
cudaError_t pf_cuda_launch_join(const pf_cuda_join *join, const pf_cuda_rows *rows, int32_t n_rows,
                                cudaStream_t stream);

/* Queries, keys and values: bias, norm of heads, rotation; then queries are left in place and the others stored. */
typedef struct {
    float *qkv;                   /* [n_rows, (n_heads + 2 * n_kv_heads) * head_dim] */
    const float *bias;            /* as a row of it, or NULL */
    pf_cuda_norm q_norm, k_norm;  /* [head_dim] of each head by itself */
    const float *cosines, *sines; /* [positions, rotary_dim / 2]; NULL: not rotated */
    int32_t has_head_norm;
    pf_cuda_norm_kind kind;
    float eps;
    int32_t rotary_dim;
    int32_t interleaved; /* pairs (2 i, 2 i + 1), else (i, i + rotary_dim / 2) */
    int32_t zero;        /* as of pf_cuda_join */
} pf_cuda_heads;
cudaError_t pf_cuda_launch_heads(const pf_cuda_heads *heads, const pf_cuda_cache *cache, const pf_cuda_rows *rows,
                                 int32_t n_rows, cudaStream_t stream);

/*
 * out[r, h, :] = softmax over the positions t that row r sees of  cap(scale * q[r, h] . k[t])  times v[t].
 *
 * A row at position p sees t in p - window + 1 .. p (window 0: from 0 on): of the cache those below the base, then its own path.
 * Keys are cut into segments of segment_tokens by position, and these into tiles of PF_CUDA_PAGE_TOKENS; tiles are added in
 * ascending order within a segment, segments in ascending order after that. Source: Dao et al., arXiv:2205.14135, section 3.1,
 * for the running maximum.
 */
typedef struct {
    const float *q; /* rows of q_stride f32 */
    uint16_t *out;  /* [n_rows, n_heads * head_dim] bf16 */
    float *parts;   /* [n_rows, n_heads, n_segments, head_dim + 2] */
    int32_t q_stride;
    int32_t n_segments;     /* of the longest row, at least: the grid */
    int32_t segment_tokens; /* a multiple of PF_CUDA_PAGE_TOKENS */
    int32_t window;
    float scale, softcap; /* softcap 0: none */
} pf_cuda_attention;
cudaError_t pf_cuda_launch_attention(const pf_cuda_attention *attention, const pf_cuda_cache *cache,
                                     const pf_cuda_rows *rows, int32_t n_rows, cudaStream_t stream);

typedef enum { PF_CUDA_SILU, PF_CUDA_GELU, PF_CUDA_GELU_TANH, PF_CUDA_RELU } pf_cuda_activation;

/* out[r, i] = act(in[r, i]) * in[r, n + i], or act(in[r, i]) without a gate; biases are added to `in` first.
 * in [n_rows, n or 2 * n] f32; bias as a row of it, or NULL; out [n_rows, n] bf16 */
cudaError_t pf_cuda_launch_activate(uint16_t *out, const float *in, const float *bias, pf_cuda_activation activation,
                                    int32_t gated, const pf_cuda_rows *rows, int32_t n_rows, int32_t n,
                                    cudaStream_t stream);

/* logits = softcap(scale * logits) in place, where either does anything; then of the first best_of of each row the lowest token
 * of the largest logit (-1: all are NaN), and the lowest whose logit is NaN or plus infinity (-1: none). */
typedef struct {
    float *logits;                       /* [n_rows, n_vocab] */
    float *chunk_values;                 /* [n_rows, PF_CUDA_CHOICE_CHUNKS] */
    int32_t *chunk_best, *chunk_invalid; /* likewise */
    int32_t *best, *invalid;             /* [n_rows] */
    int32_t n_vocab;
    float scale, softcap;
    int32_t zero; /* as of pf_cuda_join */
} pf_cuda_choice;
cudaError_t pf_cuda_launch_choose(const pf_cuda_choice *choice, const pf_cuda_rows *rows, int32_t n_rows,
                                  cudaStream_t stream);

typedef enum { PF_CUDA_DRAW_NONE, PF_CUDA_DRAW_RACE, PF_CUDA_DRAW_JUDGE } pf_cuda_draw_kind;

/* An id of a draft distribution; q is not negative. */
typedef struct {
    int32_t id;
    float q;
} pf_cuda_entry;

/* pf_draw (model/backend/row_draw.h) in device memory. */
typedef struct {
    int32_t kind, position, token;
    int32_t first_entry, n_entries; /* PF_CUDA_MAX_ENTRIES at most, one-hot without */
    int32_t top_k;
    float temperature, top_p, min_p, keep, next;
    uint32_t seed_low, seed_high;
} pf_cuda_row_draw;

/* The draw of each row, from logits as pf_cuda_launch_choose leaves them. */
typedef struct {
    const float *logits;           /* [n_rows, n_vocab] */
    float *p;                      /* [n_rows, n_vocab] room */
    const pf_cuda_row_draw *draws; /* [n_rows] */
    const pf_cuda_entry *entries;
    int32_t *tokens, *kept; /* [n_rows] out, as pf_drawn; of rows that are drawn */
    int32_t n_vocab;
    int32_t zero; /* as of pf_cuda_join */
} pf_cuda_drawing;
cudaError_t pf_cuda_launch_draw(const pf_cuda_drawing *drawing, int32_t n_rows, cudaStream_t stream);

/* Copies positions of the cache in all layers, one after the other: moves [n][2] of a slot to another, a slot being
 * page * PF_CUDA_PAGE_TOKENS + position in it. Layers are layer_elements apart. */
cudaError_t pf_cuda_launch_move(const pf_cuda_cache *cache, int64_t layer_elements, int32_t n_layers,
                                const int32_t *moves, int32_t n_moves, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
