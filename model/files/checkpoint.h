/*
 * Finds the weights of a model directory by role and checks them against config.json: every tensor that the model needs must
 * exist in the right shape and type. packing.c packs them, quantize.c writes them in another format.
 *
 * The files hold a matrix as it was trained, in F32, F16 or BF16, or as `pilotfish quantize` wrote it:
 *
 *   X.weight         int8: I8 [n, k], -127 .. 127      int4: U8 [n, ceil(k / 2)], the even k in the low nibble
 *   X.weight_scale   F32 [n]
 *   X.weight_head    group parameters: U8 [n, groups], m << 4 | z (kernels/gemm/format.h)
 *   X.weight_zero    zero points of asymmetric channels: U8 [n], 0 .. 15
 *
 * A role whose rows lie in a fused, transposed or stacked tensor (model/config/plan.h) has a name of its own there: that of the
 * tensor, a dot, and the word of the role: "h.0.attn.c_attn.q.weight".
 *
 * Then config.json has "quantization_config": {"quant_method": "pilotfish", "format": "int4-g128", "version": 2, ...}, and
 * every matrix that is multiplied is in that format, a tied embedding included; norms, biases and an embedding that is only
 * looked up keep their type.
 *
 * A matrix that another program quantised (quantised_matrix.h), or blocks of a GGUF file, is read as groups of integers where these
 * hold it exactly and the model is loaded so, else widened to F32.
 *
 * Files are mapped: data are read on access. Threads: any number may read.
 */
#ifndef PF_MODEL_CHECKPOINT_H
#define PF_MODEL_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "kernels/gemm/gemm.h"
#include "model/config/config.h"
#include "model/files/exact_groups.h"
#include "model/files/quantised_matrix.h"
#include "model/files/role_rows.h"
#include "model/files/tensor_source.h"

typedef struct {
    const char *directory; /* borrowed */
    pf_config config;      /* tied_embeddings is false if the files hold an LM head that differs from the embedding */
    pf_tensor_source source;
    bool named_as_head;   /* the files hold the tied embedding under the name of the LM head */
    bool without_prefix;  /* names lack the first component, "model.", as a LlamaModel saves them */
    size_t n_bytes;       /* size of the tensors that are read */
    int64_t n_parameters; /* elements of these tensors */
    int32_t n_tensors;    /* matrices and vectors; scales belong to their matrix */
    /* Types of the matrices that are not integers, the embedding included. */
    bool has_matrices[PF_N_TYPES];
    bool has_groups; /* of some matrix (exact_groups.h) */
} pf_checkpoint;

/* The rows of a matrix. */
typedef struct {
    pf_gemm_source source; /* what packing takes */
    void *gathered;        /* owned memory of the source's data; NULL: they lie in the file */
    size_t file_bytes;     /* its size in the file, where it was converted from blocks or integers; else 0 */
    pf_tensor tensor;      /* of groups: the file's blocks, or a matrix that another program quantised */
    pf_quantised_matrix quantised;
    pf_role_rows map; /* where the rows are in it */
} pf_checkpoint_rows;

/* Opens DIR, or a GGUF file, and checks the names, shapes and types of all tensors. Data are read in one case: a tied embedding and an LM head
 * beside it are compared. `cancel`, or NULL, is polled every few megabytes of that.
 * `policy` decides about keys and tensors that are not read (NULL: they are ignored).
 * As pf_config_load and pf_safetensors_open. PF_FORMAT: a tensor is missing, or has another shape or type; PF_UNSUPPORTED:
 * one would be left out that could change the logits. PF_CANCELLED. The caller ends it with pf_checkpoint_close. */
PF_MUST_USE pf_status pf_checkpoint_open(const char *directory, const pf_load_policy *policy,
                                         const volatile bool *cancel, pf_checkpoint *out, pf_error *error);
void pf_checkpoint_close(pf_checkpoint *checkpoint); /* zeroed is fine */

/* The name of the file's tensor that has a part of a role: "weight" or "bias". */
void pf_checkpoint_name(const pf_checkpoint *checkpoint, pf_tensor_id id, const char *part,
                        char out[PF_MAX_TENSOR_NAME]);

/* The name of the part that holds group parameters or zero points: "weight_head" or "weight_zero"; NULL: the format has none. */
const char *pf_checkpoint_params_part(pf_format format);

