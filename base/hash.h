/*
 * Hashes keys that a file or a peer has chosen, for tables in memory. The hash is seeded with a random number for each table,
 * so that an attacker cannot prepare a million keys that collide. For keys of bytes a seed alone is not enough, since
 * differences can be chosen that collide under any seed: SipHash resists that.
 *
 * Source of the finaliser: Steele, Lea and Flood, OOPSLA 2014 (SplitMix64); of the hash of bytes: Aumasson and Bernstein,
 * SipHash (INDOCRYPT 2012), as SipHash-1-3.
 */
#ifndef PF_BASE_HASH_H
#define PF_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* A new random seed for one table. Any thread. */
uint64_t pf_hash_seed(void);

static inline uint64_t pf_hash_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static inline uint64_t pf_hash_pair(uint64_t seed, uint64_t a, uint64_t b)
{
    return pf_hash_mix(pf_hash_mix(a ^ seed) ^ b);
}

/* The key is the seed and pf_hash_mix of it. */
uint64_t pf_hash_bytes(uint64_t seed, const void *bytes, size_t n);

#endif
