/*
 * A bounded head: finds the token with the largest logit without the full head's product, and exactly.
 *
 * The head is there twice: in the model's own format, and in INT8, half the bytes of BF16. A row x is multiplied with the
 * second. Bounds of its errors (kernels/sample/bounds.h) tell which panels of the first may hold the largest logit: a few, and
 * these are multiplied as always. So the largest logit has the bits that a full head gives it, and a greedy target, which wants
 * the best token alone, gets the same one.
 *
 * x goes in as two rows of int8: what int8 keeps of it, and what it loses (split). Together they stand for x', at most
 * |x| * grain from it, grain = 1.001 * sqrt(k) / 254^2. With W a row of the head, Q its INT8 form:
 *
 *      | Q x' - W x |  <=  |Q - W| |x'| + |W| |x' - x|  <=  |x| ( |Q - W| (1 + grain) + |W| grain )
 *
 * by Cauchy and Schwarz. What floats add, in either product and in the sums of the bounds, is at most
 * |x| (|Q - W| + |W|) (k + 64) 2^-23: no chain of k fused multiply-adds has more than k roundings (Higham, Accuracy and
 * Stability of Numerical Algorithms, 3.1), and as much again is allowed for. What VDPBF16PS makes of denormal numbers is
 * below k 2^-80 max(1, |W|) |x|, |x| being 2^-40 or more. All that, for |x| = 1, is error[i]. It is infinite where W
 * holds a value that is not a number, or is very large: such a row is always computed.
 */
#ifndef PF_MODEL_BOUNDED_HEAD_H
#define PF_MODEL_BOUNDED_HEAD_H

#include "model/head/head.h"

/* Fills head->error from its two matrices, which are packed. PF_CANCELLED. */
PF_MUST_USE pf_status pf_bounded_head_measure(pf_lm_head *head, pf_team *team, pf_walk *walk, pf_error *error);

/* What error[i] is made of: squares of |Q - W| and |W|, summed by ascending k. */
typedef struct {
    double off, weight;
} pf_head_sums;

/* Of a row, the definition; w, q: [hidden] of scratch. And of all rows of a panel at once, the same bits; of rows that pad
 * the panel they mean nothing. */
pf_head_sums pf_bounded_head_sums_of_row(const pf_lm_head *head, int32_t row, float *w, float *q);
void pf_bounded_head_sums(const pf_lm_head *head, int32_t panel, pf_head_sums out[PF_GEMM_PANEL]);

/* A pass: as head.h has it. */
void pf_bounded_head_lay_out_pass(const pf_lm_head *head, int32_t n_threads, pf_arena *arena, pf_head_pass *pass);
bool pf_bounded_head_suits(const pf_head_pass *pass, int32_t n_rows); /* few rows, and not pausing */
void pf_bounded_head_find_best(const pf_lm_head *head, pf_head_pass *pass, const pf_head_rows *rows);
int32_t pf_bounded_head_best(const pf_head_pass *pass, int32_t n_threads, int32_t i);
int32_t pf_bounded_head_find_invalid(const pf_head_pass *pass, int32_t n_threads, int32_t i);

/* Pauses the bounds for some passes where they have excluded too little. */
void pf_bounded_head_end(const pf_lm_head *head, pf_head_pass *pass, int32_t n_threads);

#endif
