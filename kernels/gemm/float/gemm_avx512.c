/*
 * Products with AVX-512 F: f32 in tiles of 1 to 14 rows by 32 columns; bf16, for machines without VDPBF16PS, in tiles
 * of up to 12, each weight pair taken apart once for all rows of a tile.
 */
#include "kernels/gemm/pack/pack_activations.h"
#include "kernels/gemm/sums_avx512.h"

enum { F32_ROWS = 14, BF16_ROWS = 12, PAIR_ROWS = 4, MANY_ROWS = 7 };

PF_INLINE void tile_f32(const int height, const pf_gemm_tile *t)
{
    __m512 sum[F32_ROWS][2];
    const uint8_t *w = t->w;
    const float *a = t->a;
    uintptr_t prefetch = t->prefetch;
    const size_t stride = t->prefetch_stride, ahead = t->a_ahead;

    PF_ROWS_14(PF_SUMS_START)
    for (size_t step = t->steps; step; step--) {
        const __m512 w0 = _mm512_load_ps(w), w1 = _mm512_load_ps(w + 64);
        PF_PREFETCH(prefetch);
        PF_PREFETCH(prefetch + 64);
        prefetch += stride;
        if (height > 3) PF_PREFETCH((uintptr_t)a + ahead);
#define ROW(m)                                         \
    if (m < height) {                                  \
        const __m512 b = _mm512_set1_ps(a[m]);         \
        sum[m][0] = _mm512_fmadd_ps(b, w0, sum[m][0]); \
        sum[m][1] = _mm512_fmadd_ps(b, w1, sum[m][1]); \
    }
        PF_ROWS_14(ROW)
#undef ROW
        w += PF_GEMM_STEP_BYTES;
        a += height;
    }
    PF_ROWS_14(PF_SUMS_FINISH)
}

/* The two halves of bf16 pairs, as f32. */
PF_INLINE __m512 even_half(__m512i pairs)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
}
PF_INLINE __m512 odd_half(__m512i pairs)
{
    return _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32((int)0xFFFF0000u)));
}

PF_INLINE void tile_bf16(const int height, const pf_gemm_tile *t)
{
    __m512 sum[BF16_ROWS][2];
    const uint8_t *w = t->w;
    const float *a = t->a;
    uintptr_t prefetch = t->prefetch;
    const size_t stride = t->prefetch_stride, ahead = t->a_ahead;

    PF_ROWS_12(PF_SUMS_START)
    for (size_t step = t->steps; step; step--) {
        const __m512i p0 = _mm512_load_si512(w), p1 = _mm512_load_si512(w + 64);
        const __m512 even0 = even_half(p0), odd0 = odd_half(p0), even1 = even_half(p1), odd1 = odd_half(p1);
        PF_PREFETCH(prefetch);
        PF_PREFETCH(prefetch + 64);
        prefetch += stride;
        if (height > 3) PF_PREFETCH((uintptr_t)a + ahead);
#define ROW(m)                                               \
    if (m < height) {                                        \
        const __m512 even = _mm512_set1_ps(a[m]);            \
        const __m512 odd = _mm512_set1_ps(a[height + m]);    \
        sum[m][0] = _mm512_fmadd_ps(odd, odd0, sum[m][0]);   \
        sum[m][1] = _mm512_fmadd_ps(odd, odd1, sum[m][1]);   \
        sum[m][0] = _mm512_fmadd_ps(even, even0, sum[m][0]); \
        sum[m][1] = _mm512_fmadd_ps(even, even1, sum[m][1]); \
    }
        PF_ROWS_12(ROW)
#undef ROW
        w += PF_GEMM_STEP_BYTES;
        a += 2 * height;
    }
    PF_ROWS_12(PF_SUMS_FINISH)
}

/* Two panels side by side: with one, a row has two chains, each of two products a step, and waits for them. */
PF_INLINE void pair_bf16(const int height, const pf_gemm_pair *t)
{
    __m512 sum[PAIR_ROWS][4];
    const uint8_t *w = t->w;
    const float *a = t->a;
    uintptr_t prefetch = (uintptr_t)w + t->ahead;
    size_t part[2];
    pf_gemm_pair_parts(t, part);

#define START(m) \
    if (m < height) sum[m][0] = sum[m][1] = sum[m][2] = sum[m][3] = _mm512_setzero_ps();
    PF_ROWS_4(START)
#undef START

    for (int i = 0; i < 2; i++, prefetch += t->panel_bytes)
        for (size_t step = part[i]; step; step--) {
            const uint8_t *right = w + t->panel_bytes;
            const __m512i p0 = _mm512_load_si512(w), p1 = _mm512_load_si512(w + 64);
            const __m512i p2 = _mm512_load_si512(right), p3 = _mm512_load_si512(right + 64);
            const __m512 even0 = even_half(p0), odd0 = odd_half(p0), even1 = even_half(p1), odd1 = odd_half(p1);
            const __m512 even2 = even_half(p2), odd2 = odd_half(p2), even3 = even_half(p3), odd3 = odd_half(p3);
            prefetch = pf_gemm_prefetch_pair(prefetch, t->panel_bytes);
#define ROW(m)                                               \
    if (m < height) {                                        \
        const __m512 even = _mm512_set1_ps(a[m]);            \
        const __m512 odd = _mm512_set1_ps(a[height + m]);    \
        sum[m][0] = _mm512_fmadd_ps(odd, odd0, sum[m][0]);   \
        sum[m][1] = _mm512_fmadd_ps(odd, odd1, sum[m][1]);   \
        sum[m][2] = _mm512_fmadd_ps(odd, odd2, sum[m][2]);   \
        sum[m][3] = _mm512_fmadd_ps(odd, odd3, sum[m][3]);   \
        sum[m][0] = _mm512_fmadd_ps(even, even0, sum[m][0]); \
        sum[m][1] = _mm512_fmadd_ps(even, even1, sum[m][1]); \
        sum[m][2] = _mm512_fmadd_ps(even, even2, sum[m][2]); \
        sum[m][3] = _mm512_fmadd_ps(even, even3, sum[m][3]); \
    }
            PF_ROWS_4(ROW)
#undef ROW
            w += PF_GEMM_STEP_BYTES;
            a += 2 * height;
        }

#define FINISH(m) PF_SUMS_FINISH_PANEL(m, 0) PF_SUMS_FINISH_PANEL(m, 1)
    PF_ROWS_4(FINISH)
#undef FINISH
}

