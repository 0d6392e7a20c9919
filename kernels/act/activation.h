/*
 * Activation functions of feed-forward blocks, gated and plain.
 *
 *   gated:    out[m, i] = act(gate[m, i]) * up[m, i]
 *   plain:    out[m, i] = act(x[m, i])
 *
 * CLAMPED_SWIGLU exists gated only, with g = min(gate, 7) and u = up within -7 .. 7:
 *             out[m, i] = g * sigmoid(1.702 g) * (u + 1)
 *
 * Sources: Shazeer, arXiv:2002.05202 (gated forms); Hendrycks and Gimpel, arXiv:1606.08415 (GELU and its approximations);
 * So et al., arXiv:2109.08668, section 3.3 (squared ReLU); the gpt-oss model card, arXiv:2508.10925 (clamped SwiGLU).
 */
#ifndef PF_KERNELS_ACTIVATION_H
#define PF_KERNELS_ACTIVATION_H

#include <stddef.h>
#include <stdint.h>

typedef enum {
    PF_ACTIVATION_SILU,           /* x * sigmoid(x) */
    PF_ACTIVATION_GELU,           /* x * Phi(x), by erf */
    PF_ACTIVATION_GELU_TANH,      /* its approximation by tanh: gelu_new, gelu_fast, gelu_pytorch_tanh */
    PF_ACTIVATION_QUICK_GELU,     /* x * sigmoid(1.702 x) */
    PF_ACTIVATION_RELU,           /* max(x, 0) */
    PF_ACTIVATION_RELU2,          /* max(x, 0)^2 */
    PF_ACTIVATION_CLAMPED_SWIGLU, /* gpt-oss; gated only */
    PF_N_ACTIVATIONS
} pf_activation;

/* "silu", "gelu", "gelu_tanh", ...: a static string, part of the kernels' names. */
const char *pf_activation_name(pf_activation activation);

/*   out       [n_rows, n_cols]  f32, rows out_stride elements apart; may be gate or up itself (with its stride)
 *   gate, up  [n_rows, n_cols]  f32, rows in_stride elements apart (two halves of one product's rows)
 *
 * act is within 5 ulp of the exact function where its result is a normal number (SILU, GELU_TANH and QUICK_GELU within 4),
 * also near 0; results below 3e-37 may be 0. The steps are those of activation_math.h: an element's bits depend on its gate
 * and up alone, not on its place, the row's length or the instruction set.
 * act(-infinity) is NaN of sigmoids, as in PyTorch, and 0 of GELU and the ReLUs; a NaN gives NaN at its own element; denormals
 * are kept. */
typedef void pf_gated_fn(float *out, size_t out_stride, const float *gate, const float *up, size_t in_stride,
                         int32_t n_rows, int32_t n_cols);

/* The same of one input: out may be x itself (with its stride). */
typedef void pf_activate_fn(float *out, size_t out_stride, const float *x, size_t in_stride, int32_t n_rows,
                            int32_t n_cols);

#endif
