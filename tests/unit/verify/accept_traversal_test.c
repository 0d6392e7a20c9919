/* Tests traversal verification of trees against its definition in double, and the definition by enumeration of all outcomes. */
#include "tests/support/test.h"

#include <math.h>

#include "tests/support/draw.h"
#include "verify/accept.h"

enum { V = 4, N = 5, N_JOINT = V * V * V };

/*      root -- a -- c        b without a's token, d without c's
 *         |    `--- d
 *         `--- b -- e        */
static const int32_t PARENTS[N] = { -1, -1, 0, 0, 1 };

/* Row t: the distribution of the token that follows t. Sequences begin behind token 0. */
typedef struct {
    double p[V][V], q[V][V];
} world;

typedef struct {
    int32_t tokens[N];
    double q[N][V];     /* what token i was drawn from */
    double p[N + 1][V]; /* of the root, then of the nodes */
} tree;

/* What a definition leaves out: wrong ones. */
typedef enum { RIGHT, KEEPS_THE_WEIGHT, KEEPS_THE_ROW, DECLARES_Q_FOR_BOTH } variant;

static double uniform(uint64_t *random)
{
    return (double)(draw(random) >> 40) * 0x1p-24;
}

static void make_row(uint64_t *random, double *row)
{
    double sum = 0.0;
    for (int32_t x = 0; x < V; x++) sum += row[x] = exp(2.5 * uniform(random));
    for (int32_t x = 0; x < V; x++) row[x] /= sum;
}

static world make_world(uint64_t seed)
{
    world w;
    for (int32_t t = 0; t < V; t++) {
        make_row(&seed, w.p[t]);
        make_row(&seed, w.q[t]);
    }
    return w;
}

/* ---- the definition ------------------------------------------------------------------------------------------------ */

typedef struct {
    const tree *t;
    variant variant;
    double r[N + 1][V], w[N + 1]; /* by node, the root first */
    bool is_out[N], is_seen[N];
} definition;

static int32_t first_child(const definition *d, int32_t node)
{
    for (int32_t i = 0; i < N; i++)
        if (PARENTS[i] == node && !d->is_out[i]) return i;
    return -1;
}

/* The first leaf of what is left: its weight, and those on the way to it. */
static int32_t find_leaf(definition *d)
{
    int32_t node = -1;
    for (int32_t child; (child = first_child(d, node)) >= 0; node = child) {
        const int32_t x = d->t->tokens[child];
        if (d->is_seen[child]) continue;
        d->w[1 + child] = fmin(1.0, d->w[1 + node] * d->r[1 + node][x] / d->t->q[child][x]);
        d->is_seen[child] = true;
    }
    return node;
}

static void reject(definition *d, int32_t node)
{
    const int32_t parent = 1 + PARENTS[node];
    double left[V], sum = 0.0;
    for (int32_t x = 0; x < V; x++) sum += left[x] = fmax(0.0, d->w[parent] * d->r[parent][x] - d->t->q[node][x]);
    for (int32_t x = 0; x < V && d->variant != KEEPS_THE_ROW && sum > 0.0; x++) d->r[parent][x] = left[x] / sum;
    const double open = sum + 1.0 - d->w[parent];
    if (d->variant != KEEPS_THE_WEIGHT && open > 0.0) d->w[parent] = sum / open;
    d->is_out[node] = true;
}

static definition begin(const tree *t, variant v)
{
    definition d = { .t = t, .variant = v, .w = { 1.0 } };
    memcpy(d.r, t->p, sizeof d.r);
    return d;
}

/* The node that is accepted with these uniforms; d->r has what `next` is drawn from. */
static int32_t define_accepted(definition *d, const float *keep, bool *is_close)
{
    for (;;) {
        const int32_t node = find_leaf(d);
        if (node < 0) return node;
        if (fabs((double)keep[node] - d->w[1 + node]) < 1e-5) *is_close = true;
        if ((double)keep[node] < d->w[1 + node]) return node;
        reject(d, node);
    }
}

/* ---- enumeration --------------------------------------------------------------------------------------------------- */

static double remove_token(const double *row, int32_t token, double *out)
{
    const double left = 1.0 - row[token];
    for (int32_t x = 0; x < V; x++) out[x] = x == token ? 0.0 : row[x] / left;
    return left;
}

/* The tree of these tokens, and the probability that a draft draws it. */
static double grow(const world *w, const int32_t *tokens, variant v, tree *t)
{
    double probability = 1.0;
    memcpy(t->tokens, tokens, sizeof t->tokens);
    memcpy(t->p[0], w->p[0], sizeof t->p[0]);
    for (int32_t i = 0; i < N; i++) {
        const double *q = w->q[PARENTS[i] < 0 ? 0 : tokens[PARENTS[i]]];
        const bool is_second = i == 1 || i == 3;
        double drawn[V];
        memcpy(drawn, q, sizeof drawn);
        if (is_second) remove_token(q, tokens[i - 1], drawn);
        probability *= drawn[tokens[i]];
        memcpy(t->q[i], is_second && v == DECLARES_Q_FOR_BOTH ? q : drawn, sizeof drawn);
        memcpy(t->p[1 + i], w->p[tokens[i]], sizeof t->p[0]);
    }
    return probability;
}

