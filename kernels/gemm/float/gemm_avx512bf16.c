/*
 * bf16 product with VDPBF16PS: tiles of 1 to 14 rows by 32 columns, 28 sums and two weight vectors in registers.
 * Denormals: the instruction reads them as zero and flushes its results, whatever MXCSR says; VCVTNE2PS2BF16, which
 * rounds the activations, reads them as zero too.
 */
#include "kernels/gemm/pack/pack_pairs_avx512.h"
#include "kernels/gemm/pack/pack_words_avx512.h"
#include "kernels/gemm/sums_avx512.h"

enum { TILE_ROWS = 14, PAIR_ROWS = 7, PAIR_ROWS_AT_ONCE = 6, FAR_PAIR_ROWS = 3, MANY_ROWS = 7 };

PF_INLINE void multiply(const int height, const bool into_l2, const pf_gemm_tile *t)
{
    __m512 sum[TILE_ROWS][2];
    const uint8_t *w = t->w;
    const uint32_t *a = (const uint32_t *)(const void *)t->a;
    uintptr_t prefetch = t->prefetch;
    const size_t stride = t->prefetch_stride, ahead = t->a_ahead;

    PF_ROWS_14(PF_SUMS_START)

    for (size_t step = t->steps; step; step--) {
        const __m512i w0 = _mm512_load_si512(w), w1 = _mm512_load_si512(w + 64);
        pf_gemm_fetch(prefetch, into_l2);
        pf_gemm_fetch(prefetch + 64, into_l2);
        prefetch += stride;
        if (height > 3) PF_PREFETCH((uintptr_t)a + ahead);
#define ROW(m)                                           \
    if (m < height) {                                    \
        const __m512i b = pf_sums_broadcast(a + m);      \
        sum[m][0] = pf_sums_dot_pairs(sum[m][0], w0, b); \
        sum[m][1] = pf_sums_dot_pairs(sum[m][1], w1, b); \
    }
        PF_ROWS_14(ROW)
#undef ROW
        w += PF_GEMM_STEP_BYTES;
        a += height;
    }

    PF_ROWS_14(PF_SUMS_FINISH)
}

/* The same for two panels: 24 sums and four weight vectors, or 28 sums and the weights of one panel after the other's. */
PF_INLINE void multiply_pair(const int height, const pf_gemm_pair *t)
{
    __m512 sum[PAIR_ROWS][4];
    const uint8_t *left = t->w, *right = t->w + t->panel_bytes;
    const uint32_t *a = (const uint32_t *)(const void *)t->a;
    uintptr_t prefetch = (uintptr_t)left + t->ahead;
    size_t part[2];
    pf_gemm_pair_parts(t, part);

#define START(m) \
    if (m < height) sum[m][0] = sum[m][1] = sum[m][2] = sum[m][3] = _mm512_setzero_ps();
    PF_ROWS_7(START)
#undef START

    for (int i = 0; i < 2; i++, prefetch += t->panel_bytes)
        for (size_t step = part[i]; step; step--) {
            __m512i w0 = _mm512_load_si512(left), w1 = _mm512_load_si512(left + 64), w2, w3;
            PF_PREFETCH_BESIDE(w0, prefetch);
            PF_PREFETCH_BESIDE(w1, prefetch + 64);
            if (height <= PAIR_ROWS_AT_ONCE) {
                w2 = _mm512_load_si512(right);
                w3 = _mm512_load_si512(right + 64);
                PF_PREFETCH_BESIDE(w2, prefetch + t->panel_bytes);
                PF_PREFETCH_BESIDE(w3, prefetch + t->panel_bytes + 64);
            } else {
                PF_PREFETCH(prefetch + t->panel_bytes);
                PF_PREFETCH(prefetch + t->panel_bytes + 64);
            }
            prefetch += PF_GEMM_STEP_BYTES;
            if (height <= PAIR_ROWS_AT_ONCE) {
#define ROW(m)                                           \
    if (m < height) {                                    \
        const __m512i b = pf_sums_broadcast(a + m);      \
        sum[m][0] = pf_sums_dot_pairs(sum[m][0], w0, b); \
        sum[m][1] = pf_sums_dot_pairs(sum[m][1], w1, b); \
        sum[m][2] = pf_sums_dot_pairs(sum[m][2], w2, b); \
        sum[m][3] = pf_sums_dot_pairs(sum[m][3], w3, b); \
    }
                PF_ROWS_6(ROW)
#undef ROW
            } else {
#define HALF_ROW(m, first, left_of_it, right_of_it)                               \
    {                                                                             \
        const __m512i b = pf_sums_broadcast(a + m);                               \
        sum[m][first] = pf_sums_dot_pairs(sum[m][first], left_of_it, b);          \
        sum[m][first + 1] = pf_sums_dot_pairs(sum[m][first + 1], right_of_it, b); \
    }
#define LEFT_ROW(m)  HALF_ROW(m, 0, w0, w1)
#define RIGHT_ROW(m) HALF_ROW(m, 2, w2, w3)
                PF_ROWS_7(LEFT_ROW)
                __asm__ volatile("" ::: "memory"); /* load again: broadcasts that are kept leave no room for sums */
                w2 = _mm512_load_si512(right);
                w3 = _mm512_load_si512(right + 64);
                PF_ROWS_7(RIGHT_ROW)
#undef RIGHT_ROW
#undef LEFT_ROW
#undef HALF_ROW
            }
            left += PF_GEMM_STEP_BYTES;
            right += PF_GEMM_STEP_BYTES;
            a += height;
        }

#define FINISH(m) PF_SUMS_FINISH_PANEL(m, 0) PF_SUMS_FINISH_PANEL(m, 1)
    PF_ROWS_7(FINISH)
#undef FINISH
}

