/*
 * Reads the bit fields of GGUF blocks: what their conversion to F32 (ggml_blocks.c) and to groups (ggml_groups.c) share. Internal to
 * model/files.
 */
#ifndef PF_MODEL_GGML_BLOCK_BITS_H
#define PF_MODEL_GGML_BLOCK_BITS_H

#include <stdint.h>
#include <string.h>

#include "kernels/types.h"

enum { PF_GGML_SMALL = 32, PF_GGML_LARGE = 256 }; /* elements of a block */

static inline uint16_t pf_ggml_read_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline float pf_ggml_read_f16(const uint8_t *p)
{
    return pf_f16_to_f32(pf_ggml_read_u16(p));
}

static inline float pf_ggml_read_f32(const uint8_t *p)
{
    float value;
    memcpy(&value, p, sizeof value);
    return value;
}

static inline int32_t pf_ggml_nibble(const uint8_t *q, int32_t i)
{
    return i < PF_GGML_SMALL / 2 ? q[i] & 15 : q[i - PF_GGML_SMALL / 2] >> 4;
}

/* The nibble with bit i of `high` above it. */
static inline int32_t pf_ggml_five_bits(const uint8_t *q, const uint8_t *high, int32_t i)
{
    return pf_ggml_nibble(q, i) | (high[i / 8] >> (i % 8) & 1) << 4;
}

static const int8_t PF_GGML_NONLINEAR[16] = {
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113
};

/* Half of 2^(e - 127), e from 0 to 255, as the table has twice the values of E2M1.
 * Source: OCP Microscaling Formats (MX) Specification 1.0, sections 5.3.3 and 5.4.1. */
static inline float pf_ggml_half_of_e8m0(uint8_t e)
{
    const uint32_t bits = e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Two bits: 32 bytes have elements i, i + 32, i + 64, i + 96 of each half. */
static inline int32_t pf_ggml_two_bits(const uint8_t *q, int32_t i)
{
    return q[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}

/* Four bits: 32 bytes have elements i and i + 32 of each quarter. */
static inline int32_t pf_ggml_four_bits(const uint8_t *q, int32_t i)
{
    return q[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4) & 15;
}

/* One bit: 32 bytes have the bits of elements i, i + 32, ... */
static inline int32_t pf_ggml_one_bit(const uint8_t *q, int32_t i)
{
    return q[i % 32] >> (i / 32) & 1;
}

/* The six-bit scale g of 16: a nibble of 8 bytes and two bits of 4 more. */
static inline int32_t pf_ggml_q3_k_scale(const uint8_t *p, int32_t g)
{
    return (p[g % 8] >> (g / 8 * 4) & 15) | (p[8 + g % 4] >> (g / 4 * 2) & 3) << 4;
}

/* The six-bit scale and minimum g of 8, in 12 bytes: those below 4 whole, the high bits of the others above them. */
static inline void pf_ggml_q4_k_scales(const uint8_t *p, int32_t g, int32_t *s, int32_t *t)
{
    if (g < 4) {
        *s = p[g] & 63;
        *t = p[4 + g] & 63;
        return;
    }
    *s = (p[4 + g] & 15) | p[g - 4] >> 6 << 4;
    *t = p[4 + g] >> 4 | p[g] >> 6 << 4;
}

/* The six-bit value i of Q6_K, less 32: four bits and two bits above them. */
static inline int32_t pf_ggml_q6_k_value(const uint8_t *p, int32_t i)
{
    const int32_t low = p[i / 128 * 64 + i % 64] >> (i % 128 / 64 * 4) & 15;
    return (low | pf_ggml_two_bits(p + 128, i) << 4) - 32;
}

/* The six-bit scale g of 8 of IQ4_XS. */
static inline int32_t pf_ggml_iq4_xs_scale(const uint8_t *p, int32_t g)
{
    return (p[4 + g / 2] >> (g % 2 * 4) & 15) | (pf_ggml_read_u16(p + 2) >> (2 * g) & 3) << 4;
}

/* Twice the values of E2M1. */
static const int8_t PF_GGML_E2M1[16] = { 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12 };

#endif
