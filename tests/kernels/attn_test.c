#include "kernels/vec/exp.h"
#include "tests/kernels/attn_test.h"

/* --- the definition, against float64 --- */

static void check_definition(const pf_kernel *kernel, const pf_kernel *definition)
{
    if (kernel != definition) return;
    enum { LENGTH = 150, ROWS = 3 };
    const double tolerance =
        kernel->type == PF_TYPE_F32 ? 1e-6 : 1e-3; /* weights in bf16 are off by 2^-9, each its way */
    cache c = cache_random(kernel, 6, 2, 21, 16, LENGTH);
    rows r = rows_make(&c, ROWS);
    float *out = attend(kernel, &c, &r);
    for (int32_t row = 0; row < ROWS; row++)
        for (int32_t head = 0; head < c.n_heads; head++) {
            const float *q = (float *)r.q.data + (size_t)row * r.stride + head * c.head_dim;
            double weight[LENGTH], sum = 0.0;
            const int32_t n_keys = LENGTH - ROWS + row + 1;
            for (int32_t t = 0; t < n_keys; t++) {
                double dot = 0.0;
                for (int32_t d = 0; d < c.head_dim; d++)
                    dot += scaled(&c, q[d]) * (double)held(&c, false, head / 3, t, d);
                weight[t] = exp(dot);
                sum += weight[t];
            }
            for (int32_t d = 0; d < c.head_dim; d++) {
                double expected = 0.0;
                for (int32_t t = 0; t < n_keys; t++)
                    expected += weight[t] / sum * (double)held(&c, true, head / 3, t, d);
                const double got = (double)out[(size_t)row * r.stride + (size_t)(head * c.head_dim + d)];
                if (fabs(got - expected) > tolerance)
                    fail_msg("row %d head %d element %d is %g, expected %g", row, head, d, got, expected);
            }
        }
    free(out);
    rows_free(&r);
    pf_guard_free(&c.pool);
}

static void the_definition_is_causal_attention(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_ATTN, check_definition);
}

/* --- the weights' exponential --- */

static void the_coarse_exponential_is_within_2_to_the_minus_13_and_monotone(void **state)
{
    (void)state;
    float before = pf_exp2_coarse(0.0f);
    assert_true(before == 1.0f);
    for (float x = 0.0f; x > -126.0f; x -= 0x1.8p-8f) {
        const float got = pf_exp2_coarse(x);
        if (fabs((double)got / exp2((double)x) - 1.0) > 0x1p-13) fail_msg("at %a: %a", (double)x, (double)got);
        if (got > before) fail_msg("rises again at %a", (double)x);
        before = got;
    }
    for (int n = 0; n <= 149; n++) assert_true((double)pf_exp2_coarse((float)-n) == exp2(-n));
    assert_true(pf_exp2_coarse(-INFINITY) == 0.0f && pf_exp2_coarse(-151.0f) == 0.0f && isnan(pf_exp2_coarse(NAN)));
}

/* --- every kernel, against the definition --- */

static void compare_shape(const pf_kernel *kernel, const pf_kernel *definition, const int32_t heads[2],
                          int32_t head_dim, int32_t page_tokens, int32_t length, int32_t n_rows)
{
    cache c = cache_random(kernel, heads[0], heads[1], head_dim, page_tokens, length);
    rows r = rows_make(&c, n_rows);
    float *expected = attend(definition, &c, &r);
    float *got = attend(kernel, &c, &r);
    char what[160];
    snprintf(what, sizeof what, "%s, heads %d of %d, head_dim %d, pages of %d, %d rows of %d", kernel->name, heads[0],
             heads[1], head_dim, page_tokens, n_rows, length);
    assert_same_floats(what, got, expected, r.out.bytes / sizeof(float));
    for (size_t i = 0; i < r.out.bytes / sizeof(float); i++) assert_true(isfinite(got[i]));
    free(got);
    free(expected);
    rows_free(&r);
    pf_guard_free(&c.pool);
}

