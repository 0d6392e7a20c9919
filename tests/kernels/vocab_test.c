#include "tests/kernels/kernel_test.h"

/* --- argmax --- */

static void check_argmax(const pf_kernel *kernel, const pf_kernel *definition)
{
    test_rng rng = { 43 };
    for (int32_t n = 1; n <= 400; n += n < 100 ? 1 : 37)
        for (int form = 0; form < 4; form++) {
            pf_guard x = pf_guard_alloc((size_t)n * sizeof(float), 4);
            float *logits = x.data;
            for (int32_t i = 0; i < n; i++)
                logits[i] = form == 0   ? test_float(&rng)
                            : form == 1 ? test_extreme(&rng)
                            : form == 2 ? (float)test_below(&rng, 3) /* ties */
                                        : (test_below(&rng, 3) ? NAN : -INFINITY);
            assert_int_equal(kernel->fn.argmax(logits, n), definition->fn.argmax(logits, n));
            pf_guard_free(&x);
        }
    assert_int_equal(kernel->fn.argmax((float[]){ 1, 3, 2, 3 }, 4), 1);
    assert_int_equal(kernel->fn.argmax((float[]){ NAN, -INFINITY, NAN }, 3), 1);
    assert_int_equal(kernel->fn.argmax((float[]){ NAN, NAN }, 2), -1);
    assert_int_equal(kernel->fn.argmax((float[]){ -0.0f, 0.0f }, 2), 0);
    float many[100];
    for (int at = 0; at < 100; at++) {
        for (int i = 0; i < 100; i++) many[i] = i < at ? -1.0f : i == at ? 5.0f : NAN;
        assert_int_equal(kernel->fn.argmax(many, 100), at);
    }
}

static void argmax_is_the_lowest_of_the_largest_and_never_nan(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_ARGMAX, check_argmax);
}

/* --- invalid logits --- */

static void check_find_invalid(const pf_kernel *kernel, const pf_kernel *definition)
{
    test_rng rng = { 51 };
    for (int32_t n = 1; n <= 400; n += n < 140 ? 1 : 37)
        for (int form = 0; form < 3; form++) {
            pf_guard x = pf_guard_alloc((size_t)n * sizeof(float), 4);
            float *logits = x.data;
            for (int32_t i = 0; i < n; i++) logits[i] = form == 0 ? test_extreme(&rng) : test_float(&rng);
            if (form == 2) logits[test_below(&rng, n)] = test_below(&rng, 2) ? INFINITY : -NAN;
            assert_int_equal(kernel->fn.find_invalid(logits, n), definition->fn.find_invalid(logits, n));
            pf_guard_free(&x);
        }
    assert_int_equal(kernel->fn.find_invalid((float[]){ 1, -INFINITY, 0x1.fffffep127f }, 3), -1);
    assert_int_equal(kernel->fn.find_invalid((float[]){ 1, INFINITY, NAN }, 3), 1);
    assert_int_equal(kernel->fn.find_invalid((float[]){ 1, 2, -NAN }, 3), 2);
    float many[150];
    for (int at = 0; at < 150; at++) {
        for (int i = 0; i < 150; i++) many[i] = i < at ? -INFINITY : i == at ? NAN : INFINITY;
        assert_int_equal(kernel->fn.find_invalid(many, 150), at);
        for (int i = at + 1; i < 150; i++) many[i] = 3.0f;
        assert_int_equal(kernel->fn.find_invalid(many, 150), at);
        assert_int_equal(kernel->fn.find_invalid(many, at > 0 ? at : 1), at > 0 ? -1 : 0);
    }
}

static void the_first_nan_or_plus_infinity_is_found(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_FIND_INVALID, check_find_invalid);
}

/* --- softmax --- */

