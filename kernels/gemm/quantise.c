/* Rounding a row of weights for a file. */
#include "kernels/gemm/quantise.h"

/* Stored bytes to the form of a file: int8, or two nibbles a byte. `q` at value k, which is even. */
static void put_integers(uint8_t *q, int32_t bits, const uint8_t *stored, size_t n)
{
    if (bits == 8)
        for (size_t i = 0; i < n; i++) q[i] = (uint8_t)(stored[i] ^ 0x80);
    else
        for (size_t i = 0; i < n; i += 2) q[i / 2] = (uint8_t)(stored[i] | (i + 1 < n ? stored[i + 1] << 4 : 0));
}

void pf_gemm_quantise_row(pf_format format, const void *row, pf_type type, int32_t k, void *q, void *scales,
                          uint8_t *zeros)
{
    const pf_gemm_layout l = pf_gemm_layout_of(format, k);
    float values[STRETCH];
    uint8_t stored[STRETCH];
    for (int32_t g = 0; g < l.n_groups; g++) {
        const size_t begin = (size_t)g * (size_t)l.group, left = (size_t)k - begin;
        const size_t end = begin + (left < (size_t)l.group ? left : (size_t)l.group);
        range_of_values range = { 0 };
        for (size_t i = begin; i < end; i += STRETCH) {
            const size_t n = end - i < STRETCH ? end - i : STRETCH;
            load_finite(values, row, type, i, n);
            range_add(&range, values, n);
        }
        const rounding_rule rounding = rounding_of(&l, &range);
        pf_gemm_store_scale(&l, scales, (size_t)g, rounding.scale);
        if (l.has_zeros) zeros[g] = (uint8_t)rounding.zero;
        for (size_t i = begin; i < end; i += STRETCH) {
            const size_t n = end - i < STRETCH ? end - i : STRETCH;
            load_finite(values, row, type, i, n);
            round_values(&l, &rounding, values, stored, n);
            put_integers((uint8_t *)q + i * (size_t)l.bits / 8, l.bits, stored, n);
        }
    }
}
