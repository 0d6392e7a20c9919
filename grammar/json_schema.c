/*
 * Each schema is a rule PREFIX-N; those of its parts are written before it.
 *
 * An object with properties p1 .. pn (a: nothing was written yet, b: something was):
 *
 *      a1 ::= k1 b2 | a2        where p1 is optional; else k1 b2
 *      b1 ::= ("," k1)? b2      likewise; else "," k1 b2
 *      a(n+1), b(n+1): other properties, where there may be any
 */
#include "grammar/json_schema.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "grammar/grammar.h"
#include "grammar/number_range.h"
#include "grammar/schema_overlap.h"
#include "grammar/schema_pattern.h"

enum { MOST_ONE_OF = 32 };

typedef struct {
    const json_t *root;
    const char *prefix;
    pf_bytes *out;
    json_t *references; /* the rule of a $ref: {"#/...": "NAME"} */
    int32_t n_rules, depth;
    pf_error *error;
} writer;

typedef char rule_name[PF_JSON_SCHEMA_NAME_BYTES];

/* Where a schema stands, for sentences. */
typedef struct path path;
struct path {
    const path *above;
    const char *word;
};

/* ---- sentences ----------------------------------------------------------------------------------------------------- */

static size_t print_path(const path *p, char *out, size_t room)
{
    const size_t n = p->above ? print_path(p->above, out, room) : 0;
    const int more = snprintf(out + n, room - n, "%s%s", p->above ? "." : "", p->word);
    const size_t end = n + (more > 0 ? (size_t)more : 0);
    return end < room ? end : room - 1;
}

static pf_status refuse(const writer *w, pf_status status, const path *at, const char *what, const char *value)
{
    char where[160];
    (void)print_path(at, where, sizeof where);
    return pf_fail(w->error, status, "%s: %s%.60s%s", where, what, value, value[0] ? " is not supported" : "");
}

static pf_status no_memory(const writer *w)
{
    return pf_fail(w->error, PF_NOMEM, "no memory for the grammar of a schema");
}

/* ---- text ---------------------------------------------------------------------------------------------------------- */

static pf_status add(pf_bytes *out, const char *text)
{
    return pf_bytes_append(out, text, strlen(text));
}

__attribute__((format(printf, 2, 3))) static pf_status add_format(pf_bytes *out, const char *format, ...)
{
    char text[512];
    va_list list;
    va_start(list, format);
    const int n = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return n < 0 || (size_t)n >= sizeof text ? PF_NOMEM : pf_bytes_append(out, text, (size_t)n);
}

pf_status pf_grammar_quote(const char *text, size_t n, pf_bytes *out)
{
    PF_TRY(add(out, "\""));
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            PF_TRY(add_format(out, "\\%c", c));
        else if (c < 0x20 || c == 0x7f)
            PF_TRY(add_format(out, "\\x%02x", c));
        else
            PF_TRY(pf_bytes_append(out, text + i, 1));
    }
    return add(out, "\"");
}

pf_status pf_json_schema_add_common(bool without_less, pf_bytes *out)
{
    PF_TRY(add_format(out,
                      "json-char ::= [^\"\\\\%s\\x00-\\x1f\\x7f] | \"\\\\\" ([\"\\\\/bfnrt] | \"u\" [0-9a-fA-F]{4})\n",
                      without_less ? "<" : ""));
    return add(out, "json-ws ::= (\" \" | \"\\n\" [ \\t]{0,16})?\n"
                    "json-string ::= \"\\\"\" json-char* \"\\\"\"\n"
                    "json-integer ::= \"-\"? (\"0\" | [1-9] [0-9]{0,17})\n"
                    "json-number ::= json-integer (\".\" [0-9]{1,18})? ([eE] [-+]? [0-9]{1,3})?\n"
                    "json-boolean ::= \"true\" | \"false\"\n"
                    "json-pair ::= json-string \":\" json-ws json-value json-ws\n"
                    "json-object ::= \"{\" json-ws (json-pair (\",\" json-ws json-pair)*)? \"}\"\n"
                    "json-array ::= \"[\" json-ws (json-value json-ws (\",\" json-ws json-value json-ws)*)? \"]\"\n"
                    "json-value ::= json-object | json-array | json-string | json-number | json-boolean | \"null\"\n");
}

