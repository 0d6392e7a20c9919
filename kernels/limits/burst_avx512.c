/* AVX-512: sixteen fused multiply-adds an instruction; in two, 32 of 16-bit integers, or 64 of bytes. */
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

/* As in burst_avx2.c. */
#define ADD_PRODUCT(i) __asm__ volatile(PRODUCT : "+v"(sum[i]), "=&v"(product) : "v"(a));
#define CLEAR(i)       sum[i] = _mm512_setzero_si512();
#define ADD_UP(i)      all = _mm512_add_epi32(all, sum[i]);
#define INTEGER_BURST(NAME)                                                              \
    float NAME(int64_t n_rounds)                                                         \
    {                                                                                    \
        __m512i sum[PF_BURST_SUMS_AVX512], product, a = _mm512_setzero_si512(), all = a; \
        PF_BURST_EACH_16(CLEAR)                                                          \
        for (int64_t round = 0; round < n_rounds; round++) {                             \
            PF_BURST_EACH_16(ADD_PRODUCT)                                                \
        }                                                                                \
        PF_BURST_EACH_16(ADD_UP)                                                         \
        return (float)_mm512_reduce_add_epi32(all);                                      \
    }

#define PRODUCT "vpmaddwd %2, %2, %1\n\tvpaddd %1, %0, %0"
INTEGER_BURST(pf_burst_int8_avx512)
#undef PRODUCT
#define PRODUCT "vpmaddubsw %2, %2, %1\n\tvpaddw %1, %0, %0"
INTEGER_BURST(pf_burst_int4_avx512)
