/* The way of reading that is fastest on the bytes at hand. */
#ifndef PF_BENCH_READER_H
#define PF_BENCH_READER_H

#include <stdbool.h>

#include "kernels/limits/read.h"

/* Reads everything by `read` and returns how long that took. */
typedef uint64_t pf_reader_fn(void *user, pf_read_fn *read);

/* Try each pattern in turns, in five rounds, and give the n that take least, the best first; n is at most PF_N_READS. They are
 * judged by the median of their shares of a round's time: by times a memory that changes its speed would choose by its fastest
 * moment. cancel, or NULL: set, no further read begins, and the rounds that were whole decide; of none, any are given. */
void pf_reader_choose(pf_reader_fn *read_ns, void *user, const volatile bool *cancel, const pf_read_pattern **fastest,
                      int n);

#endif
