/* Activations to int8 with AVX-512, 64 at a time. Internal. */
#ifndef PF_KERNELS_GEMM_INT_WORDS_AVX512_H
#define PF_KERNELS_GEMM_INT_WORDS_AVX512_H

#include <immintrin.h>

#include "kernels/gemm/int/gemm_int_rounding.h"
#include "kernels/vec/rows.h"

/* 64 values of a row times its factor, rounded to bytes: 16 words, by lanes (pack_words_avx512.h). n values exist, zeros
 * follow them. */
PF_INLINE __m512i pf_int_words(const float *a, __m512 factor, size_t n)
{
    const __mmask64 exist = n >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << n) - 1;
    __m512i q[4];
#define QUARTER(i)                                                                                                     \
    {                                                                                                                  \
        const __m512 v =                                                                                               \
            n >= 64 ? _mm512_loadu_ps(a + 16 * i) : _mm512_maskz_loadu_ps((__mmask16)(exist >> (16 * i)), a + 16 * i); \
        q[i] = _mm512_cvtps_epi32(_mm512_mul_ps(v, factor));                                                           \
    }
    QUARTER(0)
    QUARTER(1)
    QUARTER(2)
    QUARTER(3)
#undef QUARTER
    return _mm512_packs_epi16(_mm512_packs_epi32(q[0], q[1]), _mm512_packs_epi32(q[2], q[3]));
}

/* Those of a row from value i on, where n are left; 0: i may lie behind its end. */
PF_INLINE __m512i pf_int_words_at(const float *row, size_t i, size_t n, __m512 factor)
{
    return n >= 64 ? pf_int_words(row + i, factor, 64) : pf_int_words(row + (n ? i : 0), factor, n);
}

/* Words by lanes, in order. */
PF_INLINE __m512i pf_int_words_in_order(__m512i words)
{
    return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), words);
}

#endif
