#include "kernels/vec/v16_avx512.h"

#include "kernels/sample/rescore_v16.h"

void pf_rescore_bf16_avx512(float *logits, int32_t n, const float *x, const uint16_t *rows, int32_t n_cols)
{
    rescore_row(logits, n, x, rows, n_cols);
}
