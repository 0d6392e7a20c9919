/* Draft wait policy with a drafter, by a clock that the test winds. */
#include "engine/draft_wait.h"
#include "tests/support/test.h"

static const uint64_t MS = 1000 * 1000;

static void a_peer_that_answers_is_waited_for_in_proportion_to_verification(void **state)
{
    (void)state;
    pf_draft_wait p;
    pf_draft_wait_init(&p);
    assert_int_equal(pf_draft_wait_asked(&p, 1, 1000 * MS), PF_DRAFT_WAIT_FLOOR_NS);
    pf_draft_wait_verified(&p, 100 * MS, false, 1);
    assert_int_equal(pf_draft_wait_asked(&p, 2, 1000 * MS), 400 * MS);
    pf_draft_wait_verified(&p, 20 * MS, false, 1); /* one that is quicker counts an eighth */
    assert_int_equal(pf_draft_wait_asked(&p, 3, 1000 * MS), 360 * MS);
    pf_draft_wait_verified(&p, 90000 * MS, false, 1); /* one that was stopped, an eighth of four times as much */
    assert_int_equal(pf_draft_wait_asked(&p, 4, 1000 * MS), 495 * MS);
    for (int i = 0; i < 100; i++) pf_draft_wait_verified(&p, 1 * MS, false, 1);
    assert_int_equal(pf_draft_wait_asked(&p, 5, 1000 * MS), PF_DRAFT_WAIT_FLOOR_NS);
}

static void a_target_that_was_stopped_in_its_first_round_is_known_after_the_second(void **state)
{
    (void)state;
    pf_draft_wait p;
    pf_draft_wait_init(&p);
    for (int proposed = 0; proposed < 2; proposed++) pf_draft_wait_verified(&p, 20000 * MS, proposed, 1);
    for (int proposed = 0; proposed < 2; proposed++) pf_draft_wait_verified(&p, 20 * MS, proposed, 1);
    assert_int_equal(pf_draft_wait_asked(&p, 1, 1000 * MS), 80 * MS);
    assert_true(p.plain_ns == (double)(20 * MS));
    assert_true(p.judge_ns <= p.rounds * (double)(20 * MS));
}

static void a_peer_that_is_late_is_not_waited_for_until_it_is_fast_again(void **state)
{
    (void)state;
    pf_draft_wait p;
    pf_draft_wait_init(&p);
    uint64_t now = 1000 * MS;
    assert_true(pf_draft_wait_asked(&p, 1, now) > 0);
    now += 20 * MS;
    pf_draft_wait_timed_out(&p, now);
    for (uint64_t round = 2; round < 10; round++) assert_int_equal(pf_draft_wait_asked(&p, round, now += MS), 0);
    pf_draft_wait_answered(&p, 1, now); /* 28 ms: late */
    assert_int_equal(pf_draft_wait_asked(&p, 10, now += MS), 0);
    pf_draft_wait_answered(&p, 999, now); /* never asked */
    assert_int_equal(pf_draft_wait_asked(&p, 11, now += MS), 0);
    pf_draft_wait_answered(&p, 9, now); /* stale, but 2 ms */
    assert_true(pf_draft_wait_asked(&p, 12, now += MS) > 0);
}

static void an_answer_from_long_ago_is_not_taken_for_one_to_a_recent_question(void **state)
{
    (void)state;
    pf_draft_wait p;
    pf_draft_wait_init(&p);
    uint64_t now = 1000 * MS;
    (void)pf_draft_wait_asked(&p, 1, now);
    pf_draft_wait_timed_out(&p, now += 20 * MS);
    for (uint64_t round = 2; round <= 1 + PF_DRAFT_WAIT_ROUNDS; round++)
        (void)pf_draft_wait_asked(&p, round, now += MS);
    pf_draft_wait_answered(&p, 1, now);
    assert_int_equal(pf_draft_wait_asked(&p, 2 + PF_DRAFT_WAIT_ROUNDS, now += MS), 0);
}

static void a_silent_peer_is_tried_again_once_a_second(void **state)
{
    (void)state;
    pf_draft_wait p;
    pf_draft_wait_init(&p);
    uint64_t now = 1000 * MS;
    (void)pf_draft_wait_asked(&p, 1, now);
    pf_draft_wait_timed_out(&p, now += 20 * MS);
    int n_waits = 0;
    for (uint64_t round = 2; round < 5002; round++) { /* 5 s of rounds of 1 ms */
        if (pf_draft_wait_asked(&p, round, now) == 0) {
            now += MS;
            continue;
        }
        n_waits++;
        pf_draft_wait_timed_out(&p, now += 20 * MS);
    }
    assert_in_range(n_waits, 4, 5);
}