static void check_shapes(const pf_kernel *kernel, const pf_kernel *definition)
{
    static const int32_t heads[][2] = { { 1, 1 }, { 6, 2 }, { 3, 3 }, { 20, 1 } };
    static const int32_t dims[] = { 1, 15, 16, 20, 33, 64, 80, 96 };
    static const int32_t lengths[][2] = { { 1, 1 }, { 16, 16 }, { 17, 3 }, { 64, 1 }, { 65, 40 }, { 200, 23 } };
    for (size_t d = 0; d < 8; d++)
        for (size_t l = 0; l < 6; l++)
            compare_shape(kernel, definition, heads[(d + l) % 4], dims[d], 16 << ((d + 2 * l) % 4), lengths[l][0],
                          lengths[l][1]);
    static const int32_t segments[][2] = { { 1024, 2 }, { 1025, 2 }, { 1048, 26 }, { 2050, 3 } };
    for (size_t l = 0; l < 4; l++)
        compare_shape(kernel, definition, heads[(l + 1) % 4], dims[2 * l + 1], 32 << (l % 3), segments[l][0],
                      segments[l][1]);
    for (int32_t n_heads = 1; n_heads <= 7; n_heads++) /* few lines behind many positions are cut otherwise */
        compare_shape(kernel, definition, (const int32_t[]){ n_heads, 1 }, 20, 128, 1020 + 5 * n_heads, 1);
}

static void all_heads_sizes_and_lengths_equal_the_definition_and_freed_slots_are_not_seen(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_ATTN, check_shapes);
}

/* --- row invariance --- */

static void check_rows_of(const pf_kernel *kernel, int32_t length, int32_t n_rows)
{
    enum { HEADS = 6, KV_HEADS = 2, DIM = 48 };
    cache c = cache_random(kernel, HEADS, KV_HEADS, DIM, 32, length);
    rows r = rows_make(&c, n_rows);
    float *whole = attend(kernel, &c, &r);

    /* in ranges of items, as members take them */
    pf_attn_args args = args_of(&c, &r);
    const int32_t n_items = pf_attn_items(KV_HEADS, n_rows);
    memset(r.out.data, 0, r.out.bytes);
    for (int32_t item = 0; item < n_items; item += 37)
        kernel->fn.attn(&args, item, item + 37 < n_items ? item + 37 : n_items, r.scratch.data);
    assert_same_floats("ranges of items", r.out.data, whole, r.out.bytes / sizeof(float));

    /* a row a call, as decoding does, over pages of another size */
    cache other = cache_random(kernel, HEADS, KV_HEADS, DIM, 128, length);
    memset(r.out.data, 0, r.out.bytes);
    for (int32_t row = 0; row < n_rows; row++) {
        pf_attn_args one = args_of(&other, &r);
        one.n_rows = 1;
        one.position += row;
        one.q += (size_t)row * r.stride;
        one.out += (size_t)row * r.stride;
        kernel->fn.attn(&one, 0, KV_HEADS, r.scratch.data);
    }
    assert_same_floats("row by row", r.out.data, whole, r.out.bytes / sizeof(float));

    free(whole);
    rows_free(&r);
    pf_guard_free(&c.pool);
    pf_guard_free(&other.pool);
}

static void check_rows(const pf_kernel *kernel, const pf_kernel *definition)
{
    (void)definition;
    check_rows_of(kernel, 230, 90);
    check_rows_of(kernel, 1032, 14); /* some rows see one segment, the others two */
}

static void a_rows_bits_do_not_depend_on_rows_beside_it_ranges_or_pages(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_ATTN, check_rows);
}

/* --- draft trees --- */

static void check_trees(const pf_kernel *kernel, const pf_kernel *definition)
{
    static const int32_t heads[][2] = { { 1, 1 }, { 6, 2 }, { 3, 3 }, { 20, 1 } };
    static const int32_t dims[] = { 20, 1, 64, 33 };
    static const struct {
        int32_t context, n_rows;
    } trees[] = { { 0, 9 },   { 0, 100 },  { 5, 30 },  { 63, 3 },    { 63, 65 },
                  { 64, 12 }, { 119, 20 }, { 130, 1 }, { 1017, 11 }, { 2048, 2 } };
    for (int32_t i = 0; i < (int32_t)(sizeof trees / sizeof *trees); i++)
        for (int32_t kind = 0; kind < 4; kind++) {
            const int32_t n_rows = trees[i].n_rows, h = (i + kind) % 4;
            cache c = cache_random(kernel, heads[h][0], heads[h][1], dims[(i / 2 + kind) % 4], 16 << (i + kind) % 3,
                                   trees[i].context + n_rows);
            compare_tree(kernel, definition, &c, n_rows, kind, NULL);
            pf_guard_free(&c.pool);
        }
}