/* Finds the tensor of the file that holds a weight or a bias that is not integers, whole: other roles may share it. Borrowed
 * until close. PF_FORMAT: there is none, or it has another shape.  PF_UNSUPPORTED: its elements are of a type that is not read. */
PF_MUST_USE pf_status pf_checkpoint_tensor(const pf_checkpoint *checkpoint, pf_tensor_id id, const char *part,
                                           pf_tensor *out, pf_error *error);

/* Reads a vector: a norm, a sink, or a bias (`part`: "bias"), as F32 to out [rows of the role]. *n_bytes: its size in the file.
 * Fails as pf_checkpoint_tensor. */
PF_MUST_USE pf_status pf_checkpoint_vector(const pf_checkpoint *checkpoint, pf_tensor_id id, const char *part,
                                           float *out, size_t *n_bytes, pf_error *error);

/* Finds a matrix in the form that packing takes: in the file, or gathered in memory where its rows are no piece of a tensor.
 * Valid until close; the caller ends it with pf_checkpoint_release_matrix. PF_FORMAT: a scale is not finite, or a byte of the
 * group parameters is not valid. PF_NOMEM. */
PF_MUST_USE pf_status pf_checkpoint_matrix(const pf_checkpoint *checkpoint, pf_tensor_id id, pf_checkpoint_rows *out,
                                           pf_error *error);

/* Finds the groups that hold a weight exactly. False: the file has numbers, or what does not fit such groups. *type: what the file
 * calls them, a static string. */
bool pf_checkpoint_groups(const pf_checkpoint *checkpoint, pf_tensor_id id, pf_group_format *groups, const char **type);

/* As pf_checkpoint_matrix for a weight that has groups: as a source that fills pieces of rows. *out must not move. */
PF_MUST_USE pf_status pf_checkpoint_matrix_in_groups(const pf_checkpoint *checkpoint, pf_tensor_id id,
                                                     pf_checkpoint_rows *out, pf_error *error);

/* The same for the whole tensor of the file, as rows of its last dimension, whatever roles share it. */
PF_MUST_USE pf_status pf_checkpoint_file_matrix(const pf_checkpoint *checkpoint, pf_tensor_id id,
                                                pf_checkpoint_rows *out, pf_error *error);

/* Whether a tensor of the plan is the first of those that share its tensor of the file. */
bool pf_checkpoint_is_first(const pf_checkpoint *checkpoint, pf_tensor_id id);

/* The name under which a quantised directory holds a matrix. */
void pf_checkpoint_integer_name(const pf_config *config, pf_tensor_id id, const char *part,
                                char out[PF_MAX_TENSOR_NAME]);

/* A matrix is read in chunks of rows: a reader acquires rows [begin, end), which pages them in with one call, and releases them
 * afterwards, so that the file and the packed weights are not both resident. `acquire` also checks the values. False: one of
 * them is invalid, -128 in int8, or, where `into` is an integer format, a NaN or an infinity, which rounding would turn into
 * a number. */
bool pf_checkpoint_acquire_rows(const pf_checkpoint *checkpoint, const pf_checkpoint_rows *matrix, int32_t begin,
                                int32_t end, pf_format into);
void pf_checkpoint_release_rows(const pf_checkpoint *checkpoint, const pf_checkpoint_rows *matrix, int32_t begin,
                                int32_t end);

/* The number of rows of such a chunk: a multiple of `multiple_of`. */
int32_t pf_checkpoint_chunk(const pf_checkpoint *checkpoint, const pf_checkpoint_rows *matrix, int32_t multiple_of);

/* Its size in the files, scales and group parameters included. */
size_t pf_checkpoint_matrix_bytes(const pf_checkpoint *checkpoint, const pf_checkpoint_rows *matrix);

/* Releases the pages of the whole matrix, its scales and group parameters, or the memory that it was gathered in. */
void pf_checkpoint_release_matrix(const pf_checkpoint *checkpoint, pf_checkpoint_rows *matrix);

/* Fails with the sentence for what acquire refused. */
PF_MUST_USE pf_status pf_checkpoint_fail_rows(const pf_checkpoint *checkpoint, pf_tensor_id id, pf_format into,
                                              pf_error *error);

#endif
