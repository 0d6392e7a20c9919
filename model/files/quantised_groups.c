/* Quantised matrices as groups of integers with scales, which the kernels hold exactly. */
#include "model/files/quantised_matrix.h"
#include "model/files/quantised_parts.h"

enum { PIECE = PF_GROUP_SUPER_VALUES };

/* Whether the group of each column is the one that it lies in. */
static bool is_in_order(const pf_quantised_matrix *m)
{
    const pf_tensor *index = &m->parts[PF_PART_INDEX];
    for (int32_t k = 0; index->data != NULL && k < m->n_columns; k++)
        if (pf_quantised_word(index, k) != (uint32_t)(k / m->group)) return false;
    return true;
}

/* The group of the kernels for a group of columns; -1: there is none. A larger one is several of 256. */
static int32_t kernel_group(const pf_quantised_matrix *m)
{
    if (m->group >= m->n_columns) return 0;
    if (m->group % PIECE == 0) return PIECE;
    return m->group == 16 || m->group == 32 || m->group == 64 || m->group == 128 ? m->group : -1;
}

static pf_group_scales scales_of(pf_type type)
{
    return type == PF_TYPE_F16    ? PF_GROUP_SCALES_F16
           : type == PF_TYPE_BF16 ? PF_GROUP_SCALES_BF16
                                  : PF_GROUP_SCALES_F32;
}

bool pf_quantised_exact_format(const pf_quantised_matrix *m, pf_group_format *out)
{
    if (m->n_groups == 0 || !m->are_integers || m->runs_on || m->factor != 1.0f || m->scales_are_e8m0) return false;
    if (kernel_group(m) < 0 || !is_in_order(m)) return false;
    const bool has_zeros = m->parts[PF_PART_ZEROS].data != NULL, is_middle = m->lowest == -8 || m->lowest == -128;
    const bool is_small = m->lowest != -128 && m->bits <= 4;
    *out = (pf_group_format){
        .bits = is_small ? 4 : 8,
        .group = kernel_group(m),
        .scales = scales_of(m->parts[PF_PART_SCALES].type),
        .offset = has_zeros || !is_middle ? PF_GROUP_ZERO : PF_GROUP_SYMMETRIC,
    };
    return true;
}

/* q and zero points of eight bits are stored from -128 on, of four from 0 on: both are moved alike, which changes no weight. */
void pf_quantised_fill(const pf_quantised_matrix *m, const pf_group_format *format, pf_quantised_span columns,
                       pf_group_piece *out)
{
    float values[PIECE];
    const int32_t k = columns.first, n = columns.n;
    const bool is_whole = format->group == 0 || m->group >= PIECE;
    const int32_t first = format->group == 0 ? 0 : k / m->group;
    const int32_t n_groups = is_whole ? 1 : (n + m->group - 1) / m->group;
    const float moved = (float)((format->bits == 4 ? 0 : -128) - m->lowest);
    m->values(m, columns, values);
    m->groups(m, (pf_quantised_span){ columns.row, first, n_groups }, out->scale, out->offset);
    for (int32_t g = 0; g < n_groups; g++) out->offset[g] += moved;
    for (int32_t i = 0; i < n; i++) out->q[i] = (int8_t)(values[i] + moved);
}
