/*
 * What a kernel sees, for C++: indices, barriers, warp operations, atomics, intrinsics, shared memory; and the launch.
 *
 * Barriers and warp operations are functions whose default arguments name the caller's line, for reports. PF_LAUNCH,
 * PF_SHARED and PF_DYNAMIC_SHARED stand where CUDA has syntax that C++ lacks.
 */
#ifndef PF_SHIM_DEVICE_HH
#define PF_SHIM_DEVICE_HH

#include <cmath>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>

#include "tests/cuda-shim/include/cuda_runtime_api.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) alignas(n)

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

#define PF_SHIM_VECTOR2(name, type, align)  \
    struct alignas(align) name {            \
        type x, y;                          \
    };                                      \
    inline name make_##name(type x, type y) \
    {                                       \
        return { x, y };                    \
    }
#define PF_SHIM_VECTOR4(name, type, align)                  \
    struct alignas(align) name {                            \
        type x, y, z, w;                                    \
    };                                                      \
    inline name make_##name(type x, type y, type z, type w) \
    {                                                       \
        return { x, y, z, w };                              \
    }
PF_SHIM_VECTOR2(int2, int, 8)
PF_SHIM_VECTOR2(uint2, unsigned, 8)
PF_SHIM_VECTOR2(float2, float, 8)
PF_SHIM_VECTOR2(double2, double, 16)
PF_SHIM_VECTOR2(ushort2, unsigned short, 4)
PF_SHIM_VECTOR2(short2, short, 4)
PF_SHIM_VECTOR2(ulonglong2, unsigned long long, 16)
PF_SHIM_VECTOR4(int4, int, 16)
PF_SHIM_VECTOR4(uint4, unsigned, 16)
PF_SHIM_VECTOR4(float4, float, 16)
PF_SHIM_VECTOR4(ushort4, unsigned short, 8)
PF_SHIM_VECTOR4(short4, short, 8)
PF_SHIM_VECTOR4(uchar4, unsigned char, 4)
PF_SHIM_VECTOR4(char4, signed char, 4)
struct uint3 {
    unsigned x, y, z;
};

/* Of the thread that runs; the scheduler sets them before a thread goes on. */
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
constexpr int warpSize = 32;

namespace pf_shim
{
enum class warp_op { sync, index, up, down, exclusive_or, ballot, all, any, match_any, add, min, max, and_, or_, xor_ };
enum class block_op { none, count, and_, or_ };

/* A kernel and its arguments, copied by value when it is queued. */
struct kernel_body {
    virtual ~kernel_body() = default;
    virtual void run() = 0;
    virtual const unsigned char *bytes(size_t *n) const = 0;
};

/* A __shared__ variable; where it lies is decided once in each launch. */
struct shared_site {
    const char *name;
    uint64_t launch;
    unsigned char *at;
};

struct launch_shape {
    dim3 grid, block;
    size_t shared_bytes;
    cudaStream_t stream;
};

int barrier(block_op op, int predicate, const char *file, int line);
uint64_t warp_meeting(warp_op op, unsigned mask, uint64_t value, int argument, int width, const char *file, int line);
void *shared_variable(shared_site *site, size_t bytes, size_t align);
unsigned char *dynamic_shared();
void atomic_access(void *p, size_t bytes);
[[noreturn]] void trap(const char *file, int line);
/* Takes the body over. `pointers`: those arguments that are pointers. */
cudaError_t launch_body(const char *name, const void *function, const launch_shape &shape, kernel_body *body,
                        const void *const *pointers, int n_pointers);
cudaError_t allow_shared_bytes(const void *function, int bytes);

template <class To, class From> To bits_as(From from)
{
    static_assert(std::is_trivially_copyable<From>::value, "bits are copied");
    To to{};
    memcpy(&to, &from, sizeof to < sizeof from ? sizeof to : sizeof from);
    return to;
}

template <class... P> struct bound_kernel : kernel_body {
    void (*kernel)(P...);
    std::tuple<std::decay_t<P>...> arguments;

    template <class... A> explicit bound_kernel(void (*k)(P...), A... a) : kernel(k), arguments(a...) {}
    void run() override { std::apply(kernel, arguments); }
    const unsigned char *bytes(size_t *n) const override
    {
        *n = sizeof *this;
        return reinterpret_cast<const unsigned char *>(this);
    }
};

template <class... P, class... A>
cudaError_t launch(const char *name, void (*kernel)(P...), dim3 grid, dim3 block, size_t shared_bytes,
                   cudaStream_t stream, A... arguments)
{
    static_assert((std::is_trivially_copyable<std::decay_t<P>>::value && ...), "arguments are copied as bytes");
    static_assert(sizeof...(P) == sizeof...(A), "a launch gives each parameter of its kernel");
    auto *body = new bound_kernel<P...>(kernel, static_cast<std::decay_t<P>>(arguments)...);
    const void *pointers[sizeof...(A) + 1];
    int n = 0;
    auto note = [&](auto a) {
        if constexpr (std::is_pointer<decltype(a)>::value) pointers[n++] = a;
    };
    std::apply([&](auto... a) { (note(a), ...); }, body->arguments);
    return launch_body(name, reinterpret_cast<const void *>(kernel), { grid, block, shared_bytes, stream }, body,
                       pointers, n);
}

template <class... P, size_t... I>
cudaError_t launch_from_addresses(void (*kernel)(P...), const launch_shape &s, void **arguments,
                                  std::index_sequence<I...>)
{
    return launch("kernel", kernel, s.grid, s.block, s.shared_bytes, s.stream,
                  *static_cast<std::decay_t<P> *>(arguments[I])...);
}

template <class T> T shuffle(warp_op op, unsigned mask, T value, int argument, int width, const char *file, int line)
{
    static_assert(sizeof(T) <= 8, "a shuffle moves up to eight bytes");
    return bits_as<T>(warp_meeting(op, mask, bits_as<uint64_t>(value), argument, width, file, line));
}
}   // namespace pf_shim

