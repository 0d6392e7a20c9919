/*
 * Runs kernels: blocks one after another, the threads of a block as fibers that switch where they wait.
 *
 *   ready -> at a block barrier     until all threads of the block are there
 *         -> at a warp operation    until all lanes of its mask are there; the last one serves them all
 *         -> done                   its fiber takes the next thread that has not begun, so that a kernel without barriers
 *                                   needs one fiber and no switch
 * Shared memory is filled with 0xff before each block. With AddressSanitizer a gap of poison lies between its variables.
 */
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>

#include "tests/cuda-shim/fiber.hh"
#include "tests/cuda-shim/shim_state.hh"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace pf_shim
{
namespace
{
constexpr int MAX_THREADS = 1024, WARP = 32, MAX_WARPS = MAX_THREADS / WARP;
constexpr size_t MOST_STATIC_BYTES = 48 << 10, GAP = 32;
constexpr size_t STATIC_BYTES = 64 << 10, DYNAMIC_BYTES = 256 << 10;   // the places of both, gaps included
constexpr unsigned char FRESH = 0xff;

enum class wait { not_begun, ready, block, warp, done };

struct cuda_thread {
    wait state;
    fiber *on;
    uint3 index;
    int number, lane, warp;
    const char *file;   // of what it waits for
    int line;
    warp_op op;   // the lane's part of a warp operation
    unsigned mask;
    uint64_t value;
    int argument, width;
    int predicate;   // of a block barrier; then its result
    block_op vote;
};

struct queued_launch {
    std::string name;
    std::shared_ptr<kernel_body> body;
    launch_shape shape;
    std::vector<const void *> pointers;
};

struct variable {
    const char *name;
    size_t offset, bytes;
};

/* The block that runs. */
struct block_state {
    const queued_launch *launch = nullptr;
    cuda_thread threads[MAX_THREADS];
    cuda_thread *self = nullptr;
    int n_threads = 0, n_alive = 0, n_waiting = 0;
    /* Of each warp: the lanes that have not ended, and those at a warp operation. */
    uint32_t alive[MAX_WARPS] = {}, at_warp_op[MAX_WARPS] = {};
    /* The order in which threads get their turn, in groups that are repeated while one of the group can go on. */
    int order[MAX_THREADS], group_ends[MAX_WARPS], n_groups = 0, group = 0, cursor = 0;
    bool group_progress = false, pass_progress = false, stuck = false;
    uint64_t n_launches = 0;
    size_t static_used = 0;
    std::vector<variable> variables;
    fiber scheduler = {}, fibers[MAX_THREADS] = {};
    int n_idle = 0;
    fiber *idle[MAX_THREADS];
    long n_switches = 0;
    uint32_t random = 1;
};

block_state b;
alignas(256) unsigned char shared_bytes[STATIC_BYTES + DYNAMIC_BYTES];

std::map<const void *, size_t> &allowed_shared()
{
    static std::map<const void *, size_t> allowed;
    return allowed;
}

const char *kernel_name()
{
    return b.launch->name.c_str();
}

uint32_t draw(uint32_t below)
{
    b.random = b.random * 1664525u + 1013904223u;
    return static_cast<uint32_t>((static_cast<uint64_t>(b.random) * below) >> 32);
}

/* ---- the order of threads ---- */

void shuffle_range(int *first, int n)
{
    for (int i = n - 1; i > 0; i--) std::swap(first[i], first[draw(static_cast<uint32_t>(i) + 1)]);
}

void choose_order()
{
    const pf_shim_order order = state().order;
    const int n_warps = (b.n_threads + WARP - 1) / WARP;
    int warps[MAX_WARPS];
    for (int w = 0; w < n_warps; w++) warps[w] = order == PF_SHIM_REVERSE ? n_warps - 1 - w : w;
    if (order == PF_SHIM_SHUFFLED) shuffle_range(warps, n_warps);
    int n = 0;
    b.n_groups = n_warps;
    for (int g = 0; g < n_warps; g++) {
        const int begin = n, first = warps[g] * WARP, end = min(first + WARP, b.n_threads);
        for (int i = first; i < end; i++) b.order[n++] = order == PF_SHIM_REVERSE ? first + end - 1 - i : i;
        if (order == PF_SHIM_SHUFFLED) shuffle_range(b.order + begin, n - begin);
        b.group_ends[g] = n;
    }
    if (order == PF_SHIM_SHUFFLED && draw(2) == 0) {   // every other block: all threads in step, in any order
        shuffle_range(b.order, n);
        b.n_groups = 1;
        b.group_ends[0] = n;
    }
}

void begin_pass()
{
    b.group = b.cursor = 0;
    b.group_progress = b.pass_progress = false;
}

void report_stuck()
{
    const cuda_thread *first = nullptr, *other = nullptr;
    for (const cuda_thread *t = b.threads; t < b.threads + b.n_threads; t++) {
        if (t->state != wait::block && t->state != wait::warp) continue;
        if (!first) first = t;
        if (t->line != first->line && !other) other = t;
    }
    if (!other) other = first;
    violation("%s: deadlock: thread %d waits at %s:%d, thread %d at %s:%d", kernel_name(), first->number, first->file,
              first->line, other->number, other->file, other->line);
}

void release_barrier()
{
    const cuda_thread *first = nullptr, *other = nullptr;
    int n_true = 0, n_here = 0;
    for (cuda_thread *t = b.threads; t < b.threads + b.n_threads; t++) {
        if (t->state != wait::block) continue;
        if (!first) first = t;
        if (t->line != first->line || strcmp(t->file, first->file) != 0) other = t;
        n_true += t->predicate != 0;
        n_here++;
    }
    if (other)
        violation("%s: divergent barrier: thread %d waits at %s:%d, thread %d at %s:%d", kernel_name(), first->number,
                  first->file, first->line, other->number, other->file, other->line);
    if (n_here != b.n_threads)
        violation("%s: divergent barrier: %d threads wait at %s:%d, %d have ended", kernel_name(), n_here, first->file,
                  first->line, b.n_threads - n_here);
    for (cuda_thread *t = b.threads; t < b.threads + b.n_threads; t++) {
        if (t->state != wait::block) continue;
        t->predicate = t->vote == block_op::and_   ? n_true == n_here
                       : t->vote == block_op::or_  ? n_true > 0
                       : t->vote == block_op::none ? 0
                                                   : n_true;
        t->state = wait::ready;
    }
    b.n_waiting = 0;
    running.epoch++;
}

/* The thread whose turn it is; null when the block is done, or when none can go on. */
cuda_thread *next_thread()
{
    for (;;) {
        for (; b.cursor < b.group_ends[b.group]; b.cursor++) {
            cuda_thread *t = &b.threads[b.order[b.cursor]];
            if (t->state != wait::ready && t->state != wait::not_begun) continue;
            b.group_progress = b.pass_progress = true;
            b.cursor++;
            return t;
        }
        if (b.group_progress) {
            b.cursor = b.group > 0 ? b.group_ends[b.group - 1] : 0;
            b.group_progress = false;
            continue;
        }
        if (++b.group < b.n_groups) continue;
        if (b.n_alive == 0) return nullptr;
        if (b.n_waiting == b.n_alive) {
            release_barrier();
        } else if (!b.pass_progress) {
            report_stuck();
            b.stuck = true;
            return nullptr;
        }
        begin_pass();
    }
}

/* ---- fibers ---- */

void run_here(cuda_thread *t)
{
    b.self = t;
    threadIdx = t->index;
    running.active = true;
    running.number = t->number;
    running.warp = t->warp;
    running.lane = t->lane;
    running.stack = t->on->stack;
}

void run_none()
{
    b.self = nullptr;
    running.active = false;
}

/* Ends the launch: the block is abandoned, and the error shows at the next wait. */
void abandon(cudaError_t error)
{
    state().sticky = error;
    run_none();
    fiber_switch(fiber_running(), &b.scheduler);
}

void fiber_main();

/* Leaves the running fiber for the thread whose turn it is. */
void go_on()
{
    fiber *const here = fiber_running();
    cuda_thread *t = next_thread();
    fiber *to = &b.scheduler;
    if (t) {
        if (t->state == wait::not_begun) {
            t->state = wait::ready;
            t->on = b.idle[--b.n_idle];
            fiber_prepare(t->on, fiber_main);
        }
        to = t->on;
        run_here(t);
    } else {
        run_none();
    }
    b.n_switches++;
    fiber_switch(here, to);
}

void fiber_main()
{
    fiber_arrived();
    for (;;) {
        cuda_thread *const t = b.self;
        b.launch->body->run();
        t->state = wait::done;
        b.n_alive--;
        b.alive[t->warp] &= ~(1u << t->lane);
        cuda_thread *const next = next_thread();
        if (next && next->state == wait::not_begun) {
            next->state = wait::ready;
            next->on = t->on;
            run_here(next);
            continue;
        }
        b.idle[b.n_idle++] = t->on;
        if (next)
            run_here(next);
        else
            run_none();
        b.n_switches++;
        fiber_switch(t->on, next ? next->on : &b.scheduler);
    }
}

/* ---- faults ---- */

#ifndef __SANITIZE_ADDRESS__   // which reports such an access itself
/* An access without rights ends the launch as on a device: an error at the next wait. */
void on_fault(int, siginfo_t *info, void *)
{
    violation("%s: block (%u, %u, %u), thread %d accesses %s", kernel_name(), blockIdx.x, blockIdx.y, blockIdx.z,
              b.self->number, describe(info->si_addr).c_str());
    abandon(cudaErrorIllegalAddress);
}

void give_signal_stack()
{
    static thread_local bool has_one = false;
    if (has_one) return;
    constexpr size_t BYTES = static_cast<size_t>(64) << 10;
    const stack_t stack = { reserve_pages(BYTES, true), 0, BYTES };
    (void)sigaltstack(&stack, nullptr);
    has_one = true;
}

/* While one exists, faults are a kernel's. */
class fault_handler
{
  public:
    fault_handler()
    {
        give_signal_stack();
        struct sigaction action = {};
        action.sa_sigaction = on_fault;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
        (void)sigaction(SIGSEGV, &action, &before);
    }
    ~fault_handler() { (void)sigaction(SIGSEGV, &before, nullptr); }
    fault_handler(const fault_handler &) = delete;

  private:
    struct sigaction before;
};
#else
struct fault_handler {
    ~fault_handler() {}
};
#endif

/* ---- a block, a grid ---- */

void fill_shared_memory()
{
    for (const variable &v : b.variables) memset(shared_bytes + v.offset, FRESH, v.bytes);
    memset(shared_bytes + STATIC_BYTES, FRESH, b.launch->shape.shared_bytes);
}

/* What all blocks of a launch have in common. */
void begin_blocks()
{
    const unsigned x = blockDim.x, y = blockDim.y;
    for (int i = 0; i < b.n_threads; i++) {
        const unsigned n = static_cast<unsigned>(i);
        cuda_thread &t = b.threads[i];
        t = cuda_thread{};
        t.number = i;
        t.lane = i % WARP;
        t.warp = i / WARP;
        t.index = { n % x, n / x % y, n / x / y };
        b.idle[i] = &b.fibers[b.n_threads - 1 - i];
    }
    b.n_idle = b.n_threads;
    choose_order();
}

void begin_block()
{
    b.n_alive = b.n_threads;
    b.n_waiting = 0;
    b.stuck = false;
    running.block_first_epoch = ++running.epoch;
    for (int i = 0; i < b.n_threads; i++) b.threads[i].state = wait::not_begun;
    for (int first = 0; first < b.n_threads; first += WARP) {
        const int lanes = min(WARP, b.n_threads - first);
        b.alive[first / WARP] = lanes == WARP ? ~0u : (1u << lanes) - 1;
        b.at_warp_op[first / WARP] = 0;
    }
    fill_shared_memory();
    if (state().order == PF_SHIM_SHUFFLED) choose_order();
    begin_pass();
}

bool run_block()
{
    begin_block();
    cuda_thread *const first = next_thread();
    first->state = wait::ready;
    first->on = b.idle[--b.n_idle];
    fiber_prepare(first->on, fiber_main);
    run_here(first);
    fiber_switch(&b.scheduler, first->on);
    return !b.stuck;
}

/* Blocks in ascending order, or with the seed's permutation: i * step mod 2^bits, step odd. */
struct block_order {
    uint64_t n, mask, step, start;

    explicit block_order(uint64_t n_blocks) : n(n_blocks), mask(1), step(1), start(0)
    {
        while (mask < n) mask *= 2;
        mask--;
        if (state().order != PF_SHIM_SHUFFLED) return;
        step = draw(1u << 30) * 2ull + 1;
        start = draw(1u << 30);
    }
    uint64_t at(uint64_t i) const { return state().order == PF_SHIM_REVERSE ? mask - i : (start + i * step) & mask; }
};

void run_blocks(const queued_launch &l)
{
    const dim3 g = l.shape.grid;
    const block_order order(static_cast<uint64_t>(g.x) * g.y * g.z);
    for (uint64_t i = 0; i <= order.mask && state().sticky == cudaSuccess; i++) {
        const uint64_t n = order.at(i);
        if (n >= order.n) continue;
        blockIdx = { static_cast<unsigned>(n % g.x), static_cast<unsigned>(n / g.x % g.y),
                     static_cast<unsigned>(n / g.x / g.y) };
        if (!run_block()) state().sticky = cudaErrorLaunchFailure;
    }
}

void run_grid(const queued_launch &l)
{
    settings &s = state();
    if (++s.n_kernels == s.fault_kernel) {
        s.sticky = cudaErrorIllegalAddress;
        return;
    }
    for (const void *p : l.pointers)   // again: a graph may be launched after its memory is freed
        if (p && locate(p, 1, l.name.c_str()) != place::device) {
            s.sticky = cudaErrorIllegalAddress;
            return;
        }
    const fault_handler handler;
    b.launch = &l;
    b.random = s.seed * 2654435761u + static_cast<uint32_t>(b.n_launches);
    gridDim = l.shape.grid;
    blockDim = l.shape.block;
    b.n_threads = static_cast<int>(blockDim.x * blockDim.y * blockDim.z);
    b.n_launches++;
    running.launch_first_epoch = running.epoch + 1;
    running.kernel = l.name.c_str();
    running.body = l.body->bytes(&running.body_bytes);
    b.static_used = 0;
    b.variables.clear();
    ASAN_POISON_MEMORY_REGION(shared_bytes, sizeof shared_bytes);
    ASAN_UNPOISON_MEMORY_REGION(shared_bytes + STATIC_BYTES, l.shape.shared_bytes);
    begin_blocks();
    run_blocks(l);
}

/* ---- warp operations ---- */

int source_lane(const cuda_thread &t)
{
    const int base = t.lane / t.width * t.width;
    int from = t.lane;
    switch (t.op) {
    case warp_op::index:
        return base + static_cast<int>(static_cast<unsigned>(t.argument) % static_cast<unsigned>(t.width));
    case warp_op::up: from = t.lane - t.argument; return from < base ? t.lane : from;
    case warp_op::down: from = t.lane + t.argument; return from >= base + t.width ? t.lane : from;
    case warp_op::exclusive_or: from = t.lane ^ t.argument; return from >= base + t.width ? t.lane : from;
    default: return t.lane;
    }
}

uint64_t reduce(warp_op op, uint64_t a, uint64_t c)
{
    const int64_t x = static_cast<int64_t>(a), y = static_cast<int64_t>(c);
    switch (op) {
    case warp_op::add: return a + c;
    case warp_op::min: return x < y ? a : c;
    case warp_op::max: return x > y ? a : c;
    case warp_op::and_: return a & c;
    case warp_op::or_: return a | c;
    default: return a ^ c;
    }
}

struct meeting {
    cuda_thread *lanes[WARP];   // null: not in the mask, or ended
    uint64_t values[WARP];      // as the lanes gave them
};

/* Whether all lanes of the mask that have not ended are here; violations where they do not agree on what they do. */
bool all_are_here(const cuda_thread &me, meeting *m)
{
    const uint32_t needed = me.mask & b.alive[me.warp];
    if ((b.at_warp_op[me.warp] & needed) != needed) return false;
    bool agree = true;
    for (int i = 0; i < WARP; i++) {
        cuda_thread *t = needed >> i & 1 ? &b.threads[me.warp * WARP + i] : nullptr;
        m->lanes[i] = t;
        if (!t) continue;
        if (t->mask != me.mask) return false;
        m->values[i] = t->value;
        if (agree && (t->line != me.line || t->op != me.op)) {
            violation("%s: lanes of a warp meet at %s:%d and at line %d", kernel_name(), me.file, me.line, t->line);
            agree = false;
        }
    }
    return true;
}

void serve_shuffle(const meeting &m, cuda_thread *t)
{
    const int from = source_lane(*t);
    if (!m.lanes[from])
        violation("%s:%d: %s: lane %d reads lane %d, which has ended or is not in the mask", t->file, t->line,
                  kernel_name(), t->lane, from);
    t->value = m.lanes[from] ? m.values[from] : ~static_cast<uint64_t>(0);
}

void serve_vote(const meeting &m, cuda_thread *t)
{
    uint64_t votes = 0, same = 0, sum = 0;
    bool all = true, first = true;
    for (int i = 0; i < WARP; i++) {
        if (!m.lanes[i]) continue;
        votes |= (m.values[i] & 1) << i;
        all = all && (m.values[i] & 1);
        same |= static_cast<uint64_t>(m.values[i] == m.values[t->lane]) << i;
        sum = first ? m.values[i] : reduce(t->op, sum, m.values[i]);
        first = false;
    }
    t->value = t->op == warp_op::ballot      ? votes
               : t->op == warp_op::all       ? all
               : t->op == warp_op::any       ? votes != 0
               : t->op == warp_op::match_any ? same
                                             : sum;
}

/* Gives each lane its result, if all are here. */
bool serve_warp(const cuda_thread &me)
{
    meeting m;
    if (!all_are_here(me, &m)) return false;
    const uint32_t alive = b.alive[me.warp];
    for (cuda_thread *t : m.lanes) {
        if (!t) continue;
        if (t->op >= warp_op::ballot)
            serve_vote(m, t);
        else if (t->op != warp_op::sync)
            serve_shuffle(m, t);
        t->state = wait::ready;
        b.at_warp_op[me.warp] &= ~(1u << t->lane);
    }
    if (me.op == warp_op::sync && (me.mask & alive) == alive)
        running.warp_epochs[me.warp]++;   // shuffles order no memory
    return true;
}
}   // namespace

running_thread running;
unsigned char *const shared_memory = shared_bytes;
const size_t shared_memory_bytes = sizeof shared_bytes;
void (*note_atomic)(void *p, size_t bytes);

int barrier(block_op op, int predicate, const char *file, int line)
{
    cuda_thread *const me = b.self;
    me->state = wait::block;
    me->vote = op;
    me->predicate = predicate;
    me->file = file;
    me->line = line;
    b.n_waiting++;
    go_on();
    return me->predicate;
}

uint64_t warp_meeting(warp_op op, unsigned mask, uint64_t value, int argument, int width, const char *file, int line)
{
    cuda_thread *const me = b.self;
    if (!(mask >> me->lane & 1))
        violation("%s:%d: %s: lane %d is not in its own mask %#x", file, line, kernel_name(), me->lane, mask);
    me->state = wait::warp;
    b.at_warp_op[me->warp] |= 1u << me->lane;
    me->op = op;
    me->mask = mask | 1u << me->lane;
    me->value = value;
    me->argument = argument;
    me->width = width;
    me->file = file;
    me->line = line;
    if (!serve_warp(*me)) go_on();
    return me->value;
}

void trap(const char *file, int line)
{
    violation("%s: __trap() at %s:%d", kernel_name(), file, line);
    abandon(cudaErrorLaunchFailure);
    abort();   // the scheduler never comes back here
}

void *shared_variable(shared_site *site, size_t bytes, size_t align)
{
    if (site->launch == b.n_launches) return site->at;
    const size_t offset = (b.static_used + GAP + align - 1) / align * align;
    size_t sum = bytes;
    for (const variable &v : b.variables) sum += v.bytes;
    const size_t dynamic_bytes = b.launch->shape.shared_bytes, most = state().device.shared_bytes_optin;
    if (sum > MOST_STATIC_BYTES || sum + dynamic_bytes > most || offset + bytes > STATIC_BYTES) {
        violation("%s: %s: %zu bytes of static and %zu of dynamic shared memory, the device has %zu and %zu in all",
                  kernel_name(), site->name, sum, dynamic_bytes, MOST_STATIC_BYTES, most);
        abandon(cudaErrorLaunchFailure);
    }
    b.static_used = offset + (bytes + 7) / 8 * 8;
    b.variables.push_back({ site->name, offset, bytes });
    ASAN_UNPOISON_MEMORY_REGION(shared_bytes + offset, bytes);
    memset(shared_bytes + offset, FRESH, bytes);
    site->launch = b.n_launches;
    return site->at = shared_bytes + offset;
}

unsigned char *dynamic_shared()
{
    return shared_bytes + STATIC_BYTES;
}

void atomic_access(void *p, size_t bytes)
{
    if (note_atomic) note_atomic(p, bytes);
}

const char *name_shared(const void *pointer, size_t *offset)
{
    const unsigned char *p = static_cast<const unsigned char *>(pointer);
    for (const variable &v : b.variables)
        if (p >= shared_bytes + v.offset && p < shared_bytes + v.offset + v.bytes) {
            *offset = static_cast<size_t>(p - shared_bytes) - v.offset;
            return v.name;
        }
    *offset = static_cast<size_t>(p - shared_bytes) - STATIC_BYTES;
    return "dynamic shared memory";
}

/* ---- launches ---- */

static bool fits(const launch_shape &s, size_t most_shared)
{
    const size_t threads = static_cast<size_t>(s.block.x) * s.block.y * s.block.z;
    return s.grid.x > 0 && s.grid.y > 0 && s.grid.z > 0 && s.grid.x <= 0x7fffffff && s.grid.y <= 65535 &&
           s.grid.z <= 65535 && threads > 0 && threads <= MAX_THREADS && s.block.z <= 64 &&
           s.shared_bytes <= most_shared;
}

cudaError_t launch_body(const char *name, const void *function, const launch_shape &shape, kernel_body *body,
                        const void *const *pointers, int n_pointers)
{
    const std::shared_ptr<kernel_body> owned(body);
    const api_call call(cudaErrorLaunchOutOfResources);
    if (call.error != cudaSuccess) return call.error;
    const auto allowed = allowed_shared().find(function);
    if (!fits(shape, allowed == allowed_shared().end() ? MOST_STATIC_BYTES : allowed->second)) {
        violation("%s: launch of %u x %u x %u blocks of %u x %u x %u threads with %zu bytes of shared memory", name,
                  shape.grid.x, shape.grid.y, shape.grid.z, shape.block.x, shape.block.y, shape.block.z,
                  shape.shared_bytes);
        return call.give(cudaErrorInvalidConfiguration);
    }
    for (int i = 0; i < n_pointers; i++)
        if (pointers[i] && locate(pointers[i], 1, name) != place::device)
            violation("%s: pointer argument %d is not of the device: %s", name, i, describe(pointers[i]).c_str());
    const queued_launch l = { name, owned, shape, std::vector<const void *>(pointers, pointers + n_pointers) };
    put(shape.stream, { [l] { run_grid(l); }, {} });
    return cudaSuccess;
}

cudaError_t allow_shared_bytes(const void *function, int bytes)
{
    const api_call call(cudaErrorInvalidValue);
    if (call.error != cudaSuccess) return call.error;
    if (bytes < 0 || static_cast<size_t>(bytes) > state().device.shared_bytes_optin)
        return call.give(cudaErrorInvalidValue);
    allowed_shared()[function] = static_cast<size_t>(bytes);
    return cudaSuccess;
}
}   // namespace pf_shim

using namespace pf_shim;

long pf_shim_switches(void)
{
    return b.n_switches;
}

bool pf_shim_checks_races(void)
{
    return note_atomic != nullptr;
}
