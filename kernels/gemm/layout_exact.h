/*
 * Where things lie in a panel of the exact format, and in a row of its activations: what packing, the definition and the kernels
 * share. Internal.
 *
 *   panel   blocks of 32 values of k, the last filled up; before a block the heads that begin with it, each part up to 64 bytes:
 *     [ 32 F16 d | 32 F16 of the minimum ]       SUPER: before every eighth block
 *     [ 32 scales | 32 offsets ]                 before the first block of a group; before a block of two groups of 16 those of both
 *     [8 steps]                                  of four values for 32 columns, as in layout_int.h: bytes q + 128, or nibbles q
 *
 * Scales and offsets are of the matrix's type (pf_group_scales), of SUPER bytes. What fills a panel counts for nothing: columns
 * have scales and offsets of 0, values of k are multiplied with activations of 0.
 *
 *   activations   [tile] [blocks] [16 words] [rows of the tile]: 0 scale sa | 1, 2, 3 -(sum of qa) of the first 16 values, of the
 *                 others, of all | 4, 5, 6 sa * sum likewise, f32 | 7 nothing | 8 .. 15 four int8 each
 */
#ifndef PF_KERNELS_GEMM_LAYOUT_EXACT_H
#define PF_KERNELS_GEMM_LAYOUT_EXACT_H

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "kernels/gemm/gemm.h"
#include "kernels/types.h"

enum {
    PF_EXACT_BLOCK = 32,     /* values of k with one scale of activations */
    PF_EXACT_STEPS = 8,      /* of four values, a block */
    PF_EXACT_WORDS = 16,     /* of a row of activations, a block */
    PF_EXACT_VALUE_WORD = 8, /* the first with values */
};

typedef struct {
    pf_group_format groups;
    size_t n_blocks;
    size_t group_blocks; /* blocks of a group; 1 where a block has two */
    size_t units;        /* groups of a block, 2 or 1 */
    size_t number_bytes; /* of a scale or an offset */
    size_t super_bytes;  /* of a line of d and m, or 0 */
    size_t head_bytes;   /* of a group's numbers, or of two groups' */
    size_t step_bytes;
    size_t block_bytes; /* without heads */
    size_t panel_bytes;
} pf_exact_layout;

/* Where block b begins, its heads included. b = n_blocks: the end. */
static inline size_t pf_exact_block_at(const pf_exact_layout *l, size_t b)
{
    const size_t per_super = PF_GROUP_SUPER_VALUES / PF_EXACT_BLOCK;
    return (b + per_super - 1) / per_super * l->super_bytes +
           (b + l->group_blocks - 1) / l->group_blocks * l->head_bytes + b * l->block_bytes;
}

static inline pf_exact_layout pf_exact_layout_of(const pf_group_format *groups, int32_t k)
{
    enum { LINE = 64 };
    const bool is_super = groups->scales == PF_GROUP_SCALES_SUPER, has_offset = groups->offset != PF_GROUP_SYMMETRIC;
    pf_exact_layout l = { .groups = *groups, .n_blocks = ((size_t)k + PF_EXACT_BLOCK - 1) / PF_EXACT_BLOCK };
    l.units = groups->group == PF_EXACT_BLOCK / 2 ? 2 : 1;
    l.group_blocks = groups->group == 0 ? l.n_blocks : l.units == 2 ? 1 : (size_t)groups->group / PF_EXACT_BLOCK;
    l.number_bytes = is_super ? 1 : groups->scales == PF_GROUP_SCALES_F32 ? 4 : 2;
    const size_t parts = has_offset ? 2 : 1;
    l.super_bytes = is_super ? parts * sizeof(uint16_t) * PF_GEMM_PANEL : 0;
    l.head_bytes = pf_round_up(l.units * parts * l.number_bytes * PF_GEMM_PANEL, LINE);
    l.step_bytes = (groups->bits == 8 ? 4 : 2) * PF_GEMM_PANEL;
    l.block_bytes = PF_EXACT_STEPS * l.step_bytes;
    l.panel_bytes = pf_exact_block_at(&l, l.n_blocks);
    return l;
}

/* The first step of a block. */
static inline size_t pf_exact_steps_at(const pf_exact_layout *l, size_t b)
{
    return pf_exact_block_at(l, b + 1) - l->block_bytes;
}

