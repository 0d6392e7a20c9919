/*
 * Integer weights to bf16 panels, in YMM or ZMM registers.
 * Internal.
 *
 * A step of four values of 32 columns becomes two steps of pairs, each value (q - z) * m * s in f32, rounded to bf16. The
 * weights behind are prefetched on the way: what multiplies the pairs finds them in L1 and leaves memory alone.
 */
#ifndef PF_KERNELS_GEMM_WIDEN_VEC_H
#define PF_KERNELS_GEMM_WIDEN_VEC_H

#include "kernels/gemm/gemm_nest.h"
#include "kernels/gemm/layout_int.h"
#include "kernels/vec/vec.h"

/* Of a register's columns, and of those 16 further on: the scales, and of what has heads m and z * m of a group. An integer
 * weight is q * m - z * m, exactly; q and z are as pf_widen_nibble has them, m a 16th where they are 16 times as large. */
typedef struct {
    pf_vecf scales[2], multipliers[2], zeros[2];
} pf_widen_head;

/* Four bits of a lane as 2^15 + q, from bit 8 on; of the columns further on (v = 1) as 2^15 + 16 q, from bit 12 on: both
 * halves of a byte need one shift, and no conversion. */
PF_INLINE pf_vecf pf_widen_nibble(pf_vec bits, const size_t v)
{
    return pf_vec_bits_on_2_15(bits, v ? 0xF000 : 0x0F00);
}

PF_INLINE pf_widen_head pf_widen_scales(const uint8_t *panel, size_t column)
{
    pf_widen_head head;
    for (size_t v = 0; v < 2; v++) {
        head.scales[v] = pf_vec_plain_nan(pf_vec_loadf(panel + sizeof(float) * (column + 16 * v)));
        head.multipliers[v] = head.zeros[v] = pf_vec_setf(0.0f);
    }
    return head;
}

/* The bytes of a group's heads, from those of a register's columns on. */
PF_INLINE void pf_widen_take_heads(pf_widen_head *head, const bool in_groups, const uint8_t *bytes)
{
    for (size_t v = 0; v < 2; v++) {
        const pf_vec byte = pf_vec_load_u8(bytes + 16 * v), zero = pf_vec_left(byte, 8);
        const pf_vecf m = in_groups ? pf_vec_to_float(pf_vec_right(byte, 4)) : pf_vec_setf(1.0f);
        head->multipliers[v] = v ? pf_vec_mul(m, pf_vec_setf(0x1p-4f)) : m;
        head->zeros[v] = pf_vec_mul(pf_widen_nibble(v ? pf_vec_left(zero, 4) : zero, v), head->multipliers[v]);
    }
}

/* Value i of the four of k that a step holds, of a register's columns (v = 0) or those 16 further on (1), of which `four`
 * has the bytes, or in four bits the nibbles of both. */
PF_INLINE pf_vecf pf_widen_value(const int bits, const bool has_heads, pf_vec four, const int i, const int v,
                                 const pf_widen_head *head)
{
    if (bits == 8) return pf_vec_mul(pf_vec_byte_less_128(four, 8 * i), head->scales[v]);
    if (!has_heads) return pf_vec_mul(pf_vec_nibble_less_8(pf_vec_right(four, 8 * i + 4 * v)), head->scales[v]);
    const pf_vec in_place = i == 0 ? pf_vec_left(four, 8) : i == 1 ? four : pf_vec_right(four, 8 * i - 8);
    const pf_vecf q = pf_widen_nibble(in_place, (size_t)v);
    return pf_vec_mul(pf_vec_fms(q, head->multipliers[v], head->zeros[v]), head->scales[v]);
}

#endif
