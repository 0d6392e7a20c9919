/* Activation functions in vectors of sixteen: activation_math.h, lane by lane. */
#include "kernels/act/activation_math.h"
#include "kernels/vec/v16.h"

/* ---- the functions -------------------------------------------------------------------------------------------------- */

PF_V16 pf_v16 clamp(pf_v16 x, float far)
{
    return pf_v16_max(pf_v16_set(-far), pf_v16_min(pf_v16_set(far), x));
}

PF_V16 pf_v16 silu(pf_v16 x)
{
    return pf_v16_div(x, pf_v16_add(pf_v16_set(1.0f), pf_v16_exp(pf_v16_negate(x))));
}

PF_V16 pf_v16 logistic_part(pf_v16 x, pf_v16 t, pf_v16 rest)
{
    const pf_v16 one = pf_v16_set(1.0f);
    return pf_v16_div(x, pf_v16_fma(pf_v16_exp(t), pf_v16_add(one, rest), one));
}

PF_V16 pf_v16 gelu(pf_v16 x)
{
    const pf_v16 one = pf_v16_set(1.0f), half = pf_v16_set(0.5f), mid = pf_v16_set(PF_GELU_MID);
    const pf_v16 a = pf_v16_min(pf_v16_set(PF_GELU_FAR), pf_v16_max(x, pf_v16_negate(x)));
    const pf_v16 square = pf_v16_mul(a, a), rest = pf_v16_fma(a, a, pf_v16_negate(square));
    const pf_v16 q = pf_v16_div(pf_v16_sub(a, mid), pf_v16_add(a, mid));
    pf_v16 r = pf_v16_fma(pf_v16_set(PF_GELU_R10), q, pf_v16_set(PF_GELU_R9));
    r = pf_v16_fma(r, q, pf_v16_set(PF_GELU_R8));
    r = pf_v16_fma(r, q, pf_v16_set(PF_GELU_R7));
    r = pf_v16_fma(r, q, pf_v16_set(PF_GELU_R6));
    r = pf_v16_fma(r, q, pf_v16_set(PF_GELU_R5));
    r = pf_v16_fma(r, q, pf_v16_set(PF_GELU_R4));
    r = pf_v16_fma(r, q, pf_v16_set(PF_GELU_R3));
    r = pf_v16_fma(r, q, pf_v16_set(PF_GELU_R2));
    r = pf_v16_fma(r, q, pf_v16_set(PF_GELU_R1));
    r = pf_v16_fma(r, q, pf_v16_set(PF_GELU_R0));
    const pf_v16 divisor = pf_v16_add(a, pf_v16_fma(pf_v16_mul(half, rest), pf_v16_add(a, one), one));
    const pf_v16 minus_below = pf_v16_negate(pf_v16_div(pf_v16_mul(a, r), divisor));
    const pf_v16 power = pf_v16_exp(pf_v16_mul(pf_v16_set(-0.5f), square));
    return pf_v16_where(pf_v16_above(pf_v16_set(0.0f), x), pf_v16_mul(minus_below, power),
                        pf_v16_fma(minus_below, power, x));
}

PF_V16 pf_v16 gelu_tanh(pf_v16 x)
{
    const pf_v16 c1 = pf_v16_set(PF_GELU_TANH_C1), c3 = pf_v16_set(PF_GELU_TANH_C3);
    const pf_v16 a = clamp(x, PF_GELU_TANH_FAR);
    const pf_v16 square = pf_v16_mul(a, a), square_rest = pf_v16_fma(a, a, pf_v16_negate(square));
    const pf_v16 cubic = pf_v16_mul(c3, square);
    pf_v16 cubic_rest = pf_v16_fma(c3, square, pf_v16_negate(cubic));
    cubic_rest = pf_v16_fma(pf_v16_set(PF_GELU_TANH_C3_REST), square, cubic_rest);
    cubic_rest = pf_v16_fma(c3, square_rest, cubic_rest);

    const pf_v16 sum = pf_v16_add(c1, cubic), taken = pf_v16_sub(sum, c1);
    const pf_v16 sum_rest = pf_v16_add(pf_v16_sub(c1, pf_v16_sub(sum, taken)), pf_v16_sub(cubic, taken));
    const pf_v16 rest = pf_v16_add(sum_rest, pf_v16_add(cubic_rest, pf_v16_set(PF_GELU_TANH_C1_REST)));
    const pf_v16 minus_t = pf_v16_negate(pf_v16_mul(a, sum));
    const pf_v16 t_rest = pf_v16_fma(a, rest, pf_v16_fma(a, sum, minus_t));
    return logistic_part(x, minus_t, pf_v16_negate(t_rest));
}