/* The scales [32] of the group that has unit u of block b, and its offsets, where there are any. */
static inline size_t pf_exact_scales_at(const pf_exact_layout *l, size_t b, size_t u)
{
    const size_t parts = l->groups.offset == PF_GROUP_SYMMETRIC ? 1 : 2;
    return pf_exact_steps_at(l, b / l->group_blocks * l->group_blocks) - l->head_bytes +
           u * parts * l->number_bytes * PF_GEMM_PANEL;
}
static inline size_t pf_exact_offsets_at(const pf_exact_layout *l, size_t b, size_t u)
{
    return pf_exact_scales_at(l, b, u) + l->number_bytes * PF_GEMM_PANEL;
}

/* The F16 of SUPER that block b goes by. */
static inline size_t pf_exact_super_at(const pf_exact_layout *l, size_t b)
{
    const size_t first = b - b % (PF_GROUP_SUPER_VALUES / PF_EXACT_BLOCK);
    return pf_exact_block_at(l, first);
}

static inline float pf_exact_half(const uint8_t *p)
{
    uint16_t h;
    memcpy(&h, p, sizeof h);
    return pf_f16_to_f32(h);
}

/* Number j of some scales or offsets. */
static inline float pf_exact_number(const pf_exact_layout *l, const uint8_t *numbers, size_t j)
{
    uint16_t h;
    float f;
    numbers += j * l->number_bytes;
    switch (l->groups.scales) {
    case PF_GROUP_SCALES_F16: return pf_exact_half(numbers);
    case PF_GROUP_SCALES_BF16: memcpy(&h, numbers, sizeof h); return pf_bf16_to_f32(h);
    case PF_GROUP_SCALES_F32: memcpy(&f, numbers, sizeof f); return f;
    case PF_GROUP_SCALES_SUPER: return (float)(int8_t)*numbers;
    }
    return 0.0f;
}

/* What column j goes by in unit u of block b. */
typedef struct {
    float scale, minimum, zero; /* minimum: also -z * s; zero: z, of MINIMUM and SYMMETRIC 0 */
} pf_exact_head;

static inline pf_exact_head pf_exact_head_at(const pf_exact_layout *l, const uint8_t *panel, size_t b, size_t u,
                                             size_t j)
{
    const bool has_offset = l->groups.offset != PF_GROUP_SYMMETRIC;
    pf_exact_head h = { .scale = pf_exact_number(l, panel + pf_exact_scales_at(l, b, u), j) };
    if (has_offset) h.minimum = pf_exact_number(l, panel + pf_exact_offsets_at(l, b, u), j);
    if (l->groups.scales == PF_GROUP_SCALES_SUPER) {
        const uint8_t *super = panel + pf_exact_super_at(l, b) + j * sizeof(uint16_t);
        h.scale = pf_exact_half(super) * h.scale;
        if (has_offset) h.minimum = -(pf_exact_half(super + sizeof(uint16_t) * PF_GEMM_PANEL) * h.minimum);
    }
    if (l->groups.offset == PF_GROUP_ZERO) {
        h.zero = h.minimum;
        h.minimum = -h.zero * h.scale;
    }
    return h;
}

/* The stored value of column j at k, less what every one has too much: 128 of bytes, 8 of symmetric nibbles. */
static inline int32_t pf_exact_integer(const pf_exact_layout *l, const uint8_t *panel, size_t j, size_t k)
{
    const uint8_t *step = panel + pf_exact_steps_at(l, k / PF_EXACT_BLOCK) + k % PF_EXACT_BLOCK / 4 * l->step_bytes;
    if (l->groups.bits == 8) return step[j * 4 + k % 4] - 128;
    const uint8_t both = step[j % 16 * 4 + k % 4];
    return (j < 16 ? both & 15 : both >> 4) - (l->groups.offset == PF_GROUP_SYMMETRIC ? 8 : 0);
}

/* What goes for the weight of column j at k. */
static inline pf_exact_head pf_exact_head_of_value(const pf_exact_layout *l, const uint8_t *panel, size_t j, size_t k)
{
    const size_t unit = l->units == 2 ? k % PF_EXACT_BLOCK / 16 : 0;
    return pf_exact_head_at(l, panel, k / PF_EXACT_BLOCK, unit, j);
}

/* And what it stands for, rounded once. */
static inline float pf_exact_value(const pf_exact_layout *l, const uint8_t *panel, size_t j, size_t k, pf_exact_head h)
{
    const float q = (float)pf_exact_integer(l, panel, j, k);
    if (l->groups.offset == PF_GROUP_MINIMUM) return fmaf(h.scale, q, h.minimum);
    return h.scale * (q - h.zero);
}

#endif
