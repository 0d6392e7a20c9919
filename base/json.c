#include "base/json.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

/* The name as errors show it: of a path that is too long the end, which says more than the beginning. */
static void set_name(pf_json *doc, const char *name)
{
    const size_t n = strlen(name);
    if (n < sizeof doc->name)
        memcpy(doc->name, name, n + 1);
    else
        snprintf(doc->name, sizeof doc->name, "...%s", name + n - (sizeof doc->name - 4));
}

/* The most that jansson takes for a text: of an object or a list itself and its first table, of a field's place in an
 * object, of a value, of a string, which takes its bytes besides. Larger than what was measured on a machine of 64 bits. */
static size_t tree_bytes(const char *text, size_t n)
{
    enum { AN_OBJECT = 256, A_LIST = 128, A_FIELD = 96, A_VALUE = 64, A_STRING = 32 };
    size_t total = n + A_VALUE;
    for (size_t i = 0; i < n; i++) {
        switch (text[i]) {
        case '{': total += AN_OBJECT + A_VALUE; break;
        case '[': total += A_LIST + A_VALUE; break;
        case ':': total += A_FIELD; break;
        case ',': total += A_VALUE; break;
        case '"':
            total += A_STRING;
            for (i++; i < n && text[i] != '"';) i += text[i] == '\\' ? 2 : 1;
            break;
        default: break;
        }
    }
    return total;
}

pf_status pf_json_check_size(const char *name, const char *text, size_t bytes, size_t max_bytes, pf_error *error)
{
    if (bytes > max_bytes)
        return pf_fail(error, PF_LIMIT, "%s: is %zu bytes, expected at most %zu", name, bytes, max_bytes);
    const size_t most = max_bytes > SIZE_MAX / PF_JSON_MEMORY_A_BYTE ? SIZE_MAX : max_bytes * PF_JSON_MEMORY_A_BYTE;
    const size_t needed = tree_bytes(text, bytes);
    if (needed > most)
        return pf_fail(error, PF_LIMIT,
                       "%s: has too many values: %zu bytes of memory would hold them, expected at most %zu", name,
                       needed, most);
    return PF_OK;
}

/* Rewrites integers that 64 bits do not hold as reals of the same width, "123456" as "123e03", so that lines and columns
 * stay. `text` ends with a NUL. */
static void make_large_integers_real(char *text)
{
    bool in_string = false;
    for (char *at = text; *at;) {
        const size_t sign = *at == '-', width = in_string ? 0 : sign + strspn(at + sign, "0123456789");
        const size_t whole = width ? strspn(at, "-+.eE0123456789") : 0;
        if (width > 3 && width == whole) {
            errno = 0;
            (void)strtoll(at, NULL, 10);
            if (errno == ERANGE) memcpy(at + width - 3, "e03", 3);
        }
        if (*at == '"') in_string = !in_string;
        if (*at == '\\' && at[1]) at++;
        at += whole ? whole : 1;
    }
}

static _Thread_local bool memory_was_short;

void *pf_json_malloc(size_t n_bytes)
{
    void *block = malloc(n_bytes);
    if (!block) memory_was_short = true;
    return block;
}

/* Whether an allocation failed in this thread since this was last asked. */
static bool memory_has_been_short(void)
{
    const bool was_short = memory_was_short;
    memory_was_short = false;
    return was_short;
}

void pf_json_watch_memory(void)
{
    json_set_alloc_funcs(pf_json_malloc, free);
}

char *pf_json_print(const json_t *value, size_t flags)
{
    char *text = json_dumps(value, flags);
    if (!memory_has_been_short()) return text;
    free(text);
    return NULL;
}

/* What jansson itself reports, which is all that is known where no allocator is watched. */
static bool tells_of_memory(const json_error_t *why)
{
    return why->text[0] == '\0' || json_error_code(why) == json_error_out_of_memory;
}

/* A way to have jansson parse a text; NULL, and *why: it cannot be. */
typedef json_t *load_fn(const char *text, size_t bytes, json_error_t *why);

