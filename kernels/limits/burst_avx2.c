/* AVX2: eight fused multiply-adds an instruction, or sixteen of 16-bit integers in two. */
#include <immintrin.h>

#include "kernels/limits/burst_rows.h"

float pf_burst_f32_avx2(int64_t n_rounds)
{
    __m256 sum[PF_BURST_SUMS_AVX2], a = _mm256_setzero_ps();
    for (int i = 0; i < PF_BURST_SUMS_AVX2; i++) sum[i] = _mm256_setzero_ps();
    for (int64_t round = 0; round < n_rounds; round++) {
        __asm__ volatile("" : "+x"(a)); /* may be another value each round, for all that the compiler knows */
#pragma GCC unroll 12
        for (int i = 0; i < PF_BURST_SUMS_AVX2; i++) sum[i] = _mm256_fmadd_ps(a, a, sum[i]);
    }
    for (int i = 1; i < PF_BURST_SUMS_AVX2; i++) sum[0] = _mm256_add_ps(sum[0], sum[i]);
    float out[8];
    _mm256_storeu_ps(out, sum[0]);
    return out[0] + out[1] + out[2] + out[3] + out[4] + out[5] + out[6] + out[7];
}

/* The product is the same for all sums unless the operand may have changed: hence the barrier at each. */
float pf_burst_int8_avx2(int64_t n_rounds)
{
    __m256i sum[PF_BURST_SUMS_AVX2], a = _mm256_setzero_si256();
    for (int i = 0; i < PF_BURST_SUMS_AVX2; i++) sum[i] = _mm256_setzero_si256();
    for (int64_t round = 0; round < n_rounds; round++) {
#pragma GCC unroll 12
        for (int i = 0; i < PF_BURST_SUMS_AVX2; i++) {
            __asm__ volatile("" : "+x"(a));
            sum[i] = _mm256_add_epi32(sum[i], _mm256_madd_epi16(a, a));
        }
    }
    for (int i = 1; i < PF_BURST_SUMS_AVX2; i++) sum[0] = _mm256_add_epi32(sum[0], sum[i]);
    return (float)_mm256_extract_epi32(sum[0], 0);
}
