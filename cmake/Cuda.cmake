# The CUDA backend of verify/cuda/: built where PF_CUDA is on, or auto and nvcc is there; else verify/without_cuda.c stands for it.
# nvcc is called for the kernels alone. The runtime is linked as an archive, and cuBLASLt opened when it is used, so that a program
# runs as before where there is no GPU.
#   PF_CUDA_BUILT       whether it is built
#   PF_CUDA_INCLUDE, PF_CUDA_LIBRARIES
#   pf_cuda_kernels(OUT file.cu...)   their objects
set(PF_CUDA auto CACHE STRING "Build the CUDA backend: auto, on, off")
set_property(CACHE PF_CUDA PROPERTY STRINGS auto on off)
set(PF_CUDA_ARCHITECTURES "80;86;89;90;100" CACHE STRING "Architectures that the kernels are compiled for; the last also as PTX")
set(PF_CUDA_BUILT OFF)
if(NOT PF_CUDA MATCHES "^(auto|on|off)$")
    message(FATAL_ERROR "PF_CUDA is ${PF_CUDA}, expected auto, on or off")
endif()
if(NOT PF_CUDA STREQUAL "off")
    find_program(PF_NVCC nvcc PATHS /usr/local/cuda/bin)
    if(PF_NVCC)
        get_filename_component(bin ${PF_NVCC} REALPATH)
        get_filename_component(root ${bin}/../.. ABSOLUTE)
        find_path(PF_CUDA_INCLUDE cublasLt.h PATHS ${root}/include NO_DEFAULT_PATH)
        find_library(PF_CUDA_RUNTIME cudart_static PATHS ${root}/lib64 ${root}/lib NO_DEFAULT_PATH)
    endif()
    if(PF_NVCC AND PF_CUDA_INCLUDE AND PF_CUDA_RUNTIME)
        set(PF_CUDA_BUILT ON)
        set(PF_CUDA_LIBRARIES ${PF_CUDA_RUNTIME} rt ${CMAKE_DL_LIBS})
    elseif(PF_CUDA STREQUAL "on")
        message(FATAL_ERROR "PF_CUDA is on, and nvcc, cublasLt.h or libcudart_static.a is not there")
    endif()
endif()
message(STATUS "CUDA backend: ${PF_CUDA_BUILT}")

function(pf_cuda_kernels out)
    set(codes "")
    set(last "")
    foreach(architecture IN LISTS PF_CUDA_ARCHITECTURES)
        list(APPEND codes -gencode arch=compute_${architecture},code=sm_${architecture})
        set(last ${architecture})
    endforeach()
    list(APPEND codes -gencode arch=compute_${last},code=compute_${last})
    set(objects "")
    foreach(file IN LISTS ARGN)
        get_filename_component(stem ${file} NAME_WE)
        set(object ${CMAKE_CURRENT_BINARY_DIR}/${stem}.o)
        add_custom_command(OUTPUT ${object}
            COMMAND ${CMAKE_C_COMPILER_LAUNCHER} ${PF_NVCC} -std=c++17 -O3 -fmad=false -Werror all-warnings ${codes} -I${CMAKE_SOURCE_DIR}
                    -Xcompiler -fPIC,-fno-exceptions,-fno-threadsafe-statics,-Wall,-Wextra
                    -c ${CMAKE_CURRENT_SOURCE_DIR}/${file} -o ${object} -MD -MF ${object}.d
            DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${file} DEPFILE ${object}.d VERBATIM)
        list(APPEND objects ${object})
    endforeach()
    set_source_files_properties(${objects} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
    set(${out} ${objects} PARENT_SCOPE)
endfunction()
