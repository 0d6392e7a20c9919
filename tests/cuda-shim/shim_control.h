/*
 * Controls the emulated device from a test: calls that fail, faults of kernels, the order of threads, the device's figures;
 * and reports what the emulation found wrong. Process-wide; call it while no other thread is inside the runtime.
 */
#ifndef PF_SHIM_CONTROL_H
#define PF_SHIM_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * PF_SHIM_FORWARD: warp after warp, lanes ascending; a warp runs until all of it waits for the block.
 * PF_SHIM_REVERSE: the same from the last thread down.
 * PF_SHIM_SHUFFLED: blocks, and the threads of each block, in an order drawn from the seed.
 */
typedef enum { PF_SHIM_FORWARD, PF_SHIM_REVERSE, PF_SHIM_SHUFFLED } pf_shim_order;

/* The figures of the emulated device. `pf_shim_default_device()` has 16 GiB, compute capability 9.0, driver 13.0. */
typedef struct {
    int n_devices;               // 0: every call gives cudaErrorNoDevice
    int driver_version;          // below CUDART_VERSION: every call gives cudaErrorInsufficientDriver
    size_t memory_bytes;         // what cudaMalloc gives in all
    size_t shared_bytes_optin;   // dynamic shared memory of a block, where a kernel asks for it
    int major, minor;            // compute capability
} pf_shim_device;

/* The default device, forward order, no call that fails, no error, no violation. Live objects stay. */
void pf_shim_reset(void);
pf_shim_device pf_shim_default_device(void);
void pf_shim_set_device(pf_shim_device device);
void pf_shim_set_order(pf_shim_order order, uint32_t seed);

/*
 * The nth fallible call from here on fails, with the error that this call has on a device (cudaMalloc: out of memory, a wait:
 * an illegal address, which stays). 0: none. Clears errors that stayed. Frees and destructors never fail.
 */
void pf_shim_fail_call(long nth);
/* Fallible calls since pf_shim_fail_call(). */
long pf_shim_calls(void);
/* The nth kernel executed from here on does not run: cudaErrorIllegalAddress shows at the next call that waits. 0: none. */
void pf_shim_fault_kernel(long nth);

/*
 * Violations: what a correct program never does (a wrong direction, a race, a divergent barrier, an access outside of an
 * allocation, a leak of an invalid pointer). Printed to standard error unless quiet, the first ten of them.
 * pf_shim_violations: how many since the last call; pf_shim_first_violation: the first of those, valid until the next one.
 */
int pf_shim_violations(void);
const char *pf_shim_first_violation(void);
void pf_shim_set_quiet(bool quiet);

/* Allocations, registered ranges, streams, events, graphs and handles that are not yet released. */
int pf_shim_live(void);
/* Kernels executed, and changes to another thread of a block, since the start of the process. */
long pf_shim_kernels(void);
long pf_shim_switches(void);
/* Whether this program has the race checker. */
bool pf_shim_checks_races(void);

/*
 * Whether the order of summation of a matrix product depends on the number of columns of its result, beside the algorithm
 * (the default: cuBLAS promises nothing else).
 */
void pf_shim_set_order_by_rows(bool by_rows);

#ifdef __cplusplus
}
#endif

#endif
