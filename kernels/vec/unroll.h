/* Unroll the loop that follows, whole: an array of vectors that it indexes then lives in registers. Internal. */
#ifndef PF_KERNELS_VEC_UNROLL_H
#define PF_KERNELS_VEC_UNROLL_H

#ifdef __clang__
#define PF_UNROLL_16 _Pragma("unroll")
#else
#define PF_UNROLL_16 _Pragma("GCC unroll 16")
#endif

#endif
