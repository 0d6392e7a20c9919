/*
 * Integer weights times int8 activations, 64 values of K a step of a tile: the nest of gemm_amx.h with sums of integers, which
 * are scaled once at their end. int8 is multiplied as it lies, unsigned q + 128 (TDPBSUD); 128 times the sum of a row of A is
 * taken off then. int4 is unpacked to q - 8, q - z or (q - z) * m, signed (TDPBSSD), once for all rows.
 *
 *   input   [block] [steps] [rows of the block] 64 bytes | [m] { scale f32, sum of the row int32 }
 *
 * Below a few rows the VNNI kernels multiply, and pack: they have the same class of arithmetic, need no unpacked copy, and
 * are bound by memory there.
 */
#include "base/checked.h"
#include "kernels/gemm/amx/gemm_amx.h"
#include "kernels/gemm/int/gemm_int_words_avx512.h"
#include "kernels/gemm/layout_int.h"

/* Behind the tiles of the packed input. */
typedef struct {
    float scale;
    int32_t sum;
} row_head;

/* How a format goes through tiles. */
typedef struct {
    pf_gemm_layout l;
    size_t steps; /* of a row, 64 values of K each */
} tiling;

PF_INLINE size_t steps_of(int32_t k)
{
    return ((size_t)k + PF_TILE_ROW_BYTES - 1) / PF_TILE_ROW_BYTES;
}

PF_INLINE tiling tiling_of(pf_format format, int32_t k)
{
    return (tiling){ .l = pf_gemm_layout_of(format, k), .steps = steps_of(k) };
}

/* --- weights --- */

/* What is taken from the nibbles of a column, in each of its four bytes. */
PF_INLINE pf_group_head head_of_columns(const pf_tile_product *x, const uint8_t *panel, size_t step, size_t row)
{
    const tiling *t = x->how;
    (void)step;
    (void)row;
    pf_group_head head;
    for (size_t v = 0; v < 2; v++)
        head.less[v] = t->l.has_zeros ? pf_group_four_times(panel + PF_GEMM_HEADS_AT + 16 * v) : _mm512_set1_epi8(8);
    return head;
}

/* Of groups of 32 and of 128. */
PF_INLINE pf_group_head head_of_short(const pf_tile_product *x, const uint8_t *panel, size_t step, size_t row)
{
    const tiling *t = x->how;
    return pf_group_head_of(panel + pf_gemm_heads_at(&t->l, 2 * step + row / 8), 0);
}
PF_INLINE pf_group_head head_of_long(const pf_tile_product *x, const uint8_t *panel, size_t step, size_t row)
{
    const tiling *t = x->how;
    (void)row;
    return pf_group_head_of(panel + pf_gemm_heads_at(&t->l, step / 2), 0);
}

/* A row of B of the 64 bytes that have its nibbles. */
PF_INLINE void row_of_nibbles(const pf_group_head *head, const uint8_t *from, uint8_t *b)
{
    const __m512i low = _mm512_set1_epi8(15), both = _mm512_loadu_si512(from);
    const __m512i q0 = _mm512_and_si512(both, low), q1 = _mm512_and_si512(_mm512_srli_epi16(both, 4), low);
    _mm512_store_si512(b, _mm512_sub_epi8(q0, head->less[0]));
    _mm512_store_si512(b + 64, _mm512_sub_epi8(q1, head->less[1]));
}

/* --- results --- */

/* What 16 columns of one row come to, but for the row's scale. */
PF_INLINE __m512 result_of(const tiling *t, const uint8_t *panel, const void *sums, int32_t row_sum, size_t column)
{
    __m512i i = _mm512_load_si512((const int32_t *)sums + column);
    if (t->l.bits == 8) i = _mm512_sub_epi32(i, _mm512_slli_epi32(_mm512_set1_epi32(row_sum), 7));
    const __m512 scale = _mm512_loadu_ps((const float *)(const void *)panel + column);
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(i), scale, _mm512_setzero_ps());
}

/* One row of one panel to c. */
PF_INLINE void finish_row(const tiling *t, const uint8_t *panel, const void *sums, row_head head, float *c,
                          int32_t n_columns, pf_gemm_mode mode)
{
    for (int32_t column = 0; column < n_columns; column += 16) {
        const int32_t left = n_columns - column;
        const __mmask16 exist = (__mmask16)(left >= 16 ? 0xFFFFu : (1u << left) - 1);
        __m512 r = result_of(t, panel, sums, head.sum, (size_t)column);
        r = _mm512_mul_ps(r, _mm512_set1_ps(head.scale));
        if (mode == PF_GEMM_ADD) r = _mm512_add_ps(_mm512_maskz_loadu_ps(exist, c + column), r);
        _mm512_mask_storeu_ps(c + column, exist, r);
    }
}

PF_INLINE const row_head *heads_of(const pf_tile_product *x)
{
    const tiling *t = x->how;
    return (const row_head *)(const void *)(x->input + (size_t)x->m * t->steps * PF_TILE_ROW_BYTES);
}

