/*
 * BF16 for C++: the types of cuda_bf16.h and their conversions.
 */
#ifndef PF_SHIM_BF16_HH
#define PF_SHIM_BF16_HH

#include <cstdint>
#include <cstring>

#include "tests/cuda-shim/include/shim_device.hh"

namespace pf_shim
{
inline float widen(unsigned short bits)
{
    return bits_as<float>(static_cast<uint32_t>(bits) << 16);
}

inline unsigned short round_to_bf16(float f)
{
    if (f != f) return 0x7fff;
    const uint32_t u = bits_as<uint32_t>(f);
    return static_cast<unsigned short>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

inline unsigned short cut_to_bf16(float f)
{
    return f != f ? static_cast<unsigned short>(0x7fff) : static_cast<unsigned short>(bits_as<uint32_t>(f) >> 16);
}
}   // namespace pf_shim

struct __nv_bfloat16 {
    unsigned short x;

    __nv_bfloat16() = default;
    constexpr __nv_bfloat16(__nv_bfloat16_raw raw) : x(raw.x) {}
    __nv_bfloat16(float f) : x(pf_shim::round_to_bf16(f)) {}
    operator float() const { return pf_shim::widen(x); }
    operator __nv_bfloat16_raw() const { return { x }; }
};

struct alignas(4) __nv_bfloat162 {
    __nv_bfloat16 x;
    __nv_bfloat16 y;
};

inline float __bfloat162float(__nv_bfloat16 b)
{
    return pf_shim::widen(b.x);
}

inline __nv_bfloat16 __float2bfloat16(float f)
{
    return __nv_bfloat16(f);
}

inline __nv_bfloat16 __float2bfloat16_rn(float f)
{
    return __nv_bfloat16(f);
}

inline __nv_bfloat16 __float2bfloat16_rz(float f)
{
    return __nv_bfloat16_raw{ pf_shim::cut_to_bf16(f) };
}

inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits)
{
    return __nv_bfloat16_raw{ bits };
}

inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 b)
{
    return b.x;
}

inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 low, __nv_bfloat16 high)
{
    return { low, high };
}

inline __nv_bfloat162 __floats2bfloat162_rn(float low, float high)
{
    return { __nv_bfloat16(low), __nv_bfloat16(high) };
}

inline __nv_bfloat162 __float22bfloat162_rn(float2 f)
{
    return __floats2bfloat162_rn(f.x, f.y);
}

inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 b)
{
    return b.x;
}

inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 b)
{
    return b.y;
}

inline float __low2float(__nv_bfloat162 b)
{
    return pf_shim::widen(b.x.x);
}

inline float __high2float(__nv_bfloat162 b)
{
    return pf_shim::widen(b.y.x);
}

inline float2 __bfloat1622float2(__nv_bfloat162 b)
{
    return { __low2float(b), __high2float(b) };
}

inline bool __hisnan(__nv_bfloat16 b)
{
    return (b.x & 0x7fff) > 0x7f80;
}

#endif
