/* Windows, soft caps, slopes and sinks of attention: the definition against float64, every kernel against the definition. */
#include <time.h>

#include "tests/kernels/attn_test.h"

enum { MOST_HEADS = 24 };

static const float slopes[MOST_HEADS] = { 0.5f,    0.25f,    0.125f,   0.0625f, 0.03125f, 0.7f,  0.0f,  0.3f,
                                          0.01f,   0.9f,     0.05f,    0.2f,    0.6f,     0.1f,  0.4f,  0.02f,
                                          0.0039f, 0.00781f, 0.01562f, 0.8f,    0.35f,    0.15f, 0.45f, 0.55f };
static const float sinks[MOST_HEADS] = {
    0.0f, -3.0f, 2.5f,  -60.0f, 60.0f, 1.0f,  -1.0f, 0.3f, 5.0f,  0.1f, 0.2f, 3.0f,
    4.0f, 7.0f,  -7.0f, 8.0f,   1.5f,  -0.5f, 0.7f,  0.9f, -2.0f, 2.0f, 6.0f, 0.4f
};

/* Each alone, and together. */
static features features_of(int32_t window, int32_t which)
{
    return (features){ .window = window,
                       .softcap = which & 1 ? 1.5f : 0.0f,
                       .slopes = which & 2 ? slopes : NULL,
                       .sinks = which & 4 ? sinks : NULL };
}

/* --- the definition, against float64 --- */

/* The output of one row and head: `expected`, [head_dim]. */
static void attend_in_double(const cache *c, const rows *r, int32_t row, int32_t head, double *expected)
{
    const features *f = &r->features;
    const float *q = (float *)r->q.data + (size_t)row * r->stride + head * c->head_dim;
    const int32_t p = c->length - r->n_rows + row, kv_head = head / (c->n_heads / c->n_kv_heads);
    double sum = f->sinks ? exp((double)f->sinks[head]) : 0.0;
    for (int32_t d = 0; d < c->head_dim; d++) expected[d] = 0.0;
    for (int32_t t = 0; t <= p; t++) {
        if (f->window > 0 && t <= p - f->window) continue;
        double score = 0.0;
        for (int32_t d = 0; d < c->head_dim; d++) score += scaled(c, q[d]) * (double)held(c, false, kv_head, t, d);
        if (f->softcap > 0.0f) score = (double)f->softcap * tanh(score / (double)f->softcap);
        if (f->slopes) score += (double)f->slopes[head] * (t - p);
        sum += exp(score);
        for (int32_t d = 0; d < c->head_dim; d++) expected[d] += exp(score) * (double)held(c, true, kv_head, t, d);
    }
    for (int32_t d = 0; d < c->head_dim; d++) expected[d] /= sum;
}

static void check_definition_with(const pf_kernel *kernel, int32_t length, features of)
{
    enum { DIM = 21, ROWS = 3, HEADS = 6 };
    const double tolerance = kernel->type == PF_TYPE_F32 ? 2e-6 : 3e-3;
    cache c = cache_random(kernel, HEADS, 2, DIM, 16, length);
    rows r = rows_make(&c, ROWS);
    r.features = of;
    float *out = attend(kernel, &c, &r);
    for (int32_t row = 0; row < ROWS; row++)
        for (int32_t head = 0; head < HEADS; head++) {
            double expected[DIM];
            attend_in_double(&c, &r, row, head, expected);
            for (int32_t d = 0; d < DIM; d++) {
                const double got = (double)out[(size_t)row * r.stride + (size_t)(head * DIM + d)];
                if (!(fabs(got - expected[d]) <= tolerance))
                    fail_msg(
                        "%s, window %d, softcap %g, slopes %d, sinks %d: row %d head %d element %d is %g, expected %g",
                        kernel->name, of.window, (double)of.softcap, of.slopes != NULL, of.sinks != NULL, row, head, d,
                        got, expected[d]);
            }
        }
    free(out);
    rows_free(&r);
    pf_guard_free(&c.pool);
}

static void check_definition(const pf_kernel *kernel, const pf_kernel *definition)
{
    if (kernel != definition) return;
    static const int32_t windows[] = { 0, 1, 7, 64, 65 };
    for (size_t w = 0; w < sizeof windows / sizeof *windows; w++)
        for (int32_t which = 0; which < 8; which++) check_definition_with(kernel, 150, features_of(windows[w], which));
    check_definition_with(kernel, 1030, features_of(1000, 7));
    check_definition_with(kernel, 1030, features_of(20, 7));
}