#define DEFINE_F32(T, m)  PF_GEMM_DEFINE_TILE(T##_##m, tile_f32(m + 1, &tile))
#define DEFINE_BF16(T, m) PF_GEMM_DEFINE_TILE(T##_##m, tile_bf16(m + 1, &tile))
#define DEFINE_PAIR(T, m) PF_GEMM_DEFINE_PAIR(T##_##m, pair_bf16(m + 1, &tile))
PF_EACH_14(DEFINE_F32, f32_tile)
PF_EACH_12(DEFINE_BF16, bf16_tile)
PF_EACH_4(DEFINE_PAIR, bf16_pair)
static pf_gemm_tile_fn *const f32_tiles[F32_ROWS + 1] = { PF_EACH_14(PF_BY_HEIGHT, f32_tile) };
static pf_gemm_tile_fn *const bf16_tiles[BF16_ROWS + 1] = { PF_EACH_12(PF_BY_HEIGHT, bf16_tile) };
static pf_gemm_pair_fn *const bf16_pairs[PAIR_ROWS + 1] = { PF_EACH_4(PF_BY_HEIGHT, bf16_pair) };

void pf_gemm_f32_avx512(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin, int32_t panel_end,
                        float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    const pf_gemm_family family = {
        .tile_rows = F32_ROWS, .step_words = 1, .tiles = f32_tiles, .many_rows = MANY_ROWS
    };
    pf_gemm_nest(family, w, input, m, panel_begin, panel_end, c, ldc, mode, scratch);
}

void pf_gemm_exact_f32_avx512(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin,
                              int32_t panel_end, float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    const pf_exact_layout groups = pf_exact_layout_of(&w->groups, w->k);
    const pf_gemm_family family = { .tile_rows = F32_ROWS,
                                    .step_words = 1,
                                    .tiles = f32_tiles,
                                    .widen = pf_gemm_widen_exact_avx512,
                                    .groups = &groups };
    pf_gemm_nest(family, w, input, m, panel_begin, panel_end, c, ldc, mode, scratch);
}

void pf_gemm_bf16_avx512(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin, int32_t panel_end,
                         float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    const pf_gemm_family family = {
        .tile_rows = BF16_ROWS,
        .many_rows = MANY_ROWS,
        .step_words = 2,
        .tiles = bf16_tiles,
        .pair_rows = PAIR_ROWS,
        .pairs = bf16_pairs,
    };
    pf_gemm_nest(family, w, input, m, panel_begin, panel_end, c, ldc, mode, scratch);
}

void pf_gemm_integers_bf16_avx512(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin,
                                  int32_t panel_end, float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    if (pf_gemm_integers_bf16_few_avx512(w, input, m, panel_begin, panel_end, c, ldc, mode, scratch)) return;
    const pf_gemm_family family = {
        .tile_rows = BF16_ROWS, .step_words = 2, .tiles = bf16_tiles, .widen = pf_gemm_widen_avx512
    };
    pf_gemm_nest(family, w, input, m, panel_begin, panel_end, c, ldc, mode, scratch);
}

void pf_gemm_bf16_12_avx512(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin,
                            int32_t panel_end, float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    const pf_gemm_family family = {
        .tile_rows = BF16_ROWS, .step_words = 2, .tiles = bf16_tiles, .widen = pf_gemm_unpack_bf16_12_avx512
    };
    pf_gemm_nest(family, w, input, m, panel_begin, panel_end, c, ldc, mode, scratch);
}

PF_GEMM_DEFINE_PACK(f32_avx512, pf_gemm_words_f32, (size_t)k, F32_ROWS)
PF_GEMM_DEFINE_PACK(bf16_avx512, pf_gemm_words_bf16, ((size_t)k + 1) / 2 * 2, BF16_ROWS)
