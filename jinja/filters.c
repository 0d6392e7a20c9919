/* Filters. Source: Jinja 2, filters.py; `tojson` as transformers replaces it. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jinja/rendering.h"

static pf_jinja_value nothing(void)
{
    return pf_jinja_undefined(PF_JINJA_TEXT(""));
}

static pf_jinja_value fail(pf_jinja_run *run, const pf_jinja_value *of, const char *filter)
{
    pf_jinja_fail(run->heap, PF_INVALID, "the filter %s does not take a '%s'", filter, pf_jinja_kind_name(of->kind));
    return nothing();
}

static bool flag(const pf_jinja_arguments *args, size_t i, const char *name, bool otherwise)
{
    const pf_jinja_value *v = pf_jinja_argument(args, i, name);
    return v != NULL ? pf_jinja_is_true(v) : otherwise;
}

static pf_jinja_text text(pf_jinja_run *run, const pf_jinja_arguments *args, size_t i, const char *name)
{
    const pf_jinja_value *v = pf_jinja_argument(args, i, name);
    return v != NULL ? pf_jinja_str(run->heap, v) : PF_JINJA_TEXT("");
}

static pf_jinja_value new_list(pf_jinja_run *run)
{
    return pf_jinja_new_list(run->heap, PF_JINJA_LIST);
}

static void push(pf_jinja_run *run, pf_jinja_value *list, pf_jinja_value item)
{
    if (pf_jinja_is_well(run->heap)) pf_jinja_push(run->heap, list, item);
}

/* The number of items to go through; 0 once the heap has failed. */
static size_t size_of(pf_jinja_run *run, const pf_jinja_value *list)
{
    return pf_jinja_is_well(run->heap) ? list->as.list->n : 0;
}

/* "a.b.0" of a value. */
static pf_jinja_value attribute_of(pf_jinja_run *run, const pf_jinja_value *of, const pf_jinja_value *path)
{
    if (path->kind != PF_JINJA_STRING) return pf_jinja_item(run, of, path);
    pf_jinja_value v = *of;
    pf_jinja_text rest = path->as.text;
    while (pf_jinja_step(run->heap, 1)) {
        const size_t dot = pf_jinja_find(run->heap, rest, PF_JINJA_TEXT("."), 0);
        const pf_jinja_text part = { rest.data, dot };
        char *end, digits[24] = "";
        if (part.n > 0 && part.n < sizeof digits) memcpy(digits, part.data, part.n);
        const int64_t index = strtoll(digits, &end, 10);
        const bool is_index = part.n > 0 && part.n < sizeof digits && *end == '\0';
        const pf_jinja_value key = is_index ? pf_jinja_int(index) : pf_jinja_string(part);
        v = pf_jinja_item(run, &v, &key);
        if (dot >= rest.n) break;
        rest.data += dot + 1;
        rest.n -= dot + 1;
    }
    return v;
}

#define FILTER(name) \
    static pf_jinja_value name(pf_jinja_run *run, const pf_jinja_value *of, const pf_jinja_arguments *args)

/* ---- texts ----------------------------------------------------------------------------------------------------------- */

static pf_jinja_value cased(pf_jinja_run *run, const pf_jinja_value *of, pf_jinja_case wanted)
{
    return pf_jinja_string(pf_jinja_cased(run->heap, pf_jinja_str(run->heap, of), wanted));
}
FILTER(upper)
{
    (void)args;
    return cased(run, of, PF_JINJA_CASE_UPPER);
}
FILTER(lower)
{
    (void)args;
    return cased(run, of, PF_JINJA_CASE_LOWER);
}
FILTER(capitalize)
{
    (void)args;
    return cased(run, of, PF_JINJA_CASE_CAPITAL);
}
FILTER(title)
{
    (void)args;
    return cased(run, of, PF_JINJA_CASE_WORDS);
}

