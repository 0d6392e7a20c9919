/*
 * A team on the threads of an OpenMP runtime, which a host process may have already (base/openmp.h).
 *
 * A step of several threads is one parallel region of the team's size, so that the runtime's pool never shrinks and grows with
 * the size of a step; threads that are not in the step return at once. A step of one thread runs without a region. libgomp keeps
 * a pool for each thread that begins regions: a caller that shares the pool of its host runs the team on the host's thread.
 *
 * Barriers are ours (team_barrier.c), on top of the runtime's threads, not GOMP_barrier: the runtime's own wait policy is one
 * environment variable for the whole process, it does not tell how long a thread was held up, and ThreadSanitizer does not see
 * its synchronisation. The threads of a region are distinct and run at the same time, which is all that our barrier needs.
 *
 * A region may get fewer threads than it asks for. Dynamic adjustment (OMP_DYNAMIC) is switched off around each region. What
 * remains is a caller inside another parallel region, or a thread limit that other threads use up. Then no thread of the region
 * runs the function, and the step runs on a substitute: a team of own threads, started when it is needed first.
 *
 * The child of a fork has neither the runtime's threads nor the substitute's. A page that the kernel wipes in a child tells, and
 * steps then run on a new substitute, as a region would wait for the lost threads forever.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/openmp.h"
#include "base/team_internal.h"

struct pf_team_openmp {
    atomic_int n_members; /* of the step; stored before the region begins, loaded first by each of its threads */
    atomic_int n_left; /* threads that have left a region, since the start: orders what they did before what follows */
    pf_team *team;
    pf_openmp runtime;
    pf_team_fn *fn;
    void *arg;
    bool was_short;            /* the region of this step had fewer threads than n_members */
    int32_t n_granted;         /* threads of the last region */
    volatile char *is_present; /* a page, of 1; in the child of a fork, of 0 */
    size_t page_bytes;
    bool without_runtime; /* in the child of a fork: for good */
    pf_team *substitute;  /* NULL: not needed yet */
};

static void run_member(struct pf_team_openmp *o)
{
    const int32_t n_members = atomic_load_explicit(&o->n_members, memory_order_acquire);
    pf_team *team = o->team;
    const int32_t id = o->runtime.thread_num(), n_granted = o->runtime.num_threads();
    if (id == 0) { /* the calling thread */
        o->n_granted = n_granted;
        o->was_short = n_granted < n_members;
    }
    if (n_granted < n_members || id >= n_members) return;
    o->fn((pf_member){ .team = team, .id = id, .n_threads = n_members }, o->arg);
    if (id == 0)
        pf_team_await_end(team, n_members);
    else
        pf_team_end_step(team, &team->threads[id], n_members);
}

static void run_thread(void *data)
{
    struct pf_team_openmp *o = data;
    run_member(o);
    (void)atomic_fetch_add_explicit(&o->n_left, 1, memory_order_release);
}

/* false: the runtime gave the region fewer threads, and nothing has run. */
static bool run_region(pf_team *team, int32_t n_members, pf_team_fn *fn, void *arg)
{
    struct pf_team_openmp *o = team->openmp;
    o->fn = fn;
    o->arg = arg;
    atomic_store_explicit(&o->n_members, n_members, memory_order_release);
    const int is_dynamic = o->runtime.get_dynamic();
    if (is_dynamic) o->runtime.set_dynamic(0);
    o->runtime.parallel(run_thread, o, (unsigned)team->n_threads, 0);
    (void)atomic_load_explicit(&o->n_left, memory_order_acquire);
    if (is_dynamic) o->runtime.set_dynamic(is_dynamic);
    return !o->was_short;
}

/* The substitute. While the system refuses threads, wait until it gives them: a step cannot fail. */
static pf_team *substitute(pf_team *team)
{
    struct pf_team_openmp *o = team->openmp;
    while (!o->substitute && pf_team_create(team->n_threads, NULL, 0, &o->substitute, NULL) != PF_OK)
        nanosleep(&(struct timespec){ .tv_nsec = 1000 * 1000 }, NULL);
    return o->substitute;
}

/* In the child of a fork: the threads of the runtime and of a substitute are not here. Memory of the latter is not freed, since
 * destroying it would wait for its threads. */
static void note_fork(struct pf_team_openmp *o)
{
    if (*o->is_present) return;
    *o->is_present = 1;
    o->without_runtime = true;
    o->substitute = NULL;
}

void pf_team_openmp_run(pf_team *team, int32_t n_members, pf_team_fn *fn, void *arg)
{
    if (n_members == 1) {
        fn((pf_member){ .team = team, .id = 0, .n_threads = 1 }, arg);
        return;
    }
    struct pf_team_openmp *o = team->openmp;
    note_fork(o);
    if (!o->without_runtime && run_region(team, n_members, fn, arg)) return;
    pf_team *other = substitute(team);
    pf_team_run_some(other, n_members, fn, arg);
    atomic_store_explicit(&team->held_up_ns, atomic_load_explicit(&other->held_up_ns, memory_order_relaxed),
                          memory_order_relaxed);
}

const char *pf_team_openmp_path(const pf_team *team)
{
    return team->openmp->runtime.path;
}

/* ---- starting and stopping --------------------------------------------------------------------------------------- */

static pf_status map_presence(struct pf_team_openmp *o, pf_error *error)
{
    o->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    void *page = mmap(NULL, o->page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return pf_fail(error, PF_NOMEM, "OpenMP threading: no memory for a page of %zu bytes", o->page_bytes);
    (void)madvise(page, o->page_bytes, MADV_WIPEONFORK); /* not known before Linux 4.14: a fork is not noticed */
    o->is_present = page;
    *o->is_present = 1;
    return PF_OK;
}

static void do_nothing(pf_member member, void *arg)
{
    (void)member;
    (void)arg;
}

static void try_region(void *arg)
{
    pf_team *team = arg;
    sigset_t before;
    pf_team_block_signals(&before); /* threads that the runtime starts now inherit the mask */
    (void)run_region(team, team->n_threads, do_nothing, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

pf_status pf_team_openmp_start(pf_team *team, pf_error *error)
{
    struct pf_team_openmp *o = calloc(1, sizeof *o);
    if (!o)
        return pf_fail(error, PF_NOMEM, "a team of %d threads: no memory for %zu bytes", team->n_threads, sizeof *o);
    o->team = team;
    team->openmp = o;
    PF_TRY(map_presence(o, error));
    PF_TRY(pf_openmp_find(&o->runtime, error));
    if (team->n_threads == 1) return PF_OK;
    team->n_members = team->n_threads;
    pf_team_run_unpinned(try_region, team);                            /* and where the calling thread may run */
    atomic_store_explicit(&team->held_up_ns, 0, memory_order_relaxed); /* that region is no step */
    if (!o->was_short) return PF_OK;
    return pf_fail(
        error, PF_UNAVAILABLE,
        "OpenMP threading: %s gives %d of %d threads; expected all: OMP_THREAD_LIMIT is lower, or the caller is "
        "inside a parallel region",
        o->runtime.path, o->n_granted, team->n_threads);
}

void pf_team_openmp_stop(pf_team *team)
{
    struct pf_team_openmp *o = team->openmp;
    if (o->is_present) {
        note_fork(o);
        munmap((void *)(uintptr_t)o->is_present, o->page_bytes);
    }
    pf_team_destroy(o->substitute);
    free(o);
}
