/* Values as text: Python's str and repr, and JSON. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"
#include "jinja/value.h"

enum { MAX_NESTING = 200 };

static void add_text(pf_jinja_heap *heap, pf_jinja_builder *b, const char *text)
{
    pf_jinja_add(heap, b, text, strlen(text));
}

/* The shortest digits that read back as the number, as Python prints them. */
static void print_real(double value, bool as_json, char out[40])
{
    if (isnan(value) || isinf(value)) {
        snprintf(out, 40, "%s",
                 isnan(value) ? (as_json ? "NaN" : "nan")
                 : value > 0  ? (as_json ? "Infinity" : "inf")
                              : (as_json ? "-Infinity" : "-inf"));
        return;
    }
    int digits = 1;
    for (; digits < 17; digits++) {
        snprintf(out, 40, "%.*e", digits - 1, value);
        if (strtod(out, NULL) == value) break;
    }
    snprintf(out, 40, "%.*e", digits - 1, value);
    const long exponent = strtol(strchr(out, 'e') + 1, NULL, 10);
    if (exponent < -4 || exponent >= 16) return;
    snprintf(out, 40, "%.*f", digits - 1 > exponent ? digits - 1 - (int)exponent : 1, value);
}

/* ---- repr --------------------------------------------------------------------------------------------------------- */

static void add_escaped(pf_jinja_heap *heap, pf_jinja_builder *b, unsigned char c)
{
    char text[8];
    switch (c) {
    case '\n': add_text(heap, b, "\\n"); return;
    case '\r': add_text(heap, b, "\\r"); return;
    case '\t': add_text(heap, b, "\\t"); return;
    default: snprintf(text, sizeof text, "\\x%02x", c); add_text(heap, b, text);
    }
}

static void add_repr_text(pf_jinja_heap *heap, pf_jinja_builder *b, pf_jinja_text text)
{
    const bool has_single = text.n > 0 && memchr(text.data, '\'', text.n) != NULL;
    const bool has_double = text.n > 0 && memchr(text.data, '"', text.n) != NULL;
    const char quote = has_single && !has_double ? '"' : '\'';
    pf_jinja_add(heap, b, &quote, 1);
    for (size_t i = 0; i < text.n && pf_jinja_step(heap, 1); i++) {
        const char c = text.data[i];
        if (c == quote || c == '\\') add_text(heap, b, "\\");
        if ((unsigned char)c < 0x20 || c == 0x7f)
            add_escaped(heap, b, (unsigned char)c);
        else
            pf_jinja_add(heap, b, &c, 1);
    }
    pf_jinja_add(heap, b, &quote, 1);
}

static void add_str(pf_jinja_heap *heap, pf_jinja_builder *b, const pf_jinja_value *v, bool is_repr);

static void add_items(pf_jinja_heap *heap, pf_jinja_builder *b, const pf_jinja_value *v)
{
    const pf_jinja_list *list = v->as.list;
    const bool is_list = v->kind == PF_JINJA_LIST;
    add_text(heap, b, is_list ? "[" : "(");
    for (size_t i = 0; i < list->n && pf_jinja_is_well(heap); i++) {
        if (i > 0) add_text(heap, b, ", ");
        add_str(heap, b, &list->items[i], true);
    }
    add_text(heap, b, is_list ? "]" : list->n == 1 ? ",)" : ")");
}

static void add_pairs(pf_jinja_heap *heap, pf_jinja_builder *b, const pf_jinja_value *v)
{
    const pf_jinja_dict *dict = v->as.dict;
    add_text(heap, b, v->kind == PF_JINJA_DICT ? "{" : "<Namespace {");
    for (size_t i = 0; i < dict->n && pf_jinja_is_well(heap); i++) {
        if (i > 0) add_text(heap, b, ", ");
        add_str(heap, b, &dict->keys[i], true);
        add_text(heap, b, ": ");
        add_str(heap, b, &dict->values[i], true);
    }
    add_text(heap, b, v->kind == PF_JINJA_DICT ? "}" : "}>");
}

static void add_nested(pf_jinja_heap *heap, pf_jinja_builder *b, const pf_jinja_value *v)
{
    heap->depth++;
    if (heap->depth > MAX_NESTING) pf_jinja_fail(heap, PF_LIMIT, "values are nested more than %d deep", MAX_NESTING);
    if (pf_jinja_step(heap, 1)) (pf_jinja_is_sequence(v) ? add_items : add_pairs)(heap, b, v);
    heap->depth--;
}

