#include "base/hash.h"

#include <sys/random.h>

#include "base/clock.h"

uint64_t pf_hash_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed) return pf_now_ns(); /* better than none */
    return seed;
}

uint64_t pf_hash_bytes(uint64_t seed, const void *bytes, size_t n)
{
    uint64_t h = seed ^ 14695981039346656037u;
    for (const unsigned char *at = bytes, *end = at + n; at < end; at++) h = (h ^ *at) * 1099511628211u;
    return pf_hash_mix(h);
}
