/*
 * Memory of one life: a block sized before it is made, handed out front to back, given back whole.
 *
 *    base                                  used            size
 *     | item 0 |pad| item 1   |pad| item 2 |   (free)        |
 *
 * Every item starts on a 64-byte line (a ZMM register, a cache line). Two passes share one piece of layout
 * code: the first, on an arena without memory (pf_arena_measure), only adds up sizes; the second takes.
 *
 * Under AddressSanitizer the unused bytes between and behind items are poisoned.
 * Threads: one at a time; pf_arena_populate runs a team.
 */
#ifndef PF_BASE_ARENA_H
#define PF_BASE_ARENA_H

#include <stddef.h>

#include "base/status.h"
#include "base/team.h"

enum {
    PF_ARENA_ALIGN = 64,
    PF_ARENA_FIRST_BYTES = 2 << 20, /* to populate of an arena for many sequences: more than the first of them needs */
};

typedef struct {
    unsigned char *base; /* NULL while measuring */
    size_t size;         /* bytes */
    size_t used;         /* bytes; above size when something did not fit */
} pf_arena;

/* An arena that has no memory and only counts: pf_arena_take returns NULL and `used` grows. */
pf_arena pf_arena_measure(void);

/* Reserve `size_bytes`, zeroed, on huge pages where they can be had. The caller ends it with pf_arena_destroy.
 * PF_NOMEM: not to be had. */
PF_MUST_USE pf_status pf_arena_create(size_t size_bytes, pf_arena *out);
void pf_arena_destroy(pf_arena *arena); /* zeroed or NULL is fine */

/* Fault in the pages of the first n_bytes now, on the threads of `team` (NULL: on the caller), not when each is first written:
 * under a hypervisor a huge page takes milliseconds, which a request would wait for. Nothing is written. Where the kernel
 * refuses, pages are faulted in as they are written. */
void pf_arena_populate(const pf_arena *arena, size_t n_bytes, pf_team *team);

/* The next `count` items of `item_bytes`, aligned to 64 bytes. NULL when measuring, or when the product
 * overflows or does not fit: `used` is then above `size` for good, and one check at the end of a layout serves. */
void *pf_arena_take(pf_arena *arena, size_t count, size_t item_bytes);

#endif
