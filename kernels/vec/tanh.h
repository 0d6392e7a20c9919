/*
 * tanh(x) = m / (m + 2),   m = e^(2x) - 1 = 2^n * (e^r - 1) + (2^n - 1),   n and r of 2x as in exp.h.
 *
 * m keeps its relative accuracy near 0, and so does tanh: the error is below 3 ulp everywhere. From |x| = 20 on the result is
 * +1 or -1. NaN gives NaN, -0 gives 0; denormals are kept. tanh_v16.h takes the same steps.
 *
 * Internal to kernels/.
 */
#ifndef PF_KERNELS_VEC_TANH_H
#define PF_KERNELS_VEC_TANH_H

#include "kernels/vec/exp.h"

#define PF_TANH_FAR 40.0f /* the largest |2x| that makes a difference, and more; 2^n is a normal number up to there */

static inline float pf_tanh(float x)
{
    float t = x + x;
    t = PF_TANH_FAR < t ? PF_TANH_FAR : t; /* a NaN passes */
    t = -PF_TANH_FAR > t ? -PF_TANH_FAR : t;
    const float shifted = fmaf(t, PF_EXP_LOG2E, PF_EXP_SHIFT);
    const float n = shifted - PF_EXP_SHIFT;
    float r = fmaf(n, -PF_EXP_LN2_TOP, t);
    r = fmaf(n, -PF_EXP_LN2_BOTTOM, r);

    float p = fmaf(PF_EXP_C7, r, PF_EXP_C6);
    p = fmaf(p, r, PF_EXP_C5);
    p = fmaf(p, r, PF_EXP_C4);
    p = fmaf(p, r, PF_EXP_C3);
    p = fmaf(p, r, PF_EXP_C2);
    p = fmaf(p, r * r, r);

    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    const float power = pf_exp2_int(bits - PF_EXP_SHIFT_BITS);
    const float m = fmaf(power, p, power - 1.0f);
    return m / (m + 2.0f);
}

#endif
