/*
 * A model on a GPU as a forward backend: weights in BF16, a paged cache of keys and values, and passes of one fixed number of rows.
 *
 * This header names no CUDA. Without CUDA (verify/without_cuda.c) open and the list of devices fail with PF_UNAVAILABLE and a
 * sentence that says so.
 *
 * Matrices and activations that are multiplied are BF16, sums F32: a matrix in another type is rounded to BF16, to nearest, ties
 * to even; integers are widened to F32 first. Every pass runs padded to the same number of rows, with one algorithm a product, so
 * that a row's logits do not depend on the others (docs/cuda.md).
 *
 * Threads: one caller at a time. No call but open and close allocates.
 */
#ifndef PF_VERIFY_CUDA_BACKEND_H
#define PF_VERIFY_CUDA_BACKEND_H

#include "model/backend/forward_backend.h"
#include "model/config/config.h"

typedef struct pf_cuda_backend pf_cuda_backend;

typedef struct {
    int32_t device;         /* 0: the first */
    int32_t max_tokens;     /* longest sequence; 0: the model's context, at most PF_CUDA_DEFAULT_CONTEXT */
    int32_t max_sequences;  /* 0: 1 */
    int32_t kv_sequences;   /* of max_tokens that the cache has pages for; 0: max_sequences */
    int32_t kv_pages;       /* of PF_PAGE_TOKENS; 0: by kv_sequences */
    int32_t max_rows;       /* of every pass, padding included; 0: PF_CUDA_DEFAULT_ROWS, at most PF_CUDA_MOST_ROWS */
    int32_t segment_tokens; /* of attention (cuda_launch.h), at least; 0: PF_CUDA_DEFAULT_SEGMENT */
    bool without_graphs;    /* queue the operations of each pass one by one */
    pf_isa isa;             /* of the CPU's arithmetic on logits */
    const volatile bool *cancel; /* of open; or NULL */
    pf_load_policy policy;
    void (*progress)(void *user, size_t done_bytes, size_t total_bytes); /* or NULL */
    void *progress_user;
} pf_cuda_options;

enum {
    PF_CUDA_DEFAULT_CONTEXT = 8192,
    PF_CUDA_DEFAULT_ROWS = 64,
    PF_CUDA_MOST_ROWS = 512,
    PF_CUDA_DEFAULT_SEGMENT = 256,
    PF_CUDA_MOST_HEAD_DIM = 256
};

/* Loads a model directory or a GGUF file. The caller ends it with pf_cuda_backend_close.
 * As pf_checkpoint_open; PF_UNAVAILABLE: no device, or a driver that is too old, or a library is missing; PF_NOMEM: it does not
 * fit the device; PF_UNSUPPORTED: a plan that the device's kernels do not have; PF_INVALID: an option is out of range;
 * PF_CANCELLED. The sentence says which. */
PF_MUST_USE pf_status pf_cuda_backend_open(const char *path, const pf_cuda_options *options, pf_cuda_backend **out,
                                           pf_error *error);
void pf_cuda_backend_close(pf_cuda_backend *backend); /* NULL is fine */

/* Valid until close. After a fault of the device every pass fails with PF_UNAVAILABLE, and the sequences are as before it. */
pf_forward_backend pf_cuda_forward_backend(pf_cuda_backend *backend);

/* Why the last pass failed, where the device or a library refused something: a sentence; else "". */
const char *pf_cuda_backend_refusal(const pf_cuda_backend *backend);

const pf_config *pf_cuda_backend_config(const pf_cuda_backend *backend);
int64_t pf_cuda_backend_parameter_count(const pf_cuda_backend *backend);
size_t pf_cuda_backend_weight_bytes(const pf_cuda_backend *backend); /* on the device */
size_t pf_cuda_backend_cache_bytes(const pf_cuda_backend *backend);

/* Whether the device's kernels compute a plan. PF_UNSUPPORTED: the sentence names what they do not. */
PF_MUST_USE pf_status pf_cuda_check_plan(const char *path, const pf_config *config, pf_error *error);

typedef struct {
    char name[128];
    size_t memory_bytes, free_bytes;
    int32_t major, minor; /* of the compute capability */
    int32_t n_processors;
    double bandwidth_gb_per_s; /* of its memory, by clock and width; 0: unknown */
} pf_cuda_device;

/* The devices of this machine: *n of them, the first `capacity` written. PF_UNAVAILABLE: there is none, or no driver. */
PF_MUST_USE pf_status pf_cuda_list_devices(pf_cuda_device *out, int32_t capacity, int32_t *n, pf_error *error);

/* Whether this build has CUDA at all. */
bool pf_cuda_is_built(void);

#endif
