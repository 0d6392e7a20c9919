/*
 * Gates, each on a cache line of its own. A gate is one 32-bit word whose upper half is a phase; waiting is waiting for the
 * phase to change.
 *
 *     starts    word = phase << 16                  one a level; the caller opens it: a step of its members begins
 *     barrier   word = phase << 16 | n_arrived      all but the one who opens it wait for it
 *     flags     word = phase << 16                  one a member, who opens it when it arrives; member 0 waits for them
 *
 * Two members count themselves at the barrier, and the second opens it: one line that changes hands twice. A line that many
 * write goes from one to the next, so more than two raise their flags instead, member 0 looks at all of them and opens the
 * barrier. At the end of a step only the caller waits.
 *
 * A step is of all members, or of the first 2, 4, 8 and so on. Members whose ids have as many bits are a level, 1 | 2 3 |
 * 4 5 6 7 | ..., and take part in the same steps. Who are not in a step wait on: their start stays closed.
 *
 * What keeps it right: a phase cannot advance twice while somebody waits for it. The barrier's needs the arrival of every
 * member of the step, a flag's next one the barrier or the step that member 0 opens when it has seen the one before, a
 * start's the end of the step before. So 16 bits of phase that wrap are enough. Flags of a level have the same phase, which
 * member 0 keeps. What a member wrote before it arrived is visible to all behind the gate: by flags, since member 0 acquires
 * what each has released, and releases it to all; by counting, since arrivals are read-modify-writes of one word, and the
 * last of them acquires what all have released.
 *
 * Waiting has three stages: PAUSE, while the others are surely about to come; sched_yield, while waking from sleep
 * would cost more than the wait; a futex. Between steps a member begins where its last wait ended: while a far drafter
 * proposes, it makes way for it at once. Where others compute on its core and do not make way (base/yield.h), it leaves out
 * the second: it would lose the core for milliseconds each time. A waker looks for sleepers after it opened the gate, a
 * sleeper counts itself before it looks at the word, both sequentially consistent: one of the two sees the other.
 */
#include "base/team.h"

#include <assert.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/checked.h"
#include "base/clock.h"
#include "base/cpus.h"
#include "base/yield.h"

enum {
    MAX_THREADS = 1024,
    MAX_LEVELS = 11, /* 0 .. the bits of the largest id */
    LINE_BYTES = 64,
    PHASE = 1 << 16,       /* one step of a gate's phase */
    LOOKS = 32,            /* between two looks at the clock, a PAUSE each: of 10 ns, or of 40 */
    SOON_NS = 5 * 1000,    /* by the clock: a hundred PAUSEs take 1 us on one processor, 4 on another */
    STEP_NS = 1000 * 1000, /* the gap between two steps (sampling, a verification in another process) is shorter */
    YIELD_NS = 300 * 1000, /* at a barrier, where members share cores */
    WAKE_NS = 150 * 1000,  /* until a sleeper who was woken runs */
    BARRIER_NS = 20 * 1000 * 1000, /* until a member whose core has others on it has its turn */
    HELD_UP_NS = 2 * 1000 * 1000,  /* by somebody else on a core: members' own shares differ by less */
};

typedef struct {
    atomic_uint word;
    atomic_uint n_sleepers;
} gate;

typedef struct {
    alignas(LINE_BYTES) gate flag;
    alignas(LINE_BYTES) pf_team *team;
    int32_t id;
    pthread_t thread;
    pf_contention contention; /* on its core */
} worker;

/* Of the members whose ids have as many bits: what begins their steps, and on the same line, what the step is. */
typedef struct {
    alignas(LINE_BYTES) gate start;
    int32_t n_members; /* of the step */
    pf_team_fn *fn;    /* NULL: end */
    void *arg;
} level;

struct pf_team {
    level levels[MAX_LEVELS]; /* by bits; the caller's, 0, waits for nobody */
    alignas(LINE_BYTES) gate barrier;
    alignas(LINE_BYTES) unsigned flags[MAX_LEVELS]; /* their phase, by level, as member 0 last saw it: its alone */
    alignas(LINE_BYTES) int32_t n_threads;          /* from here on only held_up_ns changes while a step runs */
    int32_t n_members;                              /* of the step */
    _Atomic uint64_t held_up_ns;                    /* all of them, in this step */
    bool spins;                                     /* each member has a core of its own */
    int32_t n_started;                              /* threads to join */
    bool pinned;
    int32_t first_core; /* the caller's seat */
    worker workers[];   /* [n_threads]; of 0, the caller, the crowd alone */
};

