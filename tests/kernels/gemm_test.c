#include "tests/kernels/kernel_test.h"

/* A product and its operands, each in memory of its own with guards. Rows of a and c are apart by more than their
 * length, and start at odd addresses. */
typedef struct {
    pf_gemm_weights weights;
    pf_guard panels, source, a, c, input, scratch;
    int32_t m, n, k;
    size_t lda, ldc;
} product;

static product product_make(pf_format type, int32_t m, int32_t n, int32_t k)
{
    product x = { .m = m, .n = n, .k = k, .lda = (size_t)k + 3, .ldc = (size_t)n + 5 };
    size_t bytes;
    assert_int_equal(pf_gemm_plan_weights(type, n, k, &x.weights, &bytes), PF_OK);
    x.panels = pf_guard_alloc(bytes, 64);
    x.weights.panels = x.panels.data;
    x.source = pf_guard_alloc((size_t)n * (size_t)k * sizeof(float), 4);
    x.a = pf_guard_alloc(((size_t)m * x.lda - 3) * sizeof(float), 4);
    x.c = pf_guard_alloc(((size_t)m * x.ldc - 5) * sizeof(float), 4);
    x.input = pf_guard_alloc(pf_gemm_input_bytes(m, k), 64);
    x.scratch = pf_guard_alloc(pf_gemm_scratch_bytes(m), 64);
    return x;
}

static void product_free(product *x)
{
    pf_guard_free(&x->panels);
    pf_guard_free(&x->source);
    pf_guard_free(&x->a);
    pf_guard_free(&x->c);
    pf_guard_free(&x->input);
    pf_guard_free(&x->scratch);
}

static void product_pack(product *x)
{
    const pf_gemm_source source = {
        .data = x->source.data, .type = PF_TYPE_F32, .n_rows = x->n, .stride = (size_t)x->k
    };
    pf_gemm_pack_weights(&x->weights, &source, 1, 0, x->weights.n_panels);
}

static product product_random(pf_format type, int32_t m, int32_t n, int32_t k)
{
    test_rng rng = { (uint64_t)m * 1000003u + (uint64_t)n * 1009u + (uint64_t)k };
    product x = product_make(type, m, n, k);
    test_fill(&rng, x.source.data, (size_t)n * (size_t)k);
    test_fill(&rng, x.a.data, x.a.bytes / sizeof(float));
    product_pack(&x);
    return x;
}

static void clear(product *x)
{
    for (size_t i = 0; i < x->c.bytes / sizeof(float); i++) ((float *)x->c.data)[i] = 1000.0f;
}

/* Rows [row, row + n_rows) of c, in one product. */
static void multiply_rows(product *x, const pf_kernel *kernel, int32_t row, int32_t n_rows, pf_gemm_mode mode)
{
    const pf_gemm *gemm = &kernel->fn.gemm;
    gemm->pack(x->input.data, (float *)x->a.data + (size_t)row * x->lda, x->lda, n_rows, x->k, 0,
               pf_gemm_tiles(gemm->tile_rows, n_rows));
    gemm->multiply(&x->weights, x->input.data, n_rows, 0, x->weights.n_panels,
                   (float *)x->c.data + (size_t)row * x->ldc, x->ldc, mode, x->scratch.data);
}

static float *multiply(product *x, const pf_kernel *kernel, pf_gemm_mode mode)
{
    clear(x);
    multiply_rows(x, kernel, 0, x->m, mode);
    float *copy = malloc(x->c.bytes);
    assert_non_null(copy);
    memcpy(copy, x->c.data, x->c.bytes);
    return copy;
}

/* All of c, what lies between its rows included. */
static void expect_same(const product *x, const char *what, const float *expected)
{
    assert_same_floats(what, x->c.data, expected, x->c.bytes / sizeof(float));
}