FILTER(trim)
{
    return pf_jinja_string(
        pf_jinja_strip(run->heap, pf_jinja_str(run->heap, of), pf_jinja_argument(args, 0, "chars"), true, true));
}

FILTER(replace)
{
    return pf_jinja_string(pf_jinja_replace(run->heap, pf_jinja_str(run->heap, of), text(run, args, 0, "old"),
                                            text(run, args, 1, "new"),
                                            pf_jinja_integer_argument(args, 2, "count", -1)));
}

FILTER(string)
{
    (void)args;
    return pf_jinja_string(pf_jinja_str(run->heap, of));
}

FILTER(escape)
{
    (void)args;
    static const struct {
        char c;
        const char *entity;
    } entities[] = { { '&', "&amp;" }, { '<', "&lt;" }, { '>', "&gt;" }, { '\'', "&#39;" }, { '"', "&#34;" } };
    const pf_jinja_text from = pf_jinja_str(run->heap, of);
    pf_jinja_builder b = { .n = 0 };
    for (size_t i = 0; i < from.n && pf_jinja_step(run->heap, 1); i++) {
        const char *entity = NULL;
        for (size_t k = 0; k < sizeof entities / sizeof *entities; k++)
            if (from.data[i] == entities[k].c) entity = entities[k].entity;
        if (entity != NULL)
            pf_jinja_add(run->heap, &b, entity, strlen(entity));
        else
            pf_jinja_add(run->heap, &b, from.data + i, 1);
    }
    return pf_jinja_string((pf_jinja_text){ b.data, b.n });
}

/* Lines but the first, and empty ones only on request, behind `width` spaces or a text. */
FILTER(indent)
{
    const pf_jinja_value *width = pf_jinja_argument(args, 0, "width");
    const bool first = flag(args, 1, "first", false), blank = flag(args, 2, "blank", false);
    const pf_jinja_text from = pf_jinja_str(run->heap, of);
    const bool by_text = width != NULL && width->kind == PF_JINJA_STRING;
    const int64_t n_spaces = by_text ? 0 : pf_jinja_integer_argument(args, 0, "width", 4);
    pf_jinja_builder b = { .n = 0 };
    for (size_t at = 0, line = 0; at <= from.n && pf_jinja_step(run->heap, 1); line++) {
        const size_t end = pf_jinja_find(run->heap, from, PF_JINJA_TEXT("\n"), at);
        const bool indented = line == 0 ? first : blank || end > at;
        if (indented && by_text) pf_jinja_add(run->heap, &b, width->as.text.data, width->as.text.n);
        for (int64_t i = 0; indented && i < n_spaces && pf_jinja_step(run->heap, 1); i++)
            pf_jinja_add(run->heap, &b, " ", 1);
        pf_jinja_add(run->heap, &b, from.data + at, (end < from.n ? end + 1 : end) - at);
        at = end + 1;
    }
    return pf_jinja_string((pf_jinja_text){ b.data, b.n });
}

FILTER(wordcount)
{
    (void)args;
    const pf_jinja_value whole = pf_jinja_string(pf_jinja_str(run->heap, of));
    const pf_jinja_value method = pf_jinja_method(run, &whole, PF_JINJA_TEXT("split"));
    const pf_jinja_arguments none = { .n = 0 };
    const pf_jinja_value words = pf_jinja_call(run, &method, &none);
    return pf_jinja_int((int64_t)size_of(run, &words));
}

/* Whether no width or precision of a "%" format is so long that its text would be cut. */
static bool is_short(const char *spec, size_t n)
{
    enum { MOST = 300 };
    int32_t number = 0;
    for (size_t i = 0; i < n && number <= MOST; i++)
        number = spec[i] >= '0' && spec[i] <= '9' ? number * 10 + (spec[i] - '0') : 0;
    return number <= MOST && n <= 12;
}

