/*
 * Integer weights to bf16 panels, for YMM and ZMM registers; a file includes vec_avx2.h or vec_avx512.h first.
 * Internal.
 *
 * A step of four values of 32 columns becomes two steps of pairs, each value (q - z) * s in f32, rounded to bf16. The
 * weights behind are prefetched on the way: what multiplies the pairs finds them in L1 and leaves memory alone.
 */
#ifndef PF_KERNELS_GEMM_WIDEN_VEC_H
#define PF_KERNELS_GEMM_WIDEN_VEC_H

#include "kernels/gemm/gemm_nest.h"
#include "kernels/gemm/layout.h"

/* Scales, and zeros where there are any, of a register's columns, and of those 16 further on. */
typedef struct {
    pf_vecf zeros[2], scales[2];
} pf_widen_head;

PF_INLINE pf_widen_head pf_widen_head_of(const pf_gemm_layout *l, const uint8_t *group, size_t column)
{
    pf_widen_head head;
    for (size_t v = 0; v < 2; v++, column += 16) {
        head.scales[v] = pf_vec_plain_nan(l->scale_size == 4 ? pf_vec_loadf(group + sizeof(float) * column)
                                                             : pf_vec_load_f16(group + sizeof(uint16_t) * column));
        head.zeros[v] =
            l->has_zeros ? pf_vec_to_float(pf_vec_load_u8(group + l->zeros_at + column)) : pf_vec_setf(0.0f);
    }
    return head;
}

/* Value i of the four of k that a step holds, of a register's columns (v = 0) or those 16 further on (1), of which `four`
 * has the bytes, or in four bits the nibbles of both. */
PF_INLINE pf_vecf pf_widen_value(const int bits, const bool has_zeros, pf_vec four, const int i, const int v,
                                 const pf_widen_head *head)
{
    if (bits == 8) return pf_vec_mul(pf_vec_byte_less_128(four, 8 * i), head->scales[v]);
    const pf_vec nibble = pf_vec_right(four, 8 * i + 4 * v);
    return pf_vec_mul(has_zeros ? pf_vec_sub(pf_vec_nibble_to_float(nibble), head->zeros[v])
                                : pf_vec_nibble_less_8(nibble),
                      head->scales[v]);
}

/* Some steps of half the columns, or of all. */
PF_INLINE void pf_widen_steps(const int bits, const bool has_zeros, const uint8_t *w, size_t steps,
                              const pf_widen_head *head, size_t ahead, uint8_t *out)
{
    const size_t step_bytes = (size_t)bits / 2 * PF_GEMM_PANEL;
    for (; steps; steps--, w += step_bytes, out += 2 * PF_GEMM_STEP_BYTES) {
        PF_PREFETCH((uintptr_t)w + ahead);
        if (bits == 8) PF_PREFETCH((uintptr_t)w + ahead + 64);
#define VALUE(v, i) pf_widen_value(bits, has_zeros, four, i, v, head)
#define COLUMNS(v)                                                                                  \
    {                                                                                               \
        const pf_vec four = pf_vec_load(bits == 8 ? w + 64 * v : w);                                \
        pf_vec_store(out + 64 * v, pf_vec_to_pairs(VALUE(v, 0), VALUE(v, 1)));                      \
        pf_vec_store(out + 64 * v + PF_GEMM_STEP_BYTES, pf_vec_to_pairs(VALUE(v, 2), VALUE(v, 3))); \
    }
        COLUMNS(0)
        COLUMNS(1)
#undef COLUMNS
#undef VALUE
    }
}

/* A pf_gemm_widen_fn. */
PF_INLINE void pf_widen(const pf_gemm_weights *w, const pf_gemm_layout *l, int32_t p, size_t pair, size_t n_pairs,
                        void *out)
{
    const uint8_t *panel = (const uint8_t *)w->panels + (size_t)p * w->panel_bytes;
    const size_t end = (pair + n_pairs + 1) / 2, ahead = pf_gemm_ahead(w, false);
    uint8_t *to = out;
    for (size_t step = pair / 2; step < end;) {
        /* groups of 32 or 128: steps are 8 or 32 */
        const size_t g = l->n_groups == 1 ? 0 : step >> (l->group == 32 ? 3 : 5), first = step - g * l->group_steps;
        const size_t left = end - step, steps = l->group_steps - first < left ? l->group_steps - first : left;
        const uint8_t *group = panel + g * l->group_bytes, *from = group + l->head_bytes + first * l->step_bytes;
        for (size_t j = 0; j < 16; j += PF_VEC_LANES) {
            const pf_widen_head head = pf_widen_head_of(l, group, j);
            if (l->bits == 8)
                pf_widen_steps(8, false, from + 4 * j, steps, &head, ahead, to + 4 * j);
            else if (l->has_zeros)
                pf_widen_steps(4, true, from + 4 * j, steps, &head, ahead, to + 4 * j);
            else
                pf_widen_steps(4, false, from + 4 * j, steps, &head, ahead, to + 4 * j);
        }
        step += steps;
        to += steps * 2 * PF_GEMM_STEP_BYTES;
    }
}

#endif
