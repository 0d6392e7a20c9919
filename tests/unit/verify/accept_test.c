/*
 * Acceptance: exact cases first, then the distribution.
 *
 * The world of the statistics is small enough to know exactly: a vocabulary of eight, a target and a draft that look
 * one token back. A trial runs rounds of two draft tokens until three are committed, and a million trials are held
 * against the 512 products of the target's probabilities: the first token, corrections, bonus tokens and what
 * follows a refusal are all in there. Rules that are wrong in ways that have been believed right go through the same
 * trial, and the same test must tell.
 */
#include "tests/support/test.h"

#include <math.h>
#include <stdbool.h>

#include "tests/support/chi_square.h"
#include "tests/support/draw.h"
#include "verify/accept.h"

/* ---- rows that are there ------------------------------------------------------------------------------------- */

enum { V = 8, N_DRAFT = 2, N_COMMITTED = 3, N_CELLS = V * V * V, TRIALS = 1000000, LARGEST = 5000 };

/* The target's choices, which are asked for along the path alone. */
typedef struct {
    const int32_t *best;
    int32_t n_asked;
} choices;

static int32_t best_of(void *rows, int32_t row, int32_t n_kept)
{
    choices *c = rows;
    assert_int_equal(n_kept, c->n_asked++);
    return c->best[row];
}

static pf_acceptance accept_exact(const int32_t *draft, const int32_t *parents, int32_t n_draft, const int32_t *best,
                                  int32_t *path)
{
    choices c = { .best = best };
    const pf_drafted drafted = { .tokens = draft, .parents = parents, .n = n_draft };
    return pf_accept_exact(&drafted, best_of, &c, path);
}

/* p [n, n_vocab]; further rows decide nothing. */
typedef struct {
    const float *p;
    int32_t n, n_vocab;
} distributions;

static const float *row_of(void *rows, int32_t row)
{
    const distributions *d = rows;
    return row < d->n ? d->p + (size_t)row * (size_t)d->n_vocab : NULL;
}

/* What is kept of up to N_DRAFT tokens: q [n_draft, n_vocab], or NULL; p [n_rows, n_vocab]; uniform [n_draft + 1], the last for
 * whatever is drawn. */
static pf_acceptance accept_rows(const int32_t *draft, int32_t n_draft, int32_t n_vocab, const float *q, const float *p,
                                 int32_t n_rows, const float *uniform)
{
    static int32_t ids[LARGEST];
    static float room[LARGEST];
    for (int32_t x = 0; x < n_vocab; x++) ids[x] = x;
    pf_declared declared[N_DRAFT];
    pf_accept_uniforms u[N_DRAFT + 1];
    for (int32_t i = 0; i < n_draft && q; i++)
        declared[i] = (pf_declared){ ids, q + (size_t)i * (size_t)n_vocab, n_vocab };
    for (int32_t i = 0; i <= n_draft; i++) u[i] = (pf_accept_uniforms){ .keep = uniform[i], .next = uniform[n_draft] };
    distributions rows = { p, n_rows, n_vocab };
    const pf_drafted drafted = { .tokens = draft, .declared = q ? declared : NULL, .n = n_draft };
    int32_t path[N_DRAFT];
    const pf_acceptance a = pf_accept_rejection(&drafted, n_vocab, row_of, &rows, u, room, path);
    for (int32_t i = 0; i < a.n_accepted; i++)
        if (path[i] != i) fail_msg("token %d of a chain is the path's %d", (int)path[i], (int)i);
    for (int32_t x = 0; x < n_vocab; x++)
        if (room[x] != 0.0f) fail_msg("the room for q is left with %g at %d", (double)room[x], (int)x);
    return a;
}

static pf_acceptance accept_rejection(const int32_t *draft, int32_t n_draft, int32_t n_vocab, const float *q,
                                      const float *p, const float *uniform)
{
    return accept_rows(draft, n_draft, n_vocab, q, p, n_draft + 1, uniform);
}

static pf_acceptance accept_tokens(const int32_t *draft, int32_t n_draft, int32_t n_vocab, const float *p,
                                   const float *uniform)
{
    return accept_rejection(draft, n_draft, n_vocab, NULL, p, uniform);
}

/* The bonus. */
static int32_t draw_next(const float *p, int32_t n_vocab, float uniform)
{
    return accept_tokens(NULL, 0, n_vocab, p, &uniform).next;
}

/* ---- exact cases --------------------------------------------------------------------------------------------- */

static void exact_keeps_the_longest_prefix_that_the_target_agrees_with(void **state)
{
    (void)state;
    const int32_t best[] = { 5, 6, 7, 8 };
    const struct {
        int32_t draft[3];
        int32_t n_accepted, next;
    } cases[] = {
        { { 5, 6, 7 }, 3, 8 }, /* all kept: the bonus */
        { { 5, 6, 0 }, 2, 7 },
        { { 5, 0, 7 }, 1, 6 },
        { { 0, 6, 7 }, 0, 5 }, /* later agreement does not count */
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        int32_t path[3];
        const pf_acceptance a = accept_exact(cases[i].draft, NULL, 3, best, path);
        assert_int_equal(a.n_accepted, cases[i].n_accepted);
        assert_int_equal(a.next, cases[i].next);
        for (int32_t j = 0; j < a.n_accepted; j++) assert_int_equal(path[j], j);
    }
}

/*   5 -- 6 -- 7     the chain that was drafted
 *   |    `--- 1
 *   2 -- 3          and what was thought possible besides; `best` is what the target chooses behind each */
static void exact_keeps_the_targets_path_of_a_tree(void **state)
{
    (void)state;
    enum { N = 6 };
    const int32_t draft[N] = { 5, 6, 7, 2, 1, 3 }, parents[N] = { -1, 0, 1, -1, 1, 3 };
    const struct {
        int32_t best[1 + N], n_accepted, path[3], next;
    } cases[] = {
        { { 5, 6, 7, 8, 0, 0, 0 }, 3, { 0, 1, 2 }, 8 },
        { { 5, 6, 1, 0, 0, 9, 0 }, 3, { 0, 1, 4 }, 9 },
        { { 2, 0, 0, 0, 3, 0, 4 }, 2, { 3, 5 }, 4 },
        { { 2, 0, 0, 0, 6, 0, 0 }, 1, { 3 }, 6 }, /* 6 stands behind 5 alone */
        { { 3, 0, 0, 0, 0, 0, 0 }, 0, { 0 }, 3 },
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        int32_t path[N];
        const pf_acceptance a = accept_exact(draft, parents, N, cases[i].best, path);
        assert_int_equal(a.n_accepted, cases[i].n_accepted);
        assert_int_equal(a.next, cases[i].next);
        for (int32_t j = 0; j < a.n_accepted; j++) assert_int_equal(path[j], cases[i].path[j]);
    }
}

