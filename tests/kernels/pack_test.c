#include "base/checked.h"
#include "kernels/gemm/layout_int.h"
#include "tests/kernels/kernel_test.h"

/* Sources in memory as a file may have it: any type, at an odd address, rows further apart than their length. */
typedef struct {
    pf_gemm_source source;
    unsigned char *memory;
    int32_t k;
} tensor;

static tensor tensor_of(pf_type type, int32_t n_rows, int32_t k, const float *values)
{
    const size_t size = pf_type_bytes(type), stride = (size_t)k + 2;
    tensor t = { .k = k, .memory = malloc((size_t)n_rows * stride * size + 1) };
    assert_non_null(t.memory);
    memset(t.memory, 0x55, (size_t)n_rows * stride * size + 1);
    for (int32_t n = 0; n < n_rows; n++)
        for (int32_t i = 0; i < k; i++) {
            const float f = values[n * k + i];
            const uint16_t h = type == PF_TYPE_BF16 ? pf_bf16_from_f32(f) : pf_f16_from_f32(f);
            memcpy(t.memory + 1 + ((size_t)n * stride + (size_t)i) * size, type == PF_TYPE_F32 ? (const void *)&f : &h,
                   size);
        }
    t.source = (pf_gemm_source){ .data = t.memory + 1, .type = type, .n_rows = n_rows, .stride = stride };
    return t;
}

/* What the tensor holds, after its rounding. */
static float tensor_at(const tensor *t, int32_t n, int32_t i)
{
    const unsigned char *at =
        t->memory + 1 + ((size_t)n * t->source.stride + (size_t)i) * pf_type_bytes(t->source.type);
    float f;
    uint16_t h;
    memcpy(&h, at, sizeof h);
    if (t->source.type != PF_TYPE_F32) return t->source.type == PF_TYPE_BF16 ? pf_bf16_to_f32(h) : pf_f16_to_f32(h);
    memcpy(&f, at, sizeof f);
    return f;
}

typedef struct {
    pf_gemm_weights weights;
    pf_guard panels;
} packed;

static packed pack_by(pf_gemm_pack_weights_fn *pack_weights, pf_format format, int32_t n, int32_t k,
                      const pf_gemm_source *sources, int32_t n_sources)
{
    packed x;
    size_t bytes;
    assert_int_equal(pf_gemm_plan_weights(format, n, k, &x.weights, &bytes), PF_OK);
    x.panels = pf_guard_alloc(bytes, 64);
    memset(x.panels.data, 0xFF, bytes);
    x.weights.panels = x.panels.data;
    const int32_t last = x.weights.n_panels - 1; /* as two members would */
    pack_weights(&x.weights, sources, n_sources, last, last + 1);
    pack_weights(&x.weights, sources, n_sources, 0, last);
    return x;
}

static packed pack(pf_format format, int32_t n, int32_t k, const pf_gemm_source *sources, int32_t n_sources)
{
    return pack_by(pf_gemm_pack_weights_ref, format, n, k, sources, n_sources);
}

/* --- the contract's words, in double or one value at a time --- */

typedef struct {
    float scale, factor; /* of the column; of groups what a value is multiplied with */
    int32_t zero, multiplier;
} rounding;

static float made_finite(float f)
{
    return isnan(f) ? 0.0f : isinf(f) ? copysignf(0x1.fffffep127f, f) : f;
}

typedef struct {
    float low, high, largest; /* of the values and 0; largest: by magnitude, of equals the negative one */
} range;

static range range_of(const float *w, int32_t n)
{
    range r = { 0 };
    for (int32_t i = 0; i < n; i++) {
        const float f = made_finite(w[i]);
        r.low = fminf(r.low, f);
        r.high = fmaxf(r.high, f);
    }
    r.largest = r.high > -r.low ? r.high : r.low;
    return r;
}

static int32_t rounded(float f, float low, float high)
{
    return (int32_t)rintf(fminf(high, fmaxf(low, f)));
}

static rounding rounding_of_column(pf_format format, range r)
{
    const pf_format_info *info = pf_format_get(format);
    float s = info->has_zeros ? r.high / 15.0f - r.low / 15.0f : r.largest / -8.0f;
    if (info->bits == 8) s = fabsf(r.largest) / 127.0f;
    if (s == 0.0f) s = 0.0f; /* not -0 */
    const int32_t zero = info->bits == 8    ? 128
                         : !info->has_zeros ? 8
                         : s == 0.0f        ? 0
                                            : rounded(-r.low / s, 0.0f, 15.0f);
    return (rounding){ .scale = s, .zero = zero, .multiplier = 1 };
}

