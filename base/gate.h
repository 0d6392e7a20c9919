/*
 * A gate: threads wait until another thread opens it. Internal to base/team_*.c.
 *
 * A gate is one 32-bit word; its upper half is a phase. Opening a gate advances its phase; waiting is waiting for the phase to
 * change. The lower half counts arrivals where a gate is used as a barrier of two.
 *
 * Invariant: a phase never advances twice while a thread waits for it, so 16 bits that wrap are enough.
 */
#ifndef PF_BASE_GATE_H
#define PF_BASE_GATE_H

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

enum {
    PF_GATE_PHASE = 1 << 16, /* one step of a gate's phase */
    PF_GATE_LOOKS = 32,      /* PAUSE instructions between two readings of the clock; each takes 10 to 40 ns */
    PF_GATE_SPIN_NS =
        5 * 1000, /* measured by the clock, as the length of a PAUSE differs fourfold between processors */
};

typedef struct {
    atomic_uint word;
    atomic_uint n_sleepers;
} pf_gate;

static inline void pf_gate_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static inline unsigned pf_gate_phase(unsigned word)
{
    return word & ~(PF_GATE_PHASE - 1u);
}

/* The phase that the gate has after it is opened once more; for the only thread that opens it. */
static inline unsigned pf_gate_next_phase(pf_gate *gate)
{
    return atomic_load_explicit(&gate->word, memory_order_relaxed) + PF_GATE_PHASE;
}

static inline bool pf_gate_is_closed(pf_gate *gate, unsigned phase)
{
    return pf_gate_phase(atomic_load_explicit(&gate->word, memory_order_acquire)) == phase;
}

/* A waker looks for sleepers after it has opened the gate; a sleeper counts itself before it looks at the word. Both are
 * sequentially consistent, so one of the two sees the other. */
static inline void pf_gate_sleep(pf_gate *gate, unsigned phase)
{
    atomic_fetch_add(&gate->n_sleepers, 1);
    for (;;) {
        const unsigned word = atomic_load(&gate->word);
        if (pf_gate_phase(word) != phase) break;
        syscall(SYS_futex, &gate->word, FUTEX_WAIT_PRIVATE, word, NULL, NULL, 0);
    }
    atomic_fetch_sub(&gate->n_sleepers, 1);
}

static inline void pf_gate_open(pf_gate *gate, unsigned next_phase)
{
    atomic_store(&gate->word, next_phase);
    if (atomic_load(&gate->n_sleepers) != 0)
        syscall(SYS_futex, &gate->word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Spin for PF_GATE_SPIN_NS. Returns whether the phase changed. Without `spins`: look once. */
static inline bool pf_gate_opens_soon(pf_gate *gate, unsigned phase, bool spins)
{
    uint64_t begin_ns = 0, now_ns = 0;
    do {
        for (int32_t i = 0; i < PF_GATE_LOOKS; i++) {
            if (!pf_gate_is_closed(gate, phase)) return true;
            if (!spins) return false;
            pf_gate_pause();
        }
        now_ns = pf_now_ns();
        if (begin_ns == 0) begin_ns = now_ns;
    } while (now_ns - begin_ns < PF_GATE_SPIN_NS);
    return false;
}

#endif
