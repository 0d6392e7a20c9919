#include "model/files/role_rows.h"

#include <string.h>

#include "model/files/ggml_blocks.h"

pf_role_rows pf_role_rows_of(const pf_config *config, pf_tensor_id id, int32_t columns)
{
    const pf_tensor_pattern *pattern = pf_config_pattern(config, id.role);
    pf_role_rows r = { .map = pf_config_rows(config, id.role), .columns = columns > 0 ? columns : 1 };
    int32_t k;
    pf_config_shape(config, id.role, &r.rows, &k);
    r.transposed = pattern->transposed && columns > 0;
    if (config->gguf_form.head_pairs && (id.role == PF_TENSOR_Q || id.role == PF_TENSOR_K))
        r.pair_dim = config->head_dim;
    if (pattern->stacked) r.first_element = (int64_t)id.expert * r.map.file_rows * r.columns;
    return r;
}

int32_t pf_role_rows_file_shape(const pf_config *config, const pf_role_rows *r, pf_tensor_role role, bool is_vector,
                                int64_t shape[3])
{
    int32_t n = 0;
    if (pf_config_pattern(config, role)->stacked) shape[n++] = config->plan.n_experts;
    if (r->transposed) shape[n++] = r->columns;
    const bool is_of_heads = role == PF_TENSOR_Q_NORM || role == PF_TENSOR_K_NORM;
    const bool is_each = is_of_heads && config->plan.head_norm == PF_HEAD_NORM_EACH;
    if (is_each && !pf_config_pattern(config, role)->per_head) shape[n++] = r->map.file_rows / config->head_dim;
    shape[n++] = is_each ? config->head_dim : r->map.file_rows;
    if (!r->transposed && !is_vector) shape[n++] = r->columns;
    return n;
}

bool pf_role_rows_are_contiguous(const pf_role_rows *r)
{
    return !r->transposed && r->map.n_blocks == 1 && r->pair_dim == 0;
}

/* The place of a row whose head lies in pairs. */
static int32_t paired_row(int32_t row, int32_t head_dim)
{
    const int32_t within = row % head_dim, half = head_dim / 2;
    return row - within + 2 * (within % half) + within / half;
}

static int64_t file_row(const pf_role_rows *r, int32_t row)
{
    if (r->pair_dim > 0) row = paired_row(row, r->pair_dim);
    return r->map.first + (int64_t)(row / r->map.block_rows) * r->map.stride + row % r->map.block_rows;
}

int64_t pf_role_rows_element(const pf_role_rows *r, int32_t row, int32_t column)
{
    const int64_t at = file_row(r, row);
    return r->first_element + (r->transposed ? (int64_t)column * r->map.file_rows + at : at * r->columns + column);
}

/* In squares, so that both sides of a transposition stay in the cache. */
static void gather_transposed(const pf_role_rows *r, const uint8_t *data, size_t size, uint8_t *out)
{
    enum { SIDE = 64 };
    for (int32_t row = 0; row < r->rows; row += SIDE)
        for (int32_t column = 0; column < r->columns; column += SIDE)
            for (int32_t i = row; i < r->rows && i < row + SIDE; i++)
                for (int32_t j = column; j < r->columns && j < column + SIDE; j++)
                    memcpy(out + ((size_t)i * (size_t)r->columns + (size_t)j) * size,
                           data + (size_t)pf_role_rows_element(r, i, j) * size, size);
}

static void gather_blocks(const pf_role_rows *r, const pf_tensor *tensor, float *out)
{
    const pf_ggml_type_info *info = pf_ggml_type_get(tensor->blocks);
    const size_t columns = (size_t)r->columns;
    for (int32_t row = 0; row < r->rows; row++) {
        const size_t block = (size_t)pf_role_rows_element(r, row, 0) / (size_t)info->block_elements;
        pf_ggml_to_f32(tensor->blocks, tensor->data + block * (size_t)info->block_bytes, columns,
                       out + (size_t)row * columns);
    }
}

void pf_role_rows_gather(const pf_role_rows *r, const pf_tensor *tensor, void *out)
{
    const size_t size = pf_type_bytes(tensor->type), bytes = (size_t)r->columns * size;
    if (tensor->blocks != PF_GGML_F32) { /* never transposed: a GGUF file has rows */
        gather_blocks(r, tensor, out);
        return;
    }
    if (r->transposed) {
        gather_transposed(r, tensor->data, size, out);
        return;
    }
    for (int32_t row = 0; row < r->rows; row++)
        memcpy((uint8_t *)out + (size_t)row * bytes, tensor->data + (size_t)pf_role_rows_element(r, row, 0) * size,
               bytes);
}
