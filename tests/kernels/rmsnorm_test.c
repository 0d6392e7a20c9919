#include "tests/kernels/kernel_test.h"

enum { ROWS = 3, GAP = 3 };

typedef struct {
    pf_guard x, w, y;
    int32_t n_cols;
    size_t stride, n_floats;
} operands;

static operands operands_make(int32_t n_cols)
{
    operands o = { .n_cols = n_cols, .stride = (size_t)n_cols + GAP };
    o.n_floats = ROWS * o.stride - GAP;
    o.x = pf_guard_alloc(o.n_floats * sizeof(float), 4);
    o.y = pf_guard_alloc(o.n_floats * sizeof(float), 4);
    o.w = pf_guard_alloc((size_t)n_cols * sizeof(float), 4);
    test_rng rng = { (uint64_t)n_cols };
    test_fill(&rng, o.x.data, o.n_floats);
    test_fill(&rng, o.w.data, (size_t)n_cols);
    return o;
}

static void operands_free(operands *o)
{
    pf_guard_free(&o->x);
    pf_guard_free(&o->w);
    pf_guard_free(&o->y);
}

static void run(const pf_kernel *kernel, operands *o)
{
    memset(o->y.data, 0, o->y.bytes);
    kernel->fn.rmsnorm(o->y.data, o->x.data, o->w.data, ROWS, o->n_cols, o->stride, 1e-5f);
}

/* What a kernel makes of the operands; the caller frees it. */
static float *results(const pf_kernel *kernel, operands *o)
{
    run(kernel, o);
    float *copy = malloc(o->y.bytes);
    assert_non_null(copy);
    memcpy(copy, o->y.data, o->y.bytes);
    return copy;
}

static void the_definition_is_the_formula(void **state)
{
    (void)state;
    const float x[] = { 3, 4, 0 }, w[] = { 1, 10, 5 };
    float y[3];
    pf_kernels kernels;
    assert_int_equal(pf_kernels_select(PF_ISA_SCALAR, &kernels, NULL), PF_OK);
    kernels.rmsnorm(y, x, w, 1, 3, 3, 0.0f); /* the mean of squares is 25 / 3 */
    const float scale = sqrtf(3.0f / 25.0f);
    assert_float_equal(y[0], 3 * scale, 1e-6);
    assert_float_equal(y[1], 40 * scale, 1e-5);
    assert_float_equal(y[2], 0, 0);
}

static void check_tails(const pf_kernel *kernel, const pf_kernel *definition)
{
    for (int32_t n_cols = 1; n_cols <= 400; n_cols += n_cols < 70 ? 1 : 61) {
        operands o = operands_make(n_cols);
        float *expected = results(definition, &o), *got = results(kernel, &o);
        assert_same_floats(kernel->name, got, expected, o.n_floats);
        free(got);
        free(expected);
        operands_free(&o);
    }
}

static void all_widths_equal_the_definition_bit_for_bit(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_RMSNORM, check_tails);
}

static void check_without_weights(const pf_kernel *kernel, const pf_kernel *definition)
{
    (void)definition;
    for (int32_t n_cols = 1; n_cols <= 70; n_cols++) {
        operands o = operands_make(n_cols);
        for (int32_t k = 0; k < n_cols; k++) ((float *)o.w.data)[k] = 1.0f;
        float *expected = results(kernel, &o);
        kernel->fn.rmsnorm(o.y.data, o.x.data, NULL, ROWS, n_cols, o.stride, 1e-5f);
        assert_same_floats(kernel->name, o.y.data, expected, o.n_floats);
        free(expected);
        operands_free(&o);
    }
}

static void no_weights_are_ones(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_RMSNORM, check_without_weights);
}

static void check_in_place(const pf_kernel *kernel, const pf_kernel *definition)
{
    (void)definition;
    operands o = operands_make(77);
    float *expected = results(kernel, &o);
    kernel->fn.rmsnorm(o.x.data, o.x.data, o.w.data, ROWS, o.n_cols, o.stride, 1e-5f);
    for (size_t row = 0; row < ROWS; row++)
        assert_same_floats("in place", (float *)o.x.data + row * o.stride, expected + row * o.stride, 77);
    free(expected);
    operands_free(&o);
}

static void rows_may_be_normed_in_place(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_RMSNORM, check_in_place);
}

static void check_extremes(const pf_kernel *kernel, const pf_kernel *definition)
{
    test_rng rng = { 31 };
    for (int round = 0; round < 50; round++) {
        operands o = operands_make(45);
        float *clean = results(kernel, &o);
        for (int i = 0; i < 3; i++) ((float *)o.x.data)[o.stride + (size_t)test_below(&rng, 45)] = test_extreme(&rng);
        float *expected = results(definition, &o), *got = results(kernel, &o);
        assert_same_floats(kernel->name, got, expected, o.n_floats);
        assert_same_floats("the row before", got, clean, 45);
        assert_same_floats("the row behind", got + 2 * o.stride, clean + 2 * o.stride, 45);
        free(clean);
        free(expected);
        free(got);
        operands_free(&o);
    }
    operands o = operands_make(20);
    ((float *)o.x.data)[3] = INFINITY;
    run(kernel, &o);
    for (int i = 0; i < 20; i++) assert_true(i == 3 ? isnan(((float *)o.y.data)[i]) : ((float *)o.y.data)[i] == 0.0f);
    operands_free(&o);
}

static void extremes_stay_in_their_row_and_give_what_the_contract_says(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_RMSNORM, check_extremes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_definition_is_the_formula),
        cmocka_unit_test(all_widths_equal_the_definition_bit_for_bit),
        cmocka_unit_test(no_weights_are_ones),
        cmocka_unit_test(rows_may_be_normed_in_place),
        cmocka_unit_test(extremes_stay_in_their_row_and_give_what_the_contract_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
