/*
 * Sixteen lanes of 32 bits in a ZMM register, for what is written once for these and for the YMM registers of
 * vec_avx2.h (files named _vec.h). Internal; for files compiled for AVX-512 F, BW, DQ, VL.
 */
#ifndef PF_KERNELS_VEC_H
#define PF_KERNELS_VEC_H

#include <immintrin.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernels/vec/rows.h"

enum {
    PF_VEC_LANES = 16,
    PF_VEC_HALVES = 1,     /* of 16 columns */
    PF_VEC_TILE_ROWS = 12, /* two sums a row, two weights, a broadcast and a product */
    PF_VEC_FEW_ROWS = 8,   /* see gemm_few_vec.h */
};
#define PF_VEC_EACH_ROW(DO)           PF_ROWS_12(DO)
#define PF_VEC_EACH_FEW(DO)           PF_ROWS_8(DO)
#define PF_VEC_EACH_HEIGHT(DO, X)     PF_EACH_12(DO, X)
#define PF_VEC_EACH_FEW_HEIGHT(DO, X) PF_EACH_8(DO, X)

typedef __m512i pf_vec;
typedef __m512 pf_vecf;

PF_INLINE pf_vec pf_vec_load(const void *p)
{
    return _mm512_loadu_si512(p);
}
PF_INLINE void pf_vec_store(void *p, pf_vec v)
{
    _mm512_storeu_si512(p, v);
}
PF_INLINE pf_vecf pf_vec_loadf(const void *p)
{
    return _mm512_loadu_ps(p);
}
PF_INLINE void pf_vec_storef(void *p, pf_vecf v)
{
    _mm512_storeu_ps(p, v);
}
PF_INLINE pf_vec pf_vec_zero(void)
{
    return _mm512_setzero_si512();
}
PF_INLINE pf_vec pf_vec_set(uint32_t word)
{
    return _mm512_set1_epi32((int32_t)word);
}
/* A word of memory to all lanes. */
PF_INLINE pf_vec pf_vec_spread(const uint32_t *word)
{
    pf_vec v;
    __asm__("vpbroadcastd %1, %0" : "=v"(v) : "m"(*word));
    return v;
}
PF_INLINE pf_vecf pf_vec_spreadf(const uint32_t *word)
{
    return _mm512_castsi512_ps(pf_vec_spread(word));
}
PF_INLINE pf_vecf pf_vec_setf(float f)
{
    return _mm512_set1_ps(f);
}
PF_INLINE pf_vec pf_vec_and(pf_vec a, pf_vec b)
{
    return _mm512_and_si512(a, b);
}
PF_INLINE pf_vec pf_vec_low_nibbles(pf_vec a, const bool tall) /* of each byte, the four low bits */
{
    (void)tall;
    return _mm512_and_si512(a, _mm512_set1_epi8(15));
}
/* 128 bits to all; of a table of 16 bytes so spread, what bytes 0 to 15 choose. */
PF_INLINE pf_vec pf_vec_spread16(__m128i v)
{
    return _mm512_broadcast_i32x4(v);
}
PF_INLINE pf_vec pf_vec_look_up(pf_vec table, pf_vec bytes)
{
    return _mm512_shuffle_epi8(table, bytes);
}
/* Within each 128 bits, the low eight bytes of both in turns, and the high eight. */
PF_INLINE pf_vec pf_vec_interleave_low8(pf_vec a, pf_vec b)
{
    return _mm512_unpacklo_epi8(a, b);
}
PF_INLINE pf_vec pf_vec_interleave_high8(pf_vec a, pf_vec b)
{
    return _mm512_unpackhi_epi8(a, b);
}
PF_INLINE pf_vec pf_vec_or(pf_vec a, pf_vec b)
{
    return _mm512_or_si512(a, b);
}
/* Shifts: of lanes of 16 and 32 bits. */
#define pf_vec_right16(v, n) _mm512_srli_epi16(v, n)
#define pf_vec_right(v, n)   _mm512_srli_epi32(v, (unsigned)(n))
#define pf_vec_left(v, n)    _mm512_slli_epi32(v, n)
#define pf_vec_left16(v, n)  _mm512_slli_epi16(v, n)