#define PF_LAUNCH(kernel, grid, block, shared_bytes, stream, ...) \
    ((void)pf_shim::launch(#kernel, kernel, grid, block, shared_bytes, stream, ##__VA_ARGS__))
#define PF_SHARED(type, name, dims)                                  \
    static pf_shim::shared_site name##_site = { #name, 0, nullptr }; \
    using name##_type = type dims;                                   \
    name##_type &name =                                              \
        *static_cast<name##_type *>(pf_shim::shared_variable(&name##_site, sizeof(name##_type), alignof(name##_type)))
#define PF_DYNAMIC_SHARED(name) unsigned char *const name = pf_shim::dynamic_shared()

template <class... P>
cudaError_t cudaLaunchKernel(void (*kernel)(P...), dim3 grid, dim3 block, void **arguments, size_t shared_bytes,
                             cudaStream_t stream)
{
    return pf_shim::launch_from_addresses(kernel, { grid, block, shared_bytes, stream }, arguments,
                                          std::index_sequence_for<P...>{});
}

template <class F> cudaError_t cudaFuncSetAttribute(F *function, cudaFuncAttribute attribute, int value)
{
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    return pf_shim::allow_shared_bytes(reinterpret_cast<const void *>(function), value);
}

template <class T> cudaError_t cudaMalloc(T **out, size_t bytes)
{
    return cudaMalloc(reinterpret_cast<void **>(out), bytes);
}

template <class T> cudaError_t cudaMallocHost(T **out, size_t bytes)
{
    return cudaMallocHost(reinterpret_cast<void **>(out), bytes);
}

/* ---- barriers and warp operations ---- */

#define PF_SHIM_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(PF_SHIM_HERE)
{
    (void)pf_shim::barrier(pf_shim::block_op::none, 0, file, line);
}

inline int __syncthreads_count(int predicate, PF_SHIM_HERE)
{
    return pf_shim::barrier(pf_shim::block_op::count, predicate, file, line);
}

inline int __syncthreads_and(int predicate, PF_SHIM_HERE)
{
    return pf_shim::barrier(pf_shim::block_op::and_, predicate, file, line);
}

inline int __syncthreads_or(int predicate, PF_SHIM_HERE)
{
    return pf_shim::barrier(pf_shim::block_op::or_, predicate, file, line);
}

inline void __syncwarp(unsigned mask = 0xffffffffu, PF_SHIM_HERE)
{
    (void)pf_shim::warp_meeting(pf_shim::warp_op::sync, mask, 0, 0, 32, file, line);
}

template <class T> T __shfl_sync(unsigned mask, T value, int lane, int width = 32, PF_SHIM_HERE)
{
    return pf_shim::shuffle(pf_shim::warp_op::index, mask, value, lane, width, file, line);
}

template <class T> T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, PF_SHIM_HERE)
{
    return pf_shim::shuffle(pf_shim::warp_op::up, mask, value, static_cast<int>(delta), width, file, line);
}

template <class T> T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, PF_SHIM_HERE)
{
    return pf_shim::shuffle(pf_shim::warp_op::down, mask, value, static_cast<int>(delta), width, file, line);
}

template <class T> T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32, PF_SHIM_HERE)
{
    return pf_shim::shuffle(pf_shim::warp_op::exclusive_or, mask, value, lanes, width, file, line);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, PF_SHIM_HERE)
{
    return static_cast<unsigned>(
        pf_shim::warp_meeting(pf_shim::warp_op::ballot, mask, predicate != 0, 0, 32, file, line));
}