static void a_rows_bits_in_a_tree_are_those_of_the_chain_of_its_path(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_ATTN, check_trees);
}

/* --- keys in parts --- */

static void check_parts(const pf_kernel *kernel, const pf_kernel *definition)
{
    static const int32_t heads[][2] = { { 1, 1 }, { 6, 2 }, { 3, 3 }, { 20, 1 } }, dims[] = { 20, 1, 64, 33 };
    static const int32_t lengths[][2] = { { 5, 2 }, { 1025, 3 }, { 1100, 1 }, { 2050, 3 }, { 1040, 24 }, { 1030, 9 } };
    for (int32_t l = 0; l < 6; l++)
        for (int32_t kind = 1; kind < 4; kind += 2) { /* a chain, and a tree */
            const int32_t n_rows = lengths[l][1], h = (l + kind) % 4;
            cache c = cache_random(kernel, heads[h][0], heads[h][1], dims[(l + kind) % 4], 32 << l % 3, lengths[l][0]);
            rows r = rows_make(&c, n_rows);
            int32_t parents[MOST_ROWS];
            test_rng rng = { (uint64_t)(l + kind) };
            for (int32_t i = 0; i < n_rows; i++) parents[i] = parent_of(&rng, kind, i);
            pf_attn_args args = args_of(&c, &r);
            args.parents = kind == 1 ? NULL : parents;
            definition->fn.attn(&args, 0, pf_attn_items(c.n_kv_heads, n_rows), r.scratch.data);
            float *expected = malloc(r.out.bytes);
            assert_non_null(expected);
            memcpy(expected, r.out.data, r.out.bytes);
            memset(r.scratch.data, 0xFF, r.scratch.bytes);
            attend_in_parts(kernel, args, l % 2 ? 1 : 5, &r);
            char what[160];
            snprintf(what, sizeof what, "%s in parts, heads %d of %d, head_dim %d, %d rows of %d, kind %d",
                     kernel->name, c.n_heads, c.n_kv_heads, c.head_dim, n_rows, c.length, kind);
            for (int32_t row = 0; row < n_rows; row++) /* not what lies between rows */
                assert_same_floats(what, (float *)r.out.data + (size_t)row * r.stride,
                                   expected + (size_t)row * r.stride, (size_t)(c.n_heads * c.head_dim));
            free(expected);
            rows_free(&r);
            pf_guard_free(&c.pool);
        }
}

static void parts_of_the_keys_join_to_the_bits_of_the_whole(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_ATTN, check_parts);
}

/* --- extremes --- */

static void check_confined(const pf_kernel *kernel, const pf_kernel *definition)
{
    enum { LENGTH = 100, ROWS = 30 };
    static const float bad[] = { NAN, INFINITY, -INFINITY, 3e38f };
    for (size_t b = 0; b < 8; b++) {
        const int32_t at_position = 80 + (int32_t)b / 4; /* the even one of a pair, and the odd one */
        cache c = cache_random(kernel, 4, 2, 24, 16, LENGTH);
        rows r = rows_make(&c, ROWS);
        float *clean = attend(kernel, &c, &r);
        put(&c, false, 1, at_position, 5, bad[b % 4]);
        put(&c, true, 1, at_position, 7, bad[b % 4]);
        float *expected = attend(definition, &c, &r);
        float *got = attend(kernel, &c, &r);
        assert_same_floats(kernel->name, got, expected, r.out.bytes / sizeof(float));
        for (int32_t row = 0; row < ROWS; row++)
            for (int32_t i = 0; i < 4 * 24; i++) {
                const size_t at = (size_t)row * r.stride + (size_t)i;
                if (LENGTH - ROWS + row < at_position || i < 2 * 24)
                    assert_true(same_float(got[at], clean[at]));
                else if (isnan(bad[b % 4]))
                    assert_true(isnan(got[at]));
            }
        free(clean);
        free(expected);
        free(got);
        rows_free(&r);
        pf_guard_free(&c.pool);
    }
}

