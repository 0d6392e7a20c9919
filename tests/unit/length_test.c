/* The draft length policy against machines whose best length is known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "draft/length.h"

enum { MAX_DRAFT = 16, ROUNDS = 300 };

typedef struct {
    double acceptance, token_ns, verify_ns, row_ns;
    double tile_ns;    /* every tile of rows after the first costs so much more */
    int32_t tile_rows; /* 0: no tiles */
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

static int32_t accepted_of(const machine *m, int32_t k)
{
    int32_t n = 0;
    while (n < k && uniform01() < m->acceptance) n++;
    return n;
}

static int32_t run(pf_length *length, const machine *m, int32_t rounds)
{
    int32_t k = 0;
    for (int32_t i = 0; i < rounds; i++) {
        k = pf_length_next(length, MAX_DRAFT);
        assert_in_range(k, 1, MAX_DRAFT);
        const double noise = 0.9 + 0.2 * uniform01(), stall = i % 50 == 49 ? 20.0 : 1.0;
        pf_length_observe(length, k, accepted_of(m, k), (uint64_t)(k * m->token_ns * noise),
                          (uint64_t)(away_ns(m, k) * noise * stall));
    }
    return k;
}

static void expect_near_best(const machine *m, int32_t k)
{
    double best = 0.0;
    for (int32_t i = 1; i <= MAX_DRAFT; i++)
        if (rate(m, i) > best) best = rate(m, i);
    if (rate(m, k) < 0.93 * best)
        fail_msg("length %d gives %.3f of the best rate at acceptance %.2f", k, rate(m, k) / best, m->acceptance);
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
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
        for (size_t j = 0; j < sizeof acceptances / sizeof *acceptances; j++) {
            machine m = machines[i];
            m.acceptance = acceptances[j];
            pf_length length = { 0 };
            expect_near_best(&m, run(&length, &m, ROUNDS));
        }
}

/* The mean rate over many rounds of one length after the other, as part of the best: what the choices cost. */
static double part_of_best(pf_length *length, const machine *m, int32_t rounds)
{
    double tokens = 0.0, ns = 0.0, best = 0.0;
    for (int32_t i = 0; i < rounds; i++) {
        const int32_t k = pf_length_next(length, MAX_DRAFT), n = accepted_of(m, k);
        const double noise = 0.8 + 0.4 * uniform01();
        pf_length_observe(length, k, n, (uint64_t)(k * m->token_ns * noise), (uint64_t)(away_ns(m, k) * noise));
        tokens += rate(m, k) * (k * m->token_ns + away_ns(m, k));
        ns += k * m->token_ns + away_ns(m, k);
    }
    for (int32_t k = 1; k <= MAX_DRAFT; k++)
        if (rate(m, k) > best) best = rate(m, k);
    return tokens / ns / best;
}

/* A line through rounds of six rows and of seven would call the sixth dear. */
static void the_step_of_a_tile_is_found_and_kept_from(void **state)
{
    (void)state;
    const machine m = {
        .acceptance = 0.72, .token_ns = 12e3, .verify_ns = 180e3, .row_ns = 3e3, .tile_ns = 80e3, .tile_rows = 6
    };
    pf_length length = { 0 };
    (void)run(&length, &m, ROUNDS);
    const double part = part_of_best(&length, &m, 5000);
    if (part < 0.991) fail_msg("the lengths chosen give %.3f of the best length's rate", part);
}

static void a_sequence_begins_with_what_the_one_before_has_measured(void **state)
{
    (void)state;
    const machine m = { .acceptance = 0.95, .token_ns = 1e6, .verify_ns = 20e6 };
    pf_length first = { 0 }, second, third, fourth;
    (void)run(&first, &m, ROUNDS);
    pf_length_begin(&second, &first);
    (void)run(&second, &m, 2); /* of the first length */
    expect_near_best(&m, pf_length_next(&second, MAX_DRAFT));

    /* Nor is it bound by it: with another verifier the sequences' own rounds soon count for more. */
    const machine other = { .acceptance = 0.95, .token_ns = 1e6, .verify_ns = 1e5, .row_ns = 2e6 };
    int32_t k = 0;
    for (int i = 0; i < 4; i++) {
        pf_length_begin(&third, &second);
        k = run(&third, &other, 40);
        second = third;
    }
    expect_near_best(&other, k);

    pf_length_begin(&fourth, &(pf_length){ 0 });
    assert_int_equal(pf_length_next(&fourth, MAX_DRAFT), PF_LENGTH_FIRST);
}

static void a_change_of_acceptance_is_followed(void **state)
{
    (void)state;
    machine m = { .acceptance = 0.95, .token_ns = 1e6, .verify_ns = 20e6 };
    pf_length length = { 0 };
    const int32_t easy = run(&length, &m, ROUNDS);
    m.acceptance = 0.1;
    const int32_t hard = run(&length, &m, 100);
    if (easy < 10 || hard > 3) fail_msg("lengths %d then %d; expected at least 10, then at most 3", easy, hard);
    expect_near_best(&m, hard);
}

static void nothing_measured_is_the_first_length_within_the_bound(void **state)
{
    (void)state;
    const pf_length length = { 0 };
    assert_int_equal(pf_length_next(&length, 16), PF_LENGTH_FIRST);
    assert_int_equal(pf_length_next(&length, 2), 2);
    assert_int_equal(pf_length_next(&length, 1), 1);
}

static void times_of_zero_do_no_harm(void **state)
{
    (void)state;
    pf_length length = { 0 };
    for (int i = 0; i < 50; i++) pf_length_observe(&length, 1 + i % 3, 1, 0, 0);
    assert_in_range(pf_length_next(&length, 8), 1, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lengths_come_near_the_best_on_machines_of_every_kind),
        cmocka_unit_test(the_step_of_a_tile_is_found_and_kept_from),
        cmocka_unit_test(a_sequence_begins_with_what_the_one_before_has_measured),
        cmocka_unit_test(a_change_of_acceptance_is_followed),
        cmocka_unit_test(nothing_measured_is_the_first_length_within_the_bound),
        cmocka_unit_test(times_of_zero_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
