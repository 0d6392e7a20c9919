/*
 * Small random Llama models for tests: a directory with config.json and model.safetensors, made in a moment.
 *
 * The weights are large enough that a wrong rotation, mask, head order or scaling shows in the logits, and are a
 * function of the options alone. Whatever goes wrong on the way (no room, no permission) aborts with a sentence.
 */
#ifndef PF_TESTS_SUPPORT_TINY_MODEL_H
#define PF_TESTS_SUPPORT_TINY_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/types.h"

/* 0 and NULL stand for what the comment gives. */
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
    pf_type type;      /* of the tensors in the file: PF_TYPE_F32 */
    const char *other; /* part of the names of those that are of another type; none */
    pf_type other_type;
    const char *rope_scaling; /* the JSON object of config.json's field; absent */
    bool rotary_buffers;      /* inv_freq tensors, as old checkpoints carry them */
    int32_t nan_token;        /* whose row of the embedding holds no number; 0: none */
    const char *extra;        /* the name of one more tensor in the file, a vector of `hidden`; none */
    uint64_t seed;
} pf_tiny_model;

enum { PF_TINY_PATH = 256 };

/* Write the two files into an existing directory. */
void pf_tiny_model_write(const char *directory, const pf_tiny_model *options);

/* Make a directory of its own under $TMPDIR or /tmp and write into it; the caller removes it again. */
void pf_tiny_model_create(const pf_tiny_model *options, char directory[PF_TINY_PATH]);

/* Remove a directory and the plain files in it. */
void pf_tiny_model_remove(const char *directory);

#endif