/* Adds an outcome: the path to a node, then `next` from r, then what plain decoding adds to three tokens. */
static void add_outcome(const world *w, const tree *t, int32_t node, const double *r, double probability, double *joint)
{
    int32_t text[N] = { 0 }, n = 0, path[N];
    for (int32_t i = node; i >= 0; i = PARENTS[i]) path[n++] = t->tokens[i];
    for (int32_t i = 0; i < n; i++) text[i] = path[n - 1 - i];
    for (int32_t cell = 0; cell < N_JOINT; cell++) {
        const int32_t cells[] = { cell / V / V, cell / V % V, cell % V };
        double share = probability;
        for (int32_t i = 0; i < 3; i++) {
            if (i < n)
                share *= cells[i] == text[i];
            else
                share *= i == n ? r[cells[i]] : w->p[cells[i - 1]][cells[i]];
        }
        joint[cell] += share;
    }
}

/* The joint of three tokens, over all trees and all outcomes of each. */
static void enumerate(const world *w, variant v, double *joint)
{
    int32_t n_trees = 1;
    for (int32_t i = 0; i < N; i++) n_trees *= V;
    memset(joint, 0, N_JOINT * sizeof *joint);
    for (int32_t number = 0; number < n_trees; number++) {
        int32_t tokens[N];
        for (int32_t i = 0, rest = number; i < N; i++, rest /= V) tokens[i] = rest % V;
        tree t;
        double probability = grow(w, tokens, v, &t);
        if (!(probability > 0.0)) continue;
        definition d = begin(&t, v);
        for (int32_t node = 0; node >= 0;) {
            node = find_leaf(&d);
            const double passes = node < 0 ? 1.0 : d.w[1 + node];
            add_outcome(w, &t, node, d.r[1 + node], probability * passes, joint);
            probability *= 1.0 - passes;
            if (node >= 0) reject(&d, node);
        }
    }
}

static double largest_error(const world *w, variant v)
{
    double joint[N_JOINT], error = 0.0;
    enumerate(w, v, joint);
    for (int32_t cell = 0; cell < N_JOINT; cell++) {
        const int32_t a = cell / V / V, b = cell / V % V, c = cell % V;
        error = fmax(error, fabs(joint[cell] - w->p[0][a] * w->p[a][b] * w->p[b][c]));
    }
    return error;
}

static void all_outcomes_together_have_the_targets_distribution(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        const world w = make_world(seed);
        const double error = largest_error(&w, RIGHT);
        if (error > 1e-12) fail_msg("world %llu: an error of %g", (unsigned long long)seed, error);
    }
}

static void wrong_definitions_have_another_distribution(void **state)
{
    (void)state;
    const variant variants[] = { KEEPS_THE_WEIGHT, KEEPS_THE_ROW, DECLARES_Q_FOR_BOTH };
    const world w = make_world(1);
    for (size_t i = 0; i < PF_COUNT(variants); i++) assert_true(largest_error(&w, variants[i]) > 1e-4);
}

/* ---- the implementation -------------------------------------------------------------------------------------------- */

typedef struct {
    float p[N + 1][V];
    int32_t blind; /* the row that holds no number; -1: none */
} rows;

static const float *row_of(void *user, int32_t row)
{
    const rows *r = user;
    return row == r->blind ? NULL : r->p[row];
}

static pf_acceptance accept(const tree *t, bool declares, const int32_t *parents, int32_t blind, const float *keep,
                            float next, int32_t *path)
{
    static const int32_t ids[V] = { 0, 1, 2, 3 };
    static float at[N * PF_MAX_DECLARED];
    float q[N][V], r[V];
    rows given = { .blind = blind };
    pf_declared declared[N];
    pf_accept_uniforms uniforms[N + 1];
    for (int32_t i = 0; i <= N; i++)
        for (int32_t x = 0; x < V; x++) given.p[i][x] = (float)t->p[i][x];
    for (int32_t i = 0; i < N; i++) {
        for (int32_t x = 0; x < V; x++) q[i][x] = (float)t->q[i][x];
        declared[i] = (pf_declared){ ids, q[i], V };
    }
    for (int32_t i = 0; i <= N; i++) uniforms[i] = (pf_accept_uniforms){ i < N ? keep[i] : 0.0f, next };
    const pf_drafted drafted = { t->tokens, parents, declares ? declared : NULL, N };
    return pf_accept_traversal(&drafted, V, row_of, &given, uniforms, r, at, path);
}

/* A tree of these tokens whose tokens are declared by nothing. */
static void make_one_hot(tree *t)
{
    memset(t->q, 0, sizeof t->q);
    for (int32_t i = 0; i < N; i++) t->q[i][t->tokens[i]] = 1.0;
}

