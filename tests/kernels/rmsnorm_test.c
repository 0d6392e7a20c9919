#include "tests/kernels/kernel_test.h"

enum { ROWS = 3, GAP = 3 };

typedef struct {
    pf_guard x, r, w, h, y;
    int32_t n_cols;
    size_t stride, n_floats;
} operands;

static operands operands_make(int32_t n_cols)
{
    operands o = { .n_cols = n_cols, .stride = (size_t)n_cols + GAP };
    o.n_floats = ROWS * o.stride - GAP;
    o.x = pf_guard_alloc(o.n_floats * sizeof(float), 4);
    o.r = pf_guard_alloc(o.n_floats * sizeof(float), 4);
    o.h = pf_guard_alloc(o.n_floats * sizeof(float), 4);
    o.y = pf_guard_alloc(o.n_floats * sizeof(float), 4);
    o.w = pf_guard_alloc((size_t)n_cols * sizeof(float), 4);
    test_rng rng = { (uint64_t)n_cols };
    test_fill(&rng, o.x.data, o.n_floats);
    test_fill(&rng, o.r.data, o.n_floats);
    test_fill(&rng, o.w.data, (size_t)n_cols);
    return o;
}

static void operands_free(operands *o)
{
    pf_guard_free(&o->x);
    pf_guard_free(&o->r);
    pf_guard_free(&o->w);
    pf_guard_free(&o->h);
    pf_guard_free(&o->y);
}

static void run(const pf_kernel *kernel, operands *o, bool residual, bool keep)
{
    memset(o->y.data, 0, o->y.bytes);
    memset(o->h.data, 0, o->h.bytes);
    kernel->fn.rmsnorm(o->y.data, keep ? o->h.data : NULL, o->x.data, residual ? o->r.data : NULL, o->w.data, ROWS,
                       o->n_cols, o->stride, 1e-5f);
}

/* y and h, one after the other; the caller frees them. */
static float *results(const operands *o)
{
    float *copy = malloc(2 * o->y.bytes);
    assert_non_null(copy);
    memcpy(copy, o->y.data, o->y.bytes);
    memcpy(copy + o->n_floats, o->h.data, o->h.bytes);
    return copy;
}

static void the_definition_is_the_formula(void **state)
{
    (void)state;
    const float x[] = { 1, 2, 3 }, r[] = { 2, 2, -3 }, w[] = { 1, 10, 5 };
    float y[3], h[3];
    pf_kernels kernels;
    assert_int_equal(pf_kernels_select(PF_ISA_SCALAR, &kernels, NULL), PF_OK);
    kernels.rmsnorm(y, h, x, r, w, 1, 3, 3, 0.0f); /* h = 3 4 0, mean of squares 25 / 3 */
    const float scale = sqrtf(3.0f / 25.0f);
    assert_float_equal(h[0], 3, 0);
    assert_float_equal(h[1], 4, 0);
    assert_float_equal(y[0], 3 * scale, 1e-6);
    assert_float_equal(y[1], 40 * scale, 1e-5);
    assert_float_equal(y[2], 0, 0);
}

static void check_tails(const pf_kernel *kernel, const pf_kernel *definition)
{
    for (int32_t n_cols = 1; n_cols <= 400; n_cols += n_cols < 70 ? 1 : 61)
        for (int form = 0; form < 3; form++) {
            operands o = operands_make(n_cols);
            run(definition, &o, form == 2, form > 0);
            float *expected = results(&o);
            run(kernel, &o, form == 2, form > 0);
            float *got = results(&o);
            assert_same_floats(kernel->name, got, expected, 2 * o.n_floats);
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

static void check_in_place(const pf_kernel *kernel, const pf_kernel *definition)
{
    (void)definition;
    operands o = operands_make(77);
    run(kernel, &o, true, true);
    float *expected = results(&o);
    kernel->fn.rmsnorm(o.y.data, o.x.data, o.x.data, o.r.data, o.w.data, ROWS, o.n_cols, o.stride, 1e-5f);
    for (size_t row = 0; row < ROWS; row++) {
        assert_same_floats("y", (float *)o.y.data + row * o.stride, expected + row * o.stride, 77);
        assert_same_floats("h in x", (float *)o.x.data + row * o.stride, expected + o.n_floats + row * o.stride, 77);
    }
    free(expected);
    operands_free(&o);
}

static void the_residual_stream_may_be_updated_in_place(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_RMSNORM, check_in_place);
}

static void check_extremes(const pf_kernel *kernel, const pf_kernel *definition)
{
    test_rng rng = { 31 };
    for (int round = 0; round < 50; round++) {
        const bool residual = round % 2 == 0; /* without, a zero meets the row's NaN as it is */
        operands o = operands_make(45);
        run(kernel, &o, residual, true);
        float *clean = results(&o);
        for (int i = 0; i < 3; i++) ((float *)o.x.data)[o.stride + (size_t)test_below(&rng, 45)] = test_extreme(&rng);
        run(definition, &o, residual, true);
        float *expected = results(&o);
        run(kernel, &o, residual, true);
        float *got = results(&o);
        assert_same_floats(kernel->name, got, expected, 2 * o.n_floats);
        assert_same_floats("the row before", got, clean, 45);
        assert_same_floats("the row behind", got + 2 * o.stride, clean + 2 * o.stride, 45);
        free(clean);
        free(expected);
        free(got);
        operands_free(&o);
    }
    operands o = operands_make(20);
    ((float *)o.x.data)[3] = INFINITY;
    run(kernel, &o, false, true);
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
        cmocka_unit_test(the_residual_stream_may_be_updated_in_place),
        cmocka_unit_test(extremes_stay_in_their_row_and_give_what_the_contract_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
