/*
 * The AMX instructions. Internal.
 *
 * A tile is 16 rows of 64 bytes. Of the eight, one multiply uses three: a sum (16 rows by 16 columns of 32 bits), an A
 * (16 rows of 64 bytes along K) and a B (16 steps of 4 bytes along K, by 16 columns).
 *
 *   tmm0 tmm1   sums of the upper rows       tmm4   A, upper rows        tmm6 tmm7   B
 *   tmm2 tmm3   sums of the lower rows       tmm5   A, lower rows
 *
 * The configuration is loaded as a call begins to multiply and released as it ends, not once a thread: a call may come
 * from any thread, the two take less time than a single tile, and a thread without live tiles is switched cheaply (8 KiB
 * less to save) and lets its core sleep. Between two calls nothing is kept, so nothing can be stale.
 *
 * The instructions are written out because the intrinsics of GCC 12 are faulty: _tile_loadconfig declares 8 bytes of
 * its 64, _tile_loadd no memory at all, and stores to what they read are dropped.
 */
#ifndef PF_KERNELS_TILES_AMX_H
#define PF_KERNELS_TILES_AMX_H

#include <stddef.h>
#include <stdint.h>

enum { PF_TILE_ROWS = 16, PF_TILE_ROW_BYTES = 64 };

/* Tiles are numbered by literals: they are part of the instruction. */
#define PF_TILE_ZERO(tile) __asm__ volatile("tilezero %%tmm" #tile : : :)
#define PF_TILE_LOAD(tile, address, stride) \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile : : "r"(address), "r"((size_t)(stride)) : "memory")
/* Told that it is wanted once: L1 keeps what it has. */
#define PF_TILE_LOAD_ONCE(tile, address, stride) \
    __asm__ volatile("tileloaddt1 (%0,%1,1), %%tmm" #tile : : "r"(address), "r"((size_t)(stride)) : "memory")
#define PF_TILE_STORE(tile, address, stride) \
    __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" : : "r"(address), "r"((size_t)(stride)) : "memory")
#define PF_TILE_TDP(name, sum, a, b) __asm__ volatile(name " %%tmm" #b ", %%tmm" #a ", %%tmm" #sum : : :)
#define PF_TILE_DOT(dot, sum, a, b)                                        \
    do {                                                                   \
        if ((dot) == PF_DOT_BF16) PF_TILE_TDP("tdpbf16ps", sum, a, b);     \
        if ((dot) == PF_DOT_INT8_UINT8) PF_TILE_TDP("tdpbsud", sum, a, b); \
        if ((dot) == PF_DOT_INT8_INT8) PF_TILE_TDP("tdpbssd", sum, a, b);  \
    } while (0)

/* What A and B hold. */
typedef enum { PF_DOT_BF16, PF_DOT_INT8_UINT8, PF_DOT_INT8_INT8 } pf_tile_dot;

/* What LDTILECFG reads: Intel's instruction reference, LDTILECFG. */
typedef struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} pf_tile_config;
_Static_assert(sizeof(pf_tile_config) == 64, "LDTILECFG reads 64 bytes");

/* Rows of the tiles in the table above, at least 1; B has as many as there are, and all are 64 bytes wide. */
static inline __attribute__((always_inline)) void pf_tile_configure(int32_t upper, int32_t lower)
{
    pf_tile_config config = { .palette = 1 };
    const uint8_t up = (uint8_t)upper, low = (uint8_t)lower;
    const uint8_t rows[8] = { up, up, low, low, up, low, PF_TILE_ROWS, PF_TILE_ROWS };
    for (int tile = 0; tile < 8; tile++) {
        config.rows[tile] = rows[tile];
        config.row_bytes[tile] = PF_TILE_ROW_BYTES;
    }
    __asm__ volatile("ldtilecfg %0" : : "m"(config));
}

static inline __attribute__((always_inline)) void pf_tile_release(void)
{
    __asm__ volatile("tilerelease" : : : "memory");
}

#endif