/* One conversion of a "%" format, `spec` from "%" to its letter, by snprintf. */
static void add_formatted(pf_jinja_run *run, pf_jinja_builder *b, const char *spec, size_t n, const pf_jinja_value *v)
{
    char format[32], out[1000]; /* a real of 309 digits, and 300 behind the point */
    const char letter = spec[n - 1];
    if (letter == 's' || letter == 'r') {
        const pf_jinja_text shown = pf_jinja_str(run->heap, v);
        pf_jinja_add(run->heap, b, shown.data, shown.n);
        return;
    }
    if (!pf_jinja_is_number(v) || !is_short(spec, n - 1)) {
        pf_jinja_fail(run->heap, PF_INVALID, "%%%c takes a number, and a width of at most three digits", letter);
        return;
    }
    const bool is_integer = strchr("dixXo", letter) != NULL;
    snprintf(format, sizeof format, "%.*s%s%c", (int)(n - 1), spec, is_integer ? "ll" : "", letter);
    const int length = is_integer ? snprintf(out, sizeof out, format, (long long)pf_jinja_integer_of(v))
                                  : snprintf(out, sizeof out, format, pf_jinja_real_of(v));
    if (length > 0) pf_jinja_add(run->heap, b, out, strnlen(out, sizeof out));
}

FILTER(format)
{
    const pf_jinja_text from = pf_jinja_str(run->heap, of);
    pf_jinja_builder b = { .n = 0 };
    size_t used = 0;
    for (size_t i = 0; i < from.n && pf_jinja_step(run->heap, 1); i++) {
        size_t n = 1;
        if (from.data[i] != '%') {
            pf_jinja_add(run->heap, &b, from.data + i, 1);
            continue;
        }
        while (i + n < from.n && strchr("-+ #0123456789.", from.data[i + n]) != NULL && from.data[i + n] != '\0') n++;
        const char letter = i + n < from.n ? from.data[i + n] : '\0';
        if (letter == '%') {
            pf_jinja_add(run->heap, &b, "%", 1);
        } else if (letter != '\0' && strchr("srdixXofFeEgG", letter) != NULL && used < args->n) {
            add_formatted(run, &b, from.data + i, n + 1, &args->items[used++]);
        } else {
            pf_jinja_fail(run->heap, PF_INVALID,
                          "a format wants more values than it is given, or has an unknown letter");
        }
        i += n;
    }
    return pf_jinja_string((pf_jinja_text){ b.data, b.n });
}

FILTER(tojson)
{
    pf_jinja_text out;
    const pf_jinja_value *indented = pf_jinja_argument(args, 0, "indent");
    const pf_jinja_value *separators = pf_jinja_argument(args, 2, "separators");
    pf_jinja_json_style style = { .indent = -1, .sorts_keys = flag(args, 3, "sort_keys", false) };
    if (indented != NULL && pf_jinja_is_number(indented)) {
        const int64_t n = pf_jinja_integer_of(indented);
        style.indent = n < 0 ? 0 : n > 64 ? 64 : (int32_t)n;
    }
    const pf_jinja_value *ascii = pf_jinja_argument(args, 1, "ensure_ascii");
    style.ascii = ascii != NULL && pf_jinja_is_true(ascii);
    if (separators != NULL && pf_jinja_is_sequence(separators) && separators->as.list->n == 2) {
        style.between_items = pf_jinja_str(run->heap, &separators->as.list->items[0]);
        style.behind_key = pf_jinja_str(run->heap, &separators->as.list->items[1]);
    }
    return pf_jinja_to_json(run->heap, of, &style, &out) ? pf_jinja_string(out) : fail(run, of, "tojson");
}

/* ---- numbers --------------------------------------------------------------------------------------------------------- */

/* The number at the start of a text, as Python's int() or float() reads the whole of one. */
static bool number_of_text(pf_jinja_text from, bool real, int base, pf_jinja_value *out)
{
    char digits[64], *end;
    while (from.n > 0 && strchr(" \t\n\r", from.data[0]) != NULL) from = (pf_jinja_text){ from.data + 1, from.n - 1 };
    while (from.n > 0 && strchr(" \t\n\r", from.data[from.n - 1]) != NULL) from.n--;
    if (from.n == 0 || from.n >= sizeof digits) return false;
    memcpy(digits, from.data, from.n);
    digits[from.n] = '\0';
    *out = real ? pf_jinja_real(strtod(digits, &end)) : pf_jinja_int(strtoll(digits, &end, base));
    return *end == '\0';
}

