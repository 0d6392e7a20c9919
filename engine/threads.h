/* Chooses how many threads an engine runs on and which CPUs they are pinned to. Pure, and internal to engine/. */
#ifndef PF_ENGINE_THREADS_H
#define PF_ENGINE_THREADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    int32_t n_threads;
    int32_t fewest_members; /* to run a pass of few rows where that is measured faster (model/forward/thread_count.h) */
    bool may_back_off; /* fewer than those may, where others compute on their cores (model/forward/thread_count.h) */
} pf_threads;

/* Of n_threads, the cores there are or the team that is shared, for a model whose decode step reads so many bytes.
 * `are_given`: the caller gave the number, which is kept. */
pf_threads pf_threads_choose(bool are_given, int32_t n_threads, size_t step_bytes);

/* Order the n_cpus CPUs as those of a team's threads, the caller's first. Returns how many to pin to; 0: none.
 *
 * A team as large as the machine leaves only the placement to choose, and a scheduler that sees threads wait by yielding may
 * place two on one CPU for seconds: a step then takes three times as long. So each thread is pinned to its own CPU. Smaller teams
 * share the machine with other processes and are not pinned. The caller also does the serial work: a process that serves and one
 * that asks it get different CPUs for that. */
int32_t pf_threads_pinning(int32_t n_threads, bool serves, int32_t *cpus, int32_t n_cpus);

#endif