inline int __all_sync(unsigned mask, int predicate, PF_SHIM_HERE)
{
    return static_cast<int>(pf_shim::warp_meeting(pf_shim::warp_op::all, mask, predicate != 0, 0, 32, file, line));
}

inline int __any_sync(unsigned mask, int predicate, PF_SHIM_HERE)
{
    return static_cast<int>(pf_shim::warp_meeting(pf_shim::warp_op::any, mask, predicate != 0, 0, 32, file, line));
}

template <class T> unsigned __match_any_sync(unsigned mask, T value, PF_SHIM_HERE)
{
    return pf_shim::shuffle(pf_shim::warp_op::match_any, mask, pf_shim::bits_as<uint64_t>(value), 0, 32, file, line);
}

#define PF_SHIM_REDUCE(name, op, type)                                                                           \
    inline type name(unsigned mask, type value, PF_SHIM_HERE)                                                    \
    {                                                                                                            \
        return static_cast<type>(pf_shim::warp_meeting(                                                          \
            pf_shim::warp_op::op, mask, static_cast<uint64_t>(static_cast<int64_t>(value)), 0, 32, file, line)); \
    }
PF_SHIM_REDUCE(__reduce_add_sync, add, int)
PF_SHIM_REDUCE(__reduce_add_sync, add, unsigned)
PF_SHIM_REDUCE(__reduce_min_sync, min, int)
PF_SHIM_REDUCE(__reduce_min_sync, min, unsigned)
PF_SHIM_REDUCE(__reduce_max_sync, max, int)
PF_SHIM_REDUCE(__reduce_max_sync, max, unsigned)
PF_SHIM_REDUCE(__reduce_and_sync, and_, unsigned)
PF_SHIM_REDUCE(__reduce_or_sync, or_, unsigned)
PF_SHIM_REDUCE(__reduce_xor_sync, xor_, unsigned)

inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}

[[noreturn]] inline void __trap(PF_SHIM_HERE)
{
    pf_shim::trap(file, line);
}

/* ---- atomics ---- */

namespace pf_shim
{
/* Not inlined into instrumented code: the race checker hears of it by atomic_access() alone. */
template <class T, class F> __attribute__((noinline, no_sanitize_thread)) T atomic_update(T *p, F update)
{
    atomic_access(p, sizeof *p);
    const T old = *p;
    *p = update(old);
    return old;
}
}   // namespace pf_shim

#define PF_SHIM_ATOMIC(name, type, expression)                                                  \
    inline type name(type *p, type value)                                                       \
    {                                                                                           \
        return pf_shim::atomic_update(                                                          \
            p, [=](type old) __attribute__((no_sanitize_thread))->type { return expression; }); \
    }
#define PF_SHIM_ATOMICS(type)                                       \
    PF_SHIM_ATOMIC(atomicAdd, type, static_cast<type>(old + value)) \
    PF_SHIM_ATOMIC(atomicExch, type, ((void)old, value))
#define PF_SHIM_INTEGER_ATOMICS(type)                                                                             \
    PF_SHIM_ATOMICS(type)                                                                                         \
    PF_SHIM_ATOMIC(atomicMin, type, (old < value ? old : value))                                                  \
    PF_SHIM_ATOMIC(atomicMax, type, (old > value ? old : value))                                                  \
    PF_SHIM_ATOMIC(atomicAnd, type, (old & value))                                                                \
    PF_SHIM_ATOMIC(atomicOr, type, (old | value))                                                                 \
    PF_SHIM_ATOMIC(atomicXor, type, (old ^ value))                                                                \
    inline type atomicCAS(type *p, type compare, type value)                                                      \
    {                                                                                                             \
        return pf_shim::atomic_update(                                                                            \
            p, [=](type old) __attribute__((no_sanitize_thread))->type { return old == compare ? value : old; }); \
    }
PF_SHIM_INTEGER_ATOMICS(int)
PF_SHIM_INTEGER_ATOMICS(unsigned)
PF_SHIM_INTEGER_ATOMICS(unsigned long long)
PF_SHIM_ATOMICS(float)
PF_SHIM_ATOMICS(double)
PF_SHIM_ATOMIC(atomicSub, int, (old - value))
PF_SHIM_ATOMIC(atomicSub, unsigned, (old - value))

/* ---- intrinsics ---- */

template <class T> T __ldg(const T *p)
{
    return *p;
}
template <class T> T __ldcs(const T *p)
{
    return *p;
}
template <class T> T __ldcg(const T *p)
{
    return *p;
}
template <class T> void __stcs(T *p, T value)
{
    *p = value;
}
template <class T> void __stcg(T *p, T value)
{
    *p = value;
}

