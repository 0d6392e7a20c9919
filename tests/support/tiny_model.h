/*
 * Creates small random Llama models for tests: a directory with config.json and model.safetensors.
 *
 * The weights are large enough that a wrong rotation, mask, head order or scaling shows in the logits, and depend on the
 * options only. An I/O error aborts with a sentence.
 */
#ifndef PF_TESTS_SUPPORT_TINY_MODEL_H
#define PF_TESTS_SUPPORT_TINY_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/types.h"

/* 0 and NULL stand for the default in the comment. */
typedef struct {
    int32_t hidden;       /* 64 */
    int32_t layers;       /* 2 */
    int32_t heads;        /* 4 */
    int32_t kv_heads;     /* 2 */
    int32_t head_dim;     /* 16 */
    int32_t intermediate; /* 96 */
    int32_t vocab;        /* 128 */
    int32_t max_position; /* 512 */
    bool tied, attention_bias, mlp_bias;
    pf_type type;      /* of the tensors: PF_TYPE_F32 */
    const char *other; /* substring of the names of tensors of another type; none */
    pf_type other_type;
    const char *rope_scaling; /* JSON object of the field in config.json; absent */
    bool rotary_buffers;      /* inv_freq tensors, as old checkpoints carry them */
    int32_t nan_token;        /* the token with NaN in its row of the embedding; 0: none */
    const char *extra;        /* name of one more tensor, a vector of `hidden`; none */
    uint64_t seed;
} pf_tiny_model;

enum { PF_TINY_PATH = 256 };

/* Writes the two files into an existing directory. */
void pf_tiny_model_write(const char *directory, const pf_tiny_model *options);

/* Creates a directory under $TMPDIR or /tmp and writes into it; the caller removes it. */
void pf_tiny_model_create(const pf_tiny_model *options, char directory[PF_TINY_PATH]);

/* Removes a directory and the regular files in it. */
void pf_tiny_model_remove(const char *directory);

#endif
