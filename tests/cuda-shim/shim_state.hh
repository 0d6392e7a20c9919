/*
 * What the parts of the emulation share: the lock, the settings, violations, the places of memory, the queues of streams.
 */
#ifndef PF_SHIM_STATE_HH
#define PF_SHIM_STATE_HH

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/cuda-shim/include/shim_device.hh"
#include "tests/cuda-shim/shim_control.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(p, n)   (static_cast<void>(p), static_cast<void>(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) (static_cast<void>(p), static_cast<void>(n))
#endif

namespace pf_shim
{
/* ---- shim_errors.cc ---- */

struct settings {
    pf_shim_device device;
    pf_shim_order order;
    uint32_t seed;
    bool order_by_rows;
    long fail_call, calls;          // the call that fails; calls so far
    long fault_kernel, n_kernels;   // the kernel that faults; kernels so far
    cudaError_t sticky;             // an error of the device: all calls give it from then on
    int n_live;
    int n_unpinned;   // products so far that named no algorithm
};
settings &state();
std::recursive_mutex &lock();

__attribute__((format(printf, 1, 2))) void violation(const char *format, ...);

enum class during_capture { allowed, forbidden };

/*
 * A call of the API: holds the lock. `error` is what the call returns at once, unless it is cudaSuccess: an error that
 * stayed, a device that is missing, a call forbidden during capture, or the failure that the test asked for, `if_failing`.
 */
class api_call
{
  public:
    explicit api_call(cudaError_t if_failing, during_capture capture = during_capture::allowed);
    /* Records an error as the last one of this host thread, and returns it. */
    cudaError_t give(cudaError_t e) const;
    cudaError_t error = cudaSuccess;

  private:
    std::unique_lock<std::recursive_mutex> guard;
};

/* ---- device_memory.cc ---- */

enum class place { device, pinned, pageable };
/* Of n bytes that all lie in one allocation; a violation that names `what` if they leave the one they begin in. */
place locate(const void *p, size_t n, const char *what);
/* "12 bytes behind device allocation 3 of 256 bytes" */
std::string describe(const void *p);
/* Whether p lies in the range that holds all allocations, live or not. */
bool in_arena(const void *p);
/* Where device memory begins, for a shadow of it, and how long the range is. */
const char *arena_start();
constexpr size_t ARENA_BYTES = static_cast<size_t>(32) << 30;
char *reserve_pages(size_t bytes, bool accessible);

/* While one exists, device memory can be accessed; at other times an access of the host faults. */
class device_memory_open
{
  public:
    device_memory_open();
    ~device_memory_open();
    device_memory_open(const device_memory_open &) = delete;
};

/* ---- streams.cc ---- */

struct operation {
    std::function<void()> run;
    std::function<void()> when_queued;   // spoils what a copy will fill, so that a missing wait shows
};
void put(cudaStream_t stream, operation o);
void drain_all();
/* Marks every capture under way as invalid; whether there was one. */
bool spoil_captures();

/* ---- block_scheduler.cc ---- */

/* The thread of a kernel that runs, for the race checker. An epoch is from one block barrier to the next, never repeated. */
struct running_thread {
    bool active;
    int number, warp, lane;
    uint32_t epoch, block_first_epoch, launch_first_epoch;
    uint32_t warp_epochs[32];   // of the warps of the block: the count of their __syncwarp
    const char *kernel;
    const char *stack;   // FIBER_STACK_BYTES
    const unsigned char *body;
    size_t body_bytes;
};
extern running_thread running;
/* The shared variable that holds p, and where in it. */
const char *name_shared(const void *p, size_t *offset);
extern unsigned char *const shared_memory;
extern const size_t shared_memory_bytes;

/* Set by race_checker.cc, if it is linked: called at atomics, which are not instrumented. */
extern void (*note_atomic)(void *p, size_t bytes);

/* ---- matmul_sum.cc ---- */

struct product {
    bool transpose_a, transpose_b, f32_out;
    int64_t m, n, k, lda, ldb, ldc, ldd;
    float alpha, beta;
    const unsigned short *a, *b;
    const void *c;
    void *d;
    int chunk;   // products summed apart before they are added to the result
};
void multiply(const product &p);
}   // namespace pf_shim

#endif
