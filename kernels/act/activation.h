/* Names the activation functions of feed-forward blocks. */
#ifndef PF_KERNELS_ACTIVATION_H
#define PF_KERNELS_ACTIVATION_H

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

#endif
