/*
 * Sets of logical CPUs, those of this process and of a thread; and seats. A thread that takes a *seat* runs on that one CPU
 * alone, until it takes another or leaves it.
 */
#ifndef PF_BASE_CPUS_H
#define PF_BASE_CPUS_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* The most that Linux can be built for (x86, MAXSMP): to a set of fewer CPUs than the kernel has room for it tells none. */
enum { PF_MAX_CPUS = 8192 };

/* All zero: empty. */
typedef struct {
    cpu_set_t parts[PF_MAX_CPUS / CPU_SETSIZE]; /* one set, for the functions of sched.h and sizeof(pf_cpus) */
} pf_cpus;

void pf_cpus_add(pf_cpus *cpus, int32_t cpu);       /* 0 <= cpu < PF_MAX_CPUS */
bool pf_cpus_has(const pf_cpus *cpus, int32_t cpu); /* any number */
int32_t pf_cpus_count(const pf_cpus *cpus);

/* What the calling thread may run on. false: the system does not say, or will not. */
bool pf_cpus_of_thread(pf_cpus *out);
bool pf_cpus_bind_thread(const pf_cpus *cpus);

/* Make `cpu` the calling thread's seat; no system call where it is that already. Where the system refuses, nothing changes. */
void pf_cpus_pin_thread(int32_t cpu);

/* Give the calling thread back the CPUs that it had before its first seat. One without a seat: nothing. */
void pf_cpus_unpin_thread(void);

/* What the threads of this process may run on, all together; of a caller with a seat, what it had before. PF_UNAVAILABLE: the
 * system does not say. */
PF_MUST_USE pf_status pf_cpus_of_process(pf_cpus *out, pf_error *error);

#endif
