/*
 * Integer weights with a scale a group times int8 activations: sums leave the tiles behind each group, and none is ever
 * loaded into one.
 *
 * Several blocks of 16 rows:
 *
 *   for each group of rows, 512 of them
 *     for each group of panels whose sums L2 holds
 *       for each piece of K (512 values)                    A's slice stays in L2
 *         for each panel of the group                       unpacked to bytes, 16 KiB in L1
 *           for each block of rows
 *             for each group of the piece
 *               A B B, two multiplies a step, to one pair of tiles; some rows of the batch before are scaled; the sums
 *               of the group before leave the other pair
 *
 * A batch is four groups of a block, which wait in a park while the tiles fill the other one, and are then scaled and added
 * as floats, groups in order: float sums are loaded and stored once a batch, not once a group. Nothing waits for what it
 * follows: neither a store for the multiply before it nor a scaling for the store. Even so the vectors have one port of
 * two beside tiles, and that is the time that a group of 32 takes: 64 vector instructions for 16 rows.
 *
 * A group of 32 is half a step: A has rows of 32 bytes and B 8 rows. Tiles as deep as others, with zeros for the next
 * group, would have more rows loaded, and twice as much unpacked.
 *
 * One block of up to 16 rows waits for its weights, and nothing must come in bursts: two panels side by side, step by
 * step. One is multiplied, a later one unpacked to a ring; behind a group its sums leave the tiles, and behind every
 * second one two are scaled. A group of 128 unpacked at once cost 8 rows a seventh.
 */
#include "base/checked.h"
#include "kernels/gemm/gemm_amx_int.h"
#include "kernels/unroll.h"

enum {
    PIECE_BYTES = PF_GEMM_UNPACKED_BYTES / 2, /* stays in L1 while blocks pass over it */
    PIECE_VALUES = PIECE_BYTES / PF_GEMM_PANEL,
    BATCH_GROUPS = 4,
    BLOCK_WORDS = PF_TILE_ROWS * PF_GEMM_PANEL, /* sums of a group */
    PARK_WORDS = 2 * BLOCK_WORDS,               /* from a group of a stream's park to its next one */
    STRIP_ROWS = 8,                             /* that are scaled together, sums in registers */
};

/* --- sums --- */

/* Groups of a block whose sums have left the tiles. */
typedef struct {
    const uint8_t *scales; /* of 32 columns: f16 as a panel has them, f32 in a stream */
    const int32_t *parked; /* [n_groups, ..., 32] */
    size_t scales_bytes;   /* from a group to the next one; in a stream the same for all */
    size_t park_words;
    float *sums; /* [n_rows, 32]: what they are added to, groups in order */
    bool first;  /* sums begin with them */
    size_t n_groups, n_rows;
} batch;

PF_INLINE __m512 scale_of(const bool halves, const uint8_t *scales, size_t i)
{
    if (!halves) return _mm512_load_ps((const float *)(const void *)scales + i * 16);
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)scales + i));
}

