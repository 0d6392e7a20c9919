#include "metrics/metrics.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pf_counter {
    _Atomic uint64_t value;
};

struct pf_gauge {
    _Atomic uint64_t bits; /* of a double */
};

struct pf_histogram {
    const double *bounds; /* [n_bounds] */
    int32_t n_bounds;
    double unit;
    _Atomic uint64_t sum;
    _Atomic uint64_t *counts; /* [n_bounds + 1] of each bucket alone */
};

typedef enum { COUNTER, GAUGE, HISTOGRAM } metric_kind;

typedef struct series {
    struct series *next;
    char *labels; /* name="value",name="value": as it is printed, without braces */
    union {
        pf_counter counter;
        pf_gauge gauge;
        pf_histogram histogram;
    };
} series;

typedef struct family {
    struct family *next;
    char *name, *help;
    metric_kind kind;
    series *first, **end;
} family;

struct pf_metrics {
    pthread_mutex_t lock; /* of the lists; series that are in them are updated without it */
    family *first, **end;
};

/* ---- names and labels ------------------------------------------------------------------------------------------- */

static bool is_name_start(char c, bool colons)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (colons && c == ':');
}

static bool is_name(const char *name, bool colons)
{
    if (!name || !is_name_start(name[0], colons)) return false;
    for (const char *c = name + 1; *c; c++)
        if (!is_name_start(*c, colons) && (*c < '0' || *c > '9')) return false;
    return true;
}

static pf_status check_spec(const pf_metric_spec *spec, pf_error *error)
{
    if (!is_name(spec->name, true))
        return pf_fail(error, PF_INVALID, "\"%s\" is no name of a metric", spec->name ? spec->name : "");
    for (int32_t i = 0; i < spec->n_labels; i++)
        if (!is_name(spec->labels[i].name, false))
            return pf_fail(error, PF_INVALID, "%s: \"%s\" is no name of a label", spec->name,
                           spec->labels[i].name ? spec->labels[i].name : "");
    return PF_OK;
}

/* A label's value, or a help, with its escapes. */
static void print_escaped(FILE *out, const char *text, size_t max_bytes, bool quotes)
{
    for (size_t i = 0; text[i] && i < max_bytes; i++) {
        if (text[i] == '\n')
            fputs("\\n", out);
        else if (text[i] == '\\' || (quotes && text[i] == '"'))
            fprintf(out, "\\%c", text[i]);
        else
            fputc(text[i], out);
    }
}

/* NULL: no memory. */
static char *print_labels(const pf_metric_spec *spec)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    if (!out) return NULL;
    for (int32_t i = 0; i < spec->n_labels; i++) {
        fprintf(out, "%s%s=\"", i > 0 ? "," : "", spec->labels[i].name);
        print_escaped(out, spec->labels[i].value, PF_METRIC_LABEL_BYTES, true);
        fputc('"', out);
    }
    if (fclose(out) == 0) return text;
    free(text);
    return NULL;
}

/* ---- adding ------------------------------------------------------------------------------------------------------ */

static void free_family(family *f)
{
    for (series *s = f->first, *next; s; s = next) {
        next = s->next;
        if (f->kind == HISTOGRAM) free(s->histogram.counts);
        free(s->labels);
        free(s);
    }
    free(f->name);
    free(f->help);
    free(f);
}

static family *add_family(pf_metrics *metrics, const pf_metric_spec *spec, metric_kind kind)
{
    family *f = calloc(1, sizeof *f);
    if (!f) return NULL;
    f->kind = kind;
    f->end = &f->first;
    f->name = strdup(spec->name);
    f->help = strdup(spec->help ? spec->help : "");
    if (!f->name || !f->help) {
        free_family(f);
        return NULL;
    }
    *metrics->end = f;
    metrics->end = &f->next;
    return f;
}

static family *find_family(const pf_metrics *metrics, const char *name)
{
    for (family *f = metrics->first; f; f = f->next)
        if (strcmp(f->name, name) == 0) return f;
    return NULL;
}

