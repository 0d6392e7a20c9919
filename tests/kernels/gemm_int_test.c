/* Products of stored integers that rounding would seldom make: every byte, every nibble, every head, and their ends. */
#include "base/checked.h"
#include "kernels/gemm/layout_int.h"
#include "tests/kernels/kernel_test.h"

enum { N = 77, ROWS = 14, MAX_K = PF_GEMM_MAX_INT_K };

/* Integers as a file has them, their product's operands, and both results. */
typedef struct {
    uint8_t q[N * (MAX_K + 1)], heads[N * (MAX_K / 32 + 1)];
    float scales[N];
    float a[ROWS * MAX_K], expected[ROWS * N], got[ROWS * N];
    int32_t m, k;
    pf_gemm_weights weights;
    pf_guard panels;
} stored_product;

static stored_product *stored_make(pf_format format, int32_t m, int32_t k)
{
    stored_product *x = calloc(1, sizeof *x);
    assert_non_null(x);
    size_t bytes;
    x->m = m;
    x->k = k;
    assert_int_equal(pf_gemm_plan_weights(format, N, k, &x->weights, &bytes), PF_OK);
    x->panels = pf_guard_alloc(bytes, 64);
    x->weights.panels = x->panels.data;
    return x;
}

static void stored_free(stored_product *x)
{
    pf_guard_free(&x->panels);
    free(x);
}

static void stored_pack(stored_product *x)
{
    const pf_gemm_source source = { .data = x->q,
                                    .n_rows = N,
                                    .stride = pf_round_up((size_t)x->k, 2),
                                    .scales = x->scales,
                                    .heads = pf_gemm_has_heads(x->weights.format) ? x->heads : NULL };
    pf_gemm_pack_weights_ref(&x->weights, &source, 1, 0, x->weights.n_panels);
}

static void stored_multiply(const stored_product *x, const pf_kernel *kernel, float *c)
{
    const pf_gemm *gemm = &kernel->fn.gemm;
    pf_guard input = pf_guard_alloc(pf_gemm_input_bytes(x->m, x->k), 64);
    pf_guard scratch = pf_guard_alloc(pf_gemm_scratch_bytes(x->m), 64);
    memset(scratch.data, 0xFF, scratch.bytes);
    gemm->pack(input.data, x->a, (size_t)x->k, x->m, x->k, 0, pf_gemm_tiles(gemm->tile_rows, x->m));
    gemm->multiply(&x->weights, input.data, x->m, 0, x->weights.n_panels, c, N, PF_GEMM_STORE, scratch.data);
    pf_guard_free(&input);
    pf_guard_free(&scratch);
}

static bool exact(const pf_kernel *kernel)
{
    return kernel->act == PF_ACT_INT8;
}

/* --- any integers --- */

/* q - z of column n. */
static int32_t integer_at(const stored_product *x, int32_t n, int32_t k)
{
    const pf_format_info *info = pf_format_get(x->weights.format);
    const size_t at = (size_t)n * pf_round_up((size_t)x->k, 2) + (size_t)k;
    if (info->bits == 8) return (int8_t)x->q[at];
    const int32_t groups = pf_gemm_groups(x->weights.format, x->k), g = info->group ? k / info->group : 0;
    const int32_t zero = pf_gemm_has_heads(x->weights.format) ? x->heads[n * groups + g] & 15 : 8;
    return (x->q[at / 2] >> k % 2 * 4 & 15) - zero;
}

/* Signs that agree with those of the weights of column `row` make the largest sums there are. */
static void fill_activations(stored_product *x, test_rng *rng)
{
    for (int32_t row = 0; row < x->m; row++)
        for (int32_t k = 0; k < x->k; k++)
            x->a[row * x->k + k] = row % 3 == 0 ? test_float(rng) : integer_at(x, row, k) < 0 ? -3.0f : 3.0f;
}

static float any_scale(test_rng *rng)
{
    static const float special[] = { 0.0f, -0.0f, 1.0f, -0.5f, 65504.0f, 0x1p-24f, INFINITY, NAN };
    return test_bits(rng) % 8 ? test_float(rng) * 0.01f : special[test_below(rng, 8)];
}

static void compare_any(const pf_kernel *kernel, const pf_kernel *definition, int32_t m, int32_t k, uint64_t seed)
{
    stored_product *x = stored_make(kernel->format, m, k);
    test_rng rng = { seed };
    for (size_t j = 0; j < (size_t)N * (size_t)(k + 1); j++) x->q[j] = (uint8_t)test_bits(&rng);
    for (size_t j = 0; j < (size_t)N * (size_t)(k / 32 + 1); j++) x->heads[j] = test_head(&rng, kernel->format);
    for (size_t j = 0; j < N; j++) x->scales[j] = any_scale(&rng);
    fill_activations(x, &rng);
    stored_pack(x);
    stored_multiply(x, definition, x->expected);
    for (int way = 0; way < 2 * PF_N_FETCHES; way++) {
        x->weights.fetch = (pf_fetch)(way / 2);
        x->weights.from_memory = way % 2 != 0;
        stored_multiply(x, kernel, x->got);
        char what[160];
        snprintf(what, sizeof what, "%s of %s, m %d k %d, fetch %d%s", kernel->name,
                 pf_format_get(kernel->format)->name, m, k, way / 2, way % 2 ? ", from memory" : "");
        assert_same_floats(what, x->got, x->expected, (size_t)m * N);
    }
    stored_free(x);
}

