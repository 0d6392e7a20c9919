/* Reads the scales and offsets of the exact format (layout_exact.h) into f32, in YMM or ZMM registers. Internal. */
#ifndef PF_KERNELS_GEMM_EXACT_HEADS_VEC_H
#define PF_KERNELS_GEMM_EXACT_HEADS_VEC_H

#include "kernels/gemm/layout_exact.h"
#include "kernels/vec/vec.h"

/* The scales and offsets of a block, a row for each of its groups. */
typedef struct {
    float scale[2][PF_GEMM_PANEL], offset[2][PF_GEMM_PANEL];
} __attribute__((aligned(64))) pf_exact_heads;

/* ---- lanes -------------------------------------------------------------------------------------------------------- */

#ifdef __AVX512F__
PF_INLINE pf_vecf pf_exact_load_f16(const uint8_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
PF_INLINE pf_vecf pf_exact_load_bf16(const uint8_t *p)
{
    const pf_vec words = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
}
PF_INLINE pf_vecf pf_exact_load_i8(const uint8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}
PF_INLINE pf_vecf pf_exact_negated(pf_vecf v)
{
    return _mm512_xor_ps(v, _mm512_set1_ps(-0.0f));
}
#else
PF_INLINE pf_vecf pf_exact_load_f16(const uint8_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}
PF_INLINE pf_vecf pf_exact_load_bf16(const uint8_t *p)
{
    const pf_vec words = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
}
PF_INLINE pf_vecf pf_exact_load_i8(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}
PF_INLINE pf_vecf pf_exact_negated(pf_vecf v)
{
    return _mm256_xor_ps(v, _mm256_set1_ps(-0.0f));
}
#endif

/* ---- heads -------------------------------------------------------------------------------------------------------- */

PF_INLINE pf_vecf pf_exact_load_numbers(pf_group_scales scales, const uint8_t *numbers, size_t column)
{
    switch (scales) {
    case PF_GROUP_SCALES_F16: return pf_exact_load_f16(numbers + 2 * column);
    case PF_GROUP_SCALES_BF16: return pf_exact_load_bf16(numbers + 2 * column);
    case PF_GROUP_SCALES_F32: return pf_vec_loadf(numbers + 4 * column);
    case PF_GROUP_SCALES_SUPER: return pf_exact_load_i8(numbers + column);
    }
    return pf_vec_setf(0.0f);
}

/* As pf_exact_head_at, of all columns; `super` of SUPER alone. Zero points are as they are, or minima -z * s. */
PF_INLINE void pf_exact_load_heads(const int units, const bool has_offsets, const bool as_minima,
                                   const pf_exact_layout *l, const uint8_t *super, const uint8_t *numbers,
                                   pf_exact_heads *out)
{
    const size_t bytes = l->number_bytes * PF_GEMM_PANEL;
    const pf_group_scales scales = l->groups.scales;
    for (int u = 0; u < units; u++, numbers += bytes * (has_offsets ? 2 : 1))
        for (size_t j = 0; j < PF_GEMM_PANEL; j += PF_VEC_LANES) {
            pf_vecf s = pf_exact_load_numbers(scales, numbers, j);
            if (scales == PF_GROUP_SCALES_SUPER) s = pf_vec_mul(pf_exact_load_f16(super + 2 * j), s);
            pf_vec_storef(&out->scale[u][j], s);
            if (!has_offsets) continue;
            pf_vecf m = pf_exact_load_numbers(scales, numbers + bytes, j);
            if (scales == PF_GROUP_SCALES_SUPER)
                m = pf_exact_negated(pf_vec_mul(pf_exact_load_f16(super + 2 * (PF_GEMM_PANEL + j)), m));
            if (as_minima && l->groups.offset == PF_GROUP_ZERO) m = pf_vec_mul(pf_exact_negated(m), s);
            pf_vec_storef(&out->offset[u][j], m);
        }
}

#endif
