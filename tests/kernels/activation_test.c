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

/* --- the definitions --- */

static double exact(pf_activation activation, double x)
{
    const double cubic = 2.0 * sqrt(2.0 / acos(-1.0)) * (x + 0.044715 * x * x * x);
    switch (activation) {
    case PF_ACTIVATION_SILU: return x / (1.0 + exp(-x));
    case PF_ACTIVATION_GELU: return 0.5 * x * erfc(-x * sqrt(0.5));
    case PF_ACTIVATION_GELU_TANH: return x / (1.0 + exp(-cubic));
    case PF_ACTIVATION_QUICK_GELU: return x / (1.0 + exp(-1.702 * x));
    case PF_ACTIVATION_RELU: return x > 0.0 ? x : 0.0;
    case PF_ACTIVATION_RELU2: return x > 0.0 ? x * x : 0.0;
    default: return NAN;
    }
}

static double error_at(pf_activate_fn *activate, pf_activation activation, float x)
{
    float y;
    activate(&y, 1, &x, 1, 1, 1);
    const double e = exact(activation, (double)x);
    if (fabs(e) < 3e-37) { /* denormal, or the exponential is infinite */
        if (fabs((double)y - e) > 3e-37) fail_msg("%s(%a) is %a", pf_activation_name(activation), (double)x, (double)y);
        return 0.0;
    }
    return error_in_ulp(y, e);
}

static void each_function_is_as_exact_as_the_contract_says_near_zero_too(void **state)
{
    (void)state;
    static const double bounds[PF_N_ACTIVATIONS] = { 4.0, 5.0, 4.0, 4.0, 0.0, 1.0 };
    pf_kernels kernels;
    assert_int_equal(pf_kernels_select(PF_ISA_SCALAR, &kernels, NULL), PF_OK);
    for (pf_activation a = PF_ACTIVATION_SILU; a < PF_ACTIVATION_CLAMPED_SWIGLU; a++) {
        double worst = 0.0;
        for (float x = 0x1p-120f; x < 200.0f; x *= x < 1e-3f ? 1.37f : 1.00003f) {
            worst = fmax(worst, error_at(kernels.activate[a], a, x));
            worst = fmax(worst, error_at(kernels.activate[a], a, -x));
        }
        if (worst > bounds[a]) fail_msg("%s is off by %.3f ulp", pf_activation_name(a), worst);
    }
}

static void a_gated_activation_is_the_plain_one_times_up(void **state)
{
    (void)state;
    pf_kernels kernels;
    assert_int_equal(pf_kernels_select(PF_ISA_SCALAR, &kernels, NULL), PF_OK);
    const float up = 1.7f;
    for (pf_activation a = PF_ACTIVATION_SILU; a < PF_ACTIVATION_CLAMPED_SWIGLU; a++)
        for (float x = -30.0f; x < 30.0f; x += 0.37f) {
            float plain, gated;
            kernels.activate[a](&plain, 1, &x, 1, 1, 1);
            kernels.gated[a](&gated, 1, &x, &up, 1, 1, 1);
            const float expected = plain * up;
            assert_same_floats(pf_activation_name(a), &gated, &expected, 1);
        }
}

static void the_clamped_swiglu_is_the_formula_and_gated_only(void **state)
{
    (void)state;
    pf_kernels kernels;
    assert_int_equal(pf_kernels_select(PF_ISA_SCALAR, &kernels, NULL), PF_OK);
    assert_null(kernels.activate[PF_ACTIVATION_CLAMPED_SWIGLU]);
    for (float gate = -40.0f; gate < 40.0f; gate += 0.37f)
        for (float up = -9.5f; up < 9.5f; up += 1.0f) {
            float out;
            kernels.gated[PF_ACTIVATION_CLAMPED_SWIGLU](&out, 1, &gate, &up, 1, 1, 1);
            const double g = fmin((double)gate, 7.0), u = fmax(-7.0, fmin((double)up, 7.0));
            const double expected = g / (1.0 + exp(-1.702 * g)) * (u + 1.0);
            assert_true(fabs((double)out - expected) <= 5e-7 * fabs(expected));
        }
}

static float value_of(const pf_kernel *kernel, float x)
{
    float y, one = 1.0f;
    if (kernel->op == PF_OP_GATED)
        kernel->fn.gated(&y, 1, &x, &one, 1, 1, 1);
    else
        kernel->fn.activate(&y, 1, &x, 1, 1, 1);
    return y;
}

