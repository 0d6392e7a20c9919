/* The rounding of a row of activations to int8 (gemm.h), once for all fast files; gemm_ref.c defines it. Internal. */
#ifndef PF_KERNELS_GEMM_INT_ROUNDING_H
#define PF_KERNELS_GEMM_INT_ROUNDING_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The largest magnitude of a row, as bits: those of infinity or more where it holds what is not finite. */
static inline uint32_t pf_int_magnitude(const float *row, size_t n)
{
    uint32_t largest = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, row + i, sizeof bits);
        bits &= 0x7FFFFFFFu;
        largest = bits > largest ? bits : largest;
    }
    return largest;
}

/* What a row's values are multiplied with before they are rounded, and what its products are at the end. */
typedef struct {
    float factor, scale;
} pf_int_rounding;

/* Of a row whose largest magnitude has these bits: those of infinity or more where it holds what is not finite. */
static inline pf_int_rounding pf_int_rounding_of(uint32_t magnitude_bits)
{
    float magnitude;
    memcpy(&magnitude, &magnitude_bits, sizeof magnitude);
    if (magnitude_bits >= 0x7F800000u) return (pf_int_rounding){ .scale = NAN };
    if (magnitude < 0x1p-100f) return (pf_int_rounding){ 0 };
    return (pf_int_rounding){ .factor = 127.0f / magnitude, .scale = magnitude / 127.0f };
}

#endif
