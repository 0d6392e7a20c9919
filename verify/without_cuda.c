/* What verify/cuda/ is in a build without CUDA. */
#include "verify/cuda/cuda_backend.h"

#define WITHOUT "this pilotfish was built without CUDA (cmake -DPF_CUDA=on builds with it)"

pf_status pf_cuda_backend_open(const char *path, const pf_cuda_options *options, pf_cuda_backend **out, pf_error *error)
{
    (void)options;
    (void)out;
    return pf_fail(error, PF_UNAVAILABLE, "%s: the backend is cuda, and " WITHOUT, path);
}

void pf_cuda_backend_close(pf_cuda_backend *backend)
{
    (void)backend;
}

pf_forward_backend pf_cuda_forward_backend(pf_cuda_backend *backend)
{
    (void)backend;
    return (pf_forward_backend){ 0 };
}

const char *pf_cuda_backend_refusal(const pf_cuda_backend *backend)
{
    (void)backend;
    return WITHOUT;
}

const pf_config *pf_cuda_backend_config(const pf_cuda_backend *backend)
{
    (void)backend;
    return NULL;
}

int64_t pf_cuda_backend_parameter_count(const pf_cuda_backend *backend)
{
    (void)backend;
    return 0;
}

size_t pf_cuda_backend_weight_bytes(const pf_cuda_backend *backend)
{
    (void)backend;
    return 0;
}

size_t pf_cuda_backend_cache_bytes(const pf_cuda_backend *backend)
{
    (void)backend;
    return 0;
}

pf_status pf_cuda_list_devices(pf_cuda_device *out, int32_t capacity, int32_t *n, pf_error *error)
{
    (void)out;
    (void)capacity;
    *n = 0;
    return pf_fail(error, PF_UNAVAILABLE, WITHOUT);
}

bool pf_cuda_is_built(void)
{
    return false;
}
