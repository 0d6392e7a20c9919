/* Medians, percentiles, shares. */
#include "bench/statistics.h"

#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double pf_percentile(double *values, size_t n, double share)
{
    if (n == 0) return NAN;
    qsort(values, n, sizeof *values, compare);
    const double at = share * (double)(n - 1);
    const size_t below = (size_t)at;
    const size_t above = below + 1 < n ? below + 1 : below;
    return values[below] + (at - (double)below) * (values[above] - values[below]);
}

pf_spread pf_spread_of(const double *values, size_t n)
{
    double numbers[PF_SPREAD_VALUES];
    size_t n_numbers = 0;
    for (size_t i = 0; i < n && n_numbers < PF_SPREAD_VALUES; i++)
        if (!isnan(values[i])) numbers[n_numbers++] = values[i];
    if (n_numbers == 0) return (pf_spread){ NAN, NAN, NAN };
    const double median = pf_percentile(numbers, n_numbers, 0.5);
    return (pf_spread){ median, numbers[0], numbers[n_numbers - 1] };
}

void pf_samples_add(pf_samples *samples, double value)
{
    const size_t distance = samples->distance ? samples->distance : 1;
    if (samples->n_seen++ % distance != 0) return;
    if (samples->n == PF_MAX_SAMPLES) {
        samples->n /= 2;
        samples->distance = 2 * distance;
        for (size_t i = 0; i < samples->n; i++) samples->values[i] = samples->values[2 * i];
    }
    samples->values[samples->n++] = value;
}

void pf_samples_clear(pf_samples *samples)
{
    samples->n = samples->n_seen = samples->distance = 0;
}

double pf_samples_median(pf_samples *samples)
{
    return pf_percentile(samples->values, samples->n, 0.5);
}

double pf_samples_mean(const pf_samples *samples)
{
    double sum = 0;
    for (size_t i = 0; i < samples->n; i++) sum += samples->values[i];
    return samples->n > 0 ? sum / (double)samples->n : NAN;
}

double pf_speculation_acceptance_rate(const pf_speculation *s)
{
    return s->drafted > 0 ? (double)s->accepted / (double)s->drafted : NAN;
}

double pf_speculation_mean_length(const pf_speculation *s)
{
    return s->rounds > 0 ? 1.0 + (double)s->accepted / (double)s->rounds : NAN;
}

static double ring_percentile(const uint32_t *ring, int64_t n_samples, double share)
{
    const size_t n = (size_t)(n_samples < PF_RPC_SAMPLES ? n_samples : PF_RPC_SAMPLES);
    double values[PF_RPC_SAMPLES];
    for (size_t i = 0; i < n; i++) values[i] = ring[i];
    return pf_percentile(values, n, share);
}

double pf_rpc_percentile(const pf_speculation *speculation, double share)
{
    return ring_percentile(speculation->rpc_us, speculation->n_rpc, share);
}

double pf_hit_percentile(const pf_speculation *speculation, double share)
{
    return ring_percentile(speculation->hit_us, speculation->ahead_hits, share);
}
