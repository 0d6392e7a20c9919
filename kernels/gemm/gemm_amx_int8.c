/*
 * Integer weights times int8 activations, 64 values of K a step of a tile, or a group of 32.
 *
 * A scale a column: the nest of gemm_amx.h with sums of integers, which are scaled once at their end. int8 is multiplied as
 * it lies, unsigned q + 128 (TDPBSUD); 128 times the sum of a row of A is taken off then. int4 is unpacked to q - 8 or
 * q - z, signed (TDPBSSD), once for all rows.
 *
 * A scale a group: sums leave the tiles behind each group, and none is ever loaded into one.
 *
 *   for each panel
 *     for each piece of K (512 values)                  unpacked to bytes, 16 KiB
 *       for each block of rows
 *         for each group of the piece
 *           A A B B, four multiplies a step; some rows of the batch before are scaled; the sums leave the tiles
 *
 * A batch is as many groups of a block as there is room to park. Its sums wait while the tiles fill the other park, and
 * are then scaled and added as floats, groups in order: float sums are loaded and stored once a batch, not once a group,
 * and the vectors work between the multiplies of a group and the stores that wait for them. The last batch of a panel is
 * scaled alone.
 *
 * A group of 32 is half a step: A has rows of 32 bytes and B 8 rows. Tiles as deep as others, with zeros for the next
 * group, would have more rows loaded, and twice as much unpacked. Blocks are one tile high: twice as many groups are
 * parked in the same room, which saves more stores than the second tile saves loads.
 *
 * Below FEW_ROWS the VNNI kernels multiply, and pack: they have the same class of arithmetic, need no unpacked copy, and
 * are bound by memory there.
 *
 *   input   [block] [steps] [rows of the block] 64 bytes, or 32 | [m] { scale f32, sum of the row int32 }
 */
#include "kernels/gemm/gemm_amx.h"
#include "kernels/gemm/gemm_int_blocks.h"
#include "kernels/unroll.h"

enum {
    PIECE_BYTES = PF_GEMM_UNPACKED_BYTES / 2, /* stays in L1 while blocks pass over it */
    PARK_BYTES = PF_GEMM_UNPACKED_BYTES / 4,  /* of each of two */
    STRIP_ROWS = 8,                           /* that are scaled together, sums in registers */
    FEW_ROWS = 8,
};

/* Behind the tiles of the packed input. */
typedef struct {
    float scale;
    int32_t sum;
} row_head;

/* How a format goes through tiles. */
typedef struct {
    pf_gemm_layout l;
    bool groups;        /* have scales of their own; else columns */
    int32_t block_rows; /* of the highest block */
    size_t step_values; /* of K: bytes of a row of A */
    size_t step_words;  /* of four values of a column: rows of B */
    size_t step_bytes;  /* of B, both halves of a panel */
    size_t group_steps;
    size_t steps; /* of a row: whole groups */
} tiling;

static tiling tiling_of(pf_format format, int32_t k)
{
    tiling t = { .l = pf_gemm_layout_of(format, k),
                 .block_rows = PF_TILE_BLOCK_ROWS,
                 .step_values = PF_TILE_ROW_BYTES };
    const size_t n_values = (size_t)k, group = (size_t)t.l.group;
    t.groups = t.l.scale_size == 2;
    if (t.groups && group < t.step_values) {
        t.step_values = group;
        t.block_rows = PF_TILE_ROWS;
    }
    t.step_words = t.step_values / 4;
    t.step_bytes = t.step_words * PF_TILE_B_STRIDE;
    t.group_steps = group / t.step_values;
    t.steps = t.groups ? (size_t)t.l.n_groups * t.group_steps : (n_values + t.step_values - 1) / t.step_values;
    return t;
}

/* Where the head of the group that a step begins lies in a panel. */
static size_t step_at(const tiling *t, size_t step)
{
    return step / t->group_steps * t->l.group_bytes;
}

/* --- weights --- */

/* z of 16 columns, or 8, in each of a column's four bytes. */
static __m512i zeros_of(const pf_gemm_layout *l, const uint8_t *group, size_t column)
{
    if (!l->has_zeros) return _mm512_set1_epi8(8);
    const __m128i z = _mm_loadu_si128((const __m128i *)(const void *)(group + l->zeros_at + column));
    return _mm512_mullo_epi32(_mm512_cvtepu8_epi32(z), _mm512_set1_epi32(0x01010101));
}