/* The series of these labels, which it takes over, or a new one; NULL: no memory. */
static series *find_or_add_series(family *f, char *labels, int32_t n_bounds, bool *is_new)
{
    for (series *s = f->first; s; s = s->next) {
        if (strcmp(s->labels, labels) != 0) continue;
        free(labels);
        return s;
    }
    series *s = calloc(1, sizeof *s);
    _Atomic uint64_t *counts = f->kind == HISTOGRAM ? calloc((size_t)n_bounds + 1, sizeof *counts) : NULL;
    if (!s || (f->kind == HISTOGRAM && !counts)) {
        free(s);
        free(counts);
        free(labels);
        return NULL;
    }
    if (counts) s->histogram.counts = counts;
    s->labels = labels;
    *is_new = true;
    return s;
}

static pf_status add_locked(pf_metrics *metrics, const pf_metric_spec *spec, metric_kind kind, const pf_histogram *plan,
                            series **out, pf_error *error)
{
    family *f = find_family(metrics, spec->name);
    if (f && f->kind != kind) return pf_fail(error, PF_INVALID, "%s has another kind already", spec->name);
    char *labels = print_labels(spec);
    if (labels && !f) f = add_family(metrics, spec, kind);
    if (!labels || !f) {
        free(labels);
        return pf_fail(error, PF_NOMEM, "no memory for the metric %s", spec->name);
    }
    bool is_new = false;
    series *s = find_or_add_series(f, labels, plan ? plan->n_bounds : 0, &is_new);
    if (!s) return pf_fail(error, PF_NOMEM, "no memory for the metric %s", spec->name);
    if (is_new && plan) {
        s->histogram.bounds = plan->bounds;
        s->histogram.n_bounds = plan->n_bounds;
        s->histogram.unit = plan->unit;
    }
    if (is_new) {
        *f->end = s;
        f->end = &s->next;
    }
    *out = s;
    return PF_OK;
}

static pf_status add(pf_metrics *metrics, const pf_metric_spec *spec, metric_kind kind, const pf_histogram *plan,
                     series **out, pf_error *error)
{
    PF_TRY(check_spec(spec, error));
    pthread_mutex_lock(&metrics->lock);
    const pf_status status = add_locked(metrics, spec, kind, plan, out, error);
    pthread_mutex_unlock(&metrics->lock);
    return status;
}

pf_status pf_metrics_counter(pf_metrics *metrics, const pf_metric_spec *spec, pf_counter **out, pf_error *error)
{
    series *s;
    PF_TRY(add(metrics, spec, COUNTER, NULL, &s, error));
    *out = &s->counter;
    return PF_OK;
}

pf_status pf_metrics_gauge(pf_metrics *metrics, const pf_metric_spec *spec, pf_gauge **out, pf_error *error)
{
    series *s;
    PF_TRY(add(metrics, spec, GAUGE, NULL, &s, error));
    *out = &s->gauge;
    return PF_OK;
}

pf_status pf_metrics_histogram(pf_metrics *metrics, const pf_metric_spec *spec, const double *bounds, int32_t n_bounds,
                               double unit, pf_histogram **out, pf_error *error)
{
    const pf_histogram plan = { .bounds = bounds, .n_bounds = n_bounds, .unit = unit };
    for (int32_t i = 1; i < n_bounds; i++)
        if (!(bounds[i] > bounds[i - 1]))
            return pf_fail(error, PF_INVALID, "%s: bound %d is %g, expected more than %g", spec->name, i, bounds[i],
                           bounds[i - 1]);
    series *s;
    PF_TRY(add(metrics, spec, HISTOGRAM, &plan, &s, error));
    *out = &s->histogram;
    return PF_OK;
}

/* ---- updates ------------------------------------------------------------------------------------------------------ */

void pf_counter_add(pf_counter *counter, uint64_t n)
{
    atomic_fetch_add_explicit(&counter->value, n, memory_order_relaxed);
}

void pf_counter_set(pf_counter *counter, uint64_t total)
{
    atomic_store_explicit(&counter->value, total, memory_order_relaxed);
}

uint64_t pf_counter_get(const pf_counter *counter)
{
    return atomic_load_explicit(&counter->value, memory_order_relaxed);
}

void pf_gauge_set(pf_gauge *gauge, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    atomic_store_explicit(&gauge->bits, bits, memory_order_relaxed);
}

