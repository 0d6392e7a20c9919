/*
 * bf16 in twelve bits, exactly: where things lie in such a panel, and what they stand for. Internal.
 *
 * A bf16 is two bytes: the low one [e0 m6..m0] is held as it is, the high one [s e7..e1] as four bits, its sign and which
 * of eight neighbouring pairs of exponents e7..e1 it has. Trained weights beside each other nearly always lie within
 * such a window of 16 binades; what lies outside of it is held apart, as a patch.
 *
 *   matrix  | panels: [n_panels] | reserves: [n_panels] |
 *   panel   | codes: one a block, up to a multiple of 64 | blocks |
 *
 *   block   16 values of k for 32 columns: four units of two steps, a step being a k pair of 32 columns
 *           coded     four times | low bytes of a step | low bytes of the next | 64 bytes: four bits of each |
 *           patched   the same, and the next 64 bytes of the panel's reserve: 16 patches
 *           raw       plain bf16, as in a bf16 panel; what 768 bytes do not hold is the next 256 of the reserve
 *
 * The first step's four bits are the low nibbles. Bytes of a step are ordered so that interleaving low and high bytes
 * within each 128 bits (VPUNPCKLBW, VPUNPCKHBW) gives the step of a bf16 panel: pf_b12_place.
 *
 *   code    [patched][zero][base: 6]   entries 0..7 are pairs base .. base + 7; where `zero` is set, the last is pair 0
 *                                      (zeros, denormals); 0xFF: raw
 *   patch   { uint16 place, uint16 bf16 }, by ascending places 0..511 of the plain block; the last is repeated up to 16
 *
 * Weights of 2^15 and more have pairs beyond the last window and are patched; a block with more than 16 patches is raw.
 * Values of k that fill the last block are zeros. A reserve has room for a patched block everywhere and four raw ones: a
 * panel that takes more cannot be held in this format (pf_gemm_pack_weights_fn says so). The panels alone are read
 * straight through; of the reserves a product reads what the codes ask for, in order.
 */
#ifndef PF_KERNELS_GEMM_LAYOUT_BF16_12_H
#define PF_KERNELS_GEMM_LAYOUT_BF16_12_H

#include "base/checked.h"
#include "kernels/gemm/gemm.h"

enum {
    PF_B12_BLOCK_K = 16,
    PF_B12_BLOCK_STEPS = PF_B12_BLOCK_K / 2,
    PF_B12_BLOCK_VALUES = PF_B12_BLOCK_K * PF_GEMM_PANEL,
    PF_B12_STEP_VALUES = 2 * PF_GEMM_PANEL,
    PF_B12_UNIT_BYTES = 192,
    PF_B12_BLOCK_BYTES = 768,
    PF_B12_PATCH_BYTES = 64,
    PF_B12_PLAIN_BYTES = 1024, /* of a block */
    PF_B12_RAW_BYTES = PF_B12_PLAIN_BYTES - PF_B12_BLOCK_BYTES,
    PF_B12_PATCHES = 16,

    PF_B12_WINDOW = 8, /* entries */
    PF_B12_BASES = 64,
    PF_B12_ZERO = 0x40,
    PF_B12_PATCHED = 0x80,
    PF_B12_RAW = 0xFF,
};

typedef struct {
    uint16_t place, value;
} pf_b12_patch_entry;

static inline size_t pf_b12_blocks(int32_t k)
{
    return ((size_t)k + PF_B12_BLOCK_K - 1) / PF_B12_BLOCK_K;
}

static inline size_t pf_b12_head_bytes(int32_t k)
{
    return pf_round_up(pf_b12_blocks(k), 64);
}

static inline size_t pf_b12_panel_bytes(int32_t k)
{
    return pf_b12_head_bytes(k) + pf_b12_blocks(k) * PF_B12_BLOCK_BYTES;
}

static inline size_t pf_b12_reserve_bytes(int32_t k)
{
    return pf_b12_blocks(k) * PF_B12_PATCH_BYTES + 4 * (PF_B12_RAW_BYTES - PF_B12_PATCH_BYTES);
}

static inline uint8_t *pf_b12_panel(const pf_gemm_weights *w, int32_t panel)
{
    return (uint8_t *)w->panels + (size_t)panel * w->panel_bytes;
}

static inline uint8_t *pf_b12_reserve(const pf_gemm_weights *w, int32_t panel)
{
    return pf_b12_panel(w, w->n_panels) + (size_t)panel * pf_b12_reserve_bytes(w->k);
}

/* What a block has in the reserve. */
static inline size_t pf_b12_reserved(uint8_t code)
{
    return code == PF_B12_RAW ? PF_B12_RAW_BYTES : code & PF_B12_PATCHED ? PF_B12_PATCH_BYTES : 0;
}

