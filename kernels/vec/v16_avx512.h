/*
 * Sixteen floats in one ZMM register: the vector that elementwise kernels and reductions are written in (X_v16.h), with
 * AVX-512. The same names stand for two YMM registers in v16_avx2.h. Internal; for files compiled for AVX-512.
 *
 * "first" takes n >= 0: elements from n on are neither read nor written, and stand as zero.
 */
#ifndef PF_KERNELS_VEC_V16_H
#define PF_KERNELS_VEC_V16_H

#include <immintrin.h>
#include <stdbool.h>

#include "kernels/vec/exp.h"
#include "kernels/implementations.h"
#include "kernels/vec/unroll.h"

#define PF_V16 static inline __attribute__((always_inline))

#define PF_V16_TILE_LINES   6 /* a tile of 6 by 4 sums fits the registers */
#define PF_V16_TILE_VECTORS 4

typedef __m512 pf_v16;
typedef __mmask16 pf_v16_mask;

PF_V16 __mmask16 pf_v16_first(int32_t n)
{
    return (__mmask16)(n >= 16 ? 0xFFFFu : (1u << n) - 1u);
}

PF_V16 pf_v16 pf_v16_set(float f)
{
    return _mm512_set1_ps(f);
}
PF_V16 pf_v16 pf_v16_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
PF_V16 pf_v16 pf_v16_load_first(const float *p, int32_t n)
{
    return _mm512_maskz_loadu_ps(pf_v16_first(n), p);
}
PF_V16 pf_v16 pf_v16_load_first_or(const float *p, int32_t n, pf_v16 others) /* n may be below 0 */
{
    return _mm512_mask_loadu_ps(others, pf_v16_first(n < 0 ? 0 : n), p);
}
PF_V16 pf_v16 pf_v16_load_bf16(const uint16_t *p)
{
    const __m256i halves = _mm256_loadu_si256((const __m256i *)(const void *)p);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}
PF_V16 void pf_v16_store(float *p, pf_v16 v)
{
    _mm512_storeu_ps(p, v);
}
PF_V16 void pf_v16_store_first(float *p, pf_v16 v, int32_t n)
{
    _mm512_mask_storeu_ps(p, pf_v16_first(n), v);
}

PF_V16 pf_v16 pf_v16_add(pf_v16 a, pf_v16 b)
{
    return _mm512_add_ps(a, b);
}
PF_V16 pf_v16 pf_v16_sub(pf_v16 a, pf_v16 b)
{
    return _mm512_sub_ps(a, b);
}
PF_V16 pf_v16 pf_v16_mul(pf_v16 a, pf_v16 b)
{
    return _mm512_mul_ps(a, b);
}
PF_V16 pf_v16 pf_v16_div(pf_v16 a, pf_v16 b)
{
    return _mm512_div_ps(a, b);
}
PF_V16 pf_v16 pf_v16_fma(pf_v16 a, pf_v16 b, pf_v16 c)
{
    return _mm512_fmadd_ps(a, b, c);
}
PF_V16 pf_v16 pf_v16_negate(pf_v16 a)
{
    return _mm512_xor_ps(a, _mm512_set1_ps(-0.0f));
}
PF_V16 pf_v16 pf_v16_max(pf_v16 a, pf_v16 b)
{
    return _mm512_max_ps(a, b);
} /* a > b ? a : b */
PF_V16 pf_v16 pf_v16_min(pf_v16 a, pf_v16 b)
{
    return _mm512_min_ps(a, b);
} /* a < b ? a : b */

/* Lane by lane a > b, a == b; false where one is NaN. */
PF_V16 pf_v16_mask pf_v16_above(pf_v16 a, pf_v16 b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ);
}
PF_V16 pf_v16_mask pf_v16_equal(pf_v16 a, pf_v16 b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ);
}
PF_V16 pf_v16 pf_v16_where(pf_v16_mask mask, pf_v16 yes, pf_v16 no)
{
    return _mm512_mask_blend_ps(mask, no, yes);
}
PF_V16 uint32_t pf_v16_bits(pf_v16_mask mask)
{
    return mask;
}

/* ---- words: two bf16 numbers a lane, the even one in the low half ---- */

