/* oneDNN's product beside the definition, and what it refuses. */
#include "kernels/gemm/gemm_onednn.h"
#include "tests/kernels/kernel_test.h"
#include "tests/support/test.h"

enum { MAX_ROWS = 40, N = 100, K = 75, LDC = 112 };

/* A matrix with its panels and rows to multiply it with. */
typedef struct {
    pf_gemm_weights weights;
    float a[MAX_ROWS * K], c[MAX_ROWS * LDC], expected[MAX_ROWS * LDC];
    void *input, *scratch;
    pf_onednn *onednn;
} problem;

static void open_problem(problem *p, pf_format format)
{
    static float numbers[N * K];
    test_rng rng = { 7 };
    size_t bytes;
    test_fill(&rng, numbers, N * K);
    test_fill(&rng, p->a, MAX_ROWS * K);
    assert_int_equal(pf_gemm_plan_weights(format, N, K, &p->weights, &bytes), PF_OK);
    p->weights.panels = aligned_alloc(64, (bytes + 63) / 64 * 64);
    const pf_gemm_source source = { .data = numbers, .type = PF_TYPE_F32, .n_rows = N, .stride = K };
    pf_gemm_pack_weights(&p->weights, &source, 1, 0, p->weights.n_panels);
    p->input = aligned_alloc(64, (pf_gemm_input_bytes(MAX_ROWS, K) + 63) / 64 * 64);
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
    gemm->pack(p->input, p->a, K, m, K, 0, pf_gemm_tiles(gemm->tile_rows, m));
    for (int32_t id = 0; id < n_threads; id++) {
        int32_t begin, end;
        pf_team_share((pf_member){ .id = id, .n_threads = n_threads }, p->weights.n_panels, &begin, &end);
        if (begin < end) gemm->multiply(&p->weights, p->input, m, begin, end, c, LDC, mode, p->scratch);
    }
}

static const pf_kernel *definition(pf_format format)
{
    int32_t n;
    const pf_kernel *all = pf_kernels_all(&n);
    for (int32_t i = 0; i < n; i++)
        if (all[i].op == PF_OP_GEMM && all[i].format == format && all[i].act == pf_format_get(format)->act &&
            all[i].isa == PF_ISA_SCALAR)
            return &all[i];
    fail();
    return NULL;
}

static void attach(problem *p, int32_t n_threads)
{
    pf_error error;
    pf_team *team;
    assert_ok(pf_team_create(n_threads, NULL, 0, &team, &error), error);
    assert_ok(pf_onednn_open(team, &p->onednn, &error), error);
    assert_ok(pf_onednn_attach(p->onednn, team, &p->weights, &error), error);
    pf_team_destroy(team);
}

static void assert_near(const problem *p, int32_t m)
{
    for (int32_t i = 0; i < MAX_ROWS * LDC; i++) {
        const bool written = i / LDC < m && i % LDC < N;
        if (!written) assert_true(p->c[i] == 0.5f);
        if (written) assert_true(fabsf(p->c[i] - p->expected[i]) < 1e-4f);
    }
}

static const pf_format formats[] = { PF_FORMAT_F32, PF_FORMAT_BF16, PF_FORMAT_INT8 };

static void the_product_is_the_definition_s_within_rounding(void **state)
{
    (void)state;
    if (!pf_onednn_version()) skip();
    for (size_t f = 0; f < 3; f++)
        for (int32_t n_threads = 1; n_threads <= 3; n_threads++) {
            static problem p;
            open_problem(&p, formats[f]);
            attach(&p, n_threads);
            static const int32_t rows[] = { 1, 2, 7, 16, 17, 40 };
            for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
                for (pf_gemm_mode mode = PF_GEMM_STORE; mode <= PF_GEMM_ADD; mode++) {
                    multiply(&p, &definition(formats[f])->fn.gemm, 1, rows[i], mode, p.expected);
                    multiply(&p, &pf_onednn_kernel(formats[f])->fn.gemm, n_threads, rows[i], mode, p.c);
                    assert_near(&p, rows[i]);
                }
            close_problem(&p);
        }
}

static void one_thread_alone_may_multiply_what_several_made(void **state)
{
    (void)state;
    if (!pf_onednn_version()) skip();
    static problem p;
    open_problem(&p, PF_FORMAT_INT8);
    attach(&p, 3);
    multiply(&p, &definition(PF_FORMAT_INT8)->fn.gemm, 1, 5, PF_GEMM_ADD, p.expected);
    multiply(&p, &pf_onednn_kernel(PF_FORMAT_INT8)->fn.gemm, 1, 5, PF_GEMM_ADD, p.c);
    assert_near(&p, 5);
    close_problem(&p);
}

static void a_number_of_rows_that_was_given_up_is_made_again(void **state)
{
    (void)state;
    if (!pf_onednn_version()) skip();
    static problem p;
    open_problem(&p, PF_FORMAT_BF16);
    attach(&p, 1);
    const pf_gemm *gemm = &pf_onednn_kernel(PF_FORMAT_BF16)->fn.gemm;
    for (int32_t m = 1; m <= 2 * PF_ONEDNN_PRIMITIVES; m++) multiply(&p, gemm, 1, m, PF_GEMM_STORE, p.c);
    multiply(&p, &definition(PF_FORMAT_BF16)->fn.gemm, 1, 1, PF_GEMM_STORE, p.expected);
    multiply(&p, gemm, 1, 1, PF_GEMM_STORE, p.c);
    assert_near(&p, 1);
    close_problem(&p);
}

static void a_row_that_holds_no_finite_number_gives_nan_in_int8(void **state)
{
    (void)state;
    if (!pf_onednn_version()) skip();
    static problem p;
    open_problem(&p, PF_FORMAT_INT8);
    attach(&p, 1);
    p.a[K + 3] = INFINITY;
    multiply(&p, &pf_onednn_kernel(PF_FORMAT_INT8)->fn.gemm, 1, 3, PF_GEMM_STORE, p.c);
    assert_true(isnan(p.c[LDC]) && isnan(p.c[LDC + N - 1]));
    assert_true(isfinite(p.c[0]) && isfinite(p.c[2 * LDC]));
    close_problem(&p);
}

static void what_it_has_not_is_refused_by_name(void **state)
{
    (void)state;
    pf_error error = { 0 };
    assert_int_equal(pf_onednn_check(PF_FORMAT_INT4_G128, PF_ACT_INT8, &error), PF_UNSUPPORTED);
    assert_non_null(strstr(error.text, pf_onednn_version() ? "int4-g128" : "libdnnl-dev"));
    assert_int_equal(pf_onednn_check(PF_FORMAT_INT8, PF_ACT_BF16, &error), PF_UNSUPPORTED);
    if (pf_onednn_version()) assert_int_equal(pf_onednn_check(PF_FORMAT_INT8, PF_ACT_INT8, &error), PF_OK);
    if (!pf_onednn_version()) assert_null(pf_onednn_kernel(PF_FORMAT_F32));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_product_is_the_definition_s_within_rounding),
        cmocka_unit_test(one_thread_alone_may_multiply_what_several_made),
        cmocka_unit_test(a_number_of_rows_that_was_given_up_is_made_again),
        cmocka_unit_test(a_row_that_holds_no_finite_number_gives_nan_in_int8),
        cmocka_unit_test(what_it_has_not_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