inline unsigned __float_as_uint(float f)
{
    return pf_shim::bits_as<unsigned>(f);
}
inline int __float_as_int(float f)
{
    return pf_shim::bits_as<int>(f);
}
inline float __uint_as_float(unsigned u)
{
    return pf_shim::bits_as<float>(u);
}
inline float __int_as_float(int i)
{
    return pf_shim::bits_as<float>(i);
}
inline long long __double_as_longlong(double d)
{
    return pf_shim::bits_as<long long>(d);
}
inline double __longlong_as_double(long long l)
{
    return pf_shim::bits_as<double>(l);
}
inline int __float2int_rn(float f)
{
    return static_cast<int>(lrintf(f));
}
inline int __float2int_rz(float f)
{
    return static_cast<int>(f);
}
inline float __int2float_rn(int i)
{
    return static_cast<float>(i);
}
inline float __uint2float_rn(unsigned u)
{
    return static_cast<float>(u);
}
inline float __fadd_rn(float a, float b)
{
    return a + b;
}
inline float __fsub_rn(float a, float b)
{
    return a - b;
}
inline float __fmul_rn(float a, float b)
{
    return a * b;
}
inline float __fdiv_rn(float a, float b)
{
    return a / b;
}
inline float __fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}
inline float __fsqrt_rn(float a)
{
    return sqrtf(a);
}
inline float __frcp_rn(float a)
{
    return 1.0f / a;
}
inline float __fdividef(float a, float b)
{
    return a / b;
}
inline double __dadd_rn(double a, double b)
{
    return a + b;
}
inline double __dmul_rn(double a, double b)
{
    return a * b;
}
inline double __fma_rn(double a, double b, double c)
{
    return fma(a, b, c);
}
inline float __saturatef(float a)
{
    return a > 0 ? (a < 1 ? a : 1) : 0;
}
inline int __popc(unsigned u)
{
    return __builtin_popcount(u);
}
inline int __popcll(unsigned long long u)
{
    return __builtin_popcountll(u);
}
inline int __clz(int i)
{
    return i == 0 ? 32 : __builtin_clz(static_cast<unsigned>(i));
}
inline int __clzll(long long i)
{
    return i == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(i));
}
inline int __ffs(int i)
{
    return __builtin_ffs(i);
}
inline unsigned __umulhi(unsigned a, unsigned b)
{
    return static_cast<unsigned>((static_cast<uint64_t>(a) * b) >> 32);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    return static_cast<unsigned long long>((static_cast<unsigned __int128>(a) * b) >> 64);
}

#define PF_SHIM_MIN_MAX(type)       \
    inline type min(type a, type b) \
    {                               \
        return b < a ? b : a;       \
    }                               \
    inline type max(type a, type b) \
    {                               \
        return a < b ? b : a;       \
    }
PF_SHIM_MIN_MAX(int)
PF_SHIM_MIN_MAX(unsigned)
PF_SHIM_MIN_MAX(long)
PF_SHIM_MIN_MAX(unsigned long)
PF_SHIM_MIN_MAX(long long)
PF_SHIM_MIN_MAX(unsigned long long)
inline float min(float a, float b)
{
    return fminf(a, b);
}
inline float max(float a, float b)
{
    return fmaxf(a, b);
}

/* The device's fast functions, exact here. Macros: the C library has symbols of these names. */
namespace pf_shim
{
inline float reciprocal_root(float x)
{
    return 1.0f / sqrtf(x);
}
inline float fast_exp(float x)
{
    return expf(x);
}
inline float fast_exp2(float x)
{
    return exp2f(x);
}
inline float fast_log(float x)
{
    return logf(x);
}
inline float fast_log2(float x)
{
    return log2f(x);
}
inline float fast_sin(float x)
{
    return sinf(x);
}
inline float fast_cos(float x)
{
    return cosf(x);
}
inline float fast_pow(float x, float y)
{
    return powf(x, y);
}
inline float fast_tanh(float x)
{
    return tanhf(x);
}
}   // namespace pf_shim
#define rsqrtf      pf_shim::reciprocal_root
#define __frsqrt_rn pf_shim::reciprocal_root
#define __expf      pf_shim::fast_exp
#define __exp2f     pf_shim::fast_exp2
#define __logf      pf_shim::fast_log
#define __log2f     pf_shim::fast_log2
#define __sinf      pf_shim::fast_sin
#define __cosf      pf_shim::fast_cos
#define __powf      pf_shim::fast_pow
#define __tanhf     pf_shim::fast_tanh

#endif
