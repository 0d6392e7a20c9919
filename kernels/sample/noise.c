#include "kernels/sample/noise.h"

#include <math.h>

#include "base/hash.h"

void pf_noise_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < PF_PHILOX_ROUNDS; round++, k0 += PF_PHILOX_KEY0, k1 += PF_PHILOX_KEY1) {
        const uint64_t a = (uint64_t)PF_PHILOX_MUL0 * c0;
        const uint64_t b = (uint64_t)PF_PHILOX_MUL1 * c2;
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

void pf_noise_block(uint64_t seed, pf_noise_domain domain, int32_t position, uint32_t block, uint32_t refinement,
                    uint32_t out[PF_NOISE_BLOCK])
{
    const uint32_t counter[4] = { block, (uint32_t)position, (uint32_t)domain, refinement };
    const uint32_t key[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
    pf_noise_philox(counter, key, out);
}

static uint32_t noise_word(uint64_t seed, pf_noise_domain domain, int32_t position, int32_t index, uint32_t refinement)
{
    uint32_t words[PF_NOISE_BLOCK];
    pf_noise_block(seed, domain, position, (uint32_t)index / PF_NOISE_BLOCK, refinement, words);
    return words[(uint32_t)index % PF_NOISE_BLOCK];
}

float pf_noise_uniform(uint64_t seed, pf_noise_domain domain, int32_t position, int32_t index)
{
    return (float)(noise_word(seed, domain, position, index, 0) >> 8) * 0x1p-24f;
}

double pf_noise_open_unit(uint32_t word, uint64_t seed, pf_noise_domain domain, int32_t position, int32_t index)
{
    if (word >> 16 != 0) return ((double)word + 0.5) * 0x1p-32;
    const uint32_t fine = noise_word(seed, domain, position, index, 1);
    return (double)word * 0x1p-32 + ((double)fine + 0.5) * 0x1p-64;
}

double pf_noise_exponential(uint64_t seed, pf_noise_domain domain, int32_t position, int32_t index)
{
    const uint32_t word = noise_word(seed, domain, position, index, 0);
    return -log1p(-pf_noise_open_unit(word, seed, domain, position, index));
}

uint64_t pf_noise_derive_seed(uint64_t seed, uint64_t number)
{
    return pf_hash_mix(seed + (number + 1) * 0x9E3779B97F4A7C15u);
}
