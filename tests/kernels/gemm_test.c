#include "kernels/implementations.h"
#include "tests/kernels/kernel_test.h"

/* A product and its operands, each in memory of its own with guards. Rows of a and c are apart by more than their
 * length, and start at odd addresses. */
typedef struct {
    pf_gemm_weights weights;
    pf_guard panels, source, a, c, input, scratch;
    int32_t m, n, k;
    size_t lda, ldc;
} product;

static product product_make(pf_format format, int32_t m, int32_t n, int32_t k)
{
    product x = { .m = m, .n = n, .k = k, .lda = (size_t)k + 3, .ldc = (size_t)n + 5 };
    size_t bytes;
    assert_int_equal(pf_gemm_plan_weights(format, n, k, &x.weights, &bytes), PF_OK);
    x.weights.from_memory = (n + k) % 2 == 0; /* another order of loops, the same bits */
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

/* False: bf16-12 has no room for such numbers. */
static bool product_pack(product *x)
{
    const pf_gemm_source source = {
        .data = x->source.data, .type = PF_TYPE_F32, .n_rows = x->n, .stride = (size_t)x->k
    };
    return pf_gemm_pack_weights_ref(&x->weights, &source, 1, 0, x->weights.n_panels);
}

static product product_random(pf_format format, int32_t m, int32_t n, int32_t k)
{
    test_rng rng = { (uint64_t)m * 1000003u + (uint64_t)n * 1009u + (uint64_t)k };
    product x = product_make(format, m, n, k);
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

static const char *name_of(const pf_kernel *kernel)
{
    static char name[96];
    snprintf(name, sizeof name, "%s of %s", kernel->name, pf_format_get(kernel->format)->name);
    return name;
}

static bool of_integers(const pf_kernel *kernel)
{
    return pf_format_get(kernel->format)->bits < 16;
}

static void compare(const pf_kernel *kernel, const pf_kernel *definition, int32_t m, int32_t n, int32_t k,
                    pf_gemm_mode mode)
{
    product x = product_random(kernel->format, m, n, k);
    float *expected = multiply(&x, definition, mode);
    float *got = multiply(&x, kernel, mode);
    char what[160];
    snprintf(what, sizeof what, "%s, m %d n %d k %d", name_of(kernel), m, n, k);
    expect_same(&x, what, expected);
    free(got);
    free(expected);
    product_free(&x);
}

/* Every number of rows up to x->m: the last rows of a, so that the memory behind them is out of bounds. The definition
 * goes row by row and need not be asked again. */
static void compare_heights(const pf_kernel *kernel, const pf_kernel *definition, int32_t max_m, int32_t n, int32_t k)
{
    product x = product_random(kernel->format, max_m, n, k);
    float *expected[2] = { multiply(&x, definition, PF_GEMM_STORE), malloc(x.c.bytes) };
    assert_non_null(expected[PF_GEMM_ADD]);
    for (size_t i = 0; i < x.c.bytes / sizeof(float); i++) {
        const float r = expected[PF_GEMM_STORE][i];
        expected[PF_GEMM_ADD][i] = i % x.ldc < (size_t)n ? 1000.0f + r : r; /* to what clear() leaves */
    }
    for (int32_t m = 1; m <= max_m; m += m < 16 ? 1 : 6) {
        const pf_gemm_mode mode = (m + n + k) % 2 ? PF_GEMM_ADD : PF_GEMM_STORE;
        pf_guard_free(&x.input);
        pf_guard_free(&x.scratch);
        x.input = pf_guard_alloc(pf_gemm_input_bytes(m, k), 64);
        x.scratch = pf_guard_alloc(pf_gemm_scratch_bytes(m), 64);
        for (pf_fetch fetch = 0; fetch < PF_N_FETCHES; fetch++) {
            x.weights.fetch = fetch; /* another order of loops again */
            clear(&x);
            multiply_rows(&x, kernel, max_m - m, m, mode);
            for (size_t i = 0; i < (size_t)(max_m - m) * x.ldc; i++) assert_true(((float *)x.c.data)[i] == 1000.0f);
            char what[160];
            snprintf(what, sizeof what, "%s, m %d n %d k %d, fetch %d", name_of(kernel), m, n, k, (int)fetch);
            const size_t skip = (size_t)(max_m - m) * x.ldc;
            assert_same_floats(what, (float *)x.c.data + skip, expected[mode] + skip, x.c.bytes / sizeof(float) - skip);
        }
    }
    free(expected[0]);
    free(expected[1]);
    product_free(&x);
}

/* --- the definition itself, against float64 --- */

static float as_held(pf_format format, float f)
{
    return format == PF_FORMAT_BF16 ? pf_bf16_to_f32(pf_bf16_from_f32(f)) : f;
}

/* A row of activations as a kernel takes it. */
static void take_activations(pf_act act, const float *a, int32_t k, double *out)
{
    float largest = 0.0f;
    for (int32_t i = 0; i < k; i++) largest = fmaxf(largest, fabsf(a[i]));
    for (int32_t i = 0; i < k; i++)
        out[i] = act == PF_ACT_F32    ? (double)a[i]
                 : act == PF_ACT_BF16 ? (double)pf_bf16_to_f32(pf_bf16_from_f32(a[i]))
                                      : rint((double)a[i] * 127.0 / (double)largest) * (double)largest / 127.0;
}

static void check_definition(const pf_kernel *kernel, const pf_kernel *definition)
{
    if (kernel != definition) return;
    enum { K = 301 };
    product x = product_random(kernel->format, 3, 37, K);
    float *got = multiply(&x, kernel, PF_GEMM_STORE);
    for (int32_t j = 0; j < x.n; j++) {
        float weights[K];
        pf_gemm_unpack_row(&x.weights, j, weights);
        for (int32_t i = 0; i < x.m; i++) {
            double a[K], sum = 0.0;
            take_activations(kernel->act, (float *)x.a.data + (size_t)i * x.lda, K, a);
            for (int32_t l = 0; l < K; l++) {
                const bool rounded = kernel->act == PF_ACT_BF16;
                sum += a[l] * (double)(rounded ? as_held(PF_FORMAT_BF16, weights[l]) : weights[l]);
            }
            const double error = fabs((double)got[(size_t)i * x.ldc + (size_t)j] - sum);
            if (error > 3e-5) fail_msg("%s: c[%d, %d] is off by %g", name_of(kernel), i, j, error);
        }
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
    static const int32_t float_ns[] = { 1, 31, 32, 33, 70 }, int_ns[] = { 5, 32, 70 };
    static const int32_t float_ks[] = { 1, 2, 3, 17, 64, 65 }, int_ks[] = { 1, 3, 32, 61, 129, 260 };
    const bool integers = of_integers(kernel);
    for (size_t i = 0; i < (integers ? 3u : 5u); i++)
        for (size_t j = 0; j < 6; j++)
            compare_heights(kernel, definition, 28, (integers ? int_ns : float_ns)[i],
                            (integers ? int_ks : float_ks)[j]);
}

static void all_heights_widths_and_depths_equal_the_definition_bit_for_bit(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_GEMM, check_tails);
}

static void check_deep(const pf_kernel *kernel, const pf_kernel *definition)
{
    if (kernel == definition) return;
    compare_heights(kernel, definition, 7, 130, 601); /* few rows, many panels */
    if (of_integers(kernel)) {                        /* past two blocks of 2048 values of K, and past one of 4096 */
        compare(kernel, definition, 17, 33, 4133, PF_GEMM_STORE);
        compare(kernel, definition, 30, 20, 2049, PF_GEMM_ADD);
        compare(kernel, definition, 70, 20, 1610, PF_GEMM_STORE); /* blocks of rows and of K, the last ones lower */
        return;
    }
    /* past one and two blocks of 1024 steps of K; the last block short, or of one step */
    compare(kernel, definition, 17, 33, 1025, PF_GEMM_STORE);
    compare(kernel, definition, 30, 32, 2051, PF_GEMM_ADD);
    compare(kernel, definition, 16, 40, 4097, PF_GEMM_STORE);
    compare(kernel, definition, 70, 20, 2600, PF_GEMM_STORE);
}

static void sums_that_wait_between_blocks_of_k_are_one_chain(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_GEMM, check_deep);
}

/* --- row invariance --- */

static void check_rows(const pf_kernel *kernel, const pf_kernel *definition)
{
    /* the last two: several groups of rows, several groups of panels */
    static const int32_t shapes[][3] = { { 512, 40, 70 }, { 40, 96, 2200 }, { 530, 70, 1100 }, { 40, 4200, 100 } };
    const size_t n_shapes = kernel->fn.gemm.group_rows                    ? 4
                            : kernel == definition && of_integers(kernel) ? 1 /* it is slow, and has no blocks */
                                                                          : 2;
    for (size_t s = 0; s < n_shapes; s++) {
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

/* Mostly zero, so that many a sum is a single product: of denormals, or denormal itself. */
static float rare_number(test_rng *rng)
{
    static const float scales[] = { 0x1p-63f, 0x1p-127f, 0x1p60f };
    if (test_below(rng, 8)) return 0.0f;
    return test_float(rng) * scales[test_below(rng, 3)];
}

static void check_rows_of(const pf_kernel *kernel, float (*number)(test_rng *rng))
{
    enum { M = 40, LONE = 7 };
    product x = product_make(kernel->format, M, 70, 71);
    test_rng rng = { 17 };
    for (int32_t i = 0; i < x.n * x.k; i++) ((float *)x.source.data)[i] = number(&rng);
    for (size_t i = 0; i < x.a.bytes / sizeof(float); i++) ((float *)x.a.data)[i] = number(&rng);
    if (!product_pack(&x)) return product_free(&x);
    float *whole = multiply(&x, kernel, PF_GEMM_STORE);
    for (int32_t few = 1; few <= LONE; few++) {
        x.weights.from_memory = !x.weights.from_memory;
        clear(&x);
        for (int32_t row = 0; row < M; row += few)
            multiply_rows(&x, kernel, row, row + few <= M ? few : M - row, PF_GEMM_STORE);
        expect_same(&x, name_of(kernel), whole);
    }
    free(whole);
    product_free(&x);
}

static void check_rows_of_any_bits(const pf_kernel *kernel, const pf_kernel *definition)
{
    (void)definition;
    check_rows_of(kernel, rare_number);
    check_rows_of(kernel, test_extreme);
}

static void nor_do_those_of_denormals_and_what_is_no_number(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_GEMM, check_rows_of_any_bits);
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

/* Packed column by column, last first, over what was there: every byte must come, and no neighbour's be touched. */
static void check_columns_of(const pf_kernel *kernel, int32_t m, int32_t k, int32_t step)
{
    product x = product_random(kernel->format, m, 32, k);
    const pf_gemm *gemm = &kernel->fn.gemm;
    memset(x.input.data, 0xFF, x.input.bytes);
    gemm->pack(x.input.data, x.a.data, x.lda, m, k, 0, pf_gemm_tiles(gemm->tile_rows, m));
    unsigned char *whole = malloc(x.input.bytes);
    assert_non_null(whole);
    memcpy(whole, x.input.data, x.input.bytes);
    memset(x.input.data, 0xFF, x.input.bytes);
    for (int32_t begin = (k - 1) / step * step; begin >= 0; begin -= step)
        gemm->pack_columns(x.input.data, x.a.data, x.lda, m, k, begin, begin + step < k ? begin + step : k);
    assert_memory_equal(x.input.data, whole, x.input.bytes);
    free(whole);
    product_free(&x);
}

static void check_columns(const pf_kernel *kernel, const pf_kernel *definition)
{
    (void)definition;
    if (!kernel->fn.gemm.pack_columns) return;
    for (int32_t m = 1; m <= 40; m += m < 20 ? 1 : 9)
        for (int32_t step = PF_GEMM_PANEL; step <= 3 * PF_GEMM_PANEL; step += PF_GEMM_PANEL)
            for (int32_t k = 1; k <= 300; k += 23) check_columns_of(kernel, m, k, step);
}

static void columns_packed_apart_are_what_is_packed_at_once(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_GEMM, check_columns);
}

/* --- gate and up in one call --- */

/* The two products, activated, and packed where there are columns; against one call, or several, the last panels first. */
static void check_gated_of(const pf_kernel *kernel, int32_t m, int32_t n, int32_t k)
{
    const pf_gemm *gemm = &kernel->fn.gemm;
    product gate = product_random(kernel->format, m, n, k), up = product_random(kernel->format, m, n, k);
    test_rng rng = { 7 };
    test_fill(&rng, up.source.data, (size_t)n * (size_t)k);
    product_pack(&up);
    clear(&gate);
    clear(&up);
    multiply_rows(&up, kernel, 0, m, PF_GEMM_STORE);
    multiply_rows(&gate, kernel, 0, m, PF_GEMM_STORE);
    pf_guard packed = pf_guard_alloc(pf_gemm_input_bytes(m, n), 64);
    const pf_gemm_gated out = {
        .activate = pf_gated_silu_f32_ref, .packed = packed.data, .c = gate.c.data, .ldc = gate.ldc
    };
    pf_gated_silu_f32_ref(out.c, out.ldc, gate.c.data, up.c.data, up.ldc, m, n);
    memset(packed.data, 0xFF, packed.bytes);
    const pf_guard *result = gemm->pack_columns ? &packed : &gate.c;
    if (gemm->pack_columns) gemm->pack(packed.data, out.c, out.ldc, m, n, 0, pf_gemm_tiles(gemm->tile_rows, m));
    unsigned char *expected = malloc(result->bytes);
    assert_non_null(expected);
    memcpy(expected, result->data, result->bytes);

    memset(packed.data, 0xFF, packed.bytes);
    clear(&gate);
    const int32_t n_panels = gate.weights.n_panels, share = n_panels > 64 ? n_panels : 3;
    for (int32_t end = n_panels; end > 0; end -= share)
        gemm->multiply_gated(&gate.weights, &up.weights, gate.input.data, m, end < share ? 0 : end - share, end, &out,
                             gate.scratch.data);
    if (memcmp(result->data, expected, result->bytes) != 0)
        fail_msg("%s, gated, m %d n %d k %d", name_of(kernel), m, n, k);
    free(expected);
    pf_guard_free(&packed);
    product_free(&gate);
    product_free(&up);
}

static void check_gated(const pf_kernel *kernel, const pf_kernel *definition)
{
    (void)definition;
    if (kernel->fn.gemm.multiply_gated == NULL) return;
    static const int32_t shapes[][3] = { { 33, 20, 90 },   { 40, 32, 64 },   { 64, 70, 1100 },
                                         { 300, 150, 61 }, { 545, 40, 600 }, { 40, 2200, 33 } };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check_gated_of(kernel, shapes[i][0], shapes[i][1], shapes[i][2]);
    for (int32_t more = 1; more < 16; more += 14) /* as few rows as it is called for */
        check_gated_of(kernel, kernel->fn.gemm.tile_rows + more, 130, 700);
    const pf_gemm *gemm = &kernel->fn.gemm;
    for (int32_t m = 1; m <= gemm->tile_rows; m++)
        if (pf_gemm_gates_at_once(gemm, m)) check_gated_of(kernel, m, m % 2 ? 131 : 96, m % 3 ? 700 : 128);
}

static void gate_and_up_at_once_are_the_two_products_activated(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_GEMM, check_gated);
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
    const size_t value_bytes = kernel->act == PF_ACT_INT8 ? 1u : 2u; /* a row takes at least these */
    const size_t before = (size_t)last * (size_t)x.k * value_bytes;
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
                if (!touched) assert_true(isfinite(got[at]));
                if (i == 7 || (j == 40 && !of_integers(kernel))) assert_true(!isfinite(got[at]));
                if (i == 7 && kernel->act == PF_ACT_INT8) assert_true(isnan(got[at]));
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
        expect_same(&x, name_of(kernel), expected);
    } else {
        bool flushed = false;
        for (size_t i = 0; i < x.c.bytes / sizeof(float); i++) {
            assert_true(fabsf(got[i] - expected[i]) <= (float)x.k * 0x1p-126f);
            flushed |= got[i] != expected[i];
        }
        if (!of_integers(kernel)) assert_true(flushed); /* else the contract need not mention it */
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
    product x = product_make(kernel->format, 19, 70, of_integers(kernel) ? 150 : 6);
    test_rng rng = { 13 };
    for (int32_t i = 0; i < x.n * x.k; i++) ((float *)x.source.data)[i] = test_extreme(&rng);
    for (size_t i = 0; i < x.a.bytes / sizeof(float); i++) ((float *)x.a.data)[i] = test_extreme(&rng);
    product_pack(&x);
    float *expected = multiply(&x, definition, PF_GEMM_STORE);
    float *got = multiply(&x, kernel, PF_GEMM_STORE);
    expect_same(&x, name_of(kernel), expected);
    free(got);
    free(expected);
    product_free(&x);
}

static void any_bits_at_all_give_what_the_definition_gives(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_GEMM, check_extremes);
}

