#include "gguf/ggml_types.h"

#include <stddef.h>

static const pf_ggml_type_info TYPES[PF_N_GGML_TYPES] = {
    [PF_GGML_F32] = { "F32", 1, 4 },
    [PF_GGML_F16] = { "F16", 1, 2 },
    [PF_GGML_Q4_0] = { "Q4_0", 32, 18 },
    [PF_GGML_Q4_1] = { "Q4_1", 32, 20 },
    [PF_GGML_Q5_0] = { "Q5_0", 32, 22 },
    [PF_GGML_Q5_1] = { "Q5_1", 32, 24 },
    [PF_GGML_Q8_0] = { "Q8_0", 32, 34 },
    [PF_GGML_Q8_1] = { "Q8_1", 32, 36 },
    [PF_GGML_Q2_K] = { "Q2_K", 256, 84 },
    [PF_GGML_Q3_K] = { "Q3_K", 256, 110 },
    [PF_GGML_Q4_K] = { "Q4_K", 256, 144 },
    [PF_GGML_Q5_K] = { "Q5_K", 256, 176 },
    [PF_GGML_Q6_K] = { "Q6_K", 256, 210 },
    [PF_GGML_Q8_K] = { "Q8_K", 256, 292 },
    [16] = { "IQ2_XXS", 256, 66 },
    [17] = { "IQ2_XS", 256, 74 },
    [18] = { "IQ3_XXS", 256, 98 },
    [19] = { "IQ1_S", 256, 50 },
    [PF_GGML_IQ4_NL] = { "IQ4_NL", 32, 18 },
    [21] = { "IQ3_S", 256, 110 },
    [22] = { "IQ2_S", 256, 82 },
    [PF_GGML_IQ4_XS] = { "IQ4_XS", 256, 136 },
    [24] = { "I8", 1, 1 },
    [25] = { "I16", 1, 2 },
    [26] = { "I32", 1, 4 },
    [27] = { "I64", 1, 8 },
    [28] = { "F64", 1, 8 },
    [29] = { "IQ1_M", 256, 56 },
    [PF_GGML_BF16] = { "BF16", 1, 2 },
    [34] = { "TQ1_0", 256, 54 },
    [35] = { "TQ2_0", 256, 66 },
    [PF_GGML_MXFP4] = { "MXFP4", 32, 17 },
    [40] = { "NVFP4", 64, 36 },
    [41] = { "Q1_0", 128, 18 },
};

const pf_ggml_type_info *pf_ggml_type_get(uint32_t type)
{
    return type < PF_N_GGML_TYPES && TYPES[type].name != NULL ? &TYPES[type] : NULL;
}
