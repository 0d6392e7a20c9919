/* Every implementation there is, declared once for the registry and the files that define them. Internal. */
#ifndef PF_KERNELS_IMPLEMENTATIONS_H
#define PF_KERNELS_IMPLEMENTATIONS_H

#include "kernels/gemm/layout_int.h"
#include "kernels/kernels.h"

/* Weights of a panel as bf16: pairs of values [pair, pair + n_pairs) of k, into [n_pairs, 32] words as a bf16 panel has
 * them. Of integers (q - z) * m * s in f32 rounded to nearest, ties to even. `pair` is even; n_pairs is, but at the end of K.
 * `out`, 64-byte aligned, has room for an even number of pairs. Of bf16-12 whole blocks: even is a multiple of 8.
 * Groups of others become f32, as an f32 panel has them: a value of k in place of a pair, from a block of 32 on, and `out` has room
 * for a multiple of four.
 * `layout`: a pf_gemm_layout of integers, a pf_exact_layout of groups of others, else not used. */
typedef void pf_gemm_widen_fn(const pf_gemm_weights *w, const void *layout, int32_t panel, size_t pair, size_t n_pairs,
                              void *out);

/* A product of integer weights and bf16 activations, as pf_gemm_multiply_fn. False: of more rows than it takes, and nothing
 * is done. */
typedef bool pf_gemm_few_fn(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin,
                            int32_t panel_end, float *c, size_t ldc, pf_gemm_mode mode, void *scratch);

/* DO(X, WORD, name) for each activation: those of one input, and all. */
#define PF_EACH_PLAIN_ACTIVATION(DO, X) \
    DO(X, SILU, silu)                   \
    DO(X, GELU, gelu)                   \
    DO(X, GELU_TANH, gelu_tanh)         \
    DO(X, QUICK_GELU, quick_gelu)       \
    DO(X, RELU, relu)                   \
    DO(X, RELU2, relu2)
#define PF_EACH_GATED_ACTIVATION(DO, X) PF_EACH_PLAIN_ACTIVATION(DO, X) DO(X, CLAMPED_SWIGLU, clamped_swiglu)

#define PF_DECLARE_GATED(SUFFIX, WORD, NAME)    pf_gated_fn pf_gated_##NAME##_f32_##SUFFIX;
#define PF_DECLARE_ACTIVATE(SUFFIX, WORD, NAME) pf_activate_fn pf_activate_##NAME##_f32_##SUFFIX;
#define PF_DECLARE_ACTIVATIONS(SUFFIX)                 \
    PF_EACH_GATED_ACTIVATION(PF_DECLARE_GATED, SUFFIX) \
    PF_EACH_PLAIN_ACTIVATION(PF_DECLARE_ACTIVATE, SUFFIX)

/* The definitions. */
PF_DECLARE_ACTIVATIONS(ref)
pf_gemm_pack_fn pf_gemm_pack_f32_ref;
pf_gemm_pack_fn pf_gemm_pack_bf16_ref;
pf_gemm_pack_fn pf_gemm_pack_int8_ref;
pf_gemm_multiply_fn pf_gemm_f32_ref;
pf_gemm_multiply_fn pf_gemm_bf16_ref;
pf_gemm_multiply_fn pf_gemm_bf16_12_ref;
pf_gemm_multiply_fn pf_gemm_bf16_amx_ref; /* the amx class, on what pf_gemm_pack_bf16_ref packed: for tests alone */
pf_gemm_multiply_fn pf_gemm_integers_int8_ref; /* weights of any integer format */
pf_gemm_multiply_fn pf_gemm_integers_bf16_ref;
pf_gemm_pack_fn pf_gemm_pack_exact_ref;
pf_gemm_multiply_fn pf_gemm_exact_ref;
pf_gemm_multiply_fn pf_gemm_exact_f32_ref;
pf_rmsnorm_fn pf_rmsnorm_f32_ref;
pf_layernorm_fn pf_layernorm_f32_ref;
pf_rope_fn pf_rope_f32_ref;
pf_attn_fn pf_attn_f32_ref;
pf_attn_fn pf_attn_bf16_ref;
pf_attn_fn pf_attn_bf16_amx_ref; /* the amx class: see gemm.h */
pf_attn_store_fn pf_attn_store_f32_ref;
pf_attn_store_fn pf_attn_store_bf16_ref;
pf_argmax_fn pf_argmax_f32_ref;
pf_find_invalid_fn pf_find_invalid_f32_ref;
pf_softmax_fn pf_softmax_f32_ref;
pf_top_fn pf_top_f32_ref;
pf_exp_race_fn pf_exp_race_f32_ref;
pf_rescore_fn pf_rescore_bf16_ref;
pf_bounds_split_fn pf_bounds_split_ref;
pf_bounds_floor_fn pf_bounds_floor_ref;
pf_bounds_mark_fn pf_bounds_mark_ref;

