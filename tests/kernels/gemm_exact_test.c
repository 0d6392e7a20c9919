/* Products of groups that others have quantised, of every kind, against their definition and against plain sums. */
#include "kernels/gemm/layout_exact.h"
#include "tests/kernels/kernel_test.h"

enum { N = 77, ROWS = 14, MAX_K = 1100 };

static const pf_group_format every_kind[] = {
    { 4, 32, PF_GROUP_SCALES_F16, PF_GROUP_SYMMETRIC },   { 4, 32, PF_GROUP_SCALES_F16, PF_GROUP_MINIMUM },
    { 8, 32, PF_GROUP_SCALES_F16, PF_GROUP_SYMMETRIC },   { 8, 32, PF_GROUP_SCALES_F16, PF_GROUP_MINIMUM },
    { 4, 16, PF_GROUP_SCALES_SUPER, PF_GROUP_MINIMUM },   { 4, 16, PF_GROUP_SCALES_SUPER, PF_GROUP_SYMMETRIC },
    { 4, 32, PF_GROUP_SCALES_SUPER, PF_GROUP_MINIMUM },   { 8, 32, PF_GROUP_SCALES_SUPER, PF_GROUP_MINIMUM },
    { 8, 16, PF_GROUP_SCALES_SUPER, PF_GROUP_SYMMETRIC }, { 8, 16, PF_GROUP_SCALES_SUPER, PF_GROUP_MINIMUM },
    { 8, 32, PF_GROUP_SCALES_SUPER, PF_GROUP_SYMMETRIC }, { 8, 256, PF_GROUP_SCALES_F32, PF_GROUP_SYMMETRIC },
    { 8, 32, PF_GROUP_SCALES_BF16, PF_GROUP_SYMMETRIC },  { 8, 16, PF_GROUP_SCALES_F32, PF_GROUP_MINIMUM },
    { 4, 64, PF_GROUP_SCALES_F16, PF_GROUP_ZERO },        { 4, 128, PF_GROUP_SCALES_BF16, PF_GROUP_ZERO },
    { 4, 128, PF_GROUP_SCALES_F16, PF_GROUP_SYMMETRIC },  { 4, 32, PF_GROUP_SCALES_F32, PF_GROUP_ZERO },
    { 4, 0, PF_GROUP_SCALES_F16, PF_GROUP_ZERO },         { 8, 0, PF_GROUP_SCALES_F32, PF_GROUP_SYMMETRIC },
    { 8, 128, PF_GROUP_SCALES_F16, PF_GROUP_ZERO },
};
enum { N_KINDS = sizeof every_kind / sizeof *every_kind };

/* How scales are drawn. */
typedef enum { USUAL, HOSTILE } scales_drawn;

/* A matrix of a kind: pieces are drawn from the row and the place, so that each is the same whenever it is asked for. */
typedef struct {
    pf_group_format groups;
    scales_drawn drawn;
    uint64_t seed;
} drawn_matrix;

static float draw_scale(const drawn_matrix *x, test_rng *rng)
{
    static const float hostile[] = { 0.0f, -0.0f, INFINITY, -INFINITY, NAN, 0x1p-24f, -0x1p-20f, 65504.0f };
    float f = test_float(rng) * 0.01f;
    if (x->drawn == HOSTILE && test_bits(rng) % 4 == 0) f = hostile[test_below(rng, 8)];
    if (x->groups.scales == PF_GROUP_SCALES_F32) return f;
    return x->groups.scales == PF_GROUP_SCALES_BF16 ? pf_bf16_to_f32(pf_bf16_from_f32(f))
                                                    : pf_f16_to_f32(pf_f16_from_f32(f));
}

static void draw_piece(const void *user, int32_t row, int32_t k, int32_t n, pf_group_piece *out)
{
    const drawn_matrix *x = user;
    const bool is_super = x->groups.scales == PF_GROUP_SCALES_SUPER, is_column = x->groups.group == 0;
    test_rng rng = { x->seed + (uint64_t)row * 7919 + (uint64_t)(is_column ? 0 : k) };
    const int32_t n_groups = is_column ? 1 : (n + x->groups.group - 1) / x->groups.group;
    for (int32_t g = 0; g < n_groups; g++) {
        out->scale[g] = is_super ? (float)(int8_t)test_bits(&rng) : draw_scale(x, &rng);
        if (x->groups.offset == PF_GROUP_ZERO)
            out->offset[g] = (float)test_below(&rng, x->groups.bits == 4 ? 17 : 256);
        else
            out->offset[g] = is_super ? (float)test_below(&rng, 64) : draw_scale(x, &rng);
    }
    out->super_scale = draw_scale(x, &rng);
    out->super_offset = draw_scale(x, &rng);
    rng.state += (uint64_t)k;
    for (int32_t i = 0; i < n; i++)
        out->q[i] = (int8_t)(x->groups.bits == 4 ? (int32_t)(test_bits(&rng) % 16) : test_below(&rng, 256) - 128);
}

