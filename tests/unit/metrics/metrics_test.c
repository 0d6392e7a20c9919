/* What the registry prints is read again by the strict reader: kinds, labels, buckets, numbers; and what the reader refuses. */
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "metrics/metrics.h"
#include "metrics/metrics_text.h"
#include "tests/support/test.h"

/* ---- a reading -------------------------------------------------------------------------------------------------- */

enum { MOST = 64 };

typedef struct {
    pf_metric_sample *samples; /* [n] */
    char kinds[MOST][2][PF_SAMPLE_NAME_BYTES];
    int32_t n, n_kinds;
} reading;

static void on_type(void *user, const char *name, const char *kind)
{
    reading *r = user;
    assert_true(r->n_kinds < MOST);
    for (int32_t i = 0; i < r->n_kinds; i++) assert_string_not_equal(r->kinds[i][0], name); /* each name once */
    snprintf(r->kinds[r->n_kinds][0], PF_SAMPLE_NAME_BYTES, "%s", name);
    snprintf(r->kinds[r->n_kinds++][1], PF_SAMPLE_NAME_BYTES, "%s", kind);
}

static void on_sample(void *user, const pf_metric_sample *sample)
{
    reading *r = user;
    assert_true(r->n < MOST);
    assert_true(r->n_kinds > 0); /* its TYPE stands before it */
    const char *family = r->kinds[r->n_kinds - 1][0];
    assert_int_equal(strncmp(sample->name, family, strlen(family)), 0);
    r->samples[r->n++] = *sample;
}

static void read_all(pf_metrics *metrics, reading *r)
{
    static char text[1 << 16];
    size_t n = 0;
    pf_error error = { 0 };
    *r = (reading){ .samples = malloc(MOST * sizeof *r->samples) };
    assert_non_null(r->samples);
    assert_int_equal(pf_metrics_print(metrics, text, sizeof text, &n), PF_OK);
    assert_true(n <= sizeof text);
    const pf_metrics_reader reader = { .on_type = on_type, .on_sample = on_sample, .user = r };
    assert_ok(pf_metrics_read(text, n, &reader, &error), error);
}

/* The sample of a name whose label has that value (NULL: any). */
static const pf_metric_sample *find(const reading *r, const char *name, const char *label, const char *value)
{
    for (int32_t i = 0; i < r->n; i++) {
        const char *found = label ? pf_metric_sample_label(&r->samples[i], label) : NULL;
        if (strcmp(r->samples[i].name, name) != 0) continue;
        if (!label || (found && strcmp(found, value) == 0)) return &r->samples[i];
    }
    fail_msg("no sample %s{%s=\"%s\"}", name, label ? label : "", label ? value : "");
    return NULL;
}

static pf_metrics *create(void)
{
    pf_metrics *metrics = NULL;
    assert_int_equal(pf_metrics_create(&metrics), PF_OK);
    return metrics;
}

static pf_counter *add_counter(pf_metrics *metrics, const char *name, const char *label)
{
    const pf_metric_spec spec = { .name = name, .help = "Events.", .labels = { { "kind", label } }, .n_labels = 1 };
    pf_counter *counter = NULL;
    pf_error error = { 0 };
    assert_ok(pf_metrics_counter(metrics, &spec, &counter, &error), error);
    return counter;
}

/* ---- what is printed -------------------------------------------------------------------------------------------- */

static void series_of_one_name_are_one_family(void **state)
{
    (void)state;
    pf_metrics *metrics = create();
    pf_counter *a = add_counter(metrics, "events_total", "a");
    pf_counter *other = add_counter(metrics, "others_total", "a");
    pf_counter *b = add_counter(metrics, "events_total", "b");
    assert_ptr_equal(add_counter(metrics, "events_total", "a"), a); /* the same labels: the same series */
    pf_counter_add(a, 2);
    pf_counter_add(a, 3);
    pf_counter_add(b, UINT64_C(1) << 40);
    pf_counter_add(other, 1);
    reading r;
    read_all(metrics, &r);
    assert_int_equal(r.n_kinds, 2);
    assert_int_equal(r.n, 3);
    assert_string_equal(r.kinds[0][1], "counter");
    assert_true(find(&r, "events_total", "kind", "a")->value == 5.0);
    assert_true(find(&r, "events_total", "kind", "b")->value == 0x1p40);
    free(r.samples);
    pf_metrics_destroy(metrics);
}

static void labels_are_escaped(void **state)
{
    (void)state;
    static const char hostile[] = "a\"b\\c\nd{}=,\xc3\xa9";
    pf_metrics *metrics = create();
    pf_counter_add(add_counter(metrics, "events_total", hostile), 1);
    reading r;
    read_all(metrics, &r);
    assert_true(find(&r, "events_total", "kind", hostile)->value == 1.0);
    free(r.samples);
    pf_metrics_destroy(metrics);
}

