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
    PF_BURST_BF16, /* VDPBF16PS, TDPBF16PS */
    PF_BURST_INT8, /* VPDPBUSD, TDPBUSD; VPMADDWD where there is neither */
    PF_BURST_INT4, /* the same; VPMADDUBSW, which nibbles do not overflow */
    PF_N_BURSTS
} pf_burst_kind;

/* Returns the sum of all sums, so that none is left out: 0. */
typedef float pf_burst_fn(int64_t n_rounds);

typedef struct {
    pf_burst_fn *run;        /* NULL: there is no such instruction, or not in this build */
    double operations;       /* of one round: a multiply-add is two */
    const char *instruction; /* "VDPBF16PS" */
} pf_burst;

/* The widest burst of a kind that a machine with this instruction set and these features can run. What the machine at
 * hand has: pf_cpu_best_isa(), pf_cpu_features(). */
pf_burst pf_burst_select(pf_burst_kind kind, pf_isa isa, uint32_t features);

#endif
