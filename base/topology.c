#include "base/topology.h"

#include <hwloc.h>
#include <hwloc/glibc-sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/cpus.h"

/* The PUs that this process may run on. */
static hwloc_bitmap_t allowed_cpus(hwloc_topology_t topology)
{
    hwloc_bitmap_t set = hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(topology));
    hwloc_bitmap_t bound = hwloc_bitmap_alloc();
    pf_cpus cpus;
    if (set && bound && pf_cpus_of_process(&cpus, NULL) == PF_OK &&
        hwloc_cpuset_from_glibc_sched_affinity(topology, bound, cpus.parts, sizeof cpus) == 0 &&
        hwloc_bitmap_intersects(set, bound))
        hwloc_bitmap_and(set, set, bound);
    hwloc_bitmap_free(bound);
    return set;
}

/* Objects of a type that have an allowed PU. */
static int32_t count_objects(hwloc_topology_t topology, hwloc_obj_type_t type, hwloc_const_bitmap_t allowed)
{
    int32_t n = 0;
    for (hwloc_obj_t o = NULL; (o = hwloc_get_next_obj_by_type(topology, type, o));)
        if (o->cpuset && hwloc_bitmap_intersects(o->cpuset, allowed)) n++;
    return n;
}

/* The cache of a level that serves the first allowed PU. 0: unknown. */
static size_t cache_bytes(hwloc_topology_t topology, hwloc_obj_type_t type, hwloc_const_bitmap_t allowed)
{
    for (hwloc_obj_t o = NULL; (o = hwloc_get_next_obj_by_type(topology, type, o));)
        if (o->cpuset && hwloc_bitmap_isset(o->cpuset, (unsigned)hwloc_bitmap_first(allowed)))
            return (size_t)o->attr->cache.size;
    return 0;
}

static size_t physical_memory_bytes(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && page_bytes > 0 ? (size_t)pages * (size_t)page_bytes : 0;
}

static int32_t at_least_one_at_most(int32_t n, int32_t most)
{
    if (n < 1) return 1;
    return n < most ? n : most;
}

static size_t least_memory(size_t physical, size_t limit)
{
    if (limit == SIZE_MAX) return physical;
    return physical != 0 && physical < limit ? physical : limit;
}

size_t pf_topology_memory_bytes(void)
{
    return least_memory(physical_memory_bytes(), pf_cgroup_read("").memory_bytes);
}

/* hwloc does not check its allocations: where there is no room for them it would crash. */
static bool has_room_for_hwloc(void)
{
    enum { HWLOC_BYTES = 8 << 20 };
    void *room = mmap(NULL, HWLOC_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return room != MAP_FAILED && munmap(room, HWLOC_BYTES) == 0;
}

pf_status pf_topology_read(pf_topology *out, pf_error *error)
{
    hwloc_topology_t topology;
    if (!has_room_for_hwloc()) return pf_fail(error, PF_NOMEM, "no memory to read this machine's topology");
    if (hwloc_topology_init(&topology) != 0) return pf_fail(error, PF_INTERNAL, "hwloc: cannot make a topology");
    hwloc_bitmap_t allowed = NULL;
    if (hwloc_topology_load(topology) != 0 || !(allowed = allowed_cpus(topology)) || hwloc_bitmap_iszero(allowed)) {
        hwloc_bitmap_free(allowed);
        hwloc_topology_destroy(topology);
        return pf_fail(error, PF_INTERNAL, "hwloc: cannot read this machine's topology");
    }
    const pf_cgroup_limits limits = pf_cgroup_read("");
    *out = (pf_topology){
        .n_cores = at_least_one_at_most(count_objects(topology, HWLOC_OBJ_CORE, allowed), limits.cpus),
        .n_cpus = at_least_one_at_most(hwloc_bitmap_weight(allowed), limits.cpus),
        .l1d_bytes = cache_bytes(topology, HWLOC_OBJ_L1CACHE, allowed),
        .l2_bytes = cache_bytes(topology, HWLOC_OBJ_L2CACHE, allowed),
        .l3_bytes = cache_bytes(topology, HWLOC_OBJ_L3CACHE, allowed),
        .memory_bytes = least_memory(physical_memory_bytes(), limits.memory_bytes),
        .n_numa_nodes = at_least_one_at_most(count_objects(topology, HWLOC_OBJ_NUMANODE, allowed), INT32_MAX),
    };
    hwloc_bitmap_free(allowed);
    hwloc_topology_destroy(topology);
    return PF_OK;
}

/* A decimal number in 0 .. 1,048,575 at **at, which moves behind it. -1: there is none. */
static int32_t take_number(const char **at)
{
    enum { MOST = 1 << 20 };
    int32_t n = -1;
    for (; **at >= '0' && **at <= '9'; ++*at) {
        n = (n < 0 ? 0 : n) * 10 + (**at - '0');
        if (n >= MOST) return -1;
    }
    return n;
}

/* One part, "3" or "2-5", which ends at a comma or at the end of the list. */
static bool take_range(const char **at, int32_t *first, int32_t *last)
{
    *first = *last = take_number(at);
    if (*first >= 0 && **at == '-') {
        ++*at;
        *last = take_number(at);
    }
    return *first >= 0 && *last >= *first && (**at == ',' || **at == '\0');
}

pf_status pf_topology_parse_cores(const char *list, int32_t *cores, int32_t capacity, int32_t *n_cores, pf_error *error)
{
    int32_t n = 0, entry = 0;
    for (const char *at = list;; at++) {
        const char *part = at;
        int32_t first, last;
        entry++;
        const size_t length = strcspn(part, ",");
        const int shown = length < 40 ? (int)length : 40;
        if (!take_range(&at, &first, &last))
            return pf_fail(error, PF_INVALID,
                           "entry %d of the list of cores is \"%.*s\", expected a number or a range as in 0,2-5", entry,
                           shown, part);
        if (last - first >= capacity - n)
            return pf_fail(error, PF_INVALID,
                           "entry %d of the list of cores is \"%.*s\", expected at most %d cores in all", entry, shown,
                           part, capacity);
        for (int32_t c = first; c <= last; c++) cores[n++] = c;
        if (*at == '\0') break;
    }
    *n_cores = n;
    return PF_OK;
}

int32_t pf_topology_threads(const pf_topology *machine, int32_t n_threads, int32_t n_named)
{
    if (n_threads > 0) return n_threads;
    return n_named > 0 ? n_named : machine->n_cores;
}

pf_status pf_topology_list_cpus(int32_t *cpus, int32_t capacity, int32_t *n_cpus, pf_error *error)
{
    pf_cpus allowed;
    PF_TRY(pf_cpus_of_process(&allowed, error));
    if (pf_cpus_count(&allowed) > capacity)
        return pf_fail(error, PF_LIMIT, "%d CPUs; there is room for %d", pf_cpus_count(&allowed), capacity);
    int32_t n = 0;
    for (int32_t cpu = 0; cpu < PF_MAX_CPUS; cpu++)
        if (pf_cpus_has(&allowed, cpu)) cpus[n++] = cpu;
    *n_cpus = n;
    return PF_OK;
}
