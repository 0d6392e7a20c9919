/*
 * Names the functions of a file that is compiled once for each instruction set (CMakeLists.txt). Internal to kernels/.
 *
 *      void PF_FOR_ISA(pf_rmsnorm_f32)(...)    defines pf_rmsnorm_f32_avx2, pf_rmsnorm_f32_avx512, ...
 *
 * PF_ISA_SUFFIX is avx2, avx512 or avx512bf16 on the compiler's command line. Without one the file is the definition.
 */
#ifndef PF_KERNELS_VEC_ISA_H
#define PF_KERNELS_VEC_ISA_H

#ifndef PF_ISA_SUFFIX
#define PF_ISA_SUFFIX ref
#endif

#define PF_ISA_JOIN_(name, suffix) name##_##suffix
#define PF_ISA_JOIN(name, suffix)  PF_ISA_JOIN_(name, suffix)
#define PF_FOR_ISA(name)           PF_ISA_JOIN(name, PF_ISA_SUFFIX)

#endif