static void cpu_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static unsigned phase_of(unsigned word)
{
    return word & ~(PHASE - 1u);
}

static bool is_closed(gate *g, unsigned phase)
{
    return phase_of(atomic_load_explicit(&g->word, memory_order_acquire)) == phase;
}

static void sleep_while_closed(gate *g, unsigned phase)
{
    atomic_fetch_add(&g->n_sleepers, 1);
    for (;;) {
        const unsigned word = atomic_load(&g->word);
        if (phase_of(word) != phase) break;
        syscall(SYS_futex, &g->word, FUTEX_WAIT_PRIVATE, word, NULL, NULL, 0);
    }
    atomic_fetch_sub(&g->n_sleepers, 1);
}

/* Whether the gate's phase is no longer `phase`, seen before SOON_NS are over. A team that does not spin: at once. */
static bool opens_soon(const pf_team *team, gate *g, unsigned phase)
{
    uint64_t begin_ns = 0, now_ns = 0;
    do {
        for (int32_t i = 0; i < LOOKS; i++) {
            if (!is_closed(g, phase)) return true;
            if (!team->spins) return false;
            cpu_pause();
        }
        now_ns = pf_now_ns();
        if (begin_ns == 0) begin_ns = now_ns;
    } while (now_ns - begin_ns < SOON_NS);
    return false;
}

/* Yielding goes on for long here: while one member waits for its turn on its core, another that slept would be late for the
 * next barrier, the first would lose its turn waiting there, and so on: one turn for each barrier. */
static void wait_on_for_members(const pf_team *team, gate *g, unsigned phase, pf_contention *contention, uint64_t begin)
{
    uint64_t now = begin;
    if (pf_contention_is_present(contention, now)) {
        for (; now - begin < WAKE_NS && team->spins; now = pf_now_ns())
            if (opens_soon(team, g, phase)) return;
    } else {
        const uint64_t limit_ns = team->spins ? BARRIER_NS : YIELD_NS;
        for (; now - begin < limit_ns; (void)pf_contention_yield(contention, &now))
            if (!is_closed(g, phase)) return;
    }
    sleep_while_closed(g, phase);
}

/* Within a step: wait until the phase of the barrier or of a flag is no longer `phase`. */
static void wait_for_members(pf_team *team, gate *g, unsigned phase, pf_contention *contention)
{
    if (opens_soon(team, g, phase)) return;
    const uint64_t begin = pf_now_ns();
    wait_on_for_members(team, g, phase, contention, begin);
    const uint64_t waited_ns = pf_now_ns() - begin;
    if (waited_ns > HELD_UP_NS) atomic_fetch_add_explicit(&team->held_up_ns, waited_ns, memory_order_relaxed);
}

/* Wait for a step of the level. Where the wait before was long this one will be too, so the core is left to others at once; and
 * where one of them has computed on it, that was likely what the step waits for, and it is about to come. Returns whether
 * this wait was long. */
static bool wait_for_step(const pf_team *team, gate *g, unsigned phase, bool was_long, pf_contention *contention)
{
    if (!was_long && opens_soon(team, g, phase)) return false;
    const uint64_t begin = pf_now_ns();
    pf_yield_result others = PF_YIELD_OTHERS_LOOKED;
    for (uint64_t now = begin;; others = pf_contention_yield(contention, &now)) {
        const bool worked = others != PF_YIELD_OTHERS_LOOKED;
        if (!is_closed(g, phase)) return !worked && now - begin > SOON_NS; /* else it may have opened at once */
        if (worked && opens_soon(team, g, phase)) return true;
        if (now - begin >= STEP_NS || pf_contention_is_present(contention, now)) break;
    }
    sleep_while_closed(g, phase);
    return true;
}

