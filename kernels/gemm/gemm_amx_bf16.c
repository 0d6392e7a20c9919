/*
 * bf16 product with TDPBF16PS: per step of 32 values of K, one tile of A times the two halves of a panel.
 *
 * More than 16 rows: blocks of up to 32, each two tiles high, so that four loads feed four multiplies, and sums stay in
 * tiles over all of K.
 *
 *   for each group of panels that L2 holds
 *     for each block of rows
 *       for each panel of the group
 *         for each step of K: A A B B, four multiplies
 *
 * A block of A is read from far once a group, not once a panel; the group's weights are read from memory once, during
 * the group before. A K block would save L1 misses, but cost four loads and four stores of sums each time, and then there
 * would be more loads than multiplies.
 *
 * Up to 16 rows: two panels side by side, one A to four B. Every load stands one multiply or more ahead of its use.
 *
 * K that is no multiple of 32: the activations are packed with zeros behind them, and the last step of a panel is copied
 * to where zeros follow it. A row's sum is one chain of TDPBF16PS in either form, at any height of tile.
 *
 * Denormals: the instruction reads them as zero and flushes its results, whatever MXCSR says.
 */
#include "kernels/gemm/gemm_amx.h"
#include "kernels/gemm/gemm_pairs_avx512.h"

enum {
    STEP_VALUES = 32,
    GROUP_BYTES = 1 << 20, /* half of the L2 of a core of the first processors with AMX */
};

static size_t steps_of(int32_t k)
{
    return ((size_t)k + STEP_VALUES - 1) / STEP_VALUES;
}

static pf_tile_steps panel_steps(const pf_gemm_weights *w, int32_t panel, uint8_t *last)
{
    return pf_tile_steps_of((const uint8_t *)w->panels + (size_t)panel * w->panel_bytes, w->panel_bytes, last);
}

/* Where sums go: rows of 32 columns. */
typedef struct {
    uint8_t *at;
    size_t stride; /* bytes */
} sums;

/* Straight to c where that is all; else to the scratch, and from there by put(). */
static sums sums_for(const pf_gemm_weights *w, int32_t panel, float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    const bool direct = mode == PF_GEMM_STORE && w->n - panel * PF_GEMM_PANEL >= PF_GEMM_PANEL;
    if (direct) return (sums){ (uint8_t *)(c + (size_t)panel * PF_GEMM_PANEL), ldc * sizeof *c };
    return (sums){ scratch, PF_GEMM_PANEL * sizeof *c };
}

static void put(const sums *s, const pf_gemm_weights *w, int32_t panel, int32_t n_rows, float *c, size_t ldc,
                pf_gemm_mode mode, void *scratch)
{
    if (s->at != scratch) return;
    const int32_t left = w->n - panel * PF_GEMM_PANEL;
    pf_gemm_copy_columns(c + (size_t)panel * PF_GEMM_PANEL, ldc, scratch, n_rows,
                         left < PF_GEMM_PANEL ? left : PF_GEMM_PANEL, mode);
}

/* --- more than 16 rows --- */

static void multiply_tall(const pf_gemm_weights *w, const uint8_t *input, int32_t m, int32_t panel_begin,
                          int32_t panel_end, float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    const int32_t n_blocks = pf_gemm_tiles(PF_TILE_BLOCK_ROWS, m);
    const size_t steps = steps_of(w->k), fit = GROUP_BYTES / w->panel_bytes;
    const int32_t group = fit == 0 ? 1 : (int32_t)fit;
    int32_t configured = 0;
    for (int32_t first = panel_begin; first < panel_end; first += group) {
        const int32_t end = panel_end - first < group ? panel_end : first + group;
        for (int32_t t = 0; t < n_blocks; t++) {
            const int32_t row = pf_gemm_tile_row(n_blocks, m, t);
            const int32_t height = pf_gemm_tile_row(n_blocks, m, t + 1) - row;
            pf_tile_rows x = pf_tile_rows_of(height, true, PF_TILE_ROW_BYTES);
            x.a = input + (size_t)row * steps * PF_TILE_ROW_BYTES;
            x.prefetch_lines = (PF_TILE_STEP_BYTES / 64 + (size_t)n_blocks - 1) / (size_t)n_blocks;
            if (height != configured) pf_tile_configure(x.upper, x.lower, x.row_bytes);
            configured = height;
            for (int32_t p = first; p < end; p++) {
                _Alignas(64) uint8_t last[PF_TILE_STEP_BYTES];
                const pf_tile_steps panel = panel_steps(w, p, last);
                /* one block: what follows; else a share of the panel that takes this one's place in the next group */
                const size_t ahead = (size_t)group * w->panel_bytes + w->panel_bytes * (size_t)t / (size_t)n_blocks;
                x.prefetch = (uintptr_t)panel.whole + (n_blocks == 1 ? PF_GEMM_W_AHEAD : ahead);
                pf_tile_multiply_tall(PF_DOT_BF16, &x, &panel, steps);
                float *out = c + (size_t)row * ldc;
                const sums s = sums_for(w, p, out, ldc, mode, scratch);
                pf_tile_store(&x, s.at, s.stride);
                put(&s, w, p, height, out, ldc, mode, scratch);
            }
        }
    }
}