/* A row of B of the 64 bytes that have its nibbles. */
PF_INLINE void row_of_nibbles(const __m512i zeros[2], const uint8_t *from, uint8_t *b)
{
    const __m512i low = _mm512_set1_epi8(15), both = _mm512_loadu_si512(from);
    const __m512i q0 = _mm512_and_si512(both, low), q1 = _mm512_and_si512(_mm512_srli_epi16(both, 4), low);
    _mm512_store_si512(b, _mm512_sub_epi8(q0, zeros[0]));
    _mm512_store_si512(b + 64, _mm512_sub_epi8(q1, zeros[1]));
}

/* n steps from `step` on, whole groups, at most a piece. */
static void unpack_piece(const tiling *t, const uint8_t *panel, size_t step, size_t n, uint8_t *out)
{
    for (size_t s = 0; s < n; s += t->group_steps) {
        const uint8_t *group = panel + step_at(t, step + s), *from = group + t->l.head_bytes;
        const __m512i zeros[2] = { zeros_of(&t->l, group, 0), zeros_of(&t->l, group, 16) };
        for (size_t i = 0; i < t->l.group_steps; i++, from += t->l.step_bytes, out += PF_TILE_B_STRIDE)
            row_of_nibbles(zeros, from, out);
    }
}

/* --- sums --- */

/* Groups of a block whose sums have left the tiles. */
typedef struct {
    const uint8_t *group; /* the first of them in the panel: its scales; the others follow */
    size_t group_bytes;
    const int32_t *parked; /* [n_groups, ..., 32], park_words apart */
    size_t park_words;
    float *sums; /* [n_rows, 32]: what they are added to, groups in order */
    size_t n_groups, n_rows;
    size_t n_scaled; /* of the rows */
} batch;

/* Rows [row, row + height) of a batch. */
PF_INLINE void scale_strip(const size_t height, const batch *b, size_t row)
{
    __m512 sum[STRIP_ROWS][2];
    float *sums = b->sums + row * PF_GEMM_PANEL;
    const int32_t *parked = b->parked + row * PF_GEMM_PANEL;
    const uint8_t *group = b->group;
    PF_UNROLL_16
    for (size_t r = 0; r < height; r++) {
        sum[r][0] = _mm512_load_ps(sums + r * PF_GEMM_PANEL);
        sum[r][1] = _mm512_load_ps(sums + r * PF_GEMM_PANEL + 16);
    }
    for (size_t g = 0; g < b->n_groups; g++, group += b->group_bytes, parked += b->park_words) {
        const __m256i *halves = (const __m256i *)(const void *)group;
        const __m512 s0 = _mm512_cvtph_ps(_mm256_loadu_si256(halves));
        const __m512 s1 = _mm512_cvtph_ps(_mm256_loadu_si256(halves + 1));
        PF_UNROLL_16
        for (size_t r = 0; r < height; r++) {
            const __m512i i0 = _mm512_load_si512(parked + r * PF_GEMM_PANEL);
            const __m512i i1 = _mm512_load_si512(parked + r * PF_GEMM_PANEL + 16);
            sum[r][0] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(i0), s0, sum[r][0]);
            sum[r][1] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(i1), s1, sum[r][1]);
        }
    }
    PF_UNROLL_16
    for (size_t r = 0; r < height; r++) {
        _mm512_store_ps(sums + r * PF_GEMM_PANEL, sum[r][0]);
        _mm512_store_ps(sums + r * PF_GEMM_PANEL + 16, sum[r][1]);
    }
}

/* The next n rows of a batch, or those that are left. */
static void scale_rows(batch *b, size_t n)
{
    size_t row = b->n_scaled;
    const size_t end = b->n_rows - row < n ? b->n_rows : row + n;
    for (; row + STRIP_ROWS <= end; row += STRIP_ROWS) scale_strip(STRIP_ROWS, b, row);
    for (; row + STRIP_ROWS / 2 <= end; row += STRIP_ROWS / 2) scale_strip(STRIP_ROWS / 2, b, row);
    for (; row < end; row++) scale_strip(1, b, row);
    b->n_scaled = row;
}

