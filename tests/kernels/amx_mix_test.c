/*
 * Where there is no silicon: which instructions a kernel runs, counted by the emulator, and what share of the multiplier's
 * cycles they allow. Cycles of one instruction after another: Intel's Optimization Reference Manual (248966), the table
 * of the chapter on AMX; of a move, 16 rows of which are 8 cycles of loads and 16 of stores, by rows.
 */
#include "tests/kernels/kernel_test.h"
#include "tests/support/amx_trap.h"

enum { MULTIPLY_CYCLES = 16, ROWS_LOADED_A_CYCLE = 2, CONFIGURE_CYCLES = 204, RELEASE_CYCLES = 13 };
enum { N = 128, K = 2048 };

/* The AMX row of a format and its activations; NULL: there is none. */
static const pf_kernel *amx_kernel(pf_format format, pf_act act)
{
    int32_t n;
    const pf_kernel *all = pf_kernels_all(&n);
    for (int32_t i = 0; i < n; i++)
        if (all[i].op == PF_OP_GEMM && all[i].isa == PF_ISA_AMX && all[i].format == format && all[i].act == act)
            return &all[i];
    return NULL;
}

/* What one product runs; the operands are zeros, which changes no instruction. */
static amx_counts count(const pf_kernel *kernel, int32_t m)
{
    pf_gemm_weights w;
    size_t bytes;
    assert_int_equal(pf_gemm_plan_weights(kernel->format, N, K, &w, &bytes), PF_OK);
    pf_guard panels = pf_guard_alloc(bytes, 64), input = pf_guard_alloc(pf_gemm_input_bytes(m, K), 64);
    pf_guard a = pf_guard_alloc((size_t)m * K * sizeof(float), 64),
             c = pf_guard_alloc((size_t)m * N * sizeof(float), 64);
    pf_guard scratch = pf_guard_alloc(pf_gemm_scratch_bytes(m), 64);
    w.panels = panels.data;
    const pf_gemm *gemm = &kernel->fn.gemm;
    gemm->pack(input.data, a.data, K, m, K, 0, pf_gemm_tiles(gemm->tile_rows, m));
    amx_trap_reset();
    gemm->multiply(&w, input.data, m, 0, w.n_panels, c.data, N, PF_GEMM_STORE, scratch.data);
    const amx_counts n = amx_trap_counts();
    pf_guard_free(&panels);
    pf_guard_free(&input);
    pf_guard_free(&a);
    pf_guard_free(&c);
    pf_guard_free(&scratch);
    return n;
}

/* Loads and stores taken one after another, beside the multiplies; configurations before both. Of tile instructions alone:
 * unpacking int4 is vector instructions, not counted here. */
static double multiplier_share(const amx_counts *n)
{
    const uint64_t multiplies = n->multiplies * MULTIPLY_CYCLES;
    const uint64_t moves = n->loaded_rows / ROWS_LOADED_A_CYCLE + n->stored_rows;
    const uint64_t around = n->configures * CONFIGURE_CYCLES + n->releases * RELEASE_CYCLES;
    return (double)multiplies / (double)((multiplies > moves ? multiplies : moves) + around);
}

/* Tiles of M, of N, and of K: the least there can be, when no tile is higher than 16 rows. */
static uint64_t least_multiplies(int32_t m, int32_t step_values)
{
    return (uint64_t)((m + 15) / 16) * (N / 16) * (K / (uint64_t)step_values);
}

static const struct {
    pf_format format;
    pf_act act;
    int32_t step_values;
    uint64_t most_rows; /* loaded for a multiply, of 32 rows */
    double least_share;
} tasks[] = {
    { PF_FORMAT_BF16, PF_ACT_BF16, 32, 16, 0.9 },         { PF_FORMAT_INT8, PF_ACT_INT8, 64, 16, 0.9 },
    { PF_FORMAT_INT4_CHANNEL, PF_ACT_INT8, 64, 16, 0.9 }, { PF_FORMAT_INT4_G128, PF_ACT_INT8, 64, 16, 0.9 },
    { PF_FORMAT_INT4_G32, PF_ACT_INT8, 64, 16, 0.9 },     { PF_FORMAT_INT4_ASYM_G32, PF_ACT_INT8, 64, 16, 0.9 },
};

