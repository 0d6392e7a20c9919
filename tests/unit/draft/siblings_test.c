/* Tests how siblings are drawn, against the definition in double, and beside which tokens they are placed. */
#include "draft/siblings.h"

#include <math.h>

#include "tests/support/draw.h"
#include "tests/support/test.h"

enum { V = 6, STEPS = 60000 };

static double unit(uint64_t *random)
{
    return (double)(draw(random) >> 11) * 0x1p-53;
}

/* A distribution over some of 0 .. 2 V - 1, in any order. */
static int32_t make_distribution(uint64_t *random, int32_t *ids, float *p)
{
    double sum = 0.0, weights[V];
    for (int32_t i = 0; i < V; i++) {
        ids[i] = 2 * ((i + 3) % V) + (int32_t)(draw(random) % 2);
        sum += weights[i] = exp(4.0 * unit(random));
    }
    for (int32_t i = 0; i < V; i++) p[i] = (float)(weights[i] / sum);
    return V;
}

/* The share of token `id` in q without the tokens before it; 0: it is among them. */
static double define_share(const pf_declared *q, const int32_t *before, int32_t n_before, int32_t id)
{
    double left = 0.0, own = 0.0;
    for (int32_t i = 0; i < q->n; i++) {
        bool is_out = false;
        for (int32_t j = 0; j < n_before; j++) is_out |= before[j] == q->ids[i];
        if (is_out) continue;
        left += (double)q->probabilities[i];
        if (q->ids[i] == id) own = (double)q->probabilities[i];
    }
    return own / left;
}

static void a_sibling_declares_what_those_before_it_leave_and_is_drawn_from_that(void **state)
{
    (void)state;
    uint64_t random = 1;
    for (int32_t trial = 0; trial < 20; trial++) {
        int32_t q_ids[V], ids[V];
        float q_p[V], p[V];
        const pf_declared q = { q_ids, q_p, make_distribution(&random, q_ids, q_p) };
        for (int32_t n_before = 1; n_before < V; n_before++) {
            int32_t before[V], counts[2 * V] = { 0 };
            for (int32_t i = 0; i < n_before; i++) before[i] = q_ids[(i + trial) % V];
            pf_declared declared;
            for (int32_t step = 0; step < STEPS; step++) {
                int32_t token;
                const float u = ((float)step + 0.5f) / (float)STEPS;
                assert_true(pf_sibling_draw(&q, before, n_before, u, ids, p, &declared, &token));
                assert_in_range(token, 0, 2 * V - 1);
                counts[token]++;
            }
            assert_int_equal(declared.n, V - n_before);
            double sum = 0.0;
            for (int32_t i = 0; i < declared.n; i++) {
                const double share = define_share(&q, before, n_before, declared.ids[i]);
                assert_true(share > 0.0 && fabs((double)declared.probabilities[i] - share) < 1e-6 * share + 1e-7);
                assert_true(fabs(counts[declared.ids[i]] - share * STEPS) < 4.0);
                sum += (double)declared.probabilities[i];
            }
            assert_true(fabs(sum - 1.0) < 1e-6);
        }
    }
}

static void nothing_is_drawn_where_nothing_is_left(void **state)
{
    (void)state;
    const int32_t q_ids[] = { 7, 9, 4 };
    const float q_p[] = { 0.75f, 0.25f, 0.0f };
    int32_t ids[3], token = -5;
    float p[3];
    pf_declared declared;
    assert_false(pf_sibling_draw(&(pf_declared){ q_ids, q_p, 3 }, q_ids, 2, 0.5f, ids, p, &declared, &token));
    assert_false(pf_sibling_draw(&(pf_declared){ q_ids, q_p, 1 }, q_ids, 1, 0.5f, ids, p, &declared, &token));
    assert_int_equal(token, -5);
    assert_true(pf_sibling_draw(&(pf_declared){ q_ids, q_p, 3 }, q_ids, 1, 0.999999f, ids, p, &declared, &token));
    assert_int_equal(token, 9); /* and not the one that has no probability */
    assert_true(declared.n == 1 && p[0] == 1.0f);
}

/* Of every four tokens with two judged siblings: one takes the first, one the second, two none. */
static pf_sibling_shares learnt(void)
{
    pf_sibling_shares shares = { 0 };
    for (int32_t i = 0; i < 4000; i++) pf_siblings_observe(&shares, i % 4 == 0 ? 1 : 2, i % 4 < 2);
    return shares;
}

