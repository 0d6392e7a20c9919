#include "model/head/head.h"

#include "model/head/bounded_head.h"
#include "model/head/screened_head.h"

/* ---- loading ----------------------------------------------------------------------------------------------------- */

void pf_head_begin(pf_lm_head *head, pf_head kind, pf_format format, pf_act act, const pf_kernels *kernels,
                   int32_t n_vocab, int32_t hidden)
{
    const bool screened = kind == PF_HEAD_SCREENED;
    *head = (pf_lm_head){ .kind = kind,
                          .n_vocab = n_vocab,
                          .hidden = hidden,
                          .kernels = kernels,
                          .format = screened ? PF_FORMAT_INT4_CHANNEL : format,
                          .act = screened ? PF_ACT_INT8 : act };
}

int32_t pf_head_matrices(pf_lm_head *head, pf_head_matrix out[PF_HEAD_MATRICES])
{
    int32_t n = 0;
    if (head->kind == PF_HEAD_BOUNDED)
        out[n++] = (pf_head_matrix){ &head->coarse, PF_FORMAT_INT8, head->format, false };
    out[n++] = (pf_head_matrix){ &head->full, head->format, head->format, true };
    return n;
}

void pf_head_lay_out(pf_lm_head *head, void *embedding, pf_arena *arena)
{
    const size_t n_vocab = (size_t)head->n_vocab, row_bytes = (size_t)head->hidden * sizeof(uint16_t);
    if (head->kind == PF_HEAD_BOUNDED) head->error = pf_arena_take(arena, n_vocab, sizeof *head->error);
    if (head->kind == PF_HEAD_SCREENED)
        head->rows = embedding != NULL ? embedding : pf_arena_take(arena, n_vocab, row_bytes);
}

pf_status pf_head_measure(pf_lm_head *head, pf_team *team, pf_walk *walk, pf_error *error)
{
    return head->kind == PF_HEAD_BOUNDED ? pf_bounded_head_measure(head, team, walk, error) : PF_OK;
}

size_t pf_head_measured_bytes(const pf_lm_head *head)
{
    return head->kind == PF_HEAD_BOUNDED ? (size_t)head->n_vocab * (size_t)head->hidden : 0;
}

const pf_gemm *pf_head_gemm(const pf_lm_head *head)
{
    return &head->kernels->gemm[head->format][head->act];
}

const pf_kernel *pf_head_product(const pf_lm_head *head, const pf_linear *linear)
{
    return linear == &head->coarse ? head->kernels->chosen_gemm[PF_FORMAT_INT8][PF_ACT_INT8]
                                   : head->kernels->chosen_gemm[head->format][head->act];
}

const char *pf_head_matrix_reason(const pf_lm_head *head, const pf_linear *linear)
{
    if (linear == &head->coarse)
        return "the head is bounded: this copy selects the tokens that may have the largest logit";
    if (head->kind == PF_HEAD_SCREENED) return "the head is screened: its best logits are recomputed";
    return NULL;
}

const char *pf_head_rows_reason(const pf_lm_head *head, bool are_embedding)
{
    if (head->kind != PF_HEAD_SCREENED) return NULL;
    return are_embedding ? "rows are looked up, and give the best logits of the screened head"
                         : "rows give the best logits of the screened head";
}

/* ---- a pass ------------------------------------------------------------------------------------------------------ */

void pf_head_lay_out_pass(const pf_lm_head *head, int32_t n_threads, pf_arena *arena, pf_head_pass *pass)
{
    if (head->kind == PF_HEAD_BOUNDED) pf_bounded_head_lay_out_pass(head, n_threads, arena, pass);
}

void pf_head_plan(const pf_lm_head *head, pf_head_pass *pass, int32_t n_rows, int32_t best_of)
{
    pass->best_of = head->kind == PF_HEAD_BOUNDED && pf_bounded_head_suits(pass, n_rows) ? best_of : 0;
}

void pf_head_find_best(const pf_lm_head *head, pf_head_pass *pass, const pf_head_rows *rows)
{
    pf_bounded_head_find_best(head, pass, rows);
}

void pf_head_refine(const pf_lm_head *head, const pf_head_rows *rows)
{
    if (head->kind == PF_HEAD_SCREENED) pf_screened_head_refine(head, rows);
}

int32_t pf_head_best(const pf_head_pass *pass, int32_t n_threads, int32_t i)
{
    return pf_bounded_head_best(pass, n_threads, i);
}

int32_t pf_head_find_invalid(const pf_head_pass *pass, int32_t n_threads, int32_t i)
{
    return pf_bounded_head_find_invalid(pass, n_threads, i);
}

void pf_head_end(const pf_lm_head *head, pf_head_pass *pass, int32_t n_threads)
{
    if (head->kind == PF_HEAD_BOUNDED) pf_bounded_head_end(head, pass, n_threads);
}
