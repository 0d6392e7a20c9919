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

/* How a column is rounded; of groups the scale. */
static rounding_rule rounding_of_row(const pf_gemm_layout *l, const void *row, pf_type type, size_t k)
{
    range_of_values range = { 0 };
    float values[STRETCH];
    for (size_t i = 0; i < k; i += STRETCH) {
        const size_t n = k - i < STRETCH ? k - i : STRETCH;
        load_finite(values, row, type, i, n);
        range_add(&range, values, n);
    }
    return column_rounding(l, &range);
}

void pf_gemm_quantise_row(pf_format format, const void *row, pf_type type, int32_t k, void *q, void *scale,
                          uint8_t *heads)
{
    const pf_gemm_layout l = pf_gemm_layout_of(format, k);
    const size_t size = l.in_groups ? (size_t)l.group : STRETCH, n_values = (size_t)k;
    const rounding_rule column = rounding_of_row(&l, row, type, n_values);
    memcpy(scale, &column.scale, sizeof column.scale);
    if (l.has_heads && !l.in_groups) heads[0] = pf_gemm_head_byte(&l, column.head);
    for (size_t i = 0; i < n_values; i += size) {
        float values[STRETCH];
        uint8_t stored[STRETCH];
        const size_t n = n_values - i < size ? n_values - i : size;
        load_finite(values, row, type, i, n);
        const rounding_rule rounding = l.in_groups ? group_rounding(&l, column.scale, values, n) : column;
        if (l.in_groups) heads[i / size] = pf_gemm_head_byte(&l, rounding.head);
        round_values(&l, &rounding, values, stored, n);
        put_integers((uint8_t *)q + i * (size_t)l.bits / 8, l.bits, stored, n);
    }
}
