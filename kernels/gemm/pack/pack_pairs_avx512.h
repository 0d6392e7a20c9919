/* Rounding a stretch of a row to bf16 pairs. Internal. Denormals are read as zero, as VCVTNE2PS2BF16 does. */
#ifndef PF_KERNELS_GEMM_PACK_PAIRS_AVX512_H
#define PF_KERNELS_GEMM_PACK_PAIRS_AVX512_H

#include <immintrin.h>
#include <stddef.h>

#include "kernels/vec/rows.h"

/* 16 pairs of a row, of which n values exist; the others are zero. */
PF_INLINE __m512i pf_gemm_load_pairs(const float *row, size_t n)
{
    const __mmask32 exist = n >= 32 ? ~(__mmask32)0 : ((__mmask32)1 << n) - 1;
    const __m512 low = _mm512_maskz_loadu_ps((__mmask16)exist, row);
    const __m512 high = exist >> 16 ? _mm512_maskz_loadu_ps((__mmask16)(exist >> 16), row + 16) : _mm512_setzero_ps();
    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

#endif
