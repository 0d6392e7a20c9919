/* Compares the shape of a tensor of the files with the one that a model needs. */
#ifndef PF_MODEL_TENSOR_SHAPE_H
#define PF_MODEL_TENSOR_SHAPE_H

#include "model/files/safetensors.h"

/* The sentence begins with `path`. `source`: what the expected shape [n] follows from: "config.json". PF_FORMAT: it differs. */
PF_MUST_USE pf_status pf_tensor_check_shape(const char *path, const char *source, const pf_tensor *tensor,
                                            const int64_t *expected, int32_t n, pf_error *error);

#endif
