/* The formats, one row each. */
#include "kernels/gemm/format.h"

#include <stdio.h>

static const pf_format_info formats[PF_N_ALL_FORMATS] = {
    /* clang-format off */
    [PF_FORMAT_F32]               = { .name = "f32",               .bits = 32, .act = PF_ACT_F32 },
    [PF_FORMAT_BF16]              = { .name = "bf16",              .bits = 16, .act = PF_ACT_BF16 },
    [PF_FORMAT_BF16_12]           = { .name = "bf16-12",           .bits = 16, .act = PF_ACT_BF16 },
    [PF_FORMAT_INT8]              = { .name = "int8",              .bits = 8,  .act = PF_ACT_INT8 },
    [PF_FORMAT_INT4_G32]          = { .name = "int4",              .bits = 4,  .act = PF_ACT_INT8, .group = 32 },
    [PF_FORMAT_INT4_G128]         = { .name = "int4-g128",         .bits = 4,  .act = PF_ACT_INT8, .group = 128 },
    [PF_FORMAT_INT4_CHANNEL]      = { .name = "int4-channel",      .bits = 4,  .act = PF_ACT_INT8 },
    [PF_FORMAT_INT4_ASYM_G32]     = { .name = "int4-asym",         .bits = 4,  .act = PF_ACT_INT8, .group = 32,
                                      .has_zeros = true },
    [PF_FORMAT_INT4_ASYM_G128]    = { .name = "int4-asym-g128",    .bits = 4,  .act = PF_ACT_INT8, .group = 128,
                                      .has_zeros = true },
    [PF_FORMAT_INT4_ASYM_CHANNEL] = { .name = "int4-asym-channel", .bits = 4,  .act = PF_ACT_INT8,
                                      .has_zeros = true },
    [PF_FORMAT_EXACT]             = { .name = "exact",             .bits = 8,  .act = PF_ACT_INT8 },
    /* clang-format on */
};

const pf_format_info *pf_format_get(pf_format format)
{
    return &formats[format];
}

const char *pf_act_name(pf_act act)
{
    static const char *const names[PF_N_ACTS] = {
        [PF_ACT_F32] = "f32",
        [PF_ACT_BF16] = "bf16",
        [PF_ACT_INT8] = "int8",
    };
    return names[act];
}

bool pf_format_takes(pf_format format, pf_act act)
{
    if (format == PF_FORMAT_EXACT) return act == PF_ACT_INT8 || act == PF_ACT_F32;
    return act == formats[format].act || (formats[format].bits < 16 && act == PF_ACT_BF16);
}

/* ---- groups of others -------------------------------------------------------------------------------------------- */

bool pf_group_format_is_equal(const pf_group_format *a, const pf_group_format *b)
{
    return a->bits == b->bits && a->group == b->group && a->scales == b->scales && a->offset == b->offset;
}

pf_group_format pf_group_format_of_both(const pf_group_format *a, const pf_group_format *b)
{
    if (pf_group_format_is_equal(a, b)) return *a;
    const bool is_a_finer = b->group == 0 || (a->group != 0 && a->group < b->group);
    const bool same_offset = a->offset == b->offset;
    pf_group_format both = {
        .bits = a->bits > b->bits ? a->bits : b->bits,
        .group = is_a_finer ? a->group : b->group,
        .scales = a->scales == b->scales ? a->scales : PF_GROUP_SCALES_F32,
        .offset = same_offset ? a->offset : PF_GROUP_MINIMUM,
    };
    if (same_offset) return both;
    if (a->offset == PF_GROUP_SYMMETRIC || b->offset == PF_GROUP_SYMMETRIC) both.bits = 8; /* q - 8 has a sign */
    if (a->offset == PF_GROUP_ZERO || b->offset == PF_GROUP_ZERO) both.scales = PF_GROUP_SCALES_F32; /* of z * s */
    return both;
}

void pf_group_format_name(const pf_group_format *groups, char out[PF_GROUP_NAME_BYTES])
{
    static const char *const scales[] = { [PF_GROUP_SCALES_F16] = "f16 scales",
                                          [PF_GROUP_SCALES_BF16] = "bf16 scales",
                                          [PF_GROUP_SCALES_F32] = "f32 scales",
                                          [PF_GROUP_SCALES_SUPER] = "integer scales, f16 for 256" };
    static const char *const offsets[] = {
        [PF_GROUP_SYMMETRIC] = "", [PF_GROUP_ZERO] = ", zero points", [PF_GROUP_MINIMUM] = ", minima"
    };
    char cut[32] = "rows";
    if (groups->group != 0) snprintf(cut, sizeof cut, "groups of %d", groups->group);
    snprintf(out, PF_GROUP_NAME_BYTES, "%d bits in %s: %s%s", groups->bits, cut, scales[groups->scales],
             offsets[groups->offset]);
}
