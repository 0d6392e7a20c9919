/* The table of all kernels, and the choice among them. */
#include "kernels/implementations.h"

/* Classes of arithmetic: kernels of one class give the same bits on the same input. */
#define ONE_CHAIN_F32  "f32, one fma chain over k"
#define ONE_CHAIN_BF16 "bf16 pairs, one f32 fma chain over k, denormals kept"
#define VDPBF16        "bf16 pairs, one f32 fma chain over k, denormals flushed"
#define TDPBF16        "bf16 pairs, even and odd apart in 32 of k, denormals flushed"
#define SIXTEEN_SUMS   "f32, 16 partial sums"
#define ELEMENTWISE    "f32, element by element"
#define COPY           "rounding to the cache's type"
#define ATTN_F32       "f32, one fma chain over d and one over positions"
#define ATTN_BF16      "bf16 pairs, one f32 fma chain over d and one over positions, denormals kept"
#define ATTN_VDPBF16   "bf16 pairs, one f32 fma chain over d and one over positions, denormals flushed"
#define ATTN_TDPBF16   "bf16 pairs, even and odd apart in 32 of d or positions, denormals flushed"
#define ROUNDING       "rounding to the format"
#define EXACT          "exact integers"
#define BLOCK_SUMS     "exact integers of 32 of k, one fma chain over these"

#define PANELS_F32     "panels of 32 columns, k by k"
#define PANELS_BF16    "panels of 32 columns, k pair by k pair"
#define PANELS_BF16_12 "panels of 32 columns, k pair by k pair, twelve bits a weight"
#define PANELS_INTS    "panels of 32 columns, four k by four k"
#define PANELS_GROUPS  "panels of 32 columns, groups of the file"

static const pf_kernel table[] = {
#define GEMM_ROW(FORMAT, ACT, ISA, FEATURES, TILE, ROWS, PACKING, CLASS, PACK, COLUMNS, MULTIPLY, ...)         \
    {                                                                                                          \
        .op = PF_OP_GEMM, .format = PF_FORMAT_##FORMAT, .act = PF_ACT_##ACT, .isa = ISA, .features = FEATURES, \
        .name = #MULTIPLY, .tile = TILE, .packing = PACKING, .arithmetic = CLASS, .fn.gemm = {                 \
            .tile_rows = ROWS,                                                                                 \
            .pack = PACK,                                                                                      \
            .pack_columns = COLUMNS,                                                                           \
            .packed_value_bytes = VALUE_BYTES(ISA),                                                            \
            .multiply = MULTIPLY,                                                                              \
            __VA_ARGS__                                                                                        \
        }                                                                                                      \
    }
/* What multiplies pairs packs pairs of bf16; the others a word a value. */
#define VALUE_BYTES(ISA) ((ISA) >= PF_ISA_AVX512BF16 ? 2 : 4)
/* The last argument: gate and up in one call or not, and how much of them is gone through together (gemm_amx.h). */
#define APART                   .multiply_gated = NULL
#define GATED(FUNCTION, FEWEST) .multiply_gated = FUNCTION, .gated_rows = FEWEST, .group_rows = 512, .group_panels = 16
#define GATED_BF16              GATED(pf_gemm_gated_bf16_amx, PF_GEMM_AMX_BF16_ROWS)
#define GATED_INT8              GATED(pf_gemm_gated_integers_int8_amx, PF_GEMM_AMX_INT8_ROWS)
#define GATED_INT4              GATED(pf_gemm_gated_integers_int8_amx, PF_GEMM_AMX_INT4_ROWS)
/* Weights and activations of one type. */
#define GEMM(TYPE, ISA, TILE, ROWS, PACKING, CLASS, PACK, COLUMNS, MULTIPLY) \
    GEMM_ROW(TYPE, TYPE, ISA, 0, TILE, ROWS, PACKING, CLASS, PACK, COLUMNS, MULTIPLY, APART)
