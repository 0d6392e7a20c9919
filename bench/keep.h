/* What is computed only to be measured, and would be left out by a compiler that sees it unused. */
#ifndef PF_BENCH_KEEP_H
#define PF_BENCH_KEEP_H

#include <stdint.h>

static inline void pf_keep(uint64_t value)
{
    __asm__ volatile("" : : "r"(value));
}

#endif
