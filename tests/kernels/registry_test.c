#include "tests/kernels/kernel_test.h"

/* --- the choice --- */

static void every_isa_of_this_machine_gives_every_operation(void **state)
{
    (void)state;
    for (pf_isa isa = PF_ISA_SCALAR; isa <= pf_cpu_best_isa(); isa++) {
        pf_kernels k;
        assert_int_equal(pf_kernels_select(isa, &k, NULL), PF_OK);
        assert_int_equal(k.isa, isa);
        assert_true(k.rmsnorm && k.layernorm && k.rope && k.argmax && k.find_invalid && k.softmax);
        for (pf_activation a = PF_ACTIVATION_SILU; a < PF_N_ACTIVATIONS; a++)
            assert_true(k.gated[a] && !k.activate[a] == (a == PF_ACTIVATION_CLAMPED_SWIGLU));
        for (pf_type type = PF_TYPE_F32; type < PF_N_TYPES; type++) {
            const bool held = type != PF_TYPE_F16;
            assert_true(!k.attn[type] == !held && !k.attn_store[type] == !held);
        }
        for (pf_format format = PF_FORMAT_F32; format <= PF_FORMAT_BF16; format++)
            for (pf_act act = PF_ACT_F32; act < PF_N_ACTS; act++)
                assert_true(!k.gemm[format][act].multiply == !pf_format_takes(format, act));
    }
}

static void a_choice_takes_the_highest_row_that_the_isa_allows(void **state)
{
    (void)state;
    int32_t n;
    const pf_kernel *all = pf_kernels_all(&n);
    for (pf_isa isa = PF_ISA_SCALAR; isa <= pf_cpu_best_isa(); isa++) {
        pf_kernels k;
        assert_int_equal(pf_kernels_select(isa, &k, NULL), PF_OK);
        for (int32_t i = 0; i < n; i++) {
            const pf_kernel *chosen = pf_kernels_chosen(&k, &all[i]);
            assert_non_null(chosen);
            assert_true(chosen->isa <= isa);
            if (all[i].isa <= isa) assert_true(chosen->isa >= all[i].isa);
        }
        assert_ptr_equal(k.gemm[PF_FORMAT_BF16][PF_ACT_BF16].multiply,
                         k.chosen_gemm[PF_FORMAT_BF16][PF_ACT_BF16]->fn.gemm.multiply);
        assert_ptr_equal(k.attn[PF_TYPE_BF16], k.chosen[PF_OP_ATTN][PF_TYPE_BF16]->fn.attn);
        for (pf_activation a = PF_ACTIVATION_SILU; a < PF_N_ACTIVATIONS; a++) {
            assert_ptr_equal(k.gated[a], k.chosen_gated[a]->fn.gated);
            if (k.activate[a]) assert_ptr_equal(k.activate[a], k.chosen_activate[a]->fn.activate);
        }
        assert_ptr_equal(k.softmax, k.chosen[PF_OP_SOFTMAX][PF_TYPE_F32]->fn.softmax);
    }
}

static void no_two_rows_contend_and_all_say_what_they_are(void **state)
{
    (void)state;
    int32_t n;
    const pf_kernel *all = pf_kernels_all(&n);
    for (int32_t i = 0; i < n; i++) {
        assert_true(all[i].name && all[i].tile && all[i].packing && all[i].arithmetic[0]);
        assert_ptr_equal(strstr(all[i].name, "pf_"), all[i].name);
        assert_non_null(strstr(all[i].name, pf_op_name(all[i].op)));
        if (all[i].op == PF_OP_GATED || all[i].op == PF_OP_ACTIVATE)
            assert_non_null(strstr(all[i].name, pf_activation_name(all[i].activation)));
        for (int32_t j = 0; j < i; j++)
            assert_false(pf_kernel_same_task(&all[i], &all[j]) && all[i].isa == all[j].isa &&
                         all[i].features == all[j].features);
    }
}

