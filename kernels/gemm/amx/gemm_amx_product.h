/*
 * What the AMX products share: what a product is, how a format lies in its panels, and how its steps are brought to where tiles
 * find them. Internal.
 *
 * The tiles are those of kernels/vec/tiles_amx.h. A panel of 32 columns is two B tiles side by side. A step of K is 64 bytes of a
 * row of A (32 values of bf16, 64 of int8) and 128 bytes of each of 16 rows of B.
 */
#ifndef PF_KERNELS_GEMM_AMX_PRODUCT_H
#define PF_KERNELS_GEMM_AMX_PRODUCT_H

#include "kernels/gemm/gemm_nest.h"
#include "kernels/gemm/int/group_bytes_avx512.h"
#include "kernels/vec/tiles_amx.h"

enum {
    PF_TILE_B_STRIDE = 128,                               /* two B tiles of a panel lie side by side */
    PF_TILE_STEP_BYTES = PF_TILE_ROWS * PF_TILE_B_STRIDE, /* of a panel: one step of K of a whole tile */
};

/* To stay where it is written: compilers gather prefetches, and L1 waits for 16 lines at a time. */
PF_INLINE void pf_tile_prefetch(uintptr_t address)
{
    __asm__ volatile("prefetcht0 %0" : : "m"(*(const char *)address) : "memory");
}

/* Rows of A, in one tile or two. */
typedef struct {
    const uint8_t *a;      /* [steps, rows, PF_TILE_ROW_BYTES] */
    size_t a_step;         /* bytes of a step: of the rows, or of all but the last where that is not used */
    int32_t upper, lower;  /* lower: 0 where one tile holds all */
    uintptr_t prefetch;    /* what is fetched meanwhile */
    size_t prefetch_lines; /* each step */
    const uint8_t *next;   /* the sums of the next block, which wait in L2 */
    size_t next_lines;     /* each step but the last; 0: there are none */
} pf_tile_rows;

/* A block of `height` rows, two tiles high where it is `tall`. */
PF_INLINE pf_tile_rows pf_tile_rows_of(int32_t height, bool tall)
{
    return (pf_tile_rows){ .a_step = (size_t)height * PF_TILE_ROW_BYTES,
                           .upper = tall ? (height + 1) / 2 : height,
                           .lower = tall ? height / 2 : 0 };
}

PF_INLINE void pf_tile_zero(void)
{
    PF_TILE_ZERO(0);
    PF_TILE_ZERO(1);
    PF_TILE_ZERO(2);
    PF_TILE_ZERO(3);
}

/* Sums of 32 columns and a block two tiles high, rows `stride` bytes apart. */
PF_INLINE void pf_tile_load(const pf_tile_rows *x, const uint8_t *sums, size_t stride)
{
    PF_TILE_LOAD(0, sums, stride);
    PF_TILE_LOAD(1, sums + PF_TILE_ROW_BYTES, stride);
    sums += (size_t)x->upper * stride;
    PF_TILE_LOAD(2, sums, stride);
    PF_TILE_LOAD(3, sums + PF_TILE_ROW_BYTES, stride);
}

/* Those of the lower tiles, or of the right one of two panels side by side. */
/* NOLINTNEXTLINE(readability-non-const-parameter): the instruction writes it */
PF_INLINE void pf_tile_store_second(uint8_t *sums, size_t stride)
{
    PF_TILE_STORE(2, sums, stride);
    PF_TILE_STORE(3, sums + PF_TILE_ROW_BYTES, stride);
}

PF_INLINE void pf_tile_store(const pf_tile_rows *x, uint8_t *sums, size_t stride)
{
    PF_TILE_STORE(0, sums, stride);
    PF_TILE_STORE(1, sums + PF_TILE_ROW_BYTES, stride);
    if (x->lower) pf_tile_store_second(sums + (size_t)x->upper * stride, stride);
}

/* --- products --- */

