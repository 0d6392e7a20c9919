#include "jinja/heap.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "jinja/jinja.h"

struct pf_jinja_block {
    pf_jinja_block *before;
    size_t capacity;
    _Alignas(16) unsigned char bytes[];
};

enum { BLOCK_BYTES = 1 << 16, ALIGNMENT = 16 };

void pf_jinja_heap_open(pf_jinja_heap *heap, const char *name)
{
    *heap = (pf_jinja_heap){ .steps_left = PF_JINJA_MAX_STEPS, .name = name, .line = 1 };
}

void pf_jinja_heap_close(pf_jinja_heap *heap)
{
    while (heap->blocks != NULL) {
        pf_jinja_block *before = heap->blocks->before;
        free(heap->blocks);
        heap->blocks = before;
    }
}

static bool add_block(pf_jinja_heap *heap, size_t n_bytes)
{
    const size_t capacity = n_bytes > BLOCK_BYTES ? n_bytes : BLOCK_BYTES;
    if (heap->n_bytes + capacity > PF_JINJA_MAX_MEMORY) {
        pf_jinja_fail(heap, PF_LIMIT, "the template needs more than %d MiB", PF_JINJA_MAX_MEMORY >> 20);
        return false;
    }
    pf_jinja_block *block = malloc(sizeof *block + capacity);
    if (block == NULL) {
        pf_jinja_fail(heap, PF_NOMEM, "no memory for its values");
        return false;
    }
    *block = (pf_jinja_block){ .before = heap->blocks, .capacity = capacity };
    heap->blocks = block;
    heap->used = 0;
    heap->n_bytes += capacity;
    return true;
}

void *pf_jinja_take(pf_jinja_heap *heap, size_t n, size_t size)
{
    size_t bytes;
    if (!pf_jinja_is_well(heap)) return NULL;
    if (!pf_size_mul(n, size, &bytes) || bytes > PF_JINJA_MAX_MEMORY) {
        pf_jinja_fail(heap, PF_LIMIT, "the template needs more than %d MiB", PF_JINJA_MAX_MEMORY >> 20);
        return NULL;
    }
    bytes = pf_round_up(bytes, ALIGNMENT);
    if (heap->blocks == NULL || bytes > heap->blocks->capacity - heap->used)
        if (!add_block(heap, bytes)) return NULL;
    void *taken = heap->blocks->bytes + heap->used;
    heap->used += bytes;
    return taken;
}

bool pf_jinja_step(pf_jinja_heap *heap, size_t n)
{
    if (!pf_jinja_is_well(heap)) return false;
    heap->steps_left -= n < PF_JINJA_MAX_STEPS ? (int64_t)n : PF_JINJA_MAX_STEPS;
    if (heap->steps_left >= 0) return true;
    pf_jinja_fail(heap, PF_LIMIT, "the template takes more than %d steps", PF_JINJA_MAX_STEPS);
    return false;
}

void pf_jinja_fail(pf_jinja_heap *heap, pf_status status, const char *format, ...)
{
    if (heap->status != PF_OK) return;
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    heap->status = status;
    pf_error_set(&heap->error, status, "%s, line %d: %s", heap->name, heap->line, text);
}

void pf_jinja_add(pf_jinja_heap *heap, pf_jinja_builder *b, const char *data, size_t n)
{
    if (!pf_jinja_step(heap, n / 64)) return;
    if (n > b->capacity - b->n) {
        const size_t wanted = b->n + n, capacity = wanted > SIZE_MAX / 2 ? wanted : wanted * 2;
        char *grown = pf_jinja_take(heap, capacity < 64 ? 64 : capacity, 1);
        if (grown == NULL) return;
        if (b->n > 0) memcpy(grown, b->data, b->n);
        b->data = grown;
        b->capacity = capacity < 64 ? 64 : capacity;
    }
    if (n > 0) memcpy(b->data + b->n, data, n);
    b->n += n;
}
