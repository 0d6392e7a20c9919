/* oneDNN's products beside the definitions, and what it refuses. */
#include "kernels/cpu.h"
#include "kernels/gemm/onednn/gemm_onednn.h"
#include "tests/kernels/kernel_test.h"
#include "tests/support/test.h"

#include <stdlib.h>

/* K: several groups of each size, the last of them short; SHORT_K: less than one of 128. */
enum { MAX_ROWS = 40, N = 100, K = 331, SHORT_K = 75, LDC = 112 };

/* A matrix with its panels and rows to multiply it with. */
typedef struct {
    pf_gemm_weights weights;
    float a[MAX_ROWS * K], c[MAX_ROWS * LDC], expected[MAX_ROWS * LDC];
    void *input, *scratch;
    pf_onednn *onednn;
} problem;

static void open_problem(problem *p, pf_format format, int32_t k)
{
    static float numbers[N * K];
    test_rng rng = { 7 };
    size_t bytes;
    test_fill(&rng, numbers, N * K);
    test_fill(&rng, p->a, MAX_ROWS * K);
    assert_int_equal(pf_gemm_plan_weights(format, N, k, &p->weights, &bytes), PF_OK);
    p->weights.panels = aligned_alloc(64, (bytes + 63) / 64 * 64);
    const pf_gemm_source source = { .data = numbers, .type = PF_TYPE_F32, .n_rows = N, .stride = K };
    pf_gemm_pack_weights_ref(&p->weights, &source, 1, 0, p->weights.n_panels);
    p->input = aligned_alloc(64, pf_gemm_input_bytes(MAX_ROWS, k));
    p->scratch = aligned_alloc(64, (pf_gemm_scratch_bytes(MAX_ROWS) + 63) / 64 * 64);
}

static void close_problem(problem *p)
{
    pf_onednn_detach(&p->weights);
    pf_onednn_close(p->onednn);
    free(p->weights.panels);
    free(p->input);
    free(p->scratch);
}

/* c = 0.5 everywhere, then the product of m rows by the members of a team of n_threads, one after the other. */
static void multiply(problem *p, const pf_gemm *gemm, int32_t n_threads, int32_t m, pf_gemm_mode mode, float *c)
{
    for (int32_t i = 0; i < MAX_ROWS * LDC; i++) c[i] = 0.5f;
    memset(p->input, 0xFF, pf_gemm_input_bytes(MAX_ROWS, p->weights.k)); /* what was there before is no number */
    gemm->pack(p->input, p->a, K, m, p->weights.k, 0, pf_gemm_tiles(gemm->tile_rows, m));
    for (int32_t id = 0; id < n_threads; id++) {
        int32_t begin, end;
        pf_team_share((pf_member){ .id = id, .n_threads = n_threads }, p->weights.n_panels, &begin, &end);
        if (begin < end) gemm->multiply(&p->weights, p->input, m, begin, end, c, LDC, mode, p->scratch);
    }
}

static const pf_kernel *definition(pf_format format, pf_act act)
{
    int32_t n;
    const pf_kernel *all = pf_kernels_all(&n);
    for (int32_t i = 0; i < n; i++)
        if (all[i].op == PF_OP_GEMM && all[i].format == format && all[i].act == act && all[i].isa == PF_ISA_SCALAR)
            return &all[i];
    fail();
    return NULL;
}

static void attach(problem *p, pf_act act, int32_t n_threads)
{
    pf_error error;
    pf_team *team;
    assert_ok(pf_team_create(n_threads, NULL, 0, &team, &error), error);
    assert_ok(pf_onednn_open(team, &p->onednn, &error), error);
    assert_ok(pf_onednn_attach(p->onednn, team, &p->weights, act, &error), error);
    pf_team_destroy(team);
}

/* Whether the oneDNN that is linked is this version or a later one. */
static bool is_since(int major, int minor)
{
    const char *version = pf_onednn_version();
    if (!version) return false;
    char *end;
    const long has_major = strtol(version, &end, 10);
    assert_int_equal(*end, '.');
    const long has_minor = strtol(end + 1, NULL, 10);
    return has_major > major || (has_major == major && has_minor >= minor);
}

static bool has_bf16(void)
{
    return pf_cpu_best_isa() >= PF_ISA_AVX512;
}

/* Column n, row m of `expected` is rounded otherwise by oneDNN: sums have another order, which moves them by less than
 * 1e-4. It multiplies bf16 by integers and the sum by the scale, where the definition rounds the product of the two to
 * bf16: that moves every weight by 2^-9 of itself at most. */
