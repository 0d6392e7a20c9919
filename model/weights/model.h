/*
 * A loaded model: configuration and weights, packed once for the kernels of one instruction set. Immutable.
 *
 * Threads: any number may read a model; load and release happen on one.
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

typedef struct pf_model pf_model;

/* Who multiplies: --gemm. */
typedef enum {
    PF_BACKEND_AUTO,   /* our own: the only one whose rows do not depend on how many there are */
    PF_BACKEND_OWN,    /* the kernels of this tree */
    PF_BACKEND_ONEDNN, /* kernels/gemm/onednn/gemm_onednn.h: not row-invariant, and a second copy of the weights */
    PF_N_BACKENDS
} pf_backend;

/* How the logits of the vocabulary are computed: --head. */
typedef enum {
    PF_HEAD_AUTO, /* BOUNDED where it can be, fits in memory and saves a twentieth of what a step reads from there; else FULL */
    PF_HEAD_FULL, /* as all other products */
    /* Where only the best token is asked for: an INT8 copy of the head, with bounds of its errors, tells which tokens may be
     * the best, and the full head decides among these (bounded_head.h). The same token, by half the bytes of BF16 or
     * less, and a second head in memory. Not of integer weights, F16 or a head with a bias. */
    PF_HEAD_BOUNDED,
    /* In four bits, and then the best few anew from BF16 rows (kernels/sample/rescore.h): half or a quarter of the bytes to
     * read. The best token is nearly always the same, the other logits are approximate: for a draft, never for a target.
     * Not of weights that are F32, F16 or quantised in their files. */
    PF_HEAD_SCREENED,
    PF_N_HEADS
} pf_head;

typedef struct {
    pf_dtype dtype;
    pf_activations activations;
    pf_backend backend;
    pf_head head;
    pf_isa isa;                 /* from pf_cpu_best_isa() or forced */
    pf_team *team;              /* packs the weights, each member what it will read; borrowed during load only */
    const pf_topology *machine; /* by whose caches and memory AUTO chooses; NULL: this one's, read anew */
    void (*progress)(void *user, size_t done_bytes, size_t total_bytes); /* or NULL; called on the caller's thread */
    void *progress_user;
    const volatile bool *cancel; /* looked at every few megabytes; or NULL */
    pf_load_policy policy;       /* about keys and tensors of the files that are not read */
} pf_model_options;

/* Load a Hugging Face directory: config.json, safetensors; or one that pf_model_quantize wrote, which loads in its own
 * format alone. The tokenizer is apart (tokenizer/tokenizer.h).
 * PF_UNAVAILABLE, PF_FORMAT, PF_UNSUPPORTED, PF_LIMIT (more than memory), PF_NOMEM, PF_INVALID (a file is none, or was
 * written to meanwhile): the sentence names file, field or tensor, what was found and what was expected. PF_CANCELLED.
 * PF_INTERNAL: as pf_topology_read, without options->machine. The caller ends it with pf_model_release. */
PF_MUST_USE pf_status pf_model_load(const char *directory, const pf_model_options *options, pf_model **out,
                                    pf_error *error);
void pf_model_release(pf_model *model); /* NULL is fine */

const pf_config *pf_model_config(const pf_model *model);
const pf_kernels *pf_model_kernels(const pf_model *model);
pf_dtype pf_model_dtype(const pf_model *model);   /* resolved: never AUTO */
pf_format pf_model_format(const pf_model *model); /* of the matrices */
pf_act pf_model_act(const pf_model *model);       /* what they are multiplied with */

/* Bytes that one decode step reads: packed weights and the head, not the embedding table unless it is the head, nor the few
 * rows that a screened head looks at, and of a bounded head the INT8 one. */
size_t pf_model_step_bytes(const pf_model *model);
size_t pf_model_packed_bytes(const pf_model *model); /* all that the model holds in memory */
int64_t pf_model_parameter_count(const pf_model *model);

/* What `pf_model_visit_tensors` tells of each packed matrix or vector. */
typedef struct {
    const char *name;   /* its role's in the architecture; a fused matrix lists its parts, "q_proj+k_proj+v_proj" */
    const char *format; /* "bf16 panels of 32", ... */
    const char *kernel; /* the implementation that reads it */
    const char *reason; /* why that format and that one: one sentence */
    int64_t rows, columns;
    size_t bytes; /* of its own: 0 where it lies in another one's */
} pf_model_tensor;

void pf_model_visit_tensors(const pf_model *model, void (*visit)(void *user, const pf_model_tensor *tensor),
                            void *user);

/* A bare read of all that a decode step reads, by the team, each member its own share: the limit that a decode step
 * is measured against. Returns the sum of what `read` returned. */
uint64_t pf_model_read_weights(const pf_model *model, pf_team *team, pf_read_fn *read);

#endif
