/*
 * Values of a template: Python's, as far as templates see them. Internal to jinja/.
 *
 * A value is copied freely; what it points to lives in the heap of one rendering. Lists and dictionaries are shared by reference
 * and never change after they are made; a namespace does.
 */
#ifndef PF_JINJA_VALUE_H
#define PF_JINJA_VALUE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jinja/heap.h"

typedef enum {
    PF_JINJA_UNDEFINED,
    PF_JINJA_NONE,
    PF_JINJA_BOOL,
    PF_JINJA_INT,
    PF_JINJA_FLOAT,
    PF_JINJA_STRING,
    PF_JINJA_LIST,
    PF_JINJA_TUPLE,
    PF_JINJA_DICT,
    PF_JINJA_NAMESPACE, /* a dictionary whose fields may be set */
    PF_JINJA_CALLABLE,
} pf_jinja_kind;

/* Bytes of UTF-8. */
typedef struct {
    const char *data;
    size_t n;
} pf_jinja_text;

typedef struct pf_jinja_list pf_jinja_list;
typedef struct pf_jinja_dict pf_jinja_dict;
typedef struct pf_jinja_callable pf_jinja_callable; /* rendering.h */

typedef struct {
    pf_jinja_kind kind;
    union {
        bool boolean;
        int64_t integer;
        double real;
        pf_jinja_text text;        /* STRING; the name of what is UNDEFINED */
        pf_jinja_list *list;       /* LIST, TUPLE */
        pf_jinja_dict *dict;       /* DICT, NAMESPACE */
        pf_jinja_callable *called; /* CALLABLE */
    } as;
} pf_jinja_value;

struct pf_jinja_list {
    pf_jinja_value *items;
    size_t n, capacity;
};

struct pf_jinja_dict {
    pf_jinja_value *keys, *values; /* in order of insertion */
    size_t n, capacity;
};

/* A text literal. */
#define PF_JINJA_TEXT(literal) ((pf_jinja_text){ (literal), sizeof(literal) - 1 })

static inline bool pf_jinja_text_is(pf_jinja_text text, const char *word)
{
    size_t i = 0;
    while (i < text.n && word[i] != '\0' && text.data[i] == word[i]) i++;
    return i == text.n && word[i] == '\0';
}

bool pf_jinja_texts_equal(pf_jinja_text a, pf_jinja_text b);

static inline pf_jinja_value pf_jinja_undefined(pf_jinja_text name)
{
    return (pf_jinja_value){ PF_JINJA_UNDEFINED, { .text = name } };
}
static inline pf_jinja_value pf_jinja_none(void)
{
    return (pf_jinja_value){ .kind = PF_JINJA_NONE };
}
static inline pf_jinja_value pf_jinja_bool(bool value)
{
    return (pf_jinja_value){ PF_JINJA_BOOL, { .boolean = value } };
}
static inline pf_jinja_value pf_jinja_int(int64_t value)
{
    return (pf_jinja_value){ PF_JINJA_INT, { .integer = value } };
}
static inline pf_jinja_value pf_jinja_real(double value)
{
    return (pf_jinja_value){ PF_JINJA_FLOAT, { .real = value } };
}
static inline pf_jinja_value pf_jinja_string(pf_jinja_text text)
{
    return (pf_jinja_value){ PF_JINJA_STRING, { .text = text } };
}

static inline bool pf_jinja_is_sequence(const pf_jinja_value *v)
{
    return v->kind == PF_JINJA_LIST || v->kind == PF_JINJA_TUPLE;
}
static inline bool pf_jinja_is_mapping(const pf_jinja_value *v)
{
    return v->kind == PF_JINJA_DICT || v->kind == PF_JINJA_NAMESPACE;
}
static inline bool pf_jinja_is_number(const pf_jinja_value *v)
{
    return v->kind == PF_JINJA_BOOL || v->kind == PF_JINJA_INT || v->kind == PF_JINJA_FLOAT;
}

/* The type's name in Python: "str". */
const char *pf_jinja_kind_name(pf_jinja_kind kind);

/* Of a number: true counts as 1. */
int64_t pf_jinja_integer_of(const pf_jinja_value *v);
double pf_jinja_real_of(const pf_jinja_value *v);

/* Python's bool(v). */
bool pf_jinja_is_true(const pf_jinja_value *v);

/* ---- lists and dictionaries ------------------------------------------------------------------------------------- */

/* An empty one; without memory the heap has failed, and the value is undefined. */
pf_jinja_value pf_jinja_new_list(pf_jinja_heap *heap, pf_jinja_kind kind);
pf_jinja_value pf_jinja_new_dict(pf_jinja_heap *heap, pf_jinja_kind kind);

/* Only while the list is being made. Nothing after the heap has failed. */
void pf_jinja_push(pf_jinja_heap *heap, pf_jinja_value *list, pf_jinja_value item);

/* Adds a key or replaces its value. */
void pf_jinja_put(pf_jinja_heap *heap, pf_jinja_value *dict, pf_jinja_value key, pf_jinja_value value);

/* NULL: there is no such key. Each key compared counts as a step of the heap. */
pf_jinja_value *pf_jinja_get(pf_jinja_heap *heap, const pf_jinja_value *dict, const pf_jinja_value *key);
pf_jinja_value *pf_jinja_get_text(pf_jinja_heap *heap, const pf_jinja_value *dict, pf_jinja_text key);

/* ---- comparison -------------------------------------------------------------------------------------------------- */

/* Python's a == b: values of different types are unequal, numbers are compared as numbers. */
bool pf_jinja_equal(pf_jinja_heap *heap, const pf_jinja_value *a, const pf_jinja_value *b);

/* Python's a < b in *less, of two numbers, strings or sequences; false: they cannot be ordered. */
bool pf_jinja_less(pf_jinja_heap *heap, const pf_jinja_value *a, const pf_jinja_value *b, bool *less);

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* Python's str(v), where undefined is "". */
pf_jinja_text pf_jinja_str(pf_jinja_heap *heap, const pf_jinja_value *v);

/* The way json.dumps(v, ensure_ascii=False) writes it. indent < 0: on one line. False: v has no JSON form. */
typedef struct {
    int32_t indent;
    bool sorts_keys, ascii;
    pf_jinja_text between_items, behind_key; /* data NULL: the default */
} pf_jinja_json_style;

bool pf_jinja_to_json(pf_jinja_heap *heap, const pf_jinja_value *v, const pf_jinja_json_style *style,
                      pf_jinja_text *out);

/* The value of a JSON document. */
pf_jinja_value pf_jinja_of_json(pf_jinja_heap *heap, const json_t *json);

/* Characters of a text, which counts what is no UTF-8 byte by byte; the byte where character i begins (n: the end). The bytes that
 * are read count as steps. */
size_t pf_jinja_characters(pf_jinja_heap *heap, pf_jinja_text text);
size_t pf_jinja_byte_of(pf_jinja_heap *heap, pf_jinja_text text, size_t character);

#endif
