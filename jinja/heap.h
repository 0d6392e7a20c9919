/*
 * The memory and the budget of one rendering: blocks that are freed together, counted bytes, steps and depth. The first limit
 * that is passed, or the first error, is kept; code that computes with the heap checks it where a loop could go on.
 * Internal to jinja/.
 */
#ifndef PF_JINJA_HEAP_H
#define PF_JINJA_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct pf_jinja_block pf_jinja_block;

typedef struct {
    pf_jinja_block *blocks;
    size_t used, n_bytes; /* of the newest block; of all */
    int64_t steps_left;
    int32_t depth;
    pf_status status; /* of the first failure */
    pf_error error;
    const char *name; /* of the template, for errors */
    int32_t line;     /* of what runs */
} pf_jinja_heap;

void pf_jinja_heap_open(pf_jinja_heap *heap, const char *name);
void pf_jinja_heap_close(pf_jinja_heap *heap);

/* Aligned for any value, not zeroed; NULL: the heap has failed. */
void *pf_jinja_take(pf_jinja_heap *heap, size_t n, size_t size);

static inline bool pf_jinja_is_well(const pf_jinja_heap *heap)
{
    return heap->status == PF_OK;
}

/* Counts steps; false: the heap has failed, now or before. */
bool pf_jinja_step(pf_jinja_heap *heap, size_t n);

/* Keeps the first failure: "NAME, line N: ...". */
void pf_jinja_fail(pf_jinja_heap *heap, pf_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A text that grows in the heap. */
typedef struct {
    char *data;
    size_t n, capacity;
} pf_jinja_builder;

void pf_jinja_add(pf_jinja_heap *heap, pf_jinja_builder *builder, const char *data, size_t n);

#endif
