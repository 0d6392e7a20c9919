/* Chooses the implementation of a team, checks what it is created with, and does what both share. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cgroup.h"
#include "base/checked.h"
#include "base/openmp.h"
#include "base/team_internal.h"

/* ---- running ---------------------------------------------------------------------------------------------------- */

void pf_team_run_some(pf_team *team, int32_t n_members, pf_team_fn *fn, void *arg)
{
    assert(n_members > 0 && n_members <= team->n_threads);
    assert(n_members == team->n_threads || (n_members & (n_members - 1)) == 0);
    if (team->n_members != n_members) team->n_members = n_members; /* others read its line */
    if (pf_team_held_up_ns(team) > 0) atomic_store_explicit(&team->held_up_ns, 0, memory_order_relaxed);
    if (team->openmp)
        pf_team_openmp_run(team, n_members, fn, arg);
    else
        pf_team_own_run(team, n_members, fn, arg);
}

void pf_team_run(pf_team *team, pf_team_fn *fn, void *arg)
{
    pf_team_run_some(team, team->n_threads, fn, arg);
}

uint64_t pf_team_held_up_ns(const pf_team *team)
{
    const int32_t n_waiting = team->n_members > 1 ? team->n_members - 1 : 1;
    return atomic_load_explicit(&team->held_up_ns, memory_order_relaxed) / (uint64_t)n_waiting;
}

int32_t pf_team_size(const pf_team *team)
{
    return team->n_threads;
}

/* ---- threading -------------------------------------------------------------------------------------------------- */

const char *pf_threading_name(pf_threading threading)
{
    return threading == PF_THREADING_OPENMP ? "openmp" : "own";
}

pf_threading pf_team_threading(const pf_team *team)
{
    return team->openmp ? PF_THREADING_OPENMP : PF_THREADING_OWN;
}

const char *pf_team_runtime(const pf_team *team)
{
    return team->openmp ? pf_team_openmp_path(team) : NULL;
}

pf_status pf_threading_limit(pf_threading threading, int32_t n_threads, int32_t *out, pf_error *error)
{
    pf_openmp openmp;
    if (threading == PF_THREADING_OPENMP) {
        PF_TRY(pf_openmp_find(&openmp, error));
        const int32_t most = pf_openmp_threads(&openmp);
        if (most < n_threads) n_threads = most;
    }
    *out = n_threads;
    return PF_OK;
}

/* ---- pinning ---------------------------------------------------------------------------------------------------- */

void pf_team_pin(pf_team *team, bool pins)
{
    pins = pins && team->pinned;
    if (team->pins != pins) team->pins = pins; /* threads read its line */
}

void pf_team_unpin_caller(pf_team *team)
{
    if (team->pinned) pf_cpus_unpin_thread();
}

/* Let the calling thread run wherever the process may; *affinity is where it could. false: it stays there. */
static bool leave_for_a_while(pf_cpus *affinity)
{
    pf_cpus all;
    return pf_cpus_of_thread(affinity) && pf_cpus_of_process(&all, NULL) == PF_OK && pf_cpus_bind_thread(&all);
}

void pf_team_run_unpinned(void (*fn)(void *arg), void *arg)
{
    pf_cpus affinity;
    const bool left = leave_for_a_while(&affinity);
    fn(arg);
    if (left) (void)pf_cpus_bind_thread(&affinity);
}

void pf_team_block_signals(sigset_t *before)
{
    static const int own_faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT };
    sigset_t blocked;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof own_faults / sizeof *own_faults; i++) sigdelset(&blocked, own_faults[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, before);
}

/* ---- creating and destroying ------------------------------------------------------------------------------------- */

void pf_team_destroy(pf_team *team)
{
    if (!team) return;
    if (team->openmp)
        pf_team_openmp_stop(team);
    else
        pf_team_own_stop(team);
    free(team);
}

/* Spinning is for threads that have a CPU each. */
static bool spins(int32_t n_threads, const pf_cpus *allowed, const int32_t *cores, int32_t n_cores)
{
    pf_cpus distinct = { 0 };
    for (int32_t i = 0; i < n_cores; i++) pf_cpus_add(&distinct, cores[i]);
    int32_t cpus = pf_cpus_count(n_cores > 0 ? &distinct : allowed);
    const int32_t quota = pf_cgroup_read("").cpus;
    if (quota < cpus) cpus = quota;
    return n_threads <= cpus;
}

static pf_status check_cores(const pf_cpus *allowed, const int32_t *cores, int32_t n_cores, pf_error *error)
{
    for (int32_t i = 0; i < n_cores; i++) {
        if (cores[i] < 0) return pf_fail(error, PF_INVALID, "core %d: expected 0 or more", cores[i]);
        if (!pf_cpus_has(allowed, cores[i]))
            return pf_fail(error, PF_UNAVAILABLE,
                           "core %d: does not exist or is not among the %d that this process may use", cores[i],
                           pf_cpus_count(allowed));
    }
    return PF_OK;
}

static pf_status check_arguments(pf_threading threading, int32_t n_threads, int32_t n_cores, pf_error *error)
{
    if (threading != PF_THREADING_OWN && threading != PF_THREADING_OPENMP)
        return pf_fail(error, PF_INVALID, "threading %d: expected 0 (own) or 1 (openmp)", (int)threading);
    if (n_threads < 1 || n_threads > PF_TEAM_MAX_THREADS)
        return pf_fail(error, PF_INVALID, "a team of %d threads: expected 1 to %d", n_threads, PF_TEAM_MAX_THREADS);
    if (n_cores < 0) return pf_fail(error, PF_INVALID, "a list of %d cores: expected 0 or more", n_cores);
    if (threading == PF_THREADING_OPENMP && n_cores > 0)
        return pf_fail(
            error, PF_INVALID,
            "a list of %d cores with OpenMP threading: expected none, as the runtime pins its threads itself "
            "(OMP_PLACES, OMP_PROC_BIND)",
            n_cores);
    return PF_OK;
}

pf_status pf_team_create_on(pf_threading threading, int32_t n_threads, const int32_t *cores, int32_t n_cores,
                            pf_team **out, pf_error *error)
{
    if (!cores) n_cores = 0;
    PF_TRY(check_arguments(threading, n_threads, n_cores, error));
    pf_cpus allowed;
    PF_TRY(pf_cpus_of_process(&allowed, error));
    PF_TRY(check_cores(&allowed, cores, n_cores, error));

    const size_t bytes = sizeof(pf_team) + (size_t)n_threads * sizeof(pf_team_thread);
    pf_team *team = aligned_alloc(PF_TEAM_LINE_BYTES, pf_round_up(bytes, PF_TEAM_LINE_BYTES));
    if (!team) return pf_fail(error, PF_NOMEM, "a team of %d threads: no memory for %zu bytes", n_threads, bytes);
    memset(team, 0, bytes);
    team->n_threads = n_threads;
    team->spins = spins(n_threads, &allowed, cores, n_cores);
    for (int32_t id = 1; id < n_threads; id++) {
        team->threads[id].team = team;
        team->threads[id].id = id;
    }
    const pf_status status = threading == PF_THREADING_OPENMP ? pf_team_openmp_start(team, error)
                                                              : pf_team_own_start(team, cores, n_cores, error);
    if (status != PF_OK) {
        pf_team_destroy(team);
        return status;
    }
    *out = team;
    return PF_OK;
}

pf_status pf_team_create(int32_t n_threads, const int32_t *cores, int32_t n_cores, pf_team **out, pf_error *error)
{
    return pf_team_create_on(PF_THREADING_OWN, n_threads, cores, n_cores, out, error);
}