/* A JSON value as a literal. */
static pf_status add_constant(const writer *w, const json_t *value, pf_bytes *body)
{
    char *text = pf_json_print(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
    const pf_status status = text ? pf_grammar_quote(text, strlen(text), body) : PF_NOMEM;
    free(text);
    return status == PF_OK ? PF_OK : no_memory(w);
}

/* ---- rules --------------------------------------------------------------------------------------------------------- */

static pf_status new_name(writer *w, const path *at, rule_name name)
{
    if (w->n_rules >= PF_GRAMMAR_MAX_RULES) return refuse(w, PF_LIMIT, at, "the schema needs too many rules", "");
    snprintf(name, sizeof(rule_name), "%s-%d", w->prefix, w->n_rules++);
    return PF_OK;
}

static pf_status add_rule(const writer *w, const char *name, const pf_bytes *body)
{
    const bool made = add_format(w->out, "%s ::= ", name) == PF_OK &&
                      pf_bytes_append(w->out, body->data ? body->data : "", body->n) == PF_OK &&
                      add(w->out, "\n") == PF_OK;
    return made ? PF_OK : no_memory(w);
}

static pf_status add_schema(writer *w, const json_t *schema, const path *at, rule_name name);

/* ---- counts -------------------------------------------------------------------------------------------------------- */

static pf_status read_count(const writer *w, const json_t *schema, const path *at, const char *key, int32_t otherwise,
                            int32_t *out)
{
    const json_t *value = json_object_get(schema, key);
    *out = otherwise;
    if (!value) return PF_OK;
    const path here = { at, key };
    const json_int_t count = json_integer_value(value);
    if (!json_is_integer(value) || count < 0 || count > PF_GRAMMAR_MAX_REPEAT)
        return refuse(w, PF_INVALID, &here, "expected a whole number from 0 to 4096", "");
    *out = (int32_t)count;
    return PF_OK;
}

/* {least, most}, where most < 0: no end. */
static pf_status read_counts(const writer *w, const json_t *schema, const path *at, const char *least_key,
                             const char *most_key, int32_t *least, int32_t *most)
{
    PF_TRY(read_count(w, schema, at, least_key, 0, least));
    PF_TRY(read_count(w, schema, at, most_key, -1, most));
    if (*most < 0 || *most >= *least) return PF_OK;
    const path here = { at, most_key };
    return refuse(w, PF_INVALID, &here, "it is less than the least, so that nothing fits", "");
}

/* ---- numbers ------------------------------------------------------------------------------------------------------- */

/* A number as a whole one of units of 10^-n_decimals. */
typedef struct {
    int64_t value;
    int32_t n_decimals;
} decimal;

/* The shortest decimals of a number. False: there are more of them than a range takes. */
static bool read_decimal(double number, decimal *out)
{
    enum { BASE = 10, MOST_CHARACTERS = 40 };
    int64_t unit = 1;
    if (!(fabs(number) < 1e15)) return false;
    for (int32_t k = 0; k <= PF_NUMBER_RANGE_MOST_DECIMALS; k++, unit *= BASE) {
        char text[MOST_CHARACTERS];
        snprintf(text, sizeof text, "%.*f", k, number);
        if (strtod(text, NULL) != number) continue;
        const double scaled = round(number * (double)unit);
        if (!(fabs(scaled) < 1e15)) return false;
        *out = (decimal){ (int64_t)scaled, k };
        return true;
    }
    return false;
}

/* A keyword's number, if it is there; n_decimals of all grows to its. */
static pf_status read_number(const writer *w, const json_t *schema, const path *at, const char *key, bool *is_there,
                             decimal *out, int32_t *n_decimals)
{
    const json_t *given = json_object_get(schema, key);
    const path here = { at, key };
    *is_there = given != NULL;
    if (!given) return PF_OK;
    if (!json_is_number(given)) return refuse(w, PF_INVALID, &here, "expected a number", "");
    if (!read_decimal(json_number_value(given), out))
        return refuse(w, PF_UNSUPPORTED, &here, "a number of ", "more than 15 digits, or 9 behind the point,");
    if (out->n_decimals > *n_decimals) *n_decimals = out->n_decimals;
    return PF_OK;
}

/* In units of 10^-n_decimals. False: too large. */
static bool scale(decimal *number, int32_t n_decimals)
{
    enum { BASE = 10 };
    for (; number->n_decimals < n_decimals; number->n_decimals++) {
        if (number->value > PF_NUMBER_RANGE_MOST / BASE || number->value < -PF_NUMBER_RANGE_MOST / BASE) return false;
        number->value *= BASE;
    }
    return number->value > -PF_NUMBER_RANGE_MOST && number->value < PF_NUMBER_RANGE_MOST;
}

static void tighten(pf_number_range *range, bool is_upper, bool excludes, int64_t bound)
{
    int64_t *held = is_upper ? &range->most : &range->least;
    bool *is_excluded = is_upper ? &range->below_most : &range->above_least;
    const bool is_tighter = is_upper ? bound < *held : bound > *held;
    if (is_tighter || bound == *held) *is_excluded = excludes || (!is_tighter && *is_excluded);
    if (is_tighter) *held = bound;
}

static pf_status read_range(const writer *w, const json_t *schema, const path *at, pf_number_range *range)
{
    static const struct {
        const char *key;
        bool is_upper, excludes;
    } bounds[] = { { "minimum", false, false },
                   { "exclusiveMinimum", false, true },
                   { "maximum", true, false },
                   { "exclusiveMaximum", true, true } };
    enum { N_BOUNDS = sizeof bounds / sizeof *bounds };
    decimal numbers[N_BOUNDS + 1];
    bool are_there[N_BOUNDS + 1];
    const path here = { at, "multipleOf" };
    *range = (pf_number_range){ .least = -PF_NUMBER_RANGE_MOST, .most = PF_NUMBER_RANGE_MOST };
    for (size_t i = 0; i < N_BOUNDS; i++)
        PF_TRY(read_number(w, schema, at, bounds[i].key, &are_there[i], &numbers[i], &range->n_decimals));
    PF_TRY(read_number(w, schema, at, here.word, &are_there[N_BOUNDS], &numbers[N_BOUNDS], &range->n_decimals));
    for (size_t i = 0; i <= N_BOUNDS; i++)
        if (are_there[i] && !scale(&numbers[i], range->n_decimals))
            return refuse(w, PF_UNSUPPORTED, at, "numbers of ", "more than 18 digits in all");
    for (size_t i = 0; i < N_BOUNDS; i++)
        if (are_there[i]) tighten(range, bounds[i].is_upper, bounds[i].excludes, numbers[i].value);
    if (!are_there[N_BOUNDS]) return PF_OK;
    range->multiple = numbers[N_BOUNDS].value;
    if (range->multiple <= 0) return refuse(w, PF_INVALID, &here, "expected a number above 0", "");
    return range->multiple <= PF_NUMBER_RANGE_MOST_MULTIPLE
               ? PF_OK
               : refuse(w, PF_UNSUPPORTED, &here, "a number of ", "more than 9 digits");
}

static pf_status write_number(writer *w, const json_t *schema, const path *at, bool of_integers, pf_bytes *body)
{
    pf_number_range range;
    rule_name prefix;
    int32_t n_rules = 0;
    PF_TRY(read_range(w, schema, at, &range));
    if (range.least == -PF_NUMBER_RANGE_MOST && range.most == PF_NUMBER_RANGE_MOST && range.multiple == 0)
        return add(body, of_integers ? "json-integer" : "json-number") == PF_OK ? PF_OK : no_memory(w);
    PF_TRY(new_name(w, at, prefix));
    const pf_status status = of_integers ? pf_number_range_write_integers(&range, prefix, w->out, &n_rules, body)
                                         : pf_number_range_write_numbers(&range, prefix, w->out, &n_rules, body);
    w->n_rules += n_rules;
    if (status == PF_INVALID) return refuse(w, PF_INVALID, at, "no number is between its bounds", "");
    if (status == PF_LIMIT) return refuse(w, PF_LIMIT, at, "multipleOf: the number needs too many rules", "");
    return status == PF_OK ? PF_OK : no_memory(w);
}

/* ---- types --------------------------------------------------------------------------------------------------------- */

static pf_status write_pattern(const writer *w, const json_t *pattern, const path *at, pf_bytes *body)
{
    const path here = { at, "pattern" };
    const char *text = json_string_value(pattern);
    pf_error why = { 0 };
    if (!text) return refuse(w, PF_INVALID, &here, "expected a string", "");
    pf_status status = add(body, "\"\\\"\" ");
    if (status == PF_OK) status = pf_schema_pattern_write(text, body, &why);
    if (status == PF_OK) status = add(body, " \"\\\"\"");
    if (status == PF_OK || !why.text[0]) return status == PF_OK ? PF_OK : no_memory(w);
    char where[160];
    (void)print_path(&here, where, sizeof where);
    return pf_fail(w->error, status, "%s: %s", where, why.text);
}

static pf_status write_string(const writer *w, const json_t *schema, const path *at, pf_bytes *body)
{
    int32_t least, most;
    const json_t *pattern = json_object_get(schema, "pattern");
    if (pattern && (json_object_get(schema, "minLength") || json_object_get(schema, "maxLength")))
        return refuse(w, PF_UNSUPPORTED, at, "pattern beside ", "minLength or maxLength");
    if (pattern) return write_pattern(w, pattern, at, body);
    PF_TRY(read_counts(w, schema, at, "minLength", "maxLength", &least, &most));
    pf_status status;
    if (most < 0)
        status = add_format(body, "\"\\\"\" json-char{%d,} \"\\\"\"", least);
    else
        status = add_format(body, "\"\\\"\" json-char{%d,%d} \"\\\"\"", least, most);
    return status == PF_OK ? PF_OK : no_memory(w);
}

static pf_status write_array(writer *w, const json_t *schema, const path *at, pf_bytes *body)
{
    int32_t least, most;
    rule_name item = "json-value";
    const path here = { at, "items" };
    PF_TRY(read_counts(w, schema, at, "minItems", "maxItems", &least, &most));
    if (json_object_get(schema, "items")) PF_TRY(add_schema(w, json_object_get(schema, "items"), &here, item));
    pf_status status = add(body, "\"[\" json-ws ");
    if (most != 0) {
        char count[32];
        const int32_t more = least > 0 ? least - 1 : 0;
        if (most < 0)
            snprintf(count, sizeof count, "{%d,}", more);
        else
            snprintf(count, sizeof count, "{%d,%d}", more, most - 1);
        if (status == PF_OK)
            status = add_format(body, "(%s json-ws (\",\" json-ws %s json-ws)%s)%s", item, item, count,
                                least > 0 ? "" : "?");
    }
    if (status == PF_OK) status = add(body, " \"]\"");
    return status == PF_OK ? PF_OK : no_memory(w);
}

/* The properties, and what is required though no property of that name is described. NULL: no memory. */
static json_t *all_properties(const json_t *schema)
{
    const json_t *required = json_object_get(schema, "required");
    json_t *given = json_object_get(schema, "properties");
    json_t *all = given ? json_copy(given) : json_object();
    for (size_t i = 0; all && i < json_array_size(required); i++) {
        const char *word = json_string_value(json_array_get(required, i));
        if (word && !json_object_get(all, word)) (void)json_object_set_new(all, word, json_true());
    }
    return all;
}

/* KEY ":" VALUE as the rule NAME-kI. */
static pf_status add_pair(writer *w, const char *name, size_t index, const char *key, const json_t *schema,
                          const path *at)
{
    const path here = { at, key };
    rule_name value, pair;
    pf_bytes body = { 0 };
    json_t *text = json_string(key);
    PF_TRY(text ? PF_OK : no_memory(w));
    pf_status status = add_schema(w, schema, &here, value);
    if (status == PF_OK) status = add_constant(w, text, &body);
    if (status == PF_OK && add_format(&body, " \":\" json-ws %s json-ws", value) != PF_OK) status = no_memory(w);
    snprintf(pair, sizeof pair, "%.24s-k%zu", name, index);
    if (status == PF_OK) status = add_rule(w, pair, &body);
    json_decref(text);
    pf_bytes_clear(&body);
    return status;
}

/* The rules behind the last property; other: the rule of a further pair, NULL: there are none. */
static pf_status add_last(const writer *w, const char *name, size_t n, const char *other)
{
    pf_status status;
    if (other) {
        status = add_format(w->out, "%.24s-a%zu ::= (%s (\",\" json-ws %s)*)?\n", name, n, other, other);
        if (status == PF_OK) status = add_format(w->out, "%.24s-b%zu ::= (\",\" json-ws %s)*\n", name, n, other);
    } else {
        status = add_format(w->out, "%.24s-a%zu ::= \"\"\n%.24s-b%zu ::= \"\"\n", name, n, name, n);
    }
    return status == PF_OK ? PF_OK : no_memory(w);
}

static pf_status add_members(writer *w, const char *name, const json_t *schema, const json_t *properties,
                             const path *at)
{
    const path here = { at, "properties" };
    const char *key;
    json_t *value;
    size_t i = 0;
    json_object_foreach((json_t *)(uintptr_t)properties, key, value)
    {
        PF_TRY(add_pair(w, name, i, key, value, &here));
        const bool needs = pf_schema_requires(schema, key);
        w->n_rules += 3;
        if (add_format(w->out,
                       needs ? "%.24s-a%zu ::= %.24s-k%zu %.24s-b%zu\n"
                             : "%.24s-a%zu ::= %.24s-k%zu %.24s-b%zu | %.24s-a%zu\n",
                       name, i, name, i, name, i + 1, name, i + 1) != PF_OK ||
            add_format(w->out,
                       needs ? "%.24s-b%zu ::= \",\" json-ws %.24s-k%zu %.24s-b%zu\n"
                             : "%.24s-b%zu ::= (\",\" json-ws %.24s-k%zu)? %.24s-b%zu\n",
                       name, i, name, i, name, i + 1) != PF_OK)
            return no_memory(w);
        i++;
    }
    return PF_OK;
}

static pf_status write_object(writer *w, const json_t *schema, const path *at, pf_bytes *body)
{
    const json_t *others = json_object_get(schema, "additionalProperties");
    const path here = { at, "additionalProperties" };
    json_t *properties = all_properties(schema);
    rule_name name, value = "json-value", other = "";
    if (!properties) return no_memory(w);
    const size_t n = json_object_size(properties);
    const bool has_others = others ? !json_is_false(others) : n == 0;
    pf_status status = new_name(w, at, name);
    if (status == PF_OK) status = add_members(w, name, schema, properties, at);
    if (status == PF_OK && has_others && json_is_object(others)) status = add_schema(w, others, &here, value);
    if (status == PF_OK && has_others) {
        snprintf(other, sizeof other, "%.24s-o", name);
        if (add_format(w->out, "%s ::= json-string \":\" json-ws %s json-ws\n", other, value) != PF_OK)
            status = no_memory(w);
    }
    if (status == PF_OK) status = add_last(w, name, n, has_others ? other : NULL);
    if (status == PF_OK && add_format(body, "\"{\" json-ws %.24s-a0 \"}\"", name) != PF_OK) status = no_memory(w);
    json_decref(properties);
    return status;
}

static pf_status write_type(writer *w, const char *type, const json_t *schema, const path *at, pf_bytes *body)
{
    static const char *const plain[][2] = { { "boolean", "json-boolean" }, { "null", "\"null\"" } };
    if (strcmp(type, "object") == 0) return write_object(w, schema, at, body);
    if (strcmp(type, "array") == 0) return write_array(w, schema, at, body);
    if (strcmp(type, "string") == 0) return write_string(w, schema, at, body);
    if (strcmp(type, "integer") == 0 || strcmp(type, "number") == 0)
        return write_number(w, schema, at, type[0] == 'i', body);
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strcmp(plain[i][0], type) == 0) return add(body, plain[i][1]) == PF_OK ? PF_OK : no_memory(w);
    return refuse(w, PF_INVALID, at, "the type ", type);
}

