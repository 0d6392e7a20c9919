/*
 * Packs groups that others have quantised, 256 values of a row at a time. A source may have groups other than the matrix has, since
 * parts that are stacked share one format (pf_group_format_of_both): the weights stand for the same numbers, bit for bit.
 */
#include "kernels/gemm/pack/pack_exact.h"

#include <assert.h>

#include "kernels/gemm/layout_exact.h"

enum { PIECE = PF_GROUP_SUPER_VALUES };

/* A piece of a row, as the matrix holds it. */
typedef struct {
    pf_group_piece piece;
    int32_t k, n;
} row_part;

/* The scale and the offset of a value of a piece, in the numbers of the matrix. */
static void convert_head(const pf_group_format *from, const pf_group_format *to, const pf_group_piece *in, int32_t i,
                         float *scale, float *offset)
{
    const int32_t g = pf_group_of(from, i);
    *scale = in->scale[g];
    *offset = from->offset == PF_GROUP_SYMMETRIC ? 0.0f : in->offset[g];
    if (to->scales == PF_GROUP_SCALES_SUPER) return;
    if (from->scales == PF_GROUP_SCALES_SUPER) {
        *scale = in->super_scale * *scale;
        *offset = -(in->super_offset * *offset);
    }
    if (to->offset != PF_GROUP_MINIMUM || from->offset == PF_GROUP_MINIMUM) return;
    *offset = from->offset == PF_GROUP_ZERO ? -*offset * *scale : -0.0f; /* x + -0 is x, a zero's sign included */
}

static void put_number(const pf_exact_layout *l, uint8_t *to, float number)
{
    const uint16_t f16 = pf_f16_from_f32(number), bf16 = pf_bf16_from_f32(number);
    switch (l->groups.scales) {
    case PF_GROUP_SCALES_F16: memcpy(to, &f16, sizeof f16); break;
    case PF_GROUP_SCALES_BF16: memcpy(to, &bf16, sizeof bf16); break;
    case PF_GROUP_SCALES_F32: memcpy(to, &number, sizeof number); break;
    case PF_GROUP_SCALES_SUPER: *to = (uint8_t)(int8_t)number; break;
    }
}

/* The heads of column j that begin in a piece. */
static void put_heads(const pf_exact_layout *l, uint8_t *panel, size_t j, const pf_group_format *from,
                      const row_part *part)
{
    const int32_t unit = PF_EXACT_BLOCK / (int32_t)l->units;
    const bool has_offset = l->groups.offset != PF_GROUP_SYMMETRIC;
    for (int32_t i = 0; i < part->n; i += unit) {
        const size_t b = (size_t)(part->k + i) / PF_EXACT_BLOCK, u = (size_t)(i % PF_EXACT_BLOCK / unit);
        float scale, offset;
        if (b % l->group_blocks != 0) continue;
        convert_head(from, &l->groups, &part->piece, i, &scale, &offset);
        put_number(l, panel + pf_exact_scales_at(l, b, u) + j * l->number_bytes, scale);
        if (has_offset) put_number(l, panel + pf_exact_offsets_at(l, b, u) + j * l->number_bytes, offset);
    }
    if (l->groups.scales != PF_GROUP_SCALES_SUPER) return;
    const bool of_source = has_offset && from->offset != PF_GROUP_SYMMETRIC;
    const uint16_t super[2] = { pf_f16_from_f32(part->piece.super_scale),
                                of_source ? pf_f16_from_f32(part->piece.super_offset) : 0 };
    uint8_t *to = panel + pf_exact_super_at(l, (size_t)part->k / PF_EXACT_BLOCK) + j * sizeof *super;
    memcpy(to, &super[0], sizeof *super);
    if (has_offset) memcpy(to + sizeof *super * PF_GEMM_PANEL, &super[1], sizeof *super);
}

/* Its values. High nibbles go beside low ones that are there. */
static void put_values(const pf_exact_layout *l, uint8_t *panel, size_t j, const pf_group_format *from,
                       const row_part *part)
{
    const bool has_sign = from->bits == 4 && from->offset == PF_GROUP_SYMMETRIC && l->groups.bits == 8;
    for (int32_t i = 0; i < part->n; i++) {
        const size_t k = (size_t)(part->k + i);
        uint8_t *step = panel + pf_exact_steps_at(l, k / PF_EXACT_BLOCK) + k % PF_EXACT_BLOCK / 4 * l->step_bytes;
        const int32_t q = part->piece.q[i] - (has_sign ? 8 : 0);
        if (l->groups.bits == 8)
            step[j * 4 + k % 4] = (uint8_t)(q + 128);
        else if (j < PF_GEMM_PANEL / 2)
            step[j * 4 + k % 4] = (uint8_t)(q & 15);
        else
            step[(j - PF_GEMM_PANEL / 2) * 4 + k % 4] |= (uint8_t)(q << 4);
    }
}

static const pf_gemm_source *source_of(const pf_gemm_source *sources, int32_t n_sources, int32_t *row)
{
    for (int32_t s = 0; s < n_sources; *row -= sources[s++].n_rows)
        if (*row < sources[s].n_rows) return &sources[s];
    return NULL;
}

static void pack_column(const pf_gemm_weights *w, const pf_exact_layout *l, uint8_t *panel, size_t j,
                        const pf_gemm_source *source, int32_t row)
{
    row_part part;
    for (int32_t k = 0; k < w->k; k += PIECE) {
        part.k = k;
        part.n = w->k - k < PIECE ? w->k - k : PIECE;
        source->fill(source->fill_user, row, k, part.n, &part.piece);
        put_heads(l, panel, j, &source->groups, &part);
        put_values(l, panel, j, &source->groups, &part);
    }
}

void pf_gemm_pack_exact(const pf_gemm_weights *w, const pf_gemm_source *sources, int32_t n_sources, int32_t panel_begin,
                        int32_t panel_end)
{
    const pf_exact_layout l = pf_exact_layout_of(&w->groups, w->k);
    for (int32_t p = panel_begin; p < panel_end; p++) {
        uint8_t *panel = (uint8_t *)w->panels + (size_t)p * w->panel_bytes;
        memset(panel, 0, w->panel_bytes);
        for (int32_t j = 0; j < PF_GEMM_PANEL; j++) {
            int32_t row = p * PF_GEMM_PANEL + j;
            const pf_gemm_source *source = source_of(sources, n_sources, &row);
            if (source == NULL) break;
            assert(source->fill != NULL);
            pack_column(w, &l, panel, (size_t)j, source, row);
        }
    }
}
