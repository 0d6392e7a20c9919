/* The multipliers' peak on all threads of a team, measured by a burst. */
#ifndef PF_BENCH_PEAK_H
#define PF_BENCH_PEAK_H

#include "base/team.h"
#include "kernels/kernels.h"
#include "kernels/limits/burst.h"

/* What seems faster than its limit by more than this was not faster: the limit was measured badly. */
#define PF_BELIEVABLE_FRACTION 1.05

/* The burst of the multiplies that a product or attention is made of. Other kernels, and definitions: run is NULL. */
pf_burst pf_peak_burst_of(const pf_kernel *kernel);

/* A burst should last as long as what it is compared with, so that whoever else wants the cores disturbs both alike.
 * Operations a nanosecond (Gop/s; a multiply-add is two) of all members together. NaN: burst.run is NULL. */
double pf_peak_measure(pf_burst burst, pf_team *team, uint64_t burst_ns);

#endif
