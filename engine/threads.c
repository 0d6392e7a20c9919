#include "engine/threads.h"

enum {
    /* A pass over a model of this size takes less time on one core than two cores need to meet at every layer's
     * barriers, wherever they are. Bytes of one decode step. */
    ONE_THREAD_BYTES = 1 << 19,
    /* Where a thread reads no more of a decode step, fewer threads may be faster, as they wait less at every layer's barriers:
     * that is measured at run time. Where it reads more, more threads are faster. */
    SMALL_STEP_BYTES = 8 << 20,
};

pf_threads pf_threads_choose(bool are_given, int32_t n_threads, size_t step_bytes)
{
    if (are_given || n_threads == 1) return (pf_threads){ n_threads, n_threads, false };
    if (step_bytes < ONE_THREAD_BYTES) return (pf_threads){ 1, 1, false };
    const size_t fewest = (step_bytes - 1) / SMALL_STEP_BYTES + 1;
    return (pf_threads){ n_threads, fewest < (size_t)n_threads ? (int32_t)fewest : n_threads, true };
}

int32_t pf_threads_pinning(int32_t n_threads, bool serves, int32_t *cpus, int32_t n_cpus)
{
    if (n_threads < 2 || n_cpus != n_threads) return 0;
    if (serves) {
        const int32_t first = cpus[0];
        cpus[0] = cpus[n_cpus - 1];
        cpus[n_cpus - 1] = first;
    }
    return n_cpus;
}
