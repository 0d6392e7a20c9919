/* VNNI without AVX-512: 32 multiply-adds of bytes an instruction. */
#include <immintrin.h>

#include "kernels/limits/burst_rows.h"

float pf_burst_int8_avxvnni(int64_t n_rounds)
{
    __m256i sum[PF_BURST_SUMS_AVX2], a = _mm256_setzero_si256();
    for (int i = 0; i < PF_BURST_SUMS_AVX2; i++) sum[i] = _mm256_setzero_si256();
    for (int64_t round = 0; round < n_rounds; round++) {
        __asm__ volatile("" : "+x"(a));
#pragma GCC unroll 12
        for (int i = 0; i < PF_BURST_SUMS_AVX2; i++) sum[i] = _mm256_dpbusd_avx_epi32(sum[i], a, a);
    }
    for (int i = 1; i < PF_BURST_SUMS_AVX2; i++) sum[0] = _mm256_add_epi32(sum[0], sum[i]);
    return (float)_mm256_extract_epi32(sum[0], 0);
}