static void compare(const pf_kernel *kernel, const pf_kernel *definition, int32_t m, int32_t n, int32_t k,
                    pf_gemm_mode mode)
{
    product x = product_random(kernel->format, m, n, k);
    float *expected = multiply(&x, definition, mode);
    float *got = multiply(&x, kernel, mode);
    char what[128];
    snprintf(what, sizeof what, "%s, m %d n %d k %d", kernel->name, m, n, k);
    expect_same(&x, what, expected);
    free(got);
    free(expected);
    product_free(&x);
}

/* --- the definition itself, against float64 --- */

static float as_held(pf_format format, float f)
{
    return format == PF_FORMAT_BF16 ? pf_bf16_to_f32(pf_bf16_from_f32(f)) : f;
}

static void check_definition(const pf_kernel *kernel, const pf_kernel *definition)
{
    if (kernel != definition) return;
    product x = product_random(kernel->format, 3, 37, 101);
    float *got = multiply(&x, kernel, PF_GEMM_STORE);
    for (int32_t i = 0; i < x.m; i++)
        for (int32_t j = 0; j < x.n; j++) {
            double sum = 0.0;
            for (int32_t l = 0; l < x.k; l++)
                sum += (double)as_held(kernel->format, ((float *)x.a.data)[(size_t)i * x.lda + (size_t)l]) *
                       (double)as_held(kernel->format, ((float *)x.source.data)[j * x.k + l]);
            const double error = fabs((double)got[(size_t)i * x.ldc + (size_t)j] - sum);
            if (error > 1e-5) fail_msg("%s: c[%d, %d] is off by %g", kernel->name, i, j, error);
        }
    free(got);
    product_free(&x);
}

static void the_definition_is_the_product(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_GEMM, check_definition);
}

/* --- every kernel, against the definition --- */

static void check_tails(const pf_kernel *kernel, const pf_kernel *definition)
{
    static const int32_t ns[] = { 1, 31, 32, 33, 70 }, ks[] = { 1, 2, 3, 17, 64, 65 };
    for (int32_t m = 1; m <= 29; m += m < 16 ? 1 : 6)
        for (size_t i = 0; i < sizeof ns / sizeof *ns; i++)
            for (size_t j = 0; j < sizeof ks / sizeof *ks; j++) {
                const bool add = (m + (int32_t)i + (int32_t)j) % 2 == 0;
                compare(kernel, definition, m, ns[i], ks[j], add ? PF_GEMM_ADD : PF_GEMM_STORE);
            }
}

static void all_heights_widths_and_depths_equal_the_definition_bit_for_bit(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_GEMM, check_tails);
}

static void check_deep(const pf_kernel *kernel, const pf_kernel *definition)
{
    /* past one and two blocks of 1024 steps of K; the last block short, or of one step */
    compare(kernel, definition, 17, 33, 1025, PF_GEMM_STORE);
    compare(kernel, definition, 30, 32, 2051, PF_GEMM_ADD);
    compare(kernel, definition, 16, 40, 4097, PF_GEMM_STORE);
    compare(kernel, definition, 70, 20, 2600, PF_GEMM_STORE);
    for (int32_t m = 1; m < 8; m++) compare(kernel, definition, m, 130, 601, PF_GEMM_ADD); /* few rows, many panels */
}

static void sums_that_wait_between_blocks_of_k_are_one_chain(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_GEMM, check_deep);
}

/* --- row invariance --- */

static void check_rows(const pf_kernel *kernel, const pf_kernel *definition)
{
    (void)definition;
    static const int32_t shapes[][3] = { { 512, 40, 70 }, { 40, 96, 2200 } };
    for (size_t s = 0; s < 2; s++) {
        product x = product_random(kernel->format, shapes[s][0], shapes[s][1], shapes[s][2]);
        float *whole = multiply(&x, kernel, PF_GEMM_STORE);
        clear(&x);
        for (int32_t row = 0; row < x.m; row++) multiply_rows(&x, kernel, row, 1, PF_GEMM_STORE);
        expect_same(&x, "row by row", whole);
        clear(&x);
        test_rng rng = { 5 };
        for (int32_t row = 0; row < x.m;) {
            int32_t chunk = 1 + test_below(&rng, 40);
            if (chunk > x.m - row) chunk = x.m - row;
            multiply_rows(&x, kernel, row, chunk, PF_GEMM_STORE);
            row += chunk;
        }
        expect_same(&x, "in chunks", whole);
        free(whole);
        product_free(&x);
    }
}

