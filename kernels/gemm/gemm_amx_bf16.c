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

/* A panel, and its last step filled up to 16 pairs. */
typedef struct {
    const uint8_t *whole;
    size_t n_whole; /* steps of 16 pairs */
    _Alignas(64) uint8_t last[PF_TILE_STEP_BYTES];
} panel_steps;

static void panel_open(panel_steps *s, const pf_gemm_weights *w, int32_t panel)
{
    s->whole = (const uint8_t *)w->panels + (size_t)panel * w->panel_bytes;
    s->n_whole = w->panel_bytes / PF_TILE_STEP_BYTES;
    const size_t left = w->panel_bytes % PF_TILE_STEP_BYTES;
    if (left == 0) return;
    memcpy(s->last, s->whole + s->n_whole * PF_TILE_STEP_BYTES, left);
    memset(s->last + left, 0, PF_TILE_STEP_BYTES - left);
}

PF_INLINE const uint8_t *panel_step(const panel_steps *s, size_t step)
{
    return step < s->n_whole ? s->whole + step * PF_TILE_STEP_BYTES : s->last;
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

typedef struct {
    const uint8_t *a; /* [steps, upper + lower, 64 bytes] */
    int32_t upper, lower;
    uintptr_t prefetch; /* the share of a panel to come that is fetched meanwhile: so many lines each step */
    size_t prefetch_lines;
} block;

/* Four sums, in tiles, of a block and a panel. */
static void multiply_block(const block *x, const panel_steps *panel, size_t steps)
{
    const size_t a_step = (size_t)(x->upper + x->lower) * PF_TILE_ROW_BYTES;
    const size_t a_lower = (size_t)x->upper * PF_TILE_ROW_BYTES;
    const uint8_t *a = x->a, *b = panel_step(panel, 0);
    uintptr_t prefetch = x->prefetch;
    PF_TILE_ZERO(0);
    PF_TILE_ZERO(1);
    PF_TILE_ZERO(2);
    PF_TILE_ZERO(3);
    PF_TILE_LOAD(4, a, PF_TILE_ROW_BYTES);
    PF_TILE_LOAD(6, b, PF_TILE_B_STRIDE);
    for (size_t step = 1; step < steps; step++) {
        const uint8_t *next = panel_step(panel, step);
        PF_TILE_LOAD(7, b + PF_TILE_ROW_BYTES, PF_TILE_B_STRIDE);
        PF_TILE_DOT_BF16(0, 4, 6);
        PF_TILE_LOAD(5, a + a_lower, PF_TILE_ROW_BYTES);
        PF_TILE_DOT_BF16(1, 4, 7);
        a += a_step;
        PF_TILE_LOAD(4, a, PF_TILE_ROW_BYTES);
        PF_TILE_DOT_BF16(2, 5, 6);
        PF_TILE_LOAD(6, next, PF_TILE_B_STRIDE);
        PF_TILE_DOT_BF16(3, 5, 7);
        b = next;
        pf_prefetch_lines(prefetch, x->prefetch_lines);
        prefetch += 64 * x->prefetch_lines;
    }
    PF_TILE_LOAD(7, b + PF_TILE_ROW_BYTES, PF_TILE_B_STRIDE);
    PF_TILE_DOT_BF16(0, 4, 6);
    PF_TILE_LOAD(5, a + a_lower, PF_TILE_ROW_BYTES);
    PF_TILE_DOT_BF16(1, 4, 7);
    PF_TILE_DOT_BF16(2, 5, 6);
    PF_TILE_DOT_BF16(3, 5, 7);
}

static void store_block(const block *x, const sums *out)
{
    uint8_t *lower = out->at + (size_t)x->upper * out->stride;
    PF_TILE_STORE(0, out->at, out->stride);
    PF_TILE_STORE(1, out->at + PF_TILE_ROW_BYTES, out->stride);
    PF_TILE_STORE(2, lower, out->stride);
    PF_TILE_STORE(3, lower + PF_TILE_ROW_BYTES, out->stride);
}

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
            block x = { .a = input + (size_t)row * steps * PF_TILE_ROW_BYTES,
                        .upper = (height + 1) / 2,
                        .lower = height / 2,
                        .prefetch_lines = (PF_TILE_STEP_BYTES / 64 + (size_t)n_blocks - 1) / (size_t)n_blocks };
            if (height != configured) pf_tile_configure(x.upper, x.lower);
            configured = height;
            for (int32_t p = first; p < end; p++) {
                panel_steps panel;
                panel_open(&panel, w, p);
                x.prefetch =
                    (uintptr_t)panel.whole +
                    (n_blocks == 1 ? PF_GEMM_W_AHEAD
                                   : (size_t)group * w->panel_bytes + w->panel_bytes * (size_t)t / (size_t)n_blocks);
                multiply_block(&x, &panel, steps);
                float *out = c + (size_t)row * ldc;
                const sums s = sums_for(w, p, out, ldc, mode, scratch);
                store_block(&x, &s);
                put(&s, w, p, height, out, ldc, mode, scratch);
            }
        }
    }
}

