#include "kernels/types.h"

const char *pf_type_name(pf_type type)
{
    static const char *const names[PF_N_TYPES] = {
        [PF_TYPE_F32] = "f32", [PF_TYPE_F16] = "f16", [PF_TYPE_BF16] = "bf16"
    };
    return names[type];
}

float pf_f16_to_f32(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    const uint32_t exponent = (h >> 10) & 0x1Fu;
    const uint32_t mantissa = h & 0x3FFu;
    uint32_t bits;
    if (exponent == 31) {
        bits = sign | 0x7F800000u | mantissa << 13;
    } else if (exponent > 0) {
        bits = sign | (exponent + 112) << 23 | mantissa << 13;
    } else { /* zero or denormal: mantissa * 2^-24, which a binary32 holds as a normal number */
        const float magnitude = (float)mantissa * 0x1p-24f;
        memcpy(&bits, &magnitude, sizeof bits);
        bits |= sign;
    }
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

uint16_t pf_f16_from_f32(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    bits &= 0x7FFFFFFFu;
    if (bits > 0x7F800000u) return (uint16_t)(sign | 0x7E00u | (bits >> 13 & 0x3FFu));
    if (bits >= 0x477FF000u) return (uint16_t)(sign | 0x7C00u);
    if (bits < 0x38800000u) { /* below 2^-14: the sum's own rounding leaves units of 2^-24 in its low bits */
        float magnitude;
        memcpy(&magnitude, &bits, sizeof magnitude);
        magnitude += 0.5f;
        memcpy(&bits, &magnitude, sizeof bits);
        return (uint16_t)(sign | (bits - 0x3F000000u));
    }
    return (uint16_t)(sign | ((bits + 0xFFFu + (bits >> 13 & 1u)) - 0x38000000u) >> 13);
}
