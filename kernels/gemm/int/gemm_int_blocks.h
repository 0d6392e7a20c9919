/*
 * Integer weights times int8 activations where a register holds 8 or 16 columns and nothing multiplies four bytes at
 * once on ZMM: the packing of activations, the loop nest, and the end of a product; compiled into each fast file with
 * that file's instruction set. Internal.
 *
 *   for each panel of 32 columns
 *     for each span of K: nibbles become bytes first, where that pays (pf_int_family.unpack)
 *       for each row tile
 *         for each block of 32 values of K, the smallest group, or stretch of a column
 *           for each half of the panel (YMM; ZMM hold it whole): one step of K after another, sums in registers
 *
 * What a tile has summed is multiplied with its group's multipliers and added to the scratch, as integers over all K.
 *
 * Packed activations, in words of 32 bits, [tile] { head | [blocks] }, K filled with zeros up to a whole block:
 *
 *   head    [height] scales f32 | [height] -(sum of the row)
 *   block   [height] -(sums of k, k+1 of all its steps) and of k+2, k+3, int16 | [8 steps] [height] k k+1 k+2 k+3, int8
 *   or      [8 steps] { [height] k, k+2, int16 | [height] k+1, k+3 }
 *
 * The sums take from a product what the offset of the stored weights (128, 8 or z) has added to it.
 */
#ifndef PF_KERNELS_GEMM_INT_BLOCKS_H
#define PF_KERNELS_GEMM_INT_BLOCKS_H

#include <math.h>

#include "base/checked.h"
#include "kernels/gemm/int/gemm_int_rounding.h"
#include "kernels/gemm/gemm_nest.h"
#include "kernels/gemm/layout_int.h"

enum {
    PF_INT_BLOCK = 32,         /* values of k */
    PF_INT_STEPS = 8,          /* of four values, a block */
    PF_INT_LINE = 64,          /* bytes, of heads */
    PF_INT_HEAD_WORDS = 2,     /* of a row */
    PF_INT_BYTE_WORDS = 9,     /* of a row a block: the first form */
    PF_INT_PAIR_WORDS = 16,    /* the second */
    PF_INT_STRETCH_STEPS = 32, /* of a column, between two visits to the scratch */
    PF_INT_SPAN_BLOCKS = 64,   /* that several row tiles pass over */
    PF_INT_UNPACK_TILES = 3,   /* from how many row tiles on nibbles are taken apart once for all of them ... */
    PF_INT_UNPACK_BLOCKS = 16, /* ... so many blocks at a time: 16 KiB, which stay in L1 */
};

/* What one register tile is to do. Its height is the function's. */
typedef struct {
    const uint8_t *heads; /* of the first two groups, where there are any */
    const uint8_t *w;     /* the first step; or bytes that nibbles became, [step] { n0..n15 | n16..n31 } */
    const uint32_t *a;    /* a block of the tile */
    size_t steps;         /* of four values; whole blocks but at the end of a column */
    uint32_t *sums;       /* [height, 32] to be added to */
    uintptr_t prefetch;   /* where, and how much further with each half step */
    size_t prefetch_stride;
    bool from_memory; /* the weights */
    const pf_gemm_layout *layout;
} pf_int_tile;

/* The heads of group g + 1 of a tile; `heads` of g. */
PF_INLINE const uint8_t *pf_int_next_heads(const pf_gemm_layout *l, size_t g, const uint8_t *heads)
{
    return heads + (g % 2 ? l->pair_bytes - PF_GEMM_PANEL : PF_GEMM_PANEL);
}

typedef void pf_int_tile_fn(const pf_int_tile *tile);

/* The nibbles of some steps of a group to bytes. */
typedef void pf_int_unpack_fn(uint8_t *bytes, const uint8_t *heads, const uint8_t *nibbles, size_t steps);