/* Rows [row, row + n_rows) of one panel to c; sums [n_rows, 32]. */
PF_INLINE void put_rows(const pf_tile_product *x, int32_t panel, int32_t row, int32_t n_rows, const void *sums)
{
    const row_head *heads = heads_of(x) + row;
    const int32_t n_columns = pf_tile_columns(x, panel);
    float *c = x->c + (size_t)row * x->ldc + (size_t)panel * PF_GEMM_PANEL;
    for (size_t r = 0; r < (size_t)n_rows; r++, c += x->ldc)
        finish_row(x->how, pf_tile_panel(x, panel), (const int32_t *)sums + r * PF_GEMM_PANEL, heads[r], c, n_columns,
                   x->mode);
}

/* Those of a panel of gate and of up, activated, to c of the two. */
PF_INLINE void put_gated_rows(const pf_tile_product *x, int32_t panel, int32_t row, int32_t n_rows, const void *gate,
                              const void *up)
{
    enum { ROWS = PF_TILE_BLOCK_ROWS };
    const pf_gemm_gated *out = x->gated;
    const int32_t n = pf_tile_columns(x, panel);
    for (int32_t first = 0; first < n_rows; first += ROWS) {
        _Alignas(64) float results[2][ROWS * PF_GEMM_PANEL];
        const int32_t height = n_rows - first < ROWS ? n_rows - first : ROWS;
        const row_head *heads = heads_of(x) + row + first;
        for (int32_t i = 0; i < 2; i++) {
            const int32_t *sums = (const int32_t *)(i ? up : gate) + (size_t)first * PF_GEMM_PANEL;
            for (size_t r = 0; r < (size_t)height; r++)
                finish_row(x->how, pf_tile_panel(x, 2 * panel + i), sums + r * PF_GEMM_PANEL, heads[r],
                           results[i] + r * PF_GEMM_PANEL, n, PF_GEMM_STORE);
        }
        out->activate(out->c + (size_t)(row + first) * out->ldc + (size_t)panel * PF_GEMM_PANEL, out->ldc, results[0],
                      results[1], PF_GEMM_PANEL, height, n);
    }
}

/* --- the formats --- */

static const pf_tile_family bytes = {
    .dot = PF_DOT_INT8_UINT8,
    .in_place = true,
    .row_bytes = PF_TILE_B_STRIDE,
    .row = pf_tile_row_plain,
    .put = put_rows,
    .put_gated = put_gated_rows,
};
#define NIBBLES(ROW, HEAD, HEAD_ROWS, PAIR_STEPS)                                                                     \
    {                                                                                                                 \
        .dot = PF_DOT_INT8_INT8, .row_bytes = PF_TILE_B_STRIDE / 2, .row = ROW, .head = HEAD, .head_rows = HEAD_ROWS, \
        .pair_steps = PAIR_STEPS, .put = put_rows, .put_gated = put_gated_rows                                        \
    }
static const pf_tile_family nibbles = NIBBLES(row_of_nibbles, head_of_columns, PF_TILE_ROWS, 0);
static const pf_tile_family short_groups = NIBBLES(pf_group_bytes, head_of_short, 8, 1);
static const pf_tile_family long_groups = NIBBLES(pf_group_bytes, head_of_long, PF_TILE_ROWS, 4);

/* What every product of a format begins with. */
static pf_tile_product product_of(const tiling *t, const pf_gemm_weights *w, const void *input, int32_t m)
{
    return (
        pf_tile_product){ .w = w, .input = input, .m = m, .weights_at = t->l.weights_at, .steps = t->steps, .how = t };
}

/* Gated and plain choose apart: one choice for both, with `up` looked at behind it, costs 512 rows a 20th. */

void pf_gemm_gated_integers_int8_amx(const pf_gemm_weights *gate, const pf_gemm_weights *up, const void *input,
                                     int32_t m, int32_t panel_begin, int32_t panel_end, const pf_gemm_gated *out,
                                     void *scratch)
{
    const tiling t = tiling_of(gate->format, gate->k);
    pf_tile_product x = product_of(&t, gate, input, m);
    x.up = up;
    x.gated = out;
    if (t.l.bits == 8)
        pf_tile_nest_gated(bytes, &x, panel_begin, panel_end, scratch);
    else if (!t.l.in_groups)
        pf_tile_nest_gated(nibbles, &x, panel_begin, panel_end, scratch);
    else if (t.l.group == 32)
        pf_tile_nest_gated(short_groups, &x, panel_begin, panel_end, scratch);
    else
        pf_tile_nest_gated(long_groups, &x, panel_begin, panel_end, scratch);
}