static void shares_are_those_of_judged_siblings_by_rank(void **state)
{
    (void)state;
    const pf_sibling_shares shares = learnt();
    assert_true(fabs(pf_sibling_share(&shares, 0) - 1.0 / 4) < 0.02);
    assert_true(fabs(pf_sibling_share(&shares, 1) - 1.0 / 3) < 0.02);
    const pf_sibling_shares none = { 0 };
    for (int32_t rank = 1; rank < PF_MAX_SIBLINGS; rank++)
        assert_true(pf_sibling_share(&none, rank) < pf_sibling_share(&none, rank - 1));
}

static void the_most_valuable_siblings_are_chosen_while_they_exceed_the_price(void **state)
{
    (void)state;
    const double acceptance[] = { 0.9, 0.5, 0.8 }; /* P(judged and not accepted): 0.1, 0.45, 0.09 */
    pf_sibling_shares shares = learnt();
    const double s0 = pf_sibling_share(&shares, 0), s1 = pf_sibling_share(&shares, 1);
    int32_t at[8];
    assert_int_equal(pf_siblings_choose(&shares, acceptance, 3, 0.45 * s0 * 1.01, 8, at), 0);
    assert_int_equal(pf_siblings_choose(&shares, acceptance, 3, 0.45 * s0 * 0.99, 8, at), 1);
    assert_int_equal(at[0], 1);
    const double second = 0.45 * (1.0 - s0) * s1;
    assert_int_equal(pf_siblings_choose(&shares, acceptance, 3, second * 0.99, 8, at), 2);
    assert_true(at[0] == 1 && at[1] == 1); /* a second one there is worth more than a first one elsewhere */
    const int32_t n = pf_siblings_choose(&shares, acceptance, 3, 0.1 * s0 * 0.99, 8, at);
    assert_true(n >= 3);
    int32_t n_first = 0;
    for (int32_t i = 0; i < n; i++) n_first += at[i] == 0;
    assert_int_equal(n_first, 1);
    assert_int_equal(pf_siblings_choose(&shares, acceptance, 3, 0.0, 2, at), 2); /* no more than there is room for */
    assert_true(pf_siblings_choose(&shares, acceptance, 3, 0.0, 8, at) <= 3 * PF_MAX_SIBLINGS);
    assert_int_equal(pf_siblings_choose(&shares, acceptance, 3, -1.0, 8, at), 0); /* nothing is measured yet */
}

static void where_none_pays_one_is_proposed_now_and_then(void **state)
{
    (void)state;
    const double acceptance[] = { 0.5, 0.5 };
    pf_sibling_shares shares = { 0 };
    int32_t n_tried = 0, at[4];
    for (int32_t i = 0; i < 100; i++) {
        const int32_t n = pf_siblings_choose(&shares, acceptance, 2, 10.0, 4, at);
        assert_true(n <= 1);
        if (n == 1) assert_int_equal(at[0], 0);
        n_tried += n;
    }
    assert_in_range(n_tried, 4, 8);
}

static void a_chain_leaves_room_for_its_siblings(void **state)
{
    (void)state;
    assert_int_equal(pf_siblings_chain(0, 7), 7);
    assert_int_equal(pf_siblings_chain(PF_SIBLINGS_THAT_PAY, 7), 7);
    for (int32_t siblings = 1; siblings <= PF_MAX_SIBLINGS; siblings++)
        for (int32_t room = 0; room <= PF_MAX_DRAFT_TOKENS; room++) {
            const int32_t n = pf_siblings_chain(siblings, room);
            assert_true(n <= room && n * (1 + siblings) >= room); /* all of it is used */
            assert_true(n == 0 || (n - 1) * (1 + siblings) < room);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sibling_declares_what_those_before_it_leave_and_is_drawn_from_that),
        cmocka_unit_test(nothing_is_drawn_where_nothing_is_left),
        cmocka_unit_test(shares_are_those_of_judged_siblings_by_rank),
        cmocka_unit_test(the_most_valuable_siblings_are_chosen_while_they_exceed_the_price),
        cmocka_unit_test(where_none_pays_one_is_proposed_now_and_then),
        cmocka_unit_test(a_chain_leaves_room_for_its_siblings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
