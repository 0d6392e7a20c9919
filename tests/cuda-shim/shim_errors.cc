/*
 * Errors, failures on request, violations, and the figures of the device.
 */
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/cuda-shim/shim_state.hh"

namespace pf_shim
{
namespace
{
struct report {
    int n = 0;
    bool quiet = false;
    char first[512] = "";
};

report &found()
{
    static report r;
    return r;
}

cudaError_t &last_error()
{
    static thread_local cudaError_t e = cudaSuccess;
    return e;
}

bool is_sticky(cudaError_t e)
{
    return e == cudaErrorIllegalAddress || e == cudaErrorLaunchFailure || e == cudaErrorMisalignedAddress ||
           e == cudaErrorECCUncorrectable;
}

const struct {
    cudaError_t error;
    const char *name, *text;
} TEXTS[] = {
    { cudaSuccess, "cudaSuccess", "no error" },
    { cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument" },
    { cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory" },
    { cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error" },
    { cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument" },
    { cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy" },
    { cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
      "CUDA driver version is insufficient for CUDA runtime version" },
    { cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected" },
    { cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal" },
    { cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice",
      "no kernel image is available for execution on the device" },
    { cudaErrorECCUncorrectable, "cudaErrorECCUncorrectable", "uncorrectable ECC error encountered" },
    { cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle" },
    { cudaErrorNotReady, "cudaErrorNotReady", "device not ready" },
    { cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered" },
    { cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources", "too many resources requested for launch" },
    { cudaErrorHostMemoryAlreadyRegistered, "cudaErrorHostMemoryAlreadyRegistered",
      "part or all of the requested memory range is already mapped" },
    { cudaErrorHostMemoryNotRegistered, "cudaErrorHostMemoryNotRegistered",
      "pointer does not correspond to a registered memory region" },
    { cudaErrorMisalignedAddress, "cudaErrorMisalignedAddress", "misaligned address" },
    { cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure" },
    { cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported" },
    { cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
      "operation not permitted when stream is capturing" },
    { cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
      "operation failed due to a previous error during capture" },
    { cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
      "operation not permitted on an event last recorded in a "
      "capturing stream" },
    { cudaErrorUnknown, "cudaErrorUnknown", "unknown error" },
};
}   // namespace

settings &state()
{
    static settings s = { pf_shim_default_device(), PF_SHIM_FORWARD, 1, true, 0, 0, 0, 0, cudaSuccess, 0, 0 };
    return s;
}

std::recursive_mutex &lock()
{
    static std::recursive_mutex m;
    return m;
}

void violation(const char *format, ...)
{
    report &r = found();
    char text[sizeof r.first];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (r.n == 0) memcpy(r.first, text, sizeof text);
    if (r.n++ < 10 && !r.quiet) fprintf(stderr, "cuda-shim: %s\n", text);
}

api_call::api_call(cudaError_t if_failing, during_capture capture) : guard(lock())
{
    settings &s = state();
    if (s.sticky != cudaSuccess)
        error = s.sticky;
    else if (s.device.driver_version < CUDART_VERSION)
        error = cudaErrorInsufficientDriver;
    else if (s.device.n_devices <= 0)
        error = cudaErrorNoDevice;
    else if (capture == during_capture::forbidden && spoil_captures())
        error = cudaErrorStreamCaptureUnsupported;
    else if (++s.calls == s.fail_call)
        error = if_failing;
    if (error != cudaSuccess) (void)give(error);
}

cudaError_t api_call::give(cudaError_t e) const
{
    if (is_sticky(e)) state().sticky = e;
    if (e != cudaSuccess) last_error() = e;
    return e;
}
}   // namespace pf_shim

using namespace pf_shim;

const char *cudaGetErrorName(cudaError_t error)
{
    for (const auto &t : TEXTS)
        if (t.error == error) return t.name;
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error)
{
    for (const auto &t : TEXTS)
        if (t.error == error) return t.text;
    return "unrecognized error code";
}

cudaError_t cudaPeekAtLastError(void)
{
    const std::lock_guard<std::recursive_mutex> guard(lock());
    return state().sticky != cudaSuccess ? state().sticky : last_error();
}

cudaError_t cudaGetLastError(void)
{
    const cudaError_t e = cudaPeekAtLastError();
    last_error() = cudaSuccess;
    return e;
}

/* ---- the device ---- */

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 0;
    const api_call call(cudaErrorInitializationError);
    if (call.error == cudaSuccess) *count = state().device.n_devices;
    return call.error;
}

cudaError_t cudaSetDevice(int device)
{
    const api_call call(cudaErrorMemoryAllocation);
    if (call.error != cudaSuccess) return call.error;
    if (device < 0 || device >= state().device.n_devices) return call.give(cudaErrorInvalidDevice);
    if (device > 0) violation("cudaSetDevice(%d): the emulation runs device 0 alone", device);
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return api_call(cudaErrorInitializationError).error;
}

cudaError_t cudaSetDeviceFlags(unsigned)
{
    return api_call(cudaErrorInvalidValue).error;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *out, int device)
{
    const api_call call(cudaErrorInvalidDevice);
    if (call.error != cudaSuccess) return call.error;
    const pf_shim_device &d = state().device;
    if (device < 0 || device >= d.n_devices) return call.give(cudaErrorInvalidDevice);
    *out = cudaDeviceProp{};
    (void)snprintf(out->name, sizeof out->name, "Emulated device");
    out->totalGlobalMem = d.memory_bytes;
    out->sharedMemPerBlock = 48 << 10;
    out->sharedMemPerBlockOptin = d.shared_bytes_optin;
    out->sharedMemPerMultiprocessor = d.shared_bytes_optin + 1024;
    out->regsPerBlock = 65536;
    out->warpSize = 32;
    out->maxThreadsPerBlock = out->maxThreadsDim[0] = out->maxThreadsDim[1] = 1024;
    out->maxThreadsDim[2] = 64;
    out->maxGridSize[0] = 0x7fffffff;
    out->maxGridSize[1] = out->maxGridSize[2] = 65535;
    out->major = d.major;
    out->minor = d.minor;
    out->multiProcessorCount = 4;
    out->memoryBusWidth = 384;
    out->l2CacheSize = 32 << 20;
    out->maxThreadsPerMultiProcessor = 2048;
    out->pciBusID = device + 1;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *out, cudaDeviceAttr attribute, int device)
{
    cudaDeviceProp p;
    const cudaError_t e = cudaGetDeviceProperties(&p, device);
    if (e != cudaSuccess) return e;
    switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *out = p.maxThreadsPerBlock; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *out = static_cast<int>(p.sharedMemPerBlock); break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *out = static_cast<int>(p.sharedMemPerBlockOptin); break;
    case cudaDevAttrWarpSize: *out = p.warpSize; break;
    case cudaDevAttrClockRate: *out = 1500000; break;
    case cudaDevAttrMemoryClockRate: *out = 2600000; break;
    case cudaDevAttrMultiProcessorCount: *out = p.multiProcessorCount; break;
    case cudaDevAttrIntegrated: *out = 0; break;
    case cudaDevAttrGlobalMemoryBusWidth: *out = p.memoryBusWidth; break;
    case cudaDevAttrL2CacheSize: *out = p.l2CacheSize; break;
    case cudaDevAttrComputeCapabilityMajor: *out = p.major; break;
    case cudaDevAttrComputeCapabilityMinor: *out = p.minor; break;
    }
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *out, int size, int device)
{
    const api_call call(cudaErrorInvalidDevice);
    if (call.error != cudaSuccess) return call.error;
    (void)snprintf(out, static_cast<size_t>(size), "0000:%02x:00.0", device + 1);
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    const std::lock_guard<std::recursive_mutex> guard(lock());
    *version = state().device.driver_version;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

/* ---- control ---- */

pf_shim_device pf_shim_default_device(void)
{
    return { 1, CUDART_VERSION, static_cast<size_t>(16) << 30, 227 << 10, 9, 0 };
}

void pf_shim_reset(void)
{
    const std::lock_guard<std::recursive_mutex> guard(lock());
    settings &s = state();
    const int n_live = s.n_live;
    const long n_kernels = s.n_kernels;
    s = { pf_shim_default_device(), PF_SHIM_FORWARD, 1, true, 0, 0, 0, n_kernels, cudaSuccess, n_live, 0 };
    last_error() = cudaSuccess;
    found() = report{};
}

void pf_shim_set_device(pf_shim_device device)
{
    const std::lock_guard<std::recursive_mutex> guard(lock());
    state().device = device;
}

void pf_shim_set_order(pf_shim_order order, uint32_t seed)
{
    const std::lock_guard<std::recursive_mutex> guard(lock());
    state().order = order;
    state().seed = seed;
}

void pf_shim_set_order_by_rows(bool by_rows)
{
    const std::lock_guard<std::recursive_mutex> guard(lock());
    state().order_by_rows = by_rows;
}

void pf_shim_fail_call(long nth)
{
    const std::lock_guard<std::recursive_mutex> guard(lock());
    state().fail_call = nth;
    state().calls = 0;
    state().sticky = cudaSuccess;
    last_error() = cudaSuccess;
}

long pf_shim_calls(void)
{
    return state().calls;
}

void pf_shim_fault_kernel(long nth)
{
    const std::lock_guard<std::recursive_mutex> guard(lock());
    state().fault_kernel = nth > 0 ? state().n_kernels + nth : 0;
    state().sticky = cudaSuccess;
    last_error() = cudaSuccess;
}

int pf_shim_violations(void)
{
    const std::lock_guard<std::recursive_mutex> guard(lock());
    const int n = found().n;
    found().n = 0;
    return n;
}

const char *pf_shim_first_violation(void)
{
    return found().first;
}

void pf_shim_set_quiet(bool quiet)
{
    found().quiet = quiet;
}

int pf_shim_live(void)
{
    return state().n_live;
}

long pf_shim_kernels(void)
{
    return state().n_kernels;
}
