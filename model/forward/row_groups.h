/*
 * Cuts the rows of a pass into groups. Each group is the left side of products of its own, packed behind the one before it.
 *
 *               | columns of the product                  |
 *      group 0  | thread 0   | thread 1   | 2       | 3   |      four groups of panels instead of eight of half the width,
 *      group 1  | thread 4   | thread 5   | 6       | 7   |      each over half the rows
 *
 * Where many threads share a product, each with some columns of all rows, each reads all rows through its caches for a few
 * columns. Half the rows by twice the columns is less to read, and so short a left side stays in an L2. Results do not depend
 * on it.
 */
#ifndef PF_MODEL_ROW_GROUPS_H
#define PF_MODEL_ROW_GROUPS_H

#include "kernels/gemm/gemm.h"

typedef struct {
    int32_t n_rows; /* in all */
    int32_t n_groups;
    int32_t group_rows; /* of each but the last, which may have fewer; of several a multiple of PF_GROUP_ROWS_STEP */
} pf_row_groups;

typedef struct {
    int32_t first_row, n_rows;
} pf_row_group;

enum {
    PF_GROUP_ROWS_STEP = 32,
    PF_GROUP_ROWS_LEAST = 225, /* eight blocks of AMX, with fewer of which its products wait for weights (gemm_amx.h) */
};

static inline pf_row_groups pf_row_groups_one(int32_t n_rows)
{
    return (pf_row_groups){ n_rows, 1, n_rows };
}

/* 1, 2, 4 ... groups with at least two threads each: the fewest with no more rows each than a thread has columns of a product
 * of n_columns. */
pf_row_groups pf_row_groups_of(int32_t n_rows, int32_t n_columns, int32_t n_members);

static inline pf_row_group pf_row_groups_get(const pf_row_groups *groups, int32_t g)
{
    const int32_t first = g * groups->group_rows, left = groups->n_rows - first;
    return (pf_row_group){ first, left < groups->group_rows ? left : groups->group_rows };
}

/* Tiles of all groups, none of which holds rows of two. */
int32_t pf_row_groups_tiles(const pf_row_groups *groups, int32_t tile_rows);

/* The first row of tile t, numbered through all groups; for t their number, n_rows. */
int32_t pf_row_groups_tile_row(const pf_row_groups *groups, int32_t tile_rows, int32_t t);

/* Where a group begins in a packed left side over k, of pf_gemm_input_bytes(n_rows, k) in all. */
static inline size_t pf_row_group_at(pf_row_group group, int32_t k)
{
    return group.first_row == 0 ? 0 : pf_gemm_input_bytes(group.first_row, k);
}

#endif
