/*
 * One thread at work on a pass: its part of everything, and the pieces that the pass is made of. Internal to model/.
 *
 * forward.c is the order of the pieces, with the barriers between them. left_side.c prepares rows for products, product.c
 * multiplies, attend.c is attention, experts.c feed-forward blocks of experts. pass_kernels.c runs single pieces for the benches.
 */
#ifndef PF_MODEL_WORKER_H
#define PF_MODEL_WORKER_H

#include "model/forward/pass.h"
#include "model/forward/row_groups.h"

/* A thread's part of something: columns of a product, items of attention. Empty when end <= begin. */
typedef struct {
    int32_t begin, end;
} pf_range;

/* What a block has given, and has not joined the residual stream yet (joins_late). */
typedef struct {
    pf_rows rows;                /* [rows of the pass, hidden] */
    const pf_norm_weights *norm; /* the role ATTENTION_POST or MLP_POST */
} pf_late_join;

typedef struct {
    pf_context *c;
    const pf_kernels *kernels;
    const pf_gemm *gemm; /* of the products at hand: the layers', then the head's */
    pf_member member;
    const pf_member_scratch *mine;
    pf_rows x; /* where it reads the residual stream: the context's, or its own of few rows (joins_late) */
    pf_late_join late[2];
    int32_t n_late;
    bool by_columns;   /* a product's left side can be packed by columns */
    pf_panels qkv[3];  /* those of its heads, of Q, K and V, where heads are apart */
    pf_rows q, k, v;   /* where they go */
    pf_rows attended;  /* what attention gives */
    pf_range heads;    /* the columns of `attended` that its heads make, where heads are apart */
    pf_range residual; /* its columns, where rows are few: O and DOWN add to them */
    int32_t phase;     /* the next that is shared out in chunks */
} pf_worker;

pf_worker pf_worker_of(pf_context *context, pf_member member);

static inline bool pf_worker_has_company(const pf_worker *w)
{
    return w->member.n_threads > 1;
}

static inline void pf_worker_wait(const pf_worker *w)
{
    pf_team_barrier(w->member);
}

/* A part of the columns of `rows`, apart from the `before` parts before it: row behind row, an odd number of lines again where
 * the width is whole lines, in lines that no other thread uses and no other core's prefetching reaches. Column j of row i is at
 * data + i * stride + j. */
pf_rows pf_worker_apart(pf_rows rows, int32_t n_rows, pf_range columns, int32_t before);

/* ---- chunks (base/chunks.h) ---------------------------------------------------------------------------------------- */

/* A share that is not much more than the least chunk, of a small model, is not cut. */
enum { PF_CHUNKS_PER_SHARE = 2, PF_CHUNKED_ROWS = 32 };

static inline int32_t pf_worker_begin_phase(pf_worker *w)
{
    pf_chunks_begin(w->c->chunks, w->member, w->phase);
    return w->phase++;
}

/* ---- left_side.c --------------------------------------------------------------------------------------------------- */

/* Rows to be multiplied: how they are cut into groups and tiles, and which thread prepares which tiles. */
typedef struct {
    pf_row_groups groups;
    bool shared;                  /* more than one tile: each is prepared by one thread */
    int32_t group_tiles;          /* of each group but the last */
    int32_t tile_begin, tile_end; /* this thread's, numbered through all groups */
} pf_left_side;

/* With `groups`, many rows of many threads are cut into groups; else all rows are one. */
pf_left_side pf_left_side_of(const pf_worker *w, int32_t n_rows, bool groups);

/* The only group: where heads are apart (pass.c), or shares are not cut into chunks. */
static inline pf_row_group pf_left_side_all(const pf_left_side *a)
{
    return pf_row_groups_get(&a->groups, 0);
}

/* The residual stream where late results have joined: in few rows each thread computes it for itself. The rows of a tile, from
 * w->x to `to`. Uses the place of the tile's normed rows. */
pf_rows pf_left_side_joined(const pf_worker *w, const pf_left_side *a);
void pf_left_side_join(const pf_worker *w, const pf_left_side *a, int32_t tile, pf_rows to);

/* Where this thread finds its left side packed, and its rows normed. */
void *pf_left_side_input(const pf_worker *w, const pf_left_side *a);
pf_rows pf_left_side_normed(const pf_worker *w, const pf_left_side *a);

/* Norm a tile of x. Pack some tiles of `rows` for a product over k. */
void pf_left_side_norm(const pf_worker *w, const pf_left_side *a, int32_t tile, pf_rows x, const pf_norm_weights *norm);
void pf_left_side_pack(const pf_worker *w, const pf_left_side *a, int32_t tile_begin, int32_t tile_end, pf_rows rows,
                       int32_t k);