/* --- up to 16 rows --- */

/* One A, four B: A is in one of tmm4 and tmm5, and the next step's is loaded into the other. */
#define PAIR_STEP(A)                                              \
    PF_TILE_LOAD(7, left + PF_TILE_ROW_BYTES, PF_TILE_B_STRIDE);  \
    PF_TILE_DOT_BF16(0, A, 6);                                    \
    PF_TILE_LOAD(6, right, PF_TILE_B_STRIDE);                     \
    PF_TILE_DOT_BF16(1, A, 7);                                    \
    PF_TILE_LOAD(7, right + PF_TILE_ROW_BYTES, PF_TILE_B_STRIDE); \
    PF_TILE_DOT_BF16(2, A, 6)
#define PAIR_NEXT(A_NEXT)                       \
    a += a_step;                                \
    left = panel_step(l, step);                 \
    right = panel_step(r, step);                \
    PF_TILE_LOAD(A_NEXT, a, PF_TILE_ROW_BYTES); \
    PF_TILE_LOAD(6, left, PF_TILE_B_STRIDE)

/* Two panels; tmm0 and tmm1 are the left one's sums, tmm2 and tmm3 the right one's. */
static void multiply_pair(const uint8_t *a, int32_t m, const panel_steps *l, const panel_steps *r, size_t steps)
{
    const size_t a_step = (size_t)m * PF_TILE_ROW_BYTES, panel_bytes = (size_t)(r->whole - l->whole);
    const uint8_t *left = panel_step(l, 0), *right = panel_step(r, 0);
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
            PF_TILE_DOT_BF16(3, 4, 7);
        } else {
            PAIR_STEP(5);
            PAIR_NEXT(4);
            PF_TILE_DOT_BF16(3, 5, 7);
        }
        pf_prefetch_lines(prefetch, PF_TILE_STEP_BYTES / 64);
        pf_prefetch_lines(prefetch + panel_bytes, PF_TILE_STEP_BYTES / 64);
    }
    if (steps % 2) {
        PAIR_STEP(4);
        PF_TILE_DOT_BF16(3, 4, 7);
    } else {
        PAIR_STEP(5);
        PF_TILE_DOT_BF16(3, 5, 7);
    }
}
#undef PAIR_STEP
#undef PAIR_NEXT

/* One panel; tmm0 and tmm1. */
static void multiply_single(const uint8_t *a, int32_t m, const panel_steps *panel, size_t steps)
{
    const size_t a_step = (size_t)m * PF_TILE_ROW_BYTES;
    PF_TILE_ZERO(0);
    PF_TILE_ZERO(1);
    for (size_t step = 0; step < steps; step++, a += a_step) {
        const uint8_t *b = panel_step(panel, step);
        PF_TILE_LOAD(4, a, PF_TILE_ROW_BYTES);
        PF_TILE_LOAD(6, b, PF_TILE_B_STRIDE);
        PF_TILE_LOAD(7, b + PF_TILE_ROW_BYTES, PF_TILE_B_STRIDE);
        PF_TILE_DOT_BF16(0, 4, 6);
        PF_TILE_DOT_BF16(1, 4, 7);
        pf_prefetch_lines((uintptr_t)b + PF_GEMM_W_AHEAD, PF_TILE_STEP_BYTES / 64);
    }
}

static void multiply_wide(const pf_gemm_weights *w, const uint8_t *input, int32_t m, int32_t panel_begin,
                          int32_t panel_end, float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    const size_t steps = steps_of(w->k);
    pf_tile_configure(m, m);
    for (int32_t p = panel_begin; p < panel_end;) {
        panel_steps left, right;
        const bool pair = p + 1 < panel_end;
        panel_open(&left, w, p);
        if (pair) {
            panel_open(&right, w, p + 1);
            multiply_pair(input, m, &left, &right, steps);
        } else {
            multiply_single(input, m, &left, steps);
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
void pf_gemm_pack_bf16_amx(void *input, const float *a, size_t lda, int32_t m, int32_t k, int32_t tile_begin,
                           int32_t tile_end)
{
    const size_t n_values = (size_t)k, steps = steps_of(k);
    const int32_t n_blocks = pf_gemm_tiles(PF_TILE_BLOCK_ROWS, m);
    for (int32_t t = tile_begin; t < tile_end; t++) {
        const int32_t first = pf_gemm_tile_row(n_blocks, m, t);
        const size_t height = (size_t)(pf_gemm_tile_row(n_blocks, m, t + 1) - first);
        uint8_t *out = (uint8_t *)input + (size_t)first * steps * PF_TILE_ROW_BYTES;
        for (size_t r = 0; r < height; r++) {
            const float *row = a + ((size_t)first + r) * lda;
            for (size_t step = 0; step < steps; step++)
                _mm512_store_si512(out + (step * height + r) * PF_TILE_ROW_BYTES,
                                   pf_gemm_load_pairs(row + step * STEP_VALUES, n_values - step * STEP_VALUES));
        }
    }
}
