#include "sim/world.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/hash.h"

struct pf_process {
    pf_world *world;
    pf_process *next; /* in the order of spawning */
    pf_process_body *body;
    void *arg;
    pthread_t thread;
    pthread_cond_t turn;
    uint64_t clock_ns;
    uint64_t wake_ns; /* while it waits: when it goes on */
    bool is_client, has_thread, has_ended;
};

struct pf_world {
    pthread_mutex_t lock;
    pthread_cond_t all_ended;
    pf_process *first, **last;
    pf_process *running; /* NULL: none yet, or all have ended */
    uint64_t random;
    uint64_t limit_ns, drain_ns;
    int32_t n_clients; /* that have not ended */
    uint64_t ended_ns;
    volatile bool is_over; /* written under the lock; read also without, as a flag */
    bool is_stuck;
    bool is_abandoned; /* threads were refused: bodies do not run */
};

/* ---- turns ------------------------------------------------------------------------------------------------------ */

/* When a process has to look whether it is over, besides. */
static uint64_t end_ns(const pf_process *p)
{
    const pf_world *w = p->world;
    if (w->is_over) return 0;
    return !p->is_client && w->n_clients == 0 ? w->ended_ns + w->drain_ns : UINT64_MAX;
}

static uint64_t due_ns(const pf_process *p)
{
    const uint64_t end = end_ns(p);
    return p->wake_ns < end ? p->wake_ns : end;
}

static pf_process *earliest(const pf_world *w)
{
    pf_process *best = NULL;
    for (pf_process *p = w->first; p; p = p->next)
        if (!p->has_ended && (!best || due_ns(p) < due_ns(best))) best = p;
    return best;
}

static void end_world(pf_world *w)
{
    w->is_stuck = true;
    __atomic_store_n(&w->is_over, true, __ATOMIC_RELAXED);
}

/* Hands the turn to the process whose time has come. With the lock. */
static void pass_turn(pf_world *w)
{
    pf_process *next = earliest(w);
    const bool is_late = next && (due_ns(next) == UINT64_MAX || due_ns(next) > PF_WORLD_BEGIN_NS + w->limit_ns);
    if (is_late && !w->is_over && w->n_clients > 0) {
        end_world(w);
        next = earliest(w);
    }
    w->running = next;
    if (!next) {
        pthread_cond_signal(&w->all_ended);
        return;
    }
    const uint64_t due = due_ns(next);
    if (due > next->clock_ns && due != UINT64_MAX) next->clock_ns = due;
    pthread_cond_signal(&next->turn);
}

static void await_turn(pf_process *p)
{
    while (p->world->running != p) pthread_cond_wait(&p->turn, &p->world->lock);
}

void pf_process_wait(pf_process *p, uint64_t until_ns)
{
    pf_world *w = p->world;
    pthread_mutex_lock(&w->lock);
    p->wake_ns = until_ns > p->clock_ns ? until_ns : p->clock_ns;
    pass_turn(w);
    await_turn(p);
    pthread_mutex_unlock(&w->lock);
}

void pf_process_wake(pf_process *p, uint64_t at_ns)
{
    if (at_ns < p->wake_ns) p->wake_ns = at_ns > p->clock_ns ? at_ns : p->clock_ns;
}

bool pf_process_is_over(const pf_process *p)
{
    return p->clock_ns >= end_ns(p);
}

uint64_t *pf_process_clock(pf_process *p)
{
    return &p->clock_ns;
}

static void *run_process(void *arg)
{
    pf_process *p = arg;
    pf_world *w = p->world;
    pthread_mutex_lock(&w->lock);
    await_turn(p);
    pthread_mutex_unlock(&w->lock);
    if (!w->is_abandoned) p->body(p, p->arg);
    pthread_mutex_lock(&w->lock);
    p->has_ended = true;
    if (p->is_client && --w->n_clients == 0) w->ended_ns = p->clock_ns;
    pass_turn(w);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* ---- the world --------------------------------------------------------------------------------------------------- */

pf_status pf_world_create(uint64_t seed, uint64_t limit_ns, uint64_t drain_ns, pf_world **out)
{
    pf_world *w = calloc(1, sizeof *w);
    if (!w) return PF_NOMEM;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->all_ended, NULL);
    w->last = &w->first;
    w->random = seed;
    w->limit_ns = limit_ns;
    w->drain_ns = drain_ns;
    *out = w;
    return PF_OK;
}

void pf_world_destroy(pf_world *w)
{
    if (!w) return;
    for (pf_process *p = w->first, *next; p; p = next) {
        next = p->next;
        pthread_cond_destroy(&p->turn);
        free(p);
    }
    pthread_cond_destroy(&w->all_ended);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

pf_status pf_world_spawn(pf_world *w, bool is_client, pf_process_body *body, void *arg, pf_process **out)
{
    pf_process *p = calloc(1, sizeof *p);
    if (!p) return PF_NOMEM;
    *p = (pf_process){ .world = w,
                       .body = body,
                       .arg = arg,
                       .is_client = is_client,
                       .clock_ns = PF_WORLD_BEGIN_NS,
                       .wake_ns = PF_WORLD_BEGIN_NS };
    pthread_cond_init(&p->turn, NULL);
    *w->last = p;
    w->last = &p->next;
    w->n_clients += is_client;
    *out = p;
    return PF_OK;
}

pf_status pf_world_run(pf_world *w)
{
    pthread_mutex_lock(&w->lock);
    for (pf_process *p = w->first; p; p = p->next) {
        p->has_thread = !w->is_abandoned && pthread_create(&p->thread, NULL, run_process, p) == 0;
        if (p->has_thread) continue;
        w->is_abandoned = true;
        p->has_ended = true;
        w->n_clients -= p->is_client;
    }
    pass_turn(w);
    while (w->running) pthread_cond_wait(&w->all_ended, &w->lock);
    pthread_mutex_unlock(&w->lock);
    for (pf_process *p = w->first; p; p = p->next)
        if (p->has_thread) pthread_join(p->thread, NULL);
    if (w->is_abandoned) return PF_NOMEM;
    return w->is_stuck ? PF_CANCELLED : PF_OK;
}

uint64_t pf_world_draw(pf_world *w)
{
    w->random += 0x9E3779B97F4A7C15u;
    return pf_hash_mix(w->random);
}

uint64_t pf_world_draw_below(pf_world *w, uint64_t n)
{
    return n > 0 ? pf_world_draw(w) % n : 0;
}

const volatile bool *pf_world_is_over(const pf_world *w)
{
    return &w->is_over;
}

uint64_t pf_world_ended_ns(const pf_world *w)
{
    return w->ended_ns;
}