#ifdef PF_KERNELS_X86
PF_DECLARE_ACTIVATIONS(avx2)
PF_DECLARE_ACTIVATIONS(avx512)

pf_gemm_pack_weights_fn pf_gemm_pack_weights_avx2;
pf_gemm_pack_fn pf_gemm_pack_f32_avx2;
pf_gemm_pack_columns_fn pf_gemm_pack_columns_f32_avx2;
pf_gemm_pack_fn pf_gemm_pack_bf16_avx2;
pf_gemm_pack_columns_fn pf_gemm_pack_columns_bf16_avx2;
pf_gemm_multiply_fn pf_gemm_f32_avx2;
pf_gemm_multiply_fn pf_gemm_bf16_avx2;
pf_gemm_multiply_fn pf_gemm_bf16_12_avx2;
pf_gemm_pack_fn pf_gemm_pack_int8_pairs_avx2; /* for weights of 8 bits */
pf_gemm_pack_fn pf_gemm_pack_int8_bytes_avx2; /* and of 4, and for VNNI */
pf_gemm_multiply_fn pf_gemm_integers_int8_avx2;
pf_gemm_multiply_fn pf_gemm_integers_int8_avxvnni;
pf_gemm_pack_fn pf_gemm_pack_exact_avx2; /* groups of others */
pf_gemm_pack_columns_fn pf_gemm_pack_columns_exact_avx2;
pf_gemm_multiply_fn pf_gemm_exact_avx2;
pf_gemm_widen_fn pf_gemm_widen_avx2;
pf_gemm_widen_fn pf_gemm_widen_exact_avx2;
pf_gemm_multiply_fn pf_gemm_exact_f32_avx2;
pf_gemm_widen_fn pf_gemm_unpack_bf16_12_avx2;
pf_gemm_multiply_fn pf_gemm_integers_bf16_avx2;
pf_gemm_few_fn pf_gemm_integers_bf16_few_avx2;
pf_rmsnorm_fn pf_rmsnorm_f32_avx2;
pf_layernorm_fn pf_layernorm_f32_avx2;
pf_rope_fn pf_rope_f32_avx2;
pf_attn_fn pf_attn_f32_avx2;
pf_attn_fn pf_attn_bf16_avx2;
pf_attn_store_fn pf_attn_store_f32_avx2;
pf_attn_store_fn pf_attn_store_bf16_avx2;
pf_argmax_fn pf_argmax_f32_avx2;
pf_find_invalid_fn pf_find_invalid_f32_avx2;
pf_softmax_fn pf_softmax_f32_avx2;
pf_exp_race_fn pf_exp_race_f32_avx2;
pf_rescore_fn pf_rescore_bf16_avx2;
pf_bounds_split_fn pf_bounds_split_avx2;
pf_bounds_floor_fn pf_bounds_floor_avx2;
pf_bounds_mark_fn pf_bounds_mark_avx2;

pf_gemm_pack_weights_fn pf_gemm_pack_weights_avx512;
pf_gemm_pack_fn pf_gemm_pack_f32_avx512;
pf_gemm_pack_columns_fn pf_gemm_pack_columns_f32_avx512;
pf_gemm_pack_fn pf_gemm_pack_bf16_avx512;
pf_gemm_pack_columns_fn pf_gemm_pack_columns_bf16_avx512;
pf_gemm_multiply_fn pf_gemm_f32_avx512;
pf_gemm_multiply_fn pf_gemm_bf16_avx512;
pf_gemm_multiply_fn pf_gemm_bf16_12_avx512;
pf_gemm_pack_fn pf_gemm_pack_int8_pairs_avx512;
pf_gemm_pack_fn pf_gemm_pack_int8_bytes_avx512;
pf_gemm_multiply_fn pf_gemm_integers_int8_avx512;
pf_gemm_widen_fn pf_gemm_widen_avx512;
pf_gemm_widen_fn pf_gemm_widen_exact_avx512;
pf_gemm_multiply_fn pf_gemm_exact_f32_avx512;
pf_gemm_widen_fn pf_gemm_unpack_bf16_12_avx512;
pf_gemm_multiply_fn pf_gemm_integers_bf16_avx512;
pf_gemm_few_fn pf_gemm_integers_bf16_few_avx512;
pf_rmsnorm_fn pf_rmsnorm_f32_avx512;
pf_layernorm_fn pf_layernorm_f32_avx512;
pf_rope_fn pf_rope_f32_avx512;
pf_attn_fn pf_attn_f32_avx512;
pf_attn_fn pf_attn_bf16_avx512;
pf_attn_store_fn pf_attn_store_f32_avx512;
pf_attn_store_fn pf_attn_store_bf16_avx512;
pf_argmax_fn pf_argmax_f32_avx512;
pf_find_invalid_fn pf_find_invalid_f32_avx512;
pf_softmax_fn pf_softmax_f32_avx512;
pf_top_fn pf_top_f32_avx512;
pf_exp_race_fn pf_exp_race_f32_avx512;
pf_rescore_fn pf_rescore_bf16_avx512;
pf_bounds_split_fn pf_bounds_split_avx512;
pf_bounds_floor_fn pf_bounds_floor_avx512;
pf_bounds_mark_fn pf_bounds_mark_avx512;

