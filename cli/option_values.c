/* Words to values. */
#include "cli/option_values.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/topology.h"
#include "model/config/dtype.h"

static bool complain(pf_complaint *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool complain(pf_complaint *c, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(c->text, sizeof c->text, format, arguments);
    va_end(arguments);
    return false;
}

static bool parse_double(const struct pf_option_row *row, const char *word, double *out, pf_complaint *c)
{
    char *end;
    const bool decimal = *word && word[strspn(word, "0123456789.eE+-")] == '\0'; /* strtod takes more: 0x10, nan */
    const double value = decimal ? strtod(word, &end) : 0.0;
    const bool in_range = row->above_min ? value > row->min : value >= row->min;
    if (!decimal || *end || !isfinite(value) || !in_range || value > row->max)
        return complain(c, "--%s is \"%.40s\", expected a number %s %g %s %g", row->name, word,
                        row->above_min ? "above" : "from", row->min, row->above_min ? "and at most" : "to", row->max);
    *out = value == 0.0 ? 0.0 : value; /* "-0" is in range, and would be printed so */
    return true;
}

/* The nearest that is in range: where the least itself is refused, a number may be above it and no float so near. */
static float to_float(const struct pf_option_row *row, double number)
{
    const float nearest = (float)number, least = (float)row->min;
    return row->above_min && nearest <= least ? nextafterf(least, INFINITY) : nearest;
}

static bool parse_digits(const char *word, uint64_t max, uint64_t *out)
{
    uint64_t value = 0;
    if (!*word) return false;
    for (; *word; word++) {
        if (!isdigit((unsigned char)*word)) return false;
        const uint64_t digit = (uint64_t)(*word - '0');
        if (value > (max - digit) / 10 || digit > max) return false;
        value = value * 10 + digit;
    }
    *out = value;
    return true;
}

static bool parse_size(const struct pf_option_row *row, const char *word, uint64_t *out, pf_complaint *c)
{
    static const char units[] = "kMG";
    char digits[24];
    const size_t n = strlen(word);
    const char *unit = n > 0 ? strchr(units, word[n - 1]) : NULL;
    const int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    uint64_t value = 0;
    snprintf(digits, sizeof digits, "%.*s", (int)(n < sizeof digits ? n - (unit != NULL) : sizeof digits - 1), word);
    const bool is_number = n < sizeof digits && parse_digits(digits, UINT64_MAX >> shift, &value);
    if (!is_number || (double)(value << shift) < row->min || (double)(value << shift) > row->max)
        return complain(c, "--%s is \"%.40s\", expected bytes from %.0f to %.0f, or a number with k, M or G", row->name,
                        word, row->min, row->max);
    *out = value << shift;
    return true;
}

static bool parse_int(const struct pf_option_row *row, const char *word, int32_t *out, pf_complaint *c)
{
    uint64_t value;
    if (!parse_digits(word, (uint64_t)row->max, &value) || value < (uint64_t)row->min)
        return complain(c, "--%s is \"%.40s\", expected a whole number from %.0f to %.0f", row->name, word, row->min,
                        row->max);
    *out = (int32_t)value;
    return true;
}

static bool parse_length(const struct pf_option_row *row, const char *word, int32_t *out, pf_complaint *c)
{
    if (strcmp(word, "auto") == 0) {
        *out = PF_DRAFT_LEN_AUTO;
        return true;
    }
    if (!parse_int(row, word, out, c))
        return complain(c, "--%s is \"%.40s\", expected auto or a whole number from %.0f to %.0f", row->name, word,
                        row->min, row->max);
    return true;
}

static bool parse_choice(const struct pf_option_row *row, const char *word, int *out, pf_complaint *c)
{
    char known[160] = "";
    for (const pf_option_choice *at = row->choices; at->word; at++) {
        if (strcmp(at->word, word) == 0) {
            *out = at->value;
            return true;
        }
        pf_list_word(known, sizeof known, ", ", at->word);
    }
    return complain(c, "--%s is \"%.40s\", expected one of %s", row->name, word, known);
}

static bool parse_ids(const char *list, pf_tokens *out, pf_complaint *c)
{
    const char *at = list;
    while (*at) {
        const size_t length = strcspn(at, ",");
        char word[16];
        uint64_t id;
        snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : sizeof word - 1), at);
        if (length >= sizeof word || !parse_digits(word, INT32_MAX, &id))
            return complain(c, "--tokens has \"%.*s\" as entry %d, expected a token id from 0 to %d",
                            (int)(length < 40 ? length : 40), at, out->n + 1, INT32_MAX);
        if (pf_tokens_push(out, (int32_t)id) != PF_OK) {
            c->is_failure = true;
            return complain(c, "--tokens: no memory for more than %d ids", out->n);
        }
        at += length;
        if (*at == ',' && !*++at) return complain(c, "--tokens ends with a comma, expected a token id behind it");
    }
    return true;
}

