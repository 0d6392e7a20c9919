/*
 * Lists the element types of GGUF tensors: names, elements per block, bytes per block.
 *
 * Source: ggml.h (enum ggml_type) and ggml-common.h (the block structs) of ggml-org/llama.cpp.
 */
#ifndef PF_GGUF_GGML_TYPES_H
#define PF_GGUF_GGML_TYPES_H

#include <stdint.h>

/* The numbers are those of the format. */
typedef enum {
    PF_GGML_F32 = 0,
    PF_GGML_F16 = 1,
    PF_GGML_Q4_0 = 2,
    PF_GGML_Q4_1 = 3,
    PF_GGML_Q5_0 = 6,
    PF_GGML_Q5_1 = 7,
    PF_GGML_Q8_0 = 8,
    PF_GGML_Q8_1 = 9,
    PF_GGML_Q2_K = 10,
    PF_GGML_Q3_K = 11,
    PF_GGML_Q4_K = 12,
    PF_GGML_Q5_K = 13,
    PF_GGML_Q6_K = 14,
    PF_GGML_Q8_K = 15,
    PF_GGML_IQ4_NL = 20,
    PF_GGML_IQ4_XS = 23,
    PF_GGML_BF16 = 30,
    PF_GGML_MXFP4 = 39,
    PF_N_GGML_TYPES = 42,
} pf_ggml_type;

typedef struct {
    const char *name;
    int32_t block_elements; /* a power of two; rows are whole blocks */
    int32_t block_bytes;
} pf_ggml_type_info;

/* NULL: no such type is known. */
const pf_ggml_type_info *pf_ggml_type_get(uint32_t type);

#endif
