/* The bursts by instruction set; internal to kernels/limits. */
#ifndef PF_KERNELS_BURST_ROWS_H
#define PF_KERNELS_BURST_ROWS_H

#include "kernels/limits/burst.h"

enum {
    PF_BURST_SUMS_AVX2 = 12,   /* of 16 registers: latency 4 or 5, two a cycle, two for the operands */
    PF_BURST_SUMS_AVX512 = 16, /* of 32 */
    PF_BURST_SUMS_AMX = 6,     /* of 8 tiles: latency 52, one in 16 cycles, two for the operands */
};

/* Straight-line code for each sum. */
#define PF_BURST_EACH_4(DO, i) DO(i) DO((i) + 1) DO((i) + 2) DO((i) + 3)
#define PF_BURST_EACH_12(DO)   PF_BURST_EACH_4(DO, 0) PF_BURST_EACH_4(DO, 4) PF_BURST_EACH_4(DO, 8)
#define PF_BURST_EACH_16(DO)   PF_BURST_EACH_12(DO) PF_BURST_EACH_4(DO, 12)

pf_burst_fn pf_burst_f32_avx2;
pf_burst_fn pf_burst_int8_avx2;
pf_burst_fn pf_burst_int4_avx2;
pf_burst_fn pf_burst_int8_avxvnni;
pf_burst_fn pf_burst_f32_avx512;
pf_burst_fn pf_burst_int8_avx512;
pf_burst_fn pf_burst_int4_avx512;
pf_burst_fn pf_burst_int8_avx512vnni;
pf_burst_fn pf_burst_bf16_avx512bf16;
pf_burst_fn pf_burst_bf16_amx;
pf_burst_fn pf_burst_int8_amx;

#endif
