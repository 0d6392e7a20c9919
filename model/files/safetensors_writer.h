/*
 * The header of a safetensors file that is to be written. Tensors are declared first; their data lie one behind the
 * other in the same order, and may be written in any. See safetensors.h for the format.
 */
#ifndef PF_MODEL_SAFETENSORS_WRITER_H
#define PF_MODEL_SAFETENSORS_WRITER_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct {
    json_t *tensors; /* owned */
    size_t n_bytes;  /* of data, so far */
} pf_safetensors_header;

/* PF_NOMEM. The caller ends it with pf_safetensors_header_close. */
PF_MUST_USE pf_status pf_safetensors_header_open(pf_safetensors_header *out, pf_error *error);
void pf_safetensors_header_close(pf_safetensors_header *header); /* zeroed is fine */

/* The next tensor: `dtype` is the format's word ("BF16"), shape [n_dimensions]. Its data follow those of the one before.
 * PF_LIMIT: more than can be addressed. */
PF_MUST_USE pf_status pf_safetensors_header_add(pf_safetensors_header *header, const char *name, const char *dtype,
                                                const int64_t *shape, int32_t n_dimensions, size_t n_bytes,
                                                pf_error *error);

/* The header as it stands at the front of the file, its length included, a multiple of 8 bytes long so that data are
 * aligned; the caller frees *out with free(). */
PF_MUST_USE pf_status pf_safetensors_header_print(const pf_safetensors_header *header, char **out, size_t *n_bytes,
                                                  pf_error *error);

#endif
