/*
 * A screened head: approximate logits of a four-bit matrix, the best few of which are computed again from BF16 rows
 * (kernels/sample/rescore.h). It reads a quarter of the bytes of BF16.
 */
#ifndef PF_MODEL_SCREENED_HEAD_H
#define PF_MODEL_SCREENED_HEAD_H

#include "model/head/head.h"

/* This thread's share of the rows: computes their best logits again. All logits must have been computed. */
void pf_screened_head_refine(const pf_lm_head *head, const pf_head_rows *rows);

#endif
