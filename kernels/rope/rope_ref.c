/* The definition of rotary embedding. */
#include "kernels/implementations.h"

void pf_rope_f32_ref(float *x, size_t stride, int32_t n_rows, int32_t n_heads, int32_t head_dim,
                     const int32_t *positions, const pf_rope_table *table)
{
    const size_t half = (size_t)table->rot_dim / 2;
    const size_t next = table->interleaved ? 1 : half; /* from a to b */
    const size_t step = table->interleaved ? 2 : 1;    /* from pair to pair */
    for (int32_t row = 0; row < n_rows; row++) {
        const float *cosine = table->cos + (size_t)positions[row] * half;
        const float *sine = table->sin + (size_t)positions[row] * half;
        for (int32_t head = 0; head < n_heads; head++) {
            float *p = x + (size_t)row * stride + (size_t)head * (size_t)head_dim;
            for (size_t i = 0; i < half; i++, p += step) {
                const float a = p[0], b = p[next];
                p[0] = a * cosine[i] - b * sine[i];
                p[next] = b * cosine[i] + a * sine[i];
            }
        }
    }
}
