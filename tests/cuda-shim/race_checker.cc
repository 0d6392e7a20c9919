/*
 * Finds races. Kernels compiled with -fsanitize=thread call a function at each access of memory; here these functions are
 * answered, instead of by ThreadSanitizer's library.
 *
 * Two accesses of different threads, one of them a write, are a race
 *   in one block     unless a block barrier lies between them, or, within a warp, a __syncwarp of the warp
 *   in two blocks    always, within one launch
 * and unless both are atomic. Shared memory has a cell for each byte, device memory for two bytes. A kernel's access of any
 * other memory than these, its stack, its arguments and the program's own data is a violation, too.
 */
#include "tests/cuda-shim/fiber.hh"
#include "tests/cuda-shim/shim_state.hh"

extern "C" char __executable_start[], _end[];

namespace pf_shim
{
namespace
{
enum class access { read, write, atomic };

/* The last write, and the reads since the last barrier. An epoch of 0: none. */
struct cell {
    uint32_t write_epoch, write_warp_epoch;
    uint32_t read_epoch, read_warps, read_warp_epoch, read_lanes;   // lanes: of the warp that read last
    uint32_t blocks_epoch;                                          // the launch in which several blocks read it
    uint16_t writer;
    bool written_atomically;
};

template <class T> T *reserve(size_t n)
{
    return reinterpret_cast<T *>(reserve_pages(n * sizeof(T), true));
}

cell *shared_cells()
{
    static cell *const cells = reserve<cell>(shared_memory_bytes);
    return cells;
}

cell *device_cells()
{
    static cell *const cells = reserve<cell>(ARENA_BYTES / 2);
    return cells;
}

struct conflict {
    const char *what;   // null: none
    int other;          // -1: a thread of another block
};

bool in_other_block(uint32_t epoch)
{
    return epoch >= running.launch_first_epoch && epoch < running.block_first_epoch;
}

conflict with_write(const cell &c, access a, bool is_shared)
{
    const char *what = a == access::read ? "write, then read" : "write, then write";
    if (c.written_atomically && a == access::atomic) return { nullptr, 0 };
    if (!is_shared && in_other_block(c.write_epoch)) return { what, -1 };
    if (c.write_epoch != running.epoch || c.writer == running.number) return { nullptr, 0 };
    const bool ordered = c.writer / 32 == running.warp && c.write_warp_epoch != running.warp_epochs[running.warp];
    return { ordered ? nullptr : what, c.writer };
}

conflict with_reads(const cell &c, bool is_shared)
{
    const char *what = "read, then write";
    if (!is_shared && (c.blocks_epoch == running.launch_first_epoch || in_other_block(c.read_epoch)))
        return { what, -1 };
    if (c.read_epoch != running.epoch) return { nullptr, 0 };
    const uint32_t warps = c.read_warps & ~(1u << running.warp);
    if (warps) return { what, __builtin_ctz(warps) * 32 };
    const uint32_t lanes =
        c.read_warp_epoch == running.warp_epochs[running.warp] ? c.read_lanes & ~(1u << running.lane) : 0;
    return { lanes ? what : nullptr, running.warp * 32 + (lanes ? __builtin_ctz(lanes) : 0) };
}

void note_read(cell &c)
{
    const uint32_t warp = 1u << running.warp, lane = 1u << running.lane, now = running.warp_epochs[running.warp];
    if (in_other_block(c.read_epoch)) c.blocks_epoch = running.launch_first_epoch;
    if (c.read_epoch != running.epoch) c.read_warps = 0;
    c.read_lanes = c.read_warps == warp && c.read_warp_epoch == now ? c.read_lanes | lane : lane;
    c.read_warps |= warp;
    c.read_warp_epoch = now;
    c.read_epoch = running.epoch;
}

void note_write(cell &c, access a)
{
    c.write_epoch = running.epoch;
    c.write_warp_epoch = running.warp_epochs[running.warp];
    c.writer = static_cast<uint16_t>(running.number);
    c.written_atomically = a == access::atomic;
}

conflict touch_cell(cell &c, access a, bool is_shared)
{
    conflict found = with_write(c, a, is_shared);
    if (!found.what && a != access::read) found = with_reads(c, is_shared);
    if (a == access::read)
        note_read(c);
    else
        note_write(c, a);
    return found;
}

void report(const conflict &found, const void *p, bool is_shared, const void *pc)
{
    size_t offset = 0;
    const std::string where = is_shared ? name_shared(p, &offset) : describe(p);
    char other[32] = "a thread of another block";
    if (found.other >= 0) (void)snprintf(other, sizeof other, "thread %d", found.other);
    violation("race: %s: %s of %s%s%s by %s and thread %d of block (%u, %u, %u) (addr2line -e PROGRAM %#zx)",
              running.kernel, found.what, where.c_str(), is_shared ? ", byte " : "",
              is_shared ? std::to_string(offset).c_str() : "", other, running.number, blockIdx.x, blockIdx.y,
              blockIdx.z, static_cast<size_t>(static_cast<const char *>(pc) - __executable_start));
}

bool is_own(const char *p)
{
    return (p >= running.stack && p < running.stack + FIBER_STACK_BYTES) || (p >= __executable_start && p < _end) ||
           (p >= reinterpret_cast<const char *>(running.body) &&
            p < reinterpret_cast<const char *>(running.body) + running.body_bytes);
}

void touch(const void *pointer, size_t n, access a, const void *pc)
{
    if (!running.active) return;
    const char *p = static_cast<const char *>(pointer);
    const size_t in_shared = static_cast<size_t>(p - reinterpret_cast<const char *>(shared_memory));
    const bool is_shared = in_shared < shared_memory_bytes;
    if (!is_shared && !in_arena(p)) {
        if (!is_own(p)) violation("race: %s accesses memory of the host at %p", running.kernel, pointer);
        return;
    }
    const size_t step = is_shared ? 1 : 2;
    cell *cells = is_shared ? shared_cells() + in_shared : device_cells() + (p - arena_start()) / 2;
    conflict first = { nullptr, 0 };
    size_t at = 0;
    for (size_t i = 0; i * step < n; i++) {
        const conflict found = touch_cell(cells[i], a, is_shared);
        if (found.what && !first.what) first = found, at = i * step;
    }
    if (first.what) report(first, p + at, is_shared, pc);
}

void touch_atomically(void *p, size_t n)
{
    touch(p, n, access::atomic, __builtin_return_address(0));
}

const bool registered = (note_atomic = touch_atomically, true);
}   // namespace
}   // namespace pf_shim

