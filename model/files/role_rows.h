/*
 * Gathers the rows of a role from the tensor of the file that holds them: a slice of a fused tensor, one expert of a stacked
 * one, or the columns of a transposed one.
 */
#ifndef PF_MODEL_ROLE_ROWS_H
#define PF_MODEL_ROLE_ROWS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "model/config/config.h"
#include "model/files/safetensors.h"

/* Where the rows of a role lie in a tensor of the file. */
typedef struct {
    pf_row_map map;
    int32_t rows, columns; /* of the role; columns 1: a vector */
    bool transposed;       /* the file has [columns, file_rows] */
    int32_t pair_dim;      /* the rows of each head lie in pairs (pf_gguf_form): its size; 0: they do not */
    int64_t first_element; /* of its expert */
} pf_role_rows;

/* columns 0: a vector, or a bias. */
pf_role_rows pf_role_rows_of(const pf_config *config, pf_tensor_id id, int32_t columns);

/* The shape that the file's tensor must have; returns the number of dimensions, at most 3. */
int32_t pf_role_rows_file_shape(const pf_config *config, const pf_role_rows *rows, pf_tensor_role role, bool is_vector,
                                int64_t shape[3]);

/* Whether the rows are one piece of the file, in order. */
bool pf_role_rows_are_contiguous(const pf_role_rows *rows);

/* The element of the file where row `row`, column `column` of the role lies. */
int64_t pf_role_rows_element(const pf_role_rows *rows, int32_t row, int32_t column);

/* Copies them to out [rows, columns], in the tensor's type; blocks are converted. */
void pf_role_rows_gather(const pf_role_rows *rows, const pf_tensor *tensor, void *out);

#endif
