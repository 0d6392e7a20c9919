/*
 * A team on threads of its own, which wait for the start of a step.
 *
 *     starts    word = phase << 16    one gate for each level; the caller opens it: a step of its threads begins
 *
 * A step runs on all threads, or on the first 2, 4, 8 and so on. Threads that are not in a step keep waiting: their start stays
 * closed. A start's next phase needs the end of the step before, so it cannot advance twice while a thread waits for it.
 *
 * Waiting for a step begins with the stage (see team_barrier.c) at which the last wait ended: while a far drafter proposes, the
 * CPU is left to it at once.
 */
#include <string.h>

#include "base/team_internal.h"

enum {
    STEP_NS = 1000 * 1000, /* the gap between two steps (sampling, a verification in another process) is shorter */
};

/* Where the wait before was long this one will be too, so the thread yields at once. Where a yield lets another process compute,
 * the step likely waits for that process and begins soon. Returns whether this wait was long. */
static bool wait_for_step(const pf_team *team, pf_gate *gate, unsigned phase, bool was_long, pf_contention *contention)
{
    if (!was_long && pf_gate_opens_soon(gate, phase, team->spins)) return false;
    const uint64_t begin = pf_now_ns();
    pf_yield_result others = PF_YIELD_OTHERS_LOOKED;
    for (uint64_t now = begin;; others = pf_contention_yield(contention, &now)) {
        const bool worked = others != PF_YIELD_OTHERS_LOOKED;
        if (!pf_gate_is_closed(gate, phase)) return !worked && now - begin > PF_GATE_SPIN_NS; /* else perhaps at once */
        if (worked && pf_gate_opens_soon(gate, phase, team->spins)) return true;
        if (now - begin >= STEP_NS || pf_contention_is_present(contention, now)) break;
    }
    pf_gate_sleep(gate, phase);
    return true;
}

static void *thread_main(void *arg)
{
    pf_team_thread *self = arg;
    pf_team *team = self->team;
    pf_team_level *level = &team->levels[pf_team_level_of(self->id)];
    bool was_long = false;
    for (unsigned phase = 0;; phase += PF_GATE_PHASE) {
        was_long = wait_for_step(team, &level->start, phase, was_long, &self->contention);
        if (!level->fn) return NULL;
        level->fn((pf_member){ .team = team, .id = self->id, .n_threads = level->n_members }, level->arg);
        pf_team_end_step(team, self, level->n_members);
    }
}

static void open_starts(pf_team *team, int32_t n_members, pf_team_fn *fn, void *arg)
{
    for (int l = pf_team_level_of(n_members - 1); l > 0; l--) {
        pf_team_level *level = &team->levels[l];
        level->n_members = n_members;
        level->fn = fn;
        level->arg = arg;
        pf_gate_open(&level->start, pf_gate_next_phase(&level->start));
    }
}

void pf_team_own_run(pf_team *team, int32_t n_members, pf_team_fn *fn, void *arg)
{
    if (team->pinned && (n_members > 1 || team->n_threads == 1)) pf_cpus_pin_thread(team->first_cpu);
    open_starts(team, n_members, fn, arg);
    fn((pf_member){ .team = team, .id = 0, .n_threads = n_members }, arg);
    pf_team_await_end(team, n_members);
}

void pf_team_own_stop(pf_team *team)
{
    open_starts(team, team->n_threads, NULL, NULL);
    for (int32_t id = 1; id <= team->n_started; id++) pthread_join(team->threads[id].thread, NULL);
    if (team->pinned) pf_cpus_unpin_thread();
}

static int start_thread(pf_team *team, int32_t id, const int32_t *cores, int32_t n_cores)
{
    pthread_attr_t attr;
    int rc = pthread_attr_init(&attr);
    if (rc != 0) return rc;
    if (n_cores > 0) {
        pf_cpus one = { 0 };
        pf_cpus_add(&one, cores[id % n_cores]);
        rc = pthread_attr_setaffinity_np(&attr, sizeof one, one.parts);
    }
    if (rc == 0) rc = pthread_create(&team->threads[id].thread, &attr, thread_main, &team->threads[id]);
    pthread_attr_destroy(&attr);
    return rc;
}

typedef struct {
    pf_team *team;
    const int32_t *cores;
    int32_t n_cores;
    int rc;
} start_job;

static void start_threads(void *arg)
{
    start_job *job = arg;
    for (int32_t id = 1; id < job->team->n_threads && job->rc == 0; id++) {
        job->rc = start_thread(job->team, id, job->cores, job->n_cores);
        if (job->rc == 0) job->team->n_started = id;
    }
}

pf_status pf_team_own_start(pf_team *team, const int32_t *cores, int32_t n_cores, pf_error *error)
{
    start_job job = { .team = team, .cores = cores, .n_cores = n_cores };
    sigset_t before;
    team->pinned = n_cores > 0;
    team->first_cpu = n_cores > 0 ? cores[0] : 0;
    pf_team_block_signals(&before);
    if (n_cores == 0) /* threads inherit where the calling thread may run */
        pf_team_run_unpinned(start_threads, &job);
    else
        start_threads(&job);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (job.rc == 0) return PF_OK;
    return pf_fail(error, PF_NOMEM, "thread %d of a team of %d cannot be started: %s", team->n_started + 2,
                   team->n_threads, strerror(job.rc));
}
