/*
 * Products with AVX2 and FMA: f32 in tiles of 1 to 3 rows by 32 columns, bf16 of 1 and 2, each weight pair taken apart
 * once for both. A whole panel wide, although 6 by 16 would need fewer loads: a panel is then read once.
 */
#include "kernels/gemm/gemm_nest.h"

enum { F32_ROWS = 3, BF16_ROWS = 2, N_VECTORS = 4 };

#define VECTORS(DO, m) DO(m, 0) DO(m, 1) DO(m, 2) DO(m, 3)

#define START_VECTOR(m, v) \
    sum[m][v] = t->before ? _mm256_load_ps(t->before + m * PF_GEMM_PANEL + v * 8) : _mm256_setzero_ps();
#define START(m)                 \
    if (m < height) {            \
        VECTORS(START_VECTOR, m) \
    }

#define FINISH_VECTOR(m, v)                                                                       \
    if (t->add) sum[m][v] = _mm256_add_ps(_mm256_loadu_ps(t->c + m * t->ldc + v * 8), sum[m][v]); \
    _mm256_storeu_ps(t->c + m * t->ldc + v * 8, sum[m][v]);
#define FINISH(m)                 \
    if (m < height) {             \
        VECTORS(FINISH_VECTOR, m) \
    }

PF_INLINE void tile_f32(const int height, const pf_gemm_tile *t)
{
    __m256 sum[F32_ROWS][N_VECTORS], b[F32_ROWS];
    const uint8_t *w = t->w;
    const float *a = t->a;
    uintptr_t prefetch = t->prefetch;
    const size_t stride = t->prefetch_stride;

    PF_ROWS_3(START)
    for (size_t step = t->steps; step; step--) {
        PF_PREFETCH(prefetch);
        PF_PREFETCH(prefetch + 64);
        prefetch += stride;
#define SPREAD(m) \
    if (m < height) b[m] = _mm256_set1_ps(a[m]);
        PF_ROWS_3(SPREAD)
#undef SPREAD
#define VECTOR(unused, v)                                                         \
    {                                                                             \
        const __m256 wv = _mm256_load_ps((const float *)(const void *)w + v * 8); \
        sum[0][v] = _mm256_fmadd_ps(b[0], wv, sum[0][v]);                         \
        if (height > 1) sum[1][v] = _mm256_fmadd_ps(b[1], wv, sum[1][v]);         \
        if (height > 2) sum[2][v] = _mm256_fmadd_ps(b[2], wv, sum[2][v]);         \
    }
        VECTORS(VECTOR, )
#undef VECTOR
        w += PF_GEMM_STEP_BYTES;
        a += height;
    }
    PF_ROWS_3(FINISH)
}

PF_INLINE void tile_bf16(const int height, const pf_gemm_tile *t)
{
    __m256 sum[BF16_ROWS][N_VECTORS], even[BF16_ROWS], odd[BF16_ROWS];
    const __m256i upper = _mm256_set1_epi32((int)0xFFFF0000u);
    const uint8_t *w = t->w;
    const float *a = t->a;
    uintptr_t prefetch = t->prefetch;
    const size_t stride = t->prefetch_stride;

    PF_ROWS_2(START)
    for (size_t step = t->steps; step; step--) {
        PF_PREFETCH(prefetch);
        PF_PREFETCH(prefetch + 64);
        prefetch += stride;
#define SPREAD(m)                               \
    if (m < height) {                           \
        even[m] = _mm256_set1_ps(a[m]);         \
        odd[m] = _mm256_set1_ps(a[height + m]); \
    }
        PF_ROWS_2(SPREAD)
#undef SPREAD
#define VECTOR(unused, v)                                                              \
    {                                                                                  \
        const __m256i pairs = _mm256_load_si256((const __m256i *)(const void *)w + v); \
        const __m256 w_odd = _mm256_castsi256_ps(_mm256_and_si256(pairs, upper));      \
        const __m256 w_even = _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));       \
        sum[0][v] = _mm256_fmadd_ps(odd[0], w_odd, sum[0][v]);                         \
        if (height > 1) sum[1][v] = _mm256_fmadd_ps(odd[1], w_odd, sum[1][v]);         \
        sum[0][v] = _mm256_fmadd_ps(even[0], w_even, sum[0][v]);                       \
        if (height > 1) sum[1][v] = _mm256_fmadd_ps(even[1], w_even, sum[1][v]);       \
    }
        VECTORS(VECTOR, )
#undef VECTOR
        w += PF_GEMM_STEP_BYTES;
        a += 2 * height;
    }
    PF_ROWS_2(FINISH)
}

#define DEFINE_F32(m)                          \
    static void f32_##m(const pf_gemm_tile *t) \
    {                                          \
        tile_f32(m + 1, t);                    \
    }
#define DEFINE_BF16(m)                          \
    static void bf16_##m(const pf_gemm_tile *t) \
    {                                           \
        tile_bf16(m + 1, t);                    \
    }
PF_ROWS_3(DEFINE_F32)
PF_ROWS_2(DEFINE_BF16)
static pf_gemm_tile_fn *const f32_tiles[F32_ROWS + 1] = { NULL, f32_0, f32_1, f32_2 };
static pf_gemm_tile_fn *const bf16_tiles[BF16_ROWS + 1] = { NULL, bf16_0, bf16_1 };

void pf_gemm_f32_avx2(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin, int32_t panel_end,
                      float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    const pf_gemm_family family = { .tile_rows = F32_ROWS, .step_words = 1, .tiles = f32_tiles };
    pf_gemm_nest(family, w, input, m, panel_begin, panel_end, c, ldc, mode, scratch);
}

void pf_gemm_bf16_avx2(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin, int32_t panel_end,
                       float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    const pf_gemm_family family = { .tile_rows = BF16_ROWS, .step_words = 2, .tiles = bf16_tiles };
    pf_gemm_nest(family, w, input, m, panel_begin, panel_end, c, ldc, mode, scratch);
}

void pf_gemm_integers_bf16_avx2(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin,
                                int32_t panel_end, float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    const pf_gemm_family family = {
        .tile_rows = BF16_ROWS, .step_words = 2, .tiles = bf16_tiles, .widen = pf_gemm_widen_avx2
    };
    pf_gemm_nest(family, w, input, m, panel_begin, panel_end, c, ldc, mode, scratch);
}

void pf_gemm_bf16_12_avx2(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin,
                          int32_t panel_end, float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    const pf_gemm_family family = {
        .tile_rows = BF16_ROWS, .step_words = 2, .tiles = bf16_tiles, .widen = pf_gemm_unpack_bf16_12
    };
    pf_gemm_nest(family, w, input, m, panel_begin, panel_end, c, ldc, mode, scratch);
}

PF_GEMM_DEFINE_PACK(f32_avx2, pf_gemm_words_f32, (size_t)k, F32_ROWS)
PF_GEMM_DEFINE_PACK(bf16_avx2, pf_gemm_words_bf16, ((size_t)k + 1) / 2 * 2, BF16_ROWS)
