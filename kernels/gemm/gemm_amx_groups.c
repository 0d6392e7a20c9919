/*
 * Integer weights with a scale a group times int8 activations: sums leave the tiles behind each group, and none is ever
 * loaded into one.
 *
 * Several blocks of rows:
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
 * One block of up to 16 rows waits for its weights, and nothing must come in bursts: two panels side by side, group by
 * group. One is multiplied, a later one unpacked to a ring, two earlier ones are scaled.
 */
#include "base/checked.h"
#include "kernels/gemm/gemm_amx_int.h"
#include "kernels/unroll.h"

enum {
    PIECE_BYTES = PF_GEMM_UNPACKED_BYTES / 2, /* stays in L1 while blocks pass over it */
    PARK_BYTES = PF_GEMM_UNPACKED_BYTES / 4,  /* of each of two */
    STRIP_ROWS = 8,                           /* that are scaled together, sums in registers */
};

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

/* --- several blocks of rows --- */

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

/* --- few rows --- */

enum {
    PARKED_GROUPS = 4,
    SCALED_GROUPS = 2, /* at once */
};

/* Up to 16 rows times one panel, or two side by side. */
typedef struct {
    const tiling *t;
    size_t panel_bytes;
    size_t ahead; /* groups from one that is multiplied to one that is unpacked: a step or more, and some 200 cycles */
    pf_tile_rows x;
    size_t n_rows;
    uint8_t *ring;  /* [ahead + 1, panels] groups, unpacked */
    int32_t *parks; /* [PARKED_GROUPS, panels] [n_rows, 32] */
    float *sums;    /* [panels, n_rows, 32] */
} few;

PF_INLINE uint8_t *ring_of(const few *f, size_t group, const size_t n_panels)
{
    return f->ring + group % (f->ahead + 1) * n_panels * f->t->group_steps * f->t->step_bytes;
}
PF_INLINE int32_t *park_of(const few *f, size_t group, const size_t n_panels)
{
    return f->parks + group % PARKED_GROUPS * n_panels * f->n_rows * PF_GEMM_PANEL;
}

/* A row of each panel in turn, and what comes PF_GEMM_W_NEXT bytes further on fetched beside it, as pf_tile_fill does. */
PF_INLINE void unpack_group(const few *f, const uint8_t *panels, size_t group, const size_t n_panels)
{
    const pf_gemm_layout *l = &f->t->l;
    const size_t at = group * l->group_bytes, out_bytes = f->t->group_steps * f->t->step_bytes;
    const bool past = at + l->group_bytes + PF_GEMM_W_NEXT > f->panel_bytes; /* into the next pair */
    const uint8_t *from = panels + at;
    uint8_t *out = ring_of(f, group, n_panels);
    uintptr_t ahead = (uintptr_t)from + PF_GEMM_W_NEXT + (past ? (n_panels - 1) * f->panel_bytes : 0);
    __m512i zeros[2][2];
    for (size_t j = 0; j < n_panels; j++) {
        pf_tile_prefetch(ahead + j * f->panel_bytes);
        zeros[j][0] = zeros_of(l, from + j * f->panel_bytes, 0);
        zeros[j][1] = zeros_of(l, from + j * f->panel_bytes, 16);
    }
    from += l->head_bytes;
    ahead += l->head_bytes;
    for (size_t i = 0; i < l->group_steps; i++, from += 64, ahead += 64, out += PF_TILE_B_STRIDE)
        for (size_t j = 0; j < n_panels; j++) {
            pf_tile_prefetch(ahead + j * f->panel_bytes);
            row_of_nibbles(zeros[j], from + j * f->panel_bytes, out + j * out_bytes);
        }
}

PF_INLINE void multiply_group(const few *f, size_t group, const size_t n_panels)
{
    const size_t stride = PF_GEMM_PANEL * sizeof *f->parks;
    const tiling *t = f->t;
    const uint8_t *b = ring_of(f, group, n_panels);
    uint8_t *park = (uint8_t *)park_of(f, group, n_panels);
    pf_tile_rows x = f->x;
    x.a += group * t->group_steps * x.a_step;
    pf_tile_zero_all();
    for (size_t step = 0; step < t->group_steps; step++, x.a += x.a_step, b += t->step_bytes) {
        if (n_panels == 2)
            pf_tile_step_pair(PF_DOT_INT8_INT8, &x, b, b + t->group_steps * t->step_bytes);
        else
            pf_tile_multiply_low(PF_DOT_INT8_INT8, &x, b, t->step_bytes, 1);
    }
    pf_tile_store(&x, park, stride);
    if (n_panels == 2) pf_tile_store_right(park + f->n_rows * stride, stride);
}

