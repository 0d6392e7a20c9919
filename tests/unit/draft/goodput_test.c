/* The number of tokens that a step drafts, on machines whose best number is known. */
#include "tests/support/test.h"

#include "draft/goodput.h"
#include "tests/support/draw.h"

enum { MAX_DRAFT = 16, MAX_SEQUENCES = 256, STEPS = 400 };

/* Times in ns: of a draft pass and of a verification, and what each row adds. */
typedef struct {
    double acceptance, pass, pass_row, verify, verify_row, other, catch_up; /* before the first token is drafted */
} machine;

static double step_ns(const machine *m, int32_t n, int32_t k)
{
    return k * (m->pass + n * m->pass_row) + m->verify + n * (k + 1) * m->verify_row + m->other;
}

static double goodput_of(const machine *m, int32_t n, int32_t k)
{
    double tokens = 1.0, reach = 1.0;
    for (int32_t i = 0; i < k; i++) tokens += reach *= m->acceptance;
    return n * tokens / step_ns(m, n, k);
}

static int32_t best_of(const machine *m, int32_t n)
{
    int32_t best = 0;
    for (int32_t k = 1; k <= MAX_DRAFT; k++)
        if (goodput_of(m, n, k) > goodput_of(m, n, best)) best = k;
    return best;
}

typedef struct {
    pf_goodput goodput;
    uint64_t now_ns;
    uint64_t rng;
    double spent_ns, drafting_ns; /* by the steps since the last set to zero */
} side;

static int32_t choose(side *s, const machine *m, int32_t n)
{
    pf_goodput_sequence sequences[MAX_SEQUENCES];
    for (int32_t i = 0; i < n; i++)
        sequences[i] = (pf_goodput_sequence){ .acceptance = m->acceptance, .room = MAX_DRAFT };
    return pf_goodput_choose(&s->goodput, sequences, n, MAX_DRAFT, s->now_ns);
}

/* A step with k tokens each, measured with some noise. */
static void take_step(side *s, const machine *m, int32_t n, int32_t k)
{
    const double noise = 0.9 + 0.2 * (double)below(&s->rng, 1001) / 1000.0;
    const double pass = noise * (m->pass + n * m->pass_row), verify = noise * (m->verify + n * (k + 1) * m->verify_row);
    for (int32_t i = 0; i < k; i++) pf_goodput_observe_pass(&s->goodput, n, (uint64_t)pass);
    pf_goodput_observe_step(&s->goodput, n * (k + 1), (uint64_t)verify, (uint64_t)m->other);
    const double ns = k * pass + (k > 0 ? m->catch_up : 0.0) + verify + m->other;
    s->now_ns += (uint64_t)ns;
    if (k > 0) pf_goodput_observe_drafting(&s->goodput, (uint64_t)(k * pass + m->catch_up), s->now_ns);
    s->spent_ns += ns;
    s->drafting_ns += ns - noise * (m->verify + n * m->verify_row) - m->other;
}

/* The mean choice of the last steps, once the machine is known. */
static double settle(side *s, const machine *m, int32_t n)
{
    static const int32_t tried[] = { 4, 1, 3, 2 };
    for (int32_t i = 0; i < PF_GOODPUT_FIRST_STEPS; i++) take_step(s, m, n, tried[i % 4]);
    double sum = 0.0;
    for (int32_t i = 0; i < STEPS; i++) {
        const int32_t k = choose(s, m, n);
        if (i >= STEPS / 2) sum += k;
        take_step(s, m, n, k);
    }
    return sum / (STEPS - STEPS / 2);
}

