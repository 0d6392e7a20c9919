#include "kernels/vec/v16_avx2.h"

#include "kernels/rope/rope_v16.h"

void pf_rope_f32_avx2(float *x, size_t stride, int32_t n_rows, int32_t n_heads, int32_t head_dim,
                      const int32_t *positions, const pf_rope_table *table)
{
    rope_rows(x, stride, n_rows, n_heads, head_dim, positions, table);
}