#define PF_TSAN_ACCESS(kind, name)                                                \
    void __tsan_##name(void *p, size_t n);                                        \
    void __tsan_##name(void *p, size_t n)                                         \
    {                                                                             \
        pf_shim::touch(p, n, pf_shim::access::kind, __builtin_return_address(0)); \
    }
#define PF_TSAN_SIZED(kind, name, bytes)                                              \
    void __tsan_##name##bytes(void *p);                                               \
    void __tsan_##name##bytes(void *p)                                                \
    {                                                                                 \
        pf_shim::touch(p, bytes, pf_shim::access::kind, __builtin_return_address(0)); \
    }
#define PF_TSAN_ALL(bytes)                     \
    PF_TSAN_SIZED(read, read, bytes)           \
    PF_TSAN_SIZED(write, write, bytes)         \
    PF_TSAN_SIZED(read, unaligned_read, bytes) \
    PF_TSAN_SIZED(write, unaligned_write, bytes)

extern "C" {
PF_TSAN_ALL(1)
PF_TSAN_ALL(2)
PF_TSAN_ALL(4)
PF_TSAN_ALL(8)
PF_TSAN_ALL(16)
PF_TSAN_ACCESS(read, read_range)
PF_TSAN_ACCESS(write, write_range)
void __tsan_init(void);
void __tsan_init(void) {}
void __tsan_func_entry(void *);
void __tsan_func_entry(void *) {}
void __tsan_func_exit(void);
void __tsan_func_exit(void) {}
void __tsan_vptr_update(void **, void *);
void __tsan_vptr_update(void **, void *) {}
void __tsan_vptr_read(void **);
void __tsan_vptr_read(void **) {}
}
