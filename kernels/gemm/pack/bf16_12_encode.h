/* Blocks of bf16 to twelve bits; compiled into each file that packs, with the same bytes everywhere. Internal. */
#ifndef PF_KERNELS_GEMM_BF16_12_ENCODE_H
#define PF_KERNELS_GEMM_BF16_12_ENCODE_H

#include "kernels/gemm/layout_bf16_12.h"

enum { B12_PAIRS = 128 };

static inline uint8_t pair_of(uint16_t value)
{
    return (uint8_t)(value >> 8 & (B12_PAIRS - 1));
}

/* The window that has all values, or PF_B12_RAW. Loops without a way out in the middle: they become vectors. */
static inline uint8_t window_of_all(const uint16_t *values)
{
    uint16_t largest = 0, smallest = UINT16_MAX, zeros = 0; /* smallest: of those that are not in pair 0 */
    for (size_t i = 0; i < PF_B12_BLOCK_VALUES; i++) {
        const uint16_t magnitude = values[i] & 0x7FFF, above = magnitude > 255 ? magnitude : UINT16_MAX;
        largest = magnitude > largest ? magnitude : largest;
        smallest = above < smallest ? above : smallest;
        zeros |= magnitude <= 255;
    }
    const int top = pair_of(largest), bottom = smallest == UINT16_MAX ? 0 : pair_of(smallest);
    const int entries = zeros && top >= PF_B12_WINDOW ? PF_B12_WINDOW - 1 : PF_B12_WINDOW;
    const int base = top < PF_B12_WINDOW ? 0 : top - entries + 1;
    if (bottom < base && bottom > 0) return PF_B12_RAW;
    if (base >= PF_B12_BASES) return PF_B12_RAW;
    return (uint8_t)(base | (entries < PF_B12_WINDOW ? PF_B12_ZERO : 0));
}

/* The window that leaves out the fewest values; the highest of equals, and without a zero where that does not matter. */
static inline uint8_t window_of_most(const uint16_t *values)
{
    uint16_t n_of[B12_PAIRS + PF_B12_WINDOW] = { 0 };
    for (size_t i = 0; i < PF_B12_BLOCK_VALUES; i++) n_of[pair_of(values[i])]++;
    int most = -1;
    uint8_t code = 0;
    for (int base = PF_B12_BASES - 1; base >= 0; base--) {
        int n = 0;
        for (int i = 0; i < PF_B12_WINDOW; i++) n += n_of[base + i];
        const int n_zero = n - n_of[base + PF_B12_WINDOW - 1] + n_of[0];
        if (n > most) {
            most = n;
            code = (uint8_t)base;
        }
        if (base > 0 && base < PF_B12_BASES - 1 && n_zero > most) { /* 63 with both bits set would be raw */
            most = n_zero;
            code = (uint8_t)(base | PF_B12_ZERO);
        }
    }
    return code;
}

/* The entry of a value's pair in the window; 8 or more: it has none. */
static inline uint8_t entry_of(uint8_t code, uint8_t pair)
{
    const uint8_t entry = (uint8_t)(pair - (code & (PF_B12_BASES - 1)));
    const uint8_t taken = entry == PF_B12_WINDOW - 1 ? PF_B12_WINDOW : entry; /* the last one is pair 0's */
    if (!(code & PF_B12_ZERO)) return entry;
    return pair == 0 ? PF_B12_WINDOW - 1 : taken;
}

/* Bytes in the order of values to the order of a coded step. */
static inline void place_step(uint8_t *to, const uint8_t *from)
{
    for (size_t i = 0; i < PF_B12_STEP_VALUES; i += 8) memcpy(to + i, from + pf_b12_place(i), 8);
}

/* A coded block; whatever the window does not have gets some entry. */
static inline void encode_values(const uint16_t *values, const uint8_t *entries, uint8_t *out)
{
    uint8_t low[PF_B12_BLOCK_VALUES], four[PF_B12_BLOCK_VALUES], placed[2][PF_B12_STEP_VALUES];
    for (size_t i = 0; i < PF_B12_BLOCK_VALUES; i++) {
        low[i] = (uint8_t)values[i];
        four[i] = (uint8_t)(values[i] >> 15 << 3 | (entries[i] & (PF_B12_WINDOW - 1)));
    }
    for (size_t at = 0; at < PF_B12_BLOCK_VALUES; at += 2 * PF_B12_STEP_VALUES, out += PF_B12_UNIT_BYTES)
        for (size_t step = 0; step < 2; step++) {
            place_step(out + step * 64, low + at + step * PF_B12_STEP_VALUES);
            place_step(placed[step], four + at + step * PF_B12_STEP_VALUES);
            for (size_t i = 0; i < 64 && step == 1; i++) out[128 + i] = (uint8_t)(placed[0][i] | placed[1][i] << 4);
        }
}

/* One block. Returns its code; `reserved` has room for what a raw one needs there. */
static inline uint8_t encode_block(const uint16_t values[PF_B12_BLOCK_VALUES], uint8_t out[PF_B12_BLOCK_BYTES],
                                   uint8_t reserved[PF_B12_RAW_BYTES])
{
    uint8_t entries[PF_B12_BLOCK_VALUES], code = window_of_all(values);
    if (code == PF_B12_RAW) code = window_of_most(values);
    size_t n_outside = 0;
    for (size_t i = 0; i < PF_B12_BLOCK_VALUES; i++) {
        entries[i] = entry_of(code, pair_of(values[i]));
        n_outside += entries[i] >= PF_B12_WINDOW;
    }
    if (n_outside > PF_B12_PATCHES) {
        memcpy(out, values, PF_B12_BLOCK_BYTES);
        memcpy(reserved, values + PF_B12_BLOCK_BYTES / sizeof *values, PF_B12_RAW_BYTES);
        return PF_B12_RAW;
    }
    encode_values(values, entries, out);
    if (n_outside == 0) return code;
    pf_b12_patch_entry patches[PF_B12_PATCHES];
    size_t n = 0;
    for (size_t i = 0; i < PF_B12_BLOCK_VALUES; i++)
        if (entries[i] >= PF_B12_WINDOW) patches[n++] = (pf_b12_patch_entry){ (uint16_t)i, values[i] };
    for (; n < PF_B12_PATCHES; n++) patches[n] = patches[n - 1];
    memcpy(reserved, patches, sizeof patches);
    return code | PF_B12_PATCHED;
}

#endif