static void an_empty_draft_is_plain_decoding(void **state)
{
    (void)state;
    const pf_acceptance exact = accept_exact(NULL, NULL, 0, (const int32_t[]){ 42 }, NULL);
    assert_int_equal(exact.n_accepted, 0);
    assert_int_equal(exact.next, 42);

    const float p[] = { .25f, .0f, .75f };
    const float u[] = { .24f }, v[] = { .26f };
    assert_int_equal(accept_rejection(NULL, 0, 3, NULL, p, u).next, 0);
    assert_int_equal(accept_rejection(NULL, 0, 3, NULL, p, v).next, 2);
    assert_int_equal(accept_tokens(NULL, 0, 3, p, v).next, 2);
    assert_int_equal(accept_tokens(NULL, 0, 3, p, v).n_accepted, 0);
}

static void nothing_is_committed_behind_the_last_row_with_a_number(void **state)
{
    (void)state;
    const int32_t draft[] = { 1, 1 }, best[] = { 1, -1 };
    const float p[] = { 0.f, 1.f, 0.f, 1.f, 0.f, 1.f }, u[] = { .5f, .5f, .5f };
    int32_t path[2];
    for (int32_t n_rows = 0; n_rows <= 3; n_rows++) {
        const pf_acceptance a = accept_rows(draft, 2, 2, NULL, p, n_rows, u);
        assert_int_equal(a.n_accepted, n_rows == 0 ? 0 : n_rows - 1);
        assert_int_equal(a.next, n_rows == 0 ? -1 : 1);
        if (n_rows > 1) continue;
        const pf_acceptance exact = accept_exact(draft, NULL, 2, best + 1 - n_rows, path);
        assert_int_equal(exact.n_accepted, 0);
        assert_int_equal(exact.next, a.next);
    }
}

static void equal_distributions_accept_everything(void **state)
{
    (void)state;
    const float row[] = { .1f, .2f, .3f, .4f, .1f, .2f, .3f, .4f };
    const int32_t draft[] = { 2 };
    for (int i = 0; i < 100; i++) {
        const float u[] = { (float)i / 100.0f, .5f };
        assert_int_equal(accept_rejection(draft, 1, 4, row, row, u).n_accepted, 1);
    }
}

static void disjoint_supports_refuse_and_draw_from_the_target(void **state)
{
    (void)state;
    const float q[] = { 1.f, 0.f, 0.f };
    const float p[] = { 0.f, .5f, .5f, 1.f, 0.f, 0.f };
    const int32_t draft[] = { 0 };
    assert_int_equal(accept_rejection(draft, 1, 3, q, p, (const float[]){ 0.f, 0.0f }).next, 1);
    assert_int_equal(accept_rejection(draft, 1, 3, q, p, (const float[]){ 0.f, .99f }).next, 2);
}

static void the_residual_is_renormalised(void **state)
{
    (void)state;
    const float q[] = { .5f, .25f, .25f };
    const float p[] = { .25f, .375f, .375f, 1.f, 0.f, 0.f }; /* residual 0, 1/8, 1/8 */
    const int32_t draft[] = { 0 };
    assert_int_equal(accept_rejection(draft, 1, 3, q, p, (const float[]){ .49f, .9f }).n_accepted, 1);
    const pf_acceptance low = accept_rejection(draft, 1, 3, q, p, (const float[]){ .5f, .49f });
    const pf_acceptance high = accept_rejection(draft, 1, 3, q, p, (const float[]){ .5f, .5f });
    assert_int_equal(low.n_accepted, 0);
    assert_int_equal(low.next, 1);
    assert_int_equal(high.next, 2);
}

static void distributions_that_differ_by_rounding_alone_still_yield_a_token(void **state)
{
    (void)state;
    const float q[] = { .5f, .5f };
    const float p[] = { .49999997f, .5f, .5f, .5f }; /* below q at the drafted token, above it nowhere */
    const int32_t draft[] = { 0 };
    for (int32_t next = 0; next < 2; next++) { /* which, the uniform of the correction says */
        const pf_acceptance a = accept_rejection(draft, 1, 2, q, p, (const float[]){ .99999994f, next ? .7f : .3f });
        assert_int_equal(a.n_accepted, 0);
        assert_int_equal(a.next, next);
    }
}

static void a_token_that_its_own_distribution_excludes_is_refused(void **state)
{
    (void)state;
    const float p[] = { .5f, .5f, 1.f, 0.f };
    const int32_t draft[] = { 0 };
    const float bad[] = { 0.f, -1.f, NAN };
    for (size_t i = 0; i < PF_COUNT(bad); i++) {
        const float q[] = { bad[i], 0.f };
        const pf_acceptance a = accept_rejection(draft, 1, 2, q, p, (const float[]){ 0.f, .9f });
        assert_int_equal(a.n_accepted, 0);
        assert_int_equal(a.next, 1);
    }
}

static void a_token_without_a_distribution_is_kept_with_the_targets_probability_and_never_drawn_again(void **state)
{
    (void)state;
    const float p[] = { .25f, .5f, .25f, 0.f, 0.f, 1.f };
    const int32_t draft[] = { 1 };
    for (int i = 0; i < 64; i++) {
        for (int j = 0; j < 64; j++) {
            const float u[] = { (float)i / 64.0f, (float)j / 64.0f };
            const pf_acceptance a = accept_tokens(draft, 1, 3, p, u);
            assert_int_equal(a.n_accepted, i < 32);
            assert_int_equal(a.next, i < 32 ? 2 : j < 32 ? 0 : 2);
        }
    }
}

/* Weights of many tokens, most of them 0 in every other case, which sum to 1. */
static void make_weights(uint64_t *random, int32_t n, bool sparse, float *out)
{
    double sum = 0.0;
    for (int32_t i = 0; i < n; i++) {
        const uint32_t bits = (uint32_t)(draw(random) >> 32);
        out[i] = sparse && bits % 7 && n > 1 ? 0.0f : (float)(bits >> 8) * 0x1p-24f + 1e-6f;
        sum += (double)out[i];
    }
    for (int32_t i = 0; i < n; i++) out[i] = (float)((double)out[i] / sum);
}

