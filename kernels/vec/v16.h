/* Sixteen floats: two YMM registers or one ZMM register, as the file is compiled. The same names and the same bits. Internal to kernels/. */
#ifdef __AVX512F__
#include "kernels/vec/v16_avx512.h"
#else
#include "kernels/vec/v16_avx2.h"
#endif

#include "kernels/vec/isa.h"