static void the_choice_has_the_best_goodput_of_the_whole_batch(void **state)
{
    (void)state;
    static const machine machines[] = {
        { 0.8, 3e6, 0, 20e6, 0.1e6, 0.2e6, 0 }, { 0.6, 1e6, 0.1e6, 5e6, 0.3e6, 0, 0 },
        { 0.9, 0.5e6, 0, 30e6, 1e6, 1e6, 0 },   { 0.5, 0.2e6, 0.02e6, 1e6, 0.05e6, 1e5, 0 },
        { 0.3, 1e6, 0, 2e6, 0.1e6, 0, 0 },
    };
    for (size_t i = 0; i < PF_COUNT(machines); i++)
        for (int32_t n = 1; n <= MAX_SEQUENCES; n *= 4) {
            side s = { .now_ns = 1, .rng = (uint64_t)n };
            const machine *m = &machines[i];
            const double chosen = settle(&s, m, n);
            const int32_t best = best_of(m, n), near = (int32_t)(chosen + 0.5);
            if (goodput_of(m, n, near) < 0.97 * goodput_of(m, n, best))
                fail_msg("machine %d, %d sequences: %.1f tokens, expected %d", (int)i, n, chosen, best);
        }
}

static void it_falls_as_the_batch_grows(void **state)
{
    (void)state;
    const machine m = { 0.8, 1e6, 0, 20e6, 0.3e6, 0, 0 };
    double before = MAX_DRAFT;
    for (int32_t n = 1; n <= MAX_SEQUENCES; n *= 4) {
        side s = { .now_ns = 1, .rng = 9 };
        const double k = settle(&s, &m, n);
        if (k > before) fail_msg("%d sequences: %.1f tokens, %.1f with fewer", n, k, before);
        before = k;
    }
    assert_true(best_of(&m, 1) >= 6 && before < 2.5);
}

/* What is drafted although it does not pay takes little of the time. */
static void a_fast_target_gets_none_and_is_tried_again_now_and_then(void **state)
{
    (void)state;
    const machine m = { 0.7, 2e6, 0, 1e6, 0.05e6, 0, 5e6 };
    assert_int_equal(best_of(&m, 4), 0);
    side s = { .now_ns = 1, .rng = 4 };
    (void)settle(&s, &m, 4);
    s.spent_ns = s.drafting_ns = 0.0;
    int32_t n_tried = 0;
    for (int32_t i = 0; i < 4000; i++) {
        const int32_t k = choose(&s, &m, 4);
        assert_true(k <= 1);
        n_tried += k;
        take_step(&s, &m, 4, k);
    }
    assert_true(n_tried >= 5);
    if (s.drafting_ns > 0.03 * s.spent_ns) fail_msg("%.1f %% of the time is lost", 100.0 * s.drafting_ns / s.spent_ns);
}

static void a_draft_that_is_no_longer_accepted_is_switched_off_within_50_steps_and_on_again(void **state)
{
    (void)state;
    machine m = { 0.8, 1e6, 0, 10e6, 0.1e6, 0, 0 };
    side s = { .now_ns = 1, .rng = 4 };
    assert_true(settle(&s, &m, 2) > 3.0);
    m.acceptance = 0.02;
    for (int32_t i = 0; i < 50; i++) take_step(&s, &m, 2, choose(&s, &m, 2));
    int32_t n = 0;
    for (int32_t i = 0; i < 20; i++) {
        const int32_t k = choose(&s, &m, 2);
        n += k;
        take_step(&s, &m, 2, k);
    }
    assert_true(n <= 5);
    m.acceptance = 0.8; /* as a retry would teach */
    assert_true(choose(&s, &m, 2) > 3);
}

static void no_sequence_counts_for_more_than_it_has_room_for(void **state)
{
    (void)state;
    const machine m = { 0.9, 0.5e6, 0, 30e6, 0.1e6, 0, 0 };
    side s = { .now_ns = 1, .rng = 4 };
    (void)settle(&s, &m, 3);
    pf_goodput_sequence rooms[] = { { .acceptance = 0.9, .room = 2 }, { .acceptance = 0.9, .room = 5 }, { .room = 0 } };
    assert_int_equal(pf_goodput_choose(&s.goodput, rooms, 3, MAX_DRAFT, s.now_ns), 5);
}

