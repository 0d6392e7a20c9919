/* Tests typical acceptance against its definition in double, and that it is lossy. */
#include "tests/support/test.h"

#include <math.h>

#include "base/sampling_parameters.h"
#include "tests/support/draw.h"
#include "verify/accept.h"

enum { V = 5, N = 6 };

typedef struct {
    float p[N + 1][V];
    int32_t blind; /* the row that holds no number; -1: none */
} rows;

static const float *row_of(void *user, int32_t row)
{
    const rows *r = user;
    return row == r->blind ? NULL : r->p[row];
}

static float middle(void *user, int32_t n_kept, int32_t use)
{
    (void)user;
    (void)n_kept;
    assert_int_equal(use, 0);
    return 0.5f;
}

static const pf_typical USUAL = { 0.09f, 0.3f };

static pf_acceptance accept(const int32_t *tokens, const int32_t *parents, int32_t n, pf_typical thresholds, rows *r,
                            int32_t *path)
{
    const pf_drafted drafted = { .tokens = tokens, .parents = parents, .n = n };
    return pf_accept_typical(&drafted, V, thresholds, row_of, middle, r, path);
}

static double entropy_of(const float *p)
{
    double entropy = 0.0;
    for (int32_t x = 0; x < V; x++)
        if (p[x] > 0.0f) entropy -= (double)p[x] * log((double)p[x]);
    return entropy;
}

static void the_threshold_falls_with_the_entropy(void **state)
{
    (void)state;
    /* H = 0.94 nats: 0.3 exp(-H) = 0.117, above epsilon. H = 1.61 nats: 0.3 / 5 = 0.06, below it. */
    rows peaked = { .p = { { 0.7f, 0.1f, 0.1f, 0.05f, 0.05f }, { 0.2f, 0.2f, 0.2f, 0.2f, 0.2f } }, .blind = -1 };
    rows flat = { .p = { { 0.2f, 0.2f, 0.2f, 0.2f, 0.2f }, { 1.0f } }, .blind = -1 };
    int32_t path[N];
    for (int32_t token = 0; token < V; token++) {
        assert_int_equal(accept(&token, NULL, 1, USUAL, &peaked, path).n_accepted, token < 3);
        assert_int_equal(accept(&token, NULL, 1, USUAL, &flat, path).n_accepted, 1);
        assert_int_equal(accept(&token, NULL, 1, (pf_typical){ 0.15f, 0.3f }, &peaked, path).n_accepted, token == 0);
    }
    const pf_acceptance refused = accept(&(int32_t){ 4 }, NULL, 1, USUAL, &peaked, path);
    assert_int_equal(refused.next, 0); /* from p, not from a residual */
}

/* The definition: a node is kept when its parent is and its token passes; the deepest, the first of equals. */
static int32_t define_accepted(const int32_t *tokens, const int32_t *parents, const rows *r, pf_typical t,
                               bool *is_close)
{
    int32_t depths[N], best = -1;
    for (int32_t i = 0; i < N; i++) {
        const int32_t parent = parents[i];
        const float *p = r->p[1 + parent];
        const double threshold = fmin((double)t.epsilon, (double)t.delta * exp(-entropy_of(p)));
        depths[i] = 0;
        if (parent >= 0 && depths[parent] == 0) continue;
        if (fabs((double)p[tokens[i]] - threshold) < 1e-7) *is_close = true;
        if (!((double)p[tokens[i]] > threshold)) continue;
        depths[i] = 1 + (parent < 0 ? 0 : depths[parent]);
        if (best < 0 || depths[i] > depths[best]) best = i;
    }
    return best;
}

