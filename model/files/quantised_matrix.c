#include "model/files/quantised_matrix.h"

#include <math.h>
#include <stdio.h>

#include "model/config/config.h"
#include "model/files/quantised_parts.h"
#include "model/files/tensor_shape.h"

/* ---- parts --------------------------------------------------------------------------------------------------------- */

static void name_part(const pf_quantised_place *place, const char *part, char out[PF_MAX_TENSOR_NAME])
{
    snprintf(out, PF_MAX_TENSOR_NAME, "%.110s.%.48s", place->stem, part);
}

const char *pf_quantised_dtype(const pf_quantised_place *place, const char *part)
{
    char name[PF_MAX_TENSOR_NAME];
    name_part(place, part, name);
    return pf_tensor_source_dtype(place->files, name);
}

static pf_status missing(const pf_quantised_place *place, const char *part, pf_error *error)
{
    return pf_fail(error, PF_FORMAT, "%s: no tensor \"%.110s.%s\", which a matrix in %s must have", place->path,
                   place->stem, part, place->quantization->words);
}

pf_status pf_quantised_check_shape(const pf_quantised_place *place, const pf_tensor *tensor, const int64_t *shape,
                                   int32_t n, pf_error *error)
{
    return pf_tensor_check_shape(place->path, "quantization_config", tensor, shape, n, error);
}

pf_status pf_quantised_may_have(const pf_quantised_place *place, const char *part, const char *dtype,
                                const int64_t *shape, int32_t n, pf_tensor *out, pf_error *error)
{
    char name[PF_MAX_TENSOR_NAME];
    pf_tensor found;
    name_part(place, part, name);
    const pf_status status = pf_tensor_source_find_bytes(place->files, name, dtype, &found, error);
    if (status == PF_UNAVAILABLE) return PF_OK;
    if (status != PF_OK) return status;
    if (n >= 0) PF_TRY(pf_quantised_check_shape(place, &found, shape, n, error));
    *out = found;
    return PF_OK;
}

pf_status pf_quantised_need(const pf_quantised_place *place, const char *part, const char *dtype, const int64_t *shape,
                            int32_t n, pf_tensor *out, pf_error *error)
{
    if (pf_quantised_dtype(place, part) == NULL) return missing(place, part, error);
    return pf_quantised_may_have(place, part, dtype, shape, n, out, error);
}

pf_status pf_quantised_need_floats(const pf_quantised_place *place, const char *part, const int64_t *shape, int32_t n,
                                   pf_tensor *out, pf_error *error)
{
    char name[PF_MAX_TENSOR_NAME];
    pf_tensor found;
    name_part(place, part, name);
    const pf_status status = pf_tensor_source_find(place->files, name, &found, error);
    if (status == PF_UNAVAILABLE) return missing(place, part, error);
    if (status != PF_OK) return status;
    if (n >= 0) PF_TRY(pf_quantised_check_shape(place, &found, shape, n, error));
    *out = found;
    return PF_OK;
}

/* ---- numbers ------------------------------------------------------------------------------------------------------- */

int64_t pf_quantised_words(int64_t n, int32_t bits)
{
    return (n * bits + 31) / 32;
}

int32_t pf_quantised_bits(const pf_quantization *quantization, int64_t n, int64_t words)
{
    for (int32_t bits = 1; bits <= 8; bits++)
        if (quantization->widths >> bits & 1 && pf_quantised_words(n, bits) == words) return bits;
    return 0;
}

int64_t pf_quantised_expected_groups(const pf_quantised_place *place)
{
    const int32_t group = place->quantization->group;
    return group == 0 ? 1 : ((int64_t)place->n_columns + group - 1) / group;
}

int32_t pf_quantised_group(const pf_quantised_place *place, int64_t n_groups)
{
    const int32_t group = place->quantization->group, columns = place->n_columns;
    if (n_groups == pf_quantised_expected_groups(place)) return group == 0 ? columns : group;
    const bool is_other = place->quantization->varies && n_groups > 0 && columns % n_groups == 0;
    return is_other ? (int32_t)(columns / n_groups) : 0;
}

uint32_t pf_quantised_word(const pf_tensor *tensor, int64_t i)
{
    uint32_t word;
    memcpy(&word, tensor->data + (size_t)i * sizeof word, sizeof word);
    return word;
}

/* 2^(e - 127); 255 is not a number. Source: OCP Microscaling Formats (MX) Specification 1.0, section 5.4.1. */
static float power_of_two(uint8_t e)
{
    return e == 255 ? NAN : ldexpf(1.0f, e - 127);
}

float pf_quantised_scale(const pf_quantised_matrix *m, int64_t i)
{
    const pf_tensor *scales = &m->parts[PF_PART_SCALES];
    return m->scales_are_e8m0 ? power_of_two(scales->data[i])
                              : pf_tensor_element(scales->data, scales->type, (size_t)i);
}

void pf_quantised_byte_values(const pf_quantised_matrix *m, pf_quantised_span columns, float *out)
{
    const uint8_t *bytes =
        m->parts[PF_PART_VALUES].data + (size_t)columns.row * (size_t)m->n_columns + (size_t)columns.first;
    for (int32_t i = 0; i < columns.n; i++) out[i] = (float)(int8_t)bytes[i];
}