/* Token by token: the first at which the residual's running sum is above u times its total. */
static void a_draw_is_where_the_running_sum_passes_whatever_the_vocabulary(void **state)
{
    (void)state;
    static const int32_t sizes[] = { 1, 2, 9, 255, 256, 257, 511, 512, 1000, LARGEST };
    static float p[2 * LARGEST], q[LARGEST]; /* of p a row more, for where the token is kept */
    static double residual[LARGEST];
    uint64_t random = 77;
    for (size_t s = 0; s < PF_COUNT(sizes); s++)
        for (int form = 0; form < 4; form++) {
            const int32_t n = sizes[s], token = n / 2;
            make_weights(&random, n, form % 2, p);
            memcpy(p + n, p, (size_t)n * sizeof *p);
            make_weights(&random, n, form % 2, q);
            if (form >= 2) q[token] = 1.0f; /* so that it is refused by an uniform near 1, where p leaves anything */
            double total = 0.0;
            for (int32_t i = 0; i < n; i++) {
                residual[i] = form < 2 ? (double)p[i] : p[i] > q[i] ? (double)p[i] - (double)q[i] : 0.0;
                total += residual[i];
            }
            if (!(total > 0.0)) continue;
            for (int32_t k = 0; k < 400; k++) {
                const float u = k == 399 ? 0x1.fffffep-1f : (float)k / 399.0f;
                const float uniforms[] = { 0x1.fffffep-1f, u };
                const int32_t n_draft = form < 2 ? 0 : 1;
                const pf_acceptance a = accept_rejection(&token, n_draft, n, q, p, uniforms + 1 - n_draft);
                if (a.n_accepted > 0) continue;
                const int32_t got = a.next;
                assert_in_range(got, 0, n - 1);
                assert_true(residual[got] > 0.0);
                double before = 0.0;
                for (int32_t i = 0; i < got; i++) before += residual[i];
                assert_true(before <= (double)u * total + 1e-9);
                assert_true(before + residual[got] > (double)u * total - 1e-9);
            }
        }
}

/* Two halves of equal weights in another order, whose sums differ by rounding alone: the middle lies within it. */
static void if_rounding_leaves_no_token_the_last_with_weight_is_drawn(void **state)
{
    (void)state;
    enum { HALF = 256, WITH_WEIGHT = 200 };
    static float p[2 * HALF];
    uint64_t random = 79;
    for (int trial = 0; trial < 2000; trial++) {
        make_weights(&random, WITH_WEIGHT, false, p);
        for (int32_t i = 0; i < WITH_WEIGHT; i++) p[i] = ldexpf(p[i], -below(&random, 40)); /* else no sum is rounded */
        for (int32_t i = 0; i < WITH_WEIGHT; i++) p[HALF + i] = p[WITH_WEIGHT - 1 - i];
        const int32_t got = draw_next(p, 2 * HALF, 0.5f);
        assert_in_range(got, 0, 2 * HALF - 1);
        assert_true(p[got] > 0.0f);
    }
}

static void no_weight_is_too_small_to_be_counted(void **state)
{
    (void)state;
    enum { N_SMALL = 64, N = N_SMALL + 2, EVERY = 8, LAST = 256 };
    float between[N] = { [0] = .3f, [N - 1] = .3f };
    for (int32_t i = 1; i < N - 1; i++) between[i] = 0x1p-34f;
    assert_int_equal(draw_next(between, N, .5f), 1 + N_SMALL / 2);

    float behind[LAST + 1] = { [0] = 1.f - 0x1p-21f }; /* and 32 that a float of its size does not feel */
    for (int32_t i = EVERY; i <= LAST; i += EVERY) behind[i] = 0x1p-26f;
    assert_int_equal(draw_next(behind, LAST + 1, 1.f - 0x1p-22f), EVERY * 17);
}

static void the_least_uniform_draws_the_first_that_has_weight_however_far(void **state)
{
    (void)state;
    enum { N = 1200 };
    static float p[N];
    for (int32_t first = 0; first < N; first += 97) {
        memset(p, 0, sizeof p);
        p[first] = p[N - 1] = 0.5f;
        assert_int_equal(draw_next(p, N, 0.0f), first);
    }
}

static void a_certain_token_is_kept_and_an_impossible_one_refused_whatever_the_uniform(void **state)
{
    (void)state;
    const float p[] = { 0.f, 1.f, .5f, .5f };
    const float us[] = { 0.f, .5f, 1.f - 0x1p-24f };
    for (size_t i = 0; i < PF_COUNT(us); i++) {
        const float u[] = { us[i], us[i] };
        assert_int_equal(accept_tokens((const int32_t[]){ 1 }, 1, 2, p, u).n_accepted, 1);
        const pf_acceptance a = accept_tokens((const int32_t[]){ 0 }, 1, 2, p, u);
        assert_int_equal(a.n_accepted, 0);
        assert_int_equal(a.next, 1);
    }
}

/* ---- the distribution ---------------------------------------------------------------------------------------- */

static double uniform53(uint64_t *rng)
{
    return (double)(draw(rng) >> 11) * 0x1p-53;
}
static float uniform24(uint64_t *rng)
{
    return (float)(draw(rng) >> 40) * 0x1p-24f;
}

/* Row t: the distribution of the token that follows t. Sequences begin behind token 0. */
typedef struct {
    float p[V][V];
    float q[V][V];
} world;

static void normalise(float *row)
{
    double sum = 0.0;
    for (int32_t x = 0; x < V; x++) sum += (double)row[x];
    for (int32_t x = 0; x < V; x++) row[x] = (float)((double)row[x] / sum);
}

/* row with all but its n largest entries gone (ties to the lowest id), as a drafter truncates before it draws. */
static void keep_top(float *row, int32_t n)
{
    float kept[V] = { 0 };
    for (int32_t k = 0; k < n; k++) {
        int32_t best = 0;
        for (int32_t x = 1; x < V; x++)
            if (row[x] - kept[x] > row[best] - kept[best]) best = x;
        kept[best] = row[best];
    }
    memcpy(row, kept, sizeof kept);
    normalise(row);
}

/* A target with gaps (top-6 of 8) and a draft that resembles it: tempered by `power` and cut to `top`. */
static world make_world(uint64_t seed, double power, int32_t top)
{
    world w;
    for (int32_t t = 0; t < V; t++) {
        for (int32_t x = 0; x < V; x++) {
            const double shared = 3.0 * uniform53(&seed);
            w.p[t][x] = (float)exp(shared + 1.5 * uniform53(&seed));
            w.q[t][x] = (float)exp(power * (shared + 1.5 * uniform53(&seed)));
        }
        keep_top(w.p[t], 6);
        keep_top(w.q[t], top);
    }
    return w;
}

static int32_t draw_from(const float *row, uint64_t *rng)
{
    const double u = uniform53(rng);
    double sum = 0.0;
    int32_t last = 0;
    for (int32_t x = 0; x < V && sum <= u; x++) {
        if (row[x] > 0.0f) {
            sum += (double)row[x];
            last = x;
        }
    }
    return last;
}

typedef pf_acceptance accept_fn(const int32_t *draft, int32_t n_draft, const float *q, const float *p,
                                const float *uniform);