static void add_str(pf_jinja_heap *heap, pf_jinja_builder *b, const pf_jinja_value *v, bool is_repr)
{
    char number[40];
    switch (v->kind) {
    case PF_JINJA_UNDEFINED: add_text(heap, b, is_repr ? "Undefined" : ""); return;
    case PF_JINJA_NONE: add_text(heap, b, "None"); return;
    case PF_JINJA_BOOL: add_text(heap, b, v->as.boolean ? "True" : "False"); return;
    case PF_JINJA_INT:
        snprintf(number, sizeof number, "%lld", (long long)v->as.integer);
        add_text(heap, b, number);
        return;
    case PF_JINJA_FLOAT:
        print_real(v->as.real, false, number);
        add_text(heap, b, number);
        return;
    case PF_JINJA_STRING:
        if (is_repr)
            add_repr_text(heap, b, v->as.text);
        else
            pf_jinja_add(heap, b, v->as.text.data, v->as.text.n);
        return;
    case PF_JINJA_LIST:
    case PF_JINJA_TUPLE:
    case PF_JINJA_DICT:
    case PF_JINJA_NAMESPACE: add_nested(heap, b, v); return;
    case PF_JINJA_CALLABLE: add_text(heap, b, "<function>"); return;
    }
}

pf_jinja_text pf_jinja_str(pf_jinja_heap *heap, const pf_jinja_value *v)
{
    pf_jinja_builder b = { .n = 0 };
    if (v->kind == PF_JINJA_STRING) return v->as.text;
    add_str(heap, &b, v, false);
    return (pf_jinja_text){ b.data, b.n };
}

/* ---- JSON --------------------------------------------------------------------------------------------------------- */

typedef struct {
    pf_jinja_heap *heap;
    pf_jinja_builder out;
    const pf_jinja_json_style *style;
    bool has_form;
} writer;

/* A character beyond ASCII as one or two \uXXXX. */
static size_t add_code_units(writer *w, pf_jinja_text text, size_t at)
{
    bool valid;
    char units[16];
    const size_t n = pf_utf8_length(text.data + at, text.n - at, &valid);
    utf8proc_int32_t code = 0xFFFD;
    if (valid) (void)utf8proc_iterate((const utf8proc_uint8_t *)text.data + at, (utf8proc_ssize_t)n, &code);
    if (code < 0x10000)
        snprintf(units, sizeof units, "\\u%04x", (unsigned)code);
    else
        snprintf(units, sizeof units, "\\u%04x\\u%04x", 0xD800u + ((unsigned)(code - 0x10000) >> 10),
                 0xDC00u + ((unsigned)code & 0x3FF));
    add_text(w->heap, &w->out, units);
    return n;
}

static void write_string(writer *w, pf_jinja_text text)
{
    static const char escaped[] = "\"\\\n\r\t\b\f", letters[] = "\"\\nrtbf";
    pf_jinja_add(w->heap, &w->out, "\"", 1);
    for (size_t i = 0; i < text.n && pf_jinja_step(w->heap, 1);) {
        const char c = text.data[i];
        const char *special = c != '\0' ? strchr(escaped, c) : NULL;
        char code[8];
        if (special != NULL) {
            const char pair[] = { '\\', letters[special - escaped] };
            pf_jinja_add(w->heap, &w->out, pair, 2);
        } else if ((unsigned char)c < 0x20) {
            snprintf(code, sizeof code, "\\u%04x", (unsigned)c);
            add_text(w->heap, &w->out, code);
        } else if ((unsigned char)c >= 0x80 && w->style->ascii) {
            i += add_code_units(w, text, i);
            continue;
        } else {
            pf_jinja_add(w->heap, &w->out, &c, 1);
        }
        i++;
    }
    pf_jinja_add(w->heap, &w->out, "\"", 1);
}

static void new_line(writer *w, int32_t level)
{
    if (w->style->indent < 0) return;
    add_text(w->heap, &w->out, "\n");
    for (int32_t i = 0; i < level * w->style->indent && pf_jinja_step(w->heap, 1); i++) add_text(w->heap, &w->out, " ");
}

