/*
 * Integer weights times int8 activations, 64 values of K a step of a tile, or a group of 32.
 *
 * A scale a column: the nest of gemm_amx.h with sums of integers, which are scaled once at their end. int8 is multiplied as
 * it lies, unsigned q + 128 (TDPBSUD); 128 times the sum of a row of A is taken off then. int4 is unpacked to q - 8 or
 * q - z, signed (TDPBSSD), once for all rows. A scale a group: gemm_amx_groups.c.
 *
 * Below a few rows the VNNI kernels multiply, and pack: they have the same class of arithmetic, need no unpacked copy, and
 * are bound by memory there.
 */
#include "base/checked.h"
#include "kernels/gemm/gemm_amx_int.h"
#include "kernels/gemm/gemm_int_words_avx512.h"

/* --- a scale a column --- */

PF_INLINE void zeros_of_columns(const pf_tile_product *x, const uint8_t *panel, __m512i zeros[2])
{
    const tiling *t = x->how;
    zeros[0] = zeros_of(&t->l, panel, 0);
    zeros[1] = zeros_of(&t->l, panel, 16);
}

PF_INLINE void put_columns(const pf_tile_product *x, int32_t panel, int32_t row, int32_t n_rows, const void *sums)
{
    put_rows(x->how, x, panel, row, n_rows, sums);
}

PF_INLINE void put_gated_columns(const pf_tile_product *x, int32_t panel, int32_t row, int32_t n_rows, const void *gate,
                                 const void *up)
{
    put_gated_rows(x->how, x, panel, row, n_rows, gate, up);
}

static const pf_tile_family bytes = {
    .dot = PF_DOT_INT8_UINT8,
    .in_place = true,
    .row_bytes = PF_TILE_B_STRIDE,
    .row = pf_tile_row_plain,
    .put = put_columns,
    .put_gated = put_gated_columns,
};
static const pf_tile_family nibbles = {
    .dot = PF_DOT_INT8_INT8,
    .row_bytes = PF_TILE_B_STRIDE / 2,
    .row = row_of_nibbles,
    .zeros = zeros_of_columns,
    .put = put_columns,
    .put_gated = put_gated_columns,
};

/* What every product of a format begins with. */
static pf_tile_product product_of(const tiling *t, const pf_gemm_weights *w, const void *input, int32_t m)
{
    return (
        pf_tile_product){ .w = w, .input = input, .m = m, .head_bytes = t->l.head_bytes, .steps = t->steps, .how = t };
}

void pf_gemm_gated_integers_int8_amx(const pf_gemm_weights *gate, const pf_gemm_weights *up, const void *input,
                                     int32_t m, int32_t panel_begin, int32_t panel_end, const pf_gemm_gated *out,
                                     void *scratch)
{
    const tiling t = tiling_of(gate->format, gate->k);
    pf_tile_product x = product_of(&t, gate, input, m);
    x.up = up;
    x.gated = out;
    if (t.groups)
        pf_tile_nest_groups(&t, &x, 2 * panel_begin, 2 * panel_end, scratch);
    else if (t.l.bits == 8)
        pf_tile_nest_gated(bytes, &x, panel_begin, panel_end, scratch);
    else
        pf_tile_nest_gated(nibbles, &x, panel_begin, panel_end, scratch);
}

static void multiply(const pf_gemm_weights *w, const uint8_t *input, int32_t m, int32_t panel_begin, int32_t panel_end,
                     float *c, size_t ldc, pf_gemm_mode mode, uint8_t *scratch)
{
    const tiling t = tiling_of(w->format, w->k);
    pf_tile_product x = product_of(&t, w, input, m);
    x.c = c;
    x.ldc = ldc;
    x.mode = mode;
    if (t.groups)
        pf_tile_nest_groups(&t, &x, panel_begin, panel_end, scratch);
    else if (t.l.bits == 8)
        pf_tile_nest(bytes, &x, panel_begin, panel_end, scratch);
    else
        pf_tile_nest(nibbles, &x, panel_begin, panel_end, scratch);
}

/* --- activations --- */

