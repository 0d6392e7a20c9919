/* Keeps a computed value alive, so that the compiler does not remove a measured computation as unused. */
#ifndef PF_BENCH_KEEP_H
#define PF_BENCH_KEEP_H

#include <stdint.h>

static inline void pf_keep(uint64_t value)
{
    __asm__ volatile("" : : "r"(value));
}

#endif
