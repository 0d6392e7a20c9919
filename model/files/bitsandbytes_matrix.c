/* Matrices of bitsandbytes: NF4 and FP4, which are tables of sixteen numbers, and INT8. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "model/files/quantised_parts.h"

/* ---- four bits ----------------------------------------------------------------------------------------------------- */

static void nibble_values(const pf_quantised_matrix *m, pf_quantised_span columns, float *out)
{
    const uint8_t *bytes = m->parts[PF_PART_VALUES].data;
    const pf_tensor *table = &m->parts[PF_PART_TABLE];
    float numbers[16];
    for (size_t i = 0; i < 16; i++) numbers[i] = pf_tensor_element(table->data, table->type, i);
    const size_t first = (size_t)columns.row * (size_t)m->n_columns + (size_t)columns.first;
    for (int32_t k = 0; k < columns.n; k++) {
        const size_t i = first + (size_t)k;
        out[k] = numbers[i % 2 == 0 ? bytes[i / 2] >> 4 : bytes[i / 2] & 15];
    }
}

static float nested_scale(const pf_quantised_matrix *m, int64_t i)
{
    const pf_tensor *table = &m->parts[PF_PART_NESTED_TABLE], *nested = &m->parts[PF_PART_NESTED_SCALES];
    const float number = pf_tensor_element(table->data, table->type, m->parts[PF_PART_SCALES].data[i]);
    return number * pf_tensor_element(nested->data, nested->type, (size_t)(i / m->nested_group)) + m->nested_offset;
}

/* All groups of a row: they may run on from the row before. */
static void nibble_groups(const pf_quantised_matrix *m, pf_quantised_span groups, float *scale, float *zero)
{
    const bool is_nested = m->parts[PF_PART_NESTED_SCALES].data != NULL;
    const int64_t first = (int64_t)groups.row * m->n_columns / m->group;
    const int64_t last = ((int64_t)groups.row * m->n_columns + m->n_columns - 1) / m->group;
    for (int64_t i = first; i <= last; i++) {
        scale[i - first] = is_nested ? nested_scale(m, i) : pf_quantised_scale(m, i);
        zero[i - first] = 0.0f;
    }
}

/* The shape that the state gives must be that of the matrix. */
static pf_status check_state_shape(const pf_quantised_matrix *m, const pf_json *doc, pf_error *error)
{
    const json_t *shape = json_object_get(doc->root, "shape");
    if (json_array_size(shape) == 2 && json_integer_value(json_array_get(shape, 0)) == m->n_rows &&
        json_integer_value(json_array_get(shape, 1)) == m->n_columns)
        return PF_OK;
    return pf_fail(error, PF_FORMAT, "%s: shape: expected [%d, %d], as config.json makes it", doc->name, m->n_rows,
                   m->n_columns);
}

static pf_status read_state(const pf_json *doc, const char *type, pf_quantised_matrix *m, pf_error *error)
{
    const char *found = NULL;
    double offset = 0.0;
    PF_TRY(pf_json_get_string(doc, doc->root, "quant_type", true, &found, error));
    if (strcmp(found, type) != 0)
        return pf_fail(error, PF_FORMAT, "%s: quant_type is \"%.20s\", expected \"%s\"", doc->name, found, type);
    PF_TRY(pf_json_get_int32(doc, doc->root, "blocksize", true, 1, PF_MAX_GROUP, &m->group, error));
    PF_TRY(pf_json_get_int32(doc, doc->root, "nested_blocksize", false, 1, PF_MAX_GROUP, &m->nested_group, error));
    PF_TRY(pf_json_get_double(doc, doc->root, "nested_offset", false, -1e30, 1e30, &offset, error));
    m->nested_offset = (float)offset;
    return check_state_shape(m, doc, error);
}

/* Finds and reads X.weight.quant_state.bitsandbytes__TYPE. */
static pf_status find_state(const pf_quantised_place *place, pf_quantised_matrix *m, pf_error *error)
{
    enum { MAX_STATE_BYTES = 1 << 12 };
    static const char *const types[] = { "nf4", "fp4" };
    char part[64];
    const char *type = types[0];
    snprintf(part, sizeof part, "weight.quant_state.bitsandbytes__%s", types[1]);
    if (pf_quantised_dtype(place, part) != NULL) type = types[1];
    snprintf(part, sizeof part, "weight.quant_state.bitsandbytes__%s", type);
    pf_tensor *state = &m->parts[PF_PART_NOTE];
    PF_TRY(pf_quantised_need(place, part, "U8", NULL, -1, state, error));
    pf_json doc = { 0 };
    PF_TRY(pf_json_parse(state->name, (const char *)state->data, state->data_bytes, MAX_STATE_BYTES, &doc, error));
    const pf_status status = read_state(&doc, type, m, error);
    pf_json_close(&doc);
    return status;
}

