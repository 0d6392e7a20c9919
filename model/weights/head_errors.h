/*
 * Measures how far the logits of the INT8 copy of the LM head may be from those of the LM head, for a bounded head
 * (model/head/bounded_head.h). Internal to model/.
 *
 * A row x of activations is multiplied with the INT8 copy as two rows of int8, its rounded values and what they lose. Together
 * they stand for x', which differs from x by at most |x| * grain, grain = 1.001 * sqrt(k) / 254^2. With W a row of the LM head
 * and Q its INT8 copy:
 *
 *      | Q x' - W x |  <=  |Q - W| |x'| + |W| |x' - x|  <=  |x| ( |Q - W| (1 + grain) + |W| grain )
 *
 * by the Cauchy-Schwarz inequality. Rounding of floats, in both products and in the sums of the bounds, adds at most
 * |x| (|Q - W| + |W|) (k + 64) 2^-23: a chain of k fused multiply-adds has at most k roundings (Higham, Accuracy and Stability
 * of Numerical Algorithms, 3.1), and the same again is allowed for. Denormal numbers, which VDPBF16PS flushes, add less than
 * k 2^-80 max(1, |W|) |x|, for |x| of 2^-40 or more. The sum of all that, for |x| = 1, is error[i]. It is infinite where W is not
 * finite or very large: such a row is always a candidate.
 */
#ifndef PF_MODEL_HEAD_ERRORS_H
#define PF_MODEL_HEAD_ERRORS_H

#include "model/files/walk.h"
#include "model/weights/weights.h"

/* Fills model->head_error from the packed LM head and its packed INT8 copy, as the last step of a load. PF_CANCELLED. */
PF_MUST_USE pf_status pf_head_errors_measure(pf_model *model, pf_team *team, pf_walk *walk, pf_error *error);

/* The progress that it counts for, in bytes of the walk: one per weight of the LM head. 0: the head is not bounded. */
size_t pf_head_errors_bytes(const pf_model *model);

/* The squares that error[i] is made of, |Q - W|^2 and |W|^2, summed by ascending k. */
typedef struct {
    double off, weight;
} pf_head_sums;

/* The sums of one row, the definition; w, q: [hidden] of scratch. And of all rows of a panel at once, with the same bits; those
 * of rows that pad the panel are meaningless. */
pf_head_sums pf_head_errors_of_row(const pf_model *model, int32_t row, float *w, float *q);
void pf_head_errors_of_panel(const pf_model *model, int32_t panel, pf_head_sums out[PF_GEMM_PANEL]);

#endif
