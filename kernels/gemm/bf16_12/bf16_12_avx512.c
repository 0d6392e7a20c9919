/* bf16 in twelve bits to bf16 panels with AVX-512. */
#include "kernels/vec/vec_avx512.h"

#include "kernels/gemm/bf16_12/bf16_12_vec.h"

void pf_gemm_unpack_bf16_12_avx512(const pf_gemm_weights *w, const pf_gemm_layout *layout, int32_t panel, size_t pair,
                                   size_t n_pairs, void *out)
{
    (void)layout;
    pf_b12_widen(w, panel, pair, n_pairs, out);
}
