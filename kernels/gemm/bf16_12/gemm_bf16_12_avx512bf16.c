/*
 * The bf16 product from twelve bits a weight (layout_bf16_12.h), with VDPBF16PS: the chains of gemm_avx512bf16.c, so its bits.
 *
 *   for each panel of 32 columns
 *     for each piece of K
 *       for each row tile
 *         for each block: its window to a table of high bytes
 *           for each step of K: low bytes and what the table has, interleaved to two weight vectors, used by all rows
 *
 * Weights are put together in registers, 4.5 instructions a step, also where several tiles pass over a piece in turn:
 * that is less than unpacking it in memory costs, and memory is busy all the time. A block that is patched or raw, and one
 * that K ends in, goes by way of 1 KiB on the stack.
 *
 * Unpacking to the scratch, as for integers, is slower for few rows and no faster for many; so are two panels side by side.
 */
#include "kernels/gemm/bf16_12/bf16_12_vec.h"
#include "kernels/gemm/sums_avx512.h"

enum { TILE_ROWS = 14, MANY_ROWS = 7 };

/* ---- one tile over a piece of a panel ------------------------------------------------------------------------------ */

/* What one tile is to do. Its height is the function's. */
typedef struct {
    const uint8_t *codes, *blocks, *reserved;
    size_t steps;        /* k pairs; past a multiple of 8 the last block's others do not exist */
    const uint32_t *a;   /* pairs [steps, height] */
    const float *before; /* [height, 32] sums so far, 64-byte aligned; NULL: zeros */
    float *c;            /* [height, 32], rows ldc elements apart */
    size_t ldc;
    uintptr_t prefetch; /* where, and how much further with each unit */
    size_t prefetch_stride;
    bool add; /* to what is in c */
} chunk_tile;

typedef void chunk_tile_fn(const chunk_tile *tile);

/* Bytes. With few rows a longer way ahead costs 3 to 4 %, with 8 a shorter one. */
enum { RESERVE_AHEAD = 256, FEW_ROWS = 4, BLOCKS_AHEAD = 12288 };

/* One k pair of all rows. */
#define STEP(LEFT, RIGHT)                         \
    {                                             \
        const __m512i left = LEFT, right = RIGHT; \
        PF_ROWS_14(ROW)                           \
        a += height;                              \
    }
#define ROW(m)                                                 \
    if (m < height) {                                          \
        const __m512i both = pf_sums_broadcast(a + m);         \
        sum[m][0] = pf_sums_dot_pairs(sum[m][0], left, both);  \
        sum[m][1] = pf_sums_dot_pairs(sum[m][1], right, both); \
    }

PF_INLINE void multiply(const int height, const bool into_l2, const chunk_tile *t)
{
    __m512 sum[TILE_ROWS][2];
    _Alignas(64) uint16_t plain[PF_B12_BLOCK_VALUES];
    const uint8_t *codes = t->codes, *block = t->blocks, *reserved = t->reserved;
    const uint32_t *a = t->a;
    uintptr_t prefetch = t->prefetch;
    const size_t stride = t->prefetch_stride;

    PF_ROWS_14(PF_SUMS_START)

    size_t left_steps = t->steps;
    for (; left_steps > 0; codes++, block += PF_B12_BLOCK_BYTES) {
        const uint8_t code = *codes;
        if (__builtin_expect(!(code & PF_B12_PATCHED) && left_steps >= PF_B12_BLOCK_STEPS, 1)) {
            const __m512i table = pf_b12_high_bytes(code);
            for (const uint8_t *unit = block; unit < block + PF_B12_BLOCK_BYTES; unit += PF_B12_UNIT_BYTES) {
                pf_gemm_fetch(prefetch, into_l2);
                pf_gemm_fetch(prefetch + 64, into_l2);
                pf_gemm_fetch(prefetch + 128, into_l2);
                prefetch += stride;
                const __m512i high0 = pf_b12_high(table, unit + 128, 0), low0 = _mm512_load_si512(unit);
                STEP(_mm512_unpacklo_epi8(low0, high0), _mm512_unpackhi_epi8(low0, high0))
                const __m512i high1 = pf_b12_high(table, unit + 128, 1), low1 = _mm512_load_si512(unit + 64);
                STEP(_mm512_unpacklo_epi8(low1, high1), _mm512_unpackhi_epi8(low1, high1))
            }
            left_steps -= PF_B12_BLOCK_STEPS;
            continue;
        }
        const size_t n = left_steps < PF_B12_BLOCK_STEPS ? left_steps : PF_B12_BLOCK_STEPS;
        pf_b12_unpack(code, block, reserved, 0, plain);
        reserved += pf_b12_reserved(code);
        PF_PREFETCH(reserved + RESERVE_AHEAD);
        for (size_t step = 0; step < n; step++) {
            pf_gemm_fetch(prefetch + step * stride / 2, into_l2);
            pf_gemm_fetch(prefetch + step * stride / 2 + 64, into_l2);
            STEP(_mm512_load_si512(plain + step * PF_B12_STEP_VALUES),
                 _mm512_load_si512(plain + step * PF_B12_STEP_VALUES + 32))
        }
        prefetch += PF_B12_BLOCK_STEPS / 2 * stride;
        left_steps -= n;
    }

    PF_ROWS_14(PF_SUMS_FINISH)
}
#undef STEP
#undef ROW

