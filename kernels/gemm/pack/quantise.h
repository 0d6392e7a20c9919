/*
 * Rounding of weights to integers, a stretch of a row at a time: one text, compiled for each instruction set. Loops that
 * a compiler turns into vectors: no branch, and maxima of floats are found as maxima of integers, which may be taken in
 * any order. So the result is the same whatever they are compiled for. Internal.
 */
#ifndef PF_KERNELS_GEMM_QUANTISE_H
#define PF_KERNELS_GEMM_QUANTISE_H

#include <float.h>

#include "kernels/gemm/layout_int.h"

enum {
    STRETCH = 128, /* values of a row at a time: whole groups, or part of one */
    BLOCK = 32,    /* that a loop goes over: as a constant, which is worth half of the time of groups of 32 */
};

/* What values are rounded with: q_stored = clamp(round(w / scale) + zero, low, high), of groups round(w * factor). */
typedef struct {
    float scale; /* of the column */
    pf_gemm_head head;
    float factor; /* 1 / (multiplier * scale) */
} rounding_rule;

/* The least and the largest of some values and 0, as integers of the same order. */
typedef struct {
    int32_t low, high;
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

/* The same, finite where the row is not, and zeros up to a whole block. */
static inline void load_finite(float out[STRETCH], const unsigned char *row, pf_type type, size_t k, size_t n)
{
    if (n < STRETCH) memset(out, 0, STRETCH * sizeof *out);
    if (n == STRETCH)
        load_floats(out, row, type, k, STRETCH);
    else
        load_floats(out, row, type, k, n);
    for (size_t i = 0; i < STRETCH; i++) {
        float f = out[i];
        f = f != f ? 0.0f : f;
        f = f > FLT_MAX ? FLT_MAX : f;
        out[i] = f < -FLT_MAX ? -FLT_MAX : f;
    }
}

/* Take n values more into the range, and the zeros behind them. */
static inline void range_add(range_of_values *range, const float *values, size_t n)
{
    int32_t low = range->low, high = range->high;
    for (size_t begin = 0; begin < n; begin += BLOCK)
        for (size_t i = begin; i < begin + BLOCK; i++) {
            const int32_t value = ordered(float_bits(values[i]));
            low = value < low ? value : low;
            high = value > high ? value : high;
        }
    *range = (range_of_values){ low, high };
}

/* The range of all k values of a row. */
static inline range_of_values range_of_row(const unsigned char *row, pf_type type, size_t k)
{
    range_of_values range = { 0 };
    float values[STRETCH];
    for (size_t i = 0; i < k; i += STRETCH) {
        const size_t n = k - i < STRETCH ? k - i : STRETCH;
        load_finite(values, row, type, i, n);
        range_add(&range, values, n);
    }
    return range;
}

static inline float range_low(const range_of_values *range)
{
    return float_of(ordered(range->low));
}
static inline float range_high(const range_of_values *range)
{
    return float_of(ordered(range->high));
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

/* The rounding of a column whose values have this range; of groups only the scale. A scale of 0 has no sign. */
static inline rounding_rule column_rounding(const pf_gemm_layout *l, const range_of_values *range)
{
    const float low = range_low(range), high = range_high(range), magnitude = -low >= high ? -low : high;
    rounding_rule r = { .head = { .zero = l->bits == 8 ? 128 : 8, .multiplier = 1 } };
    if (l->in_groups)
        r.scale = magnitude < 0x1p-100f ? 0.0f : magnitude / 120.0f;
    else if (l->bits == 8)
        r.scale = magnitude / 127.0f;
    else if (!l->has_zeros)
        r.scale = (-low >= high ? low : high) / -8.0f;
    else
        r.scale = high / 15.0f - low / 15.0f;
    r.scale += 0.0f;
    if (l->has_zeros && !l->in_groups) r.head.zero = r.scale > 0.0f ? nearest(clamp(-low / r.scale, 0.0f, 15.0f)) : 0;
    return r;
}

/* That of a group of n values, all that there are in it, of a column of this scale. */
static inline rounding_rule group_rounding(const pf_gemm_layout *l, float scale, const float *values, size_t n)
{
    if (scale == 0.0f) return (rounding_rule){ .head = { .zero = l->has_zeros ? 0 : 8 } };
    range_of_values range = { 0 };
    range_add(&range, values, n);
    const float low = range_low(&range), high = range_high(&range), largest = -low >= high ? -low : high;
    const float wanted = l->has_zeros ? (high / scale - low / scale) / 15.0f : largest / scale / 8.0f;
    pf_gemm_head head = { .zero = -low >= high ? 8 : 7, .multiplier = nearest(clamp(wanted, 1.0f, 15.0f)) };
    if (l->has_zeros) {
        const int32_t z = nearest(clamp(-low / ((float)head.multiplier * scale), 0.0f, 15.0f));
        const int32_t most = pf_gemm_largest_multiplier(z);
        head = (pf_gemm_head){ .zero = z, .multiplier = head.multiplier < most ? head.multiplier : most };
    }
    return (rounding_rule){ .scale = scale, .head = head, .factor = 1.0f / ((float)head.multiplier * scale) };
}

/* n values to stored bytes: q + 128, or q; and the zeros behind them, up to a whole block. */
static inline void round_values(const pf_gemm_layout *l, const rounding_rule *rounding, const float *values,
                                uint8_t *stored, size_t n)
{
    const int32_t zero = rounding->head.zero, low = l->bits == 8 ? 1 : 0, high = l->bits == 8 ? 255 : 15;
    const float scale = rounding->scale, factor = rounding->factor;
    if (scale == 0.0f) {
        memset(stored, zero, n);
        return;
    }
    for (size_t begin = 0; begin < n; begin += BLOCK)
        for (size_t i = begin; i < begin + BLOCK; i++) {
            const float steps = l->in_groups ? values[i] * factor : values[i] / scale;
            const int32_t q = nearest(clamp(steps, -256.0f, 256.0f)) + zero, at_least = q < low ? low : q;
            stored[i] = (uint8_t)(at_least > high ? high : at_least);
        }
}

#endif