static void second_choices_that_are_often_right_pay_for_a_token(void **state)
{
    (void)state;
    const machine m = { 0.05, 1e6, 0, 4e6, 0.01e6, 0, 0 };
    side s = { .now_ns = 1, .rng = 4 };
    (void)settle(&s, &m, 1);
    s.goodput.retry_ns = UINT64_MAX;
    assert_int_equal(choose(&s, &m, 1), 0);
    pf_goodput_sequence one = { .acceptance = 0.05, .second = 0.6, .room = 4 };
    assert_int_equal(pf_goodput_choose(&s.goodput, &one, 1, 4, s.now_ns), 1);
}

static void with_little_measured_all_that_is_allowed_is_drafted(void **state)
{
    (void)state;
    const machine m = { 0.1, 9e6, 0, 1e6, 0, 0, 0 };
    side s = { .now_ns = 1 };
    assert_int_equal(choose(&s, &m, 2), MAX_DRAFT);
    for (int32_t i = 0; i < PF_GOODPUT_FIRST_STEPS - 1; i++) take_step(&s, &m, 2, 2);
    assert_int_equal(choose(&s, &m, 2), MAX_DRAFT);
    take_step(&s, &m, 2, 2);
    assert_int_equal(choose(&s, &m, 2), 1); /* the first retry */
    take_step(&s, &m, 2, 1);
    assert_int_equal(choose(&s, &m, 2), 0);
}

static void proposals_that_cost_no_pass_are_sent_where_they_pay_for_their_rows(void **state)
{
    (void)state;
    const machine m = { .verify = 100e3, .verify_row = 20e3 };
    side s = { .rng = 1 };
    assert_true(pf_goodput_pays(&s.goodput, 8, 64, 0.1, s.now_ns)); /* nothing is measured */
    for (int32_t i = 0; i < STEPS; i++) take_step(&s, &m, 8, i % 3);
    assert_true(pf_goodput_pays(&s.goodput, 8, 8, 6.0, s.now_ns)); /* 14 tokens in 420 us, 8 in 260 */
    assert_false(pf_goodput_rests(&s.goodput, s.now_ns));
    assert_true(pf_goodput_pays(&s.goodput, 8, 8, 1.0, s.now_ns)); /* 9 in 420: tried, for it has not rested yet */
    pf_goodput_observe_drafting(&s.goodput, 1000, s.now_ns);
    assert_false(pf_goodput_pays(&s.goodput, 8, 8, 1.0, s.now_ns));
    assert_true(pf_goodput_rests(&s.goodput, s.now_ns));
    s.now_ns += (uint64_t)PF_GOODPUT_RETRY_SHARE * (1000 + (uint64_t)(8 * m.verify_row * 1.2));
    assert_true(pf_goodput_pays(&s.goodput, 8, 8, 1.0, s.now_ns));
    assert_true(pf_goodput_pays(&s.goodput, 8, 0, 0.0, s.now_ns)); /* nothing to send is no rest */
    assert_false(pf_goodput_rests(&s.goodput, s.now_ns));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_choice_has_the_best_goodput_of_the_whole_batch),
        cmocka_unit_test(it_falls_as_the_batch_grows),
        cmocka_unit_test(a_fast_target_gets_none_and_is_tried_again_now_and_then),
        cmocka_unit_test(a_draft_that_is_no_longer_accepted_is_switched_off_within_50_steps_and_on_again),
        cmocka_unit_test(no_sequence_counts_for_more_than_it_has_room_for),
        cmocka_unit_test(second_choices_that_are_often_right_pay_for_a_token),
        cmocka_unit_test(proposals_that_cost_no_pass_are_sent_where_they_pay_for_their_rows),
        cmocka_unit_test(with_little_measured_all_that_is_allowed_is_drafted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