/* ID=BIAS, separated by commas; -inf bans the id. */
static bool parse_biases(const struct pf_option_row *row, const char *list, pf_options *out, pf_complaint *c)
{
    int32_t n = 0;
    for (const char *at = list; at; n++) {
        char word[48], *end = NULL;
        const size_t length = strcspn(at, ",");
        uint64_t id = 0;
        snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : sizeof word - 1), at);
        char *value = strchr(word, '=');
        if (value) *value++ = '\0';
        const bool bans = value && strcmp(value, "-inf") == 0;
        const float bias = bans ? -INFINITY : value ? strtof(value, &end) : 0.0f;
        if (length >= sizeof word || !value || !*value || !parse_digits(word, INT32_MAX, &id) ||
            (!bans && (*end || !isfinite(bias))))
            return complain(c, "--%s has \"%.*s\" as entry %d, expected ID=BIAS, a token id and a number or -inf",
                            row->name, (int)(length < 40 ? length : 40), at, n + 1);
        if (n == PF_MAX_LOGIT_BIASES)
            return complain(c, "--%s has more than %d entries", row->name, PF_MAX_LOGIT_BIASES);
        out->bias_ids[n] = (int32_t)id;
        out->biases[n] = bias;
        at = at[length] == ',' ? at + length + 1 : NULL;
    }
    out->rules.n_biases = n;
    return true;
}

/* Words that the libraries know, with their own list of what there is. */
static bool parse_type(const struct pf_option_row *row, const char *word, const char **out, pf_complaint *c)
{
    pf_error error = { 0 };
    pf_dtype dtype;
    pf_activations activations;
    const pf_status status = row->kind == PF_OPTION_KIND_DTYPE ? pf_dtype_parse(word, &dtype, &error)
                                                               : pf_activations_parse(word, &activations, &error);
    *out = word;
    return status == PF_OK || complain(c, "--%s: %.220s", row->name, error.text);
}

static bool parse_stop(const struct pf_option_row *row, const char *word, pf_strings *list, pf_complaint *c)
{
    if (!*word) return complain(c, "--%s is empty, expected a text", row->name);
    if (list->n == PF_MAX_STOPS) return complain(c, "--%s was given more than %d times", row->name, PF_MAX_STOPS);
    list->items[list->n++] = word;
    return true;
}

static bool parse_file(const struct pf_option_row *row, const char *word, const char **out, pf_complaint *c)
{
    if (!*word) return complain(c, "--%s is empty, expected the name of a file", row->name);
    *out = word;
    return true;
}

static bool parse_address(const struct pf_option_row *row, const char *word, const char **out, pf_complaint *c)
{
    pf_error error = { 0 };
    if (pf_check_address(word, row->kind == PF_OPTION_KIND_LISTEN, &error) != PF_OK)
        return complain(c, "--%s: %.400s", row->name, error.text);
    *out = word;
    return true;
}

static bool parse_cores(const char *word, pf_options *out, pf_complaint *c)
{
    pf_error error = { 0 };
    if (pf_topology_parse_cores(word, out->cores, PF_MAX_CORES, &out->n_cores, &error) != PF_OK)
        return complain(c, "--cores: %.200s", error.text);
    return true;
}