static void the_definition_is_the_formula_with_each_feature_and_all(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_ATTN, check_definition);
}

/* --- every kernel, against the definition --- */

/* What no row sees is lost: NaN in slots below the window, NULL for pages that lie there. */
static void lose_old_keys(cache *c, const pf_attn_args *args)
{
    const int32_t first = pf_attn_first_key(args, args->position);
    for (int32_t t = 0; t < first; t++)
        for (int32_t head = 0; head < c->n_kv_heads; head++)
            for (int32_t d = 0; d < c->head_dim; d++)
                for (int side = 0; side < 2; side++) put(c, side != 0, head, t, d, NAN);
    for (int32_t page = 0; (page + 1) * c->page_tokens <= first; page++)
        c->key_pages[page] = c->value_pages[page] = NULL;
}

static void attend_row_by_row(const pf_kernel *kernel, const cache *c, rows *r)
{
    memset(r->out.data, 0, r->out.bytes);
    for (int32_t row = 0; row < r->n_rows; row++) {
        pf_attn_args one = args_of(c, r);
        one.n_rows = 1;
        one.position += row;
        one.q += (size_t)row * r->stride;
        one.out += (size_t)row * r->stride;
        kernel->fn.attn(&one, 0, c->n_kv_heads, r->scratch.data);
    }
}

typedef struct {
    int32_t heads, kv_heads, head_dim, page_tokens, length, n_rows;
} shape;

static void compare_chain(const pf_kernel *kernel, const pf_kernel *definition, shape s, features of)
{
    char what[200];
    snprintf(what, sizeof what,
             "%s, heads %d of %d, head_dim %d, pages of %d, %d rows of %d, window %d, softcap %g, slopes %d, sinks %d",
             kernel->name, s.heads, s.kv_heads, s.head_dim, s.page_tokens, s.n_rows, s.length, of.window,
             (double)of.softcap, of.slopes != NULL, of.sinks != NULL);
    cache c = cache_random(kernel, s.heads, s.kv_heads, s.head_dim, s.page_tokens, s.length);
    rows r = rows_make(&c, s.n_rows);
    r.features = of;
    const pf_attn_args args = args_of(&c, &r);
    lose_old_keys(&c, &args);
    const size_t n_floats = r.out.bytes / sizeof(float);
    float *expected = attend(definition, &c, &r);
    for (size_t i = 0; i < n_floats; i++) assert_true(isfinite(expected[i]));
    float *got = attend(kernel, &c, &r);
    assert_same_floats(what, got, expected, n_floats);

    const int32_t n_items = pf_attn_items(s.kv_heads, s.n_rows);
    memset(r.out.data, 0, r.out.bytes);
    for (int32_t item = 0; item < n_items; item += 7)
        kernel->fn.attn(&args, item, item + 7 < n_items ? item + 7 : n_items, r.scratch.data);
    assert_same_floats(what, r.out.data, expected, n_floats);
    attend_in_parts(kernel, args, s.n_rows % 2 ? 1 : 5, &r);
    assert_same_floats(what, r.out.data, expected, n_floats);
    attend_row_by_row(kernel, &c, &r);
    assert_same_floats(what, r.out.data, expected, n_floats);
    free(got);
    free(expected);
    rows_free(&r);
    pf_guard_free(&c.pool);
}

static const int32_t windows[] = { 1, 7, 64, 65, 1000, 5000, 0 };
enum { N_WINDOWS = sizeof windows / sizeof *windows };

static void check_chains(const pf_kernel *kernel, const pf_kernel *definition)
{
    static const shape shapes[] = {
        { 1, 1, 2, 16, 1, 1 },     { 6, 2, 64, 64, 131, 3 },   { 2, 2, 80, 16, 200, 30 }, { 20, 1, 2, 64, 180, 9 },
        { 4, 2, 96, 64, 65, 20 },  { 3, 1, 128, 64, 150, 2 },  { 2, 1, 256, 64, 129, 2 }, { 3, 1, 33, 16, 80, 80 },
        { 4, 1, 2, 64, 1100, 80 }, { 2, 2, 15, 64, 1030, 12 }, { 5, 1, 64, 64, 2100, 1 }, { 6, 3, 2, 64, 2080, 35 },
    };
    for (int32_t s = 0; s < (int32_t)(sizeof shapes / sizeof *shapes); s++)
        for (int32_t w = 0; w < N_WINDOWS; w++) {
            if (s % 2 == w % 2) compare_chain(kernel, definition, shapes[s], features_of(windows[w], 0));
            compare_chain(kernel, definition, shapes[s], features_of(windows[w], 1 + (s + w) % 7));
        }
}

