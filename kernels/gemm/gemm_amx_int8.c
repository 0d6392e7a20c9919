/*
 * Integer weights times int8 activations, 64 values of K a step of a tile. The sums of tiles are exact, so they may be
 * parted where that suits: no sum is ever loaded into a tile, and tile loads are no more than multiplies.
 *
 *   for each panel
 *     for each piece of K (1024 values)                 int4: unpacked to bytes, 32 KiB
 *       for each block of rows
 *         for each span of the piece: all of it, or a group of 128
 *           A A B B, four multiplies a step; then the sums leave the tiles for the scratch,
 *           added as integers, or scaled and added as floats where a group ends
 *
 * int8 is multiplied as it lies, unsigned q + 128 (TDPBSUD); 128 times the sum of a row of A is taken off at the end.
 * int4 is unpacked to q - 8 or q - z, signed (TDPBSSD), once for all rows.
 *
 * Below FEW_ROWS the VNNI kernels multiply, and pack: they have the same class of arithmetic, need no unpacked copy, and
 * are bound by memory there. Groups of 32 are half a step of a tile and have no AMX kernel.
 *
 *   input   [block] [steps] [rows of the block] 64 bytes | [m] { scale f32, sum of the row int32 }
 */
#include "kernels/gemm/gemm_amx.h"
#include "kernels/gemm/gemm_int_blocks.h"

enum {
    STEP_VALUES = 64,
    STEP_WEIGHTS = 16, /* words of four values of a column */
    PIECE_STEPS = PF_GEMM_UNPACKED_BYTES / PF_TILE_STEP_BYTES,
    GROUP_STEPS = 2, /* of the groups of 128 */
    FEW_ROWS = 8,
};

/* Behind the tiles of the packed input. */
typedef struct {
    float scale;
    int32_t sum;
} row_head;

static bool has_groups(const pf_gemm_layout *l)
{
    return l->scale_size == 2;
}

/* Steps of a row: whole groups, where there are groups. */
static size_t steps_of(const pf_gemm_layout *l, int32_t k)
{
    if (has_groups(l)) return (size_t)l->n_groups * GROUP_STEPS;
    return ((size_t)k + STEP_VALUES - 1) / STEP_VALUES;
}

/* --- weights --- */

/* z of 16 columns, or 8, in each of a column's four bytes. */
static __m512i zeros_of(const pf_gemm_layout *l, const uint8_t *group, size_t column)
{
    if (!l->has_zeros) return _mm512_set1_epi8(8);
    const __m128i z = _mm_loadu_si128((const __m128i *)(const void *)(group + l->zeros_at + column));
    return _mm512_mullo_epi32(_mm512_cvtepu8_epi32(z), _mm512_set1_epi32(0x01010101));
}

/* n words of each column of a group, from word `first` on, to rows of B. */
static void unpack_words(const pf_gemm_layout *l, const uint8_t *group, size_t first, size_t n, uint8_t *out)
{
    const __m512i low = _mm512_set1_epi8(15), z0 = zeros_of(l, group, 0), z1 = zeros_of(l, group, 16);
    const uint8_t *from = group + l->head_bytes + first * l->step_bytes;
    for (size_t i = 0; i < n; i++, from += l->step_bytes, out += PF_TILE_B_STRIDE) {
        const __m512i both = _mm512_loadu_si512(from);
        const __m512i q0 = _mm512_and_si512(both, low), q1 = _mm512_and_si512(_mm512_srli_epi16(both, 4), low);
        _mm512_store_si512(out, _mm512_sub_epi8(q0, z0));
        _mm512_store_si512(out + 64, _mm512_sub_epi8(q1, z1));
    }
}

/* `n` steps from `step` on, at most a piece; what lies past the panel's end becomes zero. */
static void unpack_piece(const pf_gemm_layout *l, const uint8_t *panel, size_t step, size_t n, uint8_t *out)
{
    if (has_groups(l)) {
        for (size_t s = 0; s < n; s += GROUP_STEPS)
            unpack_words(l, panel + (step + s) / GROUP_STEPS * l->group_bytes, 0, l->group_steps,
                         out + s * PF_TILE_STEP_BYTES);
        return;
    }
    const size_t first = step * STEP_WEIGHTS, wanted = n * STEP_WEIGHTS;
    const size_t there = l->group_steps - first < wanted ? l->group_steps - first : wanted;
    unpack_words(l, panel, first, there, out);
    memset(out + there * PF_TILE_B_STRIDE, 0, (wanted - there) * PF_TILE_B_STRIDE);
}

/* --- sums --- */

/* From the tiles to the integer sums of a column's whole K. */
static void add_integers(int32_t *sums, const int32_t *tile, size_t n)
{
    for (size_t i = 0; i < n; i += 16)
        _mm512_store_si512(sums + i, _mm512_add_epi32(_mm512_load_si512(sums + i), _mm512_load_si512(tile + i)));
}