/* How a round goes: what the drafter declares of the row that it drew from, when it stops, how the verifier judges. */
typedef struct {
    int32_t (*choose)(const float *q, uint64_t *rng);
    void (*declare)(float *q);                       /* NULL: q as it was drawn from */
    bool (*withhold)(int32_t drawn, const float *q); /* NULL: never */
    bool (*end_with)(int32_t drawn, const float *q); /* no more behind it; NULL: N_DRAFT */
    accept_fn *accept;
    bool is_block; /* which takes two uniforms a row */
} rule;

/* One round behind `last`; returns how many tokens it commits to out. */
static int32_t run_round(const world *w, const rule *r, int32_t last, uint64_t *rng, int32_t *out)
{
    float q[N_DRAFT * V], p[(N_DRAFT + 1) * V], u[2 * (N_DRAFT + 1)];
    int32_t n = 0;
    memcpy(p, w->p[last], sizeof w->p[0]);
    for (bool ended = false; n < N_DRAFT && !ended; n++) {
        const float *row = w->q[last];
        const int32_t x = r->choose(row, rng);
        if (r->withhold && r->withhold(x, row)) break;
        memcpy(q + n * V, row, V * sizeof *q);
        if (r->declare) r->declare(q + n * V);
        memcpy(p + (n + 1) * V, w->p[x], sizeof w->p[0]);
        out[n] = last = x;
        ended = r->end_with && r->end_with(x, row);
    }
    for (int32_t i = 0; i <= n; i++) u[i] = uniform24(rng);
    for (int32_t i = n + 1; r->is_block && i < 2 * (n + 1); i++) u[i] = uniform24(rng);
    const pf_acceptance a = r->accept(out, n, q, p, u);
    out[a.n_accepted] = a.next;
    return a.n_accepted + 1;
}

/* The smaller tail probability of two tests over the same trials: the joint of three tokens, and the first alone
 * (fewer degrees of freedom, so a fault there shows sooner). */
static double test_rule(const world *w, const rule *r)
{
    uint64_t seed = 7;
    static int64_t joint[N_CELLS], first[V];
    static double joint_p[N_CELLS], first_p[V];
    memset(joint, 0, sizeof joint);
    memset(first, 0, sizeof first);
    for (int i = 0; i < TRIALS; i++) {
        int32_t tokens[N_COMMITTED + N_DRAFT + 1];
        int32_t n = 0;
        while (n < N_COMMITTED) n += run_round(w, r, n ? tokens[n - 1] : 0, &seed, tokens + n);
        joint[(tokens[0] * V + tokens[1]) * V + tokens[2]]++;
        first[tokens[0]]++;
    }
    for (int32_t a = 0; a < V; a++) {
        first_p[a] = (double)w->p[0][a];
        for (int32_t b = 0; b < V; b++)
            for (int32_t c = 0; c < V; c++)
                joint_p[(a * V + b) * V + c] = (double)w->p[0][a] * (double)w->p[a][b] * (double)w->p[b][c];
    }
    return fmin(pf_chi_square_test(joint, joint_p, N_CELLS, TRIALS), pf_chi_square_test(first, first_p, V, TRIALS));
}

static pf_acceptance right_rejection(const int32_t *draft, int32_t n_draft, const float *q, const float *p,
                                     const float *uniform)
{
    return accept_rejection(draft, n_draft, V, q, p, uniform);
}

/* As accept_rows, with the judge under test: uniform [2 * (n_draft + 1)], one to keep and one to draw each. */
static pf_acceptance judge_block(const int32_t *draft, int32_t n_draft, const float *q, const float *p,
                                 const float *uniform)
{
    static int32_t ids[V];
    float r[V];
    pf_declared declared[N_DRAFT];
    pf_accept_uniforms u[N_DRAFT + 1];
    for (int32_t x = 0; x < V; x++) ids[x] = x;
    for (int32_t i = 0; i < n_draft && q; i++) declared[i] = (pf_declared){ ids, q + i * V, V };
    for (int32_t i = 0; i <= n_draft; i++) u[i] = (pf_accept_uniforms){ uniform[2 * i], uniform[2 * i + 1] };
    distributions rows = { p, n_draft + 1, V };
    const pf_drafted drafted = { .tokens = draft, .declared = q ? declared : NULL, .n = n_draft };
    int32_t path[N_DRAFT];
    const pf_acceptance a = pf_accept_block(&drafted, V, row_of, &rows, u, r, path);
    for (int32_t i = 0; i < a.n_accepted; i++)
        if (path[i] != i) fail_msg("token %d of a chain is the path's %d", (int)path[i], (int)i);
    return a;
}

static pf_acceptance judge_block_of_tokens(const int32_t *draft, int32_t n_draft, const float *q, const float *p,
                                           const float *uniform)
{
    (void)q;
    return judge_block(draft, n_draft, NULL, p, uniform);
}

/* The definition, in double: arXiv:2403.10444, algorithm 2, word by word. `stops`: an implementation that leaves at the first part that does
 * not pass, as rejection does. */
static pf_acceptance define_block(const int32_t *draft, int32_t n, const float *q, const float *p, const float *uniform,
                                  bool stops)
{
    double weights[N_DRAFT + 1] = { 1.0 };
    int32_t n_kept = 0;
    for (int32_t i = 1; i <= n; i++) {
        const double ratio = (double)p[(i - 1) * V + draft[i - 1]] / (double)q[(i - 1) * V + draft[i - 1]];
        weights[i] = fmin(1.0, weights[i - 1] * ratio);
        double left = 0.0;
        for (int32_t x = 0; i < n && x < V; x++)
            left += fmax(0.0, weights[i] * (double)p[i * V + x] - (double)q[i * V + x]);
        const double passes = i == n ? weights[i] : left / (left + 1.0 - weights[i]);
        if ((double)uniform[2 * (i - 1)] < passes)
            n_kept = i;
        else if (stops)
            break;
    }
    double residual[V], total = 0.0, sum = 0.0;
    for (int32_t x = 0; x < V; x++) {
        const double at = (double)p[n_kept * V + x];
        residual[x] = n_kept == n ? at : fmax(0.0, weights[n_kept] * at - (double)q[n_kept * V + x]);
        total += residual[x];
    }
    int32_t next = 0;
    for (int32_t x = 0; x < V && sum <= (double)uniform[2 * n_kept + 1] * total; x++) {
        if (residual[x] > 0.0) next = x;
        sum += residual[x];
    }
    return (pf_acceptance){ n_kept, next };
}

static pf_acceptance defined_block(const int32_t *draft, int32_t n, const float *q, const float *p, const float *u)
{
    return define_block(draft, n, q, p, u, false);
}

static pf_acceptance block_that_stops_at_the_first_failure(const int32_t *draft, int32_t n, const float *q,
                                                           const float *p, const float *u)
{
    return define_block(draft, n, q, p, u, true);
}

