/*
 * The runtime API, and for C++ the device side: thread indices, barriers, warp operations, atomics, intrinsics, the launch.
 */
#ifndef PF_SHIM_CUDA_RUNTIME_H
#define PF_SHIM_CUDA_RUNTIME_H

#include "tests/cuda-shim/include/cuda_runtime_api.h"

#ifdef __cplusplus
#include "tests/cuda-shim/include/shim_device.hh"
#endif

#endif
