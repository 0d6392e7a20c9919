/*
 * Converts the block formats of GGUF tensors to F32, exactly as llama.cpp and the `gguf` Python package define them.
 *
 * A block is block_elements consecutive elements of a row (gguf/ggml_types.h). q are unsigned integers of the block, d and m its
 * scale and minimum (F16), s and t scales of a group of the block:
 *
 *   Q4_0, Q5_0   d (q - 8), d (q - 16)     Q4_1, Q5_1   d q + m               Q8_0   d q, q signed
 *   Q2_K         d s q - m t, groups of 16     Q4_K, Q5_K   the same, groups of 32
 *   Q3_K, Q6_K   d s q, s and q signed, groups of 16     Q8_K   d q, d in F32
 *   IQ4_NL       d table[q]     IQ4_XS   d s table[q], groups of 32     MXFP4   2^e table[q]
 *
 * A product of scales is rounded to F32 once, and so is each step after it, from left to right.
 * Source: ggml-common.h and ggml-quants.c of ggml-org/llama.cpp; gguf-py/gguf/quants.py.
 */
#ifndef PF_MODEL_GGML_BLOCKS_H
#define PF_MODEL_GGML_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>

#include "gguf/ggml_types.h"

/* Whether a type can be converted. */
bool pf_ggml_is_readable(pf_ggml_type type);

/* Converts n elements, whole blocks of a readable type, to out [n]. `blocks` may be unaligned. */
void pf_ggml_to_f32(pf_ggml_type type, const void *blocks, size_t n, float *out);

#endif
