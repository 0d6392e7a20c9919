/* Any bytes as Prometheus' text format: they are read or refused with a sentence, and what is read is within its bounds. */
#include <stdlib.h>
#include <string.h>

#include "metrics/metrics_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int promise)
{
    if (!promise) abort();
}

static void on_sample(void *user, const pf_metric_sample *sample)
{
    size_t *n = user;
    ++*n;
    must(sample->name[0] != '\0' && strlen(sample->name) < PF_SAMPLE_NAME_BYTES);
    must(sample->n_labels >= 0 && sample->n_labels <= PF_SAMPLE_MAX_LABELS);
    for (int32_t i = 0; i < sample->n_labels; i++)
        must(pf_metric_sample_label(sample, sample->labels[i].name) == sample->labels[i].value);
}

static void on_type(void *user, const char *name, const char *kind)
{
    (void)user;
    must(name[0] != '\0' && kind[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t n = 0;
    pf_error error = { .status = PF_OK };
    const pf_metrics_reader reader = { .on_type = on_type, .on_sample = on_sample, .user = &n };
    char *copy = malloc(size > 0 ? size : 1); /* of its own, so that a read past its end is seen */
    must(copy != NULL);
    if (size > 0) memcpy(copy, data, size);
    const pf_status status = pf_metrics_read(copy, size, &reader, &error);
    must(n <= size);
    must(status == PF_OK || (error.status == status && strncmp(error.text, "line ", 5) == 0));
    free(copy);
    return 0;
}
