/* AVX-512 BF16: 32 multiply-adds of bfloat16 an instruction. */
#include <immintrin.h>

#include "kernels/limits/burst_rows.h"

float pf_burst_bf16_avx512bf16(int64_t n_rounds)
{
    __m512 sum[PF_BURST_SUMS_AVX512];
    __m512i a = _mm512_setzero_si512();
    for (int i = 0; i < PF_BURST_SUMS_AVX512; i++) sum[i] = _mm512_setzero_ps();
    for (int64_t round = 0; round < n_rounds; round++) {
        __asm__ volatile("" : "+v"(a)); /* may be another value each round, for all that the compiler knows */
#pragma GCC unroll 16
        for (int i = 0; i < PF_BURST_SUMS_AVX512; i++) sum[i] = _mm512_dpbf16_ps(sum[i], (__m512bh)a, (__m512bh)a);
    }
    for (int i = 1; i < PF_BURST_SUMS_AVX512; i++) sum[0] = _mm512_add_ps(sum[0], sum[i]);
    return _mm512_reduce_add_ps(sum[0]);
}