/* One word to all lanes. An instruction of its own: the compiler would fold it into each product that uses it. */
PF_V16 pf_v16 pf_v16_broadcast(const float *word)
{
    pf_v16 v;
    __asm__("vbroadcastss %1, %0" : "=v"(v) : "m"(*word));
    return v;
}
PF_V16 pf_v16 pf_v16_even_of_words(pf_v16 words) /* the odd one becomes 0 */
{
    return _mm512_and_ps(words, _mm512_castsi512_ps(_mm512_set1_epi32(0xFFFF)));
}
PF_V16 pf_v16 pf_v16_odd_of_words(pf_v16 words) /* the even one becomes 0 */
{
    return _mm512_and_ps(words, _mm512_castsi512_ps(_mm512_set1_epi32(-65536)));
}

/* f32 with the bits of bf16, to nearest, ties to even, denormals kept. */
PF_V16 __m512i pf_v16_round_bf16(pf_v16 v)
{
    const __m512i bits = _mm512_castps_si512(v), quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
    return _mm512_mask_mov_epi32(up, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), quiet);
}

PF_V16 pf_v16 pf_v16_to_bf16(pf_v16 v)
{
    return _mm512_castsi512_ps(_mm512_and_si512(pf_v16_round_bf16(v), _mm512_set1_epi32(-65536)));
}

/* Lane i: the word of even[i] and odd[i]; rounded as above. */
PF_V16 pf_v16 pf_v16_words_of(pf_v16 even, pf_v16 odd)
{
    const __m512i high = _mm512_and_si512(pf_v16_round_bf16(odd), _mm512_set1_epi32(-65536));
    return _mm512_castsi512_ps(_mm512_or_si512(_mm512_srli_epi32(pf_v16_round_bf16(even), 16), high));
}

/* The low half of lane i to to[2 * i], for the first n; what lies between is not touched. */
PF_V16 void pf_v16_store_low_halves(uint16_t *to, pf_v16 words, int32_t n)
{
    const __mmask32 exist = n >= 16 ? ~(__mmask32)0 : ((__mmask32)1 << (2 * n)) - 1;
    _mm512_mask_storeu_epi16(to, exist & 0x55555555, _mm512_castps_si512(words));
}

/* The same words in a third of the instructions, but for NaN: `numbers` keeps the lanes in which there was none. The
 * halves are parted first, and the high one goes up if the low one is above 0x8000, or is that and the high one odd. */
PF_V16 pf_v16 pf_v16_round_halves(__m512i high, __m512i low)
{
    const __m512i one = _mm512_set1_epi16(1);
    const __m512i sticky = _mm512_ternarylogic_epi32(low, high, one, 0xF8); /* low | high & 1 */
    const __m512i above = _mm512_subs_epu16(sticky, _mm512_set1_epi16(-32768));
    return _mm512_castsi512_ps(_mm512_add_epi16(high, _mm512_min_epu16(above, one)));
}
PF_V16 pf_v16 pf_v16_number_words_of(pf_v16 even, pf_v16 odd, pf_v16_mask *numbers)
{
    const __mmask32 odds = 0xAAAAAAAA;
    __asm__("" : "+v"(even), "+v"(odd)); /* loaded once */
    const __m512i e = _mm512_castps_si512(even), o = _mm512_castps_si512(odd);
    *numbers = _kand_mask16(*numbers, _mm512_cmp_ps_mask(even, odd, _CMP_ORD_Q));
    return pf_v16_round_halves(_mm512_mask_blend_epi16(odds, _mm512_srli_epi32(e, 16), o),
                               _mm512_mask_blend_epi16(odds, e, _mm512_slli_epi32(o, 16)));
}
PF_V16 pf_v16 pf_v16_number_words(pf_v16 low, pf_v16 high, pf_v16_mask *numbers) /* in order; denormals are kept */
{
    const __m512i lower =
        _mm512_setr_epi32(0x20000, 0x60004, 0xA0008, 0xE000C, 0x120010, 0x160014, 0x1A0018, 0x1E001C, 0x220020,
                          0x260024, 0x2A0028, 0x2E002C, 0x320030, 0x360034, 0x3A0038, 0x3E003C);
    const __m512i upper = _mm512_or_si512(lower, _mm512_set1_epi16(1));
    __asm__("" : "+v"(low), "+v"(high));
    const __m512i l = _mm512_castps_si512(low), h = _mm512_castps_si512(high);
    *numbers = _kand_mask16(*numbers, _mm512_cmp_ps_mask(low, high, _CMP_ORD_Q));
    return pf_v16_round_halves(_mm512_permutex2var_epi16(l, upper, h), _mm512_permutex2var_epi16(l, lower, h));
}
PF_V16 pf_v16_mask pf_v16_all_lanes(void)
{
    return 0xFFFF;
}

