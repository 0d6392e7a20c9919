/* Rounding of weights to integers, a stretch of a row at a time. Internal. */
#ifndef PF_KERNELS_GEMM_QUANTISE_H
#define PF_KERNELS_GEMM_QUANTISE_H

#include "kernels/gemm/layout.h"

/* What a group is rounded with: q_stored = clamp(round(w / scale) + zero, low, high). */
typedef struct {
    float scale;
    int32_t zero; /* 128, 8 or z */
} pf_gemm_rounding;

/* What a group's rounding is found from. Floats as integers of the same order. */
typedef struct {
    int32_t low, high; /* of the values and 0 */
    int32_t magnitude; /* the largest */
    bool negative;     /* the first of that magnitude */
} pf_gemm_range;

/* n values of a row from value k on, as f32: finite, where the row is not. */
void pf_gemm_load_finite(float *out, const unsigned char *row, pf_type type, size_t k, size_t n);

/* Take n values more into the range; of none, all is zero. */
void pf_gemm_range_add(pf_gemm_range *range, const float *values, size_t n);

/* The rounding for values of this range, its scale already what will be stored. */
pf_gemm_rounding pf_gemm_rounding_of(const pf_gemm_layout *l, const pf_gemm_range *range);

/* n values to stored bytes: q + 128, or q. */
void pf_gemm_round(const pf_gemm_layout *l, const pf_gemm_rounding *rounding, const float *values, uint8_t *stored,
                   size_t n);

#endif
