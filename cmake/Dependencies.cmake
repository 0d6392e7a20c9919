# What is found on the system, as imported targets. Their users: see the LIBS of each module.
#   PkgConfig::JANSSON, PkgConfig::HWLOC          base
#   PkgConfig::PCRE2, UTF8PROC, CRYPTO           tokenizer
#   PkgConfig::LIBEDIT                            cli
#   PkgConfig::PROTOBUF_C, PF_PROTOC_C            proto
#   PkgConfig::MICROHTTPD, CRYPTO                serve
#   PkgConfig::GRPC, PF_ABSEIL_DEADLOCK_MODE      rpc
#   PkgConfig::CMOCKA                             tests
#   PF_ONEDNN_LIBRARY                             kernels, where oneDNN is there
find_package(PkgConfig REQUIRED)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson>=2.14)
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc>=2.7)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8>=10.40)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc>=2.6)
pkg_check_modules(LIBEDIT REQUIRED IMPORTED_TARGET libedit>=3.1)
pkg_check_modules(CRYPTO REQUIRED IMPORTED_TARGET libcrypto>=3.0)
pkg_check_modules(PROTOBUF_C REQUIRED IMPORTED_TARGET libprotobuf-c>=1.4)
pkg_check_modules(MICROHTTPD REQUIRED IMPORTED_TARGET libmicrohttpd>=0.9.72)
pkg_check_modules(GRPC REQUIRED IMPORTED_TARGET grpc)

# gRPC locks with Abseil's mutexes. Debian builds these with their debugging, so that each lock walks a graph of all orders
# in which locks were taken; Abseil's function that ends this is C++ with the version in its name. Empty: it is not there.
set(PF_ABSEIL_DEADLOCK_MODE "")
find_library(PF_ABSEIL_LIBRARY absl_synchronization)
mark_as_advanced(PF_ABSEIL_LIBRARY)
if(PF_ABSEIL_LIBRARY AND CMAKE_NM)
    execute_process(COMMAND ${CMAKE_NM} -D --defined-only ${PF_ABSEIL_LIBRARY} OUTPUT_VARIABLE symbols ERROR_QUIET)
    string(REGEX MATCH "_ZN[A-Za-z0-9_]*SetMutexDeadlockDetectionMode[A-Za-z0-9_]*" PF_ABSEIL_DEADLOCK_MODE "${symbols}")
endif()

find_program(PYTHON3 python3 REQUIRED)   # the build makes files with it, and the checks are written in it

# The compiler of .proto files to C: protobuf's with protobuf-c's generator, or, where that is not there, protobuf-c's own,
# which says from 1.5 on that it is deprecated.
find_program(PROTOC protoc)
find_program(PROTOC_GEN_C protoc-gen-c)
if(PROTOC AND PROTOC_GEN_C)
    set(PF_PROTOC_C ${PROTOC} --plugin=protoc-gen-c=${PROTOC_GEN_C})
else()
    find_program(PROTOC_C protoc-c REQUIRED)
    set(PF_PROTOC_C ${PROTOC_C})
endif()

# oneDNN, version 2 or 3, is for comparing (--gemm onednn). It has no file for pkg-config, and its CMake package wants
# OpenCL's headers. PF_ONEDNN_ROOT: where another one than the system's is installed, built for OpenMP or for one thread.
set(PF_ONEDNN_ROOT "" CACHE PATH "where oneDNN is installed; empty: where the system's is")
if(PF_ONEDNN_ROOT)
    set(only NO_DEFAULT_PATH PATHS ${PF_ONEDNN_ROOT} PATH_SUFFIXES include lib lib64)
endif()
find_path(PF_ONEDNN_INCLUDE oneapi/dnnl/dnnl_version.h ${only})
find_library(PF_ONEDNN_LIBRARY dnnl ${only})
if(PF_ONEDNN_INCLUDE AND PF_ONEDNN_LIBRARY)
    file(STRINGS ${PF_ONEDNN_INCLUDE}/oneapi/dnnl/dnnl_version.h version REGEX "define DNNL_VERSION_MAJOR +[23]$")
endif()
if(NOT version)
    message(STATUS "oneDNN 2 or 3 is not there: --gemm onednn will say so")
    set(PF_ONEDNN_LIBRARY "")
endif()

if(PF_TESTS)
    pkg_check_modules(CMOCKA IMPORTED_TARGET cmocka>=1.1.5)
    if(NOT CMOCKA_FOUND)
        message(STATUS "cmocka is not there: the tests are not built")
        set(PF_TESTS OFF)
    endif()
endif()
