/*
 * Allocations: device memory and pinned host memory, each between guard pages.
 *
 *   guard page | slack 0xa5 | the allocation, at first 0xff (NaN, -1) | guard page | ...
 *
 * An allocation ends as near to its guard page as an alignment of 256 bytes lets it. Addresses are not used again while
 * anything is live, so that a stale pointer faults. Device memory has no access rights while no stream runs.
 */
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "tests/cuda-shim/shim_state.hh"

namespace pf_shim
{
namespace
{
constexpr size_t PAGE = 4096, ALIGN = 256;
constexpr unsigned char SLACK = 0xa5, FRESH = 0xff;

struct allocation {
    size_t bytes, mapped_bytes;
    char *mapped;
    place where;
    bool live, registered;
    int number;
};

struct memory {
    char *arena = nullptr, *top = nullptr;
    std::map<char *, allocation> all;   // by their first byte, released ones too
    size_t device_bytes = 0;
    int open = 0, n_made = 0;
};

memory &mem()
{
    static memory m;
    return m;
}

void protect(const allocation &a, int protection)
{
    if (mprotect(a.mapped, a.mapped_bytes, protection) != 0) abort();
}

void protect_device_memory(int protection)
{
    for (const auto &[start, a] : mem().all)
        if (a.live && a.where == place::device) protect(a, protection);
}

/* The bytes of an allocation's pages before it, and those behind it. */
struct range {
    char *begin, *end;
};

range slack_before(char *start, const allocation &a)
{
    return { a.mapped, start };
}

range slack_behind(char *start, const allocation &a)
{
    return { start + a.bytes, a.mapped + a.mapped_bytes };
}

void fill_slack(range r)
{
    memset(r.begin, SLACK, static_cast<size_t>(r.end - r.begin));
    ASAN_POISON_MEMORY_REGION(r.begin, r.end - r.begin);
}

bool is_whole(range r)
{
    ASAN_UNPOISON_MEMORY_REGION(r.begin, r.end - r.begin);
    for (const char *p = r.begin; p < r.end; p++)
        if (static_cast<unsigned char>(*p) != SLACK) return false;
    return true;
}

/* With nothing live, all addresses may be used again. */
void reuse_addresses()
{
    memory &m = mem();
    for (const auto &[start, a] : m.all)
        if (a.live) return;
    ASAN_UNPOISON_MEMORY_REGION(m.arena, m.top - m.arena);
    m.all.clear();
    m.top = m.arena;
}

cudaError_t allocate(void **out, size_t bytes, place where)
{
    memory &m = mem();
    if (bytes > ARENA_BYTES / 4) return cudaErrorMemoryAllocation;
    if (where == place::device && m.device_bytes + bytes > state().device.memory_bytes)
        return cudaErrorMemoryAllocation;
    if (bytes == 0) return *out = nullptr, cudaSuccess;
    if (!m.arena) m.arena = m.top = reserve_pages(ARENA_BYTES, false);
    const size_t rounded = (bytes + ALIGN - 1) / ALIGN * ALIGN, mapped = (rounded + PAGE - 1) / PAGE * PAGE;
    if (m.top + mapped + 2 * PAGE > m.arena + ARENA_BYTES) reuse_addresses();
    if (m.top + mapped + 2 * PAGE > m.arena + ARENA_BYTES) return cudaErrorMemoryAllocation;
    const allocation a = { bytes, mapped, m.top + PAGE, where, true, false, ++m.n_made };
    char *start = a.mapped + mapped - rounded;
    m.top += mapped + PAGE;
    protect(a, PROT_READ | PROT_WRITE);
    memset(start, FRESH, bytes);
    fill_slack(slack_before(start, a));
    fill_slack(slack_behind(start, a));
    if (where == place::device && m.open == 0) protect(a, PROT_NONE);
    if (where == place::device) m.device_bytes += bytes;
    m.all[start] = a;
    state().n_live++;
    *out = start;
    return cudaSuccess;
}

void release(void *p, place where, const char *what)
{
    memory &m = mem();
    const auto i = m.all.find(static_cast<char *>(p));
    if (i == m.all.end() || !i->second.live || i->second.registered || i->second.where != where) {
        violation("%s of %s", what, describe(p).c_str());
        return;
    }
    allocation &a = i->second;
    protect(a, PROT_READ | PROT_WRITE);
    const bool before = is_whole(slack_before(i->first, a)), behind = is_whole(slack_behind(i->first, a));
    if (!before || !behind) violation("%s: bytes beside %s were written", what, describe(p).c_str());
    ASAN_POISON_MEMORY_REGION(a.mapped, a.mapped_bytes);
    (void)madvise(a.mapped, a.mapped_bytes, MADV_DONTNEED);
    protect(a, PROT_NONE);
    a.live = false;
    if (where == place::device) m.device_bytes -= a.bytes;
    state().n_live--;
}

cudaError_t release_call(void *p, place where, const char *what)
{
    const std::lock_guard<std::recursive_mutex> guard(lock());
    if (!p) return state().sticky;
    if (spoil_captures()) return cudaErrorStreamCaptureUnsupported;
    drain_all();   // as CUDA's: it waits for the device
    release(p, where, what);
    return state().sticky;
}

/* The allocation that begins last at or before p, live or not; end() if there is none. */
std::map<char *, allocation>::const_iterator at_or_before(const char *p)
{
    const auto &all = mem().all;
    auto i = all.upper_bound(const_cast<char *>(p));
    return i == all.begin() ? all.end() : --i;
}

/* The registered range of host memory that holds [p, p + n). */
bool is_registered(const char *p, size_t n)
{
    const auto i = at_or_before(p);
    return i != mem().all.end() && i->second.registered && i->second.live && p + n <= i->first + i->second.bytes;
}
}   // namespace

char *reserve_pages(size_t bytes, bool accessible)
{
    void *p = mmap(nullptr, bytes, accessible ? PROT_READ | PROT_WRITE : PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) abort();
    return static_cast<char *>(p);
}

const char *arena_start()
{
    return mem().arena;
}

bool in_arena(const void *p)
{
    const char *c = static_cast<const char *>(p);
    return mem().arena && c >= mem().arena && c < mem().arena + ARENA_BYTES;
}

std::string describe(const void *pointer)
{
    const char *p = static_cast<const char *>(pointer);
    if (!in_arena(p)) return "host memory that CUDA did not allocate";
    auto i = at_or_before(p);
    if (i == mem().all.end() || p >= i->second.mapped + i->second.mapped_bytes + PAGE / 2) {
        const auto next = mem().all.upper_bound(const_cast<char *>(p));
        if (next != mem().all.end()) i = next;
    }
    if (i == mem().all.end()) return "no allocation";
    const allocation &a = i->second;
    const long at = p - i->first;
    char text[160], where[64] = "";
    if (at < 0) (void)snprintf(where, sizeof where, "%ld bytes before ", -at);
    if (at > 0 && static_cast<size_t>(at) < a.bytes) (void)snprintf(where, sizeof where, "byte %ld of ", at);
    if (at > 0 && static_cast<size_t>(at) >= a.bytes)
        (void)snprintf(where, sizeof where, "%ld bytes behind the end of ", at - static_cast<long>(a.bytes));
    (void)snprintf(text, sizeof text, "%s%s%s allocation %d of %zu bytes", where, a.live ? "" : "the freed ",
                   a.where == place::device ? "device" : "pinned", a.number, a.bytes);
    return text;
}

place locate(const void *pointer, size_t n, const char *what)
{
    const char *p = static_cast<const char *>(pointer);
    if (!in_arena(p)) return is_registered(p, n) ? place::pinned : place::pageable;
    const auto i = at_or_before(p);
    if (i != mem().all.end() && i->second.live && p + n <= i->first + i->second.bytes) return i->second.where;
    violation("%s: %zu bytes do not lie within one allocation: %s", what, n, describe(p).c_str());
    return place::pageable;
}

device_memory_open::device_memory_open()
{
    if (mem().open++ == 0) protect_device_memory(PROT_READ | PROT_WRITE);
}

device_memory_open::~device_memory_open()
{
    if (--mem().open == 0) protect_device_memory(PROT_NONE);
}
}   // namespace pf_shim

