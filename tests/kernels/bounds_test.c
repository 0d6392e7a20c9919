/* Bounds: each kernel against the definition, bit by bit; and the definition against what it promises. */
#include "tests/kernels/kernel_test.h"

enum { MOST = 2100 };

/* x, a row, some of it -0; coarse, rest and errors of n logits, some of them NaN or infinite where `wild`. */
typedef struct {
    int32_t n;
    pf_guard x, coarse, rest, error;
} operands;

static operands operands_make(int32_t n, bool wild)
{
    const size_t bytes = (size_t)n * sizeof(float);
    operands o = { n, pf_guard_alloc(bytes, 4), pf_guard_alloc(bytes, 4), pf_guard_alloc(bytes, 4),
                   pf_guard_alloc(bytes, 4) };
    test_rng rng = { (uint64_t)n * 2 + wild };
    test_fill(&rng, o.x.data, (size_t)n);
    test_fill(&rng, o.coarse.data, (size_t)n);
    test_fill(&rng, o.rest.data, (size_t)n);
    float *x = o.x.data, *coarse = o.coarse.data, *rest = o.rest.data, *error = o.error.data;
    for (int32_t i = 1; i < n; i += 7) x[i] = -0.0f;
    for (int32_t i = 0; i < n; i++) {
        rest[i] *= 0.01f;
        error[i] = 0.05f * fabsf(test_float(&rng));
    }
    for (int32_t i = 0; wild && i < n; i += 1 + test_below(&rng, 40)) {
        (i % 3 ? coarse : rest)[i] = test_extreme(&rng);
        error[i] = fabsf(test_extreme(&rng));
    }
    return o;
}

static void operands_free(operands *o)
{
    pf_guard_free(&o->x);
    pf_guard_free(&o->coarse);
    pf_guard_free(&o->rest);
    pf_guard_free(&o->error);
}

/* ---- split ------------------------------------------------------------------------------------------------------ */

typedef struct {
    pf_guard whole, rest;
    float norm;
} parts;

static parts split(const pf_kernel *kernel, const operands *o, bool to_bf16)
{
    parts p = { pf_guard_alloc(o->x.bytes, 4), pf_guard_alloc(o->x.bytes, 4), 0.0f };
    p.norm = kernel->fn.bounds.split(o->x.data, o->n, to_bf16, p.whole.data, p.rest.data);
    return p;
}

static void parts_free(parts *p)
{
    pf_guard_free(&p->whole);
    pf_guard_free(&p->rest);
}

static void check_split(const pf_kernel *kernel, const pf_kernel *definition)
{
    for (int32_t n = 1; n <= MOST; n = n * 3 / 2 + 1) {
        for (int bf16 = 0; bf16 < 2; bf16++) {
            operands o = operands_make(n, false);
            parts p = split(kernel, &o, bf16), expected = split(definition, &o, bf16);
            assert_memory_equal(p.whole.data, expected.whole.data, o.x.bytes);
            assert_memory_equal(p.rest.data, expected.rest.data, o.x.bytes);
            assert_true(p.norm == expected.norm);

            const float *x = o.x.data, *whole = p.whole.data, *rest = p.rest.data;
            double sum = 0.0, largest = 0.0;
            for (int32_t i = 0; i < n; i++) {
                assert_true(whole[i] == (bf16 ? pf_bf16_to_f32(pf_bf16_from_f32(x[i])) : x[i]));
                sum += (double)whole[i] * (double)whole[i];
                largest = fmax(largest, fabs((double)whole[i]));
            }
            for (int32_t i = 0; i < n; i++) /* half a step, and what is left is a number of steps */
                assert_true(fabs((double)rest[i]) <= largest / 254.0 * 1.0001 &&
                            fabs(remainder((double)whole[i] - (double)rest[i], largest / 127.0)) < largest * 1e-5);
            assert_true((double)p.norm >= sqrt(sum) && (double)p.norm <= 1.002 * sqrt(sum));
            parts_free(&p);
            parts_free(&expected);
            operands_free(&o);
        }
    }
}

static void a_row_is_parted_into_what_int8_keeps_and_what_it_loses(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_BOUNDS, check_split);
}

static void check_norms(const pf_kernel *kernel, const pf_kernel *definition)
{
    (void)definition;
    static const float rows[][3] = { { 0, 0, 0 },       { 1, NAN, 2 },       { INFINITY, 0, 0 }, { 0x1p-41f, 0, 0 },
                                     { 0x1p61f, 1, 1 }, { 3e38f, 3e38f, 0 }, { 1e-42f, 0, 0 } };
    float whole[3], rest[3];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_true(isinf(kernel->fn.bounds.split(rows[i], 3, true, whole, rest)));
    assert_true(kernel->fn.bounds.split((float[]){ 0x1p-39f, 0, 0 }, 3, true, whole, rest) < 0x1p-38f);
    assert_true(kernel->fn.bounds.split((float[]){ 0, 0x1p59f, 0 }, 3, true, whole, rest) < 0x1p60f);
}

static void a_row_that_cannot_be_bounded_has_an_infinite_norm(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_BOUNDS, check_norms);
}

/* ---- floor and marks ---------------------------------------------------------------------------------------------- */