/* --- up to 16 rows --- */

/* One A, four B: A is in one of tmm4 and tmm5, and the next step's is loaded into the other. */
#define PAIR_STEP(A)                                              \
    PF_TILE_LOAD(7, left + PF_TILE_ROW_BYTES, PF_TILE_B_STRIDE);  \
    PF_TILE_DOT(PF_DOT_BF16, 0, A, 6);                            \
    PF_TILE_LOAD(6, right, PF_TILE_B_STRIDE);                     \
    PF_TILE_DOT(PF_DOT_BF16, 1, A, 7);                            \
    PF_TILE_LOAD(7, right + PF_TILE_ROW_BYTES, PF_TILE_B_STRIDE); \
    PF_TILE_DOT(PF_DOT_BF16, 2, A, 6)
#define PAIR_NEXT(A_NEXT)                       \
    a += a_step;                                \
    left = pf_tile_step(l, step);               \
    right = pf_tile_step(r, step);              \
    PF_TILE_LOAD(A_NEXT, a, PF_TILE_ROW_BYTES); \
    PF_TILE_LOAD(6, left, PF_TILE_B_STRIDE)

/* Two panels; tmm0 and tmm1 are the left one's sums, tmm2 and tmm3 the right one's. */
static void multiply_pair(const uint8_t *a, int32_t m, const pf_tile_steps *l, const pf_tile_steps *r, size_t steps)
{
    const size_t a_step = (size_t)m * PF_TILE_ROW_BYTES, panel_bytes = (size_t)(r->whole - l->whole);
    const uint8_t *left = pf_tile_step(l, 0), *right = pf_tile_step(r, 0);
    PF_TILE_ZERO(0);
    PF_TILE_ZERO(1);
    PF_TILE_ZERO(2);
    PF_TILE_ZERO(3);
    PF_TILE_LOAD(4, a, PF_TILE_ROW_BYTES);
    PF_TILE_LOAD(6, left, PF_TILE_B_STRIDE);
    for (size_t step = 1; step < steps; step++) {
        size_t ahead = step * PF_TILE_STEP_BYTES + PF_GEMM_W_AHEAD / 2;
        if (ahead >= panel_bytes) ahead += panel_bytes; /* in the next pair */
        const uintptr_t prefetch = (uintptr_t)l->whole + ahead;
        if (step % 2) {
            PAIR_STEP(4);
            PAIR_NEXT(5);
            PF_TILE_DOT(PF_DOT_BF16, 3, 4, 7);
        } else {
            PAIR_STEP(5);
            PAIR_NEXT(4);
            PF_TILE_DOT(PF_DOT_BF16, 3, 5, 7);
        }
        pf_prefetch_lines(prefetch, PF_TILE_STEP_BYTES / 64);
        pf_prefetch_lines(prefetch + panel_bytes, PF_TILE_STEP_BYTES / 64);
    }
    if (steps % 2) {
        PAIR_STEP(4);
        PF_TILE_DOT(PF_DOT_BF16, 3, 4, 7);
    } else {
        PAIR_STEP(5);
        PF_TILE_DOT(PF_DOT_BF16, 3, 5, 7);
    }
}
#undef PAIR_STEP
#undef PAIR_NEXT

