/*
 * What is inside a pf_context: the buffers of a pass, and what the pass at hand is about. Seen by model/ alone.
 *
 *   one arena:   cos | sin | x | normed | qkv | attended | gate | up | shared inputs | of a bounded head | spans, tokens,
 *                positions, logit rows | pieces | parts of attention | members | scratch of member 0 | 1 | ... | logits
 *
 * Rows of a buffer are a whole, odd number of cache lines apart, so members that write neighbouring panels share none.
 */
#ifndef PF_MODEL_PASS_H
#define PF_MODEL_PASS_H

#include "base/arena.h"
#include "base/chunks.h"
#include "model/forward/context.h"
#include "model/forward/pass_kernels.h"
#include "model/forward/thread_count.h"
#include "model/weights/weights.h"

/* A matrix of activations: row i is at data + i * stride. */
typedef struct {
    float *data;
    size_t stride; /* elements */
} pf_rows;

/* How far apart two members' parts of a buffer lie: farther than a core prefetches, which would take the other's lines. */
enum { PF_APART_FLOATS = 8192 / sizeof(float), PF_LINE_FLOATS = 64 / sizeof(float) };

/* Members share out the keys of an item (attend.c) in contexts of at least so many segments, and in passes of no more rows. */
enum { PF_SHARED_KEYS_SEGMENTS = 3, PF_SHARED_KEYS_ROWS = 16 };

enum { PF_BOUNDED_ROWS = 8 }; /* of a pass whose head is bounded (bounded_head.h) */

/* The first token of the largest logit among some; -1: they have none but NaN. */
typedef struct {
    int32_t token;
    float logit;
} pf_best;

/* What a member says of its columns to the others, and to whoever asks. */
typedef struct {
    _Alignas(64) float floors[PF_BOUNDED_ROWS]; /* how low the largest may be */
    pf_best best[PF_BOUNDED_ROWS];
    int32_t n_anew; /* panels */
} pf_bounded_told;

/* What a bounded head needs in a pass. */
typedef struct {
    pf_rows coarse;        /* [2 * PF_BOUNDED_ROWS, vocab] */
    uint8_t *marks;        /* [panels of the head] to be computed anew */
    pf_bounded_told *told; /* [n_threads] */
    int32_t pause;         /* so many passes more go by the full head */
} pf_bounded_pass;

typedef struct {
    pf_rows parts; /* [2 * PF_BOUNDED_ROWS, hidden] */
    void *input;   /* packed */
} pf_bounded_member;

/* What one member has for itself: it is written and read by that member alone. */
typedef struct {
    pf_rows normed;  /* [the most tile_rows of a product, hidden] */
    void *input;     /* a packed left side of one tile, of any product */
    void *gemm;      /* scratch of a product */
    void *attention; /* scratch of attention */
    pf_bounded_member bounded;
} pf_member_scratch;

/* A span of the pass at hand. */
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
    pf_chunks *pieces;          /* [n_threads] of a product's panels */
    float *attention_parts;     /* [n_attention_parts] floats: of keys that members share (attend.c) */
    size_t n_attention_parts;
    pf_bounded_pass bounded;

    /* The pass at hand. */
    pf_pass_span *spans; /* [max_sequences] */
    int32_t n_spans;
    int32_t n_rows;
    int32_t *tokens;     /* [max_rows] */
    int32_t *positions;  /* [max_rows] */
    int32_t *logit_rows; /* [max_logit_rows] the rows whose logits are wanted */
    int32_t n_logit_rows;
    int32_t best_of;   /* the head is bounded, by the first so many tokens; 0: full */
    int32_t n_members; /* that run it */
    uint32_t calls;    /* bits by pf_pass_kernel: all, but while one is measured alone */
    bool heads_apart;  /* each has key heads of its own, and computes them up to what they attend to without waiting */
    bool given_up;     /* member 0 has seen that it is time to stop; the others know behind the next barrier */
    bool split_heads;  /* members share a key head of some span: they must wait between store and attend */
};

/* One member's part of the pass at hand: from x, the embedded tokens, to logits. */
void pf_context_run_pass(pf_member member, void *context);

#endif
