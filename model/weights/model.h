/*
 * Loads a model: its configuration, and its weights packed once for the kernels of one instruction set. Immutable.
 *
 * Threads: any number may read a model; load and release are called from one.
 */
#ifndef PF_MODEL_MODEL_H
#define PF_MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/team.h"
#include "base/topology.h"
#include "kernels/kernels.h"
#include "kernels/limits/read.h"
#include "model/config/config.h"
#include "model/config/dtype.h"
#include "model/head/head_kind.h"

typedef struct pf_model pf_model;

/* The implementation of matrix products: --gemm. */
typedef enum {
    PF_BACKEND_AUTO,   /* the kernels of this tree, which are row-invariant */
    PF_BACKEND_OWN,    /* the kernels of this tree */
    PF_BACKEND_ONEDNN, /* kernels/gemm/onednn/gemm_onednn.h: not row-invariant, and holds a second copy of the weights */
    PF_N_BACKENDS
} pf_backend;

typedef struct {
    pf_dtype dtype;
    pf_activations activations;
    pf_backend backend;
    pf_head head;
    pf_isa isa;    /* from pf_cpu_best_isa() or forced */
    pf_team *team; /* packs the weights, each thread the part that it will read; borrowed during load only */
    const pf_topology *machine; /* the caches and memory that AUTO depends on; NULL: read from this machine */
    void (*progress)(void *user, size_t done_bytes, size_t total_bytes); /* or NULL; called on the caller's thread */
    void *progress_user;
    const volatile bool *cancel; /* polled every few megabytes; or NULL */
    pf_load_policy policy;       /* about keys and tensors of the files that are not read */
} pf_model_options;

/* Loads a Hugging Face directory (config.json, safetensors), or one that pf_model_quantize wrote, which loads in its own format
 * only. The tokenizer is loaded separately (tokenizer/tokenizer.h).
 * PF_UNAVAILABLE, PF_FORMAT, PF_UNSUPPORTED, PF_LIMIT (larger than memory), PF_NOMEM, PF_INVALID (not a regular file, or
 * written to meanwhile): the sentence names the file, the field or tensor, the value and what was expected. PF_CANCELLED.
 * PF_INTERNAL: as pf_topology_read, without options->machine. The caller ends it with pf_model_release. */
PF_MUST_USE pf_status pf_model_load(const char *directory, const pf_model_options *options, pf_model **out,
                                    pf_error *error);
void pf_model_release(pf_model *model); /* NULL is fine */

const pf_config *pf_model_config(const pf_model *model);
const pf_kernels *pf_model_kernels(const pf_model *model);
pf_dtype pf_model_dtype(const pf_model *model);   /* resolved: never AUTO */
pf_format pf_model_format(const pf_model *model); /* of the matrices */
pf_act pf_model_act(const pf_model *model);       /* of their activations */

/* The bytes that one decode step reads: packed weights and the LM head (of a bounded head the INT8 copy), without the embedding
 * table unless it is the head, and without the few rows that a screened head rescores. */
size_t pf_model_step_bytes(const pf_model *model);
size_t pf_model_packed_bytes(const pf_model *model); /* size of all weights in memory */
int64_t pf_model_parameter_count(const pf_model *model);

/* A packed matrix or vector, as pf_model_visit_tensors reports it. */
typedef struct {
    const char *name;   /* of its role in the architecture; a fused matrix lists its parts, "q_proj+k_proj+v_proj" */
    const char *format; /* "bf16 panels of 32", ... */
    const char *kernel; /* the kernel that reads it */
    const char *reason; /* why this format and this kernel: one sentence */
    int64_t rows, columns;
    size_t bytes; /* 0 where it shares the memory of another tensor */
} pf_model_tensor;

void pf_model_visit_tensors(const pf_model *model, void (*visit)(void *user, const pf_model_tensor *tensor),
                            void *user);

/* Reads all bytes of a decode step with the team, each thread its own share: the bandwidth limit that decode is measured
 * against. Returns the sum of the results of `read`. */
uint64_t pf_model_read_weights(const pf_model *model, pf_team *team, pf_read_fn *read);

#endif
