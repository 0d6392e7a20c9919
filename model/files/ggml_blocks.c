#include "model/files/ggml_blocks.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "kernels/types.h"

enum { SMALL = 32, LARGE = 256 }; /* elements of a block */

static uint16_t read_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static float read_f16(const uint8_t *p)
{
    return pf_f16_to_f32(read_u16(p));
}

static float read_f32(const uint8_t *p)
{
    float value;
    memcpy(&value, p, sizeof value);
    return value;
}

/* ---- blocks of one element ---- */

static void f32(const uint8_t *p, float *out)
{
    *out = read_f32(p);
}

static void f16(const uint8_t *p, float *out)
{
    *out = read_f16(p);
}

static void bf16(const uint8_t *p, float *out)
{
    *out = pf_bf16_to_f32(read_u16(p));
}

/* ---- blocks of 32: the low nibbles are the first half ---- */

static int32_t nibble(const uint8_t *q, int32_t i)
{
    return i < SMALL / 2 ? q[i] & 15 : q[i - SMALL / 2] >> 4;
}

/* The nibble with bit i of `high` above it. */
static int32_t five_bits(const uint8_t *q, const uint8_t *high, int32_t i)
{
    return nibble(q, i) | (high[i / 8] >> (i % 8) & 1) << 4;
}

static void q4_0(const uint8_t *p, float *out) /* d | 16 bytes of q */
{
    const float d = read_f16(p);
    for (int32_t i = 0; i < SMALL; i++) out[i] = d * (float)(nibble(p + 2, i) - 8);
}

static void q4_1(const uint8_t *p, float *out) /* d | m | 16 bytes of q */
{
    const float d = read_f16(p), m = read_f16(p + 2);
    for (int32_t i = 0; i < SMALL; i++) out[i] = d * (float)nibble(p + 4, i) + m;
}

static void q5_0(const uint8_t *p, float *out) /* d | 4 bytes of high bits | 16 bytes of q */
{
    const float d = read_f16(p);
    for (int32_t i = 0; i < SMALL; i++) out[i] = d * (float)(five_bits(p + 6, p + 2, i) - 16);
}

static void q5_1(const uint8_t *p, float *out) /* d | m | 4 bytes of high bits | 16 bytes of q */
{
    const float d = read_f16(p), m = read_f16(p + 2);
    for (int32_t i = 0; i < SMALL; i++) out[i] = d * (float)five_bits(p + 8, p + 4, i) + m;
}

static void q8_0(const uint8_t *p, float *out) /* d | 32 bytes of q */
{
    const float d = read_f16(p);
    for (int32_t i = 0; i < SMALL; i++) out[i] = d * (float)(int8_t)p[2 + i];
}

static const int8_t NONLINEAR[16] = { -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113 };

static void iq4_nl(const uint8_t *p, float *out) /* d | 16 bytes of q */
{
    const float d = read_f16(p);
    for (int32_t i = 0; i < SMALL; i++) out[i] = d * (float)NONLINEAR[nibble(p + 2, i)];
}

/* Half of 2^(e - 127), e from 0 to 255, as the table has twice the values of E2M1.
 * Source: OCP Microscaling Formats (MX) Specification 1.0, sections 5.3.3 and 5.4.1. */