/* Pack the columns that this thread has made, of a group of rows, into packed columns of the context. */
void pf_left_side_pack_columns(const pf_worker *w, void *packed, pf_rows rows, pf_row_group group, int32_t k,
                               pf_range columns);

/* ---- product.c ----------------------------------------------------------------------------------------------------- */

pf_range pf_columns_of(const pf_linear *linear, pf_panels panels);
pf_panels pf_share_of(const pf_worker *w, const pf_linear *linear);

/* Some panels of a product, for a group of rows. */
typedef struct {
    pf_row_group rows;
    pf_panels panels;
} pf_product_part;

/* Columns of out = input * W^T + bias, or of out += that. */
void pf_multiply_part(const pf_worker *w, const pf_linear *linear, pf_product_part part, const void *input, pf_rows out,
                      pf_gemm_mode mode);

/* This thread's part of a product of all rows: its share, or chunk after chunk of it and then of the others'. */
void pf_multiply(pf_worker *w, const pf_linear *linear, const pf_left_side *rows, const void *input, pf_rows out,
                 pf_gemm_mode mode);

/* As pf_multiply, to the logits: what becomes of them is done to each part at once unless the head refines them. */
void pf_multiply_logits(pf_worker *w, const pf_left_side *rows, const void *input);

/* The plan's scale and cap of some columns of a row of logits. */
static inline bool pf_plan_changes_logits(const pf_plan *plan)
{
    return plan->logit_scale != 1.0f || plan->logit_softcap != 0.0f;
}
void pf_finish_logits(const pf_plan *plan, float *logits, int32_t n);

/* Queries, keys and values of this thread's own heads, where heads are apart. */
void pf_multiply_own_heads(const pf_worker *w, const pf_linear *qkv, const pf_left_side *rows, const void *input);

/* gate = activate(gate, up), or activate(gate) where the plan has no gates, in some columns, of a group of rows. */
void pf_activate_part(const pf_worker *w, pf_rows gate, pf_rows up, pf_row_group rows, pf_range columns);

/* What DOWN multiplies: gate and up, activated, and packed where that goes by columns. `mine`: the columns of its share. Without
 * gates the rows of UP stand in the place of those of GATE. */
void pf_multiply_gated(pf_worker *w, const pf_layer *layer, const pf_left_side *rows, const void *input, pf_range mine);

/* ---- forward.c ----------------------------------------------------------------------------------------------------- */

/* Asks early for the lines that this thread's next product of a block writes, where rows are few. */
void pf_worker_claim_residual(const pf_worker *w, int32_t n_rows);

/* ---- attend.c ------------------------------------------------------------------------------------------------------ */

/* Append the new keys and values to the cache, and attend to all there are. */
void pf_worker_attend(pf_worker *w, int32_t layer);

/* Norms this thread's share of the rows of queries and keys as wholes (PF_HEAD_NORM_WHOLE). */
void pf_attend_norm_whole(const pf_worker *w, int32_t layer);

/* This thread's items of a span; and of some items: clip and norm queries and keys and rotate them by their positions, as the
 * plan has it, store keys and values, attend. */
pf_range pf_attend_items(const pf_worker *w, const pf_pass_span *span);
void pf_attend_rope(const pf_worker *w, const pf_pass_span *span, int32_t layer, pf_range items);
void pf_attend_store(const pf_worker *w, const pf_pass_span *span, int32_t layer, pf_range items);
void pf_attend_span(const pf_worker *w, const pf_pass_span *span, int32_t layer, pf_range items);

/* ---- experts.c ----------------------------------------------------------------------------------------------------- */

/* Chooses the experts of every row, which are packed for the router's product. A barrier stands behind it. */
void pf_worker_route(pf_worker *w, int32_t layer, const pf_left_side *rows, const void *input);

/* From the rows to what each expert gives for those that have chosen it. A barrier stands behind it. */
void pf_worker_run_experts(pf_worker *w, int32_t layer, int32_t n_rows, pf_rows normed);

/* The products of the rows as they were chosen last, without barriers, and the bytes of the weights that they read: for the
 * benches. */
void pf_worker_multiply_experts(const pf_worker *w, const pf_layer *layer, int32_t n_rows);
size_t pf_worker_expert_bytes(const pf_context *context, const pf_layer *layer);

/* Adds what the experts give to this thread's columns of `to`, or stores it there. */
void pf_worker_sum_experts(const pf_worker *w, int32_t n_rows, pf_rows to, pf_gemm_mode mode);

#endif
