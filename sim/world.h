/*
 * Virtual time for processes that are written as blocking code: a discrete-event simulation, one thread a process, one thread
 * at a time.
 *
 *      process   own clock; runs from one wait to the next, and its clock stands or is advanced by what it simulates
 *      wait      the process whose time is the earliest runs next; of equal times the one that was spawned first
 *
 * A process that asks what others have sent until now waits for its own time first (pf_process_wait with its clock), so that all
 * that happens before has happened. Given one seed, everything happens in the same order each time.
 *
 * Clients decide how long the world goes on: after the end of the last one the others, servers, have a drain time to take what is
 * under way, and then are told that it is over. A world that reaches its time limit is over for clients, too.
 *
 * Source: process interaction as in Simula (Dahl and Nygaard, CACM 1966); simulation of real code under faults as in
 * FoundationDB (Zhou et al., SIGMOD 2021, section 4).
 *
 * Threads: a world belongs to one thread, and its processes' threads while pf_world_run runs.
 */
#ifndef PF_SIM_WORLD_H
#define PF_SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct pf_world pf_world;
typedef struct pf_process pf_process;
typedef void pf_process_body(pf_process *process, void *arg);

/* limit_ns, drain_ns: of virtual time; the first also counts from the start. End it with pf_world_destroy. PF_NOMEM. */
PF_MUST_USE pf_status pf_world_create(uint64_t seed, uint64_t limit_ns, uint64_t drain_ns, pf_world **out);
void pf_world_destroy(pf_world *world); /* after pf_world_run, or with no process spawned; NULL is fine */

/* A process that begins with the world. arg is borrowed. PF_NOMEM. */
PF_MUST_USE pf_status pf_world_spawn(pf_world *world, bool is_client, pf_process_body *body, void *arg,
                                     pf_process **out);

/* Run all processes to their ends. PF_NOMEM: no thread is left; nothing has run.  PF_CANCELLED: the time limit was reached before
 * the last client ended, or no process could go on. */
PF_MUST_USE pf_status pf_world_run(pf_world *world);

/* The next of the world's random numbers; in [0, n), and 0 without a draw where n is 0. By the running process, or before the start. */
uint64_t pf_world_draw(pf_world *world);
uint64_t pf_world_draw_below(pf_world *world, uint64_t n);

/* Set when the world is over: what ends requests. */
const volatile bool *pf_world_is_over(const pf_world *world);

/* When the last client ended; before that, 0. */
uint64_t pf_world_ended_ns(const pf_world *world);

/* ---- by the running process, of itself ---------------------------------------------------------------------------- */

/* Its time, which it may advance (base/clock.h takes it as a simulated clock). Begins at PF_WORLD_BEGIN_NS. */
uint64_t *pf_process_clock(pf_process *process);

/* Let others run until until_ns, or until it is woken. A time that has passed: until its own. UINT64_MAX: until it is woken. */
void pf_process_wait(pf_process *process, uint64_t until_ns);

/* Whether this process has to end: the world is over, or it is a server and all is drained. */
bool pf_process_is_over(const pf_process *process);

/* ---- by the running process, of another ---------------------------------------------------------------------------- */

/* If it waits, it is to go on at at_ns at the latest. */
void pf_process_wake(pf_process *process, uint64_t at_ns);

enum { PF_WORLD_BEGIN_NS = 1000 * 1000 * 1000 }; /* 0 means "never" to some */

#endif