static void from_32_rows_on_hardly_more_than_a_tile_is_loaded_for_each_multiply(void **state)
{
    (void)state;
    if (!amx_trap_works()) skip();
    static const int32_t ms[] = { 32, 33, 48, 100, 512 };
    for (size_t t = 0; t < sizeof tasks / sizeof *tasks; t++) {
        const pf_kernel *kernel = amx_kernel(tasks[t].format, tasks[t].act);
        assert_non_null(kernel);
        for (size_t i = 0; i < sizeof ms / sizeof *ms; i++) {
            const amx_counts n = count(kernel, ms[i]);
            const double share = multiplier_share(&n);
            print_message("%-28s m %3d: %6llu multiplies, %6llu loads, %5llu stores, %llu configurations: "
                          "multiplier busy at most %.1f %%\n",
                          kernel->name, ms[i], (unsigned long long)n.multiplies, (unsigned long long)n.loads,
                          (unsigned long long)n.stores, (unsigned long long)n.configures, 100 * share);
            /* and of several blocks of rows the sums of every fourth step, of many those of every thirteenth or so */
            const uint64_t sums = ms[i] > 224 ? 1 : ms[i] > 32 ? 4 : 0;
            assert_true(n.loaded_rows <= (tasks[t].most_rows + sums) * n.multiplies);
            assert_true(share > tasks[t].least_share);
            if (ms[i] % kernel->fn.gemm.tile_rows == 0)
                assert_int_equal(n.multiplies, least_multiplies(ms[i], tasks[t].step_values));
        }
    }
}

static void up_to_16_rows_four_multiplies_share_one_load_of_activations(void **state)
{
    (void)state;
    if (!amx_trap_works()) skip();
    const pf_kernel *kernel = amx_kernel(PF_FORMAT_BF16, PF_ACT_BF16);
    for (int32_t m = 1; m <= 16; m += 5) {
        const amx_counts n = count(kernel, m);
        assert_int_equal(n.multiplies, least_multiplies(m, 32));
        assert_int_equal(4 * n.loads, 5 * n.multiplies);
        assert_int_equal(n.configures, 1);
        assert_int_equal(n.releases, 1);
    }
}

/* What attention of n_rows at the end of `length` positions runs: 4 heads of one key head, 64 elements, pages of 16. */
static amx_counts count_attention(const pf_kernel *kernel, int32_t n_rows, int32_t length)
{
    enum { HEADS = 4, DIM = 64, PAGE_TOKENS = 16, MAX_PAGES = 64 };
    pf_guard page = pf_guard_alloc(PAGE_TOKENS * DIM * sizeof(uint16_t), 64);
    pf_guard rows = pf_guard_alloc((size_t)n_rows * HEADS * DIM * sizeof(float), 64),
             out = pf_guard_alloc(rows.bytes, 64);
    pf_guard scratch = pf_guard_alloc(pf_attn_scratch_bytes(DIM), 64);
    void *pages[MAX_PAGES];
    for (int i = 0; i < MAX_PAGES; i++) pages[i] = page.data; /* zeros, all of them */
    assert_true(length <= MAX_PAGES * PAGE_TOKENS);
    const pf_attn_args args = { .pages = { pages, pages, .page_tokens = PAGE_TOKENS, .n_kv_heads = 1, .head_dim = DIM },
                                .q = rows.data,
                                .q_stride = HEADS * DIM,
                                .out = out.data,
                                .out_stride = HEADS * DIM,
                                .n_rows = n_rows,
                                .n_heads = HEADS,
                                .position = length - n_rows,
                                .scale = 0.125f };
    amx_trap_reset();
    kernel->fn.attn(&args, 0, n_rows, scratch.data);
    const amx_counts n = amx_trap_counts();
    pf_guard_free(&page);
    pf_guard_free(&rows);
    pf_guard_free(&out);
    pf_guard_free(&scratch);
    return n;
}

/* For 16 lines and a block of 64 keys: 8 multiplies a product, each with a load of its own, and 2 of the lines' side. */
static void attention_loads_a_quarter_more_than_it_multiplies(void **state)
{
    (void)state;
    if (!amx_trap_works()) skip();
    int32_t n_kernels;
    const pf_kernel *all = pf_kernels_all(&n_kernels), *kernel = NULL;
    for (int32_t i = 0; i < n_kernels; i++)
        if (all[i].op == PF_OP_ATTN && all[i].isa == PF_ISA_AMX) kernel = &all[i];
    assert_non_null(kernel);
    static const int32_t spans[][2] = { { 1, 1024 }, { 8, 1024 }, { 512, 512 }, { 512, 1024 } };
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
        const amx_counts n = count_attention(kernel, spans[i][0], spans[i][1]);
        print_message("%-28s %d rows of %d: %llu multiplies, %llu loads, %llu stores, %llu configurations\n",
                      kernel->name, spans[i][0], spans[i][1], (unsigned long long)n.multiplies,
                      (unsigned long long)n.loads, (unsigned long long)n.stores, (unsigned long long)n.configures);
        assert_int_equal(4 * n.loads, 5 * n.multiplies);
        assert_int_equal(2 * n.stores, n.multiplies);
        assert_int_equal(n.configures, 1);
        assert_int_equal(n.releases, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(from_32_rows_on_hardly_more_than_a_tile_is_loaded_for_each_multiply),
        cmocka_unit_test(up_to_16_rows_four_multiplies_share_one_load_of_activations),
        cmocka_unit_test(attention_loads_a_quarter_more_than_it_multiplies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
