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
 *
 * The format `exact` holds weights that others have quantised in groups with scales of their own, without a second rounding:
 * GGUF blocks, GPTQ, AWQ. Nothing is rounded to it, so it stands outside of PF_N_FORMATS. Each matrix has its own groups
 * (pf_group_format); all share one form of activations, int8 with a scale for every 32 values of k.
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
    PF_N_FORMATS,                   /* of those that numbers are rounded to or kept in */
    PF_FORMAT_EXACT = PF_N_FORMATS, /* groups of others */
    PF_N_ALL_FORMATS
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

/* How the scales of groups are stored. */
typedef enum {
    PF_GROUP_SCALES_F16,
    PF_GROUP_SCALES_BF16,
    PF_GROUP_SCALES_F32,
    PF_GROUP_SCALES_SUPER, /* an integer of -128 .. 127 a group, times an F16 scale for every 256 values */
} pf_group_scales;

/* What is added to q * s. */
typedef enum {
    PF_GROUP_SYMMETRIC, /* nothing: s * q of 8 bits, s * (q - 8) of 4 */
    PF_GROUP_ZERO,      /* an integer zero point a group: s * (q - z) */
    PF_GROUP_MINIMUM,   /* a minimum a group: s * q + m, of SUPER s * q - m */
} pf_group_offset;

/* The groups of a matrix in PF_FORMAT_EXACT. A row is cut at the multiples of the group; the last may be short. */
typedef struct {
    int32_t bits;           /* 8: q in -128 .. 127; 4: q in 0 .. 15 */
    int32_t group;          /* values of k: 16, 32, 64, 128, 256; 0: the whole row */
    pf_group_scales scales; /* of SUPER a group is 16 or 32 */
    pf_group_offset offset; /* stored as the scales are; of SUPER none or a minimum */
} pf_group_format;

enum { PF_GROUP_SUPER_VALUES = 256 }; /* that share the F16 scales of PF_GROUP_SCALES_SUPER */

/* Values [k, k + n) of a row in groups, k a multiple of 256 and n at most 256. Every number is exactly what the file has, NaN and
 * infinities too. Groups are those of these values, in order. */
typedef struct {
    int8_t q[PF_GROUP_SUPER_VALUES];         /* in the range of pf_group_format.bits */
    float scale[PF_GROUP_SUPER_VALUES / 16]; /* s; of SUPER its integer */
    float offset[PF_GROUP_SUPER_VALUES /
                 16];                /* z, 0 .. 255 and an integer, or m; of SUPER its integer. SYMMETRIC: unused */
    float super_scale, super_offset; /* what those integers are multiplied with; else unused */
} pf_group_piece;

/* Which of the groups of a piece has its value i. */
static inline int32_t pf_group_of(const pf_group_format *groups, int32_t i)
{
    return groups->group == 0 ? 0 : i / groups->group;
}

/* A format that holds matrices of both exactly, so that they can be stacked: the smaller group, the wider numbers. */
pf_group_format pf_group_format_of_both(const pf_group_format *a, const pf_group_format *b);

bool pf_group_format_is_equal(const pf_group_format *a, const pf_group_format *b);

/* "4 bits in groups of 32, f16 scales and minima": into `out`. */
enum { PF_GROUP_NAME_BYTES = 80 };
void pf_group_format_name(const pf_group_format *groups, char out[PF_GROUP_NAME_BYTES]);

/* A static table's row. */
const pf_format_info *pf_format_get(pf_format format);

/* "f32", "bf16", "int8": a static string, the word that --act takes. */
const char *pf_act_name(pf_act act);

/* Whether there are kernels for the two together: an integer format with int8 or bf16, the others with their own. */
bool pf_format_takes(pf_format format, pf_act act);

#endif
