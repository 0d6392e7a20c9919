/*
 * Counter-based randomness: a number is a function of (seed, domain, position, index) and of nothing else.
 *
 * What is drawn at a position therefore does not depend on how many tokens were verified at once, on rollbacks, or on
 * which process draws. Domains keep the uses independent: the drafter's draws, the target's draws and the uniforms of
 * acceptance never share a number.
 *
 *      key      = seed                                        64 bits
 *      counter  = (index / 4, position, domain, refinement)   4 x 32 bits
 *      block    = Philox4x32-10(counter, key)                 4 words: indices 4i, 4i + 1, 4i + 2, 4i + 3
 *
 * Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011, sections 3.3 and 5.
 * Threads: pure functions.
 */
#ifndef PF_KERNELS_NOISE_H
#define PF_KERNELS_NOISE_H

#include <stdint.h>

typedef enum {
    PF_NOISE_TARGET = 1, /* Gumbel noise of plain sampling; shared with the drafter under `coupled` */
    PF_NOISE_DRAFT = 2,  /* the drafter's own draws */
    PF_NOISE_ACCEPT = 3, /* the verifier's uniforms, never known to a drafter */
} pf_noise_domain;

/* The number-th seed of a family: draws under two of them have nothing in common, however near the numbers or the
 * family's seeds are. Source: the finaliser of splitmix64, Steele et al., OOPSLA 2014. */
uint64_t pf_noise_derive_seed(uint64_t seed, uint64_t number);

/* Its constants. */
#define PF_PHILOX_ROUNDS 10
#define PF_PHILOX_MUL0   0xD2511F53u
#define PF_PHILOX_MUL1   0xCD9E8D57u
#define PF_PHILOX_KEY0   0x9E3779B9u
#define PF_PHILOX_KEY1   0xBB67AE85u

/* The bijection itself: ten rounds on a counter of four words under a key of two. */
void pf_noise_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

enum { PF_NOISE_BLOCK = 4 };

/* The words of indices 4 * block .. 4 * block + 3. */
void pf_noise_block(uint64_t seed, pf_noise_domain domain, int32_t position, uint32_t block, uint32_t refinement,
                    uint32_t out[PF_NOISE_BLOCK]);

/* v in (0, 1) of an index whose word (refinement 0) is at hand: at the middle of its 2^-32; below 2^-16, where that is
 * coarse, at the middle of the 2^-64 that a second block tells apart. */
double pf_noise_open_unit(uint32_t word, uint64_t seed, pf_noise_domain domain, int32_t position, int32_t index);

/* Uniform in [0, 1), a multiple of 2^-24. position: the index in the sequence of the token being chosen. index: a
 * token id, or the number of the use at that position. */
float pf_noise_uniform(uint64_t seed, pf_noise_domain domain, int32_t position, int32_t index);

/* Standard exponential noise of the same counter: -log(1 - v) of the open unit, positive and finite: a token of
 * probability 1e-12 keeps its share. */
double pf_noise_exponential(uint64_t seed, pf_noise_domain domain, int32_t position, int32_t index);

/* The index in 0 .. n-1 with the smallest exponential(index) / p[index] among p > 0, ties to the lowest: the same as
 * the largest log p - log exponential: Gumbel noise. -1: no p is above 0. A p that is no number never wins. */
typedef int32_t pf_exp_race_fn(const float *p, int32_t n, uint64_t seed, pf_noise_domain domain, int32_t position);

#endif
