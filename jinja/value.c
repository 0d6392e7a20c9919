#include "jinja/value.h"

#include <math.h>
#include <string.h>

#include "base/utf8.h"
#include "jinja/jinja.h"

enum { MAX_NESTING = 1000 }; /* of lists within lists, as data or as a template makes them */

/* Enters a level of nested data; false: too deep, or the heap has failed. Every entry is left. */
static bool enter(pf_jinja_heap *heap)
{
    heap->depth++;
    if (heap->depth > MAX_NESTING) pf_jinja_fail(heap, PF_LIMIT, "values are nested more than %d deep", MAX_NESTING);
    return pf_jinja_step(heap, 1);
}

static void leave(pf_jinja_heap *heap)
{
    heap->depth--;
}

const char *pf_jinja_kind_name(pf_jinja_kind kind)
{
    static const char *const names[] = { "undefined", "None",  "bool", "int",       "float",   "str",
                                         "list",      "tuple", "dict", "namespace", "function" };
    return names[kind];
}

bool pf_jinja_texts_equal(pf_jinja_text a, pf_jinja_text b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.data, b.data, a.n) == 0);
}

int64_t pf_jinja_integer_of(const pf_jinja_value *v)
{
    if (v->kind == PF_JINJA_BOOL) return v->as.boolean;
    if (v->kind == PF_JINJA_INT) return v->as.integer;
    return v->as.real >= -9.2e18 && v->as.real <= 9.2e18 ? (int64_t)v->as.real : 0;
}

double pf_jinja_real_of(const pf_jinja_value *v)
{
    return v->kind == PF_JINJA_FLOAT ? v->as.real : (double)pf_jinja_integer_of(v);
}

bool pf_jinja_is_true(const pf_jinja_value *v)
{
    switch (v->kind) {
    case PF_JINJA_UNDEFINED:
    case PF_JINJA_NONE: return false;
    case PF_JINJA_BOOL: return v->as.boolean;
    case PF_JINJA_INT: return v->as.integer != 0;
    case PF_JINJA_FLOAT: return v->as.real != 0.0;
    case PF_JINJA_STRING: return v->as.text.n > 0;
    case PF_JINJA_LIST:
    case PF_JINJA_TUPLE: return v->as.list->n > 0;
    case PF_JINJA_DICT: return v->as.dict->n > 0;
    case PF_JINJA_NAMESPACE:
    case PF_JINJA_CALLABLE: break;
    }
    return true;
}

/* ---- lists and dictionaries ------------------------------------------------------------------------------------- */

pf_jinja_value pf_jinja_new_list(pf_jinja_heap *heap, pf_jinja_kind kind)
{
    pf_jinja_list *list = pf_jinja_take(heap, 1, sizeof *list);
    if (list == NULL) return pf_jinja_undefined(PF_JINJA_TEXT(""));
    *list = (pf_jinja_list){ .n = 0 };
    return (pf_jinja_value){ kind, { .list = list } };
}

pf_jinja_value pf_jinja_new_dict(pf_jinja_heap *heap, pf_jinja_kind kind)
{
    pf_jinja_dict *dict = pf_jinja_take(heap, 1, sizeof *dict);
    if (dict == NULL) return pf_jinja_undefined(PF_JINJA_TEXT(""));
    *dict = (pf_jinja_dict){ .n = 0 };
    return (pf_jinja_value){ kind, { .dict = dict } };
}

/* values [capacity] in twice the room; NULL: the heap has failed. */
static pf_jinja_value *grow(pf_jinja_heap *heap, const pf_jinja_value *values, size_t n, size_t capacity)
{
    pf_jinja_value *grown = pf_jinja_take(heap, capacity, sizeof *grown);
    if (grown != NULL && n > 0) memcpy(grown, values, n * sizeof *grown);
    return grown;
}

static size_t next_capacity(size_t capacity)
{
    return capacity > 0 ? 2 * capacity : 8;
}

