/*
 * Reads Prometheus' text format, strictly: what `pilotfish top` shows of any server, and what the tests read.
 *
 *      # TYPE name counter
 *      name{label="value",...} 1.5 [milliseconds]
 *
 * Every line must be a comment, empty, or a sample, and end with a line feed. Bounds: 16 labels, names of 200 bytes, values of 1000.
 * Source: "Exposition formats", Prometheus documentation, text format 0.0.4.
 */
#ifndef PF_METRICS_METRICS_TEXT_H
#define PF_METRICS_METRICS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { PF_SAMPLE_MAX_LABELS = 16, PF_SAMPLE_NAME_BYTES = 201, PF_SAMPLE_VALUE_BYTES = 1001 };

typedef struct {
    char name[PF_SAMPLE_NAME_BYTES];
    struct {
        char name[PF_SAMPLE_NAME_BYTES], value[PF_SAMPLE_VALUE_BYTES]; /* without escapes */
    } labels[PF_SAMPLE_MAX_LABELS];
    int32_t n_labels;
    double value;
} pf_metric_sample;

/* What is found. Either may be NULL. Names are borrowed for the call. */
typedef struct {
    void (*on_type)(void *user, const char *name, const char *kind);
    void (*on_sample)(void *user, const pf_metric_sample *sample);
    void *user;
} pf_metrics_reader;

/* text [n_bytes]. PF_FORMAT: the sentence names the line and what was expected.  PF_LIMIT: beyond a bound.  PF_NOMEM. */
PF_MUST_USE pf_status pf_metrics_read(const char *text, size_t n_bytes, const pf_metrics_reader *reader,
                                      pf_error *error);

/* The value of a label; NULL: the sample has none of that name. */
const char *pf_metric_sample_label(const pf_metric_sample *sample, const char *name);

#endif
