/*
 * The barrier inside a step, the same on own threads and on those of an OpenMP runtime.
 *
 *     barrier   word = phase << 16 | n_arrived      all threads but the one that opens it wait for it
 *     flags     word = phase << 16                  one for each thread, which opens it on arrival; member 0 waits for them
 *
 * Two threads count themselves at the barrier, and the second opens it: one cache line changes hands twice. With more threads
 * each opens its own flag instead of writing one shared line; member 0 looks at all flags and opens the barrier. At the end of
 * a step only the caller waits.
 *
 * Why phases cannot advance twice while a thread waits: the barrier needs the arrival of every thread of the step; a flag's
 * next phase needs the barrier, or the step, that member 0 opens after it has seen the flag. Flags of a level have the same
 * phase, which member 0 keeps. What a thread wrote before it arrived is visible to all behind the barrier: with flags, member 0
 * acquires what each thread has released and releases it to all; with counting, arrivals are read-modify-writes of one word,
 * and the last acquires what all have released.
 *
 * Waiting has three stages: PAUSE, while the others are about to arrive; sched_yield, while waking from sleep costs more than
 * the wait; a futex. Under CPU contention (base/yield.h) the second stage is left out, as each yield then costs a time slice.
 */
#include "base/team_internal.h"

enum {
    BARRIER_YIELD_NS = 300 * 1000, /* where threads share CPUs */
    BARRIER_NS = 20 * 1000 * 1000, /* until a thread on a CPU shared with other processes gets its time slice */
    WAKE_NS = 150 * 1000,          /* from waking a sleeper until it runs */
    HELD_UP_NS =
        2 * 1000 * 1000, /* longer waits mean another process on a CPU: the threads' own shares differ by less */
};

/* Yields for long. A thread that waits for its time slice delays the barrier; if the others slept meanwhile, they would be late
 * for the next barrier, and that thread would lose its slice waiting for them: one time slice for each barrier. */
static void wait_longer(const pf_team *team, pf_gate *gate, unsigned phase, pf_contention *contention, uint64_t begin)
{
    uint64_t now = begin;
    if (pf_contention_is_present(contention, now)) {
        for (; now - begin < WAKE_NS && team->spins; now = pf_now_ns())
            if (pf_gate_opens_soon(gate, phase, true)) return;
    } else {
        const uint64_t limit_ns = team->spins ? BARRIER_NS : BARRIER_YIELD_NS;
        for (; now - begin < limit_ns; (void)pf_contention_yield(contention, &now))
            if (!pf_gate_is_closed(gate, phase)) return;
    }
    pf_gate_sleep(gate, phase);
}

/* Within a step: wait until the phase of the barrier or of a flag is no longer `phase`. */
static void wait_for_members(pf_team *team, pf_gate *gate, unsigned phase, pf_contention *contention)
{
    if (pf_gate_opens_soon(gate, phase, team->spins)) return;
    const uint64_t begin = pf_now_ns();
    wait_longer(team, gate, phase, contention, begin);
    const uint64_t waited_ns = pf_now_ns() - begin;
    if (waited_ns > HELD_UP_NS) atomic_fetch_add_explicit(&team->held_up_ns, waited_ns, memory_order_relaxed);
}

/* One of two threads arrives at the barrier, which still has *phase. True: it is the second, and has opened the barrier. */
static bool count_in(pf_team *team, unsigned *phase)
{
    const unsigned before = atomic_fetch_add_explicit(&team->barrier.word, 1, memory_order_acq_rel);
    *phase = pf_gate_phase(before);
    if ((before & (PF_GATE_PHASE - 1u)) == 0) return false;
    pf_gate_open(&team->barrier, *phase + PF_GATE_PHASE);
    return true;
}

static void meet_by_count(pf_team *team, pf_contention *contention)
{
    unsigned phase;
    if (!count_in(team, &phase)) wait_for_members(team, &team->barrier, phase, contention);
}

/* Member 0 waits for the flags of the others. */
static void gather(pf_team *team, int32_t n_members)
{
    for (int32_t id = 1; id < n_members; id++)
        wait_for_members(team, &team->threads[id].flag, team->flags[pf_team_level_of(id)],
                         &team->threads[0].contention);
    for (int l = pf_team_level_of(n_members - 1); l > 0; l--) team->flags[l] += PF_GATE_PHASE;
}

static void meet_by_flags(pf_member member, pf_contention *contention)
{
    pf_gate *barrier = &member.team->barrier, *flag = &member.team->threads[member.id].flag;
    const unsigned next = pf_gate_next_phase(barrier); /* it stays closed until this thread has arrived, too */
    if (member.id == 0) {
        gather(member.team, member.n_threads);
        pf_gate_open(barrier, next);
    } else {
        pf_gate_open(flag, pf_gate_next_phase(flag));
        wait_for_members(member.team, barrier, next - PF_GATE_PHASE, contention);
    }
}

void pf_team_barrier(pf_member member)
{
    if (member.n_threads == 1) return;
    pf_contention *contention = &member.team->threads[member.id].contention;
    if (member.n_threads == 2)
        meet_by_count(member.team, contention);
    else
        meet_by_flags(member, contention);
}

void pf_team_end_step(pf_team *team, pf_team_thread *self, int32_t n_members)
{
    unsigned phase;
    if (n_members == 2)
        (void)count_in(team, &phase);
    else
        pf_gate_open(&self->flag, pf_gate_next_phase(&self->flag));
}

void pf_team_await_end(pf_team *team, int32_t n_members)
{
    if (n_members == 2)
        meet_by_count(team, &team->threads[0].contention);
    else
        gather(team, n_members);
}
