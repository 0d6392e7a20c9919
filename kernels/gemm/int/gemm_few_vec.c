/*
 * Integer weights times few rows of bf16, in YMM or ZMM registers: a step of weights is widened in registers and multiplied
 * by all rows at once.
 *
 * Where rows are few, a block of widened weights in the scratch (gemm_nest.h) is waited for twice: the chains of the tile
 * stand still while it is made, and what makes it does while they run. Here each fills the other's gaps. The same bits: the
 * weights are those of gemm_widen_vec.c, and an output is one chain over all of K.
 *
 * PF_VEC_FEW_ROWS rows' sums, the scales and heads of a register's columns and of those 16 further on, a step of weights and
 * what takes it apart are all of the registers. YMM hold half a panel's columns, so a panel is passed over twice, and each
 * time half of the next one is fetched.
 */
#include "kernels/gemm/int/gemm_widen_vec.h"
#ifdef __AVX512BF16__
#include "kernels/gemm/sums_avx512.h"
#endif

/* What few rows do with one panel, or half of it. Their number and the format are the function's. */
typedef struct {
    const pf_gemm_layout *layout;
    const uint8_t *panel;
    size_t column;   /* of the panel, the first of a register */
    uintptr_t ahead; /* what is fetched while a step at w is taken apart: ahead + w / PF_VEC_HALVES */
    const void *a;   /* words as they are packed for a tile of all rows */
    size_t n_pairs;
    float *c; /* [rows, 32], rows ldc elements apart */
    size_t ldc;
    bool add; /* to what is in c */
} pf_few_rows;

typedef void pf_few_fn(const pf_few_rows *t);

PF_INLINE void pf_few_finish(pf_vecf sum, float *c, bool add)
{
    pf_vec_storef(c, add ? pf_vec_addf(pf_vec_loadf(c), sum) : sum);
}

PF_INLINE void pf_few(const int height, const int bits, const bool has_heads, const pf_few_rows *t)
{
    const size_t step_bytes = (size_t)bits / 2 * PF_GEMM_PANEL;
    const uint32_t *a = t->a;
    pf_widen_head head = pf_widen_scales(t->panel, t->column);
    pf_vecf sum[PF_VEC_FEW_ROWS][2];

#define START(m) \
    if (m < height) sum[m][0] = sum[m][1] = pf_vec_setf(0.0f);
    PF_VEC_EACH_FEW(START)
#undef START

    for (size_t g = 0, pairs = t->n_pairs; pairs; g++) {
        const uint8_t *heads = t->panel + pf_gemm_heads_at(t->layout, g) + t->column;
        const uint8_t *w = t->panel + pf_gemm_group_at(t->layout, g) + 4 * t->column;
        if (has_heads) pf_widen_take_heads(&head, t->layout->in_groups, heads);
        for (size_t step = t->layout->group_steps; step && pairs; step--, w += step_bytes) {
            const pf_vec left = pf_vec_load(w), right = bits == 8 ? pf_vec_load(w + 64) : left;
            PF_PREFETCH(t->ahead + (uintptr_t)w / PF_VEC_HALVES);
            if (bits == 8 && PF_VEC_HALVES == 1) PF_PREFETCH(t->ahead + (uintptr_t)w + 64);
#define VALUE(v, i) pf_widen_value(bits, has_heads, v ? right : left, i, v, &head)
#ifdef __AVX512BF16__ /* a pair of k at once */
#define ROW(m)                                           \
    if (m < height) {                                    \
        const pf_vec b = pf_vec_spread(a + m);           \
        sum[m][0] = pf_sums_dot_pairs(sum[m][0], w0, b); \
        sum[m][1] = pf_sums_dot_pairs(sum[m][1], w1, b); \
    }
#define PAIR(i)                                                                  \
    {                                                                            \
        const pf_vec w0 = pf_vec_to_pairs(VALUE(0, 2 * i), VALUE(0, 2 * i + 1)); \
        const pf_vec w1 = pf_vec_to_pairs(VALUE(1, 2 * i), VALUE(1, 2 * i + 1)); \
        PF_VEC_EACH_FEW(ROW)                                                     \
        a += height;                                                             \
    }
#else /* the odd one first */
#define ROW(m)                                       \
    if (m < height) {                                \
        const pf_vecf b = pf_vec_spreadf(words + m); \
        sum[m][0] = pf_vec_fma(b, w0, sum[m][0]);    \
        sum[m][1] = pf_vec_fma(b, w1, sum[m][1]);    \
    }
#define ONE(i)                                                                        \
    {                                                                                 \
        const pf_vecf w0 = pf_vec_round(VALUE(0, i)), w1 = pf_vec_round(VALUE(1, i)); \
        const uint32_t *words = a + (i) % 2 * height;                                 \
        PF_VEC_EACH_FEW(ROW)                                                          \
    }
#define PAIR(i)    \
    ONE(2 * i + 1) \
    ONE(2 * i)     \
    a += 2 * height;
#endif
            PAIR(0)
            if (--pairs == 0) break; /* K ends within a step */
            PAIR(1)
            pairs--;
#undef PAIR
#undef ONE
#undef ROW
#undef VALUE
        }
    }

#define FINISH(m)                                                             \
    if (m < height) {                                                         \
        pf_few_finish(sum[m][0], t->c + m * t->ldc + t->column, t->add);      \
        pf_few_finish(sum[m][1], t->c + m * t->ldc + t->column + 16, t->add); \
    }
    PF_VEC_EACH_FEW(FINISH)
#undef FINISH
}