/* What 16 columns of one row come to, but for the row's scale. */
static __m512 result_of(const tiling *t, const uint8_t *panel, const void *sums, int32_t row_sum, size_t column)
{
    if (t->groups) return _mm512_load_ps((const float *)sums + column);
    __m512i i = _mm512_load_si512((const int32_t *)sums + column);
    if (t->l.bits == 8) i = _mm512_sub_epi32(i, _mm512_slli_epi32(_mm512_set1_epi32(row_sum), 7));
    const __m512 scale = _mm512_loadu_ps((const float *)(const void *)panel + column);
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(i), scale, _mm512_setzero_ps());
}

/* One row of one panel to c. */
static void finish_row(const tiling *t, const uint8_t *panel, const void *sums, row_head head, float *c,
                       int32_t n_columns, pf_gemm_mode mode)
{
    for (int32_t column = 0; column < n_columns; column += 16) {
        const int32_t left = n_columns - column;
        const __mmask16 exist = (__mmask16)(left >= 16 ? 0xFFFFu : (1u << left) - 1);
        __m512 r = result_of(t, panel, sums, head.sum, (size_t)column);
        r = _mm512_mul_ps(r, _mm512_set1_ps(head.scale));
        if (mode == PF_GEMM_ADD) r = _mm512_add_ps(_mm512_maskz_loadu_ps(exist, c + column), r);
        _mm512_mask_storeu_ps(c + column, exist, r);
    }
}

/* --- the nest --- */

/* A block of rows before a piece of a panel. */
typedef struct {
    size_t n_rows;
    pf_tile_rows x;
    const uint8_t *piece;
    const uint8_t *from; /* the piece in the panel */
    float *sums;         /* [n_rows, 32] */
} block;

/* n steps, to the tiles of sums. */
static void multiply_steps(const tiling *t, const block *b, size_t n)
{
    pf_tile_zero(&b->x);
    if (b->x.lower)
        pf_tile_multiply_tall(PF_DOT_INT8_INT8, &b->x, b->piece, t->step_bytes, n);
    else
        pf_tile_multiply_low(PF_DOT_INT8_INT8, &b->x, b->piece, t->step_bytes, n);
}

/* The n groups of a piece, batch by batch, into the park where `before` is not. `before` is scaled meanwhile, and is the
 * last of them in the end. */
static void multiply_groups(const tiling *t, block b, size_t n, int32_t *parks, batch *before)
{
    const size_t park_words = (size_t)(b.x.upper + b.x.lower) * PF_GEMM_PANEL;
    const size_t fit = PARK_BYTES / sizeof *parks / park_words; /* 2 to 4 */
    while (n) {
        const size_t n_groups = n < fit ? n : fit; /* each sees to its share of the rows of the batch before */
        /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): a park has room for a group */
        const size_t share = pf_round_up((before->n_rows + n_groups - 1) / n_groups, STRIP_ROWS / 2);
        int32_t *park = before->parked == parks ? parks + PARK_BYTES / sizeof *parks : parks;
        for (size_t g = 0; g < n_groups; g++) {
            multiply_steps(t, &b, t->group_steps);
            scale_rows(before, share);
            pf_tile_store(&b.x, (uint8_t *)(park + g * park_words), PF_GEMM_PANEL * sizeof *park);
            b.piece += t->group_steps * t->step_bytes;
            b.x.a += t->group_steps * b.x.a_step;
            b.x.prefetch += 64 * t->group_steps * b.x.prefetch_lines;
        }
        *before = (batch){ .group = b.from,
                           .group_bytes = t->l.group_bytes,
                           .parked = park,
                           .park_words = park_words,
                           .sums = b.sums,
                           .n_groups = n_groups,
                           .n_rows = b.n_rows };
        b.from += n_groups * t->l.group_bytes;
        n -= n_groups;
    }
}

