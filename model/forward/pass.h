/*
 * The inside of a pf_context: the buffers of a pass, and the plan of the current pass. Internal to model/.
 *
 *   one arena:   cos | sin | x | normed | qkv | attended | gate | up | shared inputs | of plans that have more than Llama's |
 *                of the head | spans, tokens, positions, logit rows | chunks | parts of attention | threads |
 *                scratch of thread 0 | 1 | ... | logits
 *
 * Rows of a buffer are an odd number of whole cache lines apart, so threads that write neighbouring panels share none.
 */
#ifndef PF_MODEL_PASS_H
#define PF_MODEL_PASS_H

#include "base/arena.h"
#include "base/chunks.h"
#include "model/forward/context.h"
#include "model/forward/routing.h"
#include "model/forward/thread_count.h"
#include "model/weights/weights.h"

/* The distance of two threads' parts of a buffer: more than a core prefetches, which would take the other's lines. */
enum { PF_APART_FLOATS = 8192 / sizeof(float) };

/* Threads share the keys of an item (attend.c) in contexts of at least so many segments, and in passes of no more rows. */
enum { PF_SHARED_KEYS_SEGMENTS = 3, PF_SHARED_KEYS_ROWS = 16 };

/* The buffers of one thread, which alone writes and reads them. */
typedef struct {
    pf_rows normed;  /* [the most tile_rows of a product, hidden] */
    pf_rows x;       /* as normed: its own residual stream of few rows, where blocks join late */
    void *input;     /* a packed left side of one tile, of any product */
    void *gemm;      /* scratch of a product */
    void *attention; /* scratch of attention */
} pf_member_scratch;

/* A span of the current pass. */
typedef struct {
    pf_kv_seq sequence;
    int32_t first_row;
    int32_t n_rows;
    int32_t position;       /* of its first row: the sequence's length before the pass */
    const int32_t *parents; /* [n_rows] of a tree, the caller's; NULL: a chain */
} pf_pass_span;

enum { PF_SIXTEEN_ROWS = 16 }; /* packed left sides are sized in steps of these */

/* The buffers of experts, a place for each row of each of its experts (routing.h). */
typedef struct {
    pf_rows logits; /* [max_rows, n_experts + 1] of the router */
    pf_routing routing;
    pf_rows rows;         /* [places, hidden] the rows, gathered; then what the experts give */
    pf_rows gate, up;     /* [places, expert_size] */
    void *input;          /* packed rows (experts.c) */
    size_t sixteen_bytes; /* of sixteen packed rows */
    pf_rows shared;       /* [max_rows, hidden] what the shared expert gives */
} pf_expert_buffers;

struct pf_context {
    const pf_model *model;
    pf_team *team;
    pf_context_config config; /* resolved */
    pf_kv *kv;
    pf_arena arena;
    bool
        joins_late; /* what a block gives is normed or scaled, or x is normed behind it: it joins when x is read next */
    bool prepares_heads; /* queries, keys or values are clipped or normed, head by head */
    float *slopes;       /* [n_heads] of ALiBi, or NULL */
    pf_thread_count thread_count;
    pf_stop *stop; /* or NULL */

    pf_rope_table ropes[PF_MAX_ROPES]; /* [n_ropes] of [max_tokens, rotary_dim / 2] */
    pf_rows x;                         /* [max_rows, hidden] the residual stream */
    pf_rows embedded;                  /* [max_rows, embedding_size] before PROJECT_IN; else x */
    pf_rows projected;                 /* [max_logit_rows, embedding_size] behind PROJECT_OUT */
    pf_rows results[2];                /* [max_rows, hidden] what blocks give (joins_late) */
    pf_rows normed;                    /* [max_rows, hidden] when rows are more than one tile */
    pf_rows qkv;                       /* [max_rows, q_dim + 2 * kv_dim] */
    pf_rows attended;                  /* [max_rows, q_dim] */
    pf_rows gate, up;                  /* [max_rows, pf_context_feed_forward_size] */
    pf_rows logits;                    /* [max_logit_rows, vocab] */
    void *input;                       /* a packed left side, when rows are more than one tile */
    void *attended_columns;            /* that of O, packed by columns */
    void *gated_columns;               /* that of DOWN; the same memory unless blocks are parallel */
    pf_expert_buffers experts;
    pf_member_scratch *members; /* [n_threads] */
    pf_chunks *chunks;          /* [n_threads] of a product's panels */
    float *attention_parts;     /* [n_attention_parts] floats: partial results of shared keys (attend.c) */
    size_t n_attention_parts;
    pf_head_pass head;

    /* The current pass. */
    pf_pass_span *spans; /* [max_sequences + max_forks] */
    int32_t n_spans;
    int32_t n_rows;
    int32_t *tokens;     /* [max_rows] */
    int32_t *positions;  /* [max_rows] */
    int32_t *logit_rows; /* [max_logit_rows] the rows with wanted logits */
    int32_t n_logit_rows;
    int32_t n_members; /* threads that run it */
    bool
        heads_apart; /* each thread has key heads of its own, and computes them up to the result of attention without a barrier */
    bool given_up;    /* set by thread 0 when it is time to stop; the others see it after the next barrier */
    bool split_heads; /* threads share a key head of some span: a barrier stands between store and attend */
};

/* The widest intermediate rows that are held in gate and up: of a plain feed-forward block, or of a shared expert. */
int32_t pf_context_feed_forward_size(const pf_config *config);

/* The plan's norm of rows, which are `stride` elements apart in both; y may be x. */
static inline void pf_model_norm(const pf_model *m, float *y, const float *x, const pf_norm_weights *norm,
                                 int32_t n_rows, int32_t n_columns, size_t stride)
{
    if (m->config.plan.norm == PF_NORM_LAYER)
        m->kernels.layernorm(y, x, norm->weight, norm->bias, n_rows, n_columns, stride, m->config.norm_eps);
    else
        m->kernels.rmsnorm(y, x, norm->weight, n_rows, n_columns, stride, m->config.norm_eps);
}

/* What follows the lookup of rows [begin, end) of the embedding, or their PROJECT_IN: positions, and a norm. */
void pf_context_finish_embedding(const pf_context *context, int32_t begin, int32_t end);

/* One thread's part of the current pass: from x, the embedded tokens, to logits. */
void pf_context_run_pass(pf_member member, void *context);

#endif