/* From the tiles to the float sums, scaled: a group. */
static void add_scaled(float *sums, const int32_t *tile, size_t n_rows, const uint8_t *group)
{
    const __m256i *halves = (const __m256i *)(const void *)group;
    const __m512 s0 = _mm512_cvtph_ps(_mm256_loadu_si256(halves)), s1 = _mm512_cvtph_ps(_mm256_loadu_si256(halves + 1));
    for (size_t r = 0; r < n_rows; r++, sums += PF_GEMM_PANEL, tile += PF_GEMM_PANEL) {
        const __m512 i0 = _mm512_cvtepi32_ps(_mm512_load_si512(tile));
        const __m512 i1 = _mm512_cvtepi32_ps(_mm512_load_si512(tile + 16));
        _mm512_store_ps(sums, _mm512_fmadd_ps(i0, s0, _mm512_load_ps(sums)));
        _mm512_store_ps(sums + 16, _mm512_fmadd_ps(i1, s1, _mm512_load_ps(sums + 16)));
    }
}

/* What 16 columns of one row come to, but for the row's scale. */
static __m512 result_of(const pf_gemm_layout *l, const uint8_t *panel, const void *sums, int32_t row_sum, size_t column)
{
    if (has_groups(l)) return _mm512_load_ps((const float *)sums + column);
    __m512i i = _mm512_load_si512((const int32_t *)sums + column);
    if (l->bits == 8) i = _mm512_sub_epi32(i, _mm512_slli_epi32(_mm512_set1_epi32(row_sum), 7));
    const __m512 scale = _mm512_loadu_ps((const float *)(const void *)panel + column);
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(i), scale, _mm512_setzero_ps());
}

/* One row of one panel to c. */
static void finish_row(const pf_gemm_layout *l, const uint8_t *panel, const int32_t *sums, row_head head, float *c,
                       int32_t n_columns, pf_gemm_mode mode)
{
    for (int32_t column = 0; column < n_columns; column += 16) {
        const int32_t left = n_columns - column;
        const __mmask16 exist = (__mmask16)(left >= 16 ? 0xFFFFu : (1u << left) - 1);
        __m512 r = result_of(l, panel, sums, head.sum, (size_t)column);
        r = _mm512_mul_ps(r, _mm512_set1_ps(head.scale));
        if (mode == PF_GEMM_ADD) r = _mm512_add_ps(_mm512_maskz_loadu_ps(exist, c + column), r);
        _mm512_mask_storeu_ps(c + column, exist, r);
    }
}

/* --- the nest --- */

/* `rows` of a block times one piece of one panel; sums [rows, 32] go on. */
static void multiply_piece(const pf_gemm_layout *l, size_t rows, pf_tile_rows x, const pf_tile_steps *piece,
                           size_t n_steps, const uint8_t *first_group, int32_t *sums, int32_t *tile)
{
    const size_t span = has_groups(l) ? GROUP_STEPS : n_steps;
    pf_tile_steps b = *piece;
    for (size_t step = 0; step < n_steps; step += span, b.whole += span * PF_TILE_STEP_BYTES) {
        if (l->bits == 8 && x.lower)
            pf_tile_multiply_tall(PF_DOT_INT8_UINT8, &x, &b, span);
        else if (l->bits == 8)
            pf_tile_multiply_low(PF_DOT_INT8_UINT8, &x, &b, span);
        else if (x.lower)
            pf_tile_multiply_tall(PF_DOT_INT8_INT8, &x, &b, span);
        else
            pf_tile_multiply_low(PF_DOT_INT8_INT8, &x, &b, span);
        pf_tile_store(&x, (uint8_t *)tile, PF_GEMM_PANEL * sizeof *tile);
        if (has_groups(l))
            add_scaled((float *)sums, tile, rows, first_group + step / GROUP_STEPS * l->group_bytes);
        else
            add_integers(sums, tile, rows * PF_GEMM_PANEL);
        x.a += span * x.a_step;
        x.prefetch += 64 * span * x.prefetch_lines;
    }
}

