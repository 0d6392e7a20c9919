/*
 * How a weight matrix is packed, and what its activations are rounded to.
 *
 *   format            bits a weight   what a weight stands for                       activations
 *   f32               32              w                                              f32
 *   bf16              16              w                                              bf16
 *   bf16-12           12              w, the same bits                               bf16
 *   int8              8               q * s[n]                    q in -127 .. 127   int8, or bf16
 *   int4-channel      4               (q - 8) * s[n]              q in 0 .. 15       int8, or bf16
 *   -asym-channel     4               (q - z[n]) * s[n]           z in 0 .. 15
 *   int4, int4-g128   4.25, 4.06      (q - z[g, n]) * m[g, n] * s[n]                 z is 7 or 8, m in 0 .. 15
 *   -asym, -asym-g128 4.25, 4.06      the same                    z in 0 .. 15
 *
 * A group of 32 or 128 values of k has no scale of its own but a multiplier m of its column's: (q - z) * m is an integer of
 * eight bits, so a whole column is one sum of integers, and what groups gain costs a product nothing but the unpacking. It is
 * progressive group quantisation (QServe, Lin et al. 2024, section 4.1). z and m of a group are a byte, m << 4 | z, and
 * m * max(z, 15 - z) is at most 127. A symmetric group has a z of 7 where its largest weight is positive, else of 8: so one
 * of its sixteen steps is that weight. A group is cut at the multiples of its size; the last may be short. Scales are f32.
 *
 * A row of int8 activations shares a scale: sa = max |a| / 127,  qa = a / sa to the nearest integer (gemm.h has it to the
 * bit). The product of integers is exact, so it is the same on every instruction set.
 * With bf16 activations an integer weight is what it stands for, rounded to bf16.
 */
#ifndef PF_KERNELS_GEMM_FORMAT_H
#define PF_KERNELS_GEMM_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

typedef enum {
    PF_FORMAT_F32,
    PF_FORMAT_BF16,
    PF_FORMAT_BF16_12,
    PF_FORMAT_INT8,
    PF_FORMAT_INT4_G32,
    PF_FORMAT_INT4_G128,
    PF_FORMAT_INT4_CHANNEL,
    PF_FORMAT_INT4_ASYM_G32,
    PF_FORMAT_INT4_ASYM_G128,
    PF_FORMAT_INT4_ASYM_CHANNEL,
    PF_N_FORMATS
} pf_format;

typedef enum {
    PF_ACT_F32,
    PF_ACT_BF16, /* rounded to nearest, ties to even */
    PF_ACT_INT8, /* a scale a row, found as the row is packed */
    PF_N_ACTS
} pf_act;

/* What a format is, apart from its layout in memory. */
typedef struct {
    const char *name; /* the word that --dtype takes: "f32", "bf16", "int8", "int4", "int4-g128", "int4-asym", ... */
    int32_t bits;     /* of a value: 32, 16, also where twelve are stored, 8, 4 */
    int32_t group;    /* values of k that share z and m: 32, 128; 0: a whole column, or none where bits >= 16 */
    bool has_zeros;   /* asymmetric */
    pf_act act;       /* the default */
} pf_format_info;

/* A static table's row. */
const pf_format_info *pf_format_get(pf_format format);

/* "f32", "bf16", "int8": a static string, the word that --act takes. */
const char *pf_act_name(pf_act act);

/* Whether there are kernels for the two together: an integer format with int8 or bf16, the others with their own. */
bool pf_format_takes(pf_format format, pf_act act);

#endif
