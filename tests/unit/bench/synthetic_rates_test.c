/* Synthetic acceptance: each form gives the rates that vLLM and llama.cpp give it, and what is none is refused. */
#include "bench/synthetic_rates.h"

#include "tests/support/test.h"

static void assert_rates(const char *text, int32_t draft_len, const double *expected)
{
    pf_synthetic_rates synthetic;
    pf_error error;
    float rates[PF_MAX_DRAFT_TOKENS];
    assert_ok(pf_synthetic_rates_parse(text, &synthetic, &error), error);
    assert_ok(pf_synthetic_rates_resolve(&synthetic, draft_len, rates, &error), error);
    for (int32_t i = 0; i < draft_len; i++) assert_float_equal(rates[i], expected[i], 1e-6);
    for (int32_t i = draft_len; i < PF_MAX_DRAFT_TOKENS; i++) assert_float_equal(rates[i], 0.0, 0.0);
}

static void one_rate_is_that_of_every_position(void **state)
{
    (void)state;
    assert_rates("0.8", 3, (double[]){ 0.8, 0.8, 0.8 });
    assert_rates("0", 1, (double[]){ 0.0 });
    assert_rates("1", 2, (double[]){ 1.0, 1.0 });
}

static void rates_of_positions_are_marginal(void **state)
{
    (void)state;
    assert_rates("0.9,0.5,0.2", 3, (double[]){ 0.9, 0.5 / 0.9, 0.4 });
    assert_rates("1,0.6,0,0", 4, (double[]){ 1.0, 0.6, 0.0, 0.0 });
}

static void a_length_has_one_rate_for_all_positions(void **state)
{
    (void)state;
    assert_rates("length:1.75", 2, (double[]){ 0.5, 0.5 }); /* 0.5 + 0.25 */
    assert_rates("length:1", 3, (double[]){ 0.0, 0.0, 0.0 });
    assert_rates("length:4", 3, (double[]){ 1.0, 1.0, 1.0 });
}

static void the_length_of_vllm_has_the_least_variance(void **state)
{
    (void)state;
    assert_rates("vllm-length:2.6", 3, (double[]){ 1.0, 0.6, 0.0 });
    assert_rates("vllm-length:1", 3, (double[]){ 0.0, 0.0, 0.0 });
    assert_rates("vllm-length:4", 3, (double[]){ 1.0, 1.0, 1.0 });
    assert_rates("vllm-length:3.5", 4, (double[]){ 1.0, 1.0, 0.5, 0.0 });
}

static void what_is_no_rate_is_refused(void **state)
{
    (void)state;
    const char *texts[] = { "",        "x",      "-0.1",    "1.1",        "nan",       "0.5,0.6",        "0.5,",
                            "0.5;0.4", "length", "length:", "length:0.9", "length:2x", "vllm-length:66", "length:inf" };
    for (size_t i = 0; i < PF_COUNT(texts); i++) {
        pf_synthetic_rates synthetic;
        pf_error error;
        assert_status(pf_synthetic_rates_parse(texts[i], &synthetic, &error), PF_INVALID);
        assert_says(error, "expected a rate");
    }
    char many[2 * (PF_MAX_DRAFT_TOKENS + 1)] = "1";
    for (int32_t i = 0; i < PF_MAX_DRAFT_TOKENS; i++) strcat(many, ",0");
    pf_synthetic_rates synthetic;
    pf_error error;
    assert_status(pf_synthetic_rates_parse(many, &synthetic, &error), PF_INVALID);
}

static void rates_that_a_proposal_cannot_have_are_refused(void **state)
{
    (void)state;
    const struct {
        const char *text, *says;
        int32_t draft_len;
    } cases[] = { { "0.9,0.5", "one for each of the 3 tokens", 3 },
                  { "length:4.1", "expected at most 4 with proposals of 3 tokens", 3 },
                  { "vllm-length:3", "expected at most 2", 1 } };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        pf_synthetic_rates synthetic;
        pf_error error;
        float rates[PF_MAX_DRAFT_TOKENS];
        assert_ok(pf_synthetic_rates_parse(cases[i].text, &synthetic, &error), error);
        assert_status(pf_synthetic_rates_resolve(&synthetic, cases[i].draft_len, rates, &error), PF_INVALID);
        assert_says(error, cases[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rate_is_that_of_every_position),
        cmocka_unit_test(rates_of_positions_are_marginal),
        cmocka_unit_test(a_length_has_one_rate_for_all_positions),
        cmocka_unit_test(the_length_of_vllm_has_the_least_variance),
        cmocka_unit_test(what_is_no_rate_is_refused),
        cmocka_unit_test(rates_that_a_proposal_cannot_have_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
