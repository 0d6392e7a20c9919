/* One YMM or ZMM register of 32-bit lanes, as the file is compiled, under the same names. Internal to kernels/. */
#ifdef __AVX512F__
#include "kernels/vec/vec_avx512.h"
#else
#include "kernels/vec/vec_avx2.h"
#endif

#include "kernels/vec/isa.h"
