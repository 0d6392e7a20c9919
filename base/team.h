/*
 * Runs one function on a team of threads, step after step.
 *
 * The caller is member 0 of the team. Two implementations have the same contract:
 *
 *     own       threads of the team's own. Between steps they spin briefly with yields (a decode step lasts tens of microseconds,
 *               and waking a sleeping thread costs as much), then they sleep. A worker and a verifier share CPUs as two
 *               processes: a waiting thread leaves its CPU to the process that computes.
 *     openmp    threads of the OpenMP runtime that the process has loaded, or else of the system's (base/openmp.h): no second
 *               pool in a host process that has one
 *
 * Threads: one caller at a time runs a team.
 *
 * Pinning, of own threads only: where cores are given, each thread is pinned to one CPU (base/cpus.h) as it begins a step of several
 * threads, unless pf_team_pin says otherwise. Member 0 is the calling thread: it stays pinned until it runs another pinned team, or until
 * pf_team_unpin_caller or pf_team_destroy, which restore the CPUs that it had before it was first pinned. A thread that it
 * starts while it is pinned inherits that one CPU (pf_team_run_unpinned). An OpenMP runtime pins its threads itself (OMP_PLACES,
 * OMP_PROC_BIND).
 *
 * Fork: the child of a process has no team threads. It must not run or destroy a team of own threads; one on OpenMP starts own
 * threads there when it is run. libgomp itself cannot begin a parallel region in the child on the thread that has used it.
 */
#ifndef PF_BASE_TEAM_H
#define PF_BASE_TEAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct pf_team pf_team;

/* A thread inside a step. */
typedef struct {
    pf_team *team;
    int32_t id; /* 0 .. n_threads-1; 0 is the caller */
    int32_t n_threads;
} pf_member;

typedef void pf_team_fn(pf_member member, void *arg);

typedef enum { PF_THREADING_OWN, PF_THREADING_OPENMP, PF_N_THREADINGS } pf_threading;

const char *pf_threading_name(pf_threading threading); /* "own", "openmp" */

/* *out: how many of n_threads a team gets where the number is not given: all; on OpenMP no more than the runtime's own default
 * (OMP_NUM_THREADS, torch.set_num_threads). PF_UNAVAILABLE: there is no OpenMP runtime. */
PF_MUST_USE pf_status pf_threading_limit(pf_threading threading, int32_t n_threads, int32_t *out, pf_error *error);

/* n_threads in 1 .. 1024. cores: [n_cores] logical CPU numbers to pin threads to, round robin, or NULL: the threads other than
 * the caller run wherever the process may.
 * PF_INVALID (also cores with OpenMP, which pins itself), PF_NOMEM (threads cannot be started), PF_UNAVAILABLE (a core that
 * does not exist or is not ours; there is no OpenMP runtime, or it gives fewer threads).
 * The caller owns it and ends it with pf_team_destroy. */
PF_MUST_USE pf_status pf_team_create_on(pf_threading threading, int32_t n_threads, const int32_t *cores,
                                        int32_t n_cores, pf_team **out, pf_error *error);

/* The same, on own threads. */
PF_MUST_USE pf_status pf_team_create(int32_t n_threads, const int32_t *cores, int32_t n_cores, pf_team **out,
                                     pf_error *error);
void pf_team_destroy(pf_team *team); /* NULL is fine */

int32_t pf_team_size(const pf_team *team);
pf_threading pf_team_threading(const pf_team *team);
const char *pf_team_runtime(
    const pf_team *team); /* the file of its OpenMP runtime, until it is destroyed; NULL: own threads */

/* Run fn(member, arg) on every thread and return when all have returned. Nothing is allocated. */
void pf_team_run(pf_team *team, pf_team_fn *fn, void *arg);

/* Run it on threads 0 .. n_members-1, as on a team of that size; the others keep waiting. n_members: a power of two that is not
 * above the team's size, or that size. */
void pf_team_run_some(pf_team *team, int32_t n_members, pf_team_fn *fn, void *arg);

/* How long a thread was held up in the last step: the sum of its waits of more than two milliseconds, each of which means that
 * the scheduler had given a team thread's CPU to another process. The mean over all threads but one, since the last to arrive
 * does not wait. */
uint64_t pf_team_held_up_ns(const pf_team *team);

/* Whether threads are pinned where cores were given, from the next step of several threads on; at first they are. Threads that
 * share CPUs with other processes, or compute without barriers as loading does, get more of them where the scheduler may move
 * them. */
void pf_team_pin(pf_team *team, bool pins);

/* Let the calling thread run wherever the process may, until its next step of several threads. */
void pf_team_unpin_caller(pf_team *team);

/* Call fn(arg) while the calling thread may run wherever the process may: threads that it starts there inherit no pinning. */
void pf_team_run_unpinned(void (*fn)(void *arg), void *arg);

/* Inside a step: wait until every thread of it is here. What was written before is visible after. */
void pf_team_barrier(pf_member member);

/* This thread's part of 0 .. total-1: contiguous, in order of id, sizes equal within one. */
static inline void pf_team_share(pf_member member, int32_t total, int32_t *begin, int32_t *end)
{
    *begin = (int32_t)((int64_t)total * member.id / member.n_threads);
    *end = (int32_t)((int64_t)total * (member.id + 1) / member.n_threads);
}

#endif