static void multiply(const pf_gemm_weights *w, const uint8_t *input, int32_t m, int32_t panel_begin, int32_t panel_end,
                     float *c, size_t ldc, pf_gemm_mode mode, uint8_t *scratch)
{
    const tiling t = tiling_of(w->format, w->k);
    pf_tile_product x = product_of(&t, w, input, m);
    x.c = c;
    x.ldc = ldc;
    x.mode = mode;
    if (t.l.bits == 8)
        pf_tile_nest(bytes, &x, panel_begin, panel_end, scratch);
    else if (!t.l.in_groups)
        pf_tile_nest(nibbles, &x, panel_begin, panel_end, scratch);
    else if (t.l.group == 32)
        pf_tile_nest(short_groups, &x, panel_begin, panel_end, scratch);
    else
        pf_tile_nest(long_groups, &x, panel_begin, panel_end, scratch);
}

/* --- activations --- */

/* A row of k values to its bytes of each step, `stride` apart. */
static row_head pack_row(uint8_t *out, size_t stride, const float *row, size_t k, size_t steps)
{
    const __m512i sign = _mm512_set1_epi8((char)0x80);
    const pf_int_rounding rounding = pf_int_rounding_of(pf_int_magnitude(row, k));
    const __m512 factor = _mm512_set1_ps(rounding.factor);
    const size_t end = steps * PF_TILE_ROW_BYTES;
    __m512i sums = _mm512_setzero_si512(); /* of bytes, each 128 more than it is */
    for (size_t i = 0; i < end; i += PF_TILE_ROW_BYTES, out += stride) {
        const __m512i ordered = pf_int_words_in_order(pf_int_words_at(row, i, i < k ? k - i : 0, factor));
        sums = _mm512_add_epi64(sums, _mm512_sad_epu8(_mm512_xor_si512(ordered, sign), _mm512_setzero_si512()));
        _mm512_storeu_si512(out, ordered);
    }
    return (row_head){ rounding.scale, (int32_t)_mm512_reduce_add_epi64(sums) - 128 * (int32_t)end };
}

static void pack(uint8_t *input, const float *a, size_t lda, int32_t m, int32_t k, int32_t tile_begin, int32_t tile_end)
{
    const size_t steps = steps_of(k), row_bytes = steps * PF_TILE_ROW_BYTES;
    const int32_t n_blocks = pf_gemm_tiles(PF_TILE_BLOCK_ROWS, m);
    row_head *heads = (row_head *)(void *)(input + (size_t)m * row_bytes);
    for (int32_t i = tile_begin; i < tile_end; i++) {
        const size_t first = (size_t)pf_gemm_tile_row(n_blocks, m, i);
        const size_t height = (size_t)pf_gemm_tile_row(n_blocks, m, i + 1) - first;
        uint8_t *out = input + first * row_bytes;
        for (size_t r = 0; r < height; r++)
            heads[first + r] = pack_row(out + r * PF_TILE_ROW_BYTES, height * PF_TILE_ROW_BYTES, a + (first + r) * lda,
                                        (size_t)k, steps);
    }
}

/* The two functions of a format, tiles from FEW_ROWS on; VNNI's for fewer make one block here. */
#define FORMAT(NAME, FEW_ROWS, VNNI_ROWS)                                                                       \
    void pf_gemm_pack_##NAME##_int8_amx(void *input, const float *a, size_t lda, int32_t m, int32_t k,          \
                                        int32_t tile_begin, int32_t tile_end)                                   \
    {                                                                                                           \
        if (m >= FEW_ROWS)                                                                                      \
            pack(input, a, lda, m, k, tile_begin, tile_end);                                                    \
        else if (tile_begin < tile_end)                                                                         \
            pf_gemm_pack_##NAME##_int8_avx512vnni(input, a, lda, m, k, 0, pf_gemm_tiles(VNNI_ROWS, m));         \
    }                                                                                                           \
    void pf_gemm_##NAME##_int8_amx(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin, \
                                   int32_t panel_end, float *c, size_t ldc, pf_gemm_mode mode, void *scratch)   \
    {                                                                                                           \
        if (m >= FEW_ROWS)                                                                                      \
            multiply(w, input, m, panel_begin, panel_end, c, ldc, mode, scratch);                               \
        else                                                                                                    \
            pf_gemm_##NAME##_int8_avx512vnni(w, input, m, panel_begin, panel_end, c, ldc, mode, scratch);       \
    }

FORMAT(int8, PF_GEMM_AMX_INT8_ROWS, PF_GEMM_VNNI_INT8_ROWS)
FORMAT(int4_channel, PF_GEMM_AMX_INT4_ROWS, PF_GEMM_VNNI_CHANNEL_ROWS)
FORMAT(int4_asym_channel, PF_GEMM_AMX_INT4_ROWS, PF_GEMM_VNNI_CHANNEL_ROWS)
FORMAT(int4_g32, PF_GEMM_AMX_INT4_ROWS, PF_GEMM_VNNI_INT8_ROWS)
FORMAT(int4_g128, PF_GEMM_AMX_INT4_ROWS, PF_GEMM_VNNI_INT8_ROWS)
