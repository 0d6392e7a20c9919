/*
 * Eight lanes of 32 bits in a YMM register: vec_avx512.h with AVX2 and FMA, under the same names, for what is
 * written once for both (files named _vec.h). Internal; for files compiled for AVX2.
 */
#ifndef PF_KERNELS_VEC_H
#define PF_KERNELS_VEC_H

#include <immintrin.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/vec/rows.h"

enum {
    PF_VEC_LANES = 8,
    PF_VEC_HALVES = 2,    /* of 16 columns */
    PF_VEC_TILE_ROWS = 6, /* two sums a row, two weights, a broadcast and a product */
    PF_VEC_FEW_ROWS = 3,  /* see gemm_few_vec.h */
};
#define PF_VEC_EACH_ROW(DO)           PF_ROWS_6(DO)
#define PF_VEC_EACH_FEW(DO)           PF_ROWS_3(DO)
#define PF_VEC_EACH_HEIGHT(DO, X)     PF_EACH_6(DO, X)
#define PF_VEC_EACH_FEW_HEIGHT(DO, X) PF_EACH_3(DO, X)

typedef __m256i pf_vec;
typedef __m256 pf_vecf;

PF_INLINE pf_vec pf_vec_load(const void *p)
{
    return _mm256_loadu_si256(p);
}
PF_INLINE void pf_vec_store(void *p, pf_vec v)
{
    _mm256_storeu_si256(p, v);
}
PF_INLINE pf_vecf pf_vec_loadf(const void *p)
{
    return _mm256_loadu_ps(p);
}
PF_INLINE void pf_vec_storef(void *p, pf_vecf v)
{
    _mm256_storeu_ps(p, v);
}
PF_INLINE pf_vec pf_vec_zero(void)
{
    return _mm256_setzero_si256();
}
PF_INLINE pf_vec pf_vec_set(uint32_t word)
{
    return _mm256_set1_epi32((int32_t)word);
}
/* A word of memory to all lanes. */
PF_INLINE pf_vec pf_vec_spread(const uint32_t *word)
{
    pf_vec v;
    __asm__("vpbroadcastd %1, %0" : "=x"(v) : "m"(*word));
    return v;
}
PF_INLINE pf_vecf pf_vec_spreadf(const uint32_t *word)
{
    return _mm256_castsi256_ps(pf_vec_spread(word));
}
PF_INLINE pf_vecf pf_vec_setf(float f)
{
    return _mm256_set1_ps(f);
}
PF_INLINE pf_vec pf_vec_and(pf_vec a, pf_vec b)
{
    return _mm256_and_si256(a, b);
}
/* Of each byte, the four low bits. `tall`: the mask stays in memory, where sums need every register. */
PF_INLINE pf_vec pf_vec_low_nibbles(pf_vec a, const bool tall)
{
    static const uint8_t mask[32]
        __attribute__((aligned(32))) = { 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15,
                                         15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15 };
    if (!tall) return _mm256_and_si256(a, _mm256_set1_epi8(15));
    pf_vec v;
    __asm__("vpand %2, %1, %0" : "=x"(v) : "x"(a), "m"(mask));
    return v;
}
/* 128 bits to both halves; of a table of 16 bytes so spread, what bytes 0 to 15 choose. */
PF_INLINE pf_vec pf_vec_spread16(__m128i v)
{
    return _mm256_broadcastsi128_si256(v);
}
PF_INLINE pf_vec pf_vec_look_up(pf_vec table, pf_vec bytes)
{
    return _mm256_shuffle_epi8(table, bytes);
}
/* Within each 128 bits, the low eight bytes of both in turns, and the high eight. */
PF_INLINE pf_vec pf_vec_interleave_low8(pf_vec a, pf_vec b)
{
    return _mm256_unpacklo_epi8(a, b);
}
PF_INLINE pf_vec pf_vec_interleave_high8(pf_vec a, pf_vec b)
{
    return _mm256_unpackhi_epi8(a, b);
}
PF_INLINE pf_vec pf_vec_or(pf_vec a, pf_vec b)
{
    return _mm256_or_si256(a, b);
}
/* Shifts: of lanes of 16 and 32 bits. */
#define pf_vec_right16(v, n) _mm256_srli_epi16(v, n)
#define pf_vec_right(v, n)   _mm256_srli_epi32(v, n)
#define pf_vec_left(v, n)    _mm256_slli_epi32(v, n)
#define pf_vec_left16(v, n)  _mm256_slli_epi16(v, n)