/* ---- schemas ------------------------------------------------------------------------------------------------------- */

static bool is_one_of(const char *word, const char *const *words)
{
    for (; *words; words++)
        if (strcmp(*words, word) == 0) return true;
    return false;
}

static pf_status check_keywords(const writer *w, const json_t *schema, const path *at)
{
    static const char *const known[] = { "type", "enum", "const", "anyOf", "allOf", "$ref", "properties", "required",
                                         "additionalProperties", "items", "minItems", "maxItems", "minLength",
                                         "maxLength", "pattern", "oneOf", "minimum", "maximum", "exclusiveMinimum",
                                         "exclusiveMaximum", "multipleOf",
                                         /* these describe */
                                         "title", "description", "default", "examples", "example", "deprecated",
                                         "readOnly", "writeOnly", "format", "$schema", "$id", "$comment", "$defs",
                                         "definitions", "nullable", "strict", NULL };
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)schema, key, value)
    {
        if (!is_one_of(key, known)) return refuse(w, PF_UNSUPPORTED, at, "the keyword ", key);
    }
    return PF_OK;
}

/* What a list of schemas allows together. */
static pf_status write_any_of(writer *w, const json_t *list, const path *at, pf_bytes *body)
{
    if (!json_is_array(list) || json_array_size(list) == 0)
        return refuse(w, PF_INVALID, at, "expected a list of schemas", "");
    for (size_t i = 0; i < json_array_size(list); i++) {
        char number[24];
        rule_name name;
        snprintf(number, sizeof number, "%zu", i);
        const path here = { at, number };
        PF_TRY(add_schema(w, json_array_get(list, i), &here, name));
        if (add_format(body, "%s%s", i > 0 ? " | " : "", name) != PF_OK) return no_memory(w);
    }
    return PF_OK;
}