#define GEMM_12(ISA, TILE, ROWS, CLASS, PACK, COLUMNS, MULTIPLY) \
    GEMM_ROW(BF16_12, BF16, ISA, 0, TILE, ROWS, PANELS_BF16_12, CLASS, PACK, COLUMNS, MULTIPLY, APART)
/* Integer weights. */
#define GEMM_INTS(FORMAT, ACT, ISA, FEATURES, TILE, ROWS, CLASS, PACK, COLUMNS, MULTIPLY) \
    GEMM_ROW(FORMAT, ACT, ISA, FEATURES, TILE, ROWS, PANELS_INTS, CLASS, PACK, COLUMNS, MULTIPLY, APART)
/* The six of four bits. */
#define GEMM_INT4(...)                                                                                         \
    GEMM_INTS(INT4_G32, __VA_ARGS__), GEMM_INTS(INT4_G128, __VA_ARGS__), GEMM_INTS(INT4_CHANNEL, __VA_ARGS__), \
        GEMM_INTS(INT4_ASYM_G32, __VA_ARGS__), GEMM_INTS(INT4_ASYM_G128, __VA_ARGS__),                         \
        GEMM_INTS(INT4_ASYM_CHANNEL, __VA_ARGS__)
/* Groups of others, whatever they are. */
#define GEMM_EXACT_ROW(ACT, ISA, FEATURES, TILE, ROWS, CLASS, PACK, COLUMNS, BYTES, MULTIPLY)            \
    {                                                                                                    \
        .op = PF_OP_GEMM_EXACT, .format = PF_FORMAT_EXACT, .act = ACT, .isa = ISA, .features = FEATURES, \
        .name = #MULTIPLY, .tile = TILE, .packing = PANELS_GROUPS, .arithmetic = CLASS, .fn.gemm = {     \
            .tile_rows = ROWS,                                                                           \
            .pack = PACK,                                                                                \
            .pack_columns = COLUMNS,                                                                     \
            .packed_value_bytes = BYTES,                                                                 \
            .multiply = MULTIPLY,                                                                        \
        }                                                                                                \
    }
