#include "base/cpus.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void pf_cpus_add(pf_cpus *cpus, int32_t cpu)
{
    CPU_SET_S((size_t)cpu, sizeof *cpus, cpus->parts);
}

bool pf_cpus_has(const pf_cpus *cpus, int32_t cpu)
{
    return cpu >= 0 && cpu < PF_MAX_CPUS && CPU_ISSET_S((size_t)cpu, sizeof *cpus, cpus->parts);
}

int32_t pf_cpus_count(const pf_cpus *cpus)
{
    return CPU_COUNT_S(sizeof *cpus, cpus->parts);
}

bool pf_cpus_of_thread(pf_cpus *out)
{
    return sched_getaffinity(0, sizeof *out, out->parts) == 0;
}

bool pf_cpus_bind_thread(const pf_cpus *cpus)
{
    return sched_setaffinity(0, sizeof *cpus, cpus->parts) == 0;
}

/* Of a thread and not of a team, as the kernel keeps one mask for each thread. */
static _Thread_local struct {
    bool is_pinned;
    int32_t cpu;
    pf_cpus before; /* what the thread may run on unpinned */
} pinning;

void pf_cpus_pin_thread(int32_t cpu)
{
    if (pinning.is_pinned && pinning.cpu == cpu) return;
    pf_cpus one = { 0 };
    pf_cpus_add(&one, cpu);
    if ((!pinning.is_pinned && !pf_cpus_of_thread(&pinning.before)) || !pf_cpus_bind_thread(&one)) return;
    pinning.is_pinned = true;
    pinning.cpu = cpu;
}

void pf_cpus_unpin_thread(void)
{
    if (pinning.is_pinned) (void)pf_cpus_bind_thread(&pinning.before);
    pinning.is_pinned = false;
}

pf_status pf_cpus_of_process(pf_cpus *out, pf_error *error)
{
    pf_cpus one, all = { 0 };
    if (pinning.is_pinned) all = pinning.before;
    DIR *tasks = opendir("/proc/self/task");
    for (const struct dirent *task; tasks && (task = readdir(tasks));) {
        const pid_t tid = (pid_t)strtol(task->d_name, NULL, 10);
        if (tid > 0 && sched_getaffinity(tid, sizeof one, one.parts) == 0)
            CPU_OR_S(sizeof all, all.parts, all.parts, one.parts);
    }
    if (tasks) closedir(tasks);
    if (pf_cpus_count(&all) == 0 && !pf_cpus_of_thread(&all))
        return pf_fail(error, PF_UNAVAILABLE, "the CPUs of this process cannot be read: %s", strerror(errno));
    *out = all;
    return PF_OK;
}
