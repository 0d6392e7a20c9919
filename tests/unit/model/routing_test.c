/* The choice of experts, against small cases by hand and a plain softmax in double. */
#include <math.h>
#include <stdlib.h>

#include "model/forward/routing.h"
#include "tests/support/test.h"

enum { N_ROWS = 3, N_EXPERTS = 5, N_USED = 2, STRIDE = 7 };

typedef struct {
    pf_plan plan;
    pf_arena arena;
    pf_routing routing;
} fixture;

static void open_routing(fixture *f, int32_t n_rows, int32_t n_experts, int32_t n_used)
{
    *f = (fixture){ .plan = { .n_experts = n_experts, .n_experts_used = n_used } };
    pf_arena measured = pf_arena_measure();
    pf_routing_lay_out(&f->plan, n_rows, &measured, &f->routing);
    assert_int_equal(pf_arena_create(measured.used, &f->arena), PF_OK);
    pf_routing_lay_out(&f->plan, n_rows, &f->arena, &f->routing);
}

static void close_routing(fixture *f)
{
    pf_arena_destroy(&f->arena);
}

static void choose(fixture *f, float *logits, int32_t stride, int32_t n_rows)
{
    pf_routing_choose(&f->plan, (pf_rows){ logits, (size_t)stride }, 0, n_rows, &f->routing);
}

static void assert_near(double got, double expected)
{
    if (!(fabs(got - expected) < 1e-6)) fail_msg("%.9g, expected %.9g", got, expected);
}

static void the_largest_logits_win_and_the_lower_index_of_equals(void **state)
{
    (void)state;
    float logits[N_ROWS * STRIDE] = { 1, 3, 2, 3, 0, 9, 9, 5, 5, 5, 5, 5, 9, 9, -4, -3, -2, -1, -9, 9, 9 };
    static const int32_t expected[] = { 1, 3, 0, 1, 2, 3 };
    fixture f;
    open_routing(&f, N_ROWS, N_EXPERTS, N_USED);
    choose(&f, logits, STRIDE, N_ROWS);
    assert_memory_equal(f.routing.experts, expected, sizeof expected);
    close_routing(&f);
}

static void weights_are_a_softmax_of_all_unless_the_plan_norms_them(void **state)
{
    (void)state;
    float logits[] = { 1.0f, 3.0f, 2.5f, -1.0f, 0.5f };
    const double of_all = exp(1.0) + exp(3.0) + exp(2.5) + exp(-1.0) + exp(0.5), of_two = exp(3.0) + exp(2.5);
    fixture f;
    open_routing(&f, 1, N_EXPERTS, N_USED);
    choose(&f, logits, N_EXPERTS, 1);
    assert_near((double)f.routing.weights[0], exp(3.0) / of_all);
    assert_near((double)f.routing.weights[1], exp(2.5) / of_all);
    assert_near((double)f.routing.shared[0], 1.0);
    f.plan.normalises_experts = true;
    choose(&f, logits, N_EXPERTS, 1);
    assert_near((double)f.routing.weights[0], exp(3.0) / of_two);
    f.plan.normalises_experts = false;
    f.plan.softmax_of_chosen = true;
    choose(&f, logits, N_EXPERTS, 1);
    assert_near((double)f.routing.weights[1], exp(2.5) / of_two);
    close_routing(&f);
}

static void the_logit_behind_the_experts_gates_the_shared_one(void **state)
{
    (void)state;
    float logits[] = { 1.0f, 3.0f, 2.5f, -1.0f, 0.5f, -0.7f };
    fixture f;
    open_routing(&f, 1, N_EXPERTS, N_USED);
    f.plan.has[PF_TENSOR_SHARED_ROUTER] = true;
    choose(&f, logits, N_EXPERTS + 1, 1);
    assert_near((double)f.routing.shared[0], 1.0 / (1.0 + exp(0.7)));
    close_routing(&f);
}

static void rows_are_sorted_by_expert_and_ascend(void **state)
{
    (void)state;
    float logits[] = { 0, 9, 0, 0, 8, 9, 0, 0, 0, 8, 0, 8, 0, 0, 9 }; /* experts 1 and 4, 0 and 4, 1 and 4 */
    static const int32_t first[] = { 0, 1, 3, 3, 3, 6 }, rows[] = { 1, 0, 2, 0, 1, 2 };
    static const int32_t places[] = { 1, 3, 0, 4, 2, 5 };
    fixture f;
    open_routing(&f, N_ROWS, N_EXPERTS, N_USED);
    choose(&f, logits, N_EXPERTS, N_ROWS);
    pf_routing_sort(&f.plan, N_ROWS, &f.routing);
    assert_memory_equal(f.routing.first, first, sizeof first);
    assert_memory_equal(f.routing.rows, rows, sizeof rows);
    assert_memory_equal(f.routing.places, places, sizeof places);
    close_routing(&f);
}

static void logits_that_are_no_numbers_still_choose_distinct_experts(void **state)
{
    (void)state;
    float logits[N_ROWS * N_EXPERTS] = { NAN,       NAN, NAN,      NAN,      NAN, NAN,       1, NAN,
                                         -INFINITY, NAN, INFINITY, INFINITY, NAN, -INFINITY, 2 };
    static const int32_t expected[] = { 0, 1, 1, 3, 0, 1 };
    fixture f;
    open_routing(&f, N_ROWS, N_EXPERTS, N_USED);
    choose(&f, logits, N_EXPERTS, N_ROWS);
    assert_memory_equal(f.routing.experts, expected, sizeof expected);
    pf_routing_sort(&f.plan, N_ROWS, &f.routing);
    assert_int_equal(f.routing.first[N_EXPERTS], N_ROWS * N_USED);
    close_routing(&f);
}

static void all_experts_can_be_chosen(void **state)
{
    (void)state;
    fixture f;
    open_routing(&f, 1, PF_MAX_EXPERTS, PF_MAX_EXPERTS);
    float *logits = calloc(PF_MAX_EXPERTS, sizeof *logits);
    assert_non_null(logits);
    choose(&f, logits, PF_MAX_EXPERTS, 1);
    for (int32_t e = 0; e < PF_MAX_EXPERTS; e++) assert_int_equal(f.routing.experts[e], e);
    free(logits);
    close_routing(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_largest_logits_win_and_the_lower_index_of_equals),
        cmocka_unit_test(weights_are_a_softmax_of_all_unless_the_plan_norms_them),
        cmocka_unit_test(the_logit_behind_the_experts_gates_the_shared_one),
        cmocka_unit_test(rows_are_sorted_by_expert_and_ascend),
        cmocka_unit_test(logits_that_are_no_numbers_still_choose_distinct_experts),
        cmocka_unit_test(all_experts_can_be_chosen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
