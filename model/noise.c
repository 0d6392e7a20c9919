#include "model/noise.h"

#include <math.h>
#include <stdbool.h>

enum { N_ROUNDS = 10, BLOCK = 4 };

void pf_noise_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < N_ROUNDS; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        const uint64_t a = (uint64_t)0xD2511F53u * c0;
        const uint64_t b = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)b;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)a;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* The four words of indices 4 * block .. 4 * block + 3. */
static void noise_block(uint64_t seed, pf_noise_domain domain, int32_t position, uint32_t block, uint32_t refinement,
                        uint32_t out[BLOCK])
{
    const uint32_t counter[4] = { block, (uint32_t)position, (uint32_t)domain, refinement };
    const uint32_t key[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
    pf_noise_philox(counter, key, out);
}

static uint32_t noise_word(uint64_t seed, pf_noise_domain domain, int32_t position, int32_t index, uint32_t refinement)
{
    uint32_t words[BLOCK];
    noise_block(seed, domain, position, (uint32_t)index / BLOCK, refinement, words);
    return words[(uint32_t)index % BLOCK];
}

float pf_noise_uniform(uint64_t seed, pf_noise_domain domain, int32_t position, int32_t index)
{
    return (float)(noise_word(seed, domain, position, index, 0) >> 8) * 0x1p-24f;
}

/* v in (0, 1) from a word, at the middle of its 2^-32; where that is coarse, of its 2^-64. */
static double open_unit(uint32_t word, uint64_t seed, pf_noise_domain domain, int32_t position, int32_t index)
{
    if (word >> 16 != 0) return ((double)word + 0.5) * 0x1p-32;
    const uint32_t fine = noise_word(seed, domain, position, index, 1);
    return (double)word * 0x1p-32 + ((double)fine + 0.5) * 0x1p-64;
}

double pf_noise_exponential(uint64_t seed, pf_noise_domain domain, int32_t position, int32_t index)
{
    return -log1p(-open_unit(noise_word(seed, domain, position, index, 0), seed, domain, position, index));
}

float pf_noise_gumbel(uint64_t seed, pf_noise_domain domain, int32_t position, int32_t index)
{
    return (float)-log(pf_noise_exponential(seed, domain, position, index));
}

int32_t pf_noise_race(const float *p, int32_t n, uint64_t seed, pf_noise_domain domain, int32_t position)
{
    int32_t winner = -1;
    double best = INFINITY;
    for (int32_t first = 0; first < n; first += BLOCK) {
        const int32_t n_here = n - first < BLOCK ? n - first : BLOCK;
        bool wanted = false;
        for (int32_t i = 0; i < n_here; i++) wanted |= p[first + i] > 0.0f;
        if (!wanted) continue;

        uint32_t words[BLOCK];
        noise_block(seed, domain, position, (uint32_t)first / BLOCK, 0, words);
        for (int32_t i = 0; i < n_here; i++) {
            const double share = (double)p[first + i];
            if (!(share > 0.0)) continue;
            const double v = open_unit(words[i], seed, domain, position, first + i);
            if (v >= best * share) continue; /* -log(1 - v) >= v: it cannot win, and needs no logarithm */
            const double time = -log1p(-v) / share;
            if (time < best) {
                best = time;
                winner = first + i;
            }
        }
    }
    return winner;
}

uint64_t pf_noise_derive_seed(uint64_t seed, uint64_t number)
{
    uint64_t z = seed + (number + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}