static void multiply_wide(const pf_gemm_weights *w, const uint8_t *input, int32_t m, int32_t panel_begin,
                          int32_t panel_end, float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    const size_t steps = steps_of(w->k);
    pf_tile_configure(m, m, PF_TILE_ROW_BYTES);
    for (int32_t p = panel_begin; p < panel_end;) {
        _Alignas(64) uint8_t last[2][PF_TILE_STEP_BYTES];
        const bool pair = p + 1 < panel_end;
        const pf_tile_steps left = panel_steps(w, p, last[0]);
        if (pair) {
            const pf_tile_steps right = panel_steps(w, p + 1, last[1]);
            multiply_pair(input, m, &left, &right, steps);
        } else {
            pf_tile_rows x = pf_tile_rows_of(m, false, PF_TILE_ROW_BYTES);
            x.a = input;
            x.prefetch = (uintptr_t)left.whole + PF_GEMM_W_AHEAD;
            x.prefetch_lines = PF_TILE_STEP_BYTES / 64;
            pf_tile_multiply_low(PF_DOT_BF16, &x, &left, steps);
        }
        sums s = sums_for(w, p, c, ldc, mode, scratch);
        PF_TILE_STORE(0, s.at, s.stride);
        PF_TILE_STORE(1, s.at + PF_TILE_ROW_BYTES, s.stride);
        put(&s, w, p++, m, c, ldc, mode, scratch);
        if (!pair) continue;
        s = sums_for(w, p, c, ldc, mode, scratch);
        PF_TILE_STORE(2, s.at, s.stride);
        PF_TILE_STORE(3, s.at + PF_TILE_ROW_BYTES, s.stride);
        put(&s, w, p++, m, c, ldc, mode, scratch);
    }
}

void pf_gemm_bf16_amx(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin, int32_t panel_end,
                      float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    if (panel_begin == panel_end) return;
    if (m <= PF_TILE_ROWS)
        multiply_wide(w, input, m, panel_begin, panel_end, c, ldc, mode, scratch);
    else
        multiply_tall(w, input, m, panel_begin, panel_end, c, ldc, mode, scratch);
    pf_tile_release();
}

/* [block][step][row][32 values]: the rows of a block are the rows of its one or two tiles, in order. */
static void pack_part(void *input, const float *a, size_t lda, int32_t m, int32_t k, int32_t tile_begin,
                      int32_t tile_end, int32_t k_begin, int32_t k_end)
{
    const size_t steps = steps_of(k), values_end = (size_t)k_end;
    const int32_t n_blocks = pf_gemm_tiles(PF_TILE_BLOCK_ROWS, m);
    for (int32_t t = tile_begin; t < tile_end; t++) {
        const int32_t first = pf_gemm_tile_row(n_blocks, m, t);
        const size_t height = (size_t)(pf_gemm_tile_row(n_blocks, m, t + 1) - first);
        uint8_t *out = (uint8_t *)input + (size_t)first * steps * PF_TILE_ROW_BYTES;
        for (size_t r = 0; r < height; r++) {
            const float *row = a + ((size_t)first + r) * lda;
            for (size_t value = (size_t)k_begin; value < values_end; value += STEP_VALUES)
                _mm512_store_si512(out + (value / STEP_VALUES * height + r) * PF_TILE_ROW_BYTES,
                                   pf_gemm_load_pairs(row + value, values_end - value));
        }
    }
}

void pf_gemm_pack_bf16_amx(void *input, const float *a, size_t lda, int32_t m, int32_t k, int32_t tile_begin,
                           int32_t tile_end)
{
    pack_part(input, a, lda, m, k, tile_begin, tile_end, 0, k);
}

void pf_gemm_pack_columns_bf16_amx(void *input, const float *a, size_t lda, int32_t m, int32_t k, int32_t k_begin,
                                   int32_t k_end)
{
    pack_part(input, a, lda, m, k, 0, pf_gemm_tiles(PF_TILE_BLOCK_ROWS, m), k_begin, k_end);
}
