/*
 * AMX-TILE, AMX-BF16 and AMX-INT8 in C, after the pseudo-code of Intel's SDM, volume 2: the tiles of one thread, and what
 * each instruction does to them. amx_trap.h runs machine code on it.
 *
 * This is a second witness, written from the instruction's description; kernels/gemm/amx/gemm_amx_ref.c is the first,
 * written from the product's.
 */
#ifndef PF_TESTS_AMX_TILES_H
#define PF_TESTS_AMX_TILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { AMX_TILES = 8, AMX_ROWS = 16, AMX_ROW_BYTES = 64 };

typedef union {
    uint8_t bytes[AMX_ROWS][AMX_ROW_BYTES];
    uint16_t halves[AMX_ROWS][AMX_ROW_BYTES / 2];
    uint32_t words[AMX_ROWS][AMX_ROW_BYTES / 4];
    float floats[AMX_ROWS][AMX_ROW_BYTES / 4];
} amx_tile;

typedef struct {
    _Alignas(64) amx_tile tile[AMX_TILES];
    uint8_t palette; /* 0: not configured */
    uint8_t start_row;
    uint8_t rows[AMX_TILES];
    uint16_t row_bytes[AMX_TILES];
} amx_tiles;

/* How an instruction ends. */
typedef enum {
    AMX_DONE,
    AMX_UNDEFINED, /* #UD: Linux sends SIGILL */
    AMX_PROTECTION /* #GP: Linux sends SIGSEGV */
} amx_outcome;

amx_outcome amx_load_config(amx_tiles *s, const uint8_t config[64]);
amx_outcome amx_store_config(const amx_tiles *s, uint8_t config[64]);
amx_outcome amx_release(amx_tiles *s);
amx_outcome amx_zero(amx_tiles *s, int tile);

/* Rows `stride` bytes apart. An address that cannot be read faults here, as it would in the instruction. */
amx_outcome amx_load(amx_tiles *s, int tile, const uint8_t *address, ptrdiff_t stride);
amx_outcome amx_store(amx_tiles *s, int tile, uint8_t *address, ptrdiff_t stride);

/* TDPBF16PS. */
amx_outcome amx_dot_bf16(amx_tiles *s, int sum, int a, int b);

/* TDPBSSD, TDPBSUD, TDPBUSD, TDPBUUD: which of the two is signed. */
amx_outcome amx_dot_int8(amx_tiles *s, int sum, int a, int b, bool a_signed, bool b_signed);

#endif