static pf_acceptance right_tokens(const int32_t *draft, int32_t n_draft, const float *q, const float *p,
                                  const float *uniform)
{
    (void)q;
    return accept_tokens(draft, n_draft, V, p, uniform);
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the type is that of rule.choose. */
static int32_t choose_most_probable(const float *q, uint64_t *rng)
{
    (void)rng;
    int32_t best = 0;
    for (int32_t x = 1; x < V; x++)
        if (q[x] > q[best]) best = x;
    return best;
}

static void assert_lossless(const world *w, const rule *r)
{
    const double tail = test_rule(w, r);
    if (tail < PF_CHI_FALSE_ALARM)
        fail_msg("tail probability %.2g, expected at least %.0g: the rule is lossy", tail, PF_CHI_FALSE_ALARM);
}

static void assert_caught(const world *w, const rule *r)
{
    const double tail = test_rule(w, r);
    if (tail >= PF_CHI_FALSE_ALARM)
        fail_msg("tail probability %.2g: this test could not tell a lossy rule from the right one", tail);
}

static void rejection_commits_with_the_targets_distribution(void **state)
{
    (void)state;
    const rule r = { .choose = draw_from, .accept = right_rejection };
    const world plain = make_world(1, 1.0, V);
    assert_lossless(&plain, &r);
}

static void rejection_is_exact_for_a_draft_that_was_tempered_and_truncated_before_the_draw(void **state)
{
    (void)state;
    const rule r = { .choose = draw_from, .accept = right_rejection };
    const world sharp = make_world(2, 2.0, 3), flat = make_world(3, 0.4, 5);
    assert_lossless(&sharp, &r);
    assert_lossless(&flat, &r);
}

static void tokens_alone_are_exact_whether_chosen_or_drawn(void **state)
{
    (void)state;
    const world w = make_world(4, 1.0, V);
    assert_lossless(&w, &(rule){ .choose = choose_most_probable, .accept = right_tokens });
    assert_lossless(&w, &(rule){ .choose = draw_from, .accept = right_tokens });
}

static bool is_unlikely(int32_t drawn, const float *q)
{
    return q[drawn] < 0.05f;
}

/* ---- blocks -------------------------------------------------------------------------------------------------- */

static void a_block_is_judged_as_its_definition_says(void **state)
{
    (void)state;
    uint64_t random = 5;
    int32_t n_kept[N_DRAFT + 1] = { 0 };
    const world w = make_world(6, 0.7, 6);
    for (int trial = 0; trial < 20000; trial++) {
        float q[N_DRAFT * V], p[(N_DRAFT + 1) * V], u[2 * (N_DRAFT + 1)];
        int32_t draft[N_DRAFT], last = 0;
        memcpy(p, w.p[0], sizeof w.p[0]);
        for (int32_t i = 0; i < N_DRAFT; i++) {
            memcpy(q + i * V, w.q[last], sizeof w.q[0]);
            last = draft[i] = draw_from(w.q[last], &random);
            memcpy(p + (i + 1) * V, w.p[last], sizeof w.p[0]);
        }
        for (int32_t i = 0; i < 2 * (N_DRAFT + 1); i++) u[i] = uniform24(&random);
        const pf_acceptance a = judge_block(draft, N_DRAFT, q, p, u), b = defined_block(draft, N_DRAFT, q, p, u);
        n_kept[b.n_accepted]++;
        if (a.n_accepted != b.n_accepted || a.next != b.next)
            fail_msg("trial %d: %d tokens and %d, the definition keeps %d and %d", trial, (int)a.n_accepted,
                     (int)a.next, (int)b.n_accepted, (int)b.next);
    }
    for (int32_t n = 0; n <= N_DRAFT; n++) assert_true(n_kept[n] > 500);
}

static void a_block_commits_with_the_targets_distribution(void **state)
{
    (void)state;
    const world plain = make_world(1, 1.0, V), sharp = make_world(2, 2.0, 3);
    const rule r = { .choose = draw_from, .accept = judge_block, .is_block = true };
    assert_lossless(&plain, &r);
    assert_lossless(&sharp, &r);
    assert_lossless(&plain, &(rule){ .choose = draw_from, .accept = judge_block_of_tokens, .is_block = true });
    assert_lossless(&plain,
                    &(rule){ .choose = choose_most_probable, .accept = judge_block_of_tokens, .is_block = true });
}

/* What passes may be longer than a part that does not. */
static void a_block_that_stops_at_the_first_part_that_does_not_pass_is_caught(void **state)
{
    (void)state;
    const world w = make_world(1, 1.0, V);
    assert_caught(&w,
                  &(rule){ .choose = draw_from, .accept = block_that_stops_at_the_first_failure, .is_block = true });
}

static void a_block_that_withholds_a_token_is_caught(void **state)
{
    (void)state;
    const world w = make_world(1, 1.0, V);
    assert_caught(&w, &(rule){ .choose = draw_from, .withhold = is_unlikely, .accept = judge_block, .is_block = true });
}

/* Expected tokens of a round, over the same proposals. */
static void a_block_keeps_more_tokens_than_one_by_one(void **state)
{
    (void)state;
    enum { ROUNDS = 300000 };
    const world w = make_world(1, 0.4, V);
    const rule block = { .choose = draw_from, .accept = judge_block, .is_block = true };
    const rule single = { .choose = draw_from, .accept = right_rejection };
    int64_t n_block = 0, n_single = 0;
    uint64_t seed = 3;
    for (int32_t i = 0; i < ROUNDS; i++) {
        int32_t out[N_DRAFT + 1];
        n_block += run_round(&w, &block, 0, &seed, out);
        n_single += run_round(&w, &single, 0, &seed, out);
    }
    if (n_block < n_single + ROUNDS / 200)
        fail_msg("%lld tokens as blocks, %lld one by one", (long long)n_block, (long long)n_single);
}

/* ---- trees --------------------------------------------------------------------------------------------------- */

/* Two tokens behind the text and one behind the first, in an order that the kind says:
 *
 *      root -- a -- c          sampled: a from q, b from what a leaves of q, c from q behind a
 *         `--- b               top: the two likeliest of q, and the likeliest behind a
 */
typedef enum { SAMPLED, SAMPLED_TOGETHER, TOP, N_TREES } tree_kind;
enum { N_NODES = 3, TREE_TRIALS = TRIALS / 3 };

typedef struct {
    int32_t tokens[N_NODES], parents[N_NODES];
    float q[N_NODES][V];
} tree;

static void remove_token(float *row, int32_t token)
{
    row[token] = 0.0f;
    normalise(row);
}

static tree grow(const world *w, tree_kind kind, int32_t last, uint64_t *rng)
{
    tree t = { .parents = { -1, -1, 0 } };
    memcpy(t.q[0], w->q[last], sizeof t.q[0]);
    memcpy(t.q[1], w->q[last], sizeof t.q[1]);
    t.tokens[0] = kind == TOP ? choose_most_probable(t.q[0], rng) : draw_from(t.q[0], rng);
    if (kind != SAMPLED_TOGETHER) remove_token(t.q[1], t.tokens[0]);
    t.tokens[1] = kind == TOP ? choose_most_probable(t.q[1], rng) : draw_from(t.q[1], rng);
    memcpy(t.q[2], w->q[t.tokens[0]], sizeof t.q[2]);
    t.tokens[2] = kind == TOP ? choose_most_probable(t.q[2], rng) : draw_from(t.q[2], rng);
    return t;
}

typedef struct {
    distributions rows; /* first: what row_of takes */
    uint64_t *rng;
} tree_rows;

static float fresh_uniform(void *rows, int32_t n_kept, int32_t use)
{
    (void)n_kept;
    (void)use;
    return uniform24(((tree_rows *)rows)->rng);
}

/* How the distributions of a tree are declared. */
typedef enum { DECLARES, DECLARES_NONE, DECLARES_Q_FOR_BOTH } tree_declares;

static int32_t run_tree_round(const world *w, tree_kind kind, tree_declares declares, int32_t last, uint64_t *rng,
                              int32_t *out)
{
    static int32_t ids[V];
    float p[(N_NODES + 1) * V], r[V];
    pf_declared declared[N_NODES];
    int32_t path[N_NODES];
    for (int32_t x = 0; x < V; x++) ids[x] = x;
    tree t = grow(w, kind, last, rng);
    memcpy(p, w->p[last], sizeof w->p[0]);
    for (int32_t i = 0; i < N_NODES; i++) memcpy(p + (i + 1) * V, w->p[t.tokens[i]], sizeof w->p[0]);
    if (declares == DECLARES_Q_FOR_BOTH) memcpy(t.q[1], t.q[0], sizeof t.q[0]);
    for (int32_t i = 0; i < N_NODES; i++) declared[i] = (pf_declared){ ids, t.q[i], V };
    tree_rows rows = { { p, N_NODES + 1, V }, rng };
    const pf_drafted drafted = { t.tokens, t.parents, declares == DECLARES_NONE ? NULL : declared, N_NODES };
    const pf_acceptance a = pf_accept_tree(&drafted, V, row_of, fresh_uniform, &rows, r, path);
    for (int32_t i = 0; i < a.n_accepted; i++) out[i] = t.tokens[path[i]];
    out[a.n_accepted] = a.next;
    return a.n_accepted + 1;
}

static double test_tree(const world *w, tree_kind kind, tree_declares declares, int64_t *n_rounds)
{
    static int64_t joint[N_CELLS];
    static double joint_p[N_CELLS];
    uint64_t seed = 7;
    memset(joint, 0, sizeof joint);
    *n_rounds = 0;
    for (int i = 0; i < TREE_TRIALS; i++) {
        int32_t tokens[N_COMMITTED + N_NODES + 1], n = 0;
        for (; n < N_COMMITTED; (*n_rounds)++)
            n += run_tree_round(w, kind, declares, n ? tokens[n - 1] : 0, &seed, tokens + n);
        joint[(tokens[0] * V + tokens[1]) * V + tokens[2]]++;
    }
    for (int32_t a = 0; a < V; a++)
        for (int32_t b = 0; b < V; b++)
            for (int32_t c = 0; c < V; c++)
                joint_p[(a * V + b) * V + c] = (double)w->p[0][a] * (double)w->p[a][b] * (double)w->p[b][c];
    return pf_chi_square_test(joint, joint_p, N_CELLS, TREE_TRIALS);
}

static void trees_commit_with_the_targets_distribution(void **state)
{
    (void)state;
    const world w = make_world(1, 1.0, V);
    const struct {
        tree_kind kind;
        tree_declares declares;
    } cases[] = {
        { SAMPLED, DECLARES }, { SAMPLED_TOGETHER, DECLARES }, { TOP, DECLARES_NONE }, { SAMPLED, DECLARES_NONE }
    };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        int64_t n_rounds;
        const double tail = test_tree(&w, cases[i].kind, cases[i].declares, &n_rounds);
        if (tail < PF_CHI_FALSE_ALARM) fail_msg("case %zu: tail probability %.2g: the rule is lossy", i, tail);
        assert_true(2 * n_rounds < 5 * (int64_t)TREE_TRIALS); /* else the tokens are drawn one by one */
    }
}

