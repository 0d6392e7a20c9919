/* Chooses the read pattern that is fastest on given bytes. */
#ifndef PF_BENCH_READER_H
#define PF_BENCH_READER_H

#include <stdbool.h>

#include "kernels/limits/read.h"

/* Reads all bytes by `read` and returns the time in ns. */
typedef uint64_t pf_reader_fn(void *user, pf_read_fn *read);

/* Runs the patterns in turns, in five rounds, and returns the n fastest, the best first; n is at most PF_N_READS. Patterns are
 * ranked by the median of their share of a round's time, since absolute times would favour whichever ran while memory was
 * fastest. cancel may be NULL; when set, no further read begins and the complete rounds decide. */
void pf_reader_choose(pf_reader_fn *read_ns, void *user, const volatile bool *cancel, const pf_read_pattern **fastest,
                      int n);

#endif