static void multiply(const pf_gemm_weights *w, const uint8_t *input, int32_t m, int32_t panel_begin, int32_t panel_end,
                     float *c, size_t ldc, pf_gemm_mode mode, uint8_t *scratch)
{
    const pf_gemm_layout l = pf_gemm_layout_of(w->format, w->k);
    const int32_t n_blocks = pf_gemm_tiles(PF_TILE_BLOCK_ROWS, m);
    const size_t steps = steps_of(&l, w->k), row_bytes = steps * PF_TILE_ROW_BYTES;
    const size_t weights_bytes = l.group_steps * l.step_bytes; /* of a column's panel, without its head */
    const row_head *heads = (const row_head *)(const void *)(input + (size_t)m * row_bytes);
    const size_t sums_bytes = pf_round_up((size_t)m, 16) * PF_GEMM_PANEL * sizeof(int32_t);
    int32_t *sums = (int32_t *)(void *)scratch, *tile = (int32_t *)(void *)(scratch + sums_bytes);
    uint8_t *unpacked = scratch + 2 * sums_bytes;
    const size_t step_lines = STEP_WEIGHTS * l.step_bytes / 64;
    /* Blocks differ in height by one row at most. All are multiplied as the highest: the last row of the others is what
     * follows in the input, its sums stay in `tile`, and one configuration serves them all. */
    pf_tile_rows x = pf_tile_rows_of((m + n_blocks - 1) / n_blocks, m);
    x.prefetch_lines = (step_lines + (size_t)n_blocks - 1) / (size_t)n_blocks;
    pf_tile_configure(x.upper, x.lower ? x.lower : x.upper);

    for (int32_t p = panel_begin; p < panel_end; p++) {
        const uint8_t *panel = (const uint8_t *)w->panels + (size_t)p * w->panel_bytes;
        memset(sums, 0, (size_t)m * PF_GEMM_PANEL * sizeof *sums);
        for (size_t step = 0; step < steps; step += PIECE_STEPS) {
            const size_t n = steps - step < PIECE_STEPS ? steps - step : PIECE_STEPS;
            const size_t at =
                has_groups(&l) ? step / GROUP_STEPS * l.group_bytes : l.head_bytes + step * STEP_WEIGHTS * l.step_bytes;
            pf_tile_steps piece = { .whole = unpacked, .n_whole = n };
            if (l.bits == 8) {
                const size_t left = weights_bytes - step * PF_TILE_STEP_BYTES, wanted = n * PF_TILE_STEP_BYTES;
                piece = pf_tile_steps_of(panel + at, left < wanted ? left : wanted, unpacked);
            } else {
                unpack_piece(&l, panel, step, n, unpacked);
            }
            for (int32_t t = 0; t < n_blocks; t++) {
                const size_t row = (size_t)pf_gemm_tile_row(n_blocks, m, t);
                const size_t rows = (size_t)pf_gemm_tile_row(n_blocks, m, t + 1) - row;
                x.a_step = rows * PF_TILE_ROW_BYTES;
                x.a = input + row * row_bytes + step * x.a_step;
                x.prefetch = (uintptr_t)panel + at + 64 * n * (step_lines + x.prefetch_lines * (size_t)t);
                multiply_piece(&l, rows, x, &piece, n, panel + at, sums + row * PF_GEMM_PANEL, tile);
            }
        }
        const int32_t left = w->n - p * PF_GEMM_PANEL, n_columns = left < PF_GEMM_PANEL ? left : PF_GEMM_PANEL;
        for (size_t row = 0; row < (size_t)m; row++)
            finish_row(&l, panel, sums + row * PF_GEMM_PANEL, heads[row], c + row * ldc + (size_t)p * PF_GEMM_PANEL,
                       n_columns, mode);
    }
    pf_tile_release();
}

/* --- activations --- */

/* n values of a row to the 64 bytes of a step. Returns their sum. */
static int32_t round_step(uint8_t out[STEP_VALUES], const float *row, size_t n, float factor)
{
    int32_t q[PF_INT_BLOCK], sum = 0;
    for (size_t begin = 0; begin < STEP_VALUES; begin += PF_INT_BLOCK) {
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
    const pf_gemm_layout l = pf_gemm_layout_of(format, k);
    const size_t n_values = (size_t)k, steps = steps_of(&l, k);
    const int32_t n_blocks = pf_gemm_tiles(PF_TILE_BLOCK_ROWS, m);
    row_head *heads = (row_head *)(void *)(input + (size_t)m * steps * PF_TILE_ROW_BYTES);
    for (int32_t t = tile_begin; t < tile_end; t++) {
        const size_t first = (size_t)pf_gemm_tile_row(n_blocks, m, t);
        const size_t height = (size_t)pf_gemm_tile_row(n_blocks, m, t + 1) - first;
        uint8_t *out = input + first * steps * PF_TILE_ROW_BYTES;
        for (size_t r = 0; r < height; r++) {
            const float *row = a + (first + r) * lda;
            const pf_int_rounding rounding = pf_int_rounding_of(pf_int_magnitude(row, n_values));
            row_head head = { .scale = rounding.scale };
            for (size_t step = 0; step < steps; step++) {
                const size_t at = step * STEP_VALUES, left = at < n_values ? n_values - at : 0;
                head.sum += round_step(out + (step * height + r) * PF_TILE_ROW_BYTES, row + (left ? at : 0),
                                       left < STEP_VALUES ? left : STEP_VALUES, rounding.factor);
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
FORMAT(int4_g128, PF_FORMAT_INT4_G128, PF_GEMM_VNNI_GROUP_ROWS)
FORMAT(int4_asym_channel, PF_FORMAT_INT4_ASYM_CHANNEL, PF_GEMM_VNNI_CHANNEL_ROWS)
FORMAT(int4_asym_g128, PF_FORMAT_INT4_ASYM_G128, PF_GEMM_VNNI_GROUP_ROWS)