static void a_bad_key_is_seen_by_its_own_heads_from_its_position_on(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_ATTN, check_confined);
}

/* Denormals apart, which are tested below, a class flushes or keeps. */
static bool same_class(const pf_kernel *kernel, const pf_kernel *definition)
{
    return strcmp(kernel->arithmetic, definition->arithmetic) == 0;
}

/* Anything, but nothing tiny for a class that flushes what the definition keeps. */
static float extreme_for(test_rng *rng, bool tiny)
{
    for (;;) {
        const float f = test_extreme(rng);
        if (tiny || !(f != 0.0f && fabsf(f) < 1e-9f)) return f;
    }
}

static void check_extremes(const pf_kernel *kernel, const pf_kernel *definition)
{
    const bool tiny = same_class(kernel, definition);
    test_rng rng = { 23 };
    for (int32_t round = 0; round < 20; round++) {
        cache c = cache_random(kernel, 4, 2, 18, 16, 75);
        rows r = rows_make(&c, 7);
        for (int32_t i = 0; i < 30; i++) {
            put(&c, false, i % 2, test_below(&rng, 75), test_below(&rng, 18), extreme_for(&rng, tiny));
            put(&c, true, i % 2, test_below(&rng, 75), test_below(&rng, 18), extreme_for(&rng, tiny));
        }
        for (size_t i = 0; i < 3; i++)
            ((float *)r.q.data)[(size_t)test_below(&rng, (int32_t)(r.q.bytes / sizeof(float)))] =
                extreme_for(&rng, tiny);
        float *expected = attend(definition, &c, &r);
        float *got = attend(kernel, &c, &r);
        assert_same_floats(kernel->name, got, expected, r.out.bytes / sizeof(float));
        compare_tree(kernel, definition, &c, 20, 2 + round % 2, NULL);
        free(expected);
        free(got);
        rows_free(&r);
        pf_guard_free(&c.pool);
    }
}

static void extreme_keys_values_and_queries_give_what_the_definition_gives(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_ATTN, check_extremes);
}

static void check_denormals(const pf_kernel *kernel, const pf_kernel *definition)
{
    cache c = cache_random(kernel, 2, 1, 40, 16, 70);
    rows r = rows_make(&c, 3);
    for (int32_t t = 0; t < 70; t++)
        for (int32_t d = 0; d < 40; d++) put(&c, true, 0, t, d, d % 2 ? 0x1p-130f : 1.0f);
    float *expected = attend(definition, &c, &r);
    float *got = attend(kernel, &c, &r);
    const size_t n = r.out.bytes / sizeof(float);
    for (size_t i = 0; i < n; i++) {
        const bool denormal = expected[i] > 0.0f && expected[i] < 0x1p-126f;
        const float held_or_flushed = denormal && !same_class(kernel, definition) ? 0.0f : expected[i];
        assert_same_floats(kernel->name, &got[i], &held_or_flushed, 1);
    }
    assert_true(expected[1] > 0.0f && expected[1] < 0x1p-126f);
    free(expected);
    free(got);
    rows_free(&r);
    pf_guard_free(&c.pool);
}

static void denormal_values_are_kept_or_flushed_as_the_class_says(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_ATTN, check_denormals);
}

#ifndef PF_TEST_AMX

/* --- the store --- */

/* Anything, and of what lies between two bf16 numbers every fifth in the middle. */
static float stored(test_rng *rng, size_t i, bool with_nan)
{
    float f = test_extreme(rng);
    if (isnan(f) && !with_nan) f = 1.0f;
    if (i % 5 || isnan(f) || isinf(f)) return f;
    const uint32_t middle = (bits_of(f) & 0xFFFF0000u) | 0x8000u;
    memcpy(&f, &middle, sizeof f);
    return f;
}

