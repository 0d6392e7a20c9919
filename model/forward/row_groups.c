/* How many groups, and the tiles in them. */
#include "model/forward/row_groups.h"

static pf_row_groups cut(int32_t n_rows, int32_t n_groups)
{
    const int32_t steps = (n_rows + n_groups * PF_GROUP_ROWS_STEP - 1) / (n_groups * PF_GROUP_ROWS_STEP);
    return (pf_row_groups){ n_rows, n_groups, steps * PF_GROUP_ROWS_STEP };
}

pf_row_groups pf_row_groups_of(int32_t n_rows, int32_t n_columns, int32_t n_members)
{
    pf_row_groups groups = pf_row_groups_one(n_rows);
    for (int32_t n = 2; 2 * n <= n_members; n *= 2) {
        if ((int64_t)groups.group_rows * n_members <= (int64_t)groups.n_groups * n_columns) break;
        const pf_row_groups more = cut(n_rows, n);
        if (n_rows - (n - 1) * more.group_rows < PF_GROUP_ROWS_LEAST) break;
        groups = more;
    }
    return groups;
}

int32_t pf_row_groups_tiles(const pf_row_groups *groups, int32_t tile_rows)
{
    const pf_row_group last = pf_row_groups_get(groups, groups->n_groups - 1);
    return (groups->n_groups - 1) * pf_gemm_tiles(tile_rows, groups->group_rows) +
           pf_gemm_tiles(tile_rows, last.n_rows);
}

int32_t pf_row_groups_tile_row(const pf_row_groups *groups, int32_t tile_rows, int32_t t)
{
    const int32_t of_each = pf_gemm_tiles(tile_rows, groups->group_rows);
    const int32_t g = t / of_each < groups->n_groups ? t / of_each : groups->n_groups - 1;
    const pf_row_group group = pf_row_groups_get(groups, g);
    return group.first_row + pf_gemm_tile_row(pf_gemm_tiles(tile_rows, group.n_rows), group.n_rows, t - g * of_each);
}
