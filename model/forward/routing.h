/*
 * Chooses the experts of each row, and sorts the rows by expert. Pure, and internal to model/.
 *
 *      row 0: experts 1, 4        place   0       1       2       3       4       5
 *      row 1: experts 0, 4        row     1       0       2       0       1       2        each expert's rows ascend
 *      row 2: experts 1, 4        expert  0     | 1             | 4                |
 *
 * A row's experts and weights depend on its own logits alone.
 * Sources: Shazeer et al., arXiv:1701.06538, section 2.1 (top k, softmax of the chosen); Fedus et al., arXiv:2101.03961,
 * section 2.1 (softmax of all).
 */
#ifndef PF_MODEL_ROUTING_H
#define PF_MODEL_ROUTING_H

#include "base/arena.h"
#include "model/config/plan.h"
#include "model/linear.h"

typedef struct {
    int32_t *experts; /* [max_rows, n_used] of each row, ascending */
    float *weights;   /* [max_rows, n_used] of these */
    float *shared;    /* [max_rows] the weight of the shared expert; 1 where it has no gate */
    int32_t *
        places; /* [max_rows, n_used] where the row stands among the rows of that expert, counted through all experts */
    int32_t *rows;  /* [max_rows * n_used] the row at each place */
    int32_t *first; /* [n_experts + 1] the first place of each expert */
} pf_routing;

void pf_routing_lay_out(const pf_plan *plan, int32_t max_rows, pf_arena *arena, pf_routing *out);

/* Fills experts, weights and shared of rows [begin, end) from the router's logits: [rows, n_experts], and behind them that of the
 * shared expert's gate where it has one. The largest logits win, the lower index of equals; what is no number loses, but n_used
 * distinct experts are chosen always. */
void pf_routing_choose(const pf_plan *plan, pf_rows logits, int32_t begin, int32_t end, pf_routing *out);

/* Fills places, rows and first for n_rows chosen rows. */
void pf_routing_sort(const pf_plan *plan, int32_t n_rows, pf_routing *out);

#endif