static void store_and_compare(const pf_kernel *kernel, int32_t head_dim, bool with_nan)
{
    enum { HEADS = 3, ROWS = 37, POSITION = 11 };
    const int32_t stride = HEADS * head_dim + 2;
    cache c = cache_make(kernel->type, HEADS, HEADS, head_dim, 16, POSITION + ROWS);
    const size_t n_floats = (size_t)(ROWS * stride - 2);
    pf_guard k = pf_guard_alloc(n_floats * sizeof(float), 4);
    pf_guard v = pf_guard_alloc(n_floats * sizeof(float), 4);
    test_rng rng = { 29 };
    for (size_t i = 0; i < n_floats; i++) {
        ((float *)k.data)[i] = stored(&rng, i, with_nan);
        ((float *)v.data)[i] = stored(&rng, i, with_nan);
    }
    const pf_attn_store_args args = {
        .pages = pages_of(&c), .k = k.data, .v = v.data, .stride = (size_t)stride, .n_rows = ROWS, .position = POSITION
    };
    enum { SPLIT = 51, NEXT = POSITION + SPLIT % ROWS }; /* the first item left out: the odd one of a pair */
    kernel->fn.attn_store(&args, 0, SPLIT);
    assert_true(isnan(held(&c, true, SPLIT / ROWS, NEXT, 0)) && isnan(held(&c, false, SPLIT / ROWS, NEXT, 0)));
    kernel->fn.attn_store(&args, SPLIT, HEADS * ROWS);
    const int32_t width = (int32_t)pf_attn_width(c.type, head_dim);
    for (int32_t head = 0; head < HEADS; head++)
        for (int32_t t = POSITION; t < POSITION + ROWS; t++)
            for (int32_t d = head_dim; d < width; d++) assert_true(bits_of(held(&c, false, head, t, d)) == 0);
    for (int32_t head = 0; head < HEADS; head++)
        for (int32_t t = 0; t < c.n_pages * 16; t++)
            for (int32_t d = 0; d < head_dim; d++) {
                const bool is_stored = t >= POSITION && t < POSITION + ROWS;
                const size_t from = is_stored ? (size_t)((t - POSITION) * stride + head * head_dim + d) : 0;
                for (int side = 0; side < 2; side++) {
                    float expected = NAN; /* what was there before */
                    if (is_stored) expected = ((float *)(side ? v.data : k.data))[from];
                    if (is_stored && kernel->type == PF_TYPE_BF16)
                        expected = pf_bf16_to_f32(pf_bf16_from_f32(expected));
                    const float got = held(&c, side != 0, head, t, d);
                    if (!same_float(got, expected))
                        fail_msg("%s, head_dim %d: head %d position %d element %d: %a, expected %a", kernel->name,
                                 head_dim, head, t, d, (double)got, (double)expected);
                }
            }
    pf_guard_free(&k);
    pf_guard_free(&v);
    pf_guard_free(&c.pool);
}

static void check_store(const pf_kernel *kernel, const pf_kernel *definition)
{
    static const int32_t dims[] = { 1, 16, 21, 64, 85 };
    (void)definition;
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++) {
        store_and_compare(kernel, dims[i], false);
        store_and_compare(kernel, dims[i], true);
    }
}

static void a_store_fills_its_own_positions_and_no_others(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_ATTN_STORE, check_store);
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_definition_is_causal_attention),
        cmocka_unit_test(the_coarse_exponential_is_within_2_to_the_minus_13_and_monotone),
        cmocka_unit_test(all_heads_sizes_and_lengths_equal_the_definition_and_freed_slots_are_not_seen),
        cmocka_unit_test(a_rows_bits_do_not_depend_on_rows_beside_it_ranges_or_pages),
        cmocka_unit_test(a_rows_bits_in_a_tree_are_those_of_the_chain_of_its_path),
        cmocka_unit_test(parts_of_the_keys_join_to_the_bits_of_the_whole),
        cmocka_unit_test(a_bad_key_is_seen_by_its_own_heads_from_its_position_on),
        cmocka_unit_test(extreme_keys_values_and_queries_give_what_the_definition_gives),
        cmocka_unit_test(denormal_values_are_kept_or_flushed_as_the_class_says),
#ifndef PF_TEST_AMX /* there is no store of AMX's own */
        cmocka_unit_test(a_store_fills_its_own_positions_and_no_others),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
