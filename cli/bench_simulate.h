/* `bench acceptance --simulate`: a grid of simulated pairs, without a model. */
#ifndef PF_CLI_BENCH_SIMULATE_H
#define PF_CLI_BENCH_SIMULATE_H

#include "cli/options.h"

/* Returns an exit status. */
int pf_bench_simulate(const pf_command *command, const pf_options *options, pf_out *out);

#endif