/* Enumerations are as wide as an int, and so is whatever stands in a list. */
static_assert(sizeof(pf_method) == sizeof(int) && sizeof(pf_color) == sizeof(int) &&
                  sizeof(pf_threading) == sizeof(int) && sizeof(pf_verifies_on) == sizeof(int) &&
                  sizeof(float) == sizeof(int) && sizeof(int32_t) == sizeof(int),
              "one width");

/* One value, or an entry of a list. */
static bool parse_value(const struct pf_option_row *row, const char *word, void *field, pf_options *out,
                        pf_complaint *c)
{
    double number;
    int value = 0;
    switch (row->kind) {
    case PF_OPTION_KIND_FLAG: *(bool *)field = true; return true;
    case PF_OPTION_KIND_STRING: *(const char **)field = word; return true;
    case PF_OPTION_KIND_STRINGS: return parse_stop(row, word, field, c);
    case PF_OPTION_KIND_FILE: return parse_file(row, word, field, c);
    case PF_OPTION_KIND_ADDRESS:
    case PF_OPTION_KIND_LISTEN: return parse_address(row, word, field, c);
    case PF_OPTION_KIND_INT: return parse_int(row, word, field, c);
    case PF_OPTION_KIND_SIZE: return parse_size(row, word, field, c);
    case PF_OPTION_KIND_LENGTH: return parse_length(row, word, field, c);
    case PF_OPTION_KIND_FLOAT:
        if (!parse_double(row, word, &number, c)) return false;
        *(float *)field = to_float(row, number);
        return true;
    case PF_OPTION_KIND_MS:
        if (!parse_double(row, word, &number, c)) return false;
        *(uint64_t *)field = (uint64_t)(number * 1e6);
        return true;
    case PF_OPTION_KIND_CHOICE:
        if (!parse_choice(row, word, &value, c)) return false;
        memcpy(field, &value, sizeof value);
        return true;
    case PF_OPTION_KIND_WORD: *(const char **)field = word; return parse_choice(row, word, &value, c);
    case PF_OPTION_KIND_SEED:
        if (!parse_digits(word, INT64_MAX, &out->sampling.seed))
            return complain(c, "--seed is \"%.40s\", expected a whole number from 0 to %lld", word,
                            (long long)INT64_MAX);
        out->seed_given = true;
        return true;
    case PF_OPTION_KIND_IDS:
        out->tokens_given = true;
        out->tokens.n = 0;
        return parse_ids(word, &out->tokens, c);
    case PF_OPTION_KIND_BIASES: return parse_biases(row, word, out, c);
    case PF_OPTION_KIND_CORES: return parse_cores(word, out, c);
    case PF_OPTION_KIND_DTYPE:
    case PF_OPTION_KIND_ACT: return parse_type(row, word, field, c);
    }
    return complain(c, "--%s is not understood", row->name);
}

/* Behind a comma there is always an entry, which may be empty. */
static bool parse_list(const struct pf_option_row *row, const char *list, pf_options *out, pf_complaint *c)
{
    char word[64], *fields = (char *)out + row->offset;
    int32_t n = 0;
    for (const char *at = list; at; n++) {
        const size_t length = strcspn(at, ",");
        if (length == 0) return complain(c, "--%s is \"%.40s\", expected a value as entry %d", row->name, list, n + 1);
        if (length >= sizeof word)
            return complain(c, "--%s has \"%.40s...\" as entry %d, expected at most %zu characters", row->name, at,
                            n + 1, sizeof word - 1);
        if (n == PF_MAX_LIST) return complain(c, "--%s has more than %d entries", row->name, PF_MAX_LIST);
        snprintf(word, sizeof word, "%.*s", (int)length, at);
        at = at[length] == ',' ? at + length + 1 : NULL;
        if (!parse_value(row, word, fields + (size_t)n * sizeof(int), out, c)) return false;
    }
    *(int32_t *)((char *)out + row->count) = n;
    return true;
}

bool pf_option_read(const struct pf_option_row *row, const char *word, pf_options *out, pf_complaint *complaint)
{
    if (row->count > 0) return parse_list(row, word, out, complaint);
    void *field = (char *)out + row->offset;
    if (field == &out->n_new) out->n_new_given = true;
    return parse_value(row, word, field, out, complaint);
}
