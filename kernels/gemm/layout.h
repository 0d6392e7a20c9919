/*
 * Where things lie in a panel of an integer format: what packing, the definitions and the kernels share. Internal.
 *
 *   panel   [n_groups] of group_bytes:   | scales | zeros | weights: [group_steps] of step_bytes |
 *           0                            0        zeros_at  head_bytes                          group_bytes
 *
 * A format with one scale a column has one group, of all K. Weights of a step: 4 values of k for 32 columns.
 */
#ifndef PF_KERNELS_GEMM_LAYOUT_H
#define PF_KERNELS_GEMM_LAYOUT_H

#include "kernels/gemm/gemm.h"

typedef struct {
    int32_t bits;       /* 8 or 4 */
    int32_t group;      /* values of k; those of the last that do not exist are filled */
    int32_t n_groups;   /* of a panel */
    int32_t scale_size; /* bytes of a scale: 2 (f16) or 4 (f32) */
    bool has_zeros;
    size_t zeros_at;
    size_t head_bytes;
    size_t step_bytes;
    size_t group_steps;
    size_t group_bytes;
} pf_gemm_layout;

static inline pf_gemm_layout pf_gemm_layout_of(pf_format format, int32_t k)
{
    const pf_format_info *info = pf_format_get(format);
    const bool channel = info->group == 0;
    pf_gemm_layout l = { .bits = info->bits, .scale_size = channel ? 4 : 2, .has_zeros = info->has_zeros };
    l.group = channel ? (k + 3) / 4 * 4 : info->group;
    l.n_groups = (k + l.group - 1) / l.group;
    l.zeros_at = (size_t)l.scale_size * PF_GEMM_PANEL;
    l.head_bytes = l.zeros_at + (l.has_zeros ? (channel ? 64 : 32) : 0);
    l.step_bytes = l.bits == 8 ? 4 * PF_GEMM_PANEL : 2 * PF_GEMM_PANEL;
    l.group_steps = (size_t)l.group / 4;
    l.group_bytes = l.head_bytes + l.group_steps * l.step_bytes;
    return l;
}

/* The scale of column j of a group. */
static inline float pf_gemm_scale(const pf_gemm_layout *l, const uint8_t *group, int32_t j)
{
    float f;
    uint16_t h;
    if (l->scale_size == 4) {
        memcpy(&f, group + (size_t)j * sizeof f, sizeof f);
        return f;
    }
    memcpy(&h, group + (size_t)j * sizeof h, sizeof h);
    return pf_f16_to_f32(h);
}

static inline void pf_gemm_store_scale(const pf_gemm_layout *l, void *scales, size_t at, float scale)
{
    const uint16_t half = pf_f16_from_f32(scale);
    if (l->scale_size == 4)
        memcpy((uint8_t *)scales + at * sizeof scale, &scale, sizeof scale);
    else
        memcpy((uint8_t *)scales + at * sizeof half, &half, sizeof half);
}

/* What is taken from every stored value of column j: 128 in int8, 8 in int4, or z. */
static inline int32_t pf_gemm_zero(const pf_gemm_layout *l, const uint8_t *group, int32_t j)
{
    return l->bits == 8 ? 128 : l->has_zeros ? group[l->zeros_at + (size_t)j] : 8;
}

/* The stored value of column j at value i of a group: q + 128, or the nibble q. */
static inline int32_t pf_gemm_stored(const pf_gemm_layout *l, const uint8_t *group, int32_t j, size_t i)
{
    const uint8_t *step = group + l->head_bytes + i / 4 * l->step_bytes;
    if (l->bits == 8) return step[(size_t)j * 4 + i % 4];
    const uint8_t both = step[(size_t)(j % 16) * 4 + i % 4];
    return j < 16 ? both & 15 : both >> 4;
}

#endif
