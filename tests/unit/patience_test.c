/* Patience with a drafter, by a clock that the test winds. */
#include "engine/patience.h"
#include "tests/support/test.h"

static const uint64_t MS = 1000 * 1000;

static void a_peer_that_answers_is_waited_for_in_proportion_to_verification(void **state)
{
    (void)state;
    pf_patience p;
    pf_patience_init(&p);
    assert_int_equal(pf_patience_asked(&p, 1, 1000 * MS), PF_PATIENCE_FLOOR_NS);
    pf_patience_verified(&p, 100 * MS);
    assert_int_equal(pf_patience_asked(&p, 2, 1000 * MS), 400 * MS);
    pf_patience_verified(&p, 20 * MS); /* one that is quicker counts an eighth */
    assert_int_equal(pf_patience_asked(&p, 3, 1000 * MS), 360 * MS);
    for (int i = 0; i < 100; i++) pf_patience_verified(&p, 1 * MS);
    assert_int_equal(pf_patience_asked(&p, 4, 1000 * MS), PF_PATIENCE_FLOOR_NS);
}

static void a_peer_that_is_late_is_not_waited_for_until_it_is_fast_again(void **state)
{
    (void)state;
    pf_patience p;
    pf_patience_init(&p);
    uint64_t now = 1000 * MS;
    assert_true(pf_patience_asked(&p, 1, now) > 0);
    now += 20 * MS;
    pf_patience_timed_out(&p, now);
    for (uint64_t round = 2; round < 10; round++) assert_int_equal(pf_patience_asked(&p, round, now += MS), 0);
    pf_patience_answered(&p, 1, now); /* 28 ms: late */
    assert_int_equal(pf_patience_asked(&p, 10, now += MS), 0);
    pf_patience_answered(&p, 999, now); /* never asked */
    assert_int_equal(pf_patience_asked(&p, 11, now += MS), 0);
    pf_patience_answered(&p, 9, now); /* stale, but 2 ms */
    assert_true(pf_patience_asked(&p, 12, now += MS) > 0);
}

static void an_answer_from_long_ago_is_not_taken_for_one_to_a_recent_question(void **state)
{
    (void)state;
    pf_patience p;
    pf_patience_init(&p);
    uint64_t now = 1000 * MS;
    (void)pf_patience_asked(&p, 1, now);
    pf_patience_timed_out(&p, now += 20 * MS);
    for (uint64_t round = 2; round <= 1 + PF_PATIENCE_ROUNDS; round++) (void)pf_patience_asked(&p, round, now += MS);
    pf_patience_answered(&p, 1, now);
    assert_int_equal(pf_patience_asked(&p, 2 + PF_PATIENCE_ROUNDS, now += MS), 0);
}

static void a_silent_peer_is_tried_again_once_a_second(void **state)
{
    (void)state;
    pf_patience p;
    pf_patience_init(&p);
    uint64_t now = 1000 * MS;
    (void)pf_patience_asked(&p, 1, now);
    pf_patience_timed_out(&p, now += 20 * MS);
    int n_waits = 0;
    for (uint64_t round = 2; round < 5002; round++) { /* 5 s of rounds of 1 ms */
        if (pf_patience_asked(&p, round, now) == 0) {
            now += MS;
            continue;
        }
        n_waits++;
        pf_patience_timed_out(&p, now += 20 * MS);
    }
    assert_in_range(n_waits, 4, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_peer_that_answers_is_waited_for_in_proportion_to_verification),
        cmocka_unit_test(a_peer_that_is_late_is_not_waited_for_until_it_is_fast_again),
        cmocka_unit_test(an_answer_from_long_ago_is_not_taken_for_one_to_a_recent_question),
        cmocka_unit_test(a_silent_peer_is_tried_again_once_a_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
