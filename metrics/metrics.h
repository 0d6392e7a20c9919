/*
 * Counts events and measures times by counters, gauges and histograms, and prints them in Prometheus' text format.
 *
 *      registry (pf_metrics)   family  vllm:request_success_total  counter   series {model_name="m",finished_reason="stop"}  12
 *                                                                            series {model_name="m",finished_reason="length"} 3
 *
 * A series is added once, at the start, and then updated by any thread without a lock: an update is one atomic addition or store (a
 * histogram's is three). Series are never removed, so their number is bounded by what the program adds.
 *
 * Source: "Exposition formats", Prometheus documentation, text format 0.0.4.
 *
 * Threads: any, for every function but pf_metrics_destroy.
 */
#ifndef PF_METRICS_METRICS_H
#define PF_METRICS_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "include/pilotfish.h"

typedef struct pf_counter pf_counter;
typedef struct pf_gauge pf_gauge;
typedef struct pf_histogram pf_histogram;

enum { PF_METRIC_MAX_LABELS = 4, PF_METRIC_LABEL_BYTES = 160 };

typedef struct {
    const char *name, *value; /* any bytes but NUL; a longer value is cut to PF_METRIC_LABEL_BYTES */
} pf_metric_label;

/* Which series: copied. Series of one name have one help and one kind. */
typedef struct {
    const char *name; /* [a-zA-Z_:][a-zA-Z0-9_:]*; a counter's ends in _total */
    const char *help; /* one sentence; of the first series of a name it is printed */
    pf_metric_label labels[PF_METRIC_MAX_LABELS];
    int32_t n_labels;
} pf_metric_spec;

/* The series, made where there is none of these labels yet; it belongs to the registry.
 * PF_INVALID: a name is not valid, or has another kind already.  PF_NOMEM. */
PF_MUST_USE pf_status pf_metrics_counter(pf_metrics *metrics, const pf_metric_spec *spec, pf_counter **out,
                                         pf_error *error);
PF_MUST_USE pf_status pf_metrics_gauge(pf_metrics *metrics, const pf_metric_spec *spec, pf_gauge **out,
                                       pf_error *error);

/* bounds: [n_bounds] ascending upper ends of its buckets, in printed units, static; above them is one bucket more. unit: what 1 of
 * an observed value is printed as (1e-9: nanoseconds as seconds). */
PF_MUST_USE pf_status pf_metrics_histogram(pf_metrics *metrics, const pf_metric_spec *spec, const double *bounds,
                                           int32_t n_bounds, double unit, pf_histogram **out, pf_error *error);

void pf_counter_add(pf_counter *counter, uint64_t n);
void pf_counter_set(pf_counter *counter, uint64_t total); /* where its owner counts itself: it must not go down */
uint64_t pf_counter_get(const pf_counter *counter);

void pf_gauge_set(pf_gauge *gauge, double value);
double pf_gauge_get(const pf_gauge *gauge);

/* n observations whose values add up to `sum`: each is in the bucket of their mean. n 0: none. */
void pf_histogram_add(pf_histogram *histogram, uint64_t sum, uint64_t n);

#endif
