/* Medians, percentiles and shares of what was measured. */
#ifndef PF_BENCH_STATISTICS_H
#define PF_BENCH_STATISTICS_H

#include <stddef.h>

#include "engine/pilotfish.h"

/* The value at `share` (0 .. 1) of values [n], between its neighbours by proportion; sorts them. n = 0: NaN. */
double pf_percentile(double *values, size_t n, double share);

/* Values as they come. More than there is room for are not kept. */
enum { PF_MAX_SAMPLES = 4096 };
typedef struct {
    double values[PF_MAX_SAMPLES];
    size_t n;
} pf_samples;

void pf_samples_add(pf_samples *samples, double value);
double pf_samples_median(pf_samples *samples); /* sorts them; NaN: there are none */

/* Accepted tokens of those drafted; the tokens that a round commits, the target's own included. NaN when there were none. */
double pf_speculation_acceptance_rate(const pf_speculation *speculation);
double pf_speculation_mean_length(const pf_speculation *speculation);

/* A percentile of the round trips that a request's ring still holds, in microseconds; NaN when there were none. */
double pf_rpc_percentile(const pf_speculation *speculation, double share);

#endif