static void a_rows_bits_do_not_depend_on_the_rows_beside_it(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_GEMM, check_rows);
}

static void check_shares(const pf_kernel *kernel, const pf_kernel *definition)
{
    (void)definition;
    product x = product_random(kernel->format, 40, 300, 90);
    const pf_gemm *gemm = &kernel->fn.gemm;
    float *whole = multiply(&x, kernel, PF_GEMM_STORE);
    const int32_t n_tiles = pf_gemm_tiles(gemm->tile_rows, x.m);
    clear(&x);
    memset(x.input.data, 0xFF, x.input.bytes);
    for (int32_t t = n_tiles - 1; t >= 0; t--) gemm->pack(x.input.data, x.a.data, x.lda, x.m, x.k, t, t + 1);
    for (int32_t p = x.weights.n_panels; p > 0; p -= 3)
        gemm->multiply(&x.weights, x.input.data, x.m, p < 3 ? 0 : p - 3, p, x.c.data, x.ldc, PF_GEMM_STORE,
                       x.scratch.data);
    expect_same(&x, "tiles and panels apart", whole);
    free(whole);
    product_free(&x);
}

static void members_that_share_tiles_and_panels_give_the_same_bits(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_GEMM, check_shares);
}

/* A member that wrote its neighbour's share too would write the right values: only the untouched memory shows it. */
static void check_borders_of(const pf_kernel *kernel, int32_t m)
{
    product x = product_random(kernel->format, m, 150, 90);
    const pf_gemm *gemm = &kernel->fn.gemm;
    const int32_t n_tiles = pf_gemm_tiles(gemm->tile_rows, x.m);
    const int32_t last = pf_gemm_tile_row(n_tiles, x.m, n_tiles - 1);
    memset(x.input.data, 0xFF, x.input.bytes);
    gemm->pack(x.input.data, x.a.data, x.lda, x.m, x.k, n_tiles - 1, n_tiles);
    const size_t before = (size_t)last * (size_t)x.k * 2; /* a row takes at least two bytes a value */
    for (size_t i = 0; i < before; i++) assert_int_equal(((unsigned char *)x.input.data)[i], 0xFF);

    gemm->pack(x.input.data, x.a.data, x.lda, x.m, x.k, 0, n_tiles);
    for (int32_t end = 2; end <= 4; end++) {
        clear(&x);
        gemm->multiply(&x.weights, x.input.data, x.m, 1, end, x.c.data, x.ldc, PF_GEMM_STORE, x.scratch.data);
        for (size_t i = 0; i < x.c.bytes / sizeof(float); i++) {
            const int32_t column = (int32_t)(i % x.ldc);
            const bool ours = column >= PF_GEMM_PANEL && column < end * PF_GEMM_PANEL;
            assert_true(((float *)x.c.data)[i] == 1000.0f ? !ours : ours);
        }
    }
    product_free(&x);
}

static void check_borders(const pf_kernel *kernel, const pf_kernel *definition)
{
    (void)definition;
    check_borders_of(kernel, 40);
    check_borders_of(kernel, 3);
}

static void a_member_writes_its_own_tiles_and_panels_only(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_GEMM, check_borders);
}

/* --- extremes --- */

