/* Rounding a row of weights for a file. */
#include "kernels/gemm/pack/quantise.h"

/* Stored bytes to the form of a file: int8, or two nibbles a byte. `q` at value k, which is even. */
static void put_integers(uint8_t *q, int32_t bits, const uint8_t *stored, size_t n)
{
    if (bits == 8)
        for (size_t i = 0; i < n; i++) q[i] = (uint8_t)(stored[i] ^ 0x80);
    else
        for (size_t i = 0; i < n; i += 2) q[i / 2] = (uint8_t)(stored[i] | (i + 1 < n ? stored[i + 1] << 4 : 0));
}

void pf_gemm_quantise_row(pf_format format, const void *row, pf_type type, int32_t k, void *q, void *scale,
                          uint8_t *heads)
{
    const pf_gemm_layout l = pf_gemm_layout_of(format, k);
    const size_t size = l.in_groups ? (size_t)l.group : STRETCH, n_values = (size_t)k;
    const range_of_values range = range_of_row(row, type, n_values);
    const rounding_rule column = column_rounding(&l, &range);
    memcpy(scale, &column.scale, sizeof column.scale);
    if (l.has_heads && !l.in_groups) heads[0] = pf_gemm_head_byte(&l, column.head);
    for (size_t i = 0; i < n_values; i += STRETCH) {
        float values[STRETCH];
        uint8_t stored[STRETCH];
        const size_t n = n_values - i < STRETCH ? n_values - i : STRETCH;
        load_finite(values, row, type, i, n);
        for (size_t at = 0; at < n; at += size) {
            const size_t part = n - at < size ? n - at : size;
            const rounding_rule rounding = l.in_groups ? group_rounding(&l, column.scale, values + at, part) : column;
            if (l.in_groups) heads[(i + at) / size] = pf_gemm_head_byte(&l, rounding.head);
            round_values(&l, &rounding, values + at, stored + at, part);
        }
        put_integers((uint8_t *)q + i * (size_t)l.bits / 8, l.bits, stored, n);
    }
}
