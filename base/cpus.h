/* Sets of logical CPUs: those of this process and of a thread. Pins the calling thread to one CPU and unpins it. */
#ifndef PF_BASE_CPUS_H
#define PF_BASE_CPUS_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* The most that Linux can be built for (x86, MAXSMP). The kernel refuses a set with room for fewer CPUs than it supports. */
enum { PF_MAX_CPUS = 8192 };

/* All zero: empty. */
typedef struct {
    cpu_set_t parts[PF_MAX_CPUS / CPU_SETSIZE]; /* one set, for the functions of sched.h and sizeof(pf_cpus) */
} pf_cpus;

void pf_cpus_add(pf_cpus *cpus, int32_t cpu);       /* 0 <= cpu < PF_MAX_CPUS */
bool pf_cpus_has(const pf_cpus *cpus, int32_t cpu); /* any number */
int32_t pf_cpus_count(const pf_cpus *cpus);

/* What the calling thread may run on. false: the system refuses. */
bool pf_cpus_of_thread(pf_cpus *out);
bool pf_cpus_bind_thread(const pf_cpus *cpus);

/* Pin the calling thread to `cpu`; no system call where it is pinned there already. Where the system refuses, nothing changes. */
void pf_cpus_pin_thread(int32_t cpu);

/* Restore the CPUs that the calling thread had before it was first pinned. A thread that is not pinned: nothing. */
void pf_cpus_unpin_thread(void);

/* The union of what the threads of this process may run on; of a pinned caller, what it had before. PF_UNAVAILABLE: the system
 * refuses. */
PF_MUST_USE pf_status pf_cpus_of_process(pf_cpus *out, pf_error *error);

#endif
