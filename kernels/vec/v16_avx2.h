/*
 * Sixteen floats in two YMM registers: v16_avx512.h with AVX2, FMA and F16C, the same names and the same bits.
 * Internal; for files compiled for AVX2.
 */
#ifndef PF_KERNELS_VEC_V16_H
#define PF_KERNELS_VEC_V16_H

#include <immintrin.h>
#include <stdbool.h>

#include "kernels/vec/exp.h"
#include "kernels/implementations.h"
#include "kernels/vec/unroll.h"

#define PF_V16 static inline __attribute__((always_inline))

#define PF_V16_TILE_LINES   2 /* a tile of 2 by 2 sums fits the registers */
#define PF_V16_TILE_VECTORS 2

typedef struct {
    __m256 low, high; /* elements 0 .. 7, 8 .. 15 */
} pf_v16;
typedef pf_v16 pf_v16_mask; /* all bits of a lane, or none */

/* All ones in the first n of 8 lanes; n may be below 0 or above 8. */
PF_V16 __m256i pf_v8_first(int32_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

PF_V16 pf_v16 pf_v16_set(float f)
{
    return (pf_v16){ _mm256_set1_ps(f), _mm256_set1_ps(f) };
}
PF_V16 pf_v16 pf_v16_load(const float *p)
{
    return (pf_v16){ _mm256_loadu_ps(p), _mm256_loadu_ps(p + 8) };
}
PF_V16 pf_v16 pf_v16_load_first(const float *p, int32_t n)
{
    return (pf_v16){ _mm256_maskload_ps(p, pf_v8_first(n)),
                     n > 8 ? _mm256_maskload_ps(p + 8, pf_v8_first(n - 8)) : _mm256_setzero_ps() };
}
PF_V16 pf_v16 pf_v16_load_first_or(const float *p, int32_t n, pf_v16 others) /* n may be below 0 */
{
    const __m256i low = pf_v8_first(n), high = pf_v8_first(n - 8);
    return (pf_v16){ _mm256_blendv_ps(others.low, _mm256_maskload_ps(p, low), _mm256_castsi256_ps(low)),
                     _mm256_blendv_ps(others.high, _mm256_maskload_ps(p + 8, high), _mm256_castsi256_ps(high)) };
}
PF_V16 __m256 pf_v8_load_bf16(const uint16_t *p)
{
    const __m128i halves = _mm_loadu_si128((const __m128i *)(const void *)p);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}
PF_V16 pf_v16 pf_v16_load_bf16(const uint16_t *p)
{
    return (pf_v16){ pf_v8_load_bf16(p), pf_v8_load_bf16(p + 8) };
}
PF_V16 void pf_v16_store(float *p, pf_v16 v)
{
    _mm256_storeu_ps(p, v.low);
    _mm256_storeu_ps(p + 8, v.high);
}
PF_V16 void pf_v16_store_first(float *p, pf_v16 v, int32_t n)
{
    _mm256_maskstore_ps(p, pf_v8_first(n), v.low);
    if (n > 8) _mm256_maskstore_ps(p + 8, pf_v8_first(n - 8), v.high);
}

#define PF_V16_BOTH(NAME, INTRINSIC)                                           \
    PF_V16 pf_v16 NAME(pf_v16 a, pf_v16 b)                                     \
    {                                                                          \
        return (pf_v16){ INTRINSIC(a.low, b.low), INTRINSIC(a.high, b.high) }; \
    }
PF_V16_BOTH(pf_v16_add, _mm256_add_ps)
PF_V16_BOTH(pf_v16_sub, _mm256_sub_ps)
PF_V16_BOTH(pf_v16_mul, _mm256_mul_ps)
PF_V16_BOTH(pf_v16_div, _mm256_div_ps)
PF_V16_BOTH(pf_v16_max, _mm256_max_ps) /* a > b ? a : b */
PF_V16_BOTH(pf_v16_min, _mm256_min_ps) /* a < b ? a : b */
PF_V16_BOTH(pf_v16_xor, _mm256_xor_ps)

PF_V16 pf_v16 pf_v16_fma(pf_v16 a, pf_v16 b, pf_v16 c)
{
    return (pf_v16){ _mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high) };
}
PF_V16 pf_v16 pf_v16_negate(pf_v16 a)
{
    return pf_v16_xor(a, pf_v16_set(-0.0f));
}

