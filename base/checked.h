/* Arithmetic on sizes that may come from a file or a peer, which fails instead of wrapping; and the lesser of two numbers. */
#ifndef PF_BASE_CHECKED_H
#define PF_BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* *out = a op b and true, or false (out untouched) where the result does not fit. */
static inline bool pf_size_add(size_t a, size_t b, size_t *out)
{
    size_t r;
    if (__builtin_add_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

static inline bool pf_size_mul(size_t a, size_t b, size_t *out)
{
    size_t r;
    if (__builtin_mul_overflow(a, b, &r)) return false;
    *out = r;
    return true;
}

/* The smallest multiple of `to` (a power of two) that is at least n; n must leave room for it. */
static inline size_t pf_round_up(size_t n, size_t to)
{
    return (n + to - 1) & ~(to - 1);
}

static inline int32_t pf_min(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

#endif