static void check_ends(const pf_kernel *kernel, const pf_kernel *definition)
{
    (void)definition;
    const pf_activation a = kernel->activation;
    if (a == PF_ACTIVATION_CLAMPED_SWIGLU) return;
    const bool is_sigmoid = a == PF_ACTIVATION_SILU || a == PF_ACTIVATION_GELU_TANH || a == PF_ACTIVATION_QUICK_GELU;
    const bool is_relu = a == PF_ACTIVATION_RELU || a == PF_ACTIVATION_RELU2;
    assert_true(isnan(value_of(kernel, NAN)) && value_of(kernel, INFINITY) == INFINITY);
    const float low = value_of(kernel, -INFINITY);
    assert_true(is_sigmoid ? isnan(low) : low == 0.0f);
    assert_true(value_of(kernel, -FLT_MAX) == 0.0f && value_of(kernel, 0.0f) == 0.0f);
    assert_true(value_of(kernel, FLT_MAX) == (a == PF_ACTIVATION_RELU2 ? INFINITY : FLT_MAX));
    if (!is_relu) assert_true(value_of(kernel, 0x1p-140f) == 0x1p-141f && value_of(kernel, -0x1p-140f) == -0x1p-141f);
}

static void infinities_nan_and_denormals_give_what_the_contract_says(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_GATED, check_ends);
    for_each_kernel(PF_OP_ACTIVATE, check_ends);
}

/* --- every implementation --- */

static void run(const pf_kernel *kernel, float *out, size_t out_stride, const float *x, const float *up, size_t stride,
                int32_t n_rows, int32_t n_cols)
{
    if (kernel->op == PF_OP_GATED)
        kernel->fn.gated(out, out_stride, x, up, stride, n_rows, n_cols);
    else
        kernel->fn.activate(out, out_stride, x, stride, n_rows, n_cols);
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
        run(kernel, got.data, out_stride, gate, up, stride, ROWS, n_cols);
        run(definition, expected.data, out_stride, gate, up, stride, ROWS, n_cols);
        assert_same_floats(kernel->name, got.data, expected.data, ROWS * out_stride - 1);
        run(kernel, gate, stride, gate, up, stride, ROWS, n_cols);
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
    for_each_kernel(PF_OP_GATED, check);
    for_each_kernel(PF_OP_ACTIVATE, check);
}

static void check_sweep(const pf_kernel *kernel, const pf_kernel *definition)
{
    enum { N = 4096, N_ROUNDS = 60 };
    float *gate = malloc(3 * N * sizeof(float));
    assert_non_null(gate);
    float *got = gate + N, *expected = gate + 2 * N;
    for (int round = 0; round < N_ROUNDS; round++) { /* over every n of 2^n, and the denormal results */
        const float range = round % 2 ? 15.0f : 105.0f;
        for (int i = 0; i < N; i++) gate[i] = range - 2.0f * range * (float)(round * N + i) / ((float)N_ROUNDS * N);
        run(kernel, got, N, gate, gate, N, 1, N);
        run(definition, expected, N, gate, gate, N, 1, N);
        assert_same_floats(kernel->name, got, expected, N);
    }
    free(gate);
}

static void every_part_of_the_range_has_the_same_bits_in_every_implementation(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_GATED, check_sweep);
    for_each_kernel(PF_OP_ACTIVATE, check_sweep);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_within_two_ulp_of_float64),
        cmocka_unit_test(exp_of_the_ends_is_zero_infinity_or_a_denormal_rounded_once),
        cmocka_unit_test(tanh_is_within_three_ulp_of_float64_down_to_the_smallest_numbers),
        cmocka_unit_test(tanh_of_the_ends_is_one_and_of_denormals_itself),
        cmocka_unit_test(each_function_is_as_exact_as_the_contract_says_near_zero_too),
        cmocka_unit_test(a_gated_activation_is_the_plain_one_times_up),
        cmocka_unit_test(the_clamped_swiglu_is_the_formula_and_gated_only),
        cmocka_unit_test(infinities_nan_and_denormals_give_what_the_contract_says),
        cmocka_unit_test(all_widths_equal_the_definition_bit_for_bit_in_place_too),
        cmocka_unit_test(every_part_of_the_range_has_the_same_bits_in_every_implementation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