/* A product, as its kernel was asked for it. */
typedef struct {
    const pf_gemm_weights *w;
    const uint8_t *input; /* [block] [steps] [rows of the block] 64 bytes, behind it what `put` wants of each row */
    int32_t m;
    float *c;
    size_t ldc;
    pf_gemm_mode mode;
    size_t weights_at;         /* in a panel: its first step */
    size_t steps;              /* of K */
    const void *how;           /* what `put` and `head` of the format want to know */
    const pf_gemm_weights *up; /* of two products: its panels follow those of w, one by one; else NULL */
    const pf_gemm_gated *gated;
} pf_tile_product;

/* A row of B, 128 bytes, of what a panel has for it and of what `head` gave: that of rows [row, row + head_rows) of a step. */
typedef void pf_tile_row_fn(const pf_group_head *head, const uint8_t *from, uint8_t *b);
typedef pf_group_head pf_tile_head_fn(const pf_tile_product *x, const uint8_t *panel, size_t step, size_t row);

/* Sums of rows [row, row + n_rows) of a panel, [n_rows, 32] 64-byte aligned, to c. */
typedef void pf_tile_put_fn(const pf_tile_product *x, int32_t panel, int32_t row, int32_t n_rows, const void *sums);
/* Those of a panel of gate and of up, activated. */
typedef void pf_tile_put_gated_fn(const pf_tile_product *x, int32_t panel, int32_t row, int32_t n_rows,
                                  const void *gate, const void *up);

typedef struct {
    pf_tile_dot dot;
    bool in_place;    /* whole steps of a panel are B as they lie */
    bool as_they_are; /* sums are what c wants */
    size_t row_bytes; /* of a panel, for a row of B */
    pf_tile_row_fn *row;
    pf_tile_head_fn *head; /* NULL: rows want none */
    size_t head_rows;      /* of B, that share one */
    size_t pair_steps;     /* behind so many steps of a panel stand 64 bytes of heads; 0: there are none */
    pf_tile_put_fn *put;
    pf_tile_put_gated_fn *put_gated;
} pf_tile_family;

PF_INLINE const uint8_t *pf_tile_panel(const pf_tile_product *x, int32_t panel)
{
    const pf_gemm_weights *w = x->w;
    if (x->up != NULL) {
        if (panel & 1) w = x->up;
        panel >>= 1;
    }
    return (const uint8_t *)w->panels + (size_t)panel * w->panel_bytes;
}

/* Columns of a panel of w that there are. */
PF_INLINE int32_t pf_tile_columns(const pf_tile_product *x, int32_t panel)
{
    const int32_t left = x->w->n - panel * PF_GEMM_PANEL;
    return left < PF_GEMM_PANEL ? left : PF_GEMM_PANEL;
}

/* Where a step begins in a panel, and how many of n rows of B from there on a panel has. */
PF_INLINE size_t pf_tile_step_at(const pf_tile_family family, const pf_tile_product *x, size_t step)
{
    const size_t heads = family.pair_steps ? step / family.pair_steps * 64 : 0;
    return x->weights_at + step * PF_TILE_ROWS * family.row_bytes + heads;
}
PF_INLINE size_t pf_tile_rows_there(const pf_tile_family family, const pf_tile_product *x, size_t step, size_t n)
{
    const size_t left = (x->w->panel_bytes - pf_tile_step_at(family, x, step)) / family.row_bytes;
    return left < n ? left : n;
}

/* A row as it lies. */
PF_INLINE void pf_tile_row_plain(const pf_group_head *head, const uint8_t *from, uint8_t *b)
{
    (void)head;
    _mm512_store_si512(b, _mm512_loadu_si512(from));
    _mm512_store_si512(b + 64, _mm512_loadu_si512(from + 64));
}

/* Panels that are gone through at once: one, or two of a product, or those of gate and up. */
typedef struct {
    const uint8_t *first;
    size_t apart; /* bytes from there to the second */
} pf_tile_panels;

