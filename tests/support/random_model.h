/*
 * Writes random models of any architecture for tests: a directory with a given config.json and a model.safetensors with every
 * tensor that the architecture's plan names, in the file's names and shapes.
 *
 * The weights are large enough that a wrong rotation, mask, norm or order shows in the logits, and depend on the seed only. An
 * error aborts with a sentence.
 */
#ifndef PF_TESTS_SUPPORT_RANDOM_MODEL_H
#define PF_TESTS_SUPPORT_RANDOM_MODEL_H

#include <stdint.h>

#include "tests/support/tiny_model.h"

/* Creates a directory under $TMPDIR or /tmp and writes into it, tensors in F32; the caller ends it with pf_tiny_model_remove. */
void pf_random_model_create(const char *config_json, uint64_t seed, char directory[PF_TINY_PATH]);

#endif