/* What the nest must know of a family of tiles. */
typedef struct {
    int32_t tile_rows;
    size_t block_words;              /* of a row */
    size_t halves;                   /* of a panel, one after the other */
    pf_int_tile_fn *const *tiles;    /* [tile_rows + 1], by height */
    pf_int_unpack_fn *unpack;        /* NULL: the tiles take apart what they need */
    pf_int_tile_fn *const *of_bytes; /* the tiles for what is unpacked ... */
    bool bytes_are_int8;             /* ... to (q - z) * m + 128, else to q */
} pf_int_family;

PF_INLINE void pf_int_put(float *c, const float *result, int32_t n_columns, pf_gemm_mode mode)
{
    if (mode == PF_GEMM_ADD)
        for (int32_t j = 0; j < n_columns; j++) c[j] += result[j];
    else
        memcpy(c, result, (size_t)n_columns * sizeof *c);
}

/* What the tiles have counted too much in every weight of a column. */
PF_INLINE void pf_int_offsets(const pf_gemm_layout *l, const uint8_t *panel, bool is_int8,
                              uint32_t offsets[PF_GEMM_PANEL])
{
    for (int32_t j = 0; j < PF_GEMM_PANEL; j++)
        offsets[j] = is_int8 ? 128 : l->in_groups ? 0 : (uint32_t)pf_gemm_head_at(l, panel, 0, j).zero;
}

/* A row of sums [32] to a row of c. */
PF_INLINE void pf_int_finish(const uint8_t *panel, const uint32_t *sums, const uint32_t offsets[PF_GEMM_PANEL],
                             float row_scale, uint32_t row_sum, float *c, int32_t n_columns, pf_gemm_mode mode)
{
    const float *scales = (const float *)(const void *)panel;
    float result[PF_GEMM_PANEL];
    for (int32_t j = 0; j < PF_GEMM_PANEL; j++)
        result[j] = fmaf((float)(int32_t)(sums[j] + offsets[j] * row_sum), scales[j], 0.0f) * row_scale;
    if (n_columns == PF_GEMM_PANEL) /* as a constant: vectors, no calls */
        pf_int_put(c, result, PF_GEMM_PANEL, mode);
    else
        pf_int_put(c, result, n_columns, mode);
}

/* n_steps from `step` on. */
PF_INLINE void pf_int_unpack_span(const pf_gemm_layout *l, pf_int_unpack_fn *unpack, uint8_t *bytes,
                                  const uint8_t *panel, size_t step, size_t n_steps)
{
    for (const size_t end = step + n_steps; step < end;) {
        const size_t g = step / l->group_steps, i = step % l->group_steps;
        const size_t in_group = l->group_steps - i, n = end - step < in_group ? end - step : in_group;
        unpack(bytes, panel + pf_gemm_heads_at(l, g), panel + pf_gemm_group_at(l, g) + i * l->step_bytes, n);
        bytes += n * 4 * PF_GEMM_PANEL;
        step += n;
    }
}

