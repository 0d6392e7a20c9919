#include "model/config/dtype.h"
#include "tests/support/test.h"

static void every_format_name_is_a_dtype_name(void **state)
{
    (void)state;
    pf_error error;
    for (int f = 0; f < PF_N_FORMATS; f++) {
        pf_dtype dtype = PF_DTYPE_AUTO;
        assert_ok(pf_dtype_parse(pf_format_get((pf_format)f)->name, &dtype, &error), error);
        assert_int_equal(dtype, pf_dtype_of((pf_format)f));
        assert_int_equal(pf_dtype_format(dtype), f);
        assert_string_equal(pf_dtype_name(dtype), pf_format_get((pf_format)f)->name);
    }
    pf_dtype dtype = PF_DTYPE_F32;
    assert_ok(pf_dtype_parse("auto", &dtype, &error), error);
    assert_int_equal(dtype, PF_DTYPE_AUTO);
    assert_ok(pf_dtype_parse("f16", &dtype, &error), error);
    assert_int_equal(dtype, PF_DTYPE_F16);
    assert_int_equal(pf_dtype_format(dtype), PF_FORMAT_F32);
}

static void an_unknown_dtype_is_refused_with_the_list_of_names(void **state)
{
    (void)state;
    pf_error error;
    pf_dtype dtype = PF_DTYPE_INT8;
    const char *wrong[] = { "int9", "", "INT8", "int4-g64", "int4 ", "fp16" };
    for (size_t i = 0; i < PF_COUNT(wrong); i++) {
        assert_status(pf_dtype_parse(wrong[i], &dtype, &error), PF_INVALID);
        assert_int_equal(dtype, PF_DTYPE_INT8);
        for (int d = 0; d < PF_N_DTYPES; d++) assert_says(error, pf_dtype_name((pf_dtype)d));
    }
}

static void activations_default_to_those_of_the_format(void **state)
{
    (void)state;
    pf_error error;
    pf_activations asked = PF_ACTIVATIONS_AUTO;
    assert_ok(pf_activations_parse("bf16", &asked, &error), error);
    assert_int_equal(asked, PF_ACTIVATIONS_BF16);
    assert_status(pf_activations_parse("int4", &asked, &error), PF_INVALID);
    assert_says(error, "auto, f32, bf16, int8");

    for (int f = 0; f < PF_N_FORMATS; f++) {
        const bool integer = pf_format_is_integer((pf_format)f);
        pf_act act = PF_N_ACTS;
        assert_ok(pf_activations_resolve((pf_format)f, PF_ACTIVATIONS_AUTO, &act, &error), error);
        assert_int_equal(act, integer ? PF_ACT_INT8 : pf_format_get((pf_format)f)->act);
        const pf_status with_int8 = pf_activations_resolve((pf_format)f, PF_ACTIVATIONS_INT8, &act, &error);
        assert_int_equal(with_int8, integer ? PF_OK : PF_UNSUPPORTED);
        const pf_status with_bf16 = pf_activations_resolve((pf_format)f, PF_ACTIVATIONS_BF16, &act, &error);
        assert_int_equal(with_bf16, f != PF_FORMAT_F32 ? PF_OK : PF_UNSUPPORTED);
    }
}

static void a_refused_activation_lists_what_the_format_takes(void **state)
{
    (void)state;
    pf_error error;
    pf_act act;
    assert_status(pf_activations_resolve(PF_FORMAT_BF16, PF_ACTIVATIONS_INT8, &act, &error), PF_UNSUPPORTED);
    assert_says(error, "weights in bf16 are multiplied with activations in bf16, not in int8");
    assert_status(pf_activations_resolve(PF_FORMAT_INT4_G128, PF_ACTIVATIONS_F32, &act, &error), PF_UNSUPPORTED);
    assert_says(error, "weights in int4-g128 are multiplied with activations in bf16 or int8, not in f32");
}

static void auto_takes_twelve_bits_when_weights_exceed_the_cache_and_the_product_is_exact_and_fast(void **state)
{
    (void)state;
    const struct {
        pf_dtype_facts facts;
        pf_dtype chosen;
    } cases[] = {
        { { .has_f32 = false, true, true }, PF_DTYPE_BF16_12 },
        { { .has_f32 = true, true, true }, PF_DTYPE_F32 },
        { { .has_f32 = false, true, false }, PF_DTYPE_BF16 }, /* fits in the cache, or unknown */
        { { .has_f32 = false, false, true }, PF_DTYPE_BF16 }, /* not exact, slower, or oneDNN's */
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) assert_int_equal(pf_dtype_choose(&cases[i].facts), cases[i].chosen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_name_is_a_dtype_name),
        cmocka_unit_test(an_unknown_dtype_is_refused_with_the_list_of_names),
        cmocka_unit_test(auto_takes_twelve_bits_when_weights_exceed_the_cache_and_the_product_is_exact_and_fast),
        cmocka_unit_test(activations_default_to_those_of_the_format),
        cmocka_unit_test(a_refused_activation_lists_what_the_format_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