/* sum = a.even * b.even + (a.odd * b.odd + sum), lane by lane, and the words of 32 numbers in order. Where the machine
 * has no such product, it is an fma for each half (PF_V16_HALVES of them, the odd one first), and a half is f32. */
#ifdef __AVX512BF16__
#define PF_V16_HALVES 1
PF_V16 pf_v16 pf_v16_half(pf_v16 words, int half)
{
    (void)half;
    return words;
}
PF_V16 pf_v16 pf_v16_multiply_half(pf_v16 a, pf_v16 b, pf_v16 sum) /* reads and gives no denormals */
{
    __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
    return sum;
}
PF_V16 pf_v16 pf_v16_words(pf_v16 low, pf_v16 high) /* denormals become zero */
{
    return (pf_v16)_mm512_cvtne2ps_pbh(high, low);
}
#else
#define PF_V16_HALVES 2
PF_V16 pf_v16 pf_v16_half(pf_v16 words, int half)
{
    const __m512i bits = _mm512_castps_si512(words);
    return _mm512_castsi512_ps(half == 0 ? _mm512_and_si512(bits, _mm512_set1_epi32(-65536))
                                         : _mm512_slli_epi32(bits, 16));
}
PF_V16 pf_v16 pf_v16_multiply_half(pf_v16 a, pf_v16 b, pf_v16 sum)
{
    return pf_v16_fma(a, b, sum);
}
PF_V16 pf_v16 pf_v16_words(pf_v16 low, pf_v16 high)
{
    const __m512i upper =
        _mm512_setr_epi32(0x30001, 0x70005, 0xB0009, 0xF000D, 0x130011, 0x170015, 0x1B0019, 0x1F001D, 0x230021,
                          0x270025, 0x2B0029, 0x2F002D, 0x330031, 0x370035, 0x3B0039, 0x3F003D);
    return _mm512_castsi512_ps(_mm512_permutex2var_epi16(pf_v16_round_bf16(low), upper, pf_v16_round_bf16(high)));
}
#endif

#define PF_V16_TURN_ROWS 2 /* from how many rows on storing them turned pays */

/* Lane j of v[i] becomes lane i of v[j]. */
PF_V16 void pf_v16_turn(pf_v16 v[16])
{
    __m512 a[16];
    PF_UNROLL_16
    for (int i = 0; i < 16; i++) { /* pairs of rows: quarter q has words 4q, 4q + 1, or 4q + 2, 4q + 3 */
        const __m512 even = v[i & ~1], odd = v[i | 1];
        a[i] = i & 1 ? _mm512_unpackhi_ps(even, odd) : _mm512_unpacklo_ps(even, odd);
    }
    PF_UNROLL_16
    for (int i = 0; i < 16; i++) { /* four rows: quarter q of v[4g + j] has word 4q + j of rows 4g .. 4g + 3 */
        const __m512d low = _mm512_castps_pd(a[(i & ~3) + (i & 2) / 2]),
                      high = _mm512_castps_pd(a[(i & ~3) + (i & 2) / 2 + 2]);
        v[i] = _mm512_castpd_ps(i & 1 ? _mm512_unpackhi_pd(low, high) : _mm512_unpacklo_pd(low, high));
    }
    PF_UNROLL_16
    for (int i = 0; i < 16; i++) { /* eight: quarters 0 and 2, or 1 and 3, of two of them */
        const __m512 low = v[(i & ~7) + (i & 3)], high = v[(i & ~7) + (i & 3) + 4];
        a[i] = i & 4 ? _mm512_shuffle_f32x4(low, high, 0xDD) : _mm512_shuffle_f32x4(low, high, 0x88);
    }
    PF_UNROLL_16
    for (int i = 0; i < 16; i++) {
        const __m512 low = a[i & 7], high = a[(i & 7) + 8];
        v[i] = i & 8 ? _mm512_shuffle_f32x4(low, high, 0xDD) : _mm512_shuffle_f32x4(low, high, 0x88);
    }
}