/* n groups from one on, which are parked. */
PF_INLINE void scale_groups(const few *f, const uint8_t *panels, size_t group, size_t n, const size_t n_panels)
{
    const size_t words = f->n_rows * PF_GEMM_PANEL;
    for (size_t j = 0; j < n_panels; j++) {
        batch b = { .group = panels + j * f->panel_bytes + group * f->t->l.group_bytes,
                    .group_bytes = f->t->l.group_bytes,
                    .parked = park_of(f, group, n_panels) + j * words,
                    .park_words = n_panels * words,
                    .sums = f->sums + j * words,
                    .n_groups = n,
                    .n_rows = f->n_rows };
        scale_rows(&b, f->n_rows);
    }
}

PF_INLINE void multiply_few(const few *f, const uint8_t *panels, const size_t n_panels)
{
    const size_t n = (size_t)f->t->l.n_groups;
    size_t scaled = 0;
    memset(f->sums, 0, n_panels * f->n_rows * PF_GEMM_PANEL * sizeof *f->sums);
    for (size_t g = 0; g < f->ahead && g < n; g++) unpack_group(f, panels, g, n_panels);
    for (size_t g = 0; g < n; g++) {
        multiply_group(f, g, n_panels);
        if (g + f->ahead < n) unpack_group(f, panels, g + f->ahead, n_panels);
        if (g + 1 < scaled + PARKED_GROUPS) continue;
        scale_groups(f, panels, scaled, SCALED_GROUPS, n_panels);
        scaled += SCALED_GROUPS;
    }
    for (; scaled < n; scaled += SCALED_GROUPS)
        scale_groups(f, panels, scaled, n - scaled < SCALED_GROUPS ? n - scaled : SCALED_GROUPS, n_panels);
}

/* --- any number of rows --- */

/* All rows of a panel. A call of its own: inlined it costs the loop before it a 25th. */
static void put_panel(const tiling *t, const pf_tile_product *x, int32_t panel, const float *sums)
{
    put_rows(t, x, panel, 0, x->m, sums);
}

static void nest_few(const tiling *t, const pf_tile_product *x, pf_tile_rows rows, int32_t panel_begin,
                     /* NOLINTNEXTLINE(readability-non-const-parameter): the ring and the parks are written */
                     int32_t panel_end, float *sums, uint8_t *room)
{
    few f = { .t = t,
              .panel_bytes = x->w->panel_bytes,
              .ahead = t->group_steps > 1 ? 1 : 3,
              .x = rows,
              .n_rows = (size_t)x->m,
              .ring = room,
              .parks = (int32_t *)(void *)(room + PF_GEMM_UNPACKED_BYTES / 2),
              .sums = sums };
    f.x.a = x->input;
    for (int32_t p = panel_begin; p < panel_end;) {
        const bool pair = p + 1 < panel_end;
        if (pair)
            multiply_few(&f, pf_tile_panel(x, p), 2);
        else
            multiply_few(&f, pf_tile_panel(x, p), 1);
        put_panel(t, x, p++, sums);
        if (pair) put_panel(t, x, p++, sums + f.n_rows * PF_GEMM_PANEL);
    }
}

void pf_tile_nest_groups(const tiling *t, const pf_tile_product *x, int32_t panel_begin, int32_t panel_end,
                         void *scratch)
{
    float *sums = scratch;
    uint8_t *room = (uint8_t *)scratch + pf_gemm_scratch_bytes(x->m) - PF_GEMM_UNPACKED_BYTES;
    /* Blocks differ in height by one row at most. All are multiplied as the highest: the last row of the others is what
     * follows in the input, its sums are nobody's, and one configuration serves them all. */
    const int32_t n_blocks = pf_gemm_tiles(t->block_rows, x->m), highest = (x->m + n_blocks - 1) / n_blocks;
    const bool low = x->m <= PF_TILE_ROWS;
    const pf_tile_rows rows = pf_tile_rows_of(highest, !low && t->block_rows > PF_TILE_ROWS, t->step_values);
    pf_tile_configure(rows.upper, rows.lower ? rows.lower : rows.upper, rows.row_bytes);
    if (low) nest_few(t, x, rows, panel_begin, panel_end, sums, room);
    for (int32_t p = panel_begin; !low && p < panel_end; p++) {
        multiply_panel(t, x->input, x->m, pf_tile_panel(x, p), rows, sums, room);
        put_panel(t, x, p, sums);
    }
    pf_tile_release();
}
