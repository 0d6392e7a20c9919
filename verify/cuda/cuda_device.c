#include "verify/cuda/cuda_device.h"

#include <stdio.h>
#include <string.h>

#include "verify/cuda/cuda_backend.h"

bool pf_cuda_is_built(void)
{
    return true;
}

static pf_status fail_driver(pf_error *error)
{
    int driver = 0;
    if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
        return pf_fail(error, PF_UNAVAILABLE, "there is no CUDA driver on this machine");
    return pf_fail(error, PF_UNAVAILABLE, "the CUDA driver is too old: it is of CUDA %d.%d, expected %d.%d or newer",
                   driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
}

pf_status pf_cuda_fail(pf_error *error, cudaError_t code, const char *doing)
{
    (void)cudaGetLastError(); /* the runtime keeps it otherwise, for the next call that looks */
    switch (code) {
    case cudaErrorInsufficientDriver: return fail_driver(error);
    case cudaErrorNoDevice: return pf_fail(error, PF_UNAVAILABLE, "there is no CUDA device on this machine");
    case cudaErrorMemoryAllocation: return pf_fail(error, PF_NOMEM, "the CUDA device has no memory left for %s", doing);
    case cudaErrorNoKernelImageForDevice:
        return pf_fail(error, PF_UNSUPPORTED, "this build has no kernels for the CUDA device's architecture");
    default: return pf_fail(error, PF_UNAVAILABLE, "the CUDA device failed in %s: %s", doing, cudaGetErrorString(code));
    }
}

pf_status pf_cuda_device_open(int32_t device, pf_error *error)
{
    int n = 0;
    PF_CUDA_TRY(cudaGetDeviceCount(&n), "the search for devices", error);
    if (n == 0) return pf_cuda_fail(error, cudaErrorNoDevice, "the search for devices");
    if (device < 0 || device >= n)
        return pf_fail(error, PF_UNAVAILABLE, "CUDA device %d is not there, expected 0 to %d", device, n - 1);
    PF_CUDA_TRY(cudaSetDevice(device), "the choice of a device", error);
    return PF_OK;
}

pf_status pf_cuda_allocate(void **out, size_t n_bytes, const char *what, pf_error *error)
{
    const size_t n = n_bytes > 0 ? n_bytes : 1;
    size_t left = 0, all = 0;
    void *made = NULL;
    if (cudaMalloc(&made, n) != cudaSuccess) {
        (void)cudaGetLastError();
        if (cudaMemGetInfo(&left, &all) != cudaSuccess) (void)cudaGetLastError();
        return pf_fail(error, PF_NOMEM, "the CUDA device has no memory for %s: %.1f MiB are needed, %.1f MiB are free",
                       what, (double)n_bytes / 1048576.0, (double)left / 1048576.0);
    }
    *out = made;
    return PF_OK;
}

pf_status pf_cuda_allocate_pinned(void **out, size_t n_bytes, pf_error *error)
{
    const size_t n = n_bytes > 0 ? n_bytes : 1;
    void *made = NULL;
    if (cudaMallocHost(&made, n) != cudaSuccess) {
        (void)cudaGetLastError();
        return pf_fail(error, PF_NOMEM, "no pinned memory for %.1f MiB", (double)n_bytes / 1048576.0);
    }
    memset(made, 0, n);
    *out = made;
    return PF_OK;
}

/* Two transfers a clock. */
static double bandwidth_of(int32_t i)
{
    int clock_khz = 0, width_bits = 0;
    if (cudaDeviceGetAttribute(&clock_khz, cudaDevAttrMemoryClockRate, i) != cudaSuccess ||
        cudaDeviceGetAttribute(&width_bits, cudaDevAttrGlobalMemoryBusWidth, i) != cudaSuccess) {
        (void)cudaGetLastError();
        return 0.0;
    }
    return 2.0 * clock_khz * width_bits / 8.0 * 1e-6;
}

static pf_status describe(int32_t i, pf_cuda_device *out, pf_error *error)
{
    struct cudaDeviceProp properties;
    size_t left = 0, all = 0;
    PF_CUDA_TRY(cudaGetDeviceProperties(&properties, i), "the description of a device", error);
    PF_CUDA_TRY(cudaSetDevice(i), "the choice of a device", error);
    PF_CUDA_TRY(cudaMemGetInfo(&left, &all), "the description of a device", error);
    *out = (pf_cuda_device){ .memory_bytes = properties.totalGlobalMem,
                             .free_bytes = left,
                             .major = properties.major,
                             .minor = properties.minor,
                             .n_processors = properties.multiProcessorCount,
                             .bandwidth_gb_per_s = bandwidth_of(i) };
    snprintf(out->name, sizeof out->name, "%.127s", properties.name);
    return PF_OK;
}

pf_status pf_cuda_list_devices(pf_cuda_device *out, int32_t capacity, int32_t *n, pf_error *error)
{
    int count = 0;
    *n = 0;
    PF_CUDA_TRY(cudaGetDeviceCount(&count), "the search for devices", error);
    if (count == 0) return pf_cuda_fail(error, cudaErrorNoDevice, "the search for devices");
    for (int32_t i = 0; i < count && i < capacity; i++) PF_TRY(describe(i, &out[i], error));
    *n = count;
    return PF_OK;
}