pf_gemm_pack_fn pf_gemm_pack_int8_int8_avx512vnni;
pf_gemm_pack_fn pf_gemm_pack_int4_g32_int8_avx512vnni;
pf_gemm_pack_fn pf_gemm_pack_int4_g128_int8_avx512vnni;
pf_gemm_pack_fn pf_gemm_pack_int4_channel_int8_avx512vnni;
pf_gemm_pack_fn pf_gemm_pack_int4_asym_channel_int8_avx512vnni;
pf_gemm_multiply_fn pf_gemm_int8_int8_avx512vnni;
pf_gemm_pack_fn pf_gemm_pack_exact_avx512vnni;
pf_gemm_pack_columns_fn pf_gemm_pack_columns_exact_avx512vnni;
pf_gemm_multiply_fn pf_gemm_exact_avx512vnni;
pf_gemm_multiply_fn pf_gemm_int4_g32_int8_avx512vnni;
pf_gemm_multiply_fn pf_gemm_int4_g128_int8_avx512vnni;
pf_gemm_multiply_fn pf_gemm_int4_channel_int8_avx512vnni;
pf_gemm_multiply_fn pf_gemm_int4_asym_channel_int8_avx512vnni;

pf_gemm_pack_fn pf_gemm_pack_bf16_avx512bf16;
pf_gemm_pack_columns_fn pf_gemm_pack_columns_bf16_avx512bf16;
pf_gemm_multiply_fn pf_gemm_bf16_avx512bf16;
pf_gemm_multiply_fn pf_gemm_bf16_12_avx512bf16;
pf_gemm_widen_fn pf_gemm_widen_avx512bf16;
pf_gemm_multiply_fn pf_gemm_integers_bf16_avx512bf16;
pf_gemm_few_fn pf_gemm_integers_bf16_few_avx512bf16;
pf_attn_fn pf_attn_bf16_avx512bf16;

pf_gemm_pack_fn pf_gemm_pack_bf16_amx;
pf_gemm_pack_columns_fn pf_gemm_pack_columns_bf16_amx;
pf_gemm_multiply_fn pf_gemm_bf16_amx;
pf_gemm_multiply_gated_fn pf_gemm_gated_bf16_amx;
pf_gemm_multiply_gated_fn pf_gemm_gated_integers_int8_amx; /* any of them */
pf_gemm_pack_fn pf_gemm_pack_int8_int8_amx;
pf_gemm_pack_fn pf_gemm_pack_int4_g32_int8_amx;
pf_gemm_pack_fn pf_gemm_pack_int4_g128_int8_amx;
pf_gemm_pack_fn pf_gemm_pack_int4_channel_int8_amx;
pf_gemm_pack_fn pf_gemm_pack_int4_asym_channel_int8_amx;
pf_gemm_multiply_fn pf_gemm_int8_int8_amx;
pf_gemm_multiply_fn pf_gemm_int4_g32_int8_amx;
pf_gemm_multiply_fn pf_gemm_int4_g128_int8_amx;
pf_gemm_multiply_fn pf_gemm_int4_channel_int8_amx;
pf_gemm_multiply_fn pf_gemm_int4_asym_channel_int8_amx;
pf_attn_fn pf_attn_bf16_amx;

/* The fewest rows that the AMX products of integers give to tiles, and those of bf16 wherever weights lie. */
enum { PF_GEMM_AMX_INT8_ROWS = 3, PF_GEMM_AMX_INT4_ROWS = 5, PF_GEMM_AMX_BF16_ROWS = 6 };

/* Rows of VNNI's highest tiles: the AMX products leave fewer to them. */
enum { PF_GEMM_VNNI_INT8_ROWS = 14, PF_GEMM_VNNI_CHANNEL_ROWS = 12, PF_GEMM_VNNI_GROUP_ROWS = 6 };

/* Up to how many rows groups are multiplied as they lie, not unpacked first: of 128 values in two tiles, too. */
static inline int32_t pf_gemm_vnni_group_rows(int32_t group)
{
    return group == 32 ? PF_GEMM_VNNI_GROUP_ROWS : 2 * PF_GEMM_VNNI_GROUP_ROWS;
}
#endif

#endif