static rounding rounding_of_group(pf_format format, range column, range r)
{
    const bool has_zeros = pf_format_get(format)->has_zeros;
    const float s = fabsf(column.largest) < 0x1p-100f ? 0.0f : fabsf(column.largest) / 120.0f;
    if (s == 0.0f) return (rounding){ .zero = has_zeros ? 0 : 8 };
    int32_t m = rounded(fabsf(r.largest) / s / 8.0f, 1.0f, 15.0f), zero = r.largest > 0.0f ? 7 : 8;
    if (has_zeros) {
        m = rounded((r.high / s - r.low / s) / 15.0f, 1.0f, 15.0f);
        zero = rounded(-r.low / ((float)m * s), 0.0f, 15.0f);
        while (m * zero > 127 || m * (15 - zero) > 127) m--;
    }
    return (rounding){ .scale = s, .factor = 1.0f / ((float)m * s), .zero = zero, .multiplier = m };
}

static int32_t stored_of(pf_format format, rounding r, float w)
{
    if (r.scale == 0.0f) return r.zero;
    const float f = made_finite(w), q = rintf(r.factor != 0.0f ? f * r.factor : f / r.scale) + (float)r.zero;
    return (int32_t)(pf_format_get(format)->bits == 8 ? fminf(255.0f, fmaxf(1.0f, q)) : fminf(15.0f, fmaxf(0.0f, q)));
}

/* Of group g of column n every stored value, what they are rounded by, and the fillers too. */
static void expect_group(const packed *x, const float *values, int32_t n, int32_t g)
{
    const pf_gemm_weights *w = &x->weights;
    const pf_gemm_layout l = pf_gemm_layout_of(w->format, w->k);
    const uint8_t *panel = (const uint8_t *)w->panels + (size_t)(n / PF_GEMM_PANEL) * w->panel_bytes;
    const int32_t j = n % PF_GEMM_PANEL, begin = g * l.group, left = w->k - begin,
                  len = left < l.group ? left : l.group;
    const range column = range_of(values, w->k);
    const rounding r = l.in_groups ? rounding_of_group(w->format, column, range_of(values + begin, len))
                                   : rounding_of_column(w->format, column);
    const pf_gemm_head head = pf_gemm_head_at(&l, panel, g, j);
    assert_int_equal(bits_of(pf_gemm_scale(panel, j)), bits_of(r.scale));
    assert_int_equal(head.zero, r.zero);
    assert_int_equal(head.multiplier, r.multiplier);
    for (int32_t k = begin; k < begin + l.group; k++)
        assert_int_equal(pf_gemm_stored(&l, panel, j, (size_t)k),
                         k < begin + len ? stored_of(w->format, r, values[k]) : r.zero);
}

static void expect_quantised(const packed *x, const tensor *t)
{
    const pf_gemm_weights *w = &x->weights;
    const int32_t groups = pf_gemm_groups(w->format, w->k);
    float values[4200];
    for (int32_t n = 0; n < w->n_panels * PF_GEMM_PANEL; n++) {
        for (int32_t k = 0; k < w->k; k++) values[k] = n < w->n ? tensor_at(t, n, k) : 0.0f;
        for (int32_t g = 0; g < groups; g++) expect_group(x, values, n, g);
    }
}

enum { N_KINDS = 6 };

static void fill_weights(test_rng *rng, float *values, size_t n, int kind)
{
    for (size_t i = 0; i < n; i++)
        values[i] = kind == 0   ? test_float(rng)
                    : kind == 1 ? test_extreme(rng)
                    : kind == 2 ? (float)(test_below(rng, 33) - 16) * 0.5f /* many ties, and equals of either sign */
                    : kind == 3 ? test_float(rng) * 0x1p-136f
                    : kind == 4
                        ? fabsf(test_float(rng)) * 1e5f + 1e5f                                      /* of one sign */
                        : ldexpf(test_float(rng), -(int)(i / 16 % 7)) + (float)(i / 48 % 5) * 0.1f; /* groups apart */
}