FILTER(to_int)
{
    pf_jinja_value v;
    const pf_jinja_value *otherwise = pf_jinja_argument(args, 0, "default");
    if (pf_jinja_is_number(of)) return pf_jinja_int(pf_jinja_integer_of(of));
    if (of->kind == PF_JINJA_STRING) {
        const int64_t base = pf_jinja_integer_argument(args, 1, "base", 10);
        if (number_of_text(of->as.text, false, base >= 2 && base <= 36 ? (int)base : 10, &v)) return v;
        if (number_of_text(of->as.text, true, 10, &v)) return pf_jinja_int(pf_jinja_integer_of(&v));
    }
    (void)run;
    return otherwise != NULL ? *otherwise : pf_jinja_int(0);
}

FILTER(to_float)
{
    pf_jinja_value v;
    const pf_jinja_value *otherwise = pf_jinja_argument(args, 0, "default");
    (void)run;
    if (pf_jinja_is_number(of)) return pf_jinja_real(pf_jinja_real_of(of));
    if (of->kind == PF_JINJA_STRING && number_of_text(of->as.text, true, 10, &v)) return v;
    return otherwise != NULL ? *otherwise : pf_jinja_real(0.0);
}

FILTER(absolute)
{
    (void)args;
    const pf_jinja_value zero = pf_jinja_int(0);
    if (!pf_jinja_is_number(of)) return fail(run, of, "abs");
    if (of->kind == PF_JINJA_FLOAT) return pf_jinja_real(fabs(of->as.real));
    return pf_jinja_integer_of(of) < 0 ? pf_jinja_arithmetic(run, PF_JINJA_TEXT("-"), &zero, of)
                                       : pf_jinja_int(pf_jinja_integer_of(of));
}

/* By its exact decimal digits, as Python does: 2.675 is less than it looks. */
static pf_jinja_value rounded(double real, int digits)
{
    char text[700];
    snprintf(text, sizeof text, "%.*f", digits, real);
    return pf_jinja_real(strtod(text, NULL));
}

FILTER(to_round)
{
    if (!pf_jinja_is_number(of)) return fail(run, of, "round");
    const int64_t digits = pf_jinja_integer_argument(args, 0, "precision", 0);
    const pf_jinja_text method = text(run, args, 1, "method");
    const bool is_common = method.n == 0 || pf_jinja_text_is(method, "common");
    if (of->kind != PF_JINJA_FLOAT && is_common && digits >= 0) return pf_jinja_int(pf_jinja_integer_of(of));
    if (is_common && digits >= 0 && digits <= 300) return rounded(pf_jinja_real_of(of), (int)digits);
    const double factor = pow(10.0, (double)(digits < -300 ? -300 : digits > 300 ? 300 : digits));
    const double scaled = pf_jinja_real_of(of) * factor;
    if (pf_jinja_text_is(method, "ceil")) return pf_jinja_real(ceil(scaled) / factor);
    if (pf_jinja_text_is(method, "floor")) return pf_jinja_real(floor(scaled) / factor);
    return pf_jinja_real(rint(scaled) / factor);
}

/* ---- sequences ------------------------------------------------------------------------------------------------------- */

FILTER(length)
{
    (void)args;
    if (of->kind == PF_JINJA_STRING) return pf_jinja_int((int64_t)pf_jinja_characters(run->heap, of->as.text));
    if (of->kind == PF_JINJA_UNDEFINED) return pf_jinja_int(0);
    if (pf_jinja_is_mapping(of)) return pf_jinja_int((int64_t)of->as.dict->n);
    if (pf_jinja_is_sequence(of)) return pf_jinja_int((int64_t)of->as.list->n);
    return fail(run, of, "length");
}