#define DEFINE_TILE(T, m) PF_GEMM_DEFINE_TILE(T##_##m, multiply(m + 1, false, &tile))
#define DEFINE_FAR(T, m)  PF_GEMM_DEFINE_TILE(T##_##m, multiply(m + 1, true, &tile))
#define DEFINE_PAIR(T, m) PF_GEMM_DEFINE_PAIR(T##_##m, multiply_pair(m + 1, &tile))
PF_EACH_14(DEFINE_TILE, tile)
PF_EACH_FROM_7_TO_14(DEFINE_FAR, far_tile)
PF_EACH_7(DEFINE_PAIR, pair)
static pf_gemm_tile_fn *const tiles[TILE_ROWS + 1] = { PF_EACH_14(PF_BY_HEIGHT, tile) };
static pf_gemm_tile_fn *const far_tiles[TILE_ROWS + 1] = { PF_EACH_FROM_7_TO_14(PF_BY_HEIGHT, far_tile) };
static pf_gemm_pair_fn *const pairs[PAIR_ROWS + 1] = { PF_EACH_7(PF_BY_HEIGHT, pair) };

void pf_gemm_integers_bf16_avx512bf16(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin,
                                      int32_t panel_end, float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    if (pf_gemm_integers_bf16_few_avx512bf16(w, input, m, panel_begin, panel_end, c, ldc, mode, scratch)) return;
    const pf_gemm_family family = {
        .tile_rows = TILE_ROWS, .step_words = 1, .tiles = tiles, .widen = pf_gemm_widen_avx512bf16
    };
    pf_gemm_nest(family, w, input, m, panel_begin, panel_end, c, ldc, mode, scratch);
}

void pf_gemm_bf16_avx512bf16(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin,
                             int32_t panel_end, float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    const pf_gemm_family family = {
        .tile_rows = TILE_ROWS,
        .step_words = 1,
        .tiles = tiles,
        .far = far_tiles,
        .many_rows = MANY_ROWS,
        .pair_rows = PAIR_ROWS,
        .far_pair_rows = FAR_PAIR_ROWS,
        .pairs = pairs,
    };
    pf_gemm_nest(family, w, input, m, panel_begin, panel_end, c, ldc, mode, scratch);
}

/* Words [word_begin, word_end) of some tiles. Four rows at a time: 32 values of each are rounded to 16 pairs, turned, and
 * spread over the tile. */
static void pack_words(void *input, const float *a, size_t lda, int32_t m, size_t k, int32_t tile_begin,
                       int32_t tile_end, size_t word_begin, size_t word_end)
{
    const size_t n_words = (k + 1) / 2, values_end = 2 * word_end < k ? 2 * word_end : k;
    const int32_t n_tiles = pf_gemm_tiles(TILE_ROWS, m);
    for (int32_t t = tile_begin; t < tile_end; t++) {
        const int32_t first = pf_gemm_tile_row(n_tiles, m, t);
        const size_t height = (size_t)(pf_gemm_tile_row(n_tiles, m, t + 1) - first);
        const float *rows = a + (size_t)first * lda;
        uint32_t *out = (uint32_t *)input + (size_t)first * n_words;
        for (size_t word = word_begin; word < word_end; word += 16) {
            const size_t left = word_end - word < 16 ? word_end - word : 16;
            for (size_t r = 0; r < height; r += 4) {
                const size_t n_rows = height - r < 4 ? height - r : 4;
                const float *from = rows + r * lda + 2 * word;
                const size_t n = values_end - 2 * word;
                __m512i row[4] = { pf_gemm_load_pairs(from, n) };
                if (height == 1) {
                    _mm512_mask_storeu_epi32(out + word, (__mmask16)((1u << left) - 1), row[0]);
                    continue;
                }
                row[1] = n_rows > 1 ? pf_gemm_load_pairs(from + lda, n) : row[0];
                row[2] = n_rows > 2 ? pf_gemm_load_pairs(from + 2 * lda, n) : row[0];
                row[3] = n_rows > 3 ? pf_gemm_load_pairs(from + 3 * lda, n) : row[0];
                if (left == 16)
                    pf_pack_four_rows(out + word * height + r, height, row, n_rows, 16, 0);
                else
                    pf_pack_four_rows(out + word * height + r, height, row, n_rows, left, 0);
            }
        }
    }
}

void pf_gemm_pack_bf16_avx512bf16(void *input, const float *a, size_t lda, int32_t m, int32_t k, int32_t tile_begin,
                                  int32_t tile_end)
{
    pack_words(input, a, lda, m, (size_t)k, tile_begin, tile_end, 0, ((size_t)k + 1) / 2);
}

void pf_gemm_pack_columns_bf16_avx512bf16(void *input, const float *a, size_t lda, int32_t m, int32_t k,
                                          int32_t k_begin, int32_t k_end)
{
    pack_words(input, a, lda, m, (size_t)k, 0, pf_gemm_tiles(TILE_ROWS, m), (size_t)k_begin / 2,
               ((size_t)k_end + 1) / 2);
}