static void check_formula(const pf_kernel *kernel, const pf_kernel *definition)
{
    (void)definition;
    enum { N = 5000 };
    static float logits[N], p[N];
    test_rng rng = { 47 };
    for (int32_t i = 0; i < N; i++) logits[i] = 15.0f * test_float(&rng);
    kernel->fn.softmax(p, logits, N, 0.7f);
    double sum = 0.0, total = 0.0;
    for (int32_t i = 0; i < N; i++) sum += exp((double)logits[i] / 0.7);
    for (int32_t i = 0; i < N; i++) {
        const double expected = exp((double)logits[i] / 0.7) / sum;
        assert_true(fabs((double)p[i] - expected) <= 5e-6 * expected);
        total += (double)p[i];
    }
    assert_true(fabs(total - 1.0) < 1e-6);
}

static void softmax_is_the_formula_and_sums_to_one(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_SOFTMAX, check_formula);
}

static void check_tails(const pf_kernel *kernel, const pf_kernel *definition)
{
    test_rng rng = { 53 };
    for (int32_t n = 1; n <= 400; n += n < 100 ? 1 : 37)
        for (int form = 0; form < 3; form++) {
            const size_t bytes = (size_t)n * sizeof(float);
            pf_guard x = pf_guard_alloc(bytes, 4), got = pf_guard_alloc(bytes, 4), expected = pf_guard_alloc(bytes, 4);
            float *logits = x.data;
            for (int32_t i = 0; i < n; i++)
                logits[i] = form == 0 ? 10.0f * test_float(&rng) : form == 1 ? test_extreme(&rng) : -INFINITY;
            const float temperature = form == 0 ? 0.8f : 1.3f;
            const float top = kernel->fn.softmax(got.data, logits, n, temperature);
            assert_true(same_float(top, definition->fn.softmax(expected.data, logits, n, temperature)));
            assert_same_floats(kernel->name, got.data, expected.data, (size_t)n);
            kernel->fn.softmax(logits, logits, n, temperature);
            assert_same_floats("in place", logits, expected.data, (size_t)n);
            pf_guard_free(&x);
            pf_guard_free(&got);
            pf_guard_free(&expected);
        }
}

static void all_sizes_equal_the_definition_bit_for_bit(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_SOFTMAX, check_tails);
}

static void check_ends(const pf_kernel *kernel, const pf_kernel *definition)
{
    (void)definition;
    float p[4];
    assert_true(kernel->fn.softmax(p, (float[]){ NAN, 1, -INFINITY, 1 }, 4, 1.0f) == 1.0f);
    assert_same_floats("NaN and minus infinity weigh nothing", p, (float[]){ 0, 0.5f, 0, 0.5f }, 4);
    assert_true(kernel->fn.softmax(p, (float[]){ INFINITY, 1, NAN, INFINITY }, 4, 1.0f) == INFINITY);
    assert_same_floats("infinities share", p, (float[]){ 0.5f, 0, 0, 0.5f }, 4);
    assert_true(kernel->fn.softmax(p, (float[]){ NAN, -INFINITY, NAN, NAN }, 4, 1.0f) == -INFINITY);
    assert_same_floats("nothing left", p, (float[]){ 0, 0, 0, 0 }, 4);
    kernel->fn.softmax(p, (float[]){ 0, 1, 2, 1.999f }, 4, 1e-30f);
    assert_same_floats("cold", p, (float[]){ 0, 0, 1, 0 }, 4);
    const float coldest = 0x1p-149f; /* its reciprocal is infinite */
    kernel->fn.softmax(p, (float[]){ NAN, 2, -INFINITY, 2 }, 4, coldest);
    assert_same_floats("coldest", p, (float[]){ 0, 0.5f, 0, 0.5f }, 4);
    kernel->fn.softmax(p, (float[]){ INFINITY, 2, NAN, INFINITY }, 4, coldest);
    assert_same_floats("coldest, infinite", p, (float[]){ 0.5f, 0, 0, 0.5f }, 4);
}

static void the_ends_are_as_the_contract_says(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_SOFTMAX, check_ends);
}

/* --- the few largest --- */

