/*
 * Integer weights times int8 activations with AVX2: tiles of 1 to 6 rows by 16 columns, the halves of a panel side by side or,
 * from three rows on, one after the other, so that a panel is still read once.
 */
#include "kernels/vec/vec_avx2.h"

#include "kernels/gemm/int/gemm_int_madd_vec.h"

void pf_gemm_integers_int8_avx2(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin,
                                int32_t panel_end, float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    pf_int_multiply(w, input, m, panel_begin, panel_end, c, ldc, mode, scratch);
}

void pf_gemm_pack_int8_pairs_avx2(void *input, const float *a, size_t lda, int32_t m, int32_t k, int32_t tile_begin,
                                  int32_t tile_end)
{
    pf_int_pack(PF_INT_PAIR_WORDS, PF_VEC_TILE_ROWS, input, a, lda, m, k, tile_begin, tile_end);
}

void pf_gemm_pack_int8_bytes_avx2(void *input, const float *a, size_t lda, int32_t m, int32_t k, int32_t tile_begin,
                                  int32_t tile_end)
{
    pf_int_pack(PF_INT_BYTE_WORDS, PF_VEC_TILE_ROWS, input, a, lda, m, k, tile_begin, tile_end);
}
