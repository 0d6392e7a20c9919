/*
 * The activation functions of activation.h, one element at a time. Internal to kernels/act.
 *
 *   gelu(x)       = x * Phi(x),   Phi(-a) = e^(-a^2 / 2) * R(a) / (a + 1),   Phi(a) = 1 - Phi(-a),   a = |x|
 *   gelu_tanh(x)  = x * (1 + tanh(u)) / 2 = x / (1 + e^(-2u)),   2u = x * (c1 + c3 * x^2)
 *   quick_gelu(x) = x / (1 + e^(-1.702 x))
 *
 * R is a polynomial in (a - 2.5) / (a + 2.5), to 5e-9 of itself (weighted least squares towards the minimax). An exponent of 80
 * that is rounded makes an error of 40 ulp, so exponents are computed with the rest that rounding leaves, and e^(t + rest) is
 * e^t * (1 + rest). The vector forms (activation_v16.c) take the same steps.
 */
#ifndef PF_KERNELS_ACTIVATION_MATH_H
#define PF_KERNELS_ACTIVATION_MATH_H

#include "kernels/vec/exp.h"

#define PF_GELU_FAR 14.5f /* Phi(-a) is 0 from here on */
#define PF_GELU_MID 2.5f
#define PF_GELU_R0  0x1.fa881p-2f
#define PF_GELU_R1  -0x1.772474p-4f
#define PF_GELU_R2  -0x1.34f998p-5f
#define PF_GELU_R3  0x1.795992p-5f
#define PF_GELU_R4  -0x1.1d12fap-7f
#define PF_GELU_R5  -0x1.8c729p-8f
#define PF_GELU_R6  0x1.507d7ep-10f
#define PF_GELU_R7  0x1.4c4e62p-10f
#define PF_GELU_R8  0x1.2cd024p-19f
#define PF_GELU_R9  -0x1.e23c8ep-13f
#define PF_GELU_R10 -0x1.10724ep-14f

/* c1 = 2 sqrt(2 / pi), c3 = 0.044715 c1, each as a sum of two. */
#define PF_GELU_TANH_FAR     11.0f /* e^(2u) is infinite from here on, and e^(-2u) 0 */
#define PF_GELU_TANH_C1      0x1.988454p+0f
#define PF_GELU_TANH_C1_REST -0x1.857936p-25f
#define PF_GELU_TANH_C3      0x1.2444f2p-4f
#define PF_GELU_TANH_C3_REST 0x1.49b16ap-29f

#define PF_QUICK_GELU_FAR  60.0f /* likewise */
#define PF_QUICK_GELU_RATE 1.702f
#define PF_QUICK_GELU_REST -0x1.78d4fep-26f

#define PF_SWIGLU_LIMIT 7.0f /* of the clamped one */

/* x / (1 + e^(t + rest)), |rest| at most 2^-16. */
static inline float pf_logistic_part(float x, float t, float rest)
{
    return x / fmaf(pf_exp(t), 1.0f + rest, 1.0f);
}

/* x within -far .. far; a NaN passes. */
static inline float pf_clamp(float x, float far)
{
    x = far < x ? far : x;
    return -far > x ? -far : x;
}

static inline float pf_silu(float x)
{
    return x / (1.0f + pf_exp(-x));
}

static inline float pf_gelu(float x)
{
    const float a = pf_clamp(fabsf(x), PF_GELU_FAR);
    const float square = a * a, rest = fmaf(a, a, -square);
    const float q = (a - PF_GELU_MID) / (a + PF_GELU_MID);
    float r = fmaf(PF_GELU_R10, q, PF_GELU_R9);
    r = fmaf(r, q, PF_GELU_R8);
    r = fmaf(r, q, PF_GELU_R7);
    r = fmaf(r, q, PF_GELU_R6);
    r = fmaf(r, q, PF_GELU_R5);
    r = fmaf(r, q, PF_GELU_R4);
    r = fmaf(r, q, PF_GELU_R3);
    r = fmaf(r, q, PF_GELU_R2);
    r = fmaf(r, q, PF_GELU_R1);
    r = fmaf(r, q, PF_GELU_R0);
    const float divisor = a + fmaf(0.5f * rest, a + 1.0f, 1.0f); /* (a + 1) * e^(rest / 2) */
    const float below = a * r / divisor;                         /* a * Phi(-a), without its power of e */
    const float power = pf_exp(-0.5f * square);
    return x < 0.0f ? -below * power : fmaf(-below, power, x);
}

static inline float pf_gelu_tanh(float x)
{
    const float a = pf_clamp(x, PF_GELU_TANH_FAR);
    const float square = a * a, square_rest = fmaf(a, a, -square);
    const float cubic = PF_GELU_TANH_C3 * square;
    float cubic_rest = fmaf(PF_GELU_TANH_C3, square, -cubic);
    cubic_rest = fmaf(PF_GELU_TANH_C3_REST, square, cubic_rest);
    cubic_rest = fmaf(PF_GELU_TANH_C3, square_rest, cubic_rest);

    const float sum = PF_GELU_TANH_C1 + cubic, taken = sum - PF_GELU_TANH_C1;
    const float sum_rest = (PF_GELU_TANH_C1 - (sum - taken)) + (cubic - taken); /* exact: Knuth, TAOCP 4.2.2 */
    const float rest = sum_rest + (cubic_rest + PF_GELU_TANH_C1_REST);
    const float t = a * sum, t_rest = fmaf(a, rest, fmaf(a, sum, -t));
    return pf_logistic_part(x, -t, -t_rest);
}

static inline float pf_quick_gelu(float x)
{
    const float a = pf_clamp(x, PF_QUICK_GELU_FAR);
    const float t = PF_QUICK_GELU_RATE * a;
    const float rest = fmaf(PF_QUICK_GELU_REST, a, fmaf(PF_QUICK_GELU_RATE, a, -t));
    return pf_logistic_part(x, -t, -rest);
}

static inline float pf_relu(float x)
{
    return 0.0f > x ? 0.0f : x; /* a NaN passes */
}

#endif
