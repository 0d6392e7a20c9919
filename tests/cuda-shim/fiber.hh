/*
 * Fibers: stacks between which one OS thread switches, for the threads of a block. AddressSanitizer hears of each switch.
 */
#ifndef PF_SHIM_FIBER_HH
#define PF_SHIM_FIBER_HH

#include <cstddef>

namespace pf_shim
{
struct fiber_context;

struct fiber {
    fiber_context *context;   // saved registers, while it does not run
    char *stack;              // null: the stack of the OS thread
    void *fake_stack;         // AddressSanitizer's
};

constexpr size_t FIBER_STACK_BYTES = static_cast<size_t>(128) << 10;

/* Makes `f` begin in `entry` at the next switch to it; gives it a stack at the first call. `entry` never returns. */
void fiber_prepare(fiber *f, void (*entry)());
/* Saves the running fiber in `from` and goes on in `to`. `entry` of a new fiber calls fiber_arrived() first. */
void fiber_switch(fiber *from, fiber *to);
void fiber_arrived();
/* The fiber that fiber_switch() named last. */
fiber *fiber_running();
}   // namespace pf_shim

#endif
