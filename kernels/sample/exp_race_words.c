/*
 * The exponential race (Gumbel-max sampling) with many blocks of noise at a time. The likeliest token is timed first, and its
 * time bounds the others: -log(1 - v) >= v, so a token with v >= time * p cannot win. The few tokens below the bound are timed
 * as the definition does; the bound is relaxed by 2^-20, so no winner is excluded.
 */
#include <math.h>

#include "kernels/sample/words.h"

enum { TOKENS = LANES * PF_NOISE_BLOCK };

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

/* pf_noise_philox on as many counters as there are lanes. */
PF_V16 void philox(words c[PF_NOISE_BLOCK], uint64_t seed)
{
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < PF_PHILOX_ROUNDS; round++, key0 += PF_PHILOX_KEY0, key1 += PF_PHILOX_KEY1) {
        words a_high, a_low, b_high, b_low;
        words_multiply(c[0], PF_PHILOX_MUL0, &a_high, &a_low);
        words_multiply(c[2], PF_PHILOX_MUL1, &b_high, &b_low);
        c[0] = words_xor(b_high, c[1], words_set(key0));
        c[1] = b_low;
        c[2] = words_xor(a_high, c[3], words_set(key1));
        c[3] = a_low;
    }
}

/* `likeliest`: the argmax of p, or below 0. */
PF_V16 int32_t race_all(const float *p, int32_t n, uint64_t seed, pf_noise_domain domain, int32_t position,
                        int32_t likeliest)
{
    if (likeliest < 0 || !(p[likeliest] > 0.0f)) return -1;
    race r = { p, seed, domain, position, likeliest, INFINITY };
    run(&r, likeliest);
    for (int32_t first = 0; first < n; first += TOKENS) {
        uint32_t any = 0;
        for (int32_t at = first; at < first + TOKENS; at += LANES) any |= words_chances(p + at, n - at);
        if (any == 0) continue;

        words block[PF_NOISE_BLOCK] = { words_add(words_set((uint32_t)first / PF_NOISE_BLOCK), words_numbers()),
                                        words_set((uint32_t)position), words_set((uint32_t)domain), words_set(0) };
        philox(block, seed);
        words ordered[PF_NOISE_BLOCK];
        words_in_order(block, ordered);
        const float bound = (float)r.best * (1.0f + 0x1p-20f);
        for (int32_t j = 0, at = first; j < PF_NOISE_BLOCK; j++, at += LANES) {
            uint32_t may_win = words_sieve(ordered[j], p + at, n - at, bound);
            for (; may_win != 0; may_win &= may_win - 1) run(&r, at + __builtin_ctz(may_win));
        }
    }
    return r.winner;
}

int32_t PF_FOR_ISA(pf_exp_race_f32)(const float *p, int32_t n, uint64_t seed, pf_noise_domain domain, int32_t position)
{
    return race_all(p, n, seed, domain, position, PF_FOR_ISA(pf_argmax_f32)(p, n));
}