static void integers_are_what_the_contract_says(void **state)
{
    (void)state;
    static const int32_t ks[] = { 1, 30, 33, 130, 601 };
    test_rng rng = { 21 };
    for (pf_format format = 0; format < PF_N_FORMATS; format++) {
        if (pf_format_get(format)->bits >= 16) continue;
        for (size_t s = 0; s < sizeof ks / sizeof *ks; s++)
            for (int kind = 0; kind < N_KINDS; kind++) {
                const int32_t n = 37, k = ks[s];
                float *values = malloc((size_t)(n * k) * sizeof *values);
                assert_non_null(values);
                fill_weights(&rng, values, (size_t)(n * k), kind);
                for (int32_t i = 0; i < k; i++) values[3 * k + i] = 0.0f; /* a row of zeros */
                for (pf_type type = 0; type < PF_N_TYPES; type++) {
                    tensor t = tensor_of(type, n, k, values);
                    packed x = pack(format, n, k, &t.source, 1);
                    expect_quantised(&x, &t);
                    pf_guard_free(&x.panels);
                    free(t.memory);
                }
                free(values);
            }
    }
}

static void a_quantised_file_gives_the_panels_of_its_original(void **state)
{
    (void)state;
    static const int32_t ks[] = { 1, 31, 129, 300 };
    test_rng rng = { 22 };
    for (pf_format format = 0; format < PF_N_FORMATS; format++) {
        const pf_format_info *info = pf_format_get(format);
        if (info->bits >= 16) continue;
        for (size_t s = 0; s < sizeof ks / sizeof *ks; s++) {
            enum { N = 41 };
            const int32_t k = ks[s], groups = pf_gemm_groups(format, k);
            const size_t stride = pf_round_up((size_t)k, 2) + 4, row_bytes = stride * (size_t)info->bits / 8;
            float *values = malloc(N * (size_t)k * sizeof *values);
            unsigned char *q = malloc(N * row_bytes + 1), *scales = malloc(N * sizeof(float) + 1);
            uint8_t *heads = malloc(N * (size_t)groups);
            assert_true(values && q && scales && heads);
            fill_weights(&rng, values, N * (size_t)k, N_KINDS - 1);
            memset(values, 0, (size_t)k * sizeof *values);
            for (int32_t n = 0; n < N; n++)
                pf_gemm_quantise_row(format, values + n * k, PF_TYPE_F32, k, q + 1 + (size_t)n * row_bytes,
                                     scales + 1 + (size_t)n * sizeof(float),
                                     pf_gemm_has_heads(format) ? heads + n * groups : NULL);
            if (pf_gemm_has_heads(format))
                assert_int_equal(pf_gemm_find_bad_head(format, heads, N * (size_t)groups), N * groups);
            const pf_gemm_source numbers = { .data = values, .n_rows = N, .stride = (size_t)k };
            const pf_gemm_source integers = { .data = q + 1,
                                              .n_rows = N,
                                              .stride = stride,
                                              .scales = scales + 1,
                                              .heads = pf_gemm_has_heads(format) ? heads : NULL };
            const packed a = pack(format, N, k, &numbers, 1), b = pack(format, N, k, &integers, 1);
            assert_memory_equal(a.panels.data, b.panels.data, a.panels.bytes);
            packed x[2] = { a, b };
            pf_guard_free(&x[0].panels);
            pf_guard_free(&x[1].panels);
            free(values);
            free(q);
            free(scales);
            free(heads);
        }
    }
}

static void expect_same_panels(const pf_kernel *kernel, pf_format format, int32_t n, int32_t k,
                               const pf_gemm_source *source)
{
    packed expected = pack(format, n, k, source, 1), got = pack_by(kernel->fn.pack_weights, format, n, k, source, 1);
    if (memcmp(expected.panels.data, got.panels.data, got.panels.bytes) != 0)
        fail_msg("%s: %s of %s, k = %d", kernel->name, pf_format_get(format)->name, pf_type_name(source->type), k);
    pf_guard_free(&expected.panels);
    pf_guard_free(&got.panels);
}