static float tolerance(const problem *p, const pf_kernel *kernel, int32_t m, int32_t n)
{
    float weights[K], sum = 0.0f;
    if (kernel->act != PF_ACT_BF16 || pf_format_get(kernel->format)->bits >= 16) return 1e-4f;
    pf_gemm_unpack_row(&p->weights, n, weights);
    for (int32_t k = 0; k < p->weights.k; k++) sum += fabsf(weights[k] * p->a[m * K + k]);
    return sum * 0x1p-9f + 1e-4f;
}

static void assert_near(const problem *p, const pf_kernel *kernel, int32_t m)
{
    for (int32_t i = 0; i < MAX_ROWS * LDC; i++) {
        const bool written = i / LDC < m && i % LDC < p->weights.n;
        if (!written) assert_true(p->c[i] == 0.5f);
        if (written && !(fabsf(p->c[i] - p->expected[i]) < tolerance(p, kernel, i / LDC, i % LDC)))
            fail_msg("%s by %s, N = %d, K = %d, %d rows, row %d, column %d: %g, not %g",
                     pf_format_get(kernel->format)->name, pf_act_name(kernel->act), p->weights.n, p->weights.k, m,
                     i / LDC, i % LDC, (double)p->c[i], (double)p->expected[i]);
    }
}

/* All numbers of rows, stored and added, by a team of n_threads. */
static void compare_with_definition(pf_format format, pf_act act, int32_t k, int32_t n_threads)
{
    static const int32_t rows[] = { 1, 2, 7, 16, 17, 40 };
    static problem p;
    const pf_kernel *kernel = pf_onednn_kernel(format, act);
    const pf_gemm *defined = &definition(format, act)->fn.gemm;
    open_problem(&p, format, k);
    attach(&p, act, n_threads);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (pf_gemm_mode mode = PF_GEMM_STORE; mode <= PF_GEMM_ADD; mode++) {
            multiply(&p, defined, 1, rows[i], mode, p.expected);
            multiply(&p, &kernel->fn.gemm, n_threads, rows[i], mode, p.c);
            assert_near(&p, kernel, rows[i]);
        }
    close_problem(&p);
}

static void every_product_is_the_definition_s_within_rounding(void **state)
{
    (void)state;
    if (!pf_onednn_version()) skip();
    for (int format = 0; format < PF_N_FORMATS; format++)
        for (int act = 0; act < PF_N_ACTS; act++) {
            if (pf_onednn_check((pf_format)format, (pf_act)act, NULL) != PF_OK) continue;
            compare_with_definition((pf_format)format, (pf_act)act, K, 1);
            compare_with_definition((pf_format)format, (pf_act)act, SHORT_K, 2);
            compare_with_definition((pf_format)format, (pf_act)act, K, 3);
        }
}

static void one_thread_alone_may_multiply_what_several_made(void **state)
{
    (void)state;
    if (!pf_onednn_version()) skip();
    static problem p;
    const pf_kernel *kernel = pf_onednn_kernel(PF_FORMAT_F32, PF_ACT_F32);
    open_problem(&p, PF_FORMAT_F32, K);
    attach(&p, PF_ACT_F32, 3);
    multiply(&p, &definition(PF_FORMAT_F32, PF_ACT_F32)->fn.gemm, 1, 5, PF_GEMM_ADD, p.expected);
    multiply(&p, &kernel->fn.gemm, 1, 5, PF_GEMM_ADD, p.c);
    assert_near(&p, kernel, 5);
    close_problem(&p);
}

static void a_number_of_rows_that_was_given_up_is_made_again(void **state)
{
    (void)state;
    if (!pf_onednn_version()) skip();
    static problem p;
    const pf_kernel *kernel = pf_onednn_kernel(PF_FORMAT_F32, PF_ACT_F32);
    const pf_gemm *gemm = &kernel->fn.gemm;
    open_problem(&p, PF_FORMAT_F32, K);
    attach(&p, PF_ACT_F32, 1);
    for (int32_t m = 1; m <= 2 * PF_ONEDNN_PRIMITIVES; m++) multiply(&p, gemm, 1, m, PF_GEMM_STORE, p.c);
    multiply(&p, &definition(PF_FORMAT_F32, PF_ACT_F32)->fn.gemm, 1, 1, PF_GEMM_STORE, p.expected);
    multiply(&p, gemm, 1, 1, PF_GEMM_STORE, p.c);
    assert_near(&p, kernel, 1);
    close_problem(&p);
}

