/* The draft length policy against machines whose best length is known. */
#include "tests/support/test.h"

#include <math.h>

#include "draft/length.h"

enum { MAX_DRAFT = 16, ROUNDS = 300 };

/* What margins say of tokens: nothing, that those of more than a nat are more often kept, or less. */
typedef enum { SILENT, TELLING, CONTRARY } margins_kind;

typedef struct {
    double acceptance, token_ns, verify_ns, row_ns;
    double tile_ns;    /* every tile of rows after the first costs so much more */
    int32_t tile_rows; /* 0: no tiles */
    margins_kind margins;
    double second; /* of the refused tokens those whose second choice is right */
    bool branches; /* second choices are proposed */
} machine;

static uint64_t rng = 1;
static double uniform01(void)
{
    rng = rng * 6364136223846793005u + 1442695040888963407u;
    return (double)(rng >> 11) * 0x1p-53;
}

static double away_ns(const machine *m, int32_t k)
{
    const int32_t tiles = m->tile_rows > 0 ? k / m->tile_rows : 0; /* k + 1 rows */
    return m->verify_ns + k * m->row_ns + tiles * m->tile_ns;
}

static double rate(const machine *m, int32_t k)
{
    double tokens = 1.0, power = 1.0;
    for (int32_t i = 0; i < k; i++) tokens += power *= m->acceptance;
    return tokens / (k * m->token_ns + away_ns(m, k));
}

static double acceptance_of(const machine *m, float margin)
{
    const double sure = 1.4 * m->acceptance, unsure = 0.6 * m->acceptance;
    if (m->margins == SILENT) return m->acceptance;
    return (m->margins == TELLING) == (margin > 1.0f) ? sure : unsure;
}

/* One round: tokens are drawn while the policy goes on, or `fixed` of them; some are kept. */
typedef struct {
    float margins[MAX_DRAFT];
    int32_t n, n_accepted, n_branches;
    bool second_right, branch_kept;
} proposal;

static proposal propose(const pf_length *length, const machine *m, int32_t fixed)
{
    proposal p = { 0 };
    while (fixed > 0 ? p.n < fixed : pf_length_goes_on(length, p.margins, p.n, MAX_DRAFT))
        p.margins[p.n++] = 2.0f * (float)uniform01();
    assert_in_range(p.n, 1, MAX_DRAFT);
    while (p.n_accepted < p.n && uniform01() < acceptance_of(m, p.margins[p.n_accepted])) p.n_accepted++;
    p.second_right = p.n_accepted < p.n && uniform01() < m->second;
    int32_t at[MAX_DRAFT] = { 0 };
    if (m->branches) p.n_branches = pf_length_branches(length, p.margins, p.n, MAX_DRAFT, at);
    assert_in_range(p.n + p.n_branches, p.n, MAX_DRAFT);
    for (int32_t i = 0; i < p.n_branches; i++) p.branch_kept |= p.second_right && at[i] == p.n_accepted;
    return p;
}

/* Tokens a nanosecond over many rounds, while times are measured with noise and now and then with a stall. */
static double run(pf_length *length, const machine *m, int32_t rounds, int32_t fixed)
{
    double tokens = 0.0, ns = 0.0;
    for (int32_t i = 0; i < rounds; i++) {
        const proposal p = propose(length, m, fixed);
        const double noise = 0.9 + 0.2 * uniform01(), stall = i % 50 == 49 ? 20.0 : 1.0;
        const int32_t n_rows = p.n + p.n_branches, n_committed = p.n_accepted + 1 + p.branch_kept;
        const pf_length_round round = { .n_drawn = p.n,
                                        .n_branches = p.n_branches,
                                        .n_kept = p.n_accepted,
                                        .second_right = p.second_right,
                                        .n_committed = n_committed,
                                        .draft_ns = (uint64_t)(p.n * m->token_ns * noise),
                                        .away_ns = (uint64_t)(away_ns(m, n_rows) * noise * stall) };
        pf_length_observe(length, p.margins, &round);
        tokens += n_committed;
        ns += p.n * m->token_ns + away_ns(m, n_rows);
    }
    return tokens / ns;
}

/* Of the best fixed length, by its expectation where margins are silent. */
static double best_rate(const machine *m)
{
    double best = 0.0;
    for (int32_t k = 1; k <= MAX_DRAFT; k++)
        if (rate(m, k) > best) best = rate(m, k);
    return best;
}

