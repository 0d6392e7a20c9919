/* Matrices in GPTQ and AWQ: 32-bit words of values, with scales and zero points of groups of columns. */
#include "model/files/quantised_parts.h"

/* ---- GPTQ ---------------------------------------------------------------------------------------------------------- */

static void gptq_values(const pf_quantised_matrix *m, pf_quantised_span columns, float *out)
{
    const pf_tensor *values = &m->parts[PF_PART_VALUES];
    const int32_t a_word = 32 / m->bits;
    const uint32_t mask = (1u << m->bits) - 1;
    uint32_t word = 0;
    for (int32_t i = 0; i < columns.n; i++, word >>= m->bits) {
        const int32_t k = columns.first + i;
        if (k % a_word == 0) word = pf_quantised_word(values, (int64_t)(k / a_word) * m->n_rows + columns.row);
        out[i] = (float)(word & mask);
    }
}

/* Version 1 of the format was made by one subtraction from each whole word, borrows included: one addition undoes it. */
static void gptq_groups(const pf_quantised_matrix *m, pf_quantised_span groups, float *scale, float *zero)
{
    const pf_tensor *zeros = &m->parts[PF_PART_ZEROS];
    const uint32_t mask = (1u << m->bits) - 1, one_each = m->zeros_less_one ? UINT32_MAX / mask : 0;
    const int64_t words = pf_quantised_words(m->n_rows, m->bits);
    const int32_t row = groups.row, bit = row * m->bits % 32;
    for (int32_t i = 0; i < groups.n; i++) {
        const int64_t g = groups.first + i;
        scale[i] = pf_quantised_scale(m, g * m->n_rows + row);
        const uint32_t word = pf_quantised_word(zeros, g * words + (int64_t)row * m->bits / 32) + one_each;
        zero[i] = (float)(word >> bit & mask);
    }
}

/* Finds X.scales [G, N] and so the groups. */
static pf_status find_scales(const pf_quantised_place *place, pf_quantised_matrix *m, pf_error *error)
{
    pf_tensor *scales = &m->parts[PF_PART_SCALES];
    PF_TRY(pf_quantised_need_floats(place, "scales", NULL, -1, scales, error));
    m->group = scales->n_dimensions == 2 ? pf_quantised_group(place, scales->shape[0]) : 0;
    const int64_t n_groups = m->group > 0 ? scales->shape[0] : pf_quantised_expected_groups(place);
    PF_TRY(pf_quantised_check_shape(place, scales, (const int64_t[]){ n_groups, m->n_rows }, 2, error));
    m->n_groups = (int32_t)n_groups;
    return PF_OK;
}

pf_status pf_quantised_find_gptq(const pf_quantised_place *place, pf_quantised_matrix *m, pf_error *error)
{
    pf_tensor *values = &m->parts[PF_PART_VALUES];
    const pf_quantization *q = place->quantization;
    if (pf_quantised_dtype(place, "qweight") == NULL) return PF_OK;
    PF_TRY(pf_quantised_need(place, "qweight", "I32", NULL, -1, values, error));
    m->bits = pf_quantised_bits(q, m->n_columns, values->n_dimensions == 2 ? values->shape[0] : -1);
    const int32_t bits = m->bits > 0 ? m->bits : __builtin_ctz(q->widths);
    const int64_t shape[] = { pf_quantised_words(m->n_columns, bits), m->n_rows };
    PF_TRY(pf_quantised_check_shape(place, values, shape, 2, error));
    PF_TRY(find_scales(place, m, error));
    const int64_t zeros[] = { m->n_groups, pf_quantised_words(m->n_rows, bits) }, index[] = { m->n_columns };
    PF_TRY(pf_quantised_need(place, "qzeros", "I32", zeros, 2, &m->parts[PF_PART_ZEROS], error));
    PF_TRY(pf_quantised_may_have(place, "g_idx", "I32", index, 1, &m->parts[PF_PART_INDEX], error));
    m->values = gptq_values;
    m->groups = gptq_groups;
    m->zeros_less_one = q->zeros_less_one;
    m->are_integers = true;
    return PF_OK;
}

/* ---- AWQ ----------------------------------------------------------------------------------------------------------- */

enum { AWQ_BITS = 4, AWQ_A_WORD = 8 };

/* Nibbles of a word are columns 0 2 4 6 1 3 5 7: the bit at which a row's begins. */
static int32_t awq_bit(int32_t row)
{
    static const int32_t nibble[AWQ_A_WORD] = { 0, 4, 1, 5, 2, 6, 3, 7 };
    return nibble[row % AWQ_A_WORD] * AWQ_BITS;
}

static void awq_values(const pf_quantised_matrix *m, pf_quantised_span columns, float *out)
{
    const pf_tensor *values = &m->parts[PF_PART_VALUES];
    const int64_t words = pf_quantised_words(m->n_rows, AWQ_BITS);
    const int32_t bit = awq_bit(columns.row);
    for (int32_t i = 0; i < columns.n; i++)
        out[i] = (float)(pf_quantised_word(values, (columns.first + i) * words + columns.row / AWQ_A_WORD) >> bit & 15);
}

static void awq_groups(const pf_quantised_matrix *m, pf_quantised_span groups, float *scale, float *zero)
{
    const pf_tensor *zeros = &m->parts[PF_PART_ZEROS];
    const int64_t words = pf_quantised_words(m->n_rows, AWQ_BITS);
    const int32_t bit = awq_bit(groups.row);
    for (int32_t i = 0; i < groups.n; i++) {
        const int64_t g = groups.first + i;
        scale[i] = pf_quantised_scale(m, g * m->n_rows + groups.row);
        zero[i] = (float)(pf_quantised_word(zeros, g * words + groups.row / AWQ_A_WORD) >> bit & 15);
    }
}

pf_status pf_quantised_find_awq(const pf_quantised_place *place, pf_quantised_matrix *m, pf_error *error)
{
    if (pf_quantised_dtype(place, "qweight") == NULL) return PF_OK;
    const int64_t words = pf_quantised_words(m->n_rows, AWQ_BITS), shape[] = { m->n_columns, words };
    PF_TRY(pf_quantised_need(place, "qweight", "I32", shape, 2, &m->parts[PF_PART_VALUES], error));
    PF_TRY(find_scales(place, m, error));
    const int64_t zeros[] = { m->n_groups, words };
    PF_TRY(pf_quantised_need(place, "qzeros", "I32", zeros, 2, &m->parts[PF_PART_ZEROS], error));
    m->bits = AWQ_BITS;
    m->values = awq_values;
    m->groups = awq_groups;
    m->are_integers = true;
    return PF_OK;
}
