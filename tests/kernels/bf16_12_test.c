/* bf16 in twelve bits: every value comes back, and every product has the bits of plain bf16. */
#include "kernels/gemm/layout_bf16_12.h"
#include "tests/kernels/kernel_test.h"

/* What a matrix is filled with. */
typedef enum {
    TRAINED,   /* bells of several widths: most blocks fit a window */
    PRUNED,    /* the same, half of them zeros of either sign */
    OUTLIERS,  /* one column in nine has a value far from the others: patches */
    FAR,       /* any magnitude: raw blocks */
    ANY_BITS,  /* NaN with what they carry, infinities, denormals */
    HUGE_ONES, /* beyond the last window */
    N_KINDS
} kind;

static const char *const kind_names[N_KINDS] = { "trained", "pruned", "outliers", "far", "any bits", "huge ones" };

static uint16_t gaussian(test_rng *rng, float width)
{
    float sum = 0.0f;
    for (int i = 0; i < 6; i++) sum += test_float(rng);
    return pf_bf16_from_f32(sum * width);
}

static uint16_t value_of(test_rng *rng, kind k, size_t i)
{
    const uint16_t any = (uint16_t)test_bits(rng), weight = gaussian(rng, i / 977 % 2 ? 0.02f : 0.7f);
    switch (k) {
    case PRUNED: return any & 1 ? any & 0x8000 : weight;
    case OUTLIERS: return test_below(rng, 113) == 0 ? (uint16_t)(weight - (any % 2 ? 0x1000 : 0x2000)) : weight;
    case FAR: return (any & 0x7F80) == 0x7F80 ? 0x3F80 : any;
    case ANY_BITS: return any;
    case HUGE_ONES: return (uint16_t)(weight + 0x0F00);
    default: return weight;
    }
}

typedef struct {
    pf_gemm_weights weights;
    pf_guard panels;
    bool held;
} packed;

static packed pack_by(pf_gemm_pack_weights_fn *pack_weights, pf_format format, const pf_guard *source, int32_t n,
                      int32_t k)
{
    packed x;
    size_t bytes;
    assert_int_equal(pf_gemm_plan_weights(format, n, k, &x.weights, &bytes), PF_OK);
    x.panels = pf_guard_alloc(bytes, 64);
    x.weights.panels = x.panels.data;
    const pf_gemm_source rows = { .data = source->data, .type = PF_TYPE_BF16, .n_rows = n, .stride = (size_t)k };
    x.held = pack_weights(&x.weights, &rows, 1, 0, x.weights.n_panels);
    return x;
}

static pf_guard matrix_of(kind what, int32_t n, int32_t k)
{
    test_rng rng = { (uint64_t)what * 7919 + (uint64_t)n * 31 + (uint64_t)k };
    const size_t count = (size_t)n * (size_t)k;
    const pf_guard source = pf_guard_alloc(2 * count, 2);
    for (size_t i = 0; i < count; i++) ((uint16_t *)source.data)[i] = value_of(&rng, what, i);
    return source;
}

/* --- what is held --- */

/* How many blocks of each kind there are. */
typedef struct {
    size_t coded, zero, patched, raw;
} block_counts;

static block_counts count_blocks(const pf_gemm_weights *w)
{
    block_counts n = { 0 };
    for (int32_t p = 0; p < w->n_panels; p++)
        for (size_t b = 0; b < pf_b12_blocks(w->k); b++) {
            const uint8_t code = ((const uint8_t *)w->panels)[(size_t)p * w->panel_bytes + b];
            n.raw += code == PF_B12_RAW;
            n.patched += code != PF_B12_RAW && code & PF_B12_PATCHED;
            n.coded += !(code & PF_B12_PATCHED);
            n.zero += !(code & PF_B12_PATCHED) && code & PF_B12_ZERO;
        }
    return n;
}

static void expect_values(const packed *x, const pf_guard *source, const char *what)
{
    const int32_t n = x->weights.n, k = x->weights.k;
    float *row = malloc((size_t)k * sizeof *row);
    assert_non_null(row);
    for (int32_t i = 0; i < n; i++) {
        pf_gemm_unpack_row(&x->weights, i, row);
        for (int32_t j = 0; j < k; j++) {
            const uint16_t value = ((const uint16_t *)source->data)[(size_t)i * (size_t)k + (size_t)j];
            if (bits_of(row[j]) >> 16 != value)
                fail_msg("%s, %d x %d: value %d of row %d is %04x, expected %04x", what, n, k, j, i,
                         bits_of(row[j]) >> 16, value);
        }
    }
    free(row);
}

