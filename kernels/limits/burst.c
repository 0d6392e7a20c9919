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
    { PF_BURST_F32, PF_ISA_AVX2, 0, { pf_burst_f32_avx2, 2.0 * 8 * PF_BURST_SUMS_AVX2, "VFMADD231PS" } },
    { PF_BURST_F32, PF_ISA_AVX512, 0, { pf_burst_f32_avx512, 2.0 * 16 * PF_BURST_SUMS_AVX512, "VFMADD231PS" } },
    { PF_BURST_BF16, PF_ISA_AVX512BF16, 0, { pf_burst_bf16_avx512bf16, 2.0 * 32 * PF_BURST_SUMS_AVX512, "VDPBF16PS" } },
    { PF_BURST_BF16, PF_ISA_AMX, 0, { pf_burst_bf16_amx, 2.0 * 16 * 16 * 32 * PF_BURST_SUMS_AMX, "TDPBF16PS" } },
    { PF_BURST_INT8, PF_ISA_AVX2, 0, { pf_burst_int8_avx2, 2.0 * 16 * PF_BURST_SUMS_AVX2, "VPMADDWD" } },
    { PF_BURST_INT8,
      PF_ISA_AVX2,
      PF_FEATURE_AVX_VNNI,
      { pf_burst_int8_avxvnni, 2.0 * 32 * PF_BURST_SUMS_AVX2, "VPDPBUSD" } },
    { PF_BURST_INT8,
      PF_ISA_AVX512,
      PF_FEATURE_AVX512_VNNI,
      { pf_burst_int8_avx512vnni, 2.0 * 64 * PF_BURST_SUMS_AVX512, "VPDPBUSD" } },
    { PF_BURST_INT8, PF_ISA_AMX, 0, { pf_burst_int8_amx, 2.0 * 16 * 16 * 64 * PF_BURST_SUMS_AMX, "TDPBUSD" } },
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