static void check_confined(const pf_kernel *kernel, const pf_kernel *definition)
{
    static const float bad[] = { NAN, INFINITY, -INFINITY };
    for (size_t b = 0; b < 3; b++) {
        product x = product_random(kernel->format, 18, 45, 33);
        float *clean = multiply(&x, kernel, PF_GEMM_STORE);
        ((float *)x.a.data)[7 * x.lda + 32] = bad[b];
        ((float *)x.source.data)[40 * x.k + 3] = bad[b];
        product_pack(&x);
        float *expected = multiply(&x, definition, PF_GEMM_STORE);
        float *got = multiply(&x, kernel, PF_GEMM_STORE);
        for (int32_t i = 0; i < x.m; i++)
            for (int32_t j = 0; j < x.n; j++) {
                const size_t at = (size_t)i * x.ldc + (size_t)j;
                const bool touched = i == 7 || j == 40;
                assert_true(same_float(got[at], touched ? expected[at] : clean[at]));
                assert_true(!touched == isfinite(got[at]));
            }
        free(clean);
        free(expected);
        free(got);
        product_free(&x);
    }
}

static void nan_and_infinity_reach_their_own_row_and_column_only(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_GEMM, check_confined);
}

static void check_denormals(const pf_kernel *kernel, const pf_kernel *definition)
{
    product x = product_make(kernel->format, 5, 40, 24);
    test_rng rng = { 11 };
    float *source = x.source.data, *a = x.a.data;
    for (int32_t i = 0; i < x.n * x.k; i++) source[i] = test_float(&rng) * (i % 3 ? 0x1p-60f : 0x1p-128f);
    for (size_t i = 0; i < x.a.bytes / sizeof(float); i++) a[i] = test_float(&rng) * (i % 5 ? 0x1p-66f : 0x1p-127f);
    product_pack(&x);
    float *expected = multiply(&x, definition, PF_GEMM_STORE);
    float *got = multiply(&x, kernel, PF_GEMM_STORE);
    if (strcmp(kernel->arithmetic, definition->arithmetic) == 0) {
        expect_same(&x, kernel->name, expected);
    } else {
        bool flushed = false;
        for (size_t i = 0; i < x.c.bytes / sizeof(float); i++) {
            assert_true(fabsf(got[i] - expected[i]) <= (float)x.k * 0x1p-126f);
            flushed |= got[i] != expected[i];
        }
        assert_true(flushed); /* else the contract need not mention it */
    }
    free(got);
    free(expected);
    product_free(&x);
}

static void denormals_are_kept_or_flushed_as_the_class_says(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_GEMM, check_denormals);
}

static void check_extremes(const pf_kernel *kernel, const pf_kernel *definition)
{
    if (strcmp(kernel->arithmetic, definition->arithmetic) != 0) return; /* denormals: see above */
    product x = product_make(kernel->format, 19, 70, 6);
    test_rng rng = { 13 };
    for (int32_t i = 0; i < x.n * x.k; i++) ((float *)x.source.data)[i] = test_extreme(&rng);
    for (size_t i = 0; i < x.a.bytes / sizeof(float); i++) ((float *)x.a.data)[i] = test_extreme(&rng);
    product_pack(&x);
    float *expected = multiply(&x, definition, PF_GEMM_STORE);
    float *got = multiply(&x, kernel, PF_GEMM_STORE);
    expect_same(&x, kernel->name, expected);
    free(got);
    free(expected);
    product_free(&x);
}

static void any_bits_at_all_give_what_the_definition_gives(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_GEMM, check_extremes);
}

/* --- packing of weights --- */

static float packed_weight(const pf_gemm_weights *w, int32_t n, int32_t k)
{
    const char *panel = (const char *)w->panels + (size_t)(n / PF_GEMM_PANEL) * w->panel_bytes;
    const int32_t j = n % PF_GEMM_PANEL;
    if (w->format == PF_FORMAT_F32) return ((const float *)(const void *)panel)[k * PF_GEMM_PANEL + j];
    return pf_bf16_to_f32(((const uint16_t *)(const void *)panel)[(k / 2 * PF_GEMM_PANEL + j) * 2 + k % 2]);
}

