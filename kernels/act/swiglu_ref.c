/* The definition of the gated activation. */
#include "kernels/vec/exp.h"
#include "kernels/implementations.h"

void pf_swiglu_f32_ref(float *out, size_t out_stride, const float *gate, const float *up, size_t in_stride,
                       int32_t n_rows, int32_t n_cols)
{
    for (int32_t m = 0; m < n_rows; m++, out += out_stride, gate += in_stride, up += in_stride)
        for (int32_t i = 0; i < n_cols; i++) out[i] = gate[i] / (1.0f + pf_exp(-gate[i])) * up[i];
}
