/*
 * Blocks of bf16 in twelve bits (layout_bf16_12.h) to plain ones, in YMM or ZMM registers. Internal.
 */
#ifndef PF_KERNELS_GEMM_BF16_12_VEC_H
#define PF_KERNELS_GEMM_BF16_12_VEC_H

#include "kernels/gemm/gemm_nest.h"
#include "kernels/gemm/layout_bf16_12.h"
#include "kernels/vec/vec.h"

/* The sixteen high bytes that a block's four bits stand for, in each 128 bits. */
PF_INLINE pf_vec pf_b12_high_bytes(uint8_t code)
{
    static const uint8_t entries[2][2][16] = {
        /* what of the base each takes, and what is added */
        { { 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63 },
          { 0, 1, 2, 3, 4, 5, 6, 7, 128, 129, 130, 131, 132, 133, 134, 135 } },
        { { 63, 63, 63, 63, 63, 63, 63, 0, 63, 63, 63, 63, 63, 63, 63, 0 },
          { 0, 1, 2, 3, 4, 5, 6, 0, 128, 129, 130, 131, 132, 133, 134, 128 } },
    };
    const uint8_t(*of)[16] = entries[code & PF_B12_ZERO ? 1 : 0];
    const __m128i base = _mm_set1_epi8((char)code), taken = _mm_loadu_si128((const __m128i *)(const void *)of[0]);
    const __m128i added = _mm_loadu_si128((const __m128i *)(const void *)of[1]);
    return pf_vec_spread16(_mm_add_epi8(_mm_and_si128(base, taken), added));
}

/* Those of a register's bytes of a unit's first step (0) or second (1), of which `fours` has the four bits. */
PF_INLINE pf_vec pf_b12_high(pf_vec table, const uint8_t *fours, const int step)
{
    const pf_vec both = pf_vec_load(fours);
    return pf_vec_look_up(table, pf_vec_low_nibbles(step ? pf_vec_right16(both, 4) : both, false));
}

/* A block as in a plain panel; `out` is aligned as a panel is. `ahead`: what is fetched on the way, bytes behind the block. */
PF_INLINE void pf_b12_unpack(uint8_t code, const uint8_t *block, const uint8_t *reserved, uintptr_t ahead,
                             uint16_t *out)
{
    if (code == PF_B12_RAW) {
        pf_b12_join_raw(block, reserved, out);
        return;
    }
    const pf_vec table = pf_b12_high_bytes(code);
    uint8_t *plain = (uint8_t *)out;
    for (const uint8_t *unit = block; unit < block + PF_B12_BLOCK_BYTES; unit += PF_B12_UNIT_BYTES) {
        for (size_t line = 0; line < PF_B12_UNIT_BYTES; line += 64) PF_PREFETCH((uintptr_t)unit + ahead + line);
        for (int step = 0; step < 2; step++, plain += 128)
            for (size_t at = 0; at < 64; at += sizeof(pf_vec)) {
                const pf_vec low = pf_vec_load(unit + 64 * step + at), high = pf_b12_high(table, unit + 128 + at, step);
                pf_vec_store(plain + at, pf_vec_interleave_low8(low, high));
                pf_vec_store(plain + 64 + at, pf_vec_interleave_high8(low, high));
            }
    }
    if (code & PF_B12_PATCHED) pf_b12_patch(reserved, out);
}

#endif