static void expect_part_of_best(pf_length *length, const machine *m, double least)
{
    const double part = run(length, m, 5000, 0) / best_rate(m);
    if (part < least)
        fail_msg("%.3f of the best fixed length's rate at acceptance %.2f; expected %.3f", part, m->acceptance, least);
}

static void lengths_come_near_the_best_on_machines_of_every_kind(void **state)
{
    (void)state;
    const double acceptances[] = { 0.2, 0.5, 0.7, 0.85, 0.95 };
    const machine machines[] = {
        { .token_ns = 20e3, .verify_ns = 150e3, .row_ns = 10e3 },
        { .token_ns = 3e6, .verify_ns = 20e6 },
        { .token_ns = 5e6, .verify_ns = 20e6, .row_ns = 1e6 },
        { .token_ns = 10e3, .verify_ns = 5e6, .row_ns = 5e3 },
        { .token_ns = 12e3, .verify_ns = 180e3, .row_ns = 3e3, .tile_ns = 80e3, .tile_rows = 6 },
    };
    for (size_t i = 0; i < PF_COUNT(machines); i++)
        for (size_t j = 0; j < PF_COUNT(acceptances); j++) {
            machine m = machines[i];
            m.acceptance = acceptances[j];
            pf_length length = { 0 };
            (void)run(&length, &m, ROUNDS, 0);
            expect_part_of_best(&length, &m, 0.95);
        }
}

/* A line through rounds of six rows and of seven would call the sixth dear. */
static void the_step_of_a_tile_is_found_and_kept_from(void **state)
{
    (void)state;
    const machine m = {
        .acceptance = 0.72, .token_ns = 12e3, .verify_ns = 180e3, .row_ns = 3e3, .tile_ns = 80e3, .tile_rows = 6
    };
    pf_length length = { 0 };
    (void)run(&length, &m, ROUNDS, 0);
    expect_part_of_best(&length, &m, 0.975);
}

/* Whichever way they point: what a margin means is learnt. */
static void informative_margins_beat_every_fixed_length(void **state)
{
    (void)state;
    for (margins_kind kind = TELLING; kind <= CONTRARY; kind++) {
        const machine m = { .acceptance = 0.7, .token_ns = 15e3, .verify_ns = 100e3, .row_ns = 15e3, .margins = kind };
        double best = 0.0;
        for (int32_t k = 1; k <= 8; k++) {
            const double r = run(&(pf_length){ 0 }, &m, 20000, k);
            if (r > best) best = r;
        }
        pf_length length = { 0 };
        (void)run(&length, &m, ROUNDS, 0);
        const double part = run(&length, &m, 20000, 0) / best;
        if (part < 1.03) fail_msg("%.3f of the best fixed length's rate; expected more than 1.03", part);
    }
}

/* A round without branches. */
static void observe(pf_length *length, const float *margins, int32_t n, int32_t n_kept, uint64_t draft_ns,
                    uint64_t away_ns)
{
    const pf_length_round round = {
        .n_drawn = n, .n_kept = n_kept, .n_committed = n_kept + 1, .draft_ns = draft_ns, .away_ns = away_ns
    };
    pf_length_observe(length, margins, &round);
}

static int32_t length_of(const pf_length *length, float margin)
{
    float margins[MAX_DRAFT];
    int32_t n = 0;
    while (pf_length_goes_on(length, margins, n, MAX_DRAFT)) margins[n++] = margin;
    return n;
}

static void a_sequence_begins_with_what_the_one_before_has_measured(void **state)
{
    (void)state;
    const machine m = { .acceptance = 0.95, .token_ns = 1e6, .verify_ns = 20e6 };
    pf_length first = { 0 }, second, third, fourth;
    (void)run(&first, &m, ROUNDS, 0);
    pf_length_begin(&second, &first);
    (void)run(&second, &m, 2, 0); /* of lengths to be tried */
    if (length_of(&second, 1.0f) < 10) fail_msg("length %d; expected at least 10", length_of(&second, 1.0f));

    /* Nor is it bound by it: with another verifier the sequences' own rounds soon count for more. */
    const machine other = { .acceptance = 0.95, .token_ns = 1e6, .verify_ns = 1e5, .row_ns = 2e6 };
    for (int i = 0; i < 4; i++) {
        pf_length_begin(&third, &second);
        (void)run(&third, &other, 40, 0);
        second = third;
    }
    expect_part_of_best(&third, &other, 0.95);

    pf_length_begin(&fourth, &(pf_length){ 0 });
    assert_int_equal(length_of(&fourth, 1.0f), PF_LENGTH_FIRST);
}

