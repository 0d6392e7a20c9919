/* AVX-512 VNNI: 64 multiply-adds of bytes an instruction. */
#include <immintrin.h>

#include "kernels/limits/burst_rows.h"

/* The sums by name, as in burst_avx2.c: from the intrinsic on an array gcc makes code that moves sums in every round. */
#define ADD_PRODUCT(i) __asm__ volatile("vpdpbusd %1, %1, %0" : "+v"(sum[i]) : "v"(a));
#define CLEAR(i)       sum[i] = a;
#define ADD_UP(i)      all = _mm512_add_epi32(all, sum[i]);

float pf_burst_int8_avx512vnni(int64_t n_rounds)
{
    __m512i sum[PF_BURST_SUMS_AVX512], a = _mm512_setzero_si512(), all = a;
    PF_BURST_EACH_16(CLEAR)
    for (int64_t round = 0; round < n_rounds; round++) {
        PF_BURST_EACH_16(ADD_PRODUCT)
    }
    PF_BURST_EACH_16(ADD_UP)
    return (float)_mm512_reduce_add_epi32(all);
}