static void open_gate(gate *g, unsigned next_phase)
{
    atomic_store(&g->word, next_phase);
    if (atomic_load(&g->n_sleepers) != 0) syscall(SYS_futex, &g->word, FUTEX_WAKE_PRIVATE, MAX_THREADS, NULL, NULL, 0);
}

/* One of two members arrives at the barrier, whose phase is still *phase. True: it was the second, and has opened the gate. */
static bool count_in(pf_team *team, unsigned *phase)
{
    const unsigned before = atomic_fetch_add_explicit(&team->barrier.word, 1, memory_order_acq_rel);
    *phase = phase_of(before);
    if ((before & (PHASE - 1u)) == 0) return false;
    open_gate(&team->barrier, *phase + PHASE);
    return true;
}

static void meet_by_count(pf_team *team, pf_contention *contention)
{
    unsigned phase;
    if (!count_in(team, &phase)) wait_for_members(team, &team->barrier, phase, contention);
}

static unsigned next_phase(gate *g)
{
    return atomic_load_explicit(&g->word, memory_order_relaxed) + PHASE;
}

static int level_of(int32_t id)
{
    return id == 0 ? 0 : 32 - __builtin_clz((unsigned)id);
}

/* Member 0: wait for the flags of the step's others. */
static void gather(pf_team *team, int32_t n_members)
{
    for (int32_t id = 1; id < n_members; id++)
        wait_for_members(team, &team->workers[id].flag, team->flags[level_of(id)], &team->workers[0].contention);
    for (int l = level_of(n_members - 1); l > 0; l--) team->flags[l] += PHASE;
}

static void meet_by_flags(pf_member member, pf_contention *contention)
{
    gate *barrier = &member.team->barrier, *flag = &member.team->workers[member.id].flag;
    const unsigned next = next_phase(barrier); /* it stays closed until this member has arrived, too */
    if (member.id == 0) {
        gather(member.team, member.n_threads);
        open_gate(barrier, next);
    } else {
        open_gate(flag, next_phase(flag));
        wait_for_members(member.team, barrier, next - PHASE, contention);
    }
}

void pf_team_barrier(pf_member member)
{
    if (member.n_threads == 1) return;
    pf_contention *contention = &member.team->workers[member.id].contention;
    if (member.n_threads == 2)
        meet_by_count(member.team, contention);
    else
        meet_by_flags(member, contention);
}

/* At the end of a step only the caller waits. */
static void end_step(pf_team *team, worker *self, int32_t n_members)
{
    unsigned phase;
    if (n_members == 2)
        (void)count_in(team, &phase);
    else
        open_gate(&self->flag, next_phase(&self->flag));
}

static void await_end(pf_team *team, int32_t n_members)
{
    if (n_members == 2)
        meet_by_count(team, &team->workers[0].contention);
    else
        gather(team, n_members);
}

static void *worker_main(void *arg)
{
    worker *self = arg;
    pf_team *team = self->team;
    level *mine = &team->levels[level_of(self->id)];
    bool was_long = false;
    for (unsigned phase = 0;; phase += PHASE) {
        was_long = wait_for_step(team, &mine->start, phase, was_long, &self->contention);
        if (!mine->fn) return NULL;
        mine->fn((pf_member){ .team = team, .id = self->id, .n_threads = mine->n_members }, mine->arg);
        end_step(team, self, mine->n_members);
    }
}

static void open_starts(pf_team *team, int32_t n_members, pf_team_fn *fn, void *arg)
{
    for (int l = level_of(n_members - 1); l > 0; l--) {
        level *theirs = &team->levels[l];
        theirs->n_members = n_members;
        theirs->fn = fn;
        theirs->arg = arg;
        open_gate(&theirs->start, next_phase(&theirs->start));
    }
}

void pf_team_run_some(pf_team *team, int32_t n_members, pf_team_fn *fn, void *arg)
{
    assert(n_members > 0 && n_members <= team->n_threads);
    assert(n_members == team->n_threads || (n_members & (n_members - 1)) == 0);
    if (team->pinned && (n_members > 1 || team->n_threads == 1)) pf_cpus_pin_thread(team->first_core);
    if (team->n_members != n_members) team->n_members = n_members; /* others read its line */
    if (pf_team_held_up_ns(team) > 0) atomic_store_explicit(&team->held_up_ns, 0, memory_order_relaxed);
    open_starts(team, n_members, fn, arg);
    fn((pf_member){ .team = team, .id = 0, .n_threads = n_members }, arg);
    await_end(team, n_members);
}

