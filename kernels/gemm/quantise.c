/*
 * Rounding of weights to integers: the definition. Loops that a compiler turns into vectors: no branch, and maxima of
 * floats are found as maxima of integers, which may be taken in any order.
 */
#include "kernels/gemm/quantise.h"

#include <float.h>

enum { STRETCH = 128 };

static int32_t bits_of(float f)
{
    int32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static float from_bits(int32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Bits of a float to an integer of the same order, and back. */
static int32_t ordered(int32_t bits)
{
    return bits ^ (bits >> 31 & 0x7FFFFFFF);
}

void pf_gemm_load_finite(float *out, const unsigned char *row, pf_type type, size_t k, size_t n)
{
    row += k * pf_type_bytes(type);
    if (type == PF_TYPE_F32) {
        memcpy(out, row, n * sizeof *out);
    } else {
        for (size_t i = 0; i < n; i++) {
            uint16_t h;
            memcpy(&h, row + i * sizeof h, sizeof h);
            out[i] = type == PF_TYPE_BF16 ? pf_bf16_to_f32(h) : pf_f16_to_f32(h);
        }
    }
    for (size_t i = 0; i < n; i++) {
        float f = out[i];
        f = f != f ? 0.0f : f;
        f = f > FLT_MAX ? FLT_MAX : f;
        out[i] = f < -FLT_MAX ? -FLT_MAX : f;
    }
}

void pf_gemm_range_add(pf_gemm_range *range, const float *values, size_t n)
{
    int32_t low = range->low, high = range->high, magnitude = 0, first = INT32_MAX;
    for (size_t i = 0; i < n; i++) {
        const int32_t bits = bits_of(values[i]), size = bits & 0x7FFFFFFF, value = ordered(bits);
        low = value < low ? value : low;
        high = value > high ? value : high;
        magnitude = size > magnitude ? size : magnitude;
    }
    range->low = low;
    range->high = high;
    if (magnitude <= range->magnitude) return;
    for (int32_t i = 0; i < (int32_t)n; i++) {
        const int32_t at = (bits_of(values[i]) & 0x7FFFFFFF) == magnitude ? i : INT32_MAX;
        first = at < first ? at : first;
    }
    range->magnitude = magnitude;
    range->negative = values[first] < 0.0f;
}

/* To nearest, ties to even, for |x| < 2^22: what is left of x beside 1.5 * 2^23 is an integer. */
static int32_t nearest(float x)
{
    return bits_of(x + 0x1.8p23f) - bits_of(0x1.8p23f);
}

static float clamp(float x, float low, float high)
{
    x = x < low ? low : x;
    return x > high ? high : x;
}

/* A scale as it will be stored; 0 without its sign. */
static float stored_scale(const pf_gemm_layout *l, float scale)
{
    if (l->scale_size == 2) scale = pf_f16_to_f32(pf_f16_from_f32(clamp(scale, -65504.0f, 65504.0f)));
    return scale + 0.0f;
}

pf_gemm_rounding pf_gemm_rounding_of(const pf_gemm_layout *l, const pf_gemm_range *range)
{
    const float magnitude = from_bits(range->magnitude);
    if (l->bits == 8) return (pf_gemm_rounding){ .scale = magnitude / 127.0f, .zero = 128 };
    if (!l->has_zeros) {
        const float scale = (range->negative ? -magnitude : magnitude) / -8.0f;
        return (pf_gemm_rounding){ .scale = stored_scale(l, scale), .zero = 8 };
    }
    const float low = from_bits(ordered(range->low)), high = from_bits(ordered(range->high));
    pf_gemm_rounding r = { .scale = stored_scale(l, high / 15.0f - low / 15.0f) };
    if (r.scale > 0.0f) r.zero = nearest(clamp(-low / r.scale, 0.0f, 15.0f));
    return r;
}

void pf_gemm_round(const pf_gemm_layout *l, const pf_gemm_rounding *rounding, const float *values, uint8_t *stored,
                   size_t n)
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

/* Stored bytes to the form of a file: int8, or two nibbles a byte. `q` at value k, which is even. */
static void put_integers(uint8_t *q, int32_t bits, const uint8_t *stored, size_t n)
{
    if (bits == 8)
        for (size_t i = 0; i < n; i++) q[i] = (uint8_t)(stored[i] ^ 0x80);
    else
        for (size_t i = 0; i < n; i += 2) q[i / 2] = (uint8_t)(stored[i] | (i + 1 < n ? stored[i + 1] << 4 : 0));
}

void pf_gemm_quantise_row(pf_format format, const void *row, pf_type type, int32_t k, void *q, void *scales,
                          uint8_t *zeros)
{
    const pf_gemm_layout l = pf_gemm_layout_of(format, k);
    float values[STRETCH];
    uint8_t stored[STRETCH];
    for (int32_t g = 0; g < l.n_groups; g++) {
        const size_t begin = (size_t)g * (size_t)l.group, left = (size_t)k - begin;
        const size_t end = begin + (left < (size_t)l.group ? left : (size_t)l.group);
        pf_gemm_range range = { 0 };
        for (size_t i = begin; i < end; i += STRETCH) {
            const size_t n = end - i < STRETCH ? end - i : STRETCH;
            pf_gemm_load_finite(values, row, type, i, n);
            pf_gemm_range_add(&range, values, n);
        }
        const pf_gemm_rounding rounding = pf_gemm_rounding_of(&l, &range);
        pf_gemm_store_scale(&l, scales, (size_t)g, rounding.scale);
        if (l.has_zeros) zeros[g] = (uint8_t)rounding.zero;
        for (size_t i = begin; i < end; i += STRETCH) {
            const size_t n = end - i < STRETCH ? end - i : STRETCH;
            pf_gemm_load_finite(values, row, type, i, n);
            pf_gemm_round(&l, &rounding, values, stored, n);
            put_integers((uint8_t *)q + i * (size_t)l.bits / 8, l.bits, stored, n);
        }
    }
}