static void check_any(const pf_kernel *kernel, const pf_kernel *definition)
{
    static const int32_t ks[] = { 1, 4, 31, 32, 36, 100, 128, 132, 257, 1030 };
    if (!exact(kernel)) return;
    for (size_t i = 0; i < sizeof ks / sizeof *ks; i++) {
        compare_any(kernel, definition, 1 + (int32_t)i * 13 % ROWS, ks[i], 71 + i);
        compare_any(kernel, definition, ROWS, ks[i], 91 + i); /* several tiles of most kernels */
    }
    for (int32_t m = 1; m < 8; m++) compare_any(kernel, definition, m, 1030 + m, 111 + (uint64_t)m); /* long panels */
}

static void any_stored_integers_give_what_the_definition_gives(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_GEMM, check_any);
}

/* --- the ends --- */

/* All stored values one, all zeros one, all multipliers the largest that go with it, all activations `sign` * 127: the
 * product is known without a definition. */
static void check_end(const pf_kernel *kernel, int32_t m, int32_t k, int32_t stored, int32_t zero, float sign)
{
    const pf_format_info *info = pf_format_get(kernel->format);
    const int32_t multiplier = info->group ? test_most_multiplier(zero) : 1;
    stored_product *x = stored_make(kernel->format, m, k);
    memset(x->q, info->bits == 4 ? stored * 17 : stored - 128, pf_round_up((size_t)k, 2) * N);
    memset(x->heads, info->group ? multiplier << 4 | zero : zero, sizeof x->heads);
    for (size_t i = 0; i < N; i++) x->scales[i] = 1.0f;
    for (int32_t i = 0; i < m * k; i++) x->a[i] = sign * 127.0f;
    stored_pack(x);
    stored_multiply(x, kernel, x->got);
    const float expected = sign * 127.0f * (float)((stored - zero) * multiplier) * (float)k; /* exact */
    for (int32_t i = 0; i < m * N; i++) {
        if (x->got[i] == expected) continue;
        fail_msg("%s of %s, m %d k %d, all %d less %d, %d times, times %g: %g, expected %g", kernel->name, info->name,
                 m, k, stored, zero, multiplier, (double)sign * 127.0, (double)x->got[i], (double)expected);
    }
    stored_free(x);
}

static void check_ends_of_zero(const pf_kernel *kernel, int32_t zero)
{
    const int32_t last = pf_format_get(kernel->format)->bits == 8 ? 255 : 15;
    for (float sign = -1.0f; sign <= 1.0f; sign += 2.0f) {
        check_end(kernel, ROWS, 1024, 0, zero, sign);
        check_end(kernel, ROWS, 1024, last, zero, sign);
    }
}

/* Of the zeros that a format may have those next to the ends and to the middle. */
static void check_ends(const pf_kernel *kernel, const pf_kernel *definition)
{
    (void)definition;
    static const int32_t zeros[] = { 7, 8, 0, 1, 14, 15 };
    const pf_format_info *info = pf_format_get(kernel->format);
    if (!exact(kernel)) return;
    if (info->bits == 8) return check_ends_of_zero(kernel, 128);
    const int32_t begin = pf_gemm_has_heads(kernel->format) ? 0 : 1, end = info->has_zeros ? 6 : 2;
    for (int32_t i = begin; i < end; i++) check_ends_of_zero(kernel, zeros[i]);
}

static void sums_at_the_ends_of_their_range_are_whole(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_GEMM, check_ends);
}

/* A column's sum is one integer, however long it is: by the zero that leaves the largest of them above it, and below. */
static void check_longest(const pf_kernel *kernel, const pf_kernel *definition)
{
    const pf_format_info *info = pf_format_get(kernel->format);
    if (!exact(kernel)) return;
    const int32_t lowest = info->group ? 1 : 0; /* 14 * 9 is more than 15 * 8 */
    const int32_t above = info->bits == 8 ? 128 : info->has_zeros ? lowest : info->group ? 7 : 8;
    const int32_t below = pf_gemm_has_heads(kernel->format) ? 15 - above : above;
    for (int32_t m = 1; m <= (kernel == definition ? 1 : 4); m += 3) { /* the definition is slow, and goes row by row */
        check_end(kernel, m, MAX_K, info->bits == 8 ? 255 : 15, above, -1.0f);
        check_end(kernel, m, MAX_K, 0, below, -1.0f);
    }
}

static void the_longest_columns_have_whole_sums(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_GEMM, check_longest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_stored_integers_give_what_the_definition_gives),
        cmocka_unit_test(sums_at_the_ends_of_their_range_are_whole),
        cmocka_unit_test(the_longest_columns_have_whole_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
