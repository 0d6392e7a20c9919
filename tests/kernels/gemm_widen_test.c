/* Integer weights as bf16 panels: every instruction set's against what the rows of the matrix stand for. */
#include "kernels/implementations.h"
#include "tests/kernels/kernel_test.h"

enum { N = TEST_INTEGERS_N, MAX_K = 700 };

typedef struct {
    pf_gemm_widen_fn *widen;
    pf_isa isa;
    const char *name;
} widening;

static const widening widenings[] = {
    { pf_gemm_widen_avx2, PF_ISA_AVX2, "avx2" },
    { pf_gemm_widen_avx512, PF_ISA_AVX512, "avx512" },
    { pf_gemm_widen_avx512bf16, PF_ISA_AVX512BF16, "avx512bf16" },
};

/* Run check for each of them, and for each integer format. */
typedef void check_widening_fn(const widening *by, pf_format format);

static void for_each_widening(check_widening_fn *check)
{
    for (size_t i = 0; i < sizeof widenings / sizeof *widenings; i++)
        for (pf_format format = PF_FORMAT_F32; format < PF_N_FORMATS; format++)
            if (widenings[i].isa <= pf_cpu_best_isa() && pf_format_get(format)->bits < 16) check(&widenings[i], format);
}

typedef struct {
    pf_gemm_weights weights;
    pf_guard panels;
} packed;

static packed pack(pf_format format, int32_t k, const pf_gemm_source *source)
{
    packed x;
    size_t bytes;
    assert_int_equal(pf_gemm_plan_weights(format, N, k, &x.weights, &bytes), PF_OK);
    x.panels = pf_guard_alloc(bytes, 64);
    x.weights.panels = x.panels.data;
    pf_gemm_pack_weights_ref(&x.weights, source, 1, 0, x.weights.n_panels);
    return x;
}

static bool same_bf16(uint16_t a, uint16_t b)
{
    const bool nan_a = (a & 0x7FFF) > 0x7F80, nan_b = (b & 0x7FFF) > 0x7F80;
    return nan_a || nan_b ? nan_a == nan_b : a == b;
}

/* Pairs [pair, pair + n_pairs) of every panel. */
static void compare(const widening *by, const pf_gemm_weights *w, size_t pair, size_t n_pairs)
{
    const pf_gemm_layout layout = pf_gemm_layout_of(w->format, w->k);
    float row[MAX_K];
    pf_guard out = pf_guard_alloc((n_pairs + 1) / 2 * 2 * 128, 64);
    for (int32_t n = 0; n < N; n++) {
        if (n % PF_GEMM_PANEL == 0) by->widen(w, &layout, n / PF_GEMM_PANEL, pair, n_pairs, out.data);
        pf_gemm_unpack_row(w, n, row);
        for (size_t k = 2 * pair; k < 2 * (pair + n_pairs) && k < (size_t)w->k; k++) {
            const size_t at = ((k / 2 - pair) * PF_GEMM_PANEL + (size_t)n % PF_GEMM_PANEL) * 2 + k % 2;
            const uint16_t got = ((const uint16_t *)out.data)[at], expected = pf_bf16_from_f32(row[k]);
            if (!same_bf16(got, expected))
                fail_msg("%s of %s, k %d: value %zu of column %d is %04x, expected %04x", by->name,
                         pf_format_get(w->format)->name, w->k, k, n, got, expected);
        }
    }
    pf_guard_free(&out);
}

static void check_pieces(const widening *by, pf_format format)
{
    static const int32_t ks[] = { 1, 2, 3, 6, 31, 32, 33, 64, 127, 130, 514, 700 };
    float source[N * MAX_K];
    test_rng rng = { 23 };
    test_fill(&rng, source, N * MAX_K);
    for (size_t i = 0; i < sizeof ks / sizeof *ks; i++) {
        const pf_gemm_source rows = { .data = source, .type = PF_TYPE_F32, .n_rows = N, .stride = (size_t)ks[i] };
        packed x = pack(format, ks[i], &rows);
        const size_t pairs = ((size_t)ks[i] + 1) / 2;
        const size_t most = pairs < PF_GEMM_UNPACKED_BYTES / 128 ? pairs : PF_GEMM_UNPACKED_BYTES / 128;
        compare(by, &x.weights, 0, most);
        for (size_t pair = 0; pair < pairs; pair += 34) /* across the borders of groups */
            compare(by, &x.weights, pair, pairs - pair < 34 ? pairs - pair : 34);
        pf_guard_free(&x.panels);
    }
}

static void any_piece_of_a_panel_is_the_weights_rounded_to_bf16(void **state)
{
    (void)state;
    for_each_widening(check_pieces);
}

static void check_scales(const widening *by, pf_format format)
{
    static test_integers integers;
    const pf_gemm_source rows = test_odd_integers(format, &integers);
    packed x = pack(format, TEST_INTEGERS_K, &rows);
    compare(by, &x.weights, 0, TEST_INTEGERS_K / 2);
    pf_guard_free(&x.panels);
}

static void ties_go_to_even_and_no_number_stays_none(void **state)
{
    (void)state;
    for_each_widening(check_scales);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_piece_of_a_panel_is_the_weights_rounded_to_bf16),
        cmocka_unit_test(ties_go_to_even_and_no_number_stays_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
