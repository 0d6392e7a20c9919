/* How many threads an engine runs on, and on which CPUs they sit. Pure, and internal to engine/. */
#ifndef PF_ENGINE_THREADS_H
#define PF_ENGINE_THREADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    int32_t n_threads;
    int32_t
        fewest_members; /* to run a pass of few rows where that is measured faster (model/forward/thread_tuning.h) */
    bool
        may_back_off; /* fewer than those may, where others compute on their cores (model/forward/contention_backoff.h) */
} pf_threads;

/* Of n_threads, the cores there are or the team that is shared, for a model whose decode step reads so many bytes.
 * `are_given`: somebody said how many, and so many they are. */
pf_threads pf_threads_choose(bool are_given, int32_t n_threads, size_t step_bytes);

/* Put the n_cpus CPUs in the order of a team's members, its caller first. Returns how many to pin to: 0, none.
 *
 * A team as large as the machine leaves nothing to choose but who sits where, and a scheduler that sees members wait
 * by yielding may seat two on one core for seconds: a step then takes three times as long. So each gets its own.
 * Smaller teams share the machine with others and are not pinned. The caller also does what is done by one: of two
 * processes that speak with each other, one that serves and one that asks, each has another core for that. */
int32_t pf_threads_pinning(int32_t n_threads, bool serves, int32_t *cpus, int32_t n_cpus);

#endif