/* No text may fit two of the schemas. */
static pf_status check_one_of(const writer *w, const json_t *list, const path *at)
{
    char what[64];
    if (json_array_size(list) > MOST_ONE_OF) return refuse(w, PF_LIMIT, at, "oneOf of more than 32 schemas", "");
    for (size_t i = 0; i < json_array_size(list); i++)
        for (size_t j = 0; j < i; j++) {
            if (pf_schemas_are_disjoint(w->root, json_array_get(list, j), json_array_get(list, i))) continue;
            snprintf(what, sizeof what, "%zu and %zu, which a text may fit both,", j, i);
            return refuse(w, PF_UNSUPPORTED, at, "oneOf of schemas ", what);
        }
    return PF_OK;
}

static pf_status write_enum(const writer *w, const json_t *list, const path *at, pf_bytes *body)
{
    if (!json_is_array(list) || json_array_size(list) == 0)
        return refuse(w, PF_INVALID, at, "expected a list of values", "");
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (i > 0 && add(body, " | ") != PF_OK) return no_memory(w);
        PF_TRY(add_constant(w, json_array_get(list, i), body));
    }
    return PF_OK;
}

static pf_status write_schema(writer *w, const json_t *schema, const path *at, pf_bytes *body);

/* The rule of the schema with this name. */
static pf_status add_named(writer *w, const json_t *schema, const path *at, const char *name)
{
    pf_bytes body = { 0 };
    pf_status status = write_schema(w, schema, at, &body);
    if (status == PF_OK) status = add_rule(w, name, &body);
    pf_bytes_clear(&body);
    return status;
}

