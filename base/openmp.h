/*
 * Finds an OpenMP runtime at run time, without linking to one.
 *
 * A process should have one pool of OpenMP threads. Python wheels bring a runtime of their own under another file name
 * (libgomp-a34b3233.so.1 of PyTorch), and a program that links the system's libgomp beside it gets a second pool. So a runtime
 * that the process has loaded is used, and the system's is loaded only where there is none.
 *
 * Order: a loaded runtime other than the system's libgomp.so.1 (a host process chose it); the system's libgomp.so.1 where it is
 * loaded; libgomp.so.1, libomp.so.5, libomp.so, libiomp5.so as the dynamic linker finds them. Of several loaded ones, the first
 * that was loaded. A runtime that has been found is never unloaded, as its threads run its code.
 *
 * All entry points are those of libgomp, which libomp and libiomp5 have too.
 */
#ifndef PF_BASE_OPENMP_H
#define PF_BASE_OPENMP_H

#include <limits.h>
#include <stdint.h>

#include "base/status.h"

typedef struct {
    void (*parallel)(void (*fn)(void *data), void *data, unsigned n_threads, unsigned flags); /* GOMP_parallel */
    int (*thread_num)(void);                                                                  /* omp_get_thread_num */
    int (*num_threads)(void);                                                                 /* and so on */
    int (*max_threads)(void);
    int (*thread_limit)(void);
    int (*get_dynamic)(void);
    void (*set_dynamic)(int on);
    char path[PATH_MAX]; /* of its file */
} pf_openmp;

/* PF_UNAVAILABLE: the process has no runtime loaded, and none of the system can be loaded. */
PF_MUST_USE pf_status pf_openmp_find(pf_openmp *out, pf_error *error);

/* The same, where the system's runtimes have these names. names: ends with NULL; the first is looked up as the system's libgomp. */
PF_MUST_USE pf_status pf_openmp_find_among(const char *const *names, pf_openmp *out, pf_error *error);

/* The threads that a parallel region of the calling thread has when it asks for no number: OMP_NUM_THREADS, what the host process
 * has set (torch.set_num_threads), OMP_THREAD_LIMIT, or the CPUs there are. */
int32_t pf_openmp_threads(const pf_openmp *openmp);

#endif
