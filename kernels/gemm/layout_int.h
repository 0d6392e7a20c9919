/*
 * Where things lie in a panel of an integer format: what packing, the definitions and the kernels share. Internal.
 *
 *   panel    | 32 scales | [steps] of step_bytes |
 *   channel  | 32 scales | 32 heads, 32 bytes of nothing | [steps] of step_bytes |                     asymmetric
 *   groups   | 32 scales | [n_groups / 2] { heads of two groups [2] [32] | steps of both, [2 * group_steps] of step_bytes } |
 *            0           PF_GEMM_HEADS_AT   weights_at: the first step
 *
 * Group parameters ("heads" in identifiers) are a byte a column: z, or with groups m << 4 | z. They lie among the weights of two groups, so that a panel is one
 * stream, and every step at a multiple of 64 bytes; where the number of groups is odd, the last stands alone behind a line of
 * them. A format without groups has one, of all K. A step: 4 values of k for 32 columns.
 */
#ifndef PF_KERNELS_GEMM_LAYOUT_INT_H
#define PF_KERNELS_GEMM_LAYOUT_INT_H

#include "kernels/gemm/gemm.h"

enum {
    PF_GEMM_HEADS_AT = 4 * PF_GEMM_PANEL,
    PF_GEMM_MOST_INTEGER = 127, /* that a weight of groups may come to, whatever its nibble: (q - z) * m */
};

typedef struct {
    int32_t bits;     /* 8 or 4 */
    int32_t group;    /* values of k; those of the last that do not exist are filled */
    int32_t n_groups; /* of a panel */
    bool in_groups;   /* of 32 or 128, each with a multiplier */
    bool has_heads;
    bool has_zeros; /* any z: asymmetric */
    size_t weights_at;
    size_t step_bytes;
    size_t group_steps;
    size_t pair_bytes; /* of two groups with their heads */
    size_t panel_bytes;
} pf_gemm_layout;

static inline pf_gemm_layout pf_gemm_layout_of(pf_format format, int32_t k)
{
    enum { LINE = 64 };
    const pf_format_info *info = pf_format_get(format);
    pf_gemm_layout l = { .bits = info->bits, .in_groups = info->group != 0, .has_zeros = info->has_zeros };
    l.has_heads = l.in_groups || l.has_zeros;
    l.group = l.in_groups ? info->group : (k + 3) / 4 * 4;
    l.n_groups = (k + l.group - 1) / l.group;
    l.weights_at = PF_GEMM_HEADS_AT + (l.has_heads ? LINE : 0);
    l.step_bytes = l.bits == 8 ? 4 * PF_GEMM_PANEL : 2 * PF_GEMM_PANEL;
    l.group_steps = (size_t)l.group / 4;
    const size_t group_bytes = l.group_steps * l.step_bytes, n_groups = (size_t)l.n_groups;
    l.pair_bytes = LINE + 2 * group_bytes;
    l.panel_bytes = n_groups / 2 * l.pair_bytes + (n_groups % 2 ? l.weights_at + group_bytes : PF_GEMM_HEADS_AT);
    return l;
}

/* Heads [32] of group g, where there are any, and its first step. */
static inline size_t pf_gemm_heads_at(const pf_gemm_layout *l, size_t g)
{
    return PF_GEMM_HEADS_AT + g / 2 * l->pair_bytes + g % 2 * PF_GEMM_PANEL;
}
static inline size_t pf_gemm_group_at(const pf_gemm_layout *l, size_t g)
{
    return l->weights_at + g / 2 * l->pair_bytes + g % 2 * l->group_steps * l->step_bytes;
}

/* The step that has value k. */
static inline size_t pf_gemm_step_at(const pf_gemm_layout *l, size_t k)
{
    const size_t g = k / (size_t)l->group, i = k % (size_t)l->group;
    return pf_gemm_group_at(l, g) + i / 4 * l->step_bytes;
}

/* The scale of column j. */
static inline float pf_gemm_scale(const uint8_t *panel, int32_t j)
{
    float f;
    memcpy(&f, panel + (size_t)j * sizeof f, sizeof f);
    return f;
}

/* What is taken from every stored value of a group, and what the rest is multiplied with. */
typedef struct {
    int32_t zero; /* 128 in int8, 8 or z in int4 */
    int32_t multiplier;
} pf_gemm_head;

static inline pf_gemm_head pf_gemm_head_of_byte(const pf_gemm_layout *l, uint8_t byte)
{
    return (pf_gemm_head){ .zero = byte & 15, .multiplier = l->in_groups ? byte >> 4 : 1 };
}

/* Of group g of column j. */
static inline pf_gemm_head pf_gemm_head_at(const pf_gemm_layout *l, const uint8_t *panel, int32_t g, int32_t j)
{
    if (!l->has_heads) return (pf_gemm_head){ .zero = l->bits == 8 ? 128 : 8, .multiplier = 1 };
    return pf_gemm_head_of_byte(l, panel[pf_gemm_heads_at(l, (size_t)g) + (size_t)j]);
}

/* The stored value of column j at k: q + 128, or the nibble q. */
static inline int32_t pf_gemm_stored(const pf_gemm_layout *l, const uint8_t *panel, int32_t j, size_t k)
{
    const uint8_t *step = panel + pf_gemm_step_at(l, k);
    if (l->bits == 8) return step[(size_t)j * 4 + k % 4];
    const uint8_t both = step[(size_t)(j % 16) * 4 + k % 4];
    return j < 16 ? both & 15 : both >> 4;
}

/* A head as a byte. */
static inline uint8_t pf_gemm_head_byte(const pf_gemm_layout *l, pf_gemm_head head)
{
    return (uint8_t)(head.zero | (l->in_groups ? head.multiplier << 4 : 0));
}

/* Of a group with this zero. */
static inline int32_t pf_gemm_largest_multiplier(int32_t zero)
{
    return PF_GEMM_MOST_INTEGER / (zero > 15 - zero ? zero : 15 - zero);
}

/* Whether a byte is a head of this format. */
static inline bool pf_gemm_head_is_valid(const pf_gemm_layout *l, uint8_t byte)
{
    const int32_t zero = byte & 15, multiplier = byte >> 4;
    if (!l->in_groups) return multiplier == 0;
    return multiplier <= pf_gemm_largest_multiplier(zero) && (l->has_zeros || zero == 7 || zero == 8);
}

/* What is multiplied with the scale of column j at k, in -127 .. 127. */
static inline int32_t pf_gemm_integer(const pf_gemm_layout *l, const uint8_t *panel, int32_t j, size_t k)
{
    const pf_gemm_head head = pf_gemm_head_at(l, panel, (int32_t)(k / (size_t)l->group), j);
    return (pf_gemm_stored(l, panel, j, k) - head.zero) * head.multiplier;
}

#endif
