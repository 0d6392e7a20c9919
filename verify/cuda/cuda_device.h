/* Opens a device, and tells its errors as a status and a sentence. */
#ifndef PF_VERIFY_CUDA_DEVICE_H
#define PF_VERIFY_CUDA_DEVICE_H

#include <cuda_runtime_api.h>

#include "base/status.h"

/* The status of a CUDA error; the sentence says what was being done: "the upload of weights". */
PF_MUST_USE pf_status pf_cuda_fail(pf_error *error, cudaError_t code, const char *doing);

/* As PF_TRY for a call of the CUDA runtime. */
#define PF_CUDA_TRY(call, doing, error)                                                     \
    do {                                                                                    \
        const cudaError_t pf_cuda_try_ = (call);                                            \
        if (pf_cuda_try_ != cudaSuccess) return pf_cuda_fail((error), pf_cuda_try_, doing); \
    } while (0)

/* Makes the device that of the calling thread. PF_UNAVAILABLE: there is none of this number, or the driver is too old. */
PF_MUST_USE pf_status pf_cuda_device_open(int32_t device, pf_error *error);

/* Memory on the device, which holds anything. `what` names it in the sentence. */
PF_MUST_USE pf_status pf_cuda_allocate(void **out, size_t n_bytes, const char *what, pf_error *error);

/* Memory of the host that the device reads and writes, zeroed. */
PF_MUST_USE pf_status pf_cuda_allocate_pinned(void **out, size_t n_bytes, pf_error *error);

#endif
