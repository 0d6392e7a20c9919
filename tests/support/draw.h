/*
 * Numbers for tests, alike in every run: SplitMix64, whose state is one number that any seed, 0 included, starts well.
 *
 * Source: Steele, Lea and Flood, OOPSLA 2014.
 */
#ifndef PF_TESTS_SUPPORT_DRAW_H
#define PF_TESTS_SUPPORT_DRAW_H

#include <stdint.h>

#include "base/hash.h"

static inline uint64_t draw(uint64_t *rng)
{
    return pf_hash_mix(*rng += 0x9E3779B97F4A7C15u);
}

/* One of 0 .. n - 1. */
static inline int32_t below(uint64_t *rng, int32_t n)
{
    return (int32_t)(draw(rng) % (uint64_t)n);
}

#endif
