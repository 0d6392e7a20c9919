/* Whether a page is resident: the kernel has allocated it already. */
#ifndef PF_TESTS_RESIDENT_H
#define PF_TESTS_RESIDENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>

#include "tests/support/test.h"

/* Of the page that this address lies in. */
static inline bool is_resident(const void *address)
{
    void *page = (void *)((uintptr_t)address & ~(uintptr_t)4095);
    unsigned char in_core = 0;
    assert_int_equal(mincore(page, 4096, &in_core), 0);
    return (in_core & 1) != 0;
}

/* Skip the test where the kernel, older than 5.14, does not populate memory. */
static inline void needs_populating(void)
{
    enum { POPULATE_WRITE = 23 };
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(page != MAP_FAILED);
    const int refused = madvise(page, 4096, POPULATE_WRITE);
    munmap(page, 4096);
    if (refused != 0) skip();
}

#endif