/* Nothing is kept, and every row costs. */
static const machine hopeless = { .acceptance = 0.0, .token_ns = 1e6, .verify_ns = 1e6, .row_ns = 1e6 };

/* Its next rounds there have the lengths that are `tried` [n], and then it is known that one token is best. */
static void expect_tried(pf_length *length, const int32_t *tried, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(length_of(length, 1.0f), tried[i]);
        (void)run(length, &hopeless, 1, 0);
    }
    assert_int_equal(length_of(length, 1.0f), 1);
}

static void lengths_are_tried_before_any_is_chosen(void **state)
{
    (void)state;
    pf_length length = { 0 };
    expect_tried(&length, (const int32_t[]){ PF_LENGTH_FIRST, 1, 3, 2 }, 4);
}

/* Three rows cost hardly more than two, and a fourth as much again: by the line through 1 and 4 a second token would not
 * pay, and nothing would ever tell. */
static void a_step_behind_a_short_length_is_found_by_what_is_tried(void **state)
{
    (void)state;
    const machine m = {
        .acceptance = 0.5, .token_ns = 30e3, .verify_ns = 450e3, .row_ns = 10e3, .tile_ns = 450e3, .tile_rows = 3
    };
    enum { SEQUENCES = 200 };
    double sum = 0.0;
    for (int i = 0; i < SEQUENCES; i++) sum += run(&(pf_length){ 0 }, &m, 60, 0) / best_rate(&m);
    if (sum / SEQUENCES < 0.89) fail_msg("%.3f of the best fixed length's rate; expected 0.89", sum / SEQUENCES);
}

static void a_sequence_tries_two_lengths_before_it_uses_inherited_times(void **state)
{
    (void)state;
    pf_length first = { 0 }, second;
    (void)run(&first, &hopeless, ROUNDS, 0);
    assert_int_equal(length_of(&first, 1.0f), 1);
    pf_length_begin(&second, &first);
    expect_tried(&second, (const int32_t[]){ 3, 2 }, 2);
}

static void a_length_that_was_measured_lately_is_not_tried_again(void **state)
{
    (void)state;
    pf_length first = { 0 }, second, third;
    (void)run(&first, &hopeless, ROUNDS, 0);
    pf_length_begin(&second, &first);
    expect_tried(&second, (const int32_t[]){ 3, 2 }, 2);
    pf_length_begin(&third, &second);
    assert_int_equal(length_of(&third, 1.0f), 1);
}

static void a_sequence_without_a_round_passes_its_initial_measurements_on(void **state)
{
    (void)state;
    const machine m = { .acceptance = 0.8, .token_ns = 1e6, .verify_ns = 20e6 };
    pf_length first = { 0 }, second, third;
    (void)run(&first, &m, ROUNDS, 0);
    pf_length_begin(&second, &first);
    pf_length_begin(&third, &second);
    assert_memory_equal(&third, &second, sizeof third);
}

/* The fifth row begins a tile: it does not pay by itself, and those behind it cost nothing. */
static void an_unprofitable_token_is_drawn_if_later_ones_are_profitable(void **state)
{
    (void)state;
    const float margins[MAX_DRAFT] = { 0 };
    pf_length length = { 0 };
    for (int i = 0; i < 600; i++) {
        const int32_t n = 1 + i % 8;
        observe(&length, margins, n, n, 1000 * (uint64_t)n, n < 5 ? 1000000 : 1600000);
    }
    assert_true(pf_length_goes_on(&length, margins, 4, 8));
    assert_false(pf_length_goes_on(&length, margins, 4, 5));
}

/* Short rounds that were slow by chance are no reason to draft on. */
static void estimated_times_never_decrease_with_length(void **state)
{
    (void)state;
    pf_length length = { 0 };
    const float margins[MAX_DRAFT] = { 0 };
    for (int i = 0; i < 100; i++) {
        observe(&length, margins, 2, 0, 2000, 10000000);
        observe(&length, margins, 6, 0, 6000, 8000000);
    }
    assert_false(pf_length_goes_on(&length, margins, 6, MAX_DRAFT));
}