/* One that asks for the prefix instead of answering is not late either. */
static void a_trial_is_one_rounds_whatever_comes_of_it(void **state)
{
    (void)state;
    pf_draft_wait p;
    pf_draft_wait_init(&p);
    (void)pf_draft_wait_asked(&p, 1, 1000 * MS);
    pf_draft_wait_timed_out(&p, 1020 * MS);
    assert_true(pf_draft_wait_asked(&p, 2, 3000 * MS) > 0);
    assert_int_equal(pf_draft_wait_asked(&p, 3, 3001 * MS), 0);
    assert_true(pf_draft_wait_asked(&p, 4, 5000 * MS) > 0);
}

static void an_answer_that_comes_too_late_time_and_again_is_not_tried_for(void **state)
{
    (void)state;
    pf_draft_wait p;
    pf_draft_wait_init(&p);
    uint64_t now = 1000 * MS;
    (void)pf_draft_wait_asked(&p, 1, now);
    pf_draft_wait_timed_out(&p, now += 20 * MS);
    for (uint64_t round = 2; round < 1002; round++) { /* 10 s of rounds of 10 ms, and answers 50 ms late */
        pf_draft_wait_verified(&p, 10 * MS, false, 1);
        if (round > 6) pf_draft_wait_answered(&p, round - 5, now);
        assert_int_equal(pf_draft_wait_asked(&p, round, now), 0);
        now += 10 * MS;
    }
}

/* Rounds with a drafter so far away, of whose proposals so many tokens are kept and one comes besides, until 1000 are
 * committed. How long that takes, in a target's steps; the wind of the clock is *now. */
static double decode(pf_draft_wait *p, uint64_t *now, uint64_t away_ms, uint64_t step_ms, int32_t n_kept)
{
    const uint64_t begin = *now;
    uint64_t round = begin;
    for (int32_t n = 0; n < 1000;) {
        const bool waits = pf_draft_wait_asked(p, ++round, *now) >= away_ms * MS;
        pf_draft_wait_answered(p, round, *now + away_ms * MS); /* or seen later, as having come then */
        if (waits) *now += away_ms * MS;
        if (!waits && n % (n_kept + 1) == 0) pf_draft_wait_in_hindsight(p, n_kept + 1);
        const int32_t n_tokens = waits ? n_kept + 1 : 1;
        pf_draft_wait_verified(p, step_ms * MS, waits, n_tokens);
        *now += step_ms * MS;
        n += n_tokens;
    }
    return (double)(*now - begin) / (double)(step_ms * MS);
}

static void one_that_keeps_up_is_waited_for_while_that_pays(void **state)
{
    (void)state;
    pf_draft_wait p;
    pf_draft_wait_init(&p);
    uint64_t now = 1000 * MS;
    pf_draft_wait_verified(&p, 30 * MS, false, 1);
    const double near = decode(&p, &now, 30, 30, 4), far = decode(&p, &now, 110, 30, 2);
    if (near > 401.0) fail_msg("1000 tokens in %.1f steps; expected two steps for 5", near);
    if (far > 1025.0) fail_msg("1000 tokens in %.1f steps; expected no more than plain, nearly", far);
    const double again = decode(&p, &now, 60, 30, 4);
    if (again > 650.0) fail_msg("1000 tokens in %.1f steps; expected three steps for 5, nearly", again);
}

/* Whether one is waited for in the end whose answers take 25 ms and their verification 60, for two tokens. */
static bool is_worth_waiting_for(pf_draft_wait *p)
{
    uint64_t now = 1000 * MS, round = 0;
    for (; round < 60; round++) {
        const bool waits = pf_draft_wait_asked(p, round, now) > 0;
        if (!waits) return false;
        pf_draft_wait_answered(p, round, now += 25 * MS);
        pf_draft_wait_verified(p, 60 * MS, true, 2);
        now += 60 * MS;
    }
    return true;
}