PF_INLINE pf_vec pf_vec_add(pf_vec a, pf_vec b)
{
    pf_vec v;
    __asm__("vpaddd %2, %1, %0" : "=x"(v) : "x"(a), "x"(b));
    return v;
}
PF_INLINE pf_vec pf_vec_add16(pf_vec a, pf_vec b)
{
    pf_vec v;
    __asm__("vpaddw %2, %1, %0" : "=x"(v) : "x"(a), "x"(b));
    return v;
}
/* Low halves of products. */
PF_INLINE pf_vec pf_vec_mul16(pf_vec a, pf_vec b)
{
    return _mm256_mullo_epi16(a, b);
}
/* Two products of int16 a lane, added. */
PF_INLINE pf_vec pf_vec_madd16(pf_vec a, pf_vec b)
{
    pf_vec v;
    __asm__("vpmaddwd %2, %1, %0" : "=x"(v) : "x"(a), "x"(b));
    return v;
}
/* Two products of uint8 and int8 for each 16 bits, added; the caller knows that they fit. */
PF_INLINE pf_vec pf_vec_madd8(pf_vec u, pf_vec s)
{
    pf_vec v;
    __asm__("vpmaddubsw %2, %1, %0" : "=x"(v) : "x"(u), "x"(s));
    return v;
}
PF_INLINE pf_vecf pf_vec_to_float(pf_vec v)
{
    return _mm256_cvtepi32_ps(v);
}
PF_INLINE pf_vecf pf_vec_addf(pf_vecf a, pf_vecf b)
{
    return _mm256_add_ps(a, b);
}
PF_INLINE pf_vecf pf_vec_mul(pf_vecf a, pf_vecf b)
{
    return _mm256_mul_ps(a, b);
}
PF_INLINE pf_vecf pf_vec_fma(pf_vecf a, pf_vecf b, pf_vecf c)
{
    return _mm256_fmadd_ps(a, b, c);
}
PF_INLINE pf_vecf pf_vec_fms(pf_vecf a, pf_vecf b, pf_vecf c)
{
    return _mm256_fmsub_ps(a, b, c);
}
/* One byte a lane. */
PF_INLINE pf_vec pf_vec_load_u8(const void *p)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(p));
}
/* And a byte a lane, in both its halves. */
PF_INLINE pf_vec pf_vec_load_u8_twice(const void *p)
{
    const __m256i halves = _mm256_setr_epi8(0, -1, 0, -1, 1, -1, 1, -1, 2, -1, 2, -1, 3, -1, 3, -1, /**/
                                            4, -1, 4, -1, 5, -1, 5, -1, 6, -1, 6, -1, 7, -1, 7, -1);
    return _mm256_shuffle_epi8(_mm256_broadcastq_epi64(_mm_loadl_epi64(p)), halves);
}
/* Scales as they are, but every NaN of one form. */
PF_INLINE pf_vecf pf_vec_plain_nan(pf_vecf v)
{
    return _mm256_blendv_ps(v, _mm256_set1_ps(NAN), _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
}

/* bf16 pairs: each value rounded to nearest, ties to even. NaN: as pf_vec_plain_nan gives it, or negative. */
PF_INLINE pf_vec pf_vec_to_pairs(pf_vecf even, pf_vecf odd)
{
    const __m256i half = _mm256_set1_epi32(0x7FFF), one = _mm256_set1_epi32(1);
    const __m256i e = _mm256_castps_si256(even), o = _mm256_castps_si256(odd);
    const __m256i e_last = _mm256_and_si256(_mm256_srli_epi32(e, 16), one);
    const __m256i o_last = _mm256_and_si256(_mm256_srli_epi32(o, 16), one);
    const __m256i e_sum = _mm256_add_epi32(e, _mm256_add_epi32(e_last, half));
    const __m256i o_sum = _mm256_add_epi32(o, _mm256_add_epi32(o_last, half));
    return _mm256_blend_epi16(_mm256_srli_epi32(e_sum, 16), o_sum, 0xAA);
}

/* Rounded likewise, and still f32. */
PF_INLINE pf_vecf pf_vec_round(pf_vecf f)
{
    const __m256i bits = _mm256_castps_si256(f);
    const __m256i last = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), last);
    return _mm256_castsi256_ps(_mm256_and_si256(sum, _mm256_set1_epi32((int)0xFFFF0000u)));
}

/* 2^15 and what bits 0 to 22 of a mask add to it: bit 8 is a 1. */
PF_INLINE pf_vecf pf_vec_bits_on_2_15(pf_vec v, uint32_t mask)
{
    return _mm256_castsi256_ps(_mm256_or_si256(_mm256_and_si256(v, pf_vec_set(mask)), pf_vec_set(0x47000000)));
}

/* Four bits a lane, of bits 0 to 3, less 8, as f32: as the last bits of 2^23, of which 2^23 + 8 are taken. */
PF_INLINE pf_vecf pf_vec_nibble_less_8(pf_vec v)
{
    const __m256i bits = _mm256_or_si256(_mm256_and_si256(v, _mm256_set1_epi32(15)), _mm256_set1_epi32(0x4B000000));
    return _mm256_sub_ps(_mm256_castsi256_ps(bits), _mm256_set1_ps(0x1p23f + 8.0f));
}

/* A byte a lane, `shift` bits up, less 128, as f32. */
PF_INLINE pf_vecf pf_vec_byte_less_128(pf_vec v, const int shift)
{
    const __m256i top = _mm256_slli_epi32(_mm256_xor_si256(v, _mm256_set1_epi8(-128)), 24 - shift);
    return _mm256_cvtepi32_ps(_mm256_srai_epi32(top, 24));
}

#endif