static void trees_that_declare_what_their_tokens_were_not_drawn_from_are_caught(void **state)
{
    (void)state;
    const world w = make_world(1, 1.0, V);
    const struct {
        tree_kind kind;
        tree_declares declares;
    } cases[] = { { SAMPLED, DECLARES_Q_FOR_BOTH }, { TOP, DECLARES } };
    for (size_t i = 0; i < PF_COUNT(cases); i++) {
        int64_t n_rounds;
        const double tail = test_tree(&w, cases[i].kind, cases[i].declares, &n_rounds);
        if (tail >= PF_CHI_FALSE_ALARM) fail_msg("case %zu: tail probability %.2g: this test cannot tell", i, tail);
    }
}

/* ---- rules that are wrong ------------------------------------------------------------------------------------ */

static void round_to_6_bits(float *q)
{
    for (int32_t x = 0; x < V; x++) q[x] = roundf(q[x] * 64.0f) / 64.0f;
}

static void rounding_q_to_6_bits_after_the_draw_is_caught(void **state)
{
    (void)state;
    const world w = make_world(1, 1.0, V);
    assert_caught(&w, &(rule){ .choose = draw_from, .declare = round_to_6_bits, .accept = right_rejection });
}

static void declare_top_5(float *q)
{
    keep_top(q, 5);
}

static void drawing_from_all_of_q_and_declaring_its_head_is_caught(void **state)
{
    (void)state;
    const world w = make_world(1, 1.0, V);
    assert_caught(&w, &(rule){ .choose = draw_from, .declare = declare_top_5, .accept = right_rejection });
}

static void withholding_a_drawn_token_is_caught(void **state)
{
    (void)state;
    const world w = make_world(1, 1.0, V);
    assert_caught(&w, &(rule){ .choose = draw_from, .withhold = is_unlikely, .accept = right_rejection });
}

static bool row_is_flat(int32_t drawn, const float *q)
{
    (void)drawn;
    return q[choose_most_probable(q, NULL)] < 0.3f;
}

static void stopping_by_the_row_and_not_by_the_drawn_token_is_lossless(void **state)
{
    (void)state;
    const world w = make_world(1, 1.0, V);
    assert_lossless(&w, &(rule){ .choose = draw_from, .withhold = row_is_flat, .accept = right_rejection });
}

/* By the very thing that withholding is wrong by: whether there is another token may depend on the one before, which is
 * proposed (draft/length.h). */
