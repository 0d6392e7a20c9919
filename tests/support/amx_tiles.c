/* Compiled with FMA, so that fmaf() is the instruction: it obeys MXCSR, and a tile takes microseconds. */
#include "tests/support/amx_tiles.h"

#include <math.h>
#include <string.h>

enum { COLUMNS = AMX_ROW_BYTES / 4 };

/* --- configuration --- */

enum { AT_ROW_BYTES = 16, AT_ROWS = 48 }; /* in the 64 bytes */

static bool all_zero(const uint8_t *bytes, int begin, int end)
{
    for (int i = begin; i < end; i++)
        if (bytes[i]) return false;
    return true;
}

amx_outcome amx_release(amx_tiles *s)
{
    memset(s, 0, sizeof *s);
    return AMX_DONE;
}

amx_outcome amx_load_config(amx_tiles *s, const uint8_t config[64])
{
    if (config[0] == 0) return amx_release(s);
    if (config[0] != 1) return AMX_PROTECTION;
    const bool reserved = all_zero(config, 2, AT_ROW_BYTES) &&
                          all_zero(config, AT_ROW_BYTES + 2 * AMX_TILES, AT_ROWS) &&
                          all_zero(config, AT_ROWS + AMX_TILES, 64);
    if (!reserved) return AMX_PROTECTION;
    amx_tiles next = { .palette = 1, .start_row = config[1] };
    memcpy(next.row_bytes, config + AT_ROW_BYTES, sizeof next.row_bytes);
    memcpy(next.rows, config + AT_ROWS, sizeof next.rows);
    for (int t = 0; t < AMX_TILES; t++)
        if (next.rows[t] > AMX_ROWS || next.row_bytes[t] > AMX_ROW_BYTES || !next.rows[t] != !next.row_bytes[t])
            return AMX_PROTECTION;
    *s = next;
    return AMX_DONE;
}

amx_outcome amx_store_config(const amx_tiles *s, uint8_t config[64])
{
    memset(config, 0, 64);
    if (s->palette == 0) return AMX_DONE;
    config[0] = s->palette;
    config[1] = s->start_row;
    memcpy(config + AT_ROW_BYTES, s->row_bytes, sizeof s->row_bytes);
    memcpy(config + AT_ROWS, s->rows, sizeof s->rows);
    return AMX_DONE;
}

/* --- moves --- */

static bool usable(const amx_tiles *s, int tile)
{
    return s->palette == 1 && tile < AMX_TILES && s->rows[tile] > 0;
}

/* What lies outside of a tile's shape reads as zero. */
static void clear_outside(amx_tiles *s, int tile)
{
    amx_tile *t = &s->tile[tile];
    for (int r = 0; r < AMX_ROWS; r++) {
        const size_t keep = r < s->rows[tile] ? s->row_bytes[tile] : 0;
        memset(t->bytes[r] + keep, 0, AMX_ROW_BYTES - keep);
    }
}

amx_outcome amx_zero(amx_tiles *s, int tile)
{
    if (!usable(s, tile)) return AMX_UNDEFINED;
    memset(&s->tile[tile], 0, sizeof s->tile[tile]);
    s->start_row = 0;
    return AMX_DONE;
}

amx_outcome amx_load(amx_tiles *s, int tile, const uint8_t *address, ptrdiff_t stride)
{
    if (!usable(s, tile) || s->start_row >= s->rows[tile]) return AMX_UNDEFINED;
    for (int r = s->start_row; r < s->rows[tile]; r++)
        memcpy(s->tile[tile].bytes[r], address + r * stride, s->row_bytes[tile]);
    clear_outside(s, tile);
    s->start_row = 0;
    return AMX_DONE;
}

amx_outcome amx_store(amx_tiles *s, int tile, uint8_t *address, ptrdiff_t stride)
{
    if (!usable(s, tile) || s->start_row >= s->rows[tile]) return AMX_UNDEFINED;
    for (int r = s->start_row; r < s->rows[tile]; r++)
        memcpy(address + r * stride, s->tile[tile].bytes[r], s->row_bytes[tile]);
    s->start_row = 0;
    return AMX_DONE;
}

/* --- products --- */

static bool shapes_match(const amx_tiles *s, int sum, int a, int b)
{
    if (!usable(s, sum) || !usable(s, a) || !usable(s, b)) return false;
    if (sum == a || sum == b || a == b) return false;
    if (s->row_bytes[sum] % 4 || s->row_bytes[a] % 4 || s->row_bytes[b] % 4) return false;
    return s->rows[sum] == s->rows[a] && s->row_bytes[sum] == s->row_bytes[b] && s->row_bytes[a] / 4 == s->rows[b];
}

static float widen(uint16_t half)
{
    const uint32_t bits = (uint32_t)half << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Rows of one sum; in the caller's MXCSR. */
__attribute__((noinline)) static void dot_bf16(amx_tile *sum, const amx_tile *a, const amx_tile *b, int rows, int pairs)
{
    for (int m = 0; m < rows; m++) {
        float even[COLUMNS] = { 0 }, odd[COLUMNS] = { 0 };
        for (int k = 0; k < pairs; k++) {
            const float a_even = widen(a->halves[m][2 * k]), a_odd = widen(a->halves[m][2 * k + 1]);
            for (int n = 0; n < COLUMNS; n++) {
                even[n] = fmaf(a_even, widen(b->halves[k][2 * n]), even[n]);
                odd[n] = fmaf(a_odd, widen(b->halves[k][2 * n + 1]), odd[n]);
            }
        }
        for (int n = 0; n < COLUMNS; n++) sum->floats[m][n] = sum->floats[m][n] + (even[n] + odd[n]);
    }
}

/* The instruction rounds to nearest, reads denormals as zero, flushes its results and masks all exceptions, whatever
 * MXCSR says: for its time MXCSR says the same. */
amx_outcome amx_dot_bf16(amx_tiles *s, int sum, int a, int b)
{
    if (!shapes_match(s, sum, a, b)) return AMX_UNDEFINED;
    const uint32_t as_amx = 0x1F80 | 0x8000 | 0x0040; /* masks, FTZ, DAZ */
    uint32_t before;
    __asm__ volatile("stmxcsr %0" : "=m"(before));
    __asm__ volatile("ldmxcsr %0" : : "m"(as_amx) : "memory");
    dot_bf16(&s->tile[sum], &s->tile[a], &s->tile[b], s->rows[sum], s->rows[b]);
    __asm__ volatile("ldmxcsr %0" : : "m"(before) : "memory");
    clear_outside(s, sum);
    s->start_row = 0;
    return AMX_DONE;
}

amx_outcome amx_dot_int8(amx_tiles *s, int sum, int a, int b, bool a_signed, bool b_signed)
{
    if (!shapes_match(s, sum, a, b)) return AMX_UNDEFINED;
    const uint8_t a_sign = a_signed ? 0x80 : 0, b_sign = b_signed ? 0x80 : 0; /* (x ^ sign) - sign extends it */
    for (int m = 0; m < s->rows[sum]; m++)
        for (int k = 0; k < s->rows[b]; k++)
            for (int n = 0; n < COLUMNS; n++) {
                int32_t dot = 0;
                for (int i = 0; i < 4; i++)
                    dot += ((s->tile[a].bytes[m][4 * k + i] ^ a_sign) - a_sign) *
                           ((s->tile[b].bytes[k][4 * n + i] ^ b_sign) - b_sign);
                s->tile[sum].words[m][n] += (uint32_t)dot;
            }
    clear_outside(s, sum);
    s->start_row = 0;
    return AMX_DONE;
}
