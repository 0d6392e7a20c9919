/*
 * The switch is written for x86-64; elsewhere, and with PF_SHIM_UCONTEXT, it is swapcontext, at a system call a switch.
 */
#include "tests/cuda-shim/fiber.hh"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

#include "tests/cuda-shim/shim_state.hh"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif
#if !defined(__x86_64__) && !defined(PF_SHIM_UCONTEXT)
#define PF_SHIM_UCONTEXT
#endif
#ifdef PF_SHIM_UCONTEXT
#include <ucontext.h>
#else
extern "C" void pf_shim_switch_stack(pf_shim::fiber_context **save, pf_shim::fiber_context *load);
/* Six registers survive a call (System V ABI, x86-64); they lie on the stack of the fiber that does not run. */
asm(".text\n"
    ".globl pf_shim_switch_stack\n"
    ".type pf_shim_switch_stack,@function\n"
    "pf_shim_switch_stack:\n"
    "  pushq %rbp\n"
    "  pushq %rbx\n"
    "  pushq %r12\n"
    "  pushq %r13\n"
    "  pushq %r14\n"
    "  pushq %r15\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rsp\n"
    "  popq %r15\n"
    "  popq %r14\n"
    "  popq %r13\n"
    "  popq %r12\n"
    "  popq %rbx\n"
    "  popq %rbp\n"
    "  ret\n"
    ".size pf_shim_switch_stack,.-pf_shim_switch_stack\n");
#endif

namespace pf_shim
{
namespace
{
constexpr size_t PAGE = 4096;

struct running {
    fiber *now = nullptr, *before = nullptr;
};
running at;

char *new_stack()
{
    char *pages = reserve_pages(PAGE + FIBER_STACK_BYTES, true);
    if (mprotect(pages, PAGE, PROT_NONE) != 0) abort();
    return pages + PAGE;
}
}   // namespace

fiber *fiber_running()
{
    return at.now;
}

#ifdef PF_SHIM_UCONTEXT
struct fiber_context {
    ucontext_t u;
};

static void prepare_context(fiber *f, void (*entry)())
{
    if (!f->context) f->context = new fiber_context;
    if (getcontext(&f->context->u) != 0) abort();
    f->context->u.uc_stack.ss_sp = f->stack;
    f->context->u.uc_stack.ss_size = FIBER_STACK_BYTES;
    f->context->u.uc_link = nullptr;
    makecontext(&f->context->u, entry, 0);
}

static void switch_context(fiber *from, fiber *to)
{
    if (!from->context) from->context = new fiber_context;
    (void)swapcontext(&from->context->u, &to->context->u);
}
#else
static void prepare_context(fiber *f, void (*entry)())
{
    /* `entry` begins as after a call: its stack pointer is 8 off a multiple of 16. Above it no return address, below it the
     * place of the six registers. */
    void **sp = reinterpret_cast<void **>(f->stack + FIBER_STACK_BYTES) - 1;
    *sp = nullptr;
    *--sp = reinterpret_cast<void *>(entry);
    f->context = reinterpret_cast<fiber_context *>(sp - 6);
}

static void switch_context(fiber *from, fiber *to)
{
    pf_shim_switch_stack(&from->context, to->context);
}
#endif

#ifdef __SANITIZE_ADDRESS__
static const void *thread_stack;   // of the OS thread, known at the first switch away from it
static size_t thread_stack_bytes;

void fiber_arrived()
{
    const void *old;
    size_t bytes;
    __sanitizer_finish_switch_fiber(at.now->fake_stack, &old, &bytes);
    if (at.before && !at.before->stack) thread_stack = old, thread_stack_bytes = bytes;
}

static void announce(fiber *from, const fiber *to)
{
    __sanitizer_start_switch_fiber(&from->fake_stack, to->stack ? to->stack : thread_stack,
                                   to->stack ? FIBER_STACK_BYTES : thread_stack_bytes);
}
#else
void fiber_arrived() {}

static void announce(fiber *, const fiber *) {}
#endif

void fiber_prepare(fiber *f, void (*entry)())
{
    if (!f->stack) f->stack = new_stack();
    ASAN_UNPOISON_MEMORY_REGION(f->stack, FIBER_STACK_BYTES);   // where a fiber was abandoned
    f->fake_stack = nullptr;
    prepare_context(f, entry);
}

void fiber_switch(fiber *from, fiber *to)
{
    if (from == to) return;
    at.before = from;
    at.now = to;
    announce(from, to);
    switch_context(from, to);
    fiber_arrived();
}
}   // namespace pf_shim