/* ---- a matrix ------------------------------------------------------------------------------------------------------- */

pf_status pf_quantised_find(const pf_quantised_place *place, pf_quantised_matrix *out, pf_error *error)
{
    pf_quantised_matrix m = { .n_rows = place->n_rows, .n_columns = place->n_columns, .factor = 1.0f };
    switch (place->quantization->scheme) {
    case PF_SCHEME_NONE: break;
    case PF_SCHEME_GPTQ: PF_TRY(pf_quantised_find_gptq(place, &m, error)); break;
    case PF_SCHEME_AWQ: PF_TRY(pf_quantised_find_awq(place, &m, error)); break;
    case PF_SCHEME_SCALED: PF_TRY(pf_quantised_find_scaled(place, &m, error)); break;
    case PF_SCHEME_BITSANDBYTES: PF_TRY(pf_quantised_find_bitsandbytes(place, &m, error)); break;
    }
    *out = m;
    return PF_OK;
}

static pf_status check_finite(const pf_quantised_place *place, const pf_tensor *tensor, pf_error *error)
{
    const size_t n = tensor->data_bytes / pf_type_bytes(tensor->type);
    for (size_t i = 0; i < n; i++)
        if (!isfinite(pf_tensor_element(tensor->data, tensor->type, i)))
            return pf_fail(error, PF_FORMAT, "%s: tensor \"%s\" has a scale that is not finite", place->path,
                           tensor->name);
    return PF_OK;
}

static pf_status check_scales(const pf_quantised_place *place, const pf_quantised_matrix *m, pf_error *error)
{
    const pf_tensor *scales = &m->parts[PF_PART_SCALES], *nested = &m->parts[PF_PART_NESTED_SCALES];
    const pf_tensor *tables[] = { nested, &m->parts[PF_PART_TABLE], &m->parts[PF_PART_NESTED_TABLE] };
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (tables[i]->data != NULL) PF_TRY(check_finite(place, tables[i], error));
    if (nested->data != NULL) return PF_OK; /* the scales are bytes */
    if (!m->scales_are_e8m0) return check_finite(place, scales, error);
    for (size_t i = 0; i < scales->data_bytes; i++)
        if (scales->data[i] == 255)
            return pf_fail(error, PF_FORMAT, "%s: tensor \"%s\" has a scale that is not finite", place->path,
                           scales->name);
    return PF_OK;
}

/* compressed-tensors: an index with -1 in it gives no order (quantization/lifecycle/forward.py). */
static pf_status check_index(const pf_quantised_place *place, pf_quantised_matrix *m, pf_error *error)
{
    const pf_tensor *index = &m->parts[PF_PART_INDEX];
    bool has_none = false;
    for (int32_t k = 0; index->data != NULL && k < m->n_columns; k++) {
        const int32_t g = (int32_t)pf_quantised_word(index, k);
        has_none |= g == -1 && place->quantization->scheme == PF_SCHEME_SCALED;
        if (g >= 0 && g < m->n_groups) continue;
        if (has_none) break;
        return pf_fail(error, PF_FORMAT, "%s: tensor \"%s\" gives column %d group %d, expected 0 to %d", place->path,
                       index->name, k, g, m->n_groups - 1);
    }
    if (has_none) m->parts[PF_PART_INDEX].data = NULL;
    return PF_OK;
}

pf_status pf_quantised_check(const pf_quantised_place *place, pf_quantised_matrix *m, pf_error *error)
{
    PF_TRY(check_scales(place, m, error));
    return check_index(place, m, error);
}

void pf_quantised_row(const pf_quantised_matrix *m, int32_t row, float *out, float *scratch)
{
    float *scale = scratch, *zero = scratch + m->n_groups;
    const pf_tensor *index = &m->parts[PF_PART_INDEX];
    m->values(m, (pf_quantised_span){ row, 0, m->n_columns }, out);
    m->groups(m, (pf_quantised_span){ row, 0, m->n_groups }, scale, zero);
    if (index->data != NULL) {
        for (int32_t k = 0; k < m->n_columns; k++) {
            const uint32_t g = pf_quantised_word(index, k);
            out[k] = scale[g] * (out[k] - zero[g]) * m->factor;
        }
        return;
    }
    const int32_t within = m->runs_on ? (int32_t)((int64_t)row * m->n_columns % m->group) : 0;
    for (int32_t k = 0, g = 0, end = m->group - within; k < m->n_columns; g++) {
        if (end > m->n_columns) end = m->n_columns;
        for (; k < end; k++) out[k] = scale[g] * (out[k] - zero[g]) * m->factor;
        end = k > m->n_columns - m->group ? m->n_columns : k + m->group;
    }
}

size_t pf_quantised_bytes(const pf_quantised_matrix *m)
{
    size_t bytes = 0;
    for (int i = 0; i < PF_N_PARTS; i++) bytes += m->parts[i].name != NULL ? m->parts[i].data_bytes : 0;
    return bytes;
}
