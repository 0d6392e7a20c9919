/* Measures the peak rate of multiplies on all threads of a team by a burst. */
#ifndef PF_BENCH_PEAK_H
#define PF_BENCH_PEAK_H

#include "base/team.h"
#include "kernels/kernels.h"
#include "kernels/limits/burst.h"

/* A fraction of a limit above this means that the limit was measured badly. */
#define PF_BELIEVABLE_FRACTION 1.05

/* The burst of the multiply instruction of a product or of attention. run is NULL for other kernels and scalar definitions. */
pf_burst pf_peak_burst_of(const pf_kernel *kernel);

/* A burst should last as long as the code that it is compared with, so that contention affects both alike.
 * Returns operations per nanosecond (Gop/s; a multiply-add is two) of all threads together. NaN: burst.run is NULL. */
double pf_peak_measure(pf_burst burst, pf_team *team, uint64_t burst_ns);

#endif
