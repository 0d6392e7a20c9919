/* The limits that a container or a service manager put on this process: Linux control groups, versions 2 and 1. */
#ifndef PF_BASE_CGROUP_H
#define PF_BASE_CGROUP_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    int32_t cpus;        /* CPUs' worth of time, rounded down, at least 1; INT32_MAX: no limit */
    size_t memory_bytes; /* SIZE_MAX: no limit */
} pf_cgroup_limits;

/* Read <root>/proc/self/cgroup and the files under <root>/sys/fs/cgroup that it leads to, of this group and of all
 * those above it: the least counts. root is "" but for tests. What cannot be read does not limit. */
pf_cgroup_limits pf_cgroup_read(const char *root);

#endif
