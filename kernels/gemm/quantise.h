/*
 * Rounding of weights to integers, a stretch of a row at a time: one text, compiled for each instruction set. Loops that
 * a compiler turns into vectors: no branch, and maxima of floats are found as maxima of integers, which may be taken in
 * any order. So the result is the same whatever they are compiled for. Internal.
 */
#ifndef PF_KERNELS_GEMM_QUANTISE_H
#define PF_KERNELS_GEMM_QUANTISE_H

#include <float.h>

#include "kernels/gemm/layout.h"

enum { STRETCH = 128 }; /* values of a row at a time: whole groups, or part of one */

/* What a group is rounded with: q_stored = clamp(round(w / scale) + zero, low, high). */
typedef struct {
    float scale;
    int32_t zero; /* 128, 8 or z */
} rounding_rule;

/* What a group's rounding is found from. Floats as integers of the same order. */
typedef struct {
    int32_t low, high; /* of the values and 0 */
    int32_t magnitude; /* the largest */
    bool negative;     /* the first of that magnitude */
} range_of_values;

static inline int32_t float_bits(float f)
{
    int32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static inline float float_of(int32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Bits of a float to an integer of the same order, and back. */
static inline int32_t ordered(int32_t bits)
{
    return bits ^ (bits >> 31 & 0x7FFFFFFF);
}

/* Halves in a file, at any address. */
typedef uint16_t __attribute__((aligned(1), may_alias)) unaligned_half;

/* pf_f16_to_f32 without a branch. A half's exponent and mantissa in a float's place are 2^-112 of what they stand for,
 * denormals too. */
static inline float half_to_float(uint16_t h)
{
    const int32_t magnitude = (h & 0x7FFF) << 13, special = 0x7F800000 | magnitude;
    const int32_t bits = magnitude < 0x7C00 << 13 ? float_bits(float_of(magnitude) * 0x1p112f) : special;
    return float_of(h & 0x8000 ? bits | INT32_MIN : bits);
}

/* n values of a row from value k on, as f32. */
static inline void load_floats(float *out, const unsigned char *row, pf_type type, size_t k, size_t n)
{
    row += k * pf_type_bytes(type);
    const unaligned_half *halves = (const unaligned_half *)row;
    if (type == PF_TYPE_F32) memcpy(out, row, n * sizeof *out);
    if (type == PF_TYPE_BF16)
        for (size_t i = 0; i < n; i++) out[i] = pf_bf16_to_f32(halves[i]);
    if (type == PF_TYPE_F16)
        for (size_t i = 0; i < n; i++) out[i] = half_to_float(halves[i]);
}

/* The same, finite where the row is not. */
static inline void load_finite(float *out, const unsigned char *row, pf_type type, size_t k, size_t n)
{
    load_floats(out, row, type, k, n);
    for (size_t i = 0; i < n; i++) {
        float f = out[i];
        f = f != f ? 0.0f : f;
        f = f > FLT_MAX ? FLT_MAX : f;
        out[i] = f < -FLT_MAX ? -FLT_MAX : f;
    }
}

/* Take n values more into the range. */
static inline void range_add(range_of_values *range, const float *values, size_t n)
{
    int32_t low = range->low, high = range->high, magnitude = 0, first = INT32_MAX;
    for (size_t i = 0; i < n; i++) {
        const int32_t bits = float_bits(values[i]), size = bits & 0x7FFFFFFF, value = ordered(bits);
        low = value < low ? value : low;
        high = value > high ? value : high;
        magnitude = size > magnitude ? size : magnitude;
    }
    range->low = low;
    range->high = high;
    if (magnitude <= range->magnitude) return;
    for (int32_t i = 0; i < (int32_t)n; i++) {
        const int32_t at = (float_bits(values[i]) & 0x7FFFFFFF) == magnitude ? i : INT32_MAX;
        first = at < first ? at : first;
    }
    range->magnitude = magnitude;
    range->negative = values[first] < 0.0f;
}

/* To nearest, ties to even, for |x| < 2^22: what is left of x beside 1.5 * 2^23 is an integer. */
static inline int32_t nearest(float x)
{
    return float_bits(x + 0x1.8p23f) - float_bits(0x1.8p23f);
}

static inline float clamp(float x, float low, float high)
{
    x = x < low ? low : x;
    return x > high ? high : x;
}

/* A scale as it will be stored; 0 without its sign. */
static inline float stored_scale(const pf_gemm_layout *l, float scale)
{
    if (l->scale_size == 2) scale = pf_f16_to_f32(pf_f16_from_f32(clamp(scale, -65504.0f, 65504.0f)));
    return scale + 0.0f;
}

/* The rounding for values of this range, its scale as it will be stored. */
static inline rounding_rule rounding_of(const pf_gemm_layout *l, const range_of_values *range)
{
    const float magnitude = float_of(range->magnitude);
    if (l->bits == 8) return (rounding_rule){ .scale = magnitude / 127.0f, .zero = 128 };
    if (!l->has_zeros) {
        const float scale = (range->negative ? -magnitude : magnitude) / -8.0f;
        return (rounding_rule){ .scale = stored_scale(l, scale), .zero = 8 };
    }
    const float low = float_of(ordered(range->low)), high = float_of(ordered(range->high));
    rounding_rule r = { .scale = stored_scale(l, high / 15.0f - low / 15.0f) };
    if (r.scale > 0.0f) r.zero = nearest(clamp(-low / r.scale, 0.0f, 15.0f));
    return r;
}

/* n values to stored bytes: q + 128, or q. */
static inline void round_values(const pf_gemm_layout *l, const rounding_rule *rounding, const float *values,
                                uint8_t *stored, size_t n)
{
    const float scale = rounding->scale;
    const int32_t zero = rounding->zero, low = l->bits == 8 ? 1 : 0, high = l->bits == 8 ? 255 : 15;
    if (scale == 0.0f) {
        memset(stored, zero, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        int32_t q = nearest(clamp(values[i] / scale, -256.0f, 256.0f)) + zero;
        q = q < low ? low : q;
        stored[i] = (uint8_t)(q > high ? high : q);
    }
}

#endif