/* Values as a distribution has them, with ties, or with what no distribution has. */
static void fill_values(test_rng *rng, float *values, int32_t n, int form)
{
    for (int32_t i = 0; i < n; i++)
        values[i] = form == 0   ? expf(8.0f * test_float(rng))
                    : form == 1 ? (float)test_below(rng, 5) /* ties, and zeros that are not taken */
                    : form == 2 ? test_extreme(rng)
                                : (test_below(rng, 3) ? NAN : -1.0f);
}

enum { LONGEST_TOP = 5000 };

static void check_top(const pf_kernel *kernel, const pf_kernel *definition)
{
    test_rng rng = { 53 };
    for (int32_t n = 1; n <= LONGEST_TOP; n += n < 70 ? 1 : n < 700 ? 53 : 1117)
        for (int form = 0; form < 4; form++)
            for (int32_t wanted = 1; wanted <= n + 3; wanted += 1 + wanted / 2) {
                const size_t n_out = (size_t)(wanted < n ? wanted : n);
                const float floor = test_below(&rng, 2) ? 0.0f : -INFINITY;
                pf_guard values = pf_guard_alloc((size_t)n * sizeof(float), 4);
                pf_guard scratch = pf_guard_alloc(pf_top_scratch_bytes(n), 4);
                pf_guard ids = pf_guard_alloc(n_out * sizeof(int32_t), 4),
                         top = pf_guard_alloc(n_out * sizeof(float), 4);
                fill_values(&rng, values.data, n, form);
                int32_t expected_ids[LONGEST_TOP];
                float expected_top[LONGEST_TOP];
                const int32_t expected =
                    definition->fn.top(values.data, n, wanted, floor, expected_ids, expected_top, scratch.data);
                assert_int_equal(kernel->fn.top(values.data, n, wanted, floor, ids.data, top.data, scratch.data),
                                 expected);
                assert_memory_equal(ids.data, expected_ids, (size_t)expected * sizeof(int32_t));
                assert_memory_equal(top.data, expected_top, (size_t)expected * sizeof(float));
                pf_guard_free(&values);
                pf_guard_free(&scratch);
                pf_guard_free(&ids);
                pf_guard_free(&top);
            }
}

static void the_largest_are_those_that_a_sort_would_put_in_front(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_TOP, check_top);

    const float values[] = { 0.5f, 0.0f, 2.0f, 0.5f, -3.0f, NAN, 2.0f, 0.5f };
    float top[8], scratch[64];
    int32_t ids[8], n;
    const pf_kernel *all = pf_kernels_all(&n);
    for (int32_t i = 0; i < n; i++) {
        if (all[i].op != PF_OP_TOP || all[i].isa > pf_cpu_best_isa()) continue;
        assert_true(pf_top_scratch_bytes(8) <= sizeof scratch);
        assert_int_equal(all[i].fn.top(values, 8, 4, 0.0f, ids, top, scratch), 4);
        const int32_t four[] = { 0, 2, 3, 6 };
        assert_memory_equal(ids, four, sizeof four);
        assert_int_equal(all[i].fn.top(values, 8, 9, 0.0f, ids, top, scratch), 5); /* no more are above 0 */
    }
}

/* --- the exponential race --- */

static void check_exp_race(const pf_kernel *kernel, const pf_kernel *definition)
{
    test_rng rng = { 59 };
    int32_t n_won_by_others = 0;
    for (int32_t n = 1; n <= 900; n += n < 140 ? 1 : 61)
        for (int form = 0; form < 4; form++) {
            pf_guard p = pf_guard_alloc((size_t)n * sizeof(float), 4);
            fill_values(&rng, p.data, n, form);
            for (int32_t position = 0; position < 8; position++) {
                const uint64_t seed = (uint64_t)n << 33 | 5u;
                const int32_t winner = definition->fn.race(p.data, n, seed, PF_NOISE_TARGET, position);
                assert_int_equal(kernel->fn.race(p.data, n, seed, PF_NOISE_TARGET, position), winner);
                n_won_by_others += winner >= 0 && form == 0 && ((float *)p.data)[winner] < 1.0f;
            }
            pf_guard_free(&p);
        }
    assert_true(n_won_by_others > 0);
    float few[200]; /* two with a chance, among numbers that are none */
    for (int32_t at = 0; at < 200; at++) {
        for (int32_t i = 0; i < 200; i++) few[i] = i % 3 ? NAN : i % 2 ? 0.0f : -INFINITY;
        few[at] = few[(at + 77) % 200] = 0.5f;
        for (int32_t position = 0; position < 8; position++)
            assert_int_equal(kernel->fn.race(few, 200, 1, PF_NOISE_TARGET, position),
                             definition->fn.race(few, 200, 1, PF_NOISE_TARGET, position));
    }
    const float none[] = { 0.0f, NAN, -1.0f };
    assert_int_equal(kernel->fn.race(none, 3, 1, PF_NOISE_TARGET, 0), -1);
}