static void check_same_panels(const pf_kernel *kernel, const pf_kernel *definition)
{
    if (kernel == definition) return;
    enum { N = 37, MAX_K = 650 };
    static const int32_t ks[] = { 1, 2, 29, 64, 131, MAX_K };
    static float values[N * MAX_K];
    test_rng rng = { 24 };
    for (size_t s = 0; s < sizeof ks / sizeof *ks; s++)
        for (int kind = 0; kind < N_KINDS; kind++) {
            fill_weights(&rng, values, (size_t)(N * ks[s]), kind);
            for (pf_type type = 0; type < PF_N_TYPES; type++) {
                tensor t = tensor_of(type, N, ks[s], values);
                for (pf_format format = 0; format < PF_N_FORMATS; format++)
                    expect_same_panels(kernel, format, N, ks[s], &t.source);
                free(t.memory);
            }
        }
}

static void every_instruction_set_packs_the_same_panels(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_PACK_WEIGHTS, check_same_panels);
}

/* Half a step, or a whole one at the end that has a step fewer. There a group that wants m + 1/2 and has m lacks half as much
 * again: 8 * (m + 1/2) - 7 * m of the 120 that are the largest weight, at most 18.5. */
static void a_row_unpacks_to_about_what_it_was(void **state)
{
    (void)state;
    enum { N = 40, K = 333 };
    test_rng rng = { 23 };
    float values[N * K], out[K];
    test_fill(&rng, values, N * K);
    const pf_gemm_source source = { .data = values, .n_rows = N, .stride = K };
    for (pf_format format = 0; format < PF_N_FORMATS; format++) {
        packed x = pack(format, N, K, &source, 1);
        const int32_t bits = pf_format_get(format)->bits;
        const float of_four = pf_format_get(format)->group ? 18.5f / 120.0f : 0.13f;
        const float worst = bits == 32 ? 0.0f : bits == 16 ? 0x1p-9f : bits == 8 ? 1.0f / 253.0f : of_four;
        float largest = 0.0f;
        for (int32_t n = 0; n < N; n++) {
            pf_gemm_unpack_row(&x.weights, n, out);
            for (int32_t k = 0; k < K; k++) largest = fmaxf(largest, fabsf(out[k] - values[n * K + k]));
        }
        assert_true(largest <= worst);
        assert_true(bits == 32 || largest > worst / 4);
        pf_guard_free(&x.panels);
    }
}

/* And weights that twelve bits have to patch, or hold raw. */
static void a_block_is_what_its_rows_are(void **state)
{
    (void)state;
    enum { N = 40, K = 333 };
    test_rng rng = { 29 };
    float values[N * K], row[K], block[PF_GEMM_BLOCK_K * PF_GEMM_PANEL];
    test_fill(&rng, values, N * K);
    for (int32_t i = 0; i < N * K; i++) {
        if (i % 47 == 0) values[i] *= 0x1p-30f;
        if (i % K < 9) values[i] *= i % 2 ? 0x1p-60f : 0x1p50f;
    }
    const pf_gemm_source source = { .data = values, .n_rows = N, .stride = K };
    for (pf_format format = 0; format < PF_N_FORMATS; format++) {
        packed x = pack(format, N, K, &source, 1);
        for (int32_t n = 0; n < N; n++) {
            pf_gemm_unpack_row(&x.weights, n, row);
            for (int32_t k = 0; k < K; k++) {
                const int32_t i = k % PF_GEMM_BLOCK_K * PF_GEMM_PANEL + n % PF_GEMM_PANEL;
                if (k % PF_GEMM_BLOCK_K == 0)
                    pf_gemm_unpack_block(&x.weights, n / PF_GEMM_PANEL, k / PF_GEMM_BLOCK_K, block);
                assert_memory_equal(&block[i], &row[k], sizeof *row);
            }
        }
        pf_guard_free(&x.panels);
    }
}