using namespace pf_shim;

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    const api_call call(cudaErrorMemoryAllocation, during_capture::forbidden);
    return call.error != cudaSuccess ? call.error : call.give(allocate(out, bytes, place::device));
}

cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned)
{
    const api_call call(cudaErrorMemoryAllocation, during_capture::forbidden);
    return call.error != cudaSuccess ? call.error : call.give(allocate(out, bytes, place::pinned));
}

cudaError_t cudaMallocHost(void **out, size_t bytes)
{
    return cudaHostAlloc(out, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFree(void *p)
{
    return release_call(p, place::device, "cudaFree");
}

cudaError_t cudaFreeHost(void *p)
{
    return release_call(p, place::pinned, "cudaFreeHost");
}

cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned)
{
    const api_call call(cudaErrorMemoryAllocation, during_capture::forbidden);
    if (call.error != cudaSuccess) return call.error;
    if (!p || bytes == 0) return call.give(cudaErrorInvalidValue);
    if (in_arena(p) || is_registered(static_cast<char *>(p), 1)) return call.give(cudaErrorHostMemoryAlreadyRegistered);
    char *start = static_cast<char *>(p);
    mem().all[start] = { bytes, 0, start, place::pinned, true, true, ++mem().n_made };
    state().n_live++;
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *p)
{
    const std::lock_guard<std::recursive_mutex> guard(lock());
    const auto i = mem().all.find(static_cast<char *>(p));
    if (i == mem().all.end() || !i->second.registered) {
        violation("cudaHostUnregister of %s", describe(p).c_str());
        return cudaErrorHostMemoryNotRegistered;
    }
    drain_all();
    mem().all.erase(i);
    state().n_live--;
    return state().sticky;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes)
{
    const api_call call(cudaErrorInvalidValue);
    if (call.error != cudaSuccess) return call.error;
    *total_bytes = state().device.memory_bytes;
    *free_bytes = state().device.memory_bytes - mem().device_bytes;
    return cudaSuccess;
}