PF_INLINE void pf_int_nest(const pf_int_family family, const pf_gemm_weights *w, const uint32_t *input, int32_t m,
                           int32_t panel_begin, int32_t panel_end, float *c, size_t ldc, pf_gemm_mode mode,
                           uint32_t *scratch)
{
    const pf_gemm_layout layout = pf_gemm_layout_of(w->format, w->k);
    const int32_t n_tiles = pf_gemm_tiles(family.tile_rows, m);
    const size_t steps = (size_t)layout.n_groups * layout.group_steps;
    const size_t blocks = ((size_t)w->k + PF_INT_BLOCK - 1) / PF_INT_BLOCK;
    const bool unpacks = family.unpack && n_tiles >= PF_INT_UNPACK_TILES;
    pf_int_tile_fn *const *tiles = unpacks ? family.of_bytes : family.tiles;
    const size_t span = n_tiles == 1 ? blocks : unpacks ? PF_INT_UNPACK_BLOCKS : PF_INT_SPAN_BLOCKS;
    const size_t row_words = PF_INT_HEAD_WORDS + blocks * family.block_words;
    /* bytes of a block of a panel; a line of heads is spread over its blocks */
    const size_t block_bytes = layout.in_groups ? layout.pair_bytes * PF_INT_STEPS / (2 * layout.group_steps)
                                                : layout.step_bytes * PF_INT_STEPS;
    const size_t half_steps = family.halves * PF_INT_STEPS;
    const size_t stride = (block_bytes + half_steps * (size_t)n_tiles - 1) / (half_steps * (size_t)n_tiles);
    uint8_t *unpacked = (uint8_t *)(scratch + pf_round_up((size_t)m, 16) * PF_GEMM_PANEL);

    for (int32_t p = panel_begin; p < panel_end; p++) {
        const uint8_t *panel = (const uint8_t *)w->panels + (size_t)p * w->panel_bytes;
        const int32_t left = w->n - p * PF_GEMM_PANEL, n_columns = left < PF_GEMM_PANEL ? left : PF_GEMM_PANEL;
        uint32_t offsets[PF_GEMM_PANEL];
        pf_int_offsets(&layout, panel, layout.bits == 8 || (unpacks && family.bytes_are_int8), offsets);
        memset(scratch, 0, (size_t)m * PF_GEMM_PANEL * sizeof *scratch);
        for (size_t block = 0; block < blocks; block += span) { /* of groups an even number */
            const size_t end = blocks - block < span ? blocks : block + span, step = block * PF_INT_STEPS;
            const size_t n_steps = (steps < end * PF_INT_STEPS ? steps : end * PF_INT_STEPS) - step;
            const uint8_t *begin =
                panel + (layout.in_groups ? PF_GEMM_HEADS_AT : layout.weights_at) + block * block_bytes;
            const size_t bytes = (end - block) * block_bytes;
            if (unpacks) pf_int_unpack_span(&layout, family.unpack, unpacked, panel, step, n_steps);
            for (int32_t t = 0; t < n_tiles; t++) {
                const size_t row = (size_t)pf_gemm_tile_row(n_tiles, m, t);
                const size_t height = (size_t)pf_gemm_tile_row(n_tiles, m, t + 1) - row;
                const uint32_t *head = input + row * row_words;
                uint32_t *sums = scratch + row * PF_GEMM_PANEL;
                const pf_int_tile tile = {
                    .heads = begin,
                    .w = unpacks            ? unpacked
                         : layout.in_groups ? begin + PF_INT_LINE
                                            : begin,
                    .a = head + (PF_INT_HEAD_WORDS + block * family.block_words) * height,
                    .steps = n_steps,
                    .sums = sums,
                    .prefetch = (uintptr_t)begin +
                                (n_tiles == 1 ? PF_GEMM_W_AHEAD : bytes + bytes * (size_t)t / (size_t)n_tiles),
                    .prefetch_stride = stride,
                    .from_memory = w->from_memory,
                    .layout = &layout,
                };
                tiles[height](&tile);
                for (size_t r = 0; end == blocks && r < height; r++) {
                    float row_scale;
                    memcpy(&row_scale, head + r, sizeof row_scale);
                    pf_int_finish(panel, sums + r * PF_GEMM_PANEL, offsets, row_scale, head[height + r],
                                  c + (row + r) * ldc + (size_t)p * PF_GEMM_PANEL, n_columns, mode);
                }
            }
        }
    }
}

/* n values of a row to integers, ties to even. */
PF_INLINE void pf_int_round(int32_t *q, const float *row, size_t n, float factor)
{
    for (size_t i = 0; i < n; i++) {
        const float shifted = row[i] * factor + 0x1.8p23f; /* what is left beside this is an integer */
        memcpy(&q[i], &shifted, sizeof shifted);
        q[i] -= 0x4B400000;
    }
}

