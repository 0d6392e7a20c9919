#include "kernels/vec/v16_avx2.h"

#include "kernels/norm/rmsnorm_v16.h"

void pf_rmsnorm_f32_avx2(float *y, const float *x, const float *w, int32_t n_rows, int32_t n_cols, size_t stride,
                         float eps)
{
    rmsnorm_rows(y, x, w, n_rows, n_cols, stride, eps);
}
