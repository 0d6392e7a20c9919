#include <float.h>

#include "tests/kernels/kernel_test.h"

#include "kernels/vec/tanh.h"

/* --- exp, which softmax shares --- */

static void exp_is_within_two_ulp_of_float64(void **state)
{
    (void)state;
    double worst = 0.0;
    for (float x = -87.3f; x < 88.7f; x += 0.000377f) {
        const double exact = exp((double)x);
        const double ulp = (double)nextafterf((float)exact, INFINITY) - (double)(float)exact;
        const double error = fabs((double)pf_exp(x) - exact) / ulp;
        if (error > worst) worst = error;
    }
    if (worst > 2.0) fail_msg("exp is off by %.3f ulp", worst);
}

static void exp_of_the_ends_is_zero_infinity_or_a_denormal_rounded_once(void **state)
{
    (void)state;
    assert_true(pf_exp(0.0f) == 1.0f && pf_exp(-0.0f) == 1.0f);
    assert_true(pf_exp(-INFINITY) == 0.0f && pf_exp(-104.0f) == 0.0f && pf_exp(-1e30f) == 0.0f);
    assert_true(pf_exp(INFINITY) == INFINITY && pf_exp(88.8f) == INFINITY && isfinite(pf_exp(88.7f)));
    assert_true(isnan(pf_exp(NAN)));
    for (float x = -103.9f; x < -87.4f; x += 0.0113f)
        assert_true(fabs((double)pf_exp(x) - exp((double)x)) <= 2 * 0x1p-149 + 2e-7 * exp((double)x));
}

/* --- tanh --- */

/* In units of the last place of `exact` as a float. */
static double error_in_ulp(float got, double exact)
{
    const float magnitude = fabsf((float)exact);
    return fabs((double)got - exact) / ((double)nextafterf(magnitude, INFINITY) - (double)magnitude);
}

static void tanh_is_within_three_ulp_of_float64_down_to_the_smallest_numbers(void **state)
{
    (void)state;
    double worst = 0.0;
    for (float x = 0x1p-120f; x < 30.0f; x *= x < 1e-3f ? 1.37f : 1.00001f) {
        worst = fmax(worst, error_in_ulp(pf_tanh(x), tanh((double)x)));
        worst = fmax(worst, error_in_ulp(pf_tanh(-x), tanh((double)-x)));
    }
    if (worst > 3.0) fail_msg("tanh is off by %.3f ulp", worst);
}

static void tanh_of_the_ends_is_one_and_of_denormals_itself(void **state)
{
    (void)state;
    assert_true(pf_tanh(INFINITY) == 1.0f && pf_tanh(-INFINITY) == -1.0f);
    assert_true(pf_tanh(FLT_MAX) == 1.0f && pf_tanh(-FLT_MAX) == -1.0f);
    assert_true(pf_tanh(0.0f) == 0.0f && pf_tanh(-0.0f) == 0.0f);
    assert_true(pf_tanh(0x1p-140f) == 0x1p-140f && pf_tanh(-0x1.8p-130f) == -0x1.8p-130f);
    assert_true(isnan(pf_tanh(NAN)));
}

/* --- the gate --- */

static void the_definition_is_the_formula(void **state)
{
    (void)state;
    pf_kernels kernels;
    assert_int_equal(pf_kernels_select(PF_ISA_SCALAR, &kernels, NULL), PF_OK);
    for (float gate = -30.0f; gate < 30.0f; gate += 0.37f) {
        const float up = 1.5f;
        float out;
        kernels.swiglu(&out, 1, &gate, &up, 1, 1, 1);
        const double expected = (double)gate / (1.0 + exp(-(double)gate)) * 1.5;
        assert_true(fabs((double)out - expected) <= 5e-7 * fabs(expected));
    }
}

static void check(const pf_kernel *kernel, const pf_kernel *definition)
{
    enum { ROWS = 3 };
    test_rng rng = { 41 };
    for (int32_t n_cols = 1; n_cols <= 300; n_cols += n_cols < 50 ? 1 : 49) {
        const size_t stride = 2 * (size_t)n_cols, floats = ROWS * stride, out_stride = (size_t)n_cols + 1;
        pf_guard in = pf_guard_alloc(floats * sizeof(float), 4); /* gate and up: halves of a row */
        pf_guard got = pf_guard_alloc((ROWS * out_stride - 1) * sizeof(float), 4);
        pf_guard expected = pf_guard_alloc((ROWS * out_stride - 1) * sizeof(float), 4);
        float *gate = in.data, *up = gate + n_cols;
        for (size_t i = 0; i < floats; i++) gate[i] = i % 3 ? 20.0f * test_float(&rng) : test_extreme(&rng);
        kernel->fn.swiglu(got.data, out_stride, gate, up, stride, ROWS, n_cols);
        definition->fn.swiglu(expected.data, out_stride, gate, up, stride, ROWS, n_cols);
        assert_same_floats(kernel->name, got.data, expected.data, ROWS * out_stride - 1);
        kernel->fn.swiglu(gate, stride, gate, up, stride, ROWS, n_cols);
        for (size_t row = 0; row < ROWS; row++)
            assert_same_floats("in place", gate + row * stride, (float *)expected.data + row * out_stride,
                               (size_t)n_cols);
        pf_guard_free(&in);
        pf_guard_free(&got);
        pf_guard_free(&expected);
    }
}

static void all_widths_equal_the_definition_bit_for_bit_in_place_too(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_SWIGLU, check);
}

static void check_exp(const pf_kernel *kernel, const pf_kernel *definition)
{
    enum { N = 4096 };
    float *gate = malloc(3 * N * sizeof(float));
    assert_non_null(gate);
    float *got = gate + N, *expected = gate + 2 * N;
    for (int round = 0; round < 60; round++) { /* a sweep over every n of 2^n, and the denormal results */
        for (int i = 0; i < N; i++) gate[i] = 105.0f - 210.0f * (float)(round * N + i) / (60.0f * N);
        kernel->fn.swiglu(got, N, gate, gate, N, 1, N);
        definition->fn.swiglu(expected, N, gate, gate, N, 1, N);
        assert_same_floats(kernel->name, got, expected, N);
    }
    free(gate);
}

static void exp_has_the_same_bits_in_every_implementation(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_SWIGLU, check_exp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_within_two_ulp_of_float64),
        cmocka_unit_test(exp_of_the_ends_is_zero_infinity_or_a_denormal_rounded_once),
        cmocka_unit_test(tanh_is_within_three_ulp_of_float64_down_to_the_smallest_numbers),
        cmocka_unit_test(tanh_of_the_ends_is_one_and_of_denormals_itself),
        cmocka_unit_test(the_definition_is_the_formula),
        cmocka_unit_test(all_widths_equal_the_definition_bit_for_bit_in_place_too),
        cmocka_unit_test(exp_has_the_same_bits_in_every_implementation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