/* Rows [row, row + height) of a batch. What is known of a stream makes a tenth of its time. */
PF_INLINE void scale_strip(const bool of_stream, const size_t height, const batch *b, size_t row)
{
    __m512 sum[STRIP_ROWS][2];
    float *sums = b->sums + row * PF_GEMM_PANEL;
    const int32_t *parked = b->parked + row * PF_GEMM_PANEL;
    const uint8_t *scales = b->scales;
    const size_t scales_bytes = of_stream ? PF_GEMM_PANEL * sizeof(float) : b->scales_bytes;
    const size_t park_words = of_stream ? (size_t)PARK_WORDS : b->park_words;
    PF_UNROLL_16
    for (size_t r = 0; r < height; r++) {
        sum[r][0] = b->first ? _mm512_setzero_ps() : _mm512_load_ps(sums + r * PF_GEMM_PANEL);
        sum[r][1] = b->first ? _mm512_setzero_ps() : _mm512_load_ps(sums + r * PF_GEMM_PANEL + 16);
    }
    for (size_t g = 0; g < b->n_groups; g++, scales += scales_bytes, parked += park_words) {
        const __m512 s0 = scale_of(!of_stream, scales, 0), s1 = scale_of(!of_stream, scales, 1);
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

/* Outside of a stream. */
static void scale_all(const batch *b)
{
    size_t row = 0;
    for (; row + STRIP_ROWS <= b->n_rows; row += STRIP_ROWS) scale_strip(false, STRIP_ROWS, b, row);
    for (; row + STRIP_ROWS / 2 <= b->n_rows; row += STRIP_ROWS / 2) scale_strip(false, STRIP_ROWS / 2, b, row);
    for (; row < b->n_rows; row++) scale_strip(false, 1, b, row);
}

/* --- several blocks of rows --- */

/* Groups on their way: the sums of one wait in a pair of tiles while the next one is multiplied to the other pair. */
typedef struct {
    int32_t *parks;  /* two, of a batch each, group by group in turn: a load from one never has the low twelve bits of a
                       store to the other, for which it would wait */
    int32_t *place;  /* where the sums in tiles belong; NULL: there are none */
    bool right;      /* they are in tmm2 and tmm3, not in tmm0 and tmm1 */
    batch filled;    /* the batch that they end */
    batch scaled;    /* the one before it, */
    size_t n_scaled; /* rows of which are scaled */
} stream;

/* A strip of what is scaled, or all that is left. */
PF_INLINE void scale_some(stream *s, const bool all)
{
    const batch *b = &s->scaled;
    while (s->n_scaled < b->n_rows) {
        const bool few = b->n_rows - s->n_scaled < STRIP_ROWS;
        if (few)
            scale_strip(true, 1, b, s->n_scaled);
        else
            scale_strip(true, STRIP_ROWS, b, s->n_scaled);
        s->n_scaled += few ? 1 : STRIP_ROWS;
        if (!all) break;
    }
}

/* A group to a pair of tiles. */
PF_INLINE void multiply_one(const bool right, const tiling *t, const pf_tile_rows *x, const uint8_t *b)
{
    const bool half = t->step_values < PF_TILE_ROW_BYTES; /* two rows of A a line, which L1 had better keep */
    const uint8_t *a = x->a;
    uintptr_t prefetch = x->prefetch;
    if (right) {
        PF_TILE_ZERO(2);
        PF_TILE_ZERO(3);
    } else {
        PF_TILE_ZERO(0);
        PF_TILE_ZERO(1);
    }
    for (size_t n = t->group_steps; n; n--, a += x->a_step, b += t->step_bytes) {
        if (half)
            PF_TILE_LOAD(4, a, x->row_bytes);
        else
            PF_TILE_LOAD_ONCE(4, a, x->row_bytes);
        PF_TILE_LOAD(6, b, PF_TILE_B_STRIDE);
        PF_TILE_LOAD(7, b + PF_TILE_ROW_BYTES, PF_TILE_B_STRIDE);
        if (right) {
            PF_TILE_DOT(PF_DOT_INT8_INT8, 2, 4, 6);
            PF_TILE_DOT(PF_DOT_INT8_INT8, 3, 4, 7);
        } else {
            PF_TILE_DOT(PF_DOT_INT8_INT8, 0, 4, 6);
            PF_TILE_DOT(PF_DOT_INT8_INT8, 1, 4, 7);
        }
        pf_prefetch_lines_far(prefetch, x->prefetch_lines);
        prefetch += 64 * x->prefetch_lines;
    }
}

/* The sums that wait in tiles leave them. */
PF_INLINE void settle(const stream *s)
{
    uint8_t *to = (uint8_t *)s->place;
    const size_t stride = PF_GEMM_PANEL * sizeof *s->place;
    if (to == NULL) return;
    if (s->right) {
        PF_TILE_STORE(2, to, stride);
        PF_TILE_STORE(3, to + PF_TILE_ROW_BYTES, stride);
    } else {
        PF_TILE_STORE(0, to, stride);
        PF_TILE_STORE(1, to + PF_TILE_ROW_BYTES, stride);
    }
}

PF_INLINE void batch_is_complete(stream *s)
{
    s->scaled = s->filled;
    s->n_scaled = 0;
}

/* All that is under way to its sums. */
static void drain(stream *s)
{
    scale_some(s, true);
    if (s->place == NULL) return;
    settle(s);
    s->place = NULL;
    batch_is_complete(s);
    scale_some(s, true);
}

/* A block of rows before a piece of a panel. */
typedef struct {
    size_t n_rows;
    pf_tile_rows x;
    const uint8_t *piece; /* unpacked */
    const float *scales;  /* [groups, 32] */
    float *sums;          /* [n_rows, 32] */
    bool first;
} block;

/* The n groups of a piece, batch by batch, into the park where the batch before is not. */
PF_INLINE void multiply_groups(const tiling *t, block b, size_t n, stream *s)
{
    while (n) {
        const size_t n_groups = n < BATCH_GROUPS ? n : BATCH_GROUPS;
        int32_t *park = s->filled.parked == s->parks ? s->parks + BLOCK_WORDS : s->parks;
        for (size_t g = 0; g < n_groups; g++) {
            if (s->right)
                multiply_one(false, t, &b.x, b.piece);
            else
                multiply_one(true, t, &b.x, b.piece);
            if (g % 2 == 0) scale_some(s, g == 0); /* two strips a block */
            settle(s);
            if (g == 0 && s->place) batch_is_complete(s);
            s->place = park + g * PARK_WORDS;
            s->right = !s->right;
            b.piece += t->group_steps * t->step_bytes;
            b.x.a += t->group_steps * b.x.a_step;
            b.x.prefetch += 64 * t->group_steps * b.x.prefetch_lines;
            for (size_t i = 0; i < b.x.next_lines; i++, b.x.next += 64) pf_tile_prefetch((uintptr_t)b.x.next);
        }
        s->filled = (batch){ .scales = (const uint8_t *)b.scales,
                             .parked = park,
                             .sums = b.sums,
                             .first = b.first,
                             .n_groups = n_groups,
                             .n_rows = b.n_rows };
        b.scales += n_groups * PF_GEMM_PANEL;
        b.first = false;
        n -= n_groups;
    }
}

/* n steps from `step` on, whole groups, at most a piece: bytes, and the groups' scales. */
static void unpack_piece(const tiling *t, const uint8_t *panel, size_t step, size_t n, uint8_t *out, float *scales)
{
    for (size_t s = 0; s < n; s += t->group_steps, scales += PF_GEMM_PANEL) {
        const uint8_t *group = panel + step_at(t, step + s), *from = group + t->l.head_bytes;
        const __m512i zeros[2] = { zeros_of(&t->l, group, 0), zeros_of(&t->l, group, 16) };
        _mm512_store_ps(scales, scale_of(true, group, 0));
        _mm512_store_ps(scales + 16, scale_of(true, group, 1));
        for (size_t i = 0; i < t->l.group_steps; i++, from += t->l.step_bytes, out += PF_TILE_B_STRIDE)
            row_of_nibbles(zeros, from, out);
    }
}

/* More than 16 rows: how they are cut, and where what is wanted meanwhile lies. */
typedef struct {
    const tiling *t;
    const pf_tile_product *x;
    pf_tile_rows rows;            /* of the highest block; the others are multiplied as if they were as high */
    int32_t n_blocks, begin, end; /* of rows, and those that pass together now */
    size_t steps;                 /* of a piece */
    uint8_t *piece;
    float *scales[2]; /* of the piece, and of the one before it, which the first of two or more blocks still wants */
    stream s;
} many;

enum {
    GROUP_BLOCKS = 2 * PF_TILE_GROUP_BLOCKS,          /* that pass together: 256 KiB of A for a piece */
    SCALES_WORDS = PIECE_VALUES / 32 * PF_GEMM_PANEL, /* of a piece */
};

PF_INLINE int32_t row_of(const many *m, int32_t t)
{
    return pf_gemm_tile_row(m->n_blocks, m->x->m, t);
}

/* n steps of a panel for the blocks that pass now. `next`: of what is unpacked after them. */
/* NOLINTNEXTLINE(readability-non-const-parameter): the sums are written */
static void multiply_piece(many *m, int32_t p, size_t step, size_t n, uintptr_t next, float *sums)
{
    const tiling *t = m->t;
    const pf_tile_product *x = m->x;
    const uint8_t *panel = pf_tile_panel(x, p);
    const bool claims = step + n == t->steps && x->up == NULL;
    const size_t n_blocks = (size_t)(m->end - m->begin), n_groups = n / t->group_steps;
    const size_t bytes = step_at(t, step + n) - step_at(t, step), lines = (bytes / n + 63) / 64;
    const size_t share = (lines + n_blocks - 1) / n_blocks; /* of the lines of a step, that each block fetches */
    pf_tile_rows rows = m->rows;
    float *scales = m->scales[0];
    m->scales[0] = m->scales[1];
    m->scales[1] = scales;
    unpack_piece(t, panel, step, n, m->piece, scales);
    rows.next_lines = step ? (BLOCK_WORDS * sizeof *sums / 64 + n_groups - 1) / n_groups : 0;
    for (int32_t i = m->begin; i < m->end; i++) {
        const size_t row = (size_t)row_of(m, i), n_rows = (size_t)row_of(m, i + 1) - row;
        const size_t fetched = 64 * n * share * (size_t)(i - m->begin);
        rows.a_step = n_rows * t->step_values;
        rows.a = x->input + row * t->steps * t->step_values + step * rows.a_step;
        rows.prefetch = next + fetched;
        rows.prefetch_lines = fetched < bytes ? share : 0;
        rows.next = (const uint8_t *)(sums + n_rows * PF_GEMM_PANEL);
        if (claims) pf_gemm_claim(x->c + row * x->ldc + (size_t)p * PF_GEMM_PANEL, x->ldc, n_rows);
        const block b = { n_rows, rows, m->piece, scales, sums, step == 0 };
        multiply_groups(t, b, n_groups, &m->s);
        sums += n_rows * PF_GEMM_PANEL;
    }
}

/* The sums of a panel, `words` behind those of the one before, are complete: to where they are wanted. A call of its own:
 * inlined it costs the loop before it a 25th. */
static void finish_panel(const many *m, int32_t panel, const float *sums, size_t words)
{
    const int32_t row = row_of(m, m->begin), n_rows = row_of(m, m->end) - row;
    if (m->x->up == NULL)
        put_rows(m->t, m->x, panel, row, n_rows, sums);
    else if (panel & 1)
        put_gated_rows(m->t, m->x, panel >> 1, row, n_rows, sums - words, sums);
}

/* Panels [begin, end), so few that there is room for the sums of all. */
static void multiply_panels(many *m, int32_t begin, int32_t end, float *sums)
{
    const tiling *t = m->t;
    const size_t words = (size_t)(row_of(m, m->end) - row_of(m, m->begin)) * PF_GEMM_PANEL;
    for (size_t step = 0; step < t->steps; step += m->steps) {
        const size_t n = t->steps - step < m->steps ? t->steps - step : m->steps;
        const bool last = step + n == t->steps;
        for (int32_t p = begin; p < end; p++) {
            const int32_t next = p + 1 < end || last ? p + 1 : begin;
            const size_t next_step = p + 1 < end ? step : last ? 0 : step + n;
            float *panel_sums = sums + (size_t)(p - begin) * words;
            multiply_piece(m, p, step, n, (uintptr_t)pf_tile_panel(m->x, next) + step_at(t, next_step), panel_sums);
            if (!last) continue;
            drain(&m->s);
            finish_panel(m, p, panel_sums, words);
        }
    }
}

static void nest_many(const tiling *t, const pf_tile_product *x, pf_tile_rows rows, int32_t panel_begin,
                      /* NOLINTNEXTLINE(readability-non-const-parameter): the piece and the parks are written */
                      int32_t panel_end, float *sums, uint8_t *room)
{
    const size_t sums_words = (size_t)((float *)(void *)room - sums) - 2 * (size_t)SCALES_WORDS;
    float *scales = sums + sums_words;
    many m = { .t = t,
               .x = x,
               .rows = rows,
               .n_blocks = pf_gemm_tiles(PF_TILE_ROWS, x->m),
               .steps = PIECE_VALUES / t->step_values,
               .piece = room,
               .scales = { scales, scales + SCALES_WORDS },
               .s = { .parks = (int32_t *)(void *)(room + PIECE_BYTES) } };
    const int32_t n_groups = pf_gemm_tiles(GROUP_BLOCKS, m.n_blocks), group = pf_gemm_tiles(n_groups, m.n_blocks);
    int32_t panels = (int32_t)(sums_words / ((size_t)group * BLOCK_WORDS));
    if (x->up != NULL) panels &= ~1;
    for (m.begin = 0; m.begin < m.n_blocks; m.begin = m.end) {
        m.end = m.n_blocks - m.begin < group ? m.n_blocks : m.begin + group;
        for (int32_t p = panel_begin; p < panel_end; p += panels)
            multiply_panels(&m, p, panel_end - p < panels ? panel_end : p + panels, sums);
    }
}

/* --- few rows --- */

enum { PARKED_GROUPS = 2 };

/* Up to 16 rows times one panel, or two side by side. */
typedef struct {
    const tiling *t;
    size_t panel_bytes;
    size_t ahead; /* steps from one that is multiplied to one that is unpacked: some 200 cycles */
    pf_tile_rows x;
    size_t n_rows;
    uint8_t *ring;  /* [ahead + 1, panels] steps, unpacked */
    int32_t *parks; /* [PARKED_GROUPS, panels] [n_rows, 32] */
    float *sums;    /* [panels, n_rows, 32] */
} few;

PF_INLINE uint8_t *ring_of(const few *f, size_t step, const size_t n_panels)
{
    return f->ring + step % (f->ahead + 1) * n_panels * f->t->step_bytes;
}
PF_INLINE int32_t *park_of(const few *f, size_t group, const size_t n_panels)
{
    return f->parks + group % PARKED_GROUPS * n_panels * f->n_rows * PF_GEMM_PANEL;
}

/* A row of each panel in turn, and what comes PF_TILE_W_AHEAD bytes further on fetched beside it, as pf_tile_fill does. */
PF_INLINE void unpack_step(const few *f, const uint8_t *panels, size_t step, const size_t n_panels)
{
    const tiling *t = f->t;
    const size_t n_rows = t->step_bytes / PF_TILE_B_STRIDE, in_group = step % t->group_steps;
    const uint8_t *head = panels + step_at(t, step), *from = head + t->l.head_bytes + in_group * n_rows * 64;
    const bool past = (size_t)(from - panels) + n_rows * 64 + PF_TILE_W_AHEAD > f->panel_bytes; /* into the next pair */
    uint8_t *out = ring_of(f, step, n_panels);
    uintptr_t ahead = (uintptr_t)from + PF_TILE_W_AHEAD + (past ? (n_panels - 1) * f->panel_bytes : 0);
    __m512i zeros[2][2];
    for (size_t j = 0; j < n_panels; j++) {
        if (in_group == 0) pf_tile_prefetch(ahead - t->l.head_bytes + j * f->panel_bytes);
        zeros[j][0] = zeros_of(&t->l, head + j * f->panel_bytes, 0);
        zeros[j][1] = zeros_of(&t->l, head + j * f->panel_bytes, 16);
    }
    for (size_t i = 0; i < n_rows; i++, from += 64, ahead += 64, out += PF_TILE_B_STRIDE)
        for (size_t j = 0; j < n_panels; j++) {
            pf_tile_prefetch(ahead + j * f->panel_bytes);
            row_of_nibbles(zeros[j], from + j * f->panel_bytes, out + j * t->step_bytes);
        }
}

PF_INLINE void multiply_step(const few *f, size_t step, const size_t n_panels)
{
    const uint8_t *b = ring_of(f, step, n_panels);
    pf_tile_rows x = f->x;
    x.a += step * x.a_step;
    if (n_panels == 2)
        pf_tile_step_pair(PF_DOT_INT8_INT8, &x, b, b + f->t->step_bytes);
    else
        pf_tile_multiply_low(PF_DOT_INT8_INT8, &x, b, f->t->step_bytes, 1);
}

PF_INLINE void park_group(const few *f, size_t group, const size_t n_panels)
{
    const size_t stride = PF_GEMM_PANEL * sizeof *f->parks;
    uint8_t *park = (uint8_t *)park_of(f, group, n_panels);
    pf_tile_store(&f->x, park, stride);
    if (n_panels == 2) pf_tile_store_right(park + f->n_rows * stride, stride);
}

/* n groups from one on, which are parked. */
PF_INLINE void scale_groups(const few *f, const uint8_t *panels, size_t group, size_t n, const size_t n_panels)
{
    const size_t words = f->n_rows * PF_GEMM_PANEL;
    for (size_t j = 0; j < n_panels; j++) {
        const batch b = { .scales = panels + j * f->panel_bytes + group * f->t->l.group_bytes,
                          .scales_bytes = f->t->l.group_bytes,
                          .parked = park_of(f, group, n_panels) + j * words,
                          .park_words = n_panels * words,
                          .sums = f->sums + j * words,
                          .n_groups = n,
                          .n_rows = f->n_rows };
        scale_all(&b);
    }
}

PF_INLINE void multiply_few(const few *f, const uint8_t *panels, const size_t n_panels)
{
    const size_t group_steps = f->t->group_steps, n = (size_t)f->t->l.n_groups, steps = n * group_steps;
    size_t parked = 0;
    memset(f->sums, 0, n_panels * f->n_rows * PF_GEMM_PANEL * sizeof *f->sums);
    for (size_t step = 0; step < f->ahead && step < steps; step++) unpack_step(f, panels, step, n_panels);
    for (size_t g = 0, step = 0; g < n; g++, parked++) {
        pf_tile_zero_all();
        for (size_t i = 0; i < group_steps; i++, step++) {
            multiply_step(f, step, n_panels);
            if (step + f->ahead < steps) unpack_step(f, panels, step + f->ahead, n_panels);
        }
        if (parked == PARKED_GROUPS) { /* before others take their place: loads wait for stores, not stores for loads */
            scale_groups(f, panels, g - parked, parked, n_panels);
            parked = 0;
        }
        park_group(f, g, n_panels);
    }
    scale_groups(f, panels, n - parked, parked, n_panels);
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

/* Blocks differ in height by one row at most. All are multiplied as the highest: the last row of the others is what follows in
 * the input, its sums are nobody's, and one configuration serves them all. */
static pf_tile_rows configure(const tiling *t, int32_t m)
{
    const int32_t n_blocks = pf_gemm_tiles(PF_TILE_ROWS, m);
    const pf_tile_rows rows = pf_tile_rows_of((m + n_blocks - 1) / n_blocks, false, t->step_values);
    pf_tile_configure(rows.upper, rows.upper, rows.row_bytes);
    return rows;
}

void pf_tile_nest_groups(const tiling *t, const pf_tile_product *x, int32_t panel_begin, int32_t panel_end,
                         void *scratch)
{
    float *sums = scratch;
    uint8_t *room = (uint8_t *)scratch + pf_gemm_scratch_bytes(x->m) - PF_GEMM_UNPACKED_BYTES;
    const pf_tile_rows rows = configure(t, x->m);
    if (x->m <= PF_TILE_ROWS)
        nest_few(t, x, rows, panel_begin, panel_end, sums, room);
    else
        nest_many(t, x, rows, panel_begin, panel_end, sums, room);
    pf_tile_release();
}
