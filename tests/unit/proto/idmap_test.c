/* Numbers that others chose to slots of our own. */
#include "proto/idmap.h"
#include "tests/support/draw.h"
#include "tests/support/test.h"

static void a_map_agrees_with_a_list_after_any_inserts_and_removals(void **state)
{
    (void)state;
    enum { MAX = 37, IDS = 60 };
    pf_idmap *map;
    assert_int_equal(pf_idmap_create(MAX, &map), PF_OK);
    int32_t slot_of[IDS], n = 0, n_refused = 0;
    for (int i = 0; i < IDS; i++) slot_of[i] = -1;
    uint64_t rng = 3;
    for (int step = 0; step < 20000; step++) {
        const uint64_t id = draw(&rng) % IDS;
        const int32_t slot = pf_idmap_find(map, id % 3, id);
        assert_int_equal(slot, slot_of[id]);
        assert_int_equal(pf_idmap_count(map), n);
        if (slot < 0 && step % 8 == 0) {
            assert_int_equal(pf_idmap_remove(map, id % 3, id), -1);
        } else if (slot >= 0) {
            assert_int_equal(pf_idmap_remove(map, id % 3, id), slot);
            slot_of[id] = -1;
            n--;
        } else if (n == MAX) {
            assert_int_equal(pf_idmap_insert(map, id % 3, id), -1);
            n_refused++;
        } else {
            slot_of[id] = pf_idmap_insert(map, id % 3, id);
            assert_in_range(slot_of[id], 0, MAX - 1);
            n++;
            for (uint64_t other = 0; other < IDS; other++)
                if (other != id) assert_int_not_equal(slot_of[other], slot_of[id]);
        }
    }
    assert_true(n_refused > 0); /* it was full */
    pf_idmap_destroy(map);
    pf_idmap_destroy(NULL);
    assert_int_equal(pf_idmap_create(0, &map), PF_INVALID);
    assert_int_equal(pf_idmap_create(1, &map), PF_OK);
    assert_int_equal(pf_idmap_insert(map, 7, 7), 0);
    assert_int_equal(pf_idmap_insert(map, 7, 8), -1);
    pf_idmap_destroy(map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_map_agrees_with_a_list_after_any_inserts_and_removals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
