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
        if (team->pins)
            pf_cpus_pin_thread(self->cpu);
        else
            pf_cpus_unpin_thread();
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
    if (team->pins && (n_members > 1 || team->n_threads == 1))
        pf_cpus_pin_thread(team->threads[0].cpu);
    else if (team->pinned && !team->pins)
        pf_cpus_unpin_thread();
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

typedef struct {
    pf_team *team;
    int rc;
} start_job;

static void start_threads(void *arg)
{
    start_job *job = arg;
    for (int32_t id = 1; id < job->team->n_threads && job->rc == 0; id++) {
        pf_team_thread *self = &job->team->threads[id];
        job->rc = pthread_create(&self->thread, NULL, thread_main, self);
        if (job->rc == 0) job->team->n_started = id;
    }
}

pf_status pf_team_own_start(pf_team *team, const int32_t *cores, int32_t n_cores, pf_error *error)
{
    start_job job = { .team = team };
    sigset_t before;
    team->pinned = team->pins = n_cores > 0;
    for (int32_t id = 0; id < team->n_threads && n_cores > 0; id++) team->threads[id].cpu = cores[id % n_cores];
    pf_team_block_signals(&before);
    pf_team_run_unpinned(start_threads, &job); /* threads inherit where the calling thread may run */
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (job.rc == 0) return PF_OK;
    return pf_fail(error, PF_NOMEM, "thread %d of a team of %d cannot be started: %s", team->n_started + 2,
                   team->n_threads, strerror(job.rc));
}