static void every_window_and_feature_equals_the_definition_and_lost_keys_are_not_read(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_ATTN, check_chains);
}

/* --- draft trees --- */

static void check_trees(const pf_kernel *kernel, const pf_kernel *definition)
{
    static const shape shapes[] = {
        { 6, 2, 20, 16, 9, 9 },    { 3, 3, 2, 64, 100, 100 },  { 4, 1, 64, 64, 66, 3 },  { 6, 2, 33, 16, 128, 65 },
        { 20, 1, 2, 64, 139, 20 }, { 2, 1, 80, 64, 1028, 11 }, { 4, 2, 2, 64, 2050, 2 },
    };
    for (int32_t s = 0; s < (int32_t)(sizeof shapes / sizeof *shapes); s++)
        for (int32_t w = 0; w < N_WINDOWS; w++) {
            const features of = features_of(windows[w], (3 * s + w) % 8);
            cache c = cache_random(kernel, shapes[s].heads, shapes[s].kv_heads, shapes[s].head_dim,
                                   shapes[s].page_tokens, shapes[s].length);
            compare_tree(kernel, definition, &c, shapes[s].n_rows, (s + w) % 4, &of);
            pf_guard_free(&c.pool);
        }
}

static void a_tree_rows_window_counts_positions_on_its_path(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_ATTN, check_trees);
}

/* In parts, too: rows of a tree may begin above a segment that others see. */
static void check_tree_parts(const pf_kernel *kernel, const pf_kernel *definition)
{
    for (int32_t w = 0; w < N_WINDOWS; w++) {
        enum { ROWS = 40 };
        cache c = cache_random(kernel, 6, 2, 16, 64, 1024 + ROWS - 9);
        rows r = rows_make(&c, ROWS);
        r.features = features_of(windows[w], 7);
        int32_t parents[ROWS];
        test_rng rng = { 5 };
        for (int32_t i = 0; i < ROWS; i++) parents[i] = parent_of(&rng, 3, i);
        pf_attn_args args = args_of(&c, &r);
        args.parents = parents;
        lose_old_keys(&c, &args);
        memset(r.out.data, 0, r.out.bytes);
        definition->fn.attn(&args, 0, pf_attn_items(c.n_kv_heads, ROWS), r.scratch.data);
        float *expected = malloc(r.out.bytes);
        assert_non_null(expected);
        memcpy(expected, r.out.data, r.out.bytes);
        attend_in_parts(kernel, args, 1, &r);
        assert_same_floats(kernel->name, r.out.data, expected, r.out.bytes / sizeof(float));
        for (size_t i = 0; i < r.out.bytes / sizeof(float); i++) assert_true(isfinite(expected[i]));
        free(expected);
        rows_free(&r);
        pf_guard_free(&c.pool);
    }
}

static void parts_of_a_tree_join_with_every_window(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_ATTN, check_tree_parts);
}

/* --- extremes --- */

/* A NaN or an infinity in one value reaches the rows whose window holds it, and no other. */
static void check_bad_values(const pf_kernel *kernel, const pf_kernel *definition)
{
    enum { LENGTH = 190, ROWS = 60, WINDOW = 70, DIM = 40 };
    static const float bad[] = { NAN, INFINITY };
    for (int32_t i = 0; i < 8; i++) {
        const int32_t at = 61 + 5 * i + i / 4;
        cache c = cache_random(kernel, 4, 2, DIM, i % 2 ? 16 : 64, LENGTH);
        rows r = rows_make(&c, ROWS);
        r.features = features_of(WINDOW, i % 4);
        put(&c, true, 1, at, 7, bad[i % 2]);
        float *expected = attend(definition, &c, &r);
        float *got = attend(kernel, &c, &r);
        assert_same_floats(kernel->name, got, expected, r.out.bytes / sizeof(float));
        for (int32_t row = 0; row < ROWS; row++)
            for (int32_t d = 0; d < 4 * DIM; d++) {
                const int32_t p = LENGTH - ROWS + row;
                const bool reached = at <= p && at > p - WINDOW && d >= 2 * DIM && d % DIM == 7;
                assert_true(isfinite(got[(size_t)row * r.stride + (size_t)d]) == !reached);
            }
        free(expected);
        free(got);
        rows_free(&r);
        pf_guard_free(&c.pool);
    }
}