static float half_of_e8m0(uint8_t e)
{
    const uint32_t bits = e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void mxfp4(const uint8_t *p, float *out) /* e | 16 bytes of q */
{
    static const int8_t e2m1[16] = { 0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12 };
    const float d = half_of_e8m0(p[0]);
    for (int32_t i = 0; i < SMALL; i++) out[i] = d * (float)e2m1[nibble(p + 1, i)];
}

/* ---- blocks of 256 ---- */

/* Two bits: 32 bytes have elements i, i + 32, i + 64, i + 96 of each half. */
static int32_t two_bits(const uint8_t *q, int32_t i)
{
    return q[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
}

/* Four bits: 32 bytes have elements i and i + 32 of each quarter. */
static int32_t four_bits(const uint8_t *q, int32_t i)
{
    return q[i / 64 * 32 + i % 32] >> (i % 64 / 32 * 4) & 15;
}

/* One bit: 32 bytes have the bits of elements i, i + 32, ... */
static int32_t one_bit(const uint8_t *q, int32_t i)
{
    return q[i % 32] >> (i / 32) & 1;
}

static void q2_k(const uint8_t *p, float *out) /* 16 scales s | t << 4 | 64 bytes of q | d | m */
{
    const float d = read_f16(p + 80), m = read_f16(p + 82);
    for (int32_t i = 0; i < LARGE; i++) {
        const uint8_t scales = p[i / 16];
        out[i] = d * (float)(scales & 15) * (float)two_bits(p + 16, i) - m * (float)(scales >> 4);
    }
}

/* The six-bit scale g of 16: a nibble of 8 bytes and two bits of 4 more. */
static int32_t q3_k_scale(const uint8_t *p, int32_t g)
{
    return (p[g % 8] >> (g / 8 * 4) & 15) | (p[8 + g % 4] >> (g / 4 * 2) & 3) << 4;
}

static void q3_k(const uint8_t *p, float *out) /* 32 bytes of high bits | 64 bytes of q | 12 bytes of scales | d */
{
    const float d = read_f16(p + 108);
    for (int32_t i = 0; i < LARGE; i++) {
        const int32_t q = two_bits(p + 32, i) - (one_bit(p, i) ? 0 : 4);
        out[i] = d * (float)(q3_k_scale(p + 96, i / 16) - 32) * (float)q;
    }
}

/* The six-bit scale and minimum g of 8, in 12 bytes: those below 4 whole, the high bits of the others above them. */
static void q4_k_scales(const uint8_t *p, int32_t g, int32_t *s, int32_t *t)
{
    if (g < 4) {
        *s = p[g] & 63;
        *t = p[4 + g] & 63;
        return;
    }
    *s = (p[4 + g] & 15) | p[g - 4] >> 6 << 4;
    *t = p[4 + g] >> 4 | p[g] >> 6 << 4;
}

/* d | m | 12 bytes of scales | high bits, if any | 128 bytes of q */
static void q4_or_5_k(const uint8_t *p, const uint8_t *high, const uint8_t *q, float *out)
{
    const float d = read_f16(p), m = read_f16(p + 2);
    for (int32_t g = 0; g < LARGE / 32; g++) {
        int32_t s, t;
        q4_k_scales(p + 4, g, &s, &t);
        const float scale = d * (float)s, least = m * (float)t;
        for (int32_t i = 32 * g; i < 32 * g + 32; i++)
            out[i] = scale * (float)(four_bits(q, i) | (high != NULL ? one_bit(high, i) << 4 : 0)) - least;
    }
}

static void q4_k(const uint8_t *p, float *out)
{
    q4_or_5_k(p, NULL, p + 16, out);
}

static void q5_k(const uint8_t *p, float *out)
{
    q4_or_5_k(p, p + 16, p + 48, out);
}

static void q6_k(const uint8_t *p, float *out) /* 128 bytes of low bits | 64 bytes of high bits | 16 scales | d */
{
    const float d = read_f16(p + 208);
    for (int32_t i = 0; i < LARGE; i++) {
        const int32_t low = p[i / 128 * 64 + i % 64] >> (i % 128 / 64 * 4) & 15;
        const int32_t q = (low | two_bits(p + 128, i) << 4) - 32;
        out[i] = d * (float)(int8_t)p[192 + i / 16] * (float)q;
    }
}

static void q8_k(const uint8_t *p, float *out) /* d in F32 | 256 bytes of q | sums, which are not needed */
{
    const float d = read_f32(p);
    for (int32_t i = 0; i < LARGE; i++) out[i] = d * (float)(int8_t)p[4 + i];
}

static void iq4_xs(const uint8_t *p, float *out) /* d | high bits of scales | 4 bytes of low bits | 128 bytes of q */
{
    const float d = read_f16(p);
    const uint16_t high = read_u16(p + 2);
    for (int32_t g = 0; g < LARGE / SMALL; g++) {
        const int32_t s = (p[4 + g / 2] >> (g % 2 * 4) & 15) | (high >> (2 * g) & 3) << 4;
        const float scale = d * (float)(s - 32);
        const uint8_t *q = p + 8 + g * (SMALL / 2);
        for (int32_t i = 0; i < SMALL; i++) out[g * SMALL + i] = scale * (float)NONLINEAR[nibble(q, i)];
    }
}

/* Reads one block of a type. */
typedef void block_fn(const uint8_t *p, float *out);

static block_fn *const READERS[PF_N_GGML_TYPES] = {
    [PF_GGML_F32] = f32,     [PF_GGML_F16] = f16,   [PF_GGML_BF16] = bf16,     [PF_GGML_Q4_0] = q4_0,
    [PF_GGML_Q4_1] = q4_1,   [PF_GGML_Q5_0] = q5_0, [PF_GGML_Q5_1] = q5_1,     [PF_GGML_Q8_0] = q8_0,
    [PF_GGML_Q2_K] = q2_k,   [PF_GGML_Q3_K] = q3_k, [PF_GGML_Q4_K] = q4_k,     [PF_GGML_Q5_K] = q5_k,
    [PF_GGML_Q6_K] = q6_k,   [PF_GGML_Q8_K] = q8_k, [PF_GGML_IQ4_NL] = iq4_nl, [PF_GGML_IQ4_XS] = iq4_xs,
    [PF_GGML_MXFP4] = mxfp4,
};

bool pf_ggml_is_readable(pf_ggml_type type)
{
    return (unsigned)type < PF_N_GGML_TYPES && READERS[type] != NULL;
}

void pf_ggml_to_f32(pf_ggml_type type, const void *blocks, size_t n, float *out)
{
    const pf_ggml_type_info *info = pf_ggml_type_get(type);
    assert(pf_ggml_is_readable(type) && n % (size_t)info->block_elements == 0);
    const uint8_t *p = blocks;
    for (size_t i = 0; i < n; i += (size_t)info->block_elements, p += info->block_bytes) READERS[type](p, out + i);
}