/* Bytes of a file may be anything: they reach the outputs of their own row only, and no memory but theirs. */
static void hostile_scales_and_heads_are_packed_as_they_are(void **state)
{
    (void)state;
    enum { N = 33, K = 64 };
    uint8_t q[N * K / 2], heads[N * 2];
    uint32_t scales[N];
    memset(q, 0xF0, sizeof q);
    for (int i = 0; i < N * 2; i++) heads[i] = i % 2 ? 0xF2 : 0x29;
    for (int n = 0; n < N; n++) scales[n] = n == 4 ? 0x7F800000 : n == 10 ? 0x7FC00001 : 0x3F800000;
    const pf_gemm_source source = { .data = q, .n_rows = N, .stride = K, .scales = scales, .heads = heads };
    packed x = pack(PF_FORMAT_INT4_ASYM_G32, N, K, &source, 1);
    float out[K];
    for (int32_t n = 0; n < N; n++) {
        pf_gemm_unpack_row(&x.weights, n, out);
        for (int32_t k = 0; k < K; k++) {
            const int32_t low = k < 32 ? -9 * 2 : -2 * 15, high = k < 32 ? 6 * 2 : 13 * 15;
            if (n == 4)
                assert_true(isinf(out[k]));
            else if (n == 10)
                assert_true(isnan(out[k]));
            else
                assert_true(out[k] == (float)(k % 2 ? high : low));
        }
    }
    pf_guard_free(&x.panels);
}

/* Each byte among those that are heads, at any place. */
static void a_byte_that_is_no_head_is_found(void **state)
{
    (void)state;
    enum { N = 77 };
    uint8_t heads[N];
    for (pf_format format = 0; format < PF_N_FORMATS; format++) {
        const pf_format_info *info = pf_format_get(format);
        if (info->bits >= 16 || !pf_gemm_has_heads(format)) continue;
        memset(heads, info->group ? 0xF7 : 0x07, N);
        for (int32_t byte = 0; byte < 256; byte++) {
            const int32_t at = byte % N, z = byte & 15, m = byte >> 4;
            const bool fits = info->group ? m * z <= 127 && m * (15 - z) <= 127 : m == 0;
            const bool is_head = fits && (info->has_zeros || z == 7 || z == 8);
            heads[at] = (uint8_t)byte;
            assert_int_equal(pf_gemm_find_bad_head(format, heads, N), is_head ? N : at);
            assert_int_equal(pf_gemm_find_bad_head(format, heads, (size_t)at), at);
            heads[at] = heads[(at + 1) % N];
        }
    }
}

/* --- numbers --- */

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
        pf_gemm_pack_weights_ref(&w, sources, 3, 2, 3); /* as two members would */
        pf_gemm_pack_weights_ref(&w, sources, 3, 0, 2);
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
                assert_true(same_float(packed_weight(&w, n, k), held[h] == PF_FORMAT_BF16
                                                                    ? pf_bf16_to_f32(pf_bf16_from_f32(expected))
                                                                    : expected));
            }
        pf_guard_free(&panels);
    }
}

static void f16_rounds_to_nearest_even_and_keeps_what_it_holds(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x10000u; h++) {
        const float f = pf_f16_to_f32((uint16_t)h);
        if (isnan(f)) {
            assert_true(isnan(pf_f16_to_f32(pf_f16_from_f32(f))));
            continue;
        }
        assert_int_equal(pf_f16_from_f32(f), h);
        if ((h & 0x7FFFu) >= 0x7BFFu) continue;
        const float next = pf_f16_to_f32((uint16_t)(h + 1)), middle = 0.5f * f + 0.5f * next;
        assert_int_equal(pf_f16_from_f32(middle), h % 2 ? h + 1 : h);
        assert_int_equal(pf_f16_from_f32(nextafterf(middle, f)), h);
        assert_int_equal(pf_f16_from_f32(nextafterf(middle, next)), h + 1);
    }
    assert_int_equal(pf_f16_from_f32(65519.99f), 0x7BFF);
    assert_int_equal(pf_f16_from_f32(65520.0f), 0x7C00);
    assert_int_equal(pf_f16_from_f32(-1e30f), 0xFC00);
    assert_int_equal(pf_f16_from_f32(0x1p-149f), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_are_what_the_contract_says),
        cmocka_unit_test(a_quantised_file_gives_the_panels_of_its_original),
        cmocka_unit_test(every_instruction_set_packs_the_same_panels),
        cmocka_unit_test(a_row_unpacks_to_about_what_it_was),
        cmocka_unit_test(a_block_is_what_its_rows_are),
        cmocka_unit_test(hostile_scales_and_heads_are_packed_as_they_are),
        cmocka_unit_test(a_byte_that_is_no_head_is_found),
        cmocka_unit_test(tensors_of_any_type_stack_at_any_row_and_tails_are_zero),
        cmocka_unit_test(f16_rounds_to_nearest_even_and_keeps_what_it_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
