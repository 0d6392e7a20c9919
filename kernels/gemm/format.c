/* The formats, one row each. */
#include "kernels/gemm/format.h"

static const pf_format_info formats[PF_N_FORMATS] = {
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
    return act == formats[format].act || (formats[format].bits < 16 && act == PF_ACT_BF16);
}