/* Sum 8 apart, then 4, 2, 1: pf_tree_sum. */
PF_V16 float pf_v16_tree_sum(pf_v16 v)
{
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

/* The largest lane; none is NaN. */
PF_V16 float pf_v16_largest(pf_v16 v)
{
    const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

/* Lane i of two sums gains v's lane i, in double: lanes 0 .. 7, 8 .. 15. */
typedef struct {
    __m512d low, high;
} pf_v16d;

PF_V16 pf_v16d pf_v16d_zero(void)
{
    return (pf_v16d){ _mm512_setzero_pd(), _mm512_setzero_pd() };
}
PF_V16 pf_v16d pf_v16d_add(pf_v16d sum, pf_v16 v)
{
    return (pf_v16d){ _mm512_add_pd(sum.low, _mm512_cvtps_pd(_mm512_castps512_ps256(v))),
                      _mm512_add_pd(sum.high, _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1))) };
}
PF_V16 void pf_v16d_store(double *p, pf_v16d sum)
{
    _mm512_storeu_pd(p, sum.low);
    _mm512_storeu_pd(p + 8, sum.high);
}

/* p * 2^n where x is above the least whose power is not 0, or a NaN. VSCALEFPS rounds once, as the definition's two products
 * do; a vector in which one lane goes down to a denormal, or through them to 0, takes it 150 cycles (Emerald Rapids), hence
 * the mask: of the keys that a row does not see there are some in the last block of all. */
PF_V16 pf_v16 pf_v16_power(pf_v16 p, pf_v16 n, pf_v16 x, float low)
{
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, pf_v16_set(low), _CMP_NLE_UQ), p, n);
}

/* 2^n of whole numbers n within -126 .. 127. A NaN gives any number. */
PF_V16 pf_v16 pf_v16_exp2_whole(pf_v16 n)
{
    return _mm512_scalef_ps(pf_v16_set(1.0f), n);
}

/* pf_exp, lane by lane. */
PF_V16 pf_v16 pf_v16_exp(pf_v16 x)
{
    x = pf_v16_min(pf_v16_set(PF_EXP_HIGH), x);
    const pf_v16 shift = pf_v16_set(PF_EXP_SHIFT);
    const pf_v16 n = pf_v16_sub(pf_v16_fma(x, pf_v16_set(PF_EXP_LOG2E), shift), shift);
    pf_v16 r = pf_v16_fma(n, pf_v16_set(-PF_EXP_LN2_TOP), x);
    r = pf_v16_fma(n, pf_v16_set(-PF_EXP_LN2_BOTTOM), r);
    pf_v16 p = pf_v16_fma(pf_v16_set(PF_EXP_C7), r, pf_v16_set(PF_EXP_C6));
    p = pf_v16_fma(p, r, pf_v16_set(PF_EXP_C5));
    p = pf_v16_fma(p, r, pf_v16_set(PF_EXP_C4));
    p = pf_v16_fma(p, r, pf_v16_set(PF_EXP_C3));
    p = pf_v16_fma(p, r, pf_v16_set(PF_EXP_C2));
    p = pf_v16_add(pf_v16_fma(p, pf_v16_mul(r, r), r), pf_v16_set(1.0f));
    return pf_v16_power(p, n, x, PF_EXP_LOW);
}

/* pf_exp2_coarse, lane by lane. VSCALEFPS takes the floor itself. Not VREDUCEPS for f: its mode rounds the difference down, too. */
PF_V16 pf_v16 pf_v16_exp2_coarse(pf_v16 x)
{
    const pf_v16 f = pf_v16_sub(x, _mm512_floor_ps(x));
    pf_v16 p = pf_v16_fma(pf_v16_set(PF_EXP2_C3), f, pf_v16_set(PF_EXP2_C2));
    p = pf_v16_fma(p, f, pf_v16_set(PF_EXP2_C1));
    return pf_v16_power(pf_v16_fma(p, f, pf_v16_set(1.0f)), x, x, PF_EXP2_LOW);
}

#endif
