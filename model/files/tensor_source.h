/*
 * Finds the tensors of a model by name, in safetensors or in a GGUF file.
 *
 * Threads: any number may read.
 */
#ifndef PF_MODEL_TENSOR_SOURCE_H
#define PF_MODEL_TENSOR_SOURCE_H

#include "gguf/gguf.h"
#include "model/files/safetensors.h"

/* One of the two is set. */
typedef struct {
    pf_safetensors *safetensors;
    pf_gguf *gguf;
} pf_tensor_source;

/* Opens a directory, or a GGUF file. As pf_safetensors_open and pf_gguf_open. The caller ends it with pf_tensor_source_close. */
PF_MUST_USE pf_status pf_tensor_source_open(const char *path, const pf_load_policy *policy, pf_tensor_source *out,
                                            pf_error *error);
void pf_tensor_source_close(pf_tensor_source *source); /* zeroed is fine */

/* As pf_safetensors_check. */
PF_MUST_USE pf_status pf_tensor_source_check(const pf_tensor_source *source, pf_error *error);

int32_t pf_tensor_source_count(const pf_tensor_source *source);
const char *pf_tensor_source_name(const pf_tensor_source *source, int32_t i);
int32_t pf_tensor_source_dimensions(const pf_tensor_source *source, int32_t i);

/* The name of the type of the i-th tensor in its format: "BF16", "Q4_K". */
const char *pf_tensor_source_type_name(const pf_tensor_source *source, int32_t i);

/* Finds a tensor. PF_UNAVAILABLE: there is none (the sentence names it).  PF_UNSUPPORTED: its elements are of a type that is not
 * read. */
PF_MUST_USE pf_status pf_tensor_source_find(const pf_tensor_source *source, const char *name, pf_tensor *out,
                                            pf_error *error);

/* As pf_safetensors_dtype_of. A GGUF file: NULL. */
const char *pf_tensor_source_dtype(const pf_tensor_source *source, const char *name);

/* As pf_safetensors_find_bytes. A GGUF file has none: PF_UNAVAILABLE. */
PF_MUST_USE pf_status pf_tensor_source_find_bytes(const pf_tensor_source *source, const char *name, const char *dtype,
                                                  pf_tensor *out, pf_error *error);

#endif