/* And the first n blocks together. */
static inline size_t pf_b12_reserved_before(const uint8_t *codes, size_t n)
{
    size_t n_patched = 0, n_raw = 0; /* of the patched those that are raw too */
    for (size_t b = 0; b < n; b++) {
        n_patched += codes[b] >> 7;
        n_raw += codes[b] == PF_B12_RAW;
    }
    return n_patched * PF_B12_PATCH_BYTES + n_raw * (PF_B12_RAW_BYTES - PF_B12_PATCH_BYTES);
}

/* The pair that an entry of a window stands for. */
static inline uint8_t pf_b12_pair(uint8_t code, uint8_t entry)
{
    return code & PF_B12_ZERO && entry == PF_B12_WINDOW - 1 ? 0 : (uint8_t)((code & (PF_B12_BASES - 1)) + entry);
}

/* Where byte i of 64 of a step belongs in the plain step. */
static inline size_t pf_b12_place(size_t i)
{
    return i % 16 / 8 * 32 + i / 16 * 8 + i % 8;
}

/* And back. */
static inline size_t pf_b12_byte(size_t place)
{
    return place % 32 / 8 * 16 + place / 32 * 8 + place % 8;
}

/* The value at a place 0..511 of the plain block, of a block that is not raw and but for its patches. */
static inline uint16_t pf_b12_coded(uint8_t code, const uint8_t *block, size_t place)
{
    const size_t step = place / PF_B12_STEP_VALUES, byte = pf_b12_byte(place % PF_B12_STEP_VALUES);
    const uint8_t *unit = block + step / 2 * PF_B12_UNIT_BYTES;
    const uint8_t low = unit[step % 2 * 64 + byte], four = unit[128 + byte] >> (step % 2 * 4) & 15;
    return (uint16_t)(four >> 3 << 15 | pf_b12_pair(code, four % PF_B12_WINDOW) << 8 | low);
}

/* Into `out`, a plain block. */
static inline void pf_b12_patch(const uint8_t *reserved, uint16_t out[PF_B12_BLOCK_VALUES])
{
    pf_b12_patch_entry patches[PF_B12_PATCHES];
    memcpy(patches, reserved, sizeof patches);
    for (size_t i = 0; i < PF_B12_PATCHES && (i == 0 || patches[i].place != patches[i - 1].place); i++)
        out[patches[i].place] = patches[i].value;
}

/* A raw block as it was. */
static inline void pf_b12_join_raw(const uint8_t *block, const uint8_t *reserved, uint16_t out[PF_B12_BLOCK_VALUES])
{
    memcpy(out, block, PF_B12_BLOCK_BYTES);
    memcpy(out + PF_B12_BLOCK_BYTES / sizeof *out, reserved, PF_B12_RAW_BYTES);
}

/* A block as it is in a bf16 panel, the definition. */
static inline void pf_b12_unpack_block(uint8_t code, const uint8_t *block, const uint8_t *reserved,
                                       uint16_t out[PF_B12_BLOCK_VALUES])
{
    if (code == PF_B12_RAW) {
        pf_b12_join_raw(block, reserved, out);
        return;
    }
    uint16_t high[16];
    for (uint8_t four = 0; four < 16; four++)
        high[four] = (uint16_t)(four >> 3 << 15 | pf_b12_pair(code, four % PF_B12_WINDOW) << 8);
    for (size_t step = 0; step < PF_B12_BLOCK_STEPS; step++) {
        const uint8_t *unit = block + step / 2 * PF_B12_UNIT_BYTES;
        for (size_t i = 0; i < 64; i++)
            out[step * PF_B12_STEP_VALUES + pf_b12_place(i)] =
                high[unit[128 + i] >> (step % 2 * 4) & 15] | unit[step % 2 * 64 + i];
    }
    if (code & PF_B12_PATCHED) pf_b12_patch(reserved, out);
}

/* One value of it. */
static inline uint16_t pf_b12_value(uint8_t code, const uint8_t *block, const uint8_t *reserved, size_t place)
{
    uint16_t value;
    pf_b12_patch_entry patches[PF_B12_PATCHES];
    if (code == PF_B12_RAW) {
        const size_t at = place * sizeof value;
        memcpy(&value, at < PF_B12_BLOCK_BYTES ? block + at : reserved + (at - PF_B12_BLOCK_BYTES), sizeof value);
        return value;
    }
    value = pf_b12_coded(code, block, place);
    if (!(code & PF_B12_PATCHED)) return value;
    memcpy(patches, reserved, sizeof patches);
    for (size_t i = 0; i < PF_B12_PATCHES; i++) value = patches[i].place == place ? patches[i].value : value;
    return value;
}

#endif
