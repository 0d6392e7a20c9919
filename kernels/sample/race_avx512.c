/*
 * The race with sixteen blocks of noise at a time. The likeliest runs first, and its time, which is hardly ever beaten,
 * sifts the others: -log(1 - v) >= v, so who has v >= time * p cannot win. What passes the sieve, a token or two, is
 * timed as the definition does; the sieve is wide by 2^-20, so it holds nobody back.
 */
#include <math.h>

#include "kernels/v16_avx512.h"

enum { BLOCKS = 16, TOKENS = BLOCKS * PF_NOISE_BLOCK };

/* The leader, and what a runner is timed by. */
typedef struct {
    const float *p;
    uint64_t seed;
    pf_noise_domain domain;
    int32_t position;
    int32_t winner;
    double best; /* the winner's time */
} race;

static void run(race *r, int32_t index)
{
    const double time = pf_noise_exponential(r->seed, r->domain, r->position, index) / (double)r->p[index];
    if (time > r->best || (time == r->best && index > r->winner)) return;
    r->best = time;
    r->winner = index;
}

/* Both halves of the 64-bit products of 32-bit lanes. */
PF_V16 void multiply(__m512i a, uint32_t by, __m512i *high, __m512i *low)
{
    const __m512i factor = _mm512_set1_epi32((int)by);
    const __m512i even = _mm512_mul_epu32(a, factor), odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), factor);
    *low = _mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32));
    *high = _mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);
}

/* pf_noise_philox on sixteen counters. */
PF_V16 void philox(__m512i c[4], uint64_t seed)
{
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < PF_PHILOX_ROUNDS; round++, key0 += PF_PHILOX_KEY0, key1 += PF_PHILOX_KEY1) {
        __m512i a_high, a_low, b_high, b_low;
        multiply(c[0], PF_PHILOX_MUL0, &a_high, &a_low);
        multiply(c[2], PF_PHILOX_MUL1, &b_high, &b_low);
        c[0] = _mm512_ternarylogic_epi32(b_high, c[1], _mm512_set1_epi32((int)key0), 0x96); /* a ^ b ^ c */
        c[1] = b_low;
        c[2] = _mm512_ternarylogic_epi32(a_high, c[3], _mm512_set1_epi32((int)key1), 0x96);
        c[3] = a_low;
    }
}

/* Lane b of out[j]: word j of block b, as token 4 b + j reads it: four vectors of words in the order of tokens. */
PF_V16 void in_order_of_tokens(const __m512i words[4], __m512i out[4])
{
    const __m512i pairs_low = _mm512_unpacklo_epi32(words[0], words[1]);  /* blocks 0 1 | 4 5 | 8 9 | 12 13 */
    const __m512i pairs_high = _mm512_unpackhi_epi32(words[0], words[1]); /* blocks 2 3 | 6 7 | ... */
    const __m512i others_low = _mm512_unpacklo_epi32(words[2], words[3]);
    const __m512i others_high = _mm512_unpackhi_epi32(words[2], words[3]);
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

int32_t pf_race_f32_avx512(const float *p, int32_t n, uint64_t seed, pf_noise_domain domain, int32_t position)
{
    const int32_t likeliest = pf_argmax_f32_avx512(p, n);
    if (likeliest < 0 || !(p[likeliest] > 0.0f)) return -1;
    race r = { p, seed, domain, position, likeliest, INFINITY };
    run(&r, likeliest);

    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512 unit = _mm512_set1_ps(0x1p-32f * (1.0f - 0x1p-20f));
    for (int32_t first = 0; first < n; first += TOKENS) {
        __m512 shares[4];
        for (int32_t j = 0; j < 4; j++)
            shares[j] = pf_v16_load_first_or(p + first + 16 * j, n - first - 16 * j, _mm512_setzero_ps());
        const __m512 any = _mm512_max_ps(_mm512_max_ps(shares[0], shares[1]), _mm512_max_ps(shares[2], shares[3]));
        if (_mm512_cmp_ps_mask(any, _mm512_setzero_ps(), _CMP_GT_OQ) == 0) continue; /* none of these has a chance */

        __m512i words[4] = { _mm512_add_epi32(_mm512_set1_epi32(first / PF_NOISE_BLOCK), lanes),
                             _mm512_set1_epi32(position), _mm512_set1_epi32((int)domain), _mm512_setzero_si512() };
        philox(words, seed);
        __m512i ordered[4];
        in_order_of_tokens(words, ordered);
        const __m512 bound = _mm512_set1_ps((float)r.best * (1.0f + 0x1p-20f));
        for (int32_t j = 0; j < 4; j++) {
            const __m512 v = _mm512_mul_ps(_mm512_cvtepu32_ps(ordered[j]), unit);
            uint32_t may_win = _mm512_cmp_ps_mask(v, _mm512_mul_ps(shares[j], bound), _CMP_LT_OQ);
            for (; may_win != 0; may_win &= may_win - 1) run(&r, first + 16 * j + __builtin_ctz(may_win));
        }
    }
    return r.winner;
}
