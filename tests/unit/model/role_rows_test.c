/* Rows of a role out of fused, transposed and stacked tensors. */
#include "tests/support/test.h"

#include "model/files/role_rows.h"

enum { COLUMNS = 3 };

/* Element i of the file's tensor is i. */
static pf_tensor numbered(const float *values, size_t n)
{
    return (pf_tensor){ .type = PF_TYPE_F32, .data = (const uint8_t *)values, .data_bytes = n * sizeof *values };
}

/* Gathers and compares with pf_role_rows_element, and with the file's rows that `expected` lists. */
static void assert_gathers(const pf_role_rows *rows, const int32_t *expected)
{
    enum { MOST = 1024 };
    float values[MOST], out[MOST];
    for (int32_t i = 0; i < MOST; i++) values[i] = (float)i;
    const pf_tensor tensor = numbered(values, MOST);
    pf_role_rows_gather(rows, &tensor, out);
    for (int32_t r = 0; r < rows->rows; r++)
        for (int32_t c = 0; c < rows->columns; c++) {
            const int64_t at = rows->first_element + (rows->transposed ? c * rows->map.file_rows + expected[r]
                                                                       : expected[r] * rows->columns + c);
            assert_int_equal(pf_role_rows_element(rows, r, c), at);
            assert_true(out[r * rows->columns + c] == (float)at);
        }
}

static void plain_rows_are_a_piece_of_the_file(void **state)
{
    (void)state;
    const pf_role_rows rows = { .map = { 0, 4, 4, 1, 4 }, .rows = 4, .columns = COLUMNS };
    assert_true(pf_role_rows_are_contiguous(&rows));
    assert_gathers(&rows, (const int32_t[]){ 0, 1, 2, 3 });
}

static void rows_of_key_heads_are_gathered_from_groups(void **state)
{
    (void)state; /* two key heads, of two queries each, a head of two rows: q q q q k k v v, twice */
    const pf_role_rows q = { .map = { 0, 4, 8, 2, 16 }, .rows = 8, .columns = COLUMNS };
    const pf_role_rows k = { .map = { 4, 2, 8, 2, 16 }, .rows = 4, .columns = COLUMNS };
    const pf_role_rows v = { .map = { 6, 2, 8, 2, 16 }, .rows = 4, .columns = COLUMNS };
    assert_false(pf_role_rows_are_contiguous(&q));
    assert_gathers(&q, (const int32_t[]){ 0, 1, 2, 3, 8, 9, 10, 11 });
    assert_gathers(&k, (const int32_t[]){ 4, 5, 12, 13 });
    assert_gathers(&v, (const int32_t[]){ 6, 7, 14, 15 });
}

static void transposed_rows_are_columns_of_the_file(void **state)
{
    (void)state;
    const pf_role_rows rows = { .map = { 2, 2, 2, 1, 6 }, .rows = 2, .columns = COLUMNS, .transposed = true };
    assert_false(pf_role_rows_are_contiguous(&rows));
    assert_gathers(&rows, (const int32_t[]){ 2, 3 });
}

static void a_stacked_expert_begins_behind_those_before_it(void **state)
{
    (void)state;
    const pf_role_rows rows = {
        .map = { 1, 1, 2, 3, 6 }, .rows = 3, .columns = COLUMNS, .transposed = true, .first_element = 2 * 6 * COLUMNS
    };
    assert_gathers(&rows, (const int32_t[]){ 1, 3, 5 });
}

static void a_vector_has_one_column(void **state)
{
    (void)state;
    const pf_role_rows rows = { .map = { 1, 2, 3, 2, 6 }, .rows = 4, .columns = 1 };
    assert_gathers(&rows, (const int32_t[]){ 1, 2, 4, 5 });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_rows_are_a_piece_of_the_file),
        cmocka_unit_test(rows_of_key_heads_are_gathered_from_groups),
        cmocka_unit_test(transposed_rows_are_columns_of_the_file),
        cmocka_unit_test(a_stacked_expert_begins_behind_those_before_it),
        cmocka_unit_test(a_vector_has_one_column),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