static void gauges_keep_their_value_exactly(void **state)
{
    (void)state;
    static const double values[] = { 0.0, 1.0, -1.5, 0.1, 1.0 / 3.0, 1e300, 123456789.0, (double)INFINITY };
    pf_metrics *metrics = create();
    const pf_metric_spec spec = { .name = "level", .help = "A level." };
    pf_gauge *gauge = NULL;
    pf_error error = { 0 };
    assert_ok(pf_metrics_gauge(metrics, &spec, &gauge, &error), error);
    for (size_t i = 0; i < PF_COUNT(values); i++) {
        pf_gauge_set(gauge, values[i]);
        reading r;
        read_all(metrics, &r);
        assert_true(find(&r, "level", NULL, NULL)->value == values[i]);
        free(r.samples);
    }
    pf_metrics_destroy(metrics);
}

static void buckets_are_cumulative_and_end_in_infinity(void **state)
{
    (void)state;
    static const double bounds[] = { 0.001, 0.01, 1.0 };
    pf_metrics *metrics = create();
    const pf_metric_spec spec = {
        .name = "time_seconds", .help = "Times.", .labels = { { "kind", "x" } }, .n_labels = 1
    };
    pf_histogram *times = NULL;
    pf_error error = { 0 };
    assert_ok(pf_metrics_histogram(metrics, &spec, bounds, 3, 1e-9, &times, &error), error);
    pf_histogram_add(times, 1000000, 1);    /* 1 ms: a bound belongs to its bucket */
    pf_histogram_add(times, 10000000, 4);   /* four of 2.5 ms */
    pf_histogram_add(times, 3000000000, 1); /* above them all */
    pf_histogram_add(times, 7, 0);          /* none */
    reading r;
    read_all(metrics, &r);
    assert_string_equal(r.kinds[0][1], "histogram");
    assert_int_equal(r.n, 6);
    assert_true(find(&r, "time_seconds_bucket", "le", "0.001")->value == 1.0);
    assert_true(find(&r, "time_seconds_bucket", "le", "0.01")->value == 5.0);
    assert_true(find(&r, "time_seconds_bucket", "le", "1.0")->value == 5.0);
    assert_true(find(&r, "time_seconds_bucket", "le", "+Inf")->value == 6.0);
    assert_true(find(&r, "time_seconds_count", "kind", "x")->value == 6.0);
    assert_true(fabs(find(&r, "time_seconds_sum", "kind", "x")->value - 3.011) < 1e-9);
    free(r.samples);
    pf_metrics_destroy(metrics);
}

static void numbers_have_a_point_in_every_locale(void **state)
{
    (void)state;
    static const double bounds[] = { 0.5 };
    static const char *const names[] = { "de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8" };
    pf_metrics *metrics = create();
    const pf_metric_spec spec = { .name = "time_seconds", .help = "Times." };
    pf_histogram *times = NULL;
    pf_error error = { 0 };
    assert_ok(pf_metrics_histogram(metrics, &spec, bounds, 1, 1.0, &times, &error), error);
    for (size_t i = 0; i < PF_COUNT(names) && !setlocale(LC_NUMERIC, names[i]); i++) {}
    reading r;
    read_all(metrics, &r);
    (void)find(&r, "time_seconds_bucket", "le", "0.5");
    free(r.samples);
    (void)setlocale(LC_NUMERIC, "C");
    pf_metrics_destroy(metrics);
}

static void names_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static const double falling[] = { 1.0, 0.5 };
    pf_metrics *metrics = create();
    pf_error error = { 0 };
    pf_gauge *gauge = NULL;
    pf_histogram *histogram = NULL;
    (void)add_counter(metrics, "events_total", "a");
    assert_status(pf_metrics_gauge(metrics, &(pf_metric_spec){ .name = "events_total" }, &gauge, &error), PF_INVALID);
    assert_says(error, "has another kind");
    assert_status(pf_metrics_gauge(metrics, &(pf_metric_spec){ .name = "1st" }, &gauge, &error), PF_INVALID);
    assert_status(pf_metrics_gauge(metrics, &(pf_metric_spec){ .name = NULL }, &gauge, &error), PF_INVALID);
    const pf_metric_spec colon = { .name = "level", .labels = { { "a:b", "" } }, .n_labels = 1 };
    assert_status(pf_metrics_gauge(metrics, &colon, &gauge, &error), PF_INVALID);
    const pf_metric_spec times = { .name = "time_seconds" };
    assert_status(pf_metrics_histogram(metrics, &times, falling, 2, 1.0, &histogram, &error), PF_INVALID);
    assert_says(error, "bound 1 is 0.5");
    pf_metrics_destroy(metrics);
    pf_metrics_destroy(NULL);
}

static void a_text_that_is_longer_than_the_room_is_cut(void **state)
{
    (void)state;
    pf_metrics *metrics = create();
    (void)add_counter(metrics, "events_total", "a");
    char whole[256], part[9] = "........";
    size_t n = 0, again = 0;
    assert_int_equal(pf_metrics_print(metrics, whole, sizeof whole, &n), PF_OK);
    assert_int_equal(pf_metrics_print(metrics, part, 4, &again), PF_OK);
    assert_true(again == n);
    assert_memory_equal(part, whole, 4);
    assert_string_equal(part + 4, "....");
    pf_metrics_destroy(metrics);
}

