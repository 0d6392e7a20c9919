/*
 * Opens safetensors files, one or several shards: named tensors, memory-mapped.
 *
 *   file:  u64 header length | header: JSON {"name": {"dtype", "shape", "data_offsets": [begin, end]}} | data
 *   shard index (model.safetensors.index.json):  {"weight_map": {"name": "file"}}
 *
 * Where two shards hold a tensor, the index decides which one is read. Shards without an index are read as one set.
 *
 * Every number of the header is checked against the file: the length of the header; byte ranges, which must match the shape and
 * the element size and cover the data from the first byte to the last without overlap; names, which must be unique.
 * Source: the format's description in huggingface/safetensors, README.
 */
#ifndef PF_MODEL_SAFETENSORS_H
#define PF_MODEL_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/status.h"
#include "gguf/ggml_types.h"
#include "kernels/types.h"
#include "model/config/load_policy.h"

enum { PF_MAX_DIMENSIONS = 8 };

typedef struct pf_safetensors pf_safetensors;

/* A tensor of an open set. The data are borrowed until close and may be unaligned. */
typedef struct {
    const char *name;
    pf_type type;
    int32_t n_dimensions;
    int64_t shape[PF_MAX_DIMENSIONS]; /* outermost first */
    const uint8_t *data;
    size_t data_bytes;
    pf_ggml_type
        blocks; /* of a GGUF file: what data hold, which become elements of `type`; PF_GGML_F32: these elements */
    const struct pf_exact_groups
        *groups; /* its weights without a second rounding (exact_groups.h); NULL: it has none */
} pf_tensor;

/* Element i of a tensor's data, exactly. */
static inline float pf_tensor_element(const void *data, pf_type type, size_t i)
{
    float value;
    uint16_t half;
    if (type == PF_TYPE_F32) {
        memcpy(&value, (const uint8_t *)data + i * sizeof value, sizeof value);
        return value;
    }
    memcpy(&half, (const uint8_t *)data + i * sizeof half, sizeof half);
    return type == PF_TYPE_BF16 ? pf_bf16_to_f32(half) : pf_f16_to_f32(half);
}

/* Opens DIR/model.safetensors, or the shards that DIR/model.safetensors.index.json names, none of them by a path that begins
 * with / or holds ".."; or, where neither is there, all of DIR/NAME-00001-of-0000N.safetensors, or the one other file of
 * that kind. `policy` decides about the latter, and about tensors that are not in the shard that the index names but in
 * another one. NULL: they are read.
 * PF_UNAVAILABLE: no weights are there, or a shard is missing.  PF_UNSUPPORTED: weights are there in a form that is not read;
 * the sentence says which.  PF_FORMAT: names file, tensor, value and expectation.
 * PF_INVALID: a file exists and cannot be opened, is not a regular file, or has too long a path.  PF_LIMIT: an index or a
 * header is too long.  PF_NOMEM. An element type that is not read is refused when the tensor is asked for, not before.
 * The caller ends it with pf_safetensors_close. */
PF_MUST_USE pf_status pf_safetensors_open(const char *directory, const pf_load_policy *policy, pf_safetensors **out,
                                          pf_error *error);
void pf_safetensors_close(pf_safetensors *set); /* NULL is fine */

/* Called after the last read. PF_INVALID: a file was written to since it was opened (the sentence names it), so the data may be
 * inconsistent. A file that was replaced by another is read as it was. */
PF_MUST_USE pf_status pf_safetensors_check(const pf_safetensors *set, pf_error *error);

int32_t pf_safetensors_count(const pf_safetensors *set);

/* Finds a tensor. PF_UNAVAILABLE: there is none (the sentence names it).  PF_UNSUPPORTED: its elements are not F32, F16 or BF16. */
PF_MUST_USE pf_status pf_safetensors_find(const pf_safetensors *set, const char *name, pf_tensor *out, pf_error *error);

/* Finds a tensor of bytes: `dtype` is the format's name of its element type, "I8" or "U8". PF_UNAVAILABLE: there is none.
 * PF_FORMAT: it has another element type. `type` of *out is undefined. */
PF_MUST_USE pf_status pf_safetensors_find_bytes(const pf_safetensors *set, const char *name, const char *dtype,
                                                pf_tensor *out, pf_error *error);

/* The format's name of a tensor's element type; NULL: there is no such tensor. */
const char *pf_safetensors_dtype_of(const pf_safetensors *set, const char *name);

/* The format's name of a type: "BF16". */
const char *pf_safetensors_dtype(pf_type type);

/* The i-th name, 0 <= i < count, in the order of the files, and the number of its tensor's dimensions. */
const char *pf_safetensors_name(const pf_safetensors *set, int32_t i);
int32_t pf_safetensors_dimensions(const pf_safetensors *set, int32_t i);

/* The name of its element type: "BF16", "I8". */
const char *pf_safetensors_type_name(const pf_safetensors *set, int32_t i);

#endif