/* Each target is one rule, however often it is referred to: it may refer to itself. */
static pf_status write_reference(writer *w, const json_t *reference, const path *at, pf_bytes *body)
{
    const char *word = json_string_value(reference);
    const json_t *target = word ? pf_schema_find(w->root, word) : NULL;
    if (!target) return refuse(w, PF_UNSUPPORTED, at, "the $ref ", word ? word : "that is no string");
    const char *known = json_string_value(json_object_get(w->references, word));
    rule_name name;
    if (known) return add(body, known) == PF_OK ? PF_OK : no_memory(w);
    PF_TRY(new_name(w, at, name));
    if (json_object_set_new(w->references, word, json_string(name)) != 0) return no_memory(w);
    if (w->depth == PF_JSON_SCHEMA_MAX_DEPTH) return refuse(w, PF_LIMIT, at, "the schema is too deep", "");
    w->depth++;
    PF_TRY(add_named(w, target, at, name));
    w->depth--;
    return add(body, name) == PF_OK ? PF_OK : no_memory(w);
}

static pf_status write_types(writer *w, const json_t *schema, const path *at, pf_bytes *body)
{
    const json_t *type = json_object_get(schema, "type");
    const char *implied = pf_schema_implied_type(schema);
    if (json_is_string(type)) return write_type(w, json_string_value(type), schema, at, body);
    if (!type)
        return implied ? write_type(w, implied, schema, at, body)
                       : (add(body, "json-value") == PF_OK ? PF_OK : no_memory(w));
    for (size_t i = 0; i < json_array_size(type); i++) {
        const char *word = json_string_value(json_array_get(type, i));
        if (i > 0 && add(body, " | ") != PF_OK) return no_memory(w);
        PF_TRY(write_type(w, word ? word : "that is no string", schema, at, body));
    }
    return json_array_size(type) > 0 ? PF_OK
                                     : refuse(w, PF_INVALID, at, "type: expected a word or a list of words", "");
}