FILTER(to_list)
{
    (void)args;
    const pf_jinja_value items = pf_jinja_items(run, of);
    pf_jinja_value list = new_list(run);
    for (size_t i = 0; i < size_of(run, &items); i++) push(run, &list, items.as.list->items[i]);
    return list;
}

FILTER(first)
{
    (void)args;
    const pf_jinja_value items = pf_jinja_items(run, of);
    return size_of(run, &items) > 0 ? items.as.list->items[0] : nothing();
}
FILTER(last)
{
    (void)args;
    const pf_jinja_value items = pf_jinja_items(run, of);
    const size_t n = size_of(run, &items);
    return n > 0 ? items.as.list->items[n - 1] : nothing();
}

FILTER(join)
{
    const pf_jinja_text between = text(run, args, 0, "d");
    const pf_jinja_value *attribute = pf_jinja_argument(args, 1, "attribute"), items = pf_jinja_items(run, of);
    pf_jinja_builder b = { .n = 0 };
    for (size_t i = 0; i < size_of(run, &items); i++) {
        pf_jinja_value item = items.as.list->items[i];
        if (attribute != NULL) item = attribute_of(run, &item, attribute);
        const pf_jinja_text shown = pf_jinja_str(run->heap, &item);
        if (i > 0) pf_jinja_add(run->heap, &b, between.data, between.n);
        pf_jinja_add(run->heap, &b, shown.data, shown.n);
    }
    return pf_jinja_string((pf_jinja_text){ b.data, b.n });
}

FILTER(reverse)
{
    (void)args;
    const pf_jinja_value items = pf_jinja_items(run, of);
    pf_jinja_builder b = { .n = 0 };
    pf_jinja_value list = new_list(run);
    for (size_t i = size_of(run, &items); i-- > 0;) {
        const pf_jinja_value item = items.as.list->items[i];
        if (of->kind == PF_JINJA_STRING)
            pf_jinja_add(run->heap, &b, item.as.text.data, item.as.text.n);
        else
            push(run, &list, item);
    }
    return of->kind == PF_JINJA_STRING ? pf_jinja_string((pf_jinja_text){ b.data, b.n }) : list;
}

FILTER(sum)
{
    const pf_jinja_value *attribute = pf_jinja_argument(args, 0, "attribute");
    const pf_jinja_value *start = pf_jinja_argument(args, 1, "start"), items = pf_jinja_items(run, of);
    pf_jinja_value total = start != NULL ? *start : pf_jinja_int(0);
    for (size_t i = 0; i < size_of(run, &items); i++) {
        pf_jinja_value item = items.as.list->items[i];
        if (attribute != NULL && attribute->kind != PF_JINJA_NONE) item = attribute_of(run, &item, attribute);
        total = pf_jinja_arithmetic(run, PF_JINJA_TEXT("+"), &total, &item);
    }
    return total;
}

/* What items are ordered by: an attribute, small letters where case does not count. */
static pf_jinja_value order_key(pf_jinja_run *run, const pf_jinja_value *item, const pf_jinja_value *attribute,
                                bool case_counts)
{
    pf_jinja_value key =
        attribute != NULL && attribute->kind != PF_JINJA_NONE ? attribute_of(run, item, attribute) : *item;
    if (key.kind == PF_JINJA_STRING && !case_counts)
        key = pf_jinja_string(pf_jinja_cased(run->heap, key.as.text, PF_JINJA_CASE_LOWER));
    return key;
}

/* Whether key a goes behind key b; fails where they cannot be ordered. */
static bool goes_behind(pf_jinja_run *run, const pf_jinja_value *a, const pf_jinja_value *b, bool reverse)
{
    bool less;
    if (pf_jinja_less(run->heap, reverse ? a : b, reverse ? b : a, &less)) return less;
    pf_jinja_fail(run->heap, PF_INVALID, "'%s' and '%s' cannot be sorted", pf_jinja_kind_name(a->kind),
                  pf_jinja_kind_name(b->kind));
    return false;
}

