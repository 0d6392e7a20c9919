#include "model/head/screened_head.h"

void pf_screened_head_refine(const pf_lm_head *head, const pf_head_rows *rows)
{
    int32_t begin, end;
    pf_team_share(rows->member, rows->n_rows, &begin, &end);
    for (int32_t i = begin; i < end; i++)
        head->kernels->rescore(pf_row(rows->logits, i), head->n_vocab, pf_row(rows->normed, i), head->rows,
                               head->hidden);
}
