/* The way of reading that is fastest on the bytes at hand. */
#ifndef PF_BENCH_READER_H
#define PF_BENCH_READER_H

#include "kernels/limits/read.h"

/* Reads everything by `read` and returns how long that took. */
typedef uint64_t pf_reader_fn(void *user, pf_read_fn *read);

/* Try each pattern in turns, five times, and take the one whose median is the shortest: a memory that changes its speed would
 * choose by its fastest moment. */
const pf_read_pattern *pf_reader_choose(pf_reader_fn *read_ns, void *user);

#endif