static void tensors_of_any_type_stack_at_any_row_and_tails_are_zero(void **state)
{
    (void)state;
    enum { K = 301, N0 = 5, N1 = 40, N2 = 28, N = N0 + N1 + N2, PADDED = 96 };
    static const pf_format held[] = { PF_FORMAT_F32, PF_FORMAT_BF16 };
    test_rng rng = { 3 };
    float f32[N0 * K];
    uint16_t f16[N1 * (K + 2)];
    unsigned char bf16[N2 * K * 2 + 1]; /* at an odd address, as a file may have it */
    test_fill(&rng, f32, N0 * K);
    for (size_t i = 0; i < N1 * (K + 2); i++) f16[i] = (uint16_t)(test_bits(&rng) & 0xBFFFu); /* finite */
    for (size_t i = 0; i < N2 * K; i++) {
        const uint16_t h = pf_bf16_from_f32(test_float(&rng));
        memcpy(bf16 + 1 + 2 * i, &h, 2);
    }
    const pf_gemm_source sources[] = {
        { .data = f32, .type = PF_TYPE_F32, .n_rows = N0, .stride = K },
        { .data = f16, .type = PF_TYPE_F16, .n_rows = N1, .stride = K + 2 },
        { .data = bf16 + 1, .type = PF_TYPE_BF16, .n_rows = N2, .stride = K },
    };
    for (size_t h = 0; h < 2; h++) {
        pf_gemm_weights w;
        size_t bytes;
        assert_int_equal(pf_gemm_plan_weights(held[h], N, K, &w, &bytes), PF_OK);
        assert_int_equal(w.n_panels, 3);
        pf_guard panels = pf_guard_alloc(bytes, 64);
        memset(panels.data, 0xFF, bytes);
        w.panels = panels.data;
        pf_gemm_pack_weights(&w, sources, 3, 2, 3); /* as two members would */
        pf_gemm_pack_weights(&w, sources, 3, 0, 2);
        for (int32_t n = 0; n < PADDED; n++)
            for (int32_t k = 0; k < (held[h] == PF_FORMAT_F32 ? K : K + 1); k++) {
                float expected = 0.0f;
                if (n < N && k < K) {
                    uint16_t half;
                    memcpy(&half, bf16 + 1 + 2 * ((n < N0 + N1 ? 0 : n - N0 - N1) * K + k), 2);
                    expected = n < N0        ? f32[n * K + k]
                               : n < N0 + N1 ? pf_f16_to_f32(f16[(n - N0) * (K + 2) + k])
                                             : pf_bf16_to_f32(half);
                }
                assert_true(same_float(packed_weight(&w, n, k), as_held(held[h], expected)));
            }
        pf_guard_free(&panels);
    }
}

static void sizes_that_cannot_be_are_refused(void **state)
{
    (void)state;
    pf_gemm_weights w = { .n = -7 };
    size_t bytes = 42;
    assert_int_equal(pf_gemm_plan_weights(PF_FORMAT_F32, 0, 4, &w, &bytes), PF_INVALID);
    assert_int_equal(pf_gemm_plan_weights(PF_FORMAT_F32, 4, -1, &w, &bytes), PF_INVALID);
    assert_int_equal(w.n, -7);
    assert_int_equal(bytes, 42);
    assert_int_equal(pf_gemm_plan_weights(PF_FORMAT_F32, INT32_MAX, INT32_MAX, &w, &bytes), PF_OK);
    assert_true(bytes > (size_t)INT32_MAX * INT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_definition_is_the_product),
        cmocka_unit_test(all_heights_widths_and_depths_equal_the_definition_bit_for_bit),
        cmocka_unit_test(sums_that_wait_between_blocks_of_k_are_one_chain),
        cmocka_unit_test(a_rows_bits_do_not_depend_on_the_rows_beside_it),
        cmocka_unit_test(members_that_share_tiles_and_panels_give_the_same_bits),
        cmocka_unit_test(a_member_writes_its_own_tiles_and_panels_only),
        cmocka_unit_test(nan_and_infinity_reach_their_own_row_and_column_only),
        cmocka_unit_test(denormals_are_kept_or_flushed_as_the_class_says),
        cmocka_unit_test(any_bits_at_all_give_what_the_definition_gives),
        cmocka_unit_test(tensors_of_any_type_stack_at_any_row_and_tails_are_zero),
        cmocka_unit_test(sizes_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
