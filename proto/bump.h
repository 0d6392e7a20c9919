/* A bump allocator for one message: protobuf-c allocates from it while unpacking, and a reset frees everything. */
#ifndef PF_PROTO_BUMP_H
#define PF_PROTO_BUMP_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include <protobuf-c/protobuf-c.h>

#include "base/checked.h"

typedef struct {
    uint8_t *bytes; /* aligned for any object */
    size_t size, used;
    size_t most;  /* largest `used` at a reset since memory was given back */
    bool refused; /* something did not fit since the last reset */
} pf_bump;

enum { PF_BUMP_KEPT = 2 << 20, PF_BUMP_PAGE = 4096 };

static inline void pf_bump_reset(pf_bump *bump)
{
    if (bump->used > bump->most) bump->most = bump->used;
    bump->used = 0;
    bump->refused = false;
}

/* Resets, too. What was taken beyond PF_BUMP_KEPT goes back to the system, whole pages of it. */
static inline void pf_bump_give_back(pf_bump *bump)
{
    pf_bump_reset(bump);
    const size_t begin = pf_round_up((uintptr_t)bump->bytes + PF_BUMP_KEPT, PF_BUMP_PAGE);
    const size_t end = ((uintptr_t)bump->bytes + bump->most) / PF_BUMP_PAGE * PF_BUMP_PAGE;
    if (begin < end) (void)madvise((void *)begin, end - begin, MADV_DONTNEED);
    bump->most = 0;
}

static inline void *pf_bump_take(pf_bump *bump, size_t n_bytes)
{
    const size_t room = bump->size - bump->used, rounded = pf_round_up(n_bytes, alignof(max_align_t));
    if (n_bytes > room || rounded > room) { /* the first where rounding wraps */
        bump->refused = true;
        return NULL;
    }
    void *taken = bump->bytes + bump->used;
    bump->used += rounded;
    return taken;
}

static inline void *pf_bump_alloc_(void *bump, size_t n_bytes)
{
    return pf_bump_take(bump, n_bytes);
}
static inline void pf_bump_free_(void *bump, void *pointer)
{
    (void)bump;
    (void)pointer;
}

static inline ProtobufCAllocator pf_bump_allocator(pf_bump *bump)
{
    return (ProtobufCAllocator){ .alloc = pf_bump_alloc_, .free = pf_bump_free_, .allocator_data = bump };
}

#endif
