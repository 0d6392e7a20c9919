/* bf16 in twelve bits a weight to bf16 panels. */
#include "kernels/gemm/bf16_12/bf16_12_vec.h"

void PF_FOR_ISA(pf_gemm_unpack_bf16_12)(const pf_gemm_weights *w, const void *layout, int32_t panel, size_t pair,
                                        size_t n_pairs, void *out)
{
    (void)layout;
    uint16_t *to = out;
    const size_t begin = pair / PF_B12_BLOCK_STEPS,
                 end = (pair + n_pairs + PF_B12_BLOCK_STEPS - 1) / PF_B12_BLOCK_STEPS;
    const uint8_t *codes = pf_b12_panel(w, panel), *blocks = codes + pf_b12_head_bytes(w->k);
    const uint8_t *reserved = pf_b12_reserve(w, panel) + pf_b12_reserved_before(codes, begin);
    for (size_t b = begin; b < end; reserved += pf_b12_reserved(codes[b++]), to += PF_B12_BLOCK_VALUES)
        pf_b12_unpack(codes[b], blocks + b * PF_B12_BLOCK_BYTES, reserved, pf_gemm_ahead(w, false), to);
}
