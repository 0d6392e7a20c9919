/*
 * Integer weights times few rows of bf16: a step of weights is widened in registers and multiplied by all rows at once.
 *
 * Where rows are few, a block of widened weights in the scratch (gemm_nest.h) is waited for twice: the chains of the tile
 * stand still while it is made, and what makes it does while they run. Here each fills the other's gaps. The same bits: the
 * weights are those of gemm_widen_vec.h, and an output is one chain over all of K.
 *
 * With eight rows 16 sums, the scales and zeros of 32 columns, a step of weights and what takes it apart are all of the 32
 * registers.
 */
#include "kernels/gemm/vec_avx512.h"

#include "kernels/gemm/gemm_widen_vec.h"
#include "kernels/gemm/sums_avx512.h"

/* What few rows do with one panel. Their number and the format are the function's. */
typedef struct {
    const pf_gemm_layout *layout;
    const uint8_t *panel;
    const void *a; /* words [n_pairs, rows] */
    size_t n_pairs;
    float *c; /* [rows, 32], rows ldc elements apart */
    size_t ldc;
    bool add; /* to what is in c */
} few_rows;

typedef void few_fn(const few_rows *t);

PF_INLINE void few(const int height, const int bits, const bool has_zeros, const few_rows *t)
{
    const size_t step_bytes = (size_t)bits / 2 * PF_GEMM_PANEL;
    const uint32_t *a = t->a;
    const uint8_t *group = t->panel;
    __m512 sum[PF_GEMM_FEW_ROWS][2];

#define START(m) \
    if (m < height) sum[m][0] = sum[m][1] = _mm512_setzero_ps();
    PF_ROWS_8(START)
#undef START

    for (size_t pairs = t->n_pairs; pairs; group += t->layout->group_bytes) {
        const pf_widen_head head = pf_widen_head_of(t->layout, group, 0);
        const uint8_t *w = group + t->layout->head_bytes;
        for (size_t step = t->layout->group_steps; step && pairs; step--, w += step_bytes) {
            const __m512i left = _mm512_loadu_si512(w), right = bits == 8 ? _mm512_loadu_si512(w + 64) : left;
            PF_PREFETCH((uintptr_t)w + PF_GEMM_W_AHEAD);
            if (bits == 8) PF_PREFETCH((uintptr_t)w + PF_GEMM_W_AHEAD + 64);
#define VALUE(v, i) pf_widen_value(bits, has_zeros, v ? right : left, i, v, &head)
#define ROW(m)                                           \
    if (m < height) {                                    \
        const __m512i b = pf_sums_broadcast(a + m);      \
        sum[m][0] = pf_sums_dot_pairs(sum[m][0], w0, b); \
        sum[m][1] = pf_sums_dot_pairs(sum[m][1], w1, b); \
    }
#define PAIR(i)                                                                   \
    {                                                                             \
        const __m512i w0 = pf_vec_to_pairs(VALUE(0, 2 * i), VALUE(0, 2 * i + 1)); \
        const __m512i w1 = pf_vec_to_pairs(VALUE(1, 2 * i), VALUE(1, 2 * i + 1)); \
        PF_ROWS_8(ROW)                                                            \
        a += height;                                                              \
    }
            PAIR(0)
            if (--pairs == 0) break; /* K ends within a step */
            PAIR(1)
            pairs--;
#undef PAIR
#undef ROW
#undef VALUE
        }
    }

    PF_ROWS_8(PF_SUMS_FINISH)
}

#define DEFINE(m)                           \
    static void int8_##m(const few_rows *t) \
    {                                       \
        few(m + 1, 8, false, t);            \
    }                                       \
    static void int4_##m(const few_rows *t) \
    {                                       \
        few(m + 1, 4, false, t);            \
    }                                       \
    static void asym_##m(const few_rows *t) \
    {                                       \
        few(m + 1, 4, true, t);             \
    }
PF_ROWS_8(DEFINE)
#define INT8(m) int8_##m,
#define INT4(m) int4_##m,
#define ASYM(m) asym_##m,
static few_fn *const functions[3][PF_GEMM_FEW_ROWS] = { { PF_ROWS_8(INT8) }, { PF_ROWS_8(INT4) }, { PF_ROWS_8(ASYM) } };

void pf_gemm_integers_bf16_few_avx512bf16(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin,
                                          int32_t panel_end, float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    const pf_gemm_layout layout = pf_gemm_layout_of(w->format, w->k);
    few_fn *const multiply = functions[layout.bits == 8 ? 0 : layout.has_zeros ? 2 : 1][m - 1];
    for (int32_t p = panel_begin; p < panel_end; p++) {
        const int32_t n_columns = w->n - p * PF_GEMM_PANEL;
        const bool whole = n_columns >= PF_GEMM_PANEL;
        float *columns = c + (size_t)p * PF_GEMM_PANEL;
        multiply(&(few_rows){ .layout = &layout,
                              .panel = (const uint8_t *)w->panels + (size_t)p * w->panel_bytes,
                              .a = input,
                              .n_pairs = ((size_t)w->k + 1) / 2,
                              .c = whole ? columns : scratch,
                              .ldc = whole ? ldc : PF_GEMM_PANEL,
                              .add = whole && mode == PF_GEMM_ADD });
        if (!whole) pf_gemm_copy_columns(columns, ldc, scratch, m, n_columns, mode);
    }
}
