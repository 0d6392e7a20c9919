/* Medians, means, percentiles and ratios of samples. */
#ifndef PF_BENCH_STATISTICS_H
#define PF_BENCH_STATISTICS_H

#include <stddef.h>

#include "include/pilotfish.h"

/* The value at `share` (0 .. 1) of values [n], between its neighbours by proportion; sorts them. n = 0: NaN. */
double pf_percentile(double *values, size_t n, double share);

/* The median of values [n], the least and the greatest; NaN where n = 0. Those that are no number are left out. n: at most
 * PF_SPREAD_VALUES. */
enum { PF_SPREAD_VALUES = 64 };
typedef struct {
    double median, least, most;
} pf_spread;
pf_spread pf_spread_of(const double *values, size_t n);

/* Samples in order, thinned to every 2nd, 4th, ... when the array is full, so that the kept ones are spread evenly over the
 * measurement. Zeroed is empty. */
enum { PF_MAX_SAMPLES = 4096 };
typedef struct {
    double values[PF_MAX_SAMPLES];
    size_t n;        /* kept */
    size_t n_seen;   /* added */
    size_t distance; /* between two kept samples, in added samples; 0: 1 */
} pf_samples;

void pf_samples_add(pf_samples *samples, double value);
void pf_samples_clear(pf_samples *samples);
double pf_samples_median(pf_samples *samples);     /* sorts them; NaN: there are none */
double pf_samples_mean(const pf_samples *samples); /* likewise */

/* Accepted tokens of those drafted; the tokens that a round commits, the target's own included. NaN when there were none. */
double pf_speculation_acceptance_rate(const pf_speculation *speculation);
double pf_speculation_mean_length(const pf_speculation *speculation);

/* A percentile of the round trips that a request's ring still holds, in microseconds; NaN when there were none. */
double pf_rpc_percentile(const pf_speculation *speculation, double share);

/* Likewise of the times from a verdict to the proposal that was drafted ahead for it. */
double pf_hit_percentile(const pf_speculation *speculation, double share);

#endif
