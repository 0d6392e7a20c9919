/*
 * Builds the header of a safetensors file. Tensors are declared first; their data are consecutive in the same order and may be
 * written in any order. safetensors.h describes the format.
 */
#ifndef PF_MODEL_SAFETENSORS_WRITER_H
#define PF_MODEL_SAFETENSORS_WRITER_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct {
    json_t *tensors; /* owned */
    size_t n_bytes;  /* of the data declared so far */
} pf_safetensors_header;

/* PF_NOMEM. The caller ends it with pf_safetensors_header_close. */
PF_MUST_USE pf_status pf_safetensors_header_open(pf_safetensors_header *out, pf_error *error);
void pf_safetensors_header_close(pf_safetensors_header *header); /* zeroed is fine */

/* Declares the next tensor: `dtype` is the format's name ("BF16"), shape [n_dimensions]. Its data follow the previous tensor's.
 * PF_LIMIT: the file would be larger than can be addressed. */
PF_MUST_USE pf_status pf_safetensors_header_add(pf_safetensors_header *header, const char *name, const char *dtype,
                                                const int64_t *shape, int32_t n_dimensions, size_t n_bytes,
                                                pf_error *error);

/* Prints the header with its length field, padded to a multiple of 8 bytes so that the data are aligned. The caller frees *out
 * with free(). */
PF_MUST_USE pf_status pf_safetensors_header_print(const pf_safetensors_header *header, char **out, size_t *n_bytes,
                                                  pf_error *error);

#endif
