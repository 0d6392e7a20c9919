/* One draft token: what it is drawn from and with which noise, and how sure of it the draft was. */
#include "tests/support/test.h"

#include <math.h>

#include "draft/choose.h"

enum { V = 5, POSITION = 9 };

typedef struct {
    pf_kernels kernels;
    float p[V];
    float scratch[64];
    pf_chooser chooser;
} bench;

static void set_up(bench *b)
{
    pf_error error = { 0 };
    assert_ok(pf_kernels_select(PF_ISA_SCALAR, &b->kernels, &error), error);
    assert_true(pf_sampling_scratch_bytes(V) <= sizeof b->scratch);
    b->chooser = (pf_chooser){ .kernels = &b->kernels, .n_vocab = V, .p = b->p, .scratch = b->scratch };
}

static void a_margin_is_the_distance_to_the_best_other_logit(void **state)
{
    (void)state;
    bench b;
    int32_t second_choice;
    set_up(&b);
    const float logits[V] = { 1.0f, 5.0f, 3.0f, -2.0f, 2.5f };
    const float margins[V] = { -4.0f, 2.0f, -2.0f, -7.0f, -2.5f };
    for (int32_t i = 0; i < V; i++) {
        assert_true(pf_choose_margin(&b.chooser, logits, i, &second_choice) == margins[i]);
        assert_int_equal(second_choice, i == 1 ? 2 : 1);
    }
    const float first[V] = { 4.0f, 5.0f, 3.0f, -2.0f, 2.5f };
    assert_true(pf_choose_margin(&b.chooser, first, 1, &second_choice) == 1.0f);
    assert_int_equal(second_choice, 0);
    const float tied[V] = { 1.0f, 2.0f, 5.0f, 2.0f, 2.0f };
    assert_true(pf_choose_margin(&b.chooser, tied, 2, &second_choice) == 3.0f);
    assert_int_equal(second_choice, 1);
    b.chooser.n_vocab = 1; /* alone, it is sure; what lies behind is padding */
    assert_true(pf_choose_margin(&b.chooser, logits, 0, &second_choice) == INFINITY);
    assert_int_equal(second_choice, -1);
    const float all_infinite[V] = { INFINITY, INFINITY, 0.0f, 0.0f, 0.0f };
    b.chooser.n_vocab = V;
    assert_true(isnan(pf_choose_margin(&b.chooser, all_infinite, 0, &second_choice)));
}

/* What was refused in a round says nothing of the next one's draws, at whatever position. */
static void draws_of_two_rounds_differ_and_repeat(void **state)
{
    (void)state;
    bench b;
    set_up(&b);
    const float logits[V] = { 0 };
    const pf_sampling_request request = { .sampling = { .temperature = 1.0f, .top_p = 1.0f },
                                          .method = PF_METHOD_REJECTION,
                                          .max_declared = V,
                                          .draft_seed = 3 };
    int32_t drawn[64], n_other = 0;
    for (int again = 0; again < 2; again++)
        for (uint64_t round = 0; round < PF_COUNT(drawn); round++) {
            int32_t token, ids[V], n_declared;
            float q[V];
            assert_status(pf_choose_token(&b.chooser, &request, logits, POSITION, round, &token, ids, q, &n_declared),
                          PF_OK);
            assert_int_equal(n_declared, V);
            if (again) assert_int_equal(token, drawn[round]);
            const float uniform = pf_noise_uniform(request.draft_seed, PF_NOISE_DRAFT, POSITION, (int32_t)round);
            assert_int_equal(token, ids[pf_sampling_draw_entry(q, n_declared, uniform)]);
            drawn[round] = token;
            n_other += round > 0 && token != drawn[round - 1];
        }
    assert_in_range(n_other, 2 * 40, 2 * 60); /* four in five */
}

static void the_greedy_method_takes_the_best_whatever_the_temperature(void **state)
{
    (void)state;
    bench b;
    set_up(&b);
    const float logits[V] = { 0.0f, 0.0f, 0.1f, 0.0f, 0.0f };
    pf_sampling_request request = { .sampling = { .temperature = 1.0f },
                                    .method = PF_METHOD_GREEDY,
                                    .max_declared = V };
    assert_false(pf_sampling_request_declares(&request));
    for (uint64_t round = 0; round < 32; round++) {
        int32_t token = -7, ids[V], n_declared;
        float q[V];
        assert_status(pf_choose_token(&b.chooser, &request, logits, POSITION, round, &token, ids, q, &n_declared),
                      PF_OK);
        assert_int_equal(token, 2);
    }
    request.method = PF_METHOD_REJECTION;
    request.sampling.temperature = 0.0f;
    assert_false(pf_sampling_request_declares(&request));
    request.sampling.temperature = 0.01f;
    assert_true(pf_sampling_request_declares(&request));
}

static void logits_without_a_number_give_no_token(void **state)
{
    (void)state;
    bench b;
    set_up(&b);
    const struct {
        pf_method method;
        float logits[V];
    } cases[] = { { PF_METHOD_GREEDY, { NAN, NAN, NAN, NAN, NAN } },
                  { PF_METHOD_REJECTION, { NAN, -INFINITY, NAN, -INFINITY, NAN } },
                  { PF_METHOD_COUPLED, { NAN, -INFINITY, NAN, -INFINITY, NAN } } };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        const pf_sampling_request request = { .sampling = { .temperature = 1.0f },
                                              .method = cases[i].method,
                                              .max_declared = V };
        int32_t token = -7, ids[V], n_declared;
        float q[V];
        assert_status(pf_choose_token(&b.chooser, &request, cases[i].logits, POSITION, 1, &token, ids, q, &n_declared),
                      PF_UNSUPPORTED);
        assert_int_equal(token, -7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_margin_is_the_distance_to_the_best_other_logit),
        cmocka_unit_test(draws_of_two_rounds_differ_and_repeat),
        cmocka_unit_test(the_greedy_method_takes_the_best_whatever_the_temperature),
        cmocka_unit_test(logits_without_a_number_give_no_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
