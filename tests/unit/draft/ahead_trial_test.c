/* Whether drafting ahead pays is found by rounds that the test makes up. */
#include "draft/ahead_trial.h"
#include "tests/support/test.h"

static const uint64_t MS = 1000000;

/* Rounds of one sequence, of which the first of each block is not counted; how many had drafting ahead. */
static int32_t play(pf_ahead_trial *t, int32_t n_rounds, uint64_t with_ns, uint64_t without_ns)
{
    int32_t n_with = 0, n_in_block = 0;
    uint32_t block = t->block;
    for (int32_t i = 0; i < n_rounds; i++) {
        n_with += !t->is_off;
        if (t->block != block) n_in_block = 0;
        block = t->block;
        if (n_in_block++ > 0)
            pf_ahead_trial_observe(t, 3.0, t->is_off ? without_ns : with_ns, n_in_block > PF_AHEAD_BLOCK);
    }
    return n_with;
}

static void it_is_switched_off_within_fifty_rounds_where_rounds_are_not_faster_by_it(void **state)
{
    (void)state;
    static const uint64_t slower[] = { 20, 21, 30, 60 };
    for (size_t i = 0; i < PF_COUNT(slower); i++) {
        pf_ahead_trial t = { .is_off = false };
        (void)play(&t, 50, slower[i] * MS, 20 * MS);
        assert_true(t.is_off);
        assert_true(t.rests);
        assert_in_range(play(&t, 5000, slower[i] * MS, 20 * MS), 1, 150); /* it is tried again now and then */
    }
}

static void it_stays_where_rounds_are_faster_by_it(void **state)
{
    (void)state;
    pf_ahead_trial t = { .is_off = false };
    assert_true(play(&t, 50, 20 * MS, 35 * MS) >= 40);
    assert_true(play(&t, 5000, 20 * MS, 35 * MS) >= 4850);
}

static void what_has_changed_is_found_by_a_later_trial(void **state)
{
    (void)state;
    pf_ahead_trial t = { .is_off = false };
    (void)play(&t, 100, 40 * MS, 20 * MS);
    assert_true(t.is_off);
    (void)play(&t, 400, 20 * MS, 35 * MS);
    assert_false(t.is_off);
}

static void a_stall_decides_nothing(void **state)
{
    (void)state;
    pf_ahead_trial t = { .is_off = false };
    for (int32_t i = 0; i < PF_AHEAD_BLOCK; i++)
        pf_ahead_trial_observe(&t, 3.0, i == 3 ? 30000 * MS : 20 * MS, i + 1 == PF_AHEAD_BLOCK);
    for (int32_t i = 0; i < PF_AHEAD_BLOCK; i++) pf_ahead_trial_observe(&t, 3.0, 35 * MS, i + 1 == PF_AHEAD_BLOCK);
    assert_true(t.rests);
    assert_false(t.is_off);
}

static void short_sequences_end_a_block_too(void **state)
{
    (void)state;
    pf_ahead_trial t = { .is_off = false };
    for (int32_t i = 0; i < 100; i++) pf_ahead_trial_observe(&t, 3.0, 20 * MS, false);
    assert_true(t.block > 0);
}

static void a_clock_that_stands_decides_for_it(void **state)
{
    (void)state;
    pf_ahead_trial t = { .is_off = false };
    (void)play(&t, 60, 0, 0);
    assert_true(t.rests);
    assert_false(t.is_off);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_switched_off_within_fifty_rounds_where_rounds_are_not_faster_by_it),
        cmocka_unit_test(it_stays_where_rounds_are_faster_by_it),
        cmocka_unit_test(what_has_changed_is_found_by_a_later_trial),
        cmocka_unit_test(a_stall_decides_nothing),
        cmocka_unit_test(short_sequences_end_a_block_too),
        cmocka_unit_test(a_clock_that_stands_decides_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
