/*
 * AMX: a tile product of 16 x 16 x 32 bfloat16 or 16 x 16 x 64 bytes an instruction.
 *
 * In assembly: which tiles there are is the processor's state, and a compiler that does not know of it may move what
 * depends on it. The caller has asked the system for tiles (pf_cpu_best_isa does).
 */
#include <stdint.h>

#include "kernels/limits/burst_rows.h"
#include "kernels/vec/tiles_amx.h"

/* What was configured before is put back: others configure their thread once. */
#define BURST(NAME, INSTRUCTION)                                                                             \
    float NAME(int64_t n_rounds)                                                                             \
    {                                                                                                        \
        pf_tile_config before = { 0 };                                                                       \
        if (n_rounds < 1) return 0.0f;                                                                       \
        __asm__ volatile("sttilecfg %0" : "+m"(before));                                                     \
        pf_tile_configure(PF_TILE_ROWS, PF_TILE_ROWS);                                                       \
        __asm__ volatile("tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\t"                         \
                         "tilezero %%tmm3\n\ttilezero %%tmm4\n\ttilezero %%tmm5\n\t"                         \
                         "tilezero %%tmm6\n\ttilezero %%tmm7\n"                                              \
                         "1:\n\t" INSTRUCTION " %%tmm7, %%tmm6, %%tmm0\n\t" INSTRUCTION                      \
                         " %%tmm7, %%tmm6, %%tmm1\n\t" INSTRUCTION " %%tmm7, %%tmm6, %%tmm2\n\t" INSTRUCTION \
                         " %%tmm7, %%tmm6, %%tmm3\n\t" INSTRUCTION " %%tmm7, %%tmm6, %%tmm4\n\t" INSTRUCTION \
                         " %%tmm7, %%tmm6, %%tmm5\n\t"                                                       \
                         "dec %0\n\tjnz 1b\n\t"                                                              \
                         "ldtilecfg %1"                                                                      \
                         : "+r"(n_rounds)                                                                    \
                         : "m"(before)                                                                       \
                         : "cc");                                                                            \
        return 0.0f;                                                                                         \
    }

BURST(pf_burst_bf16_amx, "tdpbf16ps")
BURST(pf_burst_int8_amx, "tdpbusd")