/* The largest sums that there are: all weights and activations at their ends, and rows that count as zeros. */
static void check_ends(const pf_kernel *kernel, const pf_kernel *definition)
{
    if (!of_integers(kernel)) return;
    product x = product_make(kernel->format, 5, 70, 1300);
    for (int32_t i = 0; i < x.n * x.k; i++)
        ((float *)x.source.data)[i] = i % x.k % 3 == 1 && i / x.k % 2 ? 0.5f : -8.0f;
    for (size_t i = 0; i < x.a.bytes / sizeof(float); i++) {
        const size_t row = i / x.lda;
        ((float *)x.a.data)[i] = row == 0   ? -127.0f
                                 : row == 1 ? 127.0f
                                 : row == 2 ? 0.0f
                                 : row == 3 ? 0x1p-101f
                                            : 0x1p-100f;
    }
    product_pack(&x);
    float *expected = multiply(&x, definition, PF_GEMM_STORE);
    float *got = multiply(&x, kernel, PF_GEMM_STORE);
    if (strcmp(kernel->arithmetic, definition->arithmetic) == 0) expect_same(&x, name_of(kernel), expected);
    if (kernel->act == PF_ACT_INT8) {
        assert_true(got[2 * x.ldc] == 0.0f && got[3 * x.ldc] == 0.0f);
        assert_true(got[4 * x.ldc] < 0.0f);
        assert_true(fabsf(got[0] / (127.0f * 8.0f * 1300.0f) - 1.0f) < 1e-6f);
    }
    free(got);
    free(expected);
    product_free(&x);
}

