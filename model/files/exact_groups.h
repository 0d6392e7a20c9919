/*
 * Gives the weights of a tensor that other software has quantised as groups of integers with scales, exactly as the file has them.
 *
 * Packing takes them from here without a second rounding (PF_FORMAT_EXACT, kernels/gemm/format.h). A reader of such checkpoints,
 * GGUF blocks or GPTQ, has one pf_exact_groups for each kind of tensor, or for each tensor, and puts its address in
 * pf_tensor.groups. The tensor can still be read as elements of its `type`: the values of a row that are computed from the groups
 * in F32 must be the same numbers:
 *
 *   SYMMETRIC   s * q (8 bits), s * (q - 8) (4 bits)      the integer times s, rounded to F32 once
 *   ZERO        s * (q - z)                               likewise
 *   MINIMUM     s * q + m                                 the product rounded, then the sum
 *   SUPER       s is super_scale * scale rounded, m is -(super_offset * offset) rounded
 *
 * A tensor whose groups are not runs of consecutive values of a row (GPTQ with act-order) has none of these: NULL.
 */
#ifndef PF_MODEL_EXACT_GROUPS_H
#define PF_MODEL_EXACT_GROUPS_H

#include "kernels/gemm/format.h"
#include "model/files/safetensors.h"

typedef struct pf_exact_groups {
    pf_group_format format;

    /* Writes values [k, k + n) of row `row` of the tensor to *out: of its shape seen as [product of the other dimensions, last
     * dimension]. k is a multiple of 256, n at most 256, and 256 except at the end of a row. It must not fail: sizes and integers
     * were checked when the tensor was found. Threads: any number may call it at once. */
    void (*fill)(const pf_tensor *tensor, int64_t row, int32_t k, int32_t n, pf_group_piece *out);

    const void
        *state; /* the reader's own, borrowed until the source is closed; fill finds it by tensor->groups->state */
} pf_exact_groups;

/* The groups of a GGUF block type; NULL: its elements are numbers. Static. */
const pf_exact_groups *pf_exact_groups_of_blocks(pf_ggml_type type);

#endif