static void between_items(writer *w, int32_t level)
{
    const pf_jinja_text asked = w->style->between_items;
    if (asked.data != NULL)
        pf_jinja_add(w->heap, &w->out, asked.data, asked.n);
    else
        add_text(w->heap, &w->out, w->style->indent < 0 ? ", " : ",");
    new_line(w, level);
}

static void write_value(writer *w, const pf_jinja_value *v, int32_t level);

static void write_list(writer *w, const pf_jinja_list *list, int32_t level)
{
    add_text(w->heap, &w->out, "[");
    for (size_t i = 0; i < list->n && pf_jinja_is_well(w->heap); i++) {
        if (i == 0)
            new_line(w, level + 1);
        else
            between_items(w, level + 1);
        write_value(w, &list->items[i], level + 1);
    }
    if (list->n > 0) new_line(w, level);
    add_text(w->heap, &w->out, "]");
}

/* The index of the next key in order: the smallest behind `last`, among those that no smaller one precedes. */
static size_t next_sorted(writer *w, const pf_jinja_dict *dict, size_t last)
{
    size_t best = dict->n;
    bool less;
    for (size_t i = 0; i < dict->n && pf_jinja_step(w->heap, 1); i++) {
        if (last < dict->n && !(pf_jinja_less(w->heap, &dict->keys[last], &dict->keys[i], &less) && less)) continue;
        if (best == dict->n || (pf_jinja_less(w->heap, &dict->keys[i], &dict->keys[best], &less) && less)) best = i;
    }
    return best;
}

/* A key is a text; numbers and words are written as one, as json.dumps does. */
static void write_key(writer *w, const pf_jinja_value *key)
{
    if (key->kind == PF_JINJA_STRING) {
        write_string(w, key->as.text);
        return;
    }
    if (key->kind == PF_JINJA_UNDEFINED || key->kind > PF_JINJA_STRING) w->has_form = false;
    add_text(w->heap, &w->out, "\"");
    write_value(w, key, 0);
    add_text(w->heap, &w->out, "\"");
}

static void write_dict(writer *w, const pf_jinja_dict *dict, int32_t level)
{
    const pf_jinja_text behind = w->style->behind_key.data ? w->style->behind_key : PF_JINJA_TEXT(": ");
    size_t at = dict->n;
    add_text(w->heap, &w->out, "{");
    for (size_t i = 0; i < dict->n && pf_jinja_is_well(w->heap); i++) {
        at = w->style->sorts_keys ? next_sorted(w, dict, at) : i;
        if (at >= dict->n) break;
        if (i == 0)
            new_line(w, level + 1);
        else
            between_items(w, level + 1);
        write_key(w, &dict->keys[at]);
        pf_jinja_add(w->heap, &w->out, behind.data, behind.n);
        write_value(w, &dict->values[at], level + 1);
    }
    if (dict->n > 0) new_line(w, level);
    add_text(w->heap, &w->out, "}");
}

static void write_value(writer *w, const pf_jinja_value *v, int32_t level)
{
    char number[40];
    if (level > MAX_NESTING) pf_jinja_fail(w->heap, PF_LIMIT, "values are nested more than %d deep", MAX_NESTING);
    if (!pf_jinja_step(w->heap, 1)) return;
    switch (v->kind) {
    case PF_JINJA_NONE: add_text(w->heap, &w->out, "null"); return;
    case PF_JINJA_BOOL: add_text(w->heap, &w->out, v->as.boolean ? "true" : "false"); return;
    case PF_JINJA_FLOAT:
        print_real(v->as.real, true, number);
        add_text(w->heap, &w->out, number);
        return;
    case PF_JINJA_INT: add_str(w->heap, &w->out, v, false); return;
    case PF_JINJA_STRING: write_string(w, v->as.text); return;
    case PF_JINJA_LIST:
    case PF_JINJA_TUPLE: write_list(w, v->as.list, level); return;
    case PF_JINJA_DICT: write_dict(w, v->as.dict, level); return;
    default: w->has_form = false;
    }
}

bool pf_jinja_to_json(pf_jinja_heap *heap, const pf_jinja_value *v, const pf_jinja_json_style *style,
                      pf_jinja_text *out)
{
    writer w = { .heap = heap, .style = style, .has_form = true };
    write_value(&w, v, 0);
    *out = (pf_jinja_text){ w.out.data, w.out.n };
    return w.has_form;
}