static void sums_of_the_largest_integers_are_exact_and_tiny_rows_are_zero(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_GEMM, check_ends);
}

/* Whatever the rows: a kernel may have another way to its weights for few of them. */
static void check_scales(const pf_kernel *kernel, const pf_kernel *definition)
{
    if (!of_integers(kernel) || kernel->act != PF_ACT_BF16) return;
    static test_integers integers;
    const pf_gemm_source source = test_odd_integers(kernel->format, &integers);
    product x = product_make(kernel->format, 9, source.n_rows, TEST_INTEGERS_K);
    test_rng rng = { 31 };
    test_fill(&rng, x.a.data, x.a.bytes / sizeof(float));
    pf_gemm_pack_weights_ref(&x.weights, &source, 1, 0, x.weights.n_panels);
    float *expected = multiply(&x, definition, PF_GEMM_STORE);
    for (int32_t m = 1; m <= x.m; m++) {
        clear(&x);
        for (int32_t row = 0; row < x.m; row += m)
            multiply_rows(&x, kernel, row, m < x.m - row ? m : x.m - row, PF_GEMM_STORE);
        expect_same(&x, name_of(kernel), expected);
    }
    free(expected);
    product_free(&x);
}

static void weights_half_way_between_two_go_to_the_even_one_at_any_number_of_rows(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_GEMM, check_scales);
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
    assert_int_equal(pf_gemm_plan_weights(PF_FORMAT_INT8, 4, PF_GEMM_MAX_INT_K, &w, &bytes), PF_OK);
    assert_int_equal(pf_gemm_plan_weights(PF_FORMAT_INT8, 4, PF_GEMM_MAX_INT_K + 1, &w, &bytes), PF_LIMIT);
    assert_int_equal(pf_gemm_plan_weights(PF_N_FORMATS, 4, 4, &w, &bytes), PF_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_definition_is_the_product),
        cmocka_unit_test(all_heights_widths_and_depths_equal_the_definition_bit_for_bit),
        cmocka_unit_test(sums_that_wait_between_blocks_of_k_are_one_chain),
        cmocka_unit_test(a_rows_bits_do_not_depend_on_the_rows_beside_it),
        cmocka_unit_test(nor_do_those_of_denormals_and_what_is_no_number),
        cmocka_unit_test(members_that_share_tiles_and_panels_give_the_same_bits),
        cmocka_unit_test(columns_packed_apart_are_what_is_packed_at_once),
        cmocka_unit_test(gate_and_up_at_once_are_the_two_products_activated),
        cmocka_unit_test(a_member_writes_its_own_tiles_and_panels_only),
        cmocka_unit_test(nan_and_infinity_reach_their_own_row_and_column_only),
        cmocka_unit_test(denormals_are_kept_or_flushed_as_the_class_says),
        cmocka_unit_test(any_bits_at_all_give_what_the_definition_gives),
        cmocka_unit_test(sums_of_the_largest_integers_are_exact_and_tiny_rows_are_zero),
        cmocka_unit_test(weights_half_way_between_two_go_to_the_even_one_at_any_number_of_rows),
        cmocka_unit_test(sizes_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