PF_V16 pf_v16 quick_gelu(pf_v16 x)
{
    const pf_v16 a = clamp(x, PF_QUICK_GELU_FAR), rate = pf_v16_set(PF_QUICK_GELU_RATE);
    const pf_v16 minus_t = pf_v16_negate(pf_v16_mul(rate, a));
    const pf_v16 rest = pf_v16_fma(pf_v16_set(PF_QUICK_GELU_REST), a, pf_v16_fma(rate, a, minus_t));
    return logistic_part(x, minus_t, pf_v16_negate(rest));
}

PF_V16 pf_v16 relu(pf_v16 x)
{
    return pf_v16_max(pf_v16_set(0.0f), x);
}

PF_V16 pf_v16 act(pf_activation activation, pf_v16 x)
{
    switch (activation) {
    case PF_ACTIVATION_SILU: return silu(x);
    case PF_ACTIVATION_GELU: return gelu(x);
    case PF_ACTIVATION_GELU_TANH: return gelu_tanh(x);
    case PF_ACTIVATION_QUICK_GELU: return quick_gelu(x);
    case PF_ACTIVATION_RELU: return relu(x);
    case PF_ACTIVATION_RELU2: return pf_v16_mul(relu(x), relu(x));
    case PF_ACTIVATION_CLAMPED_SWIGLU:
    case PF_N_ACTIVATIONS: break;
    }
    return x;
}

PF_V16 pf_v16 gated(pf_activation activation, pf_v16 gate, pf_v16 up)
{
    if (activation != PF_ACTIVATION_CLAMPED_SWIGLU) return pf_v16_mul(act(activation, gate), up);
    const pf_v16 g = pf_v16_min(pf_v16_set(PF_SWIGLU_LIMIT), gate);
    return pf_v16_mul(quick_gelu(g), pf_v16_add(clamp(up, PF_SWIGLU_LIMIT), pf_v16_set(1.0f)));
}

/* ---- rows ----------------------------------------------------------------------------------------------------------- */

PF_V16 void gated_row(pf_activation activation, float *out, const float *gate, const float *up, int32_t n_cols)
{
    const int32_t whole = n_cols / 16 * 16, tail = n_cols - whole;
    for (int32_t i = 0; i < whole; i += 16)
        pf_v16_store(out + i, gated(activation, pf_v16_load(gate + i), pf_v16_load(up + i)));
    if (tail) {
        const pf_v16 g = pf_v16_load_first(gate + whole, tail), u = pf_v16_load_first(up + whole, tail);
        pf_v16_store_first(out + whole, gated(activation, g, u), tail);
    }
}

PF_V16 void plain_row(pf_activation activation, float *out, const float *x, int32_t n_cols)
{
    const int32_t whole = n_cols / 16 * 16, tail = n_cols - whole;
    for (int32_t i = 0; i < whole; i += 16) pf_v16_store(out + i, act(activation, pf_v16_load(x + i)));
    if (tail) pf_v16_store_first(out + whole, act(activation, pf_v16_load_first(x + whole, tail)), tail);
}

/* A function for each activation: the choice is made when it is compiled. */
#define GATED(SUFFIX, WORD, NAME)                                                                             \
    void PF_FOR_ISA(pf_gated_##NAME##_f32)(float *out, size_t out_stride, const float *gate, const float *up, \
                                           size_t in_stride, int32_t n_rows, int32_t n_cols)                  \
    {                                                                                                         \
        for (int32_t m = 0; m < n_rows; m++, out += out_stride, gate += in_stride, up += in_stride)           \
            gated_row(PF_ACTIVATION_##WORD, out, gate, up, n_cols);                                           \
    }
PF_EACH_GATED_ACTIVATION(GATED, v16)

#define PLAIN(SUFFIX, WORD, NAME)                                                                              \
    void PF_FOR_ISA(pf_activate_##NAME##_f32)(float *out, size_t out_stride, const float *x, size_t in_stride, \
                                              int32_t n_rows, int32_t n_cols)                                  \
    {                                                                                                          \
        for (int32_t m = 0; m < n_rows; m++, out += out_stride, x += in_stride)                                \
            plain_row(PF_ACTIVATION_##WORD, out, x, n_cols);                                                   \
    }
PF_EACH_PLAIN_ACTIVATION(PLAIN, v16)
