#include "tests/kernels/kernel_test.h"

enum { MOST_LOGITS = 5000 };

typedef struct {
    int32_t n, n_cols;
    pf_guard logits, x, rows;
} operands;

static operands operands_make(int32_t n, int32_t n_cols)
{
    const size_t n_weights = (size_t)n * (size_t)n_cols;
    operands o = { .n = n, .n_cols = n_cols };
    o.logits = pf_guard_alloc((size_t)n * sizeof(float), 4);
    o.x = pf_guard_alloc((size_t)n_cols * sizeof(float), 4);
    o.rows = pf_guard_alloc(n_weights * sizeof(uint16_t), 2);
    test_rng rng = { (uint64_t)n * 1000 + (uint64_t)n_cols };
    test_fill(&rng, o.logits.data, (size_t)n);
    test_fill(&rng, o.x.data, (size_t)n_cols);
    for (size_t i = 0; i < n_weights; i++) ((uint16_t *)o.rows.data)[i] = pf_bf16_from_f32(test_float(&rng));
    return o;
}

static void operands_free(operands *o)
{
    pf_guard_free(&o->logits);
    pf_guard_free(&o->x);
    pf_guard_free(&o->rows);
}

/* What a kernel makes of the logits; the caller frees it. */
static float *results(const pf_kernel *kernel, const operands *o)
{
    pf_guard copy = pf_guard_alloc(o->logits.bytes, 4);
    memcpy(copy.data, o->logits.data, copy.bytes);
    kernel->fn.rescore(copy.data, o->n, o->x.data, o->rows.data, o->n_cols);
    float *out = malloc(copy.bytes);
    assert_non_null(out);
    memcpy(out, copy.data, copy.bytes);
    pf_guard_free(&copy);
    return out;
}

static double dot(const operands *o, int32_t id)
{
    const float *x = o->x.data;
    const uint16_t *row = (const uint16_t *)o->rows.data + (size_t)id * (size_t)o->n_cols;
    double sum = 0.0;
    for (int32_t d = 0; d < o->n_cols; d++) sum += (double)x[d] * (double)pf_bf16_to_f32(row[d]);
    return sum;
}

static void check_formula(const pf_kernel *kernel, const pf_kernel *definition)
{
    (void)definition;
    for (int32_t n = 1; n <= MOST_LOGITS; n = n * 3 + 1) {
        operands o = operands_make(n, 40);
        const float *before = o.logits.data;
        float *after = results(kernel, &o);
        int32_t n_recomputed = 0;
        for (int32_t i = 0; i < n; i++) {
            int32_t n_above = 0;
            for (int32_t j = 0; j < n; j++) n_above += before[j] > before[i];
            const bool recomputed = after[i] != before[i];
            if (n_above < PF_RESCORE_RANK) assert_true(recomputed); /* the best are always among them */
            if (recomputed) assert_true(fabs((double)after[i] - dot(&o, i)) < 1e-5);
            n_recomputed += recomputed;
        }
        assert_true(n_recomputed <= PF_RESCORE_MOST);
        free(after);
        operands_free(&o);
    }
}

static void the_best_become_what_their_rows_say(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_RESCORE, check_formula);
}

static void check_shapes(const pf_kernel *kernel, const pf_kernel *definition)
{
    for (int32_t n = 1; n <= 700; n += n < 200 ? 1 : 83)
        for (int32_t n_cols = 1; n_cols <= 70; n_cols += n_cols < 35 ? 11 : 16) {
            operands o = operands_make(n, n_cols);
            float *expected = results(definition, &o), *got = results(kernel, &o);
            assert_same_floats(kernel->name, got, expected, (size_t)n);
            free(expected);
            free(got);
            operands_free(&o);
        }
}

static void all_shapes_equal_the_definition_bit_for_bit(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_RESCORE, check_shapes);
}

static void check_extremes(const pf_kernel *kernel, const pf_kernel *definition)
{
    test_rng rng = { 61 };
    for (int round = 0; round < 300; round++) {
        operands o = operands_make(1 + test_below(&rng, 300), 21);
        float *logits = o.logits.data, *x = o.x.data;
        uint16_t *rows = o.rows.data;
        for (int32_t i = 0; i < o.n; i++)
            logits[i] = round % 3 == 0   ? (float)test_below(&rng, 3) /* ties */
                        : round % 3 == 1 ? test_extreme(&rng)
                                         : (test_below(&rng, 3) ? NAN : -INFINITY);
        for (int i = 0; i < round % 4; i++) {
            x[test_below(&rng, 21)] = test_extreme(&rng);
            rows[test_below(&rng, o.n * 21)] = (uint16_t)test_bits(&rng);
        }
        float *expected = results(definition, &o), *got = results(kernel, &o);
        assert_same_floats(kernel->name, got, expected, (size_t)o.n);
        free(expected);
        free(got);
        operands_free(&o);
    }
}

static void ties_and_extremes_equal_the_definition_bit_for_bit(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_RESCORE, check_extremes);
}

static void check_few(const pf_kernel *kernel, const pf_kernel *definition)
{
    (void)definition;
    const float x[] = { 2 };
    uint16_t rows[100];
    float logits[100];
    for (int32_t i = 0; i < 100; i++) rows[i] = pf_bf16_from_f32((float)i);
    for (int32_t i = 0; i < 100; i++) logits[i] = 1000.0f;
    kernel->fn.rescore(logits, 100, x, rows, 1); /* all are equal: the first of them */
    for (int32_t i = 0; i < 100; i++) assert_true(logits[i] == (i < PF_RESCORE_MOST ? 2.0f * (float)i : 1000.0f));

    for (int32_t i = 0; i < 100; i++) logits[i] = i < 8 ? 50.0f + (float)i : i == 70 ? NAN : -1.0f;
    kernel->fn.rescore(logits, 100, x, rows, 1);
    for (int32_t i = 0; i < 100; i++)
        assert_true(i == 70 ? isnan(logits[i]) : logits[i] == (i < 8 ? 2.0f * (float)i : -1.0f));

    for (int32_t i = 0; i < 5; i++) logits[i] = -INFINITY;
    kernel->fn.rescore(logits, 5, x, rows, 1); /* fewer than eight: all */
    for (int32_t i = 0; i < 5; i++) assert_true(logits[i] == 2.0f * (float)i);

    enum { ONE_AND_A_TAIL = 17 };
    float least[ONE_AND_A_TAIL];
    uint16_t small[ONE_AND_A_TAIL];
    for (int32_t d = 0; d < ONE_AND_A_TAIL; d++) {
        least[d] = -0x1p-149f;
        small[d] = pf_bf16_from_f32(0x1p-20f);
    }
    kernel->fn.rescore(logits, 1, least, small, ONE_AND_A_TAIL); /* each product, and so each sum, is a negative 0 */
    assert_true(logits[0] == 0.0f && signbit(logits[0]));
}

static void the_first_of_equals_are_taken_and_a_nan_never_is(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_RESCORE, check_few);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_become_what_their_rows_say),
        cmocka_unit_test(all_shapes_equal_the_definition_bit_for_bit),
        cmocka_unit_test(ties_and_extremes_equal_the_definition_bit_for_bit),
        cmocka_unit_test(the_first_of_equals_are_taken_and_a_nan_never_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