static void a_bad_value_leaves_with_the_window(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_ATTN, check_bad_values);
}

static void check_infinite_scores(const pf_kernel *kernel, const pf_kernel *definition)
{
    cache c = cache_random(kernel, 2, 1, 16, 16, 40);
    rows r = rows_make(&c, 2);
    for (int32_t d = 0; d < 16; d++) ((float *)r.q.data)[d] = 1.0f;
    put(&c, false, 0, 30, 3, INFINITY); /* scores of infinity for the first head, of either sign for others */
    for (int32_t which = 0; which < 8; which++) {
        r.features = features_of(9, which);
        float *expected = attend(definition, &c, &r);
        float *got = attend(kernel, &c, &r);
        assert_same_floats(kernel->name, got, expected, r.out.bytes / sizeof(float));
        assert_true(isfinite(got[0]) == ((which & 1) != 0));
        free(expected);
        free(got);
    }
    rows_free(&r);
    pf_guard_free(&c.pool);
}

static void a_soft_cap_makes_an_infinite_score_finite(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_ATTN, check_infinite_scores);
}

/* The least CPU time of several calls, in ns. */
static double least_time(const pf_kernel *kernel, const pf_attn_args *args, void *scratch)
{
    double least = INFINITY;
    for (int32_t i = 0; i < 12; i++) {
        struct timespec begin, end;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
        kernel->fn.attn(args, 0, pf_attn_items(args->pages.n_kv_heads, args->n_rows), scratch);
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
        least = fmin(least, (double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec));
    }
    return least;
}

/* With a sixth of the blocks or less a call takes less than half of the time; within one segment. */
static void check_cost(const pf_kernel *kernel, const pf_kernel *definition)
{
    if (kernel == definition) return;
    for (int32_t tree = 0; tree < 2; tree++) {
        enum { LENGTH = 1000, TREE_ROWS = 400 };
        cache c = cache_random(kernel, 1, 1, 128, 64, LENGTH);
        rows r = rows_make(&c, tree ? TREE_ROWS : 1);
        static int32_t parents[TREE_ROWS];
        for (int32_t i = 0; i < TREE_ROWS; i++) parents[i] = i - 1;
        pf_attn_args args = args_of(&c, &r);
        if (tree) {
            args.parents = parents;
            args.position = 0;
        }
        const double whole = least_time(kernel, &args, r.scratch.data);
        args.window = 16;
        const double window = least_time(kernel, &args, r.scratch.data);
        if (window > 0.5 * whole)
            fail_msg("%s, tree %d: %.0f ns with a window, %.0f ns without", kernel->name, tree, window, whole);
        rows_free(&r);
        pf_guard_free(&c.pool);
    }
}

static void blocks_below_the_window_are_skipped(void **state)
{
    (void)state;
    for_each_kernel(PF_OP_ATTN, check_cost);
}

static void segments_below_the_window_have_no_units(void **state)
{
    (void)state;
    pf_attn_args args = { .n_rows = 5, .position = 4095, .window = 1000 };
    assert_int_equal(pf_attn_first_segment(&args), 3);
    assert_int_equal(pf_attn_segments(&args), 2);
    args.window = 0;
    assert_int_equal(pf_attn_first_segment(&args), 0);
    assert_int_equal(pf_attn_segments(&args), 5);
    args.window = INT32_MAX;
    assert_int_equal(pf_attn_segments(&args), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_definition_is_the_formula_with_each_feature_and_all),
        cmocka_unit_test(every_window_and_feature_equals_the_definition_and_lost_keys_are_not_read),
        cmocka_unit_test(a_tree_rows_window_counts_positions_on_its_path),
        cmocka_unit_test(parts_of_a_tree_join_with_every_window),
        cmocka_unit_test(a_bad_value_leaves_with_the_window),
        cmocka_unit_test(a_soft_cap_makes_an_infinite_score_finite),
        cmocka_unit_test(blocks_below_the_window_are_skipped),
        cmocka_unit_test(segments_below_the_window_have_no_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
