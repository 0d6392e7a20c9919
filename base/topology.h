/* Reads the part of the machine that this process may use: logical CPUs, caches and memory. */
#ifndef PF_BASE_TOPOLOGY_H
#define PF_BASE_TOPOLOGY_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct {
    int32_t n_cores; /* physical cores that this process may use, by affinity and cgroup quota; at least 1 */
    int32_t n_cpus;  /* logical CPUs likewise */
    size_t l1d_bytes, l2_bytes, l3_bytes; /* of one core; L3 as shared; 0 unknown */
    size_t memory_bytes;                  /* physical, or the cgroup's limit where lower */
    int32_t n_numa_nodes;
} pf_topology;

/* The machine's, or the cgroup's limit where lower; 0: unknown. */
size_t pf_topology_memory_bytes(void);

/* PF_INTERNAL: hwloc could not look.  PF_NOMEM. */
PF_MUST_USE pf_status pf_topology_read(pf_topology *out, pf_error *error);

/* How many threads to start: n_threads where that is given, else one for each of the n_named CPUs, else one a core. 0: not
 * given, none named. */
int32_t pf_topology_threads(const pf_topology *machine, int32_t n_threads, int32_t n_named);

/* The logical CPUs that this process may run on, ascending. PF_LIMIT: more than `capacity`.  PF_UNAVAILABLE: not told. */
PF_MUST_USE pf_status pf_topology_list_cpus(int32_t *cpus, int32_t capacity, int32_t *n_cpus, pf_error *error);

/* "0,2-5" -> {0,2,3,4,5}. At most `capacity` entries; PF_INVALID names the part that is wrong. */
PF_MUST_USE pf_status pf_topology_parse_cores(const char *list, int32_t *cores, int32_t capacity, int32_t *n_cores,
                                              pf_error *error);

#endif
