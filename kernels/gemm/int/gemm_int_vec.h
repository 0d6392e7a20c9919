/*
 * What tiles of integer weights in YMM and ZMM registers share. Internal.
 */
#ifndef PF_KERNELS_GEMM_INT_VEC_H
#define PF_KERNELS_GEMM_INT_VEC_H

#include "kernels/gemm/int/gemm_int_blocks.h"
#include "kernels/vec/vec.h"

/* z and m of a register's columns, each twice in a lane; of heads that are so. */
PF_INLINE pf_vec pf_int_zeros(pf_vec heads)
{
    return pf_vec_and(heads, pf_vec_set(0x000F000F));
}
PF_INLINE pf_vec pf_int_multipliers(pf_vec heads)
{
    return pf_vec_right16(heads, 4);
}

/* A tile's integer sums of one row to those in memory, 16 columns apart. */
PF_INLINE void pf_int_add(uint32_t *sums, pf_vec i0, pf_vec i1)
{
    pf_vec_store(sums, pf_vec_add(pf_vec_load(sums), i0));
    pf_vec_store(sums + 16, pf_vec_add(pf_vec_load(sums + 16), i1));
}

/* Of a tile, TILE(height, t), those of all heights: TILEs[height]. */
#define PF_INT_DEFINE_TILE(TILE, m) PF_GEMM_DEFINE(TILE##_##m, pf_int_tile, TILE(m + 1, tile))
#define PF_INT_DEFINE_TILES(TILE)                \
    PF_VEC_EACH_HEIGHT(PF_INT_DEFINE_TILE, TILE) \
    static pf_int_tile_fn *const TILE##s[PF_VEC_TILE_ROWS + 1] = { PF_VEC_EACH_HEIGHT(PF_BY_HEIGHT, TILE) };

#endif
