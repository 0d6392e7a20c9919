/* Integer weights times few rows of bf16 with VDPBF16PS. */
#include "kernels/vec/vec_avx512.h"

#include "kernels/gemm/int/gemm_few_vec.h"

bool pf_gemm_integers_bf16_few_avx512bf16(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin,
                                          int32_t panel_end, float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    return pf_few_multiply(w, input, m, panel_begin, panel_end, c, ldc, mode, scratch);
}
