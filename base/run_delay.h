/* Reads how long the process has waited for a core: how much other processes compete for its cores. */
#ifndef PF_BASE_RUN_DELAY_H
#define PF_BASE_RUN_DELAY_H

#include <stdbool.h>
#include <stdint.h>

/* Of the process's first thread since it began: how long it has run, and how long it was ready to run while other threads had
 * its core (Linux, /proc/self/schedstat; Documentation/scheduler/sched-stats.rst). false: the system does not say. */
bool pf_run_delay_read(uint64_t *run_ns, uint64_t *delay_ns);

#endif