static void stopping_behind_a_drawn_token_is_lossless(void **state)
{
    (void)state;
    const world w = make_world(1, 1.0, V);
    assert_lossless(&w, &(rule){ .choose = draw_from, .end_with = is_unlikely, .accept = right_rejection });
}

/* The right loop, with the correction left to `correct`. */
typedef int32_t correct_fn(const float *q, const float *p, float u_accept, float u_next);

static pf_acceptance accept_with(correct_fn *correct, const int32_t *draft, int32_t n_draft, const float *q,
                                 const float *p, const float *uniform)
{
    for (int32_t i = 0; i < n_draft; i++) {
        const float *pi = p + i * V, *qi = q + i * V;
        if (uniform[i] * qi[draft[i]] >= pi[draft[i]])
            return (pf_acceptance){ i, correct(qi, pi, uniform[i], uniform[n_draft]) };
    }
    return (pf_acceptance){ n_draft, draw_next(p + n_draft * V, V, uniform[n_draft]) };
}

/* max(0, p - q) as it is: what its sum lacks of 1 falls to the last token of the row. */
static int32_t correct_without_renormalising(const float *q, const float *p, float u_accept, float u_next)
{
    (void)u_accept;
    double sum = 0.0;
    int32_t x = 0;
    for (; x < V - 1; x++)
        if ((sum += fmax(0.0, (double)p[x] - (double)q[x])) > (double)u_next) break;
    return x;
}

static int32_t correct_from_p(const float *q, const float *p, float u_accept, float u_next)
{
    (void)q;
    (void)u_accept;
    return draw_next(p, V, u_next);
}

static int32_t correct_from_residual(const float *q, const float *p, float u)
{
    float r[V];
    for (int32_t x = 0; x < V; x++) r[x] = fmaxf(0.0f, p[x] - q[x]);
    return draw_next(r, V, u);
}

static int32_t correct_with_the_uniform_of_acceptance(const float *q, const float *p, float u_accept, float u_next)
{
    (void)u_next;
    return correct_from_residual(q, p, u_accept);
}

static int32_t correct_rightly(const float *q, const float *p, float u_accept, float u_next)
{
    (void)u_accept;
    return correct_from_residual(q, p, u_next);
}

static pf_acceptance accept_unnormalised(const int32_t *draft, int32_t n, const float *q, const float *p,
                                         const float *u)
{
    return accept_with(correct_without_renormalising, draft, n, q, p, u);
}

static pf_acceptance accept_correcting_from_p(const int32_t *draft, int32_t n, const float *q, const float *p,
                                              const float *u)
{
    return accept_with(correct_from_p, draft, n, q, p, u);
}

static pf_acceptance accept_reusing_a_uniform(const int32_t *draft, int32_t n, const float *q, const float *p,
                                              const float *u)
{
    return accept_with(correct_with_the_uniform_of_acceptance, draft, n, q, p, u);
}

static pf_acceptance accept_rightly(const int32_t *draft, int32_t n, const float *q, const float *p, const float *u)
{
    return accept_with(correct_rightly, draft, n, q, p, u);
}

static pf_acceptance accept_the_argmax(const int32_t *draft, int32_t n, const float *q, const float *p, const float *u)
{
    for (int32_t i = 0; i < n; i++)
        if (draft[i] != choose_most_probable(p + i * V, NULL))
            return (pf_acceptance){ i, correct_from_residual(q + i * V, p + i * V, u[n]) };
    return (pf_acceptance){ n, draw_next(p + n * V, V, u[n]) };
}

/* The bonus from the row before its own: the first token is right, and only the joint of several shows it. */
static pf_acceptance accept_with_a_stale_bonus(const int32_t *draft, int32_t n, const float *q, const float *p,
                                               const float *u)
{
    pf_acceptance a = accept_rightly(draft, n, q, p, u);
    if (n > 0 && a.n_accepted == n) a.next = draw_next(p + (n - 1) * V, V, u[n]);
    return a;
}

static void the_loop_that_the_wrong_rules_share_is_right_by_itself(void **state)
{
    (void)state;
    const world w = make_world(1, 1.0, V);
    assert_lossless(&w, &(rule){ .choose = draw_from, .accept = accept_rightly });
}

static void wrong_corrections_are_caught(void **state)
{
    (void)state;
    const world w = make_world(1, 1.0, V);
    assert_caught(&w, &(rule){ .choose = draw_from, .accept = accept_unnormalised });
    assert_caught(&w, &(rule){ .choose = draw_from, .accept = accept_correcting_from_p });
    assert_caught(&w, &(rule){ .choose = draw_from, .accept = accept_with_a_stale_bonus });
}

static void one_uniform_for_acceptance_and_correction_is_caught(void **state)
{
    (void)state;
    const world w = make_world(1, 1.0, V);
    assert_caught(&w, &(rule){ .choose = draw_from, .accept = accept_reusing_a_uniform });
}

static void accepting_the_argmax_is_caught(void **state)
{
    (void)state;
    const world w = make_world(1, 1.0, V);
    assert_caught(&w, &(rule){ .choose = draw_from, .accept = accept_the_argmax });
}

/* One-hot acceptance is exact for any choice that is declared as one; a drawn token judged by its q, chosen otherwise,
 * is not: the drafter proposes its most probable token and declares the row. */
static void declaring_a_row_for_a_token_that_was_not_drawn_from_it_is_caught(void **state)
{
    (void)state;
    const world w = make_world(1, 1.0, V);
    assert_caught(&w, &(rule){ .choose = choose_most_probable, .accept = right_rejection });
}

static void the_tail_probability_is_the_tables(void **state)
{
    (void)state;
    /* Abramowitz and Stegun, table 26.8: the points that 0.05 and 0.0001 exceed. */
    const struct {
        double chi, degrees, tail;
    } rows[] = {
        { 3.84146, 1, .05 }, { 14.0671, 7, .05 }, { 29.8775, 7, .0001 }, { 124.342, 100, .05 }, { 161.319, 100, .0001 },
    };
    for (size_t i = 0; i < PF_COUNT(rows); i++) {
        const double tail = pf_chi_square_tail(rows[i].chi, rows[i].degrees);
        if (fabs(tail / rows[i].tail - 1.0) > 1e-4)
            fail_msg("chi %.3f, %g degrees: %.6g, expected %.6g", rows[i].chi, rows[i].degrees, tail, rows[i].tail);
    }
}

/* ---- synthetic acceptance ---------------------------------------------------------------------------------------- */

typedef struct {
    const int32_t *best;
    const float *uniforms; /* by accepted tokens before */
} synthetic_rows;

static int32_t synthetic_best(void *rows, int32_t row, int32_t n_kept)
{
    (void)n_kept;
    return ((const synthetic_rows *)rows)->best[row];
}

