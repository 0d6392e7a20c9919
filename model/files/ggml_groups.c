/* GGUF blocks as groups: q, scales and minima of a block, as ggml_blocks.h writes its formula. */
#include <assert.h>
#include <stddef.h>

#include "model/files/exact_groups.h"
#include "model/files/ggml_block_bits.h"

enum { S = PF_GGML_SMALL, L = PF_GGML_LARGE };

/* ---- blocks of 32; `q` is the block's part of the piece, g its group ---- */

typedef void small_fn(const uint8_t *p, int8_t *q, float *scale, float *offset);

/* Every function has the type small_fn; not all have an offset to write. NOLINTBEGIN(readability-non-const-parameter) */
static void q4_0(const uint8_t *p, int8_t *q, float *scale, float *offset)
{
    (void)offset;
    *scale = pf_ggml_read_f16(p);
    for (int32_t i = 0; i < S; i++) q[i] = (int8_t)pf_ggml_nibble(p + 2, i);
}

static void q4_1(const uint8_t *p, int8_t *q, float *scale, float *offset)
{
    *scale = pf_ggml_read_f16(p);
    *offset = pf_ggml_read_f16(p + 2);
    for (int32_t i = 0; i < S; i++) q[i] = (int8_t)pf_ggml_nibble(p + 4, i);
}

static void q5_0(const uint8_t *p, int8_t *q, float *scale, float *offset)
{
    (void)offset;
    *scale = pf_ggml_read_f16(p);
    for (int32_t i = 0; i < S; i++) q[i] = (int8_t)(pf_ggml_five_bits(p + 6, p + 2, i) - 16);
}

static void q5_1(const uint8_t *p, int8_t *q, float *scale, float *offset)
{
    *scale = pf_ggml_read_f16(p);
    *offset = pf_ggml_read_f16(p + 2);
    for (int32_t i = 0; i < S; i++) q[i] = (int8_t)pf_ggml_five_bits(p + 8, p + 4, i);
}

static void q8_0(const uint8_t *p, int8_t *q, float *scale, float *offset)
{
    (void)offset;
    *scale = pf_ggml_read_f16(p);
    memcpy(q, p + 2, S);
}

static void iq4_nl(const uint8_t *p, int8_t *q, float *scale, float *offset)
{
    (void)offset;
    *scale = pf_ggml_read_f16(p);
    for (int32_t i = 0; i < S; i++) q[i] = PF_GGML_NONLINEAR[pf_ggml_nibble(p + 2, i)];
}

static void mxfp4(const uint8_t *p, int8_t *q, float *scale, float *offset)
{
    (void)offset;
    *scale = pf_ggml_half_of_e8m0(p[0]);
    for (int32_t i = 0; i < S; i++) q[i] = PF_GGML_E2M1[pf_ggml_nibble(p + 1, i)];
}

/* NOLINTEND(readability-non-const-parameter) */

/* ---- blocks of 256: a piece ---- */

typedef void large_fn(const uint8_t *p, pf_group_piece *out);

static void q2_k(const uint8_t *p, pf_group_piece *out)
{
    out->super_scale = pf_ggml_read_f16(p + 80);
    out->super_offset = pf_ggml_read_f16(p + 82);
    for (int32_t g = 0; g < L / 16; g++) {
        out->scale[g] = (float)(p[g] & 15);
        out->offset[g] = (float)(p[g] >> 4);
    }
    for (int32_t i = 0; i < L; i++) out->q[i] = (int8_t)pf_ggml_two_bits(p + 16, i);
}

/* q is -4 .. 3, and a nibble counts from -8. */
static void q3_k(const uint8_t *p, pf_group_piece *out)
{
    out->super_scale = pf_ggml_read_f16(p + 108);
    for (int32_t g = 0; g < L / 16; g++) out->scale[g] = (float)(pf_ggml_q3_k_scale(p + 96, g) - 32);
    for (int32_t i = 0; i < L; i++) out->q[i] = (int8_t)(pf_ggml_two_bits(p + 32, i) + (pf_ggml_one_bit(p, i) ? 8 : 4));
}

static void q4_or_5_k(const uint8_t *p, const uint8_t *high, const uint8_t *q, pf_group_piece *out)
{
    out->super_scale = pf_ggml_read_f16(p);
    out->super_offset = pf_ggml_read_f16(p + 2);
    for (int32_t g = 0; g < L / 32; g++) {
        int32_t s, t;
        pf_ggml_q4_k_scales(p + 4, g, &s, &t);
        out->scale[g] = (float)s;
        out->offset[g] = (float)t;
    }
    for (int32_t i = 0; i < L; i++)
        out->q[i] = (int8_t)(pf_ggml_four_bits(q, i) | (high != NULL ? pf_ggml_one_bit(high, i) << 4 : 0));
}

static void q4_k(const uint8_t *p, pf_group_piece *out)
{
    q4_or_5_k(p, NULL, p + 16, out);
}