static void a_stall_while_drafting_does_not_change_the_time_of_a_length(void **state)
{
    (void)state;
    const machine m = { .acceptance = 0.95, .token_ns = 1e6, .verify_ns = 20e6 };
    pf_length length = { 0 };
    (void)run(&length, &m, ROUNDS, 0);
    const int32_t before = length_of(&length, 1.0f);
    const float margins[MAX_DRAFT] = { 0 };
    observe(&length, margins, 8, 8, 8 * (uint64_t)1000000000, 20000000);
    assert_true(before >= 10);
    assert_in_range(length_of(&length, 1.0f), before - 2, before + 2);
}

static void a_change_of_acceptance_is_followed(void **state)
{
    (void)state;
    machine m = { .acceptance = 0.95, .token_ns = 1e6, .verify_ns = 20e6 };
    pf_length length = { 0 };
    (void)run(&length, &m, ROUNDS, 0);
    const int32_t easy = length_of(&length, 1.0f);
    m.acceptance = 0.1;
    (void)run(&length, &m, 200, 0);
    const int32_t hard = length_of(&length, 1.0f);
    if (easy < 10 || hard > 3) fail_msg("lengths %d then %d; expected at least 10, then at most 3", easy, hard);
}

/* Rows that cost nothing: proposals gain what is in the second choices. Rows that are dear: they stay away, and take nothing. */
static void second_choices_are_proposed_where_their_rows_are_cheap_and_only_there(void **state)
{
    (void)state;
    const struct {
        double row_ns, least, most;
    } cases[] = { { 0.0, 1.05, 1.5 }, { 60e3, 0.98, 1.02 } };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        machine m = { .acceptance = 0.7, .token_ns = 10e3, .verify_ns = 1e6, .row_ns = cases[i].row_ns, .second = 0.5 };
        pf_length chains = { 0 }, trees = { 0 };
        (void)run(&chains, &m, ROUNDS, 0);
        const double without = run(&chains, &m, 5000, 0);
        m.branches = true;
        (void)run(&trees, &m, ROUNDS, 0);
        const double gained = run(&trees, &m, 5000, 0) / without;
        if (gained < cases[i].least || gained > cases[i].most)
            fail_msg("rows of %g ns: %.3f of the rate without second choices; expected %.2f to %.2f", cases[i].row_ns,
                     gained, cases[i].least, cases[i].most);
    }
}

/* Of two tokens that would be kept alike, the earlier one's is the likelier to matter; of two places, the unsure one's. */
static void second_choices_are_ordered_by_gain_and_worthless_ones_are_left_out(void **state)
{
    (void)state;
    pf_length length = { 0 };
    const float margins[MAX_DRAFT] = { 3.0f, 3.0f, 0.5f, 3.0f };
    for (int i = 0; i < 400;
         i++) { /* those of three nats are kept; of half a nat, the second choice is right half the time */
        pf_length_round round = { .n_drawn = 4, .n_kept = 2 + 2 * (i % 2), .second_right = true };
        round.n_committed = round.n_kept + 1;
        round.draft_ns = 1000;
        round.away_ns = 1000000;
        pf_length_observe(&length, margins, &round);
    }
    int32_t at[MAX_DRAFT];
    assert_int_equal(pf_length_branches(&length, margins, 4, MAX_DRAFT, at), 1);
    assert_int_equal(at[0], 2);
    assert_int_equal(pf_length_branches(&length, margins, 4, 4, at), 0);
    const float unsure[MAX_DRAFT] = { 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f };
    assert_int_equal(pf_length_branches(&length, unsure, 8, MAX_DRAFT, at),
                     6); /* one in 64 is reached, not one in 128 */
    assert_int_equal(pf_length_branches(&length, unsure, 3, 5, at), 2);
    assert_int_equal(at[0], 0);
    assert_int_equal(at[1], 1);
}

/* A row's price in tokens, of rounds that all commit one: a quarter of 1 ms more for each of two tokens that are refused, at
 * 1 token in 1.25 ms, is 0.2. A second choice that is always right gives five times that, one that is half the time less than
 * three times. */
static void a_second_choice_has_to_be_worth_three_times_its_rows_price(void **state)
{
    (void)state;
    const float margins[MAX_DRAFT] = { 0.5f, 0.5f, 0.5f };
    for (int every = 1; every <= 2; every++) {
        pf_length length = { 0 };
        for (int i = 0; i < 400; i++) {
            const pf_length_round round = { .n_drawn = 1 + 2 * (i % 2),
                                            .second_right = i / 2 % every == 0,
                                            .n_committed = 1,
                                            .away_ns = 1000000 + 500000 * (uint64_t)(i % 2) };
            pf_length_observe(&length, margins, &round);
        }
        int32_t at[MAX_DRAFT];
        assert_int_equal(pf_length_branches(&length, margins, 1, MAX_DRAFT, at), every == 1);
    }
}

