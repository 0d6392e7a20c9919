/* The definitions of activation functions. Faster files are tested against these, bit for bit. */
#include "kernels/act/activation_math.h"
#include "kernels/implementations.h"

static float act(pf_activation activation, float x)
{
    switch (activation) {
    case PF_ACTIVATION_SILU: return pf_silu(x);
    case PF_ACTIVATION_GELU: return pf_gelu(x);
    case PF_ACTIVATION_GELU_TANH: return pf_gelu_tanh(x);
    case PF_ACTIVATION_QUICK_GELU: return pf_quick_gelu(x);
    case PF_ACTIVATION_RELU: return pf_relu(x);
    case PF_ACTIVATION_RELU2: return pf_relu(x) * pf_relu(x);
    case PF_ACTIVATION_CLAMPED_SWIGLU:
    case PF_N_ACTIVATIONS: break;
    }
    return x;
}

static float gated(pf_activation activation, float gate, float up)
{
    if (activation != PF_ACTIVATION_CLAMPED_SWIGLU) return act(activation, gate) * up;
    const float g = PF_SWIGLU_LIMIT < gate ? PF_SWIGLU_LIMIT : gate; /* a NaN passes */
    return pf_quick_gelu(g) * (pf_clamp(up, PF_SWIGLU_LIMIT) + 1.0f);
}

#define GATED(SUFFIX, WORD, NAME)                                                                          \
    void pf_gated_##NAME##_f32_##SUFFIX(float *out, size_t out_stride, const float *gate, const float *up, \
                                        size_t in_stride, int32_t n_rows, int32_t n_cols)                  \
    {                                                                                                      \
        for (int32_t m = 0; m < n_rows; m++, out += out_stride, gate += in_stride, up += in_stride)        \
            for (int32_t i = 0; i < n_cols; i++) out[i] = gated(PF_ACTIVATION_##WORD, gate[i], up[i]);     \
    }
PF_EACH_GATED_ACTIVATION(GATED, ref)

#define PLAIN(SUFFIX, WORD, NAME)                                                                           \
    void pf_activate_##NAME##_f32_##SUFFIX(float *out, size_t out_stride, const float *x, size_t in_stride, \
                                           int32_t n_rows, int32_t n_cols)                                  \
    {                                                                                                       \
        for (int32_t m = 0; m < n_rows; m++, out += out_stride, x += in_stride)                             \
            for (int32_t i = 0; i < n_cols; i++) out[i] = act(PF_ACTIVATION_##WORD, x[i]);                  \
    }
PF_EACH_PLAIN_ACTIVATION(PLAIN, ref)