/* A packed matrix and rows for it. */
typedef struct {
    drawn_matrix drawn;
    pf_gemm_weights weights;
    pf_guard panels;
    float a[ROWS * MAX_K], expected[ROWS * N], got[ROWS * N];
} product;

static product *product_make(const pf_group_format *groups, int32_t k, scales_drawn drawn, uint64_t seed)
{
    product *x = calloc(1, sizeof *x);
    size_t bytes;
    assert_non_null(x);
    x->drawn = (drawn_matrix){ *groups, drawn, seed };
    assert_int_equal(pf_gemm_plan_exact(groups, N, k, &x->weights, &bytes), PF_OK);
    x->panels = pf_guard_alloc(bytes, 64);
    x->weights.panels = x->panels.data;
    const pf_gemm_source source = { .n_rows = N, .fill = draw_piece, .fill_user = &x->drawn, .groups = *groups };
    assert_true(pf_gemm_pack_weights_ref(&x->weights, &source, 1, 0, x->weights.n_panels));
    test_rng rng = { seed + 1 };
    test_fill(&rng, x->a, sizeof x->a / sizeof *x->a);
    return x;
}

static void product_free(product *x)
{
    pf_guard_free(&x->panels);
    free(x);
}

/* Rows [0, m) of x->a from row `first` on; columns of k packed by pieces where `by_columns`. */
static void multiply(const product *x, const pf_kernel *kernel, int32_t first, int32_t m, bool by_columns,
                     pf_gemm_mode mode, float *c)
{
    const pf_gemm *gemm = &kernel->fn.gemm;
    const int32_t k = x->weights.k;
    const float *a = x->a + (size_t)first * (size_t)k;
    pf_guard input = pf_guard_alloc(pf_gemm_input_bytes(m, k), 64);
    pf_guard scratch = pf_guard_alloc(pf_gemm_scratch_bytes(m), 64);
    memset(scratch.data, 0xFF, scratch.bytes);
    memset(input.data, 0xFF, input.bytes);
    if (by_columns)
        for (int32_t begin = 0; begin < k; begin += 2 * PF_GEMM_PANEL)
            gemm->pack_columns(input.data, a, (size_t)k, m, k, begin, pf_min(begin + 2 * PF_GEMM_PANEL, k));
    else
        gemm->pack(input.data, a, (size_t)k, m, k, 0, pf_gemm_tiles(gemm->tile_rows, m));
    gemm->multiply(&x->weights, input.data, m, 0, 1, c, N, mode, scratch.data);
    gemm->multiply(&x->weights, input.data, m, 1, x->weights.n_panels, c, N, mode, scratch.data);
    pf_guard_free(&input);
    pf_guard_free(&scratch);
}

static const int32_t some_ks[] = { 1, 31, 32, 33, 63, 256, 257, 300, 512, 1030 };
enum { N_KS = sizeof some_ks / sizeof *some_ks };

/* ---- the definition ---- */

static void compare(const pf_kernel *kernel, const pf_kernel *definition, const pf_group_format *groups, int32_t k,
                    int32_t m, scales_drawn drawn)
{
    product *x = product_make(groups, k, drawn, (uint64_t)k * 31 + (uint64_t)m);
    char what[160], name[PF_GROUP_NAME_BYTES];
    pf_group_format_name(groups, name);
    if (drawn == HOSTILE) {
        test_rng rng = { (uint64_t)k };
        for (int32_t i = 0; i < m * k; i += 5) x->a[i] = test_extreme(&rng);
    }
    test_fill(&(test_rng){ 3 }, x->expected, sizeof x->expected / sizeof *x->expected);
    memcpy(x->got, x->expected, sizeof x->got);
    multiply(x, definition, 0, m, false, PF_GEMM_ADD, x->expected);
    multiply(x, kernel, 0, m, false, PF_GEMM_ADD, x->got);
    snprintf(what, sizeof what, "%s, %s, m %d k %d", kernel->name, name, m, k);
    assert_same_floats(what, x->got, x->expected, (size_t)m * N);
    multiply(x, definition, 0, m, false, PF_GEMM_STORE, x->expected);
    multiply(x, kernel, 0, m, kernel->fn.gemm.pack_columns != NULL, PF_GEMM_STORE, x->got);
    assert_same_floats(what, x->got, x->expected, (size_t)m * N);
    product_free(x);
}

