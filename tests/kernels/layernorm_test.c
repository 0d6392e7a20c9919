#include "tests/kernels/kernel_test.h"

enum { ROWS = 3, GAP = 3 };

typedef struct {
    pf_guard x, w, b, y;
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
    o.b = pf_guard_alloc((size_t)n_cols * sizeof(float), 4);
    test_rng rng = { (uint64_t)n_cols };
    test_fill(&rng, o.x.data, o.n_floats);
    for (size_t i = 0; i < o.n_floats; i++) ((float *)o.x.data)[i] += 0.7f;
    test_fill(&rng, o.w.data, (size_t)n_cols);
    test_fill(&rng, o.b.data, (size_t)n_cols);
    return o;
}

static void operands_free(operands *o)
{
    pf_guard_free(&o->x);
    pf_guard_free(&o->w);
    pf_guard_free(&o->b);
    pf_guard_free(&o->y);
}

/* form: bit 0, with weights; bit 1, with biases. */
enum { WEIGHTS = 1, BIASES = 2, N_FORMS = 4 };

static void run(const pf_kernel *kernel, operands *o, float *y, int form)
{
    kernel->fn.layernorm(y, o->x.data, form & WEIGHTS ? o->w.data : NULL, form & BIASES ? o->b.data : NULL, ROWS,
                         o->n_cols, o->stride, 1e-5f);
}

/* What a kernel makes of the operands; the caller frees it. */
static float *results(const pf_kernel *kernel, operands *o, int form)
{
    memset(o->y.data, 0, o->y.bytes);
    run(kernel, o, o->y.data, form);
    float *copy = malloc(o->y.bytes);
    assert_non_null(copy);
    memcpy(copy, o->y.data, o->y.bytes);
    return copy;
}

/* --- the definition --- */

static void the_definition_is_the_formula(void **state)
{
    (void)state;
    enum { N = 301 };
    pf_kernels kernels;
    assert_int_equal(pf_kernels_select(PF_ISA_SCALAR, &kernels, NULL), PF_OK);
    operands o = operands_make(N);
    const float *x = o.x.data, *w = o.w.data, *b = o.b.data;
    float *y = o.y.data;
    kernels.layernorm(y, x, w, b, 1, N, N, 1e-5f);
    double mean = 0.0, variance = 0.0;
    for (int i = 0; i < N; i++) mean += (double)x[i] / N;
    for (int i = 0; i < N; i++) variance += ((double)x[i] - mean) * ((double)x[i] - mean) / N;
    for (int i = 0; i < N; i++) {
        const double expected = ((double)x[i] - mean) / sqrt(variance + 1e-5) * (double)w[i] + (double)b[i];
        assert_true(fabs((double)y[i] - expected) < 1e-6);
    }
    operands_free(&o);
}

/* A mean of the squares less the square of the mean would lose all digits here. */
static void a_large_mean_does_not_cost_digits_of_the_variance(void **state)
{
    (void)state;
    pf_kernels kernels;
    assert_int_equal(pf_kernels_select(pf_cpu_best_isa(), &kernels, NULL), PF_OK);
    const float x[] = { 10001, 10003, 10001, 10003 };
    float y[4];
    kernels.layernorm(y, x, NULL, NULL, 1, 4, 4, 0.0f);
    assert_same_floats("y", y, (float[]){ -1, 1, -1, 1 }, 4);
}

/* --- every implementation --- */

static void check_tails(const pf_kernel *kernel, const pf_kernel *definition)
{
    for (int32_t n_cols = 1; n_cols <= 400; n_cols += n_cols < 70 ? 1 : 61)
        for (int form = 0; form < N_FORMS; form++) {
            operands o = operands_make(n_cols);
            float *expected = results(definition, &o, form), *got = results(kernel, &o, form);
            assert_same_floats(kernel->name, got, expected, o.n_floats);
            free(got);
            free(expected);
            operands_free(&o);
        }
}

static void all_widths_equal_the_definition_bit_for_bit_with_weights_and_biases_or_without(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_LAYERNORM, check_tails);
}

static void check_in_place(const pf_kernel *kernel, const pf_kernel *definition)
{
    (void)definition;
    operands o = operands_make(77);
    float *expected = results(kernel, &o, WEIGHTS | BIASES);
    run(kernel, &o, o.x.data, WEIGHTS | BIASES);
    for (size_t row = 0; row < ROWS; row++)
        assert_same_floats("in place", (float *)o.x.data + row * o.stride, expected + row * o.stride, 77);
    free(expected);
    operands_free(&o);
}

static void rows_may_be_normed_in_place(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_LAYERNORM, check_in_place);
}

/* Row 1 of 45 columns, all of one value, but for one. */
static const float *row_of(const pf_kernel *kernel, operands *o, float most, float one)
{
    float *x = (float *)o->x.data + o->stride;
    for (int i = 0; i < 45; i++) x[i] = i % 2 ? most : -most;
    x[3] = one;
    run(kernel, o, o->y.data, WEIGHTS | BIASES);
    return (float *)o->y.data + o->stride;
}

static void check_extremes(const pf_kernel *kernel, const pf_kernel *definition)
{
    test_rng rng = { 31 };
    for (int round = 0; round < 50; round++) {
        operands o = operands_make(45);
        float *clean = results(kernel, &o, WEIGHTS | BIASES);
        for (int i = 0; i < 3; i++) ((float *)o.x.data)[o.stride + (size_t)test_below(&rng, 45)] = test_extreme(&rng);
        float *expected = results(definition, &o, WEIGHTS | BIASES), *got = results(kernel, &o, WEIGHTS | BIASES);
        assert_same_floats(kernel->name, got, expected, o.n_floats);
        assert_same_floats("the row before", got, clean, 45);
        assert_same_floats("the row behind", got + 2 * o.stride, clean + 2 * o.stride, 45);
        free(clean);
        free(expected);
        free(got);
        operands_free(&o);
    }
    operands o = operands_make(45);
    const float *y = row_of(kernel, &o, 1.0f, INFINITY);
    for (int i = 0; i < 45; i++) assert_true(isnan(y[i]));
    y = row_of(kernel, &o, 1.0f, NAN);
    for (int i = 0; i < 45; i++) assert_true(isnan(y[i]));
    y = row_of(kernel, &o, 1e25f, 1e25f); /* the squares overflow */
    for (int i = 0; i < 45; i++) assert_true(y[i] == ((float *)o.b.data)[i]);
    operands_free(&o);
}

static void extremes_stay_in_their_row_and_give_what_the_contract_says(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_LAYERNORM, check_extremes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_definition_is_the_formula),
        cmocka_unit_test(a_large_mean_does_not_cost_digits_of_the_variance),
        cmocka_unit_test(all_widths_equal_the_definition_bit_for_bit_with_weights_and_biases_or_without),
        cmocka_unit_test(rows_may_be_normed_in_place),
        cmocka_unit_test(extremes_stay_in_their_row_and_give_what_the_contract_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