/* All rows times one panel, but for the rows' scales; sums [m, 32]. */
static void multiply_panel(const tiling *t, const uint8_t *input, int32_t m, const uint8_t *panel, pf_tile_rows x,
                           float *sums, uint8_t *unpacked)
{
    const int32_t n_blocks = pf_gemm_tiles(t->block_rows, m);
    const size_t piece_steps = PIECE_BYTES / t->step_bytes;
    int32_t *parks = (int32_t *)(void *)(unpacked + PIECE_BYTES);
    batch before = { 0 };
    memset(sums, 0, (size_t)m * PF_GEMM_PANEL * sizeof(float));
    for (size_t step = 0; step < t->steps; step += piece_steps) {
        const size_t n = t->steps - step < piece_steps ? t->steps - step : piece_steps;
        const size_t at = step_at(t, step), bytes = step_at(t, step + n) - at;
        const size_t lines = (bytes / n + 63) / 64, share = (lines + (size_t)n_blocks - 1) / (size_t)n_blocks;
        unpack_piece(t, panel, step, n, unpacked);
        for (int32_t i = 0; i < n_blocks; i++) {
            const size_t row = (size_t)pf_gemm_tile_row(n_blocks, m, i);
            const size_t n_rows = (size_t)pf_gemm_tile_row(n_blocks, m, i + 1) - row;
            x.a_step = n_rows * t->step_values;
            x.a = input + row * t->steps * t->step_values + step * x.a_step;
            const size_t fetched = 64 * n * share * (size_t)i; /* of the next piece, by the blocks before */
            x.prefetch = (uintptr_t)panel + at + bytes + fetched;
            x.prefetch_lines = fetched < bytes ? share : 0;
            const block b = { n_rows, x, unpacked, panel + at, sums + row * PF_GEMM_PANEL };
            multiply_groups(t, b, n / t->group_steps, parks, &before);
        }
    }
    scale_rows(&before, before.n_rows);
}

/* --- a scale a column --- */

PF_INLINE void zeros_of_columns(const pf_tile_product *x, const uint8_t *panel, __m512i zeros[2])
{
    const tiling *t = x->how;
    zeros[0] = zeros_of(&t->l, panel, 0);
    zeros[1] = zeros_of(&t->l, panel, 16);
}

PF_INLINE void put_columns(const pf_tile_product *x, int32_t panel, int32_t row, int32_t n_rows, const void *sums)
{
    const row_head *heads = (const row_head *)(const void *)(x->input + (size_t)x->m * x->steps * PF_TILE_ROW_BYTES);
    const int32_t left = x->w->n - panel * PF_GEMM_PANEL;
    for (int32_t r = row; r < row + n_rows; r++)
        finish_row(x->how, pf_tile_panel(x, panel), (const int32_t *)sums + (size_t)(r - row) * PF_GEMM_PANEL, heads[r],
                   x->c + (size_t)r * x->ldc + (size_t)panel * PF_GEMM_PANEL,
                   left < PF_GEMM_PANEL ? left : PF_GEMM_PANEL, x->mode);
}

PF_INLINE void put_gated_columns(const pf_tile_product *x, int32_t panel, int32_t row, int32_t n_rows, const void *gate,
                                 const void *up)
{
    _Alignas(64) float results[2][PF_TILE_BLOCK_ROWS * PF_GEMM_PANEL];
    const row_head *heads = (const row_head *)(const void *)(x->input + (size_t)x->m * x->steps * PF_TILE_ROW_BYTES);
    const int32_t left = x->w->n - panel * PF_GEMM_PANEL, n = left < PF_GEMM_PANEL ? left : PF_GEMM_PANEL;
    for (int32_t i = 0; i < 2; i++)
        for (size_t r = 0; r < (size_t)n_rows; r++)
            finish_row(x->how, pf_tile_panel(x, 2 * panel + i), (const int32_t *)(i ? up : gate) + r * PF_GEMM_PANEL,
                       heads[(size_t)row + r], results[i] + r * PF_GEMM_PANEL, n, PF_GEMM_STORE);
    x->gated->activate(x->gated->c + (size_t)row * x->gated->ldc + (size_t)panel * PF_GEMM_PANEL, x->gated->ldc,
                       results[0], results[1], PF_GEMM_PANEL, n_rows, n);
}