static void check_definition(const pf_kernel *kernel, const pf_kernel *definition)
{
    for (int i = 0; i < N_KINDS; i++)
        for (int j = 0; j < N_KS; j++) {
            compare(kernel, definition, &every_kind[i], some_ks[j], 1 + (i + j) % ROWS, USUAL);
            compare(kernel, definition, &every_kind[i], some_ks[j], 1 + (i + 5 * j) % ROWS, HOSTILE);
        }
    for (int i = 0; i < N_KINDS; i++)
        for (int32_t m = 1; m <= ROWS; m++) compare(kernel, definition, &every_kind[i], 300, m, USUAL);
}

static void kernels_give_the_bits_of_the_definition(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_GEMM_EXACT, check_definition);
}

/* ---- rows ---- */

static void check_rows(const pf_kernel *kernel, const pf_kernel *definition)
{
    (void)definition;
    for (int i = 0; i < N_KINDS; i++) {
        product *x = product_make(&every_kind[i], 300, USUAL, 5);
        multiply(x, kernel, 0, ROWS, false, PF_GEMM_STORE, x->expected);
        for (int32_t row = 0; row < ROWS; row++) multiply(x, kernel, row, 1, false, PF_GEMM_STORE, x->got + row * N);
        assert_same_floats(kernel->name, x->got, x->expected, (size_t)ROWS * N);
        product_free(x);
    }
}

static void a_row_does_not_depend_on_the_others(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_GEMM_EXACT, check_rows);
}

/* ---- plain sums ---- */

/* The rounding of INT8 activations is less than half a step of 1 / 127 of a block's largest, which is at most 1 here; that of F32 sums
 * is of 2^-24 for each of 512 terms. */
static void check_sums(const pf_kernel *kernel, const pf_kernel *definition)
{
    const double tolerance = kernel->act == PF_ACT_INT8 ? 0.51 / 127.0 : 0x1p-15;
    (void)definition;
    for (int i = 0; i < N_KINDS; i++) {
        product *x = product_make(&every_kind[i], 512, USUAL, 9);
        float row[512];
        multiply(x, kernel, 0, 2, false, PF_GEMM_STORE, x->got);
        for (int32_t n = 0; n < N; n++) {
            pf_gemm_unpack_row(&x->weights, n, row);
            for (int32_t m = 0; m < 2; m++) {
                double sum = 0.0, weight = 0.0;
                for (int32_t k = 0; k < 512; k++) {
                    sum += (double)row[k] * (double)x->a[m * 512 + k];
                    weight += fabs((double)row[k]);
                }
                const double got = (double)x->got[m * N + n];
                if (fabs(got - sum) > weight * tolerance)
                    fail_msg("%s: kind %d, column %d: %g, expected about %g", kernel->name, i, n, got, sum);
            }
        }
        product_free(x);
    }
}

static void products_are_sums_of_what_weights_stand_for(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_GEMM_EXACT, check_sums);
}

/* ---- F32 activations ---- */

/* The same weights in F32 and multiplied by the F32 kernel. */
static void multiply_unpacked(const product *x, int32_t m, float *c)
{
    const pf_kernel *kernel =
        definition_of(&(pf_kernel){ .op = PF_OP_GEMM, .name = "f32", .format = PF_FORMAT_F32, .act = PF_ACT_F32 });
    const int32_t k = x->weights.k;
    float *rows = calloc((size_t)N * (size_t)k, sizeof *rows);
    size_t bytes;
    pf_gemm_weights w;
    assert_non_null(rows);
    for (int32_t n = 0; n < N; n++) pf_gemm_unpack_row(&x->weights, n, rows + (size_t)n * (size_t)k);
    assert_int_equal(pf_gemm_plan_weights(PF_FORMAT_F32, N, k, &w, &bytes), PF_OK);
    pf_guard panels = pf_guard_alloc(bytes, 64), input = pf_guard_alloc(pf_gemm_input_bytes(m, k), 64);
    const pf_gemm_source source = { .data = rows, .type = PF_TYPE_F32, .n_rows = N, .stride = (size_t)k };
    w.panels = panels.data;
    assert_true(pf_gemm_pack_weights_ref(&w, &source, 1, 0, w.n_panels));
    kernel->fn.gemm.pack(input.data, x->a, (size_t)k, m, k, 0, m);
    kernel->fn.gemm.multiply(&w, input.data, m, 0, w.n_panels, c, N, PF_GEMM_STORE, NULL);
    pf_guard_free(&panels);
    pf_guard_free(&input);
    free(rows);
}

static void check_f32(const pf_kernel *kernel, const pf_kernel *definition)
{
    (void)definition;
    if (kernel->act != PF_ACT_F32) return;
    for (int i = 0; i < N_KINDS; i++) {
        product *x = product_make(&every_kind[i], some_ks[i % N_KS], USUAL, 11);
        const int32_t m = 1 + i % ROWS;
        multiply_unpacked(x, m, x->expected);
        multiply(x, kernel, 0, m, false, PF_GEMM_STORE, x->got);
        assert_same_floats(kernel->name, x->got, x->expected, (size_t)m * N);
        product_free(x);
    }
}

