/*
 * exp and the sum of sixteen: the places where implementations could differ in a last bit, and must not.
 *
 *   exp(x) = 2^n * e^r,   n = x / ln 2 to the nearest integer,   r = x - n * ln 2 in two parts,   |r| <= 0.347
 *
 * e^r is the polynomial of Cephes' expf. Error below 2 ulp; 0 below -104, infinity above 88.73; results that are
 * denormal are rounded once; NaN gives NaN. The vector forms (v16_avx2.h, v16_avx512.h) take the same steps.
 *
 * Internal to kernels/.
 */
#ifndef PF_KERNELS_VEC_EXP_H
#define PF_KERNELS_VEC_EXP_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define PF_EXP_LOW        (-104.0f) /* its exp is below half the least denormal */
#define PF_EXP_HIGH       89.0f
#define PF_EXP_LOG2E      0x1.715476p+0f
#define PF_EXP_SHIFT      0x1.8p+23f  /* adding it rounds to an integer, in the low bits of the sum */
#define PF_EXP_SHIFT_BITS 0x4B400000u /* those of PF_EXP_SHIFT */
#define PF_EXP_LN2_TOP    0x1.62e4p-1f
#define PF_EXP_LN2_BOTTOM 0x1.7f7d1cp-20f
#define PF_EXP_C2         5.0000001201e-1f
#define PF_EXP_C3         1.6666665459e-1f
#define PF_EXP_C4         4.1665795894e-2f
#define PF_EXP_C5         8.3334519073e-3f
#define PF_EXP_C6         1.3981999507e-3f
#define PF_EXP_C7         1.9875691500e-4f

/* 2^n for -126 <= n <= 127; else, which a NaN brings about, any number. */
static inline float pf_exp2_int(uint32_t n)
{
    const uint32_t bits = (n + 127u) << 23;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline float pf_exp(float x)
{
    x = PF_EXP_HIGH < x ? PF_EXP_HIGH : x; /* a NaN passes */
    x = PF_EXP_LOW > x ? PF_EXP_LOW : x;
    const float shifted = fmaf(x, PF_EXP_LOG2E, PF_EXP_SHIFT);
    const float n = shifted - PF_EXP_SHIFT;
    float r = fmaf(n, -PF_EXP_LN2_TOP, x);
    r = fmaf(n, -PF_EXP_LN2_BOTTOM, r);

    float p = fmaf(PF_EXP_C7, r, PF_EXP_C6);
    p = fmaf(p, r, PF_EXP_C5);
    p = fmaf(p, r, PF_EXP_C4);
    p = fmaf(p, r, PF_EXP_C3);
    p = fmaf(p, r, PF_EXP_C2);
    p = fmaf(p, r * r, r) + 1.0f;

    /* 2^n in two halves, for n goes from -150 to 128: only the second product rounds. */
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    const int32_t whole = (int32_t)(bits - PF_EXP_SHIFT_BITS);
    const int32_t half = whole >> 1;
    return p * pf_exp2_int((uint32_t)half) * pf_exp2_int((uint32_t)whole - (uint32_t)half);
}

/*
 * 2^x for x <= 0, for weights that are rounded to bf16: within 2^-13 of itself, exact at whole numbers, monotone.
 *
 *   2^x = 2^floor(x) * (1 + f * (c1 + f * (c2 + f * c3))),   f = x - floor(x);   x from -150 on, which gives 0
 *
 * The polynomial is the best of its degree that meets 1 and 2 at the ends (Remez' exchange). A NaN gives NaN.
 */
#define PF_EXP2_LOW (-150.0f) /* half the least denormal, which rounds to 0 */
#define PF_EXP2_C1  0x1.640ea8p-1f
#define PF_EXP2_C2  0x1.cf7a66p-3f
#define PF_EXP2_C3  0x1.4095eap-4f

static inline float pf_exp2_coarse(float x)
{
    x = PF_EXP2_LOW > x ? PF_EXP2_LOW : x; /* a NaN passes */
    const float whole = floorf(x), f = x - whole;
    const float p = fmaf(fmaf(fmaf(PF_EXP2_C3, f, PF_EXP2_C2), f, PF_EXP2_C1), f, 1.0f);
    const int32_t n = isnan(x) ? 0 : (int32_t)whole, half = n >> 1; /* as above: only the second product rounds */
    return p * pf_exp2_int((uint32_t)half) * pf_exp2_int((uint32_t)(n - half));
}

enum { PF_LANES = 16 };

/* Sum of sixteen, 8 apart, then 4, 2, 1. Overwrites them. */
static inline float pf_tree_sum(float lane[PF_LANES])
{
    for (int half = PF_LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++) lane[i] += lane[i + half];
    return lane[0];
}

#endif