static void a_row_that_holds_no_finite_number_gives_nan_in_int8(void **state)
{
    (void)state;
    if (!pf_onednn_version()) skip();
    for (int format = PF_FORMAT_INT8; format < PF_N_FORMATS; format++) {
        static problem p;
        const pf_kernel *kernel = pf_onednn_kernel((pf_format)format, PF_ACT_INT8);
        if (!kernel) continue;
        open_problem(&p, (pf_format)format, K);
        attach(&p, PF_ACT_INT8, 1);
        p.a[K + 3] = INFINITY;
        multiply(&p, &kernel->fn.gemm, 1, 3, PF_GEMM_STORE, p.c);
        assert_true(isnan(p.c[LDC]) && isnan(p.c[LDC + N - 1]));
        assert_true(isfinite(p.c[0]) && isfinite(p.c[2 * LDC]));
        close_problem(&p);
    }
}

static void what_it_has_not_is_refused_by_name(void **state)
{
    (void)state;
    pf_error error = { 0 };
    const char *version = pf_onednn_version();
    assert_int_equal(pf_onednn_check(PF_FORMAT_BF16_12, PF_ACT_BF16, &error), PF_UNSUPPORTED);
    assert_non_null(strstr(error.text, version ? "bf16-12" : "libdnnl-dev"));
    assert_null(pf_onednn_kernel(PF_FORMAT_BF16_12, PF_ACT_BF16));
    assert_int_equal(pf_onednn_check(PF_FORMAT_BF16, PF_ACT_INT8, NULL), PF_UNSUPPORTED);
    assert_int_equal(pf_onednn_check(PF_FORMAT_F32, PF_ACT_F32, NULL), version ? PF_OK : PF_UNSUPPORTED);
    if (!version) assert_null(pf_onednn_kernel(PF_FORMAT_F32, PF_ACT_F32));
}

/* bf16 below AVX-512, and int8 where sums of two products saturate. */
static void what_this_processor_lacks_is_refused_by_name(void **state)
{
    (void)state;
    if (!pf_onednn_version()) skip();
    pf_error error = { 0 };
    const bool has_vnni = (pf_cpu_features() & (PF_FEATURE_AVX_VNNI | PF_FEATURE_AVX512_VNNI)) != 0;
    assert_int_equal(pf_onednn_check(PF_FORMAT_INT8, PF_ACT_INT8, &error), has_vnni ? PF_OK : PF_UNSUPPORTED);
    assert_true(has_vnni || strstr(error.text, "saturate") != NULL);
    assert_int_equal(pf_onednn_check(PF_FORMAT_BF16, PF_ACT_BF16, &error), has_bf16() ? PF_OK : PF_UNSUPPORTED);
    assert_true(has_bf16() || strstr(error.text, "bf16 needs AVX-512") != NULL);
}

static void integers_are_there_by_int8_and_since_version_3_5_by_bf16(void **state)
{
    (void)state;
    if (!pf_onednn_version() || !has_bf16()) skip();
    const pf_status by_int8 = pf_onednn_check(PF_FORMAT_INT8, PF_ACT_INT8, NULL);
    const pf_status by_bf16 = is_since(3, 5) ? PF_OK : PF_UNSUPPORTED;
    for (pf_format format = PF_FORMAT_INT8; format < PF_N_FORMATS; format++) {
        pf_error error = { 0 };
        assert_int_equal(pf_onednn_check(format, PF_ACT_INT8, NULL), by_int8);
        assert_int_equal(pf_onednn_check(format, PF_ACT_BF16, &error), by_bf16);
        if (by_bf16 == PF_OK) continue;
        assert_non_null(strstr(error.text, "integers with bf16 since version 3.5"));
        assert_non_null(strstr(error.text, pf_format_get(format)->name));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_product_is_the_definition_s_within_rounding),
        cmocka_unit_test(one_thread_alone_may_multiply_what_several_made),
        cmocka_unit_test(a_number_of_rows_that_was_given_up_is_made_again),
        cmocka_unit_test(a_row_that_holds_no_finite_number_gives_nan_in_int8),
        cmocka_unit_test(what_it_has_not_is_refused_by_name),
        cmocka_unit_test(what_this_processor_lacks_is_refused_by_name),
        cmocka_unit_test(integers_are_there_by_int8_and_since_version_3_5_by_bf16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