static void f32_activations_give_the_bits_of_f32_weights(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_GEMM_EXACT, check_f32);
}

/* ---- unpacking ---- */

static float element_of(const pf_group_format *f, const pf_group_piece *p, int32_t i)
{
    const int32_t g = pf_group_of(f, i);
    const bool is_super = f->scales == PF_GROUP_SCALES_SUPER;
    const float scale = is_super ? p->super_scale * p->scale[g] : p->scale[g];
    const float minimum = is_super ? -(p->super_offset * p->offset[g]) : p->offset[g], q = (float)p->q[i];
    if (f->offset == PF_GROUP_MINIMUM) return fmaf(scale, q, minimum);
    if (f->offset == PF_GROUP_ZERO) return scale * (q - p->offset[g]);
    return scale * (f->bits == 4 ? q - 8.0f : q);
}

static void unpacked_rows_and_blocks_are_what_the_pieces_stand_for(void **state)
{
    (void)state;
    for (int i = 0; i < N_KINDS; i++)
        for (int j = 0; j < N_KS; j++) {
            const int32_t k = some_ks[j];
            product *x = product_make(&every_kind[i], k, HOSTILE, (uint64_t)j);
            float row[MAX_K], expected[MAX_K], of_block[PF_GEMM_BLOCK_K * PF_GEMM_PANEL];
            for (int32_t n = 0; n < N; n++) {
                pf_group_piece piece;
                for (int32_t at = 0; at < k; at++) {
                    if (at % 256 == 0) draw_piece(&x->drawn, n, at, pf_min(256, k - at), &piece);
                    expected[at] = element_of(&every_kind[i], &piece, at % 256);
                }
                pf_gemm_unpack_row(&x->weights, n, row);
                assert_same_floats("row", row, expected, (size_t)k);
                for (int32_t b = 0; b < (k + PF_GEMM_BLOCK_K - 1) / PF_GEMM_BLOCK_K; b++) {
                    pf_gemm_unpack_block(&x->weights, n / PF_GEMM_PANEL, b, of_block);
                    for (int32_t at = b * PF_GEMM_BLOCK_K; at < pf_min((b + 1) * PF_GEMM_BLOCK_K, k); at++)
                        assert_same_floats("block", &of_block[at % PF_GEMM_BLOCK_K * PF_GEMM_PANEL + n % PF_GEMM_PANEL],
                                           &expected[at], 1);
                }
            }
            product_free(x);
        }
}

/* ---- the plan ---- */

static void groups_that_do_not_exist_are_refused(void **state)
{
    (void)state;
    static const pf_group_format none[] = {
        { 5, 32, PF_GROUP_SCALES_F16, PF_GROUP_SYMMETRIC },  { 4, 48, PF_GROUP_SCALES_F16, PF_GROUP_SYMMETRIC },
        { 4, 512, PF_GROUP_SCALES_F16, PF_GROUP_SYMMETRIC }, { 4, 8, PF_GROUP_SCALES_F16, PF_GROUP_SYMMETRIC },
        { 4, 128, PF_GROUP_SCALES_SUPER, PF_GROUP_MINIMUM }, { 4, 32, PF_GROUP_SCALES_SUPER, PF_GROUP_ZERO },
        { 4, -32, PF_GROUP_SCALES_F16, PF_GROUP_SYMMETRIC }, { 4, 32, (pf_group_scales)9, PF_GROUP_SYMMETRIC },
        { 4, 32, PF_GROUP_SCALES_F16, (pf_group_offset)9 },
    };
    pf_gemm_weights w;
    size_t bytes;
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_int_equal(pf_gemm_plan_exact(&none[i], 32, 64, &w, &bytes), PF_INVALID);
    assert_int_equal(pf_gemm_plan_exact(&every_kind[0], 0, 64, &w, &bytes), PF_INVALID);
    assert_int_equal(pf_gemm_plan_exact(&every_kind[0], 32, 0, &w, &bytes), PF_INVALID);
    assert_int_equal(pf_gemm_plan_exact(&every_kind[0], 64, 64, &w, &bytes), PF_OK);
    assert_int_equal(bytes, 2 * 2 * (64 + 512)); /* 4.5 bits a weight */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_give_the_bits_of_the_definition),
        cmocka_unit_test(a_row_does_not_depend_on_the_others),
        cmocka_unit_test(products_are_sums_of_what_weights_stand_for),
        cmocka_unit_test(f32_activations_give_the_bits_of_f32_weights),
        cmocka_unit_test(unpacked_rows_and_blocks_are_what_the_pieces_stand_for),
        cmocka_unit_test(groups_that_do_not_exist_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