/* Small matrices have room for raw blocks alone; where one is wide, only what fits is asked. */
static void every_bf16_there_is_comes_back(void **state)
{
    (void)state;
    static const int32_t shapes[][2] = { { 1, 1 }, { 32, 16 }, { 33, 17 }, { 70, 64 }, { 40, 300 }, { 32, 2048 } };
    block_counts seen = { 0 };
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (kind what = 0; what < N_KINDS; what++) {
            const int32_t n = shapes[s][0], k = shapes[s][1];
            pf_guard source = matrix_of(what, n, k);
            packed x = pack_by(pf_gemm_pack_weights_ref, PF_FORMAT_BF16_12, &source, n, k);
            if (x.held != (k <= 64 || (what != FAR && what != ANY_BITS && what != HUGE_ONES)))
                fail_msg("%s, %d x %d: held %d", kind_names[what], n, k, x.held);
            if (x.held) {
                expect_values(&x, &source, kind_names[what]);
                const block_counts found = count_blocks(&x.weights);
                seen.coded += found.coded;
                seen.zero += found.zero;
                seen.patched += found.patched;
                seen.raw += found.raw;
            }
            pf_guard_free(&x.panels);
            pf_guard_free(&source);
        }
    assert_true(seen.coded > 0 && seen.zero > 0 && seen.patched > 0 && seen.raw > 0);
}

static void a_block_takes_as_many_bytes_as_its_values_need(void **state)
{
    (void)state;
    enum { N = 32, K = 16 };
    uint16_t values[N * K];
    const pf_guard source = { .data = values };
    const struct {
        uint16_t rest, odd; /* how all but n_odd values, and these, are */
        int32_t n_odd;
        bool patched, raw;
    } cases[] = {
        { 0x3F80, 0x3F80, 0, false, false },   { 0x3F80, 0x3800, 9, false, false }, /* the window's first pair */
        { 0x3F80, 0x37FF, 1, true, false },    { 0x3F80, 0x37FF, 16, true, false }, /* and the one below */
        { 0x3F80, 0x37FF, 17, false, true },   { 0x3F80, 0x8000, 400, false, false },
        { 0x3F80, 0x80FF, 400, false, false }, { 0x0000, 0x8001, 3, false, false },
        { 0x3F80, 0x7FC1, 5, true, false },    { 0x46FF, 0xC580, 40, false, false }, /* the last window */
        { 0x4600, 0x4700, 1, true, false },    { 0x4700, 0x4700, 0, false, true },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int32_t j = 0; j < N * K; j++) values[j] = j * 5 % (N * K) < cases[i].n_odd ? cases[i].odd : cases[i].rest;
        packed x = pack_by(pf_gemm_pack_weights_ref, PF_FORMAT_BF16_12, &source, N, K);
        assert_true(x.held);
        expect_values(&x, &source, "a block");
        const block_counts n = count_blocks(&x.weights);
        if (n.patched != cases[i].patched || n.raw != cases[i].raw) fail_msg("case %zu: %zu %zu", i, n.patched, n.raw);
        assert_int_equal(pf_b12_reserved_before(x.panels.data, 1), cases[i].raw ? 256 : cases[i].patched ? 64 : 0);
        pf_guard_free(&x.panels);
    }
}

static void every_instruction_set_packs_the_same_panels(void **state)
{
    (void)state;
    int32_t n_kernels;
    const pf_kernel *all = pf_kernels_all(&n_kernels);
    for (kind what = 0; what < N_KINDS; what++) {
        pf_guard source = matrix_of(what, 45, 330);
        packed expected = pack_by(pf_gemm_pack_weights_ref, PF_FORMAT_BF16_12, &source, 45, 330);
        for (int32_t i = 0; i < n_kernels; i++) {
            if (all[i].op != PF_OP_PACK_WEIGHTS || all[i].isa > pf_cpu_best_isa()) continue;
            packed x = pack_by(all[i].fn.pack_weights, PF_FORMAT_BF16_12, &source, 45, 330);
            assert_int_equal(x.held, expected.held);
            if (x.held) assert_memory_equal(x.panels.data, expected.panels.data, x.panels.bytes);
            pf_guard_free(&x.panels);
        }
        pf_guard_free(&expected.panels);
        pf_guard_free(&source);
    }
}

/* --- what is multiplied --- */

