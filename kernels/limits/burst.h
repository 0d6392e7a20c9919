/*
 * Bursts of multiply-adds that nothing holds up: operands in registers, more independent sums than a multiplier's
 * latency needs. What a benchmark calls the peak of this machine is what these reach in the same moments.
 *
 *      for round in 0 .. n_rounds:   sum[i] += a * b   for each of the independent sums
 *
 * Not a kernel: there is no definition to agree with, and the result is 0 in any arithmetic.
 */
#ifndef PF_KERNELS_BURST_H
#define PF_KERNELS_BURST_H

#include <stdint.h>

#include "kernels/cpu.h"

typedef enum {
    PF_BURST_F32,  /* VFMADD231PS */
    PF_BURST_BF16, /* VDPBF16PS */
    PF_BURST_INT8, /* VPDPBUSD */
    PF_N_BURSTS
} pf_burst_kind;

/* Returns the sum of all sums, so that none is left out: 0. */
typedef float pf_burst_fn(int64_t n_rounds);

typedef struct {
    pf_burst_fn *run;  /* NULL: this machine, or this build, has no such instruction */
    double operations; /* of one round: a multiply-add is two */
} pf_burst;

/* The widest burst of a kind that this machine can run. */
pf_burst pf_burst_select(pf_burst_kind kind);

#endif
