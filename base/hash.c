#include "base/hash.h"

#include <string.h>
#include <sys/random.h>

#include "base/clock.h"

uint64_t pf_hash_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed) return pf_now_ns(); /* better than none */
    return seed;
}

static inline uint64_t rotate(uint64_t x, int n)
{
    return x << n | x >> (64 - n);
}

static inline void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] = rotate(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] = rotate(v[2], 32);
}

static inline void take_in(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
}

uint64_t pf_hash_bytes(uint64_t seed, const void *bytes, size_t n)
{
    const uint64_t key[2] = { seed, pf_hash_mix(seed) };
    uint64_t v[4] = { key[0] ^ 0x736F6D6570736575u, key[1] ^ 0x646F72616E646F6Du, key[0] ^ 0x6C7967656E657261u,
                      key[1] ^ 0x7465646279746573u };
    const unsigned char *at = bytes;
    uint64_t word;
    for (size_t left = n / 8; left > 0; left--, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        take_in(v, word);
    }
    word = (uint64_t)n << 56;
    for (size_t i = 0; i < n % 8; i++) word |= (uint64_t)at[i] << (8 * i);
    take_in(v, word);
    v[2] ^= 0xFF;
    for (int i = 0; i < 3; i++) sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