void pf_jinja_push(pf_jinja_heap *heap, pf_jinja_value *value, pf_jinja_value item)
{
    if (!pf_jinja_step(heap, 1)) return;
    pf_jinja_list *list = value->as.list;
    if (list->n == list->capacity) {
        pf_jinja_value *grown = grow(heap, list->items, list->n, next_capacity(list->capacity));
        if (grown == NULL) return;
        list->items = grown;
        list->capacity = next_capacity(list->capacity);
    }
    list->items[list->n++] = item;
}

pf_jinja_value *pf_jinja_get(pf_jinja_heap *heap, const pf_jinja_value *value, const pf_jinja_value *key)
{
    const pf_jinja_dict *dict = value->as.dict;
    for (size_t i = 0; i < dict->n && pf_jinja_step(heap, 1); i++)
        if (pf_jinja_equal(heap, &dict->keys[i], key)) return &dict->values[i];
    return NULL;
}

pf_jinja_value *pf_jinja_get_text(pf_jinja_heap *heap, const pf_jinja_value *value, pf_jinja_text key)
{
    const pf_jinja_value as_value = pf_jinja_string(key);
    return pf_jinja_get(heap, value, &as_value);
}

void pf_jinja_put(pf_jinja_heap *heap, pf_jinja_value *value, pf_jinja_value key, pf_jinja_value item)
{
    if (!pf_jinja_is_well(heap)) return;
    pf_jinja_dict *dict = value->as.dict;
    pf_jinja_value *there = pf_jinja_get(heap, value, &key);
    if (there != NULL) {
        *there = item;
        return;
    }
    if (dict->n == dict->capacity) {
        const size_t capacity = next_capacity(dict->capacity);
        pf_jinja_value *keys = grow(heap, dict->keys, dict->n, capacity);
        pf_jinja_value *values = grow(heap, dict->values, dict->n, capacity);
        if (keys == NULL || values == NULL) return;
        dict->keys = keys;
        dict->values = values;
        dict->capacity = capacity;
    }
    dict->keys[dict->n] = key;
    dict->values[dict->n++] = item;
}

/* ---- comparison -------------------------------------------------------------------------------------------------- */

static bool lists_equal(pf_jinja_heap *heap, const pf_jinja_list *a, const pf_jinja_list *b)
{
    bool equal = a->n == b->n && enter(heap);
    for (size_t i = 0; equal && i < a->n; i++)
        equal = pf_jinja_step(heap, 1) && pf_jinja_equal(heap, &a->items[i], &b->items[i]);
    if (a->n == b->n) leave(heap);
    return equal;
}

static bool dicts_equal(pf_jinja_heap *heap, const pf_jinja_value *a, const pf_jinja_value *b)
{
    const pf_jinja_dict *dict = a->as.dict;
    if (dict->n != b->as.dict->n) return false;
    bool equal = enter(heap);
    for (size_t i = 0; equal && i < dict->n; i++) {
        const pf_jinja_value *other = pf_jinja_get(heap, b, &dict->keys[i]);
        equal = other != NULL && pf_jinja_equal(heap, &dict->values[i], other);
    }
    leave(heap);
    return equal;
}

bool pf_jinja_equal(pf_jinja_heap *heap, const pf_jinja_value *a, const pf_jinja_value *b)
{
    if (pf_jinja_is_number(a) && pf_jinja_is_number(b))
        return a->kind == PF_JINJA_FLOAT || b->kind == PF_JINJA_FLOAT
                   ? pf_jinja_real_of(a) == pf_jinja_real_of(b)
                   : pf_jinja_integer_of(a) == pf_jinja_integer_of(b);
    if (a->kind != b->kind) return false;
    switch (a->kind) {
    case PF_JINJA_STRING: return pf_jinja_step(heap, a->as.text.n / 64) && pf_jinja_texts_equal(a->as.text, b->as.text);
    case PF_JINJA_LIST:
    case PF_JINJA_TUPLE: return lists_equal(heap, a->as.list, b->as.list);
    case PF_JINJA_DICT: return dicts_equal(heap, a, b);
    case PF_JINJA_NAMESPACE: return a->as.dict == b->as.dict;
    case PF_JINJA_CALLABLE: return a->as.called == b->as.called;
    default: return true; /* None, undefined */
    }
}

