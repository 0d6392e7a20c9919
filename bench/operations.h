/*
 * How many operations a pass is made of, two a multiply-add: what its time is measured against.
 *
 * Counted is what runs, not what a textbook has: behind the last attention only the rows whose logits are wanted go on
 * (forward.c), so a prompt's others have no output projection and no feed-forward block in the last layer.
 */
#ifndef PF_BENCH_OPERATIONS_H
#define PF_BENCH_OPERATIONS_H

#include <stdint.h>

#include "model/config/config.h"

/* Of products and attention: n_rows rows of one sequence behind n_before positions, each with the keys that it sees
 * (those before, those of the rows before it, its own), and logits for the last n_logits of them. */
double pf_pass_operations(const pf_config *config, int32_t n_before, int32_t n_rows, int32_t n_logits);

#endif
