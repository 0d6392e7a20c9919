/* What the tiles of AVX-512's products have in common; of f32 and bf16 those of `height` rows by 32 columns with sums in
 * registers: __m512 sum[height][2] of a tile *t with before, c, ldc and add. Internal; for files compiled for AVX-512. */
#ifndef PF_KERNELS_GEMM_SUMS_AVX512_H
#define PF_KERNELS_GEMM_SUMS_AVX512_H

#include "kernels/gemm/gemm_nest.h"

#define PF_SUMS_START(m)                                                                                  \
    if (m < height) {                                                                                     \
        sum[m][0] = t->before ? _mm512_load_ps(t->before + m * PF_GEMM_PANEL) : _mm512_setzero_ps();      \
        sum[m][1] = t->before ? _mm512_load_ps(t->before + m * PF_GEMM_PANEL + 16) : _mm512_setzero_ps(); \
    }
#define PF_SUMS_FINISH(m) PF_SUMS_FINISH_PANEL(m, 0)
/* Of several panels side by side, __m512 sum[height][2 * panels], one. */
#define PF_SUMS_FINISH_PANEL(m, panel)                                                                            \
    if (m < height)                                                                                               \
        pf_sums_finish(sum[m][2 * (panel)], sum[m][2 * (panel) + 1], t->c + m * t->ldc + PF_GEMM_PANEL * (panel), \
                       t->add);

/* Two vectors of a row to c, or added to what is there. */
PF_INLINE void pf_sums_finish(__m512 left, __m512 right, float *c, bool add)
{
    if (add) {
        left = _mm512_add_ps(_mm512_loadu_ps(c), left);
        right = _mm512_add_ps(_mm512_loadu_ps(c + 16), right);
    }
    _mm512_storeu_ps(c, left);
    _mm512_storeu_ps(c + 16, right);
}

/* One instruction each, registers left to the compiler: a broadcast of its own beats {1to16} from two vectors on. */
PF_INLINE __m512i pf_sums_broadcast(const uint32_t *word)
{
    __m512i v;
    __asm__("vpbroadcastd %1, %0" : "=v"(v) : "m"(*word));
    return v;
}

PF_INLINE __m512 pf_sums_dot_pairs(__m512 sum, __m512i w, __m512i a)
{
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(w), "v"(a));
    return sum;
}

#endif