static void an_exponential_race_is_won_by_the_least_exponential_over_p(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_EXP_RACE, check_exp_race);
}

/* Two whose times all but agree: with the least p that wins, and with the largest that loses. */
static void check_photo_finish(const pf_kernel *kernel, const pf_kernel *definition)
{
    (void)definition;
    enum { N = 200, LEADER = 150 };
    float p[N] = { [LEADER] = 1.0f };
    int32_t n_races = 0;
    for (int32_t position = 0; position < 3000; position++) {
        const double leader = pf_noise_exponential(3, PF_NOISE_TARGET, position, LEADER);
        for (int32_t i = 0; i < N; i++) {
            const double runner = pf_noise_exponential(3, PF_NOISE_TARGET, position, i);
            if (runner > 0x1p-9 || runner >= leader) continue; /* a sieve without a logarithm is sharp near 0 alone */
            float wins = (float)(runner / leader);
            while (runner / (double)wins >= leader) wins = nextafterf(wins, 1.0f);
            while (runner / (double)nextafterf(wins, 0.0f) < leader) wins = nextafterf(wins, 0.0f);
            p[i] = wins;
            assert_int_equal(kernel->fn.race(p, N, 3, PF_NOISE_TARGET, position), i);
            p[i] = nextafterf(wins, 0.0f);
            assert_int_equal(kernel->fn.race(p, N, 3, PF_NOISE_TARGET, position), LEADER);
            p[i] = 0.0f;
            n_races++;
        }
    }
    assert_true(n_races > 500);
}

/* Found by trying: two words of one noise that are equal. */
static void check_tie(const pf_kernel *kernel, const pf_kernel *definition)
{
    enum { N = 1000, POSITION = 37969, FIRST = 29, SECOND = 784 };
    const float p[N] = { [FIRST] = 0.5f, [SECOND] = 0.5f };
    assert_true(pf_noise_exponential(1, PF_NOISE_TARGET, POSITION, FIRST) ==
                pf_noise_exponential(1, PF_NOISE_TARGET, POSITION, SECOND));
    assert_int_equal(definition->fn.race(p, N, 1, PF_NOISE_TARGET, POSITION), FIRST);
    assert_int_equal(kernel->fn.race(p, N, 1, PF_NOISE_TARGET, POSITION), FIRST);
}

static void a_tie_goes_to_the_lowest_id(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_EXP_RACE, check_tie);
}

static void a_race_is_won_by_a_hair(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_EXP_RACE, check_photo_finish);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(argmax_is_the_lowest_of_the_largest_and_never_nan),
        cmocka_unit_test(the_first_nan_or_plus_infinity_is_found),
        cmocka_unit_test(softmax_is_the_formula_and_sums_to_one),
        cmocka_unit_test(all_sizes_equal_the_definition_bit_for_bit),
        cmocka_unit_test(the_ends_are_as_the_contract_says),
        cmocka_unit_test(the_largest_are_those_that_a_sort_would_put_in_front),
        cmocka_unit_test(an_exponential_race_is_won_by_the_least_exponential_over_p),
        cmocka_unit_test(a_race_is_won_by_a_hair),
        cmocka_unit_test(a_tie_goes_to_the_lowest_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
