/* The bursts by instruction set; internal to kernels/limits. */
#ifndef PF_KERNELS_BURST_ROWS_H
#define PF_KERNELS_BURST_ROWS_H

#include "kernels/limits/burst.h"

enum {
    PF_BURST_SUMS_AVX2 = 12,   /* of 16 registers: latency 4 or 5, two a cycle, two for the operands */
    PF_BURST_SUMS_AVX512 = 16, /* of 32 */
};

pf_burst_fn pf_burst_f32_avx2;
pf_burst_fn pf_burst_f32_avx512;
pf_burst_fn pf_burst_bf16_avx512bf16;
pf_burst_fn pf_burst_int8_avx512bf16; /* VNNI: every processor with AVX512_BF16 has it */

#endif
