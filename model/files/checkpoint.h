/*
 * The weights of a model's directory, found by role and checked against config.json: every tensor that there must be,
 * in its shape and type, and none besides. What packing.c packs and quantize.c writes anew.
 *
 * A matrix lies in the files as it was trained, in F32, F16 or BF16, or as `pilotfish quantize` wrote it:
 *
 *   X.weight         int8: I8 [n, k], -127 .. 127      int4: U8 [n, ceil(k / 2)], the even k in the low nibble
 *   X.weight_scale   F32 [n]
 *   X.weight_head    of groups: U8 [n, groups], m << 4 | z as kernels/gemm/format.h has it
 *   X.weight_zero    of asymmetric channels: U8 [n], 0 .. 15
 *
 * Then config.json has "quantization_config": {"quant_method": "pilotfish", "format": "int4-g128", "version": 2, ...}, and
 * all that is multiplied is in that format, a tied embedding with it; norms, biases and an embedding that is only looked up
 * are numbers as ever.
 *
 * Files are mapped, and read when somebody looks at the data. Threads: any number may look.
 */
#ifndef PF_MODEL_CHECKPOINT_H
#define PF_MODEL_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "kernels/gemm/gemm.h"
#include "model/config/config.h"
#include "model/files/safetensors.h"

typedef struct {
    const char *directory; /* borrowed */
    pf_config config;      /* tied_embeddings is false where the files hold a head that is not the embedding */
    pf_safetensors *set;
    bool named_as_head;   /* the one matrix of a tied embedding has the head's name in the files */
    bool without_prefix;  /* names lack the first component, "model.", as a LlamaModel saves them */
    size_t n_bytes;       /* of the tensors that are read */
    int64_t n_parameters; /* numbers that they stand for */
    int32_t n_tensors;    /* matrices and vectors; scales are part of a matrix */
    /* Whether a matrix of numbers, the embedding among them, is of a type. */
    bool has_matrices[PF_N_TYPES];
} pf_checkpoint;

/* Open DIR and look at the names, shapes and types of all tensors. Data are read in one case: of a tied embedding and a head
 * beside it, until they differ. `cancel` is looked at every few megabytes of that; or NULL.
 * `policy` decides about keys and tensors that are not read (NULL: they are ignored).
 * As pf_config_load and pf_safetensors_open. PF_FORMAT: a tensor is missing, or has another shape or type; PF_UNSUPPORTED:
 * one would be left out that could change the logits. PF_CANCELLED. The caller ends it with pf_checkpoint_close. */
PF_MUST_USE pf_status pf_checkpoint_open(const char *directory, const pf_load_policy *policy,
                                         const volatile bool *cancel, pf_checkpoint *out, pf_error *error);
void pf_checkpoint_close(pf_checkpoint *checkpoint); /* zeroed is fine */

/* The part that has the heads of an integer format: "weight_head" or "weight_zero"; NULL: it has none. */
const char *pf_checkpoint_head_part(pf_format format);

/* A tensor of numbers: a norm, a bias (`part`: "bias"), or a matrix that is not integers. Borrowed until close.
 * PF_FORMAT: there is none, or it has another shape.  PF_UNSUPPORTED: its elements are of a type that is not read. */
PF_MUST_USE pf_status pf_checkpoint_numbers(const pf_checkpoint *checkpoint, pf_tensor_role role, int32_t layer,
                                            const char *part, pf_tensor *out, pf_error *error);

/* A matrix in the form that packing takes, borrowed until close. Scales and heads have been looked at: PF_FORMAT names a
 * scale that is not finite, a byte that is no head. */
PF_MUST_USE pf_status pf_checkpoint_matrix(const pf_checkpoint *checkpoint, pf_tensor_role role, int32_t layer,
                                           pf_gemm_source *out, pf_error *error);

/* Who reads a matrix goes through its rows in stretches: it asks for rows [begin, end) before it reads them, so that
 * their pages come in one call, and gives them back afterwards, so that the file and what was made of it do not add up
 * in memory. `acquire` looks at the values as well. False: there is one that may not be, -128 in int8; or, where `into`
 * is a format of integers, a NaN or an infinity, which rounding would turn into a number. */
bool pf_checkpoint_acquire_rows(const pf_checkpoint *checkpoint, const pf_gemm_source *matrix, int32_t begin,
                                int32_t end, pf_format into);
void pf_checkpoint_release_rows(const pf_checkpoint *checkpoint, const pf_gemm_source *matrix, int32_t begin,
                                int32_t end);

/* How many rows of a matrix such a stretch should have: a multiple of `multiple_of`. */
int32_t pf_checkpoint_stretch(const pf_checkpoint *checkpoint, const pf_gemm_source *matrix, int32_t multiple_of);

/* What it takes in the files, scales and heads included. */
size_t pf_checkpoint_matrix_bytes(const pf_checkpoint *checkpoint, const pf_gemm_source *matrix);

/* Give the pages of the scales and heads back too. */
void pf_checkpoint_release_matrix(const pf_checkpoint *checkpoint, const pf_gemm_source *matrix);

/* The sentence for what acquire refuses. */
PF_MUST_USE pf_status pf_checkpoint_fail_rows(const pf_checkpoint *checkpoint, pf_tensor_role role, int32_t layer,
                                              pf_format into, pf_error *error);

#endif
