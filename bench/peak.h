/* The multipliers' peak on all threads of a team, measured by a burst. */
#ifndef PF_BENCH_PEAK_H
#define PF_BENCH_PEAK_H

#include "base/team.h"
#include "kernels/limits/burst.h"

/* A burst should last as long as what it is compared with, so that whoever else wants the cores disturbs both alike.
 * Operations a nanosecond (Gop/s; a multiply-add is two) of all members together. NaN: no such instruction here. */
double pf_peak_measure(pf_burst_kind kind, pf_team *team, uint64_t burst_ns);

#endif
