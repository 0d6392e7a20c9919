/*
 * What tiles of integer weights in YMM and ZMM registers share; a file includes vec_avx2.h or vec_avx512.h first.
 * Internal.
 */
#ifndef PF_KERNELS_GEMM_INT_VEC_H
#define PF_KERNELS_GEMM_INT_VEC_H

#include "kernels/gemm/gemm_int_blocks.h"

/* z of a register's columns from `column` on, twice in each lane. */
PF_INLINE pf_vec pf_int_zeros(const pf_gemm_layout *l, const uint8_t *group, size_t column)
{
    if (!l->has_zeros) return pf_vec_set(0x00080008);
    const pf_vec z = pf_vec_load_u8(group + l->zeros_at + column);
    return pf_vec_or(z, pf_vec_left(z, 16));
}

/* Scales of a group, likewise. */
PF_INLINE pf_vecf pf_int_scales(const uint8_t *group, size_t column)
{
    return pf_vec_load_f16(group + sizeof(uint16_t) * column);
}

/* A tile's integer sums of one row to those in memory, 16 columns apart. */
PF_INLINE void pf_int_add(uint32_t *sums, pf_vec i0, pf_vec i1)
{
    pf_vec_store(sums, pf_vec_add(pf_vec_load(sums), i0));
    pf_vec_store(sums + 16, pf_vec_add(pf_vec_load(sums + 16), i1));
}

/* And those of a group, scaled, to f32 sums. */
PF_INLINE void pf_int_add_scaled(uint32_t *sums, pf_vec i0, pf_vec i1, pf_vecf s0, pf_vecf s1)
{
    pf_vec_storef(sums, pf_vec_fma(pf_vec_to_float(i0), s0, pf_vec_loadf(sums)));
    pf_vec_storef(sums + 16, pf_vec_fma(pf_vec_to_float(i1), s1, pf_vec_loadf(sums + 16)));
}

/* The families of a file, from its three tiles: int8_tile(height, t), int4_column_tile(height, t) and
 * int4_group_tile(height, blocks of a group, t). */
#define PF_INT_INT8(T, m)    PF_GEMM_DEFINE(T##_##m, pf_int_tile, int8_tile(m + 1, tile))
#define PF_INT_CHANNEL(T, m) PF_GEMM_DEFINE(T##_##m, pf_int_tile, int4_column_tile(m + 1, tile))
#define PF_INT_G32(T, m)     PF_GEMM_DEFINE(T##_##m, pf_int_tile, int4_group_tile(m + 1, 1, tile))
#define PF_INT_G128(T, m)    PF_GEMM_DEFINE(T##_##m, pf_int_tile, int4_group_tile(m + 1, 4, tile))
#define PF_INT_DEFINE_TILES                                                \
    PF_VEC_EACH_HEIGHT(PF_INT_INT8, pf_int8)                               \
    PF_VEC_EACH_HEIGHT(PF_INT_CHANNEL, pf_channel)                         \
    PF_VEC_EACH_HEIGHT(PF_INT_G32, pf_g32)                                 \
    PF_VEC_EACH_HEIGHT(PF_INT_G128, pf_g128)                               \
    static pf_int_tile_fn *const pf_int_tiles[4][PF_VEC_TILE_ROWS + 1] = { \
        { PF_VEC_EACH_HEIGHT(PF_BY_HEIGHT, pf_int8) },                     \
        { PF_VEC_EACH_HEIGHT(PF_BY_HEIGHT, pf_channel) },                  \
        { PF_VEC_EACH_HEIGHT(PF_BY_HEIGHT, pf_g32) },                      \
        { PF_VEC_EACH_HEIGHT(PF_BY_HEIGHT, pf_g128) },                     \
    };

/* The row of pf_int_tiles for a format. */
PF_INLINE int pf_int_tiles_of(pf_format format)
{
    const pf_format_info *info = pf_format_get(format);
    return info->bits == 8 ? 0 : info->group == 0 ? 1 : info->group == 32 ? 2 : 3;
}

#endif
