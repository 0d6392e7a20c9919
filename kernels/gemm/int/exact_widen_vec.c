/*
 * Groups that others have quantised to panels of f32, in YMM or ZMM registers: of each weight the value that layout_exact.h
 * defines, bit for bit.
 *
 *   for each block of 32 values of k: the heads of its groups as f32, then
 *     for each register's columns and those 16 further on
 *       for each step of four values: eight registers of 32-bit lanes, a byte of the step to each lane by a byte shuffle
 *
 * The weights behind are prefetched on the way: what multiplies the panels finds them in the L1 and leaves memory alone.
 */
#include "kernels/gemm/gemm_nest.h"
#include "kernels/gemm/int/exact_heads_vec.h"

/* What a block is made of; constants. A minimum is added, a zero point, and what integers are stored with, taken off before. */
typedef struct {
    int bits;
    bool has_minima, has_zeros;
} widen_form;

/* Of a register's columns, and of those 16 further on. What is taken off is negative. */
typedef struct {
    pf_vecf scales[2], minima[2], zeros[2];
} widen_head;

/* For each lane its byte i, widened with zeros. */
static const int8_t byte_of_lane[4][64] __attribute__((aligned(64))) = {
#define LANE(i, l) (4 * (l) + (i)), -1, -1, -1
#define LANES(i)   LANE(i, 0), LANE(i, 1), LANE(i, 2), LANE(i, 3)
#define BYTES(i)                               \
    {                                          \
        LANES(i), LANES(i), LANES(i), LANES(i) \
    }
    BYTES(0), BYTES(1), BYTES(2), BYTES(3)
#undef BYTES
#undef LANES
#undef LANE
};

PF_INLINE widen_head take_head(const widen_form form, const pf_exact_layout *l, const pf_exact_heads *heads, int unit,
                               size_t column)
{
    const float stored = form.bits == 8 ? -128.0f : l->groups.offset == PF_GROUP_SYMMETRIC ? -8.0f : 0.0f;
    widen_head head;
    for (size_t v = 0; v < 2; v++) {
        const float *offset = &heads->offset[unit][column + 16 * v];
        head.scales[v] = pf_vec_loadf(&heads->scale[unit][column + 16 * v]);
        head.minima[v] = form.has_minima ? pf_vec_loadf(offset) : pf_vec_setf(0.0f);
        head.zeros[v] = pf_vec_setf(stored);
        if (l->groups.offset == PF_GROUP_ZERO)
            head.zeros[v] = pf_vec_addf(head.zeros[v], pf_exact_negated(pf_vec_loadf(offset)));
    }
    return head;
}

PF_INLINE pf_vecf value(const widen_form form, pf_vec bytes, const int i, const int v, const widen_head *head)
{
    pf_vecf q = pf_vec_to_float(pf_vec_look_up(bytes, pf_vec_load(byte_of_lane[i])));
    if (form.has_zeros) q = pf_vec_addf(q, head->zeros[v]);
    return form.has_minima ? pf_vec_fma(q, head->scales[v], head->minima[v]) : pf_vec_mul(q, head->scales[v]);
}

/* Steps of a register's columns and of those 16 further on: out [4 * steps, 32]. */
PF_INLINE void widen_steps(const widen_form form, const uint8_t *w, size_t steps, const widen_head *head, size_t ahead,
                           float *out)
{
    const size_t step_bytes = (size_t)form.bits * PF_GEMM_PANEL / 2;
    for (; steps; steps--, w += step_bytes, out += 4 * PF_GEMM_PANEL) {
        PF_PREFETCH((uintptr_t)w + ahead);
        if (form.bits == 8) PF_PREFETCH((uintptr_t)w + ahead + 64);
        const pf_vec both = pf_vec_load(w);
        const pf_vec left = form.bits == 8 ? both : pf_vec_low_nibbles(both, false);
        const pf_vec right = form.bits == 8 ? pf_vec_load(w + 64) : pf_vec_low_nibbles(pf_vec_right16(both, 4), false);
#define PUT(i)                                                             \
    pf_vec_storef(out + (i)*PF_GEMM_PANEL, value(form, left, i, 0, head)); \
    pf_vec_storef(out + (i)*PF_GEMM_PANEL + 16, value(form, right, i, 1, head));
        PUT(0)
        PUT(1)
        PUT(2)
        PUT(3)
#undef PUT
    }
}

/* Steps of one block. */
PF_INLINE void widen_block(const widen_form form, const pf_exact_layout *l, const pf_exact_heads *heads,
                           const uint8_t *w, size_t steps, size_t ahead, float *out)
{
    const size_t unit_steps = PF_EXACT_STEPS / l->units;
    for (size_t column = 0; column < 16; column += PF_VEC_LANES)
        for (size_t u = 0, first = 0; first < steps; u++, first += unit_steps) {
            const widen_head head = take_head(form, l, heads, (int)u, column);
            const size_t left = steps - first;
            widen_steps(form, w + first * l->step_bytes + 4 * column, left < unit_steps ? left : unit_steps, &head,
                        column == 0 ? ahead : 0, out + 4 * first * PF_GEMM_PANEL + column);
        }
}

PF_INLINE void widen_blocks(const widen_form form, const pf_exact_layout *l, const uint8_t *panel, size_t b, size_t k,
                            size_t ahead, float *out)
{
    const bool has_offsets = l->groups.offset != PF_GROUP_SYMMETRIC;
    pf_exact_heads heads;
    for (size_t left = k, is_first = 1; left > 0; b++, is_first = 0, out += PF_EXACT_BLOCK * PF_GEMM_PANEL) {
        const size_t n = left < PF_EXACT_BLOCK ? left : PF_EXACT_BLOCK;
        if (is_first || b % l->group_blocks == 0) {
            const uint8_t *super = l->super_bytes > 0 ? panel + pf_exact_super_at(l, b) : panel;
            const uint8_t *numbers = panel + pf_exact_scales_at(l, b, 0);
            PF_PREFETCH(numbers + ahead);
            if (l->units == 2)
                pf_exact_load_heads(2, has_offsets, false, l, super, numbers, &heads);
            else
                pf_exact_load_heads(1, has_offsets, false, l, super, numbers, &heads);
        }
        widen_block(form, l, &heads, panel + pf_exact_steps_at(l, b), (n + 3) / 4, ahead, out);
        left -= n;
    }
}

void PF_FOR_ISA(pf_gemm_widen_exact)(const pf_gemm_weights *w, const void *layout, int32_t panel, size_t step,
                                     size_t n_steps, void *out)
{
    const pf_exact_layout *l = layout;
    const uint8_t *from = (const uint8_t *)w->panels + (size_t)panel * w->panel_bytes;
    const size_t b = step / PF_EXACT_BLOCK, ahead = pf_gemm_ahead(w, false);
    const bool has_minima = l->groups.offset == PF_GROUP_MINIMUM;
    if (l->groups.bits == 8 && has_minima)
        widen_blocks((widen_form){ 8, true, true }, l, from, b, n_steps, ahead, out);
    else if (l->groups.bits == 8)
        widen_blocks((widen_form){ 8, false, true }, l, from, b, n_steps, ahead, out);
    else if (has_minima)
        widen_blocks((widen_form){ 4, true, false }, l, from, b, n_steps, ahead, out);
    else
        widen_blocks((widen_form){ 4, false, true }, l, from, b, n_steps, ahead, out);
}