static bool lists_less(pf_jinja_heap *heap, const pf_jinja_list *a, const pf_jinja_list *b, bool *less)
{
    bool is_ordered = enter(heap), is_decided = false;
    for (size_t i = 0; is_ordered && !is_decided && i < a->n && i < b->n && pf_jinja_step(heap, 1); i++) {
        is_decided = !pf_jinja_equal(heap, &a->items[i], &b->items[i]);
        if (is_decided) is_ordered = pf_jinja_less(heap, &a->items[i], &b->items[i], less);
    }
    leave(heap);
    if (!is_decided) *less = a->n < b->n;
    return is_ordered;
}

bool pf_jinja_less(pf_jinja_heap *heap, const pf_jinja_value *a, const pf_jinja_value *b, bool *less)
{
    *less = false;
    if (pf_jinja_is_number(a) && pf_jinja_is_number(b)) {
        *less = a->kind == PF_JINJA_FLOAT || b->kind == PF_JINJA_FLOAT
                    ? pf_jinja_real_of(a) < pf_jinja_real_of(b)
                    : pf_jinja_integer_of(a) < pf_jinja_integer_of(b);
        return true;
    }
    if (a->kind != b->kind) return false;
    if (pf_jinja_is_sequence(a)) return lists_less(heap, a->as.list, b->as.list, less);
    if (a->kind != PF_JINJA_STRING) return false;
    const pf_jinja_text x = a->as.text, y = b->as.text;
    const size_t n = x.n < y.n ? x.n : y.n;
    const int order = n > 0 ? memcmp(x.data, y.data, n) : 0; /* UTF-8 sorts as its characters do */
    *less = order < 0 || (order == 0 && x.n < y.n);
    return pf_jinja_step(heap, n / 64);
}

/* ---- JSON in ------------------------------------------------------------------------------------------------------ */

pf_jinja_value pf_jinja_of_json(pf_jinja_heap *heap, const json_t *json)
{
    switch (json == NULL ? JSON_NULL : json_typeof(json)) {
    case JSON_TRUE: return pf_jinja_bool(true);
    case JSON_FALSE: return pf_jinja_bool(false);
    case JSON_INTEGER: return pf_jinja_int(json_integer_value(json));
    case JSON_REAL: return pf_jinja_real(json_real_value(json));
    case JSON_STRING: return pf_jinja_string((pf_jinja_text){ json_string_value(json), json_string_length(json) });
    case JSON_ARRAY: {
        pf_jinja_value list = pf_jinja_new_list(heap, PF_JINJA_LIST);
        if (enter(heap))
            for (size_t i = 0; i < json_array_size(json); i++)
                pf_jinja_push(heap, &list, pf_jinja_of_json(heap, json_array_get(json, i)));
        leave(heap);
        return list;
    }
    case JSON_OBJECT: {
        pf_jinja_value dict = pf_jinja_new_dict(heap, PF_JINJA_DICT);
        const char *key;
        size_t n;
        json_t *item;
        if (enter(heap))
            json_object_keylen_foreach((json_t *)(uintptr_t)json, key, n, item)
                pf_jinja_put(heap, &dict, pf_jinja_string((pf_jinja_text){ key, n }), pf_jinja_of_json(heap, item));
        leave(heap);
        return dict;
    }
    default: return pf_jinja_none();
    }
}

/* ---- characters --------------------------------------------------------------------------------------------------- */

static size_t character_length(pf_jinja_text text, size_t at)
{
    bool valid;
    if ((unsigned char)text.data[at] < 0x80) return 1;
    return pf_utf8_length(text.data + at, text.n - at, &valid);
}

size_t pf_jinja_characters(pf_jinja_heap *heap, pf_jinja_text text)
{
    (void)pf_jinja_step(heap, text.n / 64);
    size_t n = 0;
    for (size_t at = 0; at < text.n; at += character_length(text, at)) n++;
    return n;
}

size_t pf_jinja_byte_of(pf_jinja_heap *heap, pf_jinja_text text, size_t character)
{
    (void)pf_jinja_step(heap, (character < text.n ? character : text.n) / 64);
    size_t at = 0;
    for (size_t i = 0; i < character && at < text.n; i++) at += character_length(text, at);
    return at;
}