static pf_status check_values(const writer *w, const json_t *schema, const path *at)
{
    const json_t *properties = json_object_get(schema, "properties"), *required = json_object_get(schema, "required");
    const json_t *others = json_object_get(schema, "additionalProperties");
    if (properties && !json_is_object(properties))
        return refuse(w, PF_INVALID, at, "properties: expected an object", "");
    if (required && !json_is_array(required)) return refuse(w, PF_INVALID, at, "required: expected a list", "");
    if (others && !json_is_boolean(others) && !json_is_object(others))
        return refuse(w, PF_INVALID, at, "additionalProperties: expected a boolean or a schema", "");
    return PF_OK;
}

static pf_status write_schema(writer *w, const json_t *schema, const path *at, pf_bytes *body)
{
    if (json_is_true(schema)) return add(body, "json-value") == PF_OK ? PF_OK : no_memory(w);
    if (!json_is_object(schema)) return refuse(w, PF_INVALID, at, "expected a schema, an object", "");
    PF_TRY(check_keywords(w, schema, at));
    PF_TRY(check_values(w, schema, at));
    const json_t *constant = json_object_get(schema, "const"), *values = json_object_get(schema, "enum");
    const json_t *one = json_object_get(schema, "oneOf"), *any = one ? one : json_object_get(schema, "anyOf");
    const json_t *all = json_object_get(schema, "allOf");
    const json_t *reference = json_object_get(schema, "$ref");
    if (constant) return add_constant(w, constant, body);
    if (values) return write_enum(w, values, at, body);
    if ((any || all || reference) && pf_schema_implied_type(schema))
        return refuse(w, PF_UNSUPPORTED, at,
                      reference ? "$ref beside "
                      : one     ? "oneOf beside "
                      : any     ? "anyOf beside "
                                : "allOf beside ",
                      pf_schema_implied_type(schema));
    if (reference) return write_reference(w, reference, at, body);
    if (all && json_array_size(all) != 1) return refuse(w, PF_UNSUPPORTED, at, "allOf of ", "other than one schema");
    if (one && json_object_get(schema, "anyOf")) return refuse(w, PF_UNSUPPORTED, at, "oneOf beside ", "anyOf");
    if (one) PF_TRY(check_one_of(w, one, at));
    if (any || all) return write_any_of(w, any ? any : all, at, body);
    return write_types(w, schema, at, body);
}

static pf_status add_schema(writer *w, const json_t *schema, const path *at, rule_name name)
{
    if (w->depth == PF_JSON_SCHEMA_MAX_DEPTH) return refuse(w, PF_LIMIT, at, "the schema is too deep", "");
    w->depth++;
    PF_TRY(new_name(w, at, name));
    PF_TRY(add_named(w, schema, at, name));
    w->depth--;
    return PF_OK;
}

pf_status pf_json_schema_add(const json_t *root, const json_t *schema, const char *what, const char *prefix,
                             pf_bytes *out, char name[PF_JSON_SCHEMA_NAME_BYTES], pf_error *error)
{
    writer w = { .root = root, .prefix = prefix, .out = out, .references = json_object(), .error = error };
    const path at = { NULL, what };
    if (!w.references) return no_memory(&w);
    const pf_status status = add_schema(&w, schema, &at, name);
    json_decref(w.references);
    return status;
}