static json_t *load_exactly(const char *text, size_t bytes, json_error_t *why)
{
    return json_loadb(text, bytes, JSON_ALLOW_NUL, why);
}

static json_t *load(const char *text, size_t bytes, json_error_t *why)
{
    json_t *root = load_exactly(text, bytes, why);
    if (root || json_error_code(why) != json_error_numeric_overflow) return root;
    char *copy = pf_json_malloc(bytes + 1);
    if (!copy) return NULL;
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    make_large_integers_real(copy);
    root = load_exactly(copy, bytes, why);
    free(copy);
    return root;
}

static pf_status parse(const char *name, const char *text, size_t bytes, size_t max_bytes, load_fn *loads, json_t **out,
                       pf_error *error)
{
    json_error_t why;
    PF_TRY(pf_json_check_size(name, text, bytes, max_bytes, error));
    (void)memory_has_been_short();
    json_t *root = loads(text, bytes, &why);
    if (memory_has_been_short() || (!root && tells_of_memory(&why))) {
        json_decref(root);
        return pf_fail(error, PF_NOMEM, "%s: no memory to parse %zu bytes", name, bytes);
    }
    if (!root) return pf_fail(error, PF_FORMAT, "%s: line %d, column %d: %s", name, why.line, why.column, why.text);
    *out = root;
    return PF_OK;
}

pf_status pf_json_parse_exactly(const char *name, const char *text, size_t bytes, size_t max_bytes, json_t **out,
                                pf_error *error)
{
    return parse(name, text, bytes, max_bytes, load_exactly, out, error);
}

pf_status pf_json_parse(const char *name, const char *text, size_t bytes, size_t max_bytes, pf_json *out,
                        pf_error *error)
{
    pf_json doc = { 0 };
    set_name(&doc, name);
    PF_TRY(parse(doc.name, text, bytes, max_bytes, load, &doc.root, error));
    if (!json_is_object(doc.root)) {
        json_decref(doc.root);
        return pf_fail(error, PF_FORMAT, "%s: expected a JSON object at the top", doc.name);
    }
    *out = doc;
    return PF_OK;
}

pf_status pf_json_open(const char *path, size_t max_bytes, pf_json *out, pf_error *error)
{
    char *text;
    size_t bytes;
    PF_TRY(pf_file_read(path, max_bytes, &text, &bytes, error));
    const pf_status status = pf_json_parse(path, text, bytes, max_bytes, out, error);
    free(text);
    return status;
}

void pf_json_close(pf_json *doc)
{
    json_decref(doc->root); /* NULL is fine */
    doc->root = NULL;
}

pf_json pf_json_within(const pf_json *doc, const json_t *object, const char *format, ...)
{
    pf_json inner = { .root = (json_t *)(uintptr_t)object };
    char name[2 * sizeof doc->name];
    const int n = snprintf(name, sizeof name, "%s: ", doc->name);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name + n, sizeof name - (size_t)n, format, arguments);
    va_end(arguments);
    set_name(&inner, name);
    return inner;
}

/* The field's value; NULL when it is absent or null. */
static const json_t *field_of(const json_t *object, const char *field)
{
    const json_t *value = json_object_get(object, field);
    return value && !json_is_null(value) ? value : NULL;
}

static pf_status absent(const pf_json *doc, const char *field, bool required, const char *expected, pf_error *error)
{
    if (!required) return PF_OK;
    return pf_fail(error, PF_FORMAT, "%s: %s is absent, expected %s", doc->name, field, expected);
}

/* The sentence for a value of the wrong type or range, which shows as much of the value as helps. */
static pf_status refuse(const pf_json *doc, const char *field, const json_t *value, const char *expected,
                        pf_error *error)
{
    enum { SHOWN = 60 };
    char *text = json_is_object(value) || json_is_array(value) ? NULL : pf_json_print(value, JSON_ENCODE_ANY);
    const char *shown = text                    ? text
                        : json_is_object(value) ? "an object"
                        : json_is_array(value)  ? "an array"
                                                : "not printable";
    const pf_status status = pf_fail(error, PF_FORMAT, "%s: %s is %.*s%s, expected %s", doc->name, field, SHOWN, shown,
                                     strlen(shown) > SHOWN ? "..." : "", expected);
    free(text);
    return status;
}