static void q5_k(const uint8_t *p, pf_group_piece *out)
{
    q4_or_5_k(p, p + 16, p + 48, out);
}

static void q6_k(const uint8_t *p, pf_group_piece *out)
{
    out->super_scale = pf_ggml_read_f16(p + 208);
    for (int32_t g = 0; g < L / 16; g++) out->scale[g] = (float)(int8_t)p[192 + g];
    for (int32_t i = 0; i < L; i++) out->q[i] = (int8_t)(pf_ggml_q6_k_value(p, i));
}

static void q8_k(const uint8_t *p, pf_group_piece *out)
{
    out->scale[0] = pf_ggml_read_f32(p);
    memcpy(out->q, p + 4, L);
}

static void iq4_xs(const uint8_t *p, pf_group_piece *out)
{
    out->super_scale = pf_ggml_read_f16(p);
    for (int32_t g = 0; g < L / S; g++) {
        out->scale[g] = (float)(pf_ggml_iq4_xs_scale(p, g) - 32);
        for (int32_t i = 0; i < S; i++) out->q[g * S + i] = PF_GGML_NONLINEAR[pf_ggml_nibble(p + 8 + g * (S / 2), i)];
    }
}

/* ---- rows ---- */

static small_fn *const SMALL_READERS[PF_N_GGML_TYPES] = {
    [PF_GGML_Q4_0] = q4_0, [PF_GGML_Q4_1] = q4_1,     [PF_GGML_Q5_0] = q5_0,   [PF_GGML_Q5_1] = q5_1,
    [PF_GGML_Q8_0] = q8_0, [PF_GGML_IQ4_NL] = iq4_nl, [PF_GGML_MXFP4] = mxfp4,
};
static large_fn *const LARGE_READERS[PF_N_GGML_TYPES] = {
    [PF_GGML_Q2_K] = q2_k, [PF_GGML_Q3_K] = q3_k, [PF_GGML_Q4_K] = q4_k,     [PF_GGML_Q5_K] = q5_k,
    [PF_GGML_Q6_K] = q6_k, [PF_GGML_Q8_K] = q8_k, [PF_GGML_IQ4_XS] = iq4_xs,
};

/* Rows are whole blocks (gguf.c). */
static void fill(const pf_tensor *tensor, int64_t row, int32_t k, int32_t n, pf_group_piece *out)
{
    const pf_ggml_type_info *info = pf_ggml_type_get(tensor->blocks);
    const size_t columns = (size_t)tensor->shape[tensor->n_dimensions - 1];
    const size_t first = ((size_t)row * columns + (size_t)k) / (size_t)info->block_elements;
    const uint8_t *p = tensor->data + first * (size_t)info->block_bytes;
    if (LARGE_READERS[tensor->blocks] != NULL) {
        LARGE_READERS[tensor->blocks](p, out);
        return;
    }
    for (int32_t g = 0; g * S < n; g++, p += info->block_bytes)
        SMALL_READERS[tensor->blocks](p, out->q + g * S, &out->scale[g], &out->offset[g]);
}

#define GROUPS(BITS, GROUP, SCALES, OFFSET)                                                                 \
    {                                                                                                       \
        .format = { BITS, GROUP, PF_GROUP_SCALES_##SCALES, PF_GROUP_##OFFSET }, .fill = fill, .state = NULL \
    }

const pf_exact_groups *pf_exact_groups_of_blocks(pf_ggml_type type)
{
    static const pf_exact_groups groups[PF_N_GGML_TYPES] = {
        [PF_GGML_Q4_0] = GROUPS(4, 32, F16, SYMMETRIC),     [PF_GGML_Q4_1] = GROUPS(4, 32, F16, MINIMUM),
        [PF_GGML_Q5_0] = GROUPS(8, 32, F16, SYMMETRIC),     [PF_GGML_Q5_1] = GROUPS(8, 32, F16, MINIMUM),
        [PF_GGML_Q8_0] = GROUPS(8, 32, F16, SYMMETRIC),     [PF_GGML_Q2_K] = GROUPS(4, 16, SUPER, MINIMUM),
        [PF_GGML_Q3_K] = GROUPS(4, 16, SUPER, SYMMETRIC),   [PF_GGML_Q4_K] = GROUPS(4, 32, SUPER, MINIMUM),
        [PF_GGML_Q5_K] = GROUPS(8, 32, SUPER, MINIMUM),     [PF_GGML_Q6_K] = GROUPS(8, 16, SUPER, SYMMETRIC),
        [PF_GGML_Q8_K] = GROUPS(8, 256, F32, SYMMETRIC),    [PF_GGML_IQ4_NL] = GROUPS(8, 32, F16, SYMMETRIC),
        [PF_GGML_IQ4_XS] = GROUPS(8, 32, SUPER, SYMMETRIC), [PF_GGML_MXFP4] = GROUPS(8, 32, BF16, SYMMETRIC),
    };
    return (unsigned)type < PF_N_GGML_TYPES && groups[type].fill != NULL ? &groups[type] : NULL;
}
