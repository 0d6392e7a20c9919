/* The multipliers' peak on all threads of a team, measured by a burst of a few milliseconds. */
#ifndef PF_BENCH_PEAK_H
#define PF_BENCH_PEAK_H

#include "base/team.h"
#include "kernels/limits/burst.h"

/* Operations a nanosecond (Gop/s; a multiply-add is two) of all members together. NaN: no such instruction here. */
double pf_peak_measure(pf_burst_kind kind, pf_team *team);

#endif