static const pf_kernel *plain_kernel_of(const pf_kernel *kernel)
{
    int32_t n;
    const pf_kernel *all = pf_kernels_all(&n);
    for (int32_t i = 0; i < n; i++)
        if (all[i].op == PF_OP_GEMM && all[i].format == PF_FORMAT_BF16 && all[i].isa == kernel->isa) return &all[i];
    fail_msg("%s has no plain product beside it", kernel->name);
    return NULL;
}

/* Columns of all panels but the last, and of the last, in one product or panel by panel; c starts at `filler`. */
static void multiply(const pf_kernel *kernel, const pf_gemm_weights *w, const float *a, int32_t m, pf_gemm_mode mode,
                     bool by_panels, float *c)
{
    const pf_gemm *gemm = &kernel->fn.gemm;
    pf_guard input = pf_guard_alloc(pf_gemm_input_bytes(m, w->k), 64);
    pf_guard scratch = pf_guard_alloc(pf_gemm_scratch_bytes(m), 64);
    for (size_t i = 0; i < (size_t)m * (size_t)(w->n + 3); i++) c[i] = 0.25f;
    gemm->pack(input.data, a, (size_t)w->k, m, w->k, 0, pf_gemm_tiles(gemm->tile_rows, m));
    const int32_t piece = by_panels ? 1 : w->n_panels;
    for (int32_t p = 0; p < w->n_panels; p += piece)
        gemm->multiply(w, input.data, m, p, p + piece, c, (size_t)w->n + 3, mode, scratch.data);
    pf_guard_free(&input);
    pf_guard_free(&scratch);
}

static void compare(const pf_kernel *kernel, kind what, int32_t m, int32_t n, int32_t k)
{
    const pf_kernel *plain = plain_kernel_of(kernel);
    assert_string_equal(kernel->arithmetic, plain->arithmetic);
    pf_guard source = matrix_of(what, n, k);
    packed twelve = pack_by(pf_gemm_pack_weights_ref, PF_FORMAT_BF16_12, &source, n, k);
    packed sixteen = pack_by(pf_gemm_pack_weights_ref, PF_FORMAT_BF16, &source, n, k);
    test_rng rng = { 17 };
    const size_t n_a = (size_t)m * (size_t)k, n_c = (size_t)m * (size_t)(n + 3);
    float *a = malloc(n_a * sizeof *a), *found = malloc(n_c * sizeof *found), *expected = malloc(n_c * sizeof *found);
    assert_true(a && found && expected);
    test_fill(&rng, a, n_a);
    for (int add = 0; add < 2 && twelve.held; add++) {
        const pf_gemm_mode mode = add ? PF_GEMM_ADD : PF_GEMM_STORE;
        multiply(plain, &sixteen.weights, a, m, mode, false, expected);
        multiply(kernel, &twelve.weights, a, m, mode, add, found);
        if (memcmp(found, expected, n_c * sizeof *found) != 0)
            fail_msg("%s, %s, m %d n %d k %d: other bits than %s", kernel->name, kind_names[what], m, n, k,
                     plain->name);
    }
    free(a);
    free(found);
    free(expected);
    pf_guard_free(&source);
    pf_guard_free(&twelve.panels);
    pf_guard_free(&sixteen.panels);
}

static void check_bits(const pf_kernel *kernel, const pf_kernel *definition)
{
    static const int32_t ns[] = { 5, 32, 70 }, ks[] = { 1, 2, 15, 16, 17, 33, 64, 530 };
    (void)definition;
    if (kernel->format != PF_FORMAT_BF16_12) return;
    for (int32_t m = 1; m <= 30; m += m < 15 ? 1 : 5)
        for (size_t k = 0; k < sizeof ks / sizeof *ks; k++)
            compare(kernel, (kind)((size_t)m + k) % N_KINDS, m, ns[(size_t)m % 3], ks[k]);
    for (kind what = 0; what < N_KINDS; what++)
        for (int32_t m = 1; m <= 40; m = 3 * m + 2) compare(kernel, what, m, 45, 64);
    compare(kernel, OUTLIERS, 1, 70, 2049);
    compare(kernel, OUTLIERS, 9, 130, 1100);
    compare(kernel, PRUNED, 33, 40, 1100); /* more than one piece */
}

static void products_have_the_bits_of_plain_bf16(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_GEMM, check_bits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_bf16_there_is_comes_back),
        cmocka_unit_test(a_block_takes_as_many_bytes_as_its_values_need),
        cmocka_unit_test(every_instruction_set_packs_the_same_panels),
        cmocka_unit_test(products_have_the_bits_of_plain_bf16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
