/* AVX-512: sixteen fused multiply-adds an instruction, or 32 of 16-bit integers in two. */
#include <immintrin.h>

#include "kernels/limits/burst_rows.h"

float pf_burst_f32_avx512(int64_t n_rounds)
{
    __m512 sum[PF_BURST_SUMS_AVX512], a = _mm512_setzero_ps();
    for (int i = 0; i < PF_BURST_SUMS_AVX512; i++) sum[i] = _mm512_setzero_ps();
    for (int64_t round = 0; round < n_rounds; round++) {
        __asm__ volatile("" : "+v"(a)); /* may be another value each round, for all that the compiler knows */
#pragma GCC unroll 16
        for (int i = 0; i < PF_BURST_SUMS_AVX512; i++) sum[i] = _mm512_fmadd_ps(a, a, sum[i]);
    }
    for (int i = 1; i < PF_BURST_SUMS_AVX512; i++) sum[0] = _mm512_add_ps(sum[0], sum[i]);
    return _mm512_reduce_add_ps(sum[0]);
}

/* The product is the same for all sums unless the operand may have changed: hence the barrier at each. */
float pf_burst_int8_avx512(int64_t n_rounds)
{
    __m512i sum[PF_BURST_SUMS_AVX512], a = _mm512_setzero_si512();
    for (int i = 0; i < PF_BURST_SUMS_AVX512; i++) sum[i] = _mm512_setzero_si512();
    for (int64_t round = 0; round < n_rounds; round++) {
#pragma GCC unroll 16
        for (int i = 0; i < PF_BURST_SUMS_AVX512; i++) {
            __asm__ volatile("" : "+v"(a));
            sum[i] = _mm512_add_epi32(sum[i], _mm512_madd_epi16(a, a));
        }
    }
    for (int i = 1; i < PF_BURST_SUMS_AVX512; i++) sum[0] = _mm512_add_epi32(sum[0], sum[i]);
    return (float)_mm512_reduce_add_epi32(sum[0]);
}