static void a_tree_is_judged_as_its_definition_says(void **state)
{
    (void)state;
    enum { TRIALS = 40000 };
    uint64_t random = 5;
    int32_t n_judged = 0, n_deep = 0;
    for (int32_t trial = 0; trial < TRIALS; trial++) {
        const world w = make_world(draw(&random));
        int32_t tokens[N], path[N];
        float keep[N];
        for (int32_t i = 0; i < N; i++) tokens[i] = (int32_t)(draw(&random) % V);
        for (int32_t i = 0; i < N; i++) keep[i] = (float)uniform(&random);
        tree t;
        if (!(grow(&w, tokens, RIGHT, &t) > 0.0)) continue;
        const bool declares = trial % 4 != 0;
        if (!declares) make_one_hot(&t);
        const float next = (float)uniform(&random);
        definition d = begin(&t, RIGHT);
        bool is_close = false;
        const int32_t node = define_accepted(&d, keep, &is_close);
        const pf_acceptance a = accept(&t, declares, PARENTS, -1, keep, next, path);
        if (is_close) continue; /* floats may decide either way */
        assert_int_equal(a.n_accepted > 0 ? path[a.n_accepted - 1] : -1, node);
        double before = 0.0, *r = d.r[1 + node];
        for (int32_t x = 0; x < a.next; x++) before += r[x];
        assert_true((double)next >= before - 1e-5 && (double)next <= before + r[a.next] + 1e-5);
        n_judged++;
        n_deep += a.n_accepted == 2;
    }
    assert_true(n_judged > TRIALS / 4);
    assert_true(n_deep > n_judged / 10);
}

static void a_chain_is_judged_as_a_block(void **state)
{
    (void)state;
    uint64_t random = 6;
    for (int32_t trial = 0; trial < 20000; trial++) {
        const world w = make_world(draw(&random));
        tree t = { .tokens = { 0 } };
        memcpy(t.p[0], w.p[0], sizeof t.p[0]);
        for (int32_t i = 0; i < N; i++) {
            t.tokens[i] = (int32_t)(draw(&random) % V);
            memcpy(t.q[i], w.q[i == 0 ? 0 : t.tokens[i - 1]], sizeof t.q[i]);
            memcpy(t.p[1 + i], w.p[t.tokens[i]], sizeof t.p[0]);
        }
        static const int32_t ids[V] = { 0, 1, 2, 3 };
        float keep[N], q[N][V], r[V];
        const float next = (float)uniform(&random);
        rows given = { .blind = -1 };
        pf_declared declared[N];
        pf_accept_uniforms uniforms[N + 1] = { 0 };
        for (int32_t i = 0; i < N; i++) {
            uniforms[i].keep = keep[i] = (float)uniform(&random);
            for (int32_t x = 0; x < V; x++) q[i][x] = (float)t.q[i][x];
            declared[i] = (pf_declared){ ids, q[i], V };
        }
        for (int32_t i = 0; i <= N; i++) {
            uniforms[i].next = next;
            for (int32_t x = 0; x < V; x++) given.p[i][x] = (float)t.p[i][x];
        }
        const pf_drafted chain = { t.tokens, NULL, declared, N };
        int32_t path[N], block_path[N];
        const pf_acceptance block = pf_accept_block(&chain, V, row_of, &given, uniforms, r, block_path);
        const pf_acceptance found = accept(&t, true, NULL, -1, keep, next, path);
        if (found.n_accepted != block.n_accepted || found.next != block.next)
            fail_msg("trial %d: %d tokens and %d, as a block %d and %d", (int)trial, (int)found.n_accepted,
                     (int)found.next, (int)block.n_accepted, (int)block.next);
    }
}

static void nothing_is_committed_behind_a_row_without_a_number(void **state)
{
    (void)state;
    const world w = make_world(3);
    const int32_t tokens[N] = { 1, 2, 3, 0, 1 };
    const float all[N] = { 0 }, none[N] = { 1, 1, 1, 1, 1 };
    tree t;
    int32_t path[N];
    (void)grow(&w, tokens, RIGHT, &t);
    pf_acceptance a = accept(&t, true, PARENTS, 0, all, 0.5f, path); /* of the root */
    assert_int_equal(a.next, -1);
    a = accept(&t, true, PARENTS, 1, all, 0.5f, path); /* of a, behind which nothing is judged */
    assert_true(a.n_accepted == 0 && a.next == tokens[0]);
    a = accept(&t, true, PARENTS, 3, all, 0.5f, path); /* of c */
    assert_true(a.n_accepted == 1 && path[0] == 0 && a.next == tokens[2]);
    a = accept(&t, true, PARENTS, 3, none, 0.5f, path);
    assert_int_equal(a.n_accepted, 0);
    assert_in_range(a.next, 0, V - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_outcomes_together_have_the_targets_distribution),
        cmocka_unit_test(wrong_definitions_have_another_distribution),
        cmocka_unit_test(a_tree_is_judged_as_its_definition_says),
        cmocka_unit_test(a_chain_is_judged_as_a_block),
        cmocka_unit_test(nothing_is_committed_behind_a_row_without_a_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
