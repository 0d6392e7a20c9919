/*
 * The inside of a pf_context: the buffers of a pass, and the plan of the current pass. Internal to model/.
 *
 *   one arena:   cos | sin | x | normed | qkv | attended | gate | up | shared inputs | of the head | spans, tokens,
 *                positions, logit rows | chunks | parts of attention | threads | scratch of thread 0 | 1 | ... | logits
 *
 * Rows of a buffer are an odd number of whole cache lines apart, so threads that write neighbouring panels share none.
 */
#ifndef PF_MODEL_PASS_H
#define PF_MODEL_PASS_H

#include "base/arena.h"
#include "base/chunks.h"
#include "model/forward/context.h"
#include "model/forward/thread_count.h"
#include "model/weights/weights.h"

/* The distance of two threads' parts of a buffer: more than a core prefetches, which would take the other's lines. */
enum { PF_APART_FLOATS = 8192 / sizeof(float) };

/* Threads share the keys of an item (attend.c) in contexts of at least so many segments, and in passes of no more rows. */
enum { PF_SHARED_KEYS_SEGMENTS = 3, PF_SHARED_KEYS_ROWS = 16 };

/* The buffers of one thread, which alone writes and reads them. */
typedef struct {
    pf_rows normed;  /* [the most tile_rows of a product, hidden] */
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

struct pf_context {
    const pf_model *model;
    pf_team *team;
    pf_context_config config; /* resolved */
    pf_kv *kv;
    pf_arena arena;
    float attention_scale; /* 1 / sqrt(head_dim) */
    pf_thread_count thread_count;
    pf_stop *stop; /* or NULL */

    pf_rope_table rope;         /* [max_tokens, rotary_dim / 2] */
    pf_rows x;                  /* [max_rows, hidden] the residual stream */
    pf_rows normed;             /* [max_rows, hidden] when rows are more than one tile */
    pf_rows qkv;                /* [max_rows, q_dim + 2 * kv_dim] */
    pf_rows attended;           /* [max_rows, q_dim] */
    pf_rows gate, up;           /* [max_rows, intermediate] */
    pf_rows logits;             /* [max_logit_rows, vocab] */
    void *input;                /* a packed left side, when rows are more than one tile */
    void *columns;              /* that of O or down, packed by columns */
    pf_member_scratch *members; /* [n_threads] */
    pf_chunks *chunks;          /* [n_threads] of a product's panels */
    float *attention_parts;     /* [n_attention_parts] floats: partial results of shared keys (attend.c) */
    size_t n_attention_parts;
    pf_head_pass head;

    /* The current pass. */
    pf_pass_span *spans; /* [max_sequences] */
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

/* One thread's part of the current pass: from x, the embedded tokens, to logits. */
void pf_context_run_pass(pf_member member, void *context);

#endif
