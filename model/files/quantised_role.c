#include "model/files/quantised_role.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The name of the file's tensors without ".weight". False: this role is never quantised. */
static bool find_stem(const pf_checkpoint *c, pf_tensor_id id, char out[PF_MAX_TENSOR_NAME])
{
    static const char weight[] = ".weight";
    const pf_tensor_pattern *pattern = pf_config_pattern(&c->config, id.role);
    int32_t rows, columns;
    pf_config_shape(&c->config, id.role, &rows, &columns);
    if (c->config.quantization.scheme == PF_SCHEME_NONE || columns == 0 || pattern->stacked || pattern->bare)
        return false;
    pf_checkpoint_name(c, id, "weight", out);
    const size_t n = strlen(out), n_weight = sizeof weight - 1;
    if (n <= n_weight || strcmp(out + n - n_weight, weight) != 0) return false;
    out[n - n_weight] = '\0';
    return true;
}

static pf_quantised_place place_of(const pf_checkpoint *c, const pf_quantised_role *role)
{
    return (pf_quantised_place){ .files = &c->source,
                                 .quantization = &c->config.quantization,
                                 .path = c->directory,
                                 .stem = role->stem,
                                 .n_rows = role->rows.map.file_rows,
                                 .n_columns = role->rows.columns };
}

/* Also where the plain tensor of a role is transposed (Conv1D) the quantised one has a row for each output. */
pf_status pf_quantised_role_find(const pf_checkpoint *c, pf_tensor_id id, pf_quantised_role *out, pf_error *error)
{
    int32_t rows, columns;
    out->matrix.n_groups = 0;
    if (!find_stem(c, id, out->stem)) return PF_OK;
    pf_config_shape(&c->config, id.role, &rows, &columns);
    out->rows = pf_role_rows_of(&c->config, id, columns);
    out->rows.transposed = false;
    const pf_quantised_place place = place_of(c, out);
    return pf_quantised_find(&place, &out->matrix, error);
}

pf_status pf_quantised_role_check(const pf_checkpoint *c, pf_quantised_role *role, pf_error *error)
{
    const pf_quantised_place place = place_of(c, role);
    return pf_quantised_check(&place, &role->matrix, error);
}

pf_status pf_quantised_role_gather(const pf_checkpoint *c, pf_quantised_role *role, pf_checkpoint_rows *out,
                                   pf_error *error)
{
    const pf_role_rows *rows = &role->rows;
    const size_t n_rows = (size_t)rows->rows, n_columns = (size_t)rows->columns;
    PF_TRY(pf_quantised_role_check(c, role, error));
    float *values = malloc(n_rows * n_columns * sizeof *values);
    float *scratch = malloc(2 * (size_t)role->matrix.n_groups * sizeof *scratch);
    if (values == NULL || scratch == NULL) {
        free(values);
        free(scratch);
        return pf_fail(error, PF_NOMEM, "%s: no memory to widen %zu weights of \"%s\"", c->directory,
                       n_rows * n_columns, role->stem);
    }
    for (int32_t r = 0; r < rows->rows; r++) {
        const int64_t file_row = pf_role_rows_element(rows, r, 0) / rows->columns;
        pf_quantised_row(&role->matrix, (int32_t)file_row, values + (size_t)r * n_columns, scratch);
    }
    free(scratch);
    *out = (pf_checkpoint_rows){
        .source = { .data = values, .type = PF_TYPE_F32, .n_rows = rows->rows, .stride = n_columns },
        .gathered = values,
        .file_bytes = (size_t)((double)pf_quantised_bytes(&role->matrix) * rows->rows / rows->map.file_rows),
    };
    return PF_OK;
}

bool pf_quantised_role_is_packed(const pf_checkpoint *c, pf_tensor_role role)
{
    static const char *const parts[] = { "qweight", "weight_packed" };
    char stem[PF_MAX_TENSOR_NAME], name[PF_MAX_TENSOR_NAME];
    bool is_there = false;
    if (!find_stem(c, (pf_tensor_id){ .role = role }, stem)) return false;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(name, sizeof name, "%.120s.%s", stem, parts[i]);
        is_there |= pf_tensor_source_dtype(&c->source, name) != NULL;
    }
    return is_there;
}

bool pf_quantised_is_zero_bias(const pf_checkpoint *c, const char *name)
{
    static const char bias[] = ".bias";
    char packed[PF_MAX_TENSOR_NAME];
    const size_t n = strlen(name), n_bias = sizeof bias - 1;
    pf_tensor tensor;
    if (c->config.quantization.scheme != PF_SCHEME_GPTQ || n <= n_bias || n > 120) return false;
    if (strcmp(name + n - n_bias, bias) != 0) return false;
    snprintf(packed, sizeof packed, "%.*s.qweight", (int)(n - n_bias), name);
    if (pf_tensor_source_dtype(&c->source, packed) == NULL) return false;
    if (pf_tensor_source_find(&c->source, name, &tensor, NULL) != PF_OK) return false;
    bool is_zero = true;
    for (size_t i = 0; i < tensor.data_bytes / pf_type_bytes(tensor.type); i++)
        is_zero &= pf_tensor_element(tensor.data, tensor.type, i) == 0.0f;
    return is_zero;
}