/* A row of k values to its bytes of each step, `stride` apart. */
static row_head pack_row(const tiling *t, uint8_t *out, size_t stride, const float *row, size_t k)
{
    const __m512i sign = _mm512_set1_epi8((char)0x80);
    const pf_int_rounding rounding = pf_int_rounding_of(pf_int_magnitude(row, k));
    const __m512 factor = _mm512_set1_ps(rounding.factor);
    const size_t end = t->steps * t->step_values;
    __m512i sums = _mm512_setzero_si512(); /* of bytes, each 128 more than it is */
    for (size_t i = 0; i < end; i += 64) {
        const __m512i ordered = pf_int_words_in_order(pf_int_words_at(row, i, i < k ? k - i : 0, factor));
        sums = _mm512_add_epi64(sums, _mm512_sad_epu8(_mm512_xor_si512(ordered, sign), _mm512_setzero_si512()));
        if (t->step_values == 64) {
            _mm512_storeu_si512(out, ordered);
            out += stride;
            continue;
        }
        _mm256_storeu_si256((__m256i *)(void *)out, _mm512_castsi512_si256(ordered));
        if (i + 32 < end) _mm256_storeu_si256((__m256i *)(void *)(out + stride), _mm512_extracti64x4_epi64(ordered, 1));
        out += 2 * stride;
    }
    return (row_head){ rounding.scale, (int32_t)_mm512_reduce_add_epi64(sums) - 128 * (int32_t)pf_round_up(end, 64) };
}

static void pack(pf_format format, uint8_t *input, const float *a, size_t lda, int32_t m, int32_t k, int32_t tile_begin,
                 int32_t tile_end)
{
    const tiling t = tiling_of(format, k);
    const size_t row_bytes = t.steps * t.step_values;
    const int32_t n_blocks = pf_gemm_tiles(t.block_rows, m);
    row_head *heads = (row_head *)(void *)(input + (size_t)m * row_bytes);
    for (int32_t i = tile_begin; i < tile_end; i++) {
        const size_t first = (size_t)pf_gemm_tile_row(n_blocks, m, i);
        const size_t height = (size_t)pf_gemm_tile_row(n_blocks, m, i + 1) - first;
        uint8_t *out = input + first * row_bytes;
        for (size_t r = 0; r < height; r++)
            heads[first + r] =
                pack_row(&t, out + r * t.step_values, height * t.step_values, a + (first + r) * lda, (size_t)k);
    }
}

/* The two functions of a format, tiles from FEW_ROWS on; VNNI's for fewer make one block here. */
#define FORMAT(NAME, FORMAT_OF_IT, FEW_ROWS, VNNI_ROWS)                                                         \
    void pf_gemm_pack_##NAME##_int8_amx(void *input, const float *a, size_t lda, int32_t m, int32_t k,          \
                                        int32_t tile_begin, int32_t tile_end)                                   \
    {                                                                                                           \
        if (m >= FEW_ROWS)                                                                                      \
            pack(FORMAT_OF_IT, input, a, lda, m, k, tile_begin, tile_end);                                      \
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

FORMAT(int8, PF_FORMAT_INT8, 3, PF_GEMM_VNNI_INT8_ROWS)
FORMAT(int4_channel, PF_FORMAT_INT4_CHANNEL, 7, PF_GEMM_VNNI_CHANNEL_ROWS)
FORMAT(int4_g32, PF_FORMAT_INT4_G32, 7, PF_GEMM_VNNI_GROUP_ROWS)
FORMAT(int4_g128, PF_FORMAT_INT4_G128, 7, PF_GEMM_VNNI_GROUP_ROWS)
FORMAT(int4_asym_channel, PF_FORMAT_INT4_ASYM_CHANNEL, 7, PF_GEMM_VNNI_CHANNEL_ROWS)
FORMAT(int4_asym_g32, PF_FORMAT_INT4_ASYM_G32, 7, PF_GEMM_VNNI_GROUP_ROWS)
FORMAT(int4_asym_g128, PF_FORMAT_INT4_ASYM_G128, 7, PF_GEMM_VNNI_GROUP_ROWS)