static void an_isa_that_the_machine_lacks_is_refused_by_name(void **state)
{
    (void)state;
    pf_error error = { 0 };
    assert_int_equal(pf_isa_check(PF_ISA_AVX512, PF_ISA_AVX2, &error), PF_UNSUPPORTED);
    assert_string_equal(error.text, "isa avx512: this machine lacks it, its best is avx2");
    assert_int_equal(pf_isa_check(PF_ISA_AVX2, PF_ISA_AVX2, &error), PF_OK);
    assert_int_equal(pf_isa_check(PF_ISA_SCALAR, PF_ISA_AVX512BF16, &error), PF_OK);
    const pf_isa best = pf_cpu_best_isa();
    if (best + 1 < PF_N_ISAS) {
        pf_kernels k = { .isa = PF_N_ISAS };
        assert_int_equal(pf_kernels_select(best + 1, &k, NULL), PF_UNSUPPORTED);
        assert_int_equal(k.isa, PF_N_ISAS);
    }
}

/* --- words --- */

static void isa_words_are_read_back_and_others_are_refused_with_the_list(void **state)
{
    (void)state;
    pf_isa isa = PF_N_ISAS;
    for (pf_isa i = PF_ISA_SCALAR; i <= pf_cpu_best_isa(); i++) {
        assert_int_equal(pf_isa_parse(pf_isa_name(i), &isa, NULL), PF_OK);
        assert_int_equal(isa, i);
    }
    assert_int_equal(pf_isa_parse("auto", &isa, NULL), PF_OK);
    assert_int_equal(isa, pf_cpu_best_isa());

    pf_error error = { 0 };
    isa = PF_N_ISAS;
    assert_int_equal(pf_isa_parse("sse9", &isa, &error), PF_INVALID);
    assert_int_equal(isa, PF_N_ISAS);
    assert_non_null(strstr(error.text, "sse9"));
    for (pf_isa i = PF_ISA_SCALAR; i < PF_N_ISAS; i++) assert_non_null(strstr(error.text, pf_isa_name(i)));
}

/* --- types --- */

static void f16_is_widened_exactly(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        const int exponent = (int)(h >> 10 & 31), mantissa = (int)(h & 1023);
        const float sign = h & 0x8000 ? -1.0f : 1.0f, got = pf_f16_to_f32((uint16_t)h);
        if (exponent == 31)
            assert_true(mantissa ? isnan(got) : got == sign * INFINITY);
        else if (exponent == 0)
            assert_true(same_float(got, sign * ldexpf((float)mantissa, -24)));
        else
            assert_true(got == sign * ldexpf((float)(1024 + mantissa), exponent - 25));
    }
}

static void bf16_rounds_to_nearest_ties_to_even_and_keeps_nan(void **state)
{
    (void)state;
    assert_int_equal(pf_bf16_from_f32(1.0f), 0x3F80);
    assert_int_equal(pf_bf16_from_f32(0x1.01p0f), 0x3F80); /* a tie: to even */
    assert_int_equal(pf_bf16_from_f32(0x1.03p0f), 0x3F82); /* a tie: to even */
    assert_int_equal(pf_bf16_from_f32(0x1.010002p0f), 0x3F81);
    assert_int_equal(pf_bf16_from_f32(0x1.fffffep127f), 0x7F80); /* rounds to infinity */
    assert_int_equal(pf_bf16_from_f32(-INFINITY), 0xFF80);
    assert_int_equal(pf_bf16_from_f32(0x1p-133f), 0x0001); /* the least denormal */
    assert_true(isnan(pf_bf16_to_f32(pf_bf16_from_f32(NAN))));
    const uint32_t quiet_later = 0x7F800001u; /* a NaN whose upper half alone is infinity */
    float nan;
    memcpy(&nan, &quiet_later, sizeof nan);
    assert_true(isnan(pf_bf16_to_f32(pf_bf16_from_f32(nan))));
    for (uint32_t h = 0; h < 65536; h++) {
        const float f = pf_bf16_to_f32((uint16_t)h);
        if (!isnan(f)) assert_int_equal(pf_bf16_from_f32(f), h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_isa_of_this_machine_gives_every_operation),
        cmocka_unit_test(a_choice_takes_the_highest_row_that_the_isa_allows),
        cmocka_unit_test(no_two_rows_contend_and_all_say_what_they_are),
        cmocka_unit_test(an_isa_that_the_machine_lacks_is_refused_by_name),
        cmocka_unit_test(isa_words_are_read_back_and_others_are_refused_with_the_list),
        cmocka_unit_test(f16_is_widened_exactly),
        cmocka_unit_test(bf16_rounds_to_nearest_ties_to_even_and_keeps_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
