/*
 * A bounded head: which token has the largest logit, without all of the head's product, and still exactly.
 *
 * The head is there twice, in the model's own format and in INT8, half the bytes of BF16. A row x is multiplied with the
 * second, and from the errors of that (kernels/sample/bounds.h) follows which panels of the first may hold the largest
 * logit: a few, and these are multiplied as they always are. So the largest logit has the bits that a full head gives it,
 * and whoever asks for the best token alone, a greedy target, is told the same one.
 *
 * x goes in as two rows of int8, what int8 keeps of it and what it loses (split); together they stand for x', at most
 * |x| * grain from it, grain = 1.001 * sqrt(k) / 254^2. With W a row of the head, Q what INT8 makes of it:
 *
 *      | Q x' - W x |  <=  |Q - W| |x'| + |W| |x' - x|  <=  |x| ( |Q - W| (1 + grain) + |W| grain )
 *
 * by Cauchy and Schwarz. What floats add, in either product and in the sums of the bounds, is at most
 * |x| (|Q - W| + |W|) (k + 64) 2^-23: no chain of k fused multiply-adds has more than k roundings (Higham, Accuracy and
 * Stability of Numerical Algorithms, 3.1), and as much again is allowed for. What VDPBF16PS makes of denormal numbers is
 * below k 2^-80 max(1, |W|) |x|, |x| being 2^-40 or more. All that, for |x| = 1, is error[i]. It is infinite where W
 * holds something that is no number, or is very large: such a row is always looked at.
 */
#ifndef PF_MODEL_BOUNDED_HEAD_H
#define PF_MODEL_BOUNDED_HEAD_H

#include "model/forward/pass.h"
#include "model/files/walk.h"

/* Fill model->head_error from its two heads, which are packed: the walk's last step. PF_CANCELLED: it was to end. */
PF_MUST_USE pf_status pf_bounded_head_measure(pf_model *model, pf_team *team, pf_walk *walk, pf_error *error);

/* What that counts for in the walk: a byte a number of the head. 0: the model has no bounded one. */
size_t pf_bounded_head_measured_bytes(const pf_model *model);

/* What error[i] is made of, squares of |Q - W| and |W|, summed by ascending k. */
typedef struct {
    double off, weight;
} pf_head_sums;

/* Of a row, the definition; w, q: [hidden] of scratch. And of all rows of a panel at once, the same ones bit by bit; of
 * rows that fill the panel they mean nothing. */
pf_head_sums pf_bounded_head_sums_of_row(const pf_model *model, int32_t row, float *w, float *q);
void pf_bounded_head_sums(const pf_model *model, int32_t panel, pf_head_sums out[PF_GEMM_PANEL]);

/* Whether the pass at hand may go this way: there are rows, few of them, and it was not in vain lately. */
bool pf_bounded_head_is_for(const pf_context *context);

/* A member's part, by all members of the pass, of n_rows rows, `normed` and packed as `input`. Of the context's logits only
 * those are written that may be the largest of the first best_of. */
void pf_bounded_head_run(const pf_context *context, pf_member member, pf_rows normed, const void *input,
                         int32_t n_rows);

/* Then, the best of row i: as pf_context_best. */
int32_t pf_bounded_head_best(const pf_context *context, int32_t i);

/* The pass is over: where much was computed anew, the next ones go the other way. */
void pf_bounded_head_note(pf_context *context);

#endif