void pf_team_run(pf_team *team, pf_team_fn *fn, void *arg)
{
    pf_team_run_some(team, team->n_threads, fn, arg);
}

void pf_team_unpin_caller(pf_team *team)
{
    if (team->pinned) pf_cpus_unpin_thread();
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

/* ---- making and ending ---- */

void pf_team_destroy(pf_team *team)
{
    if (!team) return;
    open_starts(team, team->n_threads, NULL, NULL);
    for (int32_t id = 1; id <= team->n_started; id++) pthread_join(team->workers[id].thread, NULL);
    if (team->pinned) pf_cpus_unpin_thread();
    free(team);
}

/* Spinning is for members that each have a core of their own. */
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

static int start_worker(pf_team *team, int32_t id, const int32_t *cores, int32_t n_cores)
{
    pthread_attr_t attr;
    int rc = pthread_attr_init(&attr);
    if (rc != 0) return rc;
    if (n_cores > 0) {
        pf_cpus one = { 0 };
        pf_cpus_add(&one, cores[id % n_cores]);
        rc = pthread_attr_setaffinity_np(&attr, sizeof one, one.parts);
    }
    team->workers[id] = (worker){ .team = team, .id = id };
    if (rc == 0) rc = pthread_create(&team->workers[id].thread, &attr, worker_main, &team->workers[id]);
    pthread_attr_destroy(&attr);
    return rc;
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

static pf_status start_workers(pf_team *team, const int32_t *cores, int32_t n_cores, pf_error *error)
{
    static const int own_faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT };
    sigset_t blocked, before;
    pf_cpus affinity;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof own_faults / sizeof *own_faults; i++) sigdelset(&blocked, own_faults[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &before); /* members inherit it: other signals are the caller's business */
    const bool left = n_cores == 0 && leave_for_a_while(&affinity); /* and so where they run */
    int rc = 0;
    for (int32_t id = 1; id < team->n_threads && rc == 0; id++) {
        rc = start_worker(team, id, cores, n_cores);
        if (rc == 0) team->n_started = id;
    }
    if (left) (void)pf_cpus_bind_thread(&affinity);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0) return PF_OK;
    return pf_fail(error, PF_NOMEM, "thread %d of a team of %d cannot be started: %s", team->n_started + 2,
                   team->n_threads, strerror(rc));
}

pf_status pf_team_create(int32_t n_threads, const int32_t *cores, int32_t n_cores, pf_team **out, pf_error *error)
{
    if (n_threads < 1 || n_threads > MAX_THREADS)
        return pf_fail(error, PF_INVALID, "a team of %d threads: expected 1 to %d", n_threads, MAX_THREADS);
    if (!cores) n_cores = 0;
    if (n_cores < 0) return pf_fail(error, PF_INVALID, "a list of %d cores: expected 0 or more", n_cores);
    pf_cpus allowed;
    PF_TRY(pf_cpus_of_process(&allowed, error));
    PF_TRY(check_cores(&allowed, cores, n_cores, error));

    const size_t bytes = sizeof(pf_team) + (size_t)n_threads * sizeof(worker);
    pf_team *team = aligned_alloc(LINE_BYTES, pf_round_up(bytes, LINE_BYTES));
    if (!team) return pf_fail(error, PF_NOMEM, "a team of %d threads: no memory for %zu bytes", n_threads, bytes);
    memset(team, 0, bytes);
    team->n_threads = n_threads;
    team->spins = spins(n_threads, &allowed, cores, n_cores);
    team->pinned = n_cores > 0;
    team->first_core = n_cores > 0 ? cores[0] : 0;
    const pf_status status = start_workers(team, cores, n_cores, error);
    if (status != PF_OK) {
        pf_team_destroy(team);
        return status;
    }
    *out = team;
    return PF_OK;
}
