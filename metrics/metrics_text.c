#include "metrics/metrics_text.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A place in a line, which ends at `end`. */
typedef struct {
    const char *at, *end;
    int32_t line;
    pf_error *error;
} cursor;

static pf_status expected(const cursor *c, const char *what)
{
    return pf_fail(c->error, PF_FORMAT, "line %d: expected %s", c->line, what);
}

static bool is_at(const cursor *c, char byte)
{
    return c->at < c->end && *c->at == byte;
}

static bool skip(cursor *c, char byte)
{
    if (!is_at(c, byte)) return false;
    c->at++;
    return true;
}

static void skip_blanks(cursor *c)
{
    while (is_at(c, ' ') || is_at(c, '\t')) c->at++;
}

static bool starts_name(char byte, bool colons)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_' || (colons && byte == ':');
}

static pf_status read_name(cursor *c, bool colons, char out[PF_SAMPLE_NAME_BYTES])
{
    size_t n = 0;
    while (c->at < c->end && (starts_name(*c->at, colons) || (n > 0 && *c->at >= '0' && *c->at <= '9'))) {
        if (n + 1 == PF_SAMPLE_NAME_BYTES)
            return pf_fail(c->error, PF_LIMIT, "line %d: a name is longer than %d bytes", c->line,
                           PF_SAMPLE_NAME_BYTES - 1);
        out[n++] = *c->at++;
    }
    out[n] = '\0';
    return n > 0 ? PF_OK : expected(c, "a name");
}

/* Behind the opening quote. */
static pf_status read_value(cursor *c, char out[PF_SAMPLE_VALUE_BYTES])
{
    size_t n = 0;
    for (;;) {
        if (c->at == c->end || *c->at == '\0') return expected(c, "the end of a label's value, \"");
        char byte = *c->at++;
        if (byte == '"') break;
        if (byte == '\\') {
            if (c->at == c->end || !strchr("\\\"n", *c->at) || *c->at == '\0')
                return expected(c, "an escape: \\\\, \\\" or \\n");
            byte = *c->at == 'n' ? '\n' : *c->at;
            c->at++;
        }
        if (n + 1 == PF_SAMPLE_VALUE_BYTES)
            return pf_fail(c->error, PF_LIMIT, "line %d: a label's value is longer than %d bytes", c->line,
                           PF_SAMPLE_VALUE_BYTES - 1);
        out[n++] = byte;
    }
    out[n] = '\0';
    return PF_OK;
}

static pf_status read_label(cursor *c, pf_metric_sample *s)
{
    if (s->n_labels == PF_SAMPLE_MAX_LABELS)
        return pf_fail(c->error, PF_LIMIT, "line %d: more than %d labels", c->line, PF_SAMPLE_MAX_LABELS);
    const int32_t i = s->n_labels;
    PF_TRY(read_name(c, false, s->labels[i].name));
    if (pf_metric_sample_label(s, s->labels[i].name)) return expected(c, "each label once");
    skip_blanks(c);
    if (!skip(c, '=')) return expected(c, "= behind a label's name");
    skip_blanks(c);
    if (!skip(c, '"')) return expected(c, "a label's value in quotes");
    PF_TRY(read_value(c, s->labels[i].value));
    s->n_labels++;
    skip_blanks(c);
    return PF_OK;
}

static pf_status read_labels(cursor *c, pf_metric_sample *s)
{
    if (!skip(c, '{')) return PF_OK;
    skip_blanks(c);
    while (!skip(c, '}')) {
        PF_TRY(read_label(c, s));
        if (is_at(c, '}')) continue;
        if (!skip(c, ',')) return expected(c, ", or } behind a label");
        skip_blanks(c);
    }
    return PF_OK;
}

static bool is_number_byte(char byte)
{
    return (byte >= '0' && byte <= '9') || (byte != '\0' && strchr("+-.eEaNnIfFinity", byte));
}

/* A number as Go writes it, and no hexadecimal one. */
static pf_status read_number(cursor *c, double *out)
{
    enum { LONGEST = 64 };
    char text[LONGEST + 1], *end;
    size_t n = 0;
    while (c->at < c->end && n < LONGEST && is_number_byte(*c->at)) text[n++] = *c->at++;
    text[n] = '\0';
    *out = strtod(text, &end);
    return n > 0 && *end == '\0' ? PF_OK : expected(c, "a number");
}

static pf_status read_sample(cursor *c, const pf_metrics_reader *reader, pf_metric_sample *s)
{
    double milliseconds;
    s->n_labels = 0;
    PF_TRY(read_name(c, true, s->name));
    PF_TRY(read_labels(c, s));
    if (!is_at(c, ' ') && !is_at(c, '\t')) return expected(c, "a space before the value");
    skip_blanks(c);
    PF_TRY(read_number(c, &s->value));
    skip_blanks(c);
    if (c->at < c->end) PF_TRY(read_number(c, &milliseconds));
    if (c->at < c->end) return expected(c, "the end of the line");
    if (reader->on_sample) reader->on_sample(reader->user, s);
    return PF_OK;
}

static bool skip_word(cursor *c, const char *word)
{
    const size_t n = strlen(word);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n) != 0) return false;
    c->at += n;
    return true;
}

static pf_status read_type(cursor *c, const pf_metrics_reader *reader, pf_metric_sample *s)
{
    static const char *const kinds[] = { "counter", "gauge", "histogram", "summary", "untyped" };
    PF_TRY(read_name(c, true, s->name));
    if (!skip(c, ' ')) return expected(c, "a space behind the name");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        cursor rest = *c;
        if (!skip_word(&rest, kinds[i]) || rest.at != rest.end) continue;
        if (reader->on_type) reader->on_type(reader->user, s->name, kinds[i]);
        return PF_OK;
    }
    return expected(c, "counter, gauge, histogram, summary or untyped");
}

static pf_status read_line(cursor *c, const pf_metrics_reader *reader, pf_metric_sample *s)
{
    if (c->at == c->end) return PF_OK;
    if (skip_word(c, "# TYPE ")) return read_type(c, reader, s);
    if (skip_word(c, "# HELP ")) return read_name(c, true, s->name);
    return is_at(c, '#') ? PF_OK : read_sample(c, reader, s);
}

static pf_status read_lines(const char *text, size_t n_bytes, const pf_metrics_reader *reader, pf_metric_sample *s,
                            pf_error *error)
{
    const char *end = text + n_bytes;
    for (int32_t line = 1; text < end; line++) {
        const char *line_end = memchr(text, '\n', (size_t)(end - text));
        cursor c = { .at = text, .end = line_end ? line_end : end, .line = line, .error = error };
        if (!line_end || line == INT32_MAX) return expected(&c, "a line feed at the end");
        PF_TRY(read_line(&c, reader, s));
        text = line_end + 1;
    }
    return PF_OK;
}

pf_status pf_metrics_read(const char *text, size_t n_bytes, const pf_metrics_reader *reader, pf_error *error)
{
    pf_metric_sample *sample = malloc(sizeof *sample);
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* a number has a point */
    const locale_t before = plain ? uselocale(plain) : (locale_t)0;
    const pf_status status = sample && plain ? read_lines(text, n_bytes, reader, sample, error)
                                             : pf_fail(error, PF_NOMEM, "no memory to read metrics");
    if (plain) {
        (void)uselocale(before);
        freelocale(plain);
    }
    free(sample);
    return status;
}

const char *pf_metric_sample_label(const pf_metric_sample *sample, const char *name)
{
    for (int32_t i = 0; i < sample->n_labels; i++)
        if (strcmp(sample->labels[i].name, name) == 0) return sample->labels[i].value;
    return NULL;
}
