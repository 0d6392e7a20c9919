/*
 * AMX on a processor without it, for tests: linked into a program, this runs the AMX instructions of unmodified machine
 * code.
 *
 * Without AMX its opcodes raise SIGILL. The handler decodes the instruction, lets amx_tiles.c do it on tiles of the
 * thread's own, and goes on behind it, as long as one AMX instruction follows another; some 200 thousand a second. What
 * would fault on AMX faults here, at the same instruction: #UD is SIGILL, #GP is SIGSEGV. AddressSanitizer sees loads and
 * stores of tiles, which on AMX it could not.
 *
 * Linked with -Wl,--wrap=pf_cpu_best_isa (the library pf_amx_trap brings it), so that kernels are chosen as if the machine
 * had AMX. That needs the instruction sets below; a machine that lacks those, or is no x86-64, keeps what it has. A
 * machine with AMX runs its own: nothing is trapped and nothing counted.
 */
#ifndef PF_TESTS_AMX_TRAP_H
#define PF_TESTS_AMX_TRAP_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    uint64_t configures, releases, zeros, loads, stores, multiplies;
    uint64_t loaded_rows, stored_rows; /* by those loads and stores */
} amx_counts;

/* Whether AMX instructions are trapped here: false where the processor runs them, and where nothing can. Takes SIGILL, as
 * pf_cpu_best_isa does: one of the two must be called in each test, because cmocka takes it before each. */
bool amx_trap_works(void);

/* What all threads have run since the last reset. */
amx_counts amx_trap_counts(void);
void amx_trap_reset(void);

#endif
