/* Matrices of compressed-tensors and FP8: packed integers, bytes or F8_E4M3, with scales of a tensor, rows, groups or blocks. */
#include <math.h>
#include <string.h>

#include "model/files/quantised_parts.h"

/* ---- values -------------------------------------------------------------------------------------------------------- */

static void packed_values(const pf_quantised_matrix *m, pf_quantised_span columns, float *out)
{
    const pf_tensor *values = &m->parts[PF_PART_VALUES];
    const int32_t a_word = 32 / m->bits, middle = 1 << (m->bits - 1);
    const uint32_t mask = (1u << m->bits) - 1;
    const int64_t first = columns.row * pf_quantised_words(m->n_columns, m->bits);
    uint32_t word = 0;
    for (int32_t i = 0; i < columns.n; i++, word >>= m->bits) {
        const int32_t k = columns.first + i;
        if (k % a_word == 0) word = pf_quantised_word(values, first + k / a_word);
        out[i] = (float)((int32_t)(word & mask) - middle);
    }
}

/* A sign, four bits of exponent less 7, three of mantissa; no infinities. Source: Micikevicius et al., arXiv:2209.05433, table 1. */
static float e4m3(uint8_t byte)
{
    const uint32_t exponent = byte >> 3 & 15, mantissa = byte & 7, sign = (uint32_t)(byte & 0x80) << 24;
    const uint32_t bits = sign | (exponent + 127 - 7) << 23 | mantissa << 20;
    float x = (float)mantissa * 0x1p-9f; /* subnormal */
    if (exponent == 0) return sign ? -x : x;
    if (exponent == 15 && mantissa == 7) return NAN;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void float8_values(const pf_quantised_matrix *m, pf_quantised_span columns, float *out)
{
    float table[256];
    const uint8_t *bytes =
        m->parts[PF_PART_VALUES].data + (size_t)columns.row * (size_t)m->n_columns + (size_t)columns.first;
    for (int32_t i = 0; i < 256; i++) table[i] = e4m3((uint8_t)i);
    for (int32_t i = 0; i < columns.n; i++) out[i] = table[bytes[i]];
}

/* ---- scales -------------------------------------------------------------------------------------------------------- */

static void scaled_groups(const pf_quantised_matrix *m, pf_quantised_span groups, float *scale, float *zero)
{
    const pf_tensor *zeros = &m->parts[PF_PART_ZEROS];
    const int64_t first = groups.row / m->rows_a_scale * m->row_step + groups.first;
    for (int32_t g = 0; g < groups.n; g++) {
        scale[g] = pf_quantised_scale(m, first + g);
        zero[g] = zeros->data == NULL ? 0.0f : (float)(int8_t)zeros->data[first + g];
    }
}

/* The zero points of packed values are packed along the rows. */
static void packed_groups(const pf_quantised_matrix *m, pf_quantised_span groups, float *scale, float *zero)
{
    const pf_tensor *zeros = &m->parts[PF_PART_ZEROS];
    const int32_t row = groups.row, middle = 1 << (m->bits - 1), bit = row * m->bits % 32;
    const int64_t word = (int64_t)row * m->bits / 32 * m->n_groups + groups.first;
    for (int32_t g = 0; g < groups.n; g++) {
        scale[g] = pf_quantised_scale(m, row / m->rows_a_scale * m->row_step + groups.first + g);
        zero[g] = zeros->data == NULL
                      ? 0.0f
                      : (float)((int32_t)(pf_quantised_word(zeros, word + g) >> bit & ((1u << m->bits) - 1)) - middle);
    }
}

static int64_t elements(const pf_tensor *tensor)
{
    int64_t n = 1;
    for (int32_t d = 0; d < tensor->n_dimensions; d++) n *= tensor->shape[d]; /* its bytes are in a file */
    return n;
}

/* Tells from the shape what shares a scale. */
static pf_status place_scales(const pf_quantised_place *place, pf_quantised_matrix *m, pf_error *error)
{
    const pf_tensor *scales = &m->parts[PF_PART_SCALES];
    const pf_quantization *q = place->quantization;
    const bool is_flat = scales->n_dimensions < 2, has_rows = !is_flat && scales->n_dimensions == 2;
    const int64_t n_block_rows = q->block_rows > 0 ? ((int64_t)m->n_rows + q->block_rows - 1) / q->block_rows : -1;
    m->rows_a_scale = 1;
    m->group = m->n_columns;
    m->n_groups = 1;
    if ((is_flat || has_rows) && elements(scales) == 1) return PF_OK; /* of the tensor */
    m->row_step = 1;
    if (is_flat) return pf_quantised_check_shape(place, scales, (const int64_t[]){ m->n_rows }, 1, error);
    if (has_rows && scales->shape[0] == m->n_rows && scales->shape[1] == 1) return PF_OK;
    const bool is_of_blocks = has_rows && q->block_rows > 0 && scales->shape[0] == n_block_rows;
    m->group = is_of_blocks ? q->block_columns : has_rows ? pf_quantised_group(place, scales->shape[1]) : 0;
    int64_t n_groups = m->group > 0 ? scales->shape[1] : pf_quantised_expected_groups(place);
    if (is_of_blocks) n_groups = ((int64_t)m->n_columns + m->group - 1) / m->group;
    const int64_t shape[] = { is_of_blocks ? n_block_rows : m->n_rows, n_groups };
    PF_TRY(pf_quantised_check_shape(place, scales, shape, 2, error));
    m->rows_a_scale = is_of_blocks ? q->block_rows : 1;
    m->n_groups = (int32_t)n_groups;
    m->row_step = n_groups;
    return PF_OK;
}

static pf_status find_scales(const pf_quantised_place *place, pf_quantised_matrix *m, pf_error *error)
{
    const char *part = pf_quantised_dtype(place, "weight_scale_inv") != NULL ? "weight_scale_inv" : "weight_scale";
    const char *dtype = pf_quantised_dtype(place, part);
    m->scales_are_e8m0 = dtype != NULL && strcmp(dtype, "F8_E8M0") == 0;
    pf_tensor *scales = &m->parts[PF_PART_SCALES];
    if (m->scales_are_e8m0)
        PF_TRY(pf_quantised_need(place, part, "F8_E8M0", NULL, -1, scales, error));
    else
        PF_TRY(pf_quantised_need_floats(place, part, NULL, -1, scales, error));
    return place_scales(place, m, error);
}

/* ---- matrices ------------------------------------------------------------------------------------------------------- */

/* weight_shape must be that of the matrix. */
static pf_status check_noted_shape(const pf_quantised_place *place, const pf_quantised_matrix *m, pf_error *error)
{
    const pf_tensor *note = &m->parts[PF_PART_NOTE];
    int64_t shape[2];
    if (note->data == NULL) return PF_OK;
    memcpy(shape, note->data, sizeof shape);
    if (shape[0] == m->n_rows && shape[1] == m->n_columns) return PF_OK;
    return pf_fail(error, PF_FORMAT, "%s: tensor \"%s\" holds %lld and %lld, config.json makes them %d and %d",
                   place->path, note->name, (long long)shape[0], (long long)shape[1], m->n_rows, m->n_columns);
}

static pf_status find_packed(const pf_quantised_place *place, pf_quantised_matrix *m, pf_error *error)
{
    pf_tensor *values = &m->parts[PF_PART_VALUES];
    PF_TRY(pf_quantised_need(place, "weight_packed", "I32", NULL, -1, values, error));
    m->bits = pf_quantised_bits(place->quantization, m->n_columns, values->n_dimensions == 2 ? values->shape[1] : -1);
    const int32_t bits = m->bits > 0 ? m->bits : __builtin_ctz(place->quantization->widths);
    const int64_t shape[] = { m->n_rows, pf_quantised_words(m->n_columns, bits) }, two[] = { 2 };
    PF_TRY(pf_quantised_check_shape(place, values, shape, 2, error));
    PF_TRY(find_scales(place, m, error));
    const int64_t zeros[] = { pf_quantised_words(m->n_rows, bits), m->n_groups }, index[] = { m->n_columns };
    PF_TRY(pf_quantised_may_have(place, "weight_zero_point", "I32", zeros, 2, &m->parts[PF_PART_ZEROS], error));
    PF_TRY(pf_quantised_may_have(place, "weight_g_idx", "I32", index, 1, &m->parts[PF_PART_INDEX], error));
    PF_TRY(pf_quantised_may_have(place, "weight_shape", "I64", two, 1, &m->parts[PF_PART_NOTE], error));
    m->values = packed_values;
    m->groups = packed_groups;
    m->are_integers = true;
    m->lowest = -(1 << (bits - 1));
    return check_noted_shape(place, m, error);
}

static pf_status find_bytes(const pf_quantised_place *place, const char *dtype, pf_quantised_matrix *m, pf_error *error)
{
    const bool is_float = strcmp(dtype, "I8") != 0;
    const int64_t shape[] = { m->n_rows, m->n_columns };
    PF_TRY(pf_quantised_need(place, "weight", dtype, shape, 2, &m->parts[PF_PART_VALUES], error));
    PF_TRY(find_scales(place, m, error));
    const pf_tensor *scales = &m->parts[PF_PART_SCALES];
    if (!is_float)
        PF_TRY(pf_quantised_may_have(place, "weight_zero_point", "I8", scales->shape, scales->n_dimensions,
                                     &m->parts[PF_PART_ZEROS], error));
    m->values = is_float ? float8_values : pf_quantised_byte_values;
    m->groups = scaled_groups;
    m->are_integers = !is_float;
    m->lowest = -128;
    return PF_OK;
}

pf_status pf_quantised_find_scaled(const pf_quantised_place *place, pf_quantised_matrix *m, pf_error *error)
{
    if (pf_quantised_dtype(place, "weight_packed") != NULL) return find_packed(place, m, error);
    const char *dtype = pf_quantised_dtype(place, "weight");
    const bool is_read = dtype != NULL && (strcmp(dtype, "I8") == 0 || strcmp(dtype, "F8_E4M3") == 0);
    return is_read ? find_bytes(place, dtype, m, error) : PF_OK;
}