static const pf_tile_family bytes = {
    .dot = PF_DOT_INT8_UINT8,
    .in_place = true,
    .row_bytes = PF_TILE_B_STRIDE,
    .row = pf_tile_row_plain,
    .put = put_columns,
    .put_gated = put_gated_columns,
};
static const pf_tile_family nibbles = {
    .dot = PF_DOT_INT8_INT8,
    .row_bytes = PF_TILE_B_STRIDE / 2,
    .row = row_of_nibbles,
    .zeros = zeros_of_columns,
    .put = put_columns,
    .put_gated = put_gated_columns,
};

void pf_gemm_gated_columns_int8_amx(const pf_gemm_weights *gate, const pf_gemm_weights *up, const void *input,
                                    int32_t m, int32_t panel_begin, int32_t panel_end, const pf_gemm_gated *out,
                                    void *scratch)
{
    const tiling t = tiling_of(gate->format, gate->k);
    const pf_tile_product x = { .w = gate,
                                .up = up,
                                .input = input,
                                .m = m,
                                .gated = out,
                                .head_bytes = t.l.head_bytes,
                                .steps = t.steps,
                                .how = &t };
    if (t.l.bits == 8)
        pf_tile_nest_gated(bytes, &x, panel_begin, panel_end, scratch);
    else
        pf_tile_nest_gated(nibbles, &x, panel_begin, panel_end, scratch);
}

static void multiply_columns(const tiling *t, const pf_gemm_weights *w, const uint8_t *input, int32_t m,
                             int32_t panel_begin, int32_t panel_end, float *c, size_t ldc, pf_gemm_mode mode,
                             uint8_t *scratch)
{
    pf_tile_product x = { .w = w,
                          .input = input,
                          .m = m,
                          .ldc = ldc,
                          .mode = mode,
                          .head_bytes = t->l.head_bytes,
                          .steps = t->steps,
                          .how = t };
    x.c = c;
    if (t->l.bits == 8)
        pf_tile_nest(bytes, &x, panel_begin, panel_end, scratch);
    else
        pf_tile_nest(nibbles, &x, panel_begin, panel_end, scratch);
}

static void multiply(const pf_gemm_weights *w, const uint8_t *input, int32_t m, int32_t panel_begin, int32_t panel_end,
                     float *c, size_t ldc, pf_gemm_mode mode, uint8_t *scratch)
{
    const tiling t = tiling_of(w->format, w->k);
    if (!t.groups) {
        multiply_columns(&t, w, input, m, panel_begin, panel_end, c, ldc, mode, scratch);
        return;
    }
    const row_head *heads = (const row_head *)(const void *)(input + (size_t)m * t.steps * t.step_values);
    uint8_t *unpacked = scratch + pf_gemm_scratch_bytes(m) - PF_GEMM_UNPACKED_BYTES;
    /* Blocks differ in height by one row at most. All are multiplied as the highest: the last row of the others is what
     * follows in the input, its sums are nobody's, and one configuration serves them all. */
    const int32_t n_blocks = pf_gemm_tiles(t.block_rows, m), highest = (m + n_blocks - 1) / n_blocks;
    const bool tall = m > PF_TILE_ROWS && t.block_rows > PF_TILE_ROWS;
    const pf_tile_rows x = pf_tile_rows_of(highest, tall, t.step_values);
    pf_tile_configure(x.upper, x.lower ? x.lower : x.upper, x.row_bytes);
    for (int32_t p = panel_begin; p < panel_end; p++) {
        const uint8_t *panel = (const uint8_t *)w->panels + (size_t)p * w->panel_bytes;
        const int32_t left = w->n - p * PF_GEMM_PANEL, n_columns = left < PF_GEMM_PANEL ? left : PF_GEMM_PANEL;
        multiply_panel(&t, input, m, panel, x, (float *)(void *)scratch, unpacked);
        for (size_t row = 0; row < (size_t)m; row++)
            finish_row(&t, panel, scratch + row * PF_GEMM_PANEL * sizeof(float), heads[row],
                       c + row * ldc + (size_t)p * PF_GEMM_PANEL, n_columns, mode);
    }
    pf_tile_release();
}

/* --- activations --- */

