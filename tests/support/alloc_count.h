/*
 * Counts, and on demand refuses, the allocations of our own code: a test that links pf_alloc_count has malloc and its
 * kin, mmap and pthread_create wrapped by the linker (-Wl,--wrap) in all that is linked statically. What shared
 * libraries allocate for themselves (gRPC, jansson, libc) is not seen, which is the line that the design draws.
 */
#ifndef PF_TESTS_ALLOC_COUNT_H
#define PF_TESTS_ALLOC_COUNT_H

#include <stdbool.h>
#include <stdint.h>

/* Calls that asked for memory since the last reset: by all threads; by the calling thread. free is not counted. */
uint64_t pf_alloc_count(void);
uint64_t pf_alloc_count_of_thread(void);

/* Both to zero, for all threads and for the calling thread. */
void pf_alloc_count_reset(void);

/* Let the next n calls of any thread succeed and refuse the one after them, once. Negative: refuse none.
 * True: since the call before, one was refused. So this meets each call of make() once, also where it does without:
 *     for (int64_t n = 0;; n++) { pf_alloc_refuse_after(n); make(&it); if (!pf_alloc_refuse_after(-1)) break; } */
bool pf_alloc_refuse_after(int64_t n);

#endif
