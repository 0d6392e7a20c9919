/* The gated activation in vectors of sixteen. */
#include "kernels/vec/v16.h"

PF_V16 pf_v16 swiglu(pf_v16 gate, pf_v16 up)
{
    const pf_v16 divisor = pf_v16_add(pf_v16_set(1.0f), pf_v16_exp(pf_v16_negate(gate)));
    return pf_v16_mul(pf_v16_div(gate, divisor), up);
}

void PF_FOR_ISA(pf_swiglu_f32)(float *out, size_t out_stride, const float *gate, const float *up, size_t in_stride,
                               int32_t n_rows, int32_t n_cols)
{
    const int32_t whole = n_cols / 16 * 16, tail = n_cols - whole;
    for (int32_t m = 0; m < n_rows; m++, out += out_stride, gate += in_stride, up += in_stride) {
        for (int32_t i = 0; i < whole; i += 16)
            pf_v16_store(out + i, swiglu(pf_v16_load(gate + i), pf_v16_load(up + i)));
        if (tail) {
            const pf_v16 v = swiglu(pf_v16_load_first(gate + whole, tail), pf_v16_load_first(up + whole, tail));
            pf_v16_store_first(out + whole, v, tail);
        }
    }
}
