/* Which burst a machine can run. */
#include "kernels/limits/burst.h"

#include <stddef.h>

#ifdef PF_KERNELS_X86
#include "kernels/limits/burst_rows.h"

/* In ascending order: the last that is usable is taken. */
static const struct {
    pf_burst_kind kind;
    pf_isa isa;
    uint32_t features;
    pf_burst burst;
} table[] = {
#define BURST(KIND, ISA, FEATURES, MULTIPLY_ADDS, FUNCTION, INSTRUCTION) \
    {                                                                    \
        PF_BURST_##KIND, PF_ISA_##ISA, FEATURES,                         \
        {                                                                \
            FUNCTION, 2.0 * (MULTIPLY_ADDS), INSTRUCTION                 \
        }                                                                \
    }
    /* clang-format off */
    BURST(F32,  AVX2,       0, 8 * PF_BURST_SUMS_AVX2,                  pf_burst_f32_avx2,        "VFMADD231PS"),
    BURST(F32,  AVX512,     0, 16 * PF_BURST_SUMS_AVX512,               pf_burst_f32_avx512,      "VFMADD231PS"),
    BURST(BF16, AVX512BF16, 0, 32 * PF_BURST_SUMS_AVX512,               pf_burst_bf16_avx512bf16, "VDPBF16PS"),
    BURST(BF16, AMX,        0, 16 * 16 * 32 * PF_BURST_SUMS_AMX,        pf_burst_bf16_amx,        "TDPBF16PS"),
    BURST(INT8, AVX2,       0, 16 * PF_BURST_SUMS_AVX2,                 pf_burst_int8_avx2,       "VPMADDWD"),
    BURST(INT8, AVX512,     0, 32 * PF_BURST_SUMS_AVX512,               pf_burst_int8_avx512,     "VPMADDWD"),
    BURST(INT4, AVX2,       0, 32 * PF_BURST_SUMS_AVX2,                 pf_burst_int4_avx2,       "VPMADDUBSW"),
    BURST(INT4, AVX512,     0, 64 * PF_BURST_SUMS_AVX512,               pf_burst_int4_avx512,     "VPMADDUBSW"),
#define BURST_INTS(ISA, FEATURES, MULTIPLY_ADDS, FUNCTION, INSTRUCTION)   \
    BURST(INT8, ISA, FEATURES, MULTIPLY_ADDS, FUNCTION, INSTRUCTION),     \
    BURST(INT4, ISA, FEATURES, MULTIPLY_ADDS, FUNCTION, INSTRUCTION)
    BURST_INTS(AVX2,   PF_FEATURE_AVX_VNNI, 32 * PF_BURST_SUMS_AVX2,   pf_burst_int8_avxvnni, "VPDPBUSD"),
    BURST_INTS(AVX512, PF_FEATURE_AVX512_VNNI, 64 * PF_BURST_SUMS_AVX512, pf_burst_int8_avx512vnni, "VPDPBUSD"),
    BURST_INTS(AMX,    0, 16 * 16 * 64 * PF_BURST_SUMS_AMX,            pf_burst_int8_amx,     "TDPBUSD"),
#undef BURST_INTS
/* clang-format on */
#undef BURST
};

pf_burst pf_burst_select(pf_burst_kind kind, pf_isa isa, uint32_t features)
{
    pf_burst chosen = { 0 };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].kind == kind && table[i].isa <= isa && (table[i].features & ~features) == 0)
            chosen = table[i].burst;
    return chosen;
}
#else
pf_burst pf_burst_select(pf_burst_kind kind, pf_isa isa, uint32_t features)
{
    (void)kind;
    (void)isa;
    (void)features;
    return (pf_burst){ 0 };
}
#endif