static float synthetic_uniform(void *rows, int32_t n_kept, int32_t use)
{
    assert_int_equal(use, 1);
    return ((const synthetic_rows *)rows)->uniforms[n_kept];
}

static void synthetic_acceptance_asks_the_rates_alone(void **state)
{
    (void)state;
    const int32_t draft[] = { 3, 5, 7 }, best[] = { 3, 5, 7, 9 }, other[] = { 10, 11, 12, 13 };
    const float rates[PF_MAX_DRAFT_TOKENS] = { 0.9f, 0.5f, 0.4f };
    const struct {
        float uniforms[3];
        int32_t n_accepted;
    } cases[] = { { { 0.9f, 0, 0 }, 0 }, { { 0.89f, 0.5f, 0 }, 1 }, { { 0, 0.49f, 0.4f }, 2 }, { { 0, 0, 0 }, 3 } };
    for (size_t i = 0; i < PF_COUNT(cases); i++)
        for (int32_t k = 0; k < 2; k++) {
            const pf_drafted drafted = { .tokens = draft, .n = 3 };
            synthetic_rows rows = { k ? best : other, cases[i].uniforms };
            int32_t path[3];
            const pf_acceptance a =
                pf_accept_synthetic(&drafted, rates, synthetic_uniform, synthetic_best, &rows, path);
            assert_int_equal(a.n_accepted, cases[i].n_accepted);
            assert_int_equal(a.next, rows.best[a.n_accepted]);
            for (int32_t j = 0; j < a.n_accepted; j++) assert_int_equal(path[j], j);
        }
}

static void synthetic_acceptance_follows_the_first_children_of_a_tree(void **state)
{
    (void)state;
    const int32_t draft[] = { 3, 4, 5, 6 }, parents[] = { -1, -1, 0, 2 }, best[] = { 10, 11, 12, 13, 14 };
    const float rates[PF_MAX_DRAFT_TOKENS] = { 1.0f, 1.0f, 1.0f }, zeros[3] = { 0 };
    const pf_drafted drafted = { .tokens = draft, .parents = parents, .n = 4 };
    synthetic_rows rows = { best, zeros };
    int32_t path[4];
    const pf_acceptance a = pf_accept_synthetic(&drafted, rates, synthetic_uniform, synthetic_best, &rows, path);
    assert_int_equal(a.n_accepted, 3);
    assert_int_equal(a.next, 14);
    assert_true(path[0] == 0 && path[1] == 2 && path[2] == 3);
}

static void synthetic_acceptance_ends_before_a_row_without_a_number(void **state)
{
    (void)state;
    const int32_t draft[] = { 3, 5 }, best[] = { 10, -1, -1 }, none[] = { -1, -1, -1 };
    const float rates[PF_MAX_DRAFT_TOKENS] = { 1.0f, 0.0f }, zeros[3] = { 0 };
    const pf_drafted drafted = { .tokens = draft, .n = 2 };
    int32_t path[2];
    synthetic_rows rows = { best, zeros };
    pf_acceptance a = pf_accept_synthetic(&drafted, rates, synthetic_uniform, synthetic_best, &rows, path);
    assert_true(a.n_accepted == 0 && a.next == 3);
    const float never[PF_MAX_DRAFT_TOKENS] = { 0 };
    rows.best = none;
    a = pf_accept_synthetic(&drafted, never, synthetic_uniform, synthetic_best, &rows, path);
    assert_int_equal(a.next, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_keeps_the_longest_prefix_that_the_target_agrees_with),
        cmocka_unit_test(synthetic_acceptance_asks_the_rates_alone),
        cmocka_unit_test(synthetic_acceptance_follows_the_first_children_of_a_tree),
        cmocka_unit_test(synthetic_acceptance_ends_before_a_row_without_a_number),
        cmocka_unit_test(exact_keeps_the_targets_path_of_a_tree),
        cmocka_unit_test(an_empty_draft_is_plain_decoding),
        cmocka_unit_test(nothing_is_committed_behind_the_last_row_with_a_number),
        cmocka_unit_test(equal_distributions_accept_everything),
        cmocka_unit_test(disjoint_supports_refuse_and_draw_from_the_target),
        cmocka_unit_test(the_residual_is_renormalised),
        cmocka_unit_test(distributions_that_differ_by_rounding_alone_still_yield_a_token),
        cmocka_unit_test(a_token_that_its_own_distribution_excludes_is_refused),
        cmocka_unit_test(a_token_without_a_distribution_is_kept_with_the_targets_probability_and_never_drawn_again),
        cmocka_unit_test(a_draw_is_where_the_running_sum_passes_whatever_the_vocabulary),
        cmocka_unit_test(if_rounding_leaves_no_token_the_last_with_weight_is_drawn),
        cmocka_unit_test(no_weight_is_too_small_to_be_counted),
        cmocka_unit_test(the_least_uniform_draws_the_first_that_has_weight_however_far),
        cmocka_unit_test(a_certain_token_is_kept_and_an_impossible_one_refused_whatever_the_uniform),
        cmocka_unit_test(the_tail_probability_is_the_tables),
        cmocka_unit_test(rejection_commits_with_the_targets_distribution),
        cmocka_unit_test(rejection_is_exact_for_a_draft_that_was_tempered_and_truncated_before_the_draw),
        cmocka_unit_test(tokens_alone_are_exact_whether_chosen_or_drawn),
        cmocka_unit_test(a_block_is_judged_as_its_definition_says),
        cmocka_unit_test(a_block_commits_with_the_targets_distribution),
        cmocka_unit_test(a_block_that_stops_at_the_first_part_that_does_not_pass_is_caught),
        cmocka_unit_test(a_block_that_withholds_a_token_is_caught),
        cmocka_unit_test(a_block_keeps_more_tokens_than_one_by_one),
        cmocka_unit_test(trees_commit_with_the_targets_distribution),
        cmocka_unit_test(trees_that_declare_what_their_tokens_were_not_drawn_from_are_caught),
        cmocka_unit_test(the_loop_that_the_wrong_rules_share_is_right_by_itself),
        cmocka_unit_test(stopping_by_the_row_and_not_by_the_drawn_token_is_lossless),
        cmocka_unit_test(stopping_behind_a_drawn_token_is_lossless),
        cmocka_unit_test(rounding_q_to_6_bits_after_the_draw_is_caught),
        cmocka_unit_test(drawing_from_all_of_q_and_declaring_its_head_is_caught),
        cmocka_unit_test(withholding_a_drawn_token_is_caught),
        cmocka_unit_test(wrong_corrections_are_caught),
        cmocka_unit_test(one_uniform_for_acceptance_and_correction_is_caught),
        cmocka_unit_test(accepting_the_argmax_is_caught),
        cmocka_unit_test(declaring_a_row_for_a_token_that_was_not_drawn_from_it_is_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
