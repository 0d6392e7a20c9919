/* Prefetches of cache lines. Internal to kernels/; for files compiled for x86-64. */
#ifndef PF_KERNELS_VEC_PREFETCH_H
#define PF_KERNELS_VEC_PREFETCH_H

#include <immintrin.h>

#define PF_PREFETCH(address) _mm_prefetch((const char *)(address), _MM_HINT_T0)

/* The same, to stay where it is written: between the load of a vector and its use. Compilers gather the prefetches of
 * straight-line code. */
#define PF_PREFETCH_BESIDE(vector, address) \
    __asm__ volatile("prefetcht0 %1" : "+v"(vector) : "m"(*(const char *)(address)))

#endif
