/* Nibbles of groups to the integers of eight bits that they stand for, with AVX-512: q * m - z * m. Internal. */
#ifndef PF_KERNELS_GEMM_GROUP_BYTES_AVX512_H
#define PF_KERNELS_GEMM_GROUP_BYTES_AVX512_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/vec/rows.h"

/* What the nibbles of a group are multiplied with, and what is taken off then: of 16 columns, and of those 16 further on. */
typedef struct {
    __m512i times[2]; /* words of 16 bits */
    __m512i less[2];  /* bytes */
} pf_group_head;

/* The bytes of 16 columns, four times each: beside the four values of k that a step has of a column. */
PF_INLINE __m512i pf_group_four_times(const uint8_t *columns)
{
    const __m512i four_times = _mm512_set_epi8(15, 15, 15, 15, 14, 14, 14, 14, 13, 13, 13, 13, 12, 12, 12, 12, /**/
                                               11, 11, 11, 11, 10, 10, 10, 10, 9, 9, 9, 9, 8, 8, 8, 8,         /**/
                                               7, 7, 7, 7, 6, 6, 6, 6, 5, 5, 5, 5, 4, 4, 4, 4,                 /**/
                                               3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)columns)),
                               four_times);
}

/* Of the heads [32] of a group. `offset`: what the bytes shall have too much. Two nibbles side by side are multiplied at once,
 * since 15 * 15 carries nothing into the next byte. */
PF_INLINE pf_group_head pf_group_head_of(const uint8_t *heads, const int offset)
{
    pf_group_head head;
    for (size_t v = 0; v < 2; v++) {
        const __m512i bytes = pf_group_four_times(heads + 16 * v);
        const __m512i zeros = _mm512_and_si512(bytes, _mm512_set1_epi8(15));
        head.times[v] = _mm512_and_si512(_mm512_srli_epi16(bytes, 4), _mm512_set1_epi16(15));
        head.less[v] = _mm512_mullo_epi16(zeros, head.times[v]);
        if (offset) head.less[v] = _mm512_sub_epi8(head.less[v], _mm512_set1_epi8((char)offset));
    }
    return head;
}

/* A step of nibbles, 64 bytes, to 128: those of 16 columns, then those 16 further on. */
PF_INLINE void pf_group_bytes(const pf_group_head *head, const uint8_t *from, uint8_t *bytes)
{
    const __m512i low = _mm512_set1_epi8(15), both = _mm512_loadu_si512(from);
    const __m512i q0 = _mm512_and_si512(both, low), q1 = _mm512_and_si512(_mm512_srli_epi16(both, 4), low);
    _mm512_store_si512(bytes, _mm512_sub_epi8(_mm512_mullo_epi16(q0, head->times[0]), head->less[0]));
    _mm512_store_si512(bytes + 64, _mm512_sub_epi8(_mm512_mullo_epi16(q1, head->times[1]), head->less[1]));
}

#endif
