/* VNNI without AVX-512: 32 multiply-adds of bytes an instruction. */
#include <immintrin.h>

#include "kernels/limits/burst_rows.h"

/* The sums by name, as in burst_avx2.c: from the intrinsic on an array gcc makes code that stores sums in every round. */
#define ADD_PRODUCT(i) __asm__ volatile("%{vex%} vpdpbusd %1, %1, %0" : "+x"(sum[i]) : "x"(a));
#define CLEAR(i)       sum[i] = a;
#define ADD_UP(i)      all = _mm256_add_epi32(all, sum[i]);

float pf_burst_int8_avxvnni(int64_t n_rounds)
{
    __m256i sum[PF_BURST_SUMS_AVX2], a = _mm256_setzero_si256(), all = a;
    PF_BURST_EACH_12(CLEAR)
    for (int64_t round = 0; round < n_rounds; round++) {
        PF_BURST_EACH_12(ADD_PRODUCT)
    }
    PF_BURST_EACH_12(ADD_UP)
    return (float)_mm256_extract_epi32(all, 0);
}