PF_INLINE pf_tile_panels pf_tile_panels_at(const pf_tile_product *x, int32_t panel, const int32_t n_panels)
{
    const uint8_t *first = pf_tile_panel(x, panel);
    if (n_panels == 1) return (pf_tile_panels){ .first = first };
    return (pf_tile_panels){ first, (uintptr_t)pf_tile_panel(x, panel + 1) - (uintptr_t)first };
}

/* A step of such panels on its way to `b`, one behind the other. */
typedef struct {
    pf_tile_panels panels;
    const uint8_t *from; /* the first row of the first */
    uintptr_t ahead;     /* what is fetched beside that row */
    size_t step, there;  /* there: rows of B that a panel has for it */
    uint8_t *b;
    pf_group_head head[2];
} pf_tile_filling;

/* How far the panels are fetched: nibbles come at half the pace of bytes. */
PF_INLINE size_t pf_tile_ahead(const pf_tile_family family)
{
    return family.row_bytes < PF_TILE_B_STRIDE ? 1536 : 1024;
}

PF_INLINE pf_tile_filling pf_tile_filling_of(const pf_tile_family family, const pf_tile_product *x,
                                             pf_tile_panels panels, const int32_t n_panels, size_t step,
                                             /* NOLINTNEXTLINE(readability-non-const-parameter): it is filled */
                                             const bool fetches, uint8_t *b)
{
    const size_t at = pf_tile_step_at(family, x, step), ahead = pf_tile_ahead(family), panel_bytes = x->w->panel_bytes;
    const bool past = at + PF_TILE_ROWS * family.row_bytes + ahead > panel_bytes; /* into the next ones */
    const size_t over = past && n_panels == 2 && x->up == NULL ? panel_bytes : 0;
    pf_tile_filling f = { .panels = panels, .from = panels.first + at, .step = step, .b = b };
    f.there = pf_tile_rows_there(family, x, step, PF_TILE_ROWS);
    f.ahead = (uintptr_t)f.from + ahead + over;
    if (fetches && family.pair_steps && step % family.pair_steps == 0)
        for (size_t j = 0; j < (size_t)n_panels; j++) pf_tile_prefetch(f.ahead - 64 + j * panels.apart);
    return f;
}

/* Rows [begin, end) of it: one of each panel in turn, and where it `fetches` what comes further on beside it. Two streams get
 * more from memory than one. */
PF_INLINE void pf_tile_fill_rows(const pf_tile_family family, const pf_tile_product *x, pf_tile_filling *f,
                                 const int32_t n_panels, const bool fetches, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++) {
        if (family.head && i % family.head_rows == 0)
            for (size_t j = 0; j < (size_t)n_panels; j++)
                f->head[j] = family.head(x, f->panels.first + j * f->panels.apart, f->step, i);
        for (size_t j = 0; j < (size_t)n_panels; j++) {
            const size_t at = j * f->panels.apart + i * family.row_bytes;
            if (fetches) pf_tile_prefetch(f->ahead + at);
            if (fetches && family.row_bytes > 64) pf_tile_prefetch(f->ahead + at + 64);
            family.row(&f->head[j], f->from + at, f->b + j * PF_TILE_STEP_BYTES + i * PF_TILE_B_STRIDE);
        }
    }
}

/* All of it, and zeros where K has ended. */
PF_INLINE void pf_tile_fill(const pf_tile_family family, const pf_tile_product *x, pf_tile_filling *f,
                            const int32_t n_panels, const bool fetches)
{
    pf_tile_fill_rows(family, x, f, n_panels, fetches, 0, f->there);
    for (size_t j = 0; j < (size_t)n_panels; j++)
        memset(f->b + j * PF_TILE_STEP_BYTES + f->there * PF_TILE_B_STRIDE, 0,
               (PF_TILE_ROWS - f->there) * PF_TILE_B_STRIDE);
}

#endif