PF_V16 pf_v16_mask pf_v16_above(pf_v16 a, pf_v16 b)
{
    return (pf_v16){ _mm256_cmp_ps(a.low, b.low, _CMP_GT_OQ), _mm256_cmp_ps(a.high, b.high, _CMP_GT_OQ) };
}
PF_V16 pf_v16_mask pf_v16_equal(pf_v16 a, pf_v16 b)
{
    return (pf_v16){ _mm256_cmp_ps(a.low, b.low, _CMP_EQ_OQ), _mm256_cmp_ps(a.high, b.high, _CMP_EQ_OQ) };
}
PF_V16 pf_v16 pf_v16_where(pf_v16_mask mask, pf_v16 yes, pf_v16 no)
{
    return (pf_v16){ _mm256_blendv_ps(no.low, yes.low, mask.low), _mm256_blendv_ps(no.high, yes.high, mask.high) };
}
PF_V16 uint32_t pf_v16_bits(pf_v16_mask mask)
{
    return (uint32_t)_mm256_movemask_ps(mask.low) | (uint32_t)_mm256_movemask_ps(mask.high) << 8;
}

PF_V16 pf_v16 pf_v16_broadcast(const float *word)
{
    return pf_v16_set(*word);
}
PF_V16 pf_v16 pf_v16_even_of_words(pf_v16 words)
{
    const __m256 low = _mm256_castsi256_ps(_mm256_set1_epi32(0xFFFF));
    return (pf_v16){ _mm256_and_ps(words.low, low), _mm256_and_ps(words.high, low) };
}

PF_V16 __m256i pf_v8_round_bf16(__m256 v)
{
    const __m256i bits = _mm256_castps_si256(v), quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i up = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
    return _mm256_blendv_epi8(up, quiet, _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q)));
}
PF_V16 __m256 pf_v8_to_bf16(__m256 v)
{
    return _mm256_castsi256_ps(_mm256_and_si256(pf_v8_round_bf16(v), _mm256_set1_epi32(-65536)));
}
PF_V16 pf_v16 pf_v16_to_bf16(pf_v16 v)
{
    return (pf_v16){ pf_v8_to_bf16(v.low), pf_v8_to_bf16(v.high) };
}
PF_V16 __m256 pf_v8_words_of(__m256 even, __m256 odd)
{
    const __m256i high = _mm256_and_si256(pf_v8_round_bf16(odd), _mm256_set1_epi32(-65536));
    return _mm256_castsi256_ps(_mm256_or_si256(_mm256_srli_epi32(pf_v8_round_bf16(even), 16), high));
}
PF_V16 pf_v16 pf_v16_words_of(pf_v16 even, pf_v16 odd)
{
    return (pf_v16){ pf_v8_words_of(even.low, odd.low), pf_v8_words_of(even.high, odd.high) };
}

PF_V16 void pf_v16_store_low_halves(uint16_t *to, pf_v16 words, int32_t n)
{
    uint16_t halves[32];
    pf_v16_store((float *)(void *)halves, words);
    for (int32_t i = 0; i < 16 && i < n; i++) to[2 * i] = halves[2 * i];
}

PF_V16 __m256 pf_v8_number_words_of(__m256 even, __m256 odd, __m256 *numbers)
{
    const __m256i e = _mm256_castps_si256(even), o = _mm256_castps_si256(odd), one = _mm256_set1_epi16(1);
    const __m256i high = _mm256_blend_epi16(_mm256_srli_epi32(e, 16), o, 0xAA);
    const __m256i low = _mm256_blend_epi16(e, _mm256_slli_epi32(o, 16), 0xAA);
    const __m256i sticky = _mm256_or_si256(low, _mm256_and_si256(high, one));
    const __m256i above = _mm256_subs_epu16(sticky, _mm256_set1_epi16(-32768));
    *numbers = _mm256_and_ps(*numbers, _mm256_cmp_ps(even, odd, _CMP_ORD_Q));
    return _mm256_castsi256_ps(_mm256_add_epi16(high, _mm256_min_epu16(above, one)));
}
PF_V16 pf_v16 pf_v16_number_words_of(pf_v16 even, pf_v16 odd, pf_v16_mask *numbers)
{
    return (pf_v16){ pf_v8_number_words_of(even.low, odd.low, &numbers->low),
                     pf_v8_number_words_of(even.high, odd.high, &numbers->high) };
}
PF_V16 __m256 pf_v8_number_words(pf_v16 v, __m256 *numbers)
{
    const __m256 even = _mm256_shuffle_ps(v.low, v.high, 0x88), odd = _mm256_shuffle_ps(v.low, v.high, 0xDD);
    const __m256 halves = pf_v8_number_words_of(even, odd, numbers); /* words 0 1 4 5 2 3 6 7 */
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(halves), 0xD8));
}
PF_V16 pf_v16 pf_v16_number_words(pf_v16 low, pf_v16 high, pf_v16_mask *numbers)
{
    return (pf_v16){ pf_v8_number_words(low, &numbers->low), pf_v8_number_words(high, &numbers->high) };
}
PF_V16 pf_v16_mask pf_v16_all_lanes(void)
{
    return pf_v16_equal(pf_v16_set(0.0f), pf_v16_set(0.0f));
}