pf_status pf_json_get_int(const pf_json *doc, const json_t *object, const char *field, bool required, int64_t min,
                          int64_t max, int64_t *out, pf_error *error)
{
    char expected[96] = "an integer";
    if (min == max)
        snprintf(expected, sizeof expected, "%lld", (long long)min);
    else if (min > INT64_MIN || max < INT64_MAX)
        snprintf(expected, sizeof expected, "an integer from %lld to %lld", (long long)min, (long long)max);
    const json_t *value = field_of(object, field);
    if (!value) return absent(doc, field, required, expected, error);
    if (!json_is_integer(value)) return refuse(doc, field, value, expected, error);
    const int64_t n = json_integer_value(value);
    if (n < min || n > max) return refuse(doc, field, value, expected, error);
    *out = n;
    return PF_OK;
}

pf_status pf_json_get_int32(const pf_json *doc, const json_t *object, const char *field, bool required, int32_t min,
                            int32_t max, int32_t *out, pf_error *error)
{
    int64_t value = *out;
    PF_TRY(pf_json_get_int(doc, object, field, required, min, max, &value, error));
    *out = (int32_t)value;
    return PF_OK;
}

pf_status pf_json_get_double(const pf_json *doc, const json_t *object, const char *field, bool required, double min,
                             double max, double *out, pf_error *error)
{
    char expected[96];
    snprintf(expected, sizeof expected, "a number from %g to %g", min, max);
    const json_t *value = field_of(object, field);
    if (!value) return absent(doc, field, required, expected, error);
    const double x = json_is_number(value) ? json_number_value(value) : (double)NAN;
    if (!(x >= min && x <= max)) return refuse(doc, field, value, expected, error);
    *out = x;
    return PF_OK;
}

pf_status pf_json_get_bool(const pf_json *doc, const json_t *object, const char *field, bool required, bool *out,
                           pf_error *error)
{
    const json_t *value = field_of(object, field);
    if (!value) return absent(doc, field, required, "true or false", error);
    if (!json_is_boolean(value)) return refuse(doc, field, value, "true or false", error);
    *out = json_is_true(value);
    return PF_OK;
}

bool pf_json_is_text(const json_t *value)
{
    return json_is_string(value) && strlen(json_string_value(value)) == json_string_length(value);
}

pf_status pf_json_get_string(const pf_json *doc, const json_t *object, const char *field, bool required,
                             const char **out, pf_error *error)
{
    const char *expected = "a string without NUL"; /* which *out, a plain C string, would end at */
    const json_t *value = field_of(object, field);
    if (!value) return absent(doc, field, required, expected, error);
    if (!pf_json_is_text(value)) return refuse(doc, field, value, expected, error);
    *out = json_string_value(value);
    return PF_OK;
}

enum { NAMES_BYTES = 256 };

/* "a, b or c" */
static void put_names(char text[NAMES_BYTES], const char *const *names, int n)
{
    size_t at = 0;
    for (int i = 0; i < n && at < NAMES_BYTES; i++)
        at += (size_t)snprintf(text + at, NAMES_BYTES - at, "%s%s", i == 0 ? "" : i + 1 < n ? ", " : " or ", names[i]);
}

pf_status pf_json_get_choice(const pf_json *doc, const json_t *object, const char *field, bool required,
                             const char *const *names, int n, int *out, pf_error *error)
{
    char expected[NAMES_BYTES];
    const json_t *value = field_of(object, field);
    for (int i = 0; value && i < n; i++) {
        if (json_string_length(value) != strlen(names[i]) || strcmp(json_string_value(value), names[i]) != 0) continue;
        *out = i;
        return PF_OK;
    }
    put_names(expected, names, n);
    return value ? refuse(doc, field, value, expected, error) : absent(doc, field, required, expected, error);
}
