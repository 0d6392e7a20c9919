/*
 * What the implementations of a team share: the struct, and the barrier that its threads meet at. Internal to base/team*.c.
 *
 *     team.c           chooses the implementation, checks arguments
 *     team_barrier.c   the barrier inside a step, and the end of a step
 *     team_own.c       starts threads of its own and begins steps on them
 *     team_openmp.c    begins steps on the threads of an OpenMP runtime
 */
#ifndef PF_BASE_TEAM_INTERNAL_H
#define PF_BASE_TEAM_INTERNAL_H

#include <pthread.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/cpus.h"
#include "base/gate.h"
#include "base/team.h"
#include "base/yield.h"

enum {
    PF_TEAM_MAX_THREADS = 1024,
    PF_TEAM_MAX_LEVELS = 11, /* 0 .. the bits of the largest id */
    PF_TEAM_LINE_BYTES = 64,
};

typedef struct {
    alignas(PF_TEAM_LINE_BYTES) pf_gate flag;
    alignas(PF_TEAM_LINE_BYTES) pf_team *team;
    int32_t id;
    pthread_t thread;         /* of the own implementation */
    int32_t cpu;              /* to be pinned to, where the team is pinned */
    pf_contention contention; /* on its CPU */
} pf_team_thread;

/* Threads whose ids have the same number of bits form a level, 1 | 2 3 | 4 5 6 7 | ..., and take part in the same steps. The
 * gate begins a step of the level; on the same cache line stands what the step is. */
typedef struct {
    alignas(PF_TEAM_LINE_BYTES) pf_gate start;
    int32_t n_members; /* of the step */
    pf_team_fn *fn;    /* NULL: end the thread */
    void *arg;
} pf_team_level;

struct pf_team {
    pf_team_level levels[PF_TEAM_MAX_LEVELS]; /* by bits; level 0 is the caller, which waits for no start */
    alignas(PF_TEAM_LINE_BYTES) pf_gate barrier;
    alignas(PF_TEAM_LINE_BYTES) unsigned flags[PF_TEAM_MAX_LEVELS]; /* their phase by level; only member 0 uses it */
    alignas(PF_TEAM_LINE_BYTES) int32_t n_threads;                  /* below, only held_up_ns changes during a step */
    int32_t n_members;                                              /* of the step */
    _Atomic uint64_t held_up_ns;                                    /* sum over all threads of this step */
    bool spins;                                                     /* each thread has a CPU of its own */
    int32_t n_started;                                              /* own threads to join */
    bool pinned;                                                    /* cores were given: threads are pinned */
    bool pins;                                                      /* from the next step of several threads on */
    struct pf_team_openmp *openmp;                                  /* NULL: the own implementation */
    pf_team_thread threads[]; /* [n_threads]; of the caller, 0, flag, cpu and contention are used */
};

static inline int32_t pf_team_level_of(int32_t id)
{
    return id == 0 ? 0 : 32 - __builtin_clz((unsigned)id);
}

/* A thread other than the caller arrives at the end of a step of n_members. Only the caller waits there. */
void pf_team_end_step(pf_team *team, pf_team_thread *self, int32_t n_members);
void pf_team_await_end(pf_team *team, int32_t n_members);

/* Block all signals of the calling thread but those of its own faults, so that threads that it starts inherit the mask: other
 * signals are for the threads of the caller. */
void pf_team_block_signals(sigset_t *before);

/* The own implementation. */
PF_MUST_USE pf_status pf_team_own_start(pf_team *team, const int32_t *cores, int32_t n_cores, pf_error *error);
void pf_team_own_run(pf_team *team, int32_t n_members, pf_team_fn *fn, void *arg);
void pf_team_own_stop(pf_team *team);

/* The implementation on OpenMP. */
PF_MUST_USE pf_status pf_team_openmp_start(pf_team *team, pf_error *error);
void pf_team_openmp_run(pf_team *team, int32_t n_members, pf_team_fn *fn, void *arg);
void pf_team_openmp_stop(pf_team *team);
const char *pf_team_openmp_path(const pf_team *team);

#endif
