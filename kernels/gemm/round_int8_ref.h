/*
 * The definition of how values that share a scale are rounded to eight bits: a row of activations, or a block of one.
 *
 * scale = x / 127 with x = max |a|, and q = round(a * (127 / x)), all in f32 (gemm.h). Zeros where x is below 2^-100; where a value
 * is not finite the scale is NaN.
 */
#ifndef PF_KERNELS_GEMM_ROUND_INT8_REF_H
#define PF_KERNELS_GEMM_ROUND_INT8_REF_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Rounds a [n] to out [n]; returns the scale. */
static inline float pf_round_int8_ref(const float *a, size_t n, int8_t *out)
{
    float largest = 0.0f;
    for (size_t i = 0; i < n; i++) {
        const float magnitude = fabsf(a[i]);
        if (!(magnitude <= largest)) largest = magnitude < INFINITY ? magnitude : INFINITY;
    }
    const bool finite = largest < INFINITY, counts = finite && largest >= 0x1p-100f;
    const float factor = counts ? 127.0f / largest : 0.0f;
    for (size_t i = 0; i < n; i++) out[i] = counts ? (int8_t)nearbyintf(a[i] * factor) : 0;
    return counts ? largest / 127.0f : finite ? 0.0f : NAN;
}

#endif
