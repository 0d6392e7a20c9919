/*
 * Words of 32 bits, as many as a register has lanes: what the exponential race (exp_race_words.c) is written in, with AVX-512. The same names
 * stand for YMM registers in words_avx2.h. Internal; for files compiled for AVX-512.
 *
 *   words_set, words_add, words_numbers    one word to all lanes; sums; 0, 1, 2, ...
 *   words_multiply                         both halves of the 64-bit products of all lanes by one word
 *   words_xor                              a ^ b ^ c
 *   words_in_order                         four words of LANES blocks in the order of tokens
 *   words_chances                          bits of the tokens, of the first n of LANES, whose p is above 0
 *   words_sieve                            likewise, those whose word, as a share of 2^32, is below p * bound
 */
#ifndef PF_KERNELS_WORDS_H
#define PF_KERNELS_WORDS_H

#include "kernels/vec/v16_avx512.h"

enum { LANES = 16 };
typedef __m512i words;

PF_V16 words words_set(uint32_t word)
{
    return _mm512_set1_epi32((int)word);
}
PF_V16 words words_add(words a, words b)
{
    return _mm512_add_epi32(a, b);
}
PF_V16 words words_numbers(void)
{
    return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
PF_V16 void words_multiply(words a, uint32_t by, words *high, words *low)
{
    const __m512i factor = words_set(by);
    const __m512i even = _mm512_mul_epu32(a, factor), odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), factor);
    *low = _mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));
    *high = _mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);
}
PF_V16 words words_xor(words a, words b, words c)
{
    return _mm512_ternarylogic_epi32(a, b, c, 0x96);
}

/* Lane b of out[j]: word j of block b, as token 4 b + j reads it: four vectors of words in the order of tokens. */
PF_V16 void words_in_order(const words in[4], words out[4])
{
    const __m512i pairs_low = _mm512_unpacklo_epi32(in[0], in[1]);  /* blocks 0 1 | 4 5 | 8 9 | 12 13 */
    const __m512i pairs_high = _mm512_unpackhi_epi32(in[0], in[1]); /* blocks 2 3 | 6 7 | ... */
    const __m512i others_low = _mm512_unpacklo_epi32(in[2], in[3]);
    const __m512i others_high = _mm512_unpackhi_epi32(in[2], in[3]);
    const __m512i b0 = _mm512_unpacklo_epi64(pairs_low, others_low);   /* whole blocks 0, 4, 8, 12 */
    const __m512i b1 = _mm512_unpackhi_epi64(pairs_low, others_low);   /* 1, 5, 9, 13 */
    const __m512i b2 = _mm512_unpacklo_epi64(pairs_high, others_high); /* 2, 6, 10, 14 */
    const __m512i b3 = _mm512_unpackhi_epi64(pairs_high, others_high); /* 3, 7, 11, 15 */
    const __m512i b01 = _mm512_shuffle_i32x4(b0, b1, 0x44), b23 = _mm512_shuffle_i32x4(b2, b3, 0x44);
    const __m512i c01 = _mm512_shuffle_i32x4(b0, b1, 0xEE), c23 = _mm512_shuffle_i32x4(b2, b3, 0xEE);
    out[0] = _mm512_shuffle_i32x4(b01, b23, 0x88); /* 0 1 2 3 */
    out[1] = _mm512_shuffle_i32x4(b01, b23, 0xDD); /* 4 5 6 7 */
    out[2] = _mm512_shuffle_i32x4(c01, c23, 0x88);
    out[3] = _mm512_shuffle_i32x4(c01, c23, 0xDD);
}

PF_V16 __m512 words_shares(const float *p, int32_t n)
{
    return pf_v16_load_first_or(p, n, _mm512_setzero_ps());
}
PF_V16 uint32_t words_chances(const float *p, int32_t n)
{
    return _mm512_cmp_ps_mask(words_shares(p, n), _mm512_setzero_ps(), _CMP_GT_OQ);
}
PF_V16 uint32_t words_sieve(words w, const float *p, int32_t n, float bound)
{
    const __m512 v = _mm512_mul_ps(_mm512_cvtepu32_ps(w), _mm512_set1_ps(0x1p-32f * (1.0f - 0x1p-20f)));
    return _mm512_cmp_ps_mask(v, _mm512_mul_ps(words_shares(p, n), _mm512_set1_ps(bound)), _CMP_LT_OQ);
}

#endif