#define PF_FEW_INT8(T, m) PF_GEMM_DEFINE(T##_##m, pf_few_rows, pf_few(m + 1, 8, false, tile))
#define PF_FEW_INT4(T, m) PF_GEMM_DEFINE(T##_##m, pf_few_rows, pf_few(m + 1, 4, false, tile))
#define PF_FEW_HEAD(T, m) PF_GEMM_DEFINE(T##_##m, pf_few_rows, pf_few(m + 1, 4, true, tile))
PF_VEC_EACH_FEW_HEIGHT(PF_FEW_INT8, pf_few_int8)
PF_VEC_EACH_FEW_HEIGHT(PF_FEW_INT4, pf_few_int4)
PF_VEC_EACH_FEW_HEIGHT(PF_FEW_HEAD, pf_few_head)
static pf_few_fn *const pf_few_functions[3][PF_VEC_FEW_ROWS + 1] = {
    { PF_VEC_EACH_FEW_HEIGHT(PF_BY_HEIGHT, pf_few_int8) },
    { PF_VEC_EACH_FEW_HEIGHT(PF_BY_HEIGHT, pf_few_int4) },
    { PF_VEC_EACH_FEW_HEIGHT(PF_BY_HEIGHT, pf_few_head) },
};

/* See pf_few_rows. Half a panel's passage fetches half of the next panel: panel / 2 + ahead is where that begins. */
PF_INLINE uintptr_t pf_few_ahead(const pf_gemm_weights *w, const uint8_t *panel, size_t half)
{
    if (PF_VEC_HALVES == 1) return pf_gemm_ahead(w, false);
    return (uintptr_t)panel / 2 + w->panel_bytes + half * w->panel_bytes / 2;
}

bool PF_FOR_ISA(pf_gemm_integers_bf16_few)(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin,
                                           int32_t panel_end, float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    if (m > PF_VEC_FEW_ROWS) return false;
    const pf_gemm_layout layout = pf_gemm_layout_of(w->format, w->k);
    pf_few_fn *const multiply = pf_few_functions[layout.bits == 8 ? 0 : layout.has_heads ? 2 : 1][m];
    for (int32_t p = panel_begin; p < panel_end; p++) {
        const int32_t n_columns = w->n - p * PF_GEMM_PANEL;
        const bool whole = n_columns >= PF_GEMM_PANEL;
        float *columns = c + (size_t)p * PF_GEMM_PANEL;
        const uint8_t *panel = (const uint8_t *)w->panels + (size_t)p * w->panel_bytes;
        for (size_t half = 0; half < PF_VEC_HALVES; half++) {
            multiply(&(pf_few_rows){ .layout = &layout,
                                     .panel = panel,
                                     .column = half * PF_VEC_LANES,
                                     .ahead = pf_few_ahead(w, panel, half),
                                     .a = input,
                                     .n_pairs = ((size_t)w->k + 1) / 2,
                                     .c = whole ? columns : scratch,
                                     .ldc = whole ? ldc : PF_GEMM_PANEL,
                                     .add = whole && mode == PF_GEMM_ADD });
        }
        if (!whole) pf_gemm_copy_columns(columns, ldc, scratch, m, n_columns, mode);
    }
    return true;
}
