/* Integer weights to bf16 panels with AVX-512 BF16, which reads denormals as zero. */
#include "kernels/vec/vec_avx512.h"

#include "kernels/gemm/int/gemm_widen_vec.h"

void pf_gemm_widen_avx512bf16(const pf_gemm_weights *w, const pf_gemm_layout *layout, int32_t panel, size_t pair,
                              size_t n_pairs, void *out)
{
    pf_widen(w, layout, panel, pair, n_pairs, out);
}
