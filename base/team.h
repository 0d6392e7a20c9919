/*
 * A team of threads that run one function together, step after step.
 *
 * The caller is member 0; the others wait between steps, spinning for a moment with yields (a decode step
 * lasts tens of microseconds, waking a sleeper costs as much) and then sleeping. Waiting is ours, not OpenMP's,
 * because a worker and a verifier share the same cores as two processes: a member that waits must leave its core
 * to whoever has work, and libgomp's policy is one environment variable for the whole process.
 *
 * Threads: one caller at a time runs a team. Where cores are given, each member is pinned to one, its seat (base/cpus.h).
 * Member 0 is the calling thread: it takes its seat as it runs a step of several members, and keeps it until it runs another
 * pinned team, whose seat it then takes, or until pf_team_unpin_caller or pf_team_destroy, which give it back the CPUs that it
 * had before its first seat. A thread that it starts while it has a seat inherits that one core (pf_team_run_unpinned).
 */
#ifndef PF_BASE_TEAM_H
#define PF_BASE_TEAM_H

#include <stdint.h>

#include "base/status.h"

typedef struct pf_team pf_team;

/* What a member knows inside a step. */
typedef struct {
    pf_team *team;
    int32_t id; /* 0 .. n_threads-1; 0 is the caller */
    int32_t n_threads;
} pf_member;

typedef void pf_team_fn(pf_member member, void *arg);

/* n_threads in 1 .. 1024. cores: [n_cores] logical CPU numbers to pin members to, round robin, or NULL:
 * the others run wherever the process may.
 * PF_INVALID, PF_NOMEM (threads cannot be started), PF_UNAVAILABLE (a core that does not exist or is not ours).
 * The caller owns it and ends it with pf_team_destroy. */
PF_MUST_USE pf_status pf_team_create(int32_t n_threads, const int32_t *cores, int32_t n_cores, pf_team **out,
                                     pf_error *error);
void pf_team_destroy(pf_team *team); /* NULL is fine */

int32_t pf_team_size(const pf_team *team);

/* Run fn(member, arg) on every member and return when all have returned. Nothing is allocated. */
void pf_team_run(pf_team *team, pf_team_fn *fn, void *arg);

/* Run it on members 0 .. n_members-1, as on a team of so many; the others go on waiting, or sleeping. n_members: a power of
 * two that is not above the team's size, or that size. */
void pf_team_run_some(pf_team *team, int32_t n_members, pf_team_fn *fn, void *arg);

/* How long a member was held up in the step that has just ended: the sum of its waits of more than two milliseconds, each of
 * which means that the scheduler had given somebody's core to another process. The mean of all members but one, since the
 * last to arrive waits for nobody. */
uint64_t pf_team_held_up_ns(const pf_team *team);

/* Let the calling thread run wherever the process may, until its next step of several. */
void pf_team_unpin_caller(pf_team *team);

/* Call fn(arg) with the calling thread free to run wherever the process may: threads that it starts in there inherit
 * no member's seat. */
void pf_team_run_unpinned(void (*fn)(void *arg), void *arg);

/* Inside a step: wait until every member of it is here. What was written before is visible after. */
void pf_team_barrier(pf_member member);

/* The part of 0 .. total-1 that is this member's: contiguous, in order of id, sizes equal within one. */
static inline void pf_team_share(pf_member member, int32_t total, int32_t *begin, int32_t *end)
{
    *begin = (int32_t)((int64_t)total * member.id / member.n_threads);
    *end = (int32_t)((int64_t)total * (member.id + 1) / member.n_threads);
}

#endif
