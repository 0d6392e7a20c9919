#include "base/hash.h"

#include <pthread.h>
#include <sys/random.h>

#include "base/clock.h"

static uint64_t seed;

static void draw(void)
{
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed) seed = pf_now_ns(); /* better than none */
}

uint64_t pf_hash_seed(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, draw);
    return seed;
}

uint64_t pf_hash_bytes(uint64_t from, const void *bytes, size_t n)
{
    uint64_t h = from ^ 14695981039346656037u;
    for (const unsigned char *at = bytes, *end = at + n; at < end; at++) h = (h ^ *at) * 1099511628211u;
    return pf_hash_mix(h);
}