/* A stable merge of two sorted runs of `from` into `to`. */
static void merge(pf_jinja_run *run, const pf_jinja_value *keys, const size_t *from, size_t *to, size_t begin,
                  size_t middle, size_t end, bool reverse)
{
    size_t a = begin, b = middle;
    for (size_t i = begin; i < end; i++) {
        const bool takes_second = a >= middle || (b < end && goes_behind(run, &keys[from[a]], &keys[from[b]], reverse));
        to[i] = takes_second ? from[b++] : from[a++];
    }
}

/* The order of keys [n], stable; NULL: the heap has failed. */
static const size_t *sorted_order(pf_jinja_run *run, const pf_jinja_value *keys, size_t n, bool reverse)
{
    size_t *order = pf_jinja_take(run->heap, n, sizeof *order), *other = pf_jinja_take(run->heap, n, sizeof *other);
    if (order == NULL || other == NULL) return NULL;
    for (size_t i = 0; i < n; i++) order[i] = i;
    for (size_t width = 1; width < n && pf_jinja_step(run->heap, n); width *= 2) {
        for (size_t begin = 0; begin < n; begin += 2 * width) {
            const size_t middle = begin + width < n ? begin + width : n;
            const size_t end = begin + 2 * width < n ? begin + 2 * width : n;
            merge(run, keys, order, other, begin, middle, end, reverse);
        }
        size_t *swapped = order;
        order = other;
        other = swapped;
    }
    return pf_jinja_is_well(run->heap) ? order : NULL;
}

static pf_jinja_value sort_by(pf_jinja_run *run, const pf_jinja_value *items, const pf_jinja_value *attribute,
                              bool reverse, bool case_counts)
{
    const size_t n = size_of(run, items);
    pf_jinja_value *keys = pf_jinja_take(run->heap, n, sizeof *keys), list = new_list(run);
    if (keys == NULL || !pf_jinja_is_well(run->heap)) return list;
    for (size_t i = 0; i < n; i++) keys[i] = order_key(run, &items->as.list->items[i], attribute, case_counts);
    const size_t *order = sorted_order(run, keys, n, reverse);
    for (size_t i = 0; order != NULL && i < n; i++) push(run, &list, items->as.list->items[order[i]]);
    return list;
}

FILTER(sort)
{
    const pf_jinja_value items = pf_jinja_items(run, of);
    return sort_by(run, &items, pf_jinja_argument(args, 2, "attribute"), flag(args, 0, "reverse", false),
                   flag(args, 1, "case_sensitive", false));
}

static pf_jinja_value pairs_of(pf_jinja_run *run, const pf_jinja_value *of)
{
    const pf_jinja_arguments none = { .n = 0 };
    const pf_jinja_value method = pf_jinja_method(run, of, PF_JINJA_TEXT("items"));
    return pf_jinja_call(run, &method, &none);
}

FILTER(items)
{
    (void)args;
    if (of->kind == PF_JINJA_UNDEFINED) return new_list(run);
    return of->kind == PF_JINJA_DICT ? pairs_of(run, of) : fail(run, of, "items");
}

FILTER(dictsort)
{
    if (of->kind != PF_JINJA_DICT) return fail(run, of, "dictsort");
    const pf_jinja_value pairs = pairs_of(run, of);
    const pf_jinja_value by = pf_jinja_int(pf_jinja_text_is(text(run, args, 1, "by"), "value"));
    return sort_by(run, &pairs, &by, flag(args, 2, "reverse", false), flag(args, 0, "case_sensitive", false));
}