/* n values of a row to a block of integers. A factor of zero gives zeros, whatever the values. */
PF_INLINE void pf_int_round_block(int32_t q[PF_INT_BLOCK], const float *row, size_t n, float factor)
{
    if (n == PF_INT_BLOCK && factor != 0.0f) {
        pf_int_round(q, row, PF_INT_BLOCK, factor);
        return;
    }
    memset(q, 0, PF_INT_BLOCK * sizeof *q);
    if (factor != 0.0f) pf_int_round(q, row, n, factor);
}

/* Words of a block, `height` apart: bytes, their sums first. Returns the sum of all. */
PF_INLINE int32_t pf_int_put_bytes(uint32_t *out, size_t height, const int32_t q[PF_INT_BLOCK])
{
    int32_t sum[4] = { 0 }; /* of k, k+1, k+2, k+3 of all steps */
    int8_t bytes[PF_INT_BLOCK];
    for (size_t i = 0; i < PF_INT_BLOCK; i++) bytes[i] = (int8_t)q[i];
    for (size_t i = 0; i < PF_INT_BLOCK; i++) sum[i % 4] += q[i];
    for (size_t s = 0; s < PF_INT_STEPS; s++) memcpy(&out[(1 + s) * height], bytes + 4 * s, sizeof *out);
    const int32_t low = sum[0] + sum[1], high = sum[2] + sum[3];
    out[0] = (uint32_t)(-low & 0xFFFF) | (uint32_t)-high << 16;
    return low + high;
}

/* The same, as pairs of int16. */
PF_INLINE int32_t pf_int_put_pairs(uint32_t *out, size_t height, const int32_t q[PF_INT_BLOCK])
{
    int32_t sum = 0;
    for (size_t s = 0; s < PF_INT_STEPS; s++) {
        const int32_t *four = q + 4 * s;
        sum += four[0] + four[1] + four[2] + four[3];
        out[2 * s * height] = (uint32_t)(four[0] & 0xFFFF) | (uint32_t)four[2] << 16;
        out[(2 * s + 1) * height] = (uint32_t)(four[1] & 0xFFFF) | (uint32_t)four[3] << 16;
    }
    return sum;
}

/* Row tiles [tile_begin, tile_end), in one form or the other. */
PF_INLINE void pf_int_pack(const size_t block_words, int32_t tile_rows, uint32_t *input, const float *a, size_t lda,
                           int32_t m, int32_t k, int32_t tile_begin, int32_t tile_end)
{
    const size_t n_values = (size_t)k, blocks = (n_values + PF_INT_BLOCK - 1) / PF_INT_BLOCK;
    const int32_t n_tiles = pf_gemm_tiles(tile_rows, m);
    int32_t q[PF_INT_BLOCK];
    for (int32_t t = tile_begin; t < tile_end; t++) {
        const size_t first = (size_t)pf_gemm_tile_row(n_tiles, m, t);
        const size_t height = (size_t)pf_gemm_tile_row(n_tiles, m, t + 1) - first;
        uint32_t *head = input + first * (PF_INT_HEAD_WORDS + blocks * block_words);
        for (size_t r = 0; r < height; r++) {
            const float *row = a + (first + r) * lda;
            const pf_int_rounding rounding = pf_int_rounding_of(pf_int_magnitude(row, n_values));
            uint32_t *out = head + PF_INT_HEAD_WORDS * height + r;
            int32_t sum = 0;
            for (size_t i = 0; i < n_values; i += PF_INT_BLOCK, out += block_words * height) {
                const size_t left = n_values - i;
                pf_int_round_block(q, row + i, left < PF_INT_BLOCK ? left : PF_INT_BLOCK, rounding.factor);
                sum += block_words == PF_INT_BYTE_WORDS ? pf_int_put_bytes(out, height, q)
                                                        : pf_int_put_pairs(out, height, q);
            }
            memcpy(head + r, &rounding.scale, sizeof rounding.scale);
            head[height + r] = (uint32_t)-sum;
        }
    }
}

#endif
