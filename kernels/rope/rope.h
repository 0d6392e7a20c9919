/*
 * Rotary position embedding of query or key rows, in place.
 *
 *   pair i of a head at position p turns by the angle of (p, i), 0 <= i < rot_dim / 2:
 *       a' = a * cos[p, i] - b * sin[p, i]
 *       b' = b * cos[p, i] + a * sin[p, i]
 *   half-split (Llama and others as Hugging Face stores them):  a = x[i],     b = x[i + rot_dim / 2]
 *   interleaved (GPT-J, the paper):                             a = x[2 * i], b = x[2 * i + 1]
 *
 * Elements from rot_dim on stay as they are (partial rotation). Angles and their scaling are the model's: it makes the
 * tables once.
 * Source: Su et al., arXiv:2104.09864, section 3.2.2.
 */
#ifndef PF_KERNELS_ROPE_H
#define PF_KERNELS_ROPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where the angles lie. */
typedef struct {
    const float *cos; /* [n_positions, rot_dim / 2] */
    const float *sin; /* as cos */
    int32_t rot_dim;  /* even, at most head_dim */
    bool interleaved;
} pf_rope_table;

/*   x          [n_rows, n_heads, head_dim]  f32, in place; rows `stride` elements apart, heads head_dim apart
 *   positions  [n_rows]                     each within the table
 * Products and sums are rounded apart (no fma), as PyTorch does it: the same bits on every instruction set. Denormals
 * are kept; a NaN or infinity reaches its own pair only.
 * A member may take some rows, or some heads by moving x. */
typedef void pf_rope_fn(float *x, size_t stride, int32_t n_rows, int32_t n_heads, int32_t head_dim,
                        const int32_t *positions, const pf_rope_table *table);

#endif