/* ---- threads ------------------------------------------------------------------------------------------------------ */

enum { N_THREADS = 4, N_ADDS = 20000 };

typedef struct {
    pf_counter *counter;
    pf_histogram *histogram;
} shared;

static void *add_many(void *arg)
{
    const shared *s = arg;
    for (int i = 0; i < N_ADDS; i++) {
        pf_counter_add(s->counter, 1);
        pf_histogram_add(s->histogram, 2, 1);
    }
    return NULL;
}

static void no_update_of_several_threads_is_lost(void **state)
{
    (void)state;
    static const double bounds[] = { 1.0, 3.0 };
    pf_metrics *metrics = create();
    pf_error error = { 0 };
    shared s = { .counter = add_counter(metrics, "events_total", "a") };
    const pf_metric_spec spec = { .name = "sizes" };
    assert_ok(pf_metrics_histogram(metrics, &spec, bounds, 2, 1.0, &s.histogram, &error), error);
    pthread_t threads[N_THREADS];
    for (int i = 0; i < N_THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, add_many, &s), 0);
    reading r;
    read_all(metrics, &r); /* meanwhile: count and buckets agree */
    assert_true(find(&r, "sizes_bucket", "le", "+Inf")->value == find(&r, "sizes_count", NULL, NULL)->value);
    free(r.samples);
    for (int i = 0; i < N_THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    read_all(metrics, &r);
    assert_true(find(&r, "events_total", "kind", "a")->value == N_THREADS * N_ADDS);
    assert_true(find(&r, "sizes_bucket", "le", "3.0")->value == N_THREADS * N_ADDS);
    assert_true(find(&r, "sizes_sum", NULL, NULL)->value == 2.0 * N_THREADS * N_ADDS);
    free(r.samples);
    pf_metrics_destroy(metrics);
}

/* ---- the reader --------------------------------------------------------------------------------------------------- */

static pf_status read_text(const char *text, pf_error *error)
{
    const pf_metrics_reader reader = { .user = NULL };
    return pf_metrics_read(text, strlen(text), &reader, error);
}

static void lines_that_are_malformed_are_refused_with_their_number(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        { "x 1\ny", "line 2: expected a line feed" },
        { "x 1\n2x 1\n", "line 2: expected a name" },
        { "x\n", "expected a space before the value" },
        { "x one\n", "expected a number" },
        { "x 0x10\n", "expected a number" },
        { "x 1 2 3\n", "expected the end of the line" },
        { "x{a=\"b} 1\n", "expected the end of a label's value" },
        { "x{a=\"\\t\"} 1\n", "expected an escape" },
        { "x{a=\"b\" c=\"d\"} 1\n", "expected , or }" },
        { "x{a=\"b\",a=\"c\"} 1\n", "expected each label once" },
        { "x{a:b=\"c\"} 1\n", "expected = behind" },
        { "# TYPE x pie\n", "expected counter, gauge" },
        { "# TYPE x counters\n", "expected counter, gauge" },
    };
    pf_error error = { 0 };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        assert_status(read_text(cases[i].text, &error), PF_FORMAT);
        assert_says(error, cases[i].says);
    }
    assert_ok(read_text("# any comment\n\n# HELP x y\n# TYPE x gauge\nx{} NaN\nx 1e3 17\n", &error), error);
}

static void what_exceeds_a_bound_is_refused(void **state)
{
    (void)state;
    static char text[2 * PF_SAMPLE_VALUE_BYTES];
    pf_error error = { 0 };
    memset(text, 'x', PF_SAMPLE_NAME_BYTES);
    strcpy(text + PF_SAMPLE_NAME_BYTES, " 1\n");
    assert_status(read_text(text, &error), PF_LIMIT);
    int n = sprintf(text, "x{a=\"");
    memset(text + n, 'y', PF_SAMPLE_VALUE_BYTES);
    strcpy(text + n + PF_SAMPLE_VALUE_BYTES, "\"} 1\n");
    assert_status(read_text(text, &error), PF_LIMIT);
    n = sprintf(text, "x{");
    for (int i = 0; i <= PF_SAMPLE_MAX_LABELS; i++) n += sprintf(text + n, "a%d=\"\",", i);
    strcpy(text + n, "} 1\n");
    assert_status(read_text(text, &error), PF_LIMIT);
    assert_says(error, "more than 16 labels");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(series_of_one_name_are_one_family),
        cmocka_unit_test(labels_are_escaped),
        cmocka_unit_test(gauges_keep_their_value_exactly),
        cmocka_unit_test(buckets_are_cumulative_and_end_in_infinity),
        cmocka_unit_test(numbers_have_a_point_in_every_locale),
        cmocka_unit_test(names_that_do_not_fit_are_refused),
        cmocka_unit_test(a_text_that_is_longer_than_the_room_is_cut),
        cmocka_unit_test(no_update_of_several_threads_is_lost),
        cmocka_unit_test(lines_that_are_malformed_are_refused_with_their_number),
        cmocka_unit_test(what_exceeds_a_bound_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