/* The smallest, or the largest: the first of equals. */
static pf_jinja_value extreme(pf_jinja_run *run, const pf_jinja_value *of, const pf_jinja_arguments *args, bool largest)
{
    const pf_jinja_value items = pf_jinja_items(run, of), *attribute = pf_jinja_argument(args, 1, "attribute");
    const bool case_counts = flag(args, 0, "case_sensitive", false);
    pf_jinja_value best = nothing(), best_key = nothing();
    for (size_t i = 0; i < size_of(run, &items); i++) {
        const pf_jinja_value key = order_key(run, &items.as.list->items[i], attribute, case_counts);
        if (i > 0 && !goes_behind(run, &best_key, &key, largest)) continue;
        best = items.as.list->items[i];
        best_key = key;
    }
    return best;
}
FILTER(smallest)
{
    return extreme(run, of, args, false);
}
FILTER(largest)
{
    return extreme(run, of, args, true);
}

FILTER(unique)
{
    const pf_jinja_value items = pf_jinja_items(run, of), *attribute = pf_jinja_argument(args, 1, "attribute");
    const bool case_counts = flag(args, 0, "case_sensitive", false);
    pf_jinja_value list = new_list(run), seen = new_list(run);
    for (size_t i = 0; i < size_of(run, &items); i++) {
        const pf_jinja_value key = order_key(run, &items.as.list->items[i], attribute, case_counts);
        if (!pf_jinja_is_well(run->heap) || pf_jinja_contains(run, &seen, &key)) continue;
        push(run, &seen, key);
        push(run, &list, items.as.list->items[i]);
    }
    return list;
}

FILTER(batch)
{
    const int64_t size = pf_jinja_integer_argument(args, 0, "linecount", 1);
    const pf_jinja_value items = pf_jinja_items(run, of), *fill = pf_jinja_argument(args, 1, "fill_with");
    pf_jinja_value list = new_list(run), row = new_list(run);
    if (size < 1) return fail(run, of, "batch");
    for (size_t i = 0; i < size_of(run, &items); i++) {
        if (i > 0 && i % (size_t)size == 0) {
            push(run, &list, row);
            row = new_list(run);
        }
        push(run, &row, items.as.list->items[i]);
    }
    while (fill != NULL && size_of(run, &row) > 0 && size_of(run, &row) < (size_t)size) push(run, &row, *fill);
    if (size_of(run, &row) > 0) push(run, &list, row);
    return list;
}

/* ---- choosing and mapping -------------------------------------------------------------------------------------------- */

/* Arguments from the i-th on. */
static pf_jinja_arguments behind(const pf_jinja_arguments *args, size_t i)
{
    pf_jinja_arguments rest = *args;
    const size_t n = i < args->n ? i : args->n;
    rest.items += n;
    rest.n -= n;
    return rest;
}

/* What these filters go through: of a value that is false, None too, nothing. */
static pf_jinja_value chosen_from(pf_jinja_run *run, const pf_jinja_value *of)
{
    return pf_jinja_is_true(of) ? pf_jinja_items(run, of) : new_list(run);
}

/* Items for which a test holds, or does not; of an attribute, or of themselves. Without a test: those that are true. */
static pf_jinja_value choose(pf_jinja_run *run, const pf_jinja_value *of, const pf_jinja_arguments *args,
                             bool by_attribute, bool wanted)
{
    const size_t i_test = by_attribute ? 1 : 0;
    const pf_jinja_value items = chosen_from(run, of), *test = args->n > i_test ? &args->items[i_test] : NULL;
    const pf_jinja_arguments rest = behind(args, i_test + 1);
    pf_jinja_value list = new_list(run);
    if ((by_attribute && args->n == 0) || (test != NULL && test->kind != PF_JINJA_STRING))
        return fail(run, of, by_attribute ? "selectattr" : "select");
    for (size_t i = 0; i < size_of(run, &items); i++) {
        pf_jinja_value item = items.as.list->items[i];
        if (by_attribute) item = attribute_of(run, &item, &args->items[0]);
        if (!pf_jinja_is_well(run->heap)) break;
        const bool holds = test != NULL ? pf_jinja_test(run, test->as.text, &item, &rest) : pf_jinja_is_true(&item);
        if (holds == wanted) push(run, &list, items.as.list->items[i]);
    }
    return list;
}
FILTER(select_items)
{
    return choose(run, of, args, false, true);
}
FILTER(reject)
{
    return choose(run, of, args, false, false);
}
FILTER(selectattr)
{
    return choose(run, of, args, true, true);
}
FILTER(rejectattr)
{
    return choose(run, of, args, true, false);
}

