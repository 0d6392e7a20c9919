/* AVX2: eight fused multiply-adds an instruction; in two, sixteen of 16-bit integers, or 32 of bytes. */
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

/* Both instructions in one piece, and the sums by name: else the compiler makes one product for all, or keeps sums in
 * memory. */
#define ADD_PRODUCT(i) __asm__ volatile(PRODUCT : "+x"(sum[i]), "=&x"(product) : "x"(a));
#define CLEAR(i)       sum[i] = _mm256_setzero_si256();
#define ADD_UP(i)      all = _mm256_add_epi32(all, sum[i]);
#define INTEGER_BURST(NAME)                                                            \
    float NAME(int64_t n_rounds)                                                       \
    {                                                                                  \
        __m256i sum[PF_BURST_SUMS_AVX2], product, a = _mm256_setzero_si256(), all = a; \
        PF_BURST_EACH_12(CLEAR)                                                        \
        for (int64_t round = 0; round < n_rounds; round++) {                           \
            PF_BURST_EACH_12(ADD_PRODUCT)                                              \
        }                                                                              \
        PF_BURST_EACH_12(ADD_UP)                                                       \
        return (float)_mm256_extract_epi32(all, 0);                                    \
    }

#define PRODUCT "vpmaddwd %2, %2, %1\n\tvpaddd %1, %0, %0"
INTEGER_BURST(pf_burst_int8_avx2)
#undef PRODUCT
#define PRODUCT "vpmaddubsw %2, %2, %1\n\tvpaddw %1, %0, %0"
INTEGER_BURST(pf_burst_int4_avx2)
