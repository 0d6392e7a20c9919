/* The definitions of the products of the exact format: one chain over K for each output. Tiles of one row. */
#include <math.h>

#include "kernels/gemm/layout_exact.h"
#include "kernels/gemm/round_int8_ref.h"
#include "kernels/implementations.h"

/* n values, at most a block, and the zeros that fill it. */
static void pack_block(uint32_t words[PF_EXACT_WORDS], const float *a, size_t n)
{
    int8_t q[PF_EXACT_BLOCK] = { 0 };
    int32_t sums[2] = { 0 };
    const float scale = pf_round_int8_ref(a, n, q);
    for (size_t i = 0; i < PF_EXACT_BLOCK; i++) sums[i / 16] += q[i];
    const int32_t of_all[3] = { sums[0], sums[1], sums[0] + sums[1] };
    memset(words, 0, PF_EXACT_WORDS * sizeof *words);
    memcpy(words, &scale, sizeof scale);
    for (size_t i = 0; i < 3; i++) {
        const float scaled = scale * (float)of_all[i];
        words[1 + i] = (uint32_t)-of_all[i];
        memcpy(words + 4 + i, &scaled, sizeof scaled);
    }
    memcpy(words + PF_EXACT_VALUE_WORD, q, sizeof q);
}

void pf_gemm_pack_exact_ref(void *input, const float *a, size_t lda, int32_t m, int32_t k, int32_t tile_begin,
                            int32_t tile_end)
{
    (void)m;
    const size_t n = (size_t)k, n_blocks = (n + PF_EXACT_BLOCK - 1) / PF_EXACT_BLOCK;
    for (int32_t row = tile_begin; row < tile_end; row++)
        for (size_t b = 0; b < n_blocks; b++) {
            const size_t left = n - b * PF_EXACT_BLOCK;
            pack_block((uint32_t *)input + ((size_t)row * n_blocks + b) * PF_EXACT_WORDS,
                       a + (size_t)row * lda + b * PF_EXACT_BLOCK, left < PF_EXACT_BLOCK ? left : PF_EXACT_BLOCK);
        }
}

/* Unit u of block b for column j: what c becomes. */
static float add_unit(const pf_exact_layout *l, const uint8_t *panel, const uint32_t *words, size_t b, size_t u,
                      size_t j, float c)
{
    const pf_exact_head head = pf_exact_head_at(l, panel, b, u, j);
    const size_t n = PF_EXACT_BLOCK / l->units;
    const int8_t *q = (const int8_t *)(words + PF_EXACT_VALUE_WORD) + u * n;
    int32_t sum = 0;
    float scale, scaled;
    for (size_t i = 0; i < n; i++) sum += q[i] * pf_exact_integer(l, panel, j, b * PF_EXACT_BLOCK + u * n + i);
    memcpy(&scale, words, sizeof scale);
    memcpy(&scaled, words + (l->units == 2 ? 4 + u : 6), sizeof scaled);
    c = fmaf((float)sum, head.scale * scale, c);
    return l->groups.offset == PF_GROUP_SYMMETRIC ? c : fmaf(head.minimum, scaled, c);
}

void pf_gemm_exact_ref(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin, int32_t panel_end,
                       float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    (void)scratch;
    const pf_exact_layout l = pf_exact_layout_of(&w->groups, w->k);
    for (int32_t p = panel_begin; p < panel_end; p++) {
        const uint8_t *panel = (const uint8_t *)w->panels + (size_t)p * w->panel_bytes;
        const int32_t left = w->n - p * PF_GEMM_PANEL, n_columns = left < PF_GEMM_PANEL ? left : PF_GEMM_PANEL;
        for (int32_t row = 0; row < m; row++)
            for (int32_t j = 0; j < n_columns; j++) {
                const uint32_t *words = (const uint32_t *)input + (size_t)row * l.n_blocks * PF_EXACT_WORDS;
                float *out = &c[(size_t)row * ldc + (size_t)(p * PF_GEMM_PANEL + j)], sum = 0.0f;
                for (size_t b = 0; b < l.n_blocks; b++)
                    for (size_t u = 0; u < l.units; u++)
                        sum = add_unit(&l, panel, words + b * PF_EXACT_WORDS, b, u, (size_t)j, sum);
                *out = mode == PF_GEMM_ADD ? *out + sum : sum;
            }
    }
}

/* On what pf_gemm_pack_f32_ref packed: the f32 class, on the values that weights stand for. */
void pf_gemm_exact_f32_ref(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin,
                           int32_t panel_end, float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    (void)scratch;
    const pf_exact_layout l = pf_exact_layout_of(&w->groups, w->k);
    const size_t n_values = (size_t)w->k;
    for (int32_t n = panel_begin * PF_GEMM_PANEL; n < pf_min(panel_end * PF_GEMM_PANEL, w->n); n++) {
        const uint8_t *panel = (const uint8_t *)w->panels + (size_t)(n / PF_GEMM_PANEL) * w->panel_bytes;
        const size_t j = (size_t)(n % PF_GEMM_PANEL);
        for (int32_t row = 0; row < m; row++) {
            const float *a = (const float *)input + (size_t)row * n_values;
            float *out = &c[(size_t)row * ldc + (size_t)n], sum = 0.0f;
            pf_exact_head head = { 0 };
            for (size_t k = 0; k < n_values; k++) {
                if (k % 16 == 0) head = pf_exact_head_of_value(&l, panel, j, k);
                sum = fmaf(a[k], pf_exact_value(&l, panel, j, k, head), sum);
            }
            *out = mode == PF_GEMM_ADD ? *out + sum : sum;
        }
    }
}
