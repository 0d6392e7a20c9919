/* The 32-bit words of exp_race_words.c in YMM or ZMM registers, as the file is compiled. Internal. */
#ifdef __AVX512F__
#include "kernels/sample/words_avx512.h"
#else
#include "kernels/sample/words_avx2.h"
#endif

#include "kernels/vec/isa.h"