/* Finds X.weight.absmax, and what its bytes stand for where it holds bytes. */
static pf_status find_scales(const pf_quantised_place *place, pf_quantised_matrix *m, pf_error *error)
{
    const int64_t n = ((int64_t)m->n_rows * m->n_columns + m->group - 1) / m->group, shape[] = { n };
    const char *dtype = pf_quantised_dtype(place, "weight.absmax");
    if (dtype == NULL || strcmp(dtype, "U8") != 0)
        return pf_quantised_need_floats(place, "weight.absmax", shape, 1, &m->parts[PF_PART_SCALES], error);
    if (m->nested_group == 0)
        return pf_fail(error, PF_FORMAT, "%s: tensor \"%s\" has no nested_blocksize, but the scales are bytes",
                       place->path, m->parts[PF_PART_NOTE].name);
    const int64_t nested[] = { (n + m->nested_group - 1) / m->nested_group }, table[] = { 256 };
    PF_TRY(pf_quantised_need(place, "weight.absmax", "U8", shape, 1, &m->parts[PF_PART_SCALES], error));
    PF_TRY(pf_quantised_need_floats(place, "weight.nested_absmax", nested, 1, &m->parts[PF_PART_NESTED_SCALES], error));
    return pf_quantised_need_floats(place, "weight.nested_quant_map", table, 1, &m->parts[PF_PART_NESTED_TABLE], error);
}

static pf_status find_nibbles(const pf_quantised_place *place, pf_quantised_matrix *m, pf_error *error)
{
    const int64_t n = (int64_t)m->n_rows * m->n_columns, shape[] = { (n + 1) / 2, 1 }, table[] = { 16 };
    PF_TRY(pf_quantised_need(place, "weight", "U8", shape, 2, &m->parts[PF_PART_VALUES], error));
    PF_TRY(find_state(place, m, error));
    PF_TRY(pf_quantised_need_floats(place, "weight.quant_map", table, 1, &m->parts[PF_PART_TABLE], error));
    PF_TRY(find_scales(place, m, error));
    m->runs_on = true;
    m->n_groups = m->n_columns / m->group + 2;
    m->values = nibble_values;
    m->groups = nibble_groups;
    return PF_OK;
}

/* ---- eight bits ---------------------------------------------------------------------------------------------------- */

static void int8_groups(const pf_quantised_matrix *m, pf_quantised_span groups, float *scale, float *zero)
{
    scale[0] = pf_quantised_scale(m, groups.row);
    zero[0] = 0.0f;
}

static pf_status find_int8(const pf_quantised_place *place, pf_quantised_matrix *m, pf_error *error)
{
    const int64_t shape[] = { m->n_rows, m->n_columns };
    PF_TRY(pf_quantised_need(place, "weight", "I8", shape, 2, &m->parts[PF_PART_VALUES], error));
    PF_TRY(pf_quantised_need_floats(place, "SCB", shape, 1, &m->parts[PF_PART_SCALES], error));
    PF_TRY(pf_quantised_may_have(place, "weight_format", "U8", NULL, -1, &m->parts[PF_PART_NOTE], error));
    const pf_tensor *format = &m->parts[PF_PART_NOTE];
    if (format->data != NULL && (format->data_bytes != 1 || format->data[0] != 0))
        return pf_fail(error, PF_UNSUPPORTED, "%s: tensor \"%s\" is not 0, and only rows are read", place->path,
                       format->name);
    m->n_groups = 1;
    m->group = m->n_columns;
    m->factor = 1.0f / 127.0f;
    m->values = pf_quantised_byte_values;
    m->groups = int8_groups;
    return PF_OK;
}

pf_status pf_quantised_find_bitsandbytes(const pf_quantised_place *place, pf_quantised_matrix *m, pf_error *error)
{
    const char *dtype = pf_quantised_dtype(place, "weight");
    if (dtype != NULL && strcmp(dtype, "U8") == 0) return find_nibbles(place, m, error);
    return dtype != NULL && strcmp(dtype, "I8") == 0 ? find_int8(place, m, error) : PF_OK;
}