/* n values of a row to the bytes of a step. Returns their sum. */
static int32_t round_step(uint8_t *out, size_t step_values, const float *row, size_t n, float factor)
{
    int32_t q[PF_INT_BLOCK], sum = 0;
    for (size_t begin = 0; begin < step_values; begin += PF_INT_BLOCK) {
        const size_t left = begin < n ? n - begin : 0;
        pf_int_round_block(q, row + (left ? begin : 0), left < PF_INT_BLOCK ? left : PF_INT_BLOCK, factor);
        for (size_t i = 0; i < PF_INT_BLOCK; i++) {
            sum += q[i];
            out[begin + i] = (uint8_t)q[i];
        }
    }
    return sum;
}

static void pack(pf_format format, uint8_t *input, const float *a, size_t lda, int32_t m, int32_t k, int32_t tile_begin,
                 int32_t tile_end)
{
    const tiling t = tiling_of(format, k);
    const size_t n_values = (size_t)k, row_bytes = t.steps * t.step_values;
    const int32_t n_blocks = pf_gemm_tiles(t.block_rows, m);
    row_head *heads = (row_head *)(void *)(input + (size_t)m * row_bytes);
    for (int32_t i = tile_begin; i < tile_end; i++) {
        const size_t first = (size_t)pf_gemm_tile_row(n_blocks, m, i);
        const size_t height = (size_t)pf_gemm_tile_row(n_blocks, m, i + 1) - first;
        uint8_t *out = input + first * row_bytes;
        for (size_t r = 0; r < height; r++) {
            const float *row = a + (first + r) * lda;
            const pf_int_rounding rounding = pf_int_rounding_of(pf_int_magnitude(row, n_values));
            row_head head = { .scale = rounding.scale };
            for (size_t step = 0; step < t.steps; step++) {
                const size_t at = step * t.step_values, left = at < n_values ? n_values - at : 0;
                head.sum += round_step(out + (step * height + r) * t.step_values, t.step_values, row + (left ? at : 0),
                                       left < t.step_values ? left : t.step_values, rounding.factor);
            }
            heads[first + r] = head;
        }
    }
}

/* The two functions of a format; VNNI's tiles for few rows make one block here. */
#define FORMAT(NAME, FORMAT_OF_IT, VNNI_ROWS)                                                                   \
    void pf_gemm_pack_##NAME##_int8_amx(void *input, const float *a, size_t lda, int32_t m, int32_t k,          \
                                        int32_t tile_begin, int32_t tile_end)                                   \
    {                                                                                                           \
        if (m >= FEW_ROWS)                                                                                      \
            pack(FORMAT_OF_IT, input, a, lda, m, k, tile_begin, tile_end);                                      \
        else if (tile_begin < tile_end)                                                                         \
            pf_gemm_pack_##NAME##_int8_avx512vnni(input, a, lda, m, k, 0, pf_gemm_tiles(VNNI_ROWS, m));         \
    }                                                                                                           \
    void pf_gemm_##NAME##_int8_amx(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin, \
                                   int32_t panel_end, float *c, size_t ldc, pf_gemm_mode mode, void *scratch)   \
    {                                                                                                           \
        if (m >= FEW_ROWS)                                                                                      \
            multiply(w, input, m, panel_begin, panel_end, c, ldc, mode, scratch);                               \
        else                                                                                                    \
            pf_gemm_##NAME##_int8_avx512vnni(w, input, m, panel_begin, panel_end, c, ldc, mode, scratch);       \
    }

FORMAT(int8, PF_FORMAT_INT8, PF_GEMM_VNNI_INT8_ROWS)
FORMAT(int4_channel, PF_FORMAT_INT4_CHANNEL, PF_GEMM_VNNI_CHANNEL_ROWS)
FORMAT(int4_g32, PF_FORMAT_INT4_G32, PF_GEMM_VNNI_GROUP_ROWS)
FORMAT(int4_g128, PF_FORMAT_INT4_G128, PF_GEMM_VNNI_GROUP_ROWS)
FORMAT(int4_asym_channel, PF_FORMAT_INT4_ASYM_CHANNEL, PF_GEMM_VNNI_CHANNEL_ROWS)
FORMAT(int4_asym_g32, PF_FORMAT_INT4_ASYM_G32, PF_GEMM_VNNI_GROUP_ROWS)
FORMAT(int4_asym_g128, PF_FORMAT_INT4_ASYM_G128, PF_GEMM_VNNI_GROUP_ROWS)
