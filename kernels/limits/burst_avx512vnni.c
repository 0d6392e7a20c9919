/* AVX-512 VNNI: 64 multiply-adds of bytes an instruction. */
#include <immintrin.h>

#include "kernels/limits/burst_rows.h"

float pf_burst_int8_avx512vnni(int64_t n_rounds)
{
    __m512i sum[PF_BURST_SUMS_AVX512], a = _mm512_setzero_si512();
    for (int i = 0; i < PF_BURST_SUMS_AVX512; i++) sum[i] = _mm512_setzero_si512();
    for (int64_t round = 0; round < n_rounds; round++) {
        __asm__ volatile("" : "+v"(a)); /* may be another value each round, for all that the compiler knows */
#pragma GCC unroll 16
        for (int i = 0; i < PF_BURST_SUMS_AVX512; i++) sum[i] = _mm512_dpbusd_epi32(sum[i], a, a);
    }
    for (int i = 1; i < PF_BURST_SUMS_AVX512; i++) sum[0] = _mm512_add_epi32(sum[0], sum[i]);
    return (float)_mm512_reduce_add_epi32(sum[0]);
}
