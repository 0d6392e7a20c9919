/* Sets of logical CPUs: those of this process, and of a thread, which may sit on one. */
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

/* Seat the calling thread on one CPU; no system call where it sits there. Where it cannot be, it stays where it is. */
void pf_cpus_take_seat(int32_t cpu);

/* Give the calling thread what it could run on before it took its first seat. One without a seat: nothing. */
void pf_cpus_leave_seat(void);

/* What some thread of this process may run on, or the one that asks could before it took a seat. PF_UNAVAILABLE. */
PF_MUST_USE pf_status pf_cpus_of_process(pf_cpus *out, pf_error *error);

#endif
