/* Every implementation there is, declared once for the registry and the files that define them. Internal. */
#ifndef PF_KERNELS_IMPLEMENTATIONS_H
#define PF_KERNELS_IMPLEMENTATIONS_H

#include "kernels/kernels.h"

/* The definitions. */
pf_gemm_pack_fn pf_gemm_pack_f32_ref;
pf_gemm_pack_fn pf_gemm_pack_bf16_ref;
pf_gemm_pack_fn pf_gemm_pack_int8_ref;
pf_gemm_multiply_fn pf_gemm_f32_ref;
pf_gemm_multiply_fn pf_gemm_bf16_ref;
pf_gemm_multiply_fn pf_gemm_integers_int8_ref; /* weights of any integer format */
pf_gemm_multiply_fn pf_gemm_integers_bf16_ref;
pf_rmsnorm_fn pf_rmsnorm_f32_ref;
pf_rope_fn pf_rope_f32_ref;
pf_swiglu_fn pf_swiglu_f32_ref;
pf_attn_fn pf_attn_f32_ref;
pf_attn_fn pf_attn_bf16_ref;
pf_attn_store_fn pf_attn_store_f32_ref;
pf_attn_store_fn pf_attn_store_bf16_ref;
pf_argmax_fn pf_argmax_f32_ref;
pf_softmax_fn pf_softmax_f32_ref;

#ifdef PF_KERNELS_X86
pf_gemm_pack_fn pf_gemm_pack_f32_avx2;
pf_gemm_pack_fn pf_gemm_pack_bf16_avx2;
pf_gemm_multiply_fn pf_gemm_f32_avx2;
pf_gemm_multiply_fn pf_gemm_bf16_avx2;
pf_gemm_pack_fn pf_gemm_pack_int8_pairs_avx2; /* for weights of 8 bits */
pf_gemm_pack_fn pf_gemm_pack_int8_bytes_avx2; /* and of 4, and for VNNI */
pf_gemm_multiply_fn pf_gemm_integers_int8_avx2;
pf_gemm_multiply_fn pf_gemm_integers_int8_avxvnni;
pf_rmsnorm_fn pf_rmsnorm_f32_avx2;
pf_rope_fn pf_rope_f32_avx2;
pf_swiglu_fn pf_swiglu_f32_avx2;
pf_attn_fn pf_attn_f32_avx2;
pf_attn_fn pf_attn_bf16_avx2;
pf_attn_store_fn pf_attn_store_f32_avx2;
pf_attn_store_fn pf_attn_store_bf16_avx2;
pf_argmax_fn pf_argmax_f32_avx2;
pf_softmax_fn pf_softmax_f32_avx2;

pf_gemm_pack_fn pf_gemm_pack_f32_avx512;
pf_gemm_pack_fn pf_gemm_pack_bf16_avx512;
pf_gemm_multiply_fn pf_gemm_f32_avx512;
pf_gemm_multiply_fn pf_gemm_bf16_avx512;
pf_gemm_pack_fn pf_gemm_pack_int8_pairs_avx512;
pf_gemm_pack_fn pf_gemm_pack_int8_bytes_avx512;
pf_gemm_multiply_fn pf_gemm_integers_int8_avx512;
pf_rmsnorm_fn pf_rmsnorm_f32_avx512;
pf_rope_fn pf_rope_f32_avx512;
pf_swiglu_fn pf_swiglu_f32_avx512;
pf_attn_fn pf_attn_f32_avx512;
pf_attn_fn pf_attn_bf16_avx512;
pf_attn_store_fn pf_attn_store_f32_avx512;
pf_attn_store_fn pf_attn_store_bf16_avx512;
pf_argmax_fn pf_argmax_f32_avx512;
pf_softmax_fn pf_softmax_f32_avx512;

pf_gemm_pack_fn pf_gemm_pack_bf16_avx512bf16;
pf_gemm_multiply_fn pf_gemm_bf16_avx512bf16;
pf_attn_fn pf_attn_bf16_avx512bf16;
#endif

#endif
