/* Which burst this machine can run. */
#include "kernels/limits/burst.h"

#ifdef PF_KERNELS_X86
#include "kernels/limits/burst_rows.h"

pf_burst pf_burst_select(pf_burst_kind kind)
{
    const pf_isa isa = pf_cpu_best_isa();
    if (kind == PF_BURST_F32 && isa >= PF_ISA_AVX512)
        return (pf_burst){ pf_burst_f32_avx512, 2.0 * 16 * PF_BURST_SUMS_AVX512 };
    if (kind == PF_BURST_F32 && isa >= PF_ISA_AVX2)
        return (pf_burst){ pf_burst_f32_avx2, 2.0 * 8 * PF_BURST_SUMS_AVX2 };
    if (kind == PF_BURST_BF16 && isa >= PF_ISA_AVX512BF16)
        return (pf_burst){ pf_burst_bf16_avx512bf16, 2.0 * 32 * PF_BURST_SUMS_AVX512 };
    if (kind == PF_BURST_INT8 && isa >= PF_ISA_AVX512BF16)
        return (pf_burst){ pf_burst_int8_avx512bf16, 2.0 * 64 * PF_BURST_SUMS_AVX512 };
    return (pf_burst){ 0 };
}
#else
pf_burst pf_burst_select(pf_burst_kind kind)
{
    (void)kind;
    return (pf_burst){ 0 };
}
#endif
