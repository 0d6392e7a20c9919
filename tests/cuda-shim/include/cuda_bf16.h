/*
 * Declares BF16 as CUDA does: 16 bits, conversions from F32 to the nearest, ties to even; every NaN becomes 0x7fff
 * (PTX ISA, cvt.rn.bf16.f32). C sees the bits alone.
 */
#ifndef PF_SHIM_CUDA_BF16_H
#define PF_SHIM_CUDA_BF16_H

typedef struct {
    unsigned short x;
} __nv_bfloat16_raw;

typedef struct {
    unsigned short x;
    unsigned short y;
} __nv_bfloat162_raw;

#ifdef __cplusplus
#include "tests/cuda-shim/include/shim_bf16.hh"
#else
typedef __nv_bfloat16_raw __nv_bfloat16;
typedef __nv_bfloat162_raw __nv_bfloat162;
#endif

#endif
