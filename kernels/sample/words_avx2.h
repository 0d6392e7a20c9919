/*
 * Eight words of 32 bits in a YMM register, and what the exponential race (exp_race_words.c) does with them: words_avx512.h with AVX2.
 * Internal; for files compiled for AVX2.
 */
#ifndef PF_KERNELS_WORDS_H
#define PF_KERNELS_WORDS_H

#include "kernels/vec/v16_avx2.h"

enum { LANES = 8 };
typedef __m256i words;

PF_V16 words words_set(uint32_t word)
{
    return _mm256_set1_epi32((int)word);
}
PF_V16 words words_add(words a, words b)
{
    return _mm256_add_epi32(a, b);
}
PF_V16 words words_numbers(void)
{
    return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
}
PF_V16 void words_multiply(words a, uint32_t by, words *high, words *low)
{
    const __m256i factor = words_set(by);
    const __m256i even = _mm256_mul_epu32(a, factor), odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), factor);
    *low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
    *high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
}
PF_V16 words words_xor(words a, words b, words c)
{
    return _mm256_xor_si256(_mm256_xor_si256(a, b), c);
}

/* Lane b of out[j]: word j of block b, as token 4 b + j reads it: four vectors of words in the order of tokens. */
PF_V16 void words_in_order(const words in[4], words out[4])
{
    const __m256i pairs_low = _mm256_unpacklo_epi32(in[0], in[1]);  /* blocks 0 1 | 4 5 */
    const __m256i pairs_high = _mm256_unpackhi_epi32(in[0], in[1]); /* blocks 2 3 | 6 7 */
    const __m256i others_low = _mm256_unpacklo_epi32(in[2], in[3]);
    const __m256i others_high = _mm256_unpackhi_epi32(in[2], in[3]);
    const __m256i b0 = _mm256_unpacklo_epi64(pairs_low, others_low);   /* whole blocks 0, 4 */
    const __m256i b1 = _mm256_unpackhi_epi64(pairs_low, others_low);   /* 1, 5 */
    const __m256i b2 = _mm256_unpacklo_epi64(pairs_high, others_high); /* 2, 6 */
    const __m256i b3 = _mm256_unpackhi_epi64(pairs_high, others_high); /* 3, 7 */
    out[0] = _mm256_permute2x128_si256(b0, b1, 0x20);
    out[1] = _mm256_permute2x128_si256(b2, b3, 0x20);
    out[2] = _mm256_permute2x128_si256(b0, b1, 0x31);
    out[3] = _mm256_permute2x128_si256(b2, b3, 0x31);
}

PF_V16 __m256 words_shares(const float *p, int32_t n)
{
    return n >= LANES ? _mm256_loadu_ps(p) : _mm256_maskload_ps(p, pf_v8_first(n));
}
PF_V16 uint32_t words_chances(const float *p, int32_t n)
{
    return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(words_shares(p, n), _mm256_setzero_ps(), _CMP_GT_OQ));
}
/* There is no conversion of unsigned words: half of each, which is no more. */
PF_V16 uint32_t words_sieve(words w, const float *p, int32_t n, float bound)
{
    const __m256 half = _mm256_cvtepi32_ps(_mm256_srli_epi32(w, 1));
    const __m256 v = _mm256_mul_ps(half, _mm256_set1_ps(0x1p-31f * (1.0f - 0x1p-20f)));
    const __m256 may_win = _mm256_cmp_ps(v, _mm256_mul_ps(words_shares(p, n), _mm256_set1_ps(bound)), _CMP_LT_OQ);
    return (uint32_t)_mm256_movemask_ps(may_win);
}

#endif
