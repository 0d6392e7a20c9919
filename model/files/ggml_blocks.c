#include "model/files/ggml_blocks.h"

#include <assert.h>
#include <stdint.h>

#include "model/files/ggml_block_bits.h"

/* ---- blocks of one element ---- */

static void f32(const uint8_t *p, float *out)
{
    *out = pf_ggml_read_f32(p);
}

static void f16(const uint8_t *p, float *out)
{
    *out = pf_ggml_read_f16(p);
}

static void bf16(const uint8_t *p, float *out)
{
    *out = pf_bf16_to_f32(pf_ggml_read_u16(p));
}

/* ---- blocks of 32: the low nibbles are the first half ---- */

static void q4_0(const uint8_t *p, float *out) /* d | 16 bytes of q */
{
    const float d = pf_ggml_read_f16(p);
    for (int32_t i = 0; i < PF_GGML_SMALL; i++) out[i] = d * (float)(pf_ggml_nibble(p + 2, i) - 8);
}

static void q4_1(const uint8_t *p, float *out) /* d | m | 16 bytes of q */
{
    const float d = pf_ggml_read_f16(p), m = pf_ggml_read_f16(p + 2);
    for (int32_t i = 0; i < PF_GGML_SMALL; i++) out[i] = d * (float)pf_ggml_nibble(p + 4, i) + m;
}

static void q5_0(const uint8_t *p, float *out) /* d | 4 bytes of high bits | 16 bytes of q */
{
    const float d = pf_ggml_read_f16(p);
    for (int32_t i = 0; i < PF_GGML_SMALL; i++) out[i] = d * (float)(pf_ggml_five_bits(p + 6, p + 2, i) - 16);
}

static void q5_1(const uint8_t *p, float *out) /* d | m | 4 bytes of high bits | 16 bytes of q */
{
    const float d = pf_ggml_read_f16(p), m = pf_ggml_read_f16(p + 2);
    for (int32_t i = 0; i < PF_GGML_SMALL; i++) out[i] = d * (float)pf_ggml_five_bits(p + 8, p + 4, i) + m;
}

static void q8_0(const uint8_t *p, float *out) /* d | 32 bytes of q */
{
    const float d = pf_ggml_read_f16(p);
    for (int32_t i = 0; i < PF_GGML_SMALL; i++) out[i] = d * (float)(int8_t)p[2 + i];
}

static void iq4_nl(const uint8_t *p, float *out) /* d | 16 bytes of q */
{
    const float d = pf_ggml_read_f16(p);
    for (int32_t i = 0; i < PF_GGML_SMALL; i++) out[i] = d * (float)PF_GGML_NONLINEAR[pf_ggml_nibble(p + 2, i)];
}

static void mxfp4(const uint8_t *p, float *out) /* e | 16 bytes of q */
{
    const float d = pf_ggml_half_of_e8m0(p[0]);
    for (int32_t i = 0; i < PF_GGML_SMALL; i++) out[i] = d * (float)PF_GGML_E2M1[pf_ggml_nibble(p + 1, i)];
}

/* ---- blocks of 256 ---- */

static void q2_k(const uint8_t *p, float *out) /* 16 scales s | t << 4 | 64 bytes of q | d | m */
{
    const float d = pf_ggml_read_f16(p + 80), m = pf_ggml_read_f16(p + 82);
    for (int32_t i = 0; i < PF_GGML_LARGE; i++) {
        const uint8_t scales = p[i / 16];
        out[i] = d * (float)(scales & 15) * (float)pf_ggml_two_bits(p + 16, i) - m * (float)(scales >> 4);
    }
}

static void q3_k(const uint8_t *p, float *out) /* 32 bytes of high bits | 64 bytes of q | 12 bytes of scales | d */
{
    const float d = pf_ggml_read_f16(p + 108);
    for (int32_t i = 0; i < PF_GGML_LARGE; i++) {
        const int32_t q = pf_ggml_two_bits(p + 32, i) - (pf_ggml_one_bit(p, i) ? 0 : 4);
        out[i] = d * (float)(pf_ggml_q3_k_scale(p + 96, i / 16) - 32) * (float)q;
    }
}

/* d | m | 12 bytes of scales | high bits, if any | 128 bytes of q */
static void q4_or_5_k(const uint8_t *p, const uint8_t *high, const uint8_t *q, float *out)
{
    const float d = pf_ggml_read_f16(p), m = pf_ggml_read_f16(p + 2);
    for (int32_t g = 0; g < PF_GGML_LARGE / 32; g++) {
        int32_t s, t;
        pf_ggml_q4_k_scales(p + 4, g, &s, &t);
        const float scale = d * (float)s, least = m * (float)t;
        for (int32_t i = 32 * g; i < 32 * g + 32; i++)
            out[i] =
                scale * (float)(pf_ggml_four_bits(q, i) | (high != NULL ? pf_ggml_one_bit(high, i) << 4 : 0)) - least;
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
    const float d = pf_ggml_read_f16(p + 208);
    for (int32_t i = 0; i < PF_GGML_LARGE; i++) {
        out[i] = d * (float)(int8_t)p[192 + i / 16] * (float)pf_ggml_q6_k_value(p, i);
    }
}

static void q8_k(const uint8_t *p, float *out) /* d in F32 | 256 bytes of q | sums, which are not needed */
{
    const float d = pf_ggml_read_f32(p);
    for (int32_t i = 0; i < PF_GGML_LARGE; i++) out[i] = d * (float)(int8_t)p[4 + i];
}

static void iq4_xs(const uint8_t *p, float *out) /* d | high bits of scales | 4 bytes of low bits | 128 bytes of q */
{
    const float d = pf_ggml_read_f16(p);
    for (int32_t g = 0; g < PF_GGML_LARGE / PF_GGML_SMALL; g++) {
        const float scale = d * (float)(pf_ggml_iq4_xs_scale(p, g) - 32);
        const uint8_t *q = p + 8 + g * (PF_GGML_SMALL / 2);
        for (int32_t i = 0; i < PF_GGML_SMALL; i++)
            out[g * PF_GGML_SMALL + i] = scale * (float)PF_GGML_NONLINEAR[pf_ggml_nibble(q, i)];
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