FILTER(map)
{
    const pf_jinja_value items = chosen_from(run, of);
    const pf_jinja_value *attribute = pf_jinja_argument(args, SIZE_MAX, "attribute");
    const pf_jinja_value *otherwise = pf_jinja_argument(args, SIZE_MAX, "default");
    const pf_jinja_arguments rest = behind(args, 1);
    pf_jinja_value list = new_list(run);
    if (attribute == NULL && (args->n == 0 || args->items[0].kind != PF_JINJA_STRING)) return fail(run, of, "map");
    for (size_t i = 0; i < size_of(run, &items); i++) {
        const pf_jinja_value *item = &items.as.list->items[i];
        pf_jinja_value mapped = attribute != NULL ? attribute_of(run, item, attribute)
                                                  : pf_jinja_filter(run, args->items[0].as.text, item, &rest);
        if (mapped.kind == PF_JINJA_UNDEFINED && otherwise != NULL) mapped = *otherwise;
        push(run, &list, mapped);
    }
    return list;
}

FILTER(attribute)
{
    const pf_jinja_value *name = pf_jinja_argument(args, 0, "name");
    return name != NULL ? attribute_of(run, of, name) : fail(run, of, "attr");
}

FILTER(otherwise)
{
    const pf_jinja_value *value = pf_jinja_argument(args, 0, "default_value");
    const bool also_false = flag(args, 1, "boolean", false);
    (void)run;
    if (of->kind != PF_JINJA_UNDEFINED && !(also_false && !pf_jinja_is_true(of))) return *of;
    return value != NULL ? *value : pf_jinja_string(PF_JINJA_TEXT(""));
}

FILTER(same)
{
    (void)run;
    (void)args;
    return *of;
}

/* ---- by name --------------------------------------------------------------------------------------------------------- */

pf_jinja_value pf_jinja_filter(pf_jinja_run *run, pf_jinja_text name, const pf_jinja_value *of,
                               const pf_jinja_arguments *args)
{
    static const struct {
        const char *name;
        pf_jinja_function *function;
    } filters[] = {
        { "abs", absolute },
        { "attr", attribute },
        { "batch", batch },
        { "capitalize", capitalize },
        { "count", length },
        { "d", otherwise },
        { "default", otherwise },
        { "dictsort", dictsort },
        { "e", escape },
        { "escape", escape },
        { "first", first },
        { "float", to_float },
        { "forceescape", escape },
        { "format", format },
        { "indent", indent },
        { "int", to_int },
        { "items", items },
        { "join", join },
        { "last", last },
        { "length", length },
        { "list", to_list },
        { "lower", lower },
        { "map", map },
        { "max", largest },
        { "min", smallest },
        { "reject", reject },
        { "rejectattr", rejectattr },
        { "replace", replace },
        { "reverse", reverse },
        { "round", to_round },
        { "safe", same },
        { "select", select_items },
        { "selectattr", selectattr },
        { "sort", sort },
        { "string", string },
        { "sum", sum },
        { "title", title },
        { "tojson", tojson },
        { "trim", trim },
        { "unique", unique },
        { "upper", upper },
        { "wordcount", wordcount },
    };
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        if (pf_jinja_text_is(name, filters[i].name)) return filters[i].function(run, of, args);
    pf_jinja_fail(run->heap, PF_UNSUPPORTED, "the filter \"%.*s\" is not known", (int)(name.n < 60 ? name.n : 60),
                  name.data);
    return nothing();
}
