/*
 * /proc/self/cgroup has one line a hierarchy, `id:controllers:path`:
 *
 *     0::/user.slice/x                    version 2; files cpu.max ("200000 100000", "max 100000") and memory.max
 *     4:cpu,cpuacct:/docker/1f            version 1; cpu.cfs_quota_us (-1: none), cpu.cfs_period_us
 *     9:memory:/docker/1f                 version 1; memory.limit_in_bytes (a huge number: none)
 *
 * In a container without a cgroup namespace the path is the host's and is not there: the mount's root, which is
 * where the walk upwards ends, is then the container's own group.
 */
#include "base/cgroup.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 4096 };

/* The first line of a file, NUL-terminated, without its line end. False: it cannot be read. */
static bool read_line(const char *directory, const char *file, char *line, size_t line_bytes)
{
    char path[PATH_BYTES];
    const int n = snprintf(path, sizeof path, "%s/%s", directory, file);
    if (n < 0 || n >= (int)sizeof path) return false;
    FILE *f = fopen(path, "re");
    if (!f) return false;
    const bool got = fgets(line, (int)line_bytes, f) != NULL;
    fclose(f);
    if (got) line[strcspn(line, "\n")] = '\0';
    return got;
}

static void limit_cpus(pf_cgroup_limits *limits, int64_t quota, int64_t period)
{
    if (quota <= 0 || period <= 0) return;
    const int64_t cpus = quota / period > 0 ? quota / period : 1;
    if (cpus < limits->cpus) limits->cpus = (int32_t)cpus;
}

static void limit_memory(pf_cgroup_limits *limits, int64_t bytes)
{
    if (bytes > 0 && (uint64_t)bytes < limits->memory_bytes) limits->memory_bytes = (size_t)bytes;
}

/* The whole number at *at, which moves behind it; 0, which limits nothing, for "max" and for text that is not a number. A
 * number too large for the type is the largest. */
static int64_t take_integer(char **at)
{
    return strtoll(*at, at, 10);
}

static int64_t read_integer(const char *directory, const char *file)
{
    char line[256], *at = line;
    return read_line(directory, file, line, sizeof line) ? take_integer(&at) : 0;
}

/* One group's files, of whichever version are there. */
static void read_group(const char *directory, pf_cgroup_limits *limits)
{
    char line[256], *at = line;
    if (read_line(directory, "cpu.max", line, sizeof line)) {
        const int64_t quota = take_integer(&at);
        limit_cpus(limits, quota, take_integer(&at));
    }
    limit_cpus(limits, read_integer(directory, "cpu.cfs_quota_us"), read_integer(directory, "cpu.cfs_period_us"));
    limit_memory(limits, read_integer(directory, "memory.max"));
    limit_memory(limits, read_integer(directory, "memory.limit_in_bytes"));
}

/* The group at `path` below the hierarchy mounted at `mount`, and all above it. */
static void read_groups_upwards(const char *mount, const char *path, pf_cgroup_limits *limits)
{
    char directory[PATH_BYTES];
    const int n = snprintf(directory, sizeof directory, "%s%s", mount, path);
    if (n < 0 || n >= (int)sizeof directory) return;
    const size_t mount_bytes = strlen(mount);
    for (;;) {
        read_group(directory, limits);
        char *slash = strrchr(directory + mount_bytes, '/');
        if (!slash) return;
        *slash = '\0';
    }
}

/* Whether `controllers`, a list with commas, names `controller`. */
static bool lists(const char *controllers, const char *controller)
{
    const size_t n = strlen(controller);
    for (const char *at = controllers; *at;) {
        const size_t length = strcspn(at, ",");
        if (length == n && memcmp(at, controller, n) == 0) return true;
        at += length + (at[length] == ',');
    }
    return false;
}

static void read_hierarchy(const char *root, const char *controllers, const char *path, pf_cgroup_limits *limits)
{
    char mount[PATH_BYTES / 2];
    static const char *const v1[] = { "cpu", "memory" };
    if (!*controllers) {
        snprintf(mount, sizeof mount, "%s/sys/fs/cgroup", root);
        read_groups_upwards(mount, path, limits);
        return;
    }
    for (size_t i = 0; i < sizeof v1 / sizeof *v1; i++) {
        if (!lists(controllers, v1[i])) continue;
        snprintf(mount, sizeof mount, "%s/sys/fs/cgroup/%s", root, v1[i]); /* cpu is a link to cpu,cpuacct */
        read_groups_upwards(mount, path, limits);
    }
}

pf_cgroup_limits pf_cgroup_read(const char *root)
{
    pf_cgroup_limits limits = { .cpus = INT32_MAX, .memory_bytes = SIZE_MAX };
    char line[PATH_BYTES];
    snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
    FILE *f = fopen(line, "re");
    if (!f) return limits;
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path) continue;
        *path++ = '\0';
        /* "/" is the mount itself; a path outside of our namespace begins with "/.." and is not to be followed. */
        read_hierarchy(root, controllers + 1, strcmp(path, "/") == 0 || strncmp(path, "/..", 3) == 0 ? "" : path,
                       &limits);
    }
    fclose(f);
    return limits;
}
