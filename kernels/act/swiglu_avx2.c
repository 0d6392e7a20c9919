#include "kernels/vec/v16_avx2.h"

#include "kernels/act/swiglu_v16.h"

void pf_swiglu_f32_avx2(float *out, size_t out_stride, const float *gate, const float *up, size_t in_stride,
                        int32_t n_rows, int32_t n_cols)
{
    swiglu_rows(out, out_stride, gate, up, in_stride, n_rows, n_cols);
}
