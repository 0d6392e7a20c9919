/* Element types of tensors, as files name them and as kernels read them. */
#ifndef PF_KERNELS_TYPES_H
#define PF_KERNELS_TYPES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef enum {
    PF_TYPE_F32,
    PF_TYPE_F16,  /* IEEE binary16 */
    PF_TYPE_BF16, /* the upper half of a binary32 */
    PF_N_TYPES
} pf_type;

/* Bytes of one element. */
static inline size_t pf_type_bytes(pf_type type)
{
    return type == PF_TYPE_F32 ? 4 : 2;
}

/* "f32", "f16", "bf16": a static string. */
const char *pf_type_name(pf_type type);

static inline float pf_bf16_to_f32(uint16_t h)
{
    const uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Round to nearest, ties to even; a NaN stays one (quiet). Denormals are kept: VCVTNEPS2BF16 flushes them, and the
 * kernels that use it say so. */
static inline uint16_t pf_bf16_from_f32(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return (uint16_t)((bits >> 16) | 0x40u);
    return (uint16_t)((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

/* IEEE binary16 to binary32, exactly. */
float pf_f16_to_f32(uint16_t h);

/* Round to nearest, ties to even; beyond 65504 to infinity from 65520 on; a NaN stays one (quiet). */
uint16_t pf_f16_from_f32(float f);

#endif