#define GEMM_EXACT(ISA, FEATURES, TILE, ROWS, COLUMNS, SUFFIX)                                                  \
    GEMM_EXACT_ROW(PF_ACT_INT8, ISA, FEATURES, TILE, ROWS, BLOCK_SUMS, pf_gemm_pack_exact_##SUFFIX, COLUMNS, 2, \
                   pf_gemm_exact_##SUFFIX)
/* The same with f32 activations, packed as for f32 weights. */
#define GEMM_EXACT_F32(ISA, TILE, ROWS, COLUMNS, SUFFIX)                                                 \
    GEMM_EXACT_ROW(PF_ACT_F32, ISA, 0, TILE, ROWS, ONE_CHAIN_F32, pf_gemm_pack_f32_##SUFFIX, COLUMNS, 4, \
                   pf_gemm_exact_f32_##SUFFIX)
/* All that an instruction set multiplies as pairs of bf16, its functions named after it; PLAIN: the tile of bf16 itself. */
#define GEMM_PAIRS(ISA, SUFFIX, PLAIN, TILE, ROWS, CLASS)                                                            \
    GEMM(BF16, ISA, PLAIN, ROWS, PANELS_BF16, CLASS, pf_gemm_pack_bf16_##SUFFIX, pf_gemm_pack_columns_bf16_##SUFFIX, \
         pf_gemm_bf16_##SUFFIX),                                                                                     \
        GEMM_12(ISA, TILE, ROWS, CLASS, pf_gemm_pack_bf16_##SUFFIX, pf_gemm_pack_columns_bf16_##SUFFIX,              \
                pf_gemm_bf16_12_##SUFFIX),                                                                           \
        GEMM_INTS(INT8, BF16, ISA, 0, TILE, ROWS, CLASS, pf_gemm_pack_bf16_##SUFFIX,                                 \
                  pf_gemm_pack_columns_bf16_##SUFFIX, pf_gemm_integers_bf16_##SUFFIX),                               \
        GEMM_INT4(BF16, ISA, 0, TILE, ROWS, CLASS, pf_gemm_pack_bf16_##SUFFIX, pf_gemm_pack_columns_bf16_##SUFFIX,   \
                  pf_gemm_integers_bf16_##SUFFIX)
/* Those that have a function for each format, named after it; of groups one for both, symmetric or not. */
#define GEMM_OWN(FORMAT, NAME, ISA, SUFFIX, TILE, ROWS, ...)                            \
    GEMM_ROW(FORMAT, INT8, ISA, PF_FEATURE_AVX512_VNNI, TILE, ROWS, PANELS_INTS, EXACT, \
             pf_gemm_pack_##NAME##_int8_##SUFFIX, NULL, pf_gemm_##NAME##_int8_##SUFFIX, __VA_ARGS__)
#define GEMM_OWN_GROUPS(GROUPS, NAME, ...) \
    GEMM_OWN(INT4_##GROUPS, NAME, __VA_ARGS__), GEMM_OWN(INT4_ASYM_##GROUPS, NAME, __VA_ARGS__)
/* clang-format off */
#define KERNEL(OP, MEMBER, TYPE, ISA, CLASS, FUNCTION)                                                         \
    {                                                                                                          \
        .op = OP, .type = TYPE, .isa = ISA, .name = #FUNCTION, .tile = "", .packing = "", .arithmetic = CLASS, \
        .fn.MEMBER = FUNCTION                                                                                  \
    }
/* A row for each activation function. */
#define ISA_ref    PF_ISA_SCALAR
#define ISA_avx2   PF_ISA_AVX2
#define ISA_avx512 PF_ISA_AVX512
#define ACTIVATION(OP, MEMBER, ISA, WORD, FUNCTION)                                                            \
    { .op = OP, .type = PF_TYPE_F32, .isa = ISA, .activation = PF_ACTIVATION_##WORD, .name = #FUNCTION,        \
      .tile = "", .packing = "", .arithmetic = ELEMENTWISE, .fn.MEMBER = FUNCTION },
#define GATED_ACTIVATION(SUFFIX, WORD, NAME)                                                                   \
    ACTIVATION(PF_OP_GATED, gated, ISA_##SUFFIX, WORD, pf_gated_##NAME##_f32_##SUFFIX)
#define PLAIN_ACTIVATION(SUFFIX, WORD, NAME)                                                                   \
    ACTIVATION(PF_OP_ACTIVATE, activate, ISA_##SUFFIX, WORD, pf_activate_##NAME##_f32_##SUFFIX)
#define ACTIVATIONS(SUFFIX)                                                                                    \
    PF_EACH_GATED_ACTIVATION(GATED_ACTIVATION, SUFFIX) PF_EACH_PLAIN_ACTIVATION(PLAIN_ACTIVATION, SUFFIX)
#define BOUNDS(ISA, SUFFIX)                                                                                    \
    {                                                                                                          \
        .op = PF_OP_BOUNDS, .type = PF_TYPE_F32, .isa = ISA, .name = "pf_bounds_" #SUFFIX, .tile = "",         \
        .packing = "", .arithmetic = SIXTEEN_SUMS,                                                             \
        .fn.bounds = { pf_bounds_split_##SUFFIX, pf_bounds_floor_##SUFFIX, pf_bounds_mark_##SUFFIX }           \
    }
    GEMM(F32,  PF_ISA_SCALAR, "1x32", 1, PANELS_F32,  ONE_CHAIN_F32,  pf_gemm_pack_f32_ref, NULL, pf_gemm_f32_ref),
    GEMM(BF16, PF_ISA_SCALAR, "1x32", 1, PANELS_BF16, ONE_CHAIN_BF16, pf_gemm_pack_bf16_ref, NULL, pf_gemm_bf16_ref),
    GEMM_12(PF_ISA_SCALAR, "1x32", 1, ONE_CHAIN_BF16, pf_gemm_pack_bf16_ref, NULL, pf_gemm_bf16_12_ref),
    GEMM_INTS(INT8, INT8, PF_ISA_SCALAR, 0, "1x32", 1, EXACT,
              pf_gemm_pack_int8_ref, NULL, pf_gemm_integers_int8_ref),
    GEMM_INT4(INT8, PF_ISA_SCALAR, 0, "1x32", 1, EXACT,
              pf_gemm_pack_int8_ref, NULL, pf_gemm_integers_int8_ref),
    GEMM_INTS(INT8, BF16, PF_ISA_SCALAR, 0, "1x32", 1, ONE_CHAIN_BF16,
              pf_gemm_pack_bf16_ref, NULL, pf_gemm_integers_bf16_ref),
    GEMM_INT4(BF16, PF_ISA_SCALAR, 0, "1x32", 1, ONE_CHAIN_BF16,
              pf_gemm_pack_bf16_ref, NULL, pf_gemm_integers_bf16_ref),

    GEMM_EXACT(PF_ISA_SCALAR, 0, "1x32", 1, NULL, ref),
    GEMM_EXACT_F32(PF_ISA_SCALAR, "1x32", 1, NULL, ref),

    KERNEL(PF_OP_PACK_WEIGHTS, pack_weights, PF_TYPE_F32, PF_ISA_SCALAR, ROUNDING, pf_gemm_pack_weights_ref),
    KERNEL(PF_OP_RMSNORM,    rmsnorm,    PF_TYPE_F32,  PF_ISA_SCALAR, SIXTEEN_SUMS, pf_rmsnorm_f32_ref),
    KERNEL(PF_OP_LAYERNORM,  layernorm,  PF_TYPE_F32,  PF_ISA_SCALAR, SIXTEEN_SUMS, pf_layernorm_f32_ref),
    KERNEL(PF_OP_ROPE,       rope,       PF_TYPE_F32,  PF_ISA_SCALAR, ELEMENTWISE,  pf_rope_f32_ref),
    ACTIVATIONS(ref)
    KERNEL(PF_OP_ATTN,       attn,       PF_TYPE_F32,  PF_ISA_SCALAR, ATTN_F32,     pf_attn_f32_ref),
    KERNEL(PF_OP_ATTN,       attn,       PF_TYPE_BF16, PF_ISA_SCALAR, ATTN_BF16,    pf_attn_bf16_ref),
    KERNEL(PF_OP_ATTN_STORE, attn_store, PF_TYPE_F32,  PF_ISA_SCALAR, COPY,         pf_attn_store_f32_ref),
    KERNEL(PF_OP_ATTN_STORE, attn_store, PF_TYPE_BF16, PF_ISA_SCALAR, COPY,         pf_attn_store_bf16_ref),
    KERNEL(PF_OP_ARGMAX,     argmax,     PF_TYPE_F32,  PF_ISA_SCALAR, ELEMENTWISE,  pf_argmax_f32_ref),
    KERNEL(PF_OP_FIND_INVALID, find_invalid, PF_TYPE_F32, PF_ISA_SCALAR, ELEMENTWISE, pf_find_invalid_f32_ref),
    KERNEL(PF_OP_SOFTMAX,    softmax,    PF_TYPE_F32,  PF_ISA_SCALAR, SIXTEEN_SUMS, pf_softmax_f32_ref),
    KERNEL(PF_OP_TOP,        top,        PF_TYPE_F32,  PF_ISA_SCALAR, ELEMENTWISE,  pf_top_f32_ref),
    KERNEL(PF_OP_EXP_RACE,       race,       PF_TYPE_F32,  PF_ISA_SCALAR, ELEMENTWISE,  pf_exp_race_f32_ref),
    KERNEL(PF_OP_RESCORE,    rescore,    PF_TYPE_BF16, PF_ISA_SCALAR, SIXTEEN_SUMS, pf_rescore_bf16_ref),
    BOUNDS(PF_ISA_SCALAR, ref),
#ifdef PF_KERNELS_X86
    GEMM(F32,  PF_ISA_AVX2,   "3x32", 3,   PANELS_F32,  ONE_CHAIN_F32,
         pf_gemm_pack_f32_avx2, pf_gemm_pack_columns_f32_avx2, pf_gemm_f32_avx2),
    GEMM_PAIRS(PF_ISA_AVX2, avx2, "6x16", "6x16", 6, ONE_CHAIN_BF16),
    GEMM_INTS(INT8, INT8, PF_ISA_AVX2, 0, "6x16", 6, EXACT,
              pf_gemm_pack_int8_pairs_avx2, NULL, pf_gemm_integers_int8_avx2),
    GEMM_INT4(INT8, PF_ISA_AVX2, 0, "6x16", 6, EXACT,
              pf_gemm_pack_int8_bytes_avx2, NULL, pf_gemm_integers_int8_avx2),
    GEMM_INTS(INT8, INT8, PF_ISA_AVX2, PF_FEATURE_AVX_VNNI, "6x16", 6, EXACT,
              pf_gemm_pack_int8_bytes_avx2, NULL, pf_gemm_integers_int8_avxvnni),
    GEMM_INT4(INT8, PF_ISA_AVX2, PF_FEATURE_AVX_VNNI, "6x16", 6, EXACT,
              pf_gemm_pack_int8_bytes_avx2, NULL, pf_gemm_integers_int8_avxvnni),
    GEMM_EXACT(PF_ISA_AVX2, 0, "6x16", 6, pf_gemm_pack_columns_exact_avx2, avx2),
    GEMM_EXACT_F32(PF_ISA_AVX2, "3x32", 3, pf_gemm_pack_columns_f32_avx2, avx2),
    GEMM(F32,  PF_ISA_AVX512, "14x32", 14, PANELS_F32,  ONE_CHAIN_F32,
         pf_gemm_pack_f32_avx512, pf_gemm_pack_columns_f32_avx512, pf_gemm_f32_avx512),
    GEMM_PAIRS(PF_ISA_AVX512, avx512, "12x32", "12x32", 12, ONE_CHAIN_BF16),
    GEMM_INTS(INT8, INT8, PF_ISA_AVX512, 0, "12x32", 12, EXACT,
              pf_gemm_pack_int8_pairs_avx512, NULL, pf_gemm_integers_int8_avx512),
    GEMM_INT4(INT8, PF_ISA_AVX512, 0, "12x32", 12, EXACT,
              pf_gemm_pack_int8_bytes_avx512, NULL, pf_gemm_integers_int8_avx512),
    GEMM_OWN(INT8, int8, PF_ISA_AVX512, avx512vnni, "14x32", PF_GEMM_VNNI_INT8_ROWS, APART),
    GEMM_OWN(INT4_CHANNEL,      int4_channel,      PF_ISA_AVX512, avx512vnni, "12x32", PF_GEMM_VNNI_CHANNEL_ROWS, APART),
    GEMM_OWN(INT4_ASYM_CHANNEL, int4_asym_channel, PF_ISA_AVX512, avx512vnni, "12x32", PF_GEMM_VNNI_CHANNEL_ROWS, APART),
    GEMM_OWN_GROUPS(G32,  int4_g32,  PF_ISA_AVX512, avx512vnni, "14x32, 6x32", PF_GEMM_VNNI_INT8_ROWS, APART),
    GEMM_OWN_GROUPS(G128, int4_g128, PF_ISA_AVX512, avx512vnni, "14x32, 6x32", PF_GEMM_VNNI_INT8_ROWS, APART),
    GEMM_EXACT_F32(PF_ISA_AVX512, "14x32", 14, pf_gemm_pack_columns_f32_avx512, avx512),
    GEMM_EXACT(PF_ISA_AVX512, PF_FEATURE_AVX512_VNNI, "12x32", 12, pf_gemm_pack_columns_exact_avx512vnni, avx512vnni),
    GEMM_PAIRS(PF_ISA_AVX512BF16, avx512bf16, "14x32, 7x64", "14x32", 14, VDPBF16),
    GEMM_ROW(BF16, BF16, PF_ISA_AMX, 0, "32x32, 16x64", 32, PANELS_BF16, TDPBF16,
             pf_gemm_pack_bf16_amx, pf_gemm_pack_columns_bf16_amx, pf_gemm_bf16_amx, GATED_BF16),
    GEMM_OWN(INT8, int8, PF_ISA_AMX, amx, "32x32, 16x32", 32, GATED_INT8),
    GEMM_OWN(INT4_CHANNEL,      int4_channel,      PF_ISA_AMX, amx, "32x32, 16x32", 32, GATED_INT4),
    GEMM_OWN(INT4_ASYM_CHANNEL, int4_asym_channel, PF_ISA_AMX, amx, "32x32, 16x32", 32, GATED_INT4),
    GEMM_OWN_GROUPS(G32,  int4_g32,  PF_ISA_AMX, amx, "32x32, 16x32", 32, GATED_INT4),
    GEMM_OWN_GROUPS(G128, int4_g128, PF_ISA_AMX, amx, "32x32, 16x32", 32, GATED_INT4),

    KERNEL(PF_OP_PACK_WEIGHTS, pack_weights, PF_TYPE_F32, PF_ISA_AVX2, ROUNDING, pf_gemm_pack_weights_avx2),
    KERNEL(PF_OP_RMSNORM,    rmsnorm,    PF_TYPE_F32,  PF_ISA_AVX2,   SIXTEEN_SUMS, pf_rmsnorm_f32_avx2),
    KERNEL(PF_OP_LAYERNORM,  layernorm,  PF_TYPE_F32,  PF_ISA_AVX2,   SIXTEEN_SUMS, pf_layernorm_f32_avx2),
    KERNEL(PF_OP_ROPE,       rope,       PF_TYPE_F32,  PF_ISA_AVX2,   ELEMENTWISE,  pf_rope_f32_avx2),
    ACTIVATIONS(avx2)
    KERNEL(PF_OP_ATTN,       attn,       PF_TYPE_F32,  PF_ISA_AVX2,   ATTN_F32,     pf_attn_f32_avx2),
    KERNEL(PF_OP_ATTN,       attn,       PF_TYPE_BF16, PF_ISA_AVX2,   ATTN_BF16,    pf_attn_bf16_avx2),
    KERNEL(PF_OP_ATTN_STORE, attn_store, PF_TYPE_F32,  PF_ISA_AVX2,   COPY,         pf_attn_store_f32_avx2),
    KERNEL(PF_OP_ATTN_STORE, attn_store, PF_TYPE_BF16, PF_ISA_AVX2,   COPY,         pf_attn_store_bf16_avx2),
    KERNEL(PF_OP_ARGMAX,     argmax,     PF_TYPE_F32,  PF_ISA_AVX2,   ELEMENTWISE,  pf_argmax_f32_avx2),
    KERNEL(PF_OP_FIND_INVALID, find_invalid, PF_TYPE_F32, PF_ISA_AVX2,   ELEMENTWISE, pf_find_invalid_f32_avx2),
    KERNEL(PF_OP_SOFTMAX,    softmax,    PF_TYPE_F32,  PF_ISA_AVX2,   SIXTEEN_SUMS, pf_softmax_f32_avx2),
    KERNEL(PF_OP_EXP_RACE,       race,       PF_TYPE_F32,  PF_ISA_AVX2,   ELEMENTWISE,  pf_exp_race_f32_avx2),
    KERNEL(PF_OP_RESCORE,    rescore,    PF_TYPE_BF16, PF_ISA_AVX2,   SIXTEEN_SUMS, pf_rescore_bf16_avx2),
    BOUNDS(PF_ISA_AVX2,   avx2),

    KERNEL(PF_OP_PACK_WEIGHTS, pack_weights, PF_TYPE_F32, PF_ISA_AVX512, ROUNDING, pf_gemm_pack_weights_avx512),
    KERNEL(PF_OP_RMSNORM,    rmsnorm,    PF_TYPE_F32,  PF_ISA_AVX512, SIXTEEN_SUMS, pf_rmsnorm_f32_avx512),
    KERNEL(PF_OP_LAYERNORM,  layernorm,  PF_TYPE_F32,  PF_ISA_AVX512, SIXTEEN_SUMS, pf_layernorm_f32_avx512),
    KERNEL(PF_OP_ROPE,       rope,       PF_TYPE_F32,  PF_ISA_AVX512, ELEMENTWISE,  pf_rope_f32_avx512),
    ACTIVATIONS(avx512)
    KERNEL(PF_OP_ATTN,       attn,       PF_TYPE_F32,  PF_ISA_AVX512, ATTN_F32,     pf_attn_f32_avx512),
    KERNEL(PF_OP_ATTN,       attn,       PF_TYPE_BF16, PF_ISA_AVX512, ATTN_BF16,    pf_attn_bf16_avx512),
    KERNEL(PF_OP_ATTN_STORE, attn_store, PF_TYPE_F32,  PF_ISA_AVX512, COPY,         pf_attn_store_f32_avx512),
    KERNEL(PF_OP_ATTN_STORE, attn_store, PF_TYPE_BF16, PF_ISA_AVX512, COPY,         pf_attn_store_bf16_avx512),
    KERNEL(PF_OP_ATTN,       attn,       PF_TYPE_BF16, PF_ISA_AVX512BF16, ATTN_VDPBF16, pf_attn_bf16_avx512bf16),
    KERNEL(PF_OP_ATTN,       attn,       PF_TYPE_BF16, PF_ISA_AMX,    ATTN_TDPBF16, pf_attn_bf16_amx),
    KERNEL(PF_OP_ARGMAX,     argmax,     PF_TYPE_F32,  PF_ISA_AVX512, ELEMENTWISE,  pf_argmax_f32_avx512),
    KERNEL(PF_OP_FIND_INVALID, find_invalid, PF_TYPE_F32, PF_ISA_AVX512, ELEMENTWISE, pf_find_invalid_f32_avx512),
    KERNEL(PF_OP_SOFTMAX,    softmax,    PF_TYPE_F32,  PF_ISA_AVX512, SIXTEEN_SUMS, pf_softmax_f32_avx512),
    KERNEL(PF_OP_TOP,        top,        PF_TYPE_F32,  PF_ISA_AVX512, ELEMENTWISE,  pf_top_f32_avx512),
    KERNEL(PF_OP_EXP_RACE,       race,       PF_TYPE_F32,  PF_ISA_AVX512, ELEMENTWISE,  pf_exp_race_f32_avx512),
    KERNEL(PF_OP_RESCORE,    rescore,    PF_TYPE_BF16, PF_ISA_AVX512, SIXTEEN_SUMS, pf_rescore_bf16_avx512),
    BOUNDS(PF_ISA_AVX512, avx512),
#endif
    /* clang-format on */
};

enum { N_KERNELS = sizeof table / sizeof *table };

const pf_kernel *pf_kernels_all(int32_t *n_kernels)
{
    *n_kernels = N_KERNELS;
    return table;
}

const char *pf_op_name(pf_op op)
{
    static const char *const names[PF_N_OPS] = {
        [PF_OP_GEMM] = "gemm",
        [PF_OP_GEMM_EXACT] = "gemm_exact",
        [PF_OP_PACK_WEIGHTS] = "pack_weights",
        [PF_OP_RMSNORM] = "rmsnorm",
        [PF_OP_LAYERNORM] = "layernorm",
        [PF_OP_ROPE] = "rope",
        [PF_OP_GATED] = "gated",
        [PF_OP_ACTIVATE] = "activate",
        [PF_OP_ATTN] = "attn",
        [PF_OP_ATTN_STORE] = "attn_store",
        [PF_OP_ARGMAX] = "argmax",
        [PF_OP_FIND_INVALID] = "find_invalid",
        [PF_OP_SOFTMAX] = "softmax",
        [PF_OP_TOP] = "top",
        [PF_OP_EXP_RACE] = "race",
        [PF_OP_RESCORE] = "rescore",
        [PF_OP_BOUNDS] = "bounds",
    };
    return names[op];
}

const char *pf_activation_name(pf_activation activation)
{
#define NAME(X, WORD, name) [PF_ACTIVATION_##WORD] = #name,
    static const char *const names[PF_N_ACTIVATIONS] = { PF_EACH_GATED_ACTIVATION(NAME, ) };
#undef NAME
    return names[activation];
}

/* Where the row is kept that was chosen for the task of `kernel`. */
static const pf_kernel **place_of(pf_kernels *out, const pf_kernel *kernel)
{
    switch (kernel->op) {
    case PF_OP_GEMM:
    case PF_OP_GEMM_EXACT: return &out->chosen_gemm[kernel->format][kernel->act];
    case PF_OP_GATED: return &out->chosen_gated[kernel->activation];
    case PF_OP_ACTIVATE: return &out->chosen_activate[kernel->activation];
    default: return &out->chosen[kernel->op][kernel->type];
    }
}

const pf_kernel *pf_kernels_chosen(const pf_kernels *kernels, const pf_kernel *kernel)
{
    return *place_of((pf_kernels *)kernels, kernel); /* only read */
}

static void take(pf_kernels *out, const pf_kernel *kernel)
{
    *place_of(out, kernel) = kernel;
    switch (kernel->op) {
    case PF_OP_PACK_WEIGHTS: out->pack_weights = kernel->fn.pack_weights; break;
    case PF_OP_GEMM:
    case PF_OP_GEMM_EXACT: out->gemm[kernel->format][kernel->act] = kernel->fn.gemm; break;
    case PF_OP_RMSNORM: out->rmsnorm = kernel->fn.rmsnorm; break;
    case PF_OP_LAYERNORM: out->layernorm = kernel->fn.layernorm; break;
    case PF_OP_ROPE: out->rope = kernel->fn.rope; break;
    case PF_OP_GATED: out->gated[kernel->activation] = kernel->fn.gated; break;
    case PF_OP_ACTIVATE: out->activate[kernel->activation] = kernel->fn.activate; break;
    case PF_OP_ATTN: out->attn[kernel->type] = kernel->fn.attn; break;
    case PF_OP_ATTN_STORE: out->attn_store[kernel->type] = kernel->fn.attn_store; break;
    case PF_OP_ARGMAX: out->argmax = kernel->fn.argmax; break;
    case PF_OP_FIND_INVALID: out->find_invalid = kernel->fn.find_invalid; break;
    case PF_OP_SOFTMAX: out->softmax = kernel->fn.softmax; break;
    case PF_OP_TOP: out->top = kernel->fn.top; break;
    case PF_OP_EXP_RACE: out->race = kernel->fn.race; break;
    case PF_OP_RESCORE: out->rescore = kernel->fn.rescore; break;
    case PF_OP_BOUNDS: out->bounds = kernel->fn.bounds; break;
    case PF_N_OPS: break;
    }
}

pf_status pf_kernels_select(pf_isa isa, pf_kernels *out, pf_error *error)
{
    PF_TRY(pf_isa_check(isa, pf_cpu_best_isa(), error));
    pf_kernels chosen = { .isa = isa, .features = pf_cpu_features() };
    for (pf_isa level = PF_ISA_SCALAR; level <= isa; level++)
        for (int32_t i = 0; i < N_KERNELS; i++)
            if (table[i].isa == level && pf_kernel_is_usable(&chosen, &table[i])) take(&chosen, &table[i]);
    *out = chosen;
    return PF_OK;
}
