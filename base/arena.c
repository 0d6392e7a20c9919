#include "base/arena.h"

#include <stdint.h>
#include <sys/mman.h>

#include "base/checked.h"

#if defined(__SANITIZE_ADDRESS__)
#define PF_HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PF_HAS_ASAN 1
#endif
#endif

#ifdef PF_HAS_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n)   ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

enum { PAGE_BYTES = 4096, HUGE_BYTES = 2 << 20 };

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; an older one refuses it */
#endif

pf_arena pf_arena_measure(void)
{
    return (pf_arena){ 0 };
}

/* The bytes that are mapped for an arena of `size_bytes`: never none. */
static size_t mapped_bytes(size_t size_bytes)
{
    return pf_round_up(size_bytes ? size_bytes : 1, PAGE_BYTES);
}

/* `bytes` that begin on a 2 MiB boundary: the kernel gives huge pages only to whole ones. NULL: refused. */
static unsigned char *map_huge_aligned(size_t bytes)
{
    unsigned char *raw = mmap(NULL, bytes + HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) return NULL;
    unsigned char *base = (unsigned char *)pf_round_up((uintptr_t)raw, HUGE_BYTES);
    const size_t before = (size_t)(base - raw);
    if (before) munmap(raw, before);
    munmap(base + bytes, HUGE_BYTES - before);
    (void)madvise(base, bytes, MADV_HUGEPAGE); /* a hint; may fail */
    return base;
}

pf_status pf_arena_create(size_t size_bytes, pf_arena *out)
{
    if (size_bytes > SIZE_MAX / 2) return PF_NOMEM; /* a layout that overflowed while it was measured */
    const size_t bytes = mapped_bytes(size_bytes);
    unsigned char *base;
    if (bytes >= HUGE_BYTES) {
        base = map_huge_aligned(bytes);
    } else {
        base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (base == MAP_FAILED) base = NULL;
    }
    if (!base) return PF_NOMEM;
    ASAN_POISON_MEMORY_REGION(base, bytes);
    *out = (pf_arena){ .base = base, .size = size_bytes, .used = 0 };
    return PF_OK;
}

void pf_arena_destroy(pf_arena *arena)
{
    if (!arena || !arena->base) return;
    const size_t bytes = mapped_bytes(arena->size);
    ASAN_UNPOISON_MEMORY_REGION(arena->base, bytes);
    munmap(arena->base, bytes);
    *arena = (pf_arena){ 0 };
}

typedef struct {
    unsigned char *base;
    size_t n_bytes;
} front;

/* Whole huge pages: two members that met in one would both wait for it. */
static void populate_share(pf_member member, void *arg)
{
    const front *f = arg;
    const size_t n_huge = (f->n_bytes + HUGE_BYTES - 1) / HUGE_BYTES;
    const size_t begin = n_huge * (size_t)member.id / (size_t)member.n_threads * HUGE_BYTES;
    const size_t end = n_huge * ((size_t)member.id + 1) / (size_t)member.n_threads * HUGE_BYTES;
    if (begin >= end) return;
    (void)madvise(f->base + begin, (end < f->n_bytes ? end : f->n_bytes) - begin, MADV_POPULATE_WRITE);
}

void pf_arena_populate(const pf_arena *arena, size_t n_bytes, pf_team *team)
{
    if (!arena->base || n_bytes == 0) return;
    const size_t mapped = mapped_bytes(arena->size);
    front f = { arena->base, n_bytes < mapped ? pf_round_up(n_bytes, PAGE_BYTES) : mapped };
    if (team)
        pf_team_run(team, populate_share, &f);
    else
        populate_share((pf_member){ .n_threads = 1 }, &f);
}

void *pf_arena_take(pf_arena *arena, size_t count, size_t item_bytes)
{
    size_t bytes, end;
    const size_t begin = arena->used > SIZE_MAX - PF_ARENA_ALIGN ? SIZE_MAX : pf_round_up(arena->used, PF_ARENA_ALIGN);
    if (!pf_size_mul(count, item_bytes, &bytes) || !pf_size_add(begin, bytes, &end)) end = SIZE_MAX;

    arena->used = end; /* once above size always above it: a smaller item does not hide the one that did not fit */
    if (!arena->base || end > arena->size) return NULL;
    ASAN_UNPOISON_MEMORY_REGION(arena->base + begin, bytes);
    return arena->base + begin;
}
