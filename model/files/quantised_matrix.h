/*
 * Reads a matrix that another program quantised, row by row, as the F32 numbers that its format defines.
 *
 *      x[n, k] = scale[g] * (q[n, k] - zero[g]),  g the group of (n, k): one subtraction, exact, and one rounding
 *
 *      N rows, K columns, G groups a row; b bits, 32 / b values in a word, the first in its lowest bits
 *
 *      GPTQ           X.qweight I32 [K b / 32, N]    X.scales [G, N]    X.qzeros I32 [G, N b / 32]    X.g_idx I32 [K], or none
 *      AWQ            X.qweight I32 [K, N / 8]       X.scales [G, N]    X.qzeros I32 [G, N / 8]       b = 4
 *                     nibbles of a word: columns 0 2 4 6 1 3 5 7
 *      SCALED         X.weight_packed I32 [N, K b / 32], q less 2^(b - 1)    X.weight_shape I64 [2]
 *                     X.weight_zero_point I32 [N b / 32, G], likewise, or none    X.weight_g_idx I32 [K], or none
 *                     or X.weight I8 [N, K]          X.weight_zero_point I8, as the scales, or none
 *                     or X.weight F8_E4M3 [N, K]     X.weight_scale or X.weight_scale_inv
 *                     scales [], [1], [N], [N, 1], [N, G], or one a block of rows and columns
 *      BITSANDBYTES   X.weight U8 [N K / 2, 1], high nibbles first, an index of X.weight.quant_map [16]
 *                     X.weight.absmax F32 [N K / blocksize], a group counts on through the rows; or U8, an index of
 *                     X.weight.nested_quant_map [256], times X.weight.nested_absmax, plus an offset
 *                     X.weight.quant_state.bitsandbytes__nf4 or __fp4: JSON
 *                     or X.weight I8 [N, K]          X.SCB F32 [N]; x = SCB q / 127
 *
 * The sizes that a word divides are rounded up. Scales are F32, F16 or BF16; of FP8 also F8_E8M0.
 * Source: AutoGPTQ and GPTQModel (QuantLinear.pack), AutoAWQ (awq/utils/packing_utils.py), compressed-tensors
 * (compressors/pack_quantized), transformers (integrations/finegrained_fp8.py), bitsandbytes (QuantState).
 *
 * Internal to model/files. Threads: any number may read.
 */
#ifndef PF_MODEL_QUANTISED_MATRIX_H
#define PF_MODEL_QUANTISED_MATRIX_H

#include "kernels/gemm/format.h"
#include "model/config/quantization.h"
#include "model/files/tensor_source.h"

/* Where a matrix is looked for. */
typedef struct {
    const pf_tensor_source *files;
    const pf_quantization *quantization;
    const char *path; /* for errors */
    const char *stem; /* the name without ".weight" */
    int32_t n_rows, n_columns;
} pf_quantised_place;

/* The tensors of a matrix. */
typedef enum {
    PF_PART_VALUES, /* q */
    PF_PART_SCALES,
    PF_PART_ZEROS,
    PF_PART_INDEX, /* the group of each column */
    PF_PART_TABLE, /* of bitsandbytes, and the next two */
    PF_PART_NESTED_SCALES,
    PF_PART_NESTED_TABLE,
    PF_PART_NOTE, /* what describes the others: weight_shape, quant_state, weight_format */
    PF_N_PARTS
} pf_quantised_part;

typedef struct pf_quantised_matrix pf_quantised_matrix;

/* A part of a row: n columns or n groups from `first` on. */
typedef struct {
    int32_t row, first, n;
} pf_quantised_span;

/* Reads q of some columns as numbers to out [n]. The first is a multiple of 256. */
typedef void pf_quantised_values_fn(const pf_quantised_matrix *m, pf_quantised_span columns, float *out);

/* Reads the scales and the zero points of some groups, to scale and zero [n]. */
typedef void pf_quantised_groups_fn(const pf_quantised_matrix *m, pf_quantised_span groups, float *scale, float *zero);

struct pf_quantised_matrix {
    int32_t n_rows, n_columns;
    int32_t n_groups;            /* of a row, at most; 0: the files hold it as a plain tensor, or not at all */
    pf_tensor parts[PF_N_PARTS]; /* data NULL: none */
    pf_quantised_values_fn *values;
    pf_quantised_groups_fn *groups;
    bool are_integers; /* q and zero points: of at most four bits from `lowest` on, else of eight */
    int32_t lowest;
    int32_t bits;         /* of packed values */
    int32_t group;        /* columns of a group */
    bool runs_on;         /* groups are counted through the rows: a row may begin within one */
    int32_t rows_a_scale; /* rows that share their scales */
    int64_t row_step;     /* from the scales of a row to the next that has others, in elements */
    bool zeros_less_one;  /* as pf_quantization */
    bool scales_are_e8m0; /* powers of two */
    float factor;         /* of every element, behind its scale */
    int32_t nested_group; /* scales that share a nested one */
    float nested_offset;
};

/* Finds a matrix and checks the types and shapes of its parts. PF_FORMAT: a part is missing, or has another type or shape.
 * PF_UNSUPPORTED: it has a type that is not read. */
PF_MUST_USE pf_status pf_quantised_find(const pf_quantised_place *place, pf_quantised_matrix *out, pf_error *error);

/* Checks the numbers that rows are read by, and drops an index that gives no order. PF_FORMAT: a scale is not finite, or the
 * group of a column does not exist. */
PF_MUST_USE pf_status pf_quantised_check(const pf_quantised_place *place, pf_quantised_matrix *m, pf_error *error);

/* Writes a row of a checked matrix to out [n_columns]. scratch: [2 * n_groups]. */
void pf_quantised_row(const pf_quantised_matrix *m, int32_t row, float *out, float *scratch);

/* The groups that hold a matrix exactly. False: it has others. As pf_quantised_check, whose numbers are trusted. */
bool pf_quantised_exact_format(const pf_quantised_matrix *m, pf_group_format *out);

/* Writes some columns of a row in them, as pf_exact_groups.fill. */
void pf_quantised_fill(const pf_quantised_matrix *m, const pf_group_format *format, pf_quantised_span columns,
                       pf_group_piece *out);

/* The bytes of all parts. */
size_t pf_quantised_bytes(const pf_quantised_matrix *m);

#endif