/* Words of 16 numbers in order. */
PF_V16 __m256 pf_v8_words(pf_v16 v)
{
    const __m256i low = _mm256_srli_epi32(pf_v8_round_bf16(v.low), 16);
    const __m256i high = _mm256_srli_epi32(pf_v8_round_bf16(v.high), 16);
    return _mm256_castsi256_ps(_mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xD8));
}
PF_V16 pf_v16 pf_v16_words(pf_v16 low, pf_v16 high)
{
    return (pf_v16){ pf_v8_words(low), pf_v8_words(high) };
}

#define PF_V16_HALVES 2
PF_V16 __m256 pf_v8_half(__m256 words, int half)
{
    const __m256i bits = _mm256_castps_si256(words);
    return _mm256_castsi256_ps(half == 0 ? _mm256_and_si256(bits, _mm256_set1_epi32(-65536))
                                         : _mm256_slli_epi32(bits, 16));
}
PF_V16 pf_v16 pf_v16_half(pf_v16 words, int half)
{
    return (pf_v16){ pf_v8_half(words.low, half), pf_v8_half(words.high, half) };
}
PF_V16 pf_v16 pf_v16_multiply_half(pf_v16 a, pf_v16 b, pf_v16 sum)
{
    return pf_v16_fma(a, b, sum);
}

/* Eight by eight: as pf_v16_turn. */
PF_V16 void pf_v8_turn(__m256 v[8])
{
    __m256 a[8];
    PF_UNROLL_16
    for (int i = 0; i < 8; i++) a[i] = i & 1 ? _mm256_unpackhi_ps(v[i - 1], v[i]) : _mm256_unpacklo_ps(v[i], v[i + 1]);
    PF_UNROLL_16
    for (int i = 0; i < 8; i++) {
        const __m256d low = _mm256_castps_pd(a[(i & 4) + (i & 2) / 2]),
                      high = _mm256_castps_pd(a[(i & 4) + (i & 2) / 2 + 2]);
        v[i] = _mm256_castpd_ps(i & 1 ? _mm256_unpackhi_pd(low, high) : _mm256_unpacklo_pd(low, high));
    }
    PF_UNROLL_16
    for (int i = 0; i < 4; i++) {
        const __m256 low = v[i], high = v[i + 4];
        v[i] = _mm256_permute2f128_ps(low, high, 0x20);
        v[i + 4] = _mm256_permute2f128_ps(low, high, 0x31);
    }
}

#define PF_V16_TURN_ROWS 16 /* a masked store costs more than the words alone */

PF_V16 void pf_v16_turn(pf_v16 v[16])
{
    for (int half = 0; half < 2; half++) { /* rows 0 .. 7, 8 .. 15: quarters turned where they are */
        __m256 low[8], high[8];
        PF_UNROLL_16
        for (int i = 0; i < 8; i++) low[i] = v[8 * half + i].low, high[i] = v[8 * half + i].high;
        pf_v8_turn(low);
        pf_v8_turn(high);
        PF_UNROLL_16
        for (int i = 0; i < 8; i++) v[8 * half + i] = (pf_v16){ low[i], high[i] };
    }
    PF_UNROLL_16
    for (int i = 0; i < 8; i++) {
        const __m256 other = v[i].high;
        v[i].high = v[8 + i].low;
        v[8 + i].low = other;
    }
}