static void a_nan_margin_counts_as_uncertain(void **state)
{
    (void)state;
    pf_length length = { 0 };
    const float sure[] = { 9.0f, 9.0f, 9.0f, 9.0f };
    const machine cheap = { .acceptance = 0.9, .token_ns = 1e6, .verify_ns = 20e6 };
    (void)run(&length, &cheap, 20, 0);
    for (int i = 0; i < 200; i++) {
        observe(&length, sure, 4, 4, 4000000, 20000000);
        observe(&length, (float[]){ NAN }, 1, 0, 1000000, 20000000);
    }
    if (length_of(&length, NAN) >= length_of(&length, 9.0f))
        fail_msg("lengths %d and %d; expected less of no number", length_of(&length, NAN), length_of(&length, 9.0f));
}

static void without_measurements_the_first_length_is_used_within_the_bound(void **state)
{
    (void)state;
    const pf_length length = { 0 };
    const float margins[16] = { 0 };
    for (int32_t max = 1; max <= 16; max++)
        for (int32_t n = 0; n < max; n++)
            assert_int_equal(pf_length_goes_on(&length, margins, n, max), n < PF_LENGTH_FIRST);
    assert_false(pf_length_goes_on(&length, margins, 1, 1));
    assert_true(pf_length_goes_on(&length, margins, 0, 1));
    int32_t at[16];
    assert_int_equal(pf_length_branches(&length, margins, PF_LENGTH_FIRST, 16, at), 0);
}

static void extreme_measurements_give_lengths_in_range(void **state)
{
    (void)state;
    pf_length length = { 0 };
    const float margins[] = { NAN, INFINITY, -INFINITY, 3e38f, -0.0f };
    for (int i = 0; i < 50; i++) observe(&length, margins, 1 + i % 5, i % 2, 0, 0);
    for (int i = 0; i < 50; i++) observe(&length, margins, 1 + i % 5, 1 + i % 5, UINT64_MAX, UINT64_MAX);
    int32_t at[5];
    for (int32_t n = 0; n <= 5; n++) (void)pf_length_goes_on(&length, margins, n, 5);
    for (int32_t n = 1; n <= 5; n++) assert_in_range(pf_length_branches(&length, margins, n, 5, at), 0, 5 - n);
    assert_false(pf_length_goes_on(&length, margins, 5, 5));
    assert_true(pf_length_goes_on(&length, margins, 0, 5));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_come_near_the_best_on_machines_of_every_kind),
        cmocka_unit_test(the_step_of_a_tile_is_found_and_kept_from),
        cmocka_unit_test(informative_margins_beat_every_fixed_length),
        cmocka_unit_test(a_sequence_begins_with_what_the_one_before_has_measured),
        cmocka_unit_test(lengths_are_tried_before_any_is_chosen),
        cmocka_unit_test(a_step_behind_a_short_length_is_found_by_what_is_tried),
        cmocka_unit_test(a_sequence_tries_two_lengths_before_it_uses_inherited_times),
        cmocka_unit_test(a_length_that_was_measured_lately_is_not_tried_again),
        cmocka_unit_test(a_sequence_without_a_round_passes_its_initial_measurements_on),
        cmocka_unit_test(an_unprofitable_token_is_drawn_if_later_ones_are_profitable),
        cmocka_unit_test(estimated_times_never_decrease_with_length),
        cmocka_unit_test(a_stall_while_drafting_does_not_change_the_time_of_a_length),
        cmocka_unit_test(a_change_of_acceptance_is_followed),
        cmocka_unit_test(second_choices_are_proposed_where_their_rows_are_cheap_and_only_there),
        cmocka_unit_test(second_choices_are_ordered_by_gain_and_worthless_ones_are_left_out),
        cmocka_unit_test(a_second_choice_has_to_be_worth_three_times_its_rows_price),
        cmocka_unit_test(a_nan_margin_counts_as_uncertain),
        cmocka_unit_test(without_measurements_the_first_length_is_used_within_the_bound),
        cmocka_unit_test(extreme_measurements_give_lengths_in_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
