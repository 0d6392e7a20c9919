/*
 * Memory whose neighbours may not be touched.
 *
 *   | no access | slack, filled | data ............ | no access |
 *                                                   ^ the last byte of data is the last that can be read
 *
 * A read or write past the end faults at once; a write before the beginning is found when the buffer is freed. Data of
 * an alignment that does not divide its size leave up to alignment - 1 bytes of filled slack behind them, also checked.
 */
#ifndef PF_TESTS_GUARD_H
#define PF_TESTS_GUARD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { PF_GUARD_FILL = 0xA5 };

typedef struct {
    void *data;
    size_t bytes;
    unsigned char *map; /* what was mapped, guards included */
    size_t map_bytes;
} pf_guard;

/* `align`: a power of two up to a page. Data are zero. */
static inline pf_guard pf_guard_alloc(size_t bytes, size_t align)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t body = (bytes + align + page - 1) / page * page;
    pf_guard g = { .bytes = bytes, .map_bytes = body + 2 * page };
    g.map = mmap(NULL, g.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(g.map != MAP_FAILED);
    memset(g.map + page, PF_GUARD_FILL, body);
    g.data = g.map + page + ((body - bytes) & ~(align - 1));
    memset(g.data, 0, bytes);
    assert_int_equal(mprotect(g.map, page, PROT_NONE), 0);
    assert_int_equal(mprotect(g.map + page + body, page, PROT_NONE), 0);
    return g;
}

static inline void pf_guard_free(pf_guard *g)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const unsigned char *data = g->data, *end = g->map + g->map_bytes - page;
    for (const unsigned char *p = g->map + page; p < end; p++)
        if (p < data || p >= data + g->bytes) assert_int_equal(*p, PF_GUARD_FILL);
    assert_int_equal(munmap(g->map, g->map_bytes), 0);
    *g = (pf_guard){ 0 };
}

#endif
