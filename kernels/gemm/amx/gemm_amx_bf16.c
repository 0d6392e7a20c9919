/*
 * bf16 product with TDPBF16PS, by the nest of gemm_amx.h: per step of 32 values of K, a tile of A times the two halves of a
 * panel, which are B as they lie.
 *
 * K that is no multiple of 32: the activations are packed with zeros behind them, and the last step of a panel is copied
 * to where zeros follow it. A row's sum is one chain of TDPBF16PS in either form, at any height of tile.
 *
 * Up to five rows from memory are multiplied by vectors, with the same bits, unless tiles read memory as fast there
 * (PF_FETCH_TILED).
 *
 * Denormals: the instruction reads them as zero and flushes its results, whatever MXCSR says.
 */
#include "kernels/gemm/amx/gemm_amx.h"
#include "kernels/gemm/pack/pack_pairs_avx512.h"
#include "kernels/vec/unroll.h"

enum { STEP_VALUES = 32 };

static size_t steps_of(int32_t k)
{
    return ((size_t)k + STEP_VALUES - 1) / STEP_VALUES;
}

PF_INLINE void put(const pf_tile_product *x, int32_t panel, int32_t row, int32_t n_rows, const void *sums)
{
    const int32_t left = x->w->n - panel * PF_GEMM_PANEL;
    const __mmask32 exist = left >= PF_GEMM_PANEL ? ~(__mmask32)0 : ((__mmask32)1 << left) - 1;
    const __mmask16 low = (__mmask16)exist, high = (__mmask16)(exist >> 16);
    const float *from = sums;
    float *c = x->c + (size_t)row * x->ldc + (size_t)panel * PF_GEMM_PANEL;
    for (int32_t r = 0; r < n_rows; r++, from += PF_GEMM_PANEL, c += x->ldc) {
        __m512 s0 = _mm512_load_ps(from), s1 = _mm512_load_ps(from + 16);
        if (x->mode == PF_GEMM_ADD) {
            s0 = _mm512_add_ps(_mm512_maskz_loadu_ps(low, c), s0);
            s1 = _mm512_add_ps(_mm512_maskz_loadu_ps(high, c + 16), s1);
        }
        _mm512_mask_storeu_ps(c, low, s0);
        _mm512_mask_storeu_ps(c + 16, high, s1);
    }
}

/* --- few rows ---
 *
 * TDPBF16PS in vectors, a pair of K at a time. Tiles fetch badly from memory, sixteen lines in a burst; up to VECTOR_ROWS
 * rows take no longer than their weights need to come from there. */

enum {
    VECTOR_ROWS = PF_GEMM_AMX_BF16_ROWS - 1,
    STEP_PAIRS = PF_TILE_ROWS,
    W_AHEAD = 2752,             /* bytes: of two panels, a step of each in turn; a page and more costs a tenth */
    AS_TILES = 0x1F80 | 0x8040, /* MXCSR: to nearest, nothing raised, denormals read as zero and flushed to it */
};

/* The numbers of even and of odd k among pairs. */
PF_INLINE __m512 even_of(__m512i words)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
}
PF_INLINE __m512 odd_of(__m512i words)
{
    return _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32((int32_t)0xFFFF0000u)));
}

/* A step of K of one panel, or what there is of it: n pairs. a [rows, STEP_PAIRS] words; sums [rows, 32], added to. */
PF_INLINE void add_step(const int rows, const uint8_t *w, size_t n, const uint32_t *a, uintptr_t ahead, float *sums)
{
    __m512 even[VECTOR_ROWS][2], odd[VECTOR_ROWS][2];
    PF_UNROLL_16
    for (int r = 0; r < rows; r++) even[r][0] = even[r][1] = odd[r][0] = odd[r][1] = _mm512_setzero_ps();
    for (size_t i = 0; i < n; i++, w += PF_TILE_B_STRIDE, ahead += PF_TILE_B_STRIDE) {
        __m512 a_even[VECTOR_ROWS], a_odd[VECTOR_ROWS];
        PF_UNROLL_16
        for (int r = 0; r < rows; r++) {
            const __m512i pairs = _mm512_set1_epi32((int32_t)a[(size_t)r * STEP_PAIRS + i]);
            a_even[r] = even_of(pairs);
            a_odd[r] = odd_of(pairs);
        }
        PF_UNROLL_16
        for (int half = 0; half < 2; half++) {
            const __m512i pairs = _mm512_loadu_si512(w + half * PF_TILE_ROW_BYTES);
            pf_tile_prefetch(ahead + (size_t)half * PF_TILE_ROW_BYTES); /* two in a row cost a seventh */
            PF_UNROLL_16
            for (int r = 0; r < rows; r++) {
                even[r][half] = _mm512_fmadd_ps(a_even[r], even_of(pairs), even[r][half]);
                odd[r][half] = _mm512_fmadd_ps(a_odd[r], odd_of(pairs), odd[r][half]);
            }
        }
    }
    PF_UNROLL_16
    for (int i = 0; i < 2 * rows; i++, sums += 16)
        _mm512_store_ps(sums,
                        _mm512_add_ps(_mm512_load_ps(sums), _mm512_add_ps(even[i / 2][i % 2], odd[i / 2][i % 2])));
}