static void check_bounds(const pf_kernel *kernel, const pf_kernel *definition)
{
    for (int32_t n = 1; n <= MOST; n = n * 3 / 2 + 1) {
        for (int wild = 0; wild < 2; wild++) {
            const size_t n_marks = ((size_t)n + PF_BOUNDS_BLOCK - 1) / PF_BOUNDS_BLOCK;
            operands a = operands_make(n, wild), b = operands_make(n, wild);
            pf_guard marks = pf_guard_alloc(n_marks, 1), expected = pf_guard_alloc(n_marks, 1);
            memset(marks.data, 0, n_marks);
            memset(expected.data, 0, n_marks);
            const float norm = wild && n % 5 == 0 ? INFINITY : 1.5f;
            const float floor = kernel->fn.bounds.floor(a.coarse.data, a.rest.data, a.error.data, norm, n);
            const float expected_floor = definition->fn.bounds.floor(b.coarse.data, b.rest.data, b.error.data, norm, n);
            assert_same_floats(kernel->name, &floor, &expected_floor, 1);
            assert_same_floats(kernel->name, a.coarse.data, b.coarse.data, (size_t)n);
            kernel->fn.bounds.mark(marks.data, a.coarse.data, a.error.data, norm, floor, n);
            definition->fn.bounds.mark(expected.data, a.coarse.data, a.error.data, norm, floor, n);
            assert_memory_equal(marks.data, expected.data, n_marks);
            pf_guard_free(&marks);
            pf_guard_free(&expected);
            operands_free(&a);
            operands_free(&b);
        }
    }
}

static void kernels_agree_with_the_definition(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_BOUNDS, check_bounds);
}

/* Of -0 and 0, whichever comes first, the floor is 0. */
static void check_zeros(const pf_kernel *kernel, const pf_kernel *definition)
{
    (void)definition;
    for (int32_t n = 1; n <= 40; n++)
        for (int32_t at = 0; at < n; at++) {
            float coarse[40], rest[40], zero = 0.0f;
            const float error[40] = { 0 };
            for (int32_t i = 0; i < n; i++) coarse[i] = rest[i] = i == at ? 0.0f : -0.0f;
            const float floor = kernel->fn.bounds.floor(coarse, rest, error, 1.0f, n);
            assert_same_floats(kernel->name, &floor, &zero, 1);
        }
}

static void a_floor_of_nothing_has_no_sign(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_BOUNDS, check_zeros);
}

enum { MOST_PROMISED = 100, MOST_BLOCKS = (MOST_PROMISED + PF_BOUNDS_BLOCK - 1) / PF_BOUNDS_BLOCK };

/* The logit at `best` is 9 or one off, all others are 1 or one off but for three; all of that above `base`. */
static void check_best(const pf_kernel *kernel, int32_t n, int32_t best, float base)
{
    const int32_t near[] = { best, (best + 37) % n, (best + 61) % n, (best + 83) % n };
    float coarse[MOST_PROMISED], rest[MOST_PROMISED] = { 0 }, error[MOST_PROMISED];
    for (int32_t i = 0; i < n; i++) {
        coarse[i] = base + 1.0f;
        error[i] = 1.0f;
    }
    error[near[3]] = NAN;          /* may be anything */
    error[near[2]] = 4.0f;         /* may be 9 */
    coarse[near[1]] = base + 6.5f; /* may be 8.5, as the best may be */
    coarse[best] = base + 9.0f;
    error[best] = 1.0f;
    uint8_t marks[MOST_BLOCKS] = { 0 }, expected[MOST_BLOCKS] = { 0 };
    const float floor = kernel->fn.bounds.floor(coarse, rest, error, 2.0f, n);
    assert_true(floor == base + 7.0f);
    kernel->fn.bounds.mark(marks, coarse, error, 2.0f, floor, n);
    for (int32_t i = 0; i < 4; i++) expected[near[i] / PF_BOUNDS_BLOCK] = 1;
    assert_memory_equal(marks, expected, sizeof marks);
    kernel->fn.bounds.mark(marks, coarse, error, 2.0f, -INFINITY, n); /* no floor: all of them */
    for (int32_t b = 0; b * PF_BOUNDS_BLOCK < n; b++) assert_int_equal(marks[b], 1);
}

static void check_promise(const pf_kernel *kernel, const pf_kernel *definition)
{
    (void)definition;
    static const int32_t sizes[] = { 17, 33, 48, 49, MOST_PROMISED };
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int32_t best = 0; best < sizes[s]; best++) {
            check_best(kernel, sizes[s], best, 0.0f);
            check_best(kernel, sizes[s], best, -64.0f); /* below what is not there, were it 0 */
        }
}

static void blocks_that_may_hold_the_largest_are_marked_and_no_others(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_BOUNDS, check_promise);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_row_is_parted_into_what_int8_keeps_and_what_it_loses),
        cmocka_unit_test(a_row_that_cannot_be_bounded_has_an_infinite_norm),
        cmocka_unit_test(kernels_agree_with_the_definition),
        cmocka_unit_test(a_floor_of_nothing_has_no_sign),
        cmocka_unit_test(blocks_that_may_hold_the_largest_are_marked_and_no_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