#define DEFINE_NEAR(T, m) PF_GEMM_DEFINE(T##_##m, chunk_tile, multiply(m + 1, false, tile))
#define DEFINE_FAR(T, m)  PF_GEMM_DEFINE(T##_##m, chunk_tile, multiply(m + 1, true, tile))
PF_EACH_14(DEFINE_NEAR, near_tile)
PF_EACH_FROM_7_TO_14(DEFINE_FAR, far_tile)
static chunk_tile_fn *const near_tiles[TILE_ROWS + 1] = { PF_EACH_14(PF_BY_HEIGHT, near_tile) };
static chunk_tile_fn *const far_tiles[TILE_ROWS + 1] = { PF_EACH_FROM_7_TO_14(PF_BY_HEIGHT, far_tile) };

/* ---- the product --------------------------------------------------------------------------------------------------- */

/* What the units of a panel do not fetch: as many lines as it has codes, for they count from one panel's blocks to the
 * next one's, and the first of the next reserve. */
PF_INLINE void fetch_beside(const pf_gemm_weights *w, int32_t panel, size_t head_bytes, size_t blocks_ahead)
{
    const uint8_t *ahead = pf_b12_panel(w, panel) + blocks_ahead, *reserve = pf_b12_reserve(w, panel + 1);
    for (size_t i = 0; i < head_bytes; i += 64) PF_PREFETCH(ahead + i);
    for (size_t i = 0; i < RESERVE_AHEAD; i += 64) PF_PREFETCH(reserve + i);
}

void pf_gemm_bf16_12_avx512bf16(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin,
                                int32_t panel_end, float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    const int32_t n_tiles = pf_gemm_tiles(TILE_ROWS, m);
    const bool many = m >= MANY_ROWS;
    chunk_tile_fn *const *const tiles = pf_gemm_is_into_l2(w, many) ? far_tiles : near_tiles;
    const size_t head_bytes = pf_b12_head_bytes(w->k),
                 blocks_ahead = pf_gemm_is_near(w) || w->fetch == PF_FETCH_SHORT || m <= FEW_ROWS
                                    ? pf_gemm_ahead(w, many)
                                    : BLOCKS_AHEAD;
    const size_t all_steps = ((size_t)w->k + 1) / 2, piece = n_tiles == 1 ? all_steps : PF_GEMM_BLOCK_STEPS;
    for (int32_t p = panel_begin; p < panel_end; p++) {
        const uint8_t *codes = pf_b12_panel(w, p), *blocks = codes + head_bytes, *reserved = pf_b12_reserve(w, p);
        const int32_t n_columns = w->n - p * PF_GEMM_PANEL;
        const bool whole = n_columns >= PF_GEMM_PANEL;
        fetch_beside(w, p, head_bytes, blocks_ahead);
        for (size_t step = 0; step < all_steps; step += piece) {
            const size_t n_steps = all_steps - step < piece ? all_steps - step : piece;
            const size_t n_blocks = (n_steps + PF_B12_BLOCK_STEPS - 1) / PF_B12_BLOCK_STEPS;
            const size_t bytes = n_blocks * PF_B12_BLOCK_BYTES;
            const bool last = step + n_steps == all_steps;
            for (int32_t t = 0; t < n_tiles; t++) {
                const int32_t row = pf_gemm_tile_row(n_tiles, m, t);
                const int32_t height = pf_gemm_tile_row(n_tiles, m, t + 1) - row;
                float *sums = (float *)scratch + (size_t)row * PF_GEMM_PANEL;
                chunk_tile tile = {
                    .codes = codes,
                    .blocks = blocks,
                    .reserved = reserved,
                    .steps = n_steps,
                    .a = (const uint32_t *)input + (size_t)row * all_steps + step * (size_t)height,
                    .before = step ? sums : NULL,
                    .c = sums,
                    .ldc = PF_GEMM_PANEL,
                    .prefetch = (uintptr_t)blocks + blocks_ahead,
                    .prefetch_stride = PF_B12_UNIT_BYTES,
                };
                if (n_tiles > 1) { /* each its share of the next piece */
                    tile.prefetch = (uintptr_t)blocks + bytes + bytes * (size_t)t / (size_t)n_tiles;
                    tile.prefetch_stride = (PF_B12_UNIT_BYTES + (size_t)n_tiles - 1) / (size_t)n_tiles;
                }
                if (last && whole) {
                    tile.c = c + (size_t)row * ldc + (size_t)p * PF_GEMM_PANEL;
                    tile.ldc = ldc;
                    tile.add = mode == PF_GEMM_ADD;
                    if (n_tiles > 1) pf_gemm_prefetch_write(tile.c, ldc, (size_t)height);
                }
                tiles[height](&tile);
            }
            reserved += pf_b12_reserved_before(codes, n_blocks);
            codes += n_blocks;
            blocks += bytes;
        }
        if (!whole) pf_gemm_copy_columns(c + (size_t)p * PF_GEMM_PANEL, ldc, scratch, m, n_columns, mode);
    }
}