PF_INLINE pf_vec pf_vec_add(pf_vec a, pf_vec b)
{
    pf_vec v;
    __asm__("vpaddd %2, %1, %0" : "=v"(v) : "v"(a), "v"(b));
    return v;
}
PF_INLINE pf_vec pf_vec_add16(pf_vec a, pf_vec b)
{
    pf_vec v;
    __asm__("vpaddw %2, %1, %0" : "=v"(v) : "v"(a), "v"(b));
    return v;
}
/* Low halves of products. */
PF_INLINE pf_vec pf_vec_mul16(pf_vec a, pf_vec b)
{
    return _mm512_mullo_epi16(a, b);
}
/* Two products of int16 a lane, added. */
PF_INLINE pf_vec pf_vec_madd16(pf_vec a, pf_vec b)
{
    pf_vec v;
    __asm__("vpmaddwd %2, %1, %0" : "=v"(v) : "v"(a), "v"(b));
    return v;
}
/* Two products of uint8 and int8 for each 16 bits, added; the caller knows that they fit. */
PF_INLINE pf_vec pf_vec_madd8(pf_vec u, pf_vec s)
{
    pf_vec v;
    __asm__("vpmaddubsw %2, %1, %0" : "=v"(v) : "v"(u), "v"(s));
    return v;
}
PF_INLINE pf_vecf pf_vec_to_float(pf_vec v)
{
    return _mm512_cvtepi32_ps(v);
}
PF_INLINE pf_vecf pf_vec_addf(pf_vecf a, pf_vecf b)
{
    return _mm512_add_ps(a, b);
}
PF_INLINE pf_vecf pf_vec_mul(pf_vecf a, pf_vecf b)
{
    return _mm512_mul_ps(a, b);
}
PF_INLINE pf_vecf pf_vec_fma(pf_vecf a, pf_vecf b, pf_vecf c)
{
    return _mm512_fmadd_ps(a, b, c);
}
PF_INLINE pf_vecf pf_vec_fms(pf_vecf a, pf_vecf b, pf_vecf c)
{
    return _mm512_fmsub_ps(a, b, c);
}
/* One byte a lane. */
PF_INLINE pf_vec pf_vec_load_u8(const void *p)
{
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(p));
}
/* And a byte a lane, in both its halves. */
PF_INLINE pf_vec pf_vec_load_u8_twice(const void *p)
{
    const __m512i halves = _mm512_set_epi8(-1, 15, -1, 15, -1, 14, -1, 14, -1, 13, -1, 13, -1, 12, -1, 12, /**/
                                           -1, 11, -1, 11, -1, 10, -1, 10, -1, 9, -1, 9, -1, 8, -1, 8,     /**/
                                           -1, 7, -1, 7, -1, 6, -1, 6, -1, 5, -1, 5, -1, 4, -1, 4,         /**/
                                           -1, 3, -1, 3, -1, 2, -1, 2, -1, 1, -1, 1, -1, 0, -1, 0);
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128(p)), halves);
}
/* Scales as they are, but every NaN of one form. */
PF_INLINE pf_vecf pf_vec_plain_nan(pf_vecf v)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), v, _mm512_set1_ps(NAN));
}

/* bits + 0x7FFF + bit 16, which rounds what is above bit 16 to nearest, ties to even: ~(0x7FFE | bit 16) is taken. */
PF_INLINE pf_vec pf_vec_round_up(pf_vec bits)
{
    const pf_vec taken = _mm512_ternarylogic_epi32(pf_vec_right(bits, 16), pf_vec_set(1), pf_vec_set(0x7FFE), 0x15);
    return _mm512_sub_epi32(bits, taken);
}

/* bf16 pairs: each value rounded to nearest, ties to even. NaN: as pf_vec_plain_nan gives it, or negative. */
PF_INLINE pf_vec pf_vec_to_pairs(pf_vecf even, pf_vecf odd)
{
#ifdef __AVX512BF16__ /* denormals become zero */
    const __m512i interleaved = _mm512_set_epi32(0x001F000F, 0x001E000E, 0x001D000D, 0x001C000C, 0x001B000B, 0x001A000A,
                                                 0x00190009, 0x00180008, 0x00170007, 0x00160006, 0x00150005, 0x00140004,
                                                 0x00130003, 0x00120002, 0x00110001, 0x00100000);
    return _mm512_permutexvar_epi16(interleaved, (__m512i)_mm512_cvtne2ps_pbh(odd, even));
#else
    const pf_vec e = pf_vec_round_up(_mm512_castps_si512(even)), o = pf_vec_round_up(_mm512_castps_si512(odd));
    return _mm512_mask_blend_epi16(0xAAAAAAAA, pf_vec_right(e, 16), o);
#endif
}

/* Rounded likewise, and still f32. */
PF_INLINE pf_vecf pf_vec_round(pf_vecf f)
{
    const pf_vec bits = pf_vec_round_up(_mm512_castps_si512(f));
    return _mm512_castsi512_ps(_mm512_and_si512(bits, pf_vec_set(0xFFFF0000)));
}

/* 2^15 and what bits 0 to 22 of a mask add to it: bit 8 is a 1. */
PF_INLINE pf_vecf pf_vec_bits_on_2_15(pf_vec v, uint32_t mask)
{
    return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(v, pf_vec_set(mask), pf_vec_set(0x47000000), 0xEA));
}

/* Four bits a lane, of bits 0 to 3, less 8, as f32. */
PF_INLINE pf_vecf pf_vec_nibble_less_8(pf_vec v)
{
    return _mm512_permutexvar_ps(v, _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7));
}

/* A byte a lane, `shift` bits up, less 128, as f32. */
PF_INLINE pf_vecf pf_vec_byte_less_128(pf_vec v, const int shift)
{
    const __m512i top = _mm512_slli_epi32(_mm512_xor_si512(v, _mm512_set1_epi8(-128)), (uint8_t)(24 - shift));
    return _mm512_cvtepi32_ps(_mm512_srai_epi32(top, 24));
}

#endif