double pf_gauge_get(const pf_gauge *gauge)
{
    const uint64_t bits = atomic_load_explicit(&gauge->bits, memory_order_relaxed);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

void pf_histogram_add(pf_histogram *histogram, uint64_t sum, uint64_t n)
{
    if (n == 0) return;
    const double mean = (double)sum / (double)n * histogram->unit;
    int32_t bucket = 0;
    while (bucket < histogram->n_bounds && mean > histogram->bounds[bucket]) bucket++;
    atomic_fetch_add_explicit(&histogram->counts[bucket], n, memory_order_relaxed);
    atomic_fetch_add_explicit(&histogram->sum, sum, memory_order_relaxed);
}

/* ---- printing ------------------------------------------------------------------------------------------------------ */

/* The shortest form that reads back as the same number; a whole one with ".0". */
static void print_number(FILE *out, double value)
{
    char text[32];
    if (!isfinite(value)) {
        fputs(isnan(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf", out);
        return;
    }
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    fprintf(out, strpbrk(text, ".e") ? "%s" : "%s.0", text);
}

static void print_series(FILE *out, const char *name, const char *suffix, const char *labels)
{
    fprintf(out, labels[0] ? "%s%s{%s} " : "%s%s ", name, suffix, labels);
}

/* The count is that of the buckets as they were read, so that the two always agree. */
static void print_histogram(FILE *out, const char *name, const char *labels, const pf_histogram *h)
{
    uint64_t n = 0;
    for (int32_t i = 0; i <= h->n_bounds; i++) {
        n += atomic_load_explicit(&h->counts[i], memory_order_relaxed);
        fprintf(out, "%s_bucket{%s%sle=\"", name, labels, labels[0] ? "," : "");
        print_number(out, i < h->n_bounds ? h->bounds[i] : (double)INFINITY);
        fprintf(out, "\"} %" PRIu64 "\n", n);
    }
    print_series(out, name, "_sum", labels);
    print_number(out, (double)atomic_load_explicit(&h->sum, memory_order_relaxed) * h->unit);
    fputc('\n', out);
    print_series(out, name, "_count", labels);
    fprintf(out, "%" PRIu64 "\n", n);
}

static void print_family(FILE *out, const family *f)
{
    static const char *const kinds[] = { "counter", "gauge", "histogram" };
    fprintf(out, "# HELP %s ", f->name);
    print_escaped(out, f->help, SIZE_MAX, false);
    fprintf(out, "\n# TYPE %s %s\n", f->name, kinds[f->kind]);
    for (const series *s = f->first; s; s = s->next) {
        if (f->kind == HISTOGRAM) {
            print_histogram(out, f->name, s->labels, &s->histogram);
            continue;
        }
        print_series(out, f->name, "", s->labels);
        if (f->kind == COUNTER)
            fprintf(out, "%" PRIu64, pf_counter_get(&s->counter));
        else
            print_number(out, pf_gauge_get(&s->gauge));
        fputc('\n', out);
    }
}

/* Numbers have a point, whatever the process's locale has. */
static void print_all(pf_metrics *metrics, FILE *out)
{
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    const locale_t before = plain ? uselocale(plain) : (locale_t)0;
    pthread_mutex_lock(&metrics->lock);
    for (const family *f = metrics->first; f; f = f->next) print_family(out, f);
    pthread_mutex_unlock(&metrics->lock);
    if (!plain) return;
    (void)uselocale(before);
    freelocale(plain);
}

pf_status pf_metrics_print(pf_metrics *metrics, char *out, size_t capacity, size_t *n_bytes)
{
    char *text = NULL;
    size_t n = 0;
    FILE *stream = open_memstream(&text, &n);
    if (!stream) return PF_NOMEM;
    print_all(metrics, stream);
    const bool failed = ferror(stream) != 0;
    if (fclose(stream) != 0 || failed) {
        free(text);
        return PF_NOMEM;
    }
    if (capacity > 0) memcpy(out, text, n < capacity ? n : capacity);
    free(text);
    *n_bytes = n;
    return PF_OK;
}

/* ---- creation and end --------------------------------------------------------------------------------------------- */

pf_status pf_metrics_create(pf_metrics **out)
{
    pf_metrics *metrics = calloc(1, sizeof *metrics);
    if (!metrics) return PF_NOMEM;
    pthread_mutex_init(&metrics->lock, NULL);
    metrics->end = &metrics->first;
    *out = metrics;
    return PF_OK;
}

void pf_metrics_destroy(pf_metrics *metrics)
{
    if (!metrics) return;
    for (family *f = metrics->first, *next; f; f = next) {
        next = f->next;
        free_family(f);
    }
    pthread_mutex_destroy(&metrics->lock);
    free(metrics);
}
