/* Rows in groups: together they are all rows, in tiles and in memory too; and how many there are. */
#include "tests/support/test.h"

#include "model/forward/row_groups.h"

static void assert_covers(const pf_row_groups *groups, int32_t tile_rows)
{
    const int32_t n_tiles = pf_row_groups_tiles(groups, tile_rows);
    int32_t row = 0, tile = 0;
    for (int32_t g = 0; g < groups->n_groups; g++) {
        const pf_row_group group = pf_row_groups_get(groups, g);
        const int32_t n = pf_gemm_tiles(tile_rows, group.n_rows);
        assert_int_equal(group.first_row, row);
        assert_true(group.n_rows > 0 && group.n_rows <= groups->group_rows);
        for (int32_t t = 0; t < n; t++)
            assert_int_equal(pf_row_groups_tile_row(groups, tile_rows, tile + t),
                             row + pf_gemm_tile_row(n, group.n_rows, t));
        row += group.n_rows;
        tile += n;
    }
    assert_int_equal(row, groups->n_rows);
    assert_int_equal(tile, n_tiles);
    assert_int_equal(pf_row_groups_tile_row(groups, tile_rows, n_tiles), groups->n_rows);
}

/* What lies behind a group begins at a line, behind all of the group, and all fits what n_rows rows take. */
static void assert_fits(const pf_row_groups *groups, int32_t k)
{
    size_t end = 0;
    for (int32_t g = 0; g < groups->n_groups; g++) {
        const pf_row_group group = pf_row_groups_get(groups, g);
        assert_true(pf_row_group_at(group, k) >= end && pf_row_group_at(group, k) % 64 == 0);
        end = pf_row_group_at(group, k) + pf_gemm_input_bytes(group.n_rows, k);
    }
    assert_true(end <= pf_gemm_input_bytes(groups->n_rows, k));
}

static void groups_cover_all_rows_and_fit_the_memory_of_a_left_side(void **state)
{
    (void)state;
    int32_t most = 0;
    for (int32_t n_rows = 1; n_rows < 2500; n_rows += n_rows < 600 ? 1 : 37)
        for (int32_t n_members = 1; n_members <= 64; n_members += n_members < 9 ? 1 : 11) {
            const pf_row_groups groups = pf_row_groups_of(n_rows, 264, n_members);
            assert_covers(&groups, 32);
            assert_covers(&groups, 14);
            assert_covers(&groups, 1);
            assert_fits(&groups, 264);
            assert_fits(&groups, 3110);
            if (groups.n_groups > most) most = groups.n_groups;
        }
    assert_int_equal(most, 8);
}

static void rows_are_cut_where_shares_of_all_columns_would_be_narrow(void **state)
{
    (void)state;
    static const struct {
        int32_t n_rows, n_columns, n_members, n_groups, group_rows;
    } cases[] = {
        { 512, 2048, 16, 2, 256 },  { 512, 2048, 8, 2, 256 },   { 512, 2048, 4, 1, 512 },  { 512, 2048, 2, 1, 512 },
        { 512, 64, 2, 1, 512 },     { 512, 64, 3, 1, 512 },     { 512, 64, 4, 2, 256 }, /* two members to a group */
        { 480, 2048, 16, 1, 480 },  { 481, 2048, 16, 2, 256 },  { 513, 2048, 16, 2, 288 }, { 512, 64, 64, 2, 256 },
        { 1024, 2048, 16, 4, 256 }, { 1024, 2048, 32, 4, 256 }, { 1, 2048, 16, 1, 1 },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        const pf_row_groups groups = pf_row_groups_of(cases[i].n_rows, cases[i].n_columns, cases[i].n_members);
        assert_int_equal(groups.n_groups, cases[i].n_groups);
        assert_int_equal(groups.group_rows, cases[i].group_rows);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_cover_all_rows_and_fit_the_memory_of_a_left_side),
        cmocka_unit_test(rows_are_cut_where_shares_of_all_columns_would_be_narrow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