static void what_a_wait_must_pay_is_plain_decoding(void **state)
{
    (void)state;
    pf_draft_wait p;
    pf_draft_wait_init(&p);
    assert_true(is_worth_waiting_for(&p)); /* what a round takes is the best that is known */
    pf_draft_wait_init(&p);
    pf_draft_wait_verified(&p, 30 * MS, false, 1);
    assert_false(is_worth_waiting_for(&p));
    uint64_t round = 61, now = 9000 * MS;
    for (; round < 100; round++, now += 30 * MS) { /* an answer that came between two looks had not come at the first */
        assert_int_equal(pf_draft_wait_asked(&p, round, now), 0);
        if (round > 62) pf_draft_wait_answered(&p, round - 2, now);
        pf_draft_wait_in_hindsight(&p, 1);
    }
    for (int i = 0; i < 30; i++) pf_draft_wait_in_hindsight(&p, 4); /* it has got better: 120 ms for 90 */
    assert_true(pf_draft_wait_asked(&p, round, now) > 0);
}

static void a_drafter_of_which_nothing_is_kept_costs_a_few_steps(void **state)
{
    (void)state;
    pf_draft_wait p;
    pf_draft_wait_init(&p);
    uint64_t now = 1000 * MS;
    pf_draft_wait_verified(&p, 30 * MS, false, 1);
    const double took = decode(&p, &now, 110, 30, 0);
    if (took > 1010.0) fail_msg("1000 tokens in %.1f steps; expected no more than plain, nearly", took);
}

/* So that fallback rounds are those of faults, and the figures of a pair those of all rounds. */
static void a_near_drafter_is_waited_for_whatever_it_brings(void **state)
{
    (void)state;
    pf_draft_wait p;
    pf_draft_wait_init(&p);
    uint64_t now = 1000 * MS;
    for (uint64_t round = 1; round <= 200; round++) {
        assert_int_equal(pf_draft_wait_asked(&p, round, now), PF_DRAFT_WAIT_FLOOR_NS);
        pf_draft_wait_answered(&p, round, now += 5 * MS);
        pf_draft_wait_verified(&p, 1 * MS, true, 1);
        now += 1 * MS;
    }
}

/* Near, and right once in three: that pays, though a target that does not wait sees each answer a step later. */
static void an_answer_that_is_seen_late_is_not_taken_for_one_that_came_late(void **state)
{
    (void)state;
    pf_draft_wait p;
    pf_draft_wait_init(&p);
    uint64_t now = 1000 * MS, round = 0, n_waits = 0;
    pf_draft_wait_verified(&p, 30 * MS, false, 1);
    for (int i = 0; i < 30; i++) { /* wrong until it is not waited for */
        const bool waits = pf_draft_wait_asked(&p, ++round, now) > 0;
        if (waits) pf_draft_wait_answered(&p, round, now += 25 * MS);
        pf_draft_wait_verified(&p, 30 * MS, waits, 1);
        now += 30 * MS;
    }
    for (int i = 0; i < 300; i++) {
        const bool waits = pf_draft_wait_asked(&p, ++round, now) > 0;
        pf_draft_wait_answered(&p, waits ? round : round - 1, now + (waits ? MS : 0));
        if (!waits) pf_draft_wait_in_hindsight(&p, i % 3 == 0 ? 2 : 1);
        pf_draft_wait_verified(&p, 30 * MS, waits, waits && i % 3 == 0 ? 2 : 1);
        now += (waits ? 31 : 30) * MS;
        n_waits += waits;
    }
    if (n_waits < 200) fail_msg("waited for %d times of 300", (int)n_waits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_peer_that_answers_is_waited_for_in_proportion_to_verification),
        cmocka_unit_test(a_target_that_was_stopped_in_its_first_round_is_known_after_the_second),
        cmocka_unit_test(a_peer_that_is_late_is_not_waited_for_until_it_is_fast_again),
        cmocka_unit_test(an_answer_from_long_ago_is_not_taken_for_one_to_a_recent_question),
        cmocka_unit_test(a_silent_peer_is_tried_again_once_a_second),
        cmocka_unit_test(a_trial_is_one_rounds_whatever_comes_of_it),
        cmocka_unit_test(an_answer_that_comes_too_late_time_and_again_is_not_tried_for),
        cmocka_unit_test(one_that_keeps_up_is_waited_for_while_that_pays),
        cmocka_unit_test(what_a_wait_must_pay_is_plain_decoding),
        cmocka_unit_test(a_drafter_of_which_nothing_is_kept_costs_a_few_steps),
        cmocka_unit_test(a_near_drafter_is_waited_for_whatever_it_brings),
        cmocka_unit_test(an_answer_that_is_seen_late_is_not_taken_for_one_that_came_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
