/* Integer weights to bf16 panels. AVX-512 BF16 reads denormals as zero. */
#include "kernels/gemm/int/gemm_widen_vec.h"

/* Some steps of half the columns, or of all. */
PF_INLINE void pf_widen_steps(const int bits, const bool has_heads, const uint8_t *w, size_t steps,
                              const pf_widen_head *head, size_t ahead, uint8_t *out)
{
    const size_t step_bytes = (size_t)bits / 2 * PF_GEMM_PANEL;
    for (; steps; steps--, w += step_bytes, out += 2 * PF_GEMM_STEP_BYTES) {
        PF_PREFETCH((uintptr_t)w + ahead);
        if (bits == 8) PF_PREFETCH((uintptr_t)w + ahead + 64);
        const pf_vec left = pf_vec_load(w), right = bits == 8 ? pf_vec_load(w + 64) : left;
#define VALUE(v, i) pf_widen_value(bits, has_heads, v ? right : left, i, v, head)
#define COLUMNS(v)                                                         \
    pf_vec_store(out + 64 * v, pf_vec_to_pairs(VALUE(v, 0), VALUE(v, 1))); \
    pf_vec_store(out + 64 * v + PF_GEMM_STEP_BYTES, pf_vec_to_pairs(VALUE(v, 2), VALUE(v, 3)));
        COLUMNS(0)
        COLUMNS(1)
#undef COLUMNS
#undef VALUE
    }
}

PF_INLINE void pf_widen(const pf_gemm_weights *w, const pf_gemm_layout *l, int32_t p, size_t pair, size_t n_pairs,
                        void *out)
{
    const uint8_t *panel = (const uint8_t *)w->panels + (size_t)p * w->panel_bytes;
    const size_t end = (pair + n_pairs + 1) / 2, ahead = pf_gemm_ahead(w, false);
    uint8_t *to = out;
    for (size_t step = pair / 2; step < end;) {
        /* groups of 32 or 128: steps are 8 or 32 */
        const size_t g = l->in_groups ? step >> (l->group == 32 ? 3 : 5) : 0, group_end = (g + 1) * l->group_steps;
        const size_t steps = (group_end < end ? group_end : end) - step;
        const uint8_t *heads = panel + pf_gemm_heads_at(l, g);
        const uint8_t *from = panel + pf_gemm_group_at(l, g) + (step - g * l->group_steps) * l->step_bytes;
        for (size_t j = 0; j < 16; j += PF_VEC_LANES) {
            pf_widen_head head = pf_widen_scales(panel, j);
            if (l->has_heads) pf_widen_take_heads(&head, l->in_groups, heads + j);
            if (l->bits == 8)
                pf_widen_steps(8, false, from + 4 * j, steps, &head, ahead, to + 4 * j);
            else if (l->has_heads)
                pf_widen_steps(4, true, from + 4 * j, steps, &head, ahead, to + 4 * j);
            else
                pf_widen_steps(4, false, from + 4 * j, steps, &head, ahead, to + 4 * j);
        }
        step += steps;
        to += steps * 2 * PF_GEMM_STEP_BYTES;
    }
}

void PF_FOR_ISA(pf_gemm_widen)(const pf_gemm_weights *w, const void *layout, int32_t panel, size_t pair, size_t n_pairs,
                               void *out)
{
    pf_widen(w, layout, panel, pair, n_pairs, out);
}