static void the_longest_path_that_passes_is_accepted(void **state)
{
    (void)state;
    uint64_t random = 4;
    int32_t n_of_length[N + 1] = { 0 };
    for (int32_t trial = 0; trial < 20000; trial++) {
        int32_t tokens[N], parents[N], path[N];
        rows r = { .blind = -1 };
        for (int32_t i = 0; i <= N; i++) {
            double sum = 0.0;
            for (int32_t x = 0; x < V; x++) sum += (double)(r.p[i][x] = (float)(1 + draw(&random) % 1000));
            for (int32_t x = 0; x < V; x++) r.p[i][x] = (float)((double)r.p[i][x] / sum);
        }
        for (int32_t i = 0; i < N; i++) {
            tokens[i] = (int32_t)(draw(&random) % V);
            parents[i] = trial % 3 == 0 ? i - 1 : (int32_t)(draw(&random) % (uint64_t)(i + 1)) - 1;
        }
        const pf_typical thresholds = { (float)(1 + trial % 40) / 100.0f, (float)(1 + trial % 7) / 7.0f };
        bool is_close = false;
        const int32_t expected = define_accepted(tokens, parents, &r, thresholds, &is_close);
        const pf_acceptance a = accept(tokens, parents, N, thresholds, &r, path);
        if (is_close) continue;
        assert_int_equal(a.n_accepted == 0 ? -1 : path[a.n_accepted - 1], expected);
        for (int32_t i = 0; i < a.n_accepted; i++) assert_int_equal(parents[path[i]], i == 0 ? -1 : path[i - 1]);
        double before = 0.0;
        for (int32_t x = 0; x < a.next; x++) before += (double)r.p[1 + expected][x];
        assert_true(before <= 0.5 + 1e-6 && before + (double)r.p[1 + expected][a.next] >= 0.5 - 1e-6);
        n_of_length[a.n_accepted]++;
    }
    for (int32_t n = 0; n < 4; n++) assert_true(n_of_length[n] > 100);
}

/* Of one draft token x from q: P(y) = q(y) [p(y) passes] + p(y) sum of q(x) [p(x) does not pass]. */
static void the_first_token_has_another_distribution_than_the_targets(void **state)
{
    (void)state;
    rows r = { .p = { { 0.4f, 0.3f, 0.2f, 0.06f, 0.04f } }, .blind = -1 };
    const double q[V] = { 0.1, 0.1, 0.1, 0.3, 0.4 };
    double found[V] = { 0.0 }, lost = 0.0;
    int32_t path[N];
    for (int32_t i = 1; i <= N; i++) memcpy(r.p[i], r.p[0], sizeof r.p[0]);
    for (int32_t x = 0; x < V; x++) {
        const pf_acceptance a = accept(&x, NULL, 1, USUAL, &r, path);
        for (int32_t y = 0; y < V; y++) found[y] += q[x] * (a.n_accepted == 1 ? y == x : (double)r.p[0][y]);
    }
    for (int32_t y = 0; y < V; y++) {
        const bool passes = (double)r.p[0][y] > fmin(0.09, 0.3 * exp(-entropy_of(r.p[0])));
        lost += passes ? 0.0 : q[y];
    }
    for (int32_t y = 0; y < V; y++) {
        const bool passes = (double)r.p[0][y] > fmin(0.09, 0.3 * exp(-entropy_of(r.p[0])));
        assert_true(fabs(found[y] - ((passes ? q[y] : 0.0) + (double)r.p[0][y] * lost)) < 1e-9);
    }
    assert_true(fabs(found[0] - 0.4) > 0.01);
}

static void nothing_is_committed_behind_a_row_without_a_number(void **state)
{
    (void)state;
    rows r = { .p = { { 1.0f }, { 1.0f }, { 1.0f } }, .blind = 0 };
    const int32_t tokens[] = { 0, 0 };
    int32_t path[N];
    assert_int_equal(accept(tokens, NULL, 2, USUAL, &r, path).next, -1);
    r.blind = 1;
    pf_acceptance a = accept(tokens, NULL, 2, USUAL, &r, path);
    assert_true(a.n_accepted == 0 && a.next == 0);
    r.blind = 2;
    a = accept(tokens, NULL, 2, USUAL, &r, path);
    assert_true(a.n_accepted == 1 && a.next == 0 && path[0] == 0);
}

static void thresholds_out_of_range_are_named(void **state)
{
    (void)state;
    pf_error error;
    const pf_typical cases[] = { { -0.1f, 0.3f }, { 1.1f, 0.3f }, { NAN, 0.3f }, { 0.1f, -1.0f }, { 0.1f, NAN } };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        assert_status(pf_typical_check(&cases[i], &error), PF_INVALID);
        assert_says(error, i < 3 ? "epsilon" : "delta");
    }
    const pf_typical usual = pf_typical_resolve((pf_typical){ 0 }),
                     own = pf_typical_resolve((pf_typical){ 0.5f, 0.0f });
    assert_true(usual.epsilon == USUAL.epsilon && usual.delta == USUAL.delta);
    assert_true(own.epsilon == 0.5f && own.delta == USUAL.delta);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_threshold_falls_with_the_entropy),
        cmocka_unit_test(the_longest_path_that_passes_is_accepted),
        cmocka_unit_test(the_first_token_has_another_distribution_than_the_targets),
        cmocka_unit_test(nothing_is_committed_behind_a_row_without_a_number),
        cmocka_unit_test(thresholds_out_of_range_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