/* One panel or two, from one on; sums [n_panels, rows, 32]. */
PF_INLINE void add_panels(const int rows, const pf_tile_product *x, int32_t panel, size_t n_panels, float *sums)
{
    const size_t panel_bytes = x->w->panel_bytes, panel_sums = (size_t)rows * PF_GEMM_PANEL;
    const size_t n_pairs = ((size_t)x->w->k + 1) / 2;
    const uint8_t *from = pf_tile_panel(x, panel);
    const uint32_t *a = (const uint32_t *)(const void *)x->input;
    memset(sums, 0, n_panels * panel_sums * sizeof *sums);
    for (size_t pair = 0; pair < n_pairs; pair += STEP_PAIRS) {
        const size_t n = n_pairs - pair < STEP_PAIRS ? n_pairs - pair : STEP_PAIRS;
        const bool past = pair * PF_TILE_B_STRIDE + W_AHEAD >= panel_bytes; /* into the next two */
        const uintptr_t ahead = (uintptr_t)from + W_AHEAD + (past ? (n_panels - 1) * panel_bytes : 0);
        for (size_t j = 0; j < n_panels; j++)
            add_step(rows, from + j * panel_bytes, n, a, ahead + j * panel_bytes, sums + j * panel_sums);
        from += PF_TILE_STEP_BYTES;
        a += (size_t)rows * STEP_PAIRS;
    }
}

PF_INLINE void multiply_few(const int rows, const pf_tile_product *x, int32_t panel_begin, int32_t panel_end,
                            float *sums)
{
    for (int32_t p = panel_begin; p < panel_end;) {
        const int32_t n = p + 1 < panel_end ? 2 : 1;
        const uint32_t mxcsr = _mm_getcsr(), as_tiles = AS_TILES;
        __asm__ volatile("ldmxcsr %0" : : "m"(as_tiles) : "memory");
        add_panels(rows, x, p, (size_t)n, sums);
        __asm__ volatile("ldmxcsr %0" : : "m"(mxcsr) : "memory");
        for (int32_t j = 0; j < n; j++) put(x, p++, 0, rows, sums + j * rows * PF_GEMM_PANEL);
    }
}

/* False: so many rows are for tiles. */
static bool multiply_by_vectors(const pf_tile_product *x, int32_t panel_begin, int32_t panel_end, float *sums)
{
    if (!x->w->from_memory || x->w->fetch == PF_FETCH_TILED) return false;
    switch (x->m) {
    case 1: multiply_few(1, x, panel_begin, panel_end, sums); return true;
    case 2: multiply_few(2, x, panel_begin, panel_end, sums); return true;
    case 3: multiply_few(3, x, panel_begin, panel_end, sums); return true;
    case 4: multiply_few(4, x, panel_begin, panel_end, sums); return true;
    case VECTOR_ROWS: multiply_few(VECTOR_ROWS, x, panel_begin, panel_end, sums); return true;
    default: return false;
    }
}

/* --- any number --- */

/* Where row `first` of a block of `height` begins, and its columns of a step follow. */
PF_INLINE uint8_t *packed_rows(void *input, int32_t first, size_t height, size_t steps, size_t step)
{
    return (uint8_t *)input + ((size_t)first * steps + step * height) * PF_TILE_ROW_BYTES;
}

/* A panel of the result is a step of K to the product after it. */
PF_INLINE void put_gated(const pf_tile_product *x, int32_t panel, int32_t row, int32_t n_rows, const void *gate,
                         const void *up)
{
    _Alignas(64) float activated[PF_TILE_BLOCK_ROWS * PF_GEMM_PANEL];
    const int32_t n = pf_tile_columns(x, panel);
    const size_t height = (size_t)n_rows;
    uint8_t *out = packed_rows(x->gated->packed, row, height, steps_of(x->w->n), (size_t)panel);
    x->gated->activate(activated, PF_GEMM_PANEL, gate, up, PF_GEMM_PANEL, n_rows, n);
    for (size_t r = 0; r < height; r++)
        _mm512_store_si512(out + r * PF_TILE_ROW_BYTES, pf_gemm_load_pairs(activated + r * PF_GEMM_PANEL, (size_t)n));
}

static const pf_tile_family family = {
    .dot = PF_DOT_BF16,
    .in_place = true,
    .as_they_are = true,
    .row_bytes = PF_TILE_B_STRIDE,
    .row = pf_tile_row_plain,
    .put = put,
    .put_gated = put_gated,
};

void pf_gemm_gated_bf16_amx(const pf_gemm_weights *gate, const pf_gemm_weights *up, const void *input, int32_t m,
                            int32_t panel_begin, int32_t panel_end, const pf_gemm_gated *out, void *scratch)
{
    const pf_tile_product x = { .w = gate, .up = up, .input = input, .m = m, .gated = out, .steps = steps_of(gate->k) };
    pf_tile_nest_gated(family, &x, panel_begin, panel_end, scratch);
}

void pf_gemm_bf16_amx(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin, int32_t panel_end,
                      float *c, size_t ldc, pf_gemm_mode mode, void *scratch)
{
    pf_tile_product x = { .w = w, .input = input, .m = m, .ldc = ldc, .mode = mode, .steps = steps_of(w->k) };
    x.c = c;
    if (multiply_by_vectors(&x, panel_begin, panel_end, scratch)) return;
    pf_tile_nest(family, &x, panel_begin, panel_end, scratch);
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
        for (size_t r = 0; r < height; r++) {
            const float *row = a + ((size_t)first + r) * lda;
            for (size_t value = (size_t)k_begin; value < values_end; value += STEP_VALUES)
                _mm512_store_si512(packed_rows(input, first, height, steps, value / STEP_VALUES) +
                                       r * PF_TILE_ROW_BYTES,
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
