/*
 * The LM head: computes the logits of the vocabulary, or the best token of a row, from the final hidden rows.
 *
 *     full       one matrix; its product is the logits
 *     bounded    the best token alone: a coarse INT8 copy bounds the logits, the full matrix decides (bounded_head.h)
 *     screened   logits of a four-bit matrix, the best few computed again from BF16 rows (screened_head.h)
 *
 * The forward pass asks pf_head_gives_best: if so the head finds the best tokens itself (pf_head_find_best). If not the pass
 * multiplies `full` like every other matrix, and then, where pf_head_refines, lets the head refine the logits.
 *
 * Internal to model/. A head is immutable after loading; a pf_head_pass belongs to one context.
 */
#ifndef PF_MODEL_HEAD_H
#define PF_MODEL_HEAD_H

#include "base/arena.h"
#include "base/team.h"
#include "kernels/kernels.h"
#include "model/files/walk.h"
#include "model/head/head_kind.h"
#include "model/linear.h"

typedef struct {
    pf_head kind; /* resolved: never AUTO */
    int32_t n_vocab, hidden;
    const pf_kernels *kernels; /* the model's */
    const char *why_full;      /* why AUTO has taken no bounded head, a static string (head_choice.h); or NULL */

    pf_linear full; /* [vocab, hidden] */
    pf_format format;
    pf_act act; /* of what `full` is multiplied with */

    pf_linear coarse; /* bounded: [vocab, hidden] in INT8 */
    float *error;     /* bounded: [vocab] the error of a coarse logit of a row of norm 1 */
    void *rows;       /* screened: [vocab, hidden] of BF16, its own or the embedding's */
} pf_lm_head;

/* ---- loading ----------------------------------------------------------------------------------------------------- */

/* Sets everything but the weights. format, act: of the model's other matrices. */
void pf_head_begin(pf_lm_head *head, pf_head kind, pf_format format, pf_act act, const pf_kernels *kernels,
                   int32_t n_vocab, int32_t hidden);

/* A matrix of the head, to be laid out and packed from the head's tensor. */
typedef struct {
    pf_linear *linear;
    pf_format format;
    pf_format checked;    /* the numbers in the file must be of this format */
    bool counts_progress; /* else another matrix counts the bytes of the tensor */
} pf_head_matrix;

enum { PF_HEAD_MATRICES = 2 };

/* In the order in which they are packed; returns their number. */
int32_t pf_head_matrices(pf_lm_head *head, pf_head_matrix out[PF_HEAD_MATRICES]);

/* Takes the memory of what is no matrix. `embedding`: [vocab, hidden] where it is the same tensor, or NULL. */
void pf_head_lay_out(pf_lm_head *head, void *embedding, pf_arena *arena);

/* Whether `rows` is to be filled with the head's tensor. */
static inline bool pf_head_has_own_rows(const pf_lm_head *head, const void *embedding)
{
    return head->rows != NULL && head->rows != embedding;
}

/* The last step of loading, after all matrices are packed; PF_CANCELLED. And what it counts for in the walk, in bytes. */
PF_MUST_USE pf_status pf_head_measure(pf_lm_head *head, pf_team *team, pf_walk *walk, pf_error *error);
size_t pf_head_measured_bytes(const pf_lm_head *head);

/* The matrix that a decode step reads. */
static inline const pf_linear *pf_head_step_matrix(const pf_lm_head *head)
{
    return head->kind == PF_HEAD_BOUNDED ? &head->coarse : &head->full;
}

/* The product of a matrix of the head, and its row of the registry. */
const pf_gemm *pf_head_gemm(const pf_lm_head *head);
const pf_kernel *pf_head_product(const pf_lm_head *head, const pf_linear *linear);

/* Why the matrix has its format, or what the rows are for: one sentence. NULL: for the reason of all other matrices, behind which
 * stands why the head is not bounded (why_full). */
const char *pf_head_matrix_reason(const pf_lm_head *head, const pf_linear *linear);
const char *pf_head_rows_reason(const pf_lm_head *head, bool are_embedding);

/* ---- a pass ------------------------------------------------------------------------------------------------------ */

/* The first token with the largest logit among some; -1: all are NaN. */
typedef struct {
    int32_t token;
    float logit;
} pf_best;

enum { PF_BOUNDED_ROWS = 8 }; /* of a pass, at most, where the head finds the best tokens itself */

/* What a thread shares with the others about its columns. */
typedef struct {
    _Alignas(64) float floors[PF_BOUNDED_ROWS]; /* lower bounds of the largest logit */
    pf_best best[PF_BOUNDED_ROWS];
    int32_t invalid[PF_BOUNDED_ROWS]; /* the lowest token that was computed whose logit is NaN or plus infinity; -1 */
    int32_t n_computed;               /* panels of the full head */
} pf_head_share;

/* Scratch of one thread. */
typedef struct {
    pf_rows parts; /* [2 * PF_BOUNDED_ROWS, hidden] */
    void *input;   /* packed */
} pf_head_scratch;

/* What a context keeps for its head. All but best_of is used by a bounded head alone. */
typedef struct {
    int32_t best_of;          /* the pass computes only the best of the first so many tokens; 0: logits */
    int32_t pause;            /* passes that the full head computes before the bounds are tried again */
    pf_rows coarse;           /* [2 * PF_BOUNDED_ROWS, vocab] */
    uint8_t *marks;           /* [panels of the head] to be computed by the full head */
    pf_head_share *shares;    /* [n_threads] */
    pf_head_scratch *scratch; /* [n_threads] */
} pf_head_pass;

void pf_head_lay_out_pass(const pf_lm_head *head, int32_t n_threads, pf_arena *arena, pf_head_pass *pass);

/* Before a pass of n_rows logit rows, of which only the best of the first best_of tokens is wanted (0: logits). */
void pf_head_plan(const pf_lm_head *head, pf_head_pass *pass, int32_t n_rows, int32_t best_of);

/* Whether the head finds the best tokens of the planned pass itself, and the pass computes no logits. */
static inline bool pf_head_gives_best(const pf_head_pass *pass)
{
    return pass->best_of > 0;
}

/* The rows of a pass at the head, as one thread sees them. */
typedef struct {
    pf_member member;
    int32_t n_rows;
    pf_rows normed;    /* [n_rows, hidden] */
    const void *input; /* the same, packed for the product of `full` */
    pf_rows logits;    /* [n_rows, vocab] */
    void *scratch;     /* of a product */
} pf_head_rows;

/* Run by all threads of the pass. Of the logits only those are written that may be the largest. */
void pf_head_find_best(const pf_lm_head *head, pf_head_pass *pass, const pf_head_rows *rows);

/* Whether logits need a second step, and this thread's share of it; all logits must have been computed before. */
static inline bool pf_head_refines(const pf_lm_head *head)
{
    return head->kind == PF_HEAD_SCREENED;
}
void pf_head_refine(const pf_lm_head *head, const pf_head_rows *rows);

/* After a pass of n_threads threads in which the head has found the best tokens: that of row i, or -1. */
int32_t pf_head_best(const pf_head_pass *pass, int32_t n_threads, int32_t i);

/* Likewise the lowest token of row i whose logit is NaN or plus infinity, or -1: every such logit is computed. */
int32_t pf_head_find_invalid(const pf_head_pass *pass, int32_t n_threads, int32_t i);

/* After each pass. */
void pf_head_end(const pf_lm_head *head, pf_head_pass *pass, int32_t n_threads);

#endif
