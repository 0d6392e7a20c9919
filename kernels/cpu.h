/* Which instruction sets this machine lets us use. */
#ifndef PF_KERNELS_CPU_H
#define PF_KERNELS_CPU_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* In ascending order: a machine that has one has those above it in this list, so "at least" is a comparison. */
typedef enum {
    PF_ISA_SCALAR,     /* C alone: the definitions */
    PF_ISA_AVX2,       /* AVX2, FMA, F16C */
    PF_ISA_AVX512,     /* AVX-512 F, BW, DQ, VL */
    PF_ISA_AVX512BF16, /* and AVX512_BF16 */
    PF_ISA_AMX,        /* and AMX-TILE, AMX-BF16, AMX-INT8 */
    PF_N_ISAS
} pf_isa;

/* What some machines of an instruction set have and others lack. */
enum {
    PF_FEATURE_AVX_VNNI = 1,     /* VPDPBUSD on YMM without AVX-512 */
    PF_FEATURE_AVX512_VNNI = 2,  /* VPDPBUSD on ZMM */
    PF_FEATURE_FETCH_NEAR = 4,   /* memory is best asked for less than a page ahead (gemm_nest.h): Intel's processors */
    PF_FEATURE_FETCH_SHORT = 8,  /* a few lines ahead, or long before and into the L2 (the same): Zen 3 and Zen 4 */
    PF_FEATURE_FETCH_TILED = 16, /* AMX tiles get as much from there as vectors: Intel's before Granite Rapids */
};

/* The features of this machine, or'ed; none that its system does not save. */
uint32_t pf_cpu_features(void);

/* "scalar", "avx2", "avx512", "avx512bf16", "amx": a static string, the word that --isa takes. */
const char *pf_isa_name(pf_isa isa);

/* The highest that the processor has (CPUID), the system saves on a context switch (XCR0) and this process may use:
 * Linux gives the data of AMX tiles only to a process that asks (arch_prctl ARCH_REQ_XCOMP_PERM, Linux 5.16 and later).
 * The call asks, for all threads of the process, those that there are and those to come; a refusal means no AMX.
 * Asks processor and system each time, which under a hypervisor costs some tens of microseconds: ask once. */
pf_isa pf_cpu_best_isa(void);

/* PF_UNSUPPORTED when `isa` is more than `best` gives; the sentence names both. */
PF_MUST_USE pf_status pf_isa_check(pf_isa isa, pf_isa best, pf_error *error);

/* A word of pf_isa_name, or "auto" for the best there is.
 * PF_INVALID: no such word; the sentence lists them.  PF_UNSUPPORTED: this machine lacks it. */
PF_MUST_USE pf_status pf_isa_parse(const char *text, pf_isa *out, pf_error *error);

#endif