PF_V16 float pf_v16_tree_sum(pf_v16 v)
{
    const __m256 eight = _mm256_add_ps(v.low, v.high);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

PF_V16 float pf_v16_largest(pf_v16 v)
{
    const __m256 eight = _mm256_max_ps(v.low, v.high);
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

typedef struct {
    __m256d part[4]; /* four lanes each */
} pf_v16d;

PF_V16 pf_v16d pf_v16d_zero(void)
{
    const __m256d zero = _mm256_setzero_pd();
    return (pf_v16d){ { zero, zero, zero, zero } };
}
PF_V16 pf_v16d pf_v16d_add(pf_v16d sum, pf_v16 v)
{
    return (pf_v16d){ { _mm256_add_pd(sum.part[0], _mm256_cvtps_pd(_mm256_castps256_ps128(v.low))),
                        _mm256_add_pd(sum.part[1], _mm256_cvtps_pd(_mm256_extractf128_ps(v.low, 1))),
                        _mm256_add_pd(sum.part[2], _mm256_cvtps_pd(_mm256_castps256_ps128(v.high))),
                        _mm256_add_pd(sum.part[3], _mm256_cvtps_pd(_mm256_extractf128_ps(v.high, 1))) } };
}
PF_V16 void pf_v16d_store(double *p, pf_v16d sum)
{
    for (int i = 0; i < 4; i++) _mm256_storeu_pd(p + 4 * i, sum.part[i]);
}

/* 2^n for whole n within -126 .. 127, in the bits of an integer. */
PF_V16 __m256 pf_v8_exp2_int(__m256i n)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}
PF_V16 pf_v16 pf_v16_exp2_whole(pf_v16 n)
{
    return (pf_v16){ pf_v8_exp2_int(_mm256_cvtps_epi32(n.low)), pf_v8_exp2_int(_mm256_cvtps_epi32(n.high)) };
}
PF_V16 __m256 pf_v8_scale(__m256 p, __m256 shifted)
{
    const __m256i whole = _mm256_sub_epi32(_mm256_castps_si256(shifted), _mm256_set1_epi32((int32_t)PF_EXP_SHIFT_BITS));
    const __m256i half = _mm256_srai_epi32(whole, 1);
    return _mm256_mul_ps(_mm256_mul_ps(p, pf_v8_exp2_int(half)), pf_v8_exp2_int(_mm256_sub_epi32(whole, half)));
}
PF_V16 pf_v16 pf_v16_exp(pf_v16 x)
{
    x = pf_v16_max(pf_v16_set(PF_EXP_LOW), pf_v16_min(pf_v16_set(PF_EXP_HIGH), x));
    const pf_v16 shift = pf_v16_set(PF_EXP_SHIFT);
    const pf_v16 shifted = pf_v16_fma(x, pf_v16_set(PF_EXP_LOG2E), shift);
    const pf_v16 n = pf_v16_sub(shifted, shift);
    pf_v16 r = pf_v16_fma(n, pf_v16_set(-PF_EXP_LN2_TOP), x);
    r = pf_v16_fma(n, pf_v16_set(-PF_EXP_LN2_BOTTOM), r);
    pf_v16 p = pf_v16_fma(pf_v16_set(PF_EXP_C7), r, pf_v16_set(PF_EXP_C6));
    p = pf_v16_fma(p, r, pf_v16_set(PF_EXP_C5));
    p = pf_v16_fma(p, r, pf_v16_set(PF_EXP_C4));
    p = pf_v16_fma(p, r, pf_v16_set(PF_EXP_C3));
    p = pf_v16_fma(p, r, pf_v16_set(PF_EXP_C2));
    p = pf_v16_add(pf_v16_fma(p, pf_v16_mul(r, r), r), pf_v16_set(1.0f));
    return (pf_v16){ pf_v8_scale(p.low, shifted.low), pf_v8_scale(p.high, shifted.high) };
}

PF_V16 __m256 pf_v8_exp2_coarse(__m256 x)
{
    x = _mm256_max_ps(_mm256_set1_ps(PF_EXP2_LOW), x);
    const __m256 floor = _mm256_floor_ps(x), f = _mm256_sub_ps(x, floor);
    __m256 p = _mm256_fmadd_ps(_mm256_set1_ps(PF_EXP2_C3), f, _mm256_set1_ps(PF_EXP2_C2));
    p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(PF_EXP2_C1));
    p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(1.0f));
    const __m256i n = _mm256_cvttps_epi32(floor), half = _mm256_srai_epi32(n, 1);
    return _mm256_mul_ps(_mm256_mul_ps(p, pf_v8_exp2_int(half)), pf_v8_exp2_int(_mm256_sub_epi32(n, half)));
}
PF_V16 pf_v16 pf_v16_exp2_coarse(pf_v16 x)
{
    return (pf_v16){ pf_v8_exp2_coarse(x.low), pf_v8_exp2_coarse(x.high) };
}

#endif
