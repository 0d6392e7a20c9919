/* Rotary embedding in vectors of sixteen pairs. */
#include "kernels/vec/v16.h"

PF_V16 void rope_half_split(float *a, float *b, const float *cosine, const float *sine, int32_t n_pairs)
{
    for (int32_t i = 0; i < n_pairs; i += 16) {
        const int32_t n = n_pairs - i; /* 16 and more: all */
        const pf_v16 c = pf_v16_load_first(cosine + i, n), s = pf_v16_load_first(sine + i, n);
        const pf_v16 va = pf_v16_load_first(a + i, n), vb = pf_v16_load_first(b + i, n);
        pf_v16_store_first(a + i, pf_v16_sub(pf_v16_mul(va, c), pf_v16_mul(vb, s)), n);
        pf_v16_store_first(b + i, pf_v16_add(pf_v16_mul(vb, c), pf_v16_mul(va, s)), n);
    }
}

/* Left to the compiler: few models rotate so. */
PF_V16 void rope_interleaved(float *x, const float *cosine, const float *sine, int32_t n_pairs)
{
    for (int32_t i = 0; i < n_pairs; i++) {
        const float a = x[2 * i], b = x[2 * i + 1];
        x[2 * i] = a * cosine[i] - b * sine[i];
        x[2 * i + 1] = b * cosine[i] + a * sine[i];
    }
}

void PF_FOR_ISA(pf_rope_f32)(float *x, size_t stride, int32_t n_rows, int32_t n_heads, int32_t head_dim,
                             const int32_t *positions, const pf_rope_table *table)
{
    const int32_t half = table->rot_dim / 2;
    for (int32_t row = 0; row < n_rows; row++) {
        const float *cosine = table->cos + (size_t)positions[row] * (size_t)half;
        const float *sine = table->sin + (size_t)positions[row] * (size_t)half;
        for (int32_t head = 0; head < n_heads; head++) {
            float *p = x + (size_t)row * stride + (size_t)head * (size_t)head_dim;
            if (table->interleaved)
                rope_interleaved(p, cosine, sine, half);
            else
                rope_half_split(p, p + half, cosine, sine, half);
        }
    }
}
